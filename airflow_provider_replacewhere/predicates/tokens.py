"""Spark's words: a predicate's text as tokens, with the offset of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.text import Span

Kind = Literal["word", "quoted", "string", "number", "operator", "end"]


@dataclass(frozen=True)
class Token:
    """``text`` as written; ``value`` is what it stands for: a name or a string without quotes and escapes."""

    kind: Kind
    text: str
    start: int
    end: int
    value: str = ""

    @property
    def word(self) -> str:
        """The keyword this may be: upper case; empty for anything that is no bare word."""
        return self.text.upper() if self.kind == "word" else ""


# After Spark's SqlBaseLexer.g4. A line comment goes on after a backslash at the end of its line.
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--(?:\\\n|[^\r\n])*)
    | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDF])?(?![A-Za-z0-9_]))
    | (?P<word>\w+)
    | (?P<operator><=>|>>>|<<|>>|<=|>=|<>|!=|==|\|\||::|->|=>|[-+*/%<>=|&^~!()\[\],.])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = r"\\(?:([01][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
_IN_STRING = {quote: re.compile(f"{_ESCAPE}|{quote}{quote}", re.DOTALL) for quote in "'\""}

_PLACEHOLDERS = {
    ":": "A named parameter",
    "?": "A parameter marker",
    "$": "A variable",
    "{": "A template",
    "@": "A variable",
}


def tokenize(span: Span) -> list[Token]:
    """The tokens of a text, without comments, and one of kind ``end``.

    :raises PredicateError: an open string or comment, a ``;``, a placeholder, an unknown character
    """
    text = span.text
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        if text.startswith("/*", position):
            position = _end_of_comment(span, position)
            continue
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unknown(span, position)
        kind, written = str(found.lastgroup), found.group()
        start, position = position, found.end()
        if kind not in ("space", "comment"):
            try:
                tokens.append(_token(kind, written, start, position))
            except (OverflowError, ValueError) as error:
                raise PredicateError(
                    "An escape in this string stands for no character.",
                    hint="Escapes are \\u and four hexadecimal digits, or \\U and eight, up to \\U0010FFFF.",
                    span=span.slice(start, position),
                ) from error
    return [*tokens, Token("end", "", len(text), len(text))]


def _token(kind: str, written: str, start: int, end: int) -> Token:
    match kind:
        case "raw":
            return Token("string", written, start, end, written[2:-1])
        case "string":
            return Token("string", written, start, end, _unescape(written))
        case "quoted":
            return Token("quoted", written, start, end, written[1:-1].replace("``", "`"))
        case "number":
            return Token("number", written, start, end, written)
        case "word":
            return Token("word", written, start, end, written)
    return Token("operator", written, start, end, written)


def _unescape(written: str) -> str:
    """After ``SparkParserUtils.unescapeSQLString``; a doubled quote is one quote, as from Spark 4.0 on.

    :raises ValueError, OverflowError: an escape stands for no character
    """
    quote = written[0]

    def one(found: re.Match[str]) -> str:
        octal, short, long, other = found.groups()
        if octal:
            return chr(int(octal, 8))
        if short or long:
            return chr(int(short or long, 16))
        return _ESCAPES.get(other, other) if other else quote

    text = _IN_STRING[quote].sub(one, written[1:-1])
    # Spark's strings are UTF-16, in which two escapes may be the halves of one character; a half alone is none.
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _end_of_comment(span: Span, start: int) -> int:
    text = span.text
    if text.startswith("/*+", start):
        raise PredicateError(
            "A hint has no place in a predicate.",
            hint="Write the hint in the query.",
            span=span.slice(start, start + 3),
        )
    depth, position = 1, start + 2
    while depth:
        opened, closed = text.find("/*", position), text.find("*/", position)
        if closed < 0:
            raise PredicateError(
                "A comment is opened and never closed.", hint="Close it with */.", span=span.slice(start, start + 2)
            )
        nested = 0 <= opened < closed
        depth += 1 if nested else -1
        position = (opened if nested else closed) + 2
    return position


def _unknown(span: Span, position: int) -> PredicateError:
    character = span.text[position]
    place = span.slice(position, position + 1)
    if character in "'\"`":
        return PredicateError(f"A quote {character} is opened and never closed.", span=place, hint="Close it.")
    if character == ";":
        return PredicateError(
            "A ; has no place in a predicate.", span=place, hint="Give one condition and nothing else."
        )
    if character in _PLACEHOLDERS:
        return PredicateError(
            f"{_PLACEHOLDERS[character]} has no place in a predicate: nothing would fill it in.",
            hint="Write the value itself, or a function of the time such as current_date().",
            span=place,
        )
    return PredicateError(f"The character {character!r} has no place in a predicate.", span=place)
