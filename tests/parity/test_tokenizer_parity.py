"""The tokenizer against transformers itself, on real files and on altered configurations."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import pytest

from foreword.tokenizer import class_table
from foreword.tokenizer.declared_class import engine_class
from foreword.tokenizer.huggingface import HuggingFaceTokenizer
from foreword.types import ModelAssets

transformers = pytest.importorskip("transformers", reason="needs the parity dependency group")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),
]

DATA = Path(__file__).parents[3] / "shared" / "data"
FOLDERS = sorted(
    path.parent
    for kind in ("models", "tokenizers")
    for path in DATA.glob(f"{kind}/*/tokenizer.json")
)
TEXTS = [
    "",
    "a",
    "Hello world",
    "  two  spaces and trailing  ",
    "\n\n  \tindented\r\n",
    "naïve café, e\u0301 vs é; ｆｕｌｌ ﬁ №",
    "12345 3.14159 1e-9",
    "don't I'LL ’s ſ'S",
    "中文字符 and かな, 한국어",
    "👩‍👩‍👧 🇩🇪 \ufeffbom \u200bzero",
    "def f(x):\n    return x**2  # end\n",
    "nul\0here",
    "<s> text</s> <unk> <mask> [CLS] [SEP] <pad>",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>x",
    "<bos><start_of_turn>user\nhi<end_of_turn>\n<start_of_image>",
    "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>",
    "<new_1>glued<new_2> <NEW_3> boi <img>x",
    "supercalifragilisticexpialidocious" * 3,
    "▁already ▁ marked",
]

NEW_TOKENS: dict[str, Any] = {
    "added_tokens_decoder": {
        "900001": {
            "content": "<new_1>",
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        },
        "900005": {
            "content": "<new_2>",
            "lstrip": True,
            "normalized": True,
            "rstrip": False,
            "single_word": False,
            "special": False,
        },
    },
    "bos_token": "<s>",
    "eos_token": {
        "__type": "AddedToken",
        "content": "<NEW_3>",
        "lstrip": False,
        "normalized": True,
        "rstrip": False,
        "single_word": False,
    },
    "extra_special_tokens": {"image_token": "<img>", "boi_token": "boi"},
}

# A class with a pipeline of its own knows only the added tokens that are declared.
ALL_LLAMA_TOKENS: dict[str, Any] = {
    **NEW_TOKENS,
    "added_tokens_decoder": {
        **{str(place): {"content": text, "special": True, "normalized": False}
           for place, text in enumerate(("<unk>", "<s>", "</s>"))},
        **NEW_TOKENS["added_tokens_decoder"],
    },
}  # fmt: skip
LISTED: dict[str, Any] = {
    "additional_special_tokens": ["<new_2>", "<img>"], "pad_token": "<pad>",
    "add_bos_token": True, "add_eos_token": True, "add_prefix_space": True,
}  # fmt: skip
VARIANTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("gpt2", {"model_type": "gpt2"}, {"tokenizer_class": "GPT2Tokenizer"}),
    ("gpt2", {"model_type": "gpt2"}, {"tokenizer_class": "GPT2TokenizerFast", **LISTED}),
    ("gpt2", {"model_type": "gpt2"}, {"tokenizer_class": "PreTrainedTokenizerFast", **LISTED}),
    ("gpt2", {"model_type": "llama"}, {"tokenizer_class": "PreTrainedTokenizerFast", **NEW_TOKENS}),
    ("gpt2", {"model_type": "llama"}, {"tokenizer_class": "MyOwnTokenizer", **LISTED}),
    ("gpt2", {"model_type": "gpt2"}, {}),
    ("gpt2", {"model_type": "phi3"}, {"tokenizer_class": "LlamaTokenizer", **LISTED}),
    ("llama2", {"model_type": "llama"}, {"tokenizer_class": "LlamaTokenizer"}),
    ("llama2", {"model_type": "llama"}, {"tokenizer_class": "LlamaTokenizer", "legacy": True}),
    ("llama2", {"model_type": "llama"}, {"tokenizer_class": "LlamaTokenizerFast", "legacy": False,
                                         "add_bos_token": False, "add_eos_token": True}),
    ("llama2", {"model_type": "llama"},
     {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}),
    ("llama2", {"model_type": "llama"}, {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ("llama2", {"model_type": "mistral"}, {"tokenizer_class": "LlamaTokenizer", "legacy": True}),
    ("llama2", {"model_type": "llama"}, {"tokenizer_class": "LlamaTokenizer", **ALL_LLAMA_TOKENS}),
    ("mistral03", {"model_type": "llama"}, {"tokenizer_class": "LlamaTokenizer"}),
    ("mistral03", {"model_type": "mistral"}, {"tokenizer_class": "LlamaTokenizer"}),
    ("bert_uncased_minilm", {"model_type": "bert"},
     {"tokenizer_class": "BertTokenizer", "do_lower_case": False}),
    ("bert_uncased_minilm", {"model_type": "bert"},
     {"tokenizer_class": "BertTokenizerFast", "clean_up_tokenization_spaces": True, **LISTED}),
    ("xlm_roberta", {"model_type": "xlm-roberta"}, {"tokenizer_class": "XLMRobertaTokenizerFast"}),
    ("gpt2", {"model_type": "llama"},
     {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>",
      "split_special_tokens": True}),
]  # fmt: skip


def read(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def assets_of(folder: Path) -> ModelAssets:
    return ModelAssets(
        name=folder.name,
        file_names=frozenset(os.listdir(folder)),
        tokenizer_json=(folder / "tokenizer.json").read_bytes(),
        tokenizer_config=read(folder, "tokenizer_config.json"),
        special_tokens_map=read(folder, "special_tokens_map.json"),
        config=read(folder, "config.json"),
    )


def stage(source: Path, target: Path, **files: dict[str, Any] | None) -> Path:
    """Link a folder's files into a writable one, with some JSON files replaced."""
    replaced = {f"{name}.json": content for name, content in files.items() if content is not None}
    for path in source.iterdir():
        if path.name not in replaced:
            (target / path.name).symlink_to(path)
    for name, content in replaced.items():
        (target / name).write_text(json.dumps(content), "utf-8")
    return target


def differences(folder: Path) -> list[str]:
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = HuggingFaceTokenizer.from_assets(assets_of(folder))
    found = []

    def compare(what: str, mine: object, other: object) -> None:
        if mine != other:
            found.append(f"{what}: {mine!r:.300} != {other!r:.300}")

    taken = engine_class(read(folder, "config.json"), read(folder, "tokenizer_config.json"))
    compare("class", taken, type(theirs).__name__)
    info = ours.info
    compare("vocab_size", info.vocab_size, len(theirs))
    compare("special_tokens", info.special_tokens, theirs.special_tokens_map)
    compare("all_special_tokens", list(info.all_special_tokens), theirs.all_special_tokens)
    compare("all_special_ids", info.all_special_ids, frozenset(theirs.all_special_ids))
    compare("bos", info.bos_token_id, theirs.bos_token_id)
    compare("eos", info.eos_token_id, theirs.eos_token_id)
    compare("pad", info.pad_token_id, theirs.pad_token_id)
    for text in TEXTS:
        for special in (True, False):
            expected = theirs(text, add_special_tokens=special, return_offsets_mapping=True)
            got = ours.encode(text, add_special_tokens=special, with_offsets=True)
            fast = ours.encode(text, add_special_tokens=special)
            compare(f"ids {text!r} {special}", list(got.token_ids), expected["input_ids"])
            compare(f"offsets {text!r}", list(got.offsets or ()), expected["offset_mapping"])
            compare(f"fast {text!r}", got.token_ids, fast.token_ids)
            compare(
                f"decode {text!r}", ours.decode(got.token_ids), theirs.decode(expected["input_ids"])
            )
            compare(
                f"skip {text!r}",
                ours.decode(got.token_ids, skip_special_tokens=True),
                theirs.decode(expected["input_ids"], skip_special_tokens=True),
            )
    return found


@pytest.mark.witness(
    family=(
        "mode:hf",
        "file:tokenizer.json",
    ),
    what="ids, offsets, decoding and special tokens of real folders: byte-level BPE, SentencePiece "
    "BPE, Unigram, WordPiece",
    against="transformers 5.20",
)
@pytest.mark.skipif(not FOLDERS, reason="the data folder beside the checkout is absent")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_real_folders_agree_with_transformers(folder: Path, tmp_path: Path) -> None:
    config = None if (folder / "config.json").is_file() else {"model_type": "llama"}
    assert differences(stage(folder, tmp_path, config=config)) == []


@pytest.mark.witness(
    family="file:tokenizer.json",
    what="what tokenizer_config.json changes",
    against="transformers 5.20",
)
@pytest.mark.skipif(not FOLDERS, reason="the data folder beside the checkout is absent")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v[0]}-{v[1]['model_type']}")
def test_altered_configurations_agree_with_transformers(variant: Any, tmp_path: Path) -> None:
    name, config, tokenizer_config = variant
    folder = stage(
        DATA / "tokenizers" / name, tmp_path, config=config, tokenizer_config=tokenizer_config
    )
    assert differences(folder) == []


def test_the_table_of_classes_is_transformers_own() -> None:
    from transformers.models.auto import tokenization_auto as auto

    theirs = {
        model_type: (name or "").removesuffix("Fast")
        for model_type, name in auto.TOKENIZER_MAPPING_NAMES.items()
    }
    # Their table grows with what is installed: mistral-common's wrapper, which reads no
    # tokenizer.json, and classes that only sentencepiece can serve.
    ours = class_table.CLASS_BY_MODEL_TYPE
    differing = {
        model_type: (theirs.get(model_type), name)
        for model_type, name in ours.items()
        if theirs.get(model_type) not in (name, "MistralCommonBackend")
    }
    assert differing == {}
    misdeclared = frozenset(auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS)
    assert misdeclared == class_table.MISDECLARED_IN_TRANSFORMERS


@pytest.mark.parametrize("name", sorted(class_table.MODEL_OF_CLASS))
def test_a_classes_model_and_default_special_tokens(name: str) -> None:
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    found = tokenizer_class_from_name(name)
    model = found.model.__name__ if found.model else ""
    assert model == class_table.MODEL_OF_CLASS[name]
    # A class without parameters of its own takes those of the class it extends.
    defaults: dict[str, str] = {}
    for ancestor in reversed(found.__mro__):
        if issubclass(ancestor, transformers.TokenizersBackend) and "__init__" in vars(ancestor):
            for parameter in inspect.signature(ancestor.__init__).parameters.values():
                if parameter.name.endswith("_token") and isinstance(parameter.default, str):
                    defaults[parameter.name] = parameter.default
    assert class_table.DEFAULT_SPECIAL_TOKENS[name] == defaults
