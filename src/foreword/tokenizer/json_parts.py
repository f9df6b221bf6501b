"""Parts of a tokenizer.json enter as plain values and leave as its objects.

Rules of this file: one function a part, with the parameters that converted files vary.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Part: TypeAlias = dict[str, Any]
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def added_token(token_id: int, content: str, *, is_special: bool) -> Part:
    """Return an added token that is matched as it is written."""
    return {"id": token_id, "content": content, **_FLAGS, "special": is_special}


def split(pattern: str) -> Part:
    """Return the pre-tokenizer whose pieces are a pattern's matches and what lies between."""
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def byte_level() -> Part:
    """Return the step that writes bytes as characters, and the decoder that undoes it."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }


def replace(pattern: dict[str, str], content: str) -> Part:
    """Return the step that replaces a `String` or a `Regex`."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def around(before: tuple[int, str] | None, after: tuple[int, str] | None) -> Part | None:
    """Return the post-processor that puts a token (its id and text) before and after a text."""
    single: list[Part] = [{"Sequence": {"id": "A", "type_id": 0}}]
    special = {}
    for token, place in ((before, 0), (after, 2)):
        if token is not None:
            token_id, text = token
            special[text] = {"id": text, "ids": [token_id], "tokens": [text]}
            single.insert(place, {"SpecialToken": {"id": text, "type_id": 0}})
    if not special:
        return None
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": special,
    }
