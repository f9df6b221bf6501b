"""What tests/parity compares with vLLM, compared where a vLLM with torch is: the engine's own.

FOREWORD_ENGINE_ENV=FOLDER scripts/test tests/engine      (FOLDER: scripts/engine_env)
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        "FOREWORD_ENGINE_ENV" not in os.environ,
        reason="no real engine: FOREWORD_ENGINE_ENV is not set (scripts/engine_env)",
    ),
]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "least"), [("test_vllm_core_parity.py", 6), ("test_block_hashes_parity.py", 4)]
)
def test_vllms_own_functions_agree(name: str, least: int) -> None:
    python = Path(os.environ["FOREWORD_ENGINE_ENV"]) / "bin" / "python"
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-v", f"tests/parity/{name}"]
    environment = {**os.environ, "PYTHONPATH": "src"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout[-2000:]
    assert int(passed[1]) >= least, done.stdout[-2000:]
