"""Images in mode `mistral`: the ids mistral-common itself makes of the same chat and pictures."""

from __future__ import annotations

import base64
import io
import itertools
import json
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import foreword
from foreword.errors import InvalidRequest, MediaWouldBeCut, UnsupportedFeature
from foreword.options import MediaOptions

mistral_common = pytest.importorskip("mistral_common", reason="needs the extra `mistral`")
image_module = pytest.importorskip("PIL.Image", reason="needs the extra `media`")
import numpy  # noqa: E402
from mistral_common.protocol.instruct.request import ChatCompletionRequest  # noqa: E402
from mistral_common.tokens.tokenizers import image as their_images  # noqa: E402
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer  # noqa: E402

PIXTRAL = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
IMG, BREAK, END = "[IMG]", "[IMG_BREAK]", "[IMG_END]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pixtral")
    shutil.copy(PIXTRAL, made / "tekken.json")
    config = {
        "model_type": "pixtral",
        "architectures": ["PixtralForConditionalGeneration"],
        "max_position_embeddings": 128_000,
    }
    (made / "config.json").write_text(json.dumps(config))
    return made


@pytest.fixture(scope="module")
def pixtral(folder: Path) -> foreword.Renderer:
    return foreword.load(str(folder), tokenizer_mode="mistral")


@pytest.fixture(scope="module")
def theirs() -> MistralTokenizer:
    return MistralTokenizer.from_file(str(PIXTRAL), mode="test")


@cache
def picture(width: int, height: int) -> dict[str, Any]:
    file = io.BytesIO()
    image_module.new("L", (width, height)).save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def chat(*turns: Any, **fields: Any) -> dict[str, Any]:
    roles = itertools.cycle(("user", "assistant"))
    messages = [{"role": role, "content": said} for role, said in zip(roles, turns, strict=False)]
    return {"messages": messages, **fields}


def ids_of(theirs: MistralTokenizer, body: dict[str, Any], patch: pytest.MonkeyPatch) -> list[int]:
    """Have mistral-common make the tokens of its own pictures; only their pixels are left out."""
    patch.setattr(their_images, "transform_image", lambda image, size: numpy.zeros(0))
    request = ChatCompletionRequest.from_openai(messages=body["messages"])
    return list(theirs.encode_chat_completion(request).tokens)


TURNS = [
    ([words("What is this?"), picture(300, 40)],),
    ([picture(16, 16)],),
    ([picture(1, 1), picture(2048, 3), picture(17, 16)],),
    ([words("a"), picture(640, 480), words("b"), picture(33, 1025), words("[IMG][IMG_END]")],),
    ([picture(50, 50), words("one")], "A cat [IMG].", [words("two"), picture(50, 60)]),
    ("no picture", "none", [words("[IMG]"), picture(5, 5), picture(5, 5)]),
]


@pytest.mark.witness(
    family=("mode:mistral", "media:pixtral_tekken"),
    what="ids of chats with images",
    against="mistral-common 1.13, which the line hides the images from",
)
@pytest.mark.parametrize("turns", TURNS)
def test_ids_are_mistral_commons(
    turns: Any, pixtral: foreword.Renderer, theirs: MistralTokenizer, monkeypatch: Any
) -> None:
    body = chat(*turns)
    result = pixtral.render_chat(body).engine_input
    assert result.token_ids.tolist() == ids_of(theirs, body, monkeypatch)
    num_images = sum(part["type"] == "image_url" for one in turns if one is not str(one)
                     for part in one)  # fmt: skip
    assert [span.index for span in result.media_features] == list(range(num_images))
    inside = {p for span in result.media_features for p in range(span.start, span.stop)}
    of_images = {pixtral.tokenizer.token_to_id(token) for token in (IMG, BREAK, END)}
    assert {p for p, one in enumerate(result.token_ids) if one in of_images} == inside
    end = pixtral.tokenizer.token_to_id(END)
    assert all(result.token_ids[span.stop - 1] == end for span in result.media_features)


def test_random_chats_have_mistral_commons_ids(
    pixtral: foreword.Renderer, theirs: MistralTokenizer, monkeypatch: Any
) -> None:
    rng = random.Random(7)
    for _ in range(60):
        content: list[Any] = []
        for _ in range(rng.randint(1, 5)):
            size = rng.randint(1, 1500), rng.randint(1, 1500)
            content.append(picture(*size) if rng.random() < 0.5 else words("x [IMG] é\n"))
        body = chat(content)
        result = pixtral.render_chat(body).engine_input
        assert result.token_ids.tolist() == ids_of(theirs, body, monkeypatch)


def test_nothing_is_decoded_or_fetched(pixtral: foreword.Renderer, monkeypatch: Any) -> None:
    def fail(*given: Any) -> None:
        raise AssertionError(given)

    for name in ("image_from_chunk", "transform_image", "download_image"):
        monkeypatch.setattr(their_images, name, fail, raising=False)
    assert len(pixtral.render_chat(chat([picture(9, 9)])).engine_input.media_features) == 1
    with pytest.raises(UnsupportedFeature) as refusal:
        pixtral.render_chat(chat([{"type": "image", "url": "http://169.254.169.254/x"}]))
    assert refusal.value.param == "messages[0].content[0]"


def test_many_pictures_keep_their_numbers(pixtral: foreword.Renderer) -> None:
    sizes = [(16 * width, 16) for width in range(1, 41)]
    result = pixtral.render_chat(chat([picture(*size) for size in sizes])).engine_input
    lengths = [span.stop - span.start for span in result.media_features]
    assert lengths == [width // 16 + 1 for width, _ in sizes]


@pytest.mark.parametrize("side", ["left", "right", None])
def test_a_cut_anywhere_is_right_or_refused(pixtral: foreword.Renderer, side: Any) -> None:
    turns = ([words("some words before"), picture(40, 40), words("and after it")],)
    whole = pixtral.render_chat(chat(*turns)).engine_input
    total, outcomes = len(whole.token_ids), set()
    for kept in range(1, total):
        sent = chat(*turns, truncate_prompt_tokens=kept, truncation_side=side)
        low, high = (0, kept) if side == "right" else (total - kept, total)
        (span,) = whole.media_features
        try:
            cut = pixtral.render_chat(sent).engine_input
        except MediaWouldBeCut:
            assert span.start < low or span.stop > high
            outcomes.add("refused")
            continue
        assert cut.token_ids == whole.token_ids[low:high]
        outcomes.add("cut")
    assert outcomes == {"refused", "cut"}


def test_an_engine_is_sent_expanded_ids_in_both_forms(pixtral: foreword.Renderer) -> None:
    """Its processor for this mode only looks where the items are."""
    body = chat([picture(40, 40), words("x")], model="m")
    whole = pixtral.generate_request(body)
    left = pixtral.generate_request(body, media_as="content_parts")
    assert not isinstance(whole, list)
    assert not isinstance(left, list)
    assert left.token_ids == whole.token_ids
    assert left.content_parts is not None
    assert whole.features is not None
    assert [part["uuid"] for part in left.content_parts] == whole.features["mm_hashes"]["image"]


def test_references_and_limits(pixtral: foreword.Renderer, folder: Path) -> None:
    body = chat([words("x"), picture(3, 4)], "y", [picture(5, 6), words("z")])
    paths = [(one.path, one.index) for one in pixtral.collect_media(body)]
    assert paths == [("messages[0].content[1]", 0), ("messages[2].content[0]", 1)]
    few = foreword.load(
        str(folder), tokenizer_mode="mistral", media=MediaOptions(max_items={"image": 1})
    )
    with pytest.raises(InvalidRequest, match="At most 1 image"):
        few.render_chat(body)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
        {"type": "image_embeds", "image_embeds": "AAAA"},
    ],
)
def test_other_media_are_refused_by_name(part: Any, pixtral: foreword.Renderer) -> None:
    with pytest.raises(UnsupportedFeature, match=part["type"]) as refusal:
        pixtral.render_chat(chat([part]))
    assert refusal.value.param == "messages[0].content[0]"


def test_a_model_of_text_says_so() -> None:
    made = Path(mkdtemp())
    shutil.copy(PIXTRAL.with_name("tekken_240718.json"), made / "tekken.json")
    config = {"model_type": "mistral", "max_position_embeddings": 1000}
    (made / "config.json").write_text(json.dumps(config))
    renderer = foreword.load(str(made), tokenizer_mode="mistral")
    with pytest.raises(UnsupportedFeature, match="the model type mistral"):
        renderer.render_chat(chat([picture(5, 5)]))
    assert len(renderer.render_chat(chat("text")).engine_input.token_ids) > 1


def test_a_prompt_that_is_too_long_is_diagnosed(folder: Path) -> None:
    """What does not fit is still counted, its media too."""
    from foreword.diagnosis.stations import walk

    short = foreword.load(str(folder), tokenizer_mode="mistral", max_model_len=10)
    stations = walk(short, chat([words("what is it"), picture(40, 40)]), kind="chat")
    assert stations.stopped_at == "budget"
    assert stations.tokens is not None
    (span,) = stations.tokens.spans
    assert (span.stop - span.start, len(stations.items)) == (12, 1)
    refused = walk(short, chat([{"type": "image", "url": "ftp://x"}]), kind="chat")
    assert refused.stopped_at == "conversation"
