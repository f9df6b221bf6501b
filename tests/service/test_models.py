"""Loading what is served: with the fast engine where it is admitted, and never silently without."""

from __future__ import annotations

import pytest

from foreword import demo
from foreword.errors import UnsupportedFeature
from foreword.service.models import load_models
from foreword.service.settings import Settings
from foreword.tokenizer import trusted
from foreword.tokenizer.accelerated import EngineChoice
from foreword.tokenizer.segmented import SegmentedTokenizer


def served(accelerated: str) -> SegmentedTokenizer:
    settings = Settings(models=(demo.model_folder(),), accelerated=accelerated)  # type: ignore[arg-type]
    tokenizer = load_models(settings).all[0].renderer.tokenizer
    assert isinstance(tokenizer, SegmentedTokenizer)
    return tokenizer


def test_an_admitted_engine_gives_the_references_ids() -> None:
    pytest.importorskip("fastokens")
    tokenizer = served("on")
    assert tokenizer.fast is not None
    text = "The tokens of a chat, 12345 of them.\n" * 200
    got = tokenizer.encode(text, add_special_tokens=False)
    assert got.token_ids == tokenizer.reference.encode(text, add_special_tokens=False).token_ids
    assert tokenizer.state.stats().engine_batches == 1


def test_off_means_off() -> None:
    assert served("off").fast is None


def test_on_refuses_to_start_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    declined = EngineChoice(engine=None, reason="fastokens is not installed (extra `fast`)")
    monkeypatch.setattr(trusted, "load_fastokens", lambda tokenizer: declined)
    with pytest.raises(UnsupportedFeature, match="not installed"):
        served("on")
    assert served("auto").fast is None
