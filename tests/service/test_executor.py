"""The executor: bounded, timed, cancellable, whole again after anything, nothing left behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from foreword.errors import DeadlineExceeded, InvalidRequest, Overloaded
from foreword.service.executor import INLINE_DEADLINE_SECONDS, Executor
from foreword.service.metrics import NullMetrics
from foreword.service.settings import Settings
from foreword.stopping import check_stop


class Counts(NullMetrics):
    def __init__(self) -> None:
        self.deadlines: list[str] = []
        self.swaps = 0
        self.overruns = 0
        self.waits: list[float] = []

    def deadline_hit(self, where: str) -> None:
        self.deadlines.append(where)

    def pool_swapped(self) -> None:
        self.swaps += 1

    def inline_overrun(self) -> None:
        self.overruns += 1

    def queue_waited(self, seconds: float) -> None:
        self.waits.append(seconds)


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[tuple[Executor, Counts]]:
    counts = Counts()
    executor = Executor(Settings(**settings), counts)
    before = threading.active_count()
    try:
        yield executor, counts
    finally:
        await executor.close(timeout_seconds=2)
        assert threading.active_count() <= before, threading.enumerate()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def spin() -> None:
    """Work for ever, as a template does, asking now and then whether to go on."""
    while True:
        check_stop()
        time.sleep(0.001)


def test_a_result_and_an_error_come_back() -> None:
    async def test() -> None:
        async with running(threads=2) as (executor, counts):
            assert await executor.run(lambda x: x + 1, 41) == 42
            with pytest.raises(InvalidRequest, match="no"):
                await executor.run(raise_, InvalidRequest("no"))
            with pytest.raises(RuntimeError):
                await executor.run(raise_, StopIteration())
            assert len(counts.waits) == 3

    run(test)


def raise_(error: Exception) -> None:
    raise error


def test_a_full_queue_refuses_at_once() -> None:
    async def test() -> None:
        gate = threading.Event()
        async with running(threads=1, max_queued=2) as (executor, _):
            first = asyncio.ensure_future(executor.run(gate.wait))
            await until(lambda: executor.num_running == 1 and executor.num_queued == 0)
            waiting = [asyncio.ensure_future(executor.run(gate.wait)) for _ in range(2)]
            await until(lambda: executor.num_queued == 2)
            assert executor.saturated
            started = time.monotonic()
            with pytest.raises(Overloaded) as caught:
                await executor.run(gate.wait)
            assert time.monotonic() - started < 0.05
            assert caught.value.details["num_queued"] == 2
            assert caught.value.details["retry_after_seconds"] >= 1
            gate.set()
            assert await asyncio.gather(first, *waiting) == [True, True, True]
            assert not executor.saturated

    run(test)


async def until(condition: Callable[[], bool], seconds: float = 3.0) -> None:
    stop_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop_at, "it never happened"
        await asyncio.sleep(0.002)


def test_waiting_too_long_names_the_queue() -> None:
    async def test() -> None:
        gate = threading.Event()
        async with running(threads=1, queue_deadline_seconds=0.05) as (executor, counts):
            first = asyncio.ensure_future(executor.run(gate.wait))
            await until(lambda: executor.num_running == 1 and executor.num_queued == 0)
            with pytest.raises(DeadlineExceeded, match="in the queue") as caught:
                await executor.run(time.sleep, 0)
            assert caught.value.details["stage"] == "queue"
            assert counts.deadlines == ["queue"]
            gate.set()
            assert await first

    run(test)


def test_time_in_the_queue_does_not_count_against_rendering() -> None:
    async def test() -> None:
        async with running(threads=1, render_deadline_seconds=0.2) as (executor, counts):
            first = asyncio.ensure_future(executor.run(time.sleep, 0.15))
            second = asyncio.ensure_future(executor.run(slow_but_in_time))
            assert await second == "done"
            await first
            assert counts.deadlines == []

    run(test)


def slow_but_in_time() -> str:
    time.sleep(0.15)
    check_stop()
    return "done"


def test_endless_work_is_stopped_at_its_deadline() -> None:
    async def test() -> None:
        async with running(threads=1, render_deadline_seconds=0.05) as (executor, counts):
            with pytest.raises(DeadlineExceeded, match=r"longer than 0\.05 s"):
                await executor.run(spin)
            assert await executor.run(lambda: 1) == 1
            assert (counts.deadlines, counts.swaps) == (["render"], 0)

    run(test)


def test_a_deadline_of_zero_is_none() -> None:
    async def test() -> None:
        async with running(threads=1, render_deadline_seconds=0) as (executor, _):
            assert await executor.run(slow_but_in_time) == "done"

    run(test)


def test_a_thread_that_does_not_return_is_replaced() -> None:
    async def test() -> None:
        gate = threading.Event()
        settings = {"threads": 1, "render_deadline_seconds": 0.02, "stuck_grace_seconds": 0.03}
        async with running(**settings, max_abandoned=0) as (executor, counts):
            with pytest.raises(DeadlineExceeded, match="did not stop"):
                await executor.run(gate.wait)
            assert (counts.swaps, executor.num_abandoned) == (1, 1)
            assert executor.saturated  # more is stuck than the operator allows
            assert await executor.run(lambda: "again") == "again"
            gate.set()
            await until(lambda: executor.num_abandoned == 0)
            assert not executor.saturated

    run(test)


def test_a_client_that_leaves_the_queue_costs_nothing() -> None:
    async def test() -> None:
        gate, ran = threading.Event(), []
        async with running(threads=1) as (executor, _):
            first = asyncio.ensure_future(executor.run(gate.wait))
            await until(lambda: executor.num_running == 1 and executor.num_queued == 0)
            second = asyncio.ensure_future(executor.run(ran.append, 1))
            await until(lambda: executor.num_queued == 1)
            second.cancel()
            await until(lambda: executor.num_queued == 0)
            gate.set()
            await first
            assert await executor.run(lambda: 7) == 7
            assert ran == []

    run(test)


def test_a_client_that_leaves_stops_the_work() -> None:
    async def test() -> None:
        async with running(threads=1) as (executor, counts):
            task = asyncio.ensure_future(executor.run(spin))
            await until(lambda: executor.num_running == 1 and executor.num_queued == 0)
            task.cancel()
            await until(lambda: executor.num_running == 0)
            assert counts.deadlines == []  # nobody missed a deadline

    run(test)


def test_two_hundred_clients_that_leave_leave_nothing() -> None:
    async def test() -> None:
        async with running(threads=2, max_queued=500) as (executor, _):
            tasks = [asyncio.ensure_future(executor.run(spin)) for _ in range(200)]
            await until(lambda: executor.num_queued == 198)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await until(lambda: executor.num_queued == executor.num_running == 0)
            assert await executor.run(lambda: 1) == 1

    run(test)


def test_small_work_runs_here_and_large_work_does_not() -> None:
    async def test() -> None:
        async with running(threads=1, inline_max_size=100) as (executor, _):
            here = threading.get_ident()
            assert await executor.run(threading.get_ident, size_hint=100) == here
            assert await executor.run(threading.get_ident, size_hint=101) != here
            assert await executor.run(threading.get_ident) != here

    run(test)


def test_small_work_that_proves_long_moves_to_a_thread() -> None:
    async def test() -> None:
        async with running(threads=1, inline_max_size=100) as (executor, counts):
            started = time.monotonic()
            assert await executor.run(long_on_the_loop, threading.get_ident(), size_hint=1) == "ok"
            assert time.monotonic() - started < INLINE_DEADLINE_SECONDS + 0.5
            assert counts.overruns == 1
            # Until it is clear that it was an exception, nothing runs on the loop.
            assert await executor.run(threading.get_ident, size_hint=1) != threading.get_ident()

    run(test)


def long_on_the_loop(loop_thread: int) -> str:
    if threading.get_ident() == loop_thread:
        spin()
    return "ok"


def test_closing_answers_everyone() -> None:
    async def test() -> None:
        async with running(threads=1, render_deadline_seconds=0) as (executor, _):
            endless = asyncio.ensure_future(executor.run(spin))
            waiting = asyncio.ensure_future(executor.run(lambda: 1))
            await until(lambda: executor.num_queued == 1)
            await executor.close(timeout_seconds=0.05)
            answers = await asyncio.gather(endless, waiting, return_exceptions=True)
            assert [type(answer) for answer in answers] == [DeadlineExceeded, Overloaded]
            with pytest.raises(Overloaded, match="shutting down"):
                await executor.run(lambda: 1)

    run(test)


def test_draining_lets_accepted_work_end() -> None:
    async def test() -> None:
        async with running(threads=1) as (executor, _):
            tasks = [asyncio.ensure_future(executor.run(slow_but_in_time)) for _ in range(2)]
            await asyncio.sleep(0)
            assert await executor.drain(5)
            assert await asyncio.gather(*tasks) == ["done", "done"]

    run(test)
