"""Placeholders that are ordinary text: the ids of the text with the items written in their place.

The expected ids are those of one encode of that text by `tokenizers.Tokenizer`, as the engine
makes them; of the package nothing is used but the number of tokens an item has.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

sys.path.insert(0, str(Path(__file__).parent))
from media_models import picture, words, write_model

import foreword
from foreword.errors import InvalidRequest, MediaWouldBeCut, UnsupportedFeature
from foreword.options import MediaOptions

# Qwen's rule, by which a sign takes the space before it and the newlines after it.
SPLIT = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PARTS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for p in m.content %}{% if p.type == 'image' %}<image>{% else %}{{ p.text }}"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
)
PHI = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
INTERNVL = {
    "config.json": {
        "model_type": "internvl_chat",
        "max_position_embeddings": 100_000,
        "force_image_size": 28,
        "vision_config": {"patch_size": 14},
        "downsample_ratio": 1.0,
        "min_dynamic_patch": 1,
        "max_dynamic_patch": 1,
        "dynamic_image_size": True,
        "use_thumbnail": True,
    }
}
PHI_FILES = {
    "config.json": {"model_type": "phi4mm", "max_position_embeddings": 100_000},
    "preprocessor_config.json": {"image_processor_type": "Phi4MMImageProcessor"},
}
ITEM = "<img>" + "<IMG_CONTEXT>" * 4 + "</img>"
PHI_ITEM_ID = 200_010


def signs_and_spaces(added: dict[str, int | None], **more: Any) -> Tokenizer:
    """Return a byte-level tokenizer whose signs join the spaces beside them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate(alphabet)}
    merges = [(">", "Ċ"), ("Ċ", "Ċ"), (">", "ĊĊ"), ("Ġ", "<"), ("|", ">"), ("|>", "Ċ"), ("s", "e")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    for word, token_id in added.items():
        if token_id is not None:
            vocabulary[word] = token_id
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(word, normalized=False, **more) for word in added])
    return made


IMAGE_TOKENS = dict.fromkeys(("<|im_start|>", "<|im_end|>", "<img>", "<IMG_CONTEXT>", "</img>"))
PHI_TOKENS = {"<|im_start|>": None, "<|im_end|>": None, "<|endoftext10|>": PHI_ITEM_ID}


@cache
def model(name: str, **options: Any) -> tuple[foreword.Renderer, Tokenizer]:
    template, files, tokenizer = {
        "parts": (PARTS, INTERNVL, signs_and_spaces(IMAGE_TOKENS)),
        "composing": (PARTS, INTERNVL, signs_and_spaces(IMAGE_TOKENS)),
        "lowering": (PARTS, INTERNVL, signs_and_spaces(IMAGE_TOKENS)),
        "no added": (PARTS, INTERNVL, signs_and_spaces(dict.fromkeys(("<|im_start|>",)))),
        "phi": (PHI, PHI_FILES, signs_and_spaces(PHI_TOKENS)),
        "phi, taking spaces": (PHI, PHI_FILES, signs_and_spaces(PHI_TOKENS, rstrip=True)),
    }[name]
    if name == "composing":
        tokenizer.normalizer = normalizers.NFC()
    if name == "lowering":
        tokenizer.normalizer = normalizers.Lowercase()
    made = write_model(Path(mkdtemp()), files, tokenizer, template, options=MediaOptions(**options))
    return made, tokenizer


def body(*parts: Any, **fields: Any) -> dict[str, Any]:
    content = [words(part) if isinstance(part, str) else picture(*part) for part in parts]
    messages = [{"role": "user", "content": content}]
    return {"messages": messages, "add_generation_prompt": False, **fields}


def as_engine(tokenizer: Tokenizer, text: str, placeholder: str, item: str) -> list[int]:
    written = re.sub(placeholder, lambda _: item, text)
    return list(tokenizer.encode(written, add_special_tokens=False).ids)


SMALL = (28, 28)
TEXTS = ["see", "see ", "see  ", "see\n", "\n\nsee", " see", "1", ">", "<", "|>\n", "\t", "é\n"]


@pytest.mark.parametrize("before", ["", *TEXTS])
@pytest.mark.parametrize("after", ["", *TEXTS])
def test_the_ids_are_those_of_the_text_with_items_in_it(before: str, after: str) -> None:
    renderer, tokenizer = model("parts")
    parts = [part for part in (before, SMALL, after) if part]
    line = renderer.trace(body(*parts))
    assert line.rendered is not None
    ids = line.engine_input.token_ids.tolist()
    assert ids == as_engine(tokenizer, line.rendered.text, "<image>", ITEM)
    (span,) = line.engine_input.media_features
    begin, end = tokenizer.token_to_id("<img>"), tokenizer.token_to_id("</img>")
    assert (ids[span.start], ids[span.stop - 1], span.stop - span.start) == (begin, end, 6)
    assert span.is_embed == ((1, False), (4, True), (1, False))


@pytest.mark.parametrize(
    "parts",
    [
        [SMALL, "\n", SMALL, "\nhello"],
        [SMALL, SMALL, SMALL, "  \n"],
        ["a ", SMALL, " b ", SMALL, "\n\n"],
    ],
)
def test_several_images(parts: list[Any]) -> None:
    renderer, tokenizer = model("parts")
    line = renderer.trace(body(*parts))
    assert line.rendered is not None
    ids = line.engine_input.token_ids.tolist()
    assert ids == as_engine(tokenizer, line.rendered.text, "<image>", ITEM)
    begin = tokenizer.token_to_id("<img>")
    starts = [span.start for span in line.engine_input.media_features]
    assert starts == [place for place, one in enumerate(ids) if one == begin]


@pytest.mark.parametrize("name", ["phi", "phi, taking spaces"])
@pytest.mark.parametrize("parts", [[SMALL, "hello"], ["a\n", SMALL], [SMALL, SMALL, "  \nsee"]])
def test_numbered_placeholders(name: str, parts: list[Any]) -> None:
    renderer, tokenizer = model(name)
    line = renderer.trace(body(*parts))
    assert line.rendered is not None
    ids = line.engine_input.token_ids.tolist()
    spans = line.engine_input.media_features
    num_tokens = spans[0].stop - spans[0].start
    if name == "phi":
        item = "<|endoftext10|>" * num_tokens
        assert ids == as_engine(tokenizer, line.rendered.text, r"<\|image_\d\|>", item)
    assert ids.count(PHI_ITEM_ID) == num_tokens * parts.count(SMALL)
    assert all(set(ids[span.start : span.stop]) == {PHI_ITEM_ID} for span in spans)


def test_offsets_are_of_the_text_that_was_rendered() -> None:
    renderer, tokenizer = model("parts")
    line = renderer.trace(body("see ", SMALL, "\n", SMALL, "\nhello"))
    assert line.rendered is not None
    assert line.tokens.offsets is not None
    read = []
    for token_id, (start, stop) in zip(line.tokens.token_ids, line.tokens.offsets, strict=True):
        if (start, stop) != (0, 0):
            read.append(line.rendered.text[start:stop])
            assert tokenizer.decode([token_id], skip_special_tokens=False) == read[-1]
    assert "".join(read) == line.rendered.text.replace("<image>", "")


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_cut_takes_text_and_never_an_item(side: str) -> None:
    renderer, _ = model("parts")
    parts = ["see \n" * 3, SMALL, "\n" + "see \n" * 3]
    whole = renderer.render_chat(body(*parts)).engine_input
    (place,) = whole.media_features
    length = len(whole.token_ids)
    outcomes = set()
    for kept in range(1, length):
        fields = {"truncate_prompt_tokens": kept, "truncation_side": side}
        first, stop = (length - kept, length) if side == "left" else (0, kept)
        if first <= place.start and place.stop <= stop:
            made = renderer.render_chat(body(*parts, **fields)).engine_input
            assert made.token_ids == whole.token_ids[first:stop]
            assert made.media_features[0].start == place.start - first
            outcomes.add("cut")
        else:
            with pytest.raises(MediaWouldBeCut):
                renderer.render_chat(body(*parts, **fields))
            outcomes.add("refused")
    assert outcomes == {"cut", "refused"}


def test_text_that_spells_a_placeholder_stays_text() -> None:
    renderer, tokenizer = model("parts")
    ids = renderer.render_chat(body("a <image>\n", SMALL, "\n")).engine_input.token_ids.tolist()
    text = f"<|im_start|>user\na <image>\n{ITEM}\n<|im_end|>\n"
    assert ids == tokenizer.encode(text, add_special_tokens=False).ids
    with pytest.raises(InvalidRequest, match="spells a placeholder"):
        model("parts", placeholder_text="refuse")[0].render_chat(body("a <image>\n", SMALL))


def test_an_engine_that_would_take_the_typed_one_is_sent_no_parts() -> None:
    renderer, _ = model("parts")
    for parts in (["a <image>\n", SMALL], [SMALL, "a <image>"]):
        with pytest.raises(UnsupportedFeature, match=r"spells it too.*features"):
            renderer.generate_request(body(*parts), media_as="content_parts")
        renderer.generate_request(body(*parts))
    with pytest.raises(UnsupportedFeature, match=r"was cut.*features"):
        renderer.generate_request(
            body("see see", SMALL, truncate_prompt_tokens=15, truncation_side="left"),
            media_as="content_parts",
        )


def test_what_an_engine_is_sent_it_expands_to_the_same_ids() -> None:
    renderer, tokenizer = model("parts")
    sent = renderer.generate_request(body("see ", SMALL, "\n"), media_as="content_parts")
    assert not isinstance(sent, list)
    text = tokenizer.decode(list(sent.token_ids), skip_special_tokens=False)
    expanded = renderer.render_chat(body("see ", SMALL, "\n")).engine_input.token_ids
    assert as_engine(tokenizer, text, "<image>", ITEM) == expanded.tolist()


def test_composed_text_is_read_back_composed() -> None:
    renderer, tokenizer = model("composing")
    ids = renderer.render_chat(body("e\u0301 ", SMALL, "\n")).engine_input.token_ids.tolist()
    text = f"<|im_start|>user\n\u00e9 {ITEM}\n<|im_end|>\n"
    assert ids == tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize(
    ("name", "parts", "says"),
    [
        ("lowering", ["Read ", SMALL], "does not give the prompt's text back"),
        ("composing", [SMALL, "\u0338 struck"], "does not give the prompt's text back"),
        ("no added", ["see ", SMALL], "no token '<img>'"),
    ],
)
def test_what_cannot_be_proved_is_refused(name: str, parts: list[Any], says: str) -> None:
    renderer, _ = model(name)
    with pytest.raises(foreword.errors.ForewordError, match=says):
        renderer.render_chat(body(*parts))
