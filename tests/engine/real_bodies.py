"""What the real engine is asked, by name: its path and its body.

Rules of this file: plain values; `GREEDY` goes beneath each of them.
"""

from __future__ import annotations

from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
GREEDY = {"model": "tiny", "temperature": 0, "return_token_ids": True}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "text": (COMPLETIONS, {"prompt": "hello world", "max_tokens": 12}),
    "ids": (COMPLETIONS, {"prompt": [5, 6, 7, 800, 2000], "max_tokens": 20}),
    "long": (COMPLETIONS, {"prompt": "count the tokens " * 500, "max_tokens": 9}),
    "chat": (
        CHAT,
        {"messages": [{"role": "user", "content": "How are you, 😀?"}], "max_tokens": 30},
    ),
    "penalties": (
        COMPLETIONS,
        {"prompt": "budget", "max_tokens": 60, "repetition_penalty": 1.3, "presence_penalty": 0.5},
    ),
    "two prompts": (COMPLETIONS, {"prompt": ["one", "two and three"], "max_tokens": 7}),
    "not these": (COMPLETIONS, {"prompt": "hello world", "max_tokens": 12, "bad_words": ["that"]}),
    "only these": (
        COMPLETIONS,
        {"prompt": "hello world", "max_tokens": 12, "allowed_token_ids": [2, 5, 97, 98]},
    ),
    "to the end": (
        COMPLETIONS,
        {"prompt": "hello world", "max_tokens": 12, "logit_bias": {"2": 100}},
    ),
    "a stop token": (
        COMPLETIONS,
        {"prompt": "hi", "max_tokens": 12, "stop_token_ids": [97], "logit_bias": {"97": 100}},
    ),
    "seeded": (
        COMPLETIONS,
        {"prompt": "dice", "max_tokens": 24, "temperature": 1.0, "seed": 11, "n": 3},
    ),
}
_TEXT = {"type": "string", "pattern": "[a-c]{2,4}"}
_SCHEMA = {
    "type": "object", "properties": {"a": {"type": "boolean"}, "b": _TEXT},
    "required": ["a", "b"], "additionalProperties": False,
}  # fmt: skip
_TAG = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "", "end": "!", "content": {
        "type": "json_schema", "json_schema": {"type": "boolean"},
    }},
}  # fmt: skip
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "choice": {"structured_outputs": {"choice": ['yes, "I"', "no\n\\", "中"]}},
    "json": {"structured_outputs": {"json": _SCHEMA, "disable_any_whitespace": True}},
    "json text": {"structured_outputs": {"json": '{"type": "boolean"}'}},
    "regex": {"structured_outputs": {"regex": "[0-9]{3}-(a|b)"}},
    "grammar": {"structured_outputs": {"grammar": 'root ::= ("x" | "yz") "."'}},
    "json_object": {"structured_outputs": {"json_object": True}},
    "json_schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": _SCHEMA}},
    },
    "structural_tag": {"response_format": _TAG},
}
BODIES |= {
    name: (
        CHAT,
        {"messages": [{"role": "user", "content": "yes?"}], "max_tokens": 60, **constraint},
    )
    for name, constraint in CONSTRAINTS.items()
}
RENDERED = ("text", "long", "chat", "penalties", "two prompts", "not these", "a stop token")
SCORED: dict[str, tuple[str, dict[str, Any]]] = {
    "scored text": (COMPLETIONS, {"prompt": "hello world", "max_tokens": 30, "logprobs": 3}),
    "chosen only": (COMPLETIONS, {"prompt": "hello 😀", "max_tokens": 12, "logprobs": 0}),
    "as ids": (
        COMPLETIONS,
        {"prompt": "hi", "max_tokens": 5, "logprobs": 2, "return_tokens_as_token_ids": True},
    ),
    "sampled": (
        COMPLETIONS,
        {
            "prompt": "dice", "max_tokens": 40, "logprobs": 5, "temperature": 1.5, "seed": 3,
            "n": 2, "top_p": 1,
        },
    ),
    "scored chat": (
        CHAT,
        {
            "messages": [{"role": "user", "content": "中文, 😀?"}], "max_tokens": 30,
            "logprobs": True, "top_logprobs": 4, "temperature": 1.5, "seed": 4,
        },
    ),
    "chat, chosen only": (
        CHAT,
        {
            "messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "logprobs": True,
            "return_tokens_as_token_ids": True,
        },
    ),
    "stopped": (
        COMPLETIONS,
        {"prompt": "hi", "max_tokens": 9, "stop_token_ids": [97], "logit_bias": {"97": 100},
         "logprobs": 1},
    ),
}  # fmt: skip
SCORED_OVER_ZMQ: dict[str, tuple[str, dict[str, Any]]] = {
    "a prompt of one": (
        COMPLETIONS, {"prompt": [40], "max_tokens": 3, "echo": True, "logprobs": 1},
    ),
    "the prompt's": (
        COMPLETIONS, {"prompt": "hello 😀 world", "max_tokens": 3, "prompt_logprobs": 2},
    ),
    "a chat's prompt": (
        CHAT,
        {
            "messages": [{"role": "user", "content": "中文, 😀?"}], "max_tokens": 3,
            "prompt_logprobs": 1,
        },
    ),
    "these ids": (
        COMPLETIONS,
        {"prompt": "hi", "max_tokens": 4, "logprobs": 1, "logprob_token_ids": [5, 97, 260]},
    ),
    "these ids in a chat": (
        CHAT,
        {
            "messages": [{"role": "user", "content": "x"}], "max_tokens": 4, "logprobs": True,
            "logprob_token_ids": [5, 97, 260],
        },
    ),
    "echo": (COMPLETIONS, {"prompt": "hello 😀", "max_tokens": 3, "logprobs": 2, "echo": True}),
    "echo alone": (COMPLETIONS, {"prompt": "hello", "max_tokens": 0, "logprobs": 2, "echo": True}),
    "echo as text": (
        COMPLETIONS,
        {"prompt": "hello", "max_tokens": 4, "echo": True, "return_token_ids": False},
    ),
    "echo alone, as text": (
        COMPLETIONS,
        {"prompt": ["a", "b c"], "max_tokens": 0, "echo": True, "return_token_ids": False},
    ),
}  # fmt: skip
