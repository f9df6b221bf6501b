"""The body of a score or rerank request is described here.

Rules of this file: names are vLLM 0.33's, each body bringing one for the queries and one for the
documents. Nothing is generated, so a prompt may fill the whole context.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec.structs import force_setattr

from foreword.errors import InvalidRequest, MalformedRequest, UnsupportedFeature
from foreword.params import TokenizeParams
from foreword.sampling.fields import Int64, check_cache_salt

MAX_NUM_PAIRS = 1024
_QUERIES = ("query", "queries", "text_1", "data_1")
_DOCUMENTS = ("documents", "items", "text_2", "data_2")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ScoringRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Queries and documents to be scored: one query for all, or one for each document.

    Shapes: after decoding, `first` and `second` hold as many texts, a pair in each place, unless
    `first` is one query for all. `max_tokens_per_query` and `max_tokens_per_doc` 0 cut nothing.

    Raises: `MalformedRequest` for texts of the wrong kind; `InvalidRequest` for numbers of them
    that do not go together.
    """

    prompt_param: ClassVar[str] = "documents"

    model: str | None = None
    user: str | None = None
    request_id: str | None = None
    priority: Int64 = 0
    cache_salt: str | None = None
    query: Any = None
    queries: Any = None
    text_1: Any = None
    data_1: Any = None
    documents: Any = None
    items: Any = None
    text_2: Any = None
    data_2: Any = None
    top_n: Count = 0
    max_tokens_per_query: Count = 0
    max_tokens_per_doc: Count = 0
    truncate_prompt_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] | None = None
    truncation_side: Literal["left", "right"] | None = None
    padding: Literal["max_length", "do_not_pad"] | None = None
    instruction: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    use_activation: bool | None = None
    mm_processor_kwargs: dict[str, Any] | None = None
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_cache_salt(self.cache_salt)
        force_setattr(self, "first", _texts(self, _QUERIES))
        force_setattr(self, "second", _texts(self, _DOCUMENTS))
        num_first, num_second = len(self.first), len(self.second)
        if num_first > 1 and num_first != num_second:
            raise InvalidRequest(
                f"There are {num_first} queries for {num_second} documents. Send one query for all,"
                " or one for each.",
                param=_given(self, _QUERIES),
                details={"num_queries": num_first, "num_documents": num_second},
            )

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every query beside its document."""
        first = self.first * len(self.second) if len(self.first) == 1 else self.first
        return tuple(zip(first, self.second, strict=True))

    @property
    def template_kwargs(self) -> dict[str, Any]:
        """What a score template may read beside the two texts."""
        instruction = {} if self.instruction is None else {"instruction": self.instruction}
        return instruction | (self.chat_template_kwargs or {})

    def tokenize_params(self, *, max_model_len: int, do_lower_case: bool) -> TokenizeParams:
        """Return the budget of each prompt: the whole context of `max_model_len` tokens."""
        return TokenizeParams(
            max_total_tokens=max_model_len,
            max_output_tokens=0,
            pad_prompt_tokens=-1 if self.padding == "max_length" else None,
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
            do_lower_case=do_lower_case,
        )


def _given(request: ScoringRequest, names: tuple[str, ...]) -> str:
    given = [name for name in names if getattr(request, name) is not None]
    if len(given) != 1:
        problem = "none is given" if not given else f"{' and '.join(given)} are given"
        raise MalformedRequest(f"Send one of {', '.join(names)}; {problem}.", param=names[0])
    return given[0]


def _texts(request: ScoringRequest, names: tuple[str, ...]) -> tuple[str, ...]:
    name = _given(request, names)
    value = getattr(request, name)
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise InvalidRequest(f"{name} is empty. Send at least one text.", param=name)
    if len(texts) > MAX_NUM_PAIRS:
        raise InvalidRequest(
            f"{name} has {len(texts)} texts; at most {MAX_NUM_PAIRS} are accepted in one request."
            " Send several requests.",
            param=name,
            details={"num_texts": len(texts), "max_texts": MAX_NUM_PAIRS},
        )
    for place, text in enumerate(texts):
        path = f"{name}[{place}]" if isinstance(value, list) else name
        if isinstance(text, dict):
            raise UnsupportedFeature(
                feature="content parts to be scored", remedy="Send texts.", param=path
            )
        if not isinstance(text, str):
            raise MalformedRequest(f"{path} must be a text.", param=path)
    return tuple(texts)
