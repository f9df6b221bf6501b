"""A tokenizer and Alpamayo 2 Super's configuration enter; its trajectory tokens are added.

Rules of this file: what is there keeps its id. Where the configuration says which ids the model was
trained with, any other is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer

from foreword.errors import AssetsInvalid

_NAMES = (
    "prompt_start prompt_end image_start image_pre_tkn image_end traj_history_start"
    " traj_history_pre_tkn traj_history_end cot_start cot_end meta_action_start meta_action_end"
    " traj_future_start traj_future_pre_tkn traj_future_end traj_history traj_future image_pad"
    " vectorized_wm vectorized_wm_start vectorized_wm_end vectorized_wm_pre_tkn route_start"
    " route_pad route_end question_start question_end answer_start answer_end"
)
SPECIAL = tuple(f"<|{name}|>" for name in _NAMES.split())
"""In the order of their ids, which follow those of the trajectory's steps."""
_ROLES = {
    "history_start": "<|traj_history_start|>",
    "history_end": "<|traj_history_end|>",
    "history_pad": "<|traj_history|>",
    "future_start": "<|traj_future_start|>",
    "future_end": "<|traj_future_end|>",
    "future_pad": "<|traj_future|>",
}
_DEFAULT_NUM_HISTORY, _DEFAULT_NUM_FUTURE = 1000, 3000


def add_trajectory_tokens(tokenizer: Tokenizer, config: Mapping[str, Any]) -> None:
    """Add `<i0>` and so on, then the model's special tokens, which have no role.

    Raises: `AssetsInvalid` when config.json's `traj_ids` disagree with the ids that follow.
    Source: vLLM 0.33's tokenizer mode `alpamayo2_super`.
    """
    num_history = _count(config, "history_vocab_size", _DEFAULT_NUM_HISTORY)
    num_steps = num_history + _count(config, "future_vocab_size", _DEFAULT_NUM_FUTURE)
    tokenizer.add_tokens([f"<i{place}>" for place in range(num_steps)])
    special = [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
    tokenizer.add_special_tokens(special)
    expected = config.get("traj_ids")
    for role, text in {"history_id0": "<i0>", "future_id0": f"<i{num_history}>", **_ROLES}.items():
        if not isinstance(expected, Mapping) or role not in expected:
            continue
        if (found := tokenizer.token_to_id(text)) != expected[role]:
            raise AssetsInvalid(
                file="config.json",
                problem=f"traj_ids.{role} is {expected[role]!r}, but {text} has the id {found}.",
                remedy="The tokenizer and the configuration are not of one model.",
            )


def _count(config: Mapping[str, Any], key: str, default: int) -> int:
    count = config.get(key, default)
    if type(count) is not int or not 0 <= count <= 10**6:
        raise AssetsInvalid(file="config.json", problem=f"{key} is {count!r}, not a count.")
    return count
