"""One name for everything that decides the ids: a model's assets and settings in, sha256 hex out.

Rules of this file: two front ends that agree here answer alike, so anything that may change an
id counts, and what never does (key order, names, paths, weights) does not. A change of the
serialisation raises `_FORMAT`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

from foreword.assets.context_length import model_type, model_vocab_size, text_config
from foreword.assets.files import CODE_PATTERNS, TOKENIZER_FILE_PATTERNS
from foreword.errors import AssetsInvalid
from foreword.types import ModelAssets
from foreword.version import __version__

_FORMAT = 1
# Where the tokenizer came from, or what is told apart elsewhere. Every other key may matter.
_IGNORED_TOKENIZER_KEYS = frozenset(
    {
        "chat_template",
        "name_or_path",
        "special_tokens_map_file",
        "tokenizer_file",
        "processor_class",
        "transformers_version",
    }
)
_CONFIG_KEYS = ("architectures", "bos_token_id", "eos_token_id", "pad_token_id")


def fingerprint(
    assets: ModelAssets,
    *,
    mode: str,
    max_model_len: int,
    chat_template: str | None,
    media: Mapping[str, Any] | None = None,
    runs_own_code: bool = False,
) -> str:
    """Return the sha256, in hex, of what turns a request into token ids.

    `chat_template` is the operator's override (a name or a source), None without one; `media` all
    that decides how many tokens an item costs, None where the model takes none; `runs_own_code`
    says that the model's own Python code tokenizes, which then counts. Reads the tokenizer files
    that `assets` does not hold in memory (tekken.json, tokenizer.model ...).

    Raises: `AssetsInvalid` when such a file has gone since the assets were loaded.
    """
    content = {
        "format": _FORMAT,
        "mode": mode,
        "max_model_len": max_model_len,
        "tokenizer_files": _tokenizer_digests(assets),
        "tokenizer_config": {
            key: value
            for key, value in assets.tokenizer_config.items()
            if key not in _IGNORED_TOKENIZER_KEYS
        },
        "special_tokens_map": assets.special_tokens_map,
        "chat_template": chat_template,
        # An override that is not a name leaves the model's own templates without a say.
        "chat_templates": assets.chat_templates
        if chat_template is None or chat_template in assets.chat_templates
        else None,
        "generation_config": assets.generation_config,
        "model": _model_facts(assets),
        "do_lower_case": assets.do_lower_case,
        "versions": _versions(mode),
    }
    if media is not None:
        content["media"] = media
    if runs_own_code:
        code = _digests(assets, CODE_PATTERNS)
        content["code"] = code | {"transformers": version("transformers")}
    text = json.dumps(
        content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=_plain
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _tokenizer_digests(assets: ModelAssets) -> dict[str, str]:
    digests: dict[str, str] = {}
    if assets.tokenizer_json is not None:
        digests["tokenizer.json"] = hashlib.sha256(assets.tokenizer_json).hexdigest()
    return _digests(assets, TOKENIZER_FILE_PATTERNS, but=digests.keys()) | digests


def _digests(
    assets: ModelAssets, patterns: Iterable[str], but: Iterable[str] = ()
) -> dict[str, str]:
    return {
        name: _file_digest(Path(assets.folder), name)
        for name in assets.file_names.difference(but)
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _file_digest(folder: Path, name: str) -> str:
    try:
        with (folder / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise AssetsInvalid(
            file=name,
            problem=f"it can no longer be read ({error.strerror or type(error).__name__}).",
            remedy="Load the model again.",
        ) from error


def _model_facts(assets: ModelAssets) -> dict[str, Any]:
    text = text_config(assets.config)
    facts = {key: assets.config.get(key, text.get(key)) for key in _CONFIG_KEYS}
    return facts | {"model_type": model_type(assets), "vocab_size": model_vocab_size(assets)}


def _versions(mode: str) -> dict[str, str]:
    libraries = ("mistral-common",) if mode == "mistral" else ("jinja2", "tokenizers")
    return {"foreword": __version__} | {name: version(name) for name in libraries}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a fingerprint")
