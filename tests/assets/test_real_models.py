"""Real models' folders, where the private data lies beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from foreword.assets.context_length import derive_max_model_len, model_vocab_size
from foreword.assets.fingerprint import fingerprint
from foreword.assets.load import load_assets
from foreword.errors import AssetsInvalid

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(not DATA.is_dir(), reason="no ../shared/data beside the checkout"),
]

MODELS = {
    "deepseek_v3": (163840, 129280, ["default"]),
    "deepseek_v32": (163840, 129280, []),
    "deepseek_v4": (163840, 129280, []),
    "gemma3": (131072, 262144, ["default"]),
    "gptoss": (131072, 201088, []),
    "llama3_1": (131072, 128256, ["default"]),
    "mistral_nemo": (131072, 131072, []),
    "qwen3": (262144, 151936, ["default"]),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    folder = DATA / "models" / name
    if not folder.is_dir():
        pytest.skip(f"no {name} beside the checkout")
    assets = load_assets(str(folder))
    length = derive_max_model_len(assets)
    assert (length, model_vocab_size(assets), list(assets.chat_templates)) == MODELS[name]
    template = folder / "chat_template.jinja"
    if template.is_file():
        assert assets.chat_templates["default"] == template.read_text(encoding="utf-8")
    if assets.tokenizer_json is not None:
        assert assets.tokenizer_json == (folder / "tokenizer.json").read_bytes()
    assert len(fingerprint(assets, mode="hf", max_model_len=length, chat_template=None)) == 64


@pytest.mark.parametrize("kind", ["tokenizers", "configs"])
def test_every_other_folder_loads_or_says_why(kind: str) -> None:
    prints: set[str] = set()
    folders = [path for path in (DATA / kind).iterdir() if path.is_dir()]
    for folder in folders:
        if kind == "configs":
            with pytest.raises(AssetsInvalid, match="files is a tokenizer"):
                load_assets(str(folder))
            continue
        assets = load_assets(str(folder))
        length = derive_max_model_len(assets, requested=512)
        prints.add(fingerprint(assets, mode="hf", max_model_len=length, chat_template=None))
    assert len(prints) == (len(folders) if kind == "tokenizers" else 0)
