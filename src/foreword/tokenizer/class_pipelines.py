"""A tokenizer class by name enters; the pipeline transformers 5.20 would build for it leaves.

Rules of this file: pipelines are written as tokenizer.json writes them. A class that is not here
is not compared. Post-processors are here only where a class overrules the file's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foreword.tokenizer.tokenizer_file import Section, TokenizerFile, flatten

_QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN3_5_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_NFC: Section = {"type": "NFC"}
_BERT_CLASSES = frozenset(
    {
        "BertTokenizer",
        "ConvBertTokenizer",
        "DistilBertTokenizer",
        "LayoutLMv2Tokenizer",
        "LxmertTokenizer",
        "MobileBertTokenizer",
        "SqueezeBertTokenizer",
    }
)
_BYTE_LEVEL_CLASSES = frozenset(
    {
        "BartTokenizer",
        "GPT2Tokenizer",
        "LEDTokenizer",
        "MvpTokenizer",
        "RobertaTokenizer",
        "WhisperTokenizer",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Normalizer and pre-tokenizer as built; decoder and post-processor only where they decide."""

    normalizer: Section | None
    pre_tokenizer: Section | None
    decoder: Section | None = None
    post_processor: Section | None = None
    byte_fallback: bool = False


def built_pipeline(
    class_name: str, file: TokenizerFile, config: Mapping[str, Any]
) -> Pipeline | None:
    """Return what `class_name` builds from tokenizer_config.json, or None where that is unknown."""
    if class_name in _BERT_CLASSES:
        return _bert(config)
    if class_name in _BYTE_LEVEL_CLASSES:
        return Pipeline(normalizer=None, pre_tokenizer=_byte_level(config))
    match class_name:
        case "LlamaTokenizer":
            return _llama(config)
        case "GemmaTokenizer":
            return _gemma()
        case "Qwen2Tokenizer":
            return _qwen(config, _QWEN2_PATTERN)
        case "Qwen3_5Tokenizer":
            return _qwen(config, _QWEN3_5_PATTERN)
        case "GPTNeoXTokenizer":
            return _neox(config)
        case "CohereTokenizer":
            return _cohere(config)
        case "T5Tokenizer":
            return _sentencepiece_unigram(file, "always")
        case "XLMRobertaTokenizer":
            has_prefix = config.get("add_prefix_space", True)
            return _sentencepiece_unigram(file, "always" if has_prefix else "never")
        case _:
            return None


def _sequence(*steps: Section) -> Section:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def _byte_level(config: Mapping[str, Any], *, use_regex: bool = True) -> Section:
    return {
        "type": "ByteLevel",
        "add_prefix_space": bool(config.get("add_prefix_space") or False),
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def _split(pattern: str) -> Section:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _bert(config: Mapping[str, Any]) -> Pipeline:
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
        "strip_accents": config.get("strip_accents"),
        "lowercase": config.get("do_lower_case", True),
    }
    return Pipeline(normalizer=normalizer, pre_tokenizer={"type": "BertPreTokenizer"})


def _llama(config: Mapping[str, Any]) -> Pipeline:
    add_prefix_space = config.get("add_prefix_space")
    has_prefix = add_prefix_space is None or bool(add_prefix_space)
    scheme = "never"
    if has_prefix:
        scheme = "always" if config.get("legacy", False) else "first"
    decoders: list[Section] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if has_prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return Pipeline(
        normalizer=None,
        pre_tokenizer={
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": scheme,
            "split": False,
        },
        decoder={"type": "Sequence", "decoders": decoders},
        byte_fallback=True,
    )


def _gemma() -> Pipeline:
    return Pipeline(
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        pre_tokenizer={
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        byte_fallback=True,
    )


def _qwen(config: Mapping[str, Any], pattern: str) -> Pipeline:
    pre_tokenizer = _sequence(_split(pattern), _byte_level(config, use_regex=False))
    return Pipeline(normalizer=_NFC, pre_tokenizer=pre_tokenizer)


def _neox(config: Mapping[str, Any]) -> Pipeline:
    # This class writes its own post-processor over the file's: nothing is added.
    plain: Section = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {},
    }
    return Pipeline(normalizer=_NFC, pre_tokenizer=_byte_level(config), post_processor=plain)


def _cohere(config: Mapping[str, Any]) -> Pipeline:
    digits: Section = {"type": "Digits", "individual_digits": True}
    return Pipeline(normalizer=_NFC, pre_tokenizer=_sequence(digits, _byte_level(config)))


def _sentencepiece_unigram(file: TokenizerFile, scheme: str) -> Pipeline:
    charsmaps = [s for s in flatten(file.normalizer) if s.get("type") == "Precompiled"]
    metaspace: Section = {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": scheme,
        "split": True,
    }
    return Pipeline(
        normalizer=charsmaps[0] if charsmaps else None,
        pre_tokenizer=_sequence({"type": "WhitespaceSplit"}, metaspace),
    )
