"""A file: URL enters; its bytes leave.

Rules of this file: sizes are judged before bytes are made. A file is opened component by component
below the allowed folder, links not followed, so what was checked is what is read. No message tells
a path, or what exists outside the folder.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from urllib.parse import unquote

from foreword.errors import InvalidRequest, MediaUnavailable, UnsupportedFeature
from foreword.media.data_url import check_size


def read_file_url(
    url: str, *, folder: Path | None, max_bytes: int, param: str | None = None
) -> bytes:
    """Return the bytes of a regular file below the allowed folder.

    Raises: `UnsupportedFeature` without such a folder; `InvalidRequest` for a path outside of it,
    or through a link that leads out; `MediaUnavailable` for a file that can't be read.
    """
    if folder is None:
        raise UnsupportedFeature(
            feature="A file: URL",
            remedy="Send the item as a data: URL, or ask the operator to set media_folder.",
            param=param,
        )
    host, slash, path = url[len("file:") :].removeprefix("//").partition("/")
    if not url[len("file:") :].startswith("/") or host not in ("", "localhost") or not slash:
        raise _outside(param)
    names = _names_below(folder, "/" + unquote(path), param)
    try:
        descriptor = _open_below(folder.resolve(), names)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _outside(param) from None
        raise _unreadable(param) from None
    return _read_regular(descriptor, max_bytes, param)


def _names_below(folder: Path, path: str, param: str | None) -> tuple[str, ...]:
    """Return the real path's names below the real folder; outside of it nothing is looked at."""
    try:
        inside = Path(os.path.normpath(path)).relative_to(os.path.normpath(folder))
        root = folder.resolve()
        return (root / inside).resolve(strict=True).relative_to(root).parts
    except FileNotFoundError:
        raise _unreadable(param) from None
    except (ValueError, OSError, RuntimeError):  # outside, a zero byte, a loop of links
        raise _outside(param) from None


def _open_below(root: Path, names: tuple[str, ...]) -> int:
    folders = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(root, folders)
    try:
        for name in names[:-1]:
            below = os.open(name, folders | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        # Without O_NONBLOCK a pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(names[-1] if names else ".", flags, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _read_regular(descriptor: int, max_bytes: int, param: str | None) -> bytes:
    try:
        # A folder can't be made a file object; closing is then left to us.
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unreadable(param)
        check_size(found.st_size, max_bytes, param)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)  # it may have grown since
    except OSError:
        raise _unreadable(param) from None
    finally:
        os.close(descriptor)
    check_size(len(data), max_bytes, param)
    return data


def _outside(param: str | None) -> InvalidRequest:
    return InvalidRequest(
        "The file: URL is refused: it does not lead below the folder that media may be read from."
        " Send the item as a data: URL instead.",
        param=param,
    )


def _unreadable(param: str | None) -> MediaUnavailable:
    return MediaUnavailable(
        "The file: URL leads to no readable file. Check its path, or send a data: URL.",
        param=param,
    )
