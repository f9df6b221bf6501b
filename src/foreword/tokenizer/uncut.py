"""The length of a stretch that one call must tokenize enters; nothing leaves, or a refusal.

Rules of this file: what cannot be cut cannot be stopped either, so it has a limit of its own.
"""

from __future__ import annotations

from foreword.errors import InvalidRequest


def check_uncut(num_chars: int, max_uncut_chars: int | None) -> None:
    """Refuse a stretch that is too long for one call; None refuses none.

    Raises: `InvalidRequest`.
    """
    if max_uncut_chars is None or num_chars <= max_uncut_chars:
        return
    raise InvalidRequest(
        f"The prompt has a stretch of {num_chars} characters at which its text cannot be cut for"
        f" tokenization; at most {max_uncut_chars} are accepted in one stretch (the setting"
        " max_uncut_chars). Put spaces or line breaks into it, or shorten it.",
        details={"num_chars": num_chars, "max_uncut_chars": max_uncut_chars},
    )
