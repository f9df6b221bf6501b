"""Score and rerank requests: pairs as the tokenizer's file joins them, padded, cut and refused."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

import foreword
from foreword.errors import (
    InvalidRequest,
    MalformedRequest,
    PromptTooLong,
    RequestError,
    UnsupportedFeature,
)

WORDS = ("<s>", "</s>", "<pad>", "<unk>", "one", "two", "three", "four", "five", "six")
BOS, EOS, PAD = 0, 1, 2
ONE, TWO, THREE, FOUR, FIVE, SIX = range(4, 10)
# "query" and "document" are words it does not know.
TEMPLATE = "{{ instruction }} {% for m in messages %}{{ m.content }} {{ m.role }} {% endfor %}"


def make(pair: str | None = "<s> $A </s> </s> $B </s>") -> Tokenizer:
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>"])
    if pair is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair=pair, special_tokens=[("<s>", BOS), ("</s>", EOS)]
        )
    return tokenizer


def load(
    folder: Path, tokenizer: Tokenizer | None = None, *, length: int = 32, **config: Any
) -> foreword.Renderer:
    options = config.pop("options", {})
    given = {"max_position_embeddings": length, "vocab_size": len(WORDS), **config}
    (folder / "tokenizer.json").write_text((tokenizer or make()).to_str())
    declared = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(declared))
    (folder / "config.json").write_text(json.dumps(given))
    return foreword.load(folder, **{"runner": "pooling", **options})


@pytest.fixture
def ranker(tmp_path: Path) -> foreword.Renderer:
    return load(tmp_path)


def ids(made: list[foreword.EngineInput]) -> list[list[int]]:
    return [list(one.token_ids) for one in made]


@pytest.mark.parametrize(
    ("first", "second"),
    [("query", "documents"), ("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2")],
)
def test_one_query_meets_every_document(ranker: foreword.Renderer, first: str, second: str) -> None:
    made = ranker.render_scoring({first: "one two", second: ["three", "four"], "cache_salt": "s"})
    assert ids(made) == [
        [BOS, ONE, TWO, EOS, EOS, THREE, EOS],
        [BOS, ONE, TWO, EOS, EOS, FOUR, EOS],
    ]
    assert {one.cache_salt for one in made} == {"s"}


def test_queries_meet_their_own_documents_or_all_stay_apart(ranker: foreword.Renderer) -> None:
    body = {"queries": ["one", "two"], "documents": ["three", "four"]}
    assert ids(ranker.render_scoring(body)) == [
        [BOS, ONE, EOS, EOS, THREE, EOS],
        [BOS, TWO, EOS, EOS, FOUR, EOS],
    ]
    apart = ids(ranker.render_scoring(body, is_apart=True))
    assert apart == [[BOS, word, EOS] for word in (ONE, TWO, THREE, FOUR)]


def test_the_whole_context_may_be_filled_and_not_more(ranker: foreword.Renderer) -> None:
    (made,) = ranker.render_scoring({"query": "one", "documents": "two " * 27})
    assert len(made.token_ids) == 32
    with pytest.raises(PromptTooLong, match=r"documents\[1\]: .* 33 tokens, but at most 32"):
        ranker.render_scoring({"query": "one", "documents": ["two", "two " * 28]})


def test_padding_fills_the_context_at_the_right(ranker: foreword.Renderer) -> None:
    body = {"query": "one", "documents": "two", "padding": "max_length"}
    (made,) = ranker.render_scoring(body)
    assert list(made.token_ids) == [BOS, ONE, EOS, EOS, TWO, EOS] + [PAD] * 26
    assert made.num_padded == 26


def test_a_cut_of_an_open_side_shortens_the_longer_text(ranker: foreword.Renderer) -> None:
    body = {"query": "one two", "documents": "three four five six", "truncate_prompt_tokens": 8}
    (made,) = ranker.render_scoring(body)
    assert list(made.token_ids) == [BOS, ONE, TWO, EOS, EOS, THREE, FOUR, EOS]
    assert (made.num_prompt_tokens, made.num_truncated, made.truncated_side) == (10, 2, "right")


@pytest.mark.parametrize(
    ("side", "expected"),
    [("right", [BOS, ONE, TWO]), ("left", [FIVE, SIX, EOS])],
)
def test_a_cut_of_a_named_side_is_a_plain_slice(
    ranker: foreword.Renderer, side: str, expected: list[int]
) -> None:
    body = {"query": "one two", "documents": "three four five six", "truncation_side": side}
    (made,) = ranker.render_scoring({**body, "truncate_prompt_tokens": 3})
    assert list(made.token_ids) == expected
    assert made.num_truncated == 7


@pytest.mark.parametrize("direction", ["left", "right"])
def test_pairs_are_those_of_the_library(tmp_path: Path, direction: Any) -> None:
    theirs = make()
    ours = load(tmp_path, make(), options={"truncation_side": direction})
    rng = random.Random(1)
    for _ in range(300):
        first, second = (" ".join(rng.choices(WORDS[4:], k=rng.randrange(1, 12))) for _ in range(2))
        limit = rng.randrange(5, 32)
        theirs.enable_truncation(limit, strategy="longest_first", direction=direction)
        expected = theirs.encode_batch([(first, second)])[0].ids
        body = {"query": first, "documents": second, "truncate_prompt_tokens": limit}
        (made,) = ours.render_scoring(body)
        assert list(made.token_ids) == expected, (first, second, limit)


@pytest.mark.parametrize("side", ["left", "right"])
def test_texts_longer_than_the_context_are_cut_from_the_side_asked(
    tmp_path: Path, side: Any
) -> None:
    renderer = load(tmp_path, options={"truncation_side": side})
    document = "two " * 50_000 + "three"
    body = {"query": "one", "documents": document, "truncate_prompt_tokens": -1}
    (open_side,) = renderer.render_scoring(body)
    last = THREE if side == "left" else TWO
    assert list(open_side.token_ids) == [BOS, ONE, EOS, EOS, *[TWO] * 26, last, EOS]
    (named,) = renderer.render_scoring({**body, "truncation_side": side})
    whole = [BOS, ONE, EOS, EOS, *[TWO] * 50_000, THREE, EOS]
    assert list(named.token_ids) == (whole[-32:] if side == "left" else whole[:32])


def test_a_refusal_says_that_it_stopped_counting(ranker: foreword.Renderer) -> None:
    with pytest.raises(PromptTooLong, match=r"at least|characters"):
        ranker.render_scoring({"query": "one", "documents": "two " * 5_000})


def test_texts_are_limited_by_themselves(ranker: foreword.Renderer) -> None:
    body = {"query": "one two three", "documents": ["four five six", "six"]}
    made = ranker.render_scoring({**body, "max_tokens_per_query": 1, "max_tokens_per_doc": 2})
    assert ids(made) == [
        [BOS, ONE, EOS, EOS, FOUR, FIVE, EOS],
        [BOS, ONE, EOS, EOS, SIX, EOS],
    ]
    apart = ranker.render_scoring({**body, "max_tokens_per_query": 2}, is_apart=True)
    assert ids(apart)[0] == [BOS, ONE, TWO, EOS]


def test_a_model_without_a_separator_gets_one_text(tmp_path: Path) -> None:
    renderer = load(tmp_path, use_sep_token=False)
    made = renderer.render_scoring({"query": "one ", "documents": "two"})
    assert ids(made) == [[BOS, ONE, TWO, EOS]]


def test_a_score_template_is_used_where_the_operator_gave_one(tmp_path: Path) -> None:
    renderer = load(tmp_path, options={"chat_template": TEMPLATE})
    body = {"query": "one", "documents": "two", "instruction": "six"}
    unknown = WORDS.index("<unk>")
    expected = [BOS, SIX, ONE, unknown, TWO, unknown, EOS]
    assert ids(renderer.render_scoring(body)) == [expected]
    own = {**body, "chat_template_kwargs": {"instruction": "five"}}
    assert ids(renderer.render_scoring(own))[0][1] == FIVE


TYPED = make("<s> $A </s> $B:1 </s>:1")


@pytest.mark.parametrize(
    ("declared", "config"),
    [
        ({"tokenizer_class": "BertTokenizer"}, {}),
        ({"tokenizer_class": "ElectraTokenizerFast"}, {"model_type": "electra"}),
        ({}, {"model_type": "bert"}),
        ({"model_input_names": ["input_ids", "token_type_ids"]}, {}),
        ({"tokenizer_class": "GPT2Tokenizer", "model_input_names": ["token_type_ids"]}, {}),
    ],
)
def test_token_types_are_refused_by_name(
    tmp_path: Path, declared: dict[str, Any], config: dict[str, Any]
) -> None:
    load(tmp_path, TYPED, **config)
    roles = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**roles, **declared}))
    renderer = foreword.load(tmp_path, runner="pooling")
    with pytest.raises(UnsupportedFeature, match="token types"):
        renderer.render_scoring({"query": "one", "documents": "two"})
    # Apart, each text is a prompt of the first type alone.
    body = {"query": "one", "documents": "two"}
    assert len(renderer.render_scoring(body, is_apart=True)) == 2


def test_a_file_that_joins_texts_strangely_is_refused(tmp_path: Path) -> None:
    renderer = load(tmp_path, make("<s> $B </s> $A </s>"))
    with pytest.raises(UnsupportedFeature, match="a pair of texts"):
        renderer.render_scoring({"query": "one", "documents": "two"})


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [(TYPED, [BOS, ONE, EOS, TWO, EOS]), (make(None), [ONE, TWO])],
)
def test_types_that_the_models_class_does_not_give_do_not_matter(
    tmp_path: Path, tokenizer: Tokenizer, expected: list[int]
) -> None:
    load(tmp_path, tokenizer)
    for declared in ({}, {"tokenizer_class": "PreTrainedTokenizerFast"}):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(declared))
        renderer = foreword.load(tmp_path, runner="pooling")
        made = renderer.render_scoring({"query": "one", "documents": "two"})
        assert ids(made) == [expected]
    # A copy in another process knows it too.
    copied = pickle.loads(pickle.dumps(renderer.tokenizer))
    assert not copied.pair_shape().needs_types


@pytest.mark.parametrize(
    ("body", "kind", "param"),
    [
        ({}, MalformedRequest, "query"),
        ({"query": "one"}, MalformedRequest, "documents"),
        ({"query": "a", "text_1": "b", "documents": "c"}, MalformedRequest, "query"),
        ({"query": "a", "documents": []}, InvalidRequest, "documents"),
        ({"queries": ["a", "b"], "documents": ["c"]}, InvalidRequest, "queries"),
        ({"query": "a", "documents": ["c", 3]}, MalformedRequest, "documents[1]"),
        ({"query": None, "documents": "c"}, MalformedRequest, "query"),
        ({"query": {"content": []}, "documents": "c"}, UnsupportedFeature, "query"),
        ({"query": "a", "documents": ["c"] * 1025}, InvalidRequest, "documents"),
        ({"query": "a", "documents": "c", "padding": "left"}, MalformedRequest, "padding"),
        (
            {"query": "a", "documents": "c", "truncate_prompt_tokens": 33},
            InvalidRequest,
            "truncate_prompt_tokens",
        ),
    ],
)
def test_what_is_wrong_is_named(
    ranker: foreword.Renderer, body: dict[str, Any], kind: type[RequestError], param: str
) -> None:
    with pytest.raises(kind) as caught:
        ranker.render_scoring(body)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [BOS, ONE, TWO, THREE, EOS]),
        ({"truncate_prompt_tokens": 3}, [BOS, ONE, EOS]),
        ({"truncate_prompt_tokens": 3, "truncation_side": "right"}, [BOS, ONE, TWO]),
        ({"truncate_prompt_tokens": 3, "truncation_side": "left"}, [TWO, THREE, EOS]),
        ({"pad_prompt_tokens": 7}, [BOS, ONE, TWO, THREE, EOS, PAD, PAD]),
        ({"padding": "do_not_pad"}, [BOS, ONE, TWO, THREE, EOS]),
        (
            {"truncate_prompt_tokens": 3, "pad_prompt_tokens": 5},
            [BOS, ONE, EOS, PAD, PAD],
        ),
    ],
)
def test_an_input_to_embed_is_cut_at_the_right_and_padded(
    ranker: foreword.Renderer, options: dict[str, Any], expected: list[int]
) -> None:
    assert ids(ranker.render_pooling({"input": "one two three", **options})) == [expected]


def test_an_input_to_embed_may_fill_the_context(ranker: foreword.Renderer) -> None:
    (made,) = ranker.render_pooling({"input": "one " * 30})
    assert len(made.token_ids) == 32
    with pytest.raises(PromptTooLong, match="at most 32 fit"):
        ranker.render_pooling({"input": "one " * 31})
    (cut,) = ranker.render_pooling({"input": "one " * 31, "truncate_prompt_tokens": -1})
    assert len(cut.token_ids) == 32
    (padded,) = ranker.render_pooling({"input": "one", "padding": "max_length"})
    assert (len(padded.token_ids), padded.num_padded) == (32, 29)
