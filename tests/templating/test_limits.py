"""Templates that never end, or allocate without end, stop with an error, and soon."""

from __future__ import annotations

import time

import pytest

from foreword.errors import DeadlineExceeded, TemplateRejected
from foreword.templating import TemplateLimits, compile_template

SMALL = TemplateLimits(max_work=5_000, max_output_chars=100_000, deadline_seconds=None)

DOUBLED = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}%s{% endfor %}"
TREE = DOUBLED.replace("%s", "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}")
PAIRS = (
    "{% set ns = namespace(a=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}"
    "{% endfor %}"
)
GROWN = "{% set ns = namespace(x='a') %}{% for i in range(99) %}%s{% endfor %}"
LONG = "{% set x = 'a' * 9000 %}"

ENDLESS = {
    "nested loops": "{% for i in range(9000) %}{% for j in range(9000) %}{% endfor %}{% endfor %}",
    "a loop's filter": "{% for i in range(9000) %}{% for j in range(9000) if 0 %}{% endfor %}"
    "{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "a recursive loop": "{% for x in [1, 2] recursive %}{% if loop.depth < 60 %}"
    "{{ loop([1, 2]) }}{% endif %}{% endfor %}",
    "call blocks": "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + GROWN.replace("%s", "{% set y %}{% call f() %}{{ ns.x }}{% endcall %}{% endset %}"
                    "{% set ns.x = y %}"),
    "copies of a text": "{% for i in range(9000) %}{% set x = ('a' * 90000)[1:] %}{% endfor %}",
}  # fmt: skip

HUGE = {
    "text times": "{{ 'x' * 10**9 }}",
    "list times": "{{ ([1] * 10**9) | length }}",
    "times, unused": "{% set x = 'x' * 1000000000 %}",
    "doubled by +": GROWN.replace("%s", "{% set ns.x = ns.x + ns.x %}"),
    "doubled by ~": GROWN.replace("%s", "{% set ns.x = ns.x ~ ns.x %}"),
    "doubled by a set block": GROWN.replace(
        "%s", "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"
    ),
    "doubled by a filter block": GROWN.replace(
        "%s",
        "{% set y %}{% filter upper %}{{ ns.x }}{{ ns.x }}{% endfilter %}{% endset %}"
        "{% set ns.x = y %}",
    ),
    "doubled as an argument": "{% macro f(x, n) %}{% if n %}{{ f(x + x, n - 1) }}{% endif %}"
    "{% endmacro %}{{ f('aa', 90) }}",
    "squared": "{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}",
    "power": "{{ 10 ** (10 ** 8) }}",
    "percent width": "{{ '%1000000000d' % 1 }}",
    "percent precision": "{{ '%.1000000000f' % 1.5 }}",
    "percent star": "{{ '%*d' % (1000000000, 1) }}",
    "format width": "{{ '{:1000000000}'.format('x') }}",
    "format nested width": "{{ '{:{w}}'.format('x', w=10**9) }}",
    "format_map width": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "format of safe text": "{{ ('{:1000000000}' | safe).format('x') }}",
    "format filter": "{{ '%1000000000s' | format('x') }}",
    "center": "{{ 'x'.center(10**9) }}",
    "ljust": "{{ 'x'.ljust(10**9) }}",
    "rjust": "{{ 'x'.rjust(10**9) }}",
    "zfill": "{{ 'x'.zfill(10**9) }}",
    "center filter": "{{ 'x' | center(width=10**9) }}",
    "replace": LONG + "{{ x.replace('a', x) }}",
    "replace nothing": LONG + "{{ x.replace('', x) }}",
    "replace filter": LONG + "{{ x | replace('a', x) }}",
    "join": LONG + "{{ x.join(x) }}",
    "join filter": LONG + "{{ x | join(x) }}",
    "translate": LONG + "{{ x.translate({97: x}) }}",
    "expandtabs": "{{ '\t'.expandtabs(10**9) }}",
    "to_bytes": "{{ (5).to_bytes(10**9, 'big') }}",
    "indent": "{{ 'a\\nb' | indent(10**9) }}",
    "wordwrap": LONG + "{{ x | wordwrap(1, true, x) }}",
    "batch": "{{ [1] | batch(10**9, 'x') | list }}",
    "slice": "{{ [1] | slice(slices=10**9) | list }}",
    "sum of lists": "{{ ([[1] * 9] * 900) | sum(start=[]) }}",
    "json indent": "{{ [[1]] | tojson(indent=10**9) }}",
    "json separators": LONG + "{{ (range(900) | list) | tojson(separators=(x, x)) }}",
    "round": "{{ 1 | round(10**9, 'ceil') }}",
    "filler words": "{{ lipsum(n=10**9) }}",
    "the output": "{% for i in range(4000) %}" + "x" * 100 + "{% endfor %}",
}

SHARED = {
    "printed": TREE + "{{ ns.a }}",
    "as JSON": TREE + "{{ ns.a | tojson }}",
    "compared": TREE + "{{ ns.a == ns.b }}",
    "tested": TREE + "{{ ns.a is eq(ns.b) }}",
    "sought": TREE + "{{ ns.a in [ns.b] }}",
    "sorted": TREE + "{{ [ns.a, ns.b] | sort }}",
    "formatted": TREE + "{{ '{}'.format(ns.a) }}",
    "formatted with %": TREE + "{{ '%s' % (ns.a,) }}",
    "joined": TREE + "{% set x = '' ~ ns.a %}",
    "trimmed": TREE + "{{ ns.a | trim }}",
    "mapped": TREE + "{{ [ns.a] | map('string') | list }}",
    "replacing": TREE + "{{ 'x' | replace('x', ns.a) }}",
    "raised": TREE + "{{ raise_exception(ns.a) }}",
    "subscript": PAIRS + "{{ {}[ns.a] }}",
    "key": PAIRS + "{{ {ns.a: 1} }}",
    "sought by index": TREE + "{{ [ns.b].index(ns.a) }}",
    "got": PAIRS + "{{ {}.get(ns.a) }}",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_work_meets_the_work_limit(name: str) -> None:
    with pytest.raises(TemplateRejected) as caught:
        compile_template(ENDLESS[name]).render({}, SMALL)
    assert caught.value.details["limit"] in ("max_work", "max_output_chars")


@pytest.mark.parametrize("name", HUGE)
def test_one_huge_value_is_refused_before_it_is_made(name: str) -> None:
    started = time.monotonic()
    with pytest.raises(TemplateRejected) as caught:
        compile_template(HUGE[name]).render({}, SMALL)
    assert "limit" in caught.value.details
    assert time.monotonic() - started < 1


def test_ranges_end_where_the_sandbox_says() -> None:
    with pytest.raises(TemplateRejected, match="Range too big"):
        compile_template("{{ range(10**9) | list }}").render({})


@pytest.mark.parametrize("name", SHARED)
def test_containers_that_share_parts_are_never_walked_in_full(name: str) -> None:
    with pytest.raises(TemplateRejected) as caught:
        compile_template(SHARED[name]).render({}, SMALL)
    assert caught.value.details["limit"] in ("max_work", "max_output_chars")


@pytest.mark.parametrize("name", ["macros", "nested loops", "a loop's filter"])
def test_deadline_stops_what_the_work_limit_would_allow(name: str) -> None:
    limits = TemplateLimits(max_work=10**12, deadline_seconds=0.05)
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        compile_template(ENDLESS[name]).render({}, limits)
    assert time.monotonic() - started < 1
    assert caught.value.details == {"deadline_seconds": 0.05}


def test_limits_name_themselves_and_their_number() -> None:
    with pytest.raises(TemplateRejected, match=r"more than 5000 steps.*max_work"):
        compile_template(ENDLESS["nested loops"]).render({}, SMALL)
    with pytest.raises(TemplateRejected, match=r"at most 100000.*max_output_chars"):
        compile_template(HUGE["center"]).render({}, SMALL)


def test_output_may_be_exactly_as_long_as_the_limit() -> None:
    template = compile_template("{{ x }}")
    limits = TemplateLimits(max_output_chars=100)
    assert template.render({"x": "a" * 100}, limits).text == "a" * 100
    with pytest.raises(TemplateRejected):
        template.render({"x": "a" * 101}, limits)


def test_a_long_ordinary_chat_stays_far_below_the_default_limits() -> None:
    template = compile_template(
        "{% for m in messages %}{{ '<' + m.role + '>' + m.content | trim + '\n' }}{% endfor %}"
    )
    messages = [{"role": "user", "content": "word " * 200} for _ in range(1000)]
    limits = TemplateLimits(max_work=40_000)
    assert len(template.render({"messages": messages}, limits).text) > 1_000_000


def test_a_stopped_template_renders_again() -> None:
    template = compile_template("{% for i in range(n) %}{{ i }}{% endfor %}")
    limits = TemplateLimits(max_work=100)
    with pytest.raises(TemplateRejected):
        template.render({"n": 1000}, limits)
    assert template.render({"n": 3}, limits).text == "012"


def test_wrapping_costs_by_the_line_and_by_the_word() -> None:
    """A line is microseconds of Python's own, and copies what is left of its word."""
    template = compile_template("{{ x | wordwrap(width=2) }}")
    for text in ("a" * 400_000, "a b " * 300_000):
        started = time.monotonic()
        with pytest.raises(TemplateRejected, match="max_work"):
            template.render({"x": text})
        assert time.monotonic() - started < 1
    assert template.render({"x": "aa bb"}).text == "aa\nbb"
    assert len(template.render({"x": "a b " * 20_000}).text) >= 40_000
