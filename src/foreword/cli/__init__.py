"""The command `foreword`: arguments in, one line of the package called, its answer printed."""

from foreword.cli.main import main

__all__ = ["main"]
