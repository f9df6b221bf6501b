"""What goes wrong in service, over real sockets: endless work, clients that leave, floods."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import foreword
from foreword.service.state import FAST_INLINE_MAX_SIZE
from foreword.service.work import Work

CHAT = "/v1/chat/completions/render"
JSON = {"content-type": "application/json"}
ENDLESS = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
GROWING = (
    "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"
)
LARGE = json.dumps({"messages": [{"role": "user", "content": "words and words " * 1000}]}).encode()
LARGE += b" " * FAST_INLINE_MAX_SIZE  # so that a thread does it, whatever the tokenizer
SMALL = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()


def raw(body: bytes, *, length: int | None = None) -> bytes:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {length or len(body)}\r\n\r\n".encode() + body


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    stop_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop_at, "it never happened"
        time.sleep(0.01)


def metric(server: Any, line: str) -> float:
    for found in httpx.get(f"{server.url}/metrics").text.splitlines():
        if found.startswith(line + " "):
            return float(found.rsplit(" ", 1)[1])
    return 0.0


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["inline", "thread"])
def test_a_template_that_never_ends(make_state: Any, running: Any, body: bytes) -> None:
    state = make_state(
        chat_template=ENDLESS, max_template_work=2**40, render_deadline_seconds=0.3, warm_up=False
    )
    with running(state) as server:
        num_threads = threading.active_count()
        started = time.monotonic()
        response = httpx.post(f"{server.url}{CHAT}", content=body, headers=JSON)
        assert response.status_code == 504, response.text
        assert time.monotonic() - started < 2
        assert response.headers["retry-after"] == "1"
        assert metric(server, 'foreword_deadline_hits_total{where="render"}') == 1
        assert metric(server, "foreword_pool_swaps_total") == 0
        assert httpx.get(f"{server.url}/ready").status_code == 200
        until(lambda: threading.active_count() <= num_threads + state.settings.num_threads)


def test_a_template_that_allocates_without_end(make_state: Any, running: Any) -> None:
    with running(make_state(chat_template=GROWING, warm_up=False)) as server:
        before = resident_bytes()
        for body in (SMALL, LARGE) * 5:
            response = httpx.post(f"{server.url}{CHAT}", content=body, headers=JSON)
            assert response.status_code == 400
            assert "max_output_chars" in response.json()["error"]["message"]
        assert resident_bytes() - before < 200 * 2**20


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_hundred_clients_that_vanish(make_state: Any, running: Any) -> None:
    state = make_state(
        chat_template=ENDLESS, max_template_work=2**40, render_deadline_seconds=60, threads=2,
        warm_up=False,
    )  # fmt: skip
    with running(state) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
        for client in clients:
            client.sendall(raw(LARGE))
        until(lambda: state.num_in_flight == 200)
        assert state.executor.num_running == 2
        for client in clients:
            client.close()
        until(lambda: state.num_in_flight == 0)
        until(lambda: state.executor.num_queued == state.executor.num_running == 0)
        assert metric(server, 'foreword_refusals_total{code="client_left"}') == 200
        assert httpx.get(f"{server.url}/ready").status_code == 200
        assert metric(server, "foreword_pool_swaps_total") == 0


def test_a_full_queue_answers_at_once(
    make_state: Any, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, render = threading.Event(), Work.chat

    def slow(work: Work, body: bytes, request_id: str) -> Any:
        gate.wait(30)
        return render(work, body, request_id)

    async def flood(url: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=30) as client:
            posts = [client.post(f"{url}{CHAT}", content=LARGE, headers=JSON) for _ in range(12)]
            return await asyncio.gather(*posts)

    monkeypatch.setattr(Work, "chat", slow)
    state = make_state(threads=1, max_queued=3, warm_up=False)
    with running(state) as server:
        answers: list[list[httpx.Response]] = []
        thread = threading.Thread(target=lambda: answers.append(asyncio.run(flood(server.url))))
        thread.start()
        until(lambda: metric(server, 'foreword_refusals_total{code="overloaded"}') == 8)
        ready = httpx.get(f"{server.url}/ready")
        assert (ready.status_code, ready.json()) == (503, {"status": "saturated"})
        assert httpx.get(f"{server.url}/health").status_code == 200
        assert metric(server, "foreword_queue_depth") == 3
        assert metric(server, "foreword_in_flight") == 4
        gate.set()
        thread.join(30)
        statuses = sorted(response.status_code for response in answers[0])
        assert statuses == [200] * 4 + [503] * 8
        for response in answers[0]:
            if response.status_code == 503:
                assert int(response.headers["retry-after"]) >= 1
                assert response.json()["error"]["type"] == "ServiceUnavailableError"
        assert httpx.get(f"{server.url}/ready").status_code == 200


def test_waiting_too_long_is_told_apart(make_state: Any, running: Any) -> None:
    state = make_state(
        chat_template=ENDLESS, max_template_work=2**40, render_deadline_seconds=20.0, threads=1,
        queue_deadline_seconds=0.2, warm_up=False,
    )  # fmt: skip
    with running(state) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as first:
            first.sendall(raw(LARGE))
            until(lambda: state.executor.num_running == 1)
            response = httpx.post(f"{server.url}{CHAT}", content=LARGE, headers=JSON)
        assert response.status_code == 504
        assert "queue" in response.json()["error"]["message"]
        assert metric(server, 'foreword_deadline_hits_total{where="queue"}') == 1


def test_a_body_cut_short(make_state: Any, running: Any) -> None:
    state = make_state()
    with running(state) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(raw(SMALL[:-5], length=len(SMALL)))
            until(lambda: state.num_in_flight == 1)
        until(lambda: state.num_in_flight == 0)
        response = httpx.post(f"{server.url}{CHAT}", content=SMALL[:-5], headers=JSON)
        assert response.status_code == 400
        assert "ends too early" in response.json()["error"]["message"]


def test_slow_clients_hold_nobody_up(make_state: Any, running: Any) -> None:
    with running(make_state(body_deadline_seconds=0.4)) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        for client in slow:
            client.sendall(raw(SMALL[:10], length=len(SMALL)))
        response = httpx.post(f"{server.url}{CHAT}", content=SMALL, headers=JSON)
        assert response.status_code == 200
        assert response.elapsed.total_seconds() < 0.3
        for client in slow:
            assert client.recv(64).startswith(b"HTTP/1.1 408")
            client.close()
        assert metric(server, 'foreword_deadline_hits_total{where="body"}') == 50


def test_half_a_head_is_not_waited_for(make_state: Any, running: Any) -> None:
    with running(make_state(body_deadline_seconds=0.4)) as server:
        whole = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        texts = (b"", b"POST /tokenize HTTP/1.1\r\nHo", whole + b"GET ")
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in texts]
        started = time.monotonic()
        for client, text in zip(slow, texts, strict=True):
            client.sendall(text)
        answers = [b"".join(iter(partial(client.recv, 4096), b"")) for client in slow]
        for client in slow:
            client.close()
        assert 0.3 < time.monotonic() - started < 3
        assert answers[:2] == [b"", b""]
        assert answers[2].startswith(b"HTTP/1.1 200")
        with httpx.Client() as patient:  # a connection kept open between requests is no half head
            for _ in range(2):
                assert patient.get(f"{server.url}/health").status_code == 200
                time.sleep(0.6)


def test_a_body_that_says_it_is_too_large_is_not_read(make_state: Any, running: Any) -> None:
    with (
        running(make_state(max_body_bytes=1000)) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(raw(b"", length=10**12))
        assert client.recv(64).startswith(b"HTTP/1.1 413")


def test_the_loop_is_never_blocked(make_state: Any, running: Any) -> None:
    """While large, small and broken requests run, the loop looks up every few milliseconds."""
    big = json.dumps({"messages": [{"role": "user", "content": "some words 123\n" * 60_000}]})
    bodies = (big.encode(), SMALL, big[:-9].encode(), LARGE)
    with running(make_state(threads=2)) as server:
        # A busy machine can stop any process; what blocks the loop itself does so every time.
        longest = min(longest_pause(server, bodies) for _ in range(4))
    assert longest < 0.05, f"the loop stood still for {longest * 1e3:.0f} ms"


def longest_pause(server: Any, bodies: tuple[bytes, ...]) -> float:
    pauses: list[float] = []
    is_over = threading.Event()

    async def watch() -> None:
        last = time.monotonic()
        while not is_over.is_set():
            await asyncio.sleep(0.002)
            now = time.monotonic()
            pauses.append(now - last)
            last = now

    watching = asyncio.run_coroutine_threadsafe(watch(), server.loop)
    try:
        for body in bodies:
            for path in (CHAT, "/tokenize"):
                httpx.post(f"{server.url}{path}", content=body, headers=JSON, timeout=30)
    finally:
        is_over.set()
    watching.result(10)
    return max(pauses)


def test_nothing_on_the_loop_blocks(make_state: Any, in_process: Any) -> None:
    blockbuster = pytest.importorskip("blockbuster")

    async def test() -> None:
        async with in_process(make_state(log_requests=True)) as client:
            with blockbuster.blockbuster_ctx():
                for body in (SMALL, LARGE, b"{", b"[]"):
                    await client.post(CHAT, content=body)
                for path in ("/v1/models", "/metrics", "/ready", "/docs", "/tokenizer_info"):
                    assert (await client.get(path)).status_code == 200

    asyncio.run(test())


def test_no_thread_and_no_memory_is_left(make_state: Any, running: Any) -> None:
    with running(make_state()):
        pass
    num_threads = threading.active_count()
    with running(make_state()) as server, httpx.Client(headers=JSON) as client:
        for _ in range(50):
            client.post(f"{server.url}{CHAT}", content=LARGE)
        before = resident_bytes()
        for _ in range(300):
            client.post(f"{server.url}{CHAT}", content=LARGE)
        assert resident_bytes() - before < 20 * 2**20
    assert threading.active_count() <= num_threads


@contextlib.contextmanager
def a_process(workers: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A service in a process of its own, ready."""
    folder = Path(foreword.__file__).parent / "demo" / "model"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = "import sys; from foreword.service.serve import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", script, f"demo={folder}", "--port", str(port),
         "--workers", str(workers), "--drain-seconds", "0.3"],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: is_ready(url), 20)
        yield process, url
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=20)


@pytest.mark.parametrize("workers", [1, 2])
def test_told_to_stop_under_load_it_answers_what_it_took(workers: int) -> None:
    """Every request sent on a connection it had accepted is answered, and it ends with 0."""
    with a_process(workers) as (process, url):
        lost, answered = asyncio.run(load_and_stop(url, process))
        stderr = process.stderr.read().decode() if process.stderr else ""
        assert process.wait(20) == 0, stderr
    assert not lost
    assert answered > 20
    assert "words and words" not in stderr


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False


async def load_and_stop(url: str, process: subprocess.Popen[bytes]) -> tuple[list[str], int]:
    lost: list[str] = []
    answered = 0

    async def client() -> None:
        nonlocal answered
        async with httpx.AsyncClient(timeout=20) as session:
            while True:
                try:
                    response = await session.post(f"{url}{CHAT}", content=LARGE, headers=JSON)
                except httpx.ConnectError:
                    return  # the port is closed: this one was never taken
                except httpx.TransportError as error:
                    lost.append(repr(error))
                    return
                assert response.status_code in (200, 503)
                answered += response.status_code == 200

    clients = [asyncio.ensure_future(client()) for _ in range(8)]
    await asyncio.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(asyncio.gather(*clients), 20)
    return lost, answered


def test_workers_answer_with_the_sum_of_their_metrics() -> None:
    with a_process(workers=2) as (process, url):
        until(lambda: len(child_pids(process.pid)) == 2)
        children = child_pids(process.pid)
        # Once one says that it is ready, one that still loads takes none of them.
        for _ in range(40):
            assert httpx.post(f"{url}{CHAT}", content=SMALL, headers=JSON).status_code == 200
        line = f'foreword_answers_total{{route="{CHAT}",status="200"}} 40'
        until(lambda: line in httpx.get(f"{url}/metrics").text)
        until(lambda: "foreword_ready 2" in httpx.get(f"{url}/metrics").text)
        os.kill(children[0], signal.SIGKILL)
        # A worker that dies is replaced; what it counted stays counted.
        until(lambda: len(set(child_pids(process.pid)) - set(children)) == 1)
        until(lambda: "foreword_ready 2" in httpx.get(f"{url}/metrics").text)
        assert line in httpx.get(f"{url}/metrics").text


def child_pids(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline") as file:
                if parent == pid and "spawn_main" in file.read():
                    found.append(int(name))
    return found


def test_what_can_not_be_served_is_told_with_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from foreword.service.serve import main

    (tmp_path / "model").mkdir()
    pem = tmp_path / "key.pem"
    pem.write_text("not a key")
    tls = ["--tls-key-file", str(pem), "--tls-certificate-file", str(pem)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, code, words in (
            ([], 2, "No model"),
            (["m", "--port", port], 2, "can't be used"),
            ([str(tmp_path / "model"), "--port", "0"], 3, "tokenizer"),
            (["m", "--port", "0", *tls], 2, "TLS files"),
        ):
            assert main(arguments) == code
            told = capsys.readouterr().err
            assert words in told
            assert str(tmp_path) not in told
    assert main(["m", "--print-config"]) == 0
    assert 'models = ["m"]' in capsys.readouterr().out
