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
from foreword.service.input_processor import EngineLimits, InputProcessor, child_requests
from foreword.service.metrics import NullMetrics
from foreword.service.settings import Settings
from foreword.types import EngineInput, MediaSpan

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


def test_the_numbers_of_a_prompt_that_just_does_not_fit(processor: InputProcessor) -> None:
    sampling = SamplingParams(max_tokens=None)
    (made,) = processor.process_inputs("r", EngineInput(token_ids=array("I", [1] * 63)), sampling)
    assert made.sampling.max_tokens == 1
    for num in (64, 65):
        with pytest.raises(PromptTooLong) as raised:
            processor.process_inputs("r", EngineInput(token_ids=array("I", [1] * num)), sampling)
        assert (raised.value.details["num_tokens"], raised.value.details["max_tokens"]) == (num, 63)


def test_parameters_are_completed_by_the_models_files(processor: InputProcessor) -> None:
    prompt = EngineInput(token_ids=array("I", [1]))
    given = SamplingParams(stop_token_ids=(9,), bad_words=("the",), max_tokens=5)
    (made,) = processor.process_inputs("r", prompt, given)
    assert made.sampling.eos_token_id == 2
    assert made.sampling.stop_token_ids == (9, 0)  # the generation config lists 2 and 0
    assert made.sampling.all_stop_token_ids == {0, 2, 9}
    assert made.sampling.bad_words_token_ids
    (made,) = processor.process_inputs("r", prompt, given.replace(ignore_eos=True))
    assert (made.sampling.eos_token_id, made.sampling.stop_token_ids) == (None, (9,))
    assert made.sampling.all_stop_token_ids == {0, 2, 9}


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        ({"logprobs": 21}, "logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"allowed_token_ids": ()}, "allowed_token_ids"),
        ({"allowed_token_ids": (10**6,)}, "allowed_token_ids"),
        ({"stop_token_ids": (-1,)}, "stop_token_ids"),
        ({"logit_bias": {2816: 1.0}}, "logit_bias"),
        ({"logprob_token_ids": tuple(range(129))}, "logprob_token_ids"),
    ],
)
def test_parameters_an_engine_would_refuse(
    processor: InputProcessor, sampling: dict[str, Any], param: str
) -> None:
    with pytest.raises((InvalidRequest, InvalidTokenIds)) as raised:
        processor.process_inputs(
            "r", EngineInput(token_ids=array("I", [1])), SamplingParams(**sampling)
        )
    assert raised.value.param == param


def test_a_media_item_over_the_encoders_budget(renderer: foreword.Renderer) -> None:
    executor = Executor(Settings(threads=1), NullMetrics())
    processor = InputProcessor(renderer, executor, EngineLimits(max_media_tokens=4))
    # Of six tokens, five are embeddings; then four.
    for mask, is_refused in ((((5, True), (1, False)), True), (((4, True), (2, False)), False)):
        span = MediaSpan(modality="image", index=0, start=1, stop=7, identity="h", is_embed=mask)
        prompt = EngineInput(token_ids=array("I", [1] * 9), media_features=(span,))
        if is_refused:
            with pytest.raises(InvalidRequest, match="image 0 takes 5 embeddings"):
                processor.process_inputs("r", prompt, SamplingParams())
        else:
            assert len(processor.process_inputs("r", prompt, SamplingParams())) == 1


def test_one_request_for_each_answer(processor: InputProcessor) -> None:
    prompt = EngineInput(token_ids=array("I", [1]))
    (parent,) = processor.process_inputs("r", prompt, SamplingParams(n=3, seed=4))
    children = child_requests(parent)
    assert [child.request_id for child in children] == [
        f"{index}_{parent.request_id}" for index in range(3)
    ]
    assert [(child.sampling.n, child.sampling.seed) for child in children] == [
        (1, 4), (1, 5), (1, 6),
    ]  # fmt: skip
    assert {child.external_id for child in children} == {"r"}
    (alone,) = processor.process_inputs("r", prompt, SamplingParams(seed=4))
    assert child_requests(alone) == [alone]
    (unseeded,) = processor.process_inputs("r", prompt, SamplingParams(n=2))
    assert [child.sampling.seed for child in child_requests(unseeded)] == [None, None]
