"""The parts of a predicate as immutable values.

Spark's own grammar decides what a text means, so the tree is ours: SQL transpilers group some operators differently
(``a < 2 IN (true)``, ``a ^ b | c``) and exchange functions for near relatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeAlias

Value: TypeAlias = bool | int | float | Decimal | str | bytes | None


@dataclass(frozen=True)
class Node:
    """A part of a predicate; ``start`` and ``end`` are offsets into its text and do not count for equality."""

    start: int = field(default=0, compare=False, kw_only=True)
    end: int = field(default=0, compare=False, kw_only=True)

    @property
    def children(self) -> tuple[Node, ...]:
        """The operands."""
        return ()

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """The same part over other operands."""
        assert not children
        return self

    def walk(self) -> Iterator[Node]:
        """This part and all below it, outermost first."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def is_constant(self) -> bool:
        """Whether no column stands in it."""
        return not any(isinstance(node, Column) for node in self.walk())


@dataclass(frozen=True)
class Literal(Node):
    """A constant with its Spark type.

    :param type: ``null``, ``boolean``, ``tinyint``, ``smallint``, ``int``, ``bigint``, ``float``, ``double``,
        ``decimal``, ``string``, ``binary``, ``date``, ``timestamp``, ``timestamp_ntz``, ``interval month``,
        ``interval day`` (whole days) or ``interval second``
    :param value: a date as days since 1970-01-01; a timestamp as microseconds since the epoch (UTC), one without zone
        as microseconds since 1970-01-01 00:00 of the wall clock; an interval as months or as microseconds; None is NULL
    """

    type: str
    value: Value


@dataclass(frozen=True)
class Column(Node):
    """A column, or a field inside a column of struct type, as written."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Call(Node):
    """An operator or a function.

    :param name: lower case: ``and``, ``>=``, ``is null``, ``in``, ``between``, ``date_add``, …
    :param unit: the keyword that some functions take in front of their arguments (``dateadd(DAY, 1, d)``)
    """

    name: str
    args: tuple[Node, ...]
    unit: str = ""

    @property
    def children(self) -> tuple[Node, ...]:
        return self.args

    def with_children(self, children: tuple[Node, ...]) -> Call:
        return replace(self, args=children)


@dataclass(frozen=True)
class Cast(Node):
    """``CAST(operand AS type)``; ``type`` is a Spark type name in lower case without spaces."""

    operand: Node
    type: str
    lenient: bool = False

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.operand,)

    def with_children(self, children: tuple[Node, ...]) -> Cast:
        return replace(self, operand=children[0])


@dataclass(frozen=True)
class Field(Node):
    """A field of a struct that is not itself a column: ``struct(a, b).a``."""

    base: Node
    name: str

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.base,)

    def with_children(self, children: tuple[Node, ...]) -> Field:
        return replace(self, base=children[0])


COMPARISONS = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">="})
LOGIC = frozenset({"and", "or", "not"})
TESTS = frozenset({"is null", "is true", "is false", "in", "between", "like", "ilike", "rlike"})
QUANTIFIED = frozenset({"like any", "like all", "ilike any", "ilike all"})
PREDICATES = COMPARISONS | LOGIC | TESTS | QUANTIFIED
ARITHMETIC = frozenset(
    {"+", "-", "*", "/", "%", "div", "&", "|", "^", "<<", ">>", ">>>", "||", "negative", "positive", "~"}
)
STRUCTURAL = frozenset({"case", "row", "[]"})
OPERATORS = PREDICATES | ARITHMETIC | STRUCTURAL


def conjuncts(node: Node) -> tuple[Node, ...]:
    """The parts that AND joins at the top."""
    return flatten(node, "and")


def flatten(node: Node, name: str) -> tuple[Node, ...]:
    """The operands of a chain of one associative operator."""
    if isinstance(node, Call) and node.name == name:
        return tuple(part for arg in node.args for part in flatten(arg, name))
    return (node,)
