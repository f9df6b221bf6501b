"""Mode kimi_audio against vLLM's own class, on the real file of its relative Kimi K2."""

from __future__ import annotations

import base64
import json
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.errors import InvalidRequest
from foreword.tokenizer.kimi_audio import SPELLABLE

pytest.importorskip("transformers", reason="needs the parity group")
pytest.importorskip("tiktoken", reason="needs the parity group")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

KIMI = Path(__file__).resolve().parents[3] / "shared" / "data" / "tokenizers" / "kimi_k2"
MARKS = {**{text: i + 20_000 for text, i in SPELLABLE.items()}, "<|im_end|>": 171_000}
PIECES = (
    "the", " dog", "Größe", "中文", "12345", "don't", "\n\n", "  ",
    "👩‍👩‍👧", "e\u0301", "<|im", *MARKS,
    "\0", "№", "ſ'S",
)  # fmt: skip


@pytest.mark.witness(
    family="mode:kimi_audio",
    what="ids, decoding and refusals of random texts, on Kimi K2's file",
    against="vLLM 0.33's own class",
    needs="the group parity, the data folder and the sources of vLLM 0.33",
)
@pytest.mark.skipif(not KIMI.is_dir(), reason="no private data folder beside the checkout")
def test_random_texts(
    tmp_path: Path, vllm_tokenizers: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = types.ModuleType("pybase64")
    decoder.b64decode = base64.b64decode  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pybase64", decoder)
    (tmp_path / "tiktoken.model").write_bytes((KIMI / "tiktoken.model").read_bytes())
    declared = {str(i): {"content": text, "special": True} for text, i in MARKS.items()}
    config = {"added_tokens_decoder": declared}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 512}')
    theirs = vllm_tokenizers("kimi_audio").KimiAudioTokenizer.from_pretrained(tmp_path)
    ours = foreword.load(tmp_path, tokenizer_mode="kimi_audio").tokenizer
    assert ours.info.max_token_id == theirs.max_token_id
    assert ours.info.all_special_ids == set(theirs.all_special_ids)
    assert ours.info.eos_token_id == theirs.eos_token_id
    rng = random.Random(1)
    num_refused = 0
    for _ in range(2000):
        text = "".join(rng.choices(PIECES, k=rng.randrange(14)))
        if "<|im_end|>" in text:
            num_refused += 1
            with pytest.raises(ValueError, match="disallowed special token"):
                theirs.encode(text)
            with pytest.raises(InvalidRequest):
                ours.encode(text, add_special_tokens=True)
            continue
        expected = theirs.encode(text)
        assert list(ours.encode(text, add_special_tokens=True).token_ids) == expected
        for skips in (True, False):
            said = theirs.decode(expected, skip_special_tokens=skips)
            assert ours.decode(expected, skip_special_tokens=skips) == said
    assert 100 < num_refused < 1900
