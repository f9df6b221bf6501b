"""The command's arguments enter; a served port, and at the end an exit code, leave.

Rules of this file: the socket is bound before anything is loaded, so a taken port is told at once.
What needs extra `serve` is imported late, so that its absence is one sentence.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import socket
from collections.abc import Callable, Sequence

from foreword.errors import ForewordError, InvalidRequest, ModelError, UnsupportedFeature
from foreword.service.engine_setup import check_engine
from foreword.service.logs import log, set_up_logs
from foreword.service.settings import Settings
from foreword.service.settings_sources import (
    add_flags,
    settings_from,
    to_toml,
    unknown_variables,
)

EXIT_CALLER, EXIT_MODEL, EXIT_SERVICE = 2, 3, 4


def main(arguments: Sequence[str]) -> int:
    """Run `foreword serve` with its arguments; return the exit code.

    Raises: `InvalidRequest` for a setting that cannot be.
    """
    parser = argparse.ArgumentParser(
        prog="foreword serve",
        description="Answer requests over HTTP. Every flag is also a variable FOREWORD_NAME, and"
        " a name of the TOML file.",
    )
    add_flags(parser)
    flags = vars(parser.parse_args(arguments))
    settings = settings_from(flags, os.environ)
    if flags["print_config"]:
        print(to_toml(settings), end="")
        return 0
    return run(settings)


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code.

    Shapes: 0 after an orderly end, 2 for settings that cannot be, 3 for a model that does not
    load, 4 for what fails in service.
    """
    set_up_logs(settings.log_level, settings.log_format)
    for name in unknown_variables(os.environ):
        log(logging.WARNING, "unknown setting in the environment", name=name)
    try:
        _check_installed()
        check_engine(settings)
        listener = bind(settings)
    except ForewordError as error:
        log(logging.ERROR, "not started", reason=error.message)
        return EXIT_CALLER
    with listener:
        host, port = listener.getsockname()[:2]
        log(logging.INFO, "listening", host=host, port=port, workers=settings.workers)
        if settings.workers > 1:
            from foreword.service.workers import supervise

            return supervise(settings, listener)
        return serve(settings, listener)


def _check_installed() -> None:
    for name in ("starlette", "uvicorn", "uvloop", "httptools"):
        if importlib.util.find_spec(name) is None:
            raise UnsupportedFeature(
                feature="foreword serve",
                remedy=f"The module {name} is missing; install foreword[serve].",
            )


def bind(settings: Settings) -> socket.socket:
    """Bind the service's socket. Raises: `InvalidRequest` when the address can't be had."""
    if not settings.models:
        raise InvalidRequest("No model is given; name at least one to serve.", param="models")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise InvalidRequest(
            f"Port {settings.port} of {settings.host} can't be used: {error.strerror}."
            " Choose another with --port.",
            param="port",
        ) from None
    return listener


def serve(
    settings: Settings,
    listener: socket.socket,
    *,
    on_loaded: Callable[[], None] = lambda: None,
    may_open: Callable[[], bool] | None = None,
) -> int:
    """Serve on a bound socket in this process; return the exit code.

    `on_loaded` is called when the models are loaded. With `may_open` no connection is accepted
    before they are, and it says yes.
    """
    from foreword.service.http import Service
    from foreword.service.server import Server
    from foreword.service.state import ServiceState

    failures: list[int] = []

    def on_failure(error: BaseException) -> None:
        failures.append(_explain(error))
        server.should_exit = True

    state = ServiceState(settings, on_failure=on_failure, on_loaded=on_loaded, may_open=may_open)
    server = Server(Service(state), listener)
    try:
        server.config.load()
    except OSError as error:  # a certificate or key that can't be read, or is none
        log(logging.ERROR, "not started", reason=f"The TLS files can't be used: {error.strerror}.")
        return EXIT_CALLER
    server.serve_until_stopped()
    log(logging.INFO, "stopped")
    return failures[0] if failures else 0


def _explain(error: BaseException) -> int:
    if isinstance(error, ForewordError):
        log(logging.ERROR, "models not loaded", reason=error.message, code=error.code)
        return EXIT_MODEL if isinstance(error, ModelError) else EXIT_CALLER
    log(logging.ERROR, "models not loaded", reason=f"{type(error).__name__}: {error}")
    return EXIT_SERVICE
