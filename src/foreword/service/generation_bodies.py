"""A generation's state enters; the JSON that OpenAI-style clients read leaves: whole, or in chunks.

Rules of this file: fields and their places are vLLM 0.33's. Token ids are told where
`return_token_ids` asks for them, and are exactly the engine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from foreword.errors import ForewordError
from foreword.protocols.error_body import error_body
from foreword.service.generation import Choice, ChoiceDelta, Generation
from foreword.service.generation_logprobs import Position, shape_of, write_prompt_logprobs

DONE = b"data: [DONE]\n\n"


class WholeAnswer:
    """Collects the deltas of one answer."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.parts: list[str] = []
        self.token_ids: list[int] = []
        self.positions: list[Position] = []
        self.finish_reason: str | None = None
        self.stop_reason: int | str | None = None

    def add(self, delta: ChoiceDelta) -> None:
        """Append what an update added."""
        self.parts.append(delta.text)
        self.token_ids += delta.token_ids
        self.positions += delta.positions
        self.finish_reason, self.stop_reason = delta.finish_reason, delta.stop_reason


def whole_body(generation: Generation, answers: Sequence[WholeAnswer]) -> bytes:
    """Return the body of an answer that is not streamed."""
    body = _head(generation, "chat.completion" if generation.is_chat else "text_completion")
    body["choices"] = [_whole_choice(generation, answer) for answer in answers]
    body["usage"] = generation.usage()
    # Of several answers those of the first prompt's are told, as there is one place for them.
    for name in ("kv_transfer_params", "ec_transfer_params"):
        num = generation.request.n or 1
        params = (getattr(answer.choice, name) for answer in answers[:num])
        body[name] = next((one for one in params if one is not None), None)
    if generation.is_chat:
        body["prompt_token_ids"] = _prompt_ids(generation, answers[0].choice)
        if generation.request.prompt_logprobs is not None:
            told = write_prompt_logprobs(answers[0].choice.prompt_positions)
            body["prompt_logprobs"] = told
    return msgspec.json.encode(body)


def first_chunk(generation: Generation, choice: Choice) -> bytes | None:
    """Return the chunk that opens one answer: a chat's role, a completion's prompt, or nothing."""
    echoed = choice.prompt_positions if generation.request.echo else ()
    if generation.is_chat:
        made = {"index": choice.index, "delta": {"role": "assistant", "content": ""}}
        chunk = _chunk(generation, made)
        chunk["prompt_token_ids"] = _prompt_ids(generation, choice)
        return event(chunk)
    prompt_ids = _prompt_ids(generation, choice)
    if prompt_ids is None and not choice.prompt_text and not echoed:
        return None
    opening = {"index": choice.index, "text": choice.prompt_text, "prompt_token_ids": prompt_ids}
    opening["logprobs"] = _logprobs(generation, choice, echoed) if echoed else None
    return event(_chunk(generation, {**opening, "finish_reason": None}))


def delta_chunk(generation: Generation, choice: Choice, delta: ChoiceDelta) -> bytes | None:
    """Return the chunk of an update; None when it has nothing to say yet."""
    wants_ids = bool(generation.request.return_token_ids)
    says_more = delta.positions or (wants_ids and delta.token_ids)
    if not delta.text and delta.finish_reason is None and not says_more:
        return None
    made: dict[str, Any] = {"index": choice.index}
    if generation.is_chat:
        made["delta"] = {"content": delta.text} if delta.text else {}
    else:
        made["text"] = delta.text
    made |= {"finish_reason": delta.finish_reason, "stop_reason": delta.stop_reason}
    made["token_ids"] = list(delta.token_ids) if wants_ids else None
    made["logprobs"] = _logprobs(generation, choice, delta.positions) if delta.token_ids else None
    chunk = _chunk(generation, made)
    if delta.finish_reason is not None and choice.kv_transfer_params is not None:
        chunk["kv_transfer_params"] = choice.kv_transfer_params
    options = generation.request.stream_options
    if options is not None and options.continuous_usage_stats:
        chunk["usage"] = generation.usage()
    return event(chunk)


def last_chunks(generation: Generation) -> bytes:
    """Return what ends a stream: the usage, where it was asked for, and the end's mark."""
    options = generation.request.stream_options
    if options is None or not options.include_usage:
        return DONE
    chunk = {**_head(generation, _chunk_kind(generation)), "choices": []}
    return event({**chunk, "usage": generation.usage()}) + DONE


def error_chunk(error: ForewordError) -> bytes:
    """Return what ends a stream that failed."""
    return event(error_body(error)) + DONE


def event(value: Any) -> bytes:
    """Return a value as one server-sent event."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _head(generation: Generation, kind: str) -> dict[str, Any]:
    return {
        "id": generation.response_id,
        "object": kind,
        "created": generation.created,
        "model": generation.model,
    }


def _chunk(generation: Generation, choice: dict[str, Any]) -> dict[str, Any]:
    choice.setdefault("finish_reason", None)
    choice.setdefault("logprobs", None)
    return {**_head(generation, _chunk_kind(generation)), "choices": [choice]}


def _chunk_kind(generation: Generation) -> str:
    return "chat.completion.chunk" if generation.is_chat else "text_completion"


def _whole_choice(generation: Generation, answer: WholeAnswer) -> dict[str, Any]:
    choice, text, positions = answer.choice, "".join(answer.parts), answer.positions
    made: dict[str, Any] = {"index": choice.index}
    if generation.is_chat:
        made["message"] = {"role": "assistant", "content": text}
    else:
        made["text"] = choice.prompt_text + text
        made["prompt_token_ids"] = _prompt_ids(generation, choice)
        if generation.request.echo:
            positions = [*choice.prompt_positions, *positions]
        if choice.engine_request.sampling.prompt_logprobs is not None:
            made["prompt_logprobs"] = write_prompt_logprobs(choice.prompt_positions)
    made |= {
        "logprobs": _logprobs(generation, choice, positions),
        "finish_reason": answer.finish_reason,
        "stop_reason": answer.stop_reason,
        "token_ids": answer.token_ids if generation.request.return_token_ids else None,
    }
    return made


def _logprobs(
    generation: Generation, choice: Choice, positions: Sequence[Position]
) -> dict[str, Any] | None:
    """Return the logprobs of the next positions of an answer; None where none are wanted."""
    shape = shape_of(generation.request)
    if shape is None:
        return None
    made = shape.write(positions, offset=choice.text_offset)
    choice.text_offset += shape.length(positions)
    return made


def _prompt_ids(generation: Generation, choice: Choice) -> list[int] | None:
    if not generation.request.return_token_ids:
        return None
    return choice.engine_request.engine_input.token_ids.tolist()


def joined(chunks: Iterable[bytes | None]) -> bytes:
    """Return the chunks that say something, as one."""
    return b"".join(chunk for chunk in chunks if chunk is not None)
