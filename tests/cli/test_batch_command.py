"""`foreword render --batch`: as many lines out as in, in order, whatever they are."""

from __future__ import annotations

import json

import pytest

from foreword.cli import batch

HELLO = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 7}


def lines(*items) -> bytes:
    rows = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in items]
    return b"\n".join(rows) + b"\n"


def rows(answer):
    return [json.loads(line) for line in answer.out.splitlines()]


def test_a_failing_line_in_the_middle_costs_no_other(run, reference):
    answer = run("render", "--batch", "-", stdin=lines(HELLO, b"{oops", {"prompt": ["a", "b"]}))
    first, second, third = rows(answer)
    assert answer.code == 2
    assert [row["index"] for row in (first, second, third)] == [0, 1, 2]
    assert [row["status"] for row in (first, second, third)] == [200, 400, 200]
    expected = reference.encode(
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False
    ).ids
    assert first["response"]["token_ids"] == expected
    assert set(second) == {"index", "status", "error"}
    assert set(second["error"]) == {"message", "type", "param", "code"}
    assert second["error"]["code"] == 400
    assert [item["token_ids"] for item in third["response"]] == [
        reference.encode(text).ids for text in ("a", "b")
    ]
    assert answer.err == ""


def test_all_fine_is_zero_and_a_file_works_as_well(run, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(lines(*[HELLO] * 20).rstrip(b"\n"))
    answer = run("render", "--batch", str(source), "--output", str(target))
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    written = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["index"] for row in written] == list(range(20))
    assert run("render", "--batch", str(source), "--output", str(source)).code == 2
    assert len(source.read_bytes().splitlines()) == 20


def test_lines_of_openai_batch_files(run):
    chat, completion = "/v1/chat/completions", "/v1/completions"
    answer = run(
        "render",
        "--batch",
        "-",
        stdin=lines(
            {"custom_id": "a", "method": "POST", "url": chat, "body": HELLO},
            {"custom_id": "b", "url": completion, "body": {"prompt": "x"}},
            {"custom_id": "c", "url": completion, "body": HELLO},
            {"custom_id": "d", "url": "/v1/embeddings", "body": {"input": "x"}},
        ),
    )
    found = rows(answer)
    assert [row["custom_id"] for row in found] == ["a", "b", "c", "d"]
    assert [row["status"] for row in found] == [200, 200, 400, 400]
    assert isinstance(found[1]["response"], list)
    assert found[3]["error"]["param"] == "url"


def test_odd_lines_are_answered_too(run, monkeypatch):
    monkeypatch.setattr(batch, "MAX_BODY_BYTES", 1000)
    monkeypatch.setattr(batch, "_WRAPPING_BYTES", 100)
    long = {"prompt": "x" * 5000}
    answer = run("render", "--batch", "-", stdin=lines(b"", b"5", long, b"\xff", b"null", HELLO))
    assert [row["status"] for row in rows(answer)] == [400, 400, 400, 400, 400, 200]
    assert "The line is empty" in rows(answer)[0]["error"]["message"]
    assert "has 5015 bytes; at most 1000" in rows(answer)[2]["error"]["message"]


def test_a_bug_costs_one_line_and_tells_nothing(run, monkeypatch):
    real = batch.render_one

    def fails_once(renderer, body, **options):
        if b"boom" in body:
            raise ValueError("secret " + body.decode())
        return real(renderer, body, **options)

    monkeypatch.setattr(batch, "render_one", fails_once)
    answer = run("render", "--batch", "-", stdin=lines(HELLO, {"prompt": "boom"}, HELLO))
    assert answer.code == 3
    assert [row["status"] for row in rows(answer)] == [200, 500, 200]
    assert "secret" not in answer.out + answer.err
    assert "ValueError" in rows(answer)[1]["error"]["message"]


def test_a_models_fault_is_graver_than_a_callers(run):
    stdin = lines(b"{", HELLO, {"prompt": "x"})
    answer = run("render", "--batch", "-", "--chat-template", "{% if %}", stdin=stdin)
    assert answer.code == 3
    assert [row["status"] for row in rows(answer)] == [400, 500, 200]


@pytest.mark.parametrize("station", ["text", "tokens", "conversation", "input"])
def test_other_stations(run, station):
    single = run("render", "-", "--to", station, stdin=json.dumps(HELLO).encode())
    batched = run("render", "--batch", "-", "--to", station, stdin=lines(HELLO))
    value = rows(batched)[0]["response"]
    if station == "text":
        assert value == [single.out] or value == single.out
    else:
        expected = single.json()
        for item in (value, expected):
            item.pop("arrival_time", None)
        assert value == expected


def test_memory_is_bounded_by_a_line_not_by_the_file():
    class Endless:
        """A source that would never end: only reading line by line can stop early."""

        def readline(self, limit):
            return b'{"prompt": "x"}\n'

    source = batch._lines(Endless())
    assert [next(source).num_bytes for _ in range(3)] == [16, 16, 16]


def test_a_byte_order_mark_before_the_first_line_or_a_body_is_passed_over(run):
    bom = b"\xef\xbb\xbf"
    plain = rows(run("render", "--batch", "-", "--to", "text", stdin=lines(HELLO, HELLO)))
    marked = rows(run("render", "--batch", "-", "--to", "text", stdin=bom + lines(HELLO, HELLO)))
    assert marked == plain
    assert [row["status"] for row in marked] == [200, 200]
    page = run("trace", "-", "--json", stdin=bom + json.dumps(HELLO).encode()).json()
    assert page["error"] is None
    assert run("detokenize", stdin=bom + b"[5, 6]").code == 0


def test_an_empty_file_gives_nothing(run):
    answer = run("render", "--batch", "-", stdin=b"")
    assert (answer.code, answer.out) == (0, "")
