"""`foreword render` prints what the renderer gives, and says what is wrong with the rest."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from foreword.demo import DEMO_REQUEST, model_folder
from foreword.engines.vllm_generate import to_dict

SHORT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 7}
SHORT_TEXT = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


def ids(reference, text):
    return reference.encode(text, add_special_tokens=False).ids


def test_engine_request_is_the_default(run, request_file, reference):
    answer = run("render", request_file(SHORT))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("\n") == 1
    request = answer.json()
    assert request["token_ids"] == ids(reference, SHORT_TEXT)
    assert request["sampling_params"]["max_tokens"] == 7
    assert request["sampling_params"]["temperature"] == 0.7  # generation_config.json's


@pytest.mark.parametrize("body", [DEMO_REQUEST, SHORT], ids=["demo", "short"])
def test_every_station_is_the_renderers(run, request_file, renderer, body):
    file, trace = request_file(body), renderer.trace(body)

    def at(station):
        return run("render", file, "--to", station)

    conversation = at("conversation").json()
    assert conversation["messages"] == json.loads(json.dumps(trace.conversation.messages))
    assert at("text").out == trace.rendered.text
    tokens = at("tokens").json()
    assert tokens["token_ids"] == trace.tokens.token_ids.tolist()
    assert tokens["offsets"] == [list(span) for span in trace.tokens.offsets]
    assert at("input").json()["token_ids"] == trace.engine_input.token_ids.tolist()
    engine = at("engine").json() | {"request_id": ""}
    expected = to_dict(renderer.generate_request(body)) | {"request_id": ""}
    assert engine == json.loads(json.dumps(expected))


def test_a_completion_gives_an_object_and_several_prompts_a_list(run, request_file, reference):
    one = run("render", request_file({"prompt": "Hello"})).json()
    assert one["token_ids"] == ids(reference, "Hello")
    body = request_file({"prompt": ["Hello", "world"]})
    many = run("render", body).json()
    assert [item["token_ids"] for item in many] == [ids(reference, t) for t in ("Hello", "world")]
    assert run("render", body, "--to", "text").json() == ["Hello", "world"]


def test_ids_have_no_text_and_completions_no_conversation(run, request_file):
    given = request_file({"prompt": [5, 6, 7]})
    assert run("render", given, "--to", "tokens").json()["token_ids"] == [5, 6, 7]
    answer = run("render", given, "--to", "text")
    assert answer.code == 2
    assert "foreword detokenize" in answer.err
    assert "no conversation" in run("render", given, "--to", "conversation").err


def test_standard_input_indent_and_output(run, tmp_path):
    body = json.dumps(SHORT).encode()
    pretty = run("render", "-", "--to", "tokens", "--indent", "1", stdin=body)
    plain = run("render", "-", "--to", "tokens", stdin=body)
    assert pretty.json() == plain.json()
    assert pretty.out.count("\n") > 5 > plain.out.count("\n")
    target = tmp_path / "out.json"
    answer = run("render", "-", "--to", "tokens", "--output", str(target), stdin=body)
    assert answer.out == ""
    assert json.loads(target.read_text()) == plain.json()


def test_an_earlier_station_does_not_mind_a_later_fault(run, request_file, chat):
    chat["max_tokens"] = 9000
    file = request_file(chat)
    assert run("render", file, "--to", "text").code == 0
    answer = run("render", file, "--to", "input")
    assert answer.code == 2
    assert "max_tokens is 9000, more than the context length 8192" in answer.err
    with open(file, "rb") as body:
        assert "[max_tokens]" in run("render", "-", stdin=body.read()).err


def test_max_model_len_and_pooling(run, request_file, reference):
    file = request_file({"prompt": "one two three four five six", "max_tokens": 1})
    num_tokens = len(ids(reference, "one two three four five six"))
    answer = run("render", file, "--max-model-len", str(num_tokens))
    assert answer.code == 2
    assert f"has {num_tokens} tokens; the context holds {num_tokens} " in answer.err
    pooled = request_file({"input": "one two three four five six"})
    arguments = ("--runner", "pooling", "--max-model-len", str(num_tokens))
    assert len(run("render", pooled, *arguments).json()["token_ids"]) == num_tokens
    assert run("render", pooled, *arguments, "--to", "engine").code == 2
    assert "write a whole number" in run("render", file, "--max-model-len", "8q").err


def test_chat_template_is_a_source_a_file_or_a_name(run, request_file, tmp_path):
    file = request_file(SHORT)
    source = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    template = tmp_path / "mine.jinja"
    template.write_text(source)
    for given in (source, str(template)):
        answer = run("render", file, "--to", "text", "--chat-template", given)
        assert answer.out == "[Hello]"
    named = run("render", file, "--to", "text", "--chat-template", "default")
    assert named.out == SHORT_TEXT
    (tmp_path / "plain.jinja").write_text("no variables")
    plain = run("render", file, "--to", "text", "--chat-template", str(tmp_path / "plain.jinja"))
    assert plain.out == "no variables"
    (tmp_path / "void.jinja").write_text("\n")
    for given, sentence in (
        ("gone.jinja", "no chat template file gone.jinja"),
        ("nope", "no chat template named 'nope'"),
        (str(tmp_path / "void.jinja"), "is empty"),
        (str(tmp_path), "is a folder"),
    ):
        answer = run("render", file, "--chat-template", given)
        assert (answer.code, answer.out) == (2, "")
        assert sentence in answer.err


def test_request_templates_need_trust(run, request_file):
    file = request_file({**SHORT, "chat_template": "{{ messages[0].content }}!"})
    assert run("render", file).code == 2
    trusted = run("render", file, "--trust-request-chat-template", "--to", "text")
    assert trusted.out == "Hello!"


# ---------------------------------------------------------------------------------------------
# Whose fault it is.


def test_a_template_that_loops_for_ever_ends_within_seconds(run, request_file):
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    began = time.monotonic()
    answer = run("render", request_file(SHORT), "--chat-template", loop)
    assert time.monotonic() - began < 20
    assert answer.code == 2
    assert "Traceback" not in answer.err


def test_a_template_that_reaches_for_python_is_refused(run, request_file):
    escape = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    answer = run("render", request_file(SHORT), "--chat-template", escape)
    assert answer.code in (2, 3)
    assert answer.out == ""
    assert "Traceback" not in answer.err


def test_a_broken_template_and_a_missing_model_are_the_models_fault(run, request_file, tmp_path):
    file = request_file(SHORT)
    broken = run("render", file, "--chat-template", "{% if %}", "--json")
    assert broken.code == 3
    assert "warning: The chat template given does not compile (line 1)" in broken.err
    assert json.loads(broken.err.splitlines()[-1])["code"] == "template_failed"
    assert run("render", file, model=str(tmp_path)).code == 3
    gone = run("render", file, "--json", model=str(tmp_path / "gone"))
    assert (gone.code, json.loads(gone.err)["param"]) == (2, "model")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{not json", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"[1, 2]", "object"),
        (b'{"messages": 5}', "messages"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "lone surrogate"),
        (b"\xff\xfe", ""),
        (b'{"prompt": ""}', "prompt is empty"),
        (b'{"prompt": [-1]}', "integer of 0 or more"),
        (b'{"prompt": [99999999]}', "not in the vocabulary"),
        (b'{"prompt": [99999999999999999999]}', "not in the vocabulary"),
        (b"[" * 100_000, ""),
    ],
)
def test_bad_bodies_are_the_callers_fault(run, body, sentence):
    answer = run("render", "-", stdin=body)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("foreword: ")
    assert answer.err.count("\n") == 1
    assert sentence in answer.err
    as_json = json.loads(run("render", "-", "--json", stdin=body).err)
    assert set(as_json) == {"code", "status", "message", "param", "details"}
    assert as_json["status"] == 400


def test_nul_is_text_like_any_other(run, request_file, reference):
    answer = run("render", request_file({"prompt": "a\0b"}))
    assert answer.json()["token_ids"] == ids(reference, "a\0b")


def test_a_huge_body_is_refused_unread(run, tmp_path):
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(100 * 2**20)
    began = time.monotonic()
    answer = run("render", str(huge))
    assert time.monotonic() - began < 1
    assert answer.code == 2
    assert "has 104857600 bytes; at most 33554432 are accepted" in answer.err
    assert "more than 33554432 bytes" in run("render", "-", stdin=b" " * (33554432 + 1)).err


def test_unreadable_files_and_wrong_arguments(run, tmp_path, request_file):
    file = request_file(SHORT)
    for arguments, sentence in (
        ((str(tmp_path),), "is a folder"),
        ((str(tmp_path / "gone.json"),), "cannot be read: No such file"),
        (("a\0b",), "cannot be read"),
        ((), "Give one request file"),
        ((file, "--batch", file), "Give one request file"),
        ((file, "--indent", "99"), "from 0 to 16"),
        ((file, "--to", "nowhere"), "invalid choice"),
        ((file, "--output", file), "is the file that is read"),
        ((file, "--output", str(tmp_path)), "Is a directory"),
    ):
        answer = run("render", *arguments)
        assert (answer.code, answer.out) == (2, ""), arguments
        assert sentence in answer.err
        assert "Traceback" not in answer.err
    assert json.loads(Path(file).read_text()) == SHORT


def test_served_names_are_checked(run, request_file):
    file = request_file({**SHORT, "model": "other"})
    assert run("render", file, "--served-model-name", "mine").code == 2
    assert (
        run("render", file, "--served-model-name", "mine", "--served-model-name", "other").code == 0
    )


def test_the_demo_model_has_no_warnings_to_say(run, request_file):
    assert run("render", request_file(SHORT), model=model_folder()).err == ""


def test_warnings_are_said_once_and_silenced(run, request_file, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    with open(f"{model_folder()}/tokenizer.json", "rb") as file:
        (folder / "tokenizer.json").write_bytes(file.read())
    file = request_file({"prompt": "Hello"})
    loud = run("render", file, model=str(folder))
    assert loud.code == 0
    assert loud.err.count("foreword: warning: There is no config.json") == 1
    assert run("render", file, "--quiet", model=str(folder)).err == ""
