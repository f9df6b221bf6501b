"""Reading a model's files: a folder and a name in, checked text or JSON out.

Rules of this file: every fault is `AssetsInvalid` and names the file relative to the folder,
never where the folder lies. A file that is absent is None; a file that is broken is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from foreword.errors import AssetsInvalid

_LFS_POINTER = b"version https://git-lfs"

TEMPLATE_FOLDER = "additional_chat_templates"

TOKENIZER_FILE_PATTERNS = (
    "tokenizer.json",
    "tekken.json",
    "tokenizer.model*",
    "*.tiktoken",
    "*tiktoken.model",
    "vocab.*",
    "merges.txt",
    "spiece.model",
    "sentencepiece*.model",
    "added_tokens.json",
)
"""Everything a tokenizer may be made of."""

DOWNLOAD_PATTERNS = (
    *TOKENIZER_FILE_PATTERNS,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template*.jinja",
    "chat_template.json",
    f"{TEMPLATE_FOLDER}/*.jinja",
    "config.json",
    "params.json",
    "generation_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "image_processor_config.json",
    "sentence_*_config.json",
    "config_sentence_transformers.json",
    "modules.json",
)
"""Everything that decides token ids, and no weights: an allow-list, so nothing slips in."""

CODE_PATTERNS = ("*.py", "*.txt", "*.json", "*.model", "*.bpe", "*.vocab")
"""A model's own code, and what it may read: only for who trusts it."""


def list_files(folder: Path) -> frozenset[str]:
    """Return the names of a folder's files, and of the chat templates in their own folder.

    Raises: `AssetsInvalid` when the folder cannot be read, or what should be a file of the model
    is a folder or a broken link.
    """
    names: set[str] = set()
    try:
        names.update(path.name for path in folder.iterdir() if _is_file(path, path.name))
        templates = folder / TEMPLATE_FOLDER
        if templates.is_dir():
            for path in templates.iterdir():
                name = f"{TEMPLATE_FOLDER}/{path.name}"
                if _is_file(path, name):
                    names.add(name)
    except OSError as error:
        raise _unreadable(folder.name, error) from error
    return frozenset(names)


def _is_file(path: Path, name: str) -> bool:
    """Return whether `path` is a file; one that would be read must not be anything else."""
    if path.is_file():
        return True
    if any(fnmatchcase(name, pattern) for pattern in DOWNLOAD_PATTERNS):
        if path.is_dir():
            problem = "it is a folder, not a file."
        elif path.is_symlink():
            problem = "it is a link to a file that is not there."
        else:
            problem = "it is not a regular file."
        raise AssetsInvalid(
            file=name, problem=problem, remedy="Remove it, or put the file in its place."
        )
    return False


def read_bytes(folder: Path, name: str) -> bytes | None:
    """Return a file's bytes, or None when there is no such file.

    Raises: `AssetsInvalid` when it cannot be read, is empty, or is a Git LFS pointer.
    """
    path = folder / name
    if not path.is_file():
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(name, error) from error
    if data.startswith(_LFS_POINTER):
        raise AssetsInvalid(
            file=name,
            problem="it is a Git LFS pointer, not the file itself.",
            remedy="Run `git lfs pull` in the model's folder.",
        )
    return data


def read_text(folder: Path, name: str) -> str | None:
    """Return a UTF-8 file's text with every line ending as `\\n`, or None when it is absent.

    Raises: `AssetsInvalid` when it is not UTF-8.
    """
    data = read_bytes(folder, name)
    if data is None:
        return None
    return _decode(data, name).replace("\r\n", "\n").replace("\r", "\n")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return a JSON file's object; an absent file is an empty one.

    Raises: `AssetsInvalid` when it is not UTF-8, not JSON (with line and column), or not an
    object.
    """
    data = read_bytes(folder, name)
    return {} if data is None else parse_json_object(data, name)


def parse_json_object(data: bytes, name: str) -> dict[str, Any]:
    """Return the JSON object that `data`, the content of file `name`, holds."""
    text = _decode(data, name)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise AssetsInvalid(
            file=name,
            problem=f"not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            remedy="Correct the file, or download the model again.",
        ) from error
    except RecursionError:
        raise AssetsInvalid(
            file=name, problem="its JSON is nested too deeply to be read."
        ) from None
    if not isinstance(value, Mapping):
        raise AssetsInvalid(
            file=name,
            problem=f"it holds {json_type(value)} where a JSON object is expected.",
            remedy="Correct the file, or download the model again.",
        )
    return dict(value)


def json_type(value: object) -> str:
    """Return what JSON calls a value's type, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "a list"


def _unreadable(name: str, error: OSError) -> AssetsInvalid:
    return AssetsInvalid(
        file=name,
        problem=f"it cannot be read ({error.strerror or type(error).__name__}).",
        remedy="Give this process the right to read it.",
    )


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AssetsInvalid(
            file=name,
            problem=f"not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}.",
            remedy="Save the file as UTF-8.",
        ) from error
