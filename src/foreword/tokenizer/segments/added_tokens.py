"""Prove that no added token crosses a cut, and find the cuts that added tokens make.

What enters: the file's `added_tokens`. What leaves: an `AddedTokens` that answers for a place.

Why it holds: matching is leftmost-longest. Where no *occurrence* of any token lies across a place,
matched or not, a scan of the whole text stands at that place as a scan of the right part begins;
so the matches are those of the left part followed by those of the right part. This needs no scan
from the left: `nnnnn` with `nnn` and `nn` has no such place inside, from either side.
Flags reach further: `lstrip` and `rstrip` take whitespace, `single_word` looks at one neighbour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TypeAlias

from foreword.tokenizer.tokenizer_file import AddedTokenRow

Split: TypeAlias = tuple[str, str]
"""A token's text, in two halves."""

_MAX_SPLITS = 16
"""Above this many tokens with the same neighbours inside, such a place is refused unseen."""
_MAX_PREFIXES = 16
_MIN_ANCHOR_CHARS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTokens:
    """What can be asked about a place between two characters of a text."""

    inner: dict[str, tuple[Split, ...] | None]
    """Two neighbouring characters to the tokens that hold them; None: too many to look at."""
    refused: frozenset[str]
    """Neighbours at which normalized tokens, seen in normalized text, might cross."""
    rstrip_ends: frozenset[str]
    lstrip_starts: frozenset[str]
    word_starts: frozenset[str]
    word_ends: frozenset[str]
    anchors: dict[str, dict[int, frozenset[str]]]
    """First two characters of a token to its length to the tokens: where a cut is worth making."""
    first_chars: frozenset[str]
    """The first characters of `anchors`: a text without them needs no search for more."""
    max_chars: int
    last_chars: frozenset[str]

    def cross(self, text: str, place: int, *, is_open: bool = False) -> bool:
        """Say whether an occurrence of a token lies across `place`.

        `is_open`: the text may go on, so a token cut off by its end counts too.
        """
        splits = self.inner.get(text[place - 1 : place + 1], ())
        if splits is None:
            return True
        for head, tail in splits:
            if text.endswith(head, 0, place) and (
                text.startswith(tail, place) or (is_open and tail.startswith(text[place:]))
            ):
                return True
        return False

    def reach(self, before: str, after: str) -> bool:
        """Say whether a token's flag might reach across the joint of two characters."""
        is_space_before, is_space_after = before.isspace(), after.isspace()
        if is_space_after and self.rstrip_ends and (is_space_before or before in self.rstrip_ends):
            return True
        if (
            is_space_before
            and self.lstrip_starts
            and (is_space_after or after in self.lstrip_starts)
        ):
            return True
        return (before in self.word_ends and _may_be_word(after)) or (
            after in self.word_starts and _may_be_word(before)
        )

    def starts(self, text: str, place: int) -> bool:
        """Say whether an anchor stands at `place`."""
        by_length = self.anchors.get(text[place : place + 2])
        return by_length is not None and any(
            text[place : place + length] in tokens for length, tokens in by_length.items()
        )


def _may_be_word(char: str) -> bool:
    # The library asks for `\w`, marks and joiners included; anything outside ASCII may be one.
    return char == "_" or char.isalnum() or not char.isascii()


def index_added_tokens(
    tokens: Sequence[AddedTokenRow],
    *,
    is_identity: bool,
    lowers: bool,
    splits_special: bool = False,
) -> AddedTokens:
    """Index the added tokens of a file.

    `is_identity`: the normalizer changes nothing, so that normalized tokens are seen in the text
    as it is. Otherwise they are compared with ASCII neighbours only, which a normalizer has been
    tried to keep, or to lower-case (`lowers`). `splits_special`: matches of special tokens are
    found and given up, so no token is sure to be one.
    """
    raw = [token for token in tokens if token.content and not token.normalized]
    normalized = [token for token in tokens if token.content and token.normalized]
    seen = raw + normalized if is_identity else raw
    # Raw ones too: a token that was added twice, with other flags, is looked for both ways.
    hidden = [] if is_identity else [token.content for token in (*raw, *normalized)]
    # The library gives up whatever was ever added as special, and shows the last row alone.
    given_up = [token.content for token in seen if token.single_word or splits_special]
    anchors = _index_anchors(raw, normalized if is_identity else [], given_up)
    return AddedTokens(
        inner=_index_inner(token.content for token in seen),
        refused=frozenset(p for content in hidden for p in _pairs_as_written(content, lowers)),
        rstrip_ends=frozenset(t.content[-1] for t in seen if t.rstrip),
        lstrip_starts=frozenset(t.content[0] for t in seen if t.lstrip),
        word_starts=frozenset(t.content[0] for t in seen if t.single_word),
        word_ends=frozenset(t.content[-1] for t in seen if t.single_word),
        anchors=anchors,
        first_chars=frozenset(prefix[0] for prefix in anchors),
        max_chars=max((len(token.content) for token in tokens), default=0),
        last_chars=frozenset(token.content[-1] for token in tokens if token.content),
    )


def _pairs_as_written(content: str, lowers: bool) -> Iterable[str]:
    """Yield what may stand in the text where two neighbours of `content` are seen normalized."""
    for before, after in pairwise(content):
        yield before + after
        if lowers:
            cases = product({before.lower(), before.upper()}, {after.lower(), after.upper()})
            yield from map("".join, cases)


def _index_inner(contents: Iterable[str]) -> dict[str, tuple[Split, ...] | None]:
    splits: dict[str, set[Split]] = defaultdict(set)
    for content in contents:
        for i in range(1, len(content)):
            splits[content[i - 1 : i + 1]].add((content[:i], content[i:]))
    return {
        pair: tuple(sorted(found)) if len(found) <= _MAX_SPLITS else None
        for pair, found in splits.items()
    }


def _index_anchors(
    raw: Sequence[AddedTokenRow], normalized: Sequence[AddedTokenRow], given_up: Sequence[str]
) -> dict[str, dict[int, frozenset[str]]]:
    """Choose the tokens whose start is worth cutting at, and certain to be one.

    A raw token that begins where nothing crosses is matched there, or a longer one is. A
    normalized one is not when a raw token begins inside it, since those are taken out first. One
    that begins a token which may be found and `given_up` is not certain either.
    """
    unsure = {content[:i] for content in given_up for i in range(1, len(content) + 1)}
    is_torn = _torn_by(token.content for token in raw)
    found = [token for token in raw if _is_anchor(token) and token.content not in unsure]
    found += [
        token
        for token in normalized
        if _is_anchor(token) and token.content not in unsure and not is_torn(token.content)
    ]
    for chosen in (found, [token for token in found if token.special]):
        if len({token.content[:2] for token in chosen}) <= _MAX_PREFIXES:
            return _group(token.content for token in chosen)
    return {}


def _is_anchor(token: AddedTokenRow) -> bool:
    content = token.content
    return len(content) >= _MIN_ANCHOR_CHARS and not (content[0].isspace() or content[0].isalnum())


def _torn_by(raw: Iterable[str]) -> Callable[[str], bool]:
    """Return the question whether an occurrence of a `raw` token may begin inside a token."""
    contents = set(raw)
    lengths = {len(content) for content in contents}
    beginnings = {content[:i] for content in contents for i in range(1, len(content) + 1)}

    def is_torn(content: str) -> bool:
        return any(
            content[i:] in beginnings or any(content[i : i + n] in contents for n in lengths)
            for i in range(1, len(content))
        )

    return is_torn


def _group(contents: Iterable[str]) -> dict[str, dict[int, frozenset[str]]]:
    groups: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for content in contents:
        groups[content[:2]][len(content)].add(content)
    return {
        prefix: {length: frozenset(found) for length, found in by_length.items()}
        for prefix, by_length in groups.items()
    }
