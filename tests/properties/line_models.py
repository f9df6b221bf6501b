"""Small models of every kind, what may be said to them, and a slow reference for their answers.

The reference knows `tokenizers.Tokenizer` on the model's own file and the plain rules of the
budget; it shares no code with the package.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

import foreword
from foreword.demo import model_folder
from foreword.errors import ForewordError
from foreword.renderer import Renderer
from foreword.tokenizer.segmented import SegmentedTokenizer

F = TypeVar("F", bound=Callable[..., Any])

THOROUGH = os.environ.get("FOREWORD_HYPOTHESIS_PROFILE") == "thorough"


def searching(num_examples: int) -> Callable[[F], F]:
    """Search with so many examples; twenty times as many in the thorough profile."""
    return settings(
        max_examples=num_examples * (20 if THOROUGH else 1),
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


# ---------------------------------------------------------------------------------------------
# The models.

ROOM = 100_000
"""A context that nothing in these tests can fill."""

CHAT_TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}"
    "<{{ message.role }}>{{ message.content }}</{{ message.role }}>\n"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
CORPUS = [
    "the quick brown fox jumps over the lazy dog and the dogs jump back",
    "tokens are counted, cut and padded; the count of tokens is the budget",
    "naïve café señor über straße 123 4567 <user>hello</user>\n<assistant>",
] * 4
PATTERN = r"'s|'t| ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"


def _around(prefix: str, suffix: str, ids: dict[str, int]) -> processors.TemplateProcessing:
    used = [(token, ids[token]) for token in (prefix, suffix) if token]
    return processors.TemplateProcessing(
        single=" ".join(part for part in (prefix, "$A", suffix) if part), special_tokens=used
    )


def _byte_level(normalizer: Any = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<s>", "</s>", "<pad>", "<|end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def _bos() -> Tokenizer:
    tokenizer = _byte_level()
    tokenizer.post_processor = _around("<s>", "", {"<s>": 0})
    tokenizer.add_tokens([AddedToken("<|tool|>", normalized=False, lstrip=True)])
    return tokenizer


def _bos_eos() -> Tokenizer:
    tokenizer = _byte_level(normalizers.NFC())
    tokenizer.post_processor = _around("<s>", "</s>", {"<s>": 0, "</s>": 1})
    return tokenizer


def _word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.WordPieceTrainer(
            vocab_size=200,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
            show_progress=False,
        ),
    )
    tokenizer.post_processor = _around("[CLS]", "[SEP]", {"[CLS]": 2, "[SEP]": 3})
    return tokenizer


def _metaspace() -> Tokenizer:
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    )
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]  # byte tokens belong to the vocabulary alone
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = _around("<s>", "", {"<s>": 1})
    return tokenizer


def _unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(
            vocab_size=150,
            special_tokens=["<unk>", "</s>", "<pad>"],
            unk_token="<unk>",
            show_progress=False,
        ),
    )
    tokenizer.post_processor = _around("", "</s>", {"</s>": 1})
    return tokenizer


_BUILDERS: dict[str, Callable[[], Tokenizer]] = {
    "bos": _bos,
    "bos_eos": _bos_eos,
    "word_piece_lower": _word_piece,
    "metaspace": _metaspace,
    "unigram": _unigram,
}
_CONFIGS: dict[str, dict[str, Any]] = {
    "bos": {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
    "bos_eos": {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
    "word_piece_lower": {
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
    },
    "metaspace": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "unigram": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
}
KINDS = (
    "demo",
    *_BUILDERS,
    "demo, uncut",
    "bos, uncut",
    "bos_eos, uncut",
    "word_piece_lower, uncut",
)
"""Uncut ones encode a text whole: no cut of theirs is proved, so the budget's pre-cut is theirs."""
_SPECIALS = {
    "demo": (0, 0),
    "bos": (1, 0),
    "bos_eos": (1, 1),
    "word_piece_lower": (1, 1),
    "metaspace": (1, 0),
    "unigram": (0, 1),
}
"""How many tokens each puts before and behind a text."""


def num_special(kind: str) -> tuple[int, int]:
    """Return how many tokens the model puts before and behind a text."""
    return _SPECIALS[kind.partition(",")[0]]


def load_with_template(template: str, **options: Any) -> Renderer:
    """Return the demo model with another chat template."""
    return model("demo", chat_template=template, **options)


@cache
def _loaded(kind: str, runner: Any) -> Renderer:
    if kind == "demo":
        return foreword.load(model_folder(), runner=runner)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **_CONFIGS[kind]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "tokenizer.json").write_text(_file(kind), encoding="utf-8")
        (path / "tokenizer_config.json").write_text(json.dumps(config))
        (path / "config.json").write_text(json.dumps({"max_position_embeddings": ROOM}))
        (path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
        if kind.endswith("_lower"):
            lower = {"max_seq_length": ROOM, "do_lower_case": True}
            (path / "sentence_bert_config.json").write_text(json.dumps(lower))
        return foreword.load(folder, runner=runner)


def model(
    kind: str, max_model_len: int = ROOM, *, runner: str = "generate", **options: Any
) -> Renderer:
    """Return a model of this kind with a context of this length."""
    name, uncut, _ = kind.partition(",")
    loaded = _loaded(name, runner)
    tokenizer = loaded.tokenizer
    assert isinstance(tokenizer, SegmentedTokenizer)
    return Renderer(
        assets=loaded.assets,
        tokenizer=tokenizer.reference if uncut else tokenizer,
        options=replace(loaded.options, max_model_len=max_model_len, **options),
    )


# ---------------------------------------------------------------------------------------------
# The slow reference.


@cache
def _file(kind: str) -> str:
    if kind == "demo":
        return (Path(model_folder()) / "tokenizer.json").read_text(encoding="utf-8")
    written: str = _BUILDERS[kind]().to_str()
    return written


@cache
def reference(kind: str) -> Tokenizer:
    """Return the library's own tokenizer on the model's file."""
    kind = kind.partition(",")[0]
    tokenizer = Tokenizer.from_str(_file(kind))
    if kind.endswith("_lower"):
        lowered = [token.lower() for token in _CONFIGS[kind].values()]
        tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in lowered])
    return tokenizer


def full_encode(
    kind: str, text: str, *, special: bool = True
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return all ids of `text` and their characters, in the text as it was given."""
    lowers = kind.startswith("word_piece_lower")
    seen = text.lower() if lowers else text
    encoding = reference(kind).encode_batch([seen], add_special_tokens=special)[0]
    if len(seen) == len(text):
        return encoding.ids, list(encoding.offsets)
    owners = [place for place, char in enumerate(text) for _ in char.lower()]
    owners.append(len(text))
    offsets = []
    for (start, stop), sequence in zip(encoding.offsets, encoding.sequence_ids, strict=True):
        if sequence is None:
            offsets.append((0, 0))
        else:
            owned = owners[start:stop]
            offsets.append((owned[0], owned[-1] + 1) if owned else (owners[start], owners[start]))
    return encoding.ids, offsets


def kept_places(kind: str, num: int, limit: int | None, side: str | None, default: str) -> range:
    """Say which tokens a truncation with an explicit side keeps, as a plain slice."""
    if limit is None or num <= limit:
        return range(num)
    return range(num)[num - limit :] if (side or default) == "left" else range(num)[:limit]


def kept_around(kind: str, num: int, limit: int, side: str) -> list[int]:
    """Say which tokens stay when no side was asked for: the special ones, and as many as fit."""
    prefix, suffix = num_special(kind)
    places = list(range(num))
    if num <= limit:
        return places
    if limit < prefix + suffix:
        return places[num - limit :] if side == "left" else places[:limit]
    front, back = places[:prefix], places[num - suffix :]
    inner, room = places[prefix : num - suffix], limit - prefix - suffix
    return front + (inner[len(inner) - room :] if side == "left" else inner[:room]) + back


def pick(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [values[place] for place in places]


# ---------------------------------------------------------------------------------------------
# What may be said.

SPELLINGS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|im_",
    "end|>",
    "<think>",
    "</think>",
    "<s>",
    "</s>",
    "<pad>",
    "<unk>",
    "<|end|>",
    " <|tool|>",
    "<0x0A>",
    "[CLS]",
    "[cls]",
    "[SEP]",
    "##s",
    "▁",
)
HARD = (
    "\x00",
    "\r\n",
    "\n\n",
    "\u2028",
    "\ufeff",
    "\u00a0",
    "e\u0301",
    "\u1e9b\u0323",
    "a\u0300\u0301\u0302",
    "İ",
    "ſ",
    "ß",
    "ΑΣ",
    "👩\u200d👩\u200d👧\u200d👦",
    "🏳️\u200d🌈",
    "🌤️",
    "12345",
    "٣٤٥",
    "東京は晴れ",
    "한국어",
    "مرحبا بالعالم",
    "ภาษาไทย",
    "नमस्ते",
    "\U0001d11e",
    "\U0010ffff",
    "\ufffd",
    "   ",
    "\t",
)
WORDS = ("the", " tokens", " quick", "budget", " café", "'s", " don't", "x", ".", " ", "\n")

texts = st.lists(
    st.sampled_from(SPELLINGS) | st.sampled_from(HARD) | st.sampled_from(WORDS) | st.text(),
    max_size=12,
).map("".join)
"""Any text, with what tokenizers trip over much more frequent than it is."""

long_texts = st.tuples(texts, texts.filter(bool), texts).map(
    lambda said: said[0] + said[1] * (1 + 7000 // len(said[1])) + said[2]
)
"""Texts that are encoded in several pieces."""

kinds = st.sampled_from(KINDS)


# ---------------------------------------------------------------------------------------------
# What an error may show.

SECRET = "sesame-4711"
"""Stands in every prompt below, and in no message."""
INTERNALS = re.compile(
    r"__\w+__|0x[0-9a-f]{4,}|<class|<function|<built-in|object at|Traceback|/src/"
)


def check_showable(error: ForewordError) -> None:
    for shown in (str(error), repr(error.details), repr(error.param)):
        assert SECRET not in shown
        assert not INTERNALS.search(shown), shown
        assert str(Path(__file__).parents[2]) not in shown
    assert len(str(error)) < 500
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.param) == (type(error), str(error), error.param)


def user(content: Any, **keys: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **keys}
