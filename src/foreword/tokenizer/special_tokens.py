"""The configurations' special tokens enter; their roles, and what must be added, leave.

Rules of this file: the order and the precedence are transformers 5.20's, since they decide the
ids of tokens that tokenizer.json lacks. A token is added once, before the tokenizer is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer

from foreword.errors import AssetsInvalid
from foreword.tokenizer.class_table import DEFAULT_SPECIAL_TOKENS, MODEL_OF_CLASS
from foreword.tokenizer.tokenizer_file import AddedTokenRow
from foreword.types import ModelAssets

STANDARD_ROLES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_CONFIG = "tokenizer_config.json"
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
# Classes that, once built, add all their special tokens again with plain flags.
_READDS_SPECIAL = frozenset({"Qwen2Tokenizer", "CohereTokenizer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """The special tokens by role, those without a role, and the added tokens by declared id."""

    named: Mapping[str, AddedToken]
    extra: tuple[AddedToken, ...]
    added: Mapping[int, AddedToken]

    @property
    def by_role(self) -> dict[str, str]:
        return {role: token.content for role, token in self.named.items()}

    @property
    def texts(self) -> tuple[str, ...]:
        """All special tokens once: by role, then the others."""
        tokens = [*self.named.values(), *self.extra]
        return tuple(dict.fromkeys(token.content for token in tokens))


def read_special_tokens(
    assets: ModelAssets, rows: Iterable[AddedTokenRow], class_name: str
) -> SpecialTokens:
    """Collect the special tokens of `assets` as the class an engine takes would.

    Raises: `AssetsInvalid` for a declaration that is no token.
    Source: transformers 5.20 `PreTrainedTokenizerBase._from_pretrained` and `__init__`.
    """
    declared = dict(assets.tokenizer_config)
    if declared.get("additional_special_tokens") and not declared.get("extra_special_tokens"):
        declared["extra_special_tokens"] = declared.pop("additional_special_tokens")
    own_roles = {
        key: value
        for key, value in declared.items()
        if key.endswith("_token") and key not in STANDARD_ROLES and isinstance(value, str)
    }
    if "added_tokens_decoder" in declared:
        added = _declared_added(declared["added_tokens_decoder"])
    else:
        added = {row.id: _token_of_row(row) for row in rows}
        declared.update(_special_tokens_map(assets.special_tokens_map, declared))
    extra = declared.get("extra_special_tokens")
    if not extra:
        extra = declared.get("additional_special_tokens")
    if isinstance(extra, Mapping):
        own_roles.update(extra)
        extra = declared.get("additional_special_tokens")
    named = _named(declared, own_roles, added, class_name)
    return SpecialTokens(
        named=named,
        extra=tuple(_token(value, "extra_special_tokens") for value in extra or ()),
        added=added,
    )


def _named(
    declared: Mapping[str, Any],
    own_roles: Mapping[str, Any],
    added: Mapping[int, AddedToken],
    class_name: str,
) -> dict[str, AddedToken]:
    values: dict[str, Any] = {}
    defaults = DEFAULT_SPECIAL_TOKENS.get(class_name, {})
    for role in STANDARD_ROLES:
        values[role] = declared[role] if role in declared else defaults.get(role)
    for role, value in declared.items():
        if role.endswith("_token") and role not in values and _is_token(value):
            values[role] = value
    values.update(own_roles)
    by_text = {token.content: token for token in added.values()}
    named = {}
    for role, value in values.items():
        if value is not None:
            token = _token(value, role)
            is_standard = role in STANDARD_ROLES and role in declared
            named[role] = by_text.get(token.content, token) if is_standard else token
    return named


def _declared_added(decoder: object) -> dict[int, AddedToken]:
    if not isinstance(decoder, Mapping):
        raise AssetsInvalid(file=_CONFIG, problem="added_tokens_decoder is not a mapping.")
    added = {}
    for key, value in decoder.items():
        if not str(key).isdecimal() or not isinstance(value, Mapping):
            raise AssetsInvalid(
                file=_CONFIG, problem=f"added_tokens_decoder[{key!r}] is not an id and a token."
            )
        added[int(key)] = _token(value, f"added_tokens_decoder[{key!r}]")
    return added


def _special_tokens_map(
    special_tokens_map: Mapping[str, Any], declared: Mapping[str, Any]
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key, value in special_tokens_map.items():
        if key == "extra_special_tokens" and isinstance(value, list):
            before = declared.get(key)
            known = list(before) if isinstance(before, list | tuple) else []
            merged[key] = known + [token for token in value if token not in known]
        elif isinstance(value, Mapping) and key != "extra_special_tokens":
            merged[key] = {**value, "special": True}
        else:
            merged[key] = value
    return merged


def _token_of_row(row: AddedTokenRow) -> AddedToken:
    return AddedToken(row.content, **{flag: getattr(row, flag) for flag in _FLAGS})


def _is_token(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and "content" in value)


def _token(value: object, where: str) -> AddedToken:
    if isinstance(value, str):
        return AddedToken(value, special=True)
    if isinstance(value, Mapping) and isinstance(value.get("content"), str):
        flags = {flag: bool(value[flag]) for flag in _FLAGS if flag in value}
        return AddedToken(value["content"], **flags)
    raise AssetsInvalid(file=_CONFIG, problem=f"{where} is neither a text nor an added token.")


def add_missing_tokens(tokenizer: Tokenizer, tokens: SpecialTokens, class_name: str) -> None:
    """Add to `tokenizer` what the configurations declare and tokenizer.json lacks.

    Source: transformers 5.20 `TokenizersBackend.__init__`: declared added tokens by id, then
    special tokens by role, then the others. An id follows from the order, not from the
    declaration, unless the vocabulary already holds the text. A class with a pipeline of its own
    starts without tokenizer.json's added tokens, so that there even tokens the file has are added
    again, with the flags declared.
    """
    is_rebuilt = class_name in MODEL_OF_CLASS
    present = [] if is_rebuilt else list(tokenizer.get_added_tokens_decoder().values())
    flags_present = {_flags(token) for token in present}
    missing = [
        token for _, token in sorted(tokens.added.items()) if _flags(token) not in flags_present
    ]
    known = {token.content for token in [*present, *missing]}
    named = {token.content for token in tokens.named.values()}
    for token in [*tokens.named.values(), *tokens.extra]:
        if token.content not in known:
            known.add(token.content)
            missing.append(token)
    for token in missing:
        if not token.special and token.content in named:
            token.special = True
    if missing:
        tokenizer.add_tokens(missing)
    if class_name in _READDS_SPECIAL:
        tokenizer.add_tokens([AddedToken(text, special=True) for text in tokens.texts])


def _flags(token: AddedToken) -> tuple[str, bool, bool, bool, bool, bool]:
    return (
        token.content,
        token.single_word,
        token.lstrip,
        token.rstrip,
        token.normalized,
        token.special,
    )


def add_lower_cased(tokenizer: Tokenizer, tokens: SpecialTokens) -> SpecialTokens:
    """Lower-case the special tokens with a role and add them as such.

    Source: vLLM 0.33 for a sentence-transformers model with `do_lower_case`.
    """
    named = {
        role: AddedToken(token.content.lower(), special=True, normalized=False)
        for role, token in tokens.named.items()
    }
    tokenizer.add_special_tokens(list(named.values()))
    return SpecialTokens(named=named, extra=tokens.extra, added=tokens.added)
