"""A model's name enters; a `Renderer` for it leaves.

Rules of this file: everything that reads files happens here and below; nothing after it does.
What the caller gave is checked before the first file is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack, cast

from foreword.assets.context_length import (
    ContextLength,
    explain_max_model_len,
    model_vocab_size,
    parse_max_model_len,
)
from foreword.assets.fingerprint import fingerprint
from foreword.assets.load import load_assets
from foreword.errors import ChatTemplateMissing, InvalidRequest, TemplateFailed
from foreword.media.model import MediaModel
from foreword.options import (
    FurtherOptions,
    RendererOptions,
    check_choice,
    check_kind,
    check_known,
    check_names,
    check_whole,
)
from foreword.renderer import Renderer
from foreword.sampling import default_sampling_params
from foreword.stages.template import select_template
from foreword.templating import compile_template
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.kimi_audio import KimiAudioTokenizer
from foreword.tokenizer.load import get_tokenizer, resolve_tokenizer_args
from foreword.tokenizer.own_code import OwnCodeTokenizer
from foreword.tokenizer.segmented import DEFAULT_MAX_UNCUT_CHARS, SegmentedTokenizer
from foreword.tokenizer.state import DEFAULT_MEMO_BYTES
from foreword.types import ModelAssets, RunnerType, Side, Tokenizer


def load(
    model: str | os.PathLike[str],
    *,
    revision: str | None = None,
    max_model_len: int | str | None = None,
    allow_longer: bool = False,
    runner: RunnerType = "generate",
    tokenizer_mode: str = "auto",
    trust_remote_code: bool = False,
    truncation_side: Side | None = None,
    served_model_name: str | tuple[str, ...] = (),
    chat_template: str | None = None,
    generation_config: Mapping[str, Any] | None = None,
    offline: bool | None = None,
    memo_bytes: int = DEFAULT_MEMO_BYTES,
    max_uncut_chars: int | None = DEFAULT_MAX_UNCUT_CHARS,
    accelerated: bool = False,
    **further: Unpack[FurtherOptions],
) -> Renderer:
    """Load a model folder or a Hugging Face id, without weights, and return its renderer.

    Shapes: `max_model_len` may be 8k or 8K; None derives it as vLLM does. `truncation_side` None
    follows the runner: left for generation, right for pooling. Without a `served_model_name`
    requests may name any. `chat_template` is a name or a source. `generation_config` overrides
    the model's own. `memo_bytes` 0 remembers nothing; `max_uncut_chars` bounds text tokenized in
    one call. `accelerated` admits the extra `fast`, seconds at load. `trust_remote_code` lets
    tokenizer code that the model brings run. `further`: `RendererOptions`.

    Raises: `AssetsInvalid` naming the file; `InvalidRequest` with the option as its `param`.
    """
    names = _check_given(model, revision, offline, allow_longer, served_model_name, further)
    choice = _TokenizerChoice(
        tokenizer_mode, truncation_side, memo_bytes, max_uncut_chars, accelerated, trust_remote_code
    )
    requested = _requested_length(max_model_len)
    assets = load_assets(
        os.fspath(model), revision=revision, offline=offline, with_code=trust_remote_code
    )
    if resolve_tokenizer_args(assets, mode=tokenizer_mode).mode == "kimi_audio":
        assets = _without_templates(assets)
    length = explain_max_model_len(
        assets, requested=requested, runner=runner, allow_longer=allow_longer
    )
    options = RendererOptions(
        max_model_len=length.max_model_len,
        runner=runner,
        served_model_names=names,
        chat_template=chat_template,
        sampling_defaults=_sampling_defaults(assets, generation_config),
        **further,
    )
    _check_template(assets, chat_template)
    reference = _load_reference(assets, runner, choice)
    assets = _finish(assets, reference, length, options)
    # Last: what this tries and warms would be cold again after the digests of the files.
    tokenizer = _with_cuts(reference, choice)
    return Renderer(assets=assets, tokenizer=tokenizer, options=options)


@dataclass(frozen=True, slots=True)
class _TokenizerChoice:
    """The options of `load` that concern the tokenizer alone."""

    mode: str
    truncation_side: Side | None
    memo_bytes: int
    max_uncut_chars: int | None
    accelerated: bool
    trust_remote_code: bool

    def __post_init__(self) -> None:
        check_kind("tokenizer_mode", self.mode, (str,), "a string")
        check_choice("truncation_side", self.truncation_side, ("left", "right", None))
        check_whole("memo_bytes", self.memo_bytes, least=0)
        check_whole("max_uncut_chars", self.max_uncut_chars, least=1, may_be_none=True)
        check_kind("accelerated", self.accelerated, (bool,), "True or False")
        check_kind("trust_remote_code", self.trust_remote_code, (bool,), "True or False")


def _check_given(
    model: object,
    revision: object,
    offline: object,
    allow_longer: object,
    served_model_name: object,
    further: Mapping[str, object],
) -> tuple[str, ...]:
    """Check what says which model it is, and return the names it is served under."""
    check_known(further)
    check_kind("model", model, (str, os.PathLike), "a folder or a Hugging Face id")
    check_kind("revision", revision, (str, type(None)), "a string")
    check_kind("offline", offline, (bool, type(None)), "True, False")
    check_kind("allow_longer", allow_longer, (bool,), "True or False")
    names = served_model_name
    if isinstance(names, str | list):
        names = (names,) if isinstance(names, str) else tuple(names)
    check_names("served_model_name", names)
    return cast("tuple[str, ...]", names)


def _requested_length(max_model_len: object) -> int | None:
    if isinstance(max_model_len, str):
        return parse_max_model_len(max_model_len)
    if max_model_len != -1:
        check_whole("max_model_len", max_model_len, least=1, may_be_none=True)
    return cast("int | None", max_model_len)


def _sampling_defaults(assets: ModelAssets, overrides: object) -> dict[str, Any]:
    check_kind("generation_config", overrides, (Mapping, type(None)), "a mapping")
    return default_sampling_params(
        assets.generation_config, cast("Mapping[str, Any] | None", overrides)
    )


def _check_template(assets: ModelAssets, chat_template: str | None) -> None:
    """Refuse the name of a template that the model does not have."""
    if chat_template is None:
        return
    try:
        select_template(assets.chat_templates, has_tools=False, override=chat_template)
    except ChatTemplateMissing as error:
        names = ", ".join(error.details["available"]) or "none"
        raise InvalidRequest(
            f"The model has no chat template named {chat_template!r} (it has: {names})."
            " Give one of these as chat_template, or a template's source.",
            param="chat_template",
        ) from None


def _load_reference(assets: ModelAssets, runner: RunnerType, choice: _TokenizerChoice) -> Tokenizer:
    return get_tokenizer(
        assets,
        runner_type=runner,
        mode=choice.mode,
        truncation_side=choice.truncation_side,
        model_vocab_size=model_vocab_size(assets),
        trust_remote_code=choice.trust_remote_code,
    )


def _with_cuts(reference: Tokenizer, choice: _TokenizerChoice) -> Tokenizer:
    """Return the tokenizer in service: the reference, cut and remembered where it can be."""
    if isinstance(reference, OwnCodeTokenizer | KimiAudioTokenizer):
        return replace(reference, max_uncut_chars=choice.max_uncut_chars)  # never cut
    if not isinstance(reference, HuggingFaceTokenizer):
        return reference
    return SegmentedTokenizer.over(
        reference,
        memo_bytes=choice.memo_bytes,
        max_uncut_chars=choice.max_uncut_chars,
        is_accelerated=choice.accelerated,
    )


def _finish(
    assets: ModelAssets, tokenizer: Tokenizer, length: ContextLength, options: RendererOptions
) -> ModelAssets:
    """Return the assets with their fingerprint and every warning, without what was read and built.

    Why: tokenizer.json is tens of megabytes that nothing needs again.
    """
    media = MediaModel.of(
        assets,
        tokenizer_mode=tokenizer.info.mode,
        tolerated_keys=options.media.tolerated_keys,
        tekken=getattr(tokenizer, "media_blocks", None),
    )
    return replace(
        assets,
        fingerprint=fingerprint(
            assets,
            mode=tokenizer.info.mode,
            max_model_len=length.max_model_len,
            chat_template=options.chat_template,
            media=media.constants(),
            runs_own_code=isinstance(tokenizer, OwnCodeTokenizer),
        ),
        warnings=(
            *assets.warnings,
            *((length.warning,) if length.warning else ()),
            *getattr(tokenizer, "warnings", ()),
            *_template_warnings(assets, options.chat_template),
        ),
        tokenizer_json=None,
    )


def _without_templates(assets: ModelAssets) -> ModelAssets:
    """Return the assets of a model whose own chat templates its engine does not read."""
    warning = (
        "Tokenizer mode 'kimi_audio' reads no chat template of the model: chats need one that is"
        " given (chat_template), as with vLLM."
    )
    return replace(assets, chat_templates={}, warnings=(*assets.warnings, warning))


def _template_warnings(assets: ModelAssets, chat_template: str | None) -> list[str]:
    """Say which templates no chat can be rendered with; completions still can."""
    named = {f"The chat template {name!r}": text for name, text in assets.chat_templates.items()}
    if chat_template is not None and chat_template not in assets.chat_templates:
        named = {"The chat template given": chat_template}
    found: list[str] = []
    for which, source in named.items():
        try:
            compile_template(source)
        except TemplateFailed as error:
            line = error.details["line"]
            where = f" (line {line})" if line else ""
            found.append(
                f"{which} does not compile{where}: {error.details['reason']}."
                " Chats that use it are refused."
            )
    return found
