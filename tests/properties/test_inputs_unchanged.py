"""What the caller passed in is never changed, and what the caller got back is the caller's own."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import line_models as line
from line_models import HARD, SPELLINGS, searching

from foreword.errors import ForewordError, TemplateRejected

texts = st.sampled_from(("", "Hello.", *HARD, *SPELLINGS))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(st.sampled_from(["a", "b", "type", "İ", "\x00"]), json_values)
parts = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "input_text"]), "text": texts}),
    st.fixed_dictionaries({"type": st.just("text"), "text": texts, "cache": json_objects}),
    st.fixed_dictionaries({"type": st.just("refusal"), "refusal": texts}),
)
contents = texts | st.none() | st.lists(parts, max_size=3)
tool_calls = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries(
            {
                "name": texts,
                "arguments": json_objects | st.sampled_from(['{"x": [1, {"y": 2}]}', "", "{", "3"]),
            }
        ),
    },
    optional={"id": texts, "index": st.integers(0, 9)},
)
messages = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": contents}),
    st.fixed_dictionaries(
        {"role": st.just("assistant")},
        optional={
            "content": contents,
            "tool_calls": st.lists(tool_calls, max_size=3),
            "reasoning": texts,
            "reasoning_content": texts | st.none(),
        },
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "content": contents}, optional={"tool_call_id": texts}
    ),
    st.fixed_dictionaries(
        {"role": st.just("developer"), "content": contents},
        optional={"tools": st.lists(json_objects, max_size=2)},
    ),
)
tools = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries(
            {"name": texts, "parameters": json_objects}, optional={"description": texts}
        ),
    }
)
chat_bodies = st.fixed_dictionaries(
    {"messages": st.lists(messages, min_size=1, max_size=4)},
    optional={
        "tools": st.lists(tools, min_size=1, max_size=2),
        "documents": st.lists(json_objects, max_size=2),
        "chat_template_kwargs": st.fixed_dictionaries(
            {}, optional={"enable_thinking": st.booleans(), "extra": json_objects}
        ),
        "stop": st.lists(texts, max_size=2),
        "truncate_prompt_tokens": st.integers(-1, 20),
        "unknown": json_objects,
    },
)
prompts = st.one_of(
    texts,
    st.lists(texts, min_size=1, max_size=3),
    st.lists(st.integers(0, 2815), min_size=1, max_size=9),
    st.lists(st.lists(st.integers(0, 2815), min_size=1, max_size=9), min_size=1, max_size=3),
)
CHAT_KEYS = ("messages", "tools", "chat_template_kwargs")


def spoil(value: Any) -> None:
    """Change everything a body holds, as deep as it goes."""
    inner = list(value.values()) if isinstance(value, dict) else list(value)
    for item in inner:
        if isinstance(item, dict | list):
            spoil(item)
    value.clear()
    if isinstance(value, dict):
        value["spoiled"] = True
    else:
        value.append("spoiled")


def attempt(action: Callable[[Any], Any], body: Any) -> Any:
    try:
        return action(body)
    except ForewordError:
        return None


def said_arguments(said: Any) -> list[Any]:
    """Return the arguments of every tool call, as the template is to see them."""
    calls = [call for message in said for call in message.get("tool_calls") or ()]
    return [as_object(call["function"]["arguments"]) for call in calls]


def as_object(arguments: Any) -> Any:
    if isinstance(arguments, str):
        return {"x": [1, {"y": 2}]} if "x" in arguments else {}
    return arguments


@searching(60)
@given(body=chat_bodies)
def test_chat_bodies(body: dict[str, Any]) -> None:
    renderer, before = line.model("demo"), deepcopy(body)
    pooling = {key: body[key] for key in CHAT_KEYS if key in body}
    answers = {
        "chat": attempt(renderer.render_chat, body),
        "generate": attempt(renderer.generate_request, body),
        "trace": attempt(renderer.trace, body),
        "count": attempt(renderer.tokenize, pooling),
        "pool": attempt(renderer.render_pooling, pooling),
    }
    assert body == before
    assert list(body) == list(before), "the keys keep their order"
    assert [list(one) for one in body["messages"]] == [list(one) for one in before["messages"]]
    if answers["chat"] is not None:
        assert said_arguments(answers["chat"].conversation.messages) == said_arguments(
            body["messages"]
        )
    kept = deepcopy(answers)
    spoil(body)
    assert answers == kept, "an answer shares nothing with the body"


@searching(40)
@given(body=chat_bodies)
def test_a_conversation_can_be_rendered_again(body: dict[str, Any]) -> None:
    renderer = line.model("demo")
    trace = attempt(renderer.trace, body)
    if trace is None:
        return
    before = deepcopy(trace.conversation)
    again = [renderer.to_text(trace.conversation) for _ in range(2)]
    assert again == [trace.rendered] * 2
    assert trace.conversation == before


@searching(60)
@given(prompt=prompts, extra=st.dictionaries(st.just("logit_bias"), st.just({"5": 1.0})))
def test_completion_and_pooling_bodies(prompt: Any, extra: dict[str, Any]) -> None:
    renderer = line.model("demo")
    body, pooling = {"prompt": prompt, **extra}, {"input": deepcopy(prompt)}
    before, pooling_before = deepcopy(body), deepcopy(pooling)
    answers = {
        "completion": attempt(renderer.render_cmpl, body),
        "generate": attempt(renderer.generate_request, body),
        "trace": attempt(renderer.trace, body),
        "pool": attempt(renderer.render_pooling, pooling),
    }
    assert (body, pooling) == (before, pooling_before)
    kept = deepcopy(answers)
    spoil(body)
    spoil(pooling)
    assert answers == kept


@pytest.mark.parametrize("typecode", ["I", "q"])
def test_an_array_of_ids_stays_the_callers(typecode: str) -> None:
    renderer, ids = line.model("demo"), array(typecode, [5, 6, 7])
    (one,) = renderer.render_cmpl({"prompt": ids})
    two, three = renderer.render_cmpl({"prompt": [ids, ids]})
    ids[0] = 99
    assert [list(each.token_ids) for each in (one, two, three)] == [[5, 6, 7]] * 3


@searching(40)
@given(ids=st.lists(st.integers(0, 2799), max_size=9))
def test_detokenize_bodies(ids: list[int]) -> None:
    body = {"tokens": ids}
    line.model("demo").detokenize(body)
    assert body == {"tokens": ids}
    assert body["tokens"] is ids


@pytest.mark.parametrize(
    "source",
    [
        "{% set _ = messages.append({'role': 'user'}) %}",
        "{% set _ = messages[0].update({'content': 'x'}) %}",
        "{% set _ = messages[0].content.clear() %}",
        "{% set _ = messages[0].pop('role') %}",
        "{% set _ = messages.sort() %}",
        "{% set messages[0].content = 'x' %}",
        "{% for m in messages %}{% set _ = m.setdefault('x', 1) %}{% endfor %}",
        "{% set _ = tools[0].function.parameters.update(x=1) %}",
    ],
)
def test_a_template_cannot_change_what_it_is_given(source: str) -> None:
    body = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "k": [1]}]}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}],
    }
    template = "{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}" + source
    before, renderer = deepcopy(body), line.load_with_template(template)
    with pytest.raises(ForewordError) as caught:
        renderer.render_chat(body)
    assert isinstance(caught.value, TemplateRejected) or caught.value.code == "template_failed"
    assert body == before
