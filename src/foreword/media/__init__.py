"""Media without pixels: config files, sizes and durations in; runs of tokens and identities out.

    families.find_family(files) ─▶ FamilyConfig ─▶ count_image(config, width, height) ─▶ runs
    headers.read_image_size(bytes) · audio.read_audio_duration(bytes) · hashing.vllm_image_hash(…)

Rules of this package: nothing decodes, fetches or waits. A model family is a row of data, an item
is a size, an expansion is run lengths. What isn't known exactly is refused by name.
"""

from foreword.media.count import count_audio, count_image, count_video
from foreword.media.families import FamilyConfig, find_family
from foreword.media.files import MediaFiles
from foreword.media.runs import IdRun, Run, count_embeds, count_tokens, to_id_runs

__all__ = [
    "FamilyConfig",
    "IdRun",
    "MediaFiles",
    "Run",
    "count_audio",
    "count_embeds",
    "count_image",
    "count_tokens",
    "count_video",
    "find_family",
    "to_id_runs",
]
