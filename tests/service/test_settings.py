"""One table of settings: the same names in flags, environment, file and documentation."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import pytest

from foreword.errors import InvalidRequest
from foreword.service.serve import EXIT_CALLER, run
from foreword.service.settings import Settings
from foreword.service.settings_sources import (
    add_flags,
    settings_from,
    settings_table,
    to_toml,
    unknown_variables,
)


def parse(*arguments: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return vars(parser.parse_args(arguments))


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "foreword.toml"
    file.write_text('port = 1\nmax_queued = 11\nlog_format = "text"\nmodels = ["a", "b"]\n')
    environment = {"FOREWORD_PORT": "2", "FOREWORD_MAX_QUEUED": "12", "FOREWORD_METRICS": "off"}
    settings = settings_from(parse("--port", "3", "--config", str(file)), environment)
    assert (settings.port, settings.max_queued, settings.log_format) == (3, 12, "text")
    assert settings.models == ("a", "b")
    assert settings.metrics is False
    assert settings.workers == Settings().workers


def test_every_kind_of_flag() -> None:
    flags = parse(
        "here=model-a", "model-b", "--no-metrics", "--api-keys", "k1", "--api-keys", "k2",
        "--default-chat-template-kwargs", '{"enable_thinking": false}',
        "--render-deadline-seconds", "-1", "--tls-key-file", "k", "--tls-certificate-file", "c",
    )  # fmt: skip
    settings = settings_from(flags, {})
    assert settings.models == ("here=model-a", "model-b")
    assert settings.api_keys == ("k1", "k2")
    assert settings.default_chat_template_kwargs == {"enable_thinking": False}
    assert settings.render_deadline_seconds == -1.0
    assert not settings.metrics


def test_the_printed_settings_are_a_file_that_gives_them_again(tmp_path: Path) -> None:
    settings = settings_from(
        parse("m", "--port", "9", "--default-chat-template-kwargs", '{"a": {"b": [1, "x"]}}'), {}
    )
    file = tmp_path / "printed.toml"
    file.write_text(to_toml(settings))
    assert settings_from(parse("--config", str(file)), {}) == settings


def test_keys_are_never_printed() -> None:
    text = to_toml(Settings(api_keys=("hush-hush",)))
    assert "hush" not in text
    assert "1 set" in text
    tomllib.loads(text)


@pytest.mark.parametrize(
    ("flags", "environment", "words"),
    [
        (("--port", "70000"), {}, ["port", "70000", "0 to 65535"]),
        (("--port", "http"), {}, ["--port", "'http'", "an integer from 0 to 65535"]),
        ((), {"FOREWORD_METRICS": "maybe"}, ["FOREWORD_METRICS", "true or false"]),
        ((), {"FOREWORD_LOG_LEVEL": "loud"}, ["log_level", "debug, info, warning, error"]),
        (("--default-chat-template-kwargs", "[1]"), {}, ["a JSON object"]),
        (("--tls-key-file", "k"), {}, ["tls_certificate_file", "belong together"]),
        (("--workers", "0"), {}, ["workers is 0", "from 1 to 256"]),
        (("--keep-alive-seconds", "nan"), {}, ["keep_alive_seconds", "from 1 to 3600"]),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(
    flags: tuple[str, ...], environment: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        settings_from(parse(*flags), environment)
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("prot = 1", ["no setting called prot", "--print-config"]),
        ('port = "1"', ["port is '1'", "an integer"]),
        ("port = ", ["not TOML"]),
        ("models = [1]", ["models", "a list of texts"]),
        ("port = true", ["an integer"]),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, content: str, words: list[str]) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(content)
    with pytest.raises(InvalidRequest) as caught:
        settings_from({}, {"FOREWORD_CONFIG": str(file)})
    for word in words:
        assert word in caught.value.message
    assert str(tmp_path) not in caught.value.message


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"nowhere\.toml can't be read"):
        settings_from({"config": "/nonexistent/nowhere.toml"}, {})


def test_a_misspelt_variable_is_found() -> None:
    environment = {"FOREWORD_PORT": "1", "FOREWORD_PROT": "1", "PATH": "x", "FOREWORD_CONFIG": "c"}
    assert unknown_variables(environment) == ["FOREWORD_PROT"]


def test_every_setting_is_in_the_table() -> None:
    table = settings_table()
    for name in Settings.__dataclass_fields__:
        assert f"| `{name}` |" in table
    page = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
    assert table.strip() in page.read_text(), "scripts/make_settings_docs.py writes it anew"


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        ({"api_keys": [""]}, {}),
        ({"api_keys": ["good", " "]}, {}),
        ({}, {"FOREWORD_API_KEYS": ""}),
        ({}, {"FOREWORD_API_KEYS": " , "}),
        ({}, {"FOREWORD_API_KEYS": "good,"}),
        ({}, {"FOREWORD_ENGINE_API_KEY": ""}),
    ],
)
def test_an_empty_key_is_no_key(flags: dict[str, Any], environment: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="holds an empty key"):
        settings_from({"models": ["m"], **flags}, environment)


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"engine_zmq": ("nonsense",)}, "where engines say hello"),
        ({"engine_zmq": ("input=tcp://127.0.0.1:1",)}, "both input= and output="),
        ({"engine_url": "ftp://engine"}, "http://"),
        ({"engine_url": "http://"}, "name a host"),
        ({"engine_url": "http://engine:port"}, "engine_url can't be"),
    ],
)
def test_an_engines_address_is_checked_before_the_port_is_opened(
    engine: dict[str, Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(models=("m=/not/there",), port=0, **engine)
    assert run(settings) == EXIT_CALLER
    told = "".join(capfd.readouterr())
    assert words in told
    assert "listening" not in told


def test_an_authority_alone_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="needs tls_certificate_file"):
        Settings(models=("m",), tls_ca_file="ca.pem")
