"""The ways to tokenize that are compared: a model folder enters, functions from text to ids leave.

Rules of this file: every engine hands back all ids of the whole text, in the compactest form it
has; what an engine can't do here is raised with its own reason and shown, never skipped in silence.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import tempfile
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CACHE_BYTES = 128 * 2**20
"""The memory every engine with a memory may use: foreword's own default."""

Encode = Callable[[str], Sequence[int]]

REFERENCE = "encode"
BATCH_FAST = "encode_batch_fast"
FOREWORD = "foreword"
FOREWORD_FAST = "foreword+fastokens"
FASTOKENS = "fastokens"
FASTOKENS_FLAT = "fastokens, flat"
TOKTIER = "toktier"


class Engine(NamedTuple):
    """One way to tokenize. `append` is set for an interface that is told what was added."""

    name: str
    encode: Encode
    append: Callable[[str, str], Sequence[int]] | None = None
    """Takes a chat's name and the text added to it, returns all ids of the chat."""


class Unavailable(Exception):
    """An engine can't run here, and why."""


def load_engine(name: str, folder: Path, *, remembers: bool) -> Engine:
    """Return an engine, loaded and called once with a short text.

    `remembers`: with the engine's own cache, where that is an option.
    """
    engine = _LOADERS[name](folder, remembers)
    engine.encode("a")
    return engine


def _reference(folder: Path, _: bool) -> Engine:
    tokenizer = _plain_tokenizer(folder)
    return Engine(REFERENCE, lambda text: tokenizer.encode(text, add_special_tokens=False).ids)


def _batch_fast(folder: Path, _: bool) -> Engine:
    tokenizer = _plain_tokenizer(folder)
    return Engine(
        BATCH_FAST,
        lambda text: tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids,
    )


def _plain_tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def foreword_tokenizer(folder: Path, *, fast: bool = False, **options: Any) -> Any:
    """Return the tokenizer that `foreword.load` makes, with its default settings."""
    import foreword

    tokenizer = foreword.load(str(folder), offline=True, accelerated=fast, **options).tokenizer
    if fast and tokenizer.fast is None:
        raise Unavailable(tokenizer.engine_report)
    return tokenizer


def _foreword(folder: Path, _: bool) -> Engine:
    tokenizer = foreword_tokenizer(folder)
    return Engine(FOREWORD, lambda text: tokenizer.encode(text, add_special_tokens=False).token_ids)


def _foreword_fast(folder: Path, _: bool) -> Engine:
    tokenizer = foreword_tokenizer(folder, fast=True)
    return Engine(
        FOREWORD_FAST, lambda text: tokenizer.encode(text, add_special_tokens=False).token_ids
    )


def _fastokens_tokenizer(folder: Path, remembers: bool) -> Any:
    fastokens = _import("fastokens")
    try:
        tokenizer = fastokens.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:
        raise Unavailable(f"fastokens refuses the file: {error}") from error
    if remembers:
        tokenizer.enable_segment_cache(CACHE_BYTES)
    return tokenizer


def _fastokens(folder: Path, remembers: bool) -> Engine:
    tokenizer = _fastokens_tokenizer(folder, remembers)
    return Engine(FASTOKENS, lambda text: tokenizer.encode(text).ids)


def _fastokens_flat(folder: Path, remembers: bool) -> Engine:
    tokenizer = _fastokens_tokenizer(folder, remembers)

    def encode(text: str) -> Sequence[int]:
        ids = array("I")
        ids.frombytes(tokenizer.encode_batch_flat([text])[0])
        return ids

    return Engine(FASTOKENS_FLAT, encode)


# The tokenizer files toktier has certified run its fast path, whatever the folder is called; all
# others run its reference path under a family name of their own.
_TOKTIER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def _toktier(folder: Path, remembers: bool) -> Engine:
    home = tempfile.mkdtemp(prefix="foreword-bench-toktier-")
    os.environ["TOKTIER_HOME"], os.environ["HF_HUB_OFFLINE"] = home, "1"
    toktier = _import("toktier")
    try:
        tokenizer = _toktier_tokenizer(toktier, folder)
    except Exception as error:
        raise Unavailable(f"toktier: {type(error).__name__}: {error}") from error
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if not remembers:
        return Engine(TOKTIER, lambda text: tokenizer.encode(text, lookup="off").ids)
    sessions: dict[str, Any] = {}

    def append(chat: str, added: str) -> Sequence[int]:
        if chat not in sessions:
            # Held open for as long as the process lives.
            sessions[chat] = context = tokenizer.session(session_id=chat)
            sessions[chat] = (context, context.__enter__())
        ids: Sequence[int] = sessions[chat][1].append(added).all_ids
        return ids

    return Engine(TOKTIER, lambda text: tokenizer.encode(text).ids, append)


def _toktier_tokenizer(toktier: Any, folder: Path) -> Any:
    """Load a local folder through toktier's public manifest, with its cache filled beforehand."""
    manifests = importlib.import_module("toktier.artifacts.manifest")
    stores = importlib.import_module("toktier.artifacts.store")
    paths = [folder / name for name in _TOKTIER_FILES if (folder / name).is_file()]
    raw = {path.name: path.read_bytes() for path in paths}
    family = _certified_family(raw["tokenizer.json"]) or folder.name.replace(".", "_")
    entry = {
        "repo_id": f"local/{family}",
        "revision": "0" * 40,
        "files": {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            for name, data in raw.items()
        },
    }
    manifest = manifests.ArtifactManifest.from_mapping({family: entry}, source="local")
    cache = stores.ArtifactStore(manifest).directory(family)
    cache.mkdir(parents=True, mode=0o700)
    for name, data in raw.items():
        (cache / name).write_bytes(data)
    return toktier.load(family, manifest=manifest, device="cpu", cache_budget_bytes=CACHE_BYTES)


def _certified_family(tokenizer_json: bytes) -> str | None:
    manifests = importlib.import_module("toktier.artifacts.manifest")
    tables = importlib.import_module("toktier.facade.api")
    manifest = manifests.ArtifactManifest.load(tables.ARTIFACT_MANIFEST)
    digest = hashlib.sha256(tokenizer_json).hexdigest()
    for family in manifest.families():
        if manifest.get(family).file("tokenizer.json").sha256 == digest:
            return str(family)
    return None


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(
            f"{name} is not installed; `uv sync --inexact --group bench` adds it"
        ) from error


_LOADERS: dict[str, Callable[[Path, bool], Engine]] = {
    REFERENCE: _reference,
    BATCH_FAST: _batch_fast,
    FOREWORD: _foreword,
    FOREWORD_FAST: _foreword_fast,
    FASTOKENS: _fastokens,
    FASTOKENS_FLAT: _fastokens_flat,
    TOKTIER: _toktier,
}
ENGINES = tuple(_LOADERS)
