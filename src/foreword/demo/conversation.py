"""The demo's request: an agent looks up why a request was refused, with tools and reasoning.

Rules of this file: the body is what an OpenAI-style client would post, nothing more; it exercises
every kind of message a template must place (system, tools, calls, results, reasoning, question).
"""

from __future__ import annotations

from typing import Any, Final

_GET_REQUEST: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "get_request",
        "description": "Look up a refused request by its id.",
        "parameters": {
            "type": "object",
            "properties": {
                "request_id": {"type": "string", "description": "The id from the error body."}
            },
            "required": ["request_id"],
        },
    },
}

_GET_MODEL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "get_model",
        "description": "Tell a model's context length and default number of output tokens.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "revision": {"type": "string", "enum": ["main", "canary"]},
            },
            "required": ["name"],
        },
    },
}


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


DEMO_REQUEST: Final[dict[str, Any]] = {
    "model": "foreword-demo",
    "messages": [
        {
            "role": "system",
            "content": "You help the operators of a fleet of language models. Be brief and exact.",
        },
        {"role": "user", "content": "Why was request req-4711 refused? Our client got a 400."},
        {
            "role": "assistant",
            "reasoning_content": "I need the request's numbers and the model's limits.",
            "content": "Let me look at the request and at the model.",
            "tool_calls": [
                _call("call-1", "get_request", '{"request_id": "req-4711"}'),
                _call("call-2", "get_model", '{"name": "foreword-demo", "revision": "main"}'),
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "call-1",
            "content": '{"num_prompt_tokens": 8000, "max_tokens": 512, "status": 400}',
        },
        {
            "role": "tool",
            "tool_call_id": "call-2",
            "content": '{"max_model_len": 8192, "default_max_tokens": 256}',
        },
        {
            "role": "assistant",
            "content": (
                "The prompt has 8000 tokens and the client asked for 512 more: 8512 in all, but "
                "the context holds 8192. Ask for at most 192 output tokens, or send less history."
            ),
        },
        {"role": "user", "content": "Merci ! Und wie viele Tokens sind das für „東京は晴れ 🌤️“?"},
    ],
    "tools": [_GET_REQUEST, _GET_MODEL],
    "tool_choice": "auto",
    "max_tokens": 256,
    "temperature": 0.2,
}
"""The body of a chat completion request."""
