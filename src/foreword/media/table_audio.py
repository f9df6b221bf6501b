"""The rows of families that only listen.

Rules of this file: as `table`.
"""

from __future__ import annotations

from foreword.media import lengths
from foreword.media.files import Constant
from foreword.media.rows import AudioRow, Family
from foreword.media.values import seconds_at_16khz

WHISPER_POOLED = (
    Constant("hop", ("audio:hop_length",), 160),
    # A Whisper feature extractor cuts what is longer than its chunk.
    Constant("max_samples", ("audio:chunk_length",), 480_000, read=seconds_at_16khz),
    Constant("sampling_rate", ("audio:sampling_rate",), 16_000, only=(16_000,)),
)

_FEATURE_KEYS = frozenset({"n_samples", "nb_max_frames", "chunk_length", "sampling_rate"})

_QWEN2_AUDIO = Family(
    name="qwen2_audio",
    model_types=frozenset({"qwen2_audio"}),
    architectures=frozenset({"Qwen2AudioForConditionalGeneration"}),
    classes=frozenset({"Qwen2AudioProcessor", "WhisperFeatureExtractor"}),
    audio=AudioRow(
        placeholder="Audio {number}: <|audio_bos|><|AUDIO|><|audio_eos|>",
        target="<|AUDIO|>",
        length=lengths.whisper_pooled,
        embeds="<|AUDIO|>",
        constants=WHISPER_POOLED,
    ),
    ignored=_FEATURE_KEYS,
)

_VOXTRAL = Family(
    name="voxtral",
    model_types=frozenset({"voxtral"}),
    architectures=frozenset({"VoxtralForConditionalGeneration"}),
    classes=frozenset({"VoxtralProcessor", "WhisperFeatureExtractor"}),
    audio=AudioRow(
        placeholder="[AUDIO]",
        target="[AUDIO]",
        length=lengths.padded_chunks,
        embeds="[AUDIO]",
        constants=(
            Constant("rate", ("tekken:audio.sampling_rate",), only=(16_000,)),
            Constant("frame_rate", ("tekken:audio.frame_rate",), may_be_fraction=True),
            Constant("chunk_seconds", ("tekken:audio.chunk_length_s",), may_be_fraction=True),
        ),
        files=(),
    ),
    uses_tekken=True,
)

_WHISPER = Family(
    name="whisper",
    model_types=frozenset({"whisper"}),
    architectures=frozenset({"WhisperForConditionalGeneration"}),
    classes=frozenset({"WhisperProcessor", "WhisperFeatureExtractor"}),
    # The clip is the encoder's prompt; nothing of it stands in the decoder's.
    audio=AudioRow(
        placeholder="",
        target="",
        length=lengths.constant,
        embeds=0,
        constants=(Constant("tokens", ("config:max_source_positions",), 1500),),
    ),
    ignored=_FEATURE_KEYS | {"hop_length"},
)

AUDIO_FAMILIES: tuple[Family, ...] = (_QWEN2_AUDIO, _VOXTRAL, _WHISPER)
