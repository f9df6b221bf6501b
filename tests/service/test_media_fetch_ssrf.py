"""Where a request goes: names, addresses, redirects and certificates of hostile hosts."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import fake_internet as fake

from foreword.errors import ForewordError, InvalidRequest, MediaUnavailable
from foreword.service.media_fetch import MediaFetcher, ResolvedMedia, resolve_media

CASES = Path(__file__).resolve().parents[2].parent / "shared/data/cases/cases.json"


GOOD = fake.GOOD
OTHER_PUBLIC = fake.OTHER_PUBLIC
PUBLIC = fake.PUBLIC
Internet = fake.Internet
always = fake.always
fetch = fake.fetch
play = fake.play
png = fake.png
policy = fake.policy
redirect = fake.redirect
refer = fake.refer
refusal = fake.refusal
routes = fake.routes


# -- where a request goes ------------------------------------------------------------------------


def test_a_public_host_is_asked_by_its_address_and_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: pytest.fail("a second look-up"))

    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, always(GOOD))
        (found,) = await fetch(net, "http://OK.test/a%20b/ü?q=1&u=http://127.0.0.1/#part")
        assert found.data == png()
        assert found.image is not None
        assert found.image.width == 4

    net = play(scene)
    assert net.asked == ["ok.test"]
    assert net.dialled == [(PUBLIC, 80)]
    ((target, headers),) = net.requests
    assert target == "/a%20b/%C3%BC?q=1&u=http://127.0.0.1/"
    assert headers["host"] == "ok.test"
    assert headers["accept-encoding"] == "identity"
    assert headers.keys() == {
        "host", "accept", "accept-encoding", "connection", "user-agent",
    }  # fmt: skip


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.5"],
        ["169.254.169.254"],
        ["::1"],
        ["fe80::1%eth0"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["100.64.0.1"],
        ["224.0.0.1"],
        [PUBLIC, "10.0.0.5"],  # one of several
        ["10.0.0.5", PUBLIC],
        ["not an address"],
        [],
    ],
)
def test_a_name_with_a_forbidden_address_is_never_dialled(addresses: list[str]) -> None:
    async def scene(net: Any) -> None:
        net.names["inner.test"] = [addresses]
        error = await refusal(net, "http://inner.test/x")
        assert error.status == 400
        # The same words for a name that does not exist: nothing to learn about the own network.
        absent = await refusal(net, "http://absent.test/x")
        assert absent.message.replace("absent", "inner") == error.message
        assert absent.status == error.status

    assert play(scene).dialled == []


def test_a_name_that_changes_its_address_is_looked_up_once_a_hop() -> None:
    async def scene(net: Any) -> None:
        net.names["rebind.test"] = [[PUBLIC], ["127.0.0.1"]]
        await net.serve(PUBLIC, always(GOOD))
        await fetch(net, "http://rebind.test/x")
        assert (await refusal(net, "http://rebind.test/x")).status == 400
        # The second hop asks again, and is judged again.
        net.names["rebind.test"] = [[PUBLIC], ["127.0.0.1"]]
        await net.serve(PUBLIC, always(redirect("/y")))
        assert (await refusal(net, "http://rebind.test/x")).status == 400

    net = play(scene)
    assert net.dialled == [(PUBLIC, 80), (PUBLIC, 80)]
    assert len(net.asked) == 4


def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    async def scene(net: Any) -> None:
        net.names["ok.test"] = [["2606:4700::1111", OTHER_PUBLIC, PUBLIC]]
        await net.serve(PUBLIC, always(GOOD))
        assert len(await fetch(net, "http://ok.test/x")) == 1
        net.names["ok.test"] = [[f"1.1.1.{i}" for i in range(100)]]
        assert isinstance(await refusal(net, "http://ok.test/x"), MediaUnavailable)

    net = play(scene)
    assert net.dialled[:3] == [("2606:4700::1111", 80), (OTHER_PUBLIC, 80), (PUBLIC, 80)]
    assert len(net.dialled) == 6


def test_an_opened_host_may_be_private_but_never_link_local() -> None:
    async def scene(net: Any) -> None:
        given = {"private_hosts": ("store.test:9000", "[::1]:81")}
        net.names["store.test"] = [["10.0.0.5"], ["169.254.169.254"]]
        await net.serve("10.0.0.5", always(GOOD), port=9000)
        await net.serve("::1", always(GOOD), port=81)
        assert await fetch(net, "http://store.test:9000/x", **given)
        assert await fetch(net, "http://[::1]:81/x", **given)
        assert (await refusal(net, "http://store.test:9000/x", **given)).status == 400
        assert (await refusal(net, "http://store.test/x", **given)).status == 400
        assert (await refusal(net, "http://other.test:9000/x", **given)).status == 400

    net = play(scene)
    assert net.dialled == [("10.0.0.5", 9000), ("::1", 81)]
    assert [headers["host"] for _, headers in net.requests] == ["store.test:9000", "[::1]:81"]


def test_nothing_blocks_the_event_loop(tmp_path: Path) -> None:
    blockbuster = pytest.importorskip("blockbuster")
    (tmp_path / "a.png").write_bytes(png())

    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, always(GOOD))
        fetcher = MediaFetcher(policy(folder=tmp_path), resolver=net.look_up)
        with blockbuster.blockbuster_ctx():
            urls = ["http://ok.test/x", f"file://{tmp_path}/a.png"]
            assert len(await fetcher.fetch(refer(*urls))) == 2
            with pytest.raises(InvalidRequest):
                await MediaFetcher(policy()).fetch(refer("http://localhost/x"))

    play(scene)


# -- redirects -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1:8000/health",
        "http://169.254.169.254/latest/meta-data/",
        "//10.0.0.5/",
        "http://[::1]/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://inner.test/",
        "http://ok.test:22/",
        "http://user:pw@ok.test/",
        "http://ok.test@127.0.0.1/",
        "http://ok.test\\@127.0.0.1/",
        "\\\\127.0.0.1\\x",
        "http:\\\\127.0.0.1/",
        "file:///etc/passwd",
        "data:image/png;base64,QUJD",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "ftp://ok.test/",
        "http://",
        "http://[",
        "http:// ok.test/",
    ],
)
@pytest.mark.parametrize("status", ["301 M", "302 F", "303 S", "307 T", "308 P"])
def test_a_redirect_is_judged_like_the_first_url(to: str, status: str) -> None:
    async def scene(net: Any) -> None:
        net.names |= {"ok.test": [[PUBLIC]], "inner.test": [["10.0.0.5"]]}
        await net.serve(PUBLIC, always(redirect(to, status)))
        error = await refusal(net, "http://ok.test/x")
        assert isinstance(error, InvalidRequest)
        assert "inner" not in error.message

    assert play(scene).dialled == [(PUBLIC, 80)]


def test_allowed_redirects_carry_nothing_along() -> None:
    async def scene(net: Any) -> None:
        net.names |= {"ok.test": [[PUBLIC]], "cdn.test": [[OTHER_PUBLIC]]}
        moved = redirect("sub/b", "302 Found", "Set-Cookie: id=1; Domain=test; Path=/")
        away = redirect("http://cdn.test/c", "307 Temporary")
        await net.serve(PUBLIC, routes(a=moved, b=away))
        await net.serve(OTHER_PUBLIC, always(GOOD))
        assert (await fetch(net, "http://ok.test/dir/a"))[0].data == png()
        # With a list of hosts, a redirect out of the list is refused.
        error = await refusal(net, "http://ok.test/dir/a", hosts=("ok.test",))
        assert error.status == 400

    net = play(scene)
    assert [target for target, _ in net.requests[:3]] == ["/dir/a", "/dir/sub/b", "/c"]
    assert net.requests[2][1]["host"] == "cdn.test"
    for _, headers in net.requests:
        assert headers.keys().isdisjoint({"cookie", "authorization", "referer"})
    assert net.dialled.count((OTHER_PUBLIC, 80)) == 1


def test_redirects_are_counted() -> None:
    async def scene(net: Any) -> None:
        net.names["ok.test"] = [[PUBLIC]]
        await net.serve(PUBLIC, always(redirect("/again")))
        error = await refusal(net, "http://ok.test/x", max_redirects=2)
        assert error.details == {"max_redirects": 2}
        await refusal(net, "http://ok.test/x", max_redirects=0)

    assert len(play(scene).dialled) == 4


# -- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key and a certificate of ok.test, in one PEM file."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    file = tmp_path_factory.mktemp("tls") / "ok.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", file, "-out", f"{file}.crt", "-days", "2", "-subj", "/CN=ok.test",
         "-addext", "subjectAltName=DNS:ok.test"],
        check=True, capture_output=True,
    )  # fmt: skip
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


def test_a_certificate_is_checked_for_the_name_not_the_address(certificate: Path) -> None:
    names: list[str | None] = []
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate)
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    trusting = ssl.create_default_context(cafile=f"{certificate}.crt")

    async def scene(net: Any) -> None:
        net.names |= {"ok.test": [[PUBLIC]], "evil.test": [[PUBLIC]]}
        await net.serve(PUBLIC, routes(a=GOOD, down=redirect("http://ok.test/a")), port=443,
                        tls=server)  # fmt: skip
        await net.serve(PUBLIC, always(redirect("https://ok.test/a")))
        fetcher = MediaFetcher(policy(), resolver=net.look_up, ssl_context=trusting)
        (found,) = await fetcher.fetch(refer("https://ok.test/a"))
        assert found.data == png()
        assert await fetcher.fetch(refer("http://ok.test/up"))
        with pytest.raises(MediaUnavailable):
            await fetcher.fetch(refer("https://evil.test/a"))
        with pytest.raises(InvalidRequest, match="from https to http"):
            await fetcher.fetch(refer("https://ok.test/down"))
        # And the authorities the system does not know are not trusted.
        assert isinstance(await refusal(net, "https://ok.test/a"), MediaUnavailable)

    play(scene)
    assert names == ["ok.test", "ok.test", "evil.test", "ok.test", "ok.test"]


def test_a_name_server_that_does_not_answer() -> None:
    async def scene(net: Any) -> None:
        async def hang(host: str, port: int) -> Sequence[tuple[str, int]]:
            await asyncio.sleep(30)
            return []

        fetcher = MediaFetcher(policy(connect_seconds=0.1), resolver=hang)
        with pytest.raises(InvalidRequest, match="has no address"):
            await fetcher.fetch(refer("http://ok.test/x"))

    assert play(scene).dialled == []


def test_the_systems_own_look_up_is_judged_too() -> None:
    for url in ("http://localhost/x", "http://localhost./x"):
        with pytest.raises(InvalidRequest, match="localhost has no address"):
            resolve_media(refer(url), policy())


# -- the case drawn from public reports ----------------------------------------------------------

REPORTED = {
    "hosts": ["ok.test", "rebind.test"],
    "urls": [
        "http://169.254.169.254/x",
        "http://127.0.0.1:1/x",
        "http://[::1]/x",
        "http://0x7f000001/x",
        "http://[::ffff:127.0.0.1]/x",
        "file:///etc/hostname",
        "http://rebind.test/x",
        "http://ok.test/redirects-to-second-stub",
    ],
    "status": 400,
    "control": "http://ok.test/good.png",
}


def reported_case() -> dict[str, Any]:
    (case,) = (one for one in json.loads(CASES.read_text()) if one["id"] == "media-url-guard")
    return {
        "hosts": case["setup"]["allowed_media_domains"],
        "urls": case["input"]["urls"],
        "status": case["expect"]["each"]["status"],
        "control": case["expect"]["control"]["url"],
    }


@pytest.mark.parametrize("source", ["own", pytest.param("shared", marks=pytest.mark.golden)])
def test_media_url_guard(source: str) -> None:
    """Really dial here: nothing stands between the fetcher and 127.0.0.1."""
    if source == "shared" and not CASES.is_file():
        pytest.skip("no ../shared/data beside the checkout")
    case = REPORTED if source == "own" else reported_case()
    limits = policy(hosts=tuple(case["hosts"]), private_hosts=("ok.test",))

    async def scene() -> None:
        net, second = Internet(), Internet()
        second_port = await second.serve("second", always(GOOD))
        moved = redirect(f"http://127.0.0.1:{second_port}/x")
        handler = routes(**{"good.png": GOOD, "redirects-to-second-stub": moved})
        port = await net.serve("first", handler)
        places = {"ok.test": ("127.0.0.1", port), "rebind.test": ("127.0.0.1", second_port)}

        async def look_up(host: str, _: int) -> Sequence[tuple[str, int]]:
            return [places[host]]

        def ask(url: str) -> tuple[ResolvedMedia, ...]:
            return resolve_media(refer(url), limits, resolver=look_up)

        for url in case["urls"]:
            with pytest.raises(ForewordError) as caught:
                await asyncio.to_thread(ask, url)
            assert caught.value.status == case["status"], url
        assert second.requests == []
        assert [target for target, _ in net.requests] == ["/redirects-to-second-stub"]
        assert (await asyncio.to_thread(ask, case["control"]))[0].data == png()
        await net.close()
        await second.close()

    asyncio.run(scene())
