"""Arguments enter; one command runs; an exit code leaves.

Rules of this file: the one place that turns errors into exit codes. A command's module is
imported only when it is called.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

from foreword.cli.arguments import make_parser
from foreword.cli.output import Console, exit_code, make_console, quiet_pipe
from foreword.errors import (
    ForewordError,
    InvalidRequest,
    UnsupportedFeature,
)

INTERRUPTED, BROKEN_PIPE = 130, 141
_MODULES = {"detokenize": "tokenize", "count-image": "media"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `foreword` and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    console = make_console(is_json="--json" in arguments)
    try:
        with quiet_pipe():
            if arguments[:1] == ["serve"]:
                return _serve(arguments[1:])
            if not arguments:
                make_parser().print_help()
                return 2
            options = make_parser().parse_args(arguments)
            console = make_console(
                colour=options.color, is_json=options.json, is_quiet=options.quiet
            )
            return _run(options, console)
    except ForewordError as error:
        console.report(error)
        return exit_code(error)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        reason = error.strerror or type(error).__name__
        console.report(InvalidRequest(f"{error.filename or 'The answer'}: {reason}."))
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:  # argparse ends so after --help and --version
        return ended.code if isinstance(ended.code, int) else 0


def _run(options: Namespace, console: Console) -> int:
    name = _MODULES.get(options.command, options.command)
    module = importlib.import_module(f"foreword.cli.{name}")
    run: Callable[[Namespace, Console], int] = getattr(
        module, f"run_{options.command.replace('-', '_')}"
    )
    return run(options, console)


def _serve(arguments: list[str]) -> int:
    # By name, since the command and the service must not know each other otherwise.
    try:
        serve = importlib.import_module("foreword.service.serve")
    except ModuleNotFoundError as error:
        raise UnsupportedFeature(
            feature="foreword serve",
            remedy=f"The module {error.name} is missing. Install the service with:"
            " pip install 'foreword[serve]'",
        ) from None
    code: int | None = serve.main(arguments)
    return code or 0
