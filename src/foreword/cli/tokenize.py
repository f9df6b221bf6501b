"""Text or token ids enter; token ids or text leave.

Rules of this file: plain output is for pipes: ids alone, text alone, to the last character.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import msgspec

from foreword.cli.inputs import STDIN, read_request, read_text
from foreword.cli.json_output import to_plain, write_json
from foreword.cli.model import load_renderer
from foreword.cli.output import Console
from foreword.cli.pieces import find_pieces
from foreword.cli.prompt_view import show_pieces
from foreword.errors import InvalidRequest, MalformedRequest
from foreword.params import TokenizeParams
from foreword.types import RenderedText


def run_tokenize(options: Namespace, console: Console) -> int:
    """Run `foreword tokenize`."""
    if (options.text is None) == (options.file is None):
        raise InvalidRequest("Give a text (- for standard input), or --file with one.")
    text = options.text
    if options.file is not None:
        text = read_text(options.file)
    elif text == STDIN:
        text = read_text(STDIN)
    renderer = load_renderer(options, console.warn)
    info = renderer.tokenizer.info
    params = TokenizeParams(
        max_total_tokens=None,
        do_lower_case=info.do_lower_case,
        add_special_tokens=not options.no_special_tokens,
    )
    rendered = RenderedText(text=text)
    tokens = renderer.to_tokens(rendered, params, with_offsets=True, count_in_full=True)
    num_tokens = len(tokens.token_ids)
    if options.json:
        answer: dict[str, Any] = {
            "count": num_tokens,
            "max_model_len": renderer.options.max_model_len,
            "num_chars": len(text),
        }
        if not options.count:
            names = [renderer.tokenizer.id_to_token(i) or "" for i in tokens.token_ids]
            answer |= {
                "tokens": to_plain(tokens.token_ids),
                "token_strs": names,
                "offsets": to_plain(tokens.offsets),
            }
        write_json(console, answer)
    elif options.count:
        console.say(str(num_tokens))
    else:
        console.say(" ".join(map(str, tokens.token_ids)))
        if console.is_terminal and not console.is_quiet:
            pieces = find_pieces(rendered, tokens, renderer.tokenizer)
            console.say(show_pieces(pieces, console.style).rstrip("\n"))
            console.say(console.style.dim(f"{num_tokens:,} tokens, {len(text):,} characters"))
    return 0


def run_detokenize(options: Namespace, console: Console) -> int:
    """Run `foreword detokenize`."""
    ids = _read_ids(options.ids)
    renderer = load_renderer(options, console.warn)
    response = renderer.detokenize({"tokens": ids})
    if options.json:
        write_json(console, {"prompt": response.prompt})
    else:
        ending = "\n" if console.is_terminal and not response.prompt.endswith("\n") else ""
        console.out.write(response.prompt + ending)
    return 0


def _read_ids(given: list[str]) -> list[Any]:
    """Return ids from arguments (`1 2`, `1,2` or `[1, 2]`), or from standard input."""
    written = " ".join(given) if given and given != [STDIN] else _read_stdin()
    body = written.removeprefix("\ufeff").strip()
    if not body.startswith("["):
        body = f"[{','.join(body.replace(',', ' ').split())}]"
    try:
        ids = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise MalformedRequest(
            "Token ids are integers of 0 or more, such as 1 2 3 or [1, 2, 3].", param="tokens"
        ) from None
    assert isinstance(ids, list)
    return ids


def _read_stdin() -> str:
    return read_request(STDIN).decode("utf-8", "replace")
