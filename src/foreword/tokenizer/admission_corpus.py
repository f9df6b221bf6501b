"""A tokenizer's added tokens enter; the fixed adversarial texts a fast engine is judged by leave.

Rules of this file: deterministic, on every Python: only `random()` of a seeded generator is used,
and nothing of `unicodedata`. Texts are short, but for the few that reach an engine's ways of
splitting long ones. A new fault found in an engine gets its text here first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple, TypeVar

_SEED = 20260917
_NUM_MIXTURES = 800
_MAX_TOKENS_IN_FULL = 300
"""Added tokens looked at one by one; of more (Gemma has 6,000) the rest go in groups."""
_MAX_TOKENS_WITH_ALL = 30
"""Added tokens put beside every neighbour; a chat's own tokens are few and stand first or last."""
_TOKENS_A_GROUP = 40
_T = TypeVar("_T")


class AdmissionText(NamedTuple):
    """A text and what it tries."""

    category: str
    text: str


_CODE = (
    "def f(x: int) -> str:\n    return f'{x!r:>10}'  # it's\n\n\nclass HTTPServer2:\n\tpass\n",
    '#include <stdio.h>\r\nint main(void){\r\n\tprintf("%d\\n", 0x1F<<3);\r\n}\r\n',
    "const a = (b) => b?.c ?? `${d}`;\n/* x */ if (a!==b&&c||!d) { a += 1e-9; }\n",
    "SELECT * FROM t WHERE a='it''s' AND b>=10; -- done\n",
    '{"a": [1, 2.50, -3e10, null, true], "b\\u00e9": "\\n"}\n',
    "<div class='x'>&nbsp;&#39;</div><!-- c -->\n```rust\nfn main() {}\n```\n",
    "for i in $(seq 1 100); do echo \"$i\" | sed 's/a/b/g' >> /tmp/x; done\n",
    "camelCaseHTTPRequest snake_case_9 kebab-case SCREAMING_CASE https://a.b/c?d=e&f=%20#g\n",
    "------\n======\n******\n______\n////////\n\\\\\\\\\n          x\n\t\t\ty\n\n\n\n",
)

_FRAGMENTS: dict[str, tuple[str, ...]] = {
    "spaces": (
        *(" ", "  ", "   ", "        ", "\t", "\t\t", " \t", "\u00a0", "\u2009", "\u3000"),
        *("\u1680", "\u180e", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad"),
    ),
    "line ends": (
        *("\n", "\r\n", "\r", "\n\n", "\n\n\n", "\r\n\r\n", " \n", "\n ", " \r\n ", "\t\n"),
        *("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1f"),
    ),
    "controls": ("\x00", "\x01", "\x08", "\x1b", "\x7f", "\x80", "\x9f", "\u200e", "\u202e"),
    "contractions": (
        *("'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'rE", "'ve", "'VE", "'m", "'M"),
        *("'ll", "'LL", "'lL", "'d", "'D", "'st", "'es", "''s", "’s", "’LL", "ʼs", "`s", "n't"),
    ),
    "case folding": (
        *("\u017f", "'\u017f", "'\u017fx", "'\u017f'Res", "\u212a", "'\u212a", "\u0130", "\u0131"),
        *("ß", "ẞ", "ﬁ", "ﬆ", "ŉ", "ǆ", "ǅ", "Ǆ", "Σ", "ς", "ͅ", "Å", "µ"),
    ),
    "digits": (
        *("0", "12", "123", "1234", "1234567", "٣", "٣٤٥٦", "１２３４", "²", "x³", "½", "Ⅷ", "①"),
        *("१२३४", "𝟘𝟙𝟚𝟛", "௧௨", "一二三四", "〇", "3.14", "1,000,000", "1e-5", "0x1F", "௰"),
    ),
    "combining marks": (
        *("e\u0301", "é", "\u0301", "\u0308\u0301", "ö", "o\u0308", "c\u0327\u0301", "A\u030a"),
        *("\u212b", "s\u0323\u0307", "s\u0307\u0323", "\u1e69", "\u0344", "\u0958", "\u0f77"),
        *("\u2126", "\u1e9b\u0323", "\ufb1d", "e\u0301" * 3, "a" + "\u0300" * 20),
    ),
    "hangul": (
        *("한국어", "\u1112\u1161\u11ab", "\u1100", "\u1161", "\u11a8", "가", "각", "가\u11a8"),
        *("\u1100\u1161\u11a8", "\u3131", "\uffa1", "\ud7b0", "\ua960"),
    ),
    "emoji": (
        *("👍", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "🇩", "🇩🇪🇫🇷", "🏳️‍🌈", "❤️", "❤", "\ufe0f", "\u20e3", "1️⃣"),
        *("\U0001f3fd", "🧑🏿‍🚀", "©️", "™", "🫨", "🏴\U000e0067\U000e0062\U000e007f"),
    ),
    "cjk": (
        *("中文字符", "。", "、", "，", "「」", "日本語テキスト", "カタカナ", "ひらがな", "ｶﾞ"),
        *(
            "が",
            "中、文",
            "字「字」々、",
            "か\u3099",
            "𠀀𠀁",
            "\uf900",
            "\u2f00",
            "《》",
            "ー",
            "々",
            "漢字kanji",
            "！？",
        ),
    ),
    "scripts": (
        *("ภาษาไทย", "\u0e33", "हिन्दी", "क्षत्रिय", "ि", "தமிழ்", "বাংলা", "ខ្មែរ", "မြန်မာ"),
        *("Ελληνικά", "Привет", "й", "и\u0306", "ЁЛКА", "հայերեն", "ქართული", "አማርኛ", "ᏣᎳᎩ", "ᠮᠣᠩ"),
        *("Tiếng Việt", "İstanbul", "Straße", "ŒUVRE", "𝒜𝓑", "ℌ", "𐌰𐌱", "ꙮ", "Ꭰꭰ", "ꟲ"),
    ),
    "right to left": (
        *("עברית", "שָׁלוֹם", "العربية", "مُحَمَّد", "ﷺ", "لا", "\u200fא", "\u202bab\u202c", "۱۲۳", "؟"),
    ),
    "odd code points": (
        *("\ue000", "\uf8ff", "\U000f0000", "\U0010ffff", "\uffff", "\ufffe", "\ufdd0", "\u0378"),
        *("\U000e0001", "\U0001fffe", "\ufffd", "\ufffd\ufffd", "\ud7ff", "\u2fef", "\U0001d454"),
        *("Ã©", "Ġ", "Ċ", "â€™", "\x92", "\u0080\u0099", "▁", "▁▁", "<0x0A>", "\U00013000"),
    ),
    "punctuation": (
        *("!", "?!", "...", "…", "—", "–", "“x”", "(x)", "[]", "{}", "://", "->", "=>", "!="),
        *("/*", "\\n", "\\u00e9", "$x", "€", "£5", "%d", "#x", "@x", "^", "~", "|", "&&", "+="),
        *("**", "//", "--", "==", "__", "./", "?x", ".x", "x.", "'", '"', "''"),
        *('""', "·", "∑", "≠", "→", "■", "°"),
    ),
    "words": (
        *("the", " the", "Hello", " world", "aB", "AB", "ABc", "aBC", "XMLHttp", "iOS", "ing"),
        *("tion", "A", "z", "x1", "1x", "a_b", "a-b", "a.b", "antidisestablishmentarianism"),
    ),
}

_FRAMES = ("{0}", "a{0}b", " {0} ", "1{0}2 {0}{0}", "B'{0}x\n{0}", "\n{0}'S.{0}\r\n")
_RUNS = ("a", " ", "\n", "\t", "1", "!", "=", "é", "中", "👍", "\u0301", "'s", " \n", "\r\n", "aB")
_NEIGHBOURS = ("", " ", "a", "\n", "1", ".", "<", "|", "  ", "é", "'s", "\r\n", "_", "中", "\u0301")


def admission_texts(added_tokens: Sequence[str]) -> list[AdmissionText]:
    """Return the texts an engine must answer like the reference to be admitted.

    Shapes: 3,000 to 5,000 texts, at most 180,000 characters, the same for the same tokens.
    """
    rng = Random(_SEED)
    texts = [AdmissionText("empty", "")]
    texts += _framed()
    texts += [AdmissionText("code", text) for text in _CODE]
    texts += _runs()
    texts += _of_added_tokens(added_tokens, rng)
    texts += _mixtures(added_tokens, rng)
    return texts


def long_texts() -> list[AdmissionText]:
    """Return texts to be encoded one after another, each alone.

    Why: engines match long texts in parallel chunks (from 16 KiB on), and reuse what they found of
    the text before when its first kilobytes return; both can be wrong where short texts are not.
    """
    page = "".join(_CODE) * 3 + "".join(f"{i} it's {i * i}\n" for i in range(220))
    grown = page + "he  "
    chunks = f"{page}{'a' * 3000}{page[1000:]}{' ' * 2500}x{page}{'1' * 1500}\n{page[:2500]}"
    return [
        AdmissionText("text in chunks", chunks),
        *(
            AdmissionText("growing text", grown + end)
            for end in ("", "  x", "  x'", "  x'l\u0301", " \n", "345")
        ),
        AdmissionText("growing text", page[:5000] + "llo" + page[5000:5400]),
    ]


def _framed() -> Iterator[AdmissionText]:
    for category, fragments in _FRAGMENTS.items():
        for fragment in fragments:
            for frame in _FRAMES:
                yield AdmissionText(category, frame.format(fragment))


def _runs() -> Iterator[AdmissionText]:
    for run in _RUNS:
        for times in (2, 3, 7, 16, 33, 130, 400):
            yield AdmissionText("runs", f"{run * times}x")
            yield AdmissionText("runs", run * times)


def _of_added_tokens(added_tokens: Sequence[str], rng: Random) -> Iterator[AdmissionText]:
    category = "added tokens"
    step = max(1, -(-len(added_tokens) // _MAX_TOKENS_IN_FULL))
    for token in added_tokens[::step]:
        before, after = _pick(rng, _NEIGHBOURS), _pick(rng, _NEIGHBOURS)
        cut = 1 + int(rng.random() * (len(token) - 1))
        yield AdmissionText(category, f"{before}{token}{after}x")
        yield AdmissionText(category, f"{token[:cut]}{after}{token}{token}")
        yield AdmissionText(category, f"{token}{token[1:]}{before}{token[:-1]}")
    few = _MAX_TOKENS_WITH_ALL // 2
    for token in dict.fromkeys((*added_tokens[:few], *added_tokens[-few:])):
        for neighbour in _NEIGHBOURS:
            yield AdmissionText(category, f"{neighbour}{token}{neighbour}{token}")
            yield AdmissionText(category, f"x{token}{neighbour}")
    if step > 1:
        for place in range(0, len(added_tokens), _TOKENS_A_GROUP):
            group = added_tokens[place : place + _TOKENS_A_GROUP]
            yield AdmissionText(category, "".join(t + _pick(rng, _NEIGHBOURS) for t in group))


def _mixtures(added_tokens: Sequence[str], rng: Random) -> Iterator[AdmissionText]:
    fragments = [fragment for group in _FRAGMENTS.values() for fragment in group]
    for number in range(_NUM_MIXTURES):
        # Every third from a few fragments only: repetition finds what variety does not.
        pool = [_pick(rng, fragments) for _ in range(4)] if number % 3 == 0 else fragments
        parts = [_pick(rng, pool) for _ in range(2 + int(rng.random() * 11))]
        if added_tokens and number % 4 == 0:
            parts[0] = _pick(rng, added_tokens)
        yield AdmissionText("mixtures", "".join(parts))


def _pick(rng: Random, options: Sequence[_T]) -> _T:
    return options[int(rng.random() * len(options))]
