"""A synchronous function and its arguments enter; its result is awaited: the one place that waits.

    run() ─▶ inline (small) ─────────────────────────────▶ result
         └─▶ queue (bounded) ─▶ worker thread ─▶ answer ─▶ result
                  │                   │
            queue deadline      render deadline, then grace, then the worker is replaced

Rules of this file: every decision is taken on the event loop; a worker thread only takes a job,
runs it and posts the answer. A waiting job is owned by whoever removes it from the deque. Threads
are daemons, so one that sits in C code for ever cannot keep the process alive.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar

from foreword.errors import DeadlineExceeded, Overloaded
from foreword.stopping import StopSignal, stopping

P = ParamSpec("P")
T = TypeVar("T")

INLINE_DEADLINE_SECONDS = 0.02
"""What a small request may take of the event loop before it moves to a worker."""

INLINE_PAUSE_SECONDS = 10.0
"""How long nothing runs inline after a small request proved to be long."""

SWEEP_SECONDS = (0.005, 0.25)
"""Shortest and longest pause between two looks at the deadlines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """How much runs, waits, and for how long. Deadlines of 0 or less are disabled.

    Shapes: `stuck_grace_seconds` counts from the render deadline to the worker's replacement;
    `max_abandoned` is how many replaced workers may be alive before the executor calls itself
    saturated. `inline_max_size` compares with a job's `size_hint`; 0 runs nothing inline.
    """

    num_threads: int = 2
    max_queued: int = 256
    queue_deadline_seconds: float = 10.0
    render_deadline_seconds: float = 30.0
    stuck_grace_seconds: float = 5.0
    max_abandoned: int = 8
    inline_max_size: int = 0


class ExecutorObserver(Protocol):
    """Whom the executor tells what happened; every call is made on the event loop."""

    def queue_waited(self, seconds: float) -> None: ...
    def deadline_hit(self, where: str) -> None: ...
    def pool_swapped(self) -> None: ...
    def inline_overrun(self) -> None: ...


class _Job:
    __slots__ = ("args", "function", "future", "queued_at", "started_at", "stop")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], future: asyncio.Future[Any]
    ) -> None:
        self.function = function
        self.args = args
        self.future = future
        self.stop = StopSignal()
        self.queued_at = time.monotonic()
        self.started_at = 0.0


class _Worker(threading.Thread):
    """One thread: takes jobs until it is told to leave. `job` is what it runs now."""

    def __init__(self, owner: Executor, number: int) -> None:
        super().__init__(name=f"foreword-render-{number}", daemon=True)
        self.owner = owner
        self.job: _Job | None = None
        self.is_abandoned = False

    def run(self) -> None:
        owner = self.owner
        while owner._wake.get():
            try:
                job = owner._waiting.popleft()
            except IndexError:
                continue  # it was withdrawn; its wake-up is spent
            self._work(job)
            job = None  # type: ignore[assignment]  # an idle worker keeps no request alive
            if self.is_abandoned:
                return

    def _work(self, job: _Job) -> None:
        result: Any = None
        error: BaseException | None = None
        job.started_at = time.monotonic()
        job.stop.start(self.owner.options.render_deadline_seconds)
        self.job = job
        try:
            with stopping(job.stop):
                result = job.function(*job.args)
        except BaseException as caught:  # noqa: BLE001: whatever it is, the one who waits gets it
            error = caught
        self.job = None
        try:
            self.owner._loop().call_soon_threadsafe(self.owner._finish, job, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


class Executor:
    """Runs synchronous work for coroutines, bounded in number and time. One event loop, one executor.

    Counts (`num_queued`, `num_running`, `num_abandoned`) may be read from any thread.
    """

    def __init__(self, options: ExecutorOptions, observer: ExecutorObserver) -> None:
        self.options = options
        self._observer = observer
        self._waiting: deque[_Job] = deque()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._workers: list[_Worker] = []
        self._abandoned: list[_Worker] = []
        self._num_started = 0
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._mean_seconds = 0.0
        self._inline_from = 0.0
        self._is_closed = False

    # -- what others may ask ------------------------------------------------------------------

    @property
    def num_queued(self) -> int:
        """Jobs that wait for a worker."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Jobs that a worker runs now."""
        return sum(worker.job is not None for worker in self._workers)

    @property
    def num_abandoned(self) -> int:
        """Replaced workers whose job has still not returned."""
        self._abandoned = [worker for worker in self._abandoned if worker.is_alive()]
        return len(self._abandoned)

    @property
    def saturated(self) -> bool:
        """Whether new work should be sent elsewhere: the queue is full, or too much is stuck."""
        return (
            self._is_closed
            or len(self._waiting) >= self.options.max_queued
            or (bool(self._abandoned) and self.num_abandoned > self.options.max_abandoned)
        )

    # -- running ------------------------------------------------------------------------------

    async def run(self, function: Callable[..., T], *args: Any, size_hint: int | None = None) -> T:
        """Return `function(*args)`, computed here when small, by a worker otherwise.

        The function must be free to run twice: a small one that takes too long starts again in a
        worker. Being cancelled withdraws a waiting job and stops a running one.

        Raises: `Overloaded` at once when the queue is full; `DeadlineExceeded`, with the details'
        `stage` `queue` or `render`; what the function raises.
        """
        if size_hint is not None and self._may_run_inline(size_hint):
            signal = StopSignal()
            signal.start(INLINE_DEADLINE_SECONDS)
            try:
                with stopping(signal):
                    return function(*args)
            except DeadlineExceeded:
                self._inline_from = time.monotonic() + INLINE_PAUSE_SECONDS
                self._observer.inline_overrun()
        job = self._submit(function, args)
        try:
            return await job.future  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._withdraw(job)
            raise

    def _may_run_inline(self, size_hint: int) -> bool:
        return (
            size_hint <= self.options.inline_max_size
            and not self._is_closed
            and (self._inline_from == 0.0 or time.monotonic() >= self._inline_from)
        )

    def _submit(self, function: Callable[..., Any], args: tuple[Any, ...]) -> _Job:
        if self._is_closed:
            raise Overloaded("The service is shutting down. Send the request elsewhere.")
        if len(self._waiting) >= self.options.max_queued:
            raise self._queue_full()
        self._start()
        job = _Job(function, args, self._loop().create_future())
        self._waiting.append(job)
        self._wake.put(True)
        return job

    def _withdraw(self, job: _Job) -> bool:
        """Take a job back; a running one is told to stop. Return whether it had not begun."""
        job.stop.cancel()
        try:
            self._waiting.remove(job)
        except ValueError:
            return False
        return True

    def _finish(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._observer.queue_waited(job.started_at - job.queued_at)
        seconds = time.monotonic() - job.started_at
        self._mean_seconds += (seconds - self._mean_seconds) / 16
        if job.future.done():
            return  # cancelled, or answered when its worker was given up
        if error is None:
            job.future.set_result(result)
            return
        if isinstance(error, DeadlineExceeded):
            self._observer.deadline_hit("render")
        if isinstance(error, StopIteration):  # a future refuses it
            error = RuntimeError("StopIteration left a worker")
        job.future.set_exception(error)

    def _queue_full(self) -> Overloaded:
        wait = self._mean_seconds * len(self._waiting) / max(1, self.options.num_threads)
        retry_after = max(1, min(60, math.ceil(wait)))
        return Overloaded(
            f"The queue is full ({len(self._waiting)} requests wait, at most"
            f" {self.options.max_queued} may). Retry in {retry_after} s, or add workers.",
            details={
                "num_queued": len(self._waiting),
                "max_queued": self.options.max_queued,
                "retry_after_seconds": retry_after,
            },
        )

    # -- threads and deadlines ----------------------------------------------------------------

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._event_loop is None:
            self._event_loop = asyncio.get_running_loop()
        return self._event_loop

    def _start(self) -> None:
        while len(self._workers) < self.options.num_threads:
            self._num_started += 1
            worker = _Worker(self, self._num_started)
            self._workers.append(worker)
            worker.start()
        if self._sweeper is None:
            self._sweeper = self._loop().call_later(self._sweep_pause(), self._sweep)

    def _sweep_pause(self) -> float:
        options = self.options
        limits = [options.queue_deadline_seconds]
        if options.render_deadline_seconds > 0:
            limits.append(options.render_deadline_seconds + options.stuck_grace_seconds)
        shortest, longest = SWEEP_SECONDS
        return min([longest, *(max(shortest, limit / 8) for limit in limits if limit > 0)])

    def _sweep(self) -> None:
        """Look at every deadline; goes on as long as there is a job."""
        now = time.monotonic()
        limit = self.options.queue_deadline_seconds
        while limit > 0 and self._waiting and now - self._waiting[0].queued_at > limit:
            job = self._waiting[0]
            if self._withdraw(job):
                self._fail(job, "queue", f"waited {now - job.queued_at:.1f} s in the queue", limit)
        limit = self.options.render_deadline_seconds
        for worker in list(self._workers):
            running = worker.job
            if limit > 0 and running is not None and now > (
                running.started_at + limit + self.options.stuck_grace_seconds
            ):
                self._replace(worker)
                self._fail(running, "render", "did not stop after its deadline", limit)
        self._sweeper = None
        if self._waiting or self.num_running:
            self._sweeper = self._loop().call_later(self._sweep_pause(), self._sweep)

    def _fail(self, job: _Job, stage: str, what: str, deadline_seconds: float) -> None:
        self._observer.deadline_hit(stage)
        if not job.future.done():
            job.future.set_exception(
                DeadlineExceeded(
                    f"The request {what} (the {stage} deadline is {deadline_seconds:g} s)."
                    " Retry, send a shorter request, or add workers.",
                    details={"stage": stage, "deadline_seconds": deadline_seconds},
                )
            )

    def _replace(self, worker: _Worker) -> None:
        """Give up a worker that does not come back; the executor keeps its size."""
        worker.is_abandoned = True
        self._workers.remove(worker)
        self._abandoned.append(worker)
        self._observer.pool_swapped()
        self._start()

    # -- the end ------------------------------------------------------------------------------

    async def drain(self, timeout_seconds: float) -> bool:
        """Refuse new work and wait for what is accepted; return whether all of it ended."""
        self._is_closed = True
        stop_at = time.monotonic() + timeout_seconds
        while (self._waiting or self.num_running) and time.monotonic() < stop_at:
            await asyncio.sleep(0.01)
        return not self._waiting and not self.num_running

    async def close(self, timeout_seconds: float = 30.0) -> None:
        """Drain, refuse what is left, and end the threads. Safe to call twice."""
        await self.drain(timeout_seconds)
        for job in list(self._waiting):
            if self._withdraw(job) and not job.future.done():
                job.future.set_exception(
                    Overloaded("The service is shutting down. Send the request elsewhere.")
                )
        for worker in self._workers:
            if (running := worker.job) is not None:
                running.stop.cancel()
            self._wake.put(False)
        if self._sweeper is not None:
            self._sweeper.cancel()
        stop_at = time.monotonic() + 1.0
        while any(worker.is_alive() for worker in self._workers) and time.monotonic() < stop_at:
            await asyncio.sleep(0.005)
        self._workers = [worker for worker in self._workers if worker.is_alive()]
