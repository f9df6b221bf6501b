"""What is sent to vLLM's engine, read by plain definitions written from the wire's own tables."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import msgspec
import pytest
from msgspec.msgpack import Ext

from foreword.engines.msgpack_frames import Tensor, encode_frames
from foreword.engines.vllm_core import (
    LoRARequest,
    MultiModalFieldElem,
    VllmCore,
    abort_message,
    add_message,
    start_wave_message,
    utility_message,
)
from foreword.engines.vllm_core.request import LAYOUTS, KvHintAction, KvHintsEnvelope
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.sampling import (
    LateChunkingParams,
    LateInteractionParams,
    OutputKind,
    PoolingParams,
    RepetitionDetection,
    SamplingParams,
    StructuredOutputs,
)
from foreword.types import Engine, EngineInput, MediaSpan


class WireConstraint(msgspec.Struct, forbid_unknown_fields=True):
    json: str | dict[str, Any] | None
    regex: str | None
    choice: list[str] | None
    grammar: str | None
    json_object: bool | None
    disable_any_whitespace: bool
    disable_additional_properties: bool
    whitespace_pattern: str | None
    structural_tag: str | None
    _backend: str
    _backend_was_auto: bool


class WireRepetition(msgspec.Struct, forbid_unknown_fields=True):
    max_pattern_size: int
    min_pattern_size: int
    min_count: int


class WireSampling(msgspec.Struct, forbid_unknown_fields=True):
    stop: list[str]
    stop_token_ids: list[int]
    bad_words: list[str]
    skip_reading_prefix_cache: bool
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    watermarking: bool | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprob_token_ids: Any = None
    prompt_logprob_start: int | None = None
    logprob_token_ids: list[int] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: int = 0
    stream_interval: int | None = None
    skip_clone: bool = False
    output_text_buffer_length: int = 0
    _eos_token_id: int | None = None
    _all_stop_token_ids: set[int] = set()
    _watermarking_skipped: bool = False
    structured_outputs: WireConstraint | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    _bad_words_token_ids: list[list[int]] | None = None
    thinking_token_budget: int | None = None
    repetition_detection: WireRepetition | None = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: list[int] | None = None


class WireRange(msgspec.Struct, forbid_unknown_fields=True):
    offset: int
    length: int
    is_embed: tuple[str, list[int], int | Ext] | None


class WireFeature(msgspec.Struct, forbid_unknown_fields=True):
    data: dict[str, Any] | None
    modality: str
    identifier: str
    mm_position: WireRange
    mm_hash: str | None


# The 22 elements of a request, in the order of the wire.
WireRequest = tuple[
    str,  # 0 request_id
    list[int] | None,  # 1 prompt_token_ids
    list[WireFeature] | None,  # 2 mm_features
    WireSampling | None,  # 3 sampling_params
    list[Any] | None,  # 4 pooling_params
    float,  # 5 arrival_time
    tuple[str, int, str, str | None, bool, bool] | None,  # 6 lora_request
    str | None,  # 7 cache_salt
    int | None,  # 8 data_parallel_rank
    list[Any] | None,  # 9 prompt_embeds
    list[bool] | None,  # 10 prompt_is_token_ids
    int,  # 11 client_index
    int,  # 12 current_wave
    int,  # 13 priority
    dict[str, str] | None,  # 14 trace_headers
    bool,  # 15 resumable
    str | None,  # 16 external_req_id
    bool | None,  # 17 reasoning_ended
    dict[str, Any] | None,  # 18 reasoning_parser_kwargs
    bool,  # 19 abort_immediately
    str | None,  # 20 session_id
    dict[str, Any] | None,  # 21 kv_hints
]

CORE = VllmCore(version="0.33.0")
INPUT = EngineInput(token_ids=array("I", [5, 70_000, 1]), cache_salt="salt", arrival_time=12.5)
PLAIN = SamplingParams(max_tokens=7)


def read(frames: list[Any]) -> tuple[Any, ...]:
    assert frames[0] == b"\0"
    return msgspec.msgpack.decode(frames[1], type=WireRequest)


def sampling_of(params: SamplingParams, core: VllmCore = CORE) -> WireSampling:
    request = core.request(INPUT, request_id="r", params=params)
    return read(add_message(request))[3]


def test_a_plain_request() -> None:
    frames = add_message(CORE.request(INPUT, request_id="r-1", params=PLAIN))
    assert len(frames) == 2
    got = read(frames)
    assert got[:3] == ("r-1", [5, 70_000, 1], None)
    assert got[3] == WireSampling([], [], [], False, max_tokens=7)
    assert got[4:] == (
        None, 12.5, None, "salt", None, None, None, 0, 0, 0, None, False, None, None, None, False,
        None, None,
    )  # fmt: skip


def test_every_field_of_the_envelope_has_its_place() -> None:
    hints = KvHintsEnvelope(
        protocol_version="1",
        message_id="m",
        actions=[
            KvHintAction(action_id="a", action_type="t", action_version="2", payload={"k": [1]})
        ],
    )
    request = CORE.request(
        INPUT,
        request_id="r",
        params=PLAIN,
        lora_request=LoRARequest(lora_name="n", lora_int_id=3, lora_path="/p"),
        data_parallel_rank=1,
        client_index=2,
        current_wave=4,
        priority=-5,
        trace_headers={"traceparent": "x"},
        resumable=True,
        external_req_id="ext",
        reasoning_ended=False,
        reasoning_parser_kwargs={"enable_thinking": True},
        abort_immediately=True,
        session_id="s",
        kv_hints=hints,
    )
    got = read(add_message(request))
    assert got[6] == ("n", 3, "/p", None, False, False)
    assert got[8] == 1
    assert got[11:] == (
        2, 4, -5, {"traceparent": "x"}, True, "ext", False, {"enable_thinking": True}, True, "s",
        {
            "protocol_version": "1",
            "message_id": "m",
            "actions": [
                {"action_id": "a", "action_type": "t", "action_version": "2", "payload": {"k": [1]}}
            ],
        },
    )  # fmt: skip


def test_every_sampling_field_arrives() -> None:
    params = SamplingParams(
        n=2,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.5,
        temperature=0.75,
        watermarking=False,
        top_p=0.5,
        top_k=9,
        min_p=0.25,
        seed=11,
        stop=("end", "halt!"),
        stop_token_ids=(4, 2),
        ignore_eos=True,
        max_tokens=None,
        min_tokens=3,
        logprobs=5,
        prompt_logprobs=-1,
        logprob_token_ids=(8, 6),
        flat_logprobs=True,
        skip_special_tokens=False,
        spaces_between_special_tokens=False,
        output_kind=OutputKind.DELTA,
        stream_interval=4,
        skip_clone=True,
        logit_bias={3: -1.5, 70_000: 2.0},
        allowed_token_ids=(1, 2, 3),
        extra_args={"kv_transfer_params": {"a": [1, None]}},
        bad_words=("bad",),
        thinking_token_budget=100,
        repetition_detection=RepetitionDetection(max_pattern_size=4, min_count=3),
        routed_experts_prompt_start=2,
        eos_token_id=151,
        all_stop_token_ids=frozenset({151, 9}),
        bad_words_token_ids=((1, 2), (3,)),
    )
    assert sampling_of(params) == WireSampling(
        ["end", "halt!"],
        [4, 2],
        ["bad"],
        True,
        n=2,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.5,
        temperature=0.75,
        watermarking=False,
        top_p=0.5,
        top_k=9,
        min_p=0.25,
        seed=11,
        ignore_eos=True,
        max_tokens=None,
        min_tokens=3,
        logprobs=5,
        prompt_logprobs=-1,
        logprob_token_ids=[8, 6],
        flat_logprobs=True,
        skip_special_tokens=False,
        spaces_between_special_tokens=False,
        output_kind=1,
        stream_interval=4,
        skip_clone=True,
        output_text_buffer_length=4,
        _eos_token_id=151,
        _all_stop_token_ids={151, 9, 4, 2},
        logit_bias={3: -1.5, 70_000: 2.0},
        allowed_token_ids=[1, 2, 3],
        extra_args={"kv_transfer_params": {"a": [1, None]}},
        _bad_words_token_ids=[[1, 2], [3]],
        thinking_token_budget=100,
        repetition_detection=WireRepetition(4, 0, 3),
        routed_experts_prompt_start=2,
    )


def test_detokenize_and_included_stop_strings_arrive() -> None:
    assert sampling_of(SamplingParams(detokenize=False)).detokenize is False
    included = sampling_of(SamplingParams(stop=("end",), include_stop_str_in_output=True))
    assert included.include_stop_str_in_output is True
    assert included.output_text_buffer_length == 0


def test_defaults_mean_the_engines_own_defaults() -> None:
    assert sampling_of(SamplingParams()) == WireSampling([], [], [], False)
    frames = add_message(CORE.request(INPUT, request_id="r", params=SamplingParams()))
    raw = msgspec.msgpack.decode(frames[1])[3]
    assert {"stop", "stop_token_ids", "bad_words", "skip_reading_prefix_cache"} <= raw.keys()
    assert not {"n", "seed", "max_tokens", "output_kind", "structured_outputs"} & raw.keys()


def test_a_constraint_names_the_engines_backend() -> None:
    params = SamplingParams(structured_outputs=StructuredOutputs(json={"type": "object"}))
    expected = WireConstraint(
        {"type": "object"}, None, None, None, None, False, False, None, None, "xgrammar", True
    )
    assert sampling_of(params).structured_outputs == expected
    named = sampling_of(params, VllmCore(version="0.33.0", structured_outputs_backend="xgrammar"))
    assert named.structured_outputs is not None
    assert named.structured_outputs._backend_was_auto is False
    core = VllmCore(version="0.33.0", structured_outputs_backend="guidance")
    got = sampling_of(params, core).structured_outputs
    assert got is not None
    assert (got._backend, got._backend_was_auto) == ("guidance", False)


def test_choices_are_a_grammar_where_the_backend_has_none() -> None:
    choice = ["yes", 'a "b"\\c', "1\n2\r3\t4", "\x00\x1f\x7f\x80 é", ""]
    params = SamplingParams(structured_outputs=StructuredOutputs(choice=choice))
    for backend in ("auto", "xgrammar"):
        core = VllmCore(version="0.33.0", structured_outputs_backend=backend)
        got = sampling_of(params, core).structured_outputs
        assert got is not None
        assert (got.choice, got._backend) == (None, "xgrammar")
        assert got.grammar == (
            r'root ::= "yes" | "a \"b\"\\c" | "1\n2\r3\t4" | "\u0000\u001f\u007f'
            '\x80 é" | ""'
        )
    for backend in ("guidance", "outlines", "lm-format-enforcer"):
        core = VllmCore(version="0.33.0", structured_outputs_backend=backend)
        got = sampling_of(params, core).structured_outputs
        assert got is not None
        assert (got.choice, got.grammar) == (choice, None)


def test_pooling_parameters_are_an_array_and_exclude_sampling() -> None:
    def pooled(params: PoolingParams) -> tuple[Any, ...]:
        return read(add_message(CORE.request(INPUT, request_id="r", params=params)))

    got = pooled(PoolingParams(task="embed", dimensions=64))
    assert got[3] is None
    assert got[4] == [None, 64, None, None, "embed", False, None, None, None, 2, None]
    scoring = LateInteractionParams(mode="cache_query", query_key="key", query_uses=2)
    params = PoolingParams(
        use_activation=True,
        step_tag_id=1,
        returned_token_ids=(2,),
        requires_token_ids=True,
        skip_reading_prefix_cache=True,
        late_interaction_params=scoring,
        extra_kwargs={"k": 1},
    )
    assert pooled(params)[4] == [
        True, None, 1, [2], None, True, True, ["cache_query", "key", 2], {"k": 1}, 2, None,
    ]  # fmt: skip
    params = PoolingParams(
        task="token_embed", late_chunking_params=LateChunkingParams(chunk_size=32)
    )
    assert pooled(params)[4][-2:] == [2, [32]]
    with pytest.raises(UnsupportedFeature) as caught:  # it would answer as if nobody had asked
        VllmCore(version="0.32.0+cpu").request(INPUT, request_id="r", params=params)
    assert caught.value.param == "late_chunking_params"


def media_input(*spans: tuple[int, int, Any]) -> EngineInput:
    return EngineInput(
        token_ids=array("I", range(1000)),
        media_features=tuple(
            MediaSpan(
                modality="image", index=i, start=start, stop=stop, identity=f"h{i}", is_embed=mask
            )
            for i, (start, stop, mask) in enumerate(spans)
        ),
    )


def test_media_items_the_engine_holds_are_named_by_hash() -> None:
    prompt = media_input((2, 6, ((1, False), (2, True), (1, False))), (10, 12, None))
    first, second = read(add_message(CORE.request(prompt, request_id="r", params=PLAIN)))[2]
    assert (first.data, first.modality, first.identifier, first.mm_hash) == (
        None, "image", "h0", "h0",
    )  # fmt: skip
    assert (first.mm_position.offset, first.mm_position.length) == (2, 4)
    assert first.mm_position.is_embed == ("bool", [4], Ext(3, b"\0\1\1\0"))
    assert second.mm_position == WireRange(10, 2, None)


def test_large_buffers_get_frames_of_their_own_and_small_ones_do_not() -> None:
    prompt = media_input((0, 300, ((300, True),)))
    pixels = Tensor(dtype="float32", shape=(2, 32), data=struct.pack("64f", *range(64)))
    grid = Tensor(dtype="int64", shape=(3,), data=struct.pack("3q", 1, 2, 3))
    item = {
        "pixel_values": MultiModalFieldElem(
            data=pixels, field=("flat", {"keep_on_cpu": False, "slices": [slice(0, 2)], "dim": 0})
        ),
        "grid": MultiModalFieldElem(data=[grid, 0.5], field=("batched", {"keep_on_cpu": True})),
        "held": MultiModalFieldElem(data=None, field=("shared", {"batch_size": 1})),
    }
    request = CORE.request(prompt, request_id="r", params=PLAIN, media_data=[item])
    frames = add_message(request)
    (feature,) = read(frames)[2]
    auxiliary = frames[1:]  # indices count from the message's own frame
    dtype, shape, index = feature.data["pixel_values"]["data"]
    assert (dtype, shape) == ("float32", [2, 32])
    assert struct.unpack("64f", auxiliary[index]) == tuple(range(64))
    assert feature.data["pixel_values"]["field"] == [
        "flat", {"keep_on_cpu": False, "slices": [[0, 2, None]], "dim": 0},
    ]  # fmt: skip
    assert feature.data["grid"]["data"] == [
        ["int64", [3], Ext(3, struct.pack("3q", 1, 2, 3))], 0.5,
    ]  # fmt: skip
    assert feature.data["held"]["data"] is None
    assert bytes(auxiliary[feature.mm_position.is_embed[2]]) == b"\1" * 300
    assert len(auxiliary) == 3


def test_a_buffer_of_256_bytes_gets_a_frame_and_a_number_never_does() -> None:
    inside, outside = (
        Tensor(dtype="uint8", shape=(size,), data=memoryview(bytes(size))) for size in (255, 256)
    )
    number = Tensor(dtype="<f8", shape=(), data=bytes(8))
    frames = encode_frames([inside, outside, number])
    assert msgspec.msgpack.decode(frames[0]) == [
        ["uint8", [255], Ext(3, bytes(255))], ["uint8", [256], 1], ["<f8", [], Ext(3, bytes(8))],
    ]  # fmt: skip
    assert frames[1] is outside.data


def test_one_message_holds_all_buffers_for_an_engine_behind_no_socket() -> None:
    engine: Engine = CORE
    prompt = media_input((0, 300, ((300, True),)))
    got = msgspec.msgpack.decode(
        engine.encode(prompt, request_id="r", params=PLAIN), type=WireRequest
    )
    assert got[2][0].mm_position.is_embed == ("bool", [300], Ext(3, b"\1" * 300))


def test_media_data_must_match_the_items() -> None:
    with pytest.raises(InvalidRequest, match="1 media items, but data came for 2"):
        CORE.request(
            media_input((0, 2, None)), request_id="r", params=PLAIN, media_data=[None, None]
        )


def test_things_no_engine_can_be_sent_are_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        add_message(
            CORE.request(INPUT, request_id="r", params=SamplingParams(extra_args={"x": object()}))
        )


@pytest.mark.parametrize(("lora_int_id", "lora_path"), [(0, "/p"), (1, "")])
def test_adapters_the_engine_would_die_of_are_refused(lora_int_id: int, lora_path: str) -> None:
    with pytest.raises(InvalidRequest):
        LoRARequest(lora_name="n", lora_int_id=lora_int_id, lora_path=lora_path)


def test_aborts_waves_and_calls() -> None:
    assert abort_message(["a", "b"]) == [b"\1", msgspec.msgpack.encode(["a", "b"])]
    assert start_wave_message(3, excluded_engine_index=1) == [
        b"\2", msgspec.msgpack.encode([3, 1]),
    ]  # fmt: skip
    frames = utility_message("reset_prefix_cache", (True, False), call_id=2**63 + 5, client_index=1)
    assert frames[0] == b"\3"
    assert msgspec.msgpack.decode(frames[1]) == [1, 2**63 + 5, "reset_prefix_cache", [True, False]]
    adapter = LoRARequest(lora_name="n", lora_int_id=1, lora_path="/p")
    assert msgspec.msgpack.decode(utility_message("add_lora", [adapter], call_id=1)[1])[3] == [
        ["n", 1, "/p", None, False, False]
    ]


def test_layouts_have_the_fields_of_the_wire_in_order() -> None:
    names = (
        "request_id prompt_token_ids mm_features sampling_params pooling_params arrival_time"
        " lora_request cache_salt data_parallel_rank prompt_embeds prompt_is_token_ids"
        " client_index current_wave priority trace_headers resumable external_req_id"
        " reasoning_ended reasoning_parser_kwargs abort_immediately session_id kv_hints"
    )
    assert set(LAYOUTS) == {"0.32.0", "0.33.0"}
    for layout in LAYOUTS.values():
        assert layout.__struct_fields__ == tuple(names.split())


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0", "0.32.0+cpu", "0.33.0+cu130"])
def test_known_versions_and_their_builds(version: str) -> None:
    assert VllmCore(version=version).layout is LAYOUTS["0.33.0"]


@pytest.mark.parametrize("version", ["0.31.1", "0.34.0", "0.33.1rc1", "0.33.0.dev4+g1", ""])
def test_unknown_versions_are_refused_unless_allowed(version: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"0\.32\.0, 0\.33\.0.*allow_unknown_version"):
        VllmCore(version=version)
    allowed = VllmCore(version=version, allow_unknown_version=True)
    assert allowed.layout is LAYOUTS["0.33.0"]
