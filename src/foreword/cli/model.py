"""The model options of a command enter; a renderer leaves, its warnings said once.

Rules of this file: what the options mean is decided here, for every command alike.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable

from foreword.assets.context_length import parse_max_model_len
from foreword.cli.inputs import MAX_BODY_BYTES, read_text
from foreword.errors import InvalidRequest
from foreword.loader import load
from foreword.options import MediaOptions
from foreword.renderer import Renderer

_TEMPLATE_CHARS = frozenset("{}\n")


def load_renderer(options: Namespace, warn: Callable[[str], None] | None = None) -> Renderer:
    """Load the model that the options name, and give each of its warnings to `warn`.

    Raises: whatever `foreword.load` raises; `InvalidRequest` for a template file that is none.
    """
    renderer = load(
        options.model,
        revision=options.revision,
        max_model_len=requested_length(options),
        runner=options.runner,
        tokenizer_mode=options.tokenizer_mode,
        trust_remote_code=options.trust_remote_code,
        accelerated=options.accelerated == "on",
        system_start_date=options.system_start_date,
        served_model_name=tuple(options.served_model_name),
        chat_template=find_template(options.chat_template),
        offline=True if options.offline else None,
        trust_request_chat_template=options.trust_request_chat_template,
        max_body_bytes=MAX_BODY_BYTES,
        media=MediaOptions(tolerated_keys=tuple(options.media_tolerated_key)),
    )
    if warn is not None:
        for warning in (*renderer.assets.warnings, *_engine_warnings(renderer, options)):
            warn(warning)
    return renderer


def _engine_warnings(renderer: Renderer, options: Namespace) -> tuple[str, ...]:
    tokenizer = renderer.tokenizer
    if options.accelerated != "on" or getattr(tokenizer, "fast", None) is not None:
        return ()
    why = getattr(tokenizer, "engine_report", "this tokenizer has no such engine")
    return (f"The accelerated engine is not used: {why}.",)


def requested_length(options: Namespace) -> int | None:
    """Return the context length asked for; None leaves it to the model."""
    return None if options.max_model_len is None else parse_max_model_len(options.max_model_len)


def find_template(given: str | None) -> str | None:
    """Return a template's source, or the name of one of the model's.

    Raises: `InvalidRequest` for a file that does not exist, cannot be read or is empty.
    """
    if given is None or not _TEMPLATE_CHARS.isdisjoint(given):
        return given
    if not os.path.exists(given):
        if "/" in given or given.endswith((".jinja", ".jinja2", ".j2", ".txt")):
            raise InvalidRequest(f"There is no chat template file {given}.", param="chat_template")
        return given
    source = read_text(given)
    if not source.strip():
        raise InvalidRequest(f"The chat template file {given} is empty.", param="chat_template")
    # A template without any Jinja in it must not be taken for a name; Jinja drops this newline.
    return source if not _TEMPLATE_CHARS.isdisjoint(source) else source + "\n"
