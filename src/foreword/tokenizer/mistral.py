"""Text or a whole conversation enters, token ids leave: mistral-common, as engines run it.

Rules of this file: mistral-common is imported when a model is loaded, never before. It tokenizes
chats itself, so no text of one ever becomes a special token, and there are no offsets.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from foreword.errors import InvalidRequest, InvalidTokenIds
from foreword.tokenizer.mistral_errors import chat_refusal, text_refusal
from foreword.tokenizer.mistral_file import Backend, choose_file, find_roles, load_backend
from foreword.tokenizer.mistral_media import find_media, media_blocks
from foreword.tokenizer.panics import without_panic
from foreword.tokenizer.pool import TokenizerPool
from foreword.types import (
    Conversation,
    ModelAssets,
    Side,
    Span,
    TokenIds,
    TokenizerInfo,
    TokenSequence,
    Window,
)

_EFFORT_VERSION = 15
"""The tokenizer version from which on a chat may carry a reasoning effort."""
_KEPT_IN_OUTPUT = ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]")
_LANGUAGE = re.compile(r"^lang:[a-z]{2}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MistralTokenizer:
    """The tokenizer and chat format of a Mistral model: tekken.json or tokenizer.model.v*.

    `version` is the file's own (3 for v3), `kept_ids` the special tokens a generation's text keeps.
    """

    pool: TokenizerPool[Backend]
    info: TokenizerInfo
    version: int
    is_tekken: bool
    kept_ids: frozenset[int]
    media_blocks: Mapping[str, Any] = field(default_factory=dict)
    """What the file says of media, as it says it: the blocks `image` and `audio`."""
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_assets(
        cls,
        assets: ModelAssets,
        *,
        mode: str = "mistral",
        truncation_side: Side = "left",
        model_vocab_size: int | None = None,
    ) -> MistralTokenizer:
        """Load the tokenizer file of a Mistral model.

        Raises: `AssetsInvalid` when there is none, it is broken, or mistral-common is missing.
        Source: vLLM 0.33 and transformers 5.20, in mistral-common's validation mode `test`.
        """
        maker = load_backend(Path(assets.folder) / choose_file(assets.file_names))
        vocabulary: Any = maker.original.instruct_tokenizer.tokenizer
        pieces = vocabulary.vocab()
        special = [i for i in range(vocabulary.n_words) if vocabulary.is_special(i)]
        texts = tuple(vocabulary.id_to_piece(i) for i in special)
        is_tekken = hasattr(vocabulary, "id_to_byte_piece")
        roles = find_roles(vocabulary)
        return cls(
            pool=TokenizerPool(maker),
            info=TokenizerInfo(
                mode=mode,
                vocab_size=vocabulary.n_words,
                max_token_id=max(vocabulary.n_words, model_vocab_size or 0) - 1,
                max_chars_per_token=max(map(len, pieces)),
                char_gate_gap=None if is_tekken else "a SentencePiece model may rewrite its text",
                truncation_side=truncation_side,
                special_tokens={role: vocabulary.id_to_piece(i) for role, i in roles.items()},
                all_special_ids=frozenset(special),
                all_special_tokens=texts,
                bos_token_id=roles.get("bos_token"),
                eos_token_id=roles.get("eos_token"),
                pad_token_id=roles.get("pad_token"),
                num_prefix_special=1,
            ),
            version=int(str(vocabulary.version.value).rsplit("v", 1)[-1]),
            is_tekken=is_tekken,
            kept_ids=frozenset(
                i for i, text in zip(special, texts, strict=True) if text in _KEPT_IN_OUTPUT
            ),
            media_blocks=media_blocks(maker.original),
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
        """Return all tokens of `text`, after the BOS token where special tokens are wanted.

        Offsets are never given. `window` and `scope` do not matter, nor do `literal_spans` save
        where they cut, since no text becomes a special token here.

        Raises: `InvalidRequest` for a lone surrogate, or text mistral-common cannot split.
        """
        ids = array("I", [self.info.bos_token_id or 0] if add_special_tokens else [])
        with self.pool.borrow() as backend:
            vocabulary = backend.instruct_tokenizer.tokenizer
            try:
                for piece in _cut(text, literal_spans):
                    ids.extend(without_panic(vocabulary.encode, piece, bos=False, eos=False))
            except (ValueError, RuntimeError) as error:
                raise text_refusal(text) from error
        return TokenSequence(
            token_ids=ids,
            num_prefix_special=int(add_special_tokens),
            own_side="right",
            num_chars=len(text),
        )

    def encode_chat(self, conversation: Conversation) -> TokenSequence:
        """Return the tokens of a whole conversation, as `formats.mistral` prepared it.

        Shapes: each media item is one token, whose place `spans` tell.

        Raises: `InvalidRequest` with mistral-common's own reason.
        """
        effort = conversation.chat_template_kwargs.get("reasoning_effort")
        with self.pool.borrow() as backend:
            token_ids = _encode_chat(backend, conversation, effort, self.version)
            if not conversation.media:
                return TokenSequence(token_ids=token_ids)
            return find_media(token_ids, backend.instruct_tokenizer)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `token_ids`; SentencePiece's own pieces when special ones are kept.

        Raises: `InvalidTokenIds` for an id outside the vocabulary.
        Source: transformers 5.20 over mistral-common, whose answers engines show.
        """
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

        ids = self._known(token_ids)
        policy = SpecialTokenPolicy.IGNORE if skip_special_tokens else SpecialTokenPolicy.KEEP
        with self.pool.borrow() as backend:
            text: str = backend.decode(ids, special_token_policy=policy)
        return _LANGUAGE.sub("", text) if skip_special_tokens else text

    def decode_output(self, token_ids: Sequence[int]) -> str:
        """Return a generation's text as parsers of tool calls and reasoning need it.

        Special tokens are dropped, save those that open tool calls, arguments and thinking.
        """
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

        dropped = self.info.all_special_ids - self.kept_ids
        kept = [i for i in self._known(token_ids) if i not in dropped]
        with self.pool.borrow() as backend:
            if self.is_tekken:
                return str(backend.decode(kept, special_token_policy=SpecialTokenPolicy.KEEP))
            vocabulary = backend.instruct_tokenizer.tokenizer
            return "".join(
                vocabulary.id_to_piece(run[0])
                if run[0] in self.kept_ids
                else vocabulary.decode(run, special_token_policy=SpecialTokenPolicy.IGNORE)
                for run in _runs(kept, self.kept_ids)
            )

    def id_to_token(self, token_id: int) -> str | None:
        """Return the vocabulary's string of an id, or None outside the vocabulary."""
        if not 0 <= token_id < self.info.vocab_size:
            return None
        with self.pool.borrow() as backend:
            return str(backend.instruct_tokenizer.tokenizer.id_to_piece(int(token_id)))

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a vocabulary string, or None; of several ids the lowest."""
        with self.pool.borrow() as backend:
            pieces: list[str] = backend.instruct_tokenizer.tokenizer.vocab()
        try:
            return pieces.index(token)
        except ValueError:
            return None

    def _known(self, token_ids: Sequence[int]) -> list[int]:
        for position, token_id in enumerate(token_ids):
            if type(token_id) is not int or not 0 <= token_id < self.info.vocab_size:
                raise InvalidTokenIds(
                    token_id=token_id,
                    position=position,
                    max_token_id=self.info.vocab_size - 1,
                    param="tokens",
                )
        return list(token_ids)


def _encode_chat(
    backend: Backend, conversation: Conversation, effort: Any, version: int
) -> TokenIds:
    from mistral_common.protocol.instruct.request import ChatCompletionRequest, ReasoningEffort

    known = [one.value for one in ReasoningEffort]
    if effort and effort not in known:
        raise InvalidRequest(
            f"reasoning_effort must be one of {', '.join(known)} for Mistral models.",
            param="reasoning_effort",
        )
    tools: Any = None if conversation.tools is None else list(conversation.tools)
    messages: Any = list(conversation.messages)
    try:
        request: Any = ChatCompletionRequest.from_openai(
            messages=messages,
            tools=tools,
            continue_final_message=conversation.continue_final_message,
            **({"reasoning_effort": effort} if version >= _EFFORT_VERSION else {}),
        )
        return array("I", without_panic(backend.encode_chat_completion, request).tokens)
    except Exception as error:
        # It raises assertions, key errors and pydantic's own for what a client sent wrongly.
        raise chat_refusal(error) from error


def _cut(text: str, spans: Sequence[Span]) -> list[str]:
    places = sorted({0, len(text), *(place for span in spans for place in span)})
    return [text[start:stop] for start, stop in pairwise(places)]


def _runs(ids: Sequence[int], apart: frozenset[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for token_id in ids:
        if token_id in apart or not runs or runs[-1][0] in apart:
            runs.append([token_id])
        else:
            runs[-1].append(token_id)
    return runs
