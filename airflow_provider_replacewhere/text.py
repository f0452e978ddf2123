"""Where a piece of text stands in the document it was read from, so that an error can show the place."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

# Of a line in an error: some texts have no line ends.
_MOST_SHOWN = 400


def shown(value: object) -> str:
    """A value for a message: as Python writes it, and not longer than a person reads."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN // 2]}… ({len(text)} characters)"


def printable(text: str, *, keep: str = "") -> str:
    """A text for logs and terminals: what a person typed may hold line ends and control characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in keep else "\ufffd" for c in text)


@dataclass(frozen=True)
class Document:
    """A whole text as the user gave it: a pipeline file, or one argument of an operator.

    :param name: file name as the user wrote it, or a description such as ``replace_where argument``
    :param text: the whole text
    """

    name: str
    text: str = field(repr=False)

    @property
    def span(self) -> Span:
        """The whole document."""
        return Span(self, 0, len(self.text))

    @property
    def is_python(self) -> bool:
        return self.name.endswith(".py")

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset) - 1
        return line + 1, offset - self._line_starts[line] + 1

    def line(self, number: int) -> str:
        """The text of line ``number`` (from 1), without its line end."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0] + [i + 1 for i, character in enumerate(self.text) if character == "\n"]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "text": self.text}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Document:
        return cls(name=value["name"], text=value["text"])


@dataclass(frozen=True)
class Span:
    """A stretch of a document: ``document.text[start:end]``."""

    document: Document
    start: int
    end: int

    @classmethod
    def of(cls, text: str, name: str) -> Span:
        """The whole of a text that came from no file; ``name`` says where it did come from."""
        return Document(name, text).span

    @property
    def text(self) -> str:
        return self.document.text[self.start : self.end]

    def slice(self, start: int, end: int) -> Span:
        """The part between two offsets that count from the start of this span."""
        return Span(self.document, self.start + start, self.start + end)

    def strip(self) -> Span:
        """The same without white space at either end."""
        text = self.text
        lead = len(text) - len(text.lstrip())
        return self.slice(lead, max(lead, len(text.rstrip())))

    @property
    def where(self) -> str:
        """``file:line:column``."""
        line, column = self.document.position(self.start)
        return f"{self.document.name}:{line}:{column}"

    def excerpt(self) -> str:
        """The line on which the span starts, with the span underlined."""
        number, column = self.document.position(self.start)
        line = self.document.line(number)
        start = max(0, column - 1 - _MOST_SHOWN // 2) if len(line) > _MOST_SHOWN else 0
        cut = line[start : start + _MOST_SHOWN]
        more = "…" if start else "", "…" if start + len(cut) < len(line) else ""
        line = more[0] + printable(cut, keep="\t") + more[1]
        column += len(more[0]) - start
        width = max(1, min(self.end - self.start, len(line) - column + 1))
        # Tabs are kept in front of the marks, so that they stand below the text however wide a tab is.
        lead = "".join("\t" if character == "\t" else " " for character in line[: column - 1])
        gutter = " " * len(str(number))
        return f"  {number} | {line}\n  {gutter} | {lead}{'^' * width}"
