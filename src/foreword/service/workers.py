"""Settings and a bound socket enter; several serving processes run on it; an exit code leaves.

Rules of this file: processes are spawned, never forked. One that dies in service is replaced; one
that cannot start ends them all, since the next would fail the same way. They share nothing but the
socket and a folder for their metrics: what is remembered is each process's own.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from types import FrameType

from foreword.service.logs import log, set_up_logs
from foreword.service.metric_readings import SHARED_METRICS, forget_process
from foreword.service.settings import Settings

LOOK_SECONDS = 0.2
QUICK_DEATH_SECONDS = 10.0
"""A process that ends with an error this soon after its start never served."""


def supervise(settings: Settings, listener: socket.socket) -> int:
    """Run `settings.workers` processes until told to stop; return the exit code."""
    context = multiprocessing.get_context("spawn")
    told_to_stop: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        told_to_stop.append(number)

    shared = tempfile.TemporaryDirectory(prefix="foreword-metrics-")
    os.environ[SHARED_METRICS] = shared.name
    original = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}

    # One answers from the start and tells how things are. The others take no connection before
    # it and they can serve: who has heard from one that it is ready meets none that is not.
    first_loaded = context.Event()

    def start(*, is_first: bool = False) -> tuple[SpawnProcess, float]:
        process = context.Process(
            target=_serve_child, args=(settings, listener, first_loaded, is_first)
        )
        process.start()
        return process, time.monotonic()

    processes = [start(is_first=index == 0) for index in range(settings.workers)]
    code = 0
    try:
        while not told_to_stop and code == 0:
            time.sleep(LOOK_SECONDS)
            for index, (process, started) in enumerate(processes):
                if process.is_alive() or told_to_stop:
                    continue
                log(logging.ERROR, "a worker ended", exit_code=process.exitcode)
                forget_process(process.pid)
                # A signal (a negative code) is somebody else's doing, and worth another try.
                is_quick = time.monotonic() - started < QUICK_DEATH_SECONDS
                if is_quick and process.exitcode and process.exitcode > 0:
                    code = process.exitcode
                    break
                first_loaded.set()  # or gone
                processes[index] = start()
    finally:
        # Kept open here, the port would take connections that nobody serves any more.
        listener.close()
        _end([process for process, _ in processes], settings)
        for one, handler in original.items():
            signal.signal(one, handler)
        del os.environ[SHARED_METRICS]
        shared.cleanup()
    return code


def _serve_child(
    settings: Settings, listener: socket.socket, first_loaded: Event, is_first: bool
) -> None:
    from foreword.service.serve import serve

    set_up_logs(settings.log_level, settings.log_format)
    if is_first:
        code = serve(settings, listener, on_loaded=first_loaded.set)
    else:
        code = serve(settings, listener, may_open=first_loaded.is_set)
    if code:
        raise SystemExit(code)


def _end(processes: list[SpawnProcess], settings: Settings) -> None:
    for process in processes:
        process.terminate()
    stop_at = time.monotonic() + settings.drain_seconds + settings.shutdown_deadline_seconds + 5
    for process in processes:
        process.join(max(0.0, stop_at - time.monotonic()))
        if process.is_alive():
            log(logging.ERROR, "a worker did not end and is killed")
            process.kill()
            process.join()
