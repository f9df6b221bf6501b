"""What the benchmarks of the service share: chats to send, a bare client, servers to start.

Rules of this file: text is real (the standard library's source) and new in every chat; servers
listen on 127.0.0.1 and end with the block that started them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATH = "/v1/chat/completions/render"
TURN_CHARS = 1000
CHARS_PER_TOKEN = 3.1  # of this text under Qwen3's tokenizer


# -- what is sent ----------------------------------------------------------------------------------


def source_lines() -> list[str]:
    """Return real text: the lines of the standard library's modules."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    lines: list[str] = []
    for path in sorted(folder.glob("*.py"))[:120]:
        lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if len(line) > 10]


class Talk:
    """Makes chats of a given size; each is new text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = source_lines()

    def text(self, num_chars: int) -> str:
        made: list[str] = []
        size = 0
        while size < num_chars:
            line = f"{self.random.randrange(10**6)} {self.random.choice(self.lines)}"
            made.append(line)
            size += len(line) + 1
        return "\n".join(made)[:num_chars]

    def chat(self, num_tokens: int) -> list[dict[str, str]]:
        """Return a chat of about `num_tokens`: turns of at most 4000 characters."""
        left = int(num_tokens * CHARS_PER_TOKEN)
        messages = []
        while left > 0:
            size = min(left, 4000)
            role = "assistant" if len(messages) % 2 else "user"
            messages.append({"role": role, "content": self.text(size)})
            left -= size
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": "Go on."})
        return messages


def request(messages: list[dict[str, str]], model: str) -> bytes:
    """Return a whole HTTP request."""
    body = json.dumps({"model": model, "messages": messages, "max_tokens": 16}).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def workloads(model: str, count: int, seed: int) -> dict[str, list[bytes]]:
    """Return the requests of every workload, in the order they are sent by one connection."""
    talk = Talk(seed)
    small = [request(talk.chat(200), model) for _ in range(count * 5)]
    middle = [request(talk.chat(8_000), model) for _ in range(count * 2)]
    cold = [request(talk.chat(128_000), model) for _ in range(count)]
    chat = talk.chat(126_000)
    growing = []
    for _ in range(count + 1):
        growing.append(request(chat, model))
        answer = {"role": "assistant", "content": talk.text(TURN_CHARS // 2)}
        question = {"role": "user", "content": talk.text(TURN_CHARS // 2)}
        chat = [*chat, answer, question]
    return {"200 tokens": small, "8k": middle, "128k cold": cold, "128k growing": growing}


# -- a client --------------------------------------------------------------------------------------


class Client:
    """One kept connection that sends bytes and reads one answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(4 * 2**20)

    def send(self, data: bytes) -> tuple[float, bytes]:
        """Return the seconds from the first byte sent to the last received, and the body."""
        started = time.perf_counter()
        self.socket.sendall(data)
        view = memoryview(self.buffer)
        size = self.socket.recv_into(view)
        while (end := self.buffer.find(b"\r\n\r\n", 0, size)) < 0:
            size += self.socket.recv_into(view[size:])
        head = bytes(self.buffer[:end]).lower()
        if b"content-length:" in head:
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            while size < end + 4 + length:
                size += self.socket.recv_into(view[size:])
        else:
            while not self.buffer.endswith(b"0\r\n\r\n", 0, size):
                size += self.socket.recv_into(view[size:])
        seconds = time.perf_counter() - started
        assert b" 200 " in head.split(b"\r\n")[0], bytes(self.buffer[:size])[:500]
        return seconds, bytes(self.buffer[end + 4 : size])


# -- two servers -----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@contextlib.contextmanager
def running(command: list[str], port: int, path: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, wait until `path` answers 200, and end it after."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_until_ready(process, port, path, log)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str, log: Any) -> None:
    stop_at = time.monotonic() + 120
    while time.monotonic() < stop_at:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            if b" 200 " in client.recv(64):
                return
        time.sleep(0.1)
    log.seek(0)
    raise SystemExit(f"The server did not start:\n{log.read().decode()[-2000:]}")


def foreword_command(options: argparse.Namespace, port: int, *further: str) -> list[str]:
    script = "import sys; from foreword.service.serve import main; sys.exit(main(sys.argv[1:]))"
    model = f"{Path(options.model).name}={options.model}"
    flags = ["--port", str(port), "--log-level", "warning", "--max-model-len", "262144"]
    return [sys.executable, "-c", script, model, *flags, *further, *options.flags]


def vllm_command(options: argparse.Namespace, port: int) -> list[str]:
    name = Path(options.model).name
    return [
        options.vllm_rs, "render", options.model, "--port", str(port), "--host", "127.0.0.1",
        "--max-model-len", "262144", "--served-model-name", name,
    ]  # fmt: skip


def resident_megabytes(pid: int) -> float:
    """Return what a process and its children hold."""
    status = Path(f"/proc/{pid}/status").read_text()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = int(status.split("VmRSS:")[1].split()[0]) / 1024
    return own + sum(resident_megabytes(int(child)) for child in children)
