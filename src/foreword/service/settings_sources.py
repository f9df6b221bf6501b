"""Flags, environment and a TOML file enter; `Settings` leaves: the nearest source wins.

Rules of this file: a name is the same everywhere: `max_body_bytes`, `--max-body-bytes`,
`FOREWORD_MAX_BODY_BYTES`. Flags win over the environment, the environment over the file, the file
over the defaults. Every fault names the source, the setting, and what it may be.
"""

from __future__ import annotations

import argparse
import json
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from foreword.errors import InvalidRequest
from foreword.service.settings import Knob, Settings, allowed, bad_setting

PREFIX = "FOREWORD_"
CONFIG_FLAG = "--config"
CONFIG_VARIABLE = PREFIX + "CONFIG"
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, PREFIX + "USE_MODELSCOPE", PREFIX + "PYTHON"})
"""Names of the environment that are read elsewhere."""

_KINDS = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "texts": "a list of texts",
    "object": "a JSON object",
}


_BOOLS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every setting; the models are positional."""
    parser.add_argument("models", nargs="*", metavar="MODEL", help=_knob("models").help)
    parser.add_argument(CONFIG_FLAG, metavar="FILE", help="a TOML file with these settings")
    parser.add_argument(
        "--print-config", action="store_true", help="print the settings as TOML, and end"
    )
    groups: dict[str, Any] = {}
    for spec in fields(Settings):
        knob: Knob = spec.metadata["knob"]
        if spec.name == "models":
            continue
        group = groups.setdefault(knob.group, None) or parser.add_argument_group(knob.group)
        groups[knob.group] = group
        flag = "--" + spec.name.replace("_", "-")
        text = f"{knob.help} (default: {_show_default(spec)})".replace("%", "%%")
        kind = _kind(spec.name)
        if kind == "bool":
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif kind == "texts":
            group.add_argument(flag, action="append", metavar="TEXT", help=text)
        else:
            group.add_argument(flag, metavar=kind.upper(), help=text)


def settings_from(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Make the settings from parsed flags (`vars(namespace)`) and environment variables.

    Raises: `InvalidRequest` for an unknown name in the file, or a value that is not allowed.
    """
    flags, environment = flags or {}, environment or {}
    values: dict[str, Any] = {}
    path = flags.get("config") or environment.get(CONFIG_VARIABLE)
    if path:
        values.update(_read_file(Path(path)))
    for spec in fields(Settings):
        name = spec.name
        given = environment.get(PREFIX + name.upper())
        if given is not None:
            values[name] = _from_text(name, given, f"{PREFIX}{name.upper()}")
        flag = flags.get(name)
        if flag is not None and flag != []:
            values[name] = _from_flag(name, flag)
    return Settings(**values)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the `FOREWORD_*` names that nothing reads: most likely misspelt."""
    known = {PREFIX + spec.name.upper() for spec in fields(Settings)} | OTHER_VARIABLES
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


def to_toml(settings: Settings) -> str:
    """Write the settings as a TOML file that gives the same ones; secrets are left out."""
    lines: list[str] = []
    group = ""
    for spec in fields(Settings):
        knob: Knob = spec.metadata["knob"]
        value = getattr(settings, spec.name)
        if knob.group != group:
            group = knob.group
            lines += ["", f"# {group}"]
        if knob.is_secret:
            num = len(value) if isinstance(value, tuple) else int(value is not None)
            lines.append(f"# {spec.name}: {num} set, not shown")
        elif value is None:
            lines.append(f"# {spec.name} is not set")
        else:
            lines.append(f"{spec.name} = {_toml(value)}")
    return "\n".join(lines).strip() + "\n"


def settings_table() -> str:
    """Write the settings as the Markdown tables of the operations page, one for each group."""
    lines: list[str] = []
    group = ""
    for spec in fields(Settings):
        knob: Knob = spec.metadata["knob"]
        if knob.group != group:
            group = knob.group
            lines += ["", f"**{group.capitalize()}**", "", "| setting | default | meaning |"]
            lines.append("|---|---|---|")
        what = allowed(knob, _KINDS[_kind(spec.name)])
        lines.append(f"| `{spec.name}` | `{_show_default(spec)}` | {knob.help} ({what}) |")
    return "\n".join(lines).strip() + "\n"


# -- one value -----------------------------------------------------------------------------------


def _knob(name: str) -> Knob:
    knob: Knob = next(spec for spec in fields(Settings) if spec.name == name).metadata["knob"]
    return knob


@cache
def _kind(name: str) -> str:
    hint = get_type_hints(Settings)[name]
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is tuple:
        return "texts"
    if get_origin(hint) is Literal:
        return "str"
    return hint.__name__ if hint in (bool, int, float, str) else "object"


def _from_flag(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return _from_text(name, value, "--" + name.replace("_", "-"))
    return tuple(value) if isinstance(value, list) else value


def _from_text(name: str, text: str, source: str) -> Any:
    kind = _kind(name)
    try:
        if kind == "bool":
            return _BOOLS[text.strip().lower()]
        if kind == "texts":
            parts = [part.strip() for part in text.split(",")]
            # An empty secret is a fault, and not to be passed over.
            return tuple(part for part in parts if part or _knob(name).is_secret)
        if kind == "object":
            return _checked_kind(name, json.loads(text), source)
        return {"int": int, "float": float, "str": str}[kind](text)
    except (ValueError, KeyError):
        raise bad_setting(source, text, _knob(name), kind=_KINDS[kind]) from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest(
            f"The settings file {path.name} can't be read: {error.strerror}.", param="config"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"The settings file {path.name} is not TOML: {error}.", param="config"
        ) from None
    names = {spec.name for spec in fields(Settings)}
    unknown = sorted(content.keys() - names)
    if unknown:
        raise InvalidRequest(
            f"The settings file {path.name} has no setting called {', '.join(unknown)};"
            " `foreword serve --print-config` lists them.",
            param=unknown[0],
        )
    return {name: _checked_kind(name, value, name) for name, value in content.items()}


def _checked_kind(name: str, value: Any, source: str) -> Any:
    kind = _kind(name)
    fits = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "str": isinstance(value, str),
        "texts": isinstance(value, list) and all(isinstance(one, str) for one in value),
        "object": isinstance(value, dict),
    }[kind]
    if not fits:
        raise bad_setting(source, value, _knob(name), kind=_KINDS[kind])
    return tuple(value) if kind == "texts" else value


# -- writing -------------------------------------------------------------------------------------


def _show_default(spec: Field[Any]) -> str:
    if spec.default is MISSING or spec.default in ((), None):
        return "none"
    return _toml(spec.default) if isinstance(spec.default, bool) else str(spec.default)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = (f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items())
        return "{ " + ", ".join(inner) + " }" if value else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value)
