"""What the settings say of an engine's adapters enters; their paths by name leave.

Rules of this file: an adapter is a further name of the one model, and part of its block hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.errors import InvalidRequest

if TYPE_CHECKING:
    from foreword.service.settings import Settings


def lora_paths(settings: Settings) -> dict[str, str]:
    """Return the engine's adapters: their paths by name."""
    parts = (given.partition("=") for given in settings.hash_lora_adapters)
    return {name: path for name, _, path in parts}


def check_adapters(settings: Settings) -> None:
    """Refuse adapters that no request could be served with.

    Raises: `InvalidRequest`.
    """
    if not settings.hash_lora_adapters:
        return
    for is_wrong, why in (
        (settings.hash_block_size is None, "it needs hash_block_size"),
        (len(settings.models) > 1, "adapters belong to one model; name one only"),
        (settings.has_engine, "an engine behind this service is asked for no adapter"),
        (not all(map(_is_adapter, settings.hash_lora_adapters)), "each must be NAME=PATH"),
    ):
        if is_wrong:
            raise InvalidRequest(
                f"The setting hash_lora_adapters can't be: {why}.", param="hash_lora_adapters"
            )


def _is_adapter(given: str) -> bool:
    name, _, path = given.partition("=")
    return bool(name and path)
