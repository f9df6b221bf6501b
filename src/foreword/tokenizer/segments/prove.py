"""Prove from a tokenizer's own file where its texts may be cut.

What enters: a tokenizer file, as bytes or as it is run. What leaves: `CutRules`.

Rules of this file: every piece of the pipeline must agree before a context is allowed; whatever
is not known refuses, with its reason. Truncation and padding of the file are not looked at: the
loader turns both off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from foreword.tokenizer.segments.added_tokens import index_added_tokens
from foreword.tokenizer.segments.contexts import (
    ASCII,
    EVERY,
    SPACE_WORD,
    SPACES,
    Context,
    compile_contexts,
    widest,
)
from foreword.tokenizer.segments.normalizers import NormalizerFacts, normalizer_facts
from foreword.tokenizer.segments.pretokenizers import PreTokenizerFacts, pretokenizer_facts
from foreword.tokenizer.segments.rules import CutKind, CutRules
from foreword.tokenizer.segments.vocabulary import (
    Vocabulary,
    index_vocabulary,
    read_vocabulary,
    word_gap,
)
from foreword.tokenizer.tokenizer_file import TokenizerFile, flatten, read_tokenizer_file

_WORD_MODELS = frozenset({"BPE", "WordPiece", "WordLevel", "Unigram"})


def prove(tokenizer_json: bytes) -> CutRules:
    """Return where texts of a `tokenizer.json`, run as it is, may be cut.

    Raises: `AssetsInvalid` when it is not a tokenizer file.
    """
    file = read_tokenizer_file(tokenizer_json)
    return prove_file(file, lambda: read_vocabulary(tokenizer_json))


def no_cuts(reason: str) -> CutRules:
    """Return rules by which every text is encoded whole."""
    nothing = index_added_tokens((), is_identity=True, lowers=False)
    return CutRules(kind="none", reasons=(reason,), added_tokens=nothing)


def prove_file(
    file: TokenizerFile,
    read_model_vocabulary: Callable[[], Collection[str]],
    *,
    splits_special_tokens: bool = False,
) -> CutRules:
    """Return where texts may be cut, with the reasons for what is refused.

    `file` is the pipeline as it is run, with every added token. The model's own vocabulary
    (without added tokens) is read only where a text is one word of the model.
    `splits_special_tokens`: the tokenizer was told to encode special tokens as text.
    """
    gap = _model_gap(file)
    if gap is not None:
        return no_cuts(gap)
    normalizer = normalizer_facts(file.normalizer)
    words = pretokenizer_facts(file.pre_tokenizer, space=normalizer.space)
    tokens = index_added_tokens(
        file.added_tokens,
        is_identity=normalizer.is_identity,
        lowers=normalizer.lowers_ascii,
        splits_special=splits_special_tokens,
    )
    contexts, reasons = _contexts(file, normalizer, words)
    vocabulary: Vocabulary | None = None
    if contexts and words.is_one_word:
        read = word_gap(file.model) or index_vocabulary(
            read_model_vocabulary(), unk_token=file.model.unk_token, space=words.space
        )
        if isinstance(read, str):
            contexts, reasons = frozenset(), (*reasons, read)
        else:
            vocabulary = read
    between: CutKind = "segmentation" if vocabulary is None else "vocabulary"
    return CutRules(
        kind=between if contexts else "added-tokens" if tokens.anchors else "none",
        contexts=tuple(context.name for context in widest(contexts)),
        reasons=tuple(dict.fromkeys(reasons)),
        places=compile_contexts(widest(contexts)),
        vocabulary=vocabulary,
        added_tokens=tokens,
        drops_space=bool(normalizer.prepend),
        offsets_gap=_offsets_gap(file, is_inside_words=vocabulary is not None),
    )


def _model_gap(file: TokenizerFile) -> str | None:
    """Say why no text can be encoded in pieces at all, not even at added tokens."""
    if file.model.dropout:
        return "BPE dropout draws lots: no two encodings agree"
    if file.model.type not in _WORD_MODELS:
        return f"the model {file.model.type} is not known"
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
    if not contexts and not reasons:
        reasons.append("the pre-tokenizer and the normalizer leave no place that always breaks")
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


def _offsets_gap(file: TokenizerFile, *, is_inside_words: bool) -> str | None:
    """Say why the offsets of pieces, shifted, are not those of the whole."""
    for step in flatten(file.post_processor):
        if step.get("trim_offsets") and step.get("add_prefix_space", True):
            return "the post-processor treats the first space of a text unlike all others"
    for step in flatten(file.normalizer):
        # The reference counts every later offset of a section wrong when its map deletes the
        # section's first character, so what is right depends on where the section begins.
        if step["type"] == "Precompiled":
            return "a Precompiled normalizer that deletes a first character shifts all offsets"
    steps = [step["type"] for step in (*flatten(file.normalizer), *flatten(file.pre_tokenizer))]
    if "Prepend" in steps and "ByteLevel" in steps:
        return "what the normalizer prepends may be one token with a part of the first character"
    if is_inside_words and file.model.unk_token is None:
        return "characters that the model drops shift the offsets of all that follow in the word"
    return None
