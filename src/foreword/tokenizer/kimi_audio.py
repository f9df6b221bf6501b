"""Kimi-Audio's files enter; the tokenizer of vLLM's mode `kimi_audio` leaves.

Rules of this file: six control tokens may be spelled in a text, and any other that the model
declares is refused. Nothing is added around a text, and no offsets are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from foreword.errors import AssetsInvalid, InvalidRequest
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.tiktoken_file import KIMI_AUDIO, convert_tiktoken
from foreword.tokenizer.uncut import check_uncut
from foreword.types import ModelAssets, Side, Span, TokenizerInfo, TokenSequence, Window

SPELLABLE: Mapping[str, int] = {
    "<|im_media_begin|>": 151661,
    "<|im_media_end|>": 151663,
    "<|im_kimia_text_blank|>": 151666,
    "<|im_msg_end|>": 151645,
    "<|im_kimia_user_msg_start|>": 151670,
    "<|im_kimia_assistant_msg_start|>": 151671,
}
"""The control tokens a text may spell, with the ids that count as special."""
_FILES = ("tiktoken.model", "tokenizer.model")
_BOS, _EOS = 151643, 151644


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KimiAudioTokenizer:
    """Tiktoken's ids on the model's own file, by the reference; `forbidden` may not be spelled."""

    inner: HuggingFaceTokenizer
    info: TokenizerInfo
    forbidden: re.Pattern[str] | None
    max_uncut_chars: int | None = None

    @classmethod
    def from_assets(
        cls,
        assets: ModelAssets,
        *,
        mode: str = "kimi_audio",
        truncation_side: Side = "left",
        model_vocab_size: int | None = None,
    ) -> KimiAudioTokenizer:
        """Read tiktoken.model, or tokenizer.model, and the control tokens declared beside it.

        Raises: `AssetsInvalid` when there is none, or it is broken.
        Source: vLLM 0.33's tokenizer mode `kimi_audio`.
        """
        name = next((one for one in _FILES if one in assets.file_names), None)
        if name is None:
            raise AssetsInvalid(
                file=_FILES[0],
                problem="missing: tokenizer mode 'kimi_audio' needs it, or a tokenizer.model.",
            )
        try:
            data = (Path(assets.folder) / name).read_bytes()
        except OSError as error:
            raise AssetsInvalid(
                file=name, problem=f"it cannot be read ({error.strerror})."
            ) from error
        declared = _declared(assets.tokenizer_config)
        file = convert_tiktoken(data, name, {"added_tokens_decoder": declared}, family=KIMI_AUDIO)
        inner = HuggingFaceTokenizer.from_assets(
            replace(
                assets,
                tokenizer_json=msgspec.json.encode(file),
                tokenizer_config={},
                special_tokens_map={},
                config={},
                do_lower_case=False,
            ),
            mode=mode,
            truncation_side=truncation_side,
            model_vocab_size=model_vocab_size,
        )
        info = replace(
            inner.info,
            special_tokens={},
            all_special_ids=frozenset(SPELLABLE.values()),
            all_special_tokens=tuple(SPELLABLE),
            bos_token_id=_BOS,
            eos_token_id=_EOS,
            pad_token_id=_EOS,
            is_fast=False,
        )
        texts = sorted({str(one["content"]) for one in declared.values()} - SPELLABLE.keys())
        forbidden = re.compile("|".join(map(re.escape, texts))) if texts else None
        return cls(inner=inner, info=info, forbidden=forbidden)

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
        """Return all tokens of `text`; special tokens are never added, nor offsets given.

        Raises: `InvalidRequest` for a lone surrogate, or a control token that may not be spelled.
        """
        check_uncut(len(text), self.max_uncut_chars)
        found = self.forbidden.search(text) if self.forbidden and not literal_spans else None
        if found is not None:
            raise InvalidRequest(
                f"The text spells the control token {found[0]} at character {found.start()}, which"
                " this model's tokenizer refuses. Leave it out.",
                details={"position": found.start()},
            )
        return self.inner.encode(text, add_special_tokens=False, literal_spans=literal_spans)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `token_ids`; skipped are all control tokens the model declares."""
        return self.inner.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def id_to_token(self, token_id: int) -> str | None:
        """Return the vocabulary's string of an id, or None outside the vocabulary."""
        return self.inner.id_to_token(token_id)

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a vocabulary string, or None."""
        return self.inner.token_to_id(token)


def _declared(tokenizer_config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the declared control tokens as tiktoken takes them: found anywhere, as they are."""
    rows = tokenizer_config.get("added_tokens_decoder")
    return {
        str(key): {"content": value["content"], "special": True}
        for key, value in (rows if isinstance(rows, Mapping) else {}).items()
        if isinstance(value, Mapping) and value.get("content")
    }
