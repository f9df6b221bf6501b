"""Audio lengths: a number of samples at the model's own rate in, a number of tokens out.

Rules of this file: plain integers; every formula is the convolution arithmetic of its encoder.
A clip too short for one token gives 0, which the caller refuses.
"""

from __future__ import annotations

from foreword.media.shapes import Constants


def num_frames(num_samples: int, hop: int) -> int:
    """Return the spectrogram frames of a clip, a started one included."""
    return -(-num_samples // hop)


def whisper_pooled(num_samples: int, constants: Constants) -> int:
    """A Whisper encoder and a pooling of two, over at most `max_samples`. Qwen2-Audio, Omni."""
    limit = constants.get("max_samples")
    frames = num_frames(num_samples if limit is None else min(num_samples, limit), constants["hop"])
    return max(0, ((frames - 1) // 2 + 1 - 2) // 2 + 1)


def chunked_convolutions(num_samples: int, constants: Constants) -> int:
    """Three halvings of each hundred frames (13 tokens). Qwen3-Omni.

    The rest of less than a hundred frames is halved as -1 // 2 would: no frames give no token.
    """
    frames = num_frames(num_samples, constants["hop"])
    rest = frames % 100
    halved = (rest - 1) // 2 + 1
    return ((halved - 1) // 2 + 1 - 1) // 2 + 1 + frames // 100 * 13


def padded_chunks(num_samples: int, constants: Constants) -> int:
    """Whole chunks of seconds at a fixed rate of tokens. Voxtral.

    Source: mistral-common 1.13 pads to `chunk_seconds`; vLLM 0.33 counts whole samples a token.
    """
    rate = int(constants["rate"])
    chunk, per_token = int(constants["chunk_seconds"] * rate), int(rate // constants["frame_rate"])
    padded = -(-num_samples // chunk) * chunk
    return -(-padded // per_token)


def semicausal_convolutions(num_samples: int, constants: Constants) -> int:
    """Frames of `frame`, two halvings, at most `max_tokens`. Gemma 4."""
    frame, hop = int(constants["frame"]), int(constants["hop"])
    frames = (num_samples + frame // 2 - (frame + 1)) // hop + 1
    if frames <= 0:
        return 0
    for _ in range(2):
        frames = (frames + 2 - 3) // 2 + 1
    return min(frames, int(constants["max_tokens"]))


def constant(num_samples: int, constants: Constants) -> int:
    """The same number of tokens for every clip. Gemma 3n, Whisper's encoder."""
    return int(constants["tokens"])
