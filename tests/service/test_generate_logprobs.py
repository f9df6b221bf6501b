"""Logprobs of answers and prompts, as OpenAI's clients read them, from an engine's arrays."""

from __future__ import annotations

import asyncio
import json
import random
import struct
import sys
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import zmq

sys.path.insert(0, str(Path(__file__).parent))
import fake_engine as fake

import foreword
from foreword.engines.msgpack_frames import ReceivedArray
from foreword.engines.vllm_core.outputs import Logprobs, logprob_rows
from foreword.errors import ServiceError
from foreword.sampling import SamplingParams
from foreword.service.engine_stream import EngineStream, EngineUpdate, TokenScores
from foreword.service.generation import Choice
from foreword.service.generation_logprobs import LogprobShape, Scorer, write_prompt_logprobs
from foreword.service.input_processor import EngineRequest
from foreword.token_texts import TokenTexts
from foreword.types import EngineInput

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "How many tokens is this?"}]
DEMO = Path(foreword.__file__).parent / "demo" / "model"


Ask = Callable[[str, dict[str, Any]], Awaitable[httpx.Response]]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return foreword.load(str(DEMO)).tokenizer


@pytest.fixture
def serve(make_state: Any, in_process: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a test before a fake engine whose answers are the tokens 40, 41, 42 ..."""
    monkeypatch.setattr(fake, "answer_of", lambda prompt, place: 40 + place)

    def run(test: Callable[[Ask, Any], Awaitable[None]], *, is_forgetful: bool = False) -> None:
        async def inside() -> None:
            engine = fake.FakeEngine()
            engine.is_forgetful = is_forgetful
            state = make_state(engine_zmq=("tcp://127.0.0.1:0",))
            async with asyncio.timeout(30), in_process(state) as client:
                socket = state.engine._sockets.handshake
                await engine.come(socket.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode())
                while state.condition != "ready":
                    await asyncio.sleep(0.002)
                await test(lambda path, body: client.post(path, json=body), engine)
            await engine.die()

        asyncio.run(inside())

    return run


def f32(value: float) -> float:
    """The number nearest to a value that four bytes can hold."""
    (made,) = struct.unpack("<f", struct.pack("<f", value))
    return float(made)


def expected_row(token: int, number: int) -> list[tuple[int, float]]:
    """Of a token, which the fake engine gives rank 3: what must be told, each token once."""
    likeliest = [(token + rank) % 200 for rank in range(-2, number - 2)]
    row = {token: f32(fake.score_of(token, 3))}
    row |= {one: f32(fake.score_of(one, place + 1)) for place, one in enumerate(likeliest)}
    return list(row.items())


def test_completions_have_columns(serve: Any, tokenizer: Any) -> None:
    async def test(ask: Ask, engine: Any) -> None:
        for number in (0, 2, 5, 20):
            body = {"prompt": "x", "max_tokens": 3, "logprobs": number}
            told = (await ask(COMPLETIONS, body)).json()["choices"][0]["logprobs"]
            texts = [tokenizer.decode([40 + place]) for place in range(3)]
            rows = [expected_row(40 + place, number) for place in range(3)]
            assert told["tokens"] == texts
            assert told["token_logprobs"] == [row[0][1] for row in rows]
            offsets = [0, len(texts[0]), len(texts[0] + texts[1])]
            assert told["text_offset"] == offsets
            assert told["top_logprobs"] == [
                {tokenizer.decode([one]): score for one, score in row} for row in rows
            ]
            # The chosen token is among the likeliest, or beside them, but never twice.
            assert len(rows[0]) == number + (number < 3)

    serve(test)


def test_chats_have_a_list(serve: Any, tokenizer: Any) -> None:
    async def test(ask: Ask, engine: Any) -> None:
        for number in (0, 1, 4):
            body = {"messages": MESSAGES, "max_tokens": 2, "logprobs": True, "top_logprobs": number}
            choice = (await ask(CHAT, body)).json()["choices"][0]
            for place, told in enumerate(choice["logprobs"]["content"]):
                row = expected_row(40 + place, number)[:number]
                text = tokenizer.decode([40 + place])
                assert (told["token"], told["bytes"]) == (text, list(text.encode()))
                assert told["logprob"] == f32(fake.score_of(40 + place, 3))
                assert [(one["token"], one["logprob"]) for one in told["top_logprobs"]] == [
                    (tokenizer.decode([one]), score) for one, score in row
                ]
        silent = (await ask(CHAT, {"messages": MESSAGES, "max_tokens": 2})).json()
        assert silent["choices"][0]["logprobs"] is None
        assert "prompt_logprobs" not in silent

    serve(test)


def test_tokens_may_be_told_as_ids(serve: Any) -> None:
    async def test(ask: Ask, engine: Any) -> None:
        body = {
            "messages": MESSAGES, "max_tokens": 1, "logprobs": True, "top_logprobs": 2,
            "return_tokens_as_token_ids": True,
        }  # fmt: skip
        choice = (await ask(CHAT, body)).json()["choices"][0]
        (told,) = choice["logprobs"]["content"]
        assert told["token"] == "token_id:40"
        assert [one["token"] for one in told["top_logprobs"]] == ["token_id:40", "token_id:38"]

    serve(test)


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line for line in response.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (COMPLETIONS, {"prompt": "some prompt", "logprobs": 2}),
        (COMPLETIONS, {"prompt": ["a b", "c d e"], "logprobs": 2, "echo": True}),
        (COMPLETIONS, {"prompt": "a b", "logprobs": 2, "echo": True, "max_tokens": 0}),
        (CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 3}),
    ],
)
def test_a_stream_tells_the_same(serve: Any, path: str, body: dict[str, Any]) -> None:
    async def test(ask: Ask, engine: Any) -> None:
        asked = {"max_tokens": 5, **body}
        whole = (await ask(path, asked)).json()["choices"]
        told: dict[int, dict[str, list[Any]]] = {}
        texts: dict[int, str] = {}
        for chunk in chunks(await ask(path, {**asked, "stream": True})):
            for choice in chunk["choices"]:
                place = choice["index"]
                delta = choice.get("delta", {}).get("content", "") or choice.get("text", "")
                texts[place] = texts.get(place, "") + delta
                for name, values in (choice["logprobs"] or {}).items():
                    told.setdefault(place, {}).setdefault(name, []).extend(values)
        for choice in whole:
            assert told[choice["index"]] == choice["logprobs"]
            text = choice["message"]["content"] if "message" in choice else choice["text"]
            assert texts[choice["index"]] == text

    serve(test)


def test_an_echo_has_the_prompts_logprobs_before_the_answers(serve: Any, tokenizer: Any) -> None:
    prompt = tokenizer.encode("seven tokens", add_special_tokens=False).token_ids.tolist()

    async def test(ask: Ask, engine: Any) -> None:
        body = {"prompt": prompt, "max_tokens": 2, "logprobs": 1, "echo": True}
        (choice,) = (await ask(COMPLETIONS, body)).json()["choices"]
        told = choice["logprobs"]
        assert "".join(told["tokens"]) == choice["text"] == tokenizer.decode([*prompt, 40, 41])
        assert told["token_logprobs"] == [
            None, *(f32(fake.score_of(one, 3)) for one in [*prompt[1:], 40, 41]),
        ]  # fmt: skip
        assert told["top_logprobs"][0] is None
        assert len(choice["prompt_logprobs"]) == len(prompt)
        (alone,) = (await ask(COMPLETIONS, {**body, "max_tokens": 0})).json()["choices"]
        assert alone["text"] == "seven tokens"
        assert "".join(alone["logprobs"]["tokens"]) == "seven tokens"
        (as_ids,) = (await ask(COMPLETIONS, {**body, "return_token_ids": True})).json()["choices"]
        assert as_ids["text"] == tokenizer.decode([40, 41])
        assert as_ids["prompt_token_ids"] == prompt

    serve(test)


def test_a_prompts_logprobs(serve: Any, tokenizer: Any) -> None:
    async def test(ask: Ask, engine: Any) -> None:
        prompt = [40 + place % 20 for place in range(90)]  # large enough for frames of their own
        body = {"prompt": prompt, "max_tokens": 1, "prompt_logprobs": 1}
        (choice,) = (await ask(COMPLETIONS, body)).json()["choices"]
        first, *rest = choice["prompt_logprobs"]
        assert first is None
        assert choice["logprobs"] is None
        for token, told in zip(prompt[1:], rest, strict=True):
            likeliest = token - 2
            assert told == {
                str(token): {
                    "logprob": f32(fake.score_of(token, 3)), "rank": 3,
                    "decoded_token": tokenizer.decode([token]),
                },
                str(likeliest): {
                    "logprob": f32(fake.score_of(likeliest, 1)), "rank": 1,
                    "decoded_token": tokenizer.decode([likeliest]),
                },
            }  # fmt: skip
        chat = (
            await ask(CHAT, {"messages": MESSAGES, "max_tokens": 1, "prompt_logprobs": 0})
        ).json()
        assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]
        (params,) = [one.params for one in engine.requests.values()][1:]
        assert params["skip_reading_prefix_cache"] is True

    serve(test)


def test_a_prompt_of_one_token_has_one_too(serve: Any, tokenizer: Any) -> None:
    async def test(ask: Ask, engine: Any) -> None:
        body = {"prompt": [40], "max_tokens": 1, "logprobs": 1, "echo": True}
        (choice,) = (await ask(COMPLETIONS, body)).json()["choices"]
        chosen = engine.requests.popitem()[1]
        answer = fake.answer_of(chosen.prompt, 0)
        told = choice["logprobs"]
        assert told["tokens"] == [tokenizer.decode([40]), tokenizer.decode([answer])]
        assert told["token_logprobs"] == [None, f32(fake.score_of(answer, 3))]
        assert told["text_offset"] == [0, len(tokenizer.decode([40]))]
        assert choice["prompt_logprobs"] == [None]
        streamed = chunks(await ask(COMPLETIONS, {**body, "stream": True}))
        columns = [one["choices"][0]["logprobs"] for one in streamed if one["choices"]]
        assert [one for made in columns for one in made["tokens"]] == told["tokens"]
        plain = {"prompt": [40], "max_tokens": 1, "prompt_logprobs": 0}
        (choice,) = (await ask(COMPLETIONS, plain)).json()["choices"]
        assert choice["prompt_logprobs"] == [None]

    serve(test)


def test_logprobs_that_did_not_come_are_an_error(serve: Any) -> None:
    async def test(ask: Ask, engine: Any) -> None:
        response = await ask(COMPLETIONS, {"prompt": "x", "logprobs": 1, "max_tokens": 3})
        assert response.status_code == 503
        assert "the logprobs of 0" in response.json()["error"]["message"]

    serve(test, is_forgetful=True)


class Letters:
    """Ids are code points."""

    def decode(self, token_ids: Any, *, skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, token_ids))

    def id_to_token(self, token_id: int) -> str | None:
        return chr(token_id)


def test_updates_taken_together_tell_the_same(tokenizer: Any) -> None:
    rng = random.Random(6)
    text = "count to 😀 and 中文 END of it"
    token_ids = tokenizer.encode(text, add_special_tokens=False).token_ids.tolist()
    rows = [
        TokenScores([one, rng.randrange(300), rng.randrange(300)], [-2.0, -1.0, -1.5], [3, 1, 2])
        for one in token_ids
    ]
    request = EngineRequest(
        request_id="r",
        external_id="r",
        engine_input=EngineInput(token_ids=array("I", [97])),
        sampling=SamplingParams(stop=("END",), logprobs=2),
    )
    told = []
    for _ in range(30):
        stream, choice = EngineStream("r", lambda stream: None), Choice(0, request, tokenizer)
        positions, said = [], ""
        for place, (token_id, row) in enumerate(zip(token_ids, rows, strict=True)):
            reason = "length" if place == len(token_ids) - 1 else None
            stream.push(EngineUpdate(token_ids=[token_id], scores=[row], finish_reason=reason))
            if reason is None and rng.random() < 0.5:
                continue
            delta = choice.take(asyncio.run(anext(stream)))  # type: ignore[arg-type]
            positions += delta.positions
            said += delta.text
            assert len(delta.positions) == len(delta.token_ids)
            if delta.finish_reason is not None:
                break
        told.append((positions, said))
    assert all(one == told[0] for one in told)
    assert told[0][1] == "count to 😀 and 中文 "
    assert "".join(position[0].text for position in told[0][0]).endswith(" END")


class Bytes:
    """Ids are bytes."""

    def decode(self, token_ids: Any, *, skip_special_tokens: bool = False) -> str:
        return bytes(token_ids).decode(errors="replace")

    def id_to_token(self, token_id: int) -> str | None:
        return None


def test_a_character_of_several_tokens_stands_at_its_last() -> None:
    scorer = Scorer(TokenTexts(Bytes()), 1)
    chosen, likeliest = "a😀é".encode(), "b😁e\u0301".encode()
    rows = [
        TokenScores([one, other], [-2.0, -1.0], [2, 1])
        for one, other in zip(chosen, likeliest, strict=False)
    ]
    positions = [one for row in rows for one in scorer.add([row], num_expected=1)]
    texts = [[one.text for one in position] for position in positions]
    assert texts == [["a", "b"], [""], [""], [""], ["😀", "😁"], ["", "e"], ["é", ""]]


def test_numbers_json_does_not_have() -> None:
    scorer = Scorer(TokenTexts(Letters()), -1)
    row = TokenScores([97, 98, 99], [float("nan"), float("-inf"), -1.0], [None, 1, 2])
    (position,) = positions = scorer.add([row], num_expected=1)
    assert [one.text for one in position] == ["a", "b", "c"]
    shape = LogprobShape(is_chat=False, max_candidates=None)
    assert shape.write(positions, offset=7) == {
        "text_offset": [7], "tokens": ["a"], "token_logprobs": [-9999.0],
        "top_logprobs": [{"a": -9999.0, "b": -9999.0, "c": -1.0}],
    }  # fmt: skip
    (told,) = write_prompt_logprobs(positions)
    assert told is not None
    assert [one["logprob"] for one in told.values()] == [-9999.0, -9999.0, -1.0]


@pytest.mark.parametrize(
    "change",
    [
        {"token_ids": ("<i4", (4,), 1)},
        {"token_ids": ("<i4", (2, 0), 1)},
        {"logprobs": ("<f4", (1, 4), 2)},
        {"logprobs": ("bfloat16", (2, 2), 2)},
        {"ranks": ("<i4", (2,), 9)},
        {"ranks": ("<i4", (1,), 1)},
        {"ranks": ("<i4", (2,), None)},
    ],
)
def test_arrays_that_do_not_fit(change: dict[str, Any]) -> None:
    right = {
        "token_ids": ("<i4", (2, 2), 1), "logprobs": ("<f4", (2, 2), 2), "ranks": ("<i4", (2,), 3),
    }  # fmt: skip
    frames = [b"", struct.pack("<4i", 1, 2, 3, 4), struct.pack("<4f", *[-1.0] * 4)]
    frames.append(struct.pack("<2i", 1, 1))

    def made(parts: dict[str, Any]) -> Logprobs:
        arrays = {
            name: ReceivedArray(dtype, shape, data) for name, (dtype, shape, data) in parts.items()
        }
        return Logprobs(**arrays)

    assert logprob_rows(made(right), frames) == [([1, 2], [-1, -1], 1), ([3, 4], [-1, -1], 1)]
    with pytest.raises(ServiceError, match="cannot be read"):
        logprob_rows(made({**right, **change}), frames)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (COMPLETIONS, {"prompt": "x", "prompt_logprobs": 1}, "prompt_logprobs"),
        (CHAT, {"messages": MESSAGES, "prompt_logprobs": 0}, "prompt_logprobs"),
        (COMPLETIONS, {"prompt": "x", "logprobs": 1, "echo": True}, "echo"),
        (
            COMPLETIONS,
            {"prompt": "x", "logprobs": 1, "logprob_token_ids": [1]},
            "logprob_token_ids",
        ),
        (COMPLETIONS, {"prompt": "x", "logprobs": 20}, "logprobs"),
        (COMPLETIONS, {"prompt": "x", "logprobs": 21}, "logprobs"),
    ],
)
def test_what_a_server_does_not_stream_is_refused_by_name(
    make_state: Any, in_process: Any, path: str, body: dict[str, Any], param: str
) -> None:
    async def test() -> None:
        async with in_process(make_state(engine_url="http://127.0.0.1:9")) as client:
            response = await client.post(path, json=body)
            assert response.status_code == 400
            assert response.json()["error"]["param"] == param

    asyncio.run(test())
