"""Reading one statement token by token, and saying what is wrong where it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.flows.scan import Kind, Token
from airflow_provider_replacewhere.text import Span


class Cursor:
    """A place in the tokens of one statement, which are never none."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def span(self) -> Span:
        """The whole statement."""
        return self._between(self._tokens[0].span, self._tokens[-1].span)

    @property
    def done(self) -> bool:
        return self._at >= len(self._tokens)

    @property
    def here(self) -> Span:
        """The next token; behind the last one, the place where more was expected."""
        if not self.done:
            return self._tokens[self._at].span
        last = self._tokens[-1].span
        return Span(last.document, last.end, last.end)

    @property
    def rest(self) -> Span:
        """All that is left, from the next token on."""
        return self._between(self.here, self._tokens[-1].span) if not self.done else self.here

    @property
    def upcoming(self) -> Sequence[Token]:
        return self._tokens[self._at :]

    def since(self, start: Span) -> Span:
        """From ``start`` to the last token that was taken."""
        return self._between(start, self._tokens[self._at - 1].span)

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these keywords or symbols."""
        upcoming = self._tokens[self._at : self._at + len(words)]
        return len(upcoming) == len(words) and all(t.is_(w) for t, w in zip(upcoming, words, strict=True))

    def at_kind(self, kind: Kind) -> bool:
        return not self.done and self._tokens[self._at].kind is kind

    def accept(self, *words: str) -> bool:
        """Take these keywords or symbols if they come next."""
        if found := self.at(*words):
            self._at += len(words)
        return found

    def accept_any(self, *words: str) -> str | None:
        """Take the first of these keywords that comes next."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str, hint: str = "") -> None:
        """Take these keywords or symbols, which must come next."""
        for word in words:
            if not self.accept(word):
                raise self.expected(" ".join(words), hint=hint)

    def take(self) -> Token:
        """The next token, which must exist."""
        token = self._tokens[self._at]
        self._at += 1
        return token

    def skip_to(self, token_index: int) -> None:
        """Go on behind ``token_index`` tokens of :attr:`upcoming`."""
        self._at += token_index

    def identifier(self, what: str) -> Token:
        """One name, with or without backticks."""
        if self.done or not self.upcoming[0].is_name:
            raise self.expected(what)
        return self.take()

    def name(self, what: str) -> TableName:
        """A name of one or several parts."""
        parts = [self.identifier(what).value]
        while self.accept("."):
            parts.append(self.identifier(f"the next part of {what}").value)
        if self.at("-"):
            raise self.error(
                f"{what[0].upper()}{what[1:]} holds a hyphen, which Spark reads as minus.",
                hint="Put backticks around the part with the hyphen.",
            )
        return TableName(tuple(parts))

    def string(self, what: str) -> str:
        """A string literal, or several in a row, which Spark joins."""
        if not self.at_kind(Kind.STRING):
            raise self.expected(what, hint="Write it as a string in single quotes.")
        strings = [token.value for token in takewhile(lambda t: t.kind is Kind.STRING, self.upcoming)]
        self._at += len(strings)
        return "".join(strings)

    def parenthesised(self, what: str) -> Span:
        """The text between an opening parenthesis, which must come next, and the one that closes it.

        A comment before the closing one is left out: a text that ends in a comment cannot be put in front of another.
        """
        opening = self.here
        self.expect("(", hint=f"Put {what} in parentheses.")
        upcoming, depth = self.upcoming, 1
        for index, token in enumerate(upcoming):
            depth += token.is_("(") - token.is_(")")
            if depth == 0:
                self.skip_to(index + 1)
                return self._between(upcoming[0].span, upcoming[index - 1].span) if index else token.span.slice(0, 0)
        raise DefinitionError(f"The parenthesis of {what} does not close.", hint="Close it with ).", span=opening)

    def expected(self, what: str, *, hint: str = "") -> DefinitionError:
        """The error that something else, or nothing, stands where ``what`` was expected."""
        found = "the statement ends" if self.done else f"found {self.here.text}"
        return self.error(f"Expected {what}, {found}.", hint=hint)

    def error(self, message: str, *, hint: str = "", span: Span | None = None) -> DefinitionError:
        return DefinitionError(message, hint=hint, span=span or self.here)

    @staticmethod
    def _between(first: Span, last: Span) -> Span:
        return Span(first.document, first.start, last.end)
