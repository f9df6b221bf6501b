"""Every real template at hand, on many conversations: our text equals transformers' own.

Needs the `parity` dependency group; real templates are taken from the private data folder beside
the checkout when it is there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from foreword.errors import ForewordError
from foreword.stages.template import render_conversation
from foreword.templating import compile_template
from foreword.types import Conversation

chat_template_utils = pytest.importorskip("transformers.utils.chat_template_utils")

pytestmark = pytest.mark.parity

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TEMPLATES = sorted(DATA.glob("templates/*.jinja")) + sorted(
    DATA.glob("models/*/chat_template.jinja")
)
SPECIAL_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
}

Json = dict[str, Any]


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def assistant(content: Any, **more: Any) -> Json:
    return {"role": "assistant", "content": content, **more}


def system(content: Any) -> Json:
    return {"role": "system", "content": content}


def part(text: str) -> Json:
    return {"type": "text", "text": text}


def call(name: str, number: int, arguments: Any) -> Json:
    return {
        "id": f"call_{number:05d}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def result(number: int, content: Any, name: str | None = None) -> Json:
    message = {"role": "tool", "tool_call_id": f"call_{number:05d}", "content": content}
    return {**message, "name": name} if name else message


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'Weather & "wind" <now>',
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Città, 城市"},
                "unit": {"type": "string", "enum": ["c", "f"]},
                "days": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time.",
        "parameters": {"type": "object", "properties": {}},
    },
}
PLAIN = [user("Hello"), assistant("Hi."), user("How are you?")]
TOOL_TURN = [
    user("Weather in Rome?"),
    assistant("Let me look.", tool_calls=[call("get_weather", 1, {"city": "Rome", "days": [1]})]),
    result(1, '{"temp": 21}', "get_weather"),
]
CONTENTS = {
    "plain": "Roses are",
    "space": "Roses are ",
    "newline": "Roses are\n",
    "leading": "\n  Roses are",
    "empty": "",
    "blank": "   ",
    "thinking": "<think>\nHm.\n</think>\n\nRoses",
    "open thinking": "<think>\nHm",
    "same text": "Write",
    "the mark": "CONTINUE_FINAL_MESSAGE_TA",
    "unicode": "玫瑰是 🌹 ",
}


def cases() -> dict[str, Json]:
    """Return, by name, the arguments of a rendering."""
    out: dict[str, Json] = {
        "one": {"messages": [user("Hello")]},
        "system": {"messages": [system("Be brief."), user("Hello")]},
        "multi-turn": {"messages": [system("Be brief."), *PLAIN]},
        "no generation prompt": {"messages": PLAIN, "add_generation_prompt": False},
        "ends with assistant": {"messages": PLAIN[:2], "add_generation_prompt": False},
        "ends with assistant, prompt": {"messages": PLAIN[:2]},
        "tools": {"messages": PLAIN, "tools": [WEATHER, CLOCK]},
        "system and tools": {"messages": [system("S"), user("Hi")], "tools": [WEATHER]},
        "no tools in list": {"messages": PLAIN, "tools": []},
        "tool turn": {"messages": TOOL_TURN, "tools": [WEATHER, CLOCK]},
        "tool turn, no generation prompt": {
            "messages": TOOL_TURN,
            "tools": [WEATHER],
            "add_generation_prompt": False,
        },
        "tool turn, no tools": {"messages": TOOL_TURN},
        "tool answer": {
            "messages": [*TOOL_TURN, assistant("21 degrees."), user("Thanks")],
            "tools": [WEATHER],
        },
        "unicode": {"messages": [user("Zażółć 🌍 \u200d 中文 \r\n\t \x00 ﷽")]},
        "markup": {"messages": [user("<b>&amp; {{ x }} {% if %} <|im_end|></s>")]},
        "blank": {"messages": [user("  a  \n"), assistant("\n b \n\n"), user("\n\n")]},
        "empty": {"messages": [user("")]},
        "empty system": {"messages": [system(""), user("x")]},
        "two users": {"messages": [user("a"), user("b")]},
        "assistant first": {"messages": [assistant("a"), user("b")]},
        "late system": {"messages": [user("a"), system("s"), user("b")]},
        "developer": {"messages": [{"role": "developer", "content": "d"}, user("b")]},
        "unknown role": {"messages": [user("a"), {"role": "critic", "content": "c"}]},
        "named": {"messages": [{"role": "user", "name": "Ann", "content": "a"}]},
        "no content": {"messages": [user("a"), {"role": "assistant"}, user("b")]},
        "none content": {"messages": [user("a"), assistant(None), user("b")]},
        "parts": {"messages": [user([part("a"), part("b ")]), assistant([part("c")]), user("d")]},
        "system parts": {"messages": [system([part("s")]), user([part("a")])]},
        "image": {"messages": [user([{"type": "image"}, part("What?")])]},
        "documents": {
            "messages": [user("a")],
            "kwargs": {"documents": [{"title": "T", "text": "D"}, {"title": "U", "text": "E"}]},
        },
        "unused kwargs": {"messages": [user("a")], "kwargs": {"nothing_reads_this": 1}},
    }
    parallel = [
        user("Both?"),
        assistant(
            None,
            tool_calls=[call("get_weather", 1, {"city": "Oslo"}), call("get_time", 2, {})],
        ),
        result(1, "rain"),
        result(2, [part("noon")]),
    ]
    out["parallel calls"] = {"messages": parallel, "tools": [WEATHER, CLOCK]}
    out["arguments as text"] = {
        "messages": [
            user("x"),
            assistant("", tool_calls=[call("get_time", 1, '{"a": "ü"}')]),
            result(1, "y"),
        ],
        "tools": [CLOCK],
    }
    out["rich arguments"] = {
        "messages": [
            user("x"),
            assistant(
                "",
                tool_calls=[
                    call("f", 1, {"s": 'q"\n', "n": 1.5, "b": True, "o": {"k": [None]}, "z": None})
                ],
            ),
            result(1, "y"),
        ],
        "tools": [CLOCK],
    }
    for field in ("reasoning", "reasoning_content", "thinking"):
        history = [
            user("a"),
            assistant("b", **{field: "Because."}),
            user("c"),
            assistant("d", **{field: "So."}),
        ]
        out[f"{field} history"] = {"messages": [*history, user("e")]}
        out[f"{field} last"] = {"messages": history, "add_generation_prompt": False}
        out[f"{field} and call"] = {
            "messages": [
                user("a"),
                assistant("", tool_calls=[call("get_time", 1, {})], **{field: "Look."}),
                result(1, "noon"),
            ],
            "tools": [CLOCK],
        }
    out["think in content"] = {"messages": [user("a"), assistant(CONTENTS["thinking"]), user("b")]}
    for name in ("enable_thinking", "thinking"):
        for value in (True, False):
            out[f"{name} {value}"] = {"messages": PLAIN, "kwargs": {name: value}}
    for effort in ("low", "high", "none", "absurd"):
        out[f"effort {effort}"] = {"messages": PLAIN, "kwargs": {"reasoning_effort": effort}}
    for name, content in CONTENTS.items():
        for shape in ("text", "parts"):
            value = content if shape == "text" else [part("A"), part(content)]
            out[f"continue {name} as {shape}"] = {
                "messages": [user("Write"), assistant(value)],
                "add_generation_prompt": False,
                "continue_final_message": True,
            }
    out["continue reasoning"] = {
        "messages": [user("Write"), assistant("Roses", reasoning_content="Hm.")],
        "add_generation_prompt": False,
        "continue_final_message": True,
    }
    out["continue user"] = {
        "messages": [system("s"), user("Write")],
        "add_generation_prompt": False,
        "continue_final_message": True,
    }
    out["continue system"] = {
        "messages": [system("s ")],
        "add_generation_prompt": False,
        "continue_final_message": True,
    }
    out["continue nothing"] = {
        "messages": [user("Write"), assistant(None)],
        "add_generation_prompt": False,
        "continue_final_message": True,
    }
    return out


CASES = cases()


def ours(source: str, case: Json, special_tokens: Mapping[str, str]) -> str:
    tools = case.get("tools")
    conversation = Conversation(
        messages=tuple(case["messages"]),
        tools=None if tools is None else tuple(tools),
        chat_template_kwargs=case.get("kwargs", {}),
        add_generation_prompt=case.get("add_generation_prompt", True),
        continue_final_message=case.get("continue_final_message", False),
    )
    template = compile_template(source)
    return render_conversation(template, conversation, special_tokens=special_tokens).text


def theirs(source: str, case: Json, special_tokens: Mapping[str, str]) -> str:
    kwargs = case.get("kwargs", {})
    rendered, _ = chat_template_utils.render_jinja_template(
        conversations=[case["messages"]],
        tools=case.get("tools"),
        documents=kwargs.get("documents"),
        chat_template=source,
        continue_final_message=case.get("continue_final_message", False),
        add_generation_prompt=case.get("add_generation_prompt", True),
        **{**special_tokens, **{k: v for k, v in kwargs.items() if k != "documents"}},
    )
    return rendered[0]


def outcome(render: Any, *args: Any) -> tuple[str, str]:
    expected_errors = ForewordError if render is ours else Exception
    try:
        return "text", render(*args)
    except expected_errors as error:
        return "error", f"{type(error).__name__}: {error}"


def assert_equal(source: str, special_tokens: Mapping[str, str]) -> None:
    for name, case in CASES.items():
        before = copy.deepcopy(case)
        expected = outcome(theirs, source, case, special_tokens)
        got = outcome(ours, source, case, special_tokens)
        assert got[0] == expected[0], (name, got, expected)
        if got[0] == "text":
            assert got[1] == expected[1], name
        assert json.dumps(case) == json.dumps(before), f"{name}: the conversation was changed"


@pytest.mark.witness(
    family="mode:hf",
    what="58 real chat templates on 78 conversations, byte for byte",
    against="transformers 5.20",
)
@pytest.mark.skipif(not TEMPLATES, reason="no private data folder beside the checkout")
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_real_template_renders_as_transformers_does(path: Path) -> None:
    assert_equal(path.read_text(encoding="utf-8"), SPECIAL_TOKENS)


SMALL = {
    "macros": """{%- macro say(role, text='') -%}<{{ role }}>{{ text|trim }}{{ caller() if caller }}
{%- endmacro -%}
{{ bos_token }}{% for m in messages %}{% call say(m.role, text=m['content']|string) %}!{% endcall %}
{% endfor %}{{ tools is defined }} {{ documents }}""",
    "operators": """{% set ns = namespace(n=0, s='') %}{% for m in messages %}
{%- set ns.n = ns.n + 2 ** loop.index % 7 * 3 -%}{%- set ns.s = ns.s ~ m.role ~ ns.n -%}
{{ '%s|%5.1f' % (m.role, ns.n) }}{{ '{0:>9}{1!r}'.format(m.role, m.content) }}{{ [1] + [2] * 2 }}
{%- endfor %}{{ ns.s[::-1] }}{{ messages[-1:] }}{{ 7 // 2 }}{{ -ns.n }}""",
    "filters": """{{ messages | tojson(indent=2) }}{{ messages | tojson(sort_keys=true) }}
{{ tools | tojson(separators=(',', ':'), ensure_ascii=true) }}
{{ messages | map(attribute='role') | join(', ') | upper | center(40) | indent(3, true) }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ messages | groupby('role') | list | string | replace('e', 'EE') | wordwrap(30) }}
{{ messages[0] | dictsort }}{{ [3, 1, 2] | sort | batch(2, 0) | list }}
{{ [[1], [2]] | sum(start=[]) }}{{ messages[-1].content }}""",
    "control": """{% for m in messages if m.role != 'system' recursive %}{% if loop.index > 3 %}
{% break %}{% endif %}{{ loop.cycle('a', 'b') }}{{ loop.last }}{% else %}none{% endfor %}
{% filter upper %}x{{ eos_token }}{% endfilter %}{% set t %}y{{ messages|length }}{% endset %}
{{ t }}{% block b %}{{ self.b is defined }}{% endblock %}{% with q = 1 %}{{ q }}{% endwith %}
{% generation %}g{% endgeneration %}
{% autoescape true %}{{ '<' ~ bos_token }}{% endautoescape %}""",
    "refuses": "{{ raise_exception('no ' + messages[0].role) }}",
}


@pytest.mark.parametrize("name", SMALL)
def test_small_template_renders_as_transformers_does(name: str) -> None:
    assert_equal(SMALL[name], SPECIAL_TOKENS)


@pytest.mark.skipif(not TEMPLATES, reason="no private data folder beside the checkout")
@pytest.mark.parametrize("name", ["qwen3", "llama3_1", "deepseek_v3"])
def test_real_tokenizer_applies_its_template_as_we_do(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(DATA / "models" / name)
    special_tokens = {k: str(v) for k, v in tokenizer.special_tokens_map.items()}

    def applied(source: str, case: Json, special_tokens: Mapping[str, str]) -> str:
        return tokenizer.apply_chat_template(
            case["messages"],
            tools=case.get("tools"),
            continue_final_message=case.get("continue_final_message", False),
            add_generation_prompt=case.get("add_generation_prompt", True),
            tokenize=False,
            **case.get("kwargs", {}),
        )

    for case_name, case in CASES.items():
        expected = outcome(applied, tokenizer.chat_template, case, special_tokens)
        got = outcome(ours, tokenizer.chat_template, case, special_tokens)
        assert got[0] == expected[0], (case_name, got, expected)
        if got[0] == "text":
            assert got[1] == expected[1], case_name


def test_clock_is_injectable() -> None:
    template = compile_template("{{ strftime_now('%d %b %Y') }}")
    rendered = template.render({}, clock=lambda: datetime(2024, 7, 26))
    assert rendered.text == "26 Jul 2024"
