"""Prove from a tokenizer's own file where its texts may be cut.

What enters: the bytes of `tokenizer.json`. What leaves: `CutRules`.

Rules of this file: every piece of the pipeline must agree before a context is allowed; whatever
is not known refuses, with its reason. Truncation and padding of the file are not looked at: the
loader turns both off.
"""

from __future__ import annotations

from foreword.tokenizer.segments.added_tokens import index_added_tokens
from foreword.tokenizer.segments.contexts import (
    ASCII,
    EVERY,
    SPACE_WORD,
    SPACES,
    Context,
    compile_contexts,
)
from foreword.tokenizer.segments.file import Component, TokenizerFile, flatten, read_file
from foreword.tokenizer.segments.normalizers import NormalizerFacts, normalizer_facts
from foreword.tokenizer.segments.pretokenizers import PreTokenizerFacts, pretokenizer_facts
from foreword.tokenizer.segments.rules import CutKind, CutRules
from foreword.tokenizer.segments.vocabulary import Vocabulary, read_vocabulary

_WORD_MODELS = frozenset({"BPE", "WordPiece", "WordLevel", "Unigram"})


def prove(tokenizer_json: bytes) -> CutRules:
    """Return where texts of this tokenizer may be cut, with the reasons for what is refused.

    Raises: `AssetsInvalid` when the file is not a tokenizer file.
    """
    file = read_file(tokenizer_json)
    refusal = _refuse_all(file)
    if refusal is not None:
        nothing = index_added_tokens((), is_identity=True, lowers=False)
        return CutRules(kind="none", reasons=(refusal,), added_tokens=nothing)
    normalizer = normalizer_facts(file.normalizer)
    words = pretokenizer_facts(file.pre_tokenizer, space=normalizer.space)
    tokens = index_added_tokens(
        file.added_tokens, is_identity=normalizer.is_identity, lowers=normalizer.lowers_ascii
    )
    contexts, reasons = _contexts(file, normalizer, words)
    vocabulary: Vocabulary | None = None
    if contexts and words.is_one_word:
        read = read_vocabulary(file.model, space=words.space)
        if isinstance(read, str):
            contexts, reasons = frozenset(), (*reasons, read)
        else:
            vocabulary = read
    between: CutKind = "segmentation" if vocabulary is None else "vocabulary"
    return CutRules(
        kind=between if contexts else "added-tokens" if tokens.anchors else "none",
        contexts=tuple(sorted(context.name for context in contexts)),
        reasons=tuple(dict.fromkeys(reasons)),
        places=compile_contexts(contexts),
        vocabulary=vocabulary,
        added_tokens=tokens,
        drops_space=bool(normalizer.prepend),
        offsets_gap=_offsets_gap(file.post_processor),
    )


def _refuse_all(file: TokenizerFile) -> str | None:
    """Say why no text of this file can be encoded in pieces at all, not even at added tokens."""
    if file.model.dropout:
        return "BPE dropout draws lots: no two encodings agree"
    if file.model.kind not in _WORD_MODELS:
        return f"the model {file.model.kind} is not known"
    ids = [token.id for token in file.added_tokens]
    if len(set(ids)) < len(ids):
        return "two added tokens share an id, so that one has the other's flags"
    return None


def _contexts(
    file: TokenizerFile, normalizer: NormalizerFacts, words: PreTokenizerFacts
) -> tuple[frozenset[Context], tuple[str, ...]]:
    """Return the contexts that normalizer, pre-tokenizer and added tokens all allow."""
    reasons = [*normalizer.reasons, *words.reasons]
    contexts = normalizer.contexts & (EVERY if words.is_one_word else words.contexts)
    if words.is_one_word and not normalizer.is_plain:
        reasons.append("a normalizer rewrites text that is one word of the model")
        contexts = frozenset()
    if words.adds_prefix:
        # A piece that begins with a space is given none: the same as in the middle of a section.
        contexts &= SPACES
    if normalizer.prepend:
        contexts &= {SPACE_WORD}
        if any(char.isalnum() for char in _first_chars(file)):
            reasons.append("the normalizer prepends, and an added token begins with a letter")
            contexts = frozenset()
    if not normalizer.is_identity and any(token.normalized for token in file.added_tokens):
        gap = _hidden_gap(file, normalizer)
        if gap is not None:
            reasons.append(gap)
        contexts = contexts & ASCII if gap is None else frozenset()
    return contexts, tuple(reasons)


def _first_chars(file: TokenizerFile) -> set[str]:
    return {token.content[0] for token in file.added_tokens if token.content}


def _hidden_gap(file: TokenizerFile, normalizer: NormalizerFacts) -> str | None:
    """Say why tokens that match in normalized text can't be seen in the text itself."""
    if not normalizer.keeps_ascii or normalizer.space != " " or normalizer.prepend:
        return "normalized added tokens match in a text that the normalizer has changed"
    for token in file.added_tokens:
        if token.normalized and not token.content.isascii():
            return "a normalized added token holds characters that the normalizer may change"
        if token.normalized and (token.lstrip or token.rstrip or token.single_word):
            return "a normalized added token has flags that look at normalized neighbours"
    return None


def _offsets_gap(post_processor: Component | None) -> str | None:
    for step in flatten(post_processor, "processors"):
        if step.get("trim_offsets") and step.get("add_prefix_space", True):
            return "the post-processor treats the first space of a text unlike all others"
    return None
