"""The operators that can allocate at a stroke, each measured before it runs.

Rules of this file: each takes the template's context first, as a Jinja filter does, and gives
exactly what Python's operator gives. A refusal is raised before the memory is taken.
"""

from __future__ import annotations

import operator
import re
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context, markup_join

from foreword.errors import TemplateRejected
from foreword.templating.fuel import (
    CHARS_PER_ITEM,
    CHARS_PER_STEP_BITS,
    MAX_INT_BITS,
    SCALARS,
    Meter,
)

_PERCENT_SPEC = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\d+|\*)?(?:\.(\d+|\*))?")
_SEQUENCES = (str, bytes, list, tuple)

FREE_CHARS = 1 << CHARS_PER_STEP_BITS
"""A value up to this size costs nothing: the turn of the loop that makes it was paid for."""


def meter_of(context: Context) -> Meter:
    """Return the meter that travels in `context`."""
    meter: Meter = context.meter  # type: ignore[attr-defined]
    return meter


@pass_context
def tick(context: Context, num_steps: int) -> bool:
    """Count a turn of a loop, or a call of a macro; always true."""
    meter = context.meter  # type: ignore[attr-defined]
    meter.work += num_steps
    if meter.work >= meter.next_check:
        meter.check()
    return True


@pass_context
def measured(context: Context, value: Any) -> Any:
    """Return `value` unchanged, after counting what writing it out would take."""
    kind = type(value)
    if kind is str:
        if len(value) > FREE_CHARS:
            meter_of(context).allocate(len(value))
    elif kind not in SCALARS:
        meter_of(context).measure(value)
    return value


@pass_context
def sliced(context: Context, value: Any) -> Any:
    """Return `value`, a slice just made, after counting it."""
    size = _num_chars(value)
    if size > FREE_CHARS:
        meter_of(context).allocate(size)
    return value


@pass_context
def add(context: Context, total: Any, *rest: Any) -> Any:
    """Return `total + rest[0] + rest[1] …`.

    Why: counted after it is made, which is early enough: no sum is larger than its terms.
    """
    for value in rest:
        total = total + value
    kind = type(total)
    if kind is not int:
        size = len(total) if kind is str else _num_chars(total)
        if size > FREE_CHARS:
            meter_of(context).allocate(size)
    return total


@pass_context
def add_measured(context: Context, total: Any, *rest: Any) -> Any:
    """Return the sum as `add` does, measured for printing."""
    for value in rest:
        total = total + value
    return measured(context, total)


@pass_context
def concatenate(context: Context, *values: Any) -> str:
    """Return `values[0] ~ values[1] …`."""
    if context.eval_ctx.autoescape:
        meter_of(context).measure(values)
        return markup_join(values)
    try:
        text = "".join(values)
    except TypeError:  # not all of them are text
        meter_of(context).measure(values)
        text = "".join([str(value) for value in values])
    if len(text) > FREE_CHARS:
        meter_of(context).allocate(len(text))
    return text


@pass_context
def multiply(context: Context, left: Any, right: Any) -> Any:
    """Return `left * right`."""
    meter = meter_of(context)
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(meter, left.bit_length() + right.bit_length())
    else:
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, _SEQUENCES) and isinstance(times, int):
                meter.allocate(_num_chars(sequence) * max(times, 0))
    return left * right


@pass_context
def power(context: Context, left: Any, right: Any) -> Any:
    """Return `left ** right`."""
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        _check_bits(meter_of(context), left.bit_length() * right)
    return left**right


@pass_context
def modulo(context: Context, left: Any, right: Any) -> Any:
    """Return `left % right`: a remainder, or printf-style formatting."""
    if isinstance(left, str | bytes):
        check_percent(meter_of(context), left, right)
    return operator.mod(left, right)


def check_percent(meter: Meter, template: str | bytes, values: Any) -> None:
    """Count what `template % values` will make: widths, and every value it prints."""
    text = template if isinstance(template, str) else template.decode("latin-1")
    specs = _PERCENT_SPEC.findall(text)
    items = values if isinstance(values, tuple) else (values,)
    star = max((abs(item) for item in items if isinstance(item, int)), default=0)
    widths = [star if width == "*" else _to_int(meter, width) for spec in specs for width in spec]
    # A tuple's values are printed once each; a mapping's, once for every place that names one.
    times = 1 if isinstance(values, tuple) else max(1, len(specs))
    meter.allocate(len(text) + sum(widths) + meter.measure(values) * times)


def check_width(meter: Meter, spec: str) -> None:
    """Count the width and precision that a format specification names."""
    for digits in re.findall(r"\d+", spec):
        meter.allocate(_to_int(meter, digits))


def _to_int(meter: Meter, digits: str) -> int:
    if len(digits) > 18:
        meter.refuse_size(10**18)
    return int(digits or 0)


def _num_chars(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return len(value) * CHARS_PER_ITEM if isinstance(value, list | tuple) else 0


def _check_bits(meter: Meter, num_bits: int) -> None:
    if num_bits > MAX_INT_BITS:
        raise TemplateRejected(
            reason=f"it computes an integer of more than {MAX_INT_BITS} bits.",
            details={"limit": "max_int_bits", "max_int_bits": MAX_INT_BITS},
        )
    meter.spend(num_bits >> 8)
