"""A request's bytes and the settings enter; nothing leaves, or the limit that its JSON breaks.

Rules of this file: nothing is decoded. A decoder makes a value for every comma in one call that
nothing can interrupt, so what is too many is refused before it is called. What stands inside
strings is no structure, and is looked at only where it could matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from foreword.errors import InvalidRequest
from foreword.protocols.decode import count_up_to
from foreword.service.settings import Settings
from foreword.stopping import check_stop

_STEPS_A_CHECK = 10_000
_FEW = 20_000
MAX_DIGITS = 40
"""The longest number that is meant has 20."""
_LARGE_BYTES = 2**20
"""A smaller body is read in 20 ms, whatever its numbers are."""
_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG_RUN = b"0" * (MAX_DIGITS + 1)


class Structure(NamedTuple):
    """What a body's JSON is made of; each at most one more than said."""

    containers: int
    members: int
    values: int


def check_structure(body: bytes, settings: Settings) -> None:
    """Check how many objects and arrays, members of objects, and values a body has.

    Raises: `InvalidRequest` for the first limit that is broken, and for a number without end.
    """
    if len(body) > _LARGE_BYTES and _has_long_number(body):
        raise InvalidRequest(
            f"A number in the body has more than {MAX_DIGITS} digits in a row. Send it as text, or"
            " shorter.",
            details={"max_digits": MAX_DIGITS},
        )
    limits = Structure(
        settings.max_json_containers, settings.max_json_members, settings.max_json_values
    )
    if _is_small(body, limits) or _fits(_count(body, 0, len(body)), limits):
        return
    found = _count_outside_strings(body, limits)
    rows = zip(("objects and arrays", "named values", "values"), found, limits, strict=True)
    for (what, number, limit), setting in zip(rows, limits._fields, strict=True):
        if number > limit:
            name = f"max_json_{setting}"
            raise InvalidRequest(
                f"The body's JSON has more than {limit} {what}; at most so many are accepted here"
                f" (the setting {name}). Send a shorter request.",
                details={"at_least": number, name: limit},
            )


def _has_long_number(body: bytes) -> bool:
    """Say whether a number outside strings is longer than any that is meant.

    Why: reading and writing one takes the square of its length, and nothing can interrupt it.
    """
    overlap = MAX_DIGITS + 1
    for start in range(0, len(body), _LARGE_BYTES):
        check_stop()
        part = body[start : start + _LARGE_BYTES + overlap].translate(_DIGITS)
        if _LONG_RUN in part:
            outside = b" ".join(body[first:last] for first, last in _outside_strings(body))
            return _LONG_RUN in outside.translate(_DIGITS)
    return False


def _outside_strings(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield the stretches before, between and after strings, as places in the body."""
    place = num_strings = 0
    while (quote := body.find(b'"', place)) >= 0:
        yield place, quote
        place = _end_of_string(body, quote + 1)
        num_strings += 1
        if num_strings % _STEPS_A_CHECK == 0:
            check_stop()
    yield place, len(body)


def _is_small(body: bytes, limits: Structure) -> bool:
    """Say whether the body has few of everything, as most have: a tenth of counting it all."""
    most = min(_FEW, limits.containers // 2, limits.members, limits.values)
    return all(count_up_to(body, char, most) < most for char in (b"[", b"{", b":", b","))


def _fits(found: Structure, limits: Structure) -> bool:
    return all(number <= limit for number, limit in zip(found, limits, strict=True))


def _count(body: bytes, start: int, stop: int) -> Structure:
    containers = body.count(b"[", start, stop) + body.count(b"{", start, stop)
    return Structure(containers, body.count(b":", start, stop), body.count(b",", start, stop))


def _count_outside_strings(body: bytes, limits: Structure) -> Structure:
    """Count outside strings, until a limit is broken; what is no JSON may be counted anyhow."""
    total = Structure(0, 0, 0)
    for num_strings, (start, stop) in enumerate(_outside_strings(body)):
        total = Structure(*map(sum, zip(total, _count(body, start, stop), strict=True)))
        # Before every string but one stands a bracket, a colon or a comma; else it is no JSON.
        if not _fits(total, limits) or num_strings > sum(limits):
            break
    return total


def _end_of_string(body: bytes, place: int) -> int:
    """Return the place after the quote that ends a string; after the body, when none does."""
    num_steps = 0
    while (quote := body.find(b'"', place)) >= 0:
        num_steps += 1
        if num_steps % _STEPS_A_CHECK == 0:
            check_stop()
        before = quote - 1
        while before >= place and body[before] == 0x5C:
            before -= 1
        if (quote - before) % 2:
            return quote + 1
        place = quote + 1
    return len(body)
