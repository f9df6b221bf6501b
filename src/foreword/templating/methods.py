"""Methods of strings, lists and numbers that a template calls, measured before they run.

Rules of this file: the result is exactly the method's own. Methods that can give more than they
were given are in the table; every other one costs by the size of its object.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from jinja2.sandbox import (
    SandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
)
from markupsafe import Markup

from foreword.templating.fuel import CHARS_PER_ITEM, CHARS_PER_STEP_BITS, SCALARS, Meter
from foreword.templating.operators import check_width, meter_of

GUARDED_TYPES = frozenset({str, bytes, list, tuple, dict, int, float, bool})
"""Objects whose built-in methods are called directly, past Jinja's general call."""

_SMALL = 4096

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Growth = Callable[[Meter, Any, Args, Kwargs], None]


def call_method(meter: Meter, method: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """Call a built-in `method` of one of `GUARDED_TYPES`."""
    owner = method.__self__
    name = method.__name__
    if name == "join" and args:
        # A generator can be read only once: what was measured is what is joined.
        args = (list(args[0]), *args[1:])
    else:
        for value in args:
            if type(value) is not str and type(value) not in SCALARS:
                meter.measure(value)
    growth = _GROWTH.get(name)
    if growth is not None:
        growth(meter, owner, args, kwargs)
    elif isinstance(owner, str | bytes | list | tuple | dict):
        meter.spend(len(owner) >> CHARS_PER_STEP_BITS)
    return method(*args, **kwargs)


def replaced_size(text: str, old: str, new: str, count: Any = None) -> int:
    """Return the length of `text.replace(old, new, count)`, computed without making it."""
    if len(new) <= len(old):
        return len(text)
    times = text.count(old)
    if isinstance(count, int) and count >= 0:
        times = min(times, count)
    return len(text) + times * (len(new) - len(old))


def _pad(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    width = args[0] if args else 0
    meter.allocate(max(len(owner), width if isinstance(width, int) else 0))


def _replace(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    size = len(owner)
    if len(args) >= 2 and isinstance(args[0], type(owner)) and isinstance(args[1], type(owner)):
        size = replaced_size(owner, *args[:3])
    meter.allocate(size)


def _join(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    if args:
        meter.allocate(meter.measure(args[0]) + len(owner) * len(args[0]))


def _expandtabs(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    width = args[0] if args else kwargs.get("tabsize", 8)
    tab = b"\t" if isinstance(owner, bytes) else "\t"
    times = owner.count(tab)
    meter.allocate(len(owner) + times * (max(width, 0) if isinstance(width, int) else 0))


def _translate(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    table = args[0] if args else None
    longest = 1
    if isinstance(table, dict):
        longest = max([len(v) for v in table.values() if isinstance(v, str)], default=1)
    meter.allocate(len(owner) * max(1, longest))


def _split(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    meter.spend(1 + (len(owner) >> CHARS_PER_STEP_BITS))
    if len(owner) <= _SMALL:
        return
    separator = args[0] if args else kwargs.get("sep")
    is_separator = isinstance(separator, type(owner)) and len(separator) > 0
    pieces = owner.count(separator) + 1 if is_separator else len(owner) // 2
    meter.allocate(pieces * CHARS_PER_ITEM)


def _to_bytes(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    length = args[0] if args else kwargs.get("length", 1)
    meter.allocate(length if isinstance(length, int) else 0)


def _copy(meter: Meter, owner: Any, args: Args, kwargs: Kwargs) -> None:
    meter.allocate(len(owner) * CHARS_PER_ITEM)


_GROWTH: dict[str, Growth] = {
    "center": _pad,
    "ljust": _pad,
    "rjust": _pad,
    "zfill": _pad,
    "replace": _replace,
    "join": _join,
    "expandtabs": _expandtabs,
    "translate": _translate,
    "split": _split,
    "rsplit": _split,
    "splitlines": _split,
    "to_bytes": _to_bytes,
    "copy": _copy,
}


class _Bounded(SandboxedFormatter):
    """Counts each field before it is formatted."""

    meter: Meter
    num_chars: int = 0

    def convert_field(self, value: Any, conversion: Any) -> Any:
        self.meter.measure(value)
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        check_width(self.meter, format_spec)
        text: str = super().format_field(value, format_spec)
        self.num_chars += len(text)
        self.meter.allocate(self.num_chars)
        return text


class _BoundedEscape(_Bounded, SandboxedEscapeFormatter):
    """The same for text that is marked as safe HTML."""


def make_format(environment: SandboxedEnvironment, method: Any) -> Callable[..., str]:
    """Return a measured stand-in for `str.format` or `str.format_map`.

    Why: Jinja's own sandbox wraps these two as well; a wide field is made there at a stroke.
    """
    template = method.__self__
    is_map = method.__name__ == "format_map"

    @pass_context
    def bounded_format(context: Context, *args: Any, **kwargs: Any) -> str:
        formatter: _Bounded
        if isinstance(template, Markup):
            formatter = _BoundedEscape(environment, escape=template.escape)
        else:
            formatter = _Bounded(environment)
        formatter.meter = meter_of(context)
        formatter.meter.spend(1 + (len(template) >> CHARS_PER_STEP_BITS))
        values: Mapping[str, Any] = kwargs
        if is_map:
            if kwargs or len(args) != 1:
                raise TypeError(f"format_map() takes exactly one argument ({len(args)} given)")
            values, args = args[0], ()
        text: str = type(template)(formatter.vformat(template, args, values))
        return text

    return bounded_format


def is_format_method(value: Any) -> bool:
    """Return whether `value` is the `format` or `format_map` of a string."""
    return (
        isinstance(value, types.BuiltinMethodType | types.MethodType)
        and value.__name__ in ("format", "format_map")
        and isinstance(value.__self__, str)
    )
