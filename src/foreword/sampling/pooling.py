"""What a request asks of the pooler enters; `PoolingParams` that no engine refuses leave.

Rules of this file: names and defaults are vLLM 0.33's; its `output_kind` is none, having one value.
Values are checked where they are made; what the task and the model's files decide is filled in by
`complete_pooling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from foreword.errors import InvalidRequest

PoolingTask = Literal[
    "embed", "classify", "token_embed", "token_classify", "plugin", "embed&token_classify"
]

_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "embed": ("use_activation", "dimensions"),
    "classify": ("use_activation",),
    "token_embed": ("use_activation", "dimensions", "late_chunking_params"),
    "token_classify": ("use_activation",),
}
"""The fields each task reads; other tasks are read by plugins, and nothing is known of them."""
_REMOVED = {"score": "classify", "encode": "token_embed or token_classify"}
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInteractionParams:
    """How a late-interaction score is made of a query and a document.

    Raises: `InvalidRequest` for a mode that is none, and a cached query without uses.
    """

    mode: Literal["cache_query", "score_doc"]
    query_key: str
    query_uses: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("cache_query", "score_doc"):
            raise _refused("mode", self.mode, "must be cache_query or score_doc")
        if self.mode == "cache_query" and not _is_positive(self.query_uses):
            raise _refused("query_uses", self.query_uses, "must be 1 or more for cache_query")


@dataclass(frozen=True, slots=True, kw_only=True)
class LateChunkingParams:
    """Mean-pool token states in chunks of so many tokens.

    Raises: `InvalidRequest` for a size below 1, or beyond 64 bits.
    """

    chunk_size: int

    def __post_init__(self) -> None:
        if not _is_positive(self.chunk_size):
            raise _refused("chunk_size", self.chunk_size, "must be 1 or more, within 64 bits")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingParams:
    """What the engine makes of a prompt's states.

    Shapes: None leaves a field to the model; `step_tag_id` and `returned_token_ids` are for models
    that pool at steps.

    Raises: `InvalidRequest` with `param` for a value out of range, or one that the task does not
    read.

    Source: vLLM 0.33 `PoolingParams`.
    """

    use_activation: bool | None = None
    dimensions: int | None = None
    step_tag_id: int | None = None
    returned_token_ids: tuple[int, ...] | None = None
    task: PoolingTask | None = None
    requires_token_ids: bool = False
    skip_reading_prefix_cache: bool | None = None
    late_interaction_params: LateInteractionParams | None = None
    extra_kwargs: Mapping[str, Any] | None = None
    late_chunking_params: LateChunkingParams | None = None

    def __post_init__(self) -> None:
        _check_task(self)
        if self.dimensions is not None and not _is_positive(self.dimensions):
            raise _refused("dimensions", self.dimensions, "must be 1 or more")
        _check_late_chunking(self)


def complete_pooling(params: PoolingParams, config: Mapping[str, Any]) -> PoolingParams:
    """Return parameters with what the task and the model's config.json decide.

    Raises: `InvalidRequest` when the model gives no vectors of the dimensions that are asked for.

    Source: vLLM 0.33 `PoolingParams.verify`. That no more dimensions are asked for than the model
    has is left to the engine, which knows the layers after the model.
    """
    if params.task not in _ALLOWED:
        is_plugin = params.task == "plugin" and params.skip_reading_prefix_cache is None
        return replace(params, skip_reading_prefix_cache=True) if is_plugin else params
    _check_dimensions(params, config)
    skips = params.skip_reading_prefix_cache
    if params.late_chunking_params is not None:
        skips = True
    elif skips is None:
        # What a cached prefix holds has no states, and these tasks answer for every token.
        skips = params.task in ("token_embed", "token_classify")
    return replace(
        params,
        use_activation=True if params.use_activation is None else params.use_activation,
        skip_reading_prefix_cache=skips,
    )


def _check_task(params: PoolingParams) -> None:
    task = params.task
    if task in _REMOVED:
        raise _refused("task", task, f"is no task any more; use {_REMOVED[task]}")
    if task is not None and task not in get_args(PoolingTask):
        raise _refused("task", task, f"must be one of {', '.join(get_args(PoolingTask))}")
    if task is None or task not in _ALLOWED:
        return
    for name in ("use_activation", "dimensions", "late_chunking_params"):
        if getattr(params, name) is not None and name not in _ALLOWED[task]:
            raise InvalidRequest(
                f"The task {task} does not read {name}; it reads {', '.join(_ALLOWED[task])}.",
                param=name,
                details={"task": task},
            )


def _check_late_chunking(params: PoolingParams) -> None:
    if params.late_chunking_params is None:
        return
    for is_wrong, why in (
        (params.task != "token_embed", "needs the task token_embed"),
        (params.late_interaction_params is not None, "excludes late interaction"),
        (params.step_tag_id is not None, "needs every token's state, so it excludes step_tag_id"),
    ):
        if is_wrong:
            raise InvalidRequest(f"Late chunking {why}.", param="late_chunking_params")


def _check_dimensions(params: PoolingParams, config: Mapping[str, Any]) -> None:
    if params.dimensions is None:
        return
    offered = config.get("matryoshka_dimensions")
    if not offered and not config.get("is_matryoshka"):
        raise _refused(
            "dimensions", params.dimensions, "must be left out: the model has one size of vectors"
        )
    if offered and params.dimensions not in offered:
        raise _refused(
            "dimensions", params.dimensions, f"must be one of {', '.join(map(str, offered))}"
        )


def _is_positive(value: object) -> bool:
    return type(value) is int and 0 < value <= _MAX_INT64


def _refused(name: str, value: object, rule: str) -> InvalidRequest:
    return InvalidRequest(f"{name} is {value}; it {rule}.", param=name, details={name: value})
