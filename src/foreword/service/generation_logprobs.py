"""What an engine says of each position enters; the logprobs that OpenAI-style clients read leave.

Rules of this file: fields and their places are vLLM 0.33's: the token that was chosen comes first,
then the likeliest, none twice. A probability of nothing is -9999, as JSON has no infinity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from foreword.errors import ServiceError
from foreword.protocols.chat_completions import ChatCompletionRequest
from foreword.protocols.completions import CompletionRequest
from foreword.sampling import SamplingParams
from foreword.service.engine_stream import TokenScores
from foreword.token_texts import NUM_CONTEXT, TokenTexts

_LEAST = -9999.0


class ScoredToken(NamedTuple):
    """A token at a position. `logprob` None: nothing is known of it, as of a prompt's first."""

    token_id: int
    text: str
    logprob: float | None
    rank: int | None


Position = tuple[ScoredToken, ...]
"""A position's tokens: the one that stands there, then the likeliest in order."""


class Scorer:
    """Gives the tokens of one sequence their texts, position by position."""

    def __init__(self, texts: TokenTexts, num_logprobs: int) -> None:
        self._texts = texts
        self._num_logprobs = num_logprobs
        self._context: list[int] = []

    def add(self, rows: Sequence[TokenScores], *, num_expected: int) -> list[Position]:
        """Return the next positions.

        Raises: `ServiceError` when the engine gave another number of them.
        """
        if len(rows) < num_expected:
            raise ServiceError(
                f"The engine sent {num_expected} tokens and the logprobs of {len(rows)}.",
                details={"num_tokens": num_expected, "num_logprobs": len(rows)},
            )
        return [self._position(row) for row in rows[:num_expected]]

    def _position(self, row: TokenScores) -> Position:
        found: dict[int, ScoredToken] = {}
        for place, (token_id, logprob, rank) in enumerate(zip(*row, strict=True)):
            is_wanted = place == 0 or self._num_logprobs == -1
            if is_wanted or (rank is not None and rank <= self._num_logprobs):
                text = self._texts.text(token_id, self._context)
                found[token_id] = ScoredToken(token_id, text, logprob, rank)
        self._context = [*self._context, row.token_ids[0]][-NUM_CONTEXT:]
        return tuple(found.values())


def scorer_of(texts: TokenTexts, sampling: SamplingParams) -> Scorer | None:
    """Return what scores an answer; None where no logprobs are asked for."""
    number = sampling.logprobs
    if number is None and sampling.logprob_token_ids:
        number = len(sampling.logprob_token_ids)
    return None if number is None else Scorer(texts, number)


def prompt_positions(
    texts: TokenTexts, sampling: SamplingParams, first_id: int, rows: Sequence[TokenScores]
) -> list[Position]:
    """Return the positions of a prompt; of its first token nothing is known."""
    assert sampling.prompt_logprobs is not None
    first = ScoredToken(first_id, texts.decoded(first_id), None, None)
    scorer = Scorer(texts, sampling.prompt_logprobs)
    return [(first,), *scorer.add(rows, num_expected=len(rows))]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogprobShape:
    """How one request wants its logprobs written. `max_candidates` None: all there are."""

    is_chat: bool
    max_candidates: int | None
    as_token_ids: bool = False

    def write(self, positions: Sequence[Position], *, offset: int = 0) -> dict[str, Any]:
        """Return the field `logprobs` of a choice; `offset` is where its first token begins."""
        if self.is_chat:
            return {"content": [self._content(position) for position in positions]}
        return self._columns(positions, offset)

    def length(self, positions: Sequence[Position]) -> int:
        """Return by how much positions move the offset of what follows."""
        return sum(len(self._text(position[0])) for position in positions)

    def _content(self, position: Position) -> dict[str, Any]:
        chosen = position[0]
        candidates = islice(position, self.max_candidates)
        return {
            "token": self._text(chosen),
            "logprob": _finite(chosen.logprob),
            "bytes": _bytes(chosen.text),
            "top_logprobs": [
                {
                    "token": (text := self._text(one)),
                    "logprob": _finite(one.logprob),
                    "bytes": _bytes(text),
                }
                for one in candidates
            ],
        }

    def _columns(self, positions: Sequence[Position], offset: int) -> dict[str, Any]:
        made: dict[str, Any] = {
            "text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": [],
        }  # fmt: skip
        for position in positions:
            chosen, text = position[0], self._text(position[0])
            is_known = chosen.logprob is not None
            candidates = islice(position, self.max_candidates)
            made["text_offset"].append(offset)
            made["tokens"].append(text)
            made["token_logprobs"].append(_finite(chosen.logprob) if is_known else None)
            made["top_logprobs"].append(
                {self._text(one): _finite(one.logprob) for one in candidates} if is_known else None
            )
            offset += len(text)
        return made

    def _text(self, token: ScoredToken) -> str:
        return f"token_id:{token.token_id}" if self.as_token_ids else token.text


def shape_of(request: ChatCompletionRequest | CompletionRequest) -> LogprobShape | None:
    """Return how a request wants its logprobs; None where it wants none."""
    number = request.num_logprobs
    if number is None:
        return None
    is_chat = isinstance(request, ChatCompletionRequest)
    wants_all = number == -1 or bool(request.logprob_token_ids)
    # OpenAI's completions show the chosen token beside the likeliest; its chats among them.
    limit = None if wants_all else number if is_chat else number + 1
    return LogprobShape(
        is_chat=is_chat,
        max_candidates=limit,
        as_token_ids=bool(request.return_tokens_as_token_ids),
    )


def write_prompt_logprobs(positions: Sequence[Position]) -> list[dict[str, Any] | None]:
    """Return the field `prompt_logprobs`: what is known of every token of a prompt."""
    return [
        None
        if position[0].logprob is None
        else {
            str(one.token_id): {
                "logprob": _finite(one.logprob),
                "rank": one.rank,
                "decoded_token": one.text,
            }
            for one in position
        }
        for position in positions
    ]


def _finite(logprob: float | None) -> float:
    return _LEAST if logprob is None or math.isnan(logprob) else max(logprob, _LEAST)


def _bytes(text: str) -> list[int]:
    return list(text.encode("utf-8", "replace"))
