"""Where a model's files lie: a folder or a hub id in, a local folder out.

Rules of this file: the only place that reaches a network, and only for the allow-listed files.
The hub libraries are imported when first needed. Every failure is `AssetsInvalid` with a remedy;
a path the caller gave is named by its last part only.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from foreword.assets.files import CODE_PATTERNS, DOWNLOAD_PATTERNS
from foreword.errors import AssetsInvalid, InvalidRequest

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_DISK_FAULTS = (errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EROFS, errno.EDQUOT)
_TRUE = ("1", "true", "yes", "on")
_LOCK_TIMEOUT_SECONDS = 1800
_MAX_ID_CHARS = 200


def find_folder(
    model: str,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    with_code: bool = False,
) -> Path:
    """Return the folder that holds the model's files, downloading them when it is a hub id.

    `offline` None follows HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE). An existing folder always
    wins over a hub id of the same spelling. `with_code` downloads the model's Python code too.

    Raises: `InvalidRequest` when it is no folder and no hub id by its spelling; `AssetsInvalid`
    when there is no such model, or it is out of reach.
    """
    # Not Path's own tests: of a name that no file can have they raise, where the answer is no.
    path = os.path.expanduser(model)
    if model and os.path.isdir(path):
        return Path(path)
    name = display_name(model)
    if os.path.isfile(path):
        raise AssetsInvalid(
            file=name,
            problem="it is a file, not a model folder.",
            remedy="Give the folder that holds tokenizer.json, or a Hugging Face id.",
        )
    if not _is_hub_id(model):
        raise InvalidRequest(
            f"{name}: there is no folder of that name, and it is not a Hugging Face id either"
            " (an id is 'name' or 'owner/name'). Check the path, or give the model's id.",
            param="model",
        )
    if offline is None:
        offline = _is_set("HF_HUB_OFFLINE") or _is_set("TRANSFORMERS_OFFLINE")
    download = _from_modelscope if _is_set("FOREWORD_USE_MODELSCOPE") else _from_hugging_face
    patterns = [*DOWNLOAD_PATTERNS, *(CODE_PATTERNS if with_code else ())]
    return download(model, revision, offline, patterns)


def display_name(model: str) -> str:
    """Return the name by which messages may call a model: a hub id, or a path's last part."""
    name = model if _HUB_ID.fullmatch(model) else Path(model).name or "model"
    return name if len(name) <= _MAX_ID_CHARS else f"{name[:_MAX_ID_CHARS]}…"


def _is_hub_id(model: str) -> bool:
    is_spelled_so = _HUB_ID.fullmatch(model) and ".." not in model and "--" not in model
    return bool(is_spelled_so) and len(model) <= _MAX_ID_CHARS


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in _TRUE


def _from_hugging_face(
    model: str, revision: str | None, offline: bool, patterns: list[str]
) -> Path:
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(
            model,
            revision=revision,
            local_files_only=offline,
            allow_patterns=patterns,
        )
    except (OSError, ValueError) as error:
        raise _hub_failure(error, model, revision, offline) from error
    return Path(folder)


def _hub_failure(
    error: Exception, model: str, revision: str | None, offline: bool
) -> AssetsInvalid:
    from huggingface_hub import errors

    at = f" at revision {revision!r}" if revision else ""
    if isinstance(error, errors.GatedRepoError):
        problem = "the model is gated on Hugging Face, and this account has no access to it."
        remedy = "Accept its terms on its page, then log in with `hf auth login` or set HF_TOKEN."
    elif isinstance(error, errors.RepositoryNotFoundError):
        problem = "there is no folder of that name, and no such model on Hugging Face."
        remedy = "Check the spelling; for a private model set HF_TOKEN."
    elif isinstance(error, errors.RevisionNotFoundError):
        problem = f"the model has no revision {revision!r}."
        remedy = "Give a branch, tag or commit of its repository."
    elif isinstance(error, errors.HFValidationError):
        problem = "there is no folder of that name, and it is not a valid Hugging Face id."
        remedy = "An id is 'name' or 'owner/name'."
    elif offline or isinstance(error, errors.OfflineModeIsEnabled):
        problem = f"there is no folder of that name, and the hub's cache does not hold it{at}"
        problem += " (offline mode)."
        remedy = "Download it once with HF_HUB_OFFLINE unset, or give a folder."
    elif isinstance(error, OSError) and error.errno in _DISK_FAULTS:
        problem = f"its files could not be stored ({error.strerror})."
        remedy = "Make room, or point HF_HOME to a folder this process may write to."
    else:
        problem = "there is no folder of that name, it is not in the cache"
        problem += f"{at}, and Hugging Face could not be reached"
        problem += f" ({type(error).__name__})."
        remedy = "Check the connection (HF_ENDPOINT, proxies), or give a folder."
    return AssetsInvalid(file=model, problem=problem, remedy=remedy)


def _from_modelscope(model: str, revision: str | None, offline: bool, patterns: list[str]) -> Path:
    try:
        from filelock import FileLock, Timeout
        from modelscope import snapshot_download
    except ImportError as error:
        raise AssetsInvalid(
            file=model,
            problem="FOREWORD_USE_MODELSCOPE is set, but ModelScope's library is not installed.",
            remedy="Install it with `pip install foreword[modelscope]`, or unset the variable.",
        ) from error

    # ModelScope's cache is not safe for two processes that fill the same folder.
    digest = hashlib.sha256(f"{model}@{revision}".encode()).hexdigest()[:16]
    lock = FileLock(Path(tempfile.gettempdir()) / f"foreword-modelscope-{digest}.lock")
    fetch: Callable[..., str] = snapshot_download
    try:
        with lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            folder = fetch(
                model,
                revision=revision,
                local_files_only=offline,
                allow_patterns=patterns,
            )
    except Timeout as error:
        raise AssetsInvalid(
            file=model,
            problem=f"another process has held its download for {_LOCK_TIMEOUT_SECONDS} seconds.",
            remedy="Wait for it, or end it.",
        ) from error
    except Exception as error:
        # ModelScope raises many unrelated types, requests' and its own.
        raise AssetsInvalid(
            file=model,
            problem=f"ModelScope could not provide it ({type(error).__name__}).",
            remedy="Check the id and the connection, or give a folder.",
        ) from error
    return Path(folder)
