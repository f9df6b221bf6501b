"""What a body's JSON is made of is counted before it is decoded, outside its strings."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import httpx
import pytest

from foreword.errors import InvalidRequest
from foreword.service.settings import Settings
from foreword.service.structure import Structure, _count_outside_strings, check_structure

MANY = Structure(10**9, 10**9, 10**9)
SMALL = Settings(
    models=("m",), max_json_containers=20, max_json_members=30, max_json_values=40
)  # fmt: skip


def walk(value: Any) -> tuple[int, int, int]:
    """Count the same in decoded JSON: containers, members, and commas."""
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list):
        return 0, 0, 0
    members = len(value) if isinstance(value, dict) else 0
    rows = [(1, members, max(0, len(items) - 1)), *map(walk, items)]
    containers, named, commas = (sum(column) for column in zip(*rows, strict=True))
    return containers, named, commas


def some_json(rng: random.Random, depth: int) -> Any:
    words = ["", "a,b", '"', '\\"', "\\", "\\\\", "[{:,", 'x\\"[', "é\n", 'end\\\\"']
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([1, None, True, 2.5, *words])
    if rng.random() < 0.5:
        return [some_json(rng, depth - 1) for _ in range(rng.randrange(5))]
    return {rng.choice(words) + str(i): some_json(rng, depth - 1) for i in range(rng.randrange(5))}


def test_the_count_is_that_of_the_decoded_value() -> None:
    rng = random.Random(11)
    for _ in range(2000):
        value = some_json(rng, 5)
        body = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()
        assert _count_outside_strings(body, MANY) == walk(value)


@pytest.mark.parametrize(
    ("value", "setting"),
    [
        ([[]] * 20, "max_json_containers"),
        ([{}] * 20, "max_json_containers"),
        ([{}, []] * 10, "max_json_containers"),
        ({str(i): 0 for i in range(31)}, "max_json_members"),
        ([1] * 42, "max_json_values"),
    ],
)
def test_too_many_are_refused_by_the_setting_s_name(value: Any, setting: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"more than .*setting {setting}\)"):
        check_structure(json.dumps(value).encode(), SMALL)


@pytest.mark.parametrize(
    "value",
    [[[]] * 19, {str(i): 0 for i in range(30)}, [1] * 41, "[{:," * 100, ['"' * 99, ":" * 99]],
)
def test_as_many_as_allowed_and_any_text_pass(value: Any) -> None:
    check_structure(json.dumps(value).encode(), SMALL)


@pytest.mark.parametrize(
    "body", [b'"', b'"a\\', b'{"a', b"[" * 5, b'"\\"', b"", b'[1,"' + b'\\"' * 100]
)
def test_what_is_no_json_is_left_to_the_decoder(body: bytes) -> None:
    check_structure(body, SMALL)


def body_with(text: bytes) -> bytes:
    return b'{"prompt":"' + b"x" * 2**20 + b'",' + text + b"}"


@pytest.mark.parametrize("number", [b"1" * 41, b"-0." + b"5" * 41, b"[1e" + b"0" * 41 + b"]"])
@pytest.mark.parametrize("pad", [0, 2**20 - 60, 3 * 2**20])
def test_a_number_without_end_is_refused(number: bytes, pad: int) -> None:
    """Also where it lies across two of the parts that are looked at."""
    body = body_with(b'"pad":"' + b"y" * pad + b'","seed":' + number)
    with pytest.raises(InvalidRequest, match="more than 40 digits"):
        check_structure(body, Settings(models=("m",)))


@pytest.mark.parametrize("text", [b'"seed":' + b"1" * 40, b'"a":"' + b"1" * 5000 + b'"'])
def test_digits_in_text_and_numbers_as_they_are_meant_pass(text: bytes) -> None:
    check_structure(body_with(text), Settings(models=("m",)))


def test_strings_without_anything_between_are_left_to_the_decoder_at_once() -> None:
    body = b'"' + b"," * 1_100_000 + b'"' * 8_000_000
    started = time.perf_counter()
    check_structure(body, Settings(models=("m",)))
    assert time.perf_counter() - started < 3


BODIES = {
    "lists": ("/v1/completions/render", b'{"prompt":[' + b"[5]," * 4_000_000 + b"[5]]}"),
    "names": (
        "/v1/chat/completions/render",
        b'{"messages":[{"role":"user","content":"x"}],"logit_bias":{'
        + b",".join(b'"%d":1' % number for number in range(1_500_000))
        + b"}}",
    ),
    "messages": (
        "/v1/chat/completions/render",
        b'{"messages":[' + b",".join([b'{"role":"user","content":"x"}'] * 1_000_000) + b"]}",
    ),
    "ids": ("/v1/completions/render", b'{"prompt":[' + b"5," * 5_000_000 + b"5]}"),
}


@pytest.mark.parametrize("name", BODIES)
def test_no_body_keeps_the_loop_from_answering(name: str, make_state: Any, running: Any) -> None:
    path, body = BODIES[name]
    with running(make_state()) as server:
        worst = [0.0]
        done = threading.Event()

        def ask() -> None:
            with httpx.Client() as client:
                while not done.is_set():
                    started = time.perf_counter()
                    assert client.get(f"{server.url}/health").status_code == 200
                    worst[0] = max(worst[0], time.perf_counter() - started)

        thread = threading.Thread(target=ask)
        thread.start()
        response = httpx.post(
            f"{server.url}{path}",
            content=body,
            headers={"content-type": "application/json"},
            timeout=30,
        )
        done.set()
        thread.join()
    assert response.status_code == 400
    assert "max_json_" in response.json()["error"]["message"]
    # Decoded it took a second; what is left is the client's own work in the same process.
    assert worst[0] < 0.4


def test_a_hundred_thousand_names_that_nothing_reads_cost_nothing(
    make_state: Any, running: Any
) -> None:
    names = {f"k{number}": 1 for number in range(100_000)}
    body = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": names}
    with running(make_state(render_deadline_seconds=3)) as server:
        response = httpx.post(f"{server.url}/v1/chat/completions/render", json=body, timeout=30)
    assert response.status_code == 200, response.text
