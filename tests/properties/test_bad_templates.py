"""Templates that mean harm end, show nothing of Python, and are told as whose fault they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import line_models as line
from line_models import SECRET, check_showable, user

from foreword.errors import (
    DeadlineExceeded,
    ForewordError,
    InvalidRequest,
    TemplateFailed,
    TemplateRejected,
)
from foreword.templating import TemplateLimits


def refuse_template(
    source: str, *, limits: TemplateLimits | None = None, **fields: Any
) -> ForewordError:
    options = {} if limits is None else {"template_limits": limits}
    renderer = line.load_with_template(source, **options)
    with pytest.raises(ForewordError) as caught:
        renderer.render_chat({"messages": [user(SECRET), user("b")], **fields})
    check_showable(caught.value)
    return caught.value


SMALL = TemplateLimits(max_work=20_000, max_output_chars=100_000)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for a in range(99999) %}{% for b in range(99999) %}"
        "{% set ns.n = ns.n + 1 %}{% endfor %}{% endfor %}",
        "{{ range(999999999999) | list }}",
        "{{ range(999999999) | sum }}",
        "{{ (range(99999) | list) * 99999 }}",
        "{{ 'x' * 999999999999 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ 'x'.center(999999999) }}",
        "{{ 'x'.ljust(999999999) }}",
        "{{ 'x'.zfill(999999999) }}",
        "{{ 'x' | center(999999999) }}",
        "{{ ('x' * 9999).replace('x', 'x' * 9999) }}",
        "{{ ('x' * 9999) | replace('x', 'x' * 9999) }}",
        "{{ 'x' | indent(999999999, true) }}",
        "{{ ('y' * 9999).join('x' * 9999) }}",
        "{{ (['y' * 9999] * 9999) | join }}",
        "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}{{ ns.s | length }}",
        "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{{ lipsum(n=99999) }}",
        "{{ 'x' | tojson(indent=999999999) }}",
        "{{ messages | tojson(indent=99999999) }}",
        "{{ [[1]] | tojson(indent=99999999) }}",
    ],
)
def test_a_template_without_end(source: str) -> None:
    error = refuse_template(source, limits=SMALL)
    assert isinstance(error, TemplateRejected | TemplateFailed)
    assert error.status in (400, 500)


def test_the_work_limit_of_an_installation_holds_by_default() -> None:
    source = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    error = refuse_template(source)
    assert isinstance(error, TemplateRejected)
    assert error.details["max_work"] == TemplateLimits().max_work


def test_a_template_past_its_deadline() -> None:
    limits = TemplateLimits(max_work=10**12, deadline_seconds=0.02)
    source = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    assert type(refuse_template(source, limits=limits)) is DeadlineExceeded


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ '' | attr('__class__') }}",
        "{{ '' | attr('__cl' ~ 'ass__') | attr('__mro__') }}",
        "{{ ().__class__.__bases__[0].__subclasses__() }}",
        "{{ messages.append.__self__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__globals__['__builtins__'] }}",
        "{{ strftime_now.__closure__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ range.__init__ }}",
        "{{ lipsum.__globals__ }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ '{a.__class__}'.format_map({'a': 1}) }}",
        "{{ '{0[__class__]}'.format(raise_exception) }}",
        "{{ ('{0.__class' ~ '__}').format('') }}",
        "{{ '%s' % raise_exception.__code__ }}",
        "{{ messages | map(attribute='__class__') | list }}",
        "{{ messages | map(attribute='__class__.__mro__') | first }}",
        "{{ messages | selectattr('__class__') | list }}",
        "{{ messages | groupby('__class__') | list }}",
        "{{ messages | sort(attribute='__class__') }}",
        "{{ messages | map('attr', '__class__') | list }}",
        "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
        "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
        "{% for m in messages %}{{ loop.__class__ }}{% endfor %}",
        "{% for m in messages %}{{ loop._iterator }}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'base' %}",
    ],
)
def test_a_template_that_reaches_for_python(source: str) -> None:
    renderer = line.load_with_template("{{ messages[0].content }}|" + source)
    try:
        conversation, engine_input = renderer.render_chat({"messages": [user("Hi")]})
    except (TemplateRejected, TemplateFailed) as error:
        check_no_python(str(error) + repr(error.details))
        return
    # Nothing there, as for any unknown name, is as good an answer as a refusal.
    assert conversation.messages[0]["content"] == "Hi"
    text = renderer.tokenizer.decode(engine_input.token_ids)
    check_no_python(text)
    assert text.startswith("Hi|")


def check_no_python(text: str) -> None:
    for word in ("<class", "<function", "<built-in", "object at 0x", "__builtins__", "<module"):
        assert word not in text
    assert "root:" not in text


@pytest.mark.parametrize("name", ["chat_template", "messages"])
def test_template_kwargs_that_are_not_the_templates(name: str) -> None:
    body = {"messages": [user("a")], "chat_template_kwargs": {name: SECRET}}
    with pytest.raises(InvalidRequest) as caught:
        line.model("demo").render_chat(body)
    check_showable(caught.value)


def test_a_templates_own_reason_reaches_the_client() -> None:
    error = refuse_template("{{ raise_exception('Only two messages, please.') }}")
    assert type(error) is TemplateRejected
    assert "Only two messages, please." in error.message


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ x | no_such_filter }}", "{% for %}", "{{", "{% endfor %}"]
)
def test_a_template_that_is_broken_is_the_models_fault(source: str) -> None:
    error = refuse_template(source + "{# #}")
    assert type(error) is TemplateFailed
    assert error.status == 500
