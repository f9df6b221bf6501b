"""Proofs: where a text may be cut so that the ids of its pieces are the ids of the whole.

What enters: a tokenizer file (`prove`, or as it is run: `prove_file`), then texts. What leaves:
cuts.

Rules of this package: pure; proved from the file or refused with a reason; nothing remembered.
Reading order: contexts, patterns, normalizers, pretokenizers, vocabulary, added_tokens, rules,
prove, cuts.
"""

from foreword.tokenizer.segments.cuts import (
    iterate_cuts,
    iterate_cuts_backwards,
    iterate_cuts_in_full,
    next_cut,
    next_token_cut,
    previous_cut,
    previous_token_cut,
    stable_prefix,
)
from foreword.tokenizer.segments.prove import no_cuts, prove, prove_file
from foreword.tokenizer.segments.rules import CutKind, CutRules

__all__ = [
    "CutKind",
    "CutRules",
    "iterate_cuts",
    "iterate_cuts_backwards",
    "iterate_cuts_in_full",
    "next_cut",
    "next_token_cut",
    "no_cuts",
    "previous_cut",
    "previous_token_cut",
    "prove",
    "prove_file",
    "stable_prefix",
]
