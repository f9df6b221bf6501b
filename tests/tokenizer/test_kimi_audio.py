"""Mode kimi_audio: tiktoken's ids, six control tokens a text may spell, and no more."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from vocabulary_makers import TEXTS, byte_ranks, tiktoken_bytes

import foreword
from foreword.errors import AssetsInvalid, ChatTemplateMissing, InvalidRequest
from foreword.tokenizer.kimi_audio import SPELLABLE

OTHER = {"<|im_start|>": 151650, "<|reserved|>": 151700}
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEMPLATE = "{% for m in messages %}<|im_kimia_user_msg_start|>{{ m.content }}{% endfor %}"


def write(folder: Path, name: str = "tiktoken.model") -> Path:
    declared = {
        str(i): {"content": text, "special": text != "<|reserved|>", "lstrip": True}
        for text, i in {**SPELLABLE, **OTHER}.items()
    }
    config = {"added_tokens_decoder": declared, "chat_template": "{{ 'not read' }}"}
    (folder / name).write_bytes(tiktoken_bytes(byte_ranks()))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text('{"max_position_embeddings": 512, "vocab_size": 168448}')
    return folder


def load(folder: Path, **options: Any) -> foreword.Renderer:
    return foreword.load(folder, tokenizer_mode="kimi_audio", **options)


@pytest.mark.parametrize("name", ["tiktoken.model", "tokenizer.model"])
def test_the_ids_and_the_text_are_tiktokens(tmp_path: Path, name: str) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="needs the extra `mistral`")
    theirs = tiktoken.Encoding(
        "x",
        pat_str=PATTERN,
        mergeable_ranks=byte_ranks(),
        special_tokens={**SPELLABLE, **OTHER},
    )
    ours = load(write(tmp_path, name)).tokenizer
    rng = random.Random(1)
    for text in TEXTS:
        marked = "".join(rng.choices([*SPELLABLE, text, " "], k=5))
        expected = theirs.encode(marked, allowed_special=set(SPELLABLE))
        for adds in (True, False):
            made = ours.encode(marked, add_special_tokens=adds, with_offsets=True)
            assert list(made.token_ids) == expected
            assert made.offsets is None
        assert ours.decode(expected) == theirs.decode(expected)
        special = {*SPELLABLE.values(), *OTHER.values()}
        kept = [one for one in expected if one not in special]
        assert ours.decode(expected, skip_special_tokens=True) == theirs.decode(kept)


def test_another_control_token_is_refused_where_it_stands(tmp_path: Path) -> None:
    renderer = load(write(tmp_path))
    for text in OTHER:
        with pytest.raises(InvalidRequest, match="at character 4") as caught:
            renderer.render_cmpl({"prompt": f"the {text}"})
        assert caught.value.status == 400
    # As ordinary text, it is that.
    made = renderer.tokenizer.encode(
        "<|im_start|>", add_special_tokens=False, literal_spans=[(0, 12)]
    )
    assert 151650 not in made.token_ids


def test_chats_need_a_template_that_is_given(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "the dog"}]}
    renderer = load(write(tmp_path))
    assert any("kimi_audio" in warning for warning in renderer.assets.warnings)
    with pytest.raises(ChatTemplateMissing):
        renderer.render_chat(body)
    made = load(tmp_path, chat_template=TEMPLATE).render_chat(body).engine_input
    assert made.token_ids[0] == SPELLABLE["<|im_kimia_user_msg_start|>"]
    assert renderer.tokenizer.decode(list(made.token_ids[1:])) == "the dog"


def test_what_is_known_of_it(tmp_path: Path) -> None:
    info = load(write(tmp_path)).tokenizer.info
    assert (info.bos_token_id, info.eos_token_id, info.pad_token_id) == (151643, 151644, 151644)
    assert info.all_special_ids == set(SPELLABLE.values())
    assert info.max_token_id == 168447
    assert not info.is_fast
    assert (info.num_prefix_special, info.num_suffix_special) == (0, 0)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    (write(tmp_path) / "tiktoken.model").rename(tmp_path / "vocab.bin")
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(AssetsInvalid, match=r"tiktoken\.model: missing"):
        load(tmp_path)
    (tmp_path / "tiktoken.model").write_bytes(b"nonsense")
    with pytest.raises(AssetsInvalid, match=r"tiktoken\.model"):
        load(tmp_path)


def test_a_longer_text_than_one_call_may_have_is_refused(tmp_path: Path) -> None:
    renderer = load(write(tmp_path), max_uncut_chars=7)
    assert renderer.tokenize({"prompt": "a b c d"}).count > 0
    with pytest.raises(InvalidRequest, match=r"8 characters .* at most 7"):
        renderer.tokenize({"prompt": "a b c d "})


def test_the_architecture_asks_for_this_mode(tmp_path: Path) -> None:
    folder = write(tmp_path)
    config = {"max_position_embeddings": 512, "architectures": ["MoonshotKimiaForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(config))
    renderer = foreword.load(folder)
    assert renderer.tokenizer.info.mode == "kimi_audio"
    with pytest.raises(ChatTemplateMissing):  # the model's own template is not read
        renderer.render_chat({"messages": [{"role": "user", "content": "a"}]})
