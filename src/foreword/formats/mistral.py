"""A chat request for a Mistral model enters; the conversation as mistral-common takes it leaves.

Rules of this file: the client's own messages are handed on, since mistral-common reads them
itself; only what engines change on the way is changed, in copies. Nothing is rendered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from foreword.chat.media_urls import NUMBERED
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.types import Conversation, MediaReference, Message, TokenSequence

CALL_ID_CHARS = 9
"""Characters of a tool call's id that count for Mistral models: its last ones."""

_TEXT_TYPES = ("input_text", "output_text")
_SPOKEN_TYPES = ("text", "thinking", "refusal")


def check_request(request: Any) -> None:
    """Refuse what a format that is code cannot follow.

    Raises: `InvalidRequest` for a chat template or template kwargs in the request.
    """
    if request.chat_template is not None or request.chat_template_kwargs is not None:
        raise InvalidRequest(
            "chat_template and chat_template_kwargs do not apply to Mistral models, whose chat"
            " format is not a template. Drop them.",
            param="chat_template",
        )


def native_conversation(checked: Conversation, messages: Sequence[Message]) -> Conversation:
    """Return `checked` with the client's own messages in place, as mistral-common takes them.

    Shapes: ids of tool calls keep their last 9 characters, in calls and results. An item points to
    its own number among the conversation's media.

    Raises: `InvalidRequest` for an answer asked of, or a continuation of, the wrong last message;
    `UnsupportedFeature` for other media.
    Source: vLLM 0.33 prepares Mistral requests so; unlike there, parts of the Responses API's
    text types are text.
    """
    _check_last(messages[-1], checked.add_generation_prompt, checked.continue_final_message)
    media = {one.path: one for one in checked.media if one.modality in ("image", "audio")}
    sent = (
        _prepare(message, f"messages[{place}]", media) for place, message in enumerate(messages)
    )
    return replace(checked, messages=tuple(sent))


def check_places(conversation: Conversation, tokens: TokenSequence) -> None:
    """Check that each of a conversation's media has its place among its tokens.

    Raises: `InvalidRequest` where the format shows them otherwise than they were sent.
    """
    places = [span.index for span in tokens.spans]
    if places != list(range(len(conversation.media))):
        raise InvalidRequest(
            f"The model's chat format shows {len(places)} media items, or in another order; the"
            f" request has {len(conversation.media)}. Send them in user messages.",
            param=conversation.media[0].path,
            details={"num_places": len(places), "num_items": len(conversation.media)},
        )


def _check_last(last: Message, add_generation_prompt: bool, continue_final_message: bool) -> None:
    is_assistant = last.get("role") == "assistant"
    if add_generation_prompt and is_assistant:
        raise InvalidRequest(
            "The last message is the assistant's, and add_generation_prompt asks for another of"
            " its own. Set add_generation_prompt to false, and continue_final_message to true to"
            " continue it."
        )
    if continue_final_message and not is_assistant:
        raise InvalidRequest(
            "continue_final_message is set, but the last message is not the assistant's. Set it"
            " to false, or end with the message to continue."
        )


def _prepare(message: Message, path: str, media: Mapping[str, MediaReference]) -> Message:
    changed: dict[str, Any] = {}
    content, role = message.get("content"), message.get("role")
    if isinstance(content, list | tuple):
        changed["content"] = [
            _prepare_part(part, f"{path}.content[{place}]", media)
            for place, part in enumerate(content)
        ]
    if role == "assistant":
        changed["tool_calls"] = [_prepare_call(call) for call in message.get("tool_calls") or ()]
    elif role == "tool" and isinstance(message.get("tool_call_id"), str):
        changed["tool_call_id"] = message["tool_call_id"][-CALL_ID_CHARS:]
    return {**message, **changed} if changed else message


def _prepare_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    call_id = call.get("id")
    return {**call, "id": call_id[-CALL_ID_CHARS:]} if isinstance(call_id, str) else call


def _prepare_part(
    part: Mapping[str, Any], path: str, media: Mapping[str, MediaReference]
) -> Mapping[str, Any]:
    part_type = part.get("type")
    if part_type in _TEXT_TYPES:
        return {**part, "type": "text"}
    if part_type in _SPOKEN_TYPES:
        return part
    # mistral-common fetches what a part points to, and reads files, without asking anyone.
    if path in media:
        kind = f"{media[path].modality}_url"
        return {"type": kind, kind: {"url": f"{NUMBERED}{media[path].index}"}}
    raise UnsupportedFeature(
        feature="A content part other than text, images and audio in tokenizer mode 'mistral'",
        remedy="Send the text parts only, or send the request to the engine itself.",
        param=path,
    )
