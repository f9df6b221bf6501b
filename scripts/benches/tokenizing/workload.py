"""The texts that are tokenized: chats made of this machine's Python source code and licences.

What enters: a model folder, a size in tokens, a seed. What leaves: prompts, and prompts that grow.

Rules of this file: real text, whole lines, taken at random places, so that no two chats share
more than their system prompt; the same seed makes the same chats.
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

LICENCES = ("/usr/share/common-licenses", "/usr/share/licenses")
TURN_CHARS = 1000
"""What a chat grows by: an answer and a question, half of it each."""


class Markers(NamedTuple):
    """What a model's template writes around a message."""

    name: str
    user: str
    assistant: str
    system: str
    end: str


MARKERS = (
    Markers(
        name="<|im_start|>",
        user="<|im_start|>user\n",
        assistant="<|im_start|>assistant\n",
        system="<|im_start|>system\n",
        end="<|im_end|>\n",
    ),
    Markers(
        name="<|start_header_id|>",
        user="<|start_header_id|>user<|end_header_id|>\n\n",
        assistant="<|start_header_id|>assistant<|end_header_id|>\n\n",
        system="<|start_header_id|>system<|end_header_id|>\n\n",
        end="<|eot_id|>",
    ),
    Markers(name="<｜User｜>", user="<｜User｜>", assistant="<｜Assistant｜>", system="", end=""),
    Markers(
        name="<|channel|>",
        user="<|start|>user<|message|>",
        assistant="<|start|>assistant<|channel|>final<|message|>",
        system="<|start|>developer<|message|>",
        end="<|end|>",
    ),
    Markers(
        name="<start_of_turn>",
        user="<start_of_turn>user\n",
        assistant="<start_of_turn>model\n",
        system="<start_of_turn>user\n",
        end="<end_of_turn>\n",
    ),
    Markers(name="[INST]", user="[INST]", assistant="[/INST]", system="[INST]", end="</s>"),
)
PLAIN = Markers(name="", user="\n\nUser: ", assistant="\n\nAssistant: ", system="System: ", end="")


class _Token(msgspec.Struct):
    content: str


class _File(msgspec.Struct):
    added_tokens: tuple[_Token, ...] = ()


def markers_of(folder: Path) -> Markers:
    """Return the markers whose tokens the model's tokenizer has."""
    file = msgspec.json.decode((folder / "tokenizer.json").read_bytes(), type=_File)
    known = {token.content for token in file.added_tokens}
    return next((markers for markers in MARKERS if markers.name in known), PLAIN)


@lru_cache(maxsize=1)
def source_text() -> str:
    """Return the text that everything is cut from: code first, then prose, in fixed order."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [
        path
        for path in sorted(library.rglob("*.py"))
        if not {"site-packages", "test", "tests", "idle_test"} & set(path.parts)
    ]
    for folder in LICENCES:
        files += sorted(path for path in Path(folder).glob("*") if path.is_file())
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    return "\n".join(texts).replace("\r", "")


class Writer:
    """Writes messages, each a stretch of lines from a random place of the source text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.source = source_text()

    def text(self, num_chars: int) -> str:
        place = self.random.randrange(len(self.source) - num_chars - 200)
        place = self.source.find("\n", place) + 1
        return self.source[place : place + num_chars]


class Chat:
    """A chat of about `num_chars` characters that can grow by a turn."""

    def __init__(self, markers: Markers, num_chars: int, writer: Writer, system: str) -> None:
        self.markers, self.writer = markers, writer
        self.transcript = markers.system + system + markers.end
        is_user = True
        while True:
            left = num_chars - len(self.transcript)
            size = min(left, writer.random.randrange(200, 4000))
            role = markers.user if is_user else markers.assistant
            if left < 100 and not is_user:
                break
            self.transcript += role + writer.text(max(size, 50)) + markers.end
            is_user = not is_user

    @property
    def prompt(self) -> str:
        """The transcript and the generation prompt, which the next turn replaces."""
        return self.transcript + self.markers.assistant

    def grow(self) -> str:
        """Add an answer and a question; return what was added to the transcript."""
        markers, half = self.markers, TURN_CHARS // 2
        # As templates with thinking do, an answer does not always begin as the prompt ended.
        thought = "<think>\n\n</think>\n\n" if markers.name == "<|im_start|>" else ""
        added = markers.assistant + thought + self.writer.text(half) + markers.end
        added += markers.user + self.writer.text(half) + markers.end
        self.transcript += added
        return added


def huge_message(markers: Markers, num_chars: int, writer: Writer) -> Iterator[tuple[str, str]]:
    """Yield prompts of one message that grows by `TURN_CHARS` each time, and what was added.

    Shapes: the added text is what follows the message's own text so far, without its end.
    """
    content = writer.text(num_chars)
    added = markers.user + content
    while True:
        yield markers.user + content + markers.end + markers.assistant, added
        added = writer.text(TURN_CHARS)
        content += added
