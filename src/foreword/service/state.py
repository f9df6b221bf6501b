"""What the routes of one process share: settings, models once they are loaded, executor, metrics.

Rules of this file: only the event loop changes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from foreword.service.engine_setup import make_engine_client
from foreword.service.engine_stream import EngineClient, engine_readings
from foreword.service.executor import Executor
from foreword.service.generation import Generations
from foreword.service.logs import log
from foreword.service.media_step import make_fetcher
from foreword.service.memory import give_back_pages
from foreword.service.metric_readings import Reading
from foreword.service.metrics import Metrics, make_metrics
from foreword.service.models import ServedModels, load_models, memo_readings
from foreword.service.refusals import still_loading
from foreword.service.settings import Settings
from foreword.service.tracing import Tracing, make_tracing
from foreword.service.work import Work, warm_up

MAX_UNTIDIED_SECONDS = 30.0  # of work without a quiet moment
OPENING_SECONDS = 0.02  # between two looks whether a worker may open its door
FAST_INLINE_MAX_SIZE = 65_536  # bytes of body: a millisecond where the tokenizer is fast
LoadModels = Callable[[Settings], ServedModels]


class ServiceState:
    """One process's service.

    `on_failure` is told when its models can't be loaded, `on_loaded` when they are. `may_open`: it
    answers nothing until they are and that says yes, for a worker beside others.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        load: LoadModels = load_models,
        on_failure: Callable[[BaseException], None] | None = None,
        engine: EngineClient | None = None,
        on_loaded: Callable[[], None] = lambda: None,
        may_open: Callable[[], bool] | None = None,
    ) -> None:
        self.settings = settings
        self._on_loaded = on_loaded
        self._may_open = may_open
        self.metrics: Metrics = make_metrics(settings.metrics)
        self.tracing: Tracing = make_tracing(settings.tracing)
        self.executor = Executor(settings, self.metrics)
        self.fetcher = make_fetcher(settings)
        self.engine = engine or make_engine_client(settings)
        self.is_draining = False
        self.num_in_flight = self.num_answered = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self._load = load
        self._on_failure = on_failure
        self._models: ServedModels | None = None
        self._work: Work | None = None
        self._generations: Generations | None = None
        self._loading: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._num_tidied = 0
        self._tidied_at = time.monotonic()
        self.metrics.add_source(self._readings)

    @property
    def condition(self) -> str:
        """What /ready tells: `ready`, or why not: `loading`, `draining`, `saturated`, `engine`."""
        if self.is_draining:
            return "draining"
        if self._work is None:
            return "loading"
        if self.engine is not None and self.engine.condition != "ready":
            return "engine"
        return "saturated" if self.executor.saturated else "ready"

    @property
    def models(self) -> ServedModels:
        """The models. Raises: `Overloaded` while they load."""
        if self._models is None:
            raise still_loading()
        return self._models

    def work(self) -> Work:
        """What the hot routes run. Raises: `Overloaded` while the models load."""
        if self._work is None:
            raise still_loading()
        return self._work

    def generations(self) -> Generations:
        """What the routes that generate run. Raises: `Overloaded` while the models load."""
        if self._generations is None:
            raise still_loading()
        return self._generations

    def enter(self) -> None:
        """Count a request that has arrived."""
        self.num_in_flight += 1

    def leave(self) -> None:
        """Count a request that has its answer, or whose client has left."""
        self.num_in_flight -= 1
        self.num_answered += 1

    async def start(self) -> None:
        """Begin to load the models, beside the event loop.

        With `may_open` it returns when they are loaded and that says yes.
        """
        self.loop = asyncio.get_running_loop()
        self._loading = asyncio.ensure_future(self._prepare())
        self._ticking = asyncio.ensure_future(self._tick())
        if self._may_open is not None:
            await self._loading
            while not self._may_open() and not self.is_draining:
                await asyncio.sleep(OPENING_SECONDS)

    async def _prepare(self) -> None:
        started = time.monotonic()
        loader = ThreadPoolExecutor(1, thread_name_prefix="foreword-load")
        try:
            if self.engine is not None:
                await self.engine.start()
            models, work = await asyncio.get_running_loop().run_in_executor(
                loader, self._load_and_warm_up
            )
        except Exception as error:
            if self._on_failure is None:
                raise
            self._on_failure(error)
            return
        finally:
            loader.shutdown(wait=False)  # waiting would block the loop; its one task is over
        self._models, self._work = models, work
        if self.settings.inline_max_size is None and models.are_fast:
            self.executor.inline_max_size = FAST_INLINE_MAX_SIZE
        self._generations = Generations(models, self.settings, self.executor)
        seconds = round(time.monotonic() - started, 3)
        self._on_loaded()
        log(logging.INFO, "ready", models=list(models.names), seconds=seconds)

    def _load_and_warm_up(self) -> tuple[ServedModels, Work]:
        models = self._load(self.settings)
        for model in models.all:
            for warning in model.renderer.assets.warnings:
                log(logging.WARNING, "model warning", model=model.name, warning=warning)
        work = Work(models, self.settings, self.metrics, self.tracing)
        if self.settings.warm_up:
            warm_up(work, models)
        return models, work

    async def stop(self) -> None:
        """Let accepted work end, then end the threads."""
        self.is_draining = True
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
        if self._ticking is not None:
            self._ticking.cancel()
        await self.executor.close(self.settings.shutdown_deadline_seconds)
        if self.engine is not None:
            await self.engine.close()

    async def _tick(self) -> None:
        """Every second: keep what this worker reads fresh for all, and give back free memory."""
        while True:
            await asyncio.sleep(1.0)
            if self.settings.workers > 1:
                self.metrics.refresh()
            self._tidy()

    def _tidy(self) -> None:
        """Give back free pages in a quiet moment, or when there has been none for long."""
        now = time.monotonic()
        is_quiet = self.num_in_flight == 0 or now > self._tidied_at + MAX_UNTIDIED_SECONDS
        if is_quiet and self.num_answered != self._num_tidied:
            give_back_pages()
            self._num_tidied, self._tidied_at = self.num_answered, now

    def _readings(self) -> Iterator[Reading]:
        executor = self.executor
        for name, text, value in (
            ("in_flight", "Requests accepted and not yet answered", self.num_in_flight),
            ("queue_depth", "Requests that wait for a thread", executor.num_queued),
            ("running", "Requests a thread works on", executor.num_running),
            ("abandoned_threads", "Replaced threads still running", executor.num_abandoned),
            ("ready", "1 when /ready answers 200", self.condition == "ready"),
        ):
            yield Reading(name=name, help=text, kind="gauge", value=float(value))
        if self.engine is not None:
            yield from engine_readings(self.engine)
        for model in self._models.all if self._models is not None else ():
            yield from memo_readings(model)
