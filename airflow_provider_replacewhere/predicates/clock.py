"""Putting the run's clock into a predicate: afterwards it is columns and constants only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.casts import Now
from airflow_provider_replacewhere.predicates.fold import fold
from airflow_provider_replacewhere.predicates.functions import NON_DETERMINISTIC
from airflow_provider_replacewhere.predicates.grammar import read
from airflow_provider_replacewhere.predicates.nodes import Call, Cast, Column, Literal, Node
from airflow_provider_replacewhere.predicates.parse import ParsedPredicate, columns_of
from airflow_provider_replacewhere.predicates.render import to_sql
from airflow_provider_replacewhere.predicates.truth import refuse_constant
from airflow_provider_replacewhere.text import Span

Evaluate = Callable[[Sequence[str]], Sequence[str]]
"""SQL expressions without columns to SQL literals, in the same order; see :func:`render.literal`."""


class NeedsSparkError(PredicateError):
    """A constant part of the predicate has a value that only Spark knows.

    :param expressions: those parts as SQL
    """

    def __init__(
        self, message: str, *, hint: str = "", span: Span | None = None, expressions: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint, span=span)
        self.expressions = expressions


@dataclass(frozen=True)
class Clock:
    """What a run takes for now.

    :param as_of: the instant that all time functions see; aware
    :param time_zone: IANA name or fixed offset: where "today" is
    :raises PredicateError: ``as_of`` names no time zone, or ``time_zone`` is none
    """

    as_of: datetime
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.as_of.tzinfo is None:
            raise PredicateError(
                f"as_of is {self.as_of.isoformat()}, which names no time zone.",
                hint="Give an instant, such as 2026-03-10T00:00:00+00:00.",
            )
        try:
            instants.zone(self.time_zone)
        except ValueError as error:
            raise PredicateError(f"The flow's time zone is wrong: {error}") from None

    @property
    def now(self) -> Now:
        return Now(instants.instant_of(self.as_of), instants.zone(self.time_zone), self.time_zone)


@dataclass(frozen=True)
class Frozen:
    """A predicate after the clock is put in.

    :param sql: canonical SQL of columns and constants
    :param columns: the columns it names, in order of appearance
    :param evaluated: the parts that are not deterministic, as written, with the literal used for each
    :param deterministic: whether the same clock always gives the same ``sql``
    """

    sql: str
    columns: tuple[str, ...]
    evaluated: Mapping[str, str] = field(default_factory=dict)
    deterministic: bool = True


def freeze(predicate: ParsedPredicate, clock: Clock, evaluate: Evaluate | None = None) -> Frozen:
    """Replace every part without columns by its value at the clock's instant.

    :param evaluate: asks a Spark session, whose time zone must be the clock's, for values that are not known here, all
        in one call. Parts that are not deterministic always go there, each once.
    :raises NeedsSparkError: there is such a part and no ``evaluate``
    :raises PredicateError: a part has no value (a date that is none, an overflow), differs from row to row, or makes
        the whole predicate always TRUE or never TRUE
    """
    node, evaluated = freeze_node(predicate, clock, evaluate)
    refuse_constant(node, predicate.span)
    return Frozen(to_sql(node), columns_of(predicate), evaluated, not evaluated)


def freeze_node(
    predicate: ParsedPredicate, clock: Clock, evaluate: Evaluate | None = None
) -> tuple[Node, dict[str, str]]:
    """The frozen tree, and the parts that are not deterministic with their values."""
    refuse_per_row(predicate)
    folded = fold_constants(predicate, clock.now)
    asked = _constant_parts(folded)
    if not asked:
        return folded, {}
    values = _ask(asked, predicate.span, evaluate, clock.now)
    replaced = _replace(folded, iter(values))
    evaluated: dict[str, str] = {}
    for part, value in zip(asked, values, strict=True):
        if _is_random(part):
            evaluated[_fresh_key(predicate.span.text[part.start : part.end], evaluated)] = to_sql(value)
    return _simplified(replaced), evaluated


def fold_constants(predicate: ParsedPredicate, now: Now) -> Node:
    """The tree with every constant part that is known without Spark as a literal.

    :raises PredicateError: a part has no value
    """
    return _fold(predicate.node, now, predicate.span)


def _fold(node: Node, now: Now, span: Span) -> Node:
    """Constants as far as they are known here; AND and OR are relieved of constant operands."""
    children = tuple(_fold(child, now, span) for child in node.children)
    if children:
        node = node.with_children(children)
    if isinstance(node, Call | Cast) and all(isinstance(child, Literal) for child in children):
        try:
            found = fold(node, now)
        except (ValueError, ArithmeticError) as error:
            raise PredicateError(
                f"This has no value: {error}.",
                hint="Spark in ANSI mode refuses it as well.",
                span=span.slice(node.start, node.end),
            ) from None
        if found is not None:
            return replace(found, start=node.start, end=node.end)
    return _relieved(node)


def _relieved(node: Node) -> Node:
    """``x AND TRUE`` is x, ``x OR TRUE`` is TRUE, and so on; a NULL operand stays."""
    if not (isinstance(node, Call) and node.name in ("and", "or")):
        return node
    decisive = Literal("boolean", node.name == "or")
    neutral = Literal("boolean", node.name == "and")
    if decisive in node.args:
        return replace(decisive, start=node.start, end=node.end)
    rest = [arg for arg in node.args if arg != neutral]
    return rest[0] if len(rest) == 1 else node.with_children(tuple(rest)) if rest else neutral


def _simplified(node: Node) -> Node:
    children = tuple(map(_simplified, node.children))
    return _relieved(node.with_children(children) if children else node)


def _is_random(node: Node) -> bool:
    return any(isinstance(part, Call) and part.name in NON_DETERMINISTIC for part in node.walk())


def refuse_per_row(predicate: ParsedPredicate) -> None:
    """:raises PredicateError: a part that is not deterministic has a column in its arguments"""
    for part in predicate.node.walk():
        if isinstance(part, Call) and part.name in NON_DETERMINISTIC and not part.is_constant:
            raise PredicateError(
                f"{part.name} gives another value for each row, so nobody could say which rows were replaced.",
                hint="Use it without columns in its arguments, or compare the column with a constant.",
                span=predicate.span.slice(part.start, part.end),
            )


def _constant_parts(node: Node) -> list[Node]:
    """The largest parts without columns that are no literal."""
    if isinstance(node, Literal | Column):
        return []
    if node.is_constant and not _is_choice_of_literals(node):
        return [node]
    return [part for child in node.children for part in _constant_parts(child)]


def _is_choice_of_literals(node: Node) -> bool:
    # (1, 2) beside a row of columns: Spark has no literal for it, and its items are literals already.
    return isinstance(node, Call) and node.name == "row" and all(isinstance(arg, Literal) for arg in node.args)


def _replace(node: Node, values: object) -> Node:
    if isinstance(node, Literal | Column):
        return node
    if node.is_constant and not _is_choice_of_literals(node):
        return next(values)  # type: ignore[call-overload,no-any-return]
    return node.with_children(tuple(_replace(child, values) for child in node.children))


def _ask(parts: list[Node], span: Span, evaluate: Evaluate | None, now: Now) -> list[Node]:
    expressions = tuple(map(to_sql, parts))
    if evaluate is None:
        raise NeedsSparkError(
            "Only Spark knows the value of this part.",
            hint="It is evaluated when the run starts; a plan without Spark cannot show its window.",
            span=span.slice(parts[0].start, parts[0].end),
            expressions=expressions,
        )
    answers = list(evaluate(expressions))
    if len(answers) != len(parts):
        raise PredicateError(
            f"{len(parts)} parts of the predicate were evaluated, and {len(answers)} values came back."
        )
    return [_literal(answer, part, span, now) for answer, part in zip(answers, parts, strict=True)]


def _literal(answer: str, part: Node, span: Span, now: Now) -> Node:
    value = _fold(read(Span.of(answer, "value evaluated by Spark")), now, Span.of(answer, "value evaluated by Spark"))
    if not isinstance(value, Literal) and not (isinstance(value, Cast) and isinstance(value.operand, Literal)):
        raise PredicateError(
            f"The value of this part is {answer}, which is no literal.", span=span.slice(part.start, part.end)
        )
    return replace(value, start=part.start, end=part.end)


def _fresh_key(text: str, taken: Mapping[str, str]) -> str:
    number, key = 1, text
    while key in taken:
        number += 1
        key = f"{text} ({number})"
    return key
