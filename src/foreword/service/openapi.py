"""The routes are listed here; their OpenAPI description and a page for people leave.

Rules of this file: schemas are the structs' own, so that they cannot disagree. The page is complete
in itself: no script, no font, nothing fetched from anywhere.
"""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any, NamedTuple

import msgspec

from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.tokenize import DetokenizeRequest, DetokenizeResponse
from foreword.service.work import CountableTokenizeRequest
from foreword.version import __version__


class _Path(NamedTuple):
    method: str
    path: str
    summary: str
    body: type[msgspec.Struct] | None = None
    answer: str | None = None


PATHS = (
    _Path(
        "post",
        "/v1/chat/completions/render",
        "Render a chat: the ids and parameters vLLM's /inference/v1/generate takes",
        ChatCompletionRequest,
        "GenerateRequest",
    ),
    _Path(
        "post",
        "/v1/completions/render",
        "Render one or more prompts: a list of generate requests",
        CompletionRequest,
        "GenerateRequests",
    ),
    _Path(
        "post",
        "/tokenize",
        "Tokens of a prompt or chat; count_only gives the number alone",
        CountableTokenizeRequest,
        "TokenizeResponse",
    ),
    _Path("post", "/detokenize", "Text of token ids", DetokenizeRequest, "DetokenizeResponse"),
    _Path("get", "/tokenizer_info", "The tokenizer's configuration; ?model= names which"),
    _Path("get", "/v1/models", "The served models and their context lengths"),
    _Path("get", "/v1/models/{model}", "One of them, by its name"),
    _Path("get", "/health", "200 while the process lives; needs no key"),
    _Path("get", "/ready", "200 when it takes work, else 503 and why; needs no key"),
    _Path("get", "/version", "The version of foreword"),
    _Path("get", "/metrics", "Counters and histograms in Prometheus' format"),
)

ANSWERING_PATHS = (
    _Path(
        "post",
        "/v1/chat/completions",
        "Have the engine answer a chat, whole or as a stream",
        ChatCompletionRequest,
    ),
    _Path(
        "post",
        "/v1/completions",
        "Have the engine continue one or more prompts, whole or as a stream",
        CompletionRequest,
    ),
)
"""Routes there are with an engine only."""

_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_ANSWERS: dict[str, Any] = {
    "GenerateRequest": {
        "type": "object",
        "required": ["request_id", "token_ids", "sampling_params"],
        "properties": {
            "request_id": {"type": "string"},
            "token_ids": _IDS,
            "token_offsets": {
                "type": ["array", "null"],
                "items": {"type": "array", "items": {"type": "integer"}},
            },
            "sampling_params": {"type": "object"},
            "features": {"type": ["object", "null"]},
            "model": {"type": ["string", "null"]},
            "parse_context": {"type": ["object", "null"]},
            "stream": {"type": "boolean"},
            "cache_salt": {"type": ["string", "null"]},
            "priority": {"type": "integer"},
            "kv_transfer_params": {"type": ["object", "null"]},
            "block_hashes": {
                "type": "object",
                "description": "With return_block_hashes: what the engine will call the blocks",
                "properties": {
                    "block_size": {"type": "integer"},
                    "algorithm": {"type": "string"},
                    "hashes": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
    "GenerateRequests": {
        "type": "array",
        "items": {"$ref": "#/components/schemas/GenerateRequest"},
    },
    "TokenizeResponse": {
        "type": "object",
        "required": ["count"],
        "properties": {
            "count": {"type": "integer"},
            "max_model_len": {"type": "integer"},
            "tokens": _IDS,
            "token_strs": {"type": ["array", "null"], "items": {"type": "string"}},
        },
    },
    "Error": {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"]},
                    "code": {"type": "integer"},
                },
            }
        },
    },
}


@cache
def openapi(*, has_engine: bool = False) -> dict[str, Any]:
    """Return the service's OpenAPI 3.1 description."""
    structs = [one.body for one in PATHS if one.body] + [DetokenizeResponse]
    _, components = msgspec.json.schema_components(
        structs, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for one in (*PATHS, *(ANSWERING_PATHS if has_engine else ())):
        paths.setdefault(one.path, {})[one.method] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "foreword", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**components, **_ANSWERS},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: _Path) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": one.summary,
        "responses": {
            "200": {"description": "Done", **(_content(one.answer) if one.answer else {})},
            "default": {"description": "Refused", **_content("Error")},
        },
    }
    if one.body is not None:
        made["requestBody"] = {"required": True, **_content(one.body.__name__)}
    return made


def _content(schema: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {"content": {"application/json": {"schema": reference}}}


def docs_page(description: dict[str, Any]) -> str:
    """Write the description as one HTML page."""
    sections = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            table = _fields(body["schema"], description) if body else ""
            sections.append(
                f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
                f"<p>{escape(operation['summary'])}.</p>{table}"
            )
    return _PAGE.format(version=escape(__version__), sections="\n".join(sections))


def _fields(schema: dict[str, Any], description: dict[str, Any]) -> str:
    struct = description["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    required = set(struct.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(field))}</td>"
        f"<td>{'required' if name in required else escape(_default(field))}</td></tr>"
        for name, field in struct["properties"].items()
    )
    return f"<table><tr><th>field</th><th>type</th><th>default</th></tr>{rows}</table>"


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"])
    if "$ref" in field:
        return str(field["$ref"].rsplit("/", 1)[1])
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    if field.get("type") == "array" and field.get("items"):
        return f"array of {_type(field['items'])}"
    return str(field.get("type", "any"))


def _default(field: dict[str, Any]) -> str:
    return msgspec.json.encode(field["default"]).decode() if "default" in field else ""


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>foreword {version}</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem }}
body {{ max-width: 60rem }}
table {{ border-collapse: collapse; width: 100% }}
td, th {{ text-align: left; border-bottom: 1px solid #ccc; padding: .2rem .6rem .2rem 0 }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd }} }}
</style>
<h1>foreword {version}</h1>
<p>What each route takes. The same as <a href="openapi.json">OpenAPI</a>.</p>
{sections}
</html>
"""
