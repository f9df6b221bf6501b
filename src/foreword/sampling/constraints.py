"""A request's constraints on the output enter; the one constraint the engine gets leaves.

Rules of this file: exactly one kind of constraint is set. Grammars and schemas are carried, not
compiled; the engine does that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from foreword.errors import InvalidRequest, MalformedRequest

_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
_FORMATS = ("text", "json_object", "json_schema", "structural_tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutputs:
    """One constraint on the output, and how strictly whitespace and extra keys are treated.

    Raises: `InvalidRequest` unless exactly one kind is set.
    """

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None

    def __post_init__(self) -> None:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise InvalidRequest(
                f"Structured outputs need exactly one constraint of {', '.join(_KINDS)};"
                f" the request has {found}.",
                param="structured_outputs",
                details={"given": given},
            )

    @property
    def kind(self) -> str:
        """The name of the one constraint that is set."""
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return every field by name, the unset ones too."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionDetection:
    """When repeated N-grams in the output end the generation; `max_pattern_size` 0 disables."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0

    def __post_init__(self) -> None:
        low, high = self.min_pattern_size, self.max_pattern_size
        if low < 0 or high < 0 or low > high:
            raise InvalidRequest(
                f"Repetition detection looks for patterns of {low} to {high} tokens;"
                " both must be 0 or more, the first not above the second.",
                param="repetition_detection",
                details={"min_pattern_size": low, "max_pattern_size": high},
            )
        if high > 0 and self.min_count < 2:
            raise InvalidRequest(
                f"min_count is {self.min_count}, but a pattern repeats from 2 on."
                " Set it to 2 or more, or max_pattern_size to 0.",
                param="repetition_detection",
                details={"min_count": self.min_count},
            )

    def to_dict(self) -> dict[str, int]:
        """Return every field by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def merge_constraints(
    structured_outputs: StructuredOutputs | None, response_format: Mapping[str, Any] | None
) -> StructuredOutputs | None:
    """Return the constraint that `structured_outputs` and `response_format` ask for together.

    Raises: `MalformedRequest` for a format that is none; `InvalidRequest` for a JSON schema
    format without a schema, and when the two ask for constraints of different kinds.
    """
    override = _constraint_of(response_format) if response_format is not None else {}
    if not override:
        return structured_outputs
    if structured_outputs is None:
        return StructuredOutputs(**override)
    return replace(structured_outputs, **override)


def _constraint_of(response_format: Mapping[str, Any]) -> dict[str, Any]:
    kind = response_format.get("type")
    if kind not in _FORMATS:
        raise MalformedRequest(
            f"response_format.type must be one of {', '.join(_FORMATS)}.",
            param="response_format.type",
        )
    if kind == "json_object":
        return {"json_object": True}
    if kind == "json_schema":
        return {"json": _schema_of(response_format.get("json_schema"))}
    if kind == "structural_tag":
        if not ("format" in response_format or "structures" in response_format):
            raise _no_schema("a structural tag needs 'format', or 'structures' with 'triggers'")
        return {"structural_tag": json.dumps(response_format)}
    return {}


def _schema_of(json_schema: object) -> dict[str, Any]:
    if json_schema is None:
        raise _no_schema("type 'json_schema' needs the field json_schema beside it")
    if not isinstance(json_schema, Mapping):
        raise MalformedRequest(
            "response_format.json_schema must be an object.", param="response_format.json_schema"
        )
    if not isinstance(json_schema.get("name"), str):
        raise MalformedRequest(
            "response_format.json_schema.name must be a string.",
            param="response_format.json_schema.name",
        )
    schema = json_schema.get("schema")
    if schema is None:
        raise _no_schema("json_schema needs a schema")
    if not isinstance(schema, dict):
        raise MalformedRequest(
            "response_format.json_schema.schema must be an object.",
            param="response_format.json_schema.schema",
        )
    return schema


def _no_schema(problem: str) -> InvalidRequest:
    return InvalidRequest(f"response_format is incomplete: {problem}.", param="response_format")
