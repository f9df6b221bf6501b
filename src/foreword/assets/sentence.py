"""A sentence-transformers configuration: a folder in, the two settings that change ids out.

Rules of this file: the files are looked for in the model's own folder, in vLLM 0.33's order; the
first that is not empty counts, and only when it sets `max_seq_length`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foreword.assets.files import json_type, read_json
from foreword.errors import AssetsInvalid

_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSettings:
    """`max_seq_length` replaces the context length; `do_lower_case` lowers the text first."""

    do_lower_case: bool = False
    max_seq_length: int | None = None


def read_sentence_settings(folder: Path, file_names: frozenset[str]) -> SentenceSettings:
    """Return the settings of a sentence-transformers model; the defaults for any other.

    Raises: `AssetsInvalid` when a value has the wrong type.
    """
    for file in _FILES:
        config = read_json(folder, file) if file in file_names else {}
        if not config:
            continue
        if "max_seq_length" not in config:
            break
        length, lower = config["max_seq_length"], config.get("do_lower_case") or False
        if length is not None and (type(length) is not int or length < 1):
            raise AssetsInvalid(
                file=file, problem=f"max_seq_length is {length!r}, not a positive whole number."
            )
        if not isinstance(lower, bool):
            raise AssetsInvalid(
                file=file, problem=f"do_lower_case is {json_type(lower)}, not a boolean."
            )
        return SentenceSettings(do_lower_case=lower, max_seq_length=length)
    return SentenceSettings()
