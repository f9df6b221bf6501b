"""Tokenizer code that a model brings, run by the real transformers: its ids are ours."""

from __future__ import annotations

import json
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import foreword

transformers = pytest.importorskip("transformers", reason="needs the parity group")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

CODE = '''
import os
from transformers import PreTrainedTokenizer


class SyllableTokenizer(PreTrainedTokenizer):
    """Splits text into pairs of characters, most of which it does not know."""

    vocab_files_names = {"vocab_file": "syllables.vocab"}
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, vocab_file, **options):
        with open(vocab_file, encoding="utf-8") as file:
            self.pieces = file.read().split("\\n")
        self.places = {piece: place for place, piece in enumerate(self.pieces)}
        super().__init__(**options)

    @property
    def vocab_size(self):
        return len(self.pieces)

    def get_vocab(self):
        return {**self.places, **self.added_tokens_encoder}

    def _tokenize(self, text, **options):
        return [text[place : place + 2] for place in range(0, len(text), 2)]

    def _convert_token_to_id(self, token):
        return self.places.get(token, self.places["<unk>"])

    def _convert_id_to_token(self, index):
        return self.pieces[index]

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens)

    def build_inputs_with_special_tokens(self, token_ids_0, token_ids_1=None):
        return [self.bos_token_id, *token_ids_0, *(token_ids_1 or [])]
'''
ALPHABET = "abcdefgh "
TEMPLATE = "{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "m"))
    model = tmp_path / "syllables"
    model.mkdir()
    pieces = ["<unk>", "<s>", "</s>", *(a + b for a in ALPHABET for b in ALPHABET)]
    (model / "syllables.vocab").write_text("\n".join(pieces))
    (model / "tokenization_syllables.py").write_text(CODE)
    declared = {
        "tokenizer_class": "SyllableTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_syllables.SyllableTokenizer", None]},
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "chat_template": TEMPLATE,
    }  # fmt: skip
    (model / "tokenizer_config.json").write_text(json.dumps(declared))
    config = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": len(pieces)}
    (model / "config.json").write_text(json.dumps(config))
    return model


@pytest.mark.witness(
    family="file:code of the model's own",
    what="ids, decoding, special tokens and a chat of a small tokenizer in Python",
    against="transformers 5.20 with trust_remote_code",
)
def test_its_ids_are_those_of_transformers(folder: Path) -> None:
    theirs: Any = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    ours = foreword.load(folder, trust_remote_code=True)
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choices([*ALPHABET, "<s>", "</s>", "é", "\n"], k=rng.randrange(40)))
        for adds in (True, False):
            expected = theirs(text, add_special_tokens=adds)["input_ids"]
            made = ours.tokenizer.encode(text, add_special_tokens=adds)
            assert list(made.token_ids) == expected
        for skips in (True, False):
            said = ours.tokenizer.decode(expected, skip_special_tokens=skips)
            assert said == theirs.decode(expected, skip_special_tokens=skips)
    info = ours.tokenizer.info
    assert (info.bos_token_id, info.eos_token_id) == (theirs.bos_token_id, theirs.eos_token_id)
    assert (info.num_prefix_special, info.num_suffix_special) == (1, 0)
    messages = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "de "}]
    body = {"messages": messages, "add_generation_prompt": False}
    rendered = ours.render_chat(body).engine_input.token_ids
    expected = theirs(
        theirs.apply_chat_template(messages, tokenize=False), add_special_tokens=False
    )["input_ids"]
    assert list(rendered) == expected


def test_threads_and_processes_get_the_same_ids(folder: Path) -> None:
    ours = foreword.load(folder, trust_remote_code=True).tokenizer
    texts = ["ab" * place + "</s>c" for place in range(40)]
    alone = [list(ours.encode(text, add_special_tokens=True).token_ids) for text in texts]
    with ThreadPoolExecutor(16) as pool:
        made = pool.map(lambda text: ours.encode(text, add_special_tokens=True).token_ids, texts)
        assert [list(one) for one in made] == alone
    copy = pickle.loads(pickle.dumps(ours))
    assert list(copy.encode(texts[7], add_special_tokens=True).token_ids) == alone[7]


def test_without_trust_nothing_is_run(folder: Path) -> None:
    (folder / "tokenization_syllables.py").write_text("raise SystemExit('run without trust')\n")
    with pytest.raises(foreword.ForewordError, match="--trust-remote-code"):
        foreword.load(folder)


def test_code_that_does_not_load_is_named(folder: Path) -> None:
    (folder / "tokenization_syllables.py").write_text("import no_such_module_at_all\n")
    with pytest.raises(foreword.ForewordError, match="cannot be run"):
        foreword.load(folder, trust_remote_code=True)
