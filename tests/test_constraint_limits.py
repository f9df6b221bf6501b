"""What no engine's grammar compiler should see is refused; what one may see is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foreword.errors import InvalidRequest
from foreword.sampling import StructuredOutputs, check_constraint
from foreword.sampling.constraint_limits import (
    MAX_PATTERN_CHARS,
    MAX_PATTERN_NESTING,
    MAX_SCHEMA_NESTING,
    MAX_TAG_NESTING,
)


def nested(num: int) -> dict[str, Any]:
    """Objects within objects, `num` of them."""
    made: dict[str, Any] = {}
    for _ in range(num - 1):
        made = {"items": made}
    return made


def tag(num: int) -> str:
    return json.dumps({"type": "structural_tag", "format": nested(num - 1)})


DEEP = "(" * (MAX_PATTERN_NESTING + 1) + ")" * (MAX_PATTERN_NESTING + 1)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"json": nested(MAX_SCHEMA_NESTING + 1)}, "more than 64 deep"),
    ({"json": json.dumps(nested(MAX_SCHEMA_NESTING + 1))}, "more than 64 deep"),
    ({"json": '{"a":' * 200_000 + "1" + "}" * 200_000}, "more than 64 deep"),
    ({"json": "  "}, "is empty"),
    ({"json": '{"type": '}, "is not JSON at character 9"),
    ({"json": {"type": "string", "pattern": DEEP}}, "groups nest more than 64"),
    ({"json": {"patternProperties": {DEEP: {}}}}, "groups nest more than 64"),
    ({"structural_tag": tag(MAX_TAG_NESTING + 1)}, "more than 80 deep"),
    ({"structural_tag": " "}, "is empty"),
    ({"structural_tag": "{}"}, "is no structural tag"),
    ({"structural_tag": '{"structures": [{"begin": "<a>"}], "triggers": []}'}, "structure 0"),
    ({"structural_tag": '{"structures": []}'}, "must be lists"),
    ({"choice": []}, "is empty"),
    ({"choice": ["x" * (MAX_PATTERN_CHARS // 2)] * 3}, "98304 characters"),
    ({"grammar": " \n"}, "is empty"),
    ({"grammar": f"root ::= {DEEP}"}, "groups nest more than 64"),
    ({"grammar": "x" * (MAX_PATTERN_CHARS + 1)}, "65537 characters"),
    ({"regex": "a\0b"}, "NUL"),
    ({"regex": DEEP}, "groups nest more than 64"),
    ({"regex": "x" * (MAX_PATTERN_CHARS + 1)}, "65537 characters"),
    ({"json_object": False}, "must be true"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED)
def test_refused_with_the_field_and_the_number(fields: dict[str, Any], words: str) -> None:
    (kind,) = fields
    with pytest.raises(InvalidRequest, match=words) as caught:
        check_constraint(StructuredOutputs(**fields))
    assert caught.value.param == f"structured_outputs.{kind}"
    assert caught.value.message.startswith(f"structured_outputs.{kind} ")
    with pytest.raises(InvalidRequest, match=words) as caught:
        check_constraint(StructuredOutputs(**fields), param="response_format")
    assert caught.value.param == "response_format"


@pytest.mark.parametrize(
    "fields",
    [
        {"json": nested(MAX_SCHEMA_NESTING)},
        {"json": json.dumps(nested(MAX_SCHEMA_NESTING))},
        {"structural_tag": tag(MAX_TAG_NESTING)},
        {
            "structural_tag": json.dumps(
                {
                    "structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}],
                    "triggers": ["<a>"],
                }
            )
        },
        {"choice": [""]},
        {"grammar": 'root ::= "yes" | "no"'},
        # Brackets that open nothing: escaped, in a class, in quotes, in a comment.
        {"grammar": 'root ::= "' + "(" * 99 + '" [(((' + "(" * 99 + "]\n# " + "(" * 99},
        {"regex": r"\(" * 99 + "[(]" * 99 + "[](]" * 99 + "(a)" * 99},
        {"regex": ")" * 99 + "(" * 64},
        {"regex": ""},
        {"regex": "x" * MAX_PATTERN_CHARS},
        {"json_object": True},
    ],
)
def test_what_may_pass(fields: dict[str, Any]) -> None:
    check_constraint(StructuredOutputs(**fields))
    check_constraint(None)


@pytest.mark.parametrize("text", ["[", '"', "[^", "\\", '["', '"\\', "(", "//", "#\n"])
def test_a_pattern_is_read_once_whatever_it_leaves_open(text: str) -> None:
    # Read again from each character on, these would take minutes.
    long = text * (MAX_PATTERN_CHARS // 2)
    for constraint in (StructuredOutputs(regex=long), StructuredOutputs(grammar=long)):
        if text == "(":
            with pytest.raises(InvalidRequest, match="nest more than 64"):
                check_constraint(constraint)
        else:
            check_constraint(constraint)
