"""Questions about the service enter; what it is, serves and counts leaves.

Rules of this file: nothing here renders or waits, and no answer names a path of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from foreword.errors import ForewordError
from foreword.service.answers import Answer, error_answer, fault, json_answer
from foreword.service.metrics import CONTENT_TYPE
from foreword.service.models import ServedModel
from foreword.service.openapi import docs_page, openapi
from foreword.service.state import ServiceState
from foreword.version import __version__

NOT_YET = (
    "/v1/chat/completions/derender",
    "/v1/completions/derender",
    "/v1/messages/render",
    "/v1/responses/render",
)
"""Routes of `vllm launch render` that this service does not have."""

NEED_ENGINE = ("/v1/chat/completions", "/v1/completions")

_PRIVATE_KEYS = frozenset({"vocab_file", "merges_file", "tokenizer_file", "name_or_path"})


def info_routes(state: ServiceState) -> list[Route]:
    """Return every route that is not hot."""
    made = [
        _get("/health", lambda request: Answer(200, b"")),
        _get("/ready", lambda request: _ready(state)),
        _get("/version", lambda request: json_answer({"version": __version__})),
        _get("/v1/models", lambda request: _models(state)),
        _get("/v1/models/{model:path}", lambda request: _one_model(state, request)),
        Route("/metrics", _metrics_endpoint(state), methods=["GET"]),
    ]
    if state.settings.tokenizer_info:
        made.append(_get("/tokenizer_info", lambda request: _tokenizer_info(state, request)))
    if state.settings.docs:
        description = openapi(has_engine=state.engine is not None)
        page = docs_page(description)
        made.append(_get("/openapi.json", lambda request: json_answer(description)))
        made.append(Route("/docs", lambda request: HTMLResponse(page), methods=["GET"]))
    made += [_not_done(path, "is not implemented here") for path in NOT_YET]
    if state.engine is None:
        why = "needs an engine: start with --engine-zmq or --engine-url"
        made += [_not_done(path, why) for path in NEED_ENGINE]
    return made


def to_response(answer: Answer) -> Response:
    """Return an answer as starlette sends it."""
    response = Response(answer.body, answer.status, media_type="application/json")
    for name, value in answer.headers:
        response.headers[name.decode()] = value.decode("latin-1")
    return response


def _get(path: str, answer: Callable[[Request], Answer]) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            return to_response(answer(request))
        except ForewordError as error:
            return to_response(error_answer(error))

    return Route(path, endpoint, methods=["GET"])


def _not_done(path: str, why: str) -> Route:
    async def endpoint(request: Request) -> Response:
        text = f"{path} {why}. /openapi.json lists the routes there are."
        return to_response(fault(HTTPStatus.NOT_IMPLEMENTED, text))

    return Route(path, endpoint, methods=["POST"])


def _ready(state: ServiceState) -> Answer:
    condition = state.condition
    status = 200 if condition == "ready" else 503
    headers = () if status == 200 else ((b"retry-after", b"1"),)
    return json_answer({"status": condition}, status=status, headers=headers)


def _metrics_endpoint(state: ServiceState) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return Response(state.metrics.exposition(), headers={"content-type": CONTENT_TYPE})

    return endpoint


def _models(state: ServiceState) -> Answer:
    cards = [
        _card(model, name, root=model.name) for model in state.models.all for name in model.names
    ]
    return json_answer({"object": "list", "data": cards})


def _one_model(state: ServiceState, request: Request) -> Answer:
    name: str = request.path_params["model"]
    model = state.models.find(name)
    return json_answer(_card(model, name, root=model.name))


def _card(model: ServedModel, name: str, *, root: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": "foreword",
        "root": root,
        "parent": None,
        "max_model_len": model.renderer.options.max_model_len,
        "permission": [],
        "fingerprint": model.renderer.assets.fingerprint,
    }


def _tokenizer_info(state: ServiceState, request: Request) -> Answer:
    model = state.models.find(request.query_params.get("model"))
    assets, options = model.renderer.assets, model.renderer.options
    info = {
        key: _content(value)
        for key, value in assets.tokenizer_config.items()
        if key not in _PRIVATE_KEYS
    }
    info.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    template = options.chat_template or assets.chat_templates.get("default")
    if template:
        info["chat_template"] = assets.chat_templates.get(template, template)
    return Answer(200, msgspec.json.encode(info))


def _content(value: Any) -> Any:
    """Give an added token by its text, as vLLM does."""
    if isinstance(value, Mapping):
        if "content" in value:
            return value["content"]
        return {key: _content(item) for key, item in value.items()}
    return [_content(item) for item in value] if isinstance(value, list | tuple) else value
