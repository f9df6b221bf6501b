"""A tool's JSON schema enters; the TypeScript that Harmony describes it with leaves.

Rules of this file: what TypeScript has no word for becomes `any`; schemas are never checked.

Source: openai-harmony 0.0.x, to the last blank.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

Schema = Mapping[str, Any]

_MAX_FIXED_EXPONENT = 5
"""Smaller numbers are written with an exponent."""
_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}


def describe_function(function: Mapping[str, Any]) -> str:
    """Return one function's lines: its description as comments, its type, an empty line."""
    comments = "".join(f"// {line}\n" for line in _lines(function.get("description") or ""))
    parameters = function.get("parameters")
    given = "" if parameters is None else f"_: {typescript(parameters)}"
    return f"{comments}type {function['name']} = ({given}) => any;\n"


def typescript(schema: object, indent: str = "") -> str:
    """Return the type that `schema` describes.

    Shapes: `indent` stands before the lines inside; the first line has none.
    """
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(schema.get("oneOf"), list):
        return "".join(_variants(schema["oneOf"], indent))
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [_PLAIN["number"] if one == "integer" else one for one in _strings(kind)]
        return " | ".join(named) or "any"
    if kind == "object":
        return _object(schema, indent)
    if kind == "array":
        return f"{typescript(schema['items'], indent)}[]" if "items" in schema else "Array<any>"
    if kind == "string" and (values := _strings(schema.get("enum"))):
        return " | ".join(f'"{value}"' for value in values)
    return _PLAIN.get(kind, "any") if isinstance(kind, str) else "any"


def _variants(variants: Sequence[object], indent: str) -> Iterator[str]:
    for variant in variants:
        yield f"\n{indent} | {_nullable(variant, indent + '   ')}"
        said = [*_description(variant)]
        if (default := _field(variant, "default")) is not _ABSENT:
            is_bare = isinstance(default, str) and not _has_enum(variant)
            said.append(f'default: "{default}"' if is_bare else f"default: {_json(default)}")
        if said:
            yield f" // {' '.join(said)}"


def _object(schema: Schema, indent: str) -> str:
    text = "".join(f"{indent}// {said}\n" for said in _description(schema)) + "{\n"
    properties, required = schema.get("properties"), set(_strings(schema.get("required")))
    if isinstance(properties, Mapping):
        for name, value in properties.items():
            named = name if name in required else f"{name}?"
            text += "".join(_property(named, value, indent))
    return f"{text}{indent}}}"


def _property(name: str, value: object, indent: str) -> Iterator[str]:
    title, one_of = _field(value, "title"), _field(value, "oneOf")
    if isinstance(title, str):
        yield f"{indent}// {title}\n{indent}//\n"
    if one_of is _ABSENT:
        yield from (f"{indent}// {said}\n" for said in _description(value))
    examples = _field(value, "examples")
    if isinstance(examples, list) and examples:
        yield f"{indent}// Examples:\n"
        yield from (f'{indent}// - "{example}"\n' for example in _strings(examples))
    if isinstance(one_of, list):
        yield from _union(name, value, one_of, indent)
        return
    yield f"{indent}{name}: {_nullable(value, indent + '    ')},"
    if one_of is _ABSENT:
        yield from (f" // {said}" for said in _default(value))
    yield "\n"


def _union(name: str, value: object, variants: Sequence[object], indent: str) -> Iterator[str]:
    """Yield a property of several types, each on a line of its own with what is said of it."""
    described = _description(value)
    is_repeated = bool(variants) and described == _description(variants[0])
    if not is_repeated:
        yield from (f"{indent}// {said}\n" for said in described)
    yield from (f"{indent}// {said}\n" for said in _default(value))
    yield f"{indent}{name}:\n"
    for place, variant in enumerate(variants):
        yield f"{indent} | {_nullable(variant, indent + '   ')}"
        is_said_above = place == 0 and bool(described) and not is_repeated
        comments = [] if is_said_above else [s for s in _description(variant) if s not in described]
        comments += _default(variant)
        if comments:
            yield f" // {' '.join(comments)}"
        yield "\n"
    yield f"{indent},\n"


def _nullable(schema: object, indent: str) -> str:
    text = typescript(schema, indent)
    return f"{text} | null" if _field(schema, "nullable") is True and "null" not in text else text


def _description(schema: object) -> list[str]:
    said = _field(schema, "description")
    return [said] if isinstance(said, str) else []


def _default(schema: object) -> list[str]:
    default = _field(schema, "default")
    if default is _ABSENT:
        return []
    if isinstance(default, str):
        return [f"default: {default}" if _has_enum(schema) else f'default: "{default}"']
    return [f"default: {_json(default)}"]


_ABSENT = object()


def _field(schema: object, name: str) -> Any:
    return schema.get(name, _ABSENT) if isinstance(schema, Mapping) else _ABSENT


def _has_enum(schema: object) -> bool:
    values = _field(schema, "enum")
    return isinstance(values, list) and bool(values)


def _strings(values: object) -> list[str]:
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else []


def _json(value: object) -> str:
    """Return compact JSON, with numbers as Rust's serde_json writes them."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_json(key)}:{_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, float) or (type(value) is int and not -(2**63) <= value < 2**64):
        return _float(float(value))
    return json.dumps(value, ensure_ascii=False)


def _float(value: float) -> str:
    mantissa, _, exponent = repr(value).partition("e-")
    if not exponent:
        return mantissa
    if int(exponent) <= _MAX_FIXED_EXPONENT:
        return f"{Decimal(repr(value)):f}"
    return f"{mantissa}e-{int(exponent)}"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
