"""A tokenizer enters before its first use; whether its pieces give the ids of the whole leaves.

Rules of this file: a proof read from a file is tried once on real text before it is believed. What
fails is not repaired: the caller encodes every text whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from foreword.tokenizer.self_check_text import SELF_CHECK_TEXT
from foreword.types import Tokenizer

FAILED_SELF_CHECK = "the pieces of the text that is tried at load did not have the ids of the whole"


def passes_self_check(tokenizer: Tokenizer, reference: Tokenizer) -> bool:
    """Say whether a fixed text gives the ids of `reference`: in paragraphs, and as it grows.

    Why: it also warms what a first request would find cold: the code, the words' cache, the
    memory that ids are put into.
    """
    return all(
        tokenizer.encode(text, add_special_tokens=False).token_ids
        == reference.encode(text, add_special_tokens=False).token_ids
        for text in _texts()
    )


def _texts() -> Iterator[str]:
    paragraphs = SELF_CHECK_TEXT.split("\n\n")
    grown = list(accumulate(paragraphs, "{}\n\n{}".format))
    yield grown[len(grown) * 3 // 4]
    yield grown[-1]
    yield from filter(None, paragraphs)  # short ones last: such is most often the first request
