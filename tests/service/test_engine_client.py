"""The front end of vLLM engines, against an engine that shares no code with it."""

from __future__ import annotations

import asyncio
import random
import sys
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq

sys.path.insert(0, str(Path(__file__).parent))
import fake_engine as fake

from foreword.errors import (
    DeadlineExceeded,
    ForewordError,
    InvalidRequest,
    Overloaded,
    ServiceError,
)
from foreword.sampling import SamplingParams
from foreword.service.engine_choice import EngineLoad, least_loaded
from foreword.service.engine_client import ZmqEngineClient
from foreword.service.engine_fleet import EngineClientOptions
from foreword.service.engine_sockets import SocketAddresses, parse_addresses
from foreword.service.engine_stream import EngineStream, EngineUpdate
from foreword.service.input_processor import EngineRequest
from foreword.types import EngineInput

FakeEngine = fake.FakeEngine


def make_request(
    name: str, prompt: Sequence[int] = (1, 2, 3), *, max_tokens: int = 8, **sampling: Any
) -> EngineRequest:
    return EngineRequest(
        request_id=name,
        external_id=name.partition("-")[0],
        engine_input=EngineInput(token_ids=array("I", prompt), arrival_time=1.0),
        sampling=SamplingParams(max_tokens=max_tokens, **sampling),
    )


async def collect(stream: EngineStream) -> tuple[list[int], str | None]:
    token_ids: list[int] = []
    reason = None
    async for update in stream:
        assert reason is None, "something came after the end"
        token_ids += update.token_ids
        reason = update.finish_reason
    return token_ids, reason


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def expected(prompt: Sequence[int], num: int) -> list[int]:
    return [fake.answer_of(list(prompt), place) for place in range(num)]


@asynccontextmanager
async def client_of(
    *engines: Any, handshake: bool = True, **options: Any
) -> AsyncIterator[ZmqEngineClient]:
    address = "tcp://127.0.0.1:*"
    addresses = SocketAddresses(
        handshake="tcp://127.0.0.1:0" if handshake else None,
        input=None if handshake else address,
        output=None if handshake else address,
    )
    made = ZmqEngineClient(
        addresses, EngineClientOptions(num_engines=max(1, len(engines)), **options)
    )
    await made.start()
    try:
        for engine in engines:
            await meet(made, engine)
        if engines:
            await until(lambda: made.condition == "ready")
        yield made
    finally:
        await made.close()
        for engine in engines:
            await engine.die()


async def meet(client: ZmqEngineClient, engine: Any) -> None:
    sockets = client._sockets
    assert sockets is not None
    if sockets.handshake is not None:
        await engine.come(sockets.handshake.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode())
    else:
        await engine.attach(client.addresses.inputs[0], client.addresses.outputs[0])


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(inside())


@pytest.mark.parametrize("handshake", [True, False])
def test_a_request_and_its_answer(handshake: bool) -> None:
    async def test() -> None:
        engine = FakeEngine()
        async with client_of(engine, handshake=handshake) as client:
            assert client.max_model_len == 4096
            request = make_request("r-1", [5, 6, 70000], max_tokens=4, seed=7)
            assert await collect(await client.submit(request)) == (
                expected([5, 6, 70000], 4),
                "length",
            )
            (fields,) = (one.fields for one in engine.requests.values())
            assert fields[fake.PROMPT] == [5, 6, 70000]
            assert fields[fake.EXTERNAL_ID] == "r"
            assert fields[fake.SAMPLING]["seed"] == 7
            assert client.num_in_flight == 0
        assert len(engine.handshakes) == handshake

    run(test)


def test_hundreds_at_once_and_nothing_is_lost_or_mixed_up() -> None:
    async def test() -> None:
        engine, rng = FakeEngine(max_running=64), random.Random(1)
        async with client_of(engine) as client:
            wanted = {
                f"r-{number}": (
                    [rng.randrange(200) for _ in range(number % 9 + 1)],
                    number % 13 + 1,
                )
                for number in range(400)
            }
            streams = [
                await client.submit(make_request(name, prompt, max_tokens=num))
                for name, (prompt, num) in wanted.items()
            ]
            answers = await asyncio.gather(*map(collect, streams))
            for (prompt, num), answer in zip(wanted.values(), answers, strict=True):
                assert answer == (expected(prompt, num), "length")
            assert set(engine.received.values()) == {1}
            assert client.num_in_flight == client.num_dropped == 0

    run(test)


def test_who_leaves_is_aborted_and_disturbs_nobody() -> None:
    async def test() -> None:
        engine = FakeEngine(step_seconds=0.002)
        async with client_of(engine) as client:
            streams = [
                await client.submit(make_request(f"r-{number}", [number], max_tokens=40))
                for number in range(100)
            ]
            await anext(streams[1])
            for stream in streams[1::2]:
                stream.close()
                stream.close()
            answers = await asyncio.gather(*map(collect, streams[::2]))
            for place, answer in enumerate(answers):
                assert answer == (expected([2 * place], 40), "length")
            left = {stream.request_id for stream in streams[1::2]}
            await until(lambda: len(engine.aborted) == 50)
            assert set(engine.aborted) == left
            assert client.num_in_flight == 0
            for stream in streams[1::2]:
                assert [update async for update in stream if update.finish_reason] == []

    run(test)


def test_an_answer_that_is_complete_is_not_aborted() -> None:
    async def test() -> None:
        engine = FakeEngine()
        async with client_of(engine) as client:
            stream = await client.submit(make_request("r"))
            await collect(stream)
            stream.close()
            await collect(await client.submit(make_request("s")))
            assert engine.aborted == []

    run(test)


def test_a_slow_start_is_waited_for_and_told() -> None:
    async def test() -> None:
        engine = FakeEngine()
        async with client_of() as client:
            with pytest.raises(Overloaded, match="0 of 1"):
                await client.submit(make_request("early"))
            await asyncio.sleep(0.05)
            await meet(client, engine)
            await until(lambda: client.condition == "ready")
            assert (await collect(await client.submit(make_request("r"))))[1] == "length"
            await engine.die()

    run(test)


@pytest.mark.parametrize("last_word", [True, False])
def test_death_fails_what_was_open_and_a_new_engine_takes_over(last_word: bool) -> None:
    async def test() -> None:
        first, second = FakeEngine(step_seconds=0.01), FakeEngine()
        async with client_of(first) as client:
            streams = [
                await client.submit(make_request(f"r-{number}", max_tokens=10_000))
                for number in range(50)
            ]
            await anext(streams[0])
            await first.die(last_word=last_word)
            ends = await asyncio.gather(*map(collect, streams), return_exceptions=True)
            assert all(isinstance(end, ServiceError) and end.status == 503 for end in ends)
            assert client.num_in_flight == 0
            assert client.num_lost == 1
            with pytest.raises(Overloaded):
                await client.submit(make_request("meanwhile"))
            await meet(client, second)
            await until(lambda: client.condition == "ready")
            assert await collect(await client.submit(make_request("after", [9]))) == (
                expected([9], 8),
                "length",
            )
            await second.die()

    run(test)


def test_a_lost_connection_that_comes_back_leaves_nothing_running() -> None:
    async def test() -> None:
        engine = FakeEngine(step_seconds=0.01)
        async with client_of(engine, handshake=False) as client:
            stream = await client.submit(make_request("r", max_tokens=100_000))
            await anext(stream)
            address = client.addresses.inputs[0]
            engine.input.disconnect(address)
            with pytest.raises(ServiceError, match="disconnected"):
                await collect(stream)
            assert client.condition != "ready"
            assert engine.running
            engine.input.connect(address)
            await until(lambda: client.condition == "ready")
            await until(lambda: not engine.running)
            assert engine.aborted[-1] == "r"
            assert (await collect(await client.submit(make_request("s"))))[1] == "length"

    run(test)


def test_a_restart_that_nobody_noticed_fails_the_old_requests() -> None:
    async def test() -> None:
        first, second = FakeEngine(), FakeEngine()
        first.is_mute = True
        async with client_of(first) as client:
            stream = await client.submit(make_request("r"))
            await meet(client, second)
            with pytest.raises(ServiceError, match="restarted"):
                await collect(stream)
            assert (await collect(await client.submit(make_request("s"))))[1] == "length"
            assert "s" not in first.received
            await second.die()

    run(test)


def test_silence_is_a_failure_and_words_are_its_end() -> None:
    async def test() -> None:
        engine = FakeEngine(step_seconds=0.01)
        engine.is_mute = True
        async with client_of(engine, silence_seconds=0.2) as client:
            stream = await client.submit(make_request("r", max_tokens=100_000))
            with pytest.raises(ServiceError, match="said nothing"):
                await collect(stream)
            await until(lambda: engine.aborted == ["r"])
            assert client.condition != "ready"
            engine.is_mute = False
            await engine._send([])
            await until(lambda: client.condition == "ready")
            assert (await collect(await client.submit(make_request("s"))))[1] == "length"

    run(test)


def test_several_engines_share_the_load_and_one_may_die() -> None:
    async def test() -> None:
        engines = [FakeEngine(index=index, step_seconds=0.002) for index in range(3)]
        async with client_of(*engines) as client:
            streams = [
                await client.submit(make_request(f"r-{number}", [number], max_tokens=60))
                for number in range(60)
            ]
            await until(lambda: sum(len(engine.received) for engine in engines) == 60)
            assert [len(engine.received) for engine in engines] == [20, 20, 20]
            streams[0].close()
            await until(lambda: sum(len(engine.aborted) for engine in engines) == 1)
            lost = set(engines[1].running)
            await engines[1].die(last_word=True)
            ends = await asyncio.gather(*map(collect, streams[1:]), return_exceptions=True)
            for stream, end in zip(streams[1:], ends, strict=True):
                if stream.request_id in lost:
                    assert isinstance(end, ServiceError)
                else:
                    assert isinstance(end, tuple)
                    assert end[1] == "length"
            assert client.condition == "ready"
            assert (await collect(await client.submit(make_request("after"))))[1] == "length"

    run(test)


def test_idle_engines_take_turns_and_owe_nothing_after() -> None:
    async def test() -> None:
        engines = [FakeEngine(index=index) for index in range(3)]
        async with client_of(*engines) as client:
            for number in range(6):
                await collect(await client.submit(make_request(f"r-{number}")))
            assert [len(engine.received) for engine in engines] == [2, 2, 2]
            for peer in client.fleet.peers.values():
                assert peer.streams == {}
                assert peer.load.num_in_flight == 0

    run(test)


def test_too_many_are_refused_at_once() -> None:
    async def test() -> None:
        engine = FakeEngine(step_seconds=0.01)
        async with client_of(engine, max_requests=3) as client:
            streams = [
                await client.submit(make_request(f"r-{number}", max_tokens=50))
                for number in range(3)
            ]
            with pytest.raises(Overloaded, match="at most 3"):
                await client.submit(make_request("fourth"))
            streams[0].close()
            await client.submit(make_request("fifth", max_tokens=1))

    run(test)


def test_an_unknown_version_is_refused_unless_it_is_allowed() -> None:
    async def test() -> None:
        engine = FakeEngine(version="0.99.0")
        async with client_of() as client:
            await meet(client, engine)
            await until(lambda: "0.99.0" in client.condition)
            with pytest.raises(Overloaded, match=r"0\.99\.0"):
                await client.submit(make_request("r"))
            await engine.die()
        brave = FakeEngine(version="0.99.0")
        async with client_of(brave, allow_unknown_version=True) as client:
            assert (await collect(await client.submit(make_request("r"))))[1] == "length"

    run(test)


def test_calls_and_their_failures() -> None:
    async def test() -> None:
        engine = FakeEngine()
        async with client_of(engine) as client:
            assert await client.call("is_sleeping") is False
            with pytest.raises(ServiceError, match="no method"):
                await client.call("fly", 1, "two")
            assert engine.calls == [("is_sleeping", []), ("fly", [1, "two"])]
            engine.is_mute = True
            with pytest.raises(DeadlineExceeded):
                await client.call("is_sleeping", timeout_seconds=0.05)
            call = asyncio.ensure_future(client.call("is_sleeping"))
            await until(lambda: len(engine.calls) == 4)
            await engine.die()
            with pytest.raises(ServiceError):
                await call

    run(test)


def test_nonsense_on_the_sockets_is_ignored() -> None:
    async def test() -> None:
        engine = FakeEngine()
        async with client_of(engine) as client:
            await engine.output.send(b"\xc1")
            await engine.input.send(b"not a ready message")
            await engine._send([["unknown", [1], None, None, None, None]])
            assert (await collect(await client.submit(make_request("r"))))[1] == "length"
            assert client.num_dropped == 1

    run(test)


def test_the_end_of_the_service_aborts_and_fails_what_is_open() -> None:
    async def test() -> None:
        engine = FakeEngine(step_seconds=0.01)
        async with client_of(engine) as client:
            stream = await client.submit(make_request("r", max_tokens=10_000))
            await until(lambda: bool(engine.received))
            await client.close()
            with pytest.raises(ServiceError, match="shutting down"):
                await collect(stream)
            await until(lambda: engine.aborted == ["r"])
            with pytest.raises(Overloaded):
                await client.submit(make_request("late"))

    run(test)


def test_what_was_not_taken_yet_is_one_update() -> None:
    async def test() -> None:
        given_up: list[EngineStream] = []
        stream = EngineStream("r", given_up.append)
        stream.push(EngineUpdate(token_ids=[1], num_cached_tokens=4))
        stream.push(EngineUpdate(token_ids=[2, 3], finish_reason="stop", stop_reason=3))
        assert not stream.push(EngineUpdate(token_ids=[4]))
        assert [update async for update in stream] == [
            EngineUpdate(
                token_ids=[1, 2, 3], finish_reason="stop", stop_reason=3, num_cached_tokens=4
            )
        ]
        stream.close()
        assert given_up == []

    run(test)


def test_the_least_loaded_engine_is_chosen() -> None:
    idle, busy = EngineLoad(), EngineLoad(num_running=3)
    assert least_loaded([busy, idle]) == 1
    assert [least_loaded([idle, idle, idle], first=first) for first in range(3)] == [0, 1, 2]
    # A queue before a full cache counts more than the same queue before an empty one.
    full = EngineLoad(num_running=4, num_waiting=2, kv_cache_usage=1.0)
    empty = EngineLoad(num_running=8, num_waiting=2, kv_cache_usage=0.4)
    assert (full.score(), empty.score()) == (6 + 6, 10)
    assert EngineLoad(num_in_flight=3).score(num_clients=4) == 12


def test_addresses() -> None:
    assert parse_addresses(["tcp://h:1"]) == SocketAddresses(handshake="tcp://h:1")
    both = SocketAddresses(input="ipc://a", output="ipc://b")
    assert parse_addresses(["input=ipc://a,output=ipc://b"]) == both
    assert parse_addresses(["input=ipc://a", "output=ipc://b"]) == both
    for wrong in (["h:1"], ["input=ipc://a"], ["tcp://a:1", "tcp://b:1"], ["in=tcp://a:1"]):
        with pytest.raises(InvalidRequest):
            parse_addresses(wrong)


def test_an_address_that_is_taken_or_tells_nothing() -> None:
    async def test() -> None:
        async with client_of() as client:
            sockets = client._sockets
            assert sockets is not None
            taken = ZmqEngineClient(
                SocketAddresses(input=sockets.input_address, output="tcp://127.0.0.1:*")
            )
            with pytest.raises(InvalidRequest, match="can't be bound"):
                await taken.start()
        with pytest.raises(ForewordError, match="reach"):
            await ZmqEngineClient(SocketAddresses(handshake="tcp://0.0.0.0:0")).start()

    run(test)
