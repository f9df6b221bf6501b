"""A model's name in, `ModelAssets` out: every file read once, checked, and kept as it is.

Rules of this file: a broken file is an error, an odd but usable one a sentence in `warnings`.
Nothing is computed from the files here; the tokenizer, the context length and the fingerprint
are made from the assets by others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from foreword.assets import files, gguf
from foreword.assets.fetch import display_name, find_folder
from foreword.assets.sentence import read_sentence_settings
from foreword.assets.templates import find_templates
from foreword.errors import AssetsInvalid
from foreword.types import ModelAssets

# What can hold a vocabulary alone; merges.txt and added_tokens.json only add to one.
_NOT_A_TOKENIZER = ("merges.txt", "added_tokens.json")

MEDIA_FILES = frozenset(
    {"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"}
)


def load_assets(
    model: str,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    with_code: bool = False,
) -> ModelAssets:
    """Read a model: a local folder or GGUF file, or a hub id whose small files are downloaded.

    `with_code` downloads the model's own Python code too, and what that may read.

    Raises: `AssetsInvalid` when the model cannot be found, has no tokenizer, or one of its files
    is broken.
    """
    path = Path(os.path.expanduser(model))
    if path.suffix == gguf.SUFFIX and os.path.isfile(path):
        return gguf.gguf_assets(model, path.parent, path.name)
    folder = find_folder(model, revision=revision, offline=offline, with_code=with_code)
    file_names = files.list_files(folder)
    if not _has_tokenizer(file_names) and (name := gguf.choose_gguf(file_names)):
        return gguf.gguf_assets(model, folder, name)
    tokenizer_config = files.read_json(folder, "tokenizer_config.json")
    if not tokenizer_config.get("auto_map"):  # code of its own may read any file
        _check_has_tokenizer(display_name(model), file_names)
    tokenizer_json = files.read_bytes(folder, "tokenizer.json")
    if tokenizer_json is not None and not tokenizer_json.strip():
        raise AssetsInvalid(file="tokenizer.json", problem="the file is empty.")
    templates = find_templates(folder, file_names, tokenizer_config)
    sentence = read_sentence_settings(folder, file_names)
    config = _read_config(folder, file_names)
    return ModelAssets(
        name=model,
        revision=revision,
        folder=str(folder),
        file_names=file_names,
        tokenizer_json=tokenizer_json,
        tokenizer_config=tokenizer_config,
        special_tokens_map=files.read_json(folder, "special_tokens_map.json"),
        chat_templates=templates.sources,
        config=config,
        generation_config=files.read_json(folder, "generation_config.json"),
        media_files={name: files.read_json(folder, name) for name in MEDIA_FILES & file_names},
        do_lower_case=sentence.do_lower_case,
        max_seq_length=sentence.max_seq_length,
        warnings=(*templates.warnings, *_config_warnings(config, tokenizer_config, file_names)),
    )


def _has_tokenizer(file_names: frozenset[str]) -> bool:
    patterns = [p for p in files.TOKENIZER_FILE_PATTERNS if p not in _NOT_A_TOKENIZER]
    return any(fnmatchcase(file, pattern) for file in file_names for pattern in patterns)


def _check_has_tokenizer(name: str, file_names: frozenset[str]) -> None:
    if _has_tokenizer(file_names):
        return
    raise AssetsInvalid(
        file=name,
        problem=f"none of its {len(file_names)} files is a tokenizer (tokenizer.json, tekken.json,"
        " tokenizer.model, *.tiktoken, vocab.json, vocab.txt, *.gguf).",
        remedy="Give the folder of the complete model, or of its base model.",
    )


def _read_config(folder: Path, file_names: frozenset[str]) -> dict[str, Any]:
    if "config.json" in file_names:
        return files.read_json(folder, "config.json")
    if "params.json" not in file_names:
        return {}
    # Mistral's own format; the engine assumes 128,000 where it names no length.
    params = files.read_json(folder, "params.json")
    known = {"model_type": "transformer", "max_position_embeddings": 128_000}
    return known | {key: value for key, value in params.items() if value is not None}


def _config_warnings(
    config: Mapping[str, Any], tokenizer_config: Mapping[str, Any], file_names: frozenset[str]
) -> list[str]:
    warnings: list[str] = []
    if not config and "config.json" not in file_names:
        warnings.append(
            "There is no config.json: context length and vocabulary size are not known."
        )
    if not tokenizer_config and "tokenizer.json" in file_names:
        warnings.append(
            "There is no tokenizer_config.json: the roles of special tokens"
            " (bos_token, eos_token) are not known."
        )
    return warnings
