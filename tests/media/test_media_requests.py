"""What a request's media may be, and what an engine is told of them."""

from __future__ import annotations

import base64
import json
import re
import struct
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from media_models import (
    CHATML,
    KINDS,
    QWEN_FILES,
    QWEN_TOKENS,
    body,
    byte_level,
    expected_ids,
    jpeg,
    model,
    picture,
    png,
    user,
    words,
    write_model,
)

import foreword
from foreword.errors import (
    InvalidRequest,
    MediaUnavailable,
    MediaWouldBeCut,
    UnsupportedFeature,
)
from foreword.media.hashing import content_hash
from foreword.media.items import MediaItem, MediaNaming
from foreword.options import MediaOptions

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


@pytest.mark.parametrize("name", ["qwen", "mistral"])
@pytest.mark.parametrize("side", ["left", "right", None])
def test_a_cut_prompt_is_the_same_in_both_forms(name: str, side: str | None) -> None:
    """What the engine makes of the ids that are left to it is what was decided here."""
    renderer, sizes = model(name), [(84, 84), (32, 32)]
    sent = [user("the long beginning", *sizes, "the long end of it")]
    token_id = renderer.tokenizer.token_to_id(KINDS[name].placeholder)
    items = [KINDS[name].tokenizer().encode(KINDS[name].sizes[size]).ids for size in sizes]
    outcomes = set()
    for kept in range(1, len(renderer.render_chat(body(sent)).engine_input.token_ids) + 1):
        fields = {"truncate_prompt_tokens": kept, "truncation_side": side}
        asked = body(sent, return_token_offsets=True, **fields)
        try:
            decided = renderer.render_chat(asked).engine_input
        except MediaWouldBeCut:
            outcomes.add("refused")
            continue
        left = renderer.generate_request(asked, media_as="content_parts")
        assert not isinstance(left, list)
        assert left.content_parts is not None
        assert len(left.content_parts) == 2
        waiting = iter(items)
        made = [
            one
            for place in left.token_ids
            for one in (next(waiting) if place == token_id else [place])
        ]
        assert made == decided.token_ids.tolist()
        assert left.token_offsets is not None
        assert len(left.token_offsets) == len(left.token_ids)
        outcomes.add("cut" if decided.num_truncated else "whole")
    assert outcomes == {"refused", "cut", "whole"}


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


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_counts_as_it_is_shown(orientation: int) -> None:
    """A camera's 128x64 with an orientation of 5 to 8 is shown as 64x128."""
    exif = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, 0x112, 3, 1, orientation, 0, 0)
    turned = jpeg(128, 64)
    segment = b"Exif\0\0" + exif
    turned = turned[:2] + struct.pack(">BBH", 0xFF, 0xE1, 2 + len(segment)) + segment + turned[2:]
    data = base64.b64encode(turned).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}
    trace = model("mistral").trace({"messages": [{"role": "user", "content": [part]}]})
    upright = model("mistral").trace(body([user((64, 128) if orientation > 4 else (128, 64))]))
    assert (trace.items[0].width, trace.items[0].height) == (
        (64, 128) if orientation > 4 else (128, 64)
    )
    assert trace.engine_input.token_ids == upright.engine_input.token_ids


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": picture(84, 84)["image_url"]["url"]},
        {"type": "image", "url": picture(84, 84)["image_url"]["url"]},
        {"type": "image", "image": picture(84, 84)["image_url"]["url"]},
        {"type": "image", "base64": base64.b64encode(png(84, 84)).decode()},
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": base64.b64encode(png(84, 84)).decode(),
            },
        },
    ],
)
@pytest.mark.parametrize("name", KINDS)
def test_every_spelling_gives_the_same_prompt(name: str, part: Any) -> None:
    renderer = model(name)
    said = [words("a"), picture(84, 84), words("b")]
    results = [
        renderer.render_chat({"messages": [{"role": "user", "content": content}]}).engine_input
        for content in (said, [said[0], part, said[2]])
    ]
    assert results[0].token_ids == results[1].token_ids
    assert results[0].media_features == results[1].media_features


@pytest.mark.parametrize(
    ("make", "param", "says"),
    [
        (lambda: MediaNaming(scheme="foo"), "scheme", "'sha256', 'vllm'"),
        (lambda: MediaNaming(scheme="vllm"), "model_id", "--model"),
        (lambda: MediaNaming(scheme="vllm", model_id=5), "model_id", "--model"),
        (lambda: MediaNaming(algorithm="md5"), "algorithm", "'blake3', 'sha256', 'sha512'"),
        (lambda: MediaNaming(trusts_uuids="no"), "trusts_uuids", "False, True"),
        (lambda: MediaOptions(tolerated_keys="abc"), "tolerated_keys", "tuple of names"),
        (lambda: MediaOptions(tolerated_keys=("",)), "tolerated_keys", "tuple of names"),
        (lambda: MediaOptions(tolerated_keys=(5,)), "tolerated_keys", "tuple of names"),
    ],
)  # fmt: skip
def test_an_option_that_is_none_is_refused(make: Any, param: str, says: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(says)) as refusal:
        make()
    assert refusal.value.param == param


def test_media_are_sent_in_one_of_two_forms() -> None:
    with pytest.raises(InvalidRequest, match="'features', 'content_parts'") as refusal:
        model("qwen").generate_request(body([user((32, 32))]), media_as="foo")  # type: ignore[arg-type]
    assert refusal.value.param == "media_as"


@pytest.mark.parametrize("media", [[None], ["x"], [{"modality": "image"}]])
def test_given_items_are_items(media: Any) -> None:
    with pytest.raises(InvalidRequest, match="list of MediaItem"):
        model("qwen").render_chat(body([user((32, 32))]), media=media)


@pytest.mark.parametrize("uuid", [5, True, ["x"], {"a": 1}])
def test_a_uuid_is_text(uuid: Any) -> None:
    sent = {"messages": [{"role": "user", "content": [picture(32, 32, uuid=uuid)]}]}
    with pytest.raises(foreword.errors.RequestError, match="uuid") as refusal:
        model("qwen").render_chat(sent)
    assert refusal.value.param == "messages[0].content[0].uuid"


def test_audio_in_a_data_url_is_no_input_audio() -> None:
    part = {"type": "input_audio", "input_audio": {"data": "data:audio/wav;base64,AA==",
                                                   "format": "wav"}}  # fmt: skip
    audio = write_model(
        Path(mkdtemp()),
        {
            "config.json": {"model_type": "qwen2_audio", "max_position_embeddings": 1000},
            "preprocessor_config.json": {},
        },
        byte_level(QWEN_TOKENS),
        CHATML,
    )
    with pytest.raises(InvalidRequest, match=r"base64 alone.*audio_url"):
        audio.render_chat({"messages": [{"role": "user", "content": [part]}]})


def test_an_items_error_names_its_part() -> None:
    with pytest.raises(InvalidRequest, match="200") as refusal:
        model("qwen").render_chat(body([user("a", (32, 32)), user((7000, 1))]))
    assert refusal.value.param == "messages[1].content[0]"
    assert refusal.value.details["index"] == 1


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", {"model_type": ["qwen3_vl"]}),
        ("config.json", {"architectures": 5}),
        ("config.json", {"architectures": [["x"]]}),
        ("preprocessor_config.json", {"patch_size": 14.5}),
        ("preprocessor_config.json", None),
    ],
)
def test_broken_files_of_media_leave_text_alone(
    name: str, change: dict[str, Any] | None, tmp_path: Path
) -> None:
    files = {key: value for key, value in QWEN_FILES.items() if change is not None or key != name}
    if change is not None:
        files[name] = {**files[name], **change}
    renderer = write_model(tmp_path, files, byte_level(QWEN_TOKENS), CHATML)
    assert len(renderer.render_chat(body([user("text is fine")])).engine_input.token_ids) > 5
    with pytest.raises(foreword.errors.AssetsInvalid, match=re.escape(name)):
        renderer.render_chat(body([user((32, 32))]))
