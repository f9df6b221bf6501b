"""A model whose vocabulary only its own code reads enters; a tokenizer that runs that code leaves.

Rules of this file: the code runs only where the operator trusts it. transformers is imported when
such a model is loaded, never before. A backend is one thread's alone while it works.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from foreword.errors import AssetsInvalid, InvalidTokenIds, UnsupportedFeature
from foreword.tokenizer.huggingface import not_utf8
from foreword.tokenizer.panics import run_foreign
from foreword.tokenizer.pool import TokenizerPool
from foreword.tokenizer.uncut import check_uncut
from foreword.types import (
    ModelAssets,
    Offsets,
    Side,
    Span,
    TokenIds,
    TokenizerInfo,
    TokenSequence,
    Window,
)

Backend: TypeAlias = Any
"""A transformers tokenizer, which need not be installed."""

_CONFIG = "tokenizer_config.json"
_PROBE = "a"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendMaker:
    """Makes a backend of its own for one thread: a copy, or, in another process, one read anew."""

    folder: str
    original: Backend

    def __reduce__(self) -> tuple[Any, ...]:
        return load_own_code, (self.folder,)

    def __call__(self) -> Backend:
        return _run(copy.deepcopy, self.original)


def load_own_code(folder: str) -> BackendMaker:
    """Load the tokenizer of a folder with the code that lies there.

    Raises: `AssetsInvalid` when transformers is missing, or the code fails.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise AssetsInvalid(
            file=_CONFIG,
            problem="it names tokenizer code of the model's own, which needs transformers,"
            f" and that cannot be imported ({type(error).__name__}).",
            remedy="Install it with `pip install 'foreword[transformers]'`.",
        ) from error
    try:
        loaded: Any = AutoTokenizer
        return BackendMaker(
            folder=folder,
            original=run_foreign(loaded.from_pretrained, folder, trust_remote_code=True),
        )
    except Exception as error:
        # Whatever the model's own code raises is the model's fault.
        raise AssetsInvalid(
            file=_CONFIG,
            problem=f"the tokenizer code it names cannot be run ({type(error).__name__}).",
            remedy="Check that the code suits the installed transformers, and its requirements.",
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnCodeTokenizer:
    """A tokenizer in Python that the model brings. Slow, and lent to one thread at a time."""

    pool: TokenizerPool[Backend]
    info: TokenizerInfo
    warnings: tuple[str, ...] = ()
    max_uncut_chars: int | None = None

    @classmethod
    def from_assets(
        cls,
        assets: ModelAssets,
        *,
        mode: str = "hf",
        truncation_side: Side = "left",
        model_vocab_size: int | None = None,
    ) -> OwnCodeTokenizer:
        """Load the model's own code, which the operator trusts.

        Raises: `AssetsInvalid`, as `load_own_code`.
        Source: vLLM 0.33's cached tokenizer: ids, special tokens and their lower-cased twins.
        """
        maker = load_own_code(assets.folder)
        made: OwnCodeTokenizer = _run(
            cls._of_backend, maker, assets, mode, truncation_side, model_vocab_size
        )
        return made

    @classmethod
    def _of_backend(
        cls,
        maker: BackendMaker,
        assets: ModelAssets,
        mode: str,
        truncation_side: Side,
        model_vocab_size: int | None,
    ) -> OwnCodeTokenizer:
        backend = maker.original
        roles = {role: str(text) for role, text in backend.special_tokens_map.items()
                 if isinstance(text, str) or hasattr(text, "content")}  # fmt: skip
        if assets.do_lower_case:
            roles = {role: text.lower() for role, text in roles.items()}
            backend.add_special_tokens(dict(roles))
        vocabulary = backend.get_vocab()
        size = int(getattr(backend, "vocab_size", 0) or 0)
        prefix, suffix = _count_special(backend)
        return cls(
            pool=TokenizerPool(maker),
            info=TokenizerInfo(
                mode=mode,
                vocab_size=len(vocabulary),
                max_token_id=max(max(vocabulary.values()), size - 1, (model_vocab_size or 0) - 1),
                max_chars_per_token=max(map(len, vocabulary)),
                char_gate_gap="the model's own code may rewrite its text",
                truncation_side=truncation_side,
                special_tokens=roles,
                all_special_ids=frozenset(backend.all_special_ids),
                all_special_tokens=tuple(map(str, backend.all_special_tokens)),
                bos_token_id=backend.bos_token_id,
                eos_token_id=backend.eos_token_id,
                pad_token_id=backend.pad_token_id,
                num_prefix_special=prefix,
                num_suffix_special=suffix,
                do_lower_case=assets.do_lower_case,
                is_fast=bool(getattr(backend, "is_fast", False)),
            ),
            warnings=_warnings(backend),
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
        """Return all tokens of `text`; `window` and `scope` do not matter.

        Offsets are given where the code builds on a fast tokenizer.

        Raises: `InvalidRequest` for a lone surrogate, or too long a text; `UnsupportedFeature` for
        text that must not become special tokens, which such code cannot promise; `AssetsInvalid`
        when it fails.
        """
        if literal_spans:
            raise UnsupportedFeature(
                feature="text that spells a control token, or media",
                remedy="This model's tokenizer is code of its own, which cannot keep them apart.",
                param="messages",
            )
        try:
            text.encode()
        except UnicodeEncodeError:
            raise not_utf8(text) from None
        check_uncut(len(text), self.max_uncut_chars)
        gives_offsets = with_offsets and self.info.is_fast
        asked = {"return_offsets_mapping": True} if gives_offsets else {}
        with self.pool.borrow() as backend:
            token_ids, pairs = _run(
                _encode, backend, text, add_special_tokens=add_special_tokens, **asked
            )
        return TokenSequence(
            token_ids=token_ids,
            offsets=Offsets(
                starts=array("I", [start for start, _ in pairs]),
                stops=array("I", [stop for _, stop in pairs]),
            )
            if gives_offsets
            else None,
            num_prefix_special=self.info.num_prefix_special if add_special_tokens else 0,
            num_suffix_special=self.info.num_suffix_special if add_special_tokens else 0,
            num_chars=len(text),
        )

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `token_ids`.

        Raises: `InvalidTokenIds` for an id outside the vocabulary; `AssetsInvalid` when it fails.
        """
        for position, token_id in enumerate(token_ids):
            if type(token_id) is not int or not 0 <= token_id <= self.info.max_token_id:
                raise InvalidTokenIds(
                    token_id=token_id,
                    position=position,
                    max_token_id=self.info.max_token_id,
                    param="tokens",
                )
        with self.pool.borrow() as backend:
            return str(
                _run(backend.decode, list(token_ids), skip_special_tokens=skip_special_tokens)
            )

    def id_to_token(self, token_id: int) -> str | None:
        """Return the vocabulary's string of an id, or None outside the vocabulary."""
        if not 0 <= token_id <= self.info.max_token_id:
            return None
        with self.pool.borrow() as backend:
            token: str | None = _run(_token_of, backend, int(token_id))
        return token

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a vocabulary string, or None."""
        with self.pool.borrow() as backend:
            vocabulary: dict[str, int] = _run(backend.get_vocab)
        return vocabulary.get(token)


def _run(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return run_foreign(call, *args, **kwargs)
    except Exception as error:
        # Whatever the model's own code raises is the model's fault.
        raise _failed(error) from error


def _encode(
    backend: Backend, text: str, **asked: bool
) -> tuple[TokenIds, Sequence[tuple[int, int]]]:
    made = backend(text, **asked)
    pairs = made["offset_mapping"] if "return_offsets_mapping" in asked else ()
    return array("I", made["input_ids"]), pairs


def _token_of(backend: Backend, token_id: int) -> str | None:
    try:
        token = backend.convert_ids_to_tokens(token_id)
    except (KeyError, IndexError):
        return None
    return None if token is None else str(token)


def _count_special(backend: Backend) -> tuple[int, int]:
    """Return how many ids the code adds in front of and behind a text, where it does just that."""
    bare = list(backend(_PROBE, add_special_tokens=False)["input_ids"])
    whole = list(backend(_PROBE, add_special_tokens=True)["input_ids"])
    for start in range(len(whole) - len(bare) + 1):
        if bare and whole[start : start + len(bare)] == bare:
            return start, len(whole) - len(bare) - start
    return 0, 0


def _warnings(backend: Backend) -> tuple[str, ...]:
    warnings = [
        f"{_CONFIG} names tokenizer code of the model's own, which is run as it is trusted. It"
        " tokenizes in Python: slowly, one text after the other, and nothing is remembered."
    ]
    own = type(backend).apply_chat_template
    if not own.__module__.startswith("transformers."):
        warnings.append(
            "The model's own code also renders chats, which is not run here: chats are rendered"
            " with the model's chat template; an engine could differ."
        )
    return tuple(warnings)


def _failed(error: Exception) -> AssetsInvalid:
    return AssetsInvalid(
        file=_CONFIG,
        problem=f"the tokenizer code it names failed ({type(error).__name__}).",
        remedy="It is the model's own code: report it where the model comes from.",
    )
