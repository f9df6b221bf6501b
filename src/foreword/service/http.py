"""Settings enter; the ASGI application leaves: keys, hot routes, the rest.

Rules of this file: the key is checked before a route is looked for, so nothing of the service shows
without one. Hot routes are bare ASGI; all others are starlette's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.service.answers import Answer, Receive, Scope, Send, fault, send_answer, unexpected
from foreword.service.generate_route import GenerateRoute
from foreword.service.generation import GenerationBody
from foreword.service.hot_routes import HotRoute
from foreword.service.info_routes import info_routes, to_response
from foreword.service.settings import Settings
from foreword.service.state import ServiceState

OPEN_PATHS = frozenset({"/health", "/ready"})
"""Paths that need no key: whoever watches the process has none."""

_GENERATING: Mapping[str, type[GenerationBody]] = {
    "/v1/chat/completions": ChatCompletionRequest,
    "/v1/completions": CompletionRequest,
}


class Service:
    """The application: one process's whole HTTP surface."""

    def __init__(self, state: ServiceState) -> None:
        self.state = state
        self._keys = [_digest(key.encode()) for key in state.settings.api_keys]
        self._hot: dict[str, HotRoute | GenerateRoute] = {
            route.path: route
            for route in (
                HotRoute(
                    "/v1/chat/completions/render",
                    state,
                    lambda work: work.chat,
                    collect=lambda work: work.collect_media,
                ),
                HotRoute("/v1/completions/render", state, lambda work: work.completion),
                HotRoute(
                    "/tokenize",
                    state,
                    lambda work: work.tokenize,
                    collect=lambda work: work.collect_tokenize_media,
                ),
                HotRoute("/detokenize", state, lambda work: work.detokenize),
            )
        }
        if state.engine is not None:
            for path, kind in _GENERATING.items():
                self._hot[path] = GenerateRoute(path, state, kind)
        self._rest = _starlette(state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            path = scope["path"]
            if self._keys and path not in OPEN_PATHS and not self._has_key(scope):
                await send_answer(send, _UNAUTHORIZED)
                self.state.metrics.refused("unauthorized")
                return
            route = self._hot.get(path)
            if route is not None:
                if scope["method"] == "POST":
                    await route(scope, receive, send)
                else:
                    await send_answer(send, _method_not_allowed("POST"))
                return
        await self._rest(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        for name, value in scope["headers"]:
            if name == b"authorization":
                scheme, _, key = value.partition(b" ")
                given = _digest(key.strip())
                # Every key is compared, so that the time tells nothing about which one is near.
                found = [hmac.compare_digest(given, known) for known in self._keys]
                return scheme.lower() == b"bearer" and any(found)
        return False


def make_service(settings: Settings, state: ServiceState | None = None) -> Service:
    """Make the application of one process. It loads its models when it is started."""
    return Service(state or ServiceState(settings))


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


_UNAUTHORIZED = fault(
    HTTPStatus.UNAUTHORIZED,
    "A key is needed: send it as `Authorization: Bearer KEY`.",
    headers=((b"www-authenticate", b"Bearer"),),
)


def _method_not_allowed(allowed: str) -> Answer:
    return fault(
        HTTPStatus.METHOD_NOT_ALLOWED,
        f"This route takes {allowed} only.",
        headers=((b"allow", allowed.encode()),),
    )


def _starlette(state: ServiceState) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await state.start()
        yield
        await state.stop()

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return to_response(_method_not_allowed((error.headers or {}).get("Allow", "GET")))
        return to_response(
            fault(HTTPStatus(error.status_code), "No such route; /openapi.json lists them.")
        )

    async def on_error(request: Request, error: Exception) -> Response:
        return to_response(unexpected(error, with_message=state.settings.log_prompts))

    return Starlette(
        routes=info_routes(state),
        lifespan=lifespan,
        exception_handlers={HTTPException: on_http, Exception: on_error},
    )
