"""Every knob of the service, once: name, type, default, range, and the sentence that explains it.

Rules of this file: flags, environment, TOML file and the documentation are made from this table,
so a knob is one field here. A value is checked when `Settings` is made. No knob changes ids.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from foreword.errors import InvalidRequest
from foreword.media.audio import MAX_SECONDS
from foreword.media.headers import MAX_PIXELS
from foreword.service.adapters import check_adapters

MIB = 2**20
MAX_DEFAULT_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """What a field's metadata hold under `knob`. `low` and `high` are allowed values."""

    group: str
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_secret: bool = False


def _knob(
    default: Any,
    group: str,
    help: str,  # noqa: A002
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    is_secret: bool = False,
) -> Any:
    knob = Knob(group=group, help=help, low=low, high=high, choices=choices, is_secret=is_secret)
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata={"knob": knob})
    return field(default=default, metadata={"knob": knob})


def _limit(default: int, help: str) -> Any:  # noqa: A002
    return _knob(default, "limits", help, low=1, high=2**40)


def _seconds(default: float, help: str) -> Any:  # noqa: A002
    return _knob(default, "deadlines", help, high=86_400)


def _media_limit(default: int, help: str) -> Any:  # noqa: A002
    return _knob(default, "media", help, low=1, high=2**40)


def _media_seconds(default: float, help: str) -> Any:  # noqa: A002
    return _knob(default, "media", help, low=0.1, high=3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The service's settings. Sizes are bytes, durations seconds; 0 or less disables a deadline.

    Raises: `InvalidRequest` naming the setting and what it may be.
    """

    # -- what is served
    models: tuple[str, ...] = _knob(
        (), "models", "models to serve: a folder or hub id each, or NAME=MODEL to name it"
    )
    aliases: tuple[str, ...] = _knob(
        (), "models", "further names, each ALIAS=NAME (with one model, ALIAS alone will do)"
    )
    revision: str | None = _knob(None, "models", "the hub revision of every model")
    tokenizer_mode: str = _knob(
        "auto", "models", "auto, or a mode of the tokenizer registry: hf, mistral …"
    )
    trust_remote_code: bool = _knob(
        False,
        "security",
        "let tokenizer code that a model brings run, where none of its files can be read without;"
        " needs foreword[transformers]",
    )
    system_start_date: str | None = _knob(
        None,
        "models",
        "the current date, as 2026-11-30, told to models whose chat format tells one (gpt-oss);"
        " by default each day's own",
    )
    max_model_len: int | None = _knob(
        None, "models", "context length in tokens; by default what the model's files say", low=1
    )
    runner: Literal["generate", "pooling"] = _knob(
        "generate",
        "models",
        "what the engine does with prompts; decides the default side of truncation",
        choices=("generate", "pooling"),
    )
    chat_template: str | None = _knob(
        None, "models", "name or source of the chat template that replaces the model's own"
    )
    chat_template_content_format: Literal["auto", "string", "openai"] = _knob(
        "auto",
        "models",
        "how the template is given message content",
        choices=("auto", "string", "openai"),
    )
    default_chat_template_kwargs: Mapping[str, Any] = _knob(
        {}, "models", "template variables used where a request gives none, as a JSON object"
    )
    exclude_tools_when_tool_choice_none: bool = _knob(
        False, "models", 'hide tools from the template when tool_choice is "none"'
    )
    accelerated: Literal["auto", "on", "off"] = _knob(
        "auto",
        "models",
        "the accelerated tokenizer engine: on refuses to start without it, auto uses it when"
        " it is installed and admitted",
        choices=("auto", "on", "off"),
    )
    memo_bytes: int = _knob(
        32 * MIB, "models", "memory for remembered prompts, for each model; 0 remembers nothing",
        low=0,
    )  # fmt: skip
    warm_up: bool = _knob(True, "models", "render once before the service calls itself ready")

    # -- where it listens
    host: str = _knob("127.0.0.1", "network", "address to listen on")
    port: int = _knob(8000, "network", "port to listen on; 0 takes a free one", low=0, high=65_535)
    tls_certificate_file: str | None = _knob(None, "network", "PEM file of the certificate chain")
    tls_key_file: str | None = _knob(None, "network", "PEM file of the certificate's key")
    tls_ca_file: str | None = _knob(
        None, "network", "PEM file of the authority client certificates must be signed by"
    )
    keep_alive_seconds: float = _knob(
        5.0, "network", "how long an idle connection is kept", low=1, high=3600
    )
    max_connections: int = _knob(
        4096, "network", "connections served at a time; more are answered 503", low=1
    )
    api_keys: tuple[str, ...] = _knob(
        (),
        "security",
        "keys of which every request must bear one, except /health and /ready",
        is_secret=True,
    )
    trust_request_chat_template: bool = _knob(
        False, "security", "accept a chat template that comes with the request"
    )
    tokenizer_info: bool = _knob(
        True, "security", "answer /tokenizer_info, which shows the chat template"
    )
    log_prompts: bool = _knob(False, "security", "write prompts into the log, at level debug")

    # -- media that a request points to
    media_fetch: bool = _knob(
        False, "media", "fetch media from http: and https: URLs; needs foreword[media]"
    )
    media_hosts: tuple[str, ...] = _knob(
        (),
        "media",
        "the only hosts to fetch from, each HOST (ports 80 and 443) or HOST:PORT; none: every"
        " host on the public internet, at ports 80 and 443",
    )
    media_private_hosts: tuple[str, ...] = _knob(
        (), "media", "hosts to fetch from although their address is not public, written likewise"
    )
    media_folder: str | None = _knob(
        None, "media", "folder below which file: URLs are read; none: they are refused"
    )
    max_media_items: int = _knob(128, "media", "media items of a request", low=1, high=10_000)
    max_media_bytes: int = _media_limit(64 * MIB, "bytes of a media item, as it was encoded")
    max_media_request_bytes: int = _media_limit(256 * MIB, "bytes of all media items of a request")
    max_image_pixels: int = _media_limit(MAX_PIXELS, "pixels an image may declare")
    max_media_request_pixels: int = _media_limit(
        MAX_PIXELS, "pixels all images of a request may declare"
    )
    max_audio_seconds: float = _knob(
        MAX_SECONDS, "media", "duration an audio file may declare", low=0.1, high=86_400
    )
    max_media_redirects: int = _knob(
        3, "media", "redirects that are followed, each checked like the first URL", low=0, high=10
    )
    max_media_fetches: int = _knob(
        32, "media", "media items a process fetches at a time; others wait", low=1, high=1024
    )
    media_connect_deadline_seconds: float = _media_seconds(
        3.0, "time to look a host up, and to connect to it"
    )
    max_images: int | None = _knob(
        None, "media", "images of a request; by default max_media_items; 0: none are taken",
        low=0, high=10_000,
    )  # fmt: skip
    max_audio_clips: int | None = _knob(
        None, "media", "audio clips of a request, likewise", low=0, high=10_000
    )
    max_videos: int | None = _knob(
        None, "media", "videos of a request, likewise", low=0, high=10_000
    )
    media_output: Literal["features", "content_parts"] = _knob(
        "features",
        "media",
        "what the chat render route answers: expanded ids, hashes and places, for an engine that"
        " holds the items, or ids with one placeholder an item and the items, which it expands",
        choices=("features", "content_parts"),
    )
    media_placeholder_text: Literal["text", "refuse"] = _knob(
        "text",
        "media",
        "what a placeholder becomes that a user typed beside media: ordinary text, or an error",
        choices=("text", "refuse"),
    )
    media_naming: Literal["sha256", "vllm"] = _knob(
        "sha256",
        "media",
        "how items are named: by the sha256 of their bytes, or images as vLLM names them (its own"
        " hash, so that block hashes agree)",
        choices=("sha256", "vllm"),
    )
    media_naming_model: str | None = _knob(
        None, "media", "for vllm: the engine's --model; by default the model as it is given here"
    )
    media_naming_algorithm: Literal["blake3", "sha256", "sha512"] = _knob(
        "blake3",
        "media",
        "for vllm: the engine's mm_hasher_algorithm; blake3 needs foreword[hashes]",
        choices=("blake3", "sha256", "sha512"),
    )
    media_trust_uuids: bool = _knob(
        False,
        "media",
        "take a client's uuid as an item's name as it is; otherwise it counts together with the"
        " client's key and cache_salt, so that no client reads what another has cached",
    )
    media_tolerated_keys: tuple[str, ...] = _knob(
        (), "media", "keys of processor files that are known not to change token counts"
    )
    media_read_deadline_seconds: float = _media_seconds(5.0, "time a host may be silent")
    media_deadline_seconds: float = _media_seconds(30.0, "time for all media items of a request")

    # -- the engine that answers
    engine_zmq: tuple[str, ...] = _knob(
        (),
        "engine",
        "be the front end of vLLM engines: the address where they say hello"
        " (tcp://127.0.0.1:5570), or input=ADDRESS and output=ADDRESS; needs foreword[zmq]",
    )
    engine_url: str | None = _knob(
        None, "engine", "send to a vLLM server's /inference/v1/generate; needs foreword[http]"
    )
    engine_api_key: str | None = _knob(
        None, "engine", "the key that the engine's server wants", is_secret=True
    )
    num_engines: int = _knob(
        1, "engine", "engines to wait for before requests are taken (ZMQ)", low=1, high=65_536
    )
    engine_client_index: int = _knob(
        0, "engine", "this front end's place among those the engines serve (ZMQ)", low=0,
        high=65_535,
    )  # fmt: skip
    num_engine_clients: int = _knob(
        1, "engine", "front ends the engines serve (ZMQ)", low=1, high=65_536
    )
    max_engine_requests: int = _knob(
        1024, "engine", "answers in the making; more requests are answered 503", low=1,
        high=1_000_000,
    )  # fmt: skip
    engine_silence_seconds: float = _knob(
        300.0, "engine", "silence of a working engine after which it is given up; 0: never",
        low=0, high=86_400,
    )  # fmt: skip
    allow_unknown_engine_version: bool = _knob(
        False, "engine", "speak to an engine whose version's wire format is not known (ZMQ)"
    )
    engine_structured_outputs_backend: str = _knob(
        "auto", "engine",
        "the engine's own --structured-outputs-config.backend (ZMQ); auto: xgrammar",
        choices=("auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"),
    )  # fmt: skip
    max_logprobs: int = _knob(
        20, "engine", "the engine's own --max-logprobs; -1: the whole vocabulary", low=-1
    )
    max_media_tokens: int | None = _knob(
        None, "engine", "embeddings of one media item that the engine's encoder cache holds", low=1
    )

    # -- what the engine calls a prompt's blocks
    hash_block_size: int | None = _knob(
        None,
        "block hashes",
        "tokens of a block in the engine's prefix cache (its block_size, times its decode context"
        " parallel size); lets requests ask for return_block_hashes",
        low=1,
        high=2**20,
    )
    hash_algorithm: Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] = _knob(
        "sha256",
        "block hashes",
        "the engine's --prefix-caching-hash-algo; all but sha256 need foreword[hashes]",
        choices=("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"),
    )
    hash_seed: str | None = _knob(
        None, "block hashes", "the PYTHONHASHSEED the engine was started with, if it was"
    )
    hash_lora_adapters: tuple[str, ...] = _knob(
        (),
        "block hashes",
        "the engine's adapters, each NAME=PATH as the engine was given it: further names of the"
        " one model, with block hashes of their own",
    )

    # -- how much at a time
    workers: int = _knob(1, "concurrency", "processes that share the port", low=1, high=256)
    threads: int = _knob(
        0,
        "concurrency",
        f"rendering threads of a process; 0: one per processor, at most {MAX_DEFAULT_THREADS}",
        low=0,
        high=256,
    )
    max_queued: int = _knob(
        256, "concurrency", "requests that may wait for a thread; more are answered 503", low=1,
        high=1_000_000,
    )  # fmt: skip
    inline_max_size: int | None = _knob(
        None,
        "concurrency",
        "bytes of body up to which a request is rendered on the event loop; 0: never, none: 4096,"
        " or 65536 where every model has its fast tokenizer",
        low=0,
        high=MIB,
    )
    max_abandoned: int = _knob(
        8,
        "concurrency",
        "replaced threads still running, above which the service is not ready",
        low=0,
    )

    # -- how long
    render_deadline_seconds: float = _seconds(30.0, "time a request may render, queue not counted")
    queue_deadline_seconds: float = _seconds(10.0, "time a request may wait for a thread")
    body_deadline_seconds: float = _seconds(30.0, "time a client may take to send its request")
    stuck_grace_seconds: float = _knob(
        5.0,
        "deadlines",
        "time after the render deadline at which a thread that still runs is replaced",
        low=0,
        high=3600,
    )
    drain_seconds: float = _knob(
        1.0,
        "deadlines",
        "time between being told to stop and closing the port: /ready answers 503 already",
        low=0,
        high=3600,
    )
    shutdown_deadline_seconds: float = _knob(
        30.0, "deadlines", "time that accepted requests get to end at shutdown", low=0, high=3600
    )

    # -- how large
    max_body_bytes: int = _limit(32 * MIB, "bytes of a request's body")
    max_messages: int = _limit(10_000, "messages of a chat")
    max_parts: int = _limit(20_000, "content parts of a chat, all messages together")
    max_tools_bytes: int = _limit(4 * MIB, "bytes of a chat's tools, as JSON")
    max_prompts: int = _knob(1024, "limits", "prompts of one completion request", low=1, high=1024)
    max_prompt_chars: int = _limit(32 * MIB, "characters of a chat's messages, or of a prompt")
    max_uncut_chars: int = _limit(
        1_000_000, "characters of a stretch that can't be cut, which one call must tokenize"
    )
    max_detokenize_tokens: int = _limit(300_000, "token ids of a /detokenize request")
    max_template_output_chars: int = _limit(32 * MIB, "characters a chat template may write")
    max_template_work: int = _limit(4_000_000, "steps a chat template may take")
    max_json_containers: int = _limit(100_000, "objects and arrays of a body")
    max_json_members: int = _limit(200_000, "named values of a body's objects")
    max_json_values: int = _limit(300_000, "values of a body; a token id is one")
    max_nesting: int = _knob(
        200, "limits", "arrays and objects of a body inside each other", low=2, high=200
    )

    # -- what it tells
    metrics: bool = _knob(True, "observability", "count, and answer /metrics")
    tracing: bool = _knob(False, "observability", "make OpenTelemetry spans; needs foreword[otel]")
    docs: bool = _knob(True, "observability", "answer /docs and /openapi.json")
    log_level: Literal["debug", "info", "warning", "error"] = _knob(
        "info", "observability", "least level that is logged",
        choices=("debug", "info", "warning", "error"),
    )  # fmt: skip
    log_format: Literal["json", "text"] = _knob(
        "json", "observability", "one JSON object a line, or key=value", choices=("json", "text")
    )
    log_requests: bool = _knob(False, "observability", "log one line for every request")

    def __post_init__(self) -> None:
        for spec in fields(self):
            _check(spec.name, getattr(self, spec.name), spec.metadata["knob"])
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise InvalidRequest(
                "tls_certificate_file and tls_key_file belong together; give both or none.",
                param="tls_key_file",
            )

        if self.tls_ca_file is not None and self.tls_certificate_file is None:
            raise InvalidRequest(
                "tls_ca_file checks the certificates of clients, which needs"
                " tls_certificate_file and tls_key_file.",
                param="tls_ca_file",
            )
        self._check_secrets()
        self._check_engine()
        check_adapters(self)

    def _check_secrets(self) -> None:
        """Refuse empty keys: everybody has one, and most come from a variable that is not set."""
        for name, keys in (("api_keys", self.api_keys), ("engine_api_key", (self.engine_api_key,))):
            if any(key is not None and not key.strip() for key in keys):
                raise InvalidRequest(
                    f"{name} holds an empty key. Give a key, or leave the setting out altogether"
                    " to do without.",
                    param=name,
                )

    def _check_engine(self) -> None:
        if not self.has_engine:
            return
        for name, is_wrong, why in (
            (
                "engine_url",
                self.engine_url is not None and bool(self.engine_zmq),
                "it and engine_zmq exclude each other",
            ),
            ("models", len(self.models) > 1, "an engine answers for one model; name one only"),
            ("workers", self.workers > 1 and bool(self.engine_zmq), "engine_zmq needs workers = 1"),
            ("runner", self.runner != "generate", "an engine needs runner = generate"),
            (
                "engine_client_index",
                self.engine_client_index >= self.num_engine_clients,
                "it must be below num_engine_clients",
            ),
        ):
            if is_wrong:
                raise InvalidRequest(f"The setting {name} can't be: {why}.", param=name)

    @property
    def has_engine(self) -> bool:
        """Whether requests are answered, and not only rendered."""
        return bool(self.engine_zmq) or self.engine_url is not None

    @property
    def num_threads(self) -> int:
        """Rendering threads of this process, 0 resolved."""
        return self.threads or min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)


def _check(name: str, value: Any, knob: Knob) -> None:
    if knob.choices and value not in knob.choices:
        raise bad_setting(name, value, knob)
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return
    too_low = knob.low is not None and not value >= knob.low
    if too_low or (knob.high is not None and not value <= knob.high):
        raise bad_setting(name, value, knob)


def bad_setting(name: str, value: object, knob: Knob, *, kind: str = "") -> InvalidRequest:
    """Make the error of a setting's value: its name, the value, and what is allowed."""
    shown = "the given value" if knob.is_secret else repr(value)
    return InvalidRequest(
        f"{name} is {shown}; it must be {allowed(knob, kind) or 'something else'}.", param=name
    )


def allowed(knob: Knob, kind: str = "") -> str:
    """Say what a knob accepts: its kind, then its range or its choices."""
    if knob.choices:
        return "one of " + ", ".join(knob.choices)
    words = kind
    if knob.low is not None and knob.high is not None:
        words += f" from {knob.low:.15g} to {knob.high:.15g}"
    elif knob.low is not None:
        words += f" of at least {knob.low:.15g}"
    elif knob.high is not None:
        words += f" of at most {knob.high:.15g}"
    return words.strip()
