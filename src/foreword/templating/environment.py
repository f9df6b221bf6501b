"""The sandboxed Jinja environment of chat templates; one, shared by all templates.

Rules of this file: the same options, filters, globals and tags as transformers 5.20, whose
renderings the models were trained on. Nothing of one rendering is kept here: its meter travels
in its context.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateError, nodes, pass_context
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, generate_lorem_ipsum

from foreword.errors import TemplateRejected
from foreword.templating.filters import make_filters, make_tests
from foreword.templating.fuel import Meter
from foreword.templating.methods import (
    GUARDED_TYPES,
    call_method,
    is_format_method,
    make_format,
)
from foreword.templating.operators import meter_of
from foreword.templating.rewriting import GENERATION_METHOD, OPERATOR_FILTERS

MAX_FILLER_WORDS = 100_000


class TemplateRaised(TemplateError):
    """The template itself refused, with `raise_exception`."""


class MeteredContext(Context):
    """A template's variables, with the meter of this rendering."""

    meter: Meter

    def derived(self, locals: dict[str, Any] | None = None) -> MeteredContext:  # noqa: A002
        context = super().derived(locals)
        assert isinstance(context, MeteredContext)
        context.meter = self.meter
        return context


class GenerationTag(Extension):
    """`{% generation %}`: marks the assistant's own text, and prints it like any other."""

    tags = {"generation"}  # noqa: RUF012 (the type Jinja declares)

    def parse(self, parser: Parser) -> nodes.Node:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method(GENERATION_METHOD, lineno=lineno)
        return nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    @pass_context
    def record_generation(self, context: Context, caller: Any) -> str:
        """Print the body, which goes straight to the output, and note where it stands."""
        text: str = caller()
        meter = meter_of(context)
        meter.spans.append((meter.num_chars, meter.num_chars + len(text)))
        return text

    @pass_context
    def pass_generation(self, context: Context, caller: Any) -> str:
        """Print the body only: inside a macro or set block its place is not known."""
        text: str = caller()
        return text


_PLAIN_TYPES = frozenset({str, int, bool, list, dict})
_DICT_NAMES = frozenset(dir(dict))
_SAFE_NAMES: Mapping[type, frozenset[str]] = {
    # Never unsafe, and never a format method, whatever the object.
    str: frozenset(name for name in dir(str) if name[0] != "_" and "format" not in name),
    LoopContext: frozenset({"first", "last", "index", "index0", "length", "revindex", "revindex0"}),
}


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment chat templates are compiled and rendered in."""

    context_class = MeteredContext

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[GenerationTag, "jinja2.ext.loopcontrols"],
        )
        self.filters.update({**make_filters(), **OPERATOR_FILTERS})
        self.tests.update(make_tests())
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now
        self.globals["lipsum"] = _lipsum

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look an attribute up: what the sandbox does, sooner for what templates mostly ask."""
        kind = type(obj)
        if kind is dict:
            if attribute not in _DICT_NAMES:
                try:
                    return obj[attribute]
                except KeyError:
                    return self.undefined(obj=obj, name=attribute)
        elif kind is Namespace:
            # Asking the sandbox costs twenty questions, each of which the object answers in Python.
            value = getattr(obj, attribute, None)
            if type(value) in _PLAIN_TYPES and not attribute.startswith("_"):
                return value
        elif attribute in _SAFE_NAMES.get(kind, ()):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: Any) -> Any:
        return make_format(self, value) if is_format_method(value) else None

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if type(__obj) is types.BuiltinMethodType and type(__obj.__self__) in GUARDED_TYPES:
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return call_method(__context.meter, __obj, args, kwargs)  # type: ignore[attr-defined]
        if type(__obj) is Macro:
            # What the general call below comes to, without its questions.
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return __obj(__context.eval_ctx, *args, **kwargs)
        return super().call(__context, __obj, *args, **kwargs)


@pass_context
def _raise_exception(context: Context, message: Any) -> None:
    meter_of(context).measure(message)
    raise TemplateRaised(str(message))


@pass_context
def _strftime_now(context: Context, format: str) -> str:  # noqa: A002 (the name templates may use)
    meter = meter_of(context)
    meter.allocate(256 * len(format))
    return meter.clock().strftime(format)


@pass_context
def _lipsum(
    context: Context,
    n: int = 5,
    html: bool = True,
    min: int = 20,  # noqa: A002
    max: int = 100,  # noqa: A002
) -> str:
    if n * max > MAX_FILLER_WORDS:
        raise TemplateRejected(
            reason=f"it asks for more than {MAX_FILLER_WORDS} filler words.",
            details={"limit": "max_filler_words", "max_filler_words": MAX_FILLER_WORDS},
        )
    meter_of(context).allocate(n * max * 12)
    return generate_lorem_ipsum(n, html, min, max)


ENVIRONMENT = ChatEnvironment()
