"""Resolving the mode, and loading once."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword.errors import AssetsInvalid, InvalidRequest, UnsupportedFeature
from foreword.tokenizer.load import get_tokenizer, resolve_tokenizer_args
from foreword.tokenizer.loaded import LoadedOnce
from foreword.tokenizer.registry import TokenizerRegistry
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
    ("architecture", "mode"),
    [
        ("Alpamayo2Super", "alpamayo2_super"),
        ("MoonshotKimiaForCausalLM", "kimi_audio"),
        ("KimiK3ForConditionalGeneration", "kimi_k3"),
        ("DeepseekV32ForCausalLM", "deepseek_v32"),
        ("DeepseekV4ForCausalLM", "deepseek_v4"),
        ("DeepseekV4ForConditionalGeneration", "deepseek_v4"),
        ("DeepseekV41ForCausalLM", "deepseek_v41"),
        ("InklingForCausalLM", "inkling"),
        ("InklingForConditionalGeneration", "inkling"),
        ("DeepseekV3ForCausalLM", "hf"),
        ("Qwen3ForCausalLM", "hf"),
    ],
)
def test_auto_is_what_the_architecture_asks_for(architecture: str, mode: str) -> None:
    assets = replace(with_files("tokenizer.json"), config={"architectures": [architecture]})
    assert resolve_tokenizer_args(assets).mode == mode
    # Before Mistral's own files are looked for; and never where a mode is given.
    mistral = replace(assets, file_names=frozenset({"tekken.json", "consolidated.safetensors"}))
    assert resolve_tokenizer_args(mistral).mode == ("mistral" if mode == "hf" else mode)
    assert resolve_tokenizer_args(assets, mode="hf").mode == "hf"


@pytest.mark.parametrize("given", [None, [], [None], {"a": 1}, 3, ["DeepseekV3ForCausalLM"]])
def test_architectures_that_say_nothing_change_nothing(given: object) -> None:
    assets = replace(with_files("tokenizer.json"), config={"architectures": given})
    assert resolve_tokenizer_args(assets).mode == "hf"


def test_models_that_share_a_name_do_not_share_a_mode() -> None:
    first = replace(with_files(), config={"architectures": ["Alpamayo2Super"]})
    second = replace(with_files(), config={"architectures": ["Qwen3ForCausalLM"]})
    modes = [resolve_tokenizer_args(assets).mode for assets in (first, second)]
    assert modes == ["alpamayo2_super", "hf"]


def test_upper_case_in_a_mode_does_not_matter() -> None:
    for given, mode in (("HF", "hf"), ("Auto", "hf"), ("DeepSeek_V4", "deepseek_v4")):
        assert resolve_tokenizer_args(with_files("tokenizer.json"), mode=given).mode == mode
    registry = TokenizerRegistry()
    registry.register("Own", "m", "C")
    assert registry.row("own") == ("m", "C")


def test_an_architecture_whose_mode_is_not_built_is_refused_by_name() -> None:
    built = small.assets(small.byte_level().to_str().encode())
    config = {**built.config, "architectures": ["KimiK3ForConditionalGeneration"]}
    with pytest.raises(UnsupportedFeature, match=r"kimi_k3.*encoding_k3\.py.*mode 'hf'"):
        get_tokenizer(replace(built, config=config))
    assert get_tokenizer(replace(built, config=config), mode="hf").info.mode == "hf"


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
    with pytest.raises(UnsupportedFeature, match="kimi_k3"):
        get_tokenizer(with_files("tiktoken.model"), mode="kimi_k3")


def test_a_slow_tokenizer_names_its_files_and_the_way_out() -> None:
    with pytest.raises(AssetsInvalid, match=r"tokenizer.json: missing.*vocab\.txt.*Convert"):
        get_tokenizer(with_files("vocab.txt", "config.json"))
    with pytest.raises(AssetsInvalid, match=r"tekken\.json.*--tokenizer-mode mistral"):
        get_tokenizer(with_files("tekken.json"))


def test_a_mode_registered_anew_loads_anew() -> None:
    assets = small.assets(small.byte_level())
    registry = TokenizerRegistry({"hf": ("foreword.tokenizer.huggingface", "HuggingFaceTokenizer")})
    first = get_tokenizer(assets, registry=registry)
    assert get_tokenizer(assets) is first  # another registry that says the same
    with pytest.warns(UserWarning, match="is now"):
        registry.register("hf", __name__, "CountedTokenizer")
    assert isinstance(get_tokenizer(assets, registry=registry), CountedTokenizer)
    assert get_tokenizer(assets) is first


class CountedTokenizer:
    """Counts how often it is loaded, and is slow enough for threads to meet."""

    num_loads = 0

    @classmethod
    def from_assets(cls, assets: ModelAssets, **options: Any) -> CountedTokenizer:
        cls.num_loads += 1
        time.sleep(0.05)
        return cls()


def test_threads_that_want_the_same_tokenizer_load_it_once() -> None:
    registry = TokenizerRegistry({"mine": (__name__, "CountedTokenizer")})
    assets = small.assets(small.byte_level(special=("<|threads|>",)))
    CountedTokenizer.num_loads = 0
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(lambda _: get_tokenizer(assets, mode="mine", registry=registry), range(8))
        )
    assert CountedTokenizer.num_loads == 1
    assert len({id(one) for one in made}) == 1


def test_what_was_loaded_last_is_kept_and_a_failure_is_not() -> None:
    loaded: LoadedOnce[str] = LoadedOnce(max_entries=2)
    loads: list[str] = []

    def load(key: str) -> str:
        return loaded.get(key, lambda: loads.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [load(key) for key in "abab"] == ["A", "B", "A", "B"]
    assert [load(key) for key in "acab"] == ["A", "C", "A", "B"]
    assert "".join(loads) == "abcb"
    with pytest.raises(ZeroDivisionError):
        loaded.get("x", lambda: str(1 // 0))
    assert loaded.get("x", lambda: "good") == "good"


def test_dropout_is_said() -> None:
    file = json.loads(small.byte_level().to_str())
    file["model"]["dropout"] = 0.25
    assets = replace(small.assets(small.byte_level()), tokenizer_json=json.dumps(file).encode())
    (warning,) = get_tokenizer(assets).warnings  # type: ignore[attr-defined]
    assert "dropout of 0.25" in warning
    assert "at random" in warning
