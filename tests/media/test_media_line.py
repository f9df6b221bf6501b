"""Chats with images, end to end: the right ids or a refusal, never a half item."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
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
    GEMMA,
    GEMMA_FILES,
    GEMMA_TOKENS,
    MISTRAL,
    MISTRAL_FILES,
    MISTRAL_TOKENS,
    QWEN_FILES,
    QWEN_TOKENS,
    SHARED,
    byte_level,
    encode_apart,
    gemma_like,
    picture,
    png,
    words,
    write_model,
)

import foreword
from foreword.errors import (
    InvalidRequest,
    MediaUnavailable,
    MediaWouldBeCut,
    PromptTooLong,
    UnsupportedFeature,
)
from foreword.media.hashing import content_hash
from foreword.media.items import MediaItem
from foreword.options import MediaOptions

STAND_IN = "\uf8ff"
"""Stands for a typed placeholder while the reference expands the items' own."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A model, and what the reference knows of it."""

    files: dict[str, Any]
    template: str
    tokens: tuple[str, ...]
    placeholder: str
    reserved: tuple[str, ...]
    sizes: dict[tuple[int, int], str]
    """What an image of a size expands to, written by hand."""

    def tokenizer(self) -> Tokenizer:
        return gemma_like(self.tokens) if self.template is GEMMA else byte_level(self.tokens)


def _mistral(rows: int, columns: int) -> str:
    return "[IMG_BREAK]".join(["[IMG]" * columns] * rows) + "[IMG_END]"


_GEMMA_ITEM = f"\n\n<start_of_image>{'<image_soft_token>' * 5}<end_of_image>\n\n"
KINDS = {
    "qwen": Kind(
        files=QWEN_FILES,
        template=CHATML,
        tokens=QWEN_TOKENS,
        placeholder="<|image_pad|>",
        reserved=("<|image_pad|>", "<|video_pad|>"),
        sizes={
            (32, 32): "<|image_pad|>",
            (64, 128): "<|image_pad|>" * 8,
            (84, 84): "<|image_pad|>" * 9,
        },
    ),
    "gemma": Kind(
        files=GEMMA_FILES,
        template=GEMMA,
        tokens=GEMMA_TOKENS,
        placeholder="<start_of_image>",
        reserved=("<start_of_image>", "<image_soft_token>"),
        sizes=dict.fromkeys([(32, 32), (64, 128), (84, 84)], _GEMMA_ITEM),
    ),
    "mistral": Kind(
        files=MISTRAL_FILES,
        template=MISTRAL,
        tokens=MISTRAL_TOKENS,
        placeholder="[IMG]",
        reserved=("[IMG]",),
        sizes={
            (32, 32): _mistral(2, 2),
            (64, 128): _mistral(5, 3),
            (84, 84): _mistral(3, 3),
        },
    ),
}
SIZES = [(32, 32), (64, 128), (84, 84)]


@cache
def model(name: str, **options: Any) -> foreword.Renderer:
    kind = KINDS[name]
    return write_model(
        Path(mkdtemp()),
        kind.files,
        kind.tokenizer(),
        kind.template,
        options=MediaOptions(**options),
    )


def shown(kind: Kind, messages: Sequence[dict[str, Any]]) -> tuple[str, list[tuple[int, int]]]:
    """Write down what the template prints, typed placeholders as stand-ins, and the sizes."""
    sizes: list[tuple[int, int]] = []
    turns: list[str] = []
    for message in messages:
        pieces: list[str] = []
        for part in message["content"]:
            if isinstance(part, tuple):
                sizes.append(part)
                pieces.append(kind.placeholder)
            else:
                typed = part.strip() if kind.template is GEMMA else part
                for number, word in enumerate(kind.reserved):
                    typed = typed.replace(word, f"{STAND_IN}{number}")
                pieces.append(typed)
        if kind.template is MISTRAL:
            images = [piece for piece in pieces if piece == kind.placeholder]
            said = [piece for piece in pieces if piece and piece != kind.placeholder]
            turns.append("[INST]" + "\n".join([*images, *said]) + "[/INST]")
        elif kind.template is GEMMA:
            turns.append(f"<start_of_turn>user\n{''.join(pieces)}<end_of_turn>\n")
        else:
            wrapped = [
                f"<|vision_start|>{piece}<|vision_end|>" if piece == kind.placeholder else piece
                for piece in pieces
            ]
            turns.append(f"<|im_start|>user\n{''.join(wrapped)}<|im_end|>\n")
    begin = {GEMMA: "<bos>", MISTRAL: "<s>", CHATML: ""}[kind.template]
    return begin + "".join(turns), sizes


def expected_ids(kind: Kind, messages: Sequence[dict[str, Any]]) -> list[int]:
    text, sizes = shown(kind, messages)
    first, *rest = text.split(kind.placeholder)
    items = [kind.sizes[size] for size in sizes]
    assert len(items) == len(rest)
    whole = first + "".join(item + piece for item, piece in zip(items, rest, strict=True))
    tokenizer = kind.tokenizer()
    ids: list[int] = []
    pieces = whole.split(STAND_IN)
    for place, piece in enumerate(pieces):
        if place:
            word = kind.reserved[int(piece[0])]
            ids += encode_apart(tokenizer, word, kind.reserved)
            piece = piece[1:]
        ids += encode_apart(tokenizer, piece, ())
    return ids


def body(messages: Sequence[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    sent = [
        {
            "role": "user",
            "content": [
                picture(*part) if isinstance(part, tuple) else words(part)
                for part in message["content"]
            ],
        }
        for message in messages
    ]
    return {"messages": sent, "add_generation_prompt": False, **fields}


def user(*parts: Any) -> dict[str, Any]:
    return {"content": list(parts)}


def check_spans(name: str, ids: Sequence[int], spans: Any, num_items: int) -> None:
    """Every item has a span of its own, and nothing of it stands elsewhere."""
    tokenizer = KINDS[name].tokenizer()
    assert [span.index for span in spans] == list(range(num_items))
    inside = {place for span in spans for place in range(span.start, span.stop)}
    assert len(inside) == sum(span.stop - span.start for span in spans)
    for word in KINDS[name].reserved:
        token_id = tokenizer.token_to_id(word)
        assert all(place in inside for place, one in enumerate(ids) if one == token_id)


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
# What is refused.


def refused(renderer: foreword.Renderer, part: Any, **given: Any) -> Any:
    with pytest.raises(foreword.errors.RequestError) as refusal:
        renderer.render_chat(
            {"messages": [{"role": "user", "content": [words("a"), part]}]}, **given
        )
    assert refusal.value.param == "messages[0].content[1]" or given
    return refusal.value


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
         UnsupportedFeature),
        ({"type": "image_url", "image_url": "file:///etc/hostname"}, UnsupportedFeature),
        ({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}, UnsupportedFeature),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AB C"}},
         MediaUnavailable),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
         MediaUnavailable),
        ({"type": "image_url", "image_url": None, "uuid": "known"}, MediaUnavailable),
        ({"type": "image_url", "image_url": None}, InvalidRequest),
        ({"type": "image_embeds", "image_embeds": "AAAA"}, UnsupportedFeature),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
         UnsupportedFeature),
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_refused(part: Any, kind: type[Exception]) -> None:
    assert type(refused(model("qwen"), part)) is kind


def test_a_model_of_text_says_why_it_takes_no_media(tmp_path: Path) -> None:
    files = {"config.json": {"model_type": "qwen3", "max_position_embeddings": 1000}}
    renderer = write_model(tmp_path, files, byte_level(QWEN_TOKENS), CHATML)
    renderer.render_chat(body([user("text is fine")]))
    assert "the model type qwen3" in refused(renderer, picture(32, 32)).message


def test_an_unknown_key_refuses_media_and_nothing_else(tmp_path: Path) -> None:
    processor = {**QWEN_FILES["preprocessor_config.json"], "novel_rule": 7}
    files = {**QWEN_FILES, "preprocessor_config.json": processor}
    renderer = write_model(tmp_path / "a", files, byte_level(QWEN_TOKENS), CHATML)
    renderer.render_chat(body([user("text is fine")]))
    assert "novel_rule" in refused(renderer, picture(32, 32)).message
    tolerant = write_model(
        tmp_path / "b", files, byte_level(QWEN_TOKENS), CHATML,
        options=MediaOptions(tolerated_keys=("novel_rule",)),
    )  # fmt: skip
    assert len(tolerant.render_chat(body([user((32, 32))])).engine_input.media_features) == 1


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (CHATML.replace("'image'", "'picture'"), "0 places for image input"),
        (CHATML.replace("<|im_start|>", "<|image_pad|><|im_start|>", 1), "2 places"),
        (CHATML.replace("{{ p.text }}", "{{ p.text }}{{ '<|image_pad|>' | length }}"),
         "prints something else"),
        (CHATML.replace("<|image_pad|>", "{{ '<|image' ~ '_pad|>' }}"), "0 places"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_followed_is_refused(
    template: str, says: str, tmp_path: Path
) -> None:
    renderer = write_model(tmp_path, QWEN_FILES, byte_level(QWEN_TOKENS), template)
    with pytest.raises(foreword.errors.RequestError, match=says):
        renderer.render_chat(body([user("a", (32, 32))]))


def test_a_placeholder_that_a_variable_prints_is_found(tmp_path: Path) -> None:
    template = CHATML.replace("<|image_pad|>", "{{ image_token }}")
    write_model(tmp_path, QWEN_FILES, byte_level(QWEN_TOKENS), template)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    extra = {"extra_special_tokens": {"image_token": "<|image_pad|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, **extra}))
    messages = [user("a", (84, 84))]
    result = foreword.load(str(tmp_path)).render_chat(body(messages)).engine_input
    assert result.token_ids.tolist() == expected_ids(KINDS["qwen"], messages)


def test_a_typed_placeholder_can_be_refused() -> None:
    renderer = model("qwen", placeholder_text="refuse")
    renderer.render_chat(body([user("fine", (32, 32))]))
    with pytest.raises(InvalidRequest, match="spells a placeholder"):
        renderer.render_chat(body([user("not <|image_pad|>", (32, 32))]))


def test_a_typed_placeholder_that_the_normalizer_makes_is_refused(tmp_path: Path) -> None:
    """A text that only becomes the token inside the tokenizer can't be kept apart."""
    from tokenizers import AddedToken, normalizers

    tokenizer = byte_level(QWEN_TOKENS)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens([AddedToken("<|image_pad|>", normalized=True)])
    renderer = write_model(tmp_path, QWEN_FILES, tokenizer, CHATML)
    with pytest.raises(InvalidRequest, match="belongs to no item"):
        renderer.render_chat(body([user("<|IMAGE_PAD|>", (32, 32))]))


# ---------------------------------------------------------------------------------------------
# Collect, resolve, render.


def test_references_are_in_reading_order_and_rendered_with_a_table() -> None:
    renderer = model("qwen")
    url = "https://example.com/a.png"
    chat = {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]},
            {"role": "assistant", "content": "I see."},
            {"role": "user", "content": [words("and"), picture(84, 84, uuid="mine")]},
        ],
        "add_generation_prompt": False,
    }
    first, second = renderer.collect_media(chat)
    assert (first.url, first.path, first.index) == (url, "messages[0].content[0]", 0)
    assert (second.uuid, second.path, second.index) == ("mine", "messages[2].content[1]", 1)
    items = [
        MediaItem(modality="image", identity="one", width=64, height=128),
        MediaItem(modality="image", identity="two", width=84, height=84),
    ]
    spans = renderer.render_chat(chat, media=items).engine_input.media_features
    assert [(span.identity, span.stop - span.start) for span in spans] == [("one", 8), ("two", 9)]
    with pytest.raises(InvalidRequest, match="2 media items and 1 were given"):
        renderer.render_chat(chat, media=items[:1])


def test_identities() -> None:
    plain, named = (
        model("qwen").render_chat({"messages": [{"role": "user", "content": [part]}], **fields})
        for part, fields in (
            (picture(84, 84), {}),
            (picture(84, 84, uuid="mine"), {"cache_salt": "tenant"}),
        )
    )
    (first,), (second,) = plain.engine_input.media_features, named.engine_input.media_features
    assert first.identity == content_hash(png(84, 84))
    assert second.identity not in ("mine", first.identity)
    other = model("qwen").render_chat(
        {"messages": [{"role": "user", "content": [picture(84, 84, uuid="mine")]}]}
    )
    assert other.engine_input.media_features[0].identity != second.identity


@pytest.mark.parametrize("name", KINDS)
def test_both_forms_of_an_engines_request(name: str) -> None:
    renderer, messages = model(name), [user("the", (84, 84), KINDS[name].placeholder, (32, 32))]
    expanded = renderer.generate_request(body(messages, model="m"))
    left = renderer.generate_request(body(messages, model="m"), media_as="content_parts")
    assert not isinstance(expanded, list)
    assert not isinstance(left, list)
    spans = renderer.render_chat(body(messages)).engine_input.media_features
    assert expanded.content_parts is None
    assert expanded.features == {
        "mm_hashes": {"image": [span.identity for span in spans]},
        "mm_placeholders": {
            "image": [{"offset": one.start, "length": one.stop - one.start} for one in spans]
        },
        "kwargs_data": None,
        "mm_metadata": None,
    }
    assert left.features is None
    assert left.sampling_params == expanded.sampling_params
    token_id = renderer.tokenizer.token_to_id(KINDS[name].placeholder)
    assert left.token_ids.count(token_id) == 2
    assert left.content_parts is not None
    for part, span, size in zip(left.content_parts, spans, ((84, 84), (32, 32)), strict=True):
        assert part == {
            "type": "image_url",
            "uuid": span.identity,
            "url": picture(*size)["image_url"]["url"],
        }


def test_a_cut_prompt_is_not_left_to_the_engine() -> None:
    cut = body([user("the long beginning", (32, 32))], truncate_prompt_tokens=12)
    assert model("qwen").render_chat(cut).engine_input.num_truncated
    with pytest.raises(InvalidRequest, match="content_parts"):
        model("qwen").generate_request(cut, media_as="content_parts")


def test_a_routing_view() -> None:
    from foreword.engines.routing import routing_view

    result = model("mistral").render_chat(body([user("the", (84, 84))])).engine_input
    view = routing_view(result)
    (span,), (told,) = result.media_features, view["media"]
    assert view["token_ids"] == result.token_ids.tolist()
    assert (told["offset"], told["length"]) == (span.start, span.stop - span.start)
    assert (told["hash"], told["num_embeds"]) == (span.identity, 9)
    assert sum(length for length, _ in told["is_embed"]) == told["length"]


def test_the_request_is_not_changed_and_the_stations_agree() -> None:
    renderer, sent = model("mistral"), body([user("the [IMG]", (84, 84))])
    before = json.dumps(sent)
    trace = renderer.trace(sent)
    assert json.dumps(sent) == before
    assert trace.conversation is not None
    assert renderer.to_text(trace.conversation, trace.template) == trace.rendered
    (reference,) = trace.conversation.media
    assert reference.span is not None
    assert reference.message == 0
    content = trace.conversation.messages[0]["content"]
    assert content[slice(*reference.span)] == "[IMG]"
    assert content == "[IMG]\nthe [IMG]"


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
