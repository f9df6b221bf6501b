"""Where tokens went, how far a request came, and what is odd, on templates of every habit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foreword
from foreword.demo import DEMO_REQUEST, model_folder
from foreword.diagnosis import STATIONS, count_tool_tokens, find_oddities, find_parts, walk
from foreword.diagnosis.parts import MAX_PARTS, common_length
from foreword.errors import InvalidRequest, PromptTooManyChars

CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Two.", "reasoning_content": "after one comes two"},
        {"role": "user", "content": "Three?"},
    ]
}
TOOL = {"type": "function", "function": {"name": "sum", "parameters": {"type": "object"}}}
FORGETFUL = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}"
    "{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content and loop.index0 > ns.last %}"
    "<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Drops the reasoning of turns that a user answered, so no beginning is one of the whole."""
TOOLS_LATE = (
    "{% for m in messages %}{% if tools and loop.last %}[TOOLS]{{ tools | tojson }}[/TOOLS]"
    "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)


def load(**options):
    return foreword.load(model_folder(), **options)


def texts(body, renderer):
    trace = renderer.trace(body)
    parts = find_parts(trace, renderer)
    assert "".join(trace.rendered.text[p.start : p.stop] for p in parts) == trace.rendered.text
    assert sum(part.num_tokens for part in parts) == len(trace.tokens.token_ids)
    return [(part.label, trace.rendered.text[part.start : part.stop]) for part in parts]


# ---------------------------------------------------------------------------------------------
# Parts.


@given(st.text(alphabet="ab", max_size=40), st.text(alphabet="ab", max_size=40))
def test_common_length_is_that_of_a_slow_count(first, second):
    expected = 0
    while expected < min(len(first), len(second)) and first[expected] == second[expected]:
        expected += 1
    assert common_length(first, second) == expected


@pytest.mark.parametrize("template", [None, FORGETFUL], ids=["demo", "forgetful"])
def test_every_message_has_its_text(template):
    found = texts(CHAT, load(chat_template=template))
    assert [label for label, _ in found] == [
        "[0] system",
        "[1] user",
        "[2] assistant",
        "[3] user",
        "generation prompt",
    ]
    assert found[0][1] == "<|im_start|>system\nBe brief.<|im_end|>\n"
    assert found[1][1] == "<|im_start|>user\nOne?<|im_end|>\n"
    assert found[2][1].startswith("<|im_start|>assistant\n")
    assert found[2][1].endswith("Two.<|im_end|>\n")
    assert found[3][1] == "<|im_start|>user\nThree?<|im_end|>\n"
    assert found[4][1] == "<|im_start|>assistant\n"


def test_tools_are_told_apart_wherever_they_stand():
    first = dict(texts({**CHAT, "tools": [TOOL]}, load()))
    assert "tools" in first
    assert '"name": "sum"' in first["tools"]
    late = texts({**CHAT, "tools": [TOOL]}, load(chat_template=TOOLS_LATE))
    assert [label for label, _ in late][-2:] == ["tools", "[3] user"]
    assert dict(late)["[2] assistant"] == "[assistant]Two."
    assert late[-1][1].endswith("[user]Three?")


def test_a_continued_message_is_the_last_part():
    body = {
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "so "}],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    assert texts(body, load())[-1] == ("[1] assistant", "<|im_start|>assistant\nso ")


def test_long_chats_are_bounded(monkeypatch):
    renderer = load()
    many = [{"role": "user", "content": f"m{i}"} for i in range(MAX_PARTS + 50)]
    trace = renderer.trace({"messages": many})
    rendered, real = [], renderer.to_text
    monkeypatch.setattr(
        renderer, "to_text", lambda *args, **kwargs: rendered.append(1) or real(*args, **kwargs)
    )
    parts = find_parts(trace, renderer)
    assert len(rendered) <= MAX_PARTS + 3
    assert parts[0].label == "[0] to [49] user"
    assert parts[-2].label == f"[{MAX_PARTS + 49}] user"


def test_tokens_the_tokenizer_adds_are_a_part_of_their_own(tmp_path):
    for file in Path(model_folder()).iterdir():
        shutil.copy(file, tmp_path)
    path = tmp_path / "tokenizer.json"
    data = json.loads(path.read_text())
    piece = {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}
    data["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [piece, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}
        },
    }
    path.write_text(json.dumps(data))
    renderer = foreword.load(str(tmp_path))
    trace = renderer.trace({**CHAT, "add_special_tokens": True})
    assert trace.tokens.token_ids[0] == 0
    parts = find_parts(trace, renderer)
    assert (parts[0].label, parts[0].num_tokens) == ("added by the tokenizer", 1)
    assert sum(part.num_tokens for part in parts) == len(trace.tokens.token_ids)


def test_tool_tokens_are_what_goes_with_the_tools():
    renderer = load()
    trace = renderer.trace({**CHAT, "tools": [TOOL]})
    without = renderer.trace(CHAT)
    expected = len(trace.tokens.token_ids) - len(without.tokens.token_ids)
    assert expected > 20
    assert count_tool_tokens(trace, renderer) == expected
    assert count_tool_tokens(without, renderer) == 0


# ---------------------------------------------------------------------------------------------
# Stations.


@pytest.mark.parametrize(
    "body",
    [DEMO_REQUEST, CHAT, {"prompt": "a b"}, {"prompt": [3, 4]}],
    ids=["demo", "chat", "text", "ids"],
)
def test_a_walk_step_by_step_gives_what_the_renderer_traces(body, monkeypatch):
    """Steps are for what the renderer refuses; here they run where it does not."""
    renderer = load()
    kind = "chat" if "messages" in body else "completion"
    trace = renderer.trace(body)
    traced = walk(renderer, body, kind=kind)

    def refuse(*args, **kwargs):
        raise InvalidRequest("not traced")

    monkeypatch.setattr(renderer, "trace", refuse)
    stepped = walk(renderer, body, kind=kind)
    for stations in (traced, stepped):
        assert stations.error is None
        assert stations.conversation == trace.conversation
        assert stations.rendered == trace.rendered
        assert stations.tokens == trace.tokens
        assert stations.engine_input.token_ids == trace.engine_input.token_ids
        assert stations.engine_request.token_ids == trace.engine_input.token_ids


@pytest.mark.parametrize("until", ["conversation", "text", "tokens", "budget"])
def test_a_walk_ends_where_it_is_told(until, monkeypatch):
    renderer = load()
    body = {**CHAT, "max_tokens": 9000}
    stations = walk(renderer, body, kind="chat", until=until)
    assert stations.engine_input is None
    reached = [stations.conversation, stations.rendered, stations.tokens]
    expected = STATIONS.index(until) - STATIONS.index("conversation") + 1
    assert sum(value is not None for value in reached) == min(3, expected)
    if until != "budget":
        stations.require(until)
    else:
        with pytest.raises(InvalidRequest, match="max_tokens is 9000"):
            stations.require(until)


def test_what_the_gate_refuses_is_counted_in_full():
    renderer = load(max_model_len=10)
    text = "word " * 500
    stations = walk(renderer, {"prompt": text, "max_tokens": 1}, kind="completion")
    assert isinstance(stations.error, PromptTooManyChars)
    assert stations.stopped_at == "tokens"
    assert stations.tokens.is_complete
    assert len(stations.tokens.token_ids) == len(load().render_cmpl({"prompt": text})[0].token_ids)


def test_pooling_takes_the_same_line():
    renderer = load(runner="pooling", max_model_len=10)
    fits = walk(renderer, {"input": "one two"}, kind="pooling")
    assert fits.error is None

    expected = renderer.render_pooling({"input": "one two"})[0].token_ids
    assert fits.engine_input.token_ids == expected
    long = walk(renderer, {"input": "one two three " * 9}, kind="pooling")
    assert long.stopped_at == "budget"


# ---------------------------------------------------------------------------------------------
# Oddities.


def codes(body, renderer=None):
    renderer = renderer or load()
    return [one.code for one in find_oddities(renderer.trace(body), renderer, body)]


def test_a_sound_request_shows_nothing():
    assert codes(CHAT) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"chat_template_kwargs": {"enable_thinkin": False}}, "unread_kwargs"),
        ({"messages": [{"role": "user", "content": "a <|im_start|> b"}]}, "spelled_control_tokens"),
        ({"truncate_prompt_tokens": 9}, "lost_beginning"),
        ({"truncate_prompt_tokens": 9, "truncation_side": "right"}, "lost_end"),
        ({"temprature": 1}, "ignored_fields"),
        (
            {"tools": [{**TOOL, "function": {**TOOL["function"], "description": "long " * 200}}]},
            "large_tools",
        ),
    ],
)
def test_a_fault_is_named(changes, code):
    body = {**CHAT, **changes}
    renderer = load()
    found = find_oddities(renderer.trace(body), renderer, body)
    assert [one.code for one in found] == [code]
    assert found[0].sentence.endswith(".")


def test_a_message_that_the_template_drops_is_named():
    first = load(
        chat_template="{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    )
    body = {
        "messages": [{"role": "narrator", "content": "lost"}, {"role": "user", "content": "hi"}]
    }
    (found,) = find_oddities(first.trace(body), first, body)
    assert found.code == "dropped_message"
    assert "messages[0] (role narrator)" in found.sentence
    assert "lost" not in found.sentence


def test_a_read_kwarg_is_no_oddity():
    assert codes({**CHAT, "chat_template_kwargs": {"enable_thinking": False}}) == []


def test_templates_at_fault_are_named():
    foreign = load(chat_template="<|start_header_id|>{{ messages[0].content }}")
    alone = {"messages": CHAT["messages"][:1]}
    assert codes(alone, foreign) == ["foreign_template"]
    deaf = load(chat_template="{% for m in messages %}{{ m.content }}{% endfor %}")
    assert codes({**CHAT, "tools": [TOOL]}, deaf) == ["unread_tools"]


def test_user_text_that_looks_like_another_familys_tokens_is_not_the_templates_fault():
    body = {"messages": [{"role": "user", "content": "what is <|start_header_id|>?"}]}
    assert codes(body) == []
