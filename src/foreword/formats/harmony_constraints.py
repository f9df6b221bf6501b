"""A constraint on the answer enters; the one that holds for Harmony's final channel leaves.

Rules of this file: the model may still reason first. Schemas are carried, not compiled; a grammar
must be EBNF, as the engine has no other inside a structural tag.

Source: vLLM 0.33 `HarmonyParser.adjust_request`, whose tags are xgrammar's.
"""

from __future__ import annotations

import json
from typing import Any

from foreword.errors import UnsupportedFeature
from foreword.sampling.constraints import StructuredOutputs

Tag = dict[str, Any]

_ENDS = ["<|end|>", ""]
_JSON_TYPES = (" json", " <|constrain|>json")


def constrain_final_channel(wanted: StructuredOutputs | None) -> StructuredOutputs | None:
    """Return `wanted` as a structural tag around the answer; None stays None.

    Raises: `UnsupportedFeature` for a grammar that is not EBNF.
    """
    if wanted is None:
        return None
    content = _content(wanted)
    if content["type"] == "json_schema":
        answer = {"type": "or", "elements": [_final(content, kind) for kind in _JSON_TYPES]}
    else:
        answer = _final(content, "")
    tag = {
        "type": "structural_tag",
        "format": {"type": "sequence", "elements": [_reasoning(), answer]},
    }
    return StructuredOutputs(
        structural_tag=json.dumps(tag),
        disable_any_whitespace=wanted.disable_any_whitespace,
        disable_additional_properties=wanted.disable_additional_properties,
        whitespace_pattern=wanted.whitespace_pattern,
    )


def _content(wanted: StructuredOutputs) -> Tag:
    if wanted.json_object:
        return _schema({"type": "object"})
    if wanted.json is not None:
        return _schema(json.loads(wanted.json) if isinstance(wanted.json, str) else wanted.json)
    if wanted.regex is not None:
        return {"type": "regex", "pattern": wanted.regex}
    if wanted.choice is not None:
        return {"type": "or", "elements": [_constant(choice) for choice in wanted.choice]}
    if wanted.grammar is not None:
        return {"type": "grammar", "grammar": _ebnf(wanted.grammar)}
    tag = json.loads(wanted.structural_tag or "{}")
    return _triggered(tag) if "structures" in tag else dict(tag["format"])


def _ebnf(grammar: str) -> str:
    if "::=" not in grammar:
        raise UnsupportedFeature(
            feature="A Lark grammar for a model that speaks Harmony",
            remedy="Write the grammar in EBNF (root ::= ...).",
            param="structured_outputs.grammar",
        )
    return grammar


def _triggered(tag: Tag) -> Tag:
    tags = [
        {
            "type": "tag",
            "begin": one["begin"],
            "content": _schema(one["schema"]),
            "end": one["end"],
        }
        for one in tag["structures"]
    ]
    return {"type": "triggered_tags", "triggers": tag["triggers"], "tags": tags}


def _reasoning() -> Tag:
    anything: Tag = {"type": "any_text", "excludes": [], "max_tokens": None, "max_chars": None}
    analysis = {
        "type": "tag",
        "begin": "<|channel|>analysis<|message|>",
        "content": anything,
        "end": "<|end|>",
    }
    said = {"type": "sequence", "elements": [analysis, _constant("<|start|>assistant")]}
    return {"type": "optional", "content": said}


def _final(content: Tag, content_type: str) -> Tag:
    begin = f"<|channel|>final{content_type}<|message|>"
    return {"type": "tag", "begin": begin, "content": content, "end": _ENDS}


def _schema(schema: Any) -> Tag:
    return {
        "type": "json_schema",
        "json_schema": schema,
        "style": "json",
        "any_order": False,
        "max_whitespace_cnt": None,
        "excludes": [],
    }


def _constant(text: str) -> Tag:
    return {"type": "const_string", "value": text}
