"""Why the service does nothing now: numbers enter, the error to raise leaves.

Rules of this file: every refusal says when, or with what, it would be different.
"""

from __future__ import annotations

import math

from foreword.errors import DeadlineExceeded, Overloaded

MAX_RETRY_SECONDS = 60


def queue_full(num_queued: int, max_queued: int, wait_seconds: float) -> Overloaded:
    """The queue has no place; `wait_seconds` is what the last place would have to wait."""
    seconds = max(1, min(MAX_RETRY_SECONDS, math.ceil(wait_seconds)))
    return Overloaded(
        f"The queue is full ({num_queued} requests wait, at most {max_queued} may)."
        f" Retry in {seconds} s, or add workers.",
        details={
            "num_queued": num_queued,
            "max_queued": max_queued,
            "retry_after_seconds": seconds,
        },
    )


def too_late(stage: str, what: str, deadline_seconds: float) -> DeadlineExceeded:
    """A deadline of the `queue` or `render` stage passed; `what` says how."""
    return DeadlineExceeded(
        f"The request {what} (the {stage} deadline is {deadline_seconds:g} s)."
        " Retry, send a shorter request, or add workers.",
        details={"stage": stage, "deadline_seconds": deadline_seconds},
    )


def shutting_down() -> Overloaded:
    """The process ends."""
    return Overloaded("The service is shutting down. Send the request elsewhere.")


def still_loading() -> Overloaded:
    """The process has begun a moment ago."""
    return Overloaded(
        "The models are still loading. Retry in 1 s; /ready tells when.",
        details={"retry_after_seconds": 1},
    )
