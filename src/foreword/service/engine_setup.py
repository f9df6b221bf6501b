"""Settings enter; the client of the engine they name leaves, or none.

Rules of this file: what an extra brings is imported here and late, so that its absence is one
sentence.
"""

from __future__ import annotations

import importlib.util

from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.service.engine_stream import EngineClient
from foreword.service.settings import Settings


def make_engine_client(settings: Settings) -> EngineClient | None:
    """Make the client; nothing is opened yet.

    Raises: `InvalidRequest` for addresses that are none; `UnsupportedFeature` naming the extra.
    """
    check_engine(settings)
    if settings.engine_zmq:
        from foreword.service.engine_client import ZmqEngineClient
        from foreword.service.engine_fleet import EngineClientOptions
        from foreword.service.engine_sockets import parse_addresses

        return ZmqEngineClient(
            parse_addresses(settings.engine_zmq),
            EngineClientOptions(
                num_engines=settings.num_engines,
                client_index=settings.engine_client_index,
                num_clients=settings.num_engine_clients,
                max_requests=settings.max_engine_requests,
                silence_seconds=settings.engine_silence_seconds,
                allow_unknown_version=settings.allow_unknown_engine_version,
                structured_outputs_backend=settings.engine_structured_outputs_backend,
            ),
        )
    if settings.engine_url is None:
        return None
    from foreword.service.engine_http import HttpEngineClient

    return HttpEngineClient(
        settings.engine_url,
        api_key=settings.engine_api_key,
        max_requests=settings.max_engine_requests,
        silence_seconds=settings.engine_silence_seconds,
        max_logprobs=settings.max_logprobs,
    )


def check_engine(settings: Settings) -> None:
    """Refuse what `make_engine_client` would, before anything is opened or loaded.

    Raises: `InvalidRequest`, `UnsupportedFeature`.
    """
    if settings.engine_zmq:
        _need("zmq", "engine_zmq", "zmq")
        from foreword.service.engine_sockets import parse_addresses

        parse_addresses(settings.engine_zmq)
    elif settings.engine_url is not None:
        _need("httpx", "engine_url", "http")
        _check_url(settings.engine_url)


def _check_url(url: str) -> None:
    import httpx

    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidRequest(f"engine_url can't be: {error}.", param="engine_url") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidRequest(
            "engine_url must begin with http:// or https://, and name a host.", param="engine_url"
        )


def _need(module: str, setting: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise UnsupportedFeature(
            feature=setting, remedy=f"Install foreword[{extra}].", param=setting
        )
