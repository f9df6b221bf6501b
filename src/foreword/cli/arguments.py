"""Nothing enters; the parser of every command leaves. docs/cli.md is made from it.

Rules of this file: definitions only, and no import that takes time: `foreword --help` is quick.
What is wrong with arguments is raised as an error like any other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from foreword.errors import InvalidRequest
from foreword.version import __version__

DESCRIPTION = (
    "Everything before the first token: an OpenAI-style request goes in, exactly the token ids"
    " that the engine must see come out."
)
EXIT_CODES = {
    0: "all went well",
    1: "a bug in foreword (please report it)",
    2: "the request, a file or an argument is at fault; the sentence says what would work",
    3: "the model's files are at fault",
    4: "nobody is at fault (a deadline passed): try again",
    130: "interrupted",
}
EPILOG = "exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items())


class Parser(argparse.ArgumentParser):
    """Raises what argparse would print, so that one place reports every error."""

    def error(self, message: str) -> NoReturn:
        raise InvalidRequest(f"{message}. See: {self.prog} --help")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command `foreword`."""
    parser = Parser(prog="foreword", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"foreword {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    for name, (add, summary, description) in _COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=description, allow_abbrev=False
        )
        add(command)
    return parser


# ---------------------------------------------------------------------------------------------
# Groups of options that commands share.


def _add_output_options(parser: argparse.ArgumentParser, json_help: str) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help=json_help)
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours: auto (the default) has them on a terminal, unless NO_COLOR is set",
    )
    group.add_argument("--quiet", action="store_true", help="no warnings and no progress bar")


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="M",
        required=True,
        help="a model folder, or a Hugging Face id (its weights are never downloaded)",
    )
    group.add_argument("--revision", metavar="R", help="branch, tag or commit of a hub id")
    group.add_argument(
        "--max-model-len",
        metavar="N",
        help="context length in tokens, such as 8192, 8k (8000), 8K (8192) or auto; by default"
        " what the model's files say",
    )
    group.add_argument(
        "--runner",
        choices=("generate", "pooling"),
        default="generate",
        help="what the engine does with prompts; generate (the default) leaves room for an answer",
    )
    group.add_argument(
        "--tokenizer-mode", metavar="MODE", default="auto", help="auto (the default), hf, …"
    )
    group.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="let tokenizer code that the model brings run, where none of its files can be read"
        " without; needs foreword[transformers]",
    )
    group.add_argument(
        "--accelerated",
        choices=("on", "off"),
        default="off",
        help="the accelerated tokenizer engine of foreword[fast], checked against the reference"
        " while loading (seconds); off is the default, since a command tokenizes once",
    )
    group.add_argument(
        "--system-start-date",
        metavar="YYYY-MM-DD",
        help="the current date told to models whose chat format tells one (gpt-oss), so that the"
        " same request gives the same tokens every day; by default today",
    )
    group.add_argument(
        "--chat-template",
        metavar="TEMPLATE",
        help="in place of the model's own: a file, the name of one of the model's, or its source",
    )
    group.add_argument(
        "--served-model-name",
        metavar="NAME",
        action="append",
        default=[],
        help="a name that requests may give as their model (again for more); by default any",
    )
    group.add_argument(
        "--trust-request-chat-template",
        action="store_true",
        help="render with a chat template that the request brings",
    )
    group.add_argument(
        "--media-tolerated-key",
        metavar="KEY",
        action="append",
        default=[],
        help="a key of the processor's files that is known not to change token counts; may be given"
        " several times",
    )
    group.add_argument("--offline", action="store_true", help="ask no hub; use what is cached")


def _add_request(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    parser.add_argument(
        "request",
        metavar="REQUEST.json",
        nargs=nargs,
        help="the body of a request as a client posts it; - reads standard input",
    )


def _add_kind(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind",
        choices=("chat", "completion"),
        help="which API the body is for; by default chat if it has messages",
    )


# ---------------------------------------------------------------------------------------------
# The commands.


def _add_render(parser: argparse.ArgumentParser) -> None:
    _add_request(parser, nargs="?")
    _add_kind(parser)
    parser.add_argument(
        "--to",
        choices=("conversation", "text", "tokens", "input", "engine"),
        help="the station to stop at: the conversation as the template sees it, the prompt as"
        " text, all its tokens, the engine's input within its budget, or (the default) vLLM's"
        " GenerateRequest; with --runner pooling the default is input",
    )
    parser.add_argument(
        "--batch",
        metavar="REQUESTS.jsonl",
        help="render every line of a file (- for standard input), one line of answer each:"
        " index, status, and response or error; lines of OpenAI batch files will do",
    )
    parser.add_argument("--output", metavar="FILE", help="write to FILE instead of stdout")
    parser.add_argument(
        "--indent",
        metavar="N",
        type=int,
        help="indent the JSON by N spaces; by default 2 on a terminal, else one line",
    )
    _add_model_options(parser)
    _add_output_options(parser, "print an error as one JSON line on stderr")


def _add_trace(parser: argparse.ArgumentParser) -> None:
    _add_request(parser)
    _add_kind(parser)
    parser.add_argument(
        "--prompt-index",
        metavar="N",
        type=int,
        default=0,
        help="which prompt of a completion request with several (the first is 0)",
    )
    parser.add_argument("--full", action="store_true", help="show the whole prompt, however long")
    _add_model_options(parser)
    _add_output_options(parser, "print every station as one JSON object, errors too")


def _add_tokenize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", nargs="?", help="the text; - reads standard input")
    parser.add_argument("--file", metavar="F", help="take the text from a file")
    parser.add_argument(
        "--no-special-tokens",
        action="store_true",
        help="without those the tokenizer adds by itself, such as BOS",
    )
    parser.add_argument("--count", action="store_true", help="print the number of tokens only")
    _add_model_options(parser)
    _add_output_options(parser, "print the answer of /tokenize with offsets, and errors as JSON")


def _add_detokenize(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ids",
        metavar="ID",
        nargs="*",
        help="token ids; without any, a JSON array of them is read from standard input",
    )
    _add_model_options(parser)
    _add_output_options(parser, "print the answer of /detokenize, and errors as JSON")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    _add_model_options(parser)
    _add_output_options(parser, "print everything as one JSON object, and errors as JSON")


def _add_count_image(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "size",
        metavar="WxH",
        nargs="+",
        help="width and height in pixels, as shown; several are images of one prompt",
    )
    _add_model_options(parser)
    _add_output_options(parser, "print an array of objects, and errors as JSON")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="show the whole prompt")
    _add_output_options(parser, "print every station as one JSON object")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], Any], str, str]] = {
    "render": (
        _add_render,
        "turn a request into the engine's input",
        "Turn an OpenAI-style chat or completion request into what the engine must see.",
    ),
    "trace": (
        _add_trace,
        "show every station of a request, also of one that fails",
        "Show what becomes of a request: the numbers that decide, where its tokens go, the prompt"
        " token by token, and what is odd. A request that is refused is shown as far as it came.",
    ),
    "tokenize": (
        _add_tokenize,
        "turn text into token ids",
        "Turn text into token ids, or count them.",
    ),
    "detokenize": (
        _add_detokenize,
        "turn token ids into text",
        "Turn token ids into text, special tokens included.",
    ),
    "inspect": (
        _add_inspect,
        "tell what a model's files decide",
        "Tell what a model's files decide: tokenizer, special tokens, templates, context length,"
        " generation defaults, and the fingerprint by which two front ends can be compared.",
    ),
    "count-image": (
        _add_count_image,
        "tell how many tokens an image costs",
        "Tell how many tokens an image of a given size costs, structural ones included. No picture"
        " is needed.",
    ),
    "demo": (
        _add_demo,
        "trace a built-in request with a built-in model: no network, no files",
        "Trace a built-in conversation with a built-in model. Needs no network and no files.",
    ),
    "serve": (
        _add_serve,
        "answer requests over HTTP (needs foreword[serve])",
        "Answer requests over HTTP. `foreword serve --help` tells its options, once"
        " foreword[serve] is installed.",
    ),
}
