"""`foreword tokenize`, `detokenize` and `inspect` on the demo model."""

from __future__ import annotations

import json

import pytest

from foreword.demo import model_folder

TEXT = "Hello, 東京 <|im_end|>\n"


def test_ids_are_the_references(run, reference, tmp_path):
    expected = reference.encode(TEXT).ids
    assert run("tokenize", TEXT).out == " ".join(map(str, expected)) + "\n"
    assert run("tokenize", "-", stdin=TEXT.encode()).out.split() == [str(i) for i in expected]
    file = tmp_path / "text.txt"
    file.write_bytes(TEXT.encode())
    assert run("tokenize", "--file", str(file), "--count").out == f"{len(expected)}\n"
    answer = run("tokenize", TEXT, "--json").json()
    assert answer["tokens"] == expected
    assert answer["count"] == len(expected)
    assert answer["token_strs"] == [reference.id_to_token(i) for i in expected]
    assert [tuple(span) for span in answer["offsets"]] == reference.encode(TEXT).offsets


def test_ids_become_the_text_again(run, reference):
    ids = [str(i) for i in reference.encode(TEXT).ids]
    assert run("detokenize", *ids).out == TEXT
    assert run("detokenize", ",".join(ids)).out == TEXT
    assert run("detokenize", stdin=f"[{', '.join(ids)}]".encode()).out == TEXT
    assert run("detokenize", "-", "--json", stdin=" ".join(ids).encode()).json() == {"prompt": TEXT}


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (("detokenize", "x"), b"", "integers of 0 or more"),
        (("detokenize", "-5"), b"", "not negative"),
        (("detokenize", "1.5"), b"", "not a fraction"),
        (("detokenize", "99999999"), b"", "ids are integers from 0 to 2815"),
        (("detokenize", "9" * 5000), b"", ""),
        (("detokenize",), b"[[1]]", "not an array"),
        (("detokenize",), b"\xff", "integers of 0 or more"),
        (("tokenize",), b"", "Give a text"),
        (("tokenize", "a", "--file", "b"), b"", "Give a text"),
        (("tokenize", "--file", "gone"), b"", "gone cannot be read"),
        (("tokenize", "-"), b"ab\xff", "is not UTF-8: byte 0xff at position 2"),
        (("tokenize", "a\udcff"), b"", "lone surrogate"),
    ],
)
def test_bad_input_is_the_callers_fault(run, arguments, stdin, sentence):
    answer = run(*arguments, stdin=stdin)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert answer.err.count("\n") == 1


def test_inspect_tells_what_the_files_say(run, renderer, reference):
    facts = run("inspect", "--json").json()
    assert facts["fingerprint"] == renderer.assets.fingerprint
    assert facts["tokenizer"]["kind"] == "BPE"
    assert facts["tokenizer"]["vocab_size"] == reference.get_vocab_size()
    assert facts["tokenizer"]["max_token_id"] == 2815
    longest = max(map(len, reference.get_vocab()))
    assert facts["tokenizer"]["max_chars_per_token"] == longest
    assert facts["max_model_len"] == {"value": 8192, "source": "max_position_embeddings"}
    assert facts["special_tokens"]["eos_token"] == {"token": "<|im_end|>", "id": 2}
    template = facts["chat_templates"]["default"]
    assert template["content_format"] == "openai"
    assert template["kwargs"] == ["enable_thinking"]
    assert template["reads_tools"] is True
    with open(f"{model_folder()}/generation_config.json") as file:
        defaults = json.load(file)
    assert facts["generation_defaults"]["temperature"] == defaults["temperature"]


def test_inspect_for_a_person(run, renderer):
    page = run("inspect").out
    for words in (renderer.assets.fingerprint, "8,192 tokens", "<|im_end|>  2", "enable_thinking"):
        assert words in page
    assert "4,096 tokens (requested)" in run("inspect", "--max-model-len", "4K").out
    assert "broken" in run("inspect", "--chat-template", "{% if %}").out
