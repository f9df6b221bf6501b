"""tokenizer.json and the class an engine takes enter; the pipeline to run and warnings leave.

Rules of this file: tokenizer.json decides the pipeline. Only the parameters a class reads from
tokenizer_config.json (`add_prefix_space`, `legacy`, Bert's cleaning flags) are set as the class
sets them, and only where class and file agree about everything else. Where they do not, the file
is run and a warning says that an engine on transformers could differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foreword.tokenizer.class_pipelines import Pipeline, built_pipeline
from foreword.tokenizer.class_table import GENERIC, MODEL_OF_CLASS, PYTHON_CLASSES
from foreword.tokenizer.declared_class import has_own_code
from foreword.tokenizer.tokenizer_file import Section, TokenizerFile, flatten

# What the tokenizers library assumes where a section leaves a parameter out.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "ByteLevel": {"add_prefix_space": True, "use_regex": True},
    "Metaspace": {"prepend_scheme": "always", "split": True, "replacement": "▁"},
    "Split": {"invert": False},
}
# Parameters that the classes read from tokenizer_config.json.
_CONFIGURED = {
    "ByteLevel": ("add_prefix_space",),
    "Metaspace": ("prepend_scheme",),
    "BertNormalizer": ("lowercase", "strip_accents", "handle_chinese_chars"),
}
# Offsets or old spellings only: they never decide an id.
_IGNORED = ("trim_offsets", "str_rep", "precompiled_charsmap")
_SENTENCEPIECE: Section = {"type": "Metaspace", "split": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineChoice:
    """The sections of tokenizer.json to replace before it is built, and what to warn of."""

    sections: Mapping[str, Section | None]
    warnings: tuple[str, ...]


def choose_pipeline(
    file: TokenizerFile, class_name: str, tokenizer_config: Mapping[str, Any]
) -> PipelineChoice:
    """Decide what is run: tokenizer.json, with the parameters the class takes from its config."""
    warnings = []
    sections: dict[str, Section | None] = {}
    for name, effect in (("truncation", "cut"), ("padding", "pad")):
        if getattr(file, name) is not None:
            sections[name] = None
            warnings.append(
                f"tokenizer.json carries a {name} section, which would silently {effect} every"
                " prompt; it is dropped."
            )
    if has_own_code(tokenizer_config):
        warnings.append(
            "tokenizer_config.json names tokenizer code of its own (auto_map), which is never run"
            " here: tokenizer.json is encoded, and an engine that runs that code could differ."
        )
    elif class_name in PYTHON_CLASSES:
        warnings.append(_could_differ(class_name, "tokenizes in Python without tokenizer.json"))
    elif class_name != GENERIC:
        adopted, problem = _compare(file, class_name, tokenizer_config)
        sections.update(adopted)
        if problem := problem or _undeclared_tokens(file, tokenizer_config):
            warnings.append(_could_differ(class_name, problem))
    if tokenizer_config.get("fix_mistral_regex"):
        warnings.append(
            "tokenizer_config.json sets fix_mistral_regex, which is not applied here:"
            " tokenizer.json is encoded as it is; an engine on transformers could differ."
        )
    return PipelineChoice(sections=sections, warnings=tuple(warnings))


def _could_differ(class_name: str, what: str) -> str:
    return (
        f"the configuration asks for {class_name}, which {what}; tokenizer.json is encoded as it"
        " is, and an engine on transformers could give other tokens."
    )


def _undeclared_tokens(file: TokenizerFile, tokenizer_config: Mapping[str, Any]) -> str:
    declared = tokenizer_config.get("added_tokens_decoder")
    if not isinstance(declared, Mapping):
        return ""
    values = list(declared.values())
    for role, value in tokenizer_config.items():
        if role.endswith("_token"):
            values.append(value)
        elif role in ("additional_special_tokens", "extra_special_tokens") and value:
            values.extend(value.values() if isinstance(value, Mapping) else value)
    texts = {v.get("content") if isinstance(v, Mapping) else v for v in values}
    missing = [row.content for row in file.added_tokens if row.content not in texts]
    if not missing:
        return ""
    return (
        f"takes its added tokens from added_tokens_decoder, which lacks {len(missing)} of"
        f" tokenizer.json's ({missing[0]!r} …)"
    )


def _compare(
    file: TokenizerFile, class_name: str, tokenizer_config: Mapping[str, Any]
) -> tuple[dict[str, Section | None], str]:
    model = MODEL_OF_CLASS.get(class_name, "")
    if model and model != file.model.type:
        return {}, f"builds a {model} model where tokenizer.json holds {file.model.type}"
    if file.model.ignore_merges:
        return {}, "merges every word, where tokenizer.json takes known words whole (ignore_merges)"
    built = built_pipeline(class_name, file, tokenizer_config)
    if built is None:
        return {}, ""
    ours = _steps(file.normalizer), _steps(file.pre_tokenizer)
    theirs = _steps(built.normalizer), _steps(built.pre_tokenizer)
    if _neutral(ours) != _neutral(theirs):
        return {}, "builds another normalizer or pre-tokenizer than tokenizer.json holds"
    if bool(file.model.byte_fallback) != built.byte_fallback:
        return {}, "treats unknown characters in another way (byte_fallback)"
    if ours == theirs:
        return _post_processor(built), ""
    return {**_as_sections(built), **_post_processor(built)}, ""


def _as_sections(built: Pipeline) -> dict[str, Section | None]:
    sections = {"normalizer": built.normalizer, "pre_tokenizer": built.pre_tokenizer}
    if built.decoder is not None:
        sections["decoder"] = built.decoder
    return sections


def _post_processor(built: Pipeline) -> dict[str, Section | None]:
    return {} if built.post_processor is None else {"post_processor": built.post_processor}


_Steps = list[Section]


def _steps(section: Section | None) -> _Steps:
    steps = []
    for step in flatten(section):
        filled = {**_DEFAULTS.get(str(step.get("type")), {}), **step}
        if filled.get("type") == "Metaspace" and "add_prefix_space" in filled:
            old = filled.pop("add_prefix_space")
            if "prepend_scheme" not in step:
                filled["prepend_scheme"] = "always" if old else "never"
        for key in _IGNORED:
            filled.pop(key, None)
        steps.append(filled)
    return steps


def _neutral(pipeline: tuple[_Steps, _Steps]) -> tuple[_Steps, _Steps]:
    normalizers, pre_tokenizers = pipeline
    if not pre_tokenizers and _is_old_sentencepiece(normalizers):
        normalizers, pre_tokenizers = [], _steps(_SENTENCEPIECE)
    return [_without_configured(s) for s in normalizers], [
        _without_configured(s) for s in pre_tokenizers
    ]


def _is_old_sentencepiece(normalizers: _Steps) -> bool:
    """Tell the normalizer that older SentencePiece conversions have in Metaspace's place."""
    replaces = [s for s in normalizers if s.get("type") == "Replace"]
    prepends = [s for s in normalizers if s.get("type") == "Prepend"]
    return (
        len(replaces) == 1
        and len(replaces) + len(prepends) == len(normalizers)
        and replaces[0].get("pattern") == {"String": " "}
        and replaces[0].get("content") == "▁"
        and all(step.get("prepend") == "▁" for step in prepends)
    )


def _without_configured(step: Section) -> Section:
    configured = _CONFIGURED.get(str(step.get("type")), ())
    return {key: value for key, value in step.items() if key not in configured}
