"""The error tree: each class whole, distinct, documented, and fit to cross a process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreword import errors
from foreword.errors import ForewordError, ModelError, RequestError, ServiceError

MADE: dict[type[ForewordError], ForewordError] = {
    errors.UnsupportedFeature: errors.UnsupportedFeature(feature="x", remedy="Use y."),
    errors.TemplateRejected: errors.TemplateRejected(reason="no system role"),
    errors.PromptTooLong: errors.PromptTooLong(num_tokens=5, max_tokens=3),
    errors.PromptTooManyChars: errors.PromptTooManyChars(num_chars=50, max_chars=30, max_tokens=3),
    errors.MediaWouldBeCut: errors.MediaWouldBeCut(
        modality="image", index=1, start=3, stop=9, kept=(0, 5)
    ),
    errors.InvalidTokenIds: errors.InvalidTokenIds(
        token_id=9, position=1, max_token_id=5, param="prompt"
    ),
    errors.ChatTemplateMissing: errors.ChatTemplateMissing(wanted="rag", available=("default",)),
    errors.UnknownModel: errors.UnknownModel(name="a", available=("b", "c")),
    errors.AssetsInvalid: errors.AssetsInvalid(file="config.json", problem="is empty."),
    errors.TemplateFailed: errors.TemplateFailed(reason="no filter named 'x'", line=3),
}


def every_class(cls: type[ForewordError] = ForewordError) -> Iterator[type[ForewordError]]:
    yield cls
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from every_class(child)


CLASSES = list(every_class())


@pytest.mark.parametrize("cls", CLASSES)
def test_it_survives_pickling(cls: type[ForewordError]) -> None:
    error = MADE.get(cls) or cls("what happened", param="a.b", details={"n": 1})
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert (copy.message, copy.param, copy.details) == (error.message, error.param, error.details)
    assert str(copy) == error.message


def test_codes_are_unique() -> None:
    codes = [cls.__dict__.get("code") for cls in CLASSES]
    assert None not in codes, "a class without a code of its own"
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("cls", CLASSES)
def test_status_says_whose_turn_it_is(cls: type[ForewordError]) -> None:
    expected = {RequestError: range(400, 500), ModelError: [500], ServiceError: [500, 503, 504]}
    for parent, statuses in expected.items():
        if issubclass(cls, parent):
            assert cls.status in statuses


@pytest.mark.parametrize("cls", CLASSES[1:])
def test_its_row_is_true(cls: type[ForewordError]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "errors.md").read_text()
    exit_code = {RequestError: 2, ModelError: 3, ServiceError: 4}
    parent = next(parent for parent in exit_code if issubclass(cls, parent))
    start = f"| `{cls.__name__}` | `{cls.code}` | {cls.status} | {cls.wire_type} "
    assert f"{start}| {exit_code[parent]} |" in page


@pytest.mark.parametrize("cls", CLASSES[1:])
def test_the_tree_draws_it(cls: type[ForewordError]) -> None:
    assert errors.__doc__ is not None
    assert f" {cls.__name__} " in errors.__doc__


def test_a_sentence_has_the_numbers_and_the_way_out() -> None:
    overflow = errors.PromptTooLong(
        num_tokens=8, max_tokens=64, max_output_tokens=60, max_model_len=64
    )
    assert overflow.message == (
        "The prompt has 8 tokens and 60 more were requested, but the context holds 64."
        " Request at most 56 output tokens, or shorten the prompt."
    )
    generation = errors.PromptTooLong(
        num_tokens=70, max_tokens=63, is_lower_bound=True, max_model_len=64
    )
    assert generation.message == (
        "The prompt has at least 70 tokens; the context holds 64 and at least one must follow,"
        " so at most 63 fit. Shorten it, or set truncate_prompt_tokens (and truncation_side) to"
        " cut it."
    )
    pooling = errors.PromptTooLong(num_tokens=70, max_tokens=64, max_model_len=64)
    assert "at most 64 fit" in pooling.message
    assert "output" not in pooling.message
