"""docs/architecture.md tells the truth: its numbers are those of the demo request."""

from __future__ import annotations

import json
from pathlib import Path

import foreword
from foreword import demo

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()


def said(sentence: str) -> bool:
    return " ".join(sentence.split()) in " ".join(PAGE.split())


def test_the_numbers_are_real() -> None:
    renderer = foreword.load(demo.model_folder())
    trace = renderer.trace(json.dumps(demo.DEMO_REQUEST).encode())
    assert trace.conversation is not None
    assert trace.rendered is not None
    assert trace.template is not None
    tools = trace.conversation.tools or ()
    assert said(f"{len(json.dumps(demo.DEMO_REQUEST).encode()):,} bytes of JSON")
    assert said(f"{len(trace.conversation.messages)} messages and {len(tools)} tools")
    assert said(f"this one wants parts: `{trace.template.content_format}`")
    assert said(f"{len(trace.rendered.text):,} characters. The compiled template")
    length, longest = renderer.options.max_model_len, renderer.tokenizer.info.max_chars_per_token
    assert said(f"{length:,} tokens of at most {longest} characters could stand for")
    assert said(f"stand for {length * longest:,} characters")
    assert said(f"The `TokenSequence` has {len(trace.tokens.token_ids)} ids")
    made = renderer.generate_request(demo.DEMO_REQUEST)
    assert not isinstance(made, list)
    assert said(f"beside the prompt ({made.sampling_params.max_tokens} here")


def test_the_cut_is_real() -> None:
    body = {**demo.DEMO_REQUEST, "truncate_prompt_tokens": 200, "truncation_side": "left"}
    cut = foreword.load(demo.model_folder()).render_chat(body).engine_input
    assert said(
        f"{cut.num_prompt_tokens} tokens before, {cut.num_truncated} removed from the"
        f" {cut.truncated_side}, {len(cut.token_ids)} left"
    )
