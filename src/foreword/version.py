"""The version of this package, as its wheel states it."""

__version__ = "0.1.0"
