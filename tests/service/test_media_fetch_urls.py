"""Which addresses may be dialled, and which URLs may be asked for, as tables."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from foreword.errors import InvalidRequest
from foreword.service.fetching.addresses import is_openable, is_public
from foreword.service.fetching.policy import MediaPolicy
from foreword.service.fetching.urls import parse_target

_FORBIDDEN = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254
168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.9
192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9
224.0.0.1 233.252.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::8.8.8.8 100::1
2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:db8::1
2002:7f00:1::1 2002:808:808::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0
2606:4700::1%1 fec0::1 ff02::1 ff0e::1 4000::1
"""
_PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255
128.0.0.1 168.63.129.17 172.15.255.255 172.32.0.0 192.0.1.0 198.17.255.255 198.20.0.0
223.255.255.255 2001:200::1 2001:4860:4860::8888 2606:4700::1111 2a00:1450::1 64:ff9b::8.8.8.8
"""
_NEVER = """
169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192 0.0.0.0 224.0.0.1 255.255.255.255 fe80::1
fd00:ec2::254 fd20:ce::254 ff02::1 :: fd12::1%eth0 ::ffff:169.254.169.254 64:ff9b::169.254.169.254
"""


@pytest.mark.parametrize("text", _FORBIDDEN.split())
def test_an_address_that_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", _PUBLIC.split())
def test_an_address_that_is_public(text: str) -> None:
    assert is_public(ip_address(text))
    assert is_openable(ip_address(text))
    assert ip_address(text).is_global or text.startswith("64:")


def test_what_an_opened_host_may_be() -> None:
    for text in ("127.0.0.1", "10.1.2.3", "192.168.0.1", "100.64.0.1", "::1", "fd12::1"):
        assert is_openable(ip_address(text)), text
    for text in _NEVER.split():
        assert not is_openable(ip_address(text)), text


REFUSED_URLS = [
    "http://127.0.0.1:1/x",
    "http://127.0.0.1/x",
    "http://0x7f000001/x",
    "http://0x7f.0.0.1/x",
    "http://0X7F000001/x",
    "http://2130706433/x",
    "http://017700000001/x",
    "http://0177.0.0.1/x",
    "http://127.1/x",
    "http://127.0.0.01/x",
    "http://8.8.8.8.8/x",
    "http://999.8.8.8/x",
    "http://0x/x",
    "http://foo.0x7f/x",
    "http://127.0.0.1./x",
    "http://[::1]/x",
    "http://[::]/x",
    "http://[::ffff:127.0.0.1]/x",
    "http://[::ffff:7f00:1]/x",
    "http://[64:ff9b::7f00:1]/x",
    "http://[fe80::1%25eth0]/x",
    "http://[fe80::1%eth0]/x",
    "http://[v1.x]/x",
    "http://[::1/x",
    "http://::1/x",
    "http://169.254.169.254/latest/meta-data/",
    "http://ok.test@127.0.0.1/",
    "http://127.0.0.1@ok.test/",
    "http://user:secret@ok.test/",
    "http://@ok.test/",
    "http://ok.test\\@127.0.0.1/",
    "http://127.0.0.1\\.ok.test/",
    "http://ok.test /x",
    "http://ok.test/a b",
    "http://ok.test/\r\nHost: x",
    "http://ok\ttest/",
    "http://ok.test:0/",
    "http://ok.test:22/",
    "http://ok.test:8080/",
    "http://ok.test:99999/",
    "http://ok.test:-80/",
    "http://ok.test:80:80/",
    "http://ok.test:８０80/",
    "http://１２７.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://127。0。0。1/",
    "http://%31%32%37.0.0.1/",
    "http://ok%2etest/",
    "http://ok.test%00/",
    "http://\udcff.test/",
    "http://-ok.test/",
    "http://ok..test/",
    "http://.ok.test/",
    "http://ok.test../",
    "http://" + "a" * 64 + ".test/",
    "http://" + "a." * 127 + "test/",
    "http:///x",
    "http://",
    "http:",
    "http:/127.0.0.1/",
    "http:127.0.0.1",
    "http://?x",
    "http://ok.test/" + "x" * 8192,
    "https://*.test/",
]


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_a_url_that_is_not_asked_for(url: str) -> None:
    policy = MediaPolicy(fetch=True)
    with pytest.raises(InvalidRequest) as caught:
        parse_target(url, policy, param="p")
    assert (caught.value.status, caught.value.param) == (400, "p")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "host", "port", "header"),
    [
        ("http://ok.test", "ok.test", 80, "ok.test"),
        ("HTTPS://OK.Test/A?b=%20c#d", "ok.test", 443, "ok.test"),
        ("http://ok.test:443/", "ok.test", 443, "ok.test:443"),
        ("http://ok.test./", "ok.test", 80, "ok.test"),
        ("http://münchen.test/", "xn--mnchen-3ya.test", 80, "xn--mnchen-3ya.test"),
        ("http://8.8.8.8/", "8.8.8.8", 80, "8.8.8.8"),
        ("http://[2001:4860:4860:0::8888]/", "2001:4860:4860::8888", 80, "[2001:4860:4860::8888]"),
        ("http://a_b.test//x?u=http://127.0.0.1/", "a_b.test", 80, "a_b.test"),
    ],
)
def test_a_url_that_is_asked_for(url: str, host: str, port: int, header: str) -> None:
    target = parse_target(url, MediaPolicy(fetch=True))
    assert (target.host, target.port, target.host_header) == (host, port, header)
    assert target.raw_path.startswith(b"/")
    assert b"#" not in target.raw_path


def test_hosts_and_ports_are_compared_exactly() -> None:
    policy = MediaPolicy(
        fetch=True, hosts=("ok.test", "port.test:8080"), private_hosts=("[::1]:81", "10.0.0.1")
    )
    for url in ("http://ok.test/", "https://ok.test", "http://port.test:8080/"):
        assert not parse_target(url, policy).is_opened
    for url in ("http://[::1]:81/", "https://10.0.0.1/"):
        assert parse_target(url, policy).is_opened
    for url in (
        "http://ok.test:8080/",
        "http://port.test/",
        "http://sub.ok.test/",
        "http://ok.test.evil/",
        "http://8.8.8.8/",
        "http://[::1]/",
        "http://10.0.0.1:81/",
        "http://10.0.0.2/",
    ):
        with pytest.raises(InvalidRequest):
            parse_target(url, policy)


@pytest.mark.parametrize("entry", ["*.test", "http://ok.test", "ok.test/", "OK.test", "ok:x", ""])
def test_a_host_that_is_written_otherwise_is_refused_at_the_start(entry: str) -> None:
    with pytest.raises(InvalidRequest, match="media_hosts"):
        MediaPolicy(hosts=(entry,))
