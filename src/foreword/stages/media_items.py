"""A model's family, and what a conversation points to, enter; its items and their tokens leave.

Rules of this file: between collecting media and expanding them; nothing is fetched here. A model
without a family refuses media, never text.
"""

from __future__ import annotations

from collections.abc import Sequence

from foreword.chat.marks import keep_spelled_as_text
from foreword.chat.media_parts import MediaForm, MediaForms
from foreword.errors import InvalidRequest, UnsupportedFeature
from foreword.media.items import MediaItem, resolve_inline
from foreword.media.model import MediaModel, MediaTokens
from foreword.options import MediaOptions
from foreword.types import Conversation, RenderedText, Tokenizer


def media_forms(model: MediaModel, options: MediaOptions) -> MediaForms:
    """Return how the model's prompts write media, or forms that explain why it takes none."""
    if model.family is None:
        return MediaForms(forms={}, explain=model.require)
    forms = {
        modality: MediaForm(placeholder=bound.row.placeholder, target=bound.row.target)
        for modality, bound in model.rows().items()
    }
    return MediaForms(forms=forms, max_items=options.max_items)


def media_tokens(model: MediaModel, tokenizer: Tokenizer) -> MediaTokens:
    """Return the tokens of the model's family.

    Raises: why there is no family.
    """
    return MediaTokens(
        family=model.require(),
        token_to_id=tokenizer.token_to_id,
        id_to_token=tokenizer.id_to_token,
        encode_text=lambda text: tokenizer.encode(text, add_special_tokens=False).token_ids,
    )


def keep_typed(
    rendered: RenderedText, model: MediaModel, tokenizer: Tokenizer, options: MediaOptions
) -> RenderedText:
    """Return `rendered` with the placeholders that a user typed beside media as ordinary text.

    Raises: `InvalidRequest` for one that the options refuse.
    """
    if not rendered.slots:
        return rendered
    reserved = media_tokens(model, tokenizer).reserved()
    may_spell = options.placeholder_text == "text"
    return keep_spelled_as_text(rendered, reserved, may_spell=may_spell)


def refuse_media_fields(request: object) -> None:
    """Refuse fields of a request that change how its media are counted, or ask for their pixels.

    Raises: `UnsupportedFeature` for the first that is set.

    Source: vLLM 0.33 refuses the first two too, unless started with --trust-request-mm-kwargs.
    """
    for name in ("mm_processor_kwargs", "media_io_kwargs"):
        if getattr(request, name, None):
            raise UnsupportedFeature(
                feature=f"{name} beside media",
                remedy="Drop the field: it changes how many tokens the media take.",
                param=name,
            )
    for name, wants_pixels in (("mm_payload", "tensors"), ("return_mm_kwargs", True)):
        if getattr(request, name, None) == wants_pixels:
            raise UnsupportedFeature(
                feature=f"{name} = {str(wants_pixels).lower()} beside media",
                remedy="Drop the field: no pixels are decoded here, so no tensors are made.",
                param=name,
            )


def find_items(
    conversation: Conversation,
    media: Sequence[MediaItem] | None,
    options: MediaOptions,
    *,
    scope: str = "",
) -> tuple[MediaItem, ...]:
    """Check the items given for a conversation's media; without any, read those in data: URLs.

    `scope` keeps the uuids of different clients apart.

    Raises: `InvalidRequest` for other items than the conversation's, `MediaUnavailable` for
    broken ones, `UnsupportedFeature` for those that must be fetched first.
    """
    if media is None:
        return resolve_inline(
            conversation.media,
            naming=options.naming,
            namespace=scope,
            limits=options.limits,
        )
    if not all(isinstance(item, MediaItem) for item in media):
        raise InvalidRequest("media must be a list of MediaItem, one for each.", param="media")
    wanted = [reference.modality for reference in conversation.media]
    given = [item.modality for item in media]
    if wanted != given:
        raise InvalidRequest(
            f"The chat shows {len(wanted)} media items and {len(given)} were given, or their"
            " kinds differ. Give one for each, in reading order.",
            param="media",
            details={"num_wanted": len(wanted), "num_given": len(given)},
        )
    return tuple(media)
