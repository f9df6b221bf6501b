"""Compiling and rendering: what a template reads, prints and marks, and how it fails."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import datetime
from typing import Any

import pytest

from foreword.errors import ForewordError, TemplateFailed, TemplateRejected
from foreword.templating import compile_template


def render(source: str, **variables: Any) -> str:
    return compile_template(source).render(variables).text


def test_each_text_is_compiled_once() -> None:
    assert compile_template("{{ a }}") is compile_template("{{ a }}")


def test_compiled_template_pickles() -> None:
    template = compile_template("{{ a }}!")
    assert pickle.loads(pickle.dumps(template)).render({"a": 1}).text == "1!"


def test_variables_are_what_it_reads_and_does_not_set() -> None:
    template = compile_template(
        "{% set x = 1 %}{{ x }}{% for m in messages %}{{ loop.index }}{% endfor %}"
        "{% if tools is defined %}{{ raise_exception('no') }}{% endif %}{{ range(3) }}"
        "{{ strftime_now('%Y') }}{{ 'a' + enable_thinking * 2 }}"
    )
    assert template.variables == {"messages", "tools", "enable_thinking"}


def test_blocks_are_trimmed_as_chat_templates_expect() -> None:
    source = "{% if true %}\n  {% if true %}\n  a\n  {% endif %}\n{% endif %}\nb\n"
    assert render(source) == "  a\nb"


def test_tojson_keeps_every_character_and_takes_options() -> None:
    value = {"b": "<é&'>", "a": [1, None, True]}
    assert render("{{ v | tojson }}", v=value) == '{"b": "<é&\'>", "a": [1, null, true]}'
    assert render("{{ v | tojson(sort_keys=true, separators=(',', ':')) }}", v=value) == (
        '{"a":[1,null,true],"b":"<é&\'>"}'
    )
    assert render("{{ v | tojson(indent=1) }}", v={"a": [1]}) == '{\n "a": [\n  1\n ]\n}'
    assert render("{{ v | tojson(ensure_ascii=true) }}", v="é") == '"\\u00e9"'


def test_strftime_now_reads_the_given_clock() -> None:
    template = compile_template("{{ strftime_now('%d %b %Y') }}")
    assert template.render({}, clock=lambda: datetime(2024, 7, 26)).text == "26 Jul 2024"


def test_loop_controls_work() -> None:
    assert render(
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
        "{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    ) == "02"  # fmt: skip


def test_generation_tag_marks_the_assistant_in_the_final_text() -> None:
    rendered = compile_template(
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}\n{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
        "{% endfor %}"
    ).render(
        {
            "messages": [
                {"role": "user", "content": "é"},
                {"role": "assistant", "content": "one"},
                {"role": "user", "content": "u"},
                {"role": "assistant", "content": "two"},
            ]
        }
    )
    assert [rendered.text[a:b] for a, b in rendered.assistant_spans] == ["one\n", "two\n"]


def test_generation_tag_inside_a_macro_prints_and_claims_no_place() -> None:
    rendered = compile_template(
        "{% macro say(x) %}{% generation %}{{ x }}{% endgeneration %}{% endmacro %}a{{ say('b') }}"
    ).render({})
    assert rendered.text == "ab"
    assert rendered.assistant_spans == ()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "string"),
        ("{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", "openai"),
        ("{% for m in messages %}{% for c in m['content'] | list %}{% endfor %}{% endfor %}",
         "openai"),
        ("{% set a = messages[1:] %}{% for m in a %}{% for c in m.content %}{% endfor %}"
         "{% endfor %}", "openai"),
        ("{% set ns = namespace(r=messages) %}{% for m in ns.r %}{% for c in m.content %}"
         "{% endfor %}{% endfor %}", "openai"),
        ("{% set ns = namespace() %}{% set ns.r = messages %}{% for m in ns.r %}"
         "{% for c in m.content %}{% endfor %}{% endfor %}", "openai"),
        ("{% macro f(x) %}{% for c in x %}{% endfor %}{% endmacro %}"
         "{% for m in messages %}{{ f(m.content) }}{% endfor %}", "openai"),
        ("{% macro f(x) %}{% for c in x %}{% endfor %}{% endmacro %}"
         "{% for m in messages %}{{ f(x=m.content) }}{% endfor %}", "openai"),
        ("{% macro f(content) %}{% for c in content %}{% endfor %}{% endmacro %}"
         "{% for m in messages %}{{ f(m.role) }}{% endfor %}", "string"),
        ("{% for m in messages %}{% set content = m.content %}{% for c in content %}{% endfor %}"
         "{% endfor %}", "openai"),
        ("{% for m in messages %}{% for t in m.tool_calls %}{% endfor %}{% endfor %}", "string"),
    ],
)  # fmt: skip
def test_content_format_follows_the_syntax_tree(source: str, expected: str) -> None:
    assert compile_template(source).content_format == expected


def test_developer_branch_is_a_constant_not_a_word() -> None:
    assert compile_template("{% if m.role == 'developer' %}{% endif %}").has_developer_branch
    assert compile_template('{% if r in ["system", "developer"] %}{% endif %}').has_developer_branch
    assert not compile_template("the developer {# 'developer' #}").has_developer_branch


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("a\n{% if %}", 2, "Expected an expression"),
        ("{{ a", 1, "unexpected"),
        ("\n\n{{ a | from_json }}", 3, "from_json"),
        ("{{ a is nosuch }}", 1, "nosuch"),
        ("{% generation %}", 1, "generation"),
    ],
)
def test_broken_template_is_the_models_fault(source: str, line: int, word: str) -> None:
    with pytest.raises(TemplateFailed, match=word) as caught:
        compile_template(source)
    assert caught.value.details["line"] == line


def test_missing_filter_in_a_branch_is_the_models_fault_once_it_is_reached() -> None:
    template = compile_template("{% if go %}\n{{ 'x' | from_json }}{% endif %}ok")
    assert template.render({"go": False}).text == "ok"
    with pytest.raises(TemplateFailed, match="from_json") as caught:
        template.render({"go": True})
    assert caught.value.details["line"] == 2


def test_including_another_template_is_the_models_fault() -> None:
    with pytest.raises(TemplateFailed, match="includes"):
        render("{% include 'other' %}")


def test_too_large_source_is_refused() -> None:
    with pytest.raises(TemplateFailed, match="1048577 characters"):
        compile_template("x" * (2**20 + 1))


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("{{ raise_exception('Roles must alternate: ' + m[0].role) }}", "Roles must alternate: u"),
        ("{{ m[0].nothing.more }}", "has no attribute 'nothing'"),
        ("{{ nothing + 'x' }}", "'nothing' is undefined"),
        ("{{ 'a' + 1 }}", "str"),
        ("{{ none | length }}", "NoneType"),
        ("{{ nothing | tojson }}", "not JSON serializable"),
        ("{{ [1].index(m[0].content) }}", "does not fit (ValueError)"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself too deeply"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ m.append(1) }}", "unsafe"),
        ("{{ m[0].update({'role': 'x'}) }}", "unsafe"),
        ("{{ (m | map(attribute='__class__') | list)[0].x }}", "unsafe"),
        ("{{ '{0.__class__}'.format(m) }}{{ cycler.__init__.__globals__ }}", "unsafe"),
        ("{% set m.role = 1 %}", "non-namespace"),
    ],
)
def test_what_the_data_breaks_is_the_requests_fault(source: str, word: str) -> None:
    messages = [{"role": "u", "content": "secret"}]
    before = copy.deepcopy(messages)
    with pytest.raises(ForewordError, match=re.escape(word)) as caught:
        render(source, m=messages)
    assert isinstance(caught.value, TemplateRejected | TemplateFailed)
    assert "<" not in str(caught.value)
    assert "0x" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert messages == before


def test_a_rejection_names_the_templates_line() -> None:
    with pytest.raises(TemplateRejected) as caught:
        render("a\nb\n{{ raise_exception('no') }}")
    assert caught.value.details == {"reason": "no", "line": 3}


def test_a_reason_is_never_endless() -> None:
    with pytest.raises(TemplateRejected) as caught:
        render("{{ raise_exception(x) }}", x="a" * 10**6)
    assert len(str(caught.value)) < 1200


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ 'a' + b + 'c' }}{{ 1 + 2 }}{{ [1] + [2] }}{{ (1,) + (2,) }}", "abc3[1, 2](1, 2)"),
        ("{{ 'a' ~ 1 ~ none ~ [2] }}{% set x = 'a' ~ b ~ 2 %}{{ x }}", "a1None[2]ab2"),
        ("{{ 2 ** 10 }}{{ 7 % 4 }}{{ '%s-%03d' % (b, 5) }}{{ '-' * 3 }}{{ 3 * 'x' }}",
         "10243b-005---xxx"),
        ("{{ '{}{:>3}{k!r}'.format(b, 1, k='z') }}{{ '{x}'.format_map({'x': 1}) }}", "b  1'z'1"),
        ("{{ '%(meter)s' | format(meter=1) }}{{ 'x' | center(5) }}|", "1  x  |"),
        ("{{ 'a,b'.split(',') | join('-') }}{{ 'abab'.replace('a', 'x') }}{{ 'b' in b }}",
         "a-bxbxbTrue"),
        ("{{ [3, 1] | sort }}{{ [1, 2, 3] | batch(2, 0) | list }}", "[1, 3][[1, 2], [3, 0]]"),
        ("{{ [[1], [2]] | sum(start=[]) }}{{ [1, 2] | sum }}{{ 1.26 | round(1) }}", "[1, 2]31.3"),
        ("{{ [{'k': 'a'}, {'k': 'b'}] | selectattr('k', 'equalto', 'b') | list | tojson }}",
         '[{"k": "b"}]'),
        ("{% autoescape true %}{{ '<' ~ ('<' | safe) }}{{ '<' + b }}{% endautoescape %}",
         "&lt;<&lt;b"),
        ("{{ {'a': 1}.items() | list }}{{ 'xay'[1:] }}{{ [1, 2, 3][::-1] }}",
         "[('a', 1)]ay[3, 2, 1]"),
    ],
)  # fmt: skip
def test_measured_operations_give_what_jinja_gives(source: str, expected: str) -> None:
    assert render(source, b="b") == expected
