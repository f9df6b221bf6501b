"""What no `except Exception` sees: a panic of the library, and code that would end the process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import small_models as small

import foreword
from foreword.errors import AssetsInvalid, ForewordError
from foreword.tokenizer import panics
from foreword.tokenizer.load import get_tokenizer
from foreword.tokenizer.registry import TokenizerRegistry


def panic_class() -> type[BaseException]:
    """pyo3's own class, as a real panic brings it: no module has it by name."""
    return type("PanicException", (BaseException,), {})


def panics_at(_: object) -> NoReturn:
    raise panic_class()("secret text")


def test_a_panic_is_an_error_and_an_interruption_is_not() -> None:
    with pytest.raises(panics.Panicked, match="secret text"):
        panics.without_panic(panics_at, 1)
    with pytest.raises(AssetsInvalid) as caught:
        panics.ask_library(panics_at, 1)
    assert "secret" not in str(caught.value)
    assert caught.value.status == 500
    with pytest.raises(RuntimeError, match="end the process"):
        panics.run_foreign(sys.exit, 3)

    def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    for call in (panics.without_panic, panics.ask_library, panics.run_foreign):
        with pytest.raises(KeyboardInterrupt):
            call(interrupted)
        with pytest.raises(TypeError):
            call(len, 5)
        assert call(len, [5]) == 1


def write(folder: Path, *added: dict[str, Any]) -> Path:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    file = json.loads(small.byte_level(special=()).to_str())
    size = len(file["model"]["vocab"])
    file["added_tokens"] = [
        {"id": size + place, "special": True, **plain, **one} for place, one in enumerate(added)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(file))
    (folder / "config.json").write_text('{"max_position_embeddings": 100}')
    return folder


TAKES = {"content": "<|u|>", "rstrip": True}
IS_TAKEN = {"content": "\n\t", "lstrip": True}
TEXT = "x <|u|>  \n\t y"


def test_the_librarys_own_panic_is_one(tmp_path: Path) -> None:
    # Two added tokens that both want the spaces between them: the library counts backwards.
    reference = foreword.load(write(tmp_path, TAKES, IS_TAKEN))
    library = reference.tokenizer.reference.tokenizer  # type: ignore[attr-defined]
    with pytest.raises(BaseException) as caught:  # noqa: PT011 (its class has no name)
        library.encode_batch([TEXT])
    assert panics.is_panic(caught.value)


@pytest.mark.parametrize("body", [{"prompt": TEXT}, {"prompt": TEXT, "return_token_offsets": True}])
def test_a_request_that_brings_it_about_gets_an_error(tmp_path: Path, body: Any) -> None:
    renderer = foreword.load(write(tmp_path, TAKES, IS_TAKEN))
    for _ in range(2):
        with pytest.raises(AssetsInvalid, match="panic") as caught:
            renderer.render_cmpl(body)
        assert TEXT not in str(caught.value)
    with pytest.raises(AssetsInvalid, match="panic"):
        renderer.tokenize(body)
    with pytest.raises(AssetsInvalid, match="panic"):
        renderer.tokenizer.encode(
            f"a{TEXT}", add_special_tokens=True, literal_spans=((0, 1),), with_offsets=True
        )
    # The next request is served.
    assert renderer.tokenize({"prompt": "x y"}).count > 0


class _Panicking:
    @classmethod
    def from_assets(cls, *_: object, **__: object) -> NoReturn:
        panics_at(None)


def test_a_panic_while_loading_names_the_files() -> None:
    registry = TokenizerRegistry({"hf": (__name__, "_Panicking")})
    with pytest.raises(AssetsInvalid, match="panicked"):
        get_tokenizer(small.assets(b"{}"), mode="hf", registry=registry)


def test_a_panic_of_the_decoder_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = foreword.load(write(tmp_path))
    monkeypatch.setattr("foreword.tokenizer.huggingface.ask_library", _ask_panicking)
    with pytest.raises(ForewordError, match="panic"):
        renderer.detokenize({"tokens": [1]})


_ask = panics.ask_library


def _ask_panicking(*_: object, **__: object) -> Any:
    return _ask(panics_at, 1)
