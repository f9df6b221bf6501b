"""The last station: parameters and block hashes, as the request and the operator want them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.blocks import BlockHasher, LoraKey, hash_blocks
from foreword.errors import InvalidRequest
from foreword.options import BlockHashing, MediaOptions

DEMO = Path(foreword.__file__).parent / "demo" / "model"
HASHER = BlockHasher(block_size=4, seed="7")
MESSAGES = [{"role": "user", "content": "How many blocks does this chat fill in the cache?"}]


@pytest.fixture(scope="module")
def renderer() -> foreword.Renderer:
    hashing = BlockHashing(hasher=HASHER, lora_paths={"adapter": "/adapters/a"})
    return foreword.load(str(DEMO), block_hashing=hashing)


def told(made: Any) -> dict[str, Any]:
    wire: dict[str, Any] = json.loads(made.to_json())
    assert wire == json.loads(json.dumps(made.to_dict()))
    return wire


@pytest.mark.parametrize("salt", [None, "tenant"])
@pytest.mark.parametrize("model", [None, "any", "adapter"])
def test_a_chat_tells_its_block_hashes(
    renderer: foreword.Renderer, model: str | None, salt: str | None
) -> None:
    body = {"messages": MESSAGES, "model": model, "cache_salt": salt, "return_block_hashes": True}
    made = renderer.generate_request(body)
    assert not isinstance(made, list)
    lora = LoraKey("adapter", "/adapters/a") if model == "adapter" else None
    expected = hash_blocks(made.token_ids, hasher=HASHER, lora=lora, cache_salt=salt)
    assert len(expected) == len(made.token_ids) // 4 > 3
    assert told(made)["block_hashes"] == {
        "block_size": 4, "algorithm": "sha256", "hashes": [one.hex() for one in expected],
    }  # fmt: skip


def test_every_prompt_of_a_completion_tells_its_own(renderer: foreword.Renderer) -> None:
    body = {"prompt": [[5, 6, 7, 8, 9], [5, 6, 7]], "return_block_hashes": True}
    first, second = renderer.generate_request(body)  # type: ignore[misc]
    expected = hash_blocks(first.token_ids, hasher=HASHER)
    assert told(first)["block_hashes"]["hashes"] == [expected[0].hex()]
    assert told(second)["block_hashes"]["hashes"] == []


def test_hashes_are_of_the_ids_that_are_left(renderer: foreword.Renderer) -> None:
    body = {"prompt": "one two three four five six", "truncate_prompt_tokens": 5}
    (made,) = renderer.generate_request({**body, "return_block_hashes": True})  # type: ignore[misc]
    assert made.block_hashes is not None
    assert list(made.block_hashes) == hash_blocks(made.token_ids, hasher=HASHER)
    (fitting,) = renderer.render_cmpl(body)
    assert renderer.block_hashes(fitting) == made.block_hashes


def test_they_are_told_only_when_asked_for(renderer: foreword.Renderer) -> None:
    made = renderer.generate_request({"messages": MESSAGES})
    assert not isinstance(made, list)
    assert "block_hashes" not in told(made)


def test_without_a_block_size_they_are_refused() -> None:
    renderer = foreword.load(str(DEMO))
    for body in ({"messages": MESSAGES}, {"prompt": "x"}):
        with pytest.raises(InvalidRequest, match="hash_block_size") as caught:
            renderer.generate_request({**body, "return_block_hashes": True})
        assert caught.value.param == "return_block_hashes"
        renderer.generate_request(body)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"hasher": "sha256"}, "hasher"),
        ({"hasher": HASHER, "lora_paths": ["a"]}, "lora_paths"),
        ({"hasher": HASHER, "lora_paths": {"a": ""}}, "lora_paths"),
        ({"hasher": HASHER, "memo_bytes": -1}, "memo_bytes"),
    ],
)
def test_options_that_are_none_are_refused(wrong: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        BlockHashing(**wrong)
    assert caught.value.param == param
    with pytest.raises(InvalidRequest):
        foreword.load(str(DEMO), block_hashing=MediaOptions())  # type: ignore[arg-type]
