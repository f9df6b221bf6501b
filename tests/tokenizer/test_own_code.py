"""Tokenizer code that a model brings: refused, trusted, run by one thread at a time.

transformers is not installed here; a module of that name stands in for it, whose tokenizer splits
at spaces. tests/parity/test_own_code_parity.py runs the real one.
"""

from __future__ import annotations

import json
import pickle
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.errors import AssetsInvalid, InvalidRequest, InvalidTokenIds, UnsupportedFeature
from foreword.tokenizer.own_code import OwnCodeTokenizer


def panic_class() -> type[BaseException]:
    return type("PanicException", (BaseException,), {})


WORDS = ["<s>", "</s>", "one", "two", "three"]
BOS, EOS, ONE, TWO, THREE = range(5)
TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"


class Words:
    """As much of a transformers tokenizer as is used; notices two threads at once."""

    vocab_size = 5
    bos_token_id, eos_token_id, pad_token_id = BOS, EOS, None
    is_fast = False

    def __init__(self) -> None:
        self.words = {word: place for place, word in enumerate(WORDS)}
        self.special_tokens_map = {"bos_token": "<s>", "eos_token": "</s>"}
        self.busy = False

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not self.busy
        self.busy = True
        time.sleep(0.0005)
        if "crash" in text:
            self.busy = False
            raise KeyError("a prompt must not be told")
        ids = [self.words.get(word, ONE) for word in text.split()]
        self.busy = False
        return {"input_ids": [BOS, *ids, EOS] if add_special_tokens else ids}

    def get_vocab(self) -> dict[str, int]:
        return dict(self.words)

    @property
    def all_special_ids(self) -> list[int]:
        return [self.words[text] for text in self.special_tokens_map.values()]

    @property
    def all_special_tokens(self) -> list[str]:
        return list(self.special_tokens_map.values())

    def add_special_tokens(self, tokens: dict[str, str]) -> None:
        self.special_tokens_map.update(tokens)
        for text in tokens.values():
            self.words.setdefault(text, len(self.words))

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        skipped = self.all_special_ids if skip_special_tokens else []
        return " ".join(WORDS[i] for i in token_ids if i not in skipped)

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return WORDS[token_id]

    def apply_chat_template(self, messages: Any) -> str:
        return ""


Words.apply_chat_template.__module__ = "transformers.tokenization_utils_base"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What AutoTokenizer was asked for, call by call."""
    calls: list[dict[str, Any]] = []

    class AutoTokenizer:
        @staticmethod
        def from_pretrained(folder: str, **options: Any) -> Words:
            calls.append({"folder": folder, **options})
            return Words()

    module = types.ModuleType("transformers")
    module.AutoTokenizer = AutoTokenizer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setattr("foreword.assets.fingerprint.version", lambda name: "1")
    return calls


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    declared = {
        "auto_map": {"AutoTokenizer": ["tokenization_words.Words", None]},
        "chat_template": TEMPLATE,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(declared))
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 16, "vocab_size": 8}')
    (tmp_path / "tokenization_words.py").write_text("raise RuntimeError('never run')\n")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    return tmp_path


def test_without_trust_it_is_refused_with_the_advice(folder: Path) -> None:
    with pytest.raises(AssetsInvalid, match="--trust-remote-code") as caught:
        foreword.load(folder)
    assert "auto_map" in caught.value.message
    assert "foreword[transformers]" in caught.value.message
    assert str(folder) not in caught.value.message


def test_without_transformers_the_extra_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(AssetsInvalid, match=r"pip install 'foreword\[transformers\]'"):
        foreword.load(folder, trust_remote_code=True)


def test_trusted_code_renders_with_the_ids_it_gives(
    folder: Path, asked: list[dict[str, Any]]
) -> None:
    renderer = foreword.load(folder, trust_remote_code=True)
    assert asked == [{"folder": str(folder), "trust_remote_code": True}]
    (made,) = renderer.render_cmpl({"prompt": "two three", "max_tokens": 4})
    assert list(made.token_ids) == [BOS, TWO, THREE, EOS]
    chat = renderer.render_chat(
        {"messages": [{"role": "user", "content": "three"}], "max_tokens": 4}
    )
    assert list(chat.engine_input.token_ids) == [THREE]
    assert renderer.detokenize({"tokens": [TWO, THREE]}).prompt == "two three"
    assert renderer.tokenizer.id_to_token(TWO) == "two"
    assert renderer.tokenizer.id_to_token(7) is None
    assert renderer.tokenizer.token_to_id("three") == THREE
    assert renderer.tokenizer.token_to_id("four") is None
    info = renderer.tokenizer.info
    assert (info.max_token_id, info.is_fast, info.vocab_size) == (7, False, 5)
    assert (info.num_prefix_special, info.num_suffix_special) == (1, 1)


def test_a_cut_keeps_the_special_tokens_it_adds(folder: Path, asked: list[Any]) -> None:
    renderer = foreword.load(folder, trust_remote_code=True)
    body = {"prompt": "one two three", "max_tokens": 4, "truncate_prompt_tokens": 3}
    assert list(renderer.render_cmpl(body)[0].token_ids) == [BOS, THREE, EOS]
    right = {**body, "truncation_side": "right"}
    assert list(renderer.render_cmpl(right)[0].token_ids) == [BOS, ONE, TWO]


def test_it_is_warned_of_once_at_load(folder: Path, asked: list[Any]) -> None:
    renderer = foreword.load(folder, trust_remote_code=True)
    assert sum("slowly" in warning for warning in renderer.assets.warnings) == 1


def test_a_chat_renderer_of_its_own_is_told(
    folder: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Words.apply_chat_template, "__module__", "transformers_modules.words")
    renderer = foreword.load(folder, trust_remote_code=True, truncation_side="right")
    assert any("also renders chats" in warning for warning in renderer.assets.warnings)


def test_code_that_fails_is_the_models_fault_and_tells_no_prompt(
    folder: Path, asked: list[Any]
) -> None:
    renderer = foreword.load(folder, trust_remote_code=True)
    with pytest.raises(AssetsInvalid, match="KeyError") as caught:
        renderer.render_cmpl({"prompt": "crash here"})
    assert "prompt must not" not in caught.value.message
    # What was lent came back.
    assert renderer.render_cmpl({"prompt": "one"})


@pytest.mark.parametrize("failure", [SystemExit(3), panic_class()("a prompt")])
def test_code_that_would_end_the_process_does_not(
    folder: Path, asked: list[Any], monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    renderer = foreword.load(folder, trust_remote_code=True)

    def fail(*_: object, **__: object) -> Any:
        raise failure

    for name, call in (
        ("__call__", lambda: renderer.render_cmpl({"prompt": "two", "max_tokens": 4})),
        ("decode", lambda: renderer.detokenize({"tokens": [TWO]})),
        ("convert_ids_to_tokens", lambda: renderer.tokenizer.id_to_token(TWO)),
        ("get_vocab", lambda: renderer.tokenizer.token_to_id("two")),
        ("get_vocab", lambda: foreword.load(_changed(folder), trust_remote_code=True)),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(Words, name, fail)
            with pytest.raises(AssetsInvalid, match="failed") as caught:
                call()
        assert "a prompt" not in caught.value.message
    assert renderer.detokenize({"tokens": [TWO]}).prompt == "two"


def _changed(folder: Path) -> Path:
    (folder / "vocab.txt").write_text("changed")  # else the tokenizer that is loaded is given
    return folder


def test_a_longer_text_than_one_call_may_have_is_refused(folder: Path, asked: list[Any]) -> None:
    renderer = foreword.load(folder, trust_remote_code=True, max_uncut_chars=7)
    assert renderer.tokenize({"prompt": "two two"}).count == 4
    with pytest.raises(InvalidRequest, match=r"8 characters .* at most 7"):
        renderer.tokenize({"prompt": "two two "})
    free = foreword.load(folder, trust_remote_code=True, max_uncut_chars=None)
    assert free.tokenize({"prompt": "two two "}).count == 4


def test_what_no_tokenizer_takes_is_refused(folder: Path, asked: list[Any]) -> None:
    tokenizer = foreword.load(folder, trust_remote_code=True).tokenizer
    with pytest.raises(InvalidRequest, match=r"U\+D800"):
        tokenizer.encode("one \ud800", add_special_tokens=False)
    with pytest.raises(InvalidTokenIds):
        tokenizer.decode([TWO, 8])
    with pytest.raises(UnsupportedFeature):
        tokenizer.encode("one two", add_special_tokens=False, literal_spans=[(0, 3)])


def test_sixteen_threads_share_it_and_the_pool_stops_at_the_peak(
    folder: Path, asked: list[Any]
) -> None:
    renderer = foreword.load(folder, trust_remote_code=True)
    tokenizer = renderer.tokenizer
    assert isinstance(tokenizer, OwnCodeTokenizer)
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            try:
                (made,) = renderer.render_cmpl({"prompt": "one two"})
                if list(made.token_ids) != [BOS, ONE, TWO, EOS]:
                    wrong.append(made.token_ids)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 1 <= tokenizer.pool.num_free <= 16
    assert len(asked) == 1  # the others are copies


def test_in_another_process_it_is_read_anew(folder: Path, asked: list[Any]) -> None:
    tokenizer = foreword.load(folder, trust_remote_code=True).tokenizer
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert len(asked) == 2
    assert list(copy.encode("two", add_special_tokens=True).token_ids) == [BOS, TWO, EOS]


def test_a_change_of_the_code_changes_the_fingerprint(folder: Path, asked: list[Any]) -> None:
    first = foreword.load(folder, trust_remote_code=True).assets.fingerprint
    assert foreword.load(folder, trust_remote_code=True).assets.fingerprint == first
    assert len(asked) == 1
    (folder / "tokenization_words.py").write_text("# other code\n")
    assert foreword.load(folder, trust_remote_code=True).assets.fingerprint != first
    assert len(asked) == 2  # and the new code is loaded


def test_a_file_that_can_be_read_needs_no_trust(folder: Path, asked: list[Any]) -> None:
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.WordLevel({"one": 0, "<unk>": 1}, unk_token="<unk>"))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    for is_trusted in (False, True):
        renderer = foreword.load(folder, trust_remote_code=is_trusted)
        assert list(renderer.render_cmpl({"prompt": "one"})[0].token_ids) == [0]
    assert not asked


def test_lower_cased_twins_of_special_tokens_are_added(folder: Path, asked: list[Any]) -> None:
    (folder / "sentence_bert_config.json").write_text(
        '{"do_lower_case": true, "max_seq_length": 16}'
    )
    renderer = foreword.load(folder, trust_remote_code=True, runner="pooling")
    assert renderer.tokenizer.info.do_lower_case
    (made,) = renderer.render_pooling({"input": "TWO Three"})
    assert list(made.token_ids) == [BOS, TWO, THREE, EOS]


def test_the_option_is_a_boolean(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="trust_remote_code"):
        foreword.load(folder, trust_remote_code="yes")  # type: ignore[arg-type]
