"""Generated token ids enter one by one; their text leaves as soon as it cannot change any more.

Rules of this file: no I/O; one object follows one answer. Text that was given is never taken back,
so an unfinished character waits, and so does what may be the beginning of a stop string.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MAX_HELD_TOKENS = 4
"""A character has four bytes at most: with more tokens than that in hand, bytes are invalid."""
MAX_WINDOW_TOKENS = 64
_SEED_LENGTHS = (4, 16, 64)


class Decoder(Protocol):
    """The part of a `Tokenizer` that is needed here."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...


class Detokenizer:
    """The text of one growing sequence of tokens.

    Shapes: what `add` and `finish` gave, joined, is the decoded sequence. `prompt_token_ids` go
    before it and give no text: they decide whether the first token begins a text, which some
    tokenizers write without its space.

    Why: decoding everything again for each token is quadratic. A window of the last token that
    gave text and what came after it decodes alike.
    """

    __slots__ = ("_decoder", "_given", "_num_context", "_skip", "_window")

    def __init__(
        self,
        decoder: Decoder,
        *,
        prompt_token_ids: Sequence[int] = (),
        skip_special_tokens: bool = True,
    ) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._window, self._given = self._seed(prompt_token_ids)
        self._num_context = len(self._window)

    def add(self, token_id: int) -> str:
        """Return the text that is certain now and was not before; often of earlier tokens.

        Raises: `InvalidTokenIds` for what no id can be; the object goes on as if it had not come.
        """
        text = self._decode([*self._window, token_id])
        self._window.append(token_id)
        num_held = len(self._window) - self._num_context
        if text.endswith(REPLACEMENT):
            if num_held <= MAX_HELD_TOKENS:
                return ""
            if num_held <= MAX_WINDOW_TOKENS:
                # Only the last one may still become a character; the others are what they are.
                return self._give(text[:-1])
            return self._slide(text)
        if len(text) > len(self._given):
            return self._slide(text)
        if self._num_context:
            # It has no text, as special tokens that are skipped; where a text begins it may matter.
            self._window.pop()
        return ""

    def finish(self) -> str:
        """Return the rest: an unfinished character as a replacement character."""
        return self._give(self._decode(self._window))

    def _give(self, text: str) -> str:
        new = text[len(self._given) :]
        self._given = text if new else self._given
        return new

    def _slide(self, text: str) -> str:
        new = self._give(text)
        del self._window[: self._num_context]
        self._num_context = len(self._window)
        self._given = self._decode(self._window)
        return new

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._decoder.decode(token_ids, skip_special_tokens=self._skip)

    def _seed(self, prompt_token_ids: Sequence[int]) -> tuple[list[int], str]:
        """Return the shortest end of the prompt that has text, and that text."""
        for length in _SEED_LENGTHS:
            tail = list(prompt_token_ids[-length:])
            text = self._decode(tail) if tail else ""
            if text and not text.endswith(REPLACEMENT):
                return tail, text
            if len(tail) == len(prompt_token_ids):
                break
        return [], ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDelta:
    """What some tokens added to an answer.

    `num_tokens` are those that count: tokens after the one that completed a stop string do not.
    `stop` is the stop string that was found; then the answer is over.
    """

    text: str = ""
    num_tokens: int = 0
    stop: str | None = None


class OutputText:
    """The text of one answer, up to its stop string.

    Shapes: `stop` strings count once more than `min_tokens` tokens came. Held back is only what
    could be the beginning of a stop string; nothing with `include_stop`.

    Source: vLLM 0.33 `detokenizer.py`; it holds back as many characters as the longest stop
    string has, whatever they are.
    """

    __slots__ = ("_detokenizer", "_include", "_min_tokens", "_num_tokens", "_open", "_stop")

    def __init__(
        self,
        decoder: Decoder,
        *,
        prompt_token_ids: Sequence[int] = (),
        skip_special_tokens: bool = True,
        stop: Sequence[str] = (),
        include_stop: bool = False,
        min_tokens: int = 0,
    ) -> None:
        self._detokenizer = Detokenizer(
            decoder, prompt_token_ids=prompt_token_ids, skip_special_tokens=skip_special_tokens
        )
        self._stop = tuple(stop)
        self._include = include_stop
        self._min_tokens = min_tokens
        self._num_tokens = 0
        self._open = ""
        """The end of the text so far that could begin a stop string."""

    def add(
        self, token_ids: Sequence[int], *, is_last: bool = False, ends_in_stop_token: bool = False
    ) -> OutputDelta:
        """Take tokens in; with `is_last` give all that was held back.

        Shapes: `ends_in_stop_token` says that the last token ended the answer: it counts, and has
        text only with `include_stop`.
        """
        parts: list[str] = []
        num_before = self._num_tokens
        num_with_text = len(token_ids) - (ends_in_stop_token and not self._include)
        for place, token_id in enumerate(token_ids):
            self._num_tokens += 1
            if place >= num_with_text:
                continue
            found = self._take(self._detokenizer.add(token_id), parts)
            if found is not None:
                return self._delta(parts, num_before, found)
        if not is_last:
            return self._delta(parts, num_before, None)
        found = self._take(self._detokenizer.finish(), parts)
        if found is None and not self._include:
            parts.append(self._open)
        return self._delta(parts, num_before, found)

    def _delta(self, parts: list[str], num_before: int, stop: str | None) -> OutputDelta:
        num_tokens = self._num_tokens - num_before
        return OutputDelta(text="".join(parts), num_tokens=num_tokens, stop=stop)

    def _take(self, text: str, parts: list[str]) -> str | None:
        """Append to `parts` what is certain; return the stop string that `text` completed."""
        if not text:
            return None
        if not self._stop:
            parts.append(text)
            return None
        whole = self._open + text
        num_given = len(self._open) if self._include else 0
        if self._num_tokens > self._min_tokens:
            found = find_stop(whole, self._stop, num_old=len(self._open))
            if found is not None:
                stop, start = found
                parts.append(whole[num_given : start + len(stop) if self._include else start])
                return stop
        start_of_open = len(whole) - num_open(whole, self._stop)
        self._open = whole[start_of_open:]
        parts.append(whole[num_given:] if self._include else whole[:start_of_open])
        return None


def find_stop(text: str, stop: Sequence[str], *, num_old: int = 0) -> tuple[str, int] | None:
    """Return the stop string that is complete first, and where it begins; None without one.

    Shapes: only those that end after the first `num_old` characters. Of several that end at one
    place, the first of `stop`.
    """
    best: tuple[str, int] | None = None
    for string in stop:
        start = text.find(string, max(0, num_old + 1 - len(string)))
        if start >= 0 and (best is None or start + len(string) < best[1] + len(best[0])):
            best = string, start
    return best


def num_open(text: str, stop: Sequence[str]) -> int:
    """Return how many characters at the end of `text` could be the beginning of a stop string."""
    for length in range(min(len(text), max(len(string) for string in stop) - 1), 0, -1):
        if any(string.startswith(text[-length:]) for string in stop if len(string) > length):
            return length
    return 0
