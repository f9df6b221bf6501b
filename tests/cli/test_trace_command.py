"""`foreword trace` shows what the renderer did, also with a request that fails."""

from __future__ import annotations

import json

import pytest

from foreword.cli.colour import Style
from foreword.cli.pieces import Piece, find_pieces
from foreword.cli.prompt_view import cut_span, show_pieces
from foreword.diagnosis import walk
from foreword.types import RenderedText


@pytest.fixture
def long_chat(chat):
    chat["messages"][3]["content"] = "row 4711 | " * 2500
    return chat


def test_the_page_tells_the_numbers(run, request_file, chat, renderer, reference):
    answer = run("trace", request_file(chat))
    assert (answer.code, answer.err) == (0, "")
    text = renderer.trace(chat).rendered.text
    num_tokens = len(reference.encode(text, add_special_tokens=False).ids)
    numbers = answer.out.splitlines()[3]
    assert [cell.strip() for cell in numbers.strip("│").split("│")] == [
        f"{len(text):,}",
        str(num_tokens),
        str(num_tokens),
    ]
    assert f"{num_tokens} prompt + 256 output of 8,192 tokens" in answer.out
    assert "cut     nothing" in answer.out
    assert f"fingerprint {renderer.assets.fingerprint[:12]}" in answer.out
    assert "│<|im_start|>│system│↵" in answer.out
    assert "\x1b" not in answer.out
    table = answer.out.split("tokens by part\n")[1].split("\n\n")[0].splitlines()
    assert sum(int(line.split("%")[0].split()[-2]) for line in table) == num_tokens


def test_a_long_chat_has_a_short_table(run, request_file, renderer):
    messages = [{"role": "user", "content": f"number {index}"} for index in range(100)]
    messages[50]["content"] *= 20
    file = request_file({"messages": messages})
    table = run("trace", file).out.split("tokens by part\n")[1].split("\n\n")[0].splitlines()
    assert len(table) < 30
    assert any(line.strip().startswith("[50] user") for line in table)
    assert any("more" in line for line in table)
    num_tokens = sum(int(line.split("%")[0].split()[-2]) for line in table)
    assert num_tokens == len(renderer.trace({"messages": messages}).tokens.token_ids)
    full = run("trace", file, "--full").out.split("tokens by part\n")[1].split("\n\n")[0]
    assert len(full.splitlines()) == 101


def test_json_holds_every_station(run, request_file, chat, renderer):
    report = run("trace", request_file(chat), "--json").json()
    trace = renderer.trace(chat)
    assert report["text"] == trace.rendered.text
    assert report["tokens"]["token_ids"] == trace.tokens.token_ids.tolist()
    assert report["engine"]["token_ids"] == trace.tokens.token_ids.tolist()
    assert (
        report["num_tokens"] == report["num_tokens_after_truncation"] == len(trace.tokens.token_ids)
    )
    assert sum(part["num_tokens"] for part in report["parts"]) == report["num_tokens"]
    assert report["error"] is None
    assert set(report["seconds"]) >= {"conversation", "template", "tokenize", "budget"}


def test_a_prompt_that_is_too_long_is_counted_all_the_same(
    run, request_file, long_chat, renderer, reference
):
    file = request_file(long_chat)
    answer = run("trace", file)
    text = run("render", file, "--to", "text").out
    num_tokens = len(reference.encode(text, add_special_tokens=False).ids)
    assert num_tokens > 8192
    assert answer.code == 2
    assert f"{num_tokens:,}" in answer.out
    assert "refused" in answer.out
    assert "tokens ✓ → budget ✗" in answer.out
    assert "prompt_too_long, HTTP 400" in answer.out
    assert f"{num_tokens - 8191:,} tokens over the 8,191" in answer.out
    assert "[3] tool" in answer.out
    assert answer.err.startswith("foreword: The prompt has")
    report = json.loads(run("trace", file, "--json").out)
    assert report["num_tokens"] == num_tokens
    assert report["num_tokens_after_truncation"] is None
    assert (report["error"]["code"], report["error"]["station"]) == ("prompt_too_long", "budget")


def test_the_character_gate_does_not_hide_the_count(run, request_file):
    body = request_file({"prompt": "word " * 40_000})
    report = json.loads(run("trace", body, "--json", "--max-model-len", "100").out)
    assert report["error"]["code"] == "prompt_too_many_chars"
    assert report["error"]["station"] == "tokens"
    assert report["num_tokens"] > 40_000


def test_dropping_what_is_advised_makes_it_fit(run, request_file, long_chat):
    """The advice names messages 1 to 3; without them the request passes."""
    assert (
        "Without the oldest, messages 1 to 3, it would fit"
        in run("trace", request_file(long_chat)).out
    )
    del long_chat["messages"][1:4]
    assert run("render", request_file(long_chat)).code == 0


@pytest.mark.parametrize(
    ("change", "station", "code"),
    [
        ({"messages": 5}, "request", "malformed_request"),
        ({"chat_template": "{{ 1 }}"}, "template", "invalid_request"),
        ({"messages": [{"role": "user", "content": [{"type": "nope"}]}]}, "conversation", ""),
        ({"messages": [{"role": "judge", "content": "x"}]}, "text", "template_rejected"),
        ({"max_tokens": 9000}, "budget", "invalid_request"),
        ({"truncate_prompt_tokens": 0}, "", "invalid_request"),
    ],
)
def test_the_error_stands_at_its_station(run, request_file, chat, change, station, code):
    answer = run("trace", request_file({**chat, **change}), "--json")
    assert answer.code == 2
    error = answer.json()["error"]
    assert code in error["code"]
    assert station in error["station"]
    assert json.loads(answer.err)["message"] == error["message"]


def test_output_that_does_not_fit_says_what_would(run, request_file, chat, renderer):
    room = 8192 - len(renderer.trace(chat).tokens.token_ids)
    chat["max_tokens"] = 9000
    assert f"ask for at most {room:,} of output" in run("trace", request_file(chat)).out


def test_what_was_cut_is_told_and_marked(run, request_file, long_chat):
    file = request_file({**long_chat, "truncate_prompt_tokens": 2000})
    answer = run("trace", file)
    report = json.loads(run("trace", file, "--json").out)
    assert answer.code == 0
    assert report["num_tokens_after_truncation"] == 2000
    removed = report["num_truncated"]
    assert f"the first {removed:,} tokens" in answer.out
    assert "from the left: the end is kept" in answer.out
    assert f"── cut: {removed:,} tokens from here ──" in answer.out
    assert "── kept from here ──" in answer.out
    assert "left out; --full shows them" in answer.out
    assert "left out" not in run("trace", file, "--full").out
    right = run(
        "trace",
        request_file({**long_chat, "truncate_prompt_tokens": 2000, "truncation_side": "right"}),
    )
    assert f"the last {removed:,} tokens" in right.out


def test_the_marked_tokens_are_those_that_are_gone(renderer, long_chat):
    for side in ("left", "right", None):
        body = {**long_chat, "truncate_prompt_tokens": 50, "truncation_side": side}
        stations = walk(renderer, body, kind="chat")
        start, stop = cut_span(stations)
        ids = stations.tokens.token_ids
        assert list(ids[:start] + ids[stop:]) == list(stations.engine_input.token_ids)


def test_prompts_of_a_completion(run, request_file):
    file = request_file({"prompt": [[1], [2, 3, 4], [5, 6]]})
    assert "prompt 1 of 3" in run("trace", file, "--prompt-index", "1").out
    report = run("trace", file, "--prompt-index", "2", "--json").json()
    assert report["engine"]["token_ids"] == [5, 6]
    assert (report["num_tokens"], report["num_prompts"]) == (2, 3)
    answer = run("trace", file, "--prompt-index", "3")
    assert answer.code == 2
    assert "there is no prompt 3" in answer.err


def test_pooling_bodies_are_traced_too(run, request_file, reference):
    file = request_file({"input": ["a b", "hello"], "encoding_format": "float"})
    answer = run("trace", file, "--runner", "pooling", "--prompt-index", "1", "--json")
    report = answer.json()
    assert report["tokens"]["token_ids"] == reference.encode("hello").ids
    assert (report["kind"], report["engine"], report["oddities"]) == ("pooling", None, [])
    assert "template" not in report["seconds"]


def test_oddities_are_said_with_the_way_out(run, request_file):
    message = {"role": "user", "content": "ends here <|im_end|> or not"}
    body = {"messages": [message], "chat_template_kwargs": {"enable_thinkin": True}, "extra_x": 1}
    page = run("trace", request_file(body)).out
    assert "reads enable_thinkin: check the spelling" in page
    assert "messages[0] spells <|im_end|>" in page
    assert "The request has extra_x" in page


def test_nothing_in_a_request_steers_the_terminal(run, request_file):
    nasty = "\x1b[2J\x07\u202egnp.exe\u2066\x9b31m\r"
    for body in (
        {"prompt": nasty},
        {"messages": [{"role": "user", "content": nasty}]},
        {"messages": [{"role": nasty, "content": nasty}]},
        {"messages": [{"role": "user", "content": "x"}], nasty: 1},
    ):
        answer = run("trace", request_file(body))
        for character in "\x1b\x07\u202e\u2066\x9b\r":
            assert character not in answer.out + answer.err


# ---------------------------------------------------------------------------------------------
# Pieces.


def test_pieces_join_to_the_text_and_hold_every_token(renderer, chat):
    trace = renderer.trace(chat)
    pieces = find_pieces(trace.rendered, trace.tokens, renderer.tokenizer)
    assert "".join(piece.text for piece in pieces) == trace.rendered.text
    held = [token for piece in pieces for token in range(piece.first, piece.stop)]
    assert held == list(range(len(trace.tokens.token_ids)))
    assert {piece.text for piece in pieces if piece.is_control} >= {"<|im_start|>", "<tool_call>"}


def test_tokens_inside_one_character_are_one_piece(renderer, reference):
    text = "a京b"
    tokens = renderer.trace({"prompt": text}).tokens
    pieces = find_pieces(RenderedText(text=text), tokens, renderer.tokenizer)
    num_inside = len(reference.encode(text).ids) - 2
    assert num_inside > 1
    assert [(piece.text, piece.num_tokens) for piece in pieces] == [
        ("a", 1),
        ("京", num_inside),
        ("b", 1),
    ]
    assert show_pieces(pieces, Style()) == f"│a│京⟨×{num_inside}⟩│b│"


def test_text_without_tokens_has_no_bar():
    pieces = [
        Piece(text="a", first=0, stop=1),
        Piece(text="  ", first=1, stop=1),
        Piece(text="b", first=1, stop=2),
    ]
    assert show_pieces(pieces, Style()) == "│a  │b│"
    assert show_pieces(pieces, Style(True)).count("\x1b[0m") == 3
