"""The seam to the engine: one function, here or in a thread; nothing an engine would fail on."""

from __future__ import annotations

import asyncio
import threading
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.errors import InvalidRequest, InvalidTokenIds, PromptTooLong
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.sampling.params import SamplingParams
from foreword.service.executor import Executor
from foreword.service.input_processor import InputProcessor
from foreword.service.metrics import NullMetrics
from foreword.service.settings import Settings
from foreword.types import EngineInput

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def renderer() -> foreword.Renderer:
    folder = Path(foreword.__file__).parent / "demo" / "model"
    return foreword.load(str(folder), max_model_len=64)


@pytest.fixture
def processor(renderer: foreword.Renderer) -> InputProcessor:
    return InputProcessor(renderer, Executor(Settings(threads=1), NullMetrics()))


def test_a_chat_and_its_parameters(processor: InputProcessor, renderer: Any) -> None:
    request = ChatCompletionRequest(messages=MESSAGES, max_tokens=7, priority=3)
    (made,) = processor.process_inputs("r", request)
    assert made.engine_input.token_ids == renderer.render_chat(request).engine_input.token_ids
    assert (made.sampling.max_tokens, made.priority, made.external_id) == (7, 3, "r")
    assert made.request_id.startswith("r-")
    assert len(made.request_id) == len("r-") + 8


def test_the_same_id_twice_is_two_for_the_engine(processor: InputProcessor) -> None:
    request = ChatCompletionRequest(messages=MESSAGES)
    first, second = (processor.process_inputs("r", request)[0] for _ in range(2))
    assert first.external_id == second.external_id
    assert first.request_id != second.request_id


def test_several_prompts_are_numbered(processor: InputProcessor) -> None:
    made = processor.process_inputs("r", CompletionRequest(prompt=["a", "b"]))
    assert [one.external_id for one in made] == ["r-0", "r-1"]


def test_a_rendered_prompt_stays_as_it_is(processor: InputProcessor) -> None:
    prompt = EngineInput(token_ids=array("I", [1, 2]), arrival_time=5.0)
    sampling = SamplingParams(max_tokens=3)
    (made,) = processor.process_inputs("r", prompt, sampling, lora_name="adapter")
    assert made.engine_input == prompt
    assert made.sampling.max_tokens == 3
    assert made.sampling.eos_token_id is not None
    assert made.lora_name == "adapter"


@pytest.mark.parametrize(
    ("token_ids", "error"),
    [([], InvalidRequest), ([1] * 64, PromptTooLong), ([10**6], InvalidTokenIds)],
)
def test_what_an_engine_would_fail_on(
    processor: InputProcessor, token_ids: list[int], error: type[Exception]
) -> None:
    prompt = EngineInput(token_ids=array("I", token_ids))
    with pytest.raises(error):
        processor.process_inputs("r", prompt, SamplingParams())


def test_a_rendered_prompt_needs_parameters(processor: InputProcessor) -> None:
    with pytest.raises(InvalidRequest, match="sampling parameters"):
        processor.process_inputs("r", EngineInput(token_ids=array("I", [1])))


def test_only_what_must_be_rendered_leaves_the_loop(
    renderer: foreword.Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    original = InputProcessor.process_inputs

    def spy(self: InputProcessor, *args: Any, **further: Any) -> Any:
        threads.append(threading.get_ident())
        return original(self, *args, **further)

    monkeypatch.setattr(InputProcessor, "process_inputs", spy)

    async def test() -> None:
        executor = Executor(Settings(threads=1), NullMetrics())
        processor = InputProcessor(renderer, executor)
        request = ChatCompletionRequest(messages=MESSAGES)
        (made,) = await processor.process_inputs_async("r", request)
        rendered = replace(made.engine_input, arrival_time=1.0)
        (again,) = await processor.process_inputs_async("r", rendered, made.sampling)
        assert again.engine_input.token_ids == made.engine_input.token_ids
        await executor.close(1)

    asyncio.run(test())
    assert threads[0] != threading.get_ident()
    assert threads[1] == threading.get_ident()
