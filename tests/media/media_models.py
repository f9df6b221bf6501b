"""Small vision models of three families, pictures for them, and a slow reference for their ids.

The reference writes the prompt down by hand and encodes it piece by piece with
`tokenizers.Tokenizer`; of the package it uses only the counts, which have tests of their own.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

import foreword
from foreword.options import MediaOptions

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for p in m.content %}{% if p.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif p.text is defined %}{{ p.text }}"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.role }}\n{% if m.content is string"
    " %}{{ m.content | trim }}{% else %}{% for p in m.content %}{% if p.type == 'image' %}"
    "<start_of_image>{% elif p.type == 'text' %}{{ p.text | trim }}{% endif %}{% endfor %}"
    "{% endif %}<end_of_turn>\n{% endfor %}"
)
# As Mistral-Small-3.2 has it: of two parts, the text goes where sorting puts it.
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}[INST]{% if m.content is string %}{{ m.content }}"
    "{% else %}{% if m.content | length == 2 %}{% set parts = m.content | sort(attribute='type') %}"
    "{% else %}{% set parts = m.content %}{% endif %}{% for p in parts %}{% if p.type == 'text' %}"
    "{{ p.text }}{% elif p.type in ['image', 'image_url'] %}[IMG]{% endif %}{% endfor %}{% endif %}"
    "[/INST]{% endfor %}"
)

QWEN_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
GEMMA_TOKENS = (
    "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>",
    "<image_soft_token>", "\n", "\n\n", "\n\n\n", "\n\n\n\n",
)  # fmt: skip
MISTRAL_TOKENS = ("<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]")

QWEN_FILES: dict[str, Any] = {
    "config.json": {"model_type": "qwen3_vl", "max_position_embeddings": 100_000},
    "preprocessor_config.json": {
        "size": {"shortest_edge": 1024, "longest_edge": 65536},
        "patch_size": 16,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
    },
}
GEMMA_FILES: dict[str, Any] = {
    "config.json": {
        "model_type": "gemma3",
        "max_position_embeddings": 100_000,
        "text_config": {"max_position_embeddings": 100_000},
    },
    "preprocessor_config.json": {"image_processor_type": "Gemma3ImageProcessor"},
    "processor_config.json": {"image_seq_length": 5, "processor_class": "Gemma3Processor"},
}
MISTRAL_FILES: dict[str, Any] = {
    "config.json": {"model_type": "mistral3", "max_position_embeddings": 100_000},
    "preprocessor_config.json": {
        "patch_size": 14,
        "size": {"longest_edge": 1540},
        "image_processor_type": "PixtralImageProcessorFast",
        "processor_class": "PixtralProcessor",
    },
    "processor_config.json": {
        "patch_size": 14,
        "spatial_merge_size": 2,
        "image_token": "[IMG]",
        "image_break_token": "[IMG_BREAK]",
        "image_end_token": "[IMG_END]",
        "processor_class": "PixtralProcessor",
    },
}


def byte_level(tokens: Sequence[str]) -> Tokenizer:
    """Return a tokenizer of bytes and a few pairs, with added tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate(alphabet)}
    merges = [("t", "h"), ("th", "e"), ("<", "|"), ("a", "g"), ("Ċ", "Ċ"), ("o", "f")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, normalized=False) for token in tokens])
    return made


def gemma_like(tokens: Sequence[str]) -> Tokenizer:
    """Return a tokenizer of characters that writes spaces as Gemma does, its newlines tokens."""
    letters = [chr(number) for number in range(33, 127)] + ["▁", "é"]
    vocabulary = {letter: place for place, letter in enumerate([*letters, "<unk>"])}
    merges = [("t", "h"), ("th", "e"), ("▁", "a"), ("o", "f")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>"))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.add_tokens([AddedToken(token, normalized=False) for token in tokens])
    return made


def write_model(
    folder: Path,
    files: dict[str, Any],
    tokenizer: Tokenizer | bytes,
    template: str,
    *,
    options: MediaOptions | None = None,
    **load: Any,
) -> foreword.Renderer:
    """Write a model's files and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    data = tokenizer if isinstance(tokenizer, bytes) else tokenizer.to_str().encode()
    (folder / "tokenizer.json").write_bytes(data)
    names = {"<bos>": "bos_token", "<s>": "bos_token"}
    roles = {role: token for token, role in names.items() if f'"{token}"'.encode() in data}
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, **roles}))
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return foreword.load(str(folder), media=options or MediaOptions(), **load)


def png(width: int, height: int) -> bytes:
    """Return a PNG that declares a size, and has no pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    """Return a JPEG that declares a size, and has no pixels."""

    def segment(marker: int, content: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, 2 + len(content)) + content

    frame = struct.pack(">BHHB", 8, height, width, 3) + bytes(9)
    return b"\xff\xd8" + segment(0xC0, frame) + segment(0xDA, bytes(10)) + b"\xff\xd9"


def picture(width: int, height: int, **more: Any) -> dict[str, Any]:
    """Return an OpenAI part that shows a picture of that size."""
    data = base64.b64encode(png(width, height)).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}, **more}


def words(text: str) -> dict[str, Any]:
    """Return an OpenAI text part."""
    return {"type": "text", "text": text}


def encode_apart(tokenizer: Tokenizer, text: str, reserved: Sequence[str]) -> list[int]:
    """Return a text's ids where what spells a reserved token is text, encoded by itself."""
    for word in reserved:
        before, found, after = text.partition(word)
        if found:
            twin = Tokenizer(tokenizer.model)
            if tokenizer.normalizer is not None:
                twin.normalizer = tokenizer.normalizer
            if tokenizer.pre_tokenizer is not None:
                twin.pre_tokenizer = tokenizer.pre_tokenizer
            return [
                *encode_apart(tokenizer, before, reserved),
                *twin.encode(found, add_special_tokens=False).ids,
                *encode_apart(tokenizer, after, reserved),
            ]
    return list(tokenizer.encode(text, add_special_tokens=False).ids) if text else []


# ---------------------------------------------------------------------------------------------
# The three kinds, and what is expected of them.

STAND_IN = "\uf8ff"
"""Stands for a typed placeholder while the reference expands the items' own."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A model, and what the reference knows of it."""

    files: dict[str, Any]
    template: str
    tokens: tuple[str, ...]
    placeholder: str
    reserved: tuple[str, ...]
    sizes: dict[tuple[int, int], str]
    """What an image of a size expands to, written by hand."""

    def tokenizer(self) -> Tokenizer:
        return gemma_like(self.tokens) if self.template is GEMMA else byte_level(self.tokens)


def _mistral(rows: int, columns: int) -> str:
    return "[IMG_BREAK]".join(["[IMG]" * columns] * rows) + "[IMG_END]"


_GEMMA_ITEM = f"\n\n<start_of_image>{'<image_soft_token>' * 5}<end_of_image>\n\n"
KINDS = {
    "qwen": Kind(
        files=QWEN_FILES,
        template=CHATML,
        tokens=QWEN_TOKENS,
        placeholder="<|image_pad|>",
        reserved=("<|image_pad|>", "<|video_pad|>"),
        sizes={
            (32, 32): "<|image_pad|>",
            (64, 128): "<|image_pad|>" * 8,
            (84, 84): "<|image_pad|>" * 9,
        },
    ),
    "gemma": Kind(
        files=GEMMA_FILES,
        template=GEMMA,
        tokens=GEMMA_TOKENS,
        placeholder="<start_of_image>",
        reserved=("<start_of_image>", "<image_soft_token>"),
        sizes=dict.fromkeys([(32, 32), (64, 128), (84, 84)], _GEMMA_ITEM),
    ),
    "mistral": Kind(
        files=MISTRAL_FILES,
        template=MISTRAL,
        tokens=MISTRAL_TOKENS,
        placeholder="[IMG]",
        reserved=("[IMG]",),
        sizes={
            (32, 32): _mistral(2, 2),
            (64, 128): _mistral(5, 3),
            (84, 84): _mistral(3, 3),
        },
    ),
}
SIZES = [(32, 32), (64, 128), (84, 84)]


@cache
def model(name: str, **options: Any) -> foreword.Renderer:
    kind = KINDS[name]
    return write_model(
        Path(mkdtemp()),
        kind.files,
        kind.tokenizer(),
        kind.template,
        options=MediaOptions(**options),
    )


def shown(kind: Kind, messages: Sequence[dict[str, Any]]) -> tuple[str, list[tuple[int, int]]]:
    """Write down what the template prints, typed placeholders as stand-ins, and the sizes."""
    sizes: list[tuple[int, int]] = []
    turns: list[str] = []
    for message in messages:
        pieces: list[str] = []
        for part in message["content"]:
            if isinstance(part, tuple):
                sizes.append(part)
                pieces.append(kind.placeholder)
            else:
                typed = part.strip() if kind.template is GEMMA else part
                for number, word in enumerate(kind.reserved):
                    typed = typed.replace(word, f"{STAND_IN}{number}")
                pieces.append(typed)
        if kind.template is MISTRAL:
            images = [piece for piece in pieces if piece == kind.placeholder]
            said = [piece for piece in pieces if piece and piece != kind.placeholder]
            turns.append("[INST]" + "\n".join([*images, *said]) + "[/INST]")
        elif kind.template is GEMMA:
            turns.append(f"<start_of_turn>user\n{''.join(pieces)}<end_of_turn>\n")
        else:
            wrapped = [
                f"<|vision_start|>{piece}<|vision_end|>" if piece == kind.placeholder else piece
                for piece in pieces
            ]
            turns.append(f"<|im_start|>user\n{''.join(wrapped)}<|im_end|>\n")
    begin = {GEMMA: "<bos>", MISTRAL: "<s>", CHATML: ""}[kind.template]
    return begin + "".join(turns), sizes


def expected_ids(kind: Kind, messages: Sequence[dict[str, Any]]) -> list[int]:
    text, sizes = shown(kind, messages)
    first, *rest = text.split(kind.placeholder)
    items = [kind.sizes[size] for size in sizes]
    assert len(items) == len(rest)
    whole = first + "".join(item + piece for item, piece in zip(items, rest, strict=True))
    tokenizer = kind.tokenizer()
    ids: list[int] = []
    pieces = whole.split(STAND_IN)
    for place, piece in enumerate(pieces):
        if place:
            word = kind.reserved[int(piece[0])]
            ids += encode_apart(tokenizer, word, kind.reserved)
            piece = piece[1:]
        ids += encode_apart(tokenizer, piece, ())
    return ids


def body(messages: Sequence[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    sent = [
        {
            "role": "user",
            "content": [
                picture(*part) if isinstance(part, tuple) else words(part)
                for part in message["content"]
            ],
        }
        for message in messages
    ]
    return {"messages": sent, "add_generation_prompt": False, **fields}


def user(*parts: Any) -> dict[str, Any]:
    return {"content": list(parts)}


def check_spans(name: str, ids: Sequence[int], spans: Any, num_items: int) -> None:
    """Every item has a span of its own, and nothing of it stands elsewhere."""
    tokenizer = KINDS[name].tokenizer()
    assert [span.index for span in spans] == list(range(num_items))
    inside = {place for span in spans for place in range(span.start, span.stop)}
    assert len(inside) == sum(span.stop - span.start for span in spans)
    for word in KINDS[name].reserved:
        token_id = tokenizer.token_to_id(word)
        assert all(place in inside for place, one in enumerate(ids) if one == token_id)
