"""The context length of real models' configurations, as vLLM 0.33 derives it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from foreword.assets.context_length import (
    derive_max_model_len,
    explain_max_model_len,
    model_type,
    model_vocab_size,
    parse_max_model_len,
)
from foreword.errors import AssetsInvalid, InvalidRequest
from foreword.types import ModelAssets

MROPE = {"type": "mrope", "mrope_section": [16, 24, 24]}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
ROPE = {"rope_theta": 10000.0}

CONFIGS: dict[str, tuple[dict[str, Any], int]] = {
    "qwen3": ({"model_type": "qwen3", "max_position_embeddings": 262144}, 262144),
    "one scaling key is null": (
        {"model_type": "qwen3", "max_position_embeddings": 40960, "rope_scaling": None},
        40960,
    ),
    "llama 3.1 is already scaled": (
        {"model_type": "llama", "max_position_embeddings": 131072, "rope_scaling": LLAMA3, **ROPE},
        131072,
    ),
    "yarn is already scaled": (
        {"model_type": "qwen2", "max_position_embeddings": 131072, "rope_scaling": YARN, **ROPE},
        131072,
    ),
    "yarn, over an unscaled length, does not multiply": (
        {"model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": YARN, **ROPE},
        32768,
    ),
    "deepseek's old spelling of yarn": (
        {
            "model_type": "deepseek_v3",
            "max_position_embeddings": 163840,
            "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0},
            **ROPE,
        },
        163840,
    ),
    "linear multiplies": (
        {
            "model_type": "llama",
            "max_position_embeddings": 4096,
            "rope_scaling": {"type": "linear", "factor": 4.0},
            **ROPE,
        },
        16384,
    ),
    "dynamic multiplies": (
        {
            "model_type": "llama",
            "max_position_embeddings": 2048,
            "rope_scaling": {"rope_type": "dynamic", "factor": 2.5},
            **ROPE,
        },
        5120,
    ),
    "a null factor is 1": (
        {
            "model_type": "llama",
            "max_position_embeddings": 2048,
            "rope_parameters": {"rope_type": "default", "factor": None, "rope_theta": 1e4},
        },
        2048,
    ),
    "rope_parameters by kind of layer, last factor counts": (
        {
            "model_type": "olmo3",
            "max_position_embeddings": 8192,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
        16384,
    ),
    "gemma 3's linear scaling is already in its length": (
        {
            "model_type": "gemma3_text",
            "max_position_embeddings": 131072,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
        131072,
    ),
    "gemma 3 vision: the length is its class's": (
        {
            "model_type": "gemma3",
            "text_config": {"model_type": "gemma3_text", "hidden_size": 2560},
        },
        131072,
    ),
    "longrope starts from the original length": (
        {
            "model_type": "phi3",
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 8192,
            "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]},
            **ROPE,
        },
        8192,
    ),
    "su is longrope": (
        {
            "model_type": "phi3",
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "su", "short_factor": [1.0], "long_factor": [2.0]},
            **ROPE,
        },
        4096,
    ),
    "mrope does not multiply": (
        {"model_type": "qwen2_5_vl", "max_position_embeddings": 128000, "rope_scaling": MROPE},
        128000,
    ),
    "a nested text config, not the outer one": (
        {
            "model_type": "llava",
            "max_position_embeddings": 99,
            "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
        },
        4096,
    ),
    "llm_config is a text config": (
        {
            "model_type": "internvl_chat",
            "llm_config": {"model_type": "qwen2", "max_position_embeddings": 32768},
        },
        32768,
    ),
    "language_config is a text config": (
        {
            "model_type": "deepseek_vl_v2",
            "language_config": {"model_type": "deepseek_v2", "max_position_embeddings": 4096},
        },
        4096,
    ),
    "thinker, then text": (
        {
            "model_type": "qwen2_5_omni",
            "thinker_config": {
                "text_config": {"model_type": "qwen2_5_omni_text", "max_position_embeddings": 32768}
            },
        },
        32768,
    ),
    "gpt2: n_positions": ({"model_type": "gpt2", "n_positions": 1024}, 1024),
    "gpt2: n_positions above its class's": ({"model_type": "gpt2", "n_positions": 2048}, 2048),
    "llama: a larger foreign key does not lift its class's": (
        {"model_type": "llama", "n_positions": 8192},
        2048,
    ),
    "mpt: max_seq_len": ({"model_type": "mpt", "max_seq_len": 8192}, 8192),
    "chatglm: seq_length": ({"model_type": "chatglm", "seq_length": 131072}, 131072),
    "whisper: max_target_positions": ({"model_type": "whisper", "max_target_positions": 448}, 448),
    "whisper's class": ({"model_type": "whisper"}, 448),
    "the smallest of two keys": (
        {"model_type": "qwen", "max_position_embeddings": 32768, "seq_length": 8192},
        8192,
    ),
    "command-r: model_max_length wins, even when larger": (
        {"model_type": "cohere", "max_position_embeddings": 8192, "model_max_length": 131072},
        131072,
    ),
    "a sliding window does not cap": (
        {"model_type": "mistral", "max_position_embeddings": 32768, "sliding_window": 4096},
        32768,
    ),
    "nothing known": ({"model_type": "brand-new"}, 2048),
    "no config at all": ({}, 2048),
}


def make_assets(config: dict[str, Any], **more: Any) -> ModelAssets:
    return ModelAssets(name="m", config=config, **more)


@pytest.mark.parametrize(("config", "expected"), CONFIGS.values(), ids=CONFIGS.keys())
def test_length_of_configuration(config: dict[str, Any], expected: int) -> None:
    assert derive_max_model_len(make_assets(config)) == expected
    assert derive_max_model_len(make_assets(config), requested=-1) == expected


def test_an_assumed_length_comes_with_a_warning() -> None:
    guess = explain_max_model_len(make_assets({"model_type": "brand-new"}))
    assert (guess.source, guess.max_model_len) == ("assumed", 2048)
    assert guess.warning is not None
    assert "2048" in guess.warning
    known = explain_max_model_len(make_assets({"n_positions": 1024}))
    assert (known.source, known.warning) == ("n_positions", None)


def test_any_length_may_be_requested_where_none_is_known() -> None:
    assert derive_max_model_len(make_assets({}), requested=100_000) == 100_000


def test_requested_up_to_the_models_own() -> None:
    assets = make_assets({"max_position_embeddings": 4096})
    assert derive_max_model_len(assets, requested=4096) == 4096
    assert derive_max_model_len(assets, requested=1) == 1
    with pytest.raises(InvalidRequest) as caught:
        derive_max_model_len(assets, requested=4097)
    assert caught.value.param == "max_model_len"
    assert caught.value.details["requested"] == 4097
    assert caught.value.details["max_model_len"] == 4096
    assert "4097" in caught.value.message
    assert "max_position_embeddings" in caught.value.message
    assert derive_max_model_len(assets, requested=4097, allow_longer=True) == 4097


def test_longrope_can_be_asked_for_its_long_context() -> None:
    config, short = CONFIGS["longrope starts from the original length"]
    assert derive_max_model_len(make_assets(config), requested=131072) == 131072 > short
    with pytest.raises(InvalidRequest):
        derive_max_model_len(make_assets(config), requested=131073)


@pytest.mark.parametrize("requested", [0, -2])
def test_requested_must_be_a_length(requested: int) -> None:
    with pytest.raises(InvalidRequest, match=str(requested)):
        derive_max_model_len(make_assets({"n_positions": 10}), requested=requested)


def test_sentence_transformers_length_replaces_the_models() -> None:
    assets = make_assets({"max_position_embeddings": 512}, max_seq_length=256)
    assert derive_max_model_len(assets) == 256
    with pytest.raises(InvalidRequest):
        derive_max_model_len(assets, requested=257)


@pytest.mark.parametrize(
    ("runner", "embedding", "tokenizer_length", "expected"),
    [
        ("pooling", "absolute", 128, 128),
        ("pooling", "absolute", 1e30, 512),
        ("pooling", "rotary", 128, 512),
        ("pooling", None, 128, 512),
        ("generate", "absolute", 128, 512),
    ],
)
def test_the_tokenizers_length_counts_only_for_absolute_pooling_models(
    runner: str, embedding: str | None, tokenizer_length: float, expected: int
) -> None:
    assets = make_assets(
        {"max_position_embeddings": 512, "position_embedding_type": embedding},
        tokenizer_config={"model_max_length": tokenizer_length},
    )
    assert derive_max_model_len(assets, runner=runner) == expected


@pytest.mark.parametrize("value", ["4096", True, 0, -1, [4096], math.nan, math.inf])
def test_a_value_that_is_no_length_is_the_files_fault(value: object) -> None:
    with pytest.raises(AssetsInvalid, match="max_position_embeddings") as caught:
        derive_max_model_len(make_assets({"max_position_embeddings": value}))
    assert caught.value.details["file"] == "config.json"


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "linear", "factor": "4"},
        {"type": "linear", "factor": -1},
        {"type": "linear", "factor": math.inf},
        {"type": "linear", "rope_type": "yarn", "factor": 2.0},
    ],
)
def test_a_scaling_that_makes_no_sense_is_the_files_fault(scaling: dict[str, Any]) -> None:
    config = {"max_position_embeddings": 4096, "rope_scaling": scaling}
    with pytest.raises(AssetsInvalid, match="rope scaling"):
        derive_max_model_len(make_assets(config))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8192", 8192),
        ("8k", 8000),
        ("8K", 8192),
        ("25.6k", 25600),
        ("1m", 1_000_000),
        ("1M", 1_048_576),
        (" auto ", -1),
        ("-1", -1),
    ],
)
def test_what_an_operator_may_write(text: str, expected: int) -> None:
    assert parse_max_model_len(text) == expected


@pytest.mark.parametrize("text", ["", "x", "8.5K", "8.5", "-2", "8kk", "８k"])
def test_what_an_operator_may_not_write(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_max_model_len(text)
    assert caught.value.param == "max_model_len"


def test_vocabulary_size_and_model_type() -> None:
    assert model_vocab_size(make_assets({"vocab_size": 10})) == 10
    nested = {"model_type": "outer", "vocab_size": 1, "text_config": {"vocab_size": 20}}
    assert model_vocab_size(make_assets(nested)) == 20
    assert model_vocab_size(make_assets({"vocab_size": 7, "text_config": {"a": 1}})) == 7
    assert model_vocab_size(make_assets({})) is None
    assert model_type(make_assets(nested)) == "outer"
    assert model_type(make_assets({"model_type": ["odd"]})) is None
    with pytest.raises(AssetsInvalid, match="vocab_size is a string"):
        model_vocab_size(make_assets({"vocab_size": "10"}))
