"""Text enters, token ids leave: the reference, Hugging Face `tokenizers` on tokenizer.json.

Rules of this file: the shared `tokenizers.Tokenizer` is never changed after load, and `encode`
(which holds the GIL) is never called. What differs from the file alone is decided before load.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenizers import Tokenizer

from foreword.errors import InvalidRequest, InvalidTokenIds
from foreword.tokenizer.literal import stretches, twin_without_added_tokens
from foreword.tokenizer.loading import build_tokenizer
from foreword.tokenizer.pairs import find_pair_shape
from foreword.tokenizer.panics import ask_library
from foreword.tokenizer.tokenizer_file import TokenizerFile
from foreword.types import (
    MAX_TOKEN_ID,
    ModelAssets,
    Offsets,
    PairShape,
    Side,
    Span,
    TokenizerInfo,
    TokenSequence,
    Window,
)

_SURROGATE = re.compile("[\ud800-\udfff]")
# What transformers undoes after decoding where clean_up_tokenization_spaces asks for it.
_CLEAN_UPS = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HuggingFaceTokenizer:
    """The reference encoder of one model, with everything that is computed once.

    `tokenizer` may be shared between threads and must never be changed; `file` is the pipeline
    it runs (tokenizer.json's small sections, as decided at load).
    """

    tokenizer: Tokenizer
    file: TokenizerFile
    info: TokenizerInfo
    warnings: tuple[str, ...] = ()
    cleans_up_spaces: bool = False
    returns_token_types: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # The library's own pickling forgets this one property.
        splits = self.tokenizer.encode_special_tokens
        return _restore, (
            self.tokenizer,
            splits,
            self.file,
            self.info,
            self.warnings,
            self.cleans_up_spaces,
            self.returns_token_types,
        )

    @classmethod
    def from_assets(
        cls,
        assets: ModelAssets,
        *,
        mode: str = "hf",
        truncation_side: Side = "left",
        model_vocab_size: int | None = None,
    ) -> HuggingFaceTokenizer:
        """Build the tokenizer of `assets`; see `loading.build_tokenizer`.

        Raises: `AssetsInvalid` naming the file that is missing or broken.
        """
        built = build_tokenizer(
            assets, mode=mode, truncation_side=truncation_side, model_vocab_size=model_vocab_size
        )
        return cls(
            tokenizer=built.tokenizer,
            file=built.file,
            info=built.info,
            warnings=built.warnings,
            cleans_up_spaces=built.cleans_up_spaces,
            returns_token_types=built.returns_token_types,
        )

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool,
        with_offsets: bool = False,
        window: Window | None = None,
        scope: str = "",
        literal_spans: Sequence[Span] = (),
    ) -> TokenSequence:
        """Return all tokens of `text`; `window` and `scope` do not matter to the reference.

        Raises: `InvalidRequest` for a lone surrogate, which no UTF-8 text can hold.
        """
        if literal_spans:
            return self._encode_apart(text, literal_spans, add_special_tokens, with_offsets)
        encode = self.tokenizer.encode_batch if with_offsets else self.tokenizer.encode_batch_fast
        try:
            encoding = ask_library(encode, [text], add_special_tokens=add_special_tokens)[0]
        except TypeError:
            raise not_utf8(text) from None
        return TokenSequence(
            token_ids=array("I", encoding.ids),
            offsets=_offsets(encoding.offsets) if with_offsets else None,
            num_prefix_special=self.info.num_prefix_special if add_special_tokens else 0,
            num_suffix_special=self.info.num_suffix_special if add_special_tokens else 0,
            num_chars=len(text),
        )

    def _encode_apart(
        self,
        text: str,
        literal_spans: Sequence[Span],
        add_special_tokens: bool,
        with_offsets: bool,
    ) -> TokenSequence:
        twin = twin_without_added_tokens(self.tokenizer)
        token_ids, pairs = array("I"), []
        for start, stop, is_literal in stretches(len(text), literal_spans):
            tokenizer = twin if is_literal else self.tokenizer
            try:
                (encoding,) = ask_library(
                    tokenizer.encode_batch, [text[start:stop]], add_special_tokens=False
                )
            except TypeError:
                raise not_utf8(text) from None
            token_ids.extend(encoding.ids)
            pairs += [(start + first, start + last) for first, last in encoding.offsets]
        num_prefix = num_suffix = 0
        if add_special_tokens:
            num_prefix, num_suffix = self.info.num_prefix_special, self.info.num_suffix_special
            special = array("I", self.tokenizer.encode_batch([""], add_special_tokens=True)[0].ids)
            token_ids = special[:num_prefix] + token_ids + special[num_prefix:]
            pairs = [(0, 0)] * num_prefix + pairs + [(0, 0)] * num_suffix
        return TokenSequence(
            token_ids=token_ids,
            offsets=_offsets(pairs) if with_offsets else None,
            num_prefix_special=num_prefix,
            num_suffix_special=num_suffix,
            num_chars=len(text),
        )

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `token_ids`; ids outside the vocabulary give nothing.

        Raises: `InvalidTokenIds` for what no id can be.
        """
        try:
            text: str = ask_library(
                self.tokenizer.decode, list(token_ids), skip_special_tokens=skip_special_tokens
            )
        except (OverflowError, TypeError):
            raise self._no_ids(token_ids) from None
        if self.cleans_up_spaces:
            for written, meant in _CLEAN_UPS:
                text = text.replace(written, meant)
        return text

    @property
    def leading_space_marker(self) -> str | None:
        """The character for a space, where decoding drops the one a text begins with."""
        section = self.file.pre_tokenizer or {}
        steps = section.get("pretokenizers") or () if section.get("type") == "Sequence" else ()
        for one in (section, *steps):
            if one.get("type") == "Metaspace":
                return str(one.get("replacement", "▁"))
        return None

    def pair_shape(self) -> PairShape:
        """Return the special tokens around and between two texts that are one prompt.

        Raises: `UnsupportedFeature` when the post-processor does anything else.
        """
        shape = find_pair_shape(self.tokenizer)
        return replace(shape, needs_types=shape.needs_types and self.returns_token_types)

    def tokens(self, token_ids: Sequence[int]) -> list[str]:
        """Return the vocabulary's string of every id; an empty one outside the vocabulary."""
        return [self.id_to_token(token_id) or "" for token_id in token_ids]

    def id_to_token(self, token_id: int) -> str | None:
        """Return the vocabulary's string of an id, or None outside the vocabulary."""
        if not 0 <= token_id <= MAX_TOKEN_ID:
            return None
        token: str | None = self.tokenizer.id_to_token(token_id)
        return token

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a vocabulary string, or None."""
        if _SURROGATE.search(token):
            return None
        token_id: int | None = self.tokenizer.token_to_id(token)
        return token_id

    def _no_ids(self, token_ids: Sequence[int]) -> InvalidTokenIds:
        position, token_id = next(
            (place, value)
            for place, value in enumerate(token_ids)
            if not isinstance(value, int) or not 0 <= value <= MAX_TOKEN_ID
        )
        return InvalidTokenIds(
            token_id=token_id,
            position=position,
            max_token_id=self.info.max_token_id,
            param="tokens",
        )


def _restore(
    tokenizer: Tokenizer,
    splits_special_tokens: bool,
    file: TokenizerFile,
    info: TokenizerInfo,
    warnings: tuple[str, ...],
    cleans_up_spaces: bool,
    returns_token_types: bool,
) -> HuggingFaceTokenizer:
    tokenizer.encode_special_tokens = splits_special_tokens
    return HuggingFaceTokenizer(
        tokenizer=tokenizer,
        file=file,
        info=info,
        warnings=warnings,
        cleans_up_spaces=cleans_up_spaces,
        returns_token_types=returns_token_types,
    )


def _offsets(pairs: list[tuple[int, int]]) -> Offsets:
    return Offsets(
        starts=array("I", [start for start, _ in pairs]),
        stops=array("I", [stop for _, stop in pairs]),
    )


def not_utf8(text: str) -> InvalidRequest:
    found = _SURROGATE.search(text)
    where = found.start() if found else 0
    return InvalidRequest(
        f"The text has a lone surrogate (U+{ord(text[where]):04X}) at character {where} of"
        f" {len(text)}: it is not valid Unicode. Send text that UTF-8 can hold.",
        details={"position": where, "num_chars": len(text)},
    )
