"""A text and its tokens enter; the text in pieces, each with its tokens, leaves.

Rules of this file: the pieces' texts join to the whole text. Characters are never split: tokens
that share a character are one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from foreword.stages.media import placeholder_offsets
from foreword.tokenizer.tokenizer_file import TokenizerFile
from foreword.types import RenderedText, Tokenizer, TokenSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of text and the tokens `[first, stop)` that stand for it.

    A piece without tokens is text that no token stands for; `is_control` marks a token that is
    no ordinary text, `is_added` one that the tokenizer added by itself (its text is its name).
    """

    text: str
    first: int
    stop: int
    is_control: bool = False
    is_added: bool = False

    @property
    def num_tokens(self) -> int:
        return self.stop - self.first


def find_pieces(
    rendered: RenderedText | None, tokens: TokenSequence, tokenizer: Tokenizer
) -> list[Piece]:
    """Return the pieces of a text, in order; of a prompt given as ids, the tokens' own strings."""
    is_control = control_test(tokenizer)
    if rendered is None or tokens.offsets is None:
        return [
            Piece(
                text=tokenizer.decode([token_id]) or tokenizer.id_to_token(token_id) or "",
                first=position,
                stop=position + 1,
                is_control=is_control(token_id),
            )
            for position, token_id in enumerate(tokens.token_ids)
        ]
    tokens = replace(tokens, offsets=placeholder_offsets(tokens, rendered))
    return list(_text_pieces(rendered.text, tokens, tokenizer, is_control))


def control_test(tokenizer: Tokenizer) -> Callable[[int], bool]:
    """Return a function that tells the ids of control tokens: special or added ones."""
    file = pipeline_file(tokenizer)
    added = {row.id for row in file.added_tokens} if file else set()
    return (added | tokenizer.info.all_special_ids).__contains__


def pipeline_file(tokenizer: Tokenizer) -> TokenizerFile | None:
    """Return the tokenizer.json sections that a tokenizer runs, if it runs one."""
    file: TokenizerFile | None = getattr(getattr(tokenizer, "reference", tokenizer), "file", None)
    return file


def _text_pieces(
    text: str, tokens: TokenSequence, tokenizer: Tokenizer, is_control: Callable[[int], bool]
) -> Iterator[Piece]:
    offsets, ids = tokens.offsets, tokens.token_ids
    assert offsets is not None
    count = len(ids)
    num_prefix, last = tokens.num_prefix_special, count - tokens.num_suffix_special

    def added(position: int) -> Piece:
        name = tokenizer.id_to_token(ids[position]) or ""
        return Piece(text=name, first=position, stop=position + 1, is_control=True, is_added=True)

    yield from map(added, range(num_prefix))
    position, end = num_prefix, 0
    while position < last:
        start, stop = offsets.starts[position], offsets.stops[position]
        first, position = position, position + 1
        while position < last and offsets.starts[position] < stop:
            stop = max(stop, offsets.stops[position])
            position += 1
        if start > end:
            yield Piece(text=text[end:start], first=first, stop=first)
        begin, end = max(start, end), max(stop, end)
        is_one = position - first == 1
        yield Piece(
            text=text[begin:end],
            first=first,
            stop=position,
            is_control=is_one and is_control(ids[first]),
        )
    if end < len(text):
        yield Piece(text=text[end:], first=last, stop=last)
    yield from map(added, range(last, count))
