"""A model's assets enter; the reference tokenizer, ready to share, and what is known of it leave.

Rules of this file: tokenizer.json decides what is encoded; the configurations decide special
tokens. Everything that could change the tokenizer happens here, before anyone else sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
from tokenizers import Tokenizer

from foreword.errors import AssetsInvalid
from foreword.tokenizer.char_gate import char_gate_gap
from foreword.tokenizer.class_table import GENERIC
from foreword.tokenizer.declared_class import engine_class, returns_token_types
from foreword.tokenizer.panics import ask_library, without_panic
from foreword.tokenizer.pipeline_check import PipelineChoice, choose_pipeline
from foreword.tokenizer.special_tokens import (
    SpecialTokens,
    add_lower_cased,
    add_missing_tokens,
    read_special_tokens,
)
from foreword.tokenizer.tokenizer_file import (
    TOKENIZER_JSON,
    AddedTokenRow,
    Section,
    TokenizerFile,
    read_tokenizer_file,
    replace_sections,
)
from foreword.tokenizer.trajectory_tokens import add_trajectory_tokens
from foreword.tokenizer.vocabulary_files import convert_vocabulary
from foreword.types import ModelAssets, Side, TokenizerInfo

_PROBE = "a"
_NEVER_RUN = ("truncation", "padding")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltTokenizer:
    """The reference tokenizer with the pipeline it runs and the values computed from it."""

    tokenizer: Tokenizer
    file: TokenizerFile
    info: TokenizerInfo
    warnings: tuple[str, ...]
    cleans_up_spaces: bool
    returns_token_types: bool


def build_tokenizer(
    assets: ModelAssets, *, mode: str, truncation_side: Side, model_vocab_size: int | None
) -> BuiltTokenizer:
    """Build the tokenizer an engine would, from the model's own file and the configurations.

    A model without tokenizer.json is built from the vocabulary file it has instead.

    Raises: `AssetsInvalid` for a missing or broken file.
    Source: transformers 5.20 and vLLM 0.33; where the declared class would build another
    pipeline, tokenizer.json is run and a warning says so.
    """
    assets, name, warnings = _with_tokenizer_json(assets)
    raw, config = assets.tokenizer_json or b"", assets.tokenizer_config
    file = read_tokenizer_file(raw)
    class_name, choice = GENERIC, PipelineChoice(sections={}, warnings=warnings)
    if name == TOKENIZER_JSON:
        class_name = engine_class(assets.config, config)
        choice = choose_pipeline(file, class_name, config)
    tokenizer = _construct(replace_sections(raw, choice.sections), name)
    tokens = read_special_tokens(assets, file.added_tokens, class_name)
    add_missing_tokens(tokenizer, tokens, class_name)
    if mode == "alpamayo2_super":
        add_trajectory_tokens(tokenizer, assets.config)
    if assets.do_lower_case:
        tokens = add_lower_cased(tokenizer, tokens)
    if config.get("split_special_tokens"):
        tokenizer.encode_special_tokens = True
    file = _as_run(file, tokenizer, choice.sections)
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    info = _describe(tokenizer, file, tokens, vocab)
    return BuiltTokenizer(
        tokenizer=tokenizer,
        file=file,
        info=replace(
            info,
            mode=mode,
            max_token_id=max(info.max_token_id, (model_vocab_size or 0) - 1),
            truncation_side=truncation_side,
            do_lower_case=assets.do_lower_case,
        ),
        warnings=choice.warnings + _id_warnings(tokens, vocab) + _dropout_warning(file),
        cleans_up_spaces=bool(config.get("clean_up_tokenization_spaces"))
        and file.model.type != "BPE",
        returns_token_types=returns_token_types(assets.config, config),
    )


def _describe(
    tokenizer: Tokenizer, file: TokenizerFile, tokens: SpecialTokens, vocab: dict[str, int]
) -> TokenizerInfo:
    prefix, suffix = count_special(tokenizer)
    roles = tokens.by_role
    return TokenizerInfo(
        mode="hf",
        vocab_size=len(vocab),
        max_token_id=max(vocab.values()),
        max_chars_per_token=max(map(len, vocab)),
        char_gate_gap=char_gate_gap(tokenizer, file, vocab.keys()),
        truncation_side="left",
        special_tokens=roles,
        all_special_ids=frozenset(vocab[text] for text in tokens.texts),
        all_special_tokens=tokens.texts,
        bos_token_id=vocab.get(roles.get("bos_token", "")),
        eos_token_id=vocab.get(roles.get("eos_token", "")),
        pad_token_id=vocab.get(roles.get("pad_token", "")),
        num_prefix_special=prefix,
        num_suffix_special=suffix,
    )


def _with_tokenizer_json(assets: ModelAssets) -> tuple[ModelAssets, str, tuple[str, ...]]:
    """Return the assets with a tokenizer.json, the file it is or was made from, and warnings."""
    if assets.tokenizer_json is not None:
        return assets, TOKENIZER_JSON, ()
    converted = convert_vocabulary(assets)
    completed = replace(
        assets,
        tokenizer_json=msgspec.json.encode(converted.file),
        tokenizer_config={**converted.declared, **assets.tokenizer_config},
    )
    return completed, converted.name, converted.warnings


def _construct(raw: bytes, name: str) -> Tokenizer:
    try:
        tokenizer: Tokenizer = without_panic(Tokenizer.from_buffer, raw)
    except Exception as error:
        # The library raises bare exceptions, whose words are about the file alone.
        problem = str(error).removeprefix("Cannot instantiate Tokenizer from buffer: ")
        raise AssetsInvalid(
            file=name, problem=f"the tokenizers library refuses it: {problem}."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if tokenizer.get_vocab_size(with_added_tokens=True) == 0:
        raise AssetsInvalid(file=name, problem="the vocabulary is empty.")
    return tokenizer


def _as_run(
    file: TokenizerFile, tokenizer: Tokenizer, sections: Mapping[str, Section | None]
) -> TokenizerFile:
    rows = tuple(
        AddedTokenRow(
            id=token_id,
            content=token.content,
            single_word=token.single_word,
            lstrip=token.lstrip,
            rstrip=token.rstrip,
            normalized=token.normalized,
            special=token.special,
        )
        for token_id, token in sorted(tokenizer.get_added_tokens_decoder().items())
    )
    run = {name: part for name, part in sections.items() if name not in _NEVER_RUN}
    return msgspec.structs.replace(file, added_tokens=rows, **run)


def count_special(tokenizer: Tokenizer) -> tuple[int, int]:
    """Return how many ids the post-processor adds in front of and behind a text.

    Raises: `AssetsInvalid` when it does anything else to a text.
    """
    counts = set()
    for probe in ("", _PROBE):
        bare = ask_library(tokenizer.encode_batch, [probe], add_special_tokens=False)[0].ids
        whole = ask_library(tokenizer.encode_batch, [probe], add_special_tokens=True)[0]
        inside = [place for place, text in enumerate(whole.sequence_ids) if text is not None]
        if not bare and not inside:
            continue
        prefix, stop = inside[0], inside[-1] + 1
        if whole.ids[prefix:stop] != bare:
            raise AssetsInvalid(
                file=TOKENIZER_JSON,
                problem="its post-processor puts tokens inside a text, not around it.",
            )
        counts.add((prefix, len(whole.ids) - stop))
    if len(counts) > 1:
        raise AssetsInvalid(
            file=TOKENIZER_JSON, problem="its post-processor adds tokens depending on the text."
        )
    if counts:
        return counts.pop()
    return tokenizer.num_special_tokens_to_add(False), 0


def _dropout_warning(file: TokenizerFile) -> tuple[str, ...]:
    if not file.model.dropout:
        return ()
    return (
        f"tokenizer.json has a dropout of {file.model.dropout:g}: merges are left out at random, so"
        " no two encodings of a text need agree. Set model.dropout to null to serve the model.",
    )


def _id_warnings(tokens: SpecialTokens, vocab: dict[str, int]) -> tuple[str, ...]:
    moved = [
        f"{token.content!r} ({declared}, here {vocab[token.content]})"
        for declared, token in sorted(tokens.added.items())
        if vocab.get(token.content, declared) != declared
    ]
    if not moved:
        return ()
    return (
        f"tokenizer_config.json declares ids that the vocabulary does not give:"
        f" {', '.join(moved[:5])}{' …' if len(moved) > 5 else ''}; the vocabulary's are used, as"
        " transformers does.",
    )
