"""Small cases drawn from public bug reports, on a toy tokenizer whose ids are known.

The cases lie beside the checkout and are never part of it; without them these tests skip. A case
whose surface does not exist here yet is skipped by name, with what it waits for.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.detokenization import OutputText
from foreword.errors import ForewordError
from foreword.service.media_fetch import MediaFetcher, MediaPolicy
from foreword.service.media_step import Arrived

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "cases"
pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(not DATA.is_dir(), reason="no ../shared/data beside the checkout"),
]
WAITS_FOR = {
    "control-token-in-user-text": "an option that keeps user text from spelling control tokens",
    "bounds-and-metrics": "the service's own tests",
}
CASES: dict[str, dict[str, Any]] = (
    {case["id"]: case for case in json.loads((DATA / "cases.json").read_text())}
    if DATA.is_dir()
    else {}
)


def make_renderer(folder: Path, setup: dict[str, Any]) -> foreword.Renderer:
    fixtures = json.loads((DATA / "fixtures.json").read_text())
    toy = fixtures["toy-bytes"]
    config = {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<eos>",
        **setup.get("patch_tokenizer_config", {}),
    }
    if "template" in setup:
        config["chat_template"] = fixtures["templates"][setup["template"]]
    length = setup.get("max_model_len", 4096)
    model = {"max_position_embeddings": length, "vocab_size": toy["model_vocab_size"]}
    if "mm" in setup:
        model["model_type"] = MEDIA_FILES["model_type"]
        processor = json.dumps(MEDIA_FILES["preprocessor"])
        (folder / "preprocessor_config.json").write_text(processor)
    (folder / "tokenizer.json").write_text(json.dumps(toy["tokenizer_json"]))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps(model))
    return foreword.load(
        str(folder),
        trust_request_chat_template=setup.get("allow_request_template", False),
        refuse_overflow=True,  # the case about numbers asks for a refusal, not for less output
    )


# What stands for the cases' pictures: in this family each becomes three tokens.
MEDIA_FILES = {
    "model_type": "qwen2_vl",
    "preprocessor": {"min_pixels": 784, "max_pixels": 784_000, "patch_size": 14, "merge_size": 2},
    "size": (28, 84),
}


def png_url(width: int, height: int) -> str:
    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pieces = (chunk(b"IHDR", head), chunk(b"IDAT", b""), chunk(b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(pieces)
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def answer(renderer: foreword.Renderer, surface: str, body: Any) -> dict[str, Any]:
    try:
        if surface == "render_chat":
            trace = renderer.trace(body, kind="chat")
            result = renderer.render_chat(body).engine_input
            assert result.token_ids == trace.engine_input.token_ids
            assert trace.rendered is not None
            return {
                "status": 200,
                "text": trace.rendered.text,
                "token_ids": list(result.token_ids),
                "assistant_mask": list(result.assistant_mask or b""),
                "placeholders": [
                    {"offset": span.start, "length": span.stop - span.start, "item": span.index}
                    for span in result.media_features
                ],
            }
        if surface == "render_completion":
            made = renderer.generate_request(body, kind="completion")
            assert isinstance(made, list)
            return {"status": 200, "token_ids": list(made[0].token_ids)}
        if surface == "tokenize":
            return {"status": 200, "token_ids": list(renderer.tokenize(body).tokens)}
        if surface == "derender_stream":
            stream = OutputText(renderer.tokenizer)
            last = len(body["chunks"]) - 1
            deltas = [
                stream.add(chunk, is_last=place == last).text
                for place, chunk in enumerate(body["chunks"])
            ]
            return {"status": 200, "deltas": deltas, "join": "".join(deltas)}
        if surface == "derender":
            skips = body.get("skip_special_tokens", True)
            whole = OutputText(renderer.tokenizer, skip_special_tokens=skips)
            return {"status": 200, "text": whole.add(body["token_ids"], is_last=True).text}
        assert surface == "detokenize"
        return {"status": 200, "text": renderer.detokenize(body).prompt}
    except ForewordError as error:
        return {"status": error.status, "error": f"{error.message} {error.param}"}


def bodies(case: dict[str, Any]) -> list[Any]:
    given = {"add_generation_prompt": False, **case["input"]}
    if "mm" in case["setup"]:
        written = json.dumps(given)
        for number in (1, 2):
            picture = png_url(*MEDIA_FILES["size"])
            written = written.replace(f'"data:img{number}"', json.dumps(picture))
        given = json.loads(written)
    if case["surface"] != "render_chat":
        del given["add_generation_prompt"]
    if "raw_json" in given:
        return [given["raw_json"]]
    variants = given.pop("variants", [{}])
    return [{**given, **variant} for variant in variants]


def meets(got: dict[str, Any], expected: dict[str, Any]) -> str | None:
    """Say what of `expected` does not hold, or None."""
    for key, want in expected.items():
        if key == "any_of":
            if all(meets(got, one) for one in want):
                return f"none of {want} holds for {got}"
        elif key == "status_in":
            if got["status"] not in want:
                return f"status {got['status']} is not in {want}"
        elif key == "never_status":
            if got["status"] == want:
                return f"status is {want}"
        elif key in ("error_mentions", "error_mentions_all"):
            for word in [want] if isinstance(want, str) else want:
                if word not in got.get("error", ""):
                    return f"the error does not mention {word}: {got}"
        elif key == "text_lacks":
            if any(word in json.dumps(got) for word in want):
                return f"one of {want} is in {got}"
        elif key == "text_lacks_suffix":
            if got["text"].endswith(want):
                return f"the text ends in {want}"
        elif key == "never_contains_before_end":
            if any(want in delta for delta in got["deltas"]):
                return f"a delta holds {want!r}: {got['deltas']}"
        elif key == "count_of_id":
            if any(got["token_ids"].count(int(one)) != count for one, count in want.items()):
                return f"{want} does not hold for {got}"
        elif key == "before_stream":
            continue  # nothing streams here: the refusal always comes first
        elif got.get(key) != want:
            return f"{key} is {got.get(key)!r}, not {want!r}"
    return None


SPECIAL = {
    "incremental-seam",
    "token-in-roundtrip",
    "concurrent-mixed-options",
    "media-url-guard",
}


@pytest.mark.witness(
    family="mode:hf",
    what="small cases of bugs reported in public, with the right answer",
    against="the reports themselves",
)
@pytest.mark.parametrize("name", [name for name in CASES if name not in SPECIAL])
def test_case(name: str, tmp_path: Path) -> None:
    if name in WAITS_FOR:
        pytest.skip(f"waits for {WAITS_FOR[name]}")
    case = CASES[name]
    renderer = make_renderer(tmp_path, case["setup"])
    answers = [answer(renderer, case["surface"], body) for body in bodies(case)]
    expected = case["expect"]
    wanted = expected.get("by_variant", [expected])
    assert len(answers) == len(wanted)
    for got, want in zip(answers, wanted, strict=True):
        assert meets(got, want) is None, meets(got, want)


@pytest.mark.skipif(not CASES, reason="no cases")
def test_a_growing_text_is_encoded_as_if_it_were_new(tmp_path: Path) -> None:
    case = CASES["incremental-seam"]
    renderer = make_renderer(tmp_path, case["setup"])
    ids = [
        list(renderer.tokenize({"prompt": turn, "add_special_tokens": False}).tokens)
        for turn in case["input"]["turns"]
    ]
    assert ids == case["expect"]["token_ids_by_turn"]


@pytest.mark.skipif(not CASES, reason="no cases")
def test_what_a_chat_points_to_is_fetched_only_where_it_may_be(tmp_path: Path) -> None:
    """Collect, fetch, render; every connection is a real one, to stubs on this machine."""
    pytest.importorskip("httpx")
    case = CASES["media-url-guard"]
    renderer = make_renderer(tmp_path, {**case["setup"], "mm": "a picture is three tokens"})
    asked: dict[str, list[str]] = {"first": [], "second": []}

    async def scene() -> None:
        first, second = [await stub(asked[name]) for name in asked]
        moved["to"] = f"http://127.0.0.1:{second}/x"
        places = {"ok.test": ("127.0.0.1", first), "rebind.test": ("127.0.0.1", second)}

        async def look_up(host: str, _: int) -> list[tuple[str, int]]:
            return [places[host]]

        hosts = tuple(case["setup"]["allowed_media_domains"])
        policy = MediaPolicy(fetch=True, hosts=hosts, private_hosts=("ok.test",))
        fetcher = MediaFetcher(policy, resolver=look_up)

        async def render(url: str) -> dict[str, Any]:
            part = {"type": "image_url", "image_url": {"url": url}}
            body = {"messages": [{"role": "user", "content": [part]}]}
            try:
                fetched = await fetcher.fetch(renderer.collect_media(body))
                media = Arrived(fetched=fetched).items(renderer, None)
                made = renderer.render_chat(body, media=media).engine_input
            except ForewordError as error:
                return {"status": error.status}
            return {"status": 200, "num_items": len(made.media_features)}

        expected = case["expect"]
        for url in case["input"]["urls"]:
            assert meets(await render(url), expected["each"]) is None, url
        assert len(asked["second"]) == expected["second_stub_connections"]
        control = expected["control"]
        got = await render(control["url"])
        assert got == {"status": control["status"], "num_items": 1}
        assert asked["first"] == ["/redirects-to-second-stub", "/good.png"]
        for server in servers:
            server.close()
            await server.wait_closed()

    moved: dict[str, str] = {}
    servers: list[asyncio.Server] = []

    async def stub(paths: list[str]) -> int:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            paths.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
            if paths[-1] == "/redirects-to-second-stub":
                writer.write(f"HTTP/1.1 302 Found\r\nLocation: {moved['to']}\r\n".encode())
                writer.write(b"Content-Length: 0\r\n\r\n")
            else:
                data = base64.b64decode(png_url(*MEDIA_FILES["size"]).partition(",")[2])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n")
                writer.write(f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()
            writer.close()

        servers.append(await asyncio.start_server(talk, "127.0.0.1", 0))
        return int(servers[-1].sockets[0].getsockname()[1])

    asyncio.run(scene())


@pytest.mark.skipif(not CASES, reason="no cases")
def test_given_ids_are_never_decoded_and_encoded_again(tmp_path: Path) -> None:
    case = CASES["token-in-roundtrip"]
    renderer = make_renderer(tmp_path, case["setup"])
    (result,) = renderer.render_cmpl({"prompt": case["input"]["prompt"]})
    assert list(result.token_ids) == case["expect"]["token_ids"]
    text = renderer.detokenize({"tokens": list(result.token_ids)}).prompt
    assert text == case["expect"]["text"]
    again = renderer.tokenize({"prompt": text, "add_special_tokens": False})
    assert list(again.tokens) == case["expect"]["re_encoded_would_be"]


@pytest.mark.skipif(not CASES, reason="no cases")
def test_threads_with_mixed_options_agree_with_one_thread(tmp_path: Path) -> None:
    case = CASES["concurrent-mixed-options"]
    renderer = make_renderer(tmp_path, {**case["setup"], "template": "chatml"})
    text = "say the\n\nend of the thing " * 4
    calls = [
        lambda: renderer.render_cmpl({"prompt": text, "truncate_prompt_tokens": 5})[0].token_ids,
        lambda: renderer.render_cmpl({"prompt": text})[0].token_ids,
        lambda: (
            renderer.render_pooling({"input": ["a", text], "pad_prompt_tokens": 8})[0].token_ids
        ),
        lambda: renderer.detokenize({"tokens": [104, 105, 265]}).prompt,
        lambda: renderer.render_cmpl({"prompt": text, "return_token_offsets": True})[0].offsets,
        lambda: (
            renderer.render_chat({"messages": [{"role": "user", "content": text}]})[1].token_ids
        ),
    ]
    serial = [call() for call in calls]
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(50):
            for call, want in zip(calls, serial, strict=True):
                try:
                    if call() != want:
                        wrong.append(want)
                except Exception as error:
                    wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(case["setup"]["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
