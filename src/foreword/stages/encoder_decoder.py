"""A model's configuration, or its two prompts, enter; how its decoder begins leaves.

Rules of this file: a model has an encoder when its configuration, or the class behind it, says so.
The start token is put in front of the decoder's prompt after every cut, unless it is there.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from foreword.errors import AssetsInvalid, InvalidRequest, PromptTooLong, UnsupportedFeature
from foreword.media.items import MediaItem
from foreword.types import EngineInput, MediaSpan, TokenIds, TokenizerInfo

# What a config.json leaves out because it equals its class's default.
# Source: the configuration classes of transformers 5.20, each made without arguments.
_START_BY_MODEL_TYPE: Final[Mapping[str, int | None]] = {
    "bart": 2,
    "bigbird_pegasus": 2,
    "blenderbot": 1,
    "blenderbot-small": 1,
    "fsmt": 2,
    "led": 2,
    "longt5": None,
    "m2m_100": 2,
    "marian": 58100,
    "mbart": None,
    "mt5": 0,
    "mvp": 2,
    "nllb-moe": 2,
    "pegasus": 0,
    "pegasus_x": 0,
    "plbart": None,
    "prophetnet": 0,
    "switch_transformers": None,
    "t5": None,
    "t5gemma": None,
    "umt5": 0,
    "whisper": 50257,
}
_WHISPER_POSITIONS = 1500
_AUDIO_ID = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderStart:
    """How the decoder of a model begins, and what its encoder hears.

    `num_audio_tokens` is None where the encoder reads text; else its prompt is one audio clip.
    `adds_special_tokens` is what a request that leaves it open gets.
    """

    token_id: int
    adds_special_tokens: bool = True
    num_audio_tokens: int | None = None


def has_encoder(config: Mapping[str, Any]) -> bool:
    """Tell whether a model has an encoder and a decoder.

    Source: vLLM 0.33, which asks the configuration and its text part for `is_encoder_decoder`.
    """
    text = config.get("text_config")
    parts = [config, text] if isinstance(text, Mapping) else [config]
    for part in parts:
        model_type = part.get("model_type")
        default = isinstance(model_type, str) and model_type in _START_BY_MODEL_TYPE
        if part.get("is_encoder_decoder", default) is True:
            return True
    return False


def check_for_encoder(config: Mapping[str, Any], *, is_wanted: bool) -> None:
    """Refuse a request made for the other kind of model.

    Raises: `UnsupportedFeature`.
    """
    if has_encoder(config) and not is_wanted:
        raise UnsupportedFeature(
            feature="one prompt for a model with an encoder and a decoder",
            remedy="No HTTP route renders its two prompts: use Renderer.render_encoder_decoder or"
            " `foreword render` (encoder_prompt, decoder_prompt); where its encoder alone is used,"
            " load it with runner 'pooling' and send input.",
        )
    if is_wanted and not has_encoder(config):
        raise UnsupportedFeature(
            feature="encoder_prompt",
            remedy="This model has no encoder (is_encoder_decoder in config.json): send prompt.",
            param="encoder_prompt",
        )


def find_decoder_start(config: Mapping[str, Any], info: TokenizerInfo) -> DecoderStart:
    """Return how the model's decoder begins: config.json's token, else its BOS.

    Raises: `AssetsInvalid` when there is neither, or the id is none of the vocabulary.
    Source: vLLM 0.33; for Whisper no special tokens are added, since a prompt brings its own.
    """
    model_type = config.get("model_type")
    default = _START_BY_MODEL_TYPE.get(str(model_type))
    found = config.get("decoder_start_token_id", default)
    token_id = info.bos_token_id if found is None else found
    if token_id is None:
        raise AssetsInvalid(
            file="config.json",
            problem="it has no decoder_start_token_id, and the tokenizer no BOS token.",
            remedy="Add decoder_start_token_id, the token its decoder begins with.",
        )
    if type(token_id) is not int or not 0 <= token_id <= info.max_token_id:
        raise AssetsInvalid(
            file="config.json",
            problem=f"decoder_start_token_id is {token_id!r}, no id of the vocabulary"
            f" (0 to {info.max_token_id}).",
        )
    if model_type != "whisper":
        return DecoderStart(token_id=token_id)
    positions = config.get("max_source_positions", _WHISPER_POSITIONS)
    if type(positions) is not int or not 1 <= positions <= 10**6:
        raise AssetsInvalid(
            file="config.json", problem=f"max_source_positions is {positions!r}, not a count."
        )
    return DecoderStart(token_id=token_id, adds_special_tokens=False, num_audio_tokens=positions)


def hear(clip: MediaItem, num_tokens: int) -> EngineInput:
    """Return the encoder's input of a model that hears: one clip, as many tokens as it can hold.

    Source: vLLM 0.33, whose Whisper pads every clip to the encoder's positions.
    """
    span = MediaSpan(modality="audio", index=0, start=0, stop=num_tokens, identity=clip.identity)
    ids = array("I", [_AUDIO_ID]) * num_tokens
    return EngineInput(token_ids=ids, media_features=(span,), num_prompt_tokens=num_tokens)


def begin_decoder(
    decoder: EngineInput | None, start: DecoderStart, *, max_model_len: int
) -> EngineInput:
    """Return the decoder's input with its start token in front; just that token when none is given.

    Raises: `PromptTooLong` when no token could follow.
    Source: vLLM 0.33 and transformers 5.20. Without a decoder's prompt vLLM copies the encoder's,
    which no model of this kind was trained on.
    """
    decoder = decoder or EngineInput(token_ids=array("I"))
    token_ids: TokenIds = decoder.token_ids
    if not token_ids or token_ids[0] != start.token_id:
        token_ids = array("I", [start.token_id]) + token_ids
    if len(token_ids) >= max_model_len:
        raise PromptTooLong(
            num_tokens=len(token_ids),
            max_tokens=max_model_len - 1,
            is_lower_bound=decoder.num_prompt_tokens_is_lower_bound,
            max_model_len=max_model_len,
        )
    return replace(decoder, token_ids=token_ids)


def check_audio_prompt(encoder_prompt: object, media: Sequence[MediaItem]) -> None:
    """Refuse what a model that hears cannot take: words for its encoder, or not exactly one clip.

    Raises: `InvalidRequest`.
    """
    if encoder_prompt:
        raise InvalidRequest(
            "This model's encoder hears audio and reads no text. Send an empty encoder_prompt, and"
            " the words in decoder_prompt.",
            param="encoder_prompt",
        )
    if [item.modality for item in media] != ["audio"]:
        given = ", ".join(item.modality for item in media) or "nothing"
        raise InvalidRequest(
            f"This model's encoder hears one audio clip; it was given {given}.",
            param="media",
            details={"num_items": len(media)},
        )
