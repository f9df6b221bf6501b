"""A model's name enters; a `Renderer` for it leaves.

Rules of this file: everything that reads files happens here and below; nothing after it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from foreword.assets.context_length import explain_max_model_len, model_vocab_size
from foreword.assets.fingerprint import fingerprint
from foreword.assets.load import load_assets
from foreword.options import RendererOptions
from foreword.renderer import Renderer
from foreword.sampling import default_sampling_params
from foreword.templating import DEFAULT_LIMITS, TemplateLimits
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.segmented import DEFAULT_MAX_UNCUT_CHARS, SegmentedTokenizer
from foreword.tokenizer.state import DEFAULT_MEMO_BYTES
from foreword.types import RunnerType, Side


def load(
    model: str,
    *,
    revision: str | None = None,
    max_model_len: int | None = None,
    allow_longer: bool = False,
    runner: RunnerType = "generate",
    tokenizer_mode: str = "auto",
    truncation_side: Side | None = None,
    served_model_name: str | tuple[str, ...] = (),
    chat_template: str | None = None,
    generation_config: Mapping[str, Any] | None = None,
    offline: bool | None = None,
    template_limits: TemplateLimits = DEFAULT_LIMITS,
    memo_bytes: int = DEFAULT_MEMO_BYTES,
    max_uncut_chars: int | None = DEFAULT_MAX_UNCUT_CHARS,
    accelerated: bool = False,
    **options: Any,
) -> Renderer:
    """Load a model folder or a Hugging Face id, without weights, and return its renderer.

    Shapes: `max_model_len` None derives the context length as vLLM does. `truncation_side` None
    follows the runner: left for generation, right for pooling. `served_model_name` names the
    model in requests; without one any name is accepted. `chat_template` is a template's name or
    its source. `generation_config` overrides entries of the model's own. `memo_bytes` bounds what
    is remembered of tokenized text (0: nothing), `max_uncut_chars` a stretch of text that must be
    tokenized in one call. `accelerated` uses the extra `fast` where it is admitted for this
    tokenizer: seconds at load, for a process that serves. Further `options` are those of
    `RendererOptions`.

    Raises: `AssetsInvalid` naming the file at fault; `InvalidRequest` for an option out of range.
    """
    assets = load_assets(model, revision=revision, offline=offline)
    length = explain_max_model_len(
        assets, requested=max_model_len, runner=runner, allow_longer=allow_longer
    )
    tokenizer = get_tokenizer(
        assets,
        runner_type=runner,
        mode=tokenizer_mode,
        truncation_side=truncation_side,
        model_vocab_size=model_vocab_size(assets),
    )
    if isinstance(tokenizer, HuggingFaceTokenizer):
        tokenizer = SegmentedTokenizer.over(
            tokenizer,
            memo_bytes=memo_bytes,
            max_uncut_chars=max_uncut_chars,
            is_accelerated=accelerated,
        )
    warnings = (*assets.warnings, *([length.warning] if length.warning else ()))
    assets = replace(
        assets,
        fingerprint=fingerprint(
            assets,
            mode=tokenizer.info.mode,
            max_model_len=length.max_model_len,
            chat_template=chat_template,
        ),
        warnings=(*warnings, *getattr(tokenizer, "warnings", ())),
        tokenizer_json=None,  # read and built; tens of megabytes that nothing needs again
    )
    names = (served_model_name,) if isinstance(served_model_name, str) else served_model_name
    return Renderer(
        assets=assets,
        tokenizer=tokenizer,
        options=RendererOptions(
            max_model_len=length.max_model_len,
            runner=runner,
            served_model_names=names,
            chat_template=chat_template,
            sampling_defaults=default_sampling_params(
                assets.generation_config, generation_config or {}
            ),
            template_limits=template_limits,
            **options,
        ),
    )
