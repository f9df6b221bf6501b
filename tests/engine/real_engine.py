"""A real vLLM engine on this machine's CPU, with random weights: started, watched, ended.

Rules of this file: it runs in the environment FOREWORD_ENGINE_ENV names (scripts/engine_env). Its
model is the demo model's tokenizer with a tiny random network: answers are nonsense, but always the
same, and no two tokens are nearly alike in probability.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from array import array
from pathlib import Path
from typing import Any

import msgspec
import zmq

import foreword.demo

DEMO = Path(foreword.demo.__file__).parent / "model"
ENVIRONMENT = os.environ.get("FOREWORD_ENGINE_ENV")
START_SECONDS = 240


def make_model(folder: Path) -> Path:
    """Write a model folder with random weights."""
    shutil.copytree(DEMO, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    ids = [*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])]
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": (max(ids) + 64) // 64 * 64,
    }
    (folder / "config.json").write_text(json.dumps(config))
    write_weights(folder / "model.safetensors", config)
    return folder


def write_weights(file: Path, config: dict[str, Any]) -> None:
    """Write weights that tell tokens apart; vLLM's own random ones are too small for that."""
    size, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = (config[f"num_{kind}_heads"] * head for kind in ("attention", "key_value"))
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens": (config["vocab_size"], size), "norm": (size,),
    }  # fmt: skip
    for layer in range(config["num_hidden_layers"]):
        for name, shape in (
            ("self_attn.q_proj", (queries, size)), ("self_attn.k_proj", (keys, size)),
            ("self_attn.v_proj", (keys, size)), ("self_attn.o_proj", (size, queries)),
            ("self_attn.q_norm", (head,)), ("self_attn.k_norm", (head,)),
            ("mlp.gate_proj", (inner, size)), ("mlp.up_proj", (inner, size)),
            ("mlp.down_proj", (size, inner)),
            ("input_layernorm", (size,)), ("post_attention_layernorm", (size,)),
        ):  # fmt: skip
            shapes[f"layers.{layer}.{name}"] = shape
    rng, header, data = random.Random(7), {}, bytearray()
    for name, shape in shapes.items():
        start, is_norm = len(data), len(shape) == 1
        values = (1.0 if is_norm else rng.gauss(0, 0.3) for _ in range(math.prod(shape)))
        data += array("f", values).tobytes()
        header[f"model.{name}.weight"] = {
            "dtype": "F32", "shape": shape, "data_offsets": [start, len(data)],
        }  # fmt: skip
    told = json.dumps(header).encode()
    file.write_bytes(len(told).to_bytes(8, "little") + told + data)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        port: int = made.getsockname()[1]
        return port


class RealEngine:
    """One engine process and all that it starts; `args` go to `vllm serve`."""

    def __init__(self, model: Path, log: Path, *args: str) -> None:
        assert ENVIRONMENT is not None
        self.log = log
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"},
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "PATH": f"{ENVIRONMENT}/bin:{os.environ.get('PATH', '')}",
        }
        command = [
            f"{ENVIRONMENT}/bin/vllm", "serve", str(model), "--served-model-name", "tiny",
            "--dtype", "float32", "--max-model-len", "4096",
            "--enforce-eager", *args,
        ]  # fmt: skip
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                command, env=environment, stdout=sink, stderr=sink, start_new_session=True
            )

    @classmethod
    def headless(cls, model: Path, log: Path, port: int, *, events_port: int) -> RealEngine:
        """Start an engine that says hello at a front end, and tells the blocks it stores."""
        events = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{events_port}",
        }
        return cls(
            model, log, "--headless", "--data-parallel-address", "127.0.0.1",
            "--data-parallel-rpc-port", str(port), "--data-parallel-size-local", "1",
            "--kv-events-config", json.dumps(events),
        )  # fmt: skip

    @classmethod
    def server(cls, model: Path, log: Path, port: int) -> RealEngine:
        """Start an engine behind its own HTTP server, and wait until it answers."""
        made = cls(model, log, "--enable-scale-out", "--host", "127.0.0.1", "--port", str(port))
        stop_at = time.monotonic() + START_SECONDS
        while not is_well(port):
            assert made.process.poll() is None, made.last_words()
            assert time.monotonic() < stop_at, made.last_words()
            time.sleep(0.5)
        return made

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """End it and its children at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def is_well(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def post(port: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask the engine's own server."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        made: dict[str, Any] = json.load(answer)
        return made


class StoredBlocks:
    """What an engine tells of the blocks its prefix cache stores."""

    def __init__(self, port: int) -> None:
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.connect(f"tcp://127.0.0.1:{port}")
        self._socket.subscribe(b"")
        time.sleep(0.5)  # a subscription takes a moment

    def read(self, num: int, seconds: float = 20) -> list[dict[str, Any]]:
        """Return the next `BlockStored` events, until they name `num` blocks."""
        found: list[dict[str, Any]] = []
        while sum(len(event["block_hashes"]) for event in found) < num:
            assert self._socket.poll(int(seconds * 1000)), f"only {found}"
            _, _, payload = self._socket.recv_multipart()
            _, events, *_ = msgspec.msgpack.decode(payload)
            found += [event for event in events if event["type"] == "BlockStored"]
        return found

    def close(self) -> None:
        self._socket.close(linger=0)
