"""From a model's assets to its tokenizer: which mode, which truncation side, loaded once.

Rules of this file: everything a decision depends on is an argument and part of the cache key.
The key of a loaded tokenizer is its content, so two names for the same files share it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from foreword.errors import AssetsInvalid, InvalidRequest
from foreword.tokenizer.declared_class import has_own_code
from foreword.tokenizer.loaded import LoadedOnce
from foreword.tokenizer.own_code import OwnCodeTokenizer
from foreword.tokenizer.panics import Panicked, without_panic
from foreword.tokenizer.registry import TOKENIZER_REGISTRY, TokenizerClass, TokenizerRegistry
from foreword.types import ModelAssets, RunnerType, Side, Tokenizer

_SIDE_BY_RUNNER: dict[str, Side] = {"generate": "left", "draft": "left", "pooling": "right"}
_MISTRAL_WEIGHTS = "consolidated*.safetensors"
_MISTRAL_VOCABULARIES = ("tekken.json", "tokenizer.model.v*")
# Source: vLLM 0.33, which asks the architecture before it looks for Mistral's own files.
MODE_BY_ARCHITECTURE: Mapping[str, str] = {
    "Alpamayo2Super": "alpamayo2_super",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "DeepseekV4ForConditionalGeneration": "deepseek_v4",
    "DeepseekV41ForCausalLM": "deepseek_v41",
    "InklingForCausalLM": "inkling",
    "InklingForConditionalGeneration": "inkling",
    "KimiK3ForConditionalGeneration": "kimi_k3",
    "MoonshotKimiaForCausalLM": "kimi_audio",
}
_LOADED: LoadedOnce[Tokenizer] = LoadedOnce(max_entries=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTokenizer:
    """What `auto` means for one model: the mode, and the side an unsaid truncation removes."""

    mode: str
    truncation_side: Side


def resolve_tokenizer_args(
    assets: ModelAssets,
    *,
    runner_type: RunnerType = "generate",
    mode: str = "auto",
    truncation_side: Side | None = None,
) -> ResolvedTokenizer:
    """Decide the tokenizer mode and the default truncation side; cached by every argument.

    The side is left for generate and draft, right for pooling. `auto` is what the model's
    architecture asks for, else `mistral` for a repository with Mistral's own weights and
    vocabulary, else `hf`. Upper case in a mode's name does not matter.

    Raises: `InvalidRequest` for a runner or side that is none.
    Source: vLLM 0.33 `ModelConfig` and `resolve_tokenizer_args`; downloads happen in `assets` here.
    """
    return _resolve(
        assets.name,
        assets.revision,
        assets.file_names,
        _architecture(assets.config),
        runner_type,
        mode.lower(),
        truncation_side,
    )


def _architecture(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else names
    return first if isinstance(first, str) else None


@lru_cache(maxsize=128)
def _resolve(
    name: str,
    revision: str | None,
    file_names: frozenset[str],
    architecture: str | None,
    runner_type: str,
    mode: str,
    truncation_side: Side | None,
) -> ResolvedTokenizer:
    if runner_type not in _SIDE_BY_RUNNER:
        raise InvalidRequest(
            f"runner is {runner_type!r}; it must be one of {', '.join(_SIDE_BY_RUNNER)}.",
            param="runner",
        )
    if truncation_side not in (None, "left", "right"):
        raise InvalidRequest(
            f"truncation_side is {truncation_side!r}; it must be 'left', 'right', or not given.",
            param="truncation_side",
        )
    if mode == "auto":
        by_files = "mistral" if _is_mistral(file_names) else "hf"
        mode = MODE_BY_ARCHITECTURE.get(architecture or "", by_files)
    return ResolvedTokenizer(
        mode=mode, truncation_side=truncation_side or _SIDE_BY_RUNNER[runner_type]
    )


def _is_mistral(file_names: Iterable[str]) -> bool:
    names = tuple(file_names)
    has_weights = any(fnmatchcase(name, _MISTRAL_WEIGHTS) for name in names)
    return has_weights and any(
        fnmatchcase(name, pattern) for name in names for pattern in _MISTRAL_VOCABULARIES
    )


def get_tokenizer(
    assets: ModelAssets,
    *,
    runner_type: RunnerType = "generate",
    mode: str = "auto",
    truncation_side: Side | None = None,
    model_vocab_size: int | None = None,
    trust_remote_code: bool = False,
    registry: TokenizerRegistry = TOKENIZER_REGISTRY,
) -> Tokenizer:
    """Load the tokenizer of `assets`, or return the one already loaded from the same content.

    `model_vocab_size` is the model's own row count (config.json's `vocab_size`); ids up to it
    count as valid. `trust_remote_code` lets tokenizer code that the model brings run, where none
    of its files can be read without.

    Raises: `AssetsInvalid` naming the file; `UnsupportedFeature` for a mode that is not built.
    """
    resolved = resolve_tokenizer_args(
        assets, runner_type=runner_type, mode=mode, truncation_side=truncation_side
    )
    # The row, not the registry: what a mode means may be registered anew.
    row = registry.row(resolved.mode)
    key = (_content_digest(assets), resolved, model_vocab_size, row, trust_remote_code)

    def load() -> Tokenizer:
        tokenizer_class = registry.load_tokenizer_class(resolved.mode)
        try:
            return _of_class(tokenizer_class, assets, resolved, model_vocab_size)
        except AssetsInvalid as error:
            reads_any_file = row is not None and row[1] == "HuggingFaceTokenizer"
            has_file = assets.tokenizer_json is not None
            if has_file or not reads_any_file or not has_own_code(assets.tokenizer_config):
                raise
            if not trust_remote_code:
                raise _needs_trust(error) from error
        return _of_class(OwnCodeTokenizer, assets, resolved, model_vocab_size)

    return _LOADED.get(key, load)


def _of_class(
    tokenizer_class: type[TokenizerClass],
    assets: ModelAssets,
    resolved: ResolvedTokenizer,
    model_vocab_size: int | None,
) -> Tokenizer:
    try:
        loaded: Tokenizer = without_panic(
            tokenizer_class.from_assets,
            assets,
            mode=resolved.mode,
            truncation_side=resolved.truncation_side,
            model_vocab_size=model_vocab_size,
        )
    except Panicked as error:
        raise AssetsInvalid(
            file="the tokenizer's files",
            problem=f"a library that reads them failed ({error}).",
            remedy="Check them, or download them again.",
        ) from error
    return loaded


def _needs_trust(error: AssetsInvalid) -> AssetsInvalid:
    return AssetsInvalid(
        file="tokenizer_config.json",
        problem="it names tokenizer code of the model's own (auto_map), and none of the model's"
        f" files can be read without it ({error.details['file']}: {error.details['problem']})",
        remedy="If you trust that code, load with trust_remote_code=True (--trust-remote-code),"
        " which needs `pip install 'foreword[transformers]'`; or convert the tokenizer to a"
        " tokenizer.json.",
    )


def _content_digest(assets: ModelAssets) -> bytes:
    digest = hashlib.sha256(assets.tokenizer_json or b"-")
    parts = (
        assets.tokenizer_config,
        assets.special_tokens_map,
        assets.config,
        assets.do_lower_case,
        sorted(assets.file_names),
    )
    # The standard json: model_max_length is often an integer far beyond 64 bits.
    digest.update(json.dumps(parts, sort_keys=True, default=str).encode())
    if assets.tokenizer_json is None:
        digest.update(f"{assets.name}@{assets.revision}".encode())
        digest.update(repr(_file_states(assets)).encode())
    return digest.digest()


def _file_states(assets: ModelAssets) -> list[tuple[str, int, int]]:
    """Tell the files on disk apart from what they were, without reading them."""
    states = []
    for name in sorted(assets.file_names):
        try:
            state = (Path(assets.folder) / name).stat()
        except OSError:  # whoever reads it will say what is wrong
            continue
        states.append((name, state.st_size, state.st_mtime_ns))
    return states
