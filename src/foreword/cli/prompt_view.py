"""A prompt's stations enter; its text leaves line by line, every token told from its neighbours.

Rules of this file: with colours neighbouring tokens differ in background; without them a bar
stands between them. Nothing is hidden: newlines, shared characters and left-out stretches show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from foreword.cli.colour import Style, visible
from foreword.cli.pieces import Piece, find_pieces
from foreword.diagnosis import Stations
from foreword.types import Span, Tokenizer

SEPARATOR = "│"
_HEAD_CHARS, _TAIL_CHARS, _AROUND_CUT_CHARS = 1600, 1000, 200
_MESSAGE_CHARS = 160
# Dark letters on two light grounds read on any terminal's own background.
_GROUNDS = (("38;5;16", "48;5;153"), ("38;5;16", "48;5;223"))
_CONTROL = ("1", "38;5;231", "48;5;90")
_CUT = ("2", "9")


def prompt_lines(
    stations: Stations, tokenizer: Tokenizer, style: Style, *, is_full: bool
) -> Iterator[str]:
    """Yield the section that shows the prompt; nothing when there is no text yet."""
    if stations.tokens is None:
        yield from _untokenized(stations, style)
        return
    pieces = find_pieces(stations.rendered, stations.tokens, tokenizer)
    legend = "colours tell tokens apart" if style.is_on else f"{SEPARATOR} stands between tokens"
    yield style.title("the prompt, token by token") + style.dim(
        f"  {legend}; ↵ is a newline, ⟨×n⟩ what n tokens share"
    )
    yield from _indent(show_pieces(pieces, style, cut=cut_span(stations), is_full=is_full))


def _untokenized(stations: Stations, style: Style) -> Iterator[str]:
    """Yield the last station that was reached before there were tokens."""
    if stations.rendered is not None:
        yield style.title("the prompt, not tokenized")
        yield from _indent(visible(stations.rendered.text))
    elif stations.conversation is not None:
        yield style.title("the conversation, as the template sees it")
        for index, message in enumerate(stations.conversation.messages):
            fields = {key: value for key, value in message.items() if key != "role"}
            written = visible(msgspec.json.encode(fields).decode())
            if len(written) > _MESSAGE_CHARS:
                written = f"{written[:_MESSAGE_CHARS]}… ({len(written):,} characters)"
            yield f"  [{index}] {visible(str(message.get('role')))}  {written}"


def show_pieces(
    pieces: Sequence[Piece], style: Style, *, cut: Span = (0, 0), is_full: bool = True
) -> str:
    """Return the pieces as one text. Tokens in `cut` are marked as removed."""
    shown, skipped, written = _choose(pieces, cut, is_full), [], []
    for index, (piece, is_shown) in enumerate(zip(pieces, shown, strict=True)):
        if not is_shown:
            skipped.append(piece)
            continue
        if skipped:
            written.append(_left_out(skipped, style))
            skipped = []
        if not style.is_on and cut[0] < cut[1] and piece.num_tokens:
            if piece.first == cut[0]:
                written.append(f"\n── cut: {cut[1] - cut[0]:,} tokens from here ──\n")
            elif piece.first == cut[1]:
                written.append("\n── kept from here ──\n")
        is_removed = cut[0] <= piece.first < cut[1]
        written.append(_show(piece, index, style, is_removed))
    if not style.is_on and pieces and not pieces[-1].text.endswith("\n"):
        written.append(SEPARATOR)
    return "".join(written)


def cut_span(stations: Stations) -> Span:
    """Return which tokens, half-open, truncation removed."""
    tokens, result, params = stations.tokens, stations.engine_input, stations.params
    if tokens is None or result is None or params is None or not result.num_truncated:
        return (0, 0)
    total, removed = len(tokens.token_ids), result.num_truncated
    prefix, suffix = tokens.num_prefix_special, tokens.num_suffix_special
    keeps_special = params.truncation_side is None and total - removed >= prefix + suffix
    if not keeps_special:
        prefix = suffix = 0
    if result.truncated_side == "left":
        return (prefix, prefix + removed)
    return (total - suffix - removed, total - suffix)


def _choose(pieces: Sequence[Piece], cut: Span, is_full: bool) -> list[bool]:
    lengths = [len(piece.text) for piece in pieces]
    total = sum(lengths)
    if is_full or total <= _HEAD_CHARS + _TAIL_CHARS + 200:
        return [True] * len(pieces)
    marks, position = [], 0
    starts = []
    for piece, length in zip(pieces, lengths, strict=True):
        starts.append(position)
        if cut[0] < cut[1] and piece.num_tokens and piece.first in cut:
            marks.append(position)
        position += length
    return [
        start < _HEAD_CHARS
        or start + length > total - _TAIL_CHARS
        or any(abs(start - mark) < _AROUND_CUT_CHARS for mark in marks)
        for start, length in zip(starts, lengths, strict=True)
    ]


def _left_out(skipped: Sequence[Piece], style: Style) -> str:
    num_chars = sum(len(piece.text) for piece in skipped)
    num_tokens = sum(piece.num_tokens for piece in skipped)
    words = f"… {num_tokens:,} tokens, {num_chars:,} characters left out; --full shows them …"
    return f"\n{style.dim(words)}\n"


def _show(piece: Piece, index: int, style: Style, is_removed: bool) -> str:
    text = visible(piece.text).replace("\t", "⇥\t").replace("\n", "↵\n")
    if piece.num_tokens > 1:
        text += f"⟨×{piece.num_tokens}⟩"
    if not style.is_on:
        return (SEPARATOR if piece.num_tokens else "") + text
    if is_removed:
        codes: tuple[str, ...] = _CUT
    elif not piece.num_tokens:
        codes = ("2",)
    else:
        codes = _CONTROL if piece.is_control else _GROUNDS[index % 2]
    # A background must not run on to the end of the line.
    return "\n".join(style.paint(line, *codes) for line in text.split("\n"))


def _indent(text: str) -> Iterator[str]:
    for line in text.rstrip("\n").split("\n"):
        yield f"  {line}"
