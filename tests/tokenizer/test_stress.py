"""A short sample of scripts/stress: many threads, mixed options and tokenizers, no wrong answer.

The script's ten minutes are by hand; here it is shown that it finds nothing, and that it would.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import foreword
from foreword.demo import model_folder
from foreword.tokenizer.own_code import BackendMaker, OwnCodeTokenizer
from foreword.tokenizer.pool import TokenizerPool
from foreword.types import TokenizerInfo

SECONDS = 1.0
NUM_THREADS = 16


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    path = Path(__file__).resolve().parents[2] / "scripts" / "stress.py"
    spec = importlib.util.spec_from_file_location("stress", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Letters:
    """A tokenizer in Python that keeps what it works on in itself, as careless code does."""

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        self.rest, self.found = text, [1] if add_special_tokens else []
        while self.rest:
            self.found.append(3 + ord(self.rest[0]) % 61)
            self.rest = self.rest[1:]
        return {"input_ids": self.found}

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        self.rest = "".join(chr(64 + one) for one in token_ids)
        return self.rest

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return chr(64 + token_id)


def python_renderer(folder: Path, pool: TokenizerPool[Any]) -> foreword.Renderer:
    """A renderer whose tokenizer is that, in the place of the demo model's."""
    plain = foreword.load(folder)
    info = TokenizerInfo(
        mode="hf", vocab_size=64, max_token_id=250, max_chars_per_token=1,
        char_gate_gap="code of its own", truncation_side="left",
        special_tokens={}, all_special_ids=frozenset(), all_special_tokens=(),
        pad_token_id=0, num_prefix_special=1, is_fast=False,
    )  # fmt: skip
    tokenizer = OwnCodeTokenizer(pool=pool, info=info)
    return foreword.Renderer(assets=plain.assets, tokenizer=tokenizer, options=plain.options)


def python_subject(script: ModuleType, pool: TokenizerPool[Any]) -> Any:
    subject = script.make_subject("Python", Path(model_folder()), seed=3, num_requests=60)
    alone = python_renderer(Path(model_folder()), TokenizerPool(Letters))
    subject.renderer = python_renderer(Path(model_folder()), pool)
    subject.expected = [script.answer(alone, kind, body) for kind, body in subject.requests]
    script._count_made(subject, pool)
    return subject


def test_nothing_goes_wrong(script: ModuleType, tmp_path: Path) -> None:
    subjects = [
        script.make_subject("hf", Path(model_folder()), seed=1, num_requests=60, runner="pooling"),
        python_subject(script, TokenizerPool(BackendMaker(folder="", original=Letters()))),
    ]
    if importlib.util.find_spec("sentencepiece"):
        declared = {"tokenizer_class": "LlamaTokenizer", "chat_template": script.CHAT_TEMPLATE}
        files = {"tokenizer.model": script.train_sentencepiece(tmp_path / "trained.model")}
        folder = script.make_folder(tmp_path / "converted", files, declared)
        subjects.append(script.make_subject("SentencePiece", folder, seed=2, num_requests=60))
    if importlib.util.find_spec("mistral_common"):
        import mistral_common

        data = Path(str(mistral_common.__file__)).parent / "data"
        files = {"tokenizer.model.v3": data / "mistral_instruct_tokenizer_240323.model.v3"}
        folder = script.make_folder(tmp_path / "v3", files, {})
        options = {"tokenizer_mode": "mistral", "num_requests": 60}
        subjects.append(script.make_subject("mistral", folder, seed=4, **options))
    kinds = {type(one).__name__ for subject in subjects for one in subject.expected}
    assert kinds == {"tuple", "list", "str"}  # prompts and refusals, lists of prompts, texts
    faults = script.run(subjects, seconds=SECONDS, num_threads=NUM_THREADS, seed=1)
    assert faults == []
    assert all(subject.num_calls > 10 for subject in subjects)
    for subject in subjects:
        if subject.pool is not None:
            assert subject.pool.num_free == subject.num_made <= NUM_THREADS


def test_a_backend_that_threads_share_is_found(script: ModuleType) -> None:
    shared = Letters()
    subject = python_subject(script, TokenizerPool(lambda: shared))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert script.run([subject], seconds=3.0, num_threads=NUM_THREADS, seed=1)
    finally:
        sys.setswitchinterval(interval)


def test_a_wrong_id_and_a_pool_that_leaks_are_found(script: ModuleType) -> None:
    subject = python_subject(script, TokenizerPool(Letters))
    place = next(n for n, one in enumerate(subject.expected) if isinstance(one, list) and one)
    subject.requests, subject.expected = [subject.requests[place]], [["another answer"]]
    faults = script.run([subject], seconds=0.2, num_threads=2, seed=1)
    assert faults
    assert "Python:" in faults[0]
    lent = subject.pool.borrow()
    lent.__enter__()
    assert any("the pool made" in fault for fault in script._pool_faults(subject, NUM_THREADS))
    lent.__exit__(None, None, None)
    subject.num_made = NUM_THREADS + 1
    assert any("for 16 threads" in fault for fault in script._pool_faults(subject, NUM_THREADS))
