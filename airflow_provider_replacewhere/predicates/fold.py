"""What an operator or a function makes of constants: the part of Spark that windows are made of.

Each rule gives Spark's value (ANSI mode, session time zone = the flow's) or None: then Spark itself has to be asked.
What Spark refuses raises :class:`ValueError` or :class:`OverflowError`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import cast

from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.casts import (
    TIMES,
    Now,
    between_times,
    convert,
    int_of,
    integer,
    is_small_integer,
)
from airflow_provider_replacewhere.predicates.date_rules import DATE_RULES, Rule, date_literal, shift, timestampadd
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.nodes import COMPARISONS, Call, Cast, Literal


def fold(node: Call | Cast, now: Now) -> Literal | None:
    """The value of a part whose operands are all literals; None where only Spark knows."""
    if isinstance(node, Cast):
        return convert(cast(Literal, node.operand), node.type, now) if not node.lenient else None
    args = cast("tuple[Literal, ...]", node.args)
    if node.name in ("and", "or", "not"):
        return _logic(node.name, args)
    if node.name in ("is null", "isnull", "isnotnull"):
        return Literal("boolean", (args[0].value is None) == (node.name != "isnotnull"))
    if any(arg.value is None for arg in args):
        return None
    if node.name in COMPARISONS:
        return _compare(node.name, args[0], args[1])
    if node.name in ("+", "-"):
        return _add(args[0], args[1], -1 if node.name == "-" else 1, now)
    if node.name == "timestampadd":
        return timestampadd(node.unit, args, now)
    if node.name == "timestampdiff":
        return None
    rule = _RULES.get(node.name)
    return rule(args, now) if rule else None


def _logic(name: str, args: Sequence[Literal]) -> Literal | None:
    values = [arg.value for arg in args]
    if any(value is not None and not isinstance(value, bool) for value in values):
        return None
    if name == "not":
        return Literal("boolean", None if values[0] is None else not values[0])
    decisive = name == "or"
    if decisive in values:
        return Literal("boolean", decisive)
    return Literal("boolean", None if None in values else not decisive)


def _compare(name: str, left: Literal, right: Literal) -> Literal | None:
    integers = left.type in INTEGERS and right.type in INTEGERS
    if not integers and not (left.type == right.type and left.type in (*TIMES, "boolean")):
        return None
    a, b = int_of(left), int_of(right)
    outcomes = {"=": a == b, "<=>": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return Literal("boolean", outcomes[name])


def _add(left: Literal, right: Literal, sign: int, now: Now) -> Literal | None:
    if left.type in INTEGERS and right.type in INTEGERS:
        return integer(int_of(left) + sign * int_of(right), _wider(left.type, right.type))
    if sign > 0 and right.type in TIMES:
        left, right = right, left
    if left.type == "date" and is_small_integer(right):
        return date_literal(int_of(left) + sign * int_of(right))
    if left.type == "date" and right.type == "interval day":
        return date_literal(int_of(left) + sign * (int_of(right) // instants.MICROS_PER_DAY))
    if left.type == "date" and right.type == "interval month":
        return Literal("date", instants.add_months(int_of(left), sign * int_of(right)))
    if right.type.startswith("interval") and left.type in TIMES:
        start = left if left.type != "date" else between_times(left, "timestamp", now)
        amount = sign * int_of(right)
        months, (days, micros) = (
            (amount, (0, 0)) if right.type == "interval month" else (0, instants.split_days(amount))
        )
        return shift(start, now, months, days, micros)
    return None


def _wider(left: str, right: str) -> str:
    names = list(INTEGERS)
    return names[max(names.index(left), names.index(right))]


def _of_integers(rule_of: Callable[[int, int], int]) -> Rule:
    def rule(args: Sequence[Literal], _: Now) -> Literal | None:
        left, right = args
        if left.type not in INTEGERS or right.type not in INTEGERS:
            return None
        return integer(rule_of(int_of(left), int_of(right)), _wider(left.type, right.type))

    return rule


def _java_remainder(left: int, right: int) -> int:
    """The remainder has the sign of what is divided, unlike Python's."""
    if right == 0:
        raise ValueError("division by zero")
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def _negative(args: Sequence[Literal], _: Now) -> Literal | None:
    (value,) = args
    if value.type in INTEGERS:
        return integer(-int_of(value), value.type)
    if value.type.startswith("interval"):
        return Literal(value.type, -int_of(value))
    if isinstance(value.value, Decimal):
        return Literal(value.type, value.value.copy_negate())  # the operator rounds to 28 digits
    if isinstance(value.value, float):
        return Literal(value.type, -value.value)
    return None


def _concat(args: Sequence[Literal], now: Now) -> Literal | None:
    parts = [convert(arg, "string", now) for arg in args]
    if any(part is None for part in parts):
        return None
    return Literal("string", "".join(str(part.value) for part in parts if part))


_RULES: dict[str, Rule] = {
    "*": _of_integers(operator.mul),
    "&": _of_integers(operator.and_),
    "|": _of_integers(operator.or_),
    "^": _of_integers(operator.xor),
    "%": _of_integers(_java_remainder),
    "mod": _of_integers(_java_remainder),
    "negative": _negative,
    "positive": lambda args, _: args[0],
    "||": _concat,
    "concat": _concat,
    **DATE_RULES,
}
