"""Nothing enters; a small model folder and a conversation that any installation can render leave.

Rules of this file: plain data, nothing is read or computed at import; the model has a tokenizer,
a template and configurations but no weights, and its ids mean nothing outside this package.
"""

from __future__ import annotations

from pathlib import Path

from foreword.demo.conversation import DEMO_REQUEST

__all__ = ["DEMO_REQUEST", "model_folder"]


def model_folder() -> str:
    """Return the path of the built-in model's folder.

    Source: made by `scripts/train_demo_model.py` in the repository, which can make it again.
    """
    return str(Path(__file__).parent / "model")
