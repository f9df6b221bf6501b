"""The two flags that say how a chat's prompt ends enter; nothing leaves, or the error.

Rules of this file: one sentence for every entry: a body, a conversation, a template.
"""

from __future__ import annotations

from foreword.errors import InvalidRequest


def check_chat_flags(add_generation_prompt: bool, continue_final_message: bool) -> None:
    """Refuse a chat that is to be both continued and answered.

    Raises: `InvalidRequest`.
    """
    if add_generation_prompt and continue_final_message:
        raise InvalidRequest(
            "continue_final_message and add_generation_prompt are both true: the prompt can either"
            " continue the last message or open a new one. Set add_generation_prompt to false to"
            " continue."
        )
