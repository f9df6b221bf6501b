"""A model enters; what its files decide leaves, for a person or as JSON.

Rules of this file: everything shown was decided by the loader; nothing is decided here.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from foreword.assets.context_length import explain_max_model_len, model_type, model_vocab_size
from foreword.assets.fetch import display_name
from foreword.cli.colour import visible
from foreword.cli.json_output import pretty_json, to_plain, write_json
from foreword.cli.media import media_facts
from foreword.cli.model import load_renderer, requested_length
from foreword.cli.output import Console
from foreword.cli.pieces import pipeline_file
from foreword.errors import ForewordError
from foreword.renderer import Renderer
from foreword.templating import compile_template
from foreword.types import ChatTokenizer, Tokenizer

_GIVEN_VARIABLES = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}
)
"""Variables every template has; the others are what `chat_template_kwargs` can set."""


def run_inspect(options: Namespace, console: Console) -> int:
    """Run `foreword inspect`."""
    renderer = load_renderer(options)
    facts = find_facts(renderer, requested=requested_length(options), runner=options.runner)
    if console.is_json:
        write_json(console, facts)
    else:
        console.say("\n".join(_page(facts, console)))
    return 0


def find_facts(
    renderer: Renderer, *, requested: int | None = None, runner: str = "generate"
) -> dict[str, Any]:
    """Return everything there is to know of a loaded model, as plain JSON values."""
    assets, info = renderer.assets, renderer.tokenizer.info
    length = explain_max_model_len(assets, requested=requested, runner=runner)
    file = pipeline_file(renderer.tokenizer)
    return {
        "name": display_name(assets.name),
        "revision": assets.revision,
        "model_type": model_type(assets),
        "fingerprint": assets.fingerprint,
        "mode": info.mode,
        "tokenizer": {
            "kind": file.model.type if file else type(renderer.tokenizer).__name__,
            "is_fast": info.is_fast,
            "vocab_size": info.vocab_size,
            "model_vocab_size": model_vocab_size(assets),
            "max_token_id": info.max_token_id,
            "num_added_tokens": len(file.added_tokens) if file else None,
            "max_chars_per_token": info.max_chars_per_token,
            "char_gate_gap": info.char_gate_gap,
            "has_proved_cuts": info.has_proved_cuts,
            "segment_cuts": _cut_facts(renderer.tokenizer),
            "do_lower_case": info.do_lower_case,
            "truncation_side": info.truncation_side,
            "num_prefix_special": info.num_prefix_special,
            "num_suffix_special": info.num_suffix_special,
        },
        "special_tokens": {
            role: {"token": token, "id": renderer.tokenizer.token_to_id(token)}
            for role, token in info.special_tokens.items()
        },
        "max_model_len": {"value": length.max_model_len, "source": length.source},
        "chat_format": _chat_format(renderer),
        "chat_templates": {
            name: _template_facts(source, info.special_tokens)
            for name, source in _templates(renderer).items()
        },
        "media": media_facts(renderer),
        "generation_defaults": dict(renderer.options.sampling_defaults),
        "warnings": list(assets.warnings),
    }


def _cut_facts(tokenizer: Tokenizer) -> dict[str, Any] | None:
    rules = getattr(tokenizer, "rules", None)
    if rules is None:
        return None
    names = ("kind", "contexts", "reasons", "offsets_gap")
    return {name: to_plain(getattr(rules, name)) for name in names}


def _chat_format(renderer: Renderer) -> str | None:
    if isinstance(renderer.tokenizer, ChatTokenizer):
        return renderer.tokenizer.info.mode
    return None if renderer.chat_format is None else renderer.chat_format.name


def _templates(renderer: Renderer) -> dict[str, str]:
    override = renderer.options.chat_template
    templates = dict(renderer.assets.chat_templates)
    if override is not None:
        return {"--chat-template": templates.get(override, override)}
    return templates


def _template_facts(source: str, special_tokens: Mapping[str, str]) -> dict[str, Any]:
    try:
        template = compile_template(source)
    except ForewordError as error:
        return {"num_chars": len(source), "error": error.message}
    return {
        "num_chars": len(source),
        "content_format": template.content_format,
        "has_developer_branch": template.has_developer_branch,
        "reads_tools": "tools" in template.variables,
        "kwargs": sorted(template.variables - _GIVEN_VARIABLES - set(special_tokens)),
    }


# ---------------------------------------------------------------------------------------------
# The page.


def _page(facts: dict[str, Any], console: Console) -> Iterator[str]:
    style, tokenizer = console.style, facts["tokenizer"]
    summary = " · ".join(filter(None, [facts["model_type"], facts["mode"], facts["revision"]]))
    yield f"{style.title(visible(facts['name']))}  {style.dim(summary)}"
    yield ""
    yield _row("fingerprint", facts["fingerprint"])
    length = facts["max_model_len"]
    yield _row("context", f"{length['value']:,} tokens ({length['source']})")
    yield _row("tokenizer", _tokenizer(tokenizer))
    yield _row("vocabulary", _vocabulary(tokenizer))
    yield _row("character gate", _gate(tokenizer))
    yield from _cuts(tokenizer)
    yield _row("truncation", f"from the {tokenizer['truncation_side']}, where a request is silent")
    yield _row("adds by itself", _added(tokenizer))
    yield ""
    yield style.title("special tokens")
    for role, token in facts["special_tokens"].items():
        number = "not in the vocabulary" if token["id"] is None else token["id"]
        yield _row(role, f"{visible(token['token'])}  {style.dim(str(number))}")
    yield ""
    if facts["chat_format"] is not None:
        yield style.title("chat format")
        yield f"  {facts['chat_format']}: the model's own, in place of a template"
        yield ""
    yield style.title("chat templates")
    for name, template in facts["chat_templates"].items():
        yield _row(name, _template(template))
    if not facts["chat_templates"] and facts["chat_format"] is not None:
        yield "  none, and none is needed"
    elif not facts["chat_templates"]:
        yield "  none: chat requests are refused; completions work"
    yield ""
    yield style.title("media")
    yield from _media(facts["media"])
    yield ""
    yield style.title("generation defaults")
    for name, value in facts["generation_defaults"].items():
        yield _row(name, pretty_json(value, 2, console.width))
    if not facts["generation_defaults"]:
        yield "  none of the model's own"
    if facts["warnings"] and not console.is_quiet:
        yield ""
        yield style.title("worth a look")
        yield from (f"  {style.yellow('!')} {visible(one)}" for one in facts["warnings"])


def _row(name: str, value: object) -> str:
    return f"  {visible(name):<18}  {value}"


def _tokenizer(tokenizer: dict[str, Any]) -> str:
    words = [tokenizer["kind"], "fast" if tokenizer["is_fast"] else "slow"]
    return ", ".join(words + (["lower-cases"] if tokenizer["do_lower_case"] else []))


def _vocabulary(tokenizer: dict[str, Any]) -> str:
    words = f"{tokenizer['vocab_size']:,} tokens"
    if tokenizer["num_added_tokens"] is not None:
        words += f", {tokenizer['num_added_tokens']:,} of them added"
    if tokenizer["model_vocab_size"] is not None:
        words += f"; the model has {tokenizer['model_vocab_size']:,} rows"
    return f"{words}; ids from 0 to {tokenizer['max_token_id']:,}"


def _gate(tokenizer: dict[str, Any]) -> str:
    longest = f"a token stands for at most {tokenizer['max_chars_per_token']:,} characters"
    gap = tokenizer["char_gate_gap"]
    if gap is None:
        return f"{longest}: proved, so longer texts are refused unread"
    return f"not used, since {gap}"


def _cuts(tokenizer: dict[str, Any]) -> Iterator[str]:
    cuts = tokenizer["segment_cuts"]
    if cuts is None:
        yield _row("segments", "texts are encoded whole")
        return
    contexts = f": {', '.join(cuts['contexts'])}" if cuts["contexts"] else ""
    yield _row("segments", f"cut by {cuts['kind']}{contexts}")
    gap = [f"offsets: {cuts['offsets_gap']}"] if cuts["offsets_gap"] else []
    for reason in [*cuts["reasons"], *gap]:
        yield _row("", f"not proved: {visible(reason)}")


def _added(tokenizer: dict[str, Any]) -> str:
    prefix, suffix = tokenizer["num_prefix_special"], tokenizer["num_suffix_special"]
    if not prefix + suffix:
        return "no special tokens"
    return f"{prefix} before and {suffix} after a completion's text"


def _media(media: dict[str, Any]) -> Iterator[str]:
    if media["family"] is None:
        yield f"  none: {visible(media['reason'])}"
        return
    yield _row("family", media["family"])
    for modality, row in media["modalities"].items():
        yield _row(modality, visible(row["placeholder"]))


def _template(template: dict[str, Any]) -> str:
    if "error" in template:
        return f"{template['num_chars']:,} characters; {visible(template['error'])}"
    words = [
        f"{template['num_chars']:,} characters",
        f"content as {template['content_format']}",
        "reads tools" if template["reads_tools"] else "reads no tools",
        f"{'has a' if template['has_developer_branch'] else 'no'} developer branch",
    ]
    if template["kwargs"]:
        words.append(f"kwargs: {', '.join(template['kwargs'])}")
    return " · ".join(words)
