"""A deadline that others can move."""

from __future__ import annotations

import pytest

from foreword.errors import DeadlineExceeded
from foreword.stopping import StopSignal, check_stop, current_stop, stopping
from foreword.templating import compile_template

ENDLESS = "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}"


def test_outside_a_service_nothing_stops() -> None:
    assert current_stop() is None
    check_stop()


def test_a_signal_holds_inside_its_block_only() -> None:
    signal = StopSignal()
    with stopping(signal):
        assert current_stop() is signal
        check_stop()
        signal.start(1e-9)
        with pytest.raises(DeadlineExceeded) as caught:
            check_stop()
        assert caught.value.details["stage"] == "render"
    check_stop()


def test_no_deadline_and_a_cancelled_one() -> None:
    signal = StopSignal()
    signal.start(0)
    signal.check()
    signal.cancel()
    signal.start(100)  # a cancelled signal stays cancelled
    with pytest.raises(DeadlineExceeded):
        signal.check()


def test_a_template_stops_when_told() -> None:
    template, signal = compile_template(ENDLESS), StopSignal()
    signal.start(0.05)
    with stopping(signal), pytest.raises(DeadlineExceeded, match="longer than"):
        template.render({"messages": []})
