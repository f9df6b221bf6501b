"""Pooling parameters: what each task reads, what vLLM refuses, what the model decides."""

from __future__ import annotations

from typing import Any

import pytest

from foreword.errors import InvalidRequest
from foreword.sampling import (
    LateChunkingParams,
    LateInteractionParams,
    PoolingParams,
    complete_pooling,
)

CHUNKS = LateChunkingParams(chunk_size=32)
SCORING = LateInteractionParams(mode="score_doc", query_key="k")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"task": "score"}, "task"),
        ({"task": "encode"}, "task"),
        ({"task": "generate"}, "task"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"task": "classify", "dimensions": 4}, "dimensions"),
        ({"task": "token_classify", "dimensions": 4}, "dimensions"),
        ({"task": "embed", "late_chunking_params": CHUNKS}, "late_chunking_params"),
        ({"late_chunking_params": CHUNKS}, "late_chunking_params"),
        (
            {
                "task": "token_embed",
                "late_chunking_params": CHUNKS,
                "late_interaction_params": SCORING,
            },
            "late_chunking_params",
        ),
        (
            {"task": "token_embed", "late_chunking_params": CHUNKS, "step_tag_id": 1},
            "late_chunking_params",
        ),
    ],
)
def test_what_an_engine_refuses(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        PoolingParams(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("make", "fields", "param"),
    [
        (LateChunkingParams, {"chunk_size": 0}, "chunk_size"),
        (LateChunkingParams, {"chunk_size": 2**63}, "chunk_size"),
        (LateChunkingParams, {"chunk_size": 2.0}, "chunk_size"),
        (LateInteractionParams, {"mode": "other", "query_key": "k"}, "mode"),
        (LateInteractionParams, {"mode": "cache_query", "query_key": "k"}, "query_uses"),
        (
            LateInteractionParams,
            {"mode": "cache_query", "query_key": "k", "query_uses": 0},
            "query_uses",
        ),
    ],
)
def test_what_is_inside_is_checked_too(make: Any, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("task", "further", "skips"),
    [
        ("embed", {}, False),
        ("classify", {}, False),
        ("token_embed", {}, True),
        ("token_classify", {}, True),
        ("token_embed", {"skip_reading_prefix_cache": False}, False),
        (
            "token_embed",
            {"skip_reading_prefix_cache": False, "late_chunking_params": CHUNKS},
            True,
        ),
        ("plugin", {}, True),
        ("plugin", {"skip_reading_prefix_cache": False}, False),
        ("embed&token_classify", {}, None),
        (None, {}, None),
    ],
)
def test_a_task_decides_about_the_prefix_cache(
    task: Any, further: dict[str, Any], skips: bool | None
) -> None:
    made = complete_pooling(PoolingParams(task=task, **further), {})
    assert made.skip_reading_prefix_cache is skips
    is_known = task in ("embed", "classify", "token_embed", "token_classify")
    assert made.use_activation is (True if is_known else None)


@pytest.mark.parametrize(
    ("config", "dimensions", "is_right"),
    [
        ({}, None, True),
        ({}, 64, False),
        ({"is_matryoshka": True}, 64, True),
        ({"matryoshka_dimensions": [32, 64]}, 64, True),
        ({"matryoshka_dimensions": [32, 64]}, 65, False),
        ({"matryoshka_dimensions": []}, 64, False),
    ],
)
def test_dimensions_are_those_the_model_gives(
    config: dict[str, Any], dimensions: int | None, is_right: bool
) -> None:
    params = PoolingParams(task="embed", dimensions=dimensions, use_activation=False)
    if is_right:
        made = complete_pooling(params, config)
        assert (made.dimensions, made.use_activation) == (dimensions, False)
        return
    with pytest.raises(InvalidRequest) as caught:
        complete_pooling(params, config)
    assert caught.value.param == "dimensions"
