"""Compare encodings in pieces with encodings of the whole, on random and adversarial texts.

What enters: folders of tokenizer files, a seed and a number of cuts. What leaves: a line a
tokenizer, and exit status 1 when one id or offset differs.

Four kinds of check, each against the reference's encode of the whole text: two pieces at a single
cut; all pieces between all cuts at once; a text that grows, encoded on from a stable cut and from
its tail backwards; the offsets of pieces. A fifth: what a twin without a normalizer makes of a text
or a piece, where it says that it may.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path

from tokenizers import Tokenizer

from foreword.tokenizer.encode import Segment, assemble_offsets, make_segment, plan, tail_segments
from foreword.tokenizer.normalized import TwinWithoutNormalizer, find_twin
from foreword.tokenizer.segments import CutRules, prove, stable_prefix
from foreword.tokenizer.tokenizer_file import read_tokenizer_file

KINDS = ("cuts", "splits", "appends", "offsets", "twins")

ATOMS = [
    *("a", "foo", "Bar", "HTML", "don't", "we'LL", "it's", "'s", "'", "'S", "’s", "x" * 20),
    *(" ", " ", " ", "  ", "   ", "\n", "\n", "\n\n", "\r\n", "\r", "\t", "\n ", " \n", "\n\t"),
    *("1", "12", "123", "4567", "٣٤", "½", "²", "Ⅷ", "๑๒"),
    *(".", ",", "!", "?", ";", ":", "(", ")", "{", "}", "[", "]", '"', "/", "//", "#", "``", "''"),
    *("<", ">", "|", "<|", "|>", "</", "_", "__", "-", "=", "+", "$", "^", "~", "\\", "&", "%"),
    *(
        "中",
        "文字",
        "，",
        "。",
        "、",
        "「",
        "」",
        "々",
        "〇",
        "ー",
        "・",
        "か",
        "か\u3099",
        "が",
        "ｶﾞ",
    ),
    *("한", "국어", "\u1112\u1161\u11ab", "\u1161", "\u11a8", "العربية", "שלום", "\u064b", "ไทย"),
    *("हिन्दी", "\u0958", "\u093c", "\u09c7\u09be", "\u0d3e", "Русский", "Ελλάς", "Σ", "ß"),
    *("\u0301", "e\u0301", "é", "\u0338", "=\u0338", "<\u0338", "\u0308", " \u0301", "a\u030a"),
    *("\u017f", "'\u017f", "\u0130", "\u0131", "\u212a", "\u037e", "\u1fef", "\u2126", "ﬀ", "ﬆ"),
    *("\u00a0", "\u2028", "\u2029", "\u0085", "\u3000", "\u2003", "\u2000", "\u200b", "\u200d"),
    *("\u00ad", "\ufeff", "\u180e", "\x00", "\x01", "\x1c", "\x1f", "\x7f", "\x0b", "\x0c"),
    *("👩‍👩‍👧", "😀", "❤️", "🇩🇪", "👍🏽", "𝔘", "𠀀", "\U000e0001", "\U0001d165", "\ufffd"),
    *("▁", "▁▁", "Ġ", "Ċ", "##", "<0x0A>", "<unk>", "def f(x):\n    return x", "http://a.b/c?d=e"),
]


@dataclass
class Tally:
    """What was compared, and what differed."""

    cuts: int = 0
    splits: int = 0
    appends: int = 0
    offsets: int = 0
    twins: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(getattr(self, kind) for kind in KINDS)


def texts(rng: random.Random, specials: Sequence[str]) -> Iterator[str]:
    """Yield random texts without end: a few atoms each, so that neighbours are often awkward."""
    while True:
        atoms = rng.sample(ATOMS, rng.randint(1, 12))
        atoms += rng.choices((" ", "a", "word", "\n", ", "), k=rng.randint(0, 6))
        if specials and rng.random() < 0.6:
            for special in rng.choices(specials, k=rng.randint(1, 3)):
                begin = rng.randint(0, len(special))
                part = (special, special[:begin], special[begin:], special + special[:begin])
                atoms.append(rng.choice(part))
        if rng.random() < 0.05:
            atoms.append("".join(map(chr, rng.choices(range(0x21, 0xD7FF), k=4))))
        yield "".join(rng.choices(atoms, k=rng.randint(2, 40)))


def encode(tokenizer: Tokenizer, batch: Sequence[str]) -> list[list[int]]:
    return [e.ids for e in tokenizer.encode_batch_fast(batch, add_special_tokens=False)]


def check_text(
    tokenizer: Tokenizer,
    rules: CutRules,
    twin: TwinWithoutNormalizer | None,
    text: str,
    rng: random.Random,
    tally: Tally,
) -> None:
    """Compare one text in all ways but growing."""
    places = [p for p in range(1, len(text)) if rules.is_cut(text, p)]
    few = rng.sample(places, min(len(places), 12))
    segments: list[Segment] = []
    for place in few:
        segments.append(make_segment(rules, text, 0, place))
        segments.append(make_segment(rules, text, place, len(text)))
    ends = [0, *places, len(text)]
    pieces = [make_segment(rules, text, a, b) for a, b in pairwise(ends)]
    asked = [text, *(s.of(text) for s in (*segments, *pieces))]
    answers = encode(tokenizer, asked)
    if twin is not None:
        check_twin(twin, asked, answers, tally)
    whole, halves = answers[0], answers[1 : 1 + len(segments)]
    for i, place in enumerate(few):
        tally.cuts += 1
        if halves[2 * i] + halves[2 * i + 1] != whole:
            tally.differences.append(f"cut {text[:place]!r} | {text[place:]!r}")
    tally.splits += 1
    if list(chain(*answers[1 + len(segments) :])) != whole:
        tally.differences.append(f"split {[s.of(text) for s in pieces]!r}")
    if rules.offsets_gap is None:
        check_offsets(tokenizer, text, pieces, tally)


def check_twin(
    twin: TwinWithoutNormalizer, asked: list[str], answers: list[list[int]], tally: Tally
) -> None:
    wanted = [twin.text_for(text) for text in asked]
    found = iter(encode(twin.tokenizer, [text for text in wanted if text is not None]))
    for text, other, ids in zip(asked, wanted, answers, strict=True):
        if other is not None:
            tally.twins += 1
            if next(found) != ids:
                tally.differences.append(f"twin {text!r}")


def check_offsets(tokenizer: Tokenizer, text: str, pieces: Sequence[Segment], tally: Tally) -> None:
    encodings = tokenizer.encode_batch(
        [text, *(s.of(text) for s in pieces)], add_special_tokens=False
    )
    tally.offsets += 1
    seen = assemble_offsets(pieces, [e.offsets for e in encodings[1:]])
    if list(seen) != encodings[0].offsets:
        tally.differences.append(f"offsets {[s.of(text) for s in pieces]!r}")


def check_append(tokenizer: Tokenizer, rules: CutRules, text: str, more: str, tally: Tally) -> None:
    """Compare a text that grew, encoded on from its stable cut, and from its tail backwards."""
    place = stable_prefix(rules, text, target_chars=20)
    grown = text + more
    pieces = plan(rules, grown, start=place, target_chars=20)
    old = [make_segment(rules, text, 0, place)] if place else []
    back = list(tail_segments(rules, grown, target_chars=20))[::-1]
    segments = [*old, *pieces, *back]
    whole, *answers = encode(tokenizer, [grown, *(s.of(grown) for s in segments)])
    tally.appends += 1
    if list(chain(*answers[len(old) + len(pieces) :])) != whole:
        tally.differences.append(f"tail {[s.of(grown) for s in back]!r}")
    if list(chain(*answers[: len(old) + len(pieces)])) != whole:
        tally.differences.append(f"append {text[:place]!r} | {text[place:]!r} + {more!r}")


def check_tokenizer(path: Path, rng: random.Random, num_checks: int) -> tuple[CutRules, Tally]:
    """Compare until `num_checks` comparisons are made (or every text offers none)."""
    raw = path.read_bytes()
    tokenizer = Tokenizer.from_buffer(raw)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rules, tally = prove(raw), Tally()
    twin = find_twin(tokenizer, read_tokenizer_file(raw))
    specials = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    source = texts(rng, specials)
    while tally.total < num_checks and len(tally.differences) < 20:
        text = next(source)
        check_text(tokenizer, rules, twin, text, rng, tally)
        for _ in range(2):
            check_append(tokenizer, rules, text, next(source), tally)
        stem = text + rng.choice(specials or ["<|im_end|>"])
        at = rng.randint(max(len(text), 1), len(stem))
        check_append(tokenizer, rules, stem[:at], stem[at:] + next(source), tally)
    return rules, tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz_cuts", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with <name>/tokenizer.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checks", type=int, default=300_000, help="comparisons, all tokenizers")
    parser.add_argument("--only", default="", help="names of tokenizers, with commas")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    files = [f for folder in options.folders for f in sorted(folder.glob("*/tokenizer.json"))]
    files = [f for f in files if not only or f.parent.name in only]
    if not files:
        parser.error("no tokenizer.json in these folders")
    grand = Tally()
    for file in files:
        began = time.perf_counter()
        rng = random.Random(f"{options.seed} {file.parent.name}")
        rules, tally = check_tokenizer(file, rng, options.checks // len(files))
        print(
            f"{file.parent.name:24} {rules.kind:13} cuts {tally.cuts:7} splits {tally.splits:6}"
            f" appends {tally.appends:6} offsets {tally.offsets:6} twins {tally.twins:6}"
            f" differences {len(tally.differences)}  {time.perf_counter() - began:.1f} s",
            flush=True,
        )
        for difference in tally.differences[:5]:
            print("   ", difference)
        for name in KINDS:
            setattr(grand, name, getattr(grand, name) + getattr(tally, name))
        grand.differences += tally.differences
    print(
        f"seed {options.seed}: {', '.join(f'{kind} {getattr(grand, kind)}' for kind in KINDS)},"
        f" differences {len(grand.differences)}"
    )
    return 1 if grand.differences else 0


if __name__ == "__main__":
    sys.exit(main())
