"""A `GenerateRequest` with expanded media enters; one that lets the engine expand them leaves.

Rules of this file: the engine gets the ids with one placeholder an item, and each item as the
client sent it, named by its identity. Both forms of a request ask for the same prompt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from foreword.engines.vllm_generate import GenerateRequest
from foreword.errors import InvalidRequest
from foreword.trace import Trace
from foreword.types import MediaReference


def with_content_parts(request: GenerateRequest, line: Trace) -> GenerateRequest:
    """Return `request` with the media of its line as `content_parts`.

    Raises: `InvalidRequest` where tokens were cut or padded, which the engine can't repeat.

    Source: vLLM 0.33 `/inference/v1/generate`; it takes a given uuid as the item's hash.
    """
    if line.unexpanded is None or line.conversation is None:
        return request
    engine_input = line.engine_input
    if engine_input.num_truncated or engine_input.num_padded:
        raise InvalidRequest(
            f"The prompt was cut by {engine_input.num_truncated} tokens and padded by"
            f" {engine_input.num_padded}, but as content_parts the engine expands the media of the"
            " whole prompt itself. Ask for features, or leave truncation and padding out.",
            param="truncate_prompt_tokens",
            details={
                "num_truncated": engine_input.num_truncated,
                "num_padded": engine_input.num_padded,
            },
        )
    parts = [
        _part(reference, item.identity)
        for reference, item in zip(line.conversation.media, line.items, strict=True)
    ]
    return replace(
        request,
        token_ids=line.unexpanded.token_ids,
        token_offsets=None if request.token_offsets is None else line.unexpanded.offsets,
        features=None,
        content_parts=parts,
    )


def _part(reference: MediaReference, identity: str) -> dict[str, Any]:
    part: dict[str, Any] = {"type": f"{reference.modality}_url", "uuid": identity}
    # Without a URL the engine is asked for what it has cached under the uuid.
    return part if reference.url is None else {**part, "url": reference.url}
