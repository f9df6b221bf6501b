"""The segmented tokenizer against the reference's full encode, over texts that grow and change."""

from __future__ import annotations

import json
import pickle
import random
import re
import sys
import threading
from array import array
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

from foreword import demo
from foreword.assets.load import load_assets
from foreword.errors import InvalidRequest
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.segmented import SegmentedTokenizer
from foreword.types import Window

WORDS = re.split(
    " ",
    "the tokens of a chat grow by a turn; 12345 67 don't I'M \n\n  \t naïve é 東京は晴れ 🌤️ "
    "<|im_start|> user <|im_end|> def f(x):\n    return x\r\n <|im_ end|> <think> </think>",
)


@pytest.fixture(scope="module")
def reference() -> HuggingFaceTokenizer:
    tokenizer = get_tokenizer(load_assets(demo.model_folder()))
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    return tokenizer


def some_text(rng: random.Random, num_chars: int) -> str:
    text = ""
    while len(text) < num_chars:
        text += rng.choice(WORDS) + rng.choice([" ", " ", " ", "", "\n"])
    return text[:num_chars]


def check(tokenizer: SegmentedTokenizer, text: str, *, scope: str = "") -> None:
    for with_offsets in (False, True):
        got = tokenizer.encode(
            text, add_special_tokens=False, with_offsets=with_offsets, scope=scope
        )
        want = tokenizer.reference.encode(text, add_special_tokens=False, with_offsets=with_offsets)
        assert got.token_ids == want.token_ids
        assert got.offsets == want.offsets
        assert got.is_complete
        assert got.num_chars == len(text)


def test_a_chat_that_grows_shrinks_and_branches(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    rng = random.Random(7)
    text = some_text(rng, 3000)
    for _ in range(60):
        match rng.randrange(5):
            case 0 | 1:
                text += some_text(rng, rng.randrange(1, 900))
            case 2:
                place = rng.randrange(len(text))
                text = text[:place] + some_text(rng, 40) + text[place + 40 :]
            case 3:
                text = text[: max(2500, len(text) - rng.randrange(600))]
            case _:
                text = text[: max(2500, len(text) - 30)] + some_text(rng, 700)
        check(tokenizer, text)
    stats = tokenizer.state.stats()
    assert stats.prefix_hits > 50
    assert stats.segment_hits > 50


def test_a_text_that_completes_a_control_token_changes_its_own_end(
    reference: HuggingFaceTokenizer,
) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    for end in ("<|im_", "<|im_end|", "<", "x ", "x\n", "12", "don'"):
        text = some_text(random.Random(1), 4000) + end
        check(tokenizer, text)
        for more in ("end|>", "start|>y", "|>", " x", "\n\nbar", "3", "t", "é"):
            check(tokenizer, text + more)


def test_growth_encodes_only_what_is_new(
    reference: HuggingFaceTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    text = some_text(random.Random(3), 60_000)
    check(tokenizer, text)
    encoded: list[str] = []
    real = SegmentedTokenizer.encode_pieces

    def spy(self: SegmentedTokenizer, texts: list[str], with_offsets: bool) -> list[object]:
        encoded.extend(texts)
        return list(real(self, texts, with_offsets))

    monkeypatch.setattr(SegmentedTokenizer, "encode_pieces", spy)
    grown = text + some_text(random.Random(4), 1000)
    assert tokenizer.encode(grown, add_special_tokens=False).token_ids == (
        reference.encode(grown, add_special_tokens=False).token_ids
    )
    assert sum(map(len, encoded)) < 2500
    encoded.clear()
    tokenizer.encode(grown, add_special_tokens=False)
    assert encoded == []


@pytest.mark.parametrize("keep", ["head", "tail"])
def test_a_window_gives_the_true_ids_of_its_end(reference: HuggingFaceTokenizer, keep: str) -> None:
    rng = random.Random(11)
    for num_tokens in (0, 1, 10, 200, 3000, 10**6):
        text = some_text(rng, 40_000)
        tokenizer = SegmentedTokenizer.over(reference)
        full = reference.encode(text, add_special_tokens=False, with_offsets=True)
        for _ in range(2):
            got = tokenizer.encode(
                text,
                add_special_tokens=False,
                with_offsets=True,
                window=Window(num_tokens=num_tokens, keep=keep),  # type: ignore[arg-type]
            )
            size = len(got.token_ids)
            assert size >= min(num_tokens, len(full.token_ids))
            assert got.is_complete == (size == len(full.token_ids))
            start, stop = (0, size) if keep == "head" else (len(full.token_ids) - size, None)
            assert got.token_ids == full.token_ids[start:stop]
            assert full.offsets is not None
            assert got.offsets == full.offsets.cut(
                start, len(full.token_ids) if stop is None else stop
            )
        if num_tokens <= 3000:
            assert size < len(full.token_ids), "the window should have bounded the work"


def test_special_tokens_stand_around_the_whole(tmp_path: Path) -> None:
    folder = Path(demo.model_folder())
    for name in ("tokenizer_config.json", "config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    file = json.loads((folder / "tokenizer.json").read_text())
    special = {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}
    token_id = next(t["id"] for t in file["added_tokens"] if t["content"] == "<|endoftext|>")
    file["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [special, {"Sequence": {"id": "A", "type_id": 0}}, special],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<|endoftext|>": {
                "id": "<|endoftext|>",
                "ids": [token_id],
                "tokens": ["<|endoftext|>"],
            }
        },
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    reference = get_tokenizer(load_assets(str(tmp_path)))
    assert isinstance(reference, HuggingFaceTokenizer)
    tokenizer = SegmentedTokenizer.over(reference)
    for text in ("", "hi", some_text(random.Random(2), 9000)):
        got = tokenizer.encode(text, add_special_tokens=True, with_offsets=True)
        want = reference.encode(text, add_special_tokens=True, with_offsets=True)
        assert (got.token_ids, got.offsets) == (want.token_ids, want.offsets)
        assert (got.num_prefix_special, got.num_suffix_special) == (1, 1)
    window = Window(num_tokens=50, keep="tail")
    tail = tokenizer.encode(
        some_text(random.Random(5), 30_000), add_special_tokens=True, window=window
    )
    assert not tail.is_complete
    assert tail.token_ids[0] == tail.token_ids[-1] == token_id


def test_the_memos_stay_within_their_bytes(reference: HuggingFaceTokenizer) -> None:
    limit = 400_000
    tokenizer = SegmentedTokenizer.over(reference, memo_bytes=limit)
    rng = random.Random(5)
    base = some_text(rng, 2200)
    for number in range(300):
        tokenizer.encode(f"{base} {number} {some_text(rng, 300)}", add_special_tokens=False)
    stats = tokenizer.state.stats()
    assert 0 < stats.segment_bytes <= limit // 4
    assert 0 < stats.prefix_bytes <= limit * 3 // 4
    assert stats.evictions > 0
    nothing = SegmentedTokenizer.over(reference, memo_bytes=0)
    check(nothing, base)
    assert nothing.state.stats().num_segments == 0


def test_scopes_share_nothing(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    text = some_text(random.Random(6), 8000)
    tokenizer.encode(text, add_special_tokens=False, scope="a")
    before = tokenizer.state.stats()
    tokenizer.encode(text, add_special_tokens=False, scope="b")
    after = tokenizer.state.stats()
    assert after.segment_hits == before.segment_hits
    assert after.prefix_hits == before.prefix_hits


def test_many_prompts_with_one_beginning_are_each_found(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference, memo_bytes=2**26)
    system = some_text(random.Random(8), 5000)
    chats = [f"{system} user {n}: {some_text(random.Random(n), 900)}" for n in range(200)]
    for chat in chats:
        tokenizer.encode(chat, add_special_tokens=False)
    before = tokenizer.state.stats()
    for chat in chats:
        found = tokenizer.state.find_prefix("", False, chat + " and more")
        assert found is not None
        entry, num_cuts = found
        assert num_cuts == len(entry.cuts), (
            "the chat's own entry, not one that shares its beginning"
        )
    assert tokenizer.state.stats().num_prefixes == before.num_prefixes


def test_a_stretch_without_cuts_meets_its_limit(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference, max_uncut_chars=10_000)
    check(tokenizer, some_text(random.Random(9), 30_000))
    with pytest.raises(InvalidRequest, match="20000 characters") as caught:
        tokenizer.encode("a" * 20_000, add_special_tokens=False)
    assert caught.value.details == {"num_chars": 20_000, "max_uncut_chars": 10_000}


def test_a_lone_surrogate_is_refused(reference: HuggingFaceTokenizer) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        SegmentedTokenizer.over(reference).encode("a\ud800b", add_special_tokens=False)


def test_what_is_returned_is_the_callers_own(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    text = some_text(random.Random(10), 6000)
    want = array("I", reference.encode(text, add_special_tokens=False).token_ids)
    for _ in range(3):
        got = tokenizer.encode(text, add_special_tokens=False).token_ids
        assert got == want
        got[0] = 0
        got.extend(want)


def test_threads_agree(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference, memo_bytes=300_000)
    texts = [some_text(random.Random(n), 4000) for n in range(8)]
    wanted = [reference.encode(text, add_special_tokens=False).token_ids for text in texts]
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(60):
            which = rng.randrange(len(texts))
            got = tokenizer.encode(texts[which], add_special_tokens=False).token_ids
            if got != wanted[which]:
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_copy_starts_with_nothing_remembered(reference: HuggingFaceTokenizer) -> None:
    tokenizer = SegmentedTokenizer.over(reference)
    text = some_text(random.Random(12), 5000)
    check(tokenizer, text)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.state.stats().num_segments == 0
    assert copy.encode(text, add_special_tokens=False).token_ids == (
        tokenizer.encode(text, add_special_tokens=False).token_ids
    )


def test_offsets_where_a_normalizer_prepends_before_bytes() -> None:
    # The prepended space may be one token with the first byte of a character that has several.
    file = json.loads(small.byte_level(special=()).to_str())
    file["normalizer"] = {"type": "Prepend", "prepend": " "}
    file["pre_tokenizer"] = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True,
    }  # fmt: skip
    vocab, merges = file["model"]["vocab"], file["model"]["merges"]
    for left, right in (("Ġ", "Ä"), ("Ġ", "Ç"), ("Ġ", "Ò")):  # a space and a first byte
        vocab.setdefault(left + right, max(vocab.values()) + 1)
        merges.insert(0, [left, right])
    reference = get_tokenizer(small.assets(json.dumps(file).encode()))
    assert isinstance(reference, HuggingFaceTokenizer)
    tokenizer = SegmentedTokenizer.over(reference)
    assert tokenizer.rules.kind != "none"
    for unit in (" Ġ}", " Ģx", " ǿ.", " Ұa"):
        made = tokenizer.encode(unit * 2500, add_special_tokens=False, with_offsets=True)
        true = reference.encode(unit * 2500, add_special_tokens=False, with_offsets=True)
        assert made.token_ids == true.token_ids
        assert made.offsets == true.offsets
