"""Models with an encoder and a decoder: both prompts, the start token, and what each refuses."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import foreword
from foreword.errors import (
    AssetsInvalid,
    InvalidRequest,
    MalformedRequest,
    PromptTooLong,
    UnsupportedFeature,
)
from foreword.media.items import MediaItem

WORDS = ("<pad>", "</s>", "<unk>", "<sot>", "<en>", "one", "two", "three", "four", "<s>")
PAD, END, SOT, EN, ONE, TWO, THREE, FOUR = 0, 1, 3, 4, 5, 6, 7, 8
CLIP = MediaItem(modality="audio", identity="a clip", num_frames=16_000, sample_rate=16_000)


def load(folder: Path, config: dict[str, Any], **options: Any) -> foreword.Renderer:
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<sot>", "<en>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", END)]
    )
    declared = {"pad_token": "<pad>", "eos_token": "</s>"}
    given = {"vocab_size": len(WORDS), "max_position_embeddings": 8, **config}
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps(declared))
    (folder / "config.json").write_text(json.dumps(given))
    return foreword.load(folder, **options)


@pytest.fixture
def t5(tmp_path: Path) -> foreword.Renderer:
    return load(tmp_path, {"model_type": "t5", "decoder_start_token_id": PAD, "n_positions": 8})


@pytest.fixture
def whisper(tmp_path: Path) -> foreword.Renderer:
    config = {
        "model_type": "whisper", "is_encoder_decoder": True, "decoder_start_token_id": SOT,
        "max_source_positions": 30, "max_target_positions": 8,
    }  # fmt: skip
    return load(tmp_path, config)


def ids(values: array[int]) -> list[int]:
    return list(values)


def test_the_encoder_reads_the_text_and_the_decoder_begins_with_its_start(
    t5: foreword.Renderer,
) -> None:
    made = t5.render_encoder_decoder({"encoder_prompt": "one two", "cache_salt": "s"})
    assert ids(made.encoder.token_ids) == [ONE, TWO, END]
    assert ids(made.decoder.token_ids) == [PAD]
    assert made.encoder.cache_salt == made.decoder.cache_salt == "s"


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("three", [PAD, THREE, END]),  # tokenized as the encoder's prompt is
        ([THREE], [PAD, THREE]),
        ([PAD, THREE], [PAD, THREE]),  # never twice
        ("", [PAD, END]),
    ],
)
def test_a_decoders_own_words_follow_the_start(
    t5: foreword.Renderer, prompt: Any, expected: list[int]
) -> None:
    made = t5.render_encoder_decoder({"encoder_prompt": [ONE], "decoder_prompt": prompt})
    assert ids(made.encoder.token_ids) == [ONE]
    assert ids(made.decoder.token_ids) == expected


def test_each_prompt_has_the_budget_to_itself(t5: foreword.Renderer) -> None:
    full = t5.render_encoder_decoder({"encoder_prompt": [ONE] * 8, "decoder_prompt": [TWO] * 6})
    assert (len(full.encoder.token_ids), len(full.decoder.token_ids)) == (8, 7)
    with pytest.raises(PromptTooLong, match="9 tokens, but at most 8 fit"):
        t5.render_encoder_decoder({"encoder_prompt": [ONE] * 9})
    with pytest.raises(PromptTooLong, match="8 tokens; the context holds 8 and at least one"):
        t5.render_encoder_decoder({"encoder_prompt": [ONE], "decoder_prompt": [TWO] * 7})


def test_both_are_cut_alike_and_the_start_stays(t5: foreword.Renderer) -> None:
    made = t5.render_encoder_decoder(
        {
            "encoder_prompt": [ONE, TWO, THREE],
            "decoder_prompt": [FOUR, TWO, ONE],
            "truncate_prompt_tokens": 2,
            "truncation_side": "right",
        }
    )
    assert ids(made.encoder.token_ids) == [ONE, TWO]
    assert ids(made.decoder.token_ids) == [PAD, FOUR, TWO]
    assert made.decoder.num_truncated == 1


def test_what_hears_gets_a_clip_and_its_words_bring_their_own_marks(
    whisper: foreword.Renderer,
) -> None:
    made = whisper.render_encoder_decoder(
        {"encoder_prompt": "", "decoder_prompt": "<sot> <en> one"}, media=[CLIP]
    )
    assert ids(made.encoder.token_ids) == [0] * 30
    (span,) = made.encoder.media_features
    assert (span.start, span.stop, span.identity) == (0, 30, "a clip")
    assert ids(made.decoder.token_ids) == [SOT, EN, ONE]
    bare = whisper.render_encoder_decoder(
        {"encoder_prompt": "", "decoder_prompt": "one"}, media=[CLIP]
    )
    assert ids(bare.decoder.token_ids) == [SOT, ONE]


def test_what_hears_reads_no_text_and_needs_one_clip(whisper: foreword.Renderer) -> None:
    with pytest.raises(InvalidRequest, match="reads no text"):
        whisper.render_encoder_decoder({"encoder_prompt": "one"}, media=[CLIP])
    with pytest.raises(InvalidRequest, match="one audio clip; it was given nothing"):
        whisper.render_encoder_decoder({"encoder_prompt": ""})
    with pytest.raises(InvalidRequest, match="it was given audio, audio"):
        whisper.render_encoder_decoder({"encoder_prompt": ""}, media=[CLIP, CLIP])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "encoder_prompt"),
        ({"encoder_prompt": ["one", "two"]}, "encoder_prompt"),
        ({"encoder_prompt": [[1], [2]]}, "encoder_prompt"),
        ({"encoder_prompt": [[1]]}, "encoder_prompt"),
        ({"encoder_prompt": {"prompt": "one"}}, "encoder_prompt"),
        ({"encoder_prompt": [True]}, "encoder_prompt[0]"),
        ({"encoder_prompt": "one", "decoder_prompt": ["two"]}, "decoder_prompt"),
        ({"encoder_prompt": "one", "decoder_prompt": 3}, "decoder_prompt"),
    ],
)
def test_a_prompt_of_the_wrong_kind_is_named(
    t5: foreword.Renderer, body: dict[str, Any], param: str
) -> None:
    with pytest.raises(MalformedRequest) as caught:
        t5.render_encoder_decoder(body)
    assert caught.value.param == param


@pytest.mark.parametrize("prompt", [[], [ONE, 99]])
def test_ids_that_are_none_are_refused(t5: foreword.Renderer, prompt: list[int]) -> None:
    for name in ("encoder_prompt", "decoder_prompt"):
        body = {"encoder_prompt": "one", name: prompt}
        with pytest.raises(foreword.ForewordError) as caught:
            t5.render_encoder_decoder(body)
        assert caught.value.status == 400
        assert caught.value.param == name


def test_other_requests_are_told_the_way(t5: foreword.Renderer, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="render_encoder_decoder"):
        t5.render_cmpl({"prompt": "one"})
    with pytest.raises(UnsupportedFeature, match="render_encoder_decoder"):
        t5.render_chat({"messages": [{"role": "user", "content": "one"}]})
    # Its encoder alone makes vectors, and tokens can be counted, as of any model.
    assert ids(t5.render_pooling({"input": "one"})[0].token_ids) == [ONE, END]
    assert t5.tokenize({"prompt": "one"}).count == 2


def test_a_model_without_an_encoder_says_so(tmp_path: Path) -> None:
    renderer = load(tmp_path, {"model_type": "llama"})
    with pytest.raises(UnsupportedFeature, match="no encoder"):
        renderer.render_encoder_decoder({"encoder_prompt": "one"})


def test_without_a_start_token_the_bos_is_one(tmp_path: Path) -> None:
    renderer = load(tmp_path, {"model_type": "t5"})
    with pytest.raises(AssetsInvalid, match="no decoder_start_token_id, and the tokenizer no BOS"):
        renderer.render_encoder_decoder({"encoder_prompt": "one"})
    config = {"model_type": "mbart", "is_encoder_decoder": True}
    other = tmp_path / "other"
    other.mkdir()
    load(other, config)
    (other / "tokenizer_config.json").write_text('{"bos_token": "<s>"}')
    made = foreword.load(other).render_encoder_decoder({"encoder_prompt": "one"})
    assert ids(made.decoder.token_ids) == [WORDS.index("<s>")]


@pytest.mark.parametrize("wrong", [0, -1, True, "30", None])
def test_a_number_of_positions_that_is_none_names_the_file(tmp_path: Path, wrong: object) -> None:
    config = {"model_type": "whisper", "decoder_start_token_id": SOT, "max_source_positions": wrong}
    renderer = load(tmp_path, config)
    with pytest.raises(AssetsInvalid, match="max_source_positions"):
        renderer.render_encoder_decoder({"encoder_prompt": ""}, media=[CLIP])


@pytest.mark.parametrize("wrong", [99, -1, True, "0"])
def test_a_start_token_that_is_none_names_the_file(tmp_path: Path, wrong: object) -> None:
    renderer = load(tmp_path, {"model_type": "t5", "decoder_start_token_id": wrong})
    with pytest.raises(AssetsInvalid, match="decoder_start_token_id"):
        renderer.render_encoder_decoder({"encoder_prompt": "one"})


@pytest.mark.parametrize(
    ("config", "has_one"),
    [
        ({"is_encoder_decoder": True, "decoder_start_token_id": 0}, True),
        ({"text_config": {"is_encoder_decoder": True}, "decoder_start_token_id": 0}, True),
        ({"model_type": "t5", "is_encoder_decoder": False, "decoder_start_token_id": 0}, False),
        ({"text_config": None}, False),
    ],
)
def test_the_configuration_says_whether_there_is_an_encoder(
    tmp_path: Path, config: dict[str, Any], has_one: bool
) -> None:
    renderer = load(tmp_path, config)
    body = {"encoder_prompt": [ONE]}
    if has_one:
        assert ids(renderer.render_encoder_decoder(body).decoder.token_ids) == [0]
    else:
        with pytest.raises(UnsupportedFeature):
            renderer.render_encoder_decoder(body)


DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.mark.witness(
    family="prompt:encoder and decoder",
    what="ids of one documented prompt of T5, and its start token",
    against="the ids the model's documentation shows",
)
@pytest.mark.golden
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the data folder beside the checkout")
def test_the_real_t5(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((DATA / "tokenizers" / "t5" / name).read_bytes())
    config = (DATA / "configs" / "t5_small" / "config.json").read_bytes()
    (tmp_path / "config.json").write_bytes(config)
    text = "translate English to German: The house is wonderful."
    made = foreword.load(tmp_path).render_encoder_decoder({"encoder_prompt": text})
    # As the model's own documentation shows them.
    expected = [13959, 1566, 12, 2968, 10, 37, 629, 19, 1627, 5, 1]
    assert ids(made.encoder.token_ids) == expected
    assert ids(made.decoder.token_ids) == [0]
