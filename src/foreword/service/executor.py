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
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from foreword.errors import DeadlineExceeded, ForewordError
from foreword.service.metrics import Metrics
from foreword.service.refusals import queue_full, shutting_down, too_late
from foreword.service.settings import Settings
from foreword.stopping import StopSignal, stopping

T = TypeVar("T")

DEFAULT_INLINE_MAX_SIZE = 4096  # in bytes of body
INLINE_DEADLINE_SECONDS = 0.02  # of the event loop, before a small request moves to a worker
INLINE_PAUSE_SECONDS = 0.25  # in which nothing runs inline, after a small request proved long
MAX_INLINE_PAUSE_SECONDS = 16.0  # it doubles up to here while they go on to prove long
SWEEP_SECONDS = 0.02  # between two looks at the deadlines, while there is a job


class LongerThanThought(Exception):
    """Small work took too long for the event loop; it is to be started again in a thread."""


class _Job:
    __slots__ = ("args", "context", "function", "future", "queued_at", "started_at", "stop")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], future: asyncio.Future[Any]
    ) -> None:
        self.function = function
        self.args = args
        self.future = future
        self.context = copy_context()
        self.stop = StopSignal()
        self.queued_at = time.monotonic()
        self.started_at = 0.0

    def run(self) -> Any:
        with stopping(self.stop):
            return self.function(*self.args)


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
        job.stop.start(self.owner.settings.render_deadline_seconds)
        self.job = job
        try:
            result = job.context.run(job.run)
        except ForewordError as caught:
            # Its frames hold the request's text, and nobody needs them.
            error = caught.with_traceback(None)
            error.__context__ = error.__cause__ = None
        except BaseException as caught:  # whatever it is, the one who waits gets it
            error = caught
        self.job = None
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.owner._loop().call_soon_threadsafe(self.owner._finish, job, result, error)
        del error  # or it and this frame keep each other, and all they hold


class Executor:
    """Runs synchronous work for coroutines, bounded in number and time; belongs to one event loop.

    Counts (`num_queued`, `num_running`, `num_abandoned`) may be read from any thread.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self._metrics = metrics
        self._open: set[_Job] = set()  # accepted, and neither answered nor given up
        self._waiting: deque[_Job] = deque()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._workers: list[_Worker] = []
        self._abandoned: list[_Worker] = []
        self._num_started = 0
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._mean_seconds = 0.0
        self._inline_from = self._inline_pause = 0.0
        self._num_threads = settings.num_threads
        given = settings.inline_max_size
        self.inline_max_size = DEFAULT_INLINE_MAX_SIZE if given is None else given
        self._is_closed = False

    # -- what others may ask ------------------------------------------------------------------

    @property
    def num_queued(self) -> int:
        """Jobs that wait for a worker."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Jobs that a worker has taken and not yet answered."""
        return max(0, len(self._open) - len(self._waiting))

    @property
    def num_abandoned(self) -> int:
        """Replaced workers whose job has still not returned."""
        self._abandoned = [worker for worker in self._abandoned if worker.is_alive()]
        return len(self._abandoned)

    @property
    def saturated(self) -> bool:
        """Whether new work should be sent elsewhere: the queue is full, or too much is stuck."""
        return (
            self._is_closed or self._is_full() or self.num_abandoned > self.settings.max_abandoned
        )

    # -- running ------------------------------------------------------------------------------

    async def run(self, function: Callable[..., T], *args: Any, size_hint: int | None = None) -> T:
        """Return `function(*args)`, computed here when small, by a worker otherwise.

        The function must be free to run twice: a small one that takes too long starts again in a
        worker. Being cancelled withdraws a waiting job and stops a running one.

        Raises: `Overloaded` at once when the queue is full; `DeadlineExceeded`, with the details'
        `stage` `queue` or `render`; what the function raises.
        """
        if size_hint is not None and self.may_run_here(size_hint):
            with suppress(LongerThanThought):
                return self.run_here(function, *args)
        job = self._submit(function, args)
        try:
            return await job.future  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            self._withdraw(job)
            raise
        finally:
            del job  # its future holds the error, which holds this frame

    def may_run_here(self, size: int) -> bool:
        """Whether work of that size is small enough for the event loop, which is free to do it."""
        return (
            size <= self.inline_max_size
            and not self._is_closed
            and (self._inline_from == 0.0 or time.monotonic() >= self._inline_from)
        )

    def run_here(self, function: Callable[..., T], *args: Any) -> T:
        """Return `function(*args)`, computed on the event loop.

        Raises: `LongerThanThought` when it takes too long here, and what the function raises.
        """
        signal = StopSignal()
        signal.start(INLINE_DEADLINE_SECONDS)
        try:
            with stopping(signal):
                result = function(*args)
        except DeadlineExceeded:
            self._pause_inline()
            raise LongerThanThought from None
        self._inline_pause = 0.0
        return result

    def _pause_inline(self) -> None:
        """Let threads do everything for a while.

        Why briefly at first: a busy machine makes a request long too.
        """
        doubled = max(2 * self._inline_pause, INLINE_PAUSE_SECONDS)
        self._inline_pause = min(doubled, MAX_INLINE_PAUSE_SECONDS)
        self._inline_from = time.monotonic() + self._inline_pause
        self._metrics.inline_overrun()

    def _submit(self, function: Callable[..., Any], args: tuple[Any, ...]) -> _Job:
        if self._is_closed:
            raise shutting_down()
        if self._is_full():
            wait = self._mean_seconds * len(self._waiting) / self._num_threads
            raise queue_full(len(self._waiting), self.settings.max_queued, wait)
        self._start()
        job = _Job(function, args, self._loop().create_future())
        self._open.add(job)
        self._waiting.append(job)
        self._wake.put(True)
        return job

    def _is_full(self) -> bool:
        # A job that a free thread is about to take does not wait, though it is in the deque.
        return len(self._open) >= self._num_threads + self.settings.max_queued

    def _withdraw(self, job: _Job) -> bool:
        """Take a job back; a running one is told to stop. Return whether it had not begun."""
        job.stop.cancel()
        try:
            self._waiting.remove(job)
        except ValueError:
            return False
        self._open.discard(job)
        return True

    def _finish(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._open.discard(job)
        self._metrics.queue_waited(job.started_at - job.queued_at)
        seconds = time.monotonic() - job.started_at
        self._mean_seconds += (seconds - self._mean_seconds) / 16
        if job.future.done():
            return  # cancelled, or answered when its worker was given up
        if error is None:
            job.future.set_result(result)
            return
        if isinstance(error, DeadlineExceeded):
            self._metrics.deadline_hit("render")
        is_refused = isinstance(error, StopIteration)  # by every future
        job.future.set_exception(RuntimeError("StopIteration") if is_refused else error)

    # -- threads and deadlines ----------------------------------------------------------------

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._event_loop is None:
            self._event_loop = asyncio.get_running_loop()
        return self._event_loop

    def _start(self) -> None:
        while len(self._workers) < self._num_threads:
            self._num_started += 1
            worker = _Worker(self, self._num_started)
            self._workers.append(worker)
            worker.start()
        if self._sweeper is None:
            self._sweeper = self._loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Look at every deadline; goes on as long as there is a job."""
        now = time.monotonic()
        limit = self.settings.queue_deadline_seconds
        for job in self._waiting.copy() if limit > 0 else ():
            waited = now - job.queued_at
            if waited <= limit:
                break  # the first has waited longest
            if self._withdraw(job):
                self._fail(job, "queue", f"waited {waited:.1f} s in the queue", limit)
        limit = self.settings.render_deadline_seconds
        hopeless = limit + self.settings.stuck_grace_seconds
        for worker in list(self._workers) if limit > 0 else ():
            running = worker.job
            if running is not None and now - running.started_at > hopeless:
                self._replace(worker, running)
                self._fail(running, "render", "did not stop after its deadline", limit)
        self._sweeper = None
        if self._open:
            self._sweeper = self._loop().call_later(SWEEP_SECONDS, self._sweep)

    def _fail(self, job: _Job, stage: str, what: str, limit: float) -> None:
        self._metrics.deadline_hit(stage)
        if not job.future.done():
            job.future.set_exception(too_late(stage, what, limit))

    def _replace(self, worker: _Worker, job: _Job) -> None:
        """Give up a worker that does not come back; the executor keeps its size."""
        worker.is_abandoned = True
        self._open.discard(job)
        self._workers.remove(worker)
        self._abandoned.append(worker)
        self._metrics.pool_swapped()
        self._start()

    # -- the end ------------------------------------------------------------------------------

    async def drain(self, timeout_seconds: float) -> bool:
        """Refuse new work and wait for what is accepted; return whether all of it ended."""
        self._is_closed = True
        stop_at = time.monotonic() + timeout_seconds
        while self._open and time.monotonic() < stop_at:
            await asyncio.sleep(0.01)
        return not self._open

    async def close(self, timeout_seconds: float = 30.0) -> None:
        """Drain, refuse what is left, and end the threads. Safe to call twice."""
        await self.drain(timeout_seconds)
        for job in list(self._waiting):
            if self._withdraw(job) and not job.future.done():
                job.future.set_exception(shutting_down())
        for worker in self._workers:
            if (running := worker.job) is not None:
                running.stop.cancel()
        for _ in range(len(self._workers) + len(self._abandoned)):
            self._wake.put(False)
        if self._sweeper is not None:
            self._sweeper.cancel()
        stop_at = time.monotonic() + 1.0
        while any(worker.is_alive() for worker in self._workers) and time.monotonic() < stop_at:
            await asyncio.sleep(0.005)
        self._workers = [worker for worker in self._workers if worker.is_alive()]
