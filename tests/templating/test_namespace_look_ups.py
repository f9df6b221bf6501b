"""The short way to a namespace's values gives what the sandbox's own long way gives."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from foreword.templating.environment import ENVIRONMENT

VALUES: dict[str, Any] = {
    "text": "abc", "number": 3, "yes": True, "nothing": None, "items": [1], "mapping": {"a": 1},
    "format": "a {}".format, "append": [].append, "upper": "abc".upper, "kind": str, "_own": "x",
    "__class__": "y", "_Namespace__attrs": "z",
}  # fmt: skip
NAMES = (*VALUES, "missing", "__init__", "__getattribute__", "_Namespace__attrs", "__dict__")


@pytest.mark.parametrize("name", NAMES)
def test_the_short_way_and_the_long_way_agree(name: str) -> None:
    namespace = Namespace(VALUES)
    short = ENVIRONMENT.getattr(namespace, name)
    long = ImmutableSandboxedEnvironment.getattr(ENVIRONMENT, namespace, name)
    assert type(short) is type(long)
    if isinstance(short, Undefined):
        assert short._undefined_message == long._undefined_message
    elif callable(short) and name == "format":
        assert short is not VALUES["format"], "formatting is bounded"
    else:
        assert short == long
