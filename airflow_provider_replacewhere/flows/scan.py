"""SQL text as tokens with their places, by the lexical rules of Spark.

sqlglot's tokenizer is not used: it ends a line comment where Spark goes on (behind a backslash), and makes two tokens
of a number such as ``1L``. The rules here follow Spark's ``SqlBaseLexer.g4``: double quotes make strings, bracketed
comments nest, backslashes escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.text import Document, Span


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True)
class Token:
    """One token. White space, comments and hints are none."""

    kind: Kind
    span: Span

    @property
    def text(self) -> str:
        """The characters as the user wrote them."""
        return self.span.text

    @property
    def value(self) -> str:
        """What the token stands for: a string or a quoted name without its quotes and escapes."""
        if self.kind is Kind.QUOTED:
            return self.text[1:-1].replace("``", "`")
        return string_value(self.text) if self.kind is Kind.STRING else self.text

    def is_(self, word: str) -> bool:
        """Whether this is the keyword (in any letter case) or the symbol ``word``, given in upper case."""
        return self.kind in (Kind.WORD, Kind.SYMBOL) and self.text.upper() == word

    @property
    def is_name(self) -> bool:
        return self.kind in (Kind.WORD, Kind.QUOTED)


_PATTERN = re.compile(
    r"""
      (?P<space>   [\s\u200b]+ )
    | (?P<line>    -- (?: \\\r?\n | [^\r\n] )* )
    | (?P<block>   /\* )
    | (?P<STRING>  [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<QUOTED>  `(?:[^`]|``)*` )
    | (?P<NUMBER>  (?: [0-9]+\.[0-9]* | \.?[0-9]+ ) (?: [eE][+-]?[0-9]+ )? (?: [bB][dD] | [lLsSyYfFdD] )? (?!\w) )
    | (?P<WORD>    \w+ )
    | (?P<SYMBOL>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_UNCLOSED = {"'": "string", '"': "string", "`": "quoted name"}


def scan(document: Document, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """The tokens between two offsets of a document.

    :raises DefinitionError: a string, a quoted name or a comment does not end
    """
    text, stop, at = document.text, len(document.text) if end is None else end, start
    while at < stop:
        match = _PATTERN.match(text, at, stop)
        if match is None:  # impossible: the last alternative takes any character
            raise AssertionError(text[at : at + 20])
        kind, at_end = match.lastgroup or "", match.end()
        if kind == "block":
            at_end = _end_of_block(document, at, stop)
        elif kind in Kind.__members__:
            if kind == "SYMBOL" and (what := _UNCLOSED.get(text[at])):
                raise DefinitionError(
                    f"This {what} does not end.",
                    hint=f"Close it with {text[at]}.",
                    span=Span(document, at, stop),
                )
            yield Token(Kind[kind], Span(document, at, at_end))
        at = at_end


def _end_of_block(document: Document, start: int, stop: int) -> int:
    depth = 0
    for edge in _BLOCK_EDGE.finditer(document.text, start, stop):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise DefinitionError(
        "This comment does not end.",
        hint="Close it with */; comments nest, so each /* needs its own.",
        span=Span(document, start, stop),
    )


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(literal: str) -> str:
    """What a string literal stands for, by the rules of Spark's ``ParserUtils.unescapeSQLString``."""
    if literal[0] in "rR":
        return literal[2:-1]
    quote = literal[0]
    return _ESCAPE.sub(_unescape, literal[1:-1].replace(quote * 2, quote))


def _unescape(match: re.Match[str]) -> str:
    four, eight, octal, single = match.groups()
    if four or eight:
        return chr(int(four or eight, 16))
    return chr(int(octal, 8)) if octal else _ESCAPED.get(single, single)


def string_literal(value: str) -> str:
    """A string literal that stands for ``value``."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
