"""Free memory is given back in a quiet moment, once for what was answered since."""

from __future__ import annotations

from typing import Any

import pytest

from foreword.service import state as module


def test_memory_is_given_back_when_it_is_quiet(
    make_state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    state = make_state()
    monkeypatch.setattr(module, "give_back_pages", lambda: given.append(state.num_answered))
    state._tidy()
    assert given == [], "nothing was answered"
    state.enter()
    state.enter()
    state.leave()
    state._tidy()
    assert given == [], "a request is on its way"
    state.leave()
    state._tidy()
    state._tidy()
    assert given == [2]


def test_memory_is_given_back_now_and_then_when_it_is_never_quiet(
    make_state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    state = make_state()
    monkeypatch.setattr(module, "give_back_pages", lambda: given.append(state.num_answered))
    monkeypatch.setattr(module, "MAX_UNTIDIED_SECONDS", -1.0)
    state.enter()
    state.enter()
    state.leave()
    state._tidy()
    assert given == [1]
