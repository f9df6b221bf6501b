"""Whatever is asked for, a prompt and its output fit the context, and every cut is told truly."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import example, given, target
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
import line_models as line
from line_models import kinds, long_texts, searching, texts

from foreword.engines.vllm_generate import GenerateRequest
from foreword.errors import InvalidRequest, PromptTooLong, PromptTooManyChars, RequestError
from foreword.renderer import Renderer
from foreword.types import EngineInput

lengths = st.integers(1, 40)
sides = st.sampled_from([None, "left", "right"])
sizes = st.none() | st.integers(-1, 45)
outputs = st.none() | st.integers(0, 45)
OUTPUT_WHEN_UNSAID = 16


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the rules of the budget make of a text: ids that fit, or an error and its field."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    num_seen: int
    """Tokens there were to cut from; the text's own number, unless a pre-cut came first."""
    is_pre_cut: bool = False


def budget(
    renderer: Renderer,
    kind: str,
    text: str,
    *,
    truncate: int | None,
    side: str | None,
    limit: int,
    default_side: str = "left",
    special: bool = True,
) -> Wanted:
    """Cut as the plain rules say: encode everything, then keep an end of it."""
    info, skipped, seen = renderer.tokenizer.info, 0, text
    max_chars = renderer.options.max_model_len * info.max_chars_per_token
    cuts_text = truncate is not None and side is not None and not info.has_proved_cuts
    if cuts_text and info.char_gate_gap is None and len(text) > max_chars:
        skipped = len(text) - max_chars if side == "left" else 0
        seen = text[skipped : skipped + max_chars]
    ids, offsets = line.full_encode(kind, seen, special=special)
    prefix, suffix = line.num_special(kind) if special else (0, 0)
    inner = range(prefix, len(ids) - suffix)
    offsets = [
        (start + skipped, stop + skipped) if place in inner else (start, stop)
        for place, (start, stop) in enumerate(offsets)
    ]
    kept: Any = range(len(ids))
    if truncate is not None and side is None and special:
        kept = line.kept_around(kind, len(ids), limit, default_side)
    elif truncate is not None:
        kept = line.kept_places(kind, len(ids), limit, side, default_side)
    return Wanted(
        ids=line.pick(ids, kept),
        offsets=line.pick(offsets, kept),
        num_seen=len(ids),
        is_pre_cut=len(seen) < len(text),
    )


def attempt(action: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what an action gives, or the error it raised on purpose; nothing else may happen."""
    try:
        return action(*args, **kwargs)
    except RequestError as error:
        return error


def check_told(engine_input: EngineInput, wanted: Wanted, text: str, side: str) -> None:
    """Check that what was decided is what is reported, and that it adds up."""
    assert list(engine_input.token_ids) == wanted.ids
    assert engine_input.num_chars == len(text)
    if engine_input.num_prompt_tokens_is_lower_bound:
        assert (
            len(wanted.ids)
            <= engine_input.num_prompt_tokens
            <= max(wanted.num_seen, len(wanted.ids))
        )
    else:
        assert engine_input.num_prompt_tokens == wanted.num_seen
        assert not wanted.is_pre_cut
    remaining = len(engine_input.token_ids) - engine_input.num_padded
    assert engine_input.num_prompt_tokens - engine_input.num_truncated == remaining
    was_cut = engine_input.num_truncated > 0 or wanted.is_pre_cut
    if was_cut:
        assert engine_input.truncated_side == side
    elif not engine_input.num_prompt_tokens_is_lower_bound:
        assert engine_input.truncated_side is None
    if engine_input.offsets is not None:
        assert len(engine_input.offsets) == len(engine_input.token_ids)
        assert list(engine_input.offsets) == wanted.offsets


@searching(300)
@given(
    kind=kinds,
    text=texts,
    max_model_len=lengths,
    max_tokens=outputs,
    truncate=sizes,
    side=sides,
    special=st.booleans(),
)
@example("bos", "the the the", 4, 1, 3, None, True)
@example("bos_eos", "the the the", 4, 1, 1, None, True)
@example("demo", "a" * 200, 2, 1, -1, "left", True)
@example("demo", "é" * 9 + "b" * 200, 2, 1, -1, "right", True)
@example("demo, uncut", "é" * 9 + "b" * 200, 2, 1, -1, "right", True)
@example("bos_eos, uncut", "b" * 200 + "é" * 9, 3, 1, -1, "left", True)
@example("bos_eos, uncut", "12345 the" * 99, 9, 1, 7, "left", True)
@example("bos_eos, uncut", "12345 the" * 99, 9, 1, 7, "right", True)
@example("bos_eos, uncut", "the" * 99 + "é", 5, 1, 3, "left", True)
@example("demo", "the", 1, None, None, None, True)
def test_a_completion_fits_or_is_refused(
    kind: str,
    text: str,
    max_model_len: int,
    max_tokens: int | None,
    truncate: int | None,
    side: str | None,
    special: bool,
) -> None:
    renderer = line.model(kind, max_model_len)
    body = {
        "prompt": text,
        "max_tokens": max_tokens,
        "truncate_prompt_tokens": truncate,
        "truncation_side": side,
        "add_special_tokens": special,
        "return_token_offsets": True,
    }
    got = attempt(renderer.generate_request, body, kind="completion")
    rendered = attempt(renderer.render_cmpl, body)
    asked = OUTPUT_WHEN_UNSAID if max_tokens is None else max_tokens
    if not text:
        assert isinstance(got, InvalidRequest)
        assert got.param == "prompt"
        return
    if asked > max_model_len:
        assert isinstance(got, InvalidRequest)
        assert got.param == "max_tokens"
        return
    if truncate is not None and truncate > max_model_len:
        assert isinstance(got, InvalidRequest)
        assert got.param == "truncate_prompt_tokens"
        return
    room = max_model_len if asked == 0 else max_model_len - 1
    wanted = budget(
        renderer,
        kind,
        text,
        truncate=truncate,
        side=side,
        limit=room if truncate == -1 else (truncate or 0),
        special=special,
    )
    target(float(wanted.num_seen - len(wanted.ids)))
    if len(wanted.ids) > room:
        was_cut = wanted.num_seen > len(wanted.ids)
        assert is_too_long(got, was_cut=was_cut)
        assert is_too_long(rendered, was_cut=was_cut)
        return
    if not wanted.ids:
        assert isinstance(got, InvalidRequest)
        assert got.param == "prompt"
        return
    assert isinstance(rendered, list), "what fits is never refused"
    (engine_input,) = rendered
    check_told(engine_input, wanted, text, side or "left")
    if asked == 0:
        assert isinstance(got, RequestError), "nothing is generated, so nothing is asked of it"
        return
    assert isinstance(got, list)
    (generated,) = got
    assert isinstance(generated, GenerateRequest)
    output = generated.sampling_params.max_tokens
    assert list(generated.token_ids) == wanted.ids
    assert output == min(asked, max_model_len - len(wanted.ids))
    assert output >= 1
    assert len(generated.token_ids) + output <= max_model_len


def is_too_long(got: Any, *, was_cut: bool) -> bool:
    """A prompt that fills the context: the caller's own cut is named, if there was one."""
    if was_cut:
        return isinstance(got, InvalidRequest) and got.param == "truncate_prompt_tokens"
    return isinstance(got, PromptTooLong)


@searching(150)
@given(
    kind=kinds,
    text=texts,
    max_model_len=lengths,
    max_tokens=outputs,
    completion_tokens=outputs,
    truncate=sizes,
    side=sides,
    ceiling=st.none() | st.integers(1, 20),
    default=st.none() | st.integers(1, 60),
)
def test_a_chat_fits_or_is_refused(
    kind: str,
    text: str,
    max_model_len: int,
    max_tokens: int | None,
    completion_tokens: int | None,
    truncate: int | None,
    side: str | None,
    ceiling: int | None,
    default: int | None,
) -> None:
    renderer = line.model(
        kind,
        max_model_len,
        max_new_tokens=ceiling,
        sampling_defaults={} if default is None else {"max_tokens": default},
    )
    body = {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "max_completion_tokens": completion_tokens,
        "truncate_prompt_tokens": truncate,
        "truncation_side": side,
    }
    got = attempt(renderer.generate_request, body)
    asked = max_tokens if completion_tokens is None else completion_tokens
    name = "max_tokens" if completion_tokens is None else "max_completion_tokens"
    if isinstance(got, RequestError):
        asks_too_much = (asked or 0) > max_model_len or (truncate or 0) > max_model_len
        # A generation may keep no token of a prompt in a context of one.
        asks_nothing = asked == 0 or truncate == 0 or (truncate == -1 and max_model_len == 1)
        fills_it = truncate == max_model_len and is_too_long(got, was_cut=True)
        assert asks_too_much or asks_nothing or fills_it or isinstance(got, PromptTooLong)
        if (asked or 0) > max_model_len:
            assert got.param == name
        return
    assert isinstance(got, GenerateRequest)
    output, num_prompt = got.sampling_params.max_tokens, len(got.token_ids)
    limits = (
        max_model_len - num_prompt,
        asked if asked is not None else default,
        ceiling,
    )
    assert num_prompt >= 1
    assert output == min(limit for limit in limits if limit is not None)
    assert output >= 1
    assert num_prompt + output <= max_model_len


@searching(150)
@given(
    num=st.integers(1, 60),
    max_model_len=lengths,
    max_tokens=st.integers(1, 45),
    truncate=sizes,
    side=sides,
    refuses=st.booleans(),
)
def test_given_ids_fit_or_are_refused(
    num: int,
    max_model_len: int,
    max_tokens: int,
    truncate: int | None,
    side: str | None,
    refuses: bool,
) -> None:
    renderer = line.model("bos", max_model_len, refuse_overflow=refuses)
    prompt = list(range(10, 10 + num))
    body = {
        "prompt": prompt,
        "max_tokens": max_tokens,
        "truncate_prompt_tokens": truncate,
        "truncation_side": side,
    }
    got = attempt(renderer.generate_request, body)
    if max_tokens > max_model_len or (truncate or 0) > max_model_len or truncate == 0:
        assert isinstance(got, InvalidRequest)
        return
    limit = max_model_len - 1 if truncate == -1 else truncate
    # Nothing was added to given ids, so there is nothing special to keep.
    kept = line.pick(prompt, line.kept_places("bos", num, limit, side, "left"))
    if len(kept) >= max_model_len:
        assert is_too_long(got, was_cut=len(kept) < num)
        return
    if refuses and len(kept) + max_tokens > max_model_len:
        assert isinstance(got, PromptTooLong)
        return
    if not kept:  # a context of one token, cut down to what a generation may keep: nothing
        assert isinstance(got, InvalidRequest)
        return
    assert isinstance(got, list)
    assert list(got[0].token_ids) == kept
    assert len(kept) + got[0].sampling_params.max_tokens <= max_model_len


@searching(200)
@given(
    kind=kinds,
    text=texts.filter(bool),
    max_model_len=lengths,
    truncate=sizes,
    side=sides,
    pad=st.none() | st.integers(-1, 60),
    padding=st.sampled_from([None, "max_length", "do_not_pad"]),
    special=st.booleans(),
)
@example("bos", "the the", 3, -1, None, -1, None, True)
@example("bos_eos", "the", 20, 1, None, 10, None, True)
def test_pooling_has_the_whole_context(
    kind: str,
    text: str,
    max_model_len: int,
    truncate: int | None,
    side: str | None,
    pad: int | None,
    padding: str | None,
    special: bool,
) -> None:
    renderer = line.model(kind, max_model_len, runner="pooling")
    body = {
        "input": [text],
        "truncate_prompt_tokens": truncate,
        "truncation_side": side,
        "pad_prompt_tokens": pad,
        "padding": padding,
        "add_special_tokens": special,
        "return_token_offsets": True,
    }
    got = attempt(renderer.render_pooling, body)
    if truncate is not None and truncate > max_model_len:
        assert isinstance(got, InvalidRequest)
        assert got.param == "truncate_prompt_tokens"
        return
    size = pad if padding is None else (-1 if padding == "max_length" else None)
    if size is not None and size > max_model_len:
        assert isinstance(got, InvalidRequest)
        assert got.param == "pad_prompt_tokens"
        return
    wanted = budget(
        renderer,
        kind,
        text,
        truncate=truncate,
        side=side,
        limit=max_model_len if truncate == -1 else (truncate or 0),
        default_side="right",
        special=special,
    )
    size = max_model_len if size == -1 else size
    missing = max(0, (size or 0) - len(wanted.ids))
    pad_id = renderer.tokenizer.info.pad_token_id
    if truncate is None and isinstance(got, PromptTooManyChars):
        assert len(wanted.ids) > max_model_len, "the gate refuses only what cannot fit"
        return
    if missing and pad_id is None:
        assert isinstance(got, InvalidRequest)
        assert got.param == "pad_prompt_tokens"
        return
    padded = wanted.ids + [pad_id or 0] * missing
    if len(padded) > max_model_len:
        assert isinstance(got, PromptTooLong)
        return
    if not padded:
        assert isinstance(got, InvalidRequest)
        return
    (engine_input,) = got
    assert engine_input.num_padded == missing
    whole = Wanted(
        ids=padded,
        offsets=wanted.offsets + [(0, 0)] * missing,
        num_seen=wanted.num_seen,
        is_pre_cut=wanted.is_pre_cut,
    )
    check_told(engine_input, whole, text, side or "right")


@searching(150)
@given(kind=kinds, text=texts.filter(bool), max_model_len=st.integers(1, 6), special=st.booleans())
@example("demo", "the " * 60, 3, True)
@example("unigram", "東" * 60, 6, True)
def test_the_gate_refuses_only_what_cannot_fit(
    kind: str, text: str, max_model_len: int, special: bool
) -> None:
    renderer = line.model(kind, max_model_len)
    body = {"prompt": text * 8, "max_tokens": 1, "add_special_tokens": special}
    got = attempt(renderer.render_cmpl, body)
    num = len(line.full_encode(kind, text * 8, special=special)[0])
    if isinstance(got, PromptTooManyChars):
        assert num > max_model_len
    assert isinstance(got, PromptTooLong if num >= max_model_len else list if num else RequestError)


@searching(30)
@given(
    kind=kinds,
    text=long_texts,
    max_model_len=st.integers(3, 300),
    room=st.integers(0, 3),
    side=sides,
    special=st.booleans(),
)
def test_a_long_text_is_cut_as_if_it_were_encoded_in_full(
    kind: str, text: str, max_model_len: int, room: int, side: str | None, special: bool
) -> None:
    renderer, size = line.model(kind, max_model_len), max_model_len - room
    if size in (0, max_model_len):
        size = -1
    body = {
        "prompt": text,
        "max_tokens": 1,
        "truncate_prompt_tokens": size,
        "truncation_side": side,
        "add_special_tokens": special,
        "return_token_offsets": True,
    }
    wanted = budget(
        renderer,
        kind,
        text,
        truncate=size,
        side=side,
        limit=max_model_len - 1 if size == -1 else size,
        special=special,
    )
    got = attempt(renderer.render_cmpl, body)
    if not wanted.ids:  # a model may give no token for control characters, however many
        assert isinstance(got, InvalidRequest)
        return
    check_told(got[0], wanted, text, side or "left")
    (bare,) = renderer.render_cmpl({**body, "return_token_offsets": False})
    assert list(bare.token_ids) == wanted.ids
    full = renderer.trace(body).engine_input
    assert list(full.token_ids) == wanted.ids
    if not wanted.is_pre_cut:
        assert full.num_prompt_tokens == wanted.num_seen
        assert not full.num_prompt_tokens_is_lower_bound


@searching(80)
@given(text=texts.filter(bool), size=st.integers(1, 20), side=st.sampled_from(["left", "right"]))
def test_what_is_kept_is_one_end_of_the_text(text: str, size: int, side: str) -> None:
    body = {
        "prompt": text,
        "truncate_prompt_tokens": size,
        "truncation_side": side,
        "return_token_offsets": True,
        "add_special_tokens": False,
    }
    (engine_input,) = line.model("bos").render_cmpl(body)
    assert engine_input.offsets is not None
    spans = list(engine_input.offsets)
    first, last = spans[0][0], spans[-1][1]
    assert (last == len(text)) if side == "left" else (first == 0)
    kept = {place for start, stop in spans for place in range(start, stop)}
    assert kept == set(range(first, last)), "nothing between the kept tokens is lost"
    if not engine_input.num_truncated:
        assert (first, last) == (0, len(text))
