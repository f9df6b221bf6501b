"""Render with many threads, mixed options and mixed tokenizers, and compare every answer.

What enters: minutes, a number of threads and a seed. What leaves: a line of progress at times, a
line a tokenizer, and exit status 1 when an answer was wrong, a call failed, or a pool grew beyond
the number of threads or lost what it lent.

The right answers are those of one thread and a renderer that remembers nothing, asked before.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import foreword
from foreword.demo import model_folder
from foreword.errors import ForewordError
from foreword.tokenizer.pool import TokenizerPool

CORPUS = Path(__file__).resolve().parent / "demo_corpus"
AWKWARD = (
    "", " ", "\n\n  \t", "a\0b", "é e\u0301 ﬁ №", "中文字符 and かな, 한국어", "👩‍👩‍👧 🇩🇪",
    "<s>[INST] </s> <|im_end|>", "x" * 900, "don't I'LL ſ'S 12345", "lone \ud800 surrogate",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ bos_token }}[{{ m.role }}] {{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
NUM_REQUESTS = 300
PYTHON_TOKENIZER = '''
from transformers import PreTrainedTokenizer


class PairTokenizer(PreTrainedTokenizer):
    """Pairs of characters; keeps what it works on in itself, as careless code does."""

    vocab_files_names = {"vocab_file": "pairs.vocab"}

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
        self.text, self.found = text, []
        while self.text:
            self.found.append(self.text[:2])
            self.text = self.text[2:]
        return self.found

    def _convert_token_to_id(self, token):
        return self.places.get(token, self.places["<unk>"])

    def _convert_id_to_token(self, index):
        return self.pieces[index]
'''


@dataclass(kw_only=True)
class Subject:
    """A model under stress, its requests, and the right answer of each."""

    name: str
    renderer: foreword.Renderer
    requests: list[tuple[str, dict[str, Any]]]
    expected: list[Any]
    num_calls: int = 0
    num_made: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def pool(self) -> TokenizerPool[Any] | None:
        """The backends that are lent, where the tokenizer lends any."""
        return getattr(self.renderer.tokenizer, "pool", None)


def answer(renderer: foreword.Renderer, kind: str, body: Mapping[str, Any]) -> Any:
    """Return everything a call decides, as plain values; an error as its status, code and field."""
    try:
        if kind == "chat":
            return _plain(renderer.render_chat(body).engine_input)
        if kind == "completion":
            return [_plain(one) for one in renderer.render_cmpl(body)]
        if kind == "pooling":
            return [_plain(one) for one in renderer.render_pooling(body)]
        if kind == "tokenize":
            return list(renderer.tokenize(body).tokens)
        return renderer.detokenize(body).prompt
    except ForewordError as error:
        return error.status, error.code, error.param


def _plain(made: foreword.EngineInput) -> tuple[Any, ...]:
    offsets = None if made.offsets is None else list(made.offsets)
    # How many were cut may be a lower bound, which depends on what is remembered.
    cut = made.truncated_side
    return list(made.token_ids), offsets, cut, made.num_padded, made.prompt


def make_requests(rng: random.Random, num: int) -> list[tuple[str, dict[str, Any]]]:
    """Return requests of every kind with mixed options, many of whose texts share beginnings."""
    corpus = [path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.md"))]

    def text() -> str:
        if rng.random() < 0.3:
            return rng.choice(AWKWARD)
        source = rng.choice(corpus)
        start = rng.choice((0, 0, rng.randrange(len(source))))
        return source[start : start + rng.randint(1, 1500)]

    def cut() -> dict[str, Any]:
        options: dict[str, Any] = {}
        if rng.random() < 0.5:
            options["truncate_prompt_tokens"] = rng.choice((1, 5, 40, -1))
            options["truncation_side"] = rng.choice(("left", "right"))
        if rng.random() < 0.3:
            options["cache_salt"] = rng.choice(("one", "two"))
        if rng.random() < 0.3:
            options["return_token_offsets"] = True
        return options

    def chat() -> dict[str, Any]:
        turns = [text() for _ in range(rng.randint(1, 6))]
        roles = ("user", "assistant")
        messages = [
            {"role": roles[place % 2], "content": said or "?"} for place, said in enumerate(turns)
        ]
        return {"messages": messages[: len(messages) - (len(messages) + 1) % 2], **cut()}

    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "chat": chat,
        "completion": lambda: {
            "prompt": [text() for _ in range(rng.randint(1, 3))],
            "max_tokens": 4,
            "add_special_tokens": rng.random() < 0.5,
            "echo": rng.random() < 0.3,
            **cut(),
        },
        "pooling": lambda: {
            "input": text(),
            "pad_prompt_tokens": rng.choice((None, 64)),
            **cut(),
        },
        "tokenize": lambda: {"prompt": text(), "return_token_strs": rng.random() < 0.5},
        "detokenize": lambda: {"tokens": [rng.randrange(200) for _ in range(rng.randint(0, 30))]},
    }
    return [(kind, kinds[kind]()) for kind in rng.choices(list(kinds), k=num)]


def make_subject(
    name: str, folder: Path, *, seed: int, num_requests: int = NUM_REQUESTS, **options: Any
) -> Subject:
    """Load a model, and find the right answers with a renderer that remembers nothing."""
    requests = make_requests(random.Random(seed), num_requests)
    forgetful = foreword.load(folder, **{**options, "accelerated": False, "memo_bytes": 0})
    subject = Subject(
        name=name,
        renderer=foreword.load(folder, **options),
        requests=requests,
        expected=[answer(forgetful, kind, body) for kind, body in requests],
    )
    if subject.pool is not None:
        _count_made(subject, subject.pool)
    return subject


def _count_made(subject: Subject, pool: TokenizerPool[Any]) -> None:
    make, subject.num_made = pool.make, pool.num_free

    def counted() -> Any:
        subject.num_made += 1
        return make()

    pool.make = counted


def run(
    subjects: list[Subject],
    *,
    seconds: float,
    num_threads: int,
    seed: int,
    report: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Call every subject from every thread until the time is over; return the faults, none."""
    started = time.monotonic()
    end = started + seconds
    stop = threading.Event()
    counts = [[0] * len(subjects) for _ in range(num_threads)]

    def work(thread: int) -> None:
        rng = random.Random(seed * 1000 + thread)
        while True:
            which = rng.randrange(len(subjects))
            subject = subjects[which]
            place = rng.randrange(len(subject.requests))
            kind, body = subject.requests[place]
            try:
                got = answer(subject.renderer, kind, body)
                is_right = got == subject.expected[place]
            except Exception as error:  # a call that fails is what is looked for
                got, is_right = f"{type(error).__name__}: {error}", False
            counts[thread][which] += 1
            if not is_right:
                subject.faults.append(
                    f"{subject.name}: {kind} {place} gave {_short(got)}"
                    f" instead of {_short(subject.expected[place])}"
                )
                if len(subject.faults) > 20:
                    stop.set()
            if time.monotonic() >= end or stop.is_set():
                return

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(num_threads)]
    for thread in threads:
        thread.start()
    while (left := end - time.monotonic()) > 0 and not stop.wait(min(30.0, left)):
        calls = sum(map(sum, counts))
        report(f"{time.monotonic() - started:5.0f} s  {calls:>9,} calls  {_memory()}")
    for thread in threads:
        thread.join()
    for which, subject in enumerate(subjects):
        subject.num_calls = sum(row[which] for row in counts)
    return [
        fault
        for subject in subjects
        for fault in (*subject.faults, *_pool_faults(subject, num_threads))
    ]


def _pool_faults(subject: Subject, num_threads: int) -> Iterator[str]:
    pool = subject.pool
    if pool is None:
        return
    if pool.num_free != subject.num_made:
        yield f"{subject.name}: the pool made {subject.num_made} and has {pool.num_free}"
    if subject.num_made > num_threads:
        yield f"{subject.name}: the pool made {subject.num_made} for {num_threads} threads"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:120]} … {text[-70:]}"


def _memory() -> str:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return f"peak {peak} MiB"


# ---------------------------------------------------------------------------------------------
# The models, all of them made of what is installed.


def make_python_model(folder: Path) -> Path:
    """Write a model whose tokenizer is Python code of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = "etaoinshr dlu\n.,"
    pieces = ["<unk>", "<s>", "</s>", *alphabet, *(a + b for a in alphabet for b in alphabet)]
    unique = list(dict.fromkeys(piece for piece in pieces if "\n" not in piece))
    (folder / "pairs.vocab").write_text("\n".join(unique))
    (folder / "tokenization_pairs.py").write_text(PYTHON_TOKENIZER)
    declared = {
        "tokenizer_class": "PairTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_pairs.PairTokenizer", None]},
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>",
        "chat_template": CHAT_TEMPLATE,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(declared))
    (folder / "config.json").write_text('{"max_position_embeddings": 2000}')
    return folder


def make_folder(folder: Path, files: Mapping[str, Path], declared: Mapping[str, Any]) -> Path:
    """Write a model folder around copies of tokenizer files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in files.items():
        shutil.copy(source, folder / name)
    (folder / "tokenizer_config.json").write_text(json.dumps(declared))
    (folder / "config.json").write_text('{"max_position_embeddings": 2000}')
    return folder


def train_sentencepiece(path: Path) -> Path:
    """Write a SentencePiece model trained on the demo's corpus."""
    import sentencepiece

    lines = [
        line
        for source in sorted(CORPUS.glob("*.md"))
        for line in source.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    with path.open("wb") as written:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=written,
            model_type="bpe",
            vocab_size=1500,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            hard_vocab_limit=False,
            minloglevel=2,
        )
    return path


def make_subjects(folder: Path, *, seed: int, report: Callable[[str], None]) -> list[Subject]:
    """Return one subject for each kind of tokenizer that can run here."""
    subjects = [make_subject("hf, demo model", Path(model_folder()), seed=seed, runner="pooling")]
    if importlib.util.find_spec("fastokens"):
        subjects.append(
            make_subject("hf, fastokens", Path(model_folder()), seed=seed + 1, accelerated=True)
        )
    if importlib.util.find_spec("mistral_common"):
        import mistral_common

        data = Path(str(mistral_common.__file__)).parent / "data"
        pieces = data / "mistral_instruct_tokenizer_240323.model.v3"
        tekken = make_folder(folder / "tekken", {"tekken.json": data / "tekken_240718.json"}, {})
        subjects.append(
            make_subject("mistral, Tekken", tekken, seed=seed + 2, tokenizer_mode="mistral")
        )
        v3 = make_folder(folder / "v3", {"tokenizer.model.v3": pieces}, {})
        subjects.append(
            make_subject("mistral, pieces", v3, seed=seed + 3, tokenizer_mode="mistral")
        )
    if importlib.util.find_spec("sentencepiece"):
        declared = {
            "tokenizer_class": "LlamaTokenizer",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "chat_template": CHAT_TEMPLATE,
        }
        model = train_sentencepiece(folder / "trained.model")
        converted = make_folder(folder / "converted", {"tokenizer.model": model}, declared)
        subjects.append(make_subject("SentencePiece, converted", converted, seed=seed + 4))
    if importlib.util.find_spec("transformers"):
        python = make_python_model(folder / "pairs")
        subjects.append(
            make_subject("code of its own", python, seed=seed + 5, trust_remote_code=True)
        )
    else:
        report("left out: code of its own, which needs transformers")
    return subjects


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def report(line: str) -> None:
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        subjects = make_subjects(Path(folder), seed=options.seed, report=report)
        report(f"{len(subjects)} tokenizers, {sum(len(s.requests) for s in subjects)} requests")
        faults = run(
            subjects,
            seconds=options.minutes * 60,
            num_threads=options.threads,
            seed=options.seed,
            report=report,
        )
        for subject in subjects:
            lent = "" if subject.pool is None else f", pool of {subject.pool.num_free}"
            report(f"{subject.name}: {subject.num_calls:,} calls{lent}")
    for fault in faults:
        report(fault)
    report(f"{len(faults)} faults")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
