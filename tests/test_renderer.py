"""The entries of a renderer: what is common to all of them, and what several prompts share."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import foreword
from foreword.demo import model_folder
from foreword.engines.vllm_generate import to_dict, to_json
from foreword.errors import InvalidRequest, InvalidTokenIds, MalformedRequest, PromptTooLong

CHAT = {"messages": [{"role": "user", "content": "Hello"}]}
LAST = 2815
"""The last id of the demo's model."""


@pytest.fixture(scope="module")
def renderer() -> foreword.Renderer:
    return foreword.load(model_folder())


def test_prompts_of_one_request_share_the_base_of_their_ids(renderer: foreword.Renderer) -> None:
    made = renderer.generate_request({"prompt": ["a", "b", "c"]})
    assert isinstance(made, list)
    bases = {re.fullmatch(r"cmpl-([0-9a-f]{16})-(\d)", one.request_id).groups() for one in made}  # type: ignore[union-attr]
    assert {place for _, place in bases} == {"0", "1", "2"}
    assert len({base for base, _ in bases}) == 1
    again = renderer.generate_request({"prompt": ["a", "b"]})
    assert isinstance(again, list)
    assert again[0].request_id[:21] != made[0].request_id[:21]
    (named, _) = renderer.generate_request({"prompt": ["a", "b"], "request_id": "r"})  # type: ignore[misc]
    assert named.request_id == "cmpl-r-0"


def test_a_request_for_the_engine_writes_itself(renderer: foreword.Renderer) -> None:
    made = renderer.generate_request({**CHAT, "request_id": "r"})
    assert not isinstance(made, list)
    assert made.to_dict() == to_dict(made) == json.loads(made.to_json())
    assert made.to_json() == to_json(made)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: data.decode()])
def test_a_body_may_be_any_kind_of_bytes_or_text(renderer: foreword.Renderer, kind: Any) -> None:
    body = json.dumps(CHAT).encode()
    expected = renderer.render_chat(CHAT).engine_input.token_ids
    for data in (body, b"\xef\xbb\xbf" + body):
        given = kind(data)
        assert renderer.render_chat(given).engine_input.token_ids == expected
        assert renderer.trace(given).engine_input.token_ids == expected
        assert renderer.tokenize(given).count == len(expected)
        assert renderer.generate_request(given).token_ids == expected  # type: ignore[union-attr]


@pytest.mark.parametrize("body", [None, [], 5, 1.5, object()])
def test_what_is_no_body_is_malformed(renderer: foreword.Renderer, body: Any) -> None:
    for call in (
        renderer.render_chat,
        renderer.render_cmpl,
        renderer.render_pooling,
        renderer.generate_request,
        renderer.tokenize,
        renderer.detokenize,
        renderer.trace,
    ):
        with pytest.raises(MalformedRequest):
            call(body)


@pytest.mark.parametrize("token_id", [LAST + 1, 2**32, 2**64, 10**30])
def test_an_id_outside_gets_the_models_own_bound(
    renderer: foreword.Renderer, token_id: int
) -> None:
    for prompt, param in (
        ([5, token_id], "prompt"),
        ([[5, token_id]], "prompt"),
        ([[1], [5, token_id], [1]], "prompt[1]"),
    ):
        for body in ({"prompt": prompt}, json.dumps({"prompt": prompt})):
            with pytest.raises(InvalidTokenIds, match=f"from 0 to {LAST}\\.") as caught:
                renderer.render_cmpl(body)
            assert caught.value.param == param
            assert caught.value.details == {
                "token_id": token_id,
                "position": 1,
                "max_token_id": LAST,
            }
    with pytest.raises(InvalidTokenIds, match=f"from 0 to {LAST}\\.") as caught:
        renderer.detokenize({"tokens": [token_id]})
    assert caught.value.param == "tokens"
    with pytest.raises(InvalidTokenIds) as caught:
        renderer.render_pooling({"input": [[1], [token_id]]})
    assert caught.value.param == "input[1]"


def test_of_several_prompts_the_one_at_fault_is_named() -> None:
    renderer = foreword.load(model_folder(), max_model_len=20)
    long = "word " * 100
    with pytest.raises(PromptTooLong, match=r"^prompt\[1\]: The prompt has ") as caught:
        renderer.render_cmpl({"prompt": ["a", long], "max_tokens": 1})
    assert caught.value.param in ("input_tokens", "input_text")  # as for a single prompt
    with pytest.raises(InvalidRequest, match=r"^max_tokens is 21") as refused:
        renderer.render_cmpl({"prompt": ["a", "b"], "max_tokens": 21})
    assert refused.value.param == "max_tokens"


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_less_than_no_output_is_refused_at_every_entry(
    renderer: foreword.Renderer, field: str
) -> None:
    for call in (renderer.render_chat, renderer.trace, renderer.generate_request):
        with pytest.raises(InvalidRequest, match=f"^{field} is -5") as caught:
            call({**CHAT, field: -5})
        assert caught.value.param == field
    with pytest.raises(InvalidRequest) as caught:
        renderer.generate_request({**CHAT, field: 0})
    assert caught.value.param == field


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {str(LAST + 1): 1}},
        {"stop_token_ids": [LAST + 1]},
        {"allowed_token_ids": [LAST + 1]},
    ],
)
def test_ids_for_the_sampler_are_ids_of_the_model(
    renderer: foreword.Renderer, fields: dict[str, Any]
) -> None:
    (field,) = fields
    with pytest.raises(InvalidTokenIds, match=f"from 0 to {LAST}") as caught:
        renderer.generate_request({**CHAT, **fields})
    assert caught.value.param == field


@pytest.mark.parametrize(
    ("template", "line"), [("{% if %}", 1), ("a\n{% if true %}{{ 1 | nope }}{% endif %}", 2)]
)
def test_a_broken_template_of_the_requests_is_the_requests_fault(template: str, line: int) -> None:
    renderer = foreword.load(model_folder(), trust_request_chat_template=True)
    for body in (
        {**CHAT, "chat_template": template},
        {**CHAT, "chat_template_kwargs": {"chat_template": template}},
    ):
        with pytest.raises(InvalidRequest, match="request's chat template is broken") as caught:
            renderer.render_chat(body)
        assert (caught.value.status, caught.value.param) == (400, "chat_template")
        assert caught.value.details["line"] == line


def test_a_cut_for_pooling_needs_its_side_where_the_model_generates(
    renderer: foreword.Renderer,
) -> None:
    body = {"input": list(range(300, 310)), "truncate_prompt_tokens": 3}
    with pytest.raises(InvalidRequest, match="runner 'generate'") as caught:
        renderer.render_pooling(body)
    assert caught.value.param == "truncation_side"
    (cut,) = renderer.render_pooling({**body, "truncation_side": "right"})
    pooling = foreword.load(model_folder(), runner="pooling")
    assert list(cut.token_ids) == [300, 301, 302]
    assert pooling.render_pooling(body)[0].token_ids == cut.token_ids
