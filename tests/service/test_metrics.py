"""Metrics: own registry, the numbers that were reported, in Prometheus' format."""

from __future__ import annotations

from array import array

from foreword.service.metric_readings import Reading
from foreword.service.metrics import NullMetrics, PrometheusMetrics, make_metrics
from foreword.types import EngineInput


def lines(metrics: PrometheusMetrics) -> dict[str, float]:
    found = {}
    for line in metrics.exposition().decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name] = float(value)
    return found


def test_a_rendered_prompt_and_its_cut() -> None:
    metrics = PrometheusMetrics()
    made = EngineInput(
        token_ids=array("I", [1, 2, 3]), num_chars=40, num_prompt_tokens=10, num_truncated=7,
        truncated_side="left",
    )  # fmt: skip
    metrics.rendered("m", made)
    found = lines(metrics)
    assert found['foreword_rendered_chars_total{model="m"}'] == 40
    assert found['foreword_kept_tokens_total{model="m"}'] == 3
    assert found['foreword_cut_tokens_total{model="m",side="left"}'] == 7
    assert found['foreword_prompt_tokens_sum{model="m"}'] == 10


def test_stages_answers_and_refusals() -> None:
    metrics = PrometheusMetrics()
    metrics.stage("m", "template", 0.02)
    metrics.answered("/tokenize", 400, 0.5)
    metrics.refused("prompt_too_long")
    metrics.deadline_hit("queue")
    metrics.pool_swapped()
    found = lines(metrics)
    assert found['foreword_stage_seconds_count{model="m",stage="template"}'] == 1
    assert found['foreword_stage_seconds_bucket{le="0.025",model="m",stage="template"}'] == 1
    assert found['foreword_stage_seconds_bucket{le="0.01",model="m",stage="template"}'] == 0
    assert found['foreword_answers_total{route="/tokenize",status="400"}'] == 1
    assert found['foreword_refusals_total{code="prompt_too_long"}'] == 1
    assert found['foreword_deadline_hits_total{where="queue"}'] == 1
    assert found["foreword_pool_swaps_total"] == 1


def test_what_others_count_is_read_at_the_exposition() -> None:
    metrics, hits = PrometheusMetrics(), [0.0]
    metrics.add_source(
        lambda: [
            Reading(name="memo_hits", help="h", kind="counter", value=hits[0], model="m"),
            Reading(name="queued", help="q", kind="gauge", value=3),
        ]
    )
    hits[0] = 5
    found = lines(metrics)
    assert found['foreword_memo_hits_total{model="m"}'] == 5
    assert found["foreword_queued"] == 3


def test_two_services_share_nothing() -> None:
    one, other = PrometheusMetrics(), PrometheusMetrics()
    one.pool_swapped()
    assert lines(other)["foreword_pool_swaps_total"] == 0


def test_switched_off_they_cost_nothing_and_say_so() -> None:
    metrics = make_metrics(False)
    assert isinstance(metrics, NullMetrics)
    metrics.stage("m", "template", 1.0)
    assert b"switched off" in metrics.exposition()
