"""A place among the tokens of a predicate: looking ahead, stepping on, and saying what is wrong there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.nodes import Literal, Node
from airflow_provider_replacewhere.predicates.tokens import Token
from airflow_provider_replacewhere.text import Span


@dataclass
class Cursor:
    """The tokens of a text, the last of kind ``end``, and which of them comes next."""

    span: Span
    tokens: list[Token]
    position: int = 0

    @property
    def now(self) -> Token:
        return self.tokens[self.position]

    @property
    def next(self) -> Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.now
        self.position += 1
        return token

    def takes(self, *words: str) -> bool:
        """Step over these words or operators if all of them come next."""
        ahead = self.tokens[self.position : self.position + len(words)]
        if len(ahead) < len(words) or any(
            word not in (t.word, operator_of(t)) for t, word in zip(ahead, words, strict=True)
        ):
            return False
        self.position += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.takes(word):
                raise self.surprise(f"{word} should stand here")

    def fail(
        self, message: str, hint: str = "", *, at: Token | None = None, since: int | None = None
    ) -> PredicateError:
        token = at or self.now
        start = token.start if since is None else since
        return PredicateError(message, hint=hint, span=self.span.slice(start, max(token.end, start + 1)))

    def surprise(self, expected: str = "") -> PredicateError:
        token = self.now
        if token.kind == "end":
            last = self.tokens[max(0, self.position - 1)]
            return self.fail("The predicate ends too early.", f"{expected}." if expected else "", at=last)
        if token.word in ("SELECT", "WITH"):
            return self.fail(
                "A subquery has no place in a predicate.",
                "Compare the target's own columns with constants or functions of the time.",
            )
        if token.word in ("OVER", "FILTER", "WITHIN"):
            return self.fail("A window or aggregate function has no value for a single row.", "Leave it to the query.")
        if operator_of(token) == "*":
            return self.fail("A * has no place in a predicate.", "Name the columns.")
        return self.fail(f"{token.text} is not expected here.", f"{expected}." if expected else "")

    def placed(self, node: Node, start: int) -> Node:
        return replace(node, start=start, end=self.tokens[self.position - 1].end)

    def checked(self, make: Callable[[], Literal], start: int) -> Node:
        try:
            return make()
        except ValueError as error:
            raise self.fail(str(error), at=self.tokens[self.position - 1], since=start) from None

    def separated(self, item: Callable[[], Node]) -> tuple[Node, ...]:
        items = [item()]
        while self.takes(","):
            items.append(item())
        return tuple(items)


def operator_of(token: Token) -> str:
    """The operator that a token is; empty for any other token."""
    return token.text if token.kind == "operator" else ""
