"""The real server's recorded answers against ours: one walker, the whole line, through the library.

The yardstick lies beside the checkout and is never part of it; without it these tests skip.
What differs on purpose is in `DEVIATIONS`, each with the reason that stands in docs/conformance.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foreword
from foreword.engines.vllm_generate import to_dict
from foreword.errors import ForewordError
from foreword.protocols.error_body import error_body

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
MODELS = (
    *("qwen3", "llama3_1", "deepseek_v3", "gemma3", "mistral_nemo"),
    *("deepseek_v32", "deepseek_v4", "gptoss"),
)
LOAD_OPTIONS: dict[str, dict[str, Any]] = {
    "mistral_nemo": {"tokenizer_mode": "mistral"},
    "deepseek_v32": {"tokenizer_mode": "deepseek_v32"},
    "deepseek_v4": {"tokenizer_mode": "deepseek_v4"},
    "gptoss": {"system_start_date": "2026-11-30"},  # the day of the recording
}
"""The options the real server had, by model."""
pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(not DATA.is_dir(), reason="no ../shared/data beside the checkout"),
]

RANDOM_PART = r"[0-9a-f]{16}|[0-9a-f-]{36}"
# Keys of vLLM's own bookkeeping, and values that mean the same as an absent key.
BOOKKEEPING = {
    "output_kind",
    "skip_clone",
    "skip_reading_prefix_cache",
    "output_text_buffer_length",
}
SAMPLING_DEFAULTS: dict[str, Any] = {
    "n": 1,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "stop": [],
    "stop_token_ids": [],
    "bad_words": [],
    "ignore_eos": False,
    "min_tokens": 0,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "detokenize": True,
    "include_stop_str_in_output": False,
}

Golden = dict[str, Any]
Expectation = Callable[[Golden, str], Golden]


def _refused(status: int, param: str | None) -> Expectation:
    body = {"error": {"type": "BadRequestError", "param": param, "code": status}}
    return lambda golden, model: {**golden, "status": status, "response": body}


def _as_if(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Expectation:
    """The answer must be ours to the same request said another way."""

    def expect(golden: Golden, model: str) -> Golden:
        twin = {**golden, "request": change(golden["request"])}
        status, response = _answer(twin, model)
        if status == 200 and response["parse_context"] is not None:
            choice = golden["request"].get("tool_choice", "none")
            response["parse_context"]["tool_choice"] = choice
        return {**golden, "status": status, "response": response}

    return expect


def _room_for(num_prompt_tokens: int) -> Expectation:
    """Room beside the whole prompt; the real server counted a cut that it does not make."""

    def expect(golden: Golden, model: str) -> Golden:
        response = json.loads(json.dumps(golden["response"]))
        room = _renderer(model).options.max_model_len - num_prompt_tokens
        response["sampling_params"]["max_tokens"] = room
        return {**golden, "response": response}

    return expect


def _with_json_arguments(request: dict[str, Any]) -> dict[str, Any]:
    twin = json.loads(json.dumps(request))
    for message in twin["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return dict(twin)


def _with_text_parts(request: dict[str, Any]) -> dict[str, Any]:
    twin = json.dumps(request).replace('"input_text"', '"text"')
    return dict(json.loads(twin))


DEVIATIONS: dict[str, Expectation] = {
    "comp-oov-id": _refused(400, "prompt"),
    "detok-oov": _refused(400, "tokens"),
    "tools-auto-unconfigured": _as_if(lambda request: {**request, "tool_choice": "none"}),
    "tools-required": _as_if(lambda request: {**request, "tool_choice": "none"}),
    "tools-named": _as_if(lambda request: {**request, "tool_choice": "none"}),
    "tools-call-object-args": _as_if(_with_json_arguments),
    "chat-content-part-input_text": _as_if(_with_text_parts),
    "deepseek_v32/chat-no-messages": _refused(400, None),
    "gptoss/budget-offsets-truncate-left": _room_for(72),
    "gptoss/tools-auto-unconfigured": lambda golden, model: golden,  # Harmony needs no parser
}
"""By a golden's name, or by model and name where only that model's answer differs."""


def _goldens() -> Iterator[tuple[str, str]]:
    for model in MODELS:
        for path in sorted((DATA / "golden" / model).glob("*.json")):
            yield model, path.stem


_RENDERERS: dict[str, foreword.Renderer] = {}


def _renderer(model: str) -> foreword.Renderer:
    if model not in _RENDERERS:
        options = LOAD_OPTIONS.get(model, {})
        if options.get("tokenizer_mode") == "mistral":
            pytest.importorskip("mistral_common", reason="needs the extra `mistral`")
        _RENDERERS[model] = foreword.load(
            str(DATA / "models" / model), served_model_name=model, **options
        )
    return _RENDERERS[model]


def _answer(golden: Golden, model: str) -> tuple[int, Any]:
    """Send the request down the library's line; give status and body as a server would."""
    renderer, path, request = _renderer(model), golden["path"], golden["request"]
    try:
        if path == "/tokenize":
            return 200, msgspec.to_builtins(_plain(renderer.tokenize(request)))
        if path == "/detokenize":
            return 200, msgspec.to_builtins(renderer.detokenize(request))
        kind = "chat" if "chat" in path else "completion"
        made = renderer.generate_request(request, kind=kind)
        return 200, [to_dict(one) for one in made] if isinstance(made, list) else to_dict(made)
    except ForewordError as error:
        return error.status, error_body(error)


def _plain(response: Any) -> dict[str, Any]:
    return {
        "count": response.count,
        "max_model_len": response.max_model_len,
        "tokens": list(response.tokens),
        "token_strs": response.token_strs,
    }


@pytest.mark.witness(
    family=(
        "mode:hf",
        "mode:mistral",
        "mode:deepseek_v32",
        "mode:deepseek_v4",
        "format:gpt_oss",
    ),
    what="status, ids, offsets, parameters and every other field of all recorded chat, completion, "
    "tokenize and detokenize answers",
    against="vLLM 0.33's render server",
)
@pytest.mark.parametrize(("model", "name"), list(_goldens()) if DATA.is_dir() else [])
def test_golden(model: str, name: str) -> None:
    golden = json.loads((DATA / "golden" / model / f"{name}.json").read_text())
    deviation = DEVIATIONS.get(f"{model}/{name}") or DEVIATIONS.get(name)
    if deviation is not None:
        golden = deviation(golden, model)
    status, response = _answer(golden, model)
    assert status == golden["status"], f"{response} instead of {golden['response']}"
    _compare(response, golden["response"], golden, model)


def _compare(ours: Any, theirs: Any, golden: Golden, model: str) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            _compare(one, other, golden, model)
        assert _bases(ours) == _bases(theirs)
        return
    if "error" in theirs:
        _compare_error(ours["error"], theirs["error"])
        return
    ids = "tokens" if "tokens" in theirs else "token_ids"
    if ids in theirs:
        _compare_ids(list(ours[ids]), theirs[ids], model)
    for key in theirs.keys() - {ids, "request_id", "sampling_params"}:
        assert _jsonable(ours[key]) == theirs[key], key
    if "request_id" in theirs:
        assert _prefix(ours["request_id"]) == _prefix(theirs["request_id"])
    if "sampling_params" in theirs:
        _compare_sampling(dict(ours["sampling_params"]), dict(theirs["sampling_params"]), golden)


def _compare_ids(ours: list[int], theirs: list[int], model: str) -> None:
    if ours == theirs:
        return
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    window = slice(max(0, at - 5), at + 6)
    decode = _renderer(model).tokenizer.decode
    pytest.fail(
        f"ids differ at {at} ({len(ours)} against {len(theirs)})\n"
        f"ours:   {ours[window]} {decode(ours[window])!r}\n"
        f"theirs: {theirs[window]} {decode(theirs[window])!r}"
    )


def _compare_error(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for key in ("type", "code"):
        assert ours[key] == theirs[key], (key, ours, theirs)
    assert _path(ours["param"]) == _path(theirs["param"]), (ours, theirs)


def _path(param: str | None) -> str | None:
    """`body.messages.0.ChatCompletionUserMessageParam.content` is `messages[0].content`."""
    if param is None:
        return None
    param = re.sub(r"\.\w+Param(?=\.|$)", "", param.removeprefix("body."))
    return re.sub(r"\.(\d+)", r"[\1]", param)


def _compare_sampling(ours: dict[str, Any], theirs: dict[str, Any], golden: Golden) -> None:
    request = golden["request"]
    if "max_tokens" not in theirs:
        # The real server omits a value at the declared default, 16; ours always writes it.
        explicit = request.get("max_tokens", request.get("max_completion_tokens", 16))
        theirs["max_tokens"] = explicit
    assert "max_tokens" in ours
    for key in (ours.keys() | theirs.keys()) - BOOKKEEPING:
        default = SAMPLING_DEFAULTS.get(key)
        assert ours.get(key, default) == theirs.get(key, default), key


def _bases(responses: list[Any]) -> list[int]:
    """Tell which responses share the random part of their ids, whatever it is."""
    ids = [re.search(RANDOM_PART, one["request_id"]) for one in responses]
    parts = [found[0] if found else "" for found in ids]
    return [parts.index(part) for part in parts]


def _prefix(request_id: str) -> str:
    return re.sub(RANDOM_PART, "*", request_id)


def _jsonable(value: Any) -> Any:
    return json.loads(json.dumps(value, default=list))
