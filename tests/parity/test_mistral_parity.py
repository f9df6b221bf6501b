"""Mode `mistral` against transformers' own wrapper of mistral-common, on real conversations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.errors import RequestError

transformers = pytest.importorskip("transformers", reason="needs the parity dependency group")
mistral_common = pytest.importorskip("mistral_common", reason="needs the extra `mistral`")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = Path(mistral_common.__file__).parent / "data"
VERSIONS = {
    "v1": ("tokenizer.model.v1", "tokenizer.model.v1"),
    "v2": ("mistral_instruct_tokenizer_240216.model.v2", "tokenizer.model.v2"),
    "v3": ("mistral_instruct_tokenizer_240323.model.v3", "tokenizer.model.v3"),
    "v7": ("mistral_instruct_tokenizer_241114.model.v7", "tokenizer.model.v7"),
    "v7m1": ("mistral_instruct_tokenizer_241114.model.v7m1", "tokenizer.model.v7m1"),
    "tekken-240718": ("tekken_240718.json", "tekken.json"),
    "tekken-240911": ("tekken_240911.json", "tekken.json"),
}
OWN = [
    {"messages": [{"role": "user", "content": "<s>[INST] Grüße 👋[/INST]"}]},
    {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_123456789", "type": "function",
                 "function": {"name": "f", "arguments": '{"x": "ü", "n": 2}'}}]},
            {"role": "tool", "tool_call_id": "call_123456789", "content": '{"ok": true}'},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {
            "type": "object", "properties": {"x": {"type": "string"}}}}}],
    },
    {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Roses are "}],
     "continue_final_message": True, "add_generation_prompt": False},
    {"messages": [{"role": "developer", "content": "d"}, {"role": "user", "content": "x"}]},
]  # fmt: skip


def conversations() -> Iterator[dict[str, Any]]:
    yield from OWN
    for path in sorted(DATA.glob("conversations/*.jsonl")):
        for line in path.read_text().splitlines():
            read = json.loads(line)
            yield {key: read[key] for key in ("messages", "tools") if read.get(key)}


def prepared(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What vLLM 0.33 does to the messages, said once more."""
    messages = json.loads(json.dumps(messages))
    for message in messages:
        if message["role"] == "assistant":
            message["tool_calls"] = message.get("tool_calls") or []
            for call in message["tool_calls"]:
                call["id"] = call["id"][-9:]
        elif message["role"] == "tool":
            message["tool_call_id"] = message["tool_call_id"][-9:]
    return messages


def theirs(tokenizer: Any, body: dict[str, Any]) -> list[int] | None:
    tools = body.get("tools")
    try:
        ids: list[int] = tokenizer.apply_chat_template(
            prepared(body["messages"]),
            tools=tools,
            continue_final_message=body.get("continue_final_message", False),
            return_dict=False,
        )
    except Exception:
        return None
    return ids


def ours(renderer: foreword.Renderer, body: dict[str, Any]) -> list[int] | None:
    last = body["messages"][-1]["role"]
    flags = {"add_generation_prompt": last != "assistant"}
    try:
        return list(renderer.render_chat({**flags, **body}).engine_input.token_ids)
    except RequestError:
        return None


@pytest.mark.witness(
    family="mode:mistral",
    what="ids of 586 real conversations, or a refusal by both: Tekken v3, SentencePiece v1, v2, v3,"
    " v7",
    against="mistral-common 1.13 through transformers 5.20",
)
@pytest.mark.parametrize("version", list(VERSIONS))
def test_every_conversation_has_the_same_ids(version: str, tmp_path: Path) -> None:
    source, name = VERSIONS[version]
    shutil.copy(FILES / source, tmp_path / name)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 1000000}')
    renderer = foreword.load(str(tmp_path), tokenizer_mode="mistral")
    witness = transformers.tokenization_mistral_common.MistralCommonBackend.from_pretrained(
        str(tmp_path)
    )
    num_asked = num_rendered = 0
    for body in conversations():
        expected = theirs(witness, body)
        assert ours(renderer, body) == expected
        num_asked += 1
        num_rendered += expected is not None
    print(f"{version}: {num_rendered} of {num_asked} rendered, the others refused by both")
    assert num_rendered >= 2


@pytest.mark.witness(
    family="mode:mistral",
    what="decoding",
    against="mistral-common 1.13 through transformers 5.20",
)
@pytest.mark.parametrize("version", ["v3", "tekken-240718"])
def test_text_is_decoded_alike(version: str, tmp_path: Path) -> None:
    source, name = VERSIONS[version]
    shutil.copy(FILES / source, tmp_path / name)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 1000000}')
    tokenizer = foreword.load(str(tmp_path), tokenizer_mode="mistral").tokenizer
    witness = transformers.tokenization_mistral_common.MistralCommonBackend.from_pretrained(
        str(tmp_path)
    )
    for text in ("Hello world", " lead", "Grüße 👋", "a\nb  c", "lang:en hi"):
        ids = [*tokenizer.encode(text, add_special_tokens=True).token_ids, 2]
        assert ids[:-1] == witness.encode(text)
        for skip in (True, False):
            for end in range(1, len(ids)):
                assert tokenizer.decode(ids[:end], skip_special_tokens=skip) == witness.decode(
                    ids[:end], skip_special_tokens=skip
                )
