"""Whatever is said, the ids and offsets are the reference's: on every path, at every station."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import line_models as line
from line_models import KINDS, searching, texts

from foreword.engines.vllm_generate import GenerateRequest

chats = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), texts), min_size=1, max_size=4
).map(lambda turns: [{"role": role, "content": content} for role, content in turns])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("special", [True, False])
@searching(40)
@given(text=texts)
@example(text="İ[CLS]<s>\x00<|im_end|>e\u0301")
def test_counting_gives_the_ids_of_the_reference(kind: str, special: bool, text: str) -> None:
    body = {"prompt": text, "add_special_tokens": special, "return_token_strs": True}
    answer = line.model(kind).tokenize(body)
    ids, _ = line.full_encode(kind, text, special=special)
    assert list(answer.tokens) == ids
    assert answer.count == len(ids)
    assert answer.token_strs == [line.reference(kind).id_to_token(i) or "" for i in ids]


@pytest.mark.parametrize("kind", KINDS)
@searching(60)
@given(text=texts, special=st.booleans())
@example(text="İİ the [SEP] İ", special=True)
@example(text="ΑΣ İ\x00<|tool|>", special=False)
def test_completions_give_the_ids_and_offsets_of_the_reference(
    kind: str, text: str, special: bool
) -> None:
    ids, offsets = line.full_encode(kind, text, special=special)
    if not text or not ids:
        return
    body = {"prompt": text, "add_special_tokens": special, "max_tokens": 1}
    bare, whole = (
        line.model(kind).render_cmpl({**body, "return_token_offsets": wanted})[0]
        for wanted in (False, True)
    )
    assert list(bare.token_ids) == list(whole.token_ids) == ids
    assert bare.offsets is None
    assert whole.offsets is not None
    assert list(whole.offsets) == offsets
    assert (whole.num_chars, whole.num_prompt_tokens) == (len(text), len(ids))
    assert (whole.num_truncated, whole.truncated_side, whole.num_padded) == (0, None, 0)


@pytest.mark.parametrize("kind", KINDS)
@searching(8)
@given(text=line.long_texts, special=st.booleans())
def test_long_texts_have_the_ids_and_offsets_of_the_reference(
    kind: str, text: str, special: bool
) -> None:
    ids, offsets = line.full_encode(kind, text, special=special)
    renderer = line.model(kind)
    assert list(renderer.tokenize({"prompt": text, "add_special_tokens": special}).tokens) == ids
    if not ids:
        return
    body = {"prompt": text, "add_special_tokens": special, "return_token_offsets": True}
    (engine_input,) = renderer.render_cmpl(body)
    assert list(engine_input.token_ids) == ids
    assert engine_input.offsets is not None
    assert list(engine_input.offsets) == offsets


@pytest.mark.parametrize("kind", ["demo", "bos"])
@searching(60)
@given(text=texts.filter(bool))
def test_spans_of_byte_level_tokens_cover_the_text(kind: str, text: str) -> None:
    # Of a letter and its accent that the normalizer joins, the library's span is the letter's.
    text = unicodedata.normalize("NFC", text)
    body = {"prompt": text, "return_token_offsets": True, "add_special_tokens": False}
    offsets = line.model(kind).render_cmpl(body)[0].offsets
    assert offsets is not None
    reached = 0
    for start, stop in offsets:
        assert start <= reached, "no character between two tokens is lost"
        assert start < stop
        reached = stop
    assert reached == len(text)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("demo")])
@searching(25)
@given(messages=chats, special=st.booleans(), opens=st.booleans())
def test_chats_give_the_ids_of_the_text_their_template_writes(
    kind: str, messages: list[dict[str, Any]], special: bool, opens: bool
) -> None:
    renderer = line.model(kind)
    # Templates may print the lower-cased special tokens of a lower-casing model; here none do.
    written = renderer.tokenizer.info.special_tokens.get("bos_token", "")
    for message in messages:
        written += f"<{message['role']}>{message['content']}</{message['role']}>\n"
    written += "<assistant>" if opens else ""
    body = {
        "messages": messages,
        "add_special_tokens": special,
        "add_generation_prompt": opens,
        "return_token_offsets": True,
    }
    rendered = renderer.render_chat(body)
    ids, offsets = line.full_encode(kind, written, special=special)
    assert [dict(message) for message in rendered.conversation.messages] == messages
    assert list(rendered.engine_input.token_ids) == ids
    assert rendered.engine_input.offsets is not None
    assert list(rendered.engine_input.offsets) == offsets


@searching(40)
@given(messages=chats)
def test_the_demo_model_writes_chatml(messages: list[dict[str, Any]]) -> None:
    turns = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages]
    written = "".join(turns) + "<|im_start|>assistant\n"
    engine_input = line.model("demo").render_chat({"messages": messages}).engine_input
    assert list(engine_input.token_ids) == line.full_encode("demo", written, special=False)[0]


@pytest.mark.parametrize("kind", KINDS)
@searching(25)
@given(messages=chats, with_tools=st.booleans())
def test_a_chat_has_the_same_ids_on_every_path(
    kind: str, messages: list[dict[str, Any]], with_tools: bool
) -> None:
    renderer = line.model(kind)
    body: dict[str, Any] = {"messages": messages}
    if with_tools:
        body["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    ids = renderer.render_chat(body).engine_input.token_ids
    generated = renderer.generate_request(body)
    trace = renderer.trace(body)
    assert isinstance(generated, GenerateRequest)
    assert trace.rendered is not None
    text = json.dumps(body)
    written = json.dumps(body, ensure_ascii=False)
    completion = {"prompt": trace.rendered.text, "add_special_tokens": False}
    others = {
        "generate": generated.token_ids,
        "trace": trace.engine_input.token_ids,
        "trace, before the budget": trace.tokens.token_ids,
        "count": renderer.tokenize(body).tokens,
        "count of bytes": renderer.tokenize(text.encode()).tokens,
        "bytes, escaped": renderer.render_chat(text.encode()).engine_input.token_ids,
        "bytes, UTF-8": renderer.render_chat(written.encode()).engine_input.token_ids,
        "text, escaped": renderer.render_chat(text).engine_input.token_ids,
        "text": renderer.render_chat(written).engine_input.token_ids,
        "completion": renderer.render_cmpl(completion)[0].token_ids,
    }
    assert {name: list(other) for name, other in others.items() if list(other) != list(ids)} == {}


@searching(40)
@given(ids=st.lists(st.integers(0, 2815), min_size=1, max_size=30))
def test_given_ids_come_back_untouched(ids: list[int]) -> None:
    renderer = line.model("demo")
    for prompt in (ids, [ids, ids]):
        for engine_input in renderer.render_cmpl({"prompt": prompt}):
            assert list(engine_input.token_ids) == ids
            assert (engine_input.num_chars, engine_input.prompt) == (0, None)


@searching(60)
@given(text=texts)
def test_byte_level_ids_decode_to_the_text(text: str) -> None:
    renderer = line.model("demo")
    tokens = list(renderer.tokenize({"prompt": text}).tokens)
    assert renderer.detokenize({"tokens": tokens}).prompt == unicodedata.normalize("NFC", text)
