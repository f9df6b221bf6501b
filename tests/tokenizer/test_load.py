"""Resolving the mode, and loading once."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword.errors import AssetsInvalid, InvalidRequest, UnsupportedFeature
from foreword.tokenizer.load import get_tokenizer, resolve_tokenizer_args
from foreword.types import ModelAssets, RunnerType


def with_files(*names: str) -> ModelAssets:
    return ModelAssets(name="m", file_names=frozenset(names))


@pytest.mark.parametrize(
    ("names", "mode"),
    [
        (("tokenizer.json",), "hf"),
        (("tekken.json",), "hf"),
        (("tekken.json", "consolidated.safetensors"), "mistral"),
        (("tokenizer.model.v3", "consolidated-00001-of-00002.safetensors"), "mistral"),
        (("tokenizer.model", "consolidated.safetensors"), "hf"),
        (("tekken.json", "model.safetensors", "tokenizer.json"), "hf"),
        ((), "hf"),
    ],
)
def test_auto_is_mistral_only_for_mistral_weights_and_vocabulary(
    names: tuple[str, ...], mode: str
) -> None:
    assert resolve_tokenizer_args(with_files(*names)).mode == mode


@pytest.mark.parametrize(
    ("runner", "side"), [("generate", "left"), ("draft", "left"), ("pooling", "right")]
)
def test_the_default_side_follows_the_runner(runner: RunnerType, side: str) -> None:
    assert resolve_tokenizer_args(with_files(), runner_type=runner).truncation_side == side


def test_a_given_side_and_mode_win() -> None:
    assets = with_files("tekken.json", "consolidated.safetensors")
    resolved = resolve_tokenizer_args(
        assets, runner_type="pooling", mode="hf", truncation_side="left"
    )
    assert (resolved.mode, resolved.truncation_side) == ("hf", "left")


def test_resolving_is_cached_by_every_argument() -> None:
    assets = with_files("tokenizer.json")
    first = resolve_tokenizer_args(assets)
    assert resolve_tokenizer_args(replace(assets)) is first
    assert resolve_tokenizer_args(replace(assets, revision="v2")) is not first
    assert resolve_tokenizer_args(assets, runner_type="pooling") != first


def test_an_unknown_runner_or_side_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"'train'.*generate, draft, pooling"):
        resolve_tokenizer_args(with_files(), runner_type=cast("Any", "train"))
    with pytest.raises(InvalidRequest, match="'middle'"):
        resolve_tokenizer_args(with_files(), truncation_side=cast("Any", "middle"))


def test_loading_twice_gives_the_same_tokenizer_by_content() -> None:
    raw = small.byte_level().to_str().encode()
    first = get_tokenizer(small.assets(raw))
    again = get_tokenizer(replace(small.assets(bytes(bytearray(raw))), name="other name"))
    assert again is first


def test_everything_that_decides_the_ids_is_part_of_the_key() -> None:
    raw = small.byte_level().to_str().encode()
    first = get_tokenizer(small.assets(raw))
    assert get_tokenizer(small.assets(raw), model_vocab_size=1000) is not first
    assert get_tokenizer(small.assets(raw), runner_type="pooling") is not first
    config = {"eos_token": "<|end|>", "model_max_length": 10**30}
    assert get_tokenizer(small.assets(raw, tokenizer_config=config)) is not first
    assert get_tokenizer(small.assets(raw, do_lower_case=True)) is not first


def test_a_mode_that_is_not_built_is_said() -> None:
    with pytest.raises(UnsupportedFeature, match="kimi_audio"):
        get_tokenizer(with_files("tiktoken.model"), mode="kimi_audio")


def test_a_slow_tokenizer_names_its_files_and_the_way_out() -> None:
    with pytest.raises(AssetsInvalid, match=r"tokenizer.json: missing.*vocab\.txt.*Convert"):
        get_tokenizer(with_files("vocab.txt", "config.json"))
    with pytest.raises(AssetsInvalid, match=r"tekken\.json.*mode 'mistral'"):
        get_tokenizer(with_files("tekken.json"))
