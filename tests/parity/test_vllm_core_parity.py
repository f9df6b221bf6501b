"""Wire bytes against vLLM's own decoder and encoder, field by field.

Where vLLM is: its own environment, or that of `scripts/engine_env`, which tests/engine/ runs it in;
there the Python files of another version, first on PYTHONPATH, are compared as well.
"""

from __future__ import annotations

import random
from array import array
from typing import Any

import msgspec
import pytest

from foreword.engines.msgpack_frames import array_values
from foreword.engines.vllm_core import (
    FinishReason,
    LoRARequest,
    VllmCore,
    add_message,
    decode_outputs,
    decode_ready,
)
from foreword.engines.vllm_core.outputs import EngineCoreOutput, EngineCoreOutputs
from foreword.engines.vllm_core.params import PoolingArray, SamplingMap
from foreword.engines.vllm_core.request import EngineCoreRequest, KvHintAction, KvHintsEnvelope
from foreword.sampling import (
    LateChunkingParams,
    LateInteractionParams,
    OutputKind,
    PoolingParams,
    RepetitionDetection,
    SamplingParams,
    StructuredOutputs,
)
from foreword.types import EngineInput, MediaSpan

pytest.importorskip("vllm", reason="needs vLLM itself (0.32 or 0.33), with torch")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

CORE = VllmCore(version="0.33.0")
NEWER: dict[str, dict[str, tuple[str, ...]]] = {
    "0.32.0": {"PoolingParams": ("late_chunking_params",), "EngineCoreOutput": ("error",)}
}
"""The last fields, which an older vLLM does not have yet and passes over."""


def last_fields(name: str) -> tuple[str, ...]:
    import vllm

    return NEWER.get(vllm.__version__.partition("+")[0], {}).get(name, ())


def decode(request: EngineCoreRequest) -> Any:
    from vllm.v1.engine import EngineCoreRequest as Theirs
    from vllm.v1.serial_utils import MsgpackDecoder

    return MsgpackDecoder(Theirs).decode(add_message(request)[1:])


def fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def random_values(rng: random.Random) -> dict[str, Any]:
    def any_of(*values: Any) -> Any:
        return rng.choice(values)

    return {
        "n": any_of(1, 1, 2),
        "presence_penalty": any_of(0.0, 0.5),
        "frequency_penalty": any_of(0.0, -0.5),
        "repetition_penalty": any_of(1.0, 1.2),
        "temperature": any_of(1.0, 0.7, 0.001),
        "watermarking": any_of(None, True),
        "top_p": any_of(1.0, 0.9),
        "top_k": any_of(0, 5),
        "min_p": any_of(0.0, 0.1),
        "seed": any_of(None, -1, 3),
        "stop": any_of([], ["end"], ["end", "halt!"]),
        "stop_token_ids": rng.choices(range(5), k=rng.randrange(4)),
        "ignore_eos": any_of(False, True),
        "max_tokens": any_of(None, 16, 100),
        "min_tokens": any_of(0, 3),
        "logprobs": any_of(None, 0, 5),
        "prompt_logprobs": any_of(None, 1),
        "logprob_token_ids": any_of(None, [1, 2]),
        "flat_logprobs": any_of(False, True),
        "skip_special_tokens": any_of(False, True),
        "spaces_between_special_tokens": any_of(False, True),
        "include_stop_str_in_output": any_of(False, True),
        "stream_interval": any_of(None, 3),
        "skip_clone": any_of(False, True),
        "logit_bias": any_of(None, {3: 1.5}),
        "allowed_token_ids": any_of(None, [1, 2]),
        "extra_args": any_of(None, {"a": [1, {"b": None}]}),
        "bad_words": any_of([], ["x", "x", "y"]),
        "thinking_token_budget": any_of(None, -1, 10),
        "routed_experts_prompt_start": any_of(0, 2),
        "prompt_logprob_start": None,
    }


def as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_sampling_parameters_mean_the_same() -> None:
    from vllm import sampling_params as theirs
    from vllm.v1.structured_output.utils import choice_as_grammar

    rng = random.Random(1)
    for _ in range(500):
        values = random_values(rng)
        kind = rng.randrange(3)
        texts = ["".join(map(chr, rng.choices(range(0x90), k=9))) for _ in range(3)]
        constraint = rng.choice([None, {"json": {"type": "object"}}, {"choice": texts}])
        repetition = rng.choice([None, {"max_pattern_size": 3, "min_count": 2}])
        ours = SamplingParams(
            **{name: as_tuple(value) for name, value in values.items()},
            output_kind=OutputKind(kind),
            structured_outputs=StructuredOutputs(**constraint) if constraint else None,
            repetition_detection=RepetitionDetection(**repetition) if repetition else None,
            eos_token_id=7,
            all_stop_token_ids=frozenset({7, 9}),
            bad_words_token_ids=((1, 2), (3,)),
        )
        expected = theirs.SamplingParams(
            **values,
            output_kind=theirs.RequestOutputKind(kind),
            structured_outputs=(
                theirs.StructuredOutputsParams(**constraint) if constraint else None
            ),
            repetition_detection=(
                theirs.RepetitionDetectionParams(**repetition) if repetition else None
            ),
        )
        expected._eos_token_id = 7
        expected._all_stop_token_ids |= {7, 9}
        expected._bad_words_token_ids = [[1, 2], [3]]
        if expected.structured_outputs is not None:
            expected.structured_outputs._backend = "xgrammar"
            expected.structured_outputs._backend_was_auto = True
            if expected.structured_outputs.choice:
                grammar = choice_as_grammar(expected.structured_outputs.choice)
                expected.structured_outputs.choice = None
                expected.structured_outputs.grammar = grammar
        prompt = EngineInput(token_ids=array("I", [1]))
        got = decode(CORE.request(prompt, request_id="r", params=ours)).sampling_params
        assert fields_of(got) == fields_of(expected)


def test_ids_to_score_and_to_replay() -> None:
    from vllm import sampling_params as theirs

    prompt = EngineInput(token_ids=array("I", [1, 2, 3]))
    rows = ((5, 6, 7), (8,), (-1, 9))
    ours = SamplingParams(prompt_logprob_token_ids=rows, prompt_logprob_start=2)
    got = decode(CORE.request(prompt, request_id="r", params=ours)).sampling_params
    assert got.prompt_logprob_token_ids.tolist() == [[5, 6, 7], [8, -1, -1], [-1, 9, -1]]
    assert got.prompt_logprob_token_ids.dtype == "int32"
    assert (got.prompt_logprob_start, got.skip_reading_prefix_cache) == (2, True)
    large = tuple((one,) * 40 for one in range(9))  # of a frame of its own
    ours = SamplingParams(prompt_logprob_token_ids=large)
    got = decode(CORE.request(prompt, request_id="r", params=ours)).sampling_params
    assert got.prompt_logprob_token_ids.tolist() == [list(row) for row in large]
    ours = SamplingParams(trace_decode_token_ids=(4, 5))
    got = decode(CORE.request(prompt, request_id="r", params=ours)).sampling_params
    assert fields_of(got) == fields_of(theirs.SamplingParams(trace_decode_token_ids=[4, 5]))


@pytest.mark.witness(
    family="engine:vLLM, core",
    what="every field of a request, and what the engine writes back",
    against="vLLM's own encoder and decoder",
    needs="vLLM 0.32 or 0.33, with torch",
)
def test_everything_else_of_a_request() -> None:
    ids = [5, 70_000, 2**32 - 1]
    spans = (
        MediaSpan(
            modality="image", index=0, start=1, stop=4, identity="h",
            is_embed=((1, False), (2, True)),
        ),
        MediaSpan(
            modality="audio", index=1, start=5, stop=305, identity="k", is_embed=((300, True),)
        ),
    )  # fmt: skip
    prompt = EngineInput(
        token_ids=array("I", ids), cache_salt="s", arrival_time=1.5, media_features=spans
    )
    action = KvHintAction(action_id="a", action_type="t", action_version="1", payload={"x": 1})
    envelope: dict[str, Any] = {
        "data_parallel_rank": 1,
        "client_index": 2,
        "current_wave": 3,
        "priority": -4,
        "trace_headers": {"t": "x"},
        "resumable": True,
        "external_req_id": "e",
        "reasoning_ended": True,
        "reasoning_parser_kwargs": {"a": 1},
        "abort_immediately": True,
        "session_id": "z",
    }
    got = decode(
        CORE.request(
            prompt,
            request_id="r",
            params=SamplingParams(),
            lora_request=LoRARequest(lora_name="n", lora_int_id=2, lora_path="/p"),
            kv_hints=KvHintsEnvelope(protocol_version="1", message_id="m", actions=[action]),
            **envelope,
        )
    )
    assert (got.request_id, got.prompt_token_ids, got.cache_salt) == ("r", ids, "s")
    assert got.arrival_time == 1.5
    assert {name: getattr(got, name) for name in envelope} == envelope
    lora = got.lora_request
    assert (lora.lora_name, lora.lora_int_id, lora.lora_path) == ("n", 2, "/p")
    assert got.kv_hints.actions[0].payload == {"x": 1}
    first, second = got.mm_features
    assert (first.data, first.modality, first.identifier, first.mm_hash) == (
        None, "image", "h", "h",
    )  # fmt: skip
    assert (first.mm_position.offset, first.mm_position.length) == (1, 3)
    assert first.mm_position.is_embed.tolist() == [False, True, True]
    assert second.mm_position.is_embed.tolist() == [True] * 300


def test_pooling_parameters() -> None:
    from vllm import pooling_params as theirs

    prompt = EngineInput(token_ids=array("I", [1]))
    scoring = {"mode": "score_doc", "query_key": "k"}
    for values in (
        {"task": "embed", "dimensions": 4},
        {"task": "token_embed", "use_activation": False, "requires_token_ids": True},
        {"step_tag_id": 3, "returned_token_ids": [1, 2], "extra_kwargs": {"a": 1}},
        {"late_interaction_params": scoring, "skip_reading_prefix_cache": True},
        {"task": "token_embed", "late_chunking_params": {"chunk_size": 7}},
    ):
        if not values.keys().isdisjoint(last_fields("PoolingParams")):
            continue
        ours, wanted = dict(values), dict(values)
        if "returned_token_ids" in values:
            ours["returned_token_ids"] = (1, 2)
        if "late_interaction_params" in values:
            ours["late_interaction_params"] = LateInteractionParams(**scoring)
            wanted["late_interaction_params"] = theirs.LateInteractionParams(**scoring)
        if "late_chunking_params" in values:
            ours["late_chunking_params"] = LateChunkingParams(chunk_size=7)
            wanted["late_chunking_params"] = theirs.LateChunkingParams(chunk_size=7)
        got = decode(CORE.request(prompt, request_id="r", params=PoolingParams(**ours)))
        assert got.sampling_params is None
        assert fields_of(got.pooling_params) == fields_of(theirs.PoolingParams(**wanted))


def test_fields_stand_where_theirs_stand() -> None:
    from vllm.pooling_params import PoolingParams as TheirPooling
    from vllm.sampling_params import SamplingParams as TheirSampling
    from vllm.v1 import engine

    assert EngineCoreRequest.__struct_fields__ == engine.EngineCoreRequest.__struct_fields__
    assert PoolingArray.__struct_fields__ == (
        *TheirPooling.__struct_fields__, *last_fields("PoolingParams"),
    )  # fmt: skip
    # What vLLM notes for its own log is all that is left out.
    assert {*SamplingMap.__struct_fields__, "_watermarking_skipped"} == {
        *TheirSampling.__struct_fields__
    }
    assert EngineCoreOutputs.__struct_fields__ == engine.EngineCoreOutputs.__struct_fields__
    theirs = [name.removesuffix("_tensors") for name in engine.EngineCoreOutput.__struct_fields__]
    assert list(EngineCoreOutput.__struct_fields__) == [*theirs, *last_fields("EngineCoreOutput")]


def test_what_their_encoder_writes_is_read() -> None:
    np = pytest.importorskip("numpy")
    from vllm.v1 import engine
    from vllm.v1.metrics.stats import PrefillStats, SchedulerStats
    from vllm.v1.outputs import LogprobsLists
    from vllm.v1.serial_utils import MsgpackEncoder, UtilityResult

    logprobs = LogprobsLists(
        np.array([[1, 2]]), np.arange(200, dtype=np.float32).reshape(2, 100), np.array([1])
    )
    output = engine.EngineCoreOutput(
        "r",
        [1, 2],
        new_logprobs=logprobs,
        finish_reason=engine.FinishReason.STOP,
        stop_reason="x",
        events=[engine.EngineCoreEvent.new_event(engine.EngineCoreEventType.QUEUED, 1.5)],
        mm_cache_miss_hashes=["h"],
        prefill_stats=PrefillStats(num_prompt_tokens=4),
    )
    message = engine.EngineCoreOutputs(
        engine_index=1,
        outputs=[output],
        scheduler_stats=SchedulerStats(num_running_reqs=2, kv_cache_usage=0.5),
        utility_output=engine.UtilityOutput(5, None, UtilityResult([1, 2])),
        finished_requests={"a"},
        wave_complete=1,
    )
    frames = MsgpackEncoder().encode(message)
    assert len(frames) == 2
    got = decode_outputs(frames)
    (one,) = got.outputs
    assert (one.request_id, one.new_token_ids) == ("r", [1, 2])
    assert one.new_logprobs is not None
    assert one.new_logprobs.logprobs.shape == (2, 100)
    assert array_values(one.new_logprobs.logprobs, frames).tolist() == list(range(200))
    assert array_values(one.new_logprobs.token_ids, frames).tolist() == [1, 2]
    assert (one.finish_reason, one.stop_reason) == (FinishReason.STOP, "x")
    assert [event.timestamp for event in one.events or ()] == [1.5]
    assert one.prefill_stats is not None
    assert one.prefill_stats.num_prompt_tokens == 4
    assert got.scheduler_stats is not None
    assert got.scheduler_stats.num_running_reqs == 2
    assert got.utility_output is not None
    assert got.utility_output.result is not None
    assert got.utility_output.result.value == [1, 2]
    assert (got.finished_requests, got.wave_complete) == ({"a"}, 1)


def test_the_ready_message_has_no_key_we_do_not_know() -> None:
    from vllm.v1.engine import EngineCoreReadyResponse

    needed = {
        "max_model_len": 1, "num_gpu_blocks": 2, "block_size": 16, "dp_stats_address": None,
        "dtype": "f", "vllm_version": "0.33.0", "world_size": 1, "data_parallel_size": 1,
        "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "decode_context_parallel_size": 2,
        "data_parallel_rank": 0, "max_num_seqs": 1, "max_num_batched_tokens": 1,
        "instance_id": "i", "supports_lora": False, "max_loras": 0,
    }  # fmt: skip
    data = msgspec.msgpack.encode(EngineCoreReadyResponse(**needed))
    ready = decode_ready(data)
    assert ready is not None
    assert ready.hash_block_size == 32
    assert msgspec.msgpack.decode(data).keys() <= set(ready.__struct_fields__)
