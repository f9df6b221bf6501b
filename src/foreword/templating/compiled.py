"""A template's source goes in, a `CompiledTemplate` comes out; it renders within limits.

Rules of this file: a compiled template never changes and is shared between threads. What one
rendering counts lives in a meter of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template

from foreword.errors import TemplateFailed
from foreword.templating.analysis import (
    detect_content_format,
    find_variables,
    has_developer_branch,
)
from foreword.templating.environment import ENVIRONMENT, MeteredContext
from foreword.templating.failures import blame, explain_compile, explain_render
from foreword.templating.fuel import Meter
from foreword.templating.limits import DEFAULT_LIMITS, RenderedTemplate, TemplateLimits
from foreword.templating.rewriting import add_fuel
from foreword.types import ContentFormat

MAX_SOURCE_CHARS = 1 << 20
MAX_CACHED_TEMPLATES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTemplate:
    """A chat template, ready to render.

    `variables` are the names it reads and does not set: what template kwargs it can use.
    `content_format` says how it wants message content. What is wrong with a template that
    `is_requested` is the request's fault, not the model's.
    """

    source: str
    content_format: ContentFormat
    variables: frozenset[str]
    has_developer_branch: bool
    is_requested: bool = False
    _template: Template = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_template, (self.source, self.is_requested)

    def render(
        self,
        variables: Mapping[str, Any],
        limits: TemplateLimits = DEFAULT_LIMITS,
        *,
        clock: Callable[[], datetime] = datetime.now,
    ) -> RenderedTemplate:
        """Render with `variables`, which are read and never changed.

        `clock` is what `strftime_now` reads.

        Raises: TemplateRejected when the template refuses, its data breaks it, or a limit on
        work or size is passed; DeadlineExceeded past the deadline; TemplateFailed when it needs
        a filter or test that does not exist, InvalidRequest when the request brought it so.
        """
        meter = Meter(limits, clock, variables.get("tools"))
        context = self._template.new_context(dict(variables))
        assert isinstance(context, MeteredContext)
        context.meter = meter
        pieces: list[str] = []
        max_chars = limits.max_output_chars
        num_chars = 0
        try:
            for piece in self._template.root_render_func(context):
                pieces.append(piece)
                num_chars += len(piece)
                meter.num_chars = num_chars
                if num_chars > max_chars:
                    meter.refuse_size(num_chars)
        except Exception as error:
            raise blame(explain_render(error), is_requested=self.is_requested) from error
        return RenderedTemplate(text="".join(pieces), assistant_spans=tuple(meter.spans))


@lru_cache(maxsize=MAX_CACHED_TEMPLATES)
def compile_template(source: str, is_requested: bool = False) -> CompiledTemplate:
    """Compile a chat template, once for each text.

    Shapes: `is_requested` says that the request brought the template, not the model or operator.

    Raises: TemplateFailed, with the line, for a syntax error or an unknown filter or test;
    InvalidRequest in its place for a template of the request's.
    """
    try:
        return _compile(source, is_requested)
    except TemplateFailed as error:
        raise blame(error, is_requested=is_requested) from error


def _compile(source: str, is_requested: bool) -> CompiledTemplate:
    if len(source) > MAX_SOURCE_CHARS:
        raise TemplateFailed(
            reason=f"it has {len(source)} characters; at most {MAX_SOURCE_CHARS} are compiled"
        )
    try:
        tree = ENVIRONMENT.parse(source)
        content_format = detect_content_format(tree)
        has_developer = has_developer_branch(tree)
        # Looking for variables folds constants into the tree, so compiling gets a fresh one.
        variables = find_variables(add_fuel(tree, ENVIRONMENT))
        template = ENVIRONMENT.from_string(add_fuel(ENVIRONMENT.parse(source), ENVIRONMENT))
    except Exception as error:
        raise explain_compile(error) from error
    return CompiledTemplate(
        source=source,
        content_format=content_format,
        variables=variables,
        has_developer_branch=has_developer,
        is_requested=is_requested,
        _template=template,
    )
