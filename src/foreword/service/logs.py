"""Log records enter; lines that machines and people can read leave.

Rules of this file: the standard library's logging only. An event is a short constant sentence, its
values are passed as `extra={"fields": {...}}`. No prompt text, no key, no path of the machine is
ever a value, unless the operator asked for prompts.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

LOGGER_NAME = "foreword"
logger = logging.getLogger(f"{LOGGER_NAME}.service")


class _Lines(logging.Formatter):
    def __init__(self, form: Literal["json", "text"]) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        if self._form == "json":
            return json.dumps(values, ensure_ascii=False, default=str)
        return " ".join(f"{key}={_quoted(value)}" for key, value in values.items())


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if text and not any(character in text for character in ' "=\n\r\t'):
        return text
    return json.dumps(text, ensure_ascii=False)


def set_up_logs(level: str, form: Literal["json", "text"]) -> None:
    """Write foreword's and uvicorn's records to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(form))
    for name in (LOGGER_NAME, "uvicorn"):
        target = logging.getLogger(name)
        target.handlers = [handler]
        target.propagate = False
        target.setLevel(level.upper())
    logging.getLogger("uvicorn.access").propagate = True


def log(level: int, event: str, **fields: Any) -> None:
    """Log one event with its values."""
    if logger.isEnabledFor(level):
        logger.log(level, event, extra={"fields": fields})
