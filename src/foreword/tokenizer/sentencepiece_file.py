"""A SentencePiece model and a model's configuration enter; an equal tokenizer.json leaves.

Rules of this file: each stretch of text between special tokens is encoded as the sentencepiece
library encodes it. What the tokenizers library cannot do in the same way is refused by name.
"""

from __future__ import annotations

import base64
from collections import Counter

from foreword.errors import AssetsInvalid
from foreword.tokenizer.json_parts import Part, added_token, around, replace
from foreword.tokenizer.merges import merge_runs, recover_merges
from foreword.tokenizer.sentencepiece_model import Algorithm, Kind, SentencePieceModel

SPACE = "▁"
_EVERY = 1024
"""Spaces to strip in front of a decoded text where none of them was the text's own."""
_ROLES = ("unk", "bos", "eos", "pad")


def convert_sentencepiece(
    model: SentencePieceModel,
    name: str,
    *,
    add_bos: bool,
    add_eos: bool,
    cuts_at_user_defined: bool = False,
) -> Part:
    """Return the tokenizer.json, as an object, that gives the ids of sentencepiece on this model.

    `cuts_at_user_defined` says that user-defined symbols cut the text before its spaces are
    rewritten, as added tokens do; in sentencepiece itself they cut after.

    Raises: `AssetsInvalid` naming what cannot be done in the same way.
    Source: sentencepiece 0.2, but for `known_differences`.
    """
    _check(model, name, cuts_at_user_defined)
    return {
        "version": "1.0",
        "added_tokens": _added_tokens(model),
        "normalizer": _normalizer(model),
        "pre_tokenizer": _pre_tokenizer(model),
        "post_processor": around(
            _token(model, name, "bos") if add_bos else None,
            _token(model, name, "eos") if add_eos else None,
        ),
        "decoder": _decoder(model),
        "model": _bpe(model) if model.algorithm is Algorithm.BPE else _unigram(model),
    }


def declared_roles(model: SentencePieceModel) -> dict[str, str]:
    """Return what tokenizer_config.json would say of special tokens by role."""
    ids = {role: getattr(model, f"{role}_id") for role in _ROLES}
    return {
        f"{role}_token": model.pieces[i].text
        for role, i in ids.items()
        if 0 <= i < len(model.pieces)
    }


def known_differences(model: SentencePieceModel, name: str) -> tuple[str, ...]:
    """Say where the tokenizers library, which engines run, and sentencepiece may disagree."""
    found = []
    if model.algorithm is Algorithm.UNIGRAM:
        found.append(
            f"{name} is a Unigram model: where two ways to cut a word score alike, the tokenizers"
            " library, which engines run, may choose another than sentencepiece does."
        )
    if model.charsmap:
        found.append(
            f"{name} maps characters before encoding: the tokenizers library, which engines run,"
            " does so one grapheme at a time, and some sequences come out unlike in sentencepiece."
        )
    return tuple(found)


def _check(model: SentencePieceModel, name: str, cuts_at_user_defined: bool) -> None:
    problem = _obstacle(model, cuts_at_user_defined)
    if problem is not None:
        raise AssetsInvalid(
            file=name,
            problem=f"it has {problem}, which cannot be converted exactly.",
            remedy="Load a revision with a tokenizer.json, or convert it with transformers and"
            " accept the differences.",
        )


def _obstacle(model: SentencePieceModel, cuts_at_user_defined: bool) -> str | None:
    if model.algorithm not in (Algorithm.BPE, Algorithm.UNIGRAM):
        return f"the algorithm {model.algorithm.name}"
    if model.whitespace_is_suffix or not model.escape_whitespaces:
        return "spaces written behind words, or not as ▁"
    if model.texts(Kind.UNUSED):
        return f"{len(model.texts(Kind.UNUSED))} pieces marked unused"
    if not 0 <= model.unk_id < len(model.pieces):
        return "no unknown token"
    is_rewritten = model.remove_extra_whitespaces or model.add_dummy_prefix or model.charsmap
    if model.texts(Kind.USER_DEFINED) and is_rewritten and not cuts_at_user_defined:
        return "user-defined symbols in text whose spaces or characters are rewritten"
    if model.algorithm is Algorithm.UNIGRAM:
        # Byte pieces are ordinary entries to the engine, and would match their own names.
        return "byte fallback in a Unigram model" if model.byte_fallback else None
    return _equal_scores(model)


def _equal_scores(model: SentencePieceModel) -> str | None:
    """Say what ties among scores there are, but for one group of runs of one character.

    Why: sentencepiece merges the leftmost of equals, the tokenizers library the first listed.
    Long runs of spaces share the lowest score in every model of Llama's kind; see `_run_merges`.
    """
    scores = Counter(_scores(model).values())
    tied = [score for score, count in scores.items() if count > 1]
    runs = _tied_runs(model)
    if not tied or (len(tied) == 1 and tied[0] == min(scores) and runs and _run_merges(runs)):
        return None
    return f"{sum(scores[score] for score in tied)} pieces with the same score as another"


def _scores(model: SentencePieceModel) -> dict[str, float]:
    """The scores of pieces that merging makes."""
    return {p.text: p.score for p in model.pieces if p.kind is Kind.NORMAL and len(p.text) > 1}


def _tied_runs(model: SentencePieceModel) -> list[str]:
    """The pieces of the lowest score when there are several, all of them runs of one character."""
    scores = _scores(model)
    lowest = min(scores.values(), default=0.0)
    tied = [text for text, score in scores.items() if score == lowest]
    return tied if len(tied) > 1 and len(set("".join(tied))) == 1 else []


def _run_merges(runs: list[str]) -> list[tuple[str, str]]:
    """List every merge within runs of equal score, longest first: the leftmost pair's order.

    Empty when that order, tried on runs of every length, gives other pieces than the leftmost.
    """
    symbol, sizes = runs[0][0], {len(run) for run in runs}
    in_order = [
        (left, size - left)
        for size in sorted(sizes, reverse=True)
        for left in range(size - 1, 0, -1)
        if {left, size - left} <= sizes | {1}
    ]
    rank = {pair: float(place) for place, pair in enumerate(in_order)}
    longest = 4 * max(sizes)
    listed = merge_runs(longest, lambda left, right: rank.get((left, right)))
    leftmost = merge_runs(longest, lambda left, right: 0.0 if left + right in sizes else None)
    return [(symbol * a, symbol * b) for a, b in in_order] if listed == leftmost else []


def _added_tokens(model: SentencePieceModel) -> list[Part]:
    return [
        added_token(place, piece.text, is_special=piece.kind is not Kind.USER_DEFINED)
        for place, piece in enumerate(model.pieces)
        if piece.kind in (Kind.CONTROL, Kind.UNKNOWN, Kind.USER_DEFINED)
    ]


def _normalizer(model: SentencePieceModel) -> Part | None:
    charsmap = [
        {
            "type": "Precompiled",
            "precompiled_charsmap": base64.b64encode(model.charsmap).decode(),
        }
    ]
    prefix = [{"type": "Prepend", "prepend": SPACE}] if model.add_dummy_prefix else []
    steps: list[Part] = charsmap if model.charsmap else []
    if model.remove_extra_whitespaces:
        # Only U+0020 counts, but at the end the library also strips what it writes spaces as.
        steps = [
            *steps,
            replace({"Regex": " +"}, " "),
            replace({"Regex": r"\A "}, ""),
            replace({"Regex": rf"[ {SPACE}]+\z"}, ""),
            *prefix,
        ]
    else:
        # First, since a text whose every character vanishes still has its prefix.
        steps = [*prefix, *steps]
    return {"type": "Sequence", "normalizers": [*steps, replace({"String": " "}, SPACE)]}


def _pre_tokenizer(model: SentencePieceModel) -> Part | None:
    """Split at spaces where no piece could lie across one: the same ids, cut where proofs cut."""
    if model.algorithm is not Algorithm.UNIGRAM:
        return None
    normal = model.texts(Kind.NORMAL)
    if SPACE not in normal or any(SPACE in text[1:] for text in normal):
        return None
    return {
        "type": "Metaspace",
        "replacement": SPACE,
        "prepend_scheme": "never",
        "split": True,
    }


def _token(model: SentencePieceModel, name: str, role: str) -> tuple[int, str]:
    token_id = getattr(model, f"{role}_id")
    if 0 <= token_id < len(model.pieces):
        return token_id, model.pieces[token_id].text
    raise AssetsInvalid(
        file=name,
        problem=f"a text is to begin or end with {role.upper()}, and the model has no such token.",
        remedy=f"Set add_{role}_token to false in tokenizer_config.json.",
    )


def _decoder(model: SentencePieceModel) -> Part:
    steps: list[Part] = [replace({"String": SPACE}, " ")]
    if model.byte_fallback:
        steps.append({"type": "ByteFallback"})
    steps.append({"type": "Fuse"})
    num_stripped = _EVERY if model.remove_extra_whitespaces else int(model.add_dummy_prefix)
    if num_stripped:
        steps.append({"type": "Strip", "content": " ", "start": num_stripped, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def _bpe(model: SentencePieceModel) -> Part:
    rank = {p.text: -p.score for p in model.pieces if p.kind is Kind.NORMAL}
    runs = _tied_runs(model)
    alone = [text for text in rank if len(text) > 1 and text not in runs]
    merges = recover_merges(sorted(alone, key=rank.__getitem__), rank.get)
    return {
        "type": "BPE",
        "unk_token": model.pieces[model.unk_id].text,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "vocab": {piece.text: place for place, piece in enumerate(model.pieces)},
        "merges": merges + (_run_merges(runs) if runs else []),
    }


def _unigram(model: SentencePieceModel) -> Part:
    return {
        "type": "Unigram",
        "unk_id": model.unk_id,
        "byte_fallback": False,
        "vocab": [(piece.text, piece.score) for piece in model.pieces],
    }
