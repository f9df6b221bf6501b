"""Run lengths: what an item expands to, first by token text, then by token id.

Rules of this file: a run is one token repeated, or a piece of ordinary text (`is_text`)
that the tokenizer must encode. Neighbouring texts are encoded as one, as a tokenizer would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from foreword.errors import AssetsInvalid
from foreword.types import TokenIds, make_token_ids


class Run(NamedTuple):
    """One token repeated `num_tokens` times; `is_embed` where the encoder's rows go."""

    token: str | int
    """The token by its text, or by its id where only the config names it."""
    num_tokens: int
    is_embed: bool = False
    is_text: bool = False


class IdRun(NamedTuple):
    """One token id repeated `num_tokens` times."""

    token_id: int
    num_tokens: int
    is_embed: bool = False


def text(value: str) -> Run:
    """Return ordinary text as a run."""
    return Run(value, 1, False, True)


def count_embeds(runs: Iterable[Run | IdRun]) -> int:
    """Return the number of tokens that carry embeddings."""
    return sum(run.num_tokens for run in runs if run.is_embed)


def count_tokens(runs: Iterable[Run]) -> int:
    """Return the number of tokens, a text run counted as one (tokenize it to know)."""
    return sum(run.num_tokens for run in runs)


def to_id_runs(
    runs: Sequence[Run],
    *,
    token_to_id: Callable[[str], int | None],
    encode_text: Callable[[str], Sequence[int]],
) -> tuple[IdRun, ...]:
    """Resolve token texts to ids, and encode texts (without special tokens).

    Raises: `AssetsInvalid` when the tokenizer has no such token.
    """
    known: dict[str | int, int] = {}
    out: list[IdRun] = []
    pending = ""
    for run in runs:
        if run.is_text:
            pending += str(run.token) * run.num_tokens
            continue
        if pending:
            out += _encoded(pending, encode_text)
            pending = ""
        token_id = known.get(run.token)
        if token_id is None:
            token_id = known[run.token] = _required_id(run.token, token_to_id)
        out.append(IdRun(token_id, run.num_tokens, run.is_embed))
    if pending:
        out += _encoded(pending, encode_text)
    return tuple(out)


def materialise(runs: Iterable[IdRun]) -> TokenIds:
    """Return the ids of `runs`, one after the other."""
    ids = make_token_ids()
    for run in runs:
        ids.extend(make_token_ids((run.token_id,)) * run.num_tokens)
    return ids


def embed_mask(runs: Sequence[IdRun]) -> tuple[tuple[int, bool], ...] | None:
    """Return `(length, embeds?)` pairs over `runs`, or None when every token is an embedding."""
    if all(run.is_embed for run in runs):
        return None
    mask: list[tuple[int, bool]] = []
    for run in runs:
        if mask and mask[-1][1] == run.is_embed:
            mask[-1] = (mask[-1][0] + run.num_tokens, run.is_embed)
        elif run.num_tokens:
            mask.append((run.num_tokens, run.is_embed))
    return tuple(mask)


def _encoded(piece: str, encode_text: Callable[[str], Sequence[int]]) -> list[IdRun]:
    return [IdRun(token_id, 1) for token_id in encode_text(piece)]


def _required_id(token: str | int, token_to_id: Callable[[str], int | None]) -> int:
    if isinstance(token, int):
        return token
    token_id = token_to_id(token)
    if token_id is None:
        raise AssetsInvalid(
            file="tokenizer.json",
            problem=f"it has no token {token!r}, which this model's media expand to.",
            remedy="Check that the tokenizer belongs to the model.",
        )
    return token_id
