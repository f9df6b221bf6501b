"""Chats with images, end to end: the right ids or a refusal, never a half item."""

from __future__ import annotations

import itertools
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from media_models import (
    CHATML,
    GEMMA_FILES,
    KINDS,
    MISTRAL_FILES,
    MISTRAL_TOKENS,
    QWEN_FILES,
    QWEN_TOKENS,
    SHARED,
    SIZES,
    body,
    byte_level,
    check_spans,
    expected_ids,
    model,
    picture,
    user,
    words,
    write_model,
)

import foreword
from foreword.errors import InvalidRequest, MediaWouldBeCut, PromptTooLong
from foreword.options import MediaOptions

# ---------------------------------------------------------------------------------------------
# The right ids.


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("num_images", range(6))
def test_images_in_every_position(name: str, num_images: int) -> None:
    for places in itertools.combinations_with_replacement(range(3), num_images):
        parts: list[Any] = []
        for place, said in enumerate(["the first", "of two"]):
            parts += [SIZES[n % 3] for n, one in enumerate(places) if one == place]
            parts.append(said)
        parts += [SIZES[n % 3] for n, one in enumerate(places) if one == 2]
        messages = [user(*parts)]
        result = model(name).render_chat(body(messages)).engine_input
        assert result.token_ids.tolist() == expected_ids(KINDS[name], messages)
        check_spans(name, result.token_ids, result.media_features, num_images)


# Newlines at a text's edge would join an item's own: what becomes of them is the next test's.
PIECES = [
    "the ",
    "of",
    " ",
    "a|",
    "<|",
    "é",
    "<",
    "]",
    "thethe",
    "image",
    "\ufdd0",
    "\ufdd1image0\ufdd1",
]


@st.composite
def chats(draw: st.DrawFn, name: str) -> list[dict[str, Any]]:
    pieces = st.sampled_from([*PIECES, *KINDS[name].reserved, KINDS[name].placeholder])
    texts = st.lists(pieces, min_size=1, max_size=4).map("".join).map(lambda said: f"t{said}t")
    parts = st.one_of(texts, st.sampled_from(SIZES))
    content = st.lists(parts, min_size=1, max_size=5)
    messages = draw(st.lists(content.map(lambda found: {"content": found}), min_size=1, max_size=3))
    messages.append(user((32, 32)))
    return messages


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_a_user_types_is_never_an_item(name: str, data: st.DataObject) -> None:
    messages = data.draw(chats(name))
    result = model(name).render_chat(body(messages)).engine_input
    assert result.token_ids.tolist() == expected_ids(KINDS[name], messages)
    num_items = sum(isinstance(part, tuple) for one in messages for part in one["content"])
    check_spans(name, result.token_ids, result.media_features, num_items)


def test_newlines_join_where_the_engine_joins_them() -> None:
    """Gemma 3: "user\\n" meets an item, and two items meet each other."""
    renderer = model("gemma")
    result = renderer.render_chat(body([user((32, 32), (32, 32), "x")])).engine_input
    strings = [renderer.tokenizer.id_to_token(one) for one in result.token_ids]
    assert strings.count("\n\n\n") == 1
    assert strings.count("\n\n\n\n") == 1
    first, second = result.media_features
    assert (first.stop, strings[second.start]) == (second.start, "\n\n\n\n")


def test_media_tokens_have_no_characters() -> None:
    result = model("qwen").render_chat(
        body([user("the", (64, 128), "of")], return_token_offsets=True)
    )
    offsets, (span,) = result.engine_input.offsets, result.engine_input.media_features
    assert offsets is not None
    assert len(offsets) == len(result.engine_input.token_ids)
    assert set(list(offsets)[span.start : span.stop]) == {(0, 0)}
    assert list(offsets)[span.start - 1][1] + len("<|image_pad|>") == list(offsets)[span.stop][0]


def test_text_alone_is_encoded_as_the_reference_does() -> None:
    """Without media a typed placeholder is the token it spells, as in the engine."""
    result = model("qwen").render_chat(body([user("a <|image_pad|>")])).engine_input
    text = "<|im_start|>user\na <|image_pad|><|im_end|>\n"
    assert result.token_ids.tolist() == KINDS["qwen"].tokenizer().encode(text).ids
    assert result.media_features == ()


def test_a_text_only_part_of_the_line_is_unchanged() -> None:
    trace = model("qwen").trace(body([user("no media")]))
    assert (trace.items, trace.unexpanded) == ((), None)
    assert "media" not in trace.seconds


# ---------------------------------------------------------------------------------------------
# The budget.


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("side", ["left", "right", None])
def test_a_cut_anywhere_is_right_or_refused(name: str, side: str | None) -> None:
    messages = [
        user("the", (64, 128), "of <|image_pad|>[IMG]<start_of_image>"),
        user((32, 32), "t"),
    ]
    whole = model(name).render_chat(body(messages)).engine_input
    total, outcomes = len(whole.token_ids), set()
    for kept in range(1, total + 1):
        fields = {"truncate_prompt_tokens": kept, "truncation_side": side}
        low, high = (0, kept) if side == "right" else (total - kept, total)
        is_whole = all(low <= span.start and span.stop <= high for span in whole.media_features)
        try:
            cut = model(name).render_chat(body(messages, **fields)).engine_input
        except MediaWouldBeCut:
            assert not is_whole
            outcomes.add("refused")
            continue
        assert is_whole
        outcomes.add("cut")
        assert cut.token_ids == whole.token_ids[low:high]
        moved = [(span.start - low, span.stop - low) for span in whole.media_features]
        assert [(span.start, span.stop) for span in cut.media_features] == moved
        assert cut.num_truncated == total - kept
    assert outcomes == {"refused", "cut"}


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_long_text_is_cut_after_expansion_too(side: str) -> None:
    """Tokenization may not stop early where media are still to be expanded."""
    said, shown = "the of " * 4000, (64, 128)
    messages = [user(shown, said) if side == "right" else user(said, shown)]
    whole = model("qwen").render_chat(body(messages)).engine_input
    fields = {"truncate_prompt_tokens": 60, "truncation_side": side}
    cut = model("qwen").render_chat(body(messages, **fields)).engine_input
    assert cut.token_ids == (whole.token_ids[:60] if side == "right" else whole.token_ids[-60:])
    assert cut.num_prompt_tokens == len(whole.token_ids)
    assert len(cut.media_features) == 1


def test_the_length_is_checked_after_expansion(tmp_path: Path) -> None:
    kind = KINDS["qwen"]
    renderer = write_model(tmp_path, kind.files, kind.tokenizer(), kind.template, max_model_len=30)
    with pytest.raises(PromptTooLong) as refusal:
        renderer.render_chat(body([user((64, 128), (64, 128), (64, 128))], max_tokens=1))
    assert refusal.value.details["num_tokens"] > 30


def test_too_many_items_are_refused() -> None:
    renderer = write_model(
        Path(mkdtemp()), QWEN_FILES, byte_level(QWEN_TOKENS), CHATML,
        options=MediaOptions(max_items={"image": 2}),
    )  # fmt: skip
    renderer.render_chat(body([user((32, 32), (32, 32))]))
    with pytest.raises(InvalidRequest, match=r"At most 2 image") as refusal:
        renderer.render_chat(body([user("x", (32, 32), (32, 32)), user((32, 32))]))
    assert refusal.value.param == "messages[1].content[0]"


# ---------------------------------------------------------------------------------------------
# Real tokenizers and templates.

REAL = pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the checkout")


@cache
def real(name: str) -> tuple[foreword.Renderer, Tokenizer]:
    """Return a model of a real tokenizer and template, and its reference."""
    if name == "gemma":
        folder = SHARED / "models" / "gemma3"
        template, files = (folder / "chat_template.jinja").read_text(), GEMMA_FILES
    elif name == "qwen":
        folder = SHARED / "models" / "qwen3"
        template = (SHARED / "templates" / "Qwen3.5-4B.jinja").read_text()
        files = QWEN_FILES
    else:
        name = "Mistral-Small-3.2-24B-Instruct-2506.jinja"
        tokenizer = byte_level([*MISTRAL_TOKENS, "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"])
        template = (SHARED / "templates" / name).read_text()
        return write_model(Path(mkdtemp()), MISTRAL_FILES, tokenizer, template), tokenizer
    data = (folder / "tokenizer.json").read_bytes()
    renderer = write_model(Path(mkdtemp()), files, data, template)
    return renderer, Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.mark.golden
@REAL
@pytest.mark.parametrize("name", ["qwen", "gemma", "mistral"])
def test_real_templates_give_the_ids_of_the_text_written_out(name: str) -> None:
    """The reference encodes the whole text with every item spelled out: no place is looked for."""
    renderer, tokenizer = real(name)
    kind = KINDS[name]
    for num_images in range(6):
        sizes = [SIZES[number % 3] for number in range(num_images)]
        for place in range(num_images + 1):
            content = [
                *(picture(*size) for size in sizes[:place]),
                words("Was sieht man hier? 图片里"),
                *(picture(*size) for size in sizes[place:]),
            ]
            chat = [{"role": "user", "content": content}]
            trace = renderer.trace({"messages": chat})
            assert trace.rendered is not None
            first, *rest = trace.rendered.text.split(kind.placeholder)
            items = [kind.sizes[size] for size in sizes]
            whole = first + "".join(map("".join, zip(items, rest, strict=True)))
            wanted = tokenizer.encode(whole, add_special_tokens=False).ids
            assert trace.engine_input.token_ids.tolist() == wanted
            assert len(trace.engine_input.media_features) == num_images


@pytest.mark.golden
@REAL
@pytest.mark.parametrize("name", ["qwen", "gemma", "mistral"])
def test_real_templates_keep_a_typed_placeholder_as_text(name: str) -> None:
    renderer, tokenizer = real(name)
    typed = KINDS[name].placeholder
    chat = [
        {"role": "user", "content": [words(f"{typed}What is {typed}?"), picture(84, 84)]},
        {"role": "assistant", "content": f"It is {typed}{typed}."},
        {"role": "user", "content": [picture(32, 32), words(typed)]},
    ]
    result = renderer.render_chat({"messages": chat}).engine_input
    check = set(range(len(result.token_ids)))
    for span in result.media_features:
        check -= set(range(span.start, span.stop))
    token_id = tokenizer.token_to_id(typed)
    assert token_id not in {result.token_ids[place] for place in check}
    text = renderer.tokenizer.decode([result.token_ids[place] for place in sorted(check)])
    assert text.count(typed) == 5
