"""A call into foreign code enters; its answer leaves, and what no `except Exception` sees, as one.

Rules of this file: a Rust library's panic is a BaseException, as is what code that ends its process
raises; neither may end ours. An interruption by the user passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foreword.errors import AssetsInvalid


class Panicked(RuntimeError):
    """A Rust library's panic."""


def is_panic(error: BaseException) -> bool:
    """Tell a panic; its class belongs to no module that could be imported."""
    return type(error).__name__ == "PanicException"


def without_panic(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call into a Rust library.

    Raises: what it raises; `Panicked` instead of its panic.
    """
    try:
        return call(*args, **kwargs)
    except BaseException as error:
        if is_panic(error):
            raise Panicked(f"the library panicked: {error}") from error
        raise


def ask_library(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call into `tokenizers` with what a request brought.

    Raises: what it raises; `AssetsInvalid` instead of a panic, whose words may quote the text.
    """
    try:
        return without_panic(call, *args, **kwargs)
    except Panicked:
        raise AssetsInvalid(
            file="tokenizer.json",
            problem="the tokenizers library failed on this input (a panic of its own"
            " code), as it can where added tokens take each other's spaces (lstrip, rstrip).",
            remedy="Correct added_tokens, or report it to the library.",
        ) from None


def run_foreign(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call code that a model brings.

    Raises: what it raises; `Panicked` or `RuntimeError` where it panics or would end the process.
    """
    try:
        return without_panic(call, *args, **kwargs)
    except SystemExit as error:
        raise RuntimeError("it would end the process") from error
