"""Entering the line at a later station, with the value `trace` kept there, gives the same end."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import line_models as line
from line_models import KINDS, searching, texts

from foreword.errors import RequestError
from foreword.renderer import Renderer
from foreword.trace import Trace
from foreword.types import EngineInput

roles = st.sampled_from(["user", "assistant", "tool"])
turns = st.lists(st.tuples(roles, texts), min_size=1, max_size=4).map(
    lambda said: [{"role": role, "content": content} for role, content in said]
)
budgets = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(1, 9),
        "truncate_prompt_tokens": st.none() | st.integers(-1, 12),
        "truncation_side": st.sampled_from([None, "left", "right"]),
        "return_token_offsets": st.booleans(),
        "add_special_tokens": st.booleans(),
        "cache_salt": st.none() | st.just("tenant"),
        "echo": st.booleans(),
    }
)
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]


def bare(engine_input: EngineInput) -> EngineInput:
    """Leave out what belongs to the request and not to the prompt."""
    return replace(engine_input, cache_salt=None, arrival_time=0.0)


def attempt(action: Callable[[Any], Any], body: Any) -> Any:
    """Return what an action gives, or the error it raised on purpose."""
    try:
        return action(body)
    except RequestError as error:
        return error


def check_later_stations(renderer: Renderer, trace: Trace) -> None:
    assert trace.rendered is not None
    assert trace.tokens.offsets is not None
    assert len(trace.tokens.offsets) == len(trace.tokens.token_ids)
    tokens = renderer.to_tokens(trace.rendered, trace.params, with_offsets=True, count_in_full=True)
    assert tokens == trace.tokens
    end = renderer.to_engine_input(trace.tokens, trace.params, rendered=trace.rendered)
    assert end == bare(trace.engine_input)
    without_text = renderer.to_engine_input(trace.tokens, trace.params)
    assert replace(without_text, prompt=None) == replace(end, prompt=None)
    # Stopping early, as serving does, changes the counts it tells of but no id and no offset.
    short = renderer.to_tokens(trace.rendered, trace.params)
    brief = renderer.to_engine_input(short, trace.params, rendered=trace.rendered)
    assert (brief.token_ids, brief.offsets, brief.prompt) == (
        end.token_ids,
        end.offsets,
        end.prompt,
    )
    assert pickle.loads(pickle.dumps(tokens)) == tokens
    assert pickle.loads(pickle.dumps(end)) == end


def check_prompt_text(renderer: Renderer, trace: Trace) -> None:
    end = trace.engine_input
    if not trace.params.needs_detokenization:
        assert end.prompt is None
    elif end.num_truncated:
        assert end.prompt == renderer.tokenizer.decode(end.token_ids)
    else:
        assert trace.rendered is not None
        assert end.prompt == trace.rendered.text


@pytest.mark.parametrize("kind", KINDS)
@searching(25)
@given(messages=turns, settings=budgets, with_tools=st.booleans(), room=st.sampled_from([12, 9999]))
def test_a_chat(
    kind: str,
    messages: list[dict[str, Any]],
    settings: dict[str, Any],
    with_tools: bool,
    room: int,
) -> None:
    renderer = line.model(kind, room)
    body = {"messages": messages, **settings}
    if with_tools:
        body["tools"] = TOOLS
    trace = attempt(renderer.trace, body)
    if isinstance(trace, RequestError):
        again = attempt(renderer.render_chat, body)
        assert (again.code, again.param) == (trace.code, trace.param)
        return
    assert trace.kind == "chat"
    assert trace.conversation is not None
    assert trace.template is not None
    assert renderer.to_text(trace.conversation) == trace.rendered
    assert renderer.to_text(trace.conversation, trace.template) == trace.rendered
    assert pickle.loads(pickle.dumps(trace.conversation)) == trace.conversation
    check_later_stations(renderer, trace)
    check_prompt_text(renderer, trace)
    conversation, engine_input = renderer.render_chat(body)
    assert conversation == trace.conversation
    assert engine_input.token_ids == trace.engine_input.token_ids
    assert engine_input.cache_salt == trace.engine_input.cache_salt == settings["cache_salt"]


@pytest.mark.parametrize("kind", KINDS)
@searching(25)
@given(
    prompts=st.lists(texts.filter(bool), min_size=1, max_size=3),
    settings=budgets,
    room=st.sampled_from([12, 9999]),
    data=st.data(),
)
def test_a_completion(
    kind: str, prompts: list[str], settings: dict[str, Any], room: int, data: st.DataObject
) -> None:
    renderer = line.model(kind, room)
    body = {"prompt": prompts, **settings}
    index = data.draw(st.integers(0, len(prompts) - 1))
    try:
        rendered = renderer.render_cmpl(body)
    except RequestError:
        return
    trace = renderer.trace(body, prompt_index=index)
    assert trace.kind == "completion"
    assert trace.conversation is None
    assert trace.template is None
    assert trace.rendered is not None
    assert trace.rendered.text == prompts[index]
    check_later_stations(renderer, trace)
    check_prompt_text(renderer, trace)
    assert len(rendered) == len(prompts)
    assert rendered[index].token_ids == trace.engine_input.token_ids
    assert rendered[index].offsets == trace.engine_input.offsets


@searching(40)
@given(ids=st.lists(st.integers(0, 2815), min_size=1, max_size=30), settings=budgets)
@example(
    ids=[5] * 20,
    settings={"max_tokens": 1, "truncate_prompt_tokens": 3, "echo": True},
)
def test_given_ids_join_the_line_at_their_station(ids: list[int], settings: dict[str, Any]) -> None:
    renderer = line.model("demo", 64)
    if settings["truncate_prompt_tokens"] == 0:
        return
    trace = renderer.trace({"prompt": ids, **settings})
    assert (trace.conversation, trace.rendered) == (None, None)
    assert list(trace.tokens.token_ids) == ids
    end = renderer.to_engine_input(trace.tokens, trace.params)
    assert end == bare(trace.engine_input)
    assert end.offsets is None
    wants_text = settings["echo"]
    assert end.prompt == (renderer.tokenizer.decode(end.token_ids) if wants_text else None)


@searching(30)
@given(text=texts, tail=st.sampled_from(["", " ", "  ", "\n", " \n\t"]))
def test_a_continued_message_ends_where_it_ends(text: str, tail: str) -> None:
    renderer = line.model("demo")
    body = {
        "messages": [
            {"role": "user", "content": text + "x" + tail},
            {"role": "assistant", "content": text + "x" + tail},
        ],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    trace = renderer.trace(body)
    assert trace.rendered is not None
    assert trace.conversation is not None
    turn = f"{text}x{tail}"
    written = f"<|im_start|>user\n{turn}<|im_end|>\n<|im_start|>assistant\n{turn}"
    assert trace.rendered.text == written
    assert renderer.to_text(trace.conversation) == trace.rendered
    check_later_stations(renderer, trace)
