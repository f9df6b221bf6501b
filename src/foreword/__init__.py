"""foreword: everything before the first token, exactly as the engine must see it."""

__version__ = "0.1.0"
