"""From a name to a folder: local, from the hub's cache, from ModelScope, or a clear refusal."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from foreword.assets.fetch import find_folder
from foreword.assets.files import DOWNLOAD_PATTERNS
from foreword.assets.load import load_assets
from foreword.errors import AssetsInvalid, InvalidRequest

Calls = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "FOREWORD_USE_MODELSCOPE"):
        monkeypatch.delenv(name, raising=False)


def record(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], str]) -> Calls:
    calls: Calls = []

    def snapshot_download(repo_id: str, **options: Any) -> str:
        calls.append({"repo_id": repo_id, **options})
        return answer()

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return calls


def refuse(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def answer() -> str:
        raise error

    record(monkeypatch, answer)


def hub_error(kind: type[Exception]) -> Exception:
    error = kind.__new__(kind)
    Exception.__init__(error, "secret detail")
    return error


def make_cache(root: Path, commit: str = "a" * 40) -> Path:
    """Lay out a hub cache that holds `owner/tiny`, as huggingface_hub itself does."""
    repo = root / "models--owner--tiny"
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    blob = repo / "blobs" / "b1"
    blob.parent.mkdir()
    blob.write_bytes(b'{"model": {}}')
    (snapshot / "tokenizer.json").symlink_to(blob)
    return snapshot


def test_a_folder_wins_over_a_hub_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = record(monkeypatch, lambda: "unused")
    (tmp_path / "owner" / "tiny").mkdir(parents=True)
    assert find_folder("owner/tiny").resolve() == (tmp_path / "owner" / "tiny").resolve()
    assert calls == []


def test_only_listed_files_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = record(monkeypatch, lambda: str(tmp_path))
    assert find_folder("owner/tiny", revision="v2") == tmp_path
    assert calls == [
        {
            "repo_id": "owner/tiny",
            "revision": "v2",
            "local_files_only": False,
            "allow_patterns": list(DOWNLOAD_PATTERNS),
        }
    ]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("tokenizer.json", True),
        ("tokenizer_config.json", True),
        ("chat_template.jinja", True),
        ("chat_template.rag.jinja", True),
        ("additional_chat_templates/rag.jinja", True),
        ("sentence_xlm-roberta_config.json", True),
        ("qwen.tiktoken", True),
        ("tiktoken.model", True),
        ("tokenizer.model.v3", True),
        ("vocab.json", True),
        ("sentencepiece.bpe.model", True),
        ("model-00001-of-00002.safetensors", False),
        ("model.safetensors.index.json", False),
        ("pytorch_model.bin", False),
        ("consolidated.00.pth", False),
        ("model.gguf", False),
        ("onnx/model.onnx", False),
    ],
)
def test_the_allow_list(name: str, wanted: bool) -> None:
    assert any(fnmatch(name, pattern) for pattern in DOWNLOAD_PATTERNS) is wanted


@pytest.mark.parametrize(
    ("variable", "offline", "expected"),
    [
        ("HF_HUB_OFFLINE", None, True),
        ("TRANSFORMERS_OFFLINE", None, True),
        ("HF_HUB_OFFLINE", False, False),
        ("UNRELATED", None, False),
        ("UNRELATED", True, True),
    ],
)
def test_offline(
    monkeypatch: pytest.MonkeyPatch, variable: str, offline: bool | None, expected: bool
) -> None:
    monkeypatch.setenv(variable, "1")
    calls = record(monkeypatch, lambda: "x")
    find_folder("owner/tiny", offline=offline)
    assert calls[0]["local_files_only"] is expected


def test_from_a_real_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    snapshot = make_cache(tmp_path / "hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(
        "huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path / "hub")
    )
    assets = load_assets("owner/tiny", offline=True)
    assert Path(assets.folder) == snapshot
    assert assets.name == "owner/tiny"
    assert assets.tokenizer_json == b'{"model": {}}'
    assert load_assets("owner/tiny", revision="a" * 40, offline=True).revision == "a" * 40
    with pytest.raises(AssetsInvalid, match="revision 'v9'"):
        load_assets("owner/tiny", revision="v9", offline=True)
    with pytest.raises(AssetsInvalid, match=r"no folder of that name.*cache does not hold it"):
        load_assets("owner/other", offline=True)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (errors.GatedRepoError, "gated"),
        (errors.RepositoryNotFoundError, "no folder of that name, and no such model"),
        (errors.RevisionNotFoundError, "no revision 'v2'"),
        (errors.HFValidationError, "not a valid Hugging Face id"),
        (errors.OfflineModeIsEnabled, "offline mode"),
        (errors.LocalEntryNotFoundError, "could not be reached"),
        (errors.HfHubHTTPError, "could not be reached"),
    ],
)
def test_the_hubs_refusals(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], said: str
) -> None:
    refuse(monkeypatch, hub_error(kind))
    with pytest.raises(AssetsInvalid, match=said) as caught:
        find_folder("owner/tiny", revision="v2")
    assert caught.value.details["file"] == "owner/tiny"
    assert "secret detail" not in caught.value.message


def test_a_full_disk_is_not_called_a_network_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, OSError(28, "No space left on device", "/secret/path"))
    with pytest.raises(AssetsInvalid, match="No space left on device") as caught:
        find_folder("owner/tiny")
    assert "/secret" not in caught.value.message


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("/srv/models/qwen", "qwen"),
        ("./qwen", "qwen"),
        ("../qwen", "qwen"),
        ("a/b/c", "c"),
        ("owner/", "owner"),
        ("owner/bad--name", "owner/bad--name"),
        ("", "model"),
        ("a" * 5000, "a" * 200 + "…"),
        ("a/" * 3000, "a"),
        ("x\0y", "x\0y"),
        ("~nobody-of-this-name/x", "x"),
    ],
)
def test_what_is_neither_a_folder_nor_an_id(model: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"no folder of that name.*not a Hugging Face id") as c:
        find_folder(model)
    assert c.value.param == "model"
    assert c.value.message.startswith(f"{name}: ")
    assert "/srv" not in c.value.message
    assert len(c.value.message) < 400


def test_a_file_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(AssetsInvalid, match=r"^model\.gguf: it is a file"):
        find_folder(str(tmp_path / "model.gguf"))


def test_modelscope(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: Calls = []

    def snapshot_download(model_id: str, **options: Any) -> str:
        calls.append({"model_id": model_id, **options})
        return str(tmp_path)

    module = types.ModuleType("modelscope")
    module.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "modelscope", module)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("FOREWORD_USE_MODELSCOPE", "1")
    hub = record(monkeypatch, lambda: "unused")
    assert find_folder("owner/tiny", revision="r", offline=True) == tmp_path
    assert hub == []
    assert calls == [
        {
            "model_id": "owner/tiny",
            "revision": "r",
            "local_files_only": True,
            "allow_patterns": list(DOWNLOAD_PATTERNS),
        }
    ]


def test_modelscope_failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def snapshot_download(model_id: str, **options: Any) -> str:
        raise KeyError("secret detail")

    module = types.ModuleType("modelscope")
    module.snapshot_download = snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "modelscope", module)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("FOREWORD_USE_MODELSCOPE", "true")
    with pytest.raises(AssetsInvalid, match=r"ModelScope could not provide it \(KeyError\)") as c:
        find_folder("owner/tiny")
    assert "secret" not in c.value.message


def test_modelscope_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "modelscope", None)
    monkeypatch.setenv("FOREWORD_USE_MODELSCOPE", "1")
    with pytest.raises(AssetsInvalid, match=r"foreword\[modelscope\]"):
        find_folder("owner/tiny")


def test_the_hub_library_is_not_imported_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    code = (
        "import sys; from foreword.assets.load import load_assets; load_assets(sys.argv[1]);"
        "sys.exit('huggingface_hub' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 0
