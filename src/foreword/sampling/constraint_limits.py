"""A constraint on the output enters; one that an engine would fail on, or take for ever, raises.

Rules of this file: nothing is compiled, as only the engine has a compiler; what is refused here is
what no compiler should see. Values are walked level by level, never by recursion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from foreword.errors import InvalidRequest
from foreword.sampling.constraints import StructuredOutputs

MAX_SCHEMA_NESTING = 64
MAX_TAG_NESTING = MAX_SCHEMA_NESTING + 16
"""A structural tag wraps its schemas in levels of its own."""
MAX_PATTERN_NESTING = 64
MAX_PATTERN_CHARS = 65_536
"""Of a regex or grammar, and of all choices together."""

_PATTERN_KEYS = ("pattern", "grammar")
# An escaped character, a literal in quotes, a class, a comment: brackets in them nest nothing. What
# is left open goes on to the end, so that each character is looked at once.
_REGEX_TOKENS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+|[()]", re.DOTALL)
_GRAMMAR_TOKENS = re.compile(
    r'\\.|"(?:\\.|[^"\\\n])*+"?|\[(?:\\.|[^\]\\\n])*+|(?:#|//)[^\n]*|[(){}]', re.DOTALL
)


def check_constraint(
    constraint: StructuredOutputs | None, *, param: str = "structured_outputs"
) -> None:
    """Refuse a constraint that no engine should be sent; `param` is the field it came in.

    Raises: `InvalidRequest`.

    Source: vLLM 0.33 `SamplingParams.verify`; the bounds of regexes and grammars are foreword's,
    since one of them can hold up an engine's compiler for all that come after it.
    """
    if constraint is None:
        return
    kind = constraint.kind
    try:
        _CHECKS[kind](getattr(constraint, kind))
    except _Fault as fault:
        field = f"{param}.{kind}" if param == "structured_outputs" else param
        raise InvalidRequest(f"{field} {fault}", param=field, details=fault.details) from None


class _Fault(Exception):
    def __init__(self, text: str, **details: int) -> None:
        super().__init__(text)
        self.details = details


def _check_json(schema: str | dict[str, Any]) -> None:
    value = _parsed(schema, MAX_SCHEMA_NESTING) if isinstance(schema, str) else schema
    _check_value(value, MAX_SCHEMA_NESTING)


def _check_tag(tag: str) -> None:
    value = _parsed(tag, MAX_TAG_NESTING)
    _check_value(value, MAX_TAG_NESTING)
    is_known = isinstance(value, dict) and ("structures" in value or "format" in value)
    if not is_known:
        raise _Fault("is no structural tag: it needs 'format', or 'structures' with 'triggers'.")
    if "structures" in value:
        _check_structures(value)


def _check_structures(tag: dict[str, Any]) -> None:
    structures, triggers = tag["structures"], tag.get("triggers")
    if not isinstance(structures, list) or not isinstance(triggers, list):
        raise _Fault("is no structural tag: 'structures' and 'triggers' must be lists.")
    for place, one in enumerate(structures):
        if not isinstance(one, dict) or not one.keys() >= {"begin", "schema", "end"}:
            raise _Fault(
                f"is no structural tag: structure {place} needs 'begin', 'schema' and 'end'.",
                place=place,
            )


def _check_regex(regex: str) -> None:
    if "\x00" in regex:
        raise _Fault("must not hold a NUL character.")
    _check_pattern(regex, _REGEX_TOKENS)


def _check_grammar(grammar: str) -> None:
    if not grammar.strip():
        raise _Fault("is empty; it needs a rule.")
    _check_pattern(grammar, _GRAMMAR_TOKENS)


def _check_choice(choices: list[str]) -> None:
    if not choices:
        raise _Fault("is empty; name one choice at least.")
    _check_length(sum(map(len, choices)))


def _check_object(is_wanted: bool) -> None:
    if not is_wanted:
        raise _Fault("must be true where it is given. Drop structured_outputs for free text.")


_CHECKS: dict[str, Any] = {
    "json": _check_json,
    "regex": _check_regex,
    "choice": _check_choice,
    "grammar": _check_grammar,
    "json_object": _check_object,
    "structural_tag": _check_tag,
}


def _parsed(text: str, limit: int) -> Any:
    if not text.strip():
        raise _Fault("is empty; it needs a JSON object.")
    try:
        return json.loads(text)
    except RecursionError:
        raise _too_deep(limit) from None
    except ValueError as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise _Fault(f"is not JSON{place}.") from None


def _check_value(value: object, limit: int) -> None:
    """Refuse a value that nests too deeply, or holds a pattern that may not be."""
    level = [value]
    for _ in range(limit):
        for node in level:
            _check_patterns(node)
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise _too_deep(limit)


def _children(node: object) -> Iterator[object]:
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return (child for child in inside if isinstance(child, dict | list))


def _check_patterns(node: object) -> None:
    if not isinstance(node, dict):
        return
    for key in _PATTERN_KEYS:
        if isinstance(text := node.get(key), str):
            _check_pattern(text, _GRAMMAR_TOKENS if key == "grammar" else _REGEX_TOKENS)
    named = node.get("patternProperties")
    for text in named if isinstance(named, dict) else ():
        _check_pattern(text, _REGEX_TOKENS)


def _check_pattern(text: str, tokens: re.Pattern[str]) -> None:
    _check_length(len(text))
    depth = 0
    for token in tokens.findall(text):
        depth += (token in ("(", "{")) - (token in (")", "}"))
        if depth > MAX_PATTERN_NESTING:
            raise _Fault(
                f"has a pattern whose groups nest more than {MAX_PATTERN_NESTING} deep.",
                max_nesting=MAX_PATTERN_NESTING,
            )
        depth = max(depth, 0)


def _check_length(num_chars: int) -> None:
    if num_chars > MAX_PATTERN_CHARS:
        raise _Fault(
            f"has {num_chars} characters of patterns; at most {MAX_PATTERN_CHARS} are taken.",
            num_chars=num_chars,
            max_chars=MAX_PATTERN_CHARS,
        )


def _too_deep(limit: int) -> _Fault:
    return _Fault(
        f"nests objects and arrays more than {limit} deep. Name its parts in $defs.",
        max_nesting=limit,
    )
