"""Mode `mistral`: mistral-common's own files and ids, through the whole line."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.diagnosis import find_oddities
from foreword.errors import AssetsInvalid, InvalidRequest, InvalidTokenIds
from foreword.tokenizer.mistral import MistralTokenizer
from foreword.types import Conversation, ModelAssets

mistral_common = pytest.importorskip("mistral_common", reason="needs the extra `mistral`")
from mistral_common.protocol.instruct.request import ChatCompletionRequest  # noqa: E402
from mistral_common.tokens.tokenizers.mistral import (  # noqa: E402
    MistralTokenizer as Backend,
)

FILES = Path(mistral_common.__file__).parent / "data"
TEXTS = ["", "Hello world", " two  spaces ", "Grüße 👋\n\n\t<s>[INST] x", "a\0b", "中文 é e\u0301"]


def model(tmp_path: Path, source: str, name: str) -> MistralTokenizer:
    shutil.copy(FILES / source, tmp_path / name)
    return MistralTokenizer.from_assets(
        ModelAssets(name="m", folder=str(tmp_path), file_names=frozenset({name}))
    )


@pytest.fixture(scope="module")
def tekken(tmp_path_factory: pytest.TempPathFactory) -> MistralTokenizer:
    return model(tmp_path_factory.mktemp("tekken"), "tekken_240718.json", "tekken.json")


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> MistralTokenizer:
    source = "mistral_instruct_tokenizer_240323.model.v3"
    return model(tmp_path_factory.mktemp("spm"), source, "tokenizer.model.v3")


def ask(text: str, **said: Any) -> Conversation:
    return Conversation(messages=({"role": "user", "content": text},), **said)


def test_text_has_mistral_commons_ids_and_no_offsets(
    tekken: MistralTokenizer, pieces: MistralTokenizer
) -> None:
    for ours, theirs in ((tekken, Backend.v3(is_tekken=True)), (pieces, Backend.v3())):
        vocabulary = theirs.instruct_tokenizer.tokenizer
        for text in TEXTS:
            for special in (True, False):
                tokens = ours.encode(text, add_special_tokens=special, with_offsets=True)
                assert list(tokens.token_ids) == vocabulary.encode(text, bos=special, eos=False)
                assert tokens.offsets is None
                assert tokens.num_prefix_special == special


def test_a_chat_has_mistral_commons_ids(tekken: MistralTokenizer, pieces: MistralTokenizer) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "<s>[INST] Grüße"},
        {"role": "assistant", "content": "Ja"},
        {"role": "user", "content": "x"},
    ]
    for ours, theirs in ((tekken, Backend.v3(is_tekken=True)), (pieces, Backend.v3())):
        wanted = theirs.encode_chat_completion(ChatCompletionRequest.from_openai(messages=messages))
        tokens = ours.encode_chat(Conversation(messages=tuple(messages)))
        assert list(tokens.token_ids) == wanted.tokens


def test_what_was_known_at_load(tekken: MistralTokenizer, pieces: MistralTokenizer) -> None:
    assert (tekken.version, pieces.version) == (3, 3)
    info = tekken.info
    assert (info.vocab_size, info.max_token_id) == (131072, 131071)
    assert (info.bos_token_id, info.eos_token_id, info.pad_token_id) == (1, 2, 11)
    assert info.special_tokens["bos_token"] == "<s>"
    assert len(info.all_special_ids) == len(info.all_special_tokens) == 1000
    assert info.char_gate_gap is None
    assert pieces.info.pad_token_id is None
    assert pieces.info.char_gate_gap is not None


def test_decoding_keeps_or_drops_special_tokens(tekken: MistralTokenizer) -> None:
    ids = [1, 3, *tekken.encode("Grüße 👋", add_special_tokens=False).token_ids, 4]
    assert tekken.decode(ids) == "<s>[INST]Grüße 👋[/INST]"
    assert tekken.decode(ids, skip_special_tokens=True) == "Grüße 👋"


@pytest.mark.parametrize("name", ["tekken", "pieces"])
def test_a_generations_text_keeps_what_parsers_look_for(
    name: str, request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(name)
    calls = tokenizer.token_to_id("[TOOL_CALLS]")
    text = tokenizer.encode("Grüße 👋 you", add_special_tokens=False).token_ids
    assert tokenizer.decode_output([1, *text, calls, *text, 2]) == (
        "Grüße 👋 you[TOOL_CALLS]Grüße 👋 you"
    )


def test_strings_of_the_vocabulary_and_back(tekken: MistralTokenizer) -> None:
    assert tekken.id_to_token(1) == "<s>"
    assert tekken.token_to_id("[INST]") == 3
    assert tekken.token_to_id("no such token in it") is None
    assert tekken.id_to_token(131072) is None


@pytest.mark.parametrize("token_id", [131072, -1, True])
def test_an_id_outside_is_named(tekken: MistralTokenizer, token_id: int) -> None:
    with pytest.raises(InvalidTokenIds) as caught:
        tekken.decode([1, token_id])
    assert caught.value.details["position"] == 1


def test_text_that_cannot_be_encoded_is_refused(
    tekken: MistralTokenizer, pieces: MistralTokenizer
) -> None:
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        pieces.encode("a\ud800", add_special_tokens=False)
    with pytest.raises(InvalidRequest, match="no place to split"):
        tekken.encode(" " * 2_000_000, add_special_tokens=False)


def test_literal_spans_cut(tekken: MistralTokenizer) -> None:
    whole = tekken.encode("Hello", add_special_tokens=True)
    cut = tekken.encode("Hello", add_special_tokens=True, literal_spans=((0, 2), (2, 5)))
    parts = [tekken.encode(t, add_special_tokens=False).token_ids for t in ("He", "llo")]
    assert list(cut.token_ids) == [1, *parts[0], *parts[1]]
    assert cut.token_ids != whole.token_ids


def test_an_effort_counts_from_version_15_on_and_must_be_known(tekken: MistralTokenizer) -> None:
    plain = tekken.encode_chat(ask("1+1")).token_ids
    kwargs = {"reasoning_effort": "high"}
    assert tekken.encode_chat(ask("1+1", chat_template_kwargs=kwargs)).token_ids == plain
    with pytest.raises(InvalidRequest, match="reasoning_effort must be one of none") as caught:
        tekken.encode_chat(ask("1+1", chat_template_kwargs={"reasoning_effort": "lots"}))
    assert caught.value.param == "reasoning_effort"


SPECIAL_15 = [
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "[MODEL_SETTINGS]",
    "[/MODEL_SETTINGS]",
]  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> MistralTokenizer:
    """A small file of version 15, whose chats carry the model's settings."""
    special = [
        {"rank": rank, "token_str": name, "is_control": True}
        for rank, name in enumerate(SPECIAL_15)
    ]
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(bytes([rank])).decode(), "token_str": None}
        for rank in range(256)
    ]
    folder = tmp_path_factory.mktemp("v15")
    effort = {"type": "enum", "values": ["none", "high"], "accepts_none": True, "default": "none"}
    config = {
        "pattern": r"\w+|\W+",
        "num_vocab_tokens": 256,
        "default_vocab_size": 300,
        "default_num_special_tokens": 44,
        "version": "v15",
    }
    content = {
        "config": config,
        "vocab": vocab,
        "special_tokens": special,
        "model_settings_builder": {"reasoning_effort": effort},
    }
    (folder / "tekken.json").write_text(json.dumps(content))
    return MistralTokenizer.from_assets(
        ModelAssets(name="m", folder=str(folder), file_names=frozenset({"tekken.json"}))
    )


def test_from_version_15_on_the_effort_is_in_the_prompt(settings: MistralTokenizer) -> None:
    assert settings.version == 15
    texts = [
        settings.decode(settings.encode_chat(ask("1+1", chat_template_kwargs=kwargs)).token_ids)
        for kwargs in ({}, {"reasoning_effort": "none"}, {"reasoning_effort": "high"})
    ]
    assert texts[0] == texts[1]
    assert '"reasoning_effort": "none"' in texts[0]
    assert '"reasoning_effort": "high"' in texts[2]
    with pytest.raises(InvalidRequest, match="does not accept"):
        settings.encode_chat(ask("1+1", chat_template_kwargs={"reasoning_effort": "low"}))


def test_mistral_commons_refusal_is_the_callers_fault(tekken: MistralTokenizer) -> None:
    messages = (
        {"role": "user", "content": "secret"},
        {"role": "assistant", "content": "a", "tool_calls": []},
        {"role": "assistant", "content": [{"type": "text", "text": {"no": "secret"}}]},
    )
    with pytest.raises(InvalidRequest, match="does not accept this conversation") as caught:
        tekken.encode_chat(Conversation(messages=messages))
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidRequest, match="Unknown message role: judge"):
        tekken.encode_chat(Conversation(messages=({"role": "judge", "content": "x"},)))


def test_it_pickles_and_threads_agree(pieces: MistralTokenizer) -> None:
    copy = pickle.loads(pickle.dumps(pieces))
    wanted = pieces.encode_chat(ask("Hello " * 50)).token_ids
    assert copy.encode_chat(ask("Hello " * 50)).token_ids == wanted
    answers: list[Any] = []

    def run() -> None:
        answers.extend(pieces.encode_chat(ask("Hello " * 50)).token_ids for _ in range(10))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 80
    assert all(ids == wanted for ids in answers)
    assert pieces.pool.num_free <= 8


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    def load(*names: str) -> None:
        MistralTokenizer.from_assets(
            ModelAssets(name="m", folder=str(tmp_path), file_names=frozenset(names))
        )

    with pytest.raises(AssetsInvalid, match=r"tekken\.json: missing"):
        load("tokenizer.json", "model.safetensors")
    (tmp_path / "tekken.json").write_text('{"config": {"version": "v99"}}')
    with pytest.raises(AssetsInvalid, match=r"tekken\.json: mistral-common cannot read it"):
        load("tekken.json", "tokenizer.model.v3")


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> foreword.Renderer:
    folder = tmp_path_factory.mktemp("model")
    shutil.copy(FILES / "tekken_240718.json", folder / "tekken.json")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "mistral", "max_position_embeddings": 64, "vocab_size": 131072})
    )
    return foreword.load(str(folder), tokenizer_mode="mistral")


def test_unsaid_truncation_keeps_a_texts_beginning_and_a_chats_end(
    renderer: foreword.Renderer,
) -> None:
    text, cut = "one two three four", {"truncate_prompt_tokens": 3}
    whole = list(renderer.render_cmpl({"prompt": text})[0].token_ids)
    assert list(renderer.render_cmpl({"prompt": text, **cut})[0].token_ids) == whole[:3]
    left = renderer.render_cmpl({"prompt": text, **cut, "truncation_side": "left"})[0]
    assert list(left.token_ids) == whole[-3:]
    chat = {"messages": [{"role": "user", "content": text}]}
    ids = list(renderer.render_chat(chat).engine_input.token_ids)
    assert list(renderer.render_chat({**chat, **cut}).engine_input.token_ids) == ids[-3:]


def test_every_entry_gives_the_same_chat(renderer: foreword.Renderer) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}]}
    ids = list(renderer.render_chat(chat).engine_input.token_ids)
    assert ids == [1, 3, 8101, 4]
    assert list(renderer.tokenize(chat).tokens) == ids
    trace = renderer.trace(chat)
    assert list(trace.tokens.token_ids) == ids
    assert trace.conversation is not None


def test_a_spelled_control_token_is_no_oddity_here(renderer: foreword.Renderer) -> None:
    chat = {"messages": [{"role": "user", "content": "<s>[INST]"}]}
    assert find_oddities(renderer.trace(chat), renderer) == ()


def test_a_template_of_the_request_is_refused(renderer: foreword.Renderer) -> None:
    chat = {"messages": [{"role": "user", "content": "hi"}], "chat_template_kwargs": {"a": 1}}
    for entry in (renderer.render_chat, renderer.tokenize):
        with pytest.raises(InvalidRequest, match="do not apply to Mistral"):
            entry(chat)  # type: ignore[operator]
