"""The data model: the values that pass along the line, and the Protocols that vary it.

    bytes ─▶ Conversation ─▶ RenderedText ─▶ TokenSequence ─▶ EngineInput ─▶ (an engine's request)

Rules of this file: values are frozen, keyword-only and picklable, and are checked once, by their
maker. Positions are half-open. Characters are Python characters of `RenderedText.text`; token ids
travel as `array('I')`, never as lists of ints. Mappings inside values are never modified.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

TokenIds: TypeAlias = "array[int]"
"""Token ids as `array('I')` (unsigned 32-bit)."""

Side = Literal["left", "right"]
"""The side a cut removes from: `left` keeps the end of the prompt, `right` keeps its beginning."""

RunnerType = Literal["generate", "draft", "pooling"]
ContentFormat = Literal["string", "openai"]
Message: TypeAlias = Mapping[str, Any]
Span: TypeAlias = tuple[int, int]

MAX_TOKEN_ID = 2**32 - 1
"""The largest id `TokenIds` can hold."""


def make_token_ids(ids: Sequence[int] = ()) -> TokenIds:
    """Return `ids` as a new `TokenIds` array.

    Raises: OverflowError when an id is negative or above `MAX_TOKEN_ID`.
    """
    return array("I", ids)


# ---------------------------------------------------------------------------------------------
# Station 1: what was said.


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaReference:
    """One image, audio or video that a message points to, before anything was fetched."""

    modality: str
    index: int
    """Place among all media of the conversation, in reading order."""
    path: str
    """JSON path of the part in the request, such as `messages[1].content[0]`."""
    url: str | None = None
    uuid: str | None = None
    target: str = ""
    """The characters that stand for it in the prompt, which its tokens replace."""
    message: int | None = None
    """Which message's text holds the target; None: the template prints it for a part."""
    span: Span | None = None
    """Where in that message's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages exactly as the chat template sees them.

    Keys the client did not send are absent; the client's key order is kept. `media` is numbered
    in reading order.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Everything else the template may read: `enable_thinking`, `documents` …"""
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    media: tuple[MediaReference, ...] = ()


# ---------------------------------------------------------------------------------------------
# Station 2: what it looks like as one text.


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSlot:
    """Where a media item's placeholder stands in the text: `text[start:stop]` is it."""

    index: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedText:
    """The prompt as text. `slots` are sorted and disjoint, and so are `literal_spans`."""

    text: str
    slots: tuple[MediaSlot, ...] = ()
    assistant_spans: tuple[Span, ...] = ()
    """Characters the template put between `{% generation %}` tags; sorted and disjoint."""
    literal_spans: tuple[Span, ...] = ()
    """Characters that are ordinary text: each span is encoded by itself, and nothing in it can
    become an added token. Two spans that touch are two pieces."""


# ---------------------------------------------------------------------------------------------
# Station 3: what it is as tokens.


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The character span of every token, as two arrays: `[starts[i], stops[i])`.

    Special tokens that the tokenizer itself adds have the span (0, 0).
    """

    starts: TokenIds
    stops: TokenIds

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Span]:
        return iter(zip(self.starts, self.stops, strict=True))

    def cut(self, start: int, stop: int) -> Offsets:
        """Return the offsets of tokens `start` (included) to `stop` (excluded)."""
        return Offsets(starts=self.starts[start:stop], stops=self.stops[start:stop])


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSpan:
    """Where a media item's tokens stand in the prompt, and who it is.

    `is_embed` is a run-length mask `(length, embeds?)` over the span; None means every token is
    an embedding. `identity` is the hash (or the client's uuid) that names the item's content.
    """

    modality: str
    index: int
    start: int
    stop: int
    identity: str
    is_embed: tuple[tuple[int, bool], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSequence:
    """The prompt as tokens, before the budget has decided.

    Invariants: `len(offsets) == len(token_ids)` when offsets are present; `spans` are sorted and
    disjoint; the first `num_prefix_special` and last `num_suffix_special` ids were added by the
    tokenizer's post-processor, and count like any other token.

    A tokenizer that was told that only one end can matter (`Window`) may stop early; then
    `is_complete` is False, `len(token_ids)` is a lower bound of the prompt's tokens, and the ids
    between the special ones are the true first (or last) ids of the complete content.
    """

    token_ids: TokenIds
    offsets: Offsets | None = None
    spans: tuple[MediaSpan, ...] = ()
    num_prefix_special: int = 0
    num_suffix_special: int = 0
    own_side: Side | None = None
    """The side an unsaid truncation removes here, where it is not the tokenizer's default."""
    is_complete: bool = True
    num_chars: int = 0
    """Characters of the text these tokens were made from (0 for a prompt given as ids)."""
    num_dropped_chars: int = 0
    """Characters a pre-cut removed from the text before it was tokenized."""


# ---------------------------------------------------------------------------------------------
# Station 4: what the engine must see.


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInput:
    """A prompt that fits its budget, with what was decided on the way.

    Invariants: fits the budget; no media span is cut; everything parallel to `token_ids` has its
    length.
    """

    token_ids: TokenIds
    offsets: Offsets | None = None
    media_features: tuple[MediaSpan, ...] = ()
    assistant_mask: bytes | None = None
    """One byte a token, 1 where the template marked the text as the assistant's own."""
    num_chars: int = 0
    num_prompt_tokens: int = 0
    """Tokens before truncation and padding."""
    num_prompt_tokens_is_lower_bound: bool = False
    num_truncated: int = 0
    """Tokens truncation removed (a lower bound when `num_prompt_tokens_is_lower_bound`)."""
    truncated_side: Side | None = None
    num_padded: int = 0
    prompt: str | None = None
    """The text, when it was asked for or had to be decoded."""
    cache_salt: str | None = None
    arrival_time: float = 0.0
    """Wall-clock seconds since the epoch at which rendering began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderInput:
    """The two prompts of a model with an encoder and a decoder, each within its budget.

    The decoder's begins with the model's start token; what was cut is told of each by itself.
    """

    encoder: EngineInput
    decoder: EngineInput


class RenderedChat(NamedTuple):
    """What `Renderer.render_chat` gives: output parsers need the conversation too."""

    conversation: Conversation
    engine_input: EngineInput


# ---------------------------------------------------------------------------------------------
# What a model brings.


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAssets:
    """A model folder's files, read once. No weights, no open files, nothing computed from them.

    `chat_templates` maps a template's name (`default`, `tool_use`, `rag` …) to its source.
    `folder` is where the files lie on this machine; it never appears in an answer or message.
    """

    name: str
    """The name the caller asked for (a folder or a hub id)."""
    revision: str | None = None
    folder: str = ""
    file_names: frozenset[str] = frozenset()
    """Names of all files of the folder, read or not: `tekken.json` decides the mode."""
    tokenizer_json: bytes | None = None
    tokenizer_config: Mapping[str, Any] = field(default_factory=dict)
    special_tokens_map: Mapping[str, Any] = field(default_factory=dict)
    chat_templates: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    generation_config: Mapping[str, Any] = field(default_factory=dict)
    media_files: Mapping[str, Any] = field(default_factory=dict)
    """By name, the JSON files that say how media are shown: `preprocessor_config.json` …"""
    do_lower_case: bool = False
    """Set by a sentence-transformers configuration."""
    max_seq_length: int | None = None
    """Set by a sentence-transformers configuration; replaces the context length."""
    fingerprint: str = ""
    """sha256 over what decides the ids; two front ends that agree here answer alike."""
    warnings: tuple[str, ...] = ()


# ---------------------------------------------------------------------------------------------
# What varies: three Protocols, passed as arguments.


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What part of the tokens can matter: the first (`head`) or last (`tail`) `num_tokens`.

    Counts the text's own tokens; special tokens the tokenizer adds are always given beside them.
    """

    num_tokens: int
    keep: Literal["head", "tail"] = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerInfo:
    """Everything about a tokenizer that is computed once, at load.

    `max_token_id` is the larger of the vocabulary's largest id (added tokens included) and the
    model's `vocab_size - 1`. `max_chars_per_token` is the longest vocabulary string;
    `char_gate_gap` says why that does not bound a token's characters (None: it does, proved).
    """

    mode: str
    vocab_size: int
    max_token_id: int
    max_chars_per_token: int
    char_gate_gap: str | None
    truncation_side: Side
    special_tokens: Mapping[str, str]
    """By role (`bos_token`, `eos_token`, `image_token` …): what templates may print."""
    all_special_ids: frozenset[int]
    all_special_tokens: tuple[str, ...]
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None
    num_prefix_special: int = 0
    num_suffix_special: int = 0
    has_proved_cuts: bool = False
    do_lower_case: bool = False
    is_fast: bool = True


class Tokenizer(Protocol):
    """Text to ids and back. Safe to share between threads; never changed after load."""

    @property
    def info(self) -> TokenizerInfo: ...

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool,
        with_offsets: bool = False,
        window: Window | None = None,
        scope: str = "",
        literal_spans: Sequence[Span] = (),
    ) -> TokenSequence:
        """Return the tokens of `text`: exactly a full encode by the reference.

        With a `window` the answer may leave out what the window excludes (`is_complete` False).
        `scope` keeps memoised work of different tenants apart. The text is cut at the ends of
        every literal span; the spans' own characters are encoded as if there were no added tokens.
        """
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...

    def id_to_token(self, token_id: int) -> str | None: ...

    def token_to_id(self, token: str) -> int | None: ...


@runtime_checkable
class ChatTokenizer(Protocol):
    """A tokenizer that is the chat format too: the client's own messages to ids in one step."""

    def encode_chat(self, conversation: Conversation) -> TokenSequence:
        """Return the tokens of a whole conversation.

        Raises: `InvalidRequest` for what the format cannot say.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PairShape:
    """The special tokens around and between two texts that are one prompt.

    `needs_types` says that the model tells the two apart by token types, which no id carries.
    """

    prefix: TokenIds
    middle: TokenIds
    suffix: TokenIds
    needs_types: bool = False


@runtime_checkable
class PairTokenizer(Protocol):
    """A tokenizer that knows how two texts become one prompt."""

    def pair_shape(self) -> PairShape:
        """Return what stands around and between the tokens of two texts.

        Raises: `UnsupportedFeature` when the file puts them together in another way.
        """
        ...


class ChatFormat(Protocol):
    """A chat format that is code, not Jinja: it takes the template's place on the line."""

    @property
    def name(self) -> str: ...

    @property
    def content_format(self) -> ContentFormat: ...

    @property
    def keeps_messages(self) -> bool:
        """Whether contents and arguments of calls stay as they were sent, each part apart."""
        ...

    @property
    def is_sealed(self) -> bool:
        """Whether the format alone decides the prompt.

        A template, truncation, padding or offsets the request asks for are then not looked at.
        """
        ...

    @property
    def tells_offsets(self) -> bool:
        """Whether engines tell a client the offsets of this model's tokens."""
        ...

    def render(self, conversation: Conversation) -> RenderedText:
        """Return the conversation as one text.

        Raises: `InvalidRequest` for what the format cannot say.
        """
        ...

    def render_suffix(self, prompt: str, suffix: str) -> str | None:
        """Return the text that asks for what stands between both; None: it has no such form."""
        ...


class Engine(Protocol):
    """How one engine wants its request: an `EngineInput` and its parameters to wire bytes."""

    name: str

    def encode(self, engine_input: EngineInput, *, request_id: str, params: Any) -> bytes: ...
