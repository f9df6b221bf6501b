"""A role that a chat format has no place for enters; its refusal leaves."""

from __future__ import annotations

from foreword.errors import InvalidRequest


def refuse_role(role: str, format_name: str) -> InvalidRequest:
    """Return the refusal of a role the format has no place for."""
    return InvalidRequest(
        f"The chat format {format_name} has no role {role!r}. Use system, developer, user,"
        " assistant or tool."
    )
