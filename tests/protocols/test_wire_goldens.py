"""Answers of a real vLLM 0.33 render server, as far as they are decided without a tokenizer."""

from __future__ import annotations

import json
import re
from array import array
from pathlib import Path
from typing import Any

import pytest

from foreword.engines.vllm_generate import generate_request, to_dict, to_json
from foreword.errors import ForewordError
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.protocols.decode import decode_request
from foreword.protocols.error_body import error_body
from foreword.protocols.tokenize import DetokenizeRequest, TokenizeRequest
from foreword.sampling import complete_sampling, default_sampling_params
from foreword.types import EngineInput, Offsets

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
FOLDERS = ("qwen3", "llama3_1", "deepseek_v3", "gemma3")
REQUEST_TYPES: dict[str, Any] = {
    "/v1/chat/completions/render": ChatCompletionRequest,
    "/v1/completions/render": CompletionRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
}
# Decided by the conversation, the template, the model's format or the server's table of models.
DECIDED_LATER = re.compile(
    r"chat-(content-|no-messages|unknown-part|assistant-first|two-systems|unknown-role)"
    r"|tools-(call|result)|wrong-type-content|unknown-model|comp-suffix"
)
# Deliberate differences (each has its own test elsewhere).
ACCEPTED_HERE = {"tools-auto-unconfigured", "tools-required", "tools-named"}
# Of a Harmony chat vLLM checks no budget (nor keeps prompt and output within the context), and its
# parser wraps constraints into a tag of its own.
OTHERWISE_WITH_HARMONY = {
    "budget-offsets-truncate-left",
    "sampling-json-object",
    "sampling-structured-regex",
    "budget-max-tokens-over-context",
    "budget-truncate-10000000",
    "chat-request-template",
    "chat-template-kwarg-chat_template",
}
BOOKKEEPING = (
    "output_kind",
    "skip_clone",
    "skip_reading_prefix_cache",
    "output_text_buffer_length",
)

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(not (DATA / "golden").is_dir(), reason="no ../shared/data beside checkout"),
]


def goldens(status: int, folders: tuple[str, ...] = FOLDERS) -> list[Any]:
    found = []
    for folder in folders:
        for path in sorted((DATA / "golden" / folder).glob("*.json")):
            golden = json.loads(path.read_text("utf-8"))
            if (golden["status"] == 200) == (status == 200):
                found.append(pytest.param(folder, path.stem, golden, id=f"{folder}-{path.stem}"))
    return found


def read_json(folder: str, name: str) -> dict[str, Any]:
    path = DATA / "models" / folder / name
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return loaded


def max_model_len(folder: str) -> int:
    config = read_json(folder, "config.json")
    return int(config.get("text_config", config)["max_position_embeddings"])


def build(folder: str, golden: dict[str, Any], inputs: list[EngineInput]) -> list[Any]:
    """Decode the golden's request and build what the render server answers with."""
    limit = max_model_len(folder)
    body = json.dumps(golden["request"]).encode()
    request = decode_request(body, REQUEST_TYPES[golden["path"]], max_bytes=None)
    if isinstance(request, DetokenizeRequest):
        return [request]
    request.tokenize_params(max_model_len=limit)
    if not isinstance(request, CompletionRequest):
        request.chat_params()
    if isinstance(request, TokenizeRequest):
        return [request]
    defaults = default_sampling_params(read_json(folder, "generation_config.json"))
    built = []
    for index, engine_input in enumerate(inputs):
        sampling = complete_sampling(
            request, defaults, max_model_len=limit, num_prompt_tokens=len(engine_input.token_ids)
        )
        built.append(
            generate_request(
                engine_input,
                request,
                sampling,
                model=request.model,
                index=index if len(inputs) > 1 else None,
                is_harmony=folder == "gptoss",
            )
        )
    return built


def engine_input(answer: dict[str, Any]) -> EngineInput:
    spans = answer["token_offsets"]
    offsets = None
    if spans is not None:
        starts, stops = zip(*spans, strict=True)
        offsets = Offsets(starts=array("I", starts), stops=array("I", stops))
    return EngineInput(token_ids=array("I", answer["token_ids"]), offsets=offsets)


def same_path(ours: str | None, theirs: str | None) -> bool:
    def norm(path: str | None) -> list[str]:
        parts = re.findall(r"[^.\[\]]+", path or "")
        return [part for part in parts if part != "body"]

    return norm(ours) == norm(theirs)


@pytest.mark.parametrize(("folder", "name", "golden"), goldens(400))
def test_refusals(folder: str, name: str, golden: dict[str, Any]) -> None:
    if DECIDED_LATER.match(name) or (folder == "gemma3" and "alternate" in str(golden["response"])):
        pytest.skip("decided by the conversation, the template or the model table")
    ids = array("I", [] if name == "budget-truncate-0" else [1, 2])
    if name in ACCEPTED_HERE:
        built = build(folder, golden, [EngineInput(token_ids=ids)])
        assert built[0].parse_context["tool_choice"] == golden["request"]["tool_choice"]
        assert len(built[0].parse_context["tools"]) == len(golden["request"]["tools"])
        return
    with pytest.raises(ForewordError) as caught:
        build(folder, golden, [EngineInput(token_ids=ids)])
    ours, theirs = error_body(caught.value)["error"], golden["response"]["error"]
    assert (ours["type"], ours["code"]) == (theirs["type"], theirs["code"])
    assert same_path(ours["param"], theirs["param"]), (ours["param"], theirs["param"])
    assert ours["message"].endswith(".")


@pytest.mark.parametrize(("folder", "name", "golden"), goldens(200, (*FOLDERS, "gptoss")))
def test_answers(folder: str, name: str, golden: dict[str, Any]) -> None:
    if folder == "gptoss" and name in OTHERWISE_WITH_HARMONY:
        pytest.skip("Harmony chats are treated otherwise")
    answer = golden["response"]
    answers = answer if isinstance(answer, list) else [answer]
    if "token_ids" not in answers[0]:
        (request,) = build(folder, golden, [])
        assert isinstance(request, (TokenizeRequest, DetokenizeRequest))
        return
    built = build(folder, golden, [engine_input(one) for one in answers])
    assert len(built) == len(answers)
    for ours, theirs in zip(built, answers, strict=True):
        assert_same_request(to_dict(ours), theirs, named="request_id" in golden["request"])
        assert json.loads(to_json(ours)) == to_dict(ours)


def assert_same_request(ours: dict[str, Any], theirs: dict[str, Any], *, named: bool) -> None:
    assert ours.keys() == theirs.keys()
    our_id, their_id = ours["request_id"], theirs["request_id"]
    if named:
        assert our_id == their_id
    assert re.sub("[0-9a-f]{16}", "", our_id) == re.sub("[0-9a-f]{16}", "", their_id)
    for key in theirs.keys() - {"request_id", "sampling_params", "parse_context"}:
        assert ours[key] == theirs[key], key
    sampling = {"max_tokens": 16, **theirs["sampling_params"]}
    defaults = {"n": 1, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
    assert defaults | ours["sampling_params"] == defaults | sampling
    for key in BOOKKEEPING:
        assert ours["sampling_params"].get(key) == sampling.get(key), key
    ours_context, theirs_context = ours["parse_context"], theirs["parse_context"]
    assert ours_context == theirs_context
