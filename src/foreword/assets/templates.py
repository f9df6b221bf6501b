"""A model's chat templates, wherever they are kept: a folder in, sources by name out.

Rules of this file: what wins is what transformers 5.20 (tokenizer) and vLLM 0.33 (processor) let
win. Template files replace tokenizer_config.json's entry as a whole. Where a processor has a
template of its own, it speaks when no tools are given and the tokenizer's when they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreword.assets.files import TEMPLATE_FOLDER, json_type, read_json, read_text
from foreword.errors import AssetsInvalid

_JINJA = ".jinja"
_MAIN_FILE = "chat_template.jinja"
_LEGACY_FILE = "chat_template.json"
_DOTTED_FILE = re.compile(r"chat_template\.(.+)\.jinja")
_PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
_CHOSEN_UNASKED = ("default", "tool_use")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTemplates:
    """Template sources by name, and a sentence for each oddity."""

    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def find_templates(
    folder: Path, file_names: frozenset[str], tokenizer_config: Mapping[str, Any]
) -> FoundTemplates:
    """Return the chat templates a model brings.

    Raises: `AssetsInvalid` when a template is not a string, or its file cannot be read.

    Source: transformers 5.20 (`PreTrainedTokenizerBase`, `ProcessorMixin`), vLLM 0.33's order of
    processor and tokenizer templates.
    """
    warnings: list[str] = []
    configured = _from_tokenizer_config(tokenizer_config)
    files = _from_files(folder, file_names)
    if files and configured and files.get("default") != configured.get("default"):
        warnings.append(
            "tokenizer_config.json and the .jinja files hold different chat templates;"
            " the files win."
        )
    sources = files or configured
    _add_dotted(sources, folder, file_names, warnings)
    _add_processor(sources, folder, file_names, warnings)
    return FoundTemplates(sources=sources, warnings=tuple(warnings))


def _from_tokenizer_config(config: Mapping[str, Any]) -> dict[str, str]:
    file, value = "tokenizer_config.json", config.get("chat_template")
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [_named_entry(entry, index) for index, entry in enumerate(value)]
    else:
        raise _not_a_string(file, "chat_template", value)
    for name, source in pairs:
        if not isinstance(source, str):
            raise _not_a_string(file, f"chat_template {name!r}", source)
    return dict(pairs)


def _named_entry(entry: object, index: int) -> tuple[str, Any]:
    if isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and "template" in entry:
        return entry["name"], entry["template"]
    raise AssetsInvalid(
        file="tokenizer_config.json",
        problem=f'chat_template[{index}] is not an object with "name" and "template".',
        remedy='Write each as {"name": "default", "template": "..."}.',
    )


def _from_files(folder: Path, file_names: frozenset[str]) -> dict[str, str]:
    names = {"default": _MAIN_FILE} if _MAIN_FILE in file_names else {}
    for file in _additional(file_names):
        names[file.removeprefix(f"{TEMPLATE_FOLDER}/").removesuffix(_JINJA)] = file
    texts = ((name, read_text(folder, file)) for name, file in names.items())
    return {name: text for name, text in texts if text is not None}


def _additional(file_names: frozenset[str]) -> list[str]:
    prefix = f"{TEMPLATE_FOLDER}/"
    return sorted(f for f in file_names if f.startswith(prefix) and f.endswith(_JINJA))


def _add_dotted(
    sources: dict[str, str], folder: Path, file_names: frozenset[str], warnings: list[str]
) -> None:
    # No engine reads chat_template.<name>.jinja, so such a file may add a template that is asked
    # for by name, but never one that would be chosen unasked over the model's own.
    has_own = bool(sources)
    for file in sorted(file_names):
        match = _DOTTED_FILE.fullmatch(file)
        if match is None:
            continue
        name = match[1]
        if name in sources or (has_own and name in _CHOSEN_UNASKED):
            warnings.append(f"{file} is not used: the model has other templates that come first.")
            continue
        text = read_text(folder, file)
        if text is not None:
            sources[name] = text


def _add_processor(
    sources: dict[str, str], folder: Path, file_names: frozenset[str], warnings: list[str]
) -> None:
    file, template = _processor_template(folder, file_names)
    if template is None or sources.get("default") == template:
        return
    if "default" not in sources:
        sources["default"] = template
        return
    # transformers refuses to make a processor of the legacy file beside additional templates.
    is_refused = file == _LEGACY_FILE and bool(_additional(file_names))
    if is_refused or not any(name in file_names for name in _PROCESSOR_FILES):
        warnings.append(f"{file} holds a different chat template, which is not used.")
        return
    warnings.append(
        f"{file} holds a different chat template: it is used without tools,"
        " the tokenizer's own with tools."
    )
    sources.setdefault("tool_use", sources["default"])
    sources["default"] = template


def _processor_template(folder: Path, file_names: frozenset[str]) -> tuple[str, str | None]:
    for file in ("processor_config.json", _LEGACY_FILE):
        if file not in file_names:
            continue
        value = read_json(folder, file).get("chat_template")
        if isinstance(value, Mapping):
            value = value.get("default")
        if value is not None and not isinstance(value, str):
            raise _not_a_string(file, "chat_template", value)
        if value is not None:
            return file, value
    return _LEGACY_FILE, None


def _not_a_string(file: str, what: str, value: object) -> AssetsInvalid:
    return AssetsInvalid(
        file=file,
        problem=f"{what} is {json_type(value)}, not a string.",
        remedy="Correct the file, or move the template to chat_template.jinja.",
    )
