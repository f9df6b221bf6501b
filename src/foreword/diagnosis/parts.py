"""A `Trace` enters; where its tokens went leaves: message by message, tools, generation prompt.

Rules of this file: parts are found by rendering again without them and comparing, never by
searching for a message's words. The number of renderings is bounded by `MAX_PARTS`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from foreword.errors import ForewordError
from foreword.renderer import Renderer
from foreword.stages.media import placeholder_offsets
from foreword.trace import Trace
from foreword.types import Conversation, Message, RenderedText

MAX_PARTS = 200
"""Messages told apart; earlier ones of a longer chat are one part (each costs a rendering)."""

_PROBE: Message = {"role": "user", "content": "probe"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of the rendered text, what it is, and the tokens that begin in it.

    Tokens that the tokenizer itself adds are a part of their own, of no text.
    """

    label: str
    start: int
    stop: int
    num_tokens: int


def find_parts(trace: Trace, renderer: Renderer) -> tuple[Part, ...]:
    """Return the messages, tools, generation prompt and what surrounds them, in text order.

    Shapes: the parts' texts join to the whole, and their tokens add up to `trace.tokens`. A
    message with the tools in its middle gives two parts of the same label.
    """
    tokens, rendered = trace.tokens, trace.rendered
    offsets = placeholder_offsets(tokens, rendered)
    if trace.conversation is None or rendered is None or offsets is None:
        return ()
    num_added = tokens.num_prefix_special + tokens.num_suffix_special
    last = len(offsets) - tokens.num_suffix_special
    starts = sorted(offsets.starts[tokens.num_prefix_special : last])
    parts, before = [], 0
    if num_added:
        parts.append(Part(label="added by the tokenizer", start=0, stop=0, num_tokens=num_added))
    for label, stop in _marks(trace, renderer, len(rendered.text)):
        if stop > before:
            num_tokens = bisect_left(starts, stop) - bisect_left(starts, before)
            parts.append(Part(label=label, start=before, stop=stop, num_tokens=num_tokens))
            before = stop
    return tuple(parts)


def count_tool_tokens(trace: Trace, renderer: Renderer) -> int:
    """Return how many tokens the tools cost: those of the prompt that go when the tools go."""
    without = _without_tools(trace, renderer)
    if without is None:
        return 0
    tokens = renderer.to_tokens(
        without,
        replace(trace.params, max_total_tokens=None, max_output_tokens=None),
        count_in_full=True,
    )
    # Media cost the same with and without tools.
    whole = trace.unexpanded or trace.tokens
    return max(0, len(whole.token_ids) - len(tokens.token_ids))


def common_length(first: str, second: str) -> int:
    """Return how many characters two texts share at their beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        # Comparing slices runs at memory speed; what was found equal is not looked at again.
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# ---------------------------------------------------------------------------------------------
# Where each part ends.


def _marks(trace: Trace, renderer: Renderer, num_chars: int) -> Iterator[tuple[str, int]]:
    """Yield every part's label and where its text ends, in rising order.

    Why: tools are told apart where a rendering without them is the same text with a piece left
    out; where a template changes more than that, their piece stays with the messages.
    """
    conversation, rendered = trace.conversation, trace.rendered
    assert conversation is not None
    assert rendered is not None
    ending = "generation prompt" if conversation.add_generation_prompt else "end"
    rest = _without_tools(trace, renderer)
    without = None if rest is None else rest.text
    start = 0 if without is None else common_length(without, rendered.text)
    inserted = 0 if without is None else num_chars - len(without)
    if without is None or inserted <= 0 or rendered.text[start + inserted :] != without[start:]:
        yield from _Boundaries(trace, renderer, conversation, rendered.text).find()
        yield ending, num_chars
        return
    boundaries = _Boundaries(trace, renderer, replace(conversation, tools=None), without)
    marks = [*boundaries.find(), (ending, len(without))]
    # Where the tools begin as what follows them does, they may as well begin at a message's end.
    for _, stop in marks:
        if (
            stop < start
            and rendered.text[stop + inserted : start + inserted] == without[stop:start]
        ):
            start = stop
    is_told = False
    for label, stop in marks:
        if not is_told and stop > start:
            yield label, start
            yield "tools", start + inserted
            is_told = True
        yield label, stop + inserted if is_told else stop


def _without_tools(trace: Trace, renderer: Renderer) -> RenderedText | None:
    conversation = trace.conversation
    if conversation is None or not conversation.tools or trace.rendered is None:
        return None
    try:
        return renderer.to_text(replace(conversation, tools=None), trace.template)
    except ForewordError:
        return None


class _Boundaries:
    """Finds where each message of a conversation ends in its text."""

    def __init__(
        self, trace: Trace, renderer: Renderer, conversation: Conversation, text: str
    ) -> None:
        self.template = trace.template
        self.renderer = renderer
        self.conversation = conversation
        self.text = text
        self._probe_length: int | None = None

    def find(self) -> Iterator[tuple[str, int]]:
        """Yield every message's label and the end of its text."""
        messages = self.conversation.messages
        skipped = max(0, len(messages) - MAX_PARTS)
        first = 0
        for stop in range(max(1, skipped), len(messages) + 1):
            boundary = self._boundary(stop)
            if boundary is None:
                continue  # such a beginning is no conversation for this template; the next one is
            yield self._label(first, stop), boundary
            first = stop

    def _label(self, first: int, stop: int) -> str:
        role = self.conversation.messages[stop - 1].get("role")
        return f"[{stop - 1}] {role}" if stop - first == 1 else f"[{first}] to [{stop - 1}] {role}"

    def _boundary(self, count: int) -> int | None:
        beginning = self._render(self.conversation.messages[:count])
        if beginning is None:
            return None
        shared = common_length(beginning, self.text)
        if shared == len(beginning):
            return shared
        # The template writes a turn differently while it is the last one (reasoning, end marks):
        # followed by another message, it is what it is in the whole.
        followed = self._render((*self.conversation.messages[:count], _PROBE))
        if followed is None:
            return shared
        known = followed[: max(0, len(followed) - self._length_of_probe())]
        return max(shared, common_length(known, self.text))

    def _length_of_probe(self) -> int:
        if self._probe_length is None:
            messages = self.conversation.messages[:1]
            once = self._render((*messages, _PROBE))
            twice = self._render((*messages, _PROBE, _PROBE))
            gained = 0 if once is None or twice is None else len(twice) - len(once)
            self._probe_length = max(0, gained)
        return self._probe_length

    def _render(self, messages: tuple[Message, ...]) -> str | None:
        beginning = replace(
            self.conversation,
            messages=messages,
            media=(),  # nobody asks where they are, and later messages' are not there
            add_generation_prompt=False,
            continue_final_message=False,
        )
        try:
            return self.renderer.to_text(beginning, self.template).text
        except ForewordError:
            return None
