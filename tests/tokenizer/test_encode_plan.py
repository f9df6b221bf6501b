"""Plans: segments cover a text, stay the same when it grows, and cost little to find."""

from __future__ import annotations

import importlib.util
import pickle
import random
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from foreword.errors import AssetsInvalid
from foreword.tokenizer.encode import (
    assemble,
    assemble_offsets,
    batch,
    head_segments,
    plan,
    tail_segments,
)
from foreword.tokenizer.segments import prove
from foreword.types import make_token_ids

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
REAL = sorted(DATA.glob("models/*/tokenizer.json")) + sorted(
    DATA.glob("tokenizers/*/tokenizer.json")
)

FILE = b"""{
  "version": "1.0", "decoder": null, "post_processor": null,
  "added_tokens": [
    {"id": 1, "content": "<|im_start|>", "special": true, "normalized": false},
    {"id": 2, "content": "<|im_end|>", "special": true, "normalized": false}
  ],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {
    "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true
  },
  "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}
}"""
RULES = prove(FILE)


def prose(num_words: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    letters = "abcdefghij"
    return " ".join("".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(num_words))


def chat(num_turns: int) -> str:
    turn = "<|im_start|>user\n{}<|im_end|>\n"
    return "".join(turn.format(prose(100, seed)) for seed in range(num_turns))


def test_segments_cover_the_text_in_pieces_of_about_the_target() -> None:
    text = prose(20_000)
    segments = plan(RULES, text, target_chars=3000)
    assert "".join(s.of(text) for s in segments) == text
    assert all(a.stop == b.start for a, b in pairwise(segments))
    assert all(3000 <= s.stop - s.start < 3020 for s in segments[:-1])
    assert all(RULES.is_cut(text, s.start) for s in segments[1:])


def test_tail_segments_cover_the_text_from_its_end() -> None:
    text = chat(60)
    segments = list(tail_segments(RULES, text, target_chars=1000))
    assert segments[0].stop == len(text)
    assert "".join(s.of(text) for s in reversed(segments)) == text
    assert all(RULES.is_cut(text, s.start) for s in segments[:-1])
    assert all(text.startswith("<|im_start|>", s.start) for s in segments)


def test_a_message_is_cut_alike_wherever_it_stands() -> None:
    long = prose(3000, 1) + "<|im_end|>"
    first = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>" + long
    other = chat(7) + "<|im_start|>" + long

    def pieces(text: str) -> set[str]:
        return {s.of(text) for s in plan(RULES, text, target_chars=1000)}

    assert len(pieces(first) & pieces(other)) >= 12


def test_a_growing_chat_keeps_its_segments() -> None:
    text = chat(40)
    before = plan(RULES, text[:-500], target_chars=1000)
    after = plan(RULES, text, target_chars=1000)
    assert after[: len(before) - 1] == before[:-1]


def test_empty_and_short_texts_are_one_segment_at_most() -> None:
    assert plan(RULES, "") == ()
    assert [s.of("a b") for s in plan(RULES, "a b")] == ["a b"]


@pytest.mark.parametrize("char", ["a", " ", "\n", "😀", "<|im_"])
def test_a_text_without_cuts_is_one_segment_found_quickly(char: str) -> None:
    text = char * 100_000
    assert len(plan(RULES, text)) == 1
    assert len(list(tail_segments(RULES, text))) == 1


def test_batches_hold_enough_for_the_tokens_that_can_matter() -> None:
    text = prose(20_000)
    batches = list(batch(head_segments(RULES, text, target_chars=1000), num_tokens=2000))
    assert sum(s.stop - s.start for s in batches[0]) >= 6000
    assert "".join(s.of(text) for b in batches for s in b) == text


def test_ids_and_offsets_of_pieces_are_put_together() -> None:
    assert list(assemble([make_token_ids([1, 2]), make_token_ids(), make_token_ids([3])])) == [
        1,
        2,
        3,
    ]
    text = "aa aa"
    segments = plan(RULES, text, target_chars=1)
    offsets = assemble_offsets(segments, [[(0, 1), (1, 2)], [(0, 3)]])
    assert list(offsets) == [(0, 1), (1, 2), (2, 5)]


def test_rules_travel_between_processes() -> None:
    assert pickle.loads(pickle.dumps(RULES)) == RULES


def test_a_file_that_is_none_is_refused() -> None:
    with pytest.raises(AssetsInvalid, match=r"tokenizer\.json"):
        prove(b'{"model": 3}')


def load_fuzzer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_cuts", ROOT / "scripts" / "fuzz_cuts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.golden
@pytest.mark.skipif(not REAL, reason="the private data folder beside the checkout is absent")
@pytest.mark.parametrize(
    "name",
    ["qwen3", "gemma3", "gptoss", "deepseek_v3", "gpt2", "llama2", "mistral03", "xlm_roberta"],
)
def test_real_tokenizers_agree_on_a_sample(name: str) -> None:
    [path] = [file for file in REAL if file.parent.name == name]
    _, tally = load_fuzzer().check_tokenizer(path, random.Random(5), 1000)
    assert tally.differences == []
    assert tally.cuts > 120


@pytest.mark.golden
@pytest.mark.skipif(not REAL, reason="the private data folder beside the checkout is absent")
def test_every_real_tokenizer_has_cuts_between_words() -> None:
    kinds = {
        file.parent.name: prove(file.read_bytes()).kind
        for file in REAL
        if file.parent.name != "gemma3"
    }
    assert {name for name, kind in kinds.items() if kind == "vocabulary"} == {
        "llama2",
        "mistral03",
    }
    assert set(kinds.values()) == {"segmentation", "vocabulary"}
