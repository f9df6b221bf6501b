"""Jinja's filters and tests, measured: the same results, with what they make counted first.

Rules of this file: filters that look at one element or none stay Jinja's own. A wrapped filter
calls Jinja's own function; only `tojson` is another one, as it is in transformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, cast

from jinja2 import pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.tests import TESTS

from foreword.errors import TemplateRejected
from foreword.templating.fuel import CHARS_PER_ITEM, SCALARS, Meter
from foreword.templating.methods import replaced_size
from foreword.templating.operators import FREE_CHARS, check_percent, meter_of

Filter = Callable[..., Any]

_JINJA_FILTERS = cast(Mapping[str, Filter], FILTERS)
_JINJA_TESTS = cast(Mapping[str, Filter], TESTS)
Guard = Callable[..., Any]

MAX_ROUND_DIGITS = 4096
MAX_JSON_INDENT = 64
_STEPS_A_LINE = 20


@pass_context
def tojson(
    context: Context,
    x: Any,
    ensure_ascii: Any = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: Any = False,
) -> str:
    """Return `x` as JSON, without the HTML escapes of Jinja's own filter.

    Source: transformers 5.20, whose templates' `tojson` this is.
    """
    meter = meter_of(context)
    size = 0 if meter.is_given(x) else meter.measure(x)
    if separators is not None:
        size *= max(1, max(len(part) for part in separators))
    options: dict[str, Any] = {
        "ensure_ascii": ensure_ascii,
        "indent": indent,
        "separators": separators,
        "sort_keys": sort_keys,
    }
    if indent is None:
        meter.allocate(size)
        text = json.dumps(x, **options)
        meter.allocate(len(text))
        return text
    if (indent if isinstance(indent, int) else len(indent)) > MAX_JSON_INDENT:
        raise TemplateRejected(
            reason=f"it indents JSON by more than {MAX_JSON_INDENT} characters.",
            details={"limit": "max_json_indent", "max_json_indent": MAX_JSON_INDENT},
        )
    # Indented, a deep value grows with its depth, so the text is counted as it is made.
    chunks = iter(json.JSONEncoder(**options).iterencode(x))
    texts = []
    while text := "".join(islice(chunks, 512)):
        size += len(text)
        meter.allocate(size)
        texts.append(text)
    return "".join(texts)


def _items(meter: Meter, value: Any, /, *args: Any, **kwargs: Any) -> Any:
    if isinstance(value, str):
        meter.allocate(len(value) * CHARS_PER_ITEM)
    else:
        meter.measure(value)
    return value


def _lines(meter: Meter, value: Any, /, width: Any = 4, *args: Any, **kwargs: Any) -> Any:
    size = meter.measure(value)
    step = width if isinstance(width, int) else meter.measure(width)
    num_lines = value.count("\n") + 1 if isinstance(value, str) else size
    meter.allocate(size + num_lines * max(step, 0))
    return value


def _center(meter: Meter, value: Any, /, width: Any = 80, *args: Any, **kwargs: Any) -> Any:
    size = meter.measure(value)
    meter.allocate(max(size, width if isinstance(width, int) else 0))
    return value


def _wrap(meter: Meter, value: Any, /, width: Any = 79, *args: Any, **kwargs: Any) -> Any:
    if isinstance(value, str) and isinstance(width, int):
        # A line costs microseconds, and what is left of a long word is copied for each.
        word, step = max(map(len, value.split()), default=0), max(width, 1)
        meter.spend(len(value) // step * _STEPS_A_LINE + word * word // step // 1024)
    longest = max([len(arg) for arg in (*args, *kwargs.values()) if isinstance(arg, str)] or [1])
    meter.allocate(meter.measure(value) * (1 + longest))
    return value


def _replace(meter: Meter, value: Any, /, old: Any, new: Any, count: Any = None) -> Any:
    size = meter.measure(value) + meter.measure(old) + meter.measure(new)
    if all(type(part) is str for part in (value, old, new)):
        size = replaced_size(value, old, new, count)
    else:
        size *= size
    meter.allocate(size)
    return value


def _format(meter: Meter, value: Any, /, *args: Any, **kwargs: Any) -> Any:
    meter.measure(value)
    if isinstance(value, str):
        check_percent(meter, value, kwargs or args)
    return value


def _join(meter: Meter, value: Any, /, d: Any = "", *args: Any, **kwargs: Any) -> Any:
    items = list(value)
    meter.allocate(meter.measure(items) + meter.measure(d) * len(items))
    return items


def _batch(meter: Meter, value: Any, /, linecount: Any = None, *args: Any, **kwargs: Any) -> Any:
    linecount = kwargs.get("slices", linecount)
    if isinstance(linecount, int):
        meter.allocate(max(linecount, 0) * CHARS_PER_ITEM)
    return _items(meter, value)


def _sum(meter: Meter, value: Any, /, *args: Any, **kwargs: Any) -> Any:
    items = list(value)
    size = meter.measure(items)
    if any(type(item) not in SCALARS for item in items):
        meter.allocate(size * len(items))
    return items


def _round(meter: Meter, value: Any, /, precision: Any = 0, *args: Any, **kwargs: Any) -> Any:
    if isinstance(precision, int) and abs(precision) > MAX_ROUND_DIGITS:
        raise TemplateRejected(
            reason=f"it rounds to more than {MAX_ROUND_DIGITS} digits.",
            details={"limit": "max_round_digits", "max_round_digits": MAX_ROUND_DIGITS},
        )
    return value


_TEXT = (
    "capitalize e escape filesizeformat forceescape lower pprint safe string striptags title"
    " trim truncate upper urlencode urlize wordcount xmlattr"
)
_GUARDS: tuple[tuple[Guard, str], ...] = (
    (_items, "dictsort groupby list max min random reverse sort unique"),
    (_lines, "indent"),
    (_center, "center"),
    (_wrap, "wordwrap"),
    (_replace, "replace"),
    (_format, "format"),
    (_join, "join"),
    (_batch, "batch slice"),
    (_sum, "sum"),
    (_round, "round"),
)

# Jinja keeps several names for each; all of them compare.
_COMPARISONS = tuple(
    name
    for name, test in _JINJA_TESTS.items()
    if getattr(test, "__name__", "") in ("eq", "ne", "gt", "ge", "lt", "le", "test_in")
)


def make_filters() -> dict[str, Filter]:
    """Return Jinja's filters with the ones that can cost wrapped, and `tojson`."""
    filters: dict[str, Filter] = dict(_JINJA_FILTERS)
    for name in _TEXT.split():
        filters[name] = _counted(_JINJA_FILTERS[name])
    for guard, names in _GUARDS:
        for name in names.split():
            filters[name] = _guarded(_JINJA_FILTERS[name], guard)
    filters["tojson"] = tojson
    return filters


def make_tests() -> dict[str, Filter]:
    """Return Jinja's tests; the comparing ones count containers before comparing them."""
    tests: dict[str, Filter] = dict(_JINJA_TESTS)
    for name in _COMPARISONS:
        tests[name] = _guarded_comparison(_JINJA_TESTS[name])
    return tests


def _guarded(function: Filter, guard: Guard) -> Filter:
    """Return a filter that `guard` looks at, and may replace the value of, first."""
    select = _select_argument(function)

    @pass_context
    def guarded_filter(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = meter_of(context)
        value = guard(meter, value, *args, **kwargs)
        result = function(*select(context), value, *args, **kwargs)
        if isinstance(result, str):
            meter.allocate(len(result))
        return result

    return guarded_filter


def _counted(function: Filter) -> Filter:
    """Return a filter that makes text of about its value's size, counted."""
    select = _select_argument(function)

    @pass_context
    def counted_filter(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(value) is not str:
            meter_of(context).measure(value)
        result = function(*select(context), value, *args, **kwargs)
        if isinstance(result, str) and len(result) > FREE_CHARS:
            meter_of(context).allocate(len(result))
        return result

    @pass_context
    def counted_plain_filter(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(value) is not str:
            meter_of(context).measure(value)
        result = function(value, *args, **kwargs)
        if isinstance(result, str) and len(result) > FREE_CHARS:
            meter_of(context).allocate(len(result))
        return result

    return counted_plain_filter if select is _nothing else counted_filter


def _guarded_comparison(function: Filter) -> Filter:
    @pass_context
    def measured_test(context: Context, value: Any, /, *args: Any) -> Any:
        if type(value) is not str and type(value) not in SCALARS:
            for side in (value, *args):
                meter_of(context).measure(side)
        return function(value, *args)

    return measured_test


def _select_argument(function: Filter) -> Callable[[Context], tuple[Any, ...]]:
    """Return what Jinja would pass to `function` in front of the value."""
    name = getattr(getattr(function, "jinja_pass_arg", None), "name", "nothing")
    return _ARGUMENTS[name]


def _nothing(context: Context) -> tuple[Any, ...]:
    return ()


_ARGUMENTS: dict[str, Callable[[Context], tuple[Any, ...]]] = {
    "nothing": _nothing,
    "context": lambda context: (context,),
    "eval_context": lambda context: (context.eval_ctx,),
    "environment": lambda context: (context.environment,),
}
