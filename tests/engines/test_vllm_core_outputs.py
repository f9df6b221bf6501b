"""What vLLM's engine sends, written as plain arrays and maps, read by the code under test."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from msgspec.msgpack import Ext

from foreword.engines.msgpack_frames import ReceivedArray, array_values
from foreword.engines.vllm_core import (
    EngineAddresses,
    EngineCoreOutputs,
    EngineHandshakeMetadata,
    FinishReason,
    decode_greeting,
    decode_outputs,
    decode_ready,
    encode_handshake,
    engine_identity,
    engine_index,
    is_engine_dead,
)
from foreword.errors import ServiceError

encode = msgspec.msgpack.encode


def outputs(*items: Any, **rest: Any) -> EngineCoreOutputs:
    return decode_outputs([encode([1, list(items), *rest.values()])])


def test_a_token_and_an_end() -> None:
    got = outputs(
        ["a", [70_000]],
        ["b", [1, 2], None, None, None, 1],
        ["c", [3], None, None, None, 0, 151],
        ["d", [], None, None, None, 0, "halt"],
        ["e", [], None, None, None, 2],
    )
    assert got.engine_index == 1
    assert [(o.request_id, o.new_token_ids) for o in got.outputs] == [
        ("a", [70_000]), ("b", [1, 2]), ("c", [3]), ("d", []), ("e", []),
    ]  # fmt: skip
    assert [o.finish_reason for o in got.outputs] == [
        None, FinishReason.LENGTH, FinishReason.STOP, FinishReason.STOP, FinishReason.ABORT,
    ]  # fmt: skip
    assert [o.stop_reason for o in got.outputs] == [None, None, 151, "halt", None]


def test_every_element_of_an_output() -> None:
    small = ["<i8", [1, 2], Ext(3, struct.pack("2q", 8, 9))]
    large = ["<f4", [1, 70], 1]
    auxiliary = struct.pack("70f", *range(70))
    element = [
        "r", [8],
        [small, large, ["<i4", [1], Ext(3, struct.pack("i", 1))], None],
        [["int64", [1, 2], Ext(3, struct.pack("2q", 5, 6))], ["float32", [1, 2], Ext(3, b"\0" * 8)],
         ["int64", [1], Ext(3, struct.pack("q", 4))], [0, 1], None],
        ["bfloat16", [2], Ext(3, b"\0\0\0\0")],
        3, None,
        [{"type": 1, "timestamp": 1.5}, {"type": 3, "timestamp": 2.5}],
        {"kv": 1}, {"ec": 2}, {"traceparent": "t"},
        {"num_prompt_tokens": 10, "num_cached_tokens": 4, "new_key": 1},
        ["|u1", [2], Ext(3, b"\1\2")],
        5, ["hash"], [["<i4", [1], Ext(3, b"\0" * 4)], None, None], {"histogram": [1]},
        ["float32", [1], Ext(3, b"\0" * 4)],
        {"code": "paused", "message": "later", "retryable": True},
        "an element of a later version",
    ]  # fmt: skip
    frames = [encode([0, [element]]), auxiliary]
    (got,) = decode_outputs(frames).outputs
    assert got.new_logprobs is not None
    assert got.new_logprobs.token_ids.shape == (1, 2)
    assert array_values(got.new_logprobs.token_ids, frames).tolist() == [8, 9]
    assert array_values(got.new_logprobs.logprobs, frames).tolist() == list(range(70))
    assert array_values(got.new_logprobs.ranks, frames).tolist() == [1]
    assert got.new_prompt_logprobs is not None
    assert array_values(got.new_prompt_logprobs.token_ids, frames).tolist() == [5, 6]
    assert got.new_prompt_logprobs.cu_num_generated_tokens == [0, 1]
    assert got.pooling_output is not None
    assert (got.pooling_output.dtype, got.pooling_output.shape) == ("bfloat16", (2,))
    assert got.finish_reason is FinishReason.ERROR
    assert [(event.type.name, event.timestamp) for event in got.events or ()] == [
        ("QUEUED", 1.5), ("PREEMPTED", 2.5),
    ]  # fmt: skip
    assert (got.kv_transfer_params, got.ec_transfer_params) == ({"kv": 1}, {"ec": 2})
    assert got.trace_headers == {"traceparent": "t"}
    assert got.prefill_stats is not None
    assert (got.prefill_stats.num_prompt_tokens, got.prefill_stats.num_cached_tokens) == (10, 4)
    assert got.routed_experts is not None
    assert array_values(got.routed_experts, frames).tolist() == [1, 2]
    assert got.num_nans_in_logits == 5
    assert got.mm_cache_miss_hashes == ["hash"]
    assert got.prompt_token_id_logprobs is not None
    assert got.error is not None
    assert (got.error.code, got.error.message, got.error.retryable) == ("paused", "later", True)


def test_the_parts_beside_the_outputs() -> None:
    stats = {"num_running_reqs": 3, "num_waiting_reqs": 2, "kv_cache_usage": 0.5, "other": {}}
    message = [2, [], stats, 9.5, None, ["a", "b"], 4, 5, "v1", "later"]
    got = decode_outputs([encode(message)])
    assert got.scheduler_stats is not None
    assert got.scheduler_stats.num_running_reqs == 3
    assert got.scheduler_stats.num_waiting_reqs == 2
    assert got.scheduler_stats.kv_cache_usage == 0.5
    assert got.timestamp == 9.5
    assert got.finished_requests == {"a", "b"}
    assert (got.wave_complete, got.start_wave, got.weight_version) == (4, 5, "v1")
    assert decode_outputs([encode([])]).outputs == []


def test_answers_to_calls() -> None:
    done = decode_outputs([encode([0, [], None, 1.0, [2**63 + 1, None, [None, [1, 2]]]])])
    failed = decode_outputs([encode([0, [], None, 1.0, [-1, "no such method"]])])
    assert done.utility_output is not None
    assert done.utility_output.call_id == 2**63 + 1
    assert done.utility_output.result is not None
    assert done.utility_output.result.value == [1, 2]
    assert failed.utility_output is not None
    assert failed.utility_output.failure_message == "no such method"
    assert failed.utility_output.result is None


def test_the_engines_last_word() -> None:
    assert is_engine_dead([b"ENGINE_CORE_DEAD"])
    assert is_engine_dead([memoryview(b"ENGINE_CORE_DEAD")])
    assert not is_engine_dead([encode([0, []])])
    assert not is_engine_dead([b"ENGINE_CORE_DEAD", b""])


@pytest.mark.parametrize("frame", [b"", b"ENGINE_CORE_DEAD", encode({"a": 1}), encode([0, [[1]]])])
def test_unreadable_outputs_are_the_services_trouble(frame: bytes) -> None:
    with pytest.raises(ServiceError, match="cannot be read"):
        decode_outputs([frame])


def test_arrays_that_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="came with 1 values"):
        array_values(ReceivedArray("<i4", (2,), Ext(3, b"\0" * 4)), [])
    with pytest.raises(ValueError, match="bfloat16"):
        array_values(ReceivedArray("bfloat16", (1,), Ext(3, b"\0\0")), [])


def test_greetings_and_the_answer() -> None:
    hello = decode_greeting(encode({"status": "HELLO", "local": True, "headless": False}))
    assert (hello.status, hello.local, hello.headless) == ("HELLO", True, False)
    ready = {
        "status": "READY", "local": False, "headless": True, "parallel_config_hash": "h",
        "num_redundant_experts": 1,
    }  # fmt: skip
    assert decode_greeting(encode(ready)).parallel_config_hash == "h"
    metadata = EngineHandshakeMetadata(
        addresses=EngineAddresses(inputs=["tcp://h:1"], outputs=["tcp://h:2"])
    )
    assert msgspec.msgpack.decode(encode_handshake(metadata)) == {
        "addresses": {
            "inputs": ["tcp://h:1"],
            "outputs": ["tcp://h:2"],
            "coordinator_input": None,
            "coordinator_output": None,
            "frontend_stats_publish_address": None,
        },
        "parallel_config": {},
    }
    with pytest.raises(ServiceError, match="greeting"):
        decode_greeting(encode({"status": "WHAT", "local": True, "headless": True}))


def test_ready_messages_of_old_and_new_engines() -> None:
    got = decode_ready(
        encode(
            {
                "max_model_len": 4096, "block_size": 128, "vllm_version": "0.32.0+cpu",
                "num_gpu_blocks": 64, "decode_context_parallel_size": 2, "supports_lora": True,
                "kv_events_config": {"endpoint": "tcp://*:5557"}, "a_later_key": [1],
            }
        )
    )  # fmt: skip
    assert got is not None
    assert (got.max_model_len, got.block_size, got.vllm_version) == (4096, 128, "0.32.0+cpu")
    assert got.hash_block_size == 256
    assert got.supports_lora
    assert decode_ready(b"") is None
    with pytest.raises(ServiceError, match="max_model_len"):
        decode_ready(encode({"block_size": 16}))


def test_identities_are_two_bytes_little_endian() -> None:
    assert engine_identity(0) == b"\0\0"
    assert engine_identity(258) == b"\2\1"
    assert engine_index(b"\2\1") == 258
