"""From a predicate to the region it selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates import instants
from airflow_provider_replacewhere.predicates.casts import Now
from airflow_provider_replacewhere.predicates.clock import Clock, fold_constants, refuse_per_row
from airflow_provider_replacewhere.predicates.domains import Key
from airflow_provider_replacewhere.predicates.functions import CLOCK, NON_DETERMINISTIC
from airflow_provider_replacewhere.predicates.literals import INTEGERS
from airflow_provider_replacewhere.predicates.nodes import COMPARISONS, PREDICATES, Call, Cast, Column, Literal, Node
from airflow_provider_replacewhere.predicates.parse import ParsedPredicate, check_columns, parse
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.render import to_sql
from airflow_provider_replacewhere.predicates.terms import Term, place, term_of
from airflow_provider_replacewhere.predicates.values import Interval, Values
from airflow_provider_replacewhere.text import Span

MOST_RANGES = 2_000
"""A condition that would make the region larger than this stays opaque."""

_MIRRORED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse_predicate(
    sql: str | Span, columns: Mapping[str, str], time_zone: str = "UTC", as_of: datetime | None = None
) -> Region:
    """The rows for which a predicate is TRUE.

    What is no box (an expression over columns) becomes an opaque condition, next to those conjuncts that are boxes.

    :param sql: the predicate
    :param columns: by name, the Spark type (``{"d": "date", "n": "decimal(10,2)"}``)
    :param time_zone: IANA name: where timestamps without zone and dates compared with timestamps are
    :param as_of: the instant that time functions see; aware
    :raises PredicateError: as :func:`parse` and :func:`check`; a time function and no ``as_of``; a part that is not
        deterministic (freeze the predicate first)
    """
    predicate = parse(sql)
    check_columns(predicate, columns)
    _refuse_unfrozen(predicate, as_of)
    now = Clock(as_of or datetime(1970, 1, 1, tzinfo=UTC), time_zone).now
    return _Reader(columns, now).where(fold_constants(predicate, now), True)


def _refuse_unfrozen(predicate: ParsedPredicate, as_of: datetime | None) -> None:
    refuse_per_row(predicate)
    for part in predicate.node.walk():
        place = predicate.span.slice(part.start, part.end)
        if isinstance(part, Call) and part.name in NON_DETERMINISTIC:
            raise PredicateError(
                f"{part.name} has another value with every run.", hint="Freeze the predicate first.", span=place
            )
        if as_of is None and _asks_the_clock(part):
            raise PredicateError("This depends on the run's clock.", hint="Give as_of.", span=place)


def _asks_the_clock(part: Node) -> bool:
    if isinstance(part, Cast) and isinstance(part.operand, Literal) and isinstance(part.operand.value, str):
        return instants.is_moving(part.operand.value)
    return isinstance(part, Call) and (part.name in CLOCK or (part.name == "unix_timestamp" and not part.args))


@dataclass(frozen=True)
class _Reader:
    columns: Mapping[str, str]
    now: Now

    def where(self, node: Node, truth: bool) -> Region:
        """The rows where a condition is TRUE, or those where it is FALSE; a row where it is NULL is in neither."""
        match node:
            case Literal(value=value):
                return Region.everything() if value is truth else Region.empty()
            case Call(name="not", args=(operand,)):
                return self.where(operand, not truth)
            case Call(name="and" | "or" as name, args=args):
                sides = [self.where(arg, truth) for arg in args]
                return self.all_of(args, sides, truth) if (name == "and") == truth else self.any_of(sides)
            case Call(name="between", args=(operand, low, high)):
                return self.where(Call("and", (Call(">=", (operand, low)), Call("<=", (operand, high)))), truth)
            case Call(name="isnotnull", args=(operand,)):
                return self.where(Call("is null", (operand,)), not truth)
        found = self.test(node, truth)
        return self.opaque(node, truth) if found is None else found

    def test(self, node: Node, truth: bool) -> Region | None:
        """The same for a condition that is not made of conditions; None if it is no box."""
        match node:
            case Column():
                return self.compare("=", node, Literal("boolean", True), truth)
            case Call(name="is null" | "isnull", args=(operand,)):
                return self.is_null(operand, truth)
            case Call(name="is true" | "is false" as name, args=(operand,)):
                return self.is_truth(operand, name == "is true", truth)
            case Call(name="in", args=(operand, *items)):
                return self.is_in(operand, items, truth)
            case Call(name="like", args=(operand, Literal(value=str() as pattern))):
                return self.like(node, operand, pattern, truth)
            case Call(name="startswith", args=(operand, Literal(type="string", value=str() as prefix))):
                return self.starts(operand, prefix, truth)
            case Call(name=name, args=(left, right)) if name in COMPARISONS:
                return self.compare(name, left, right, truth)
        return None

    # -- joining

    def any_of(self, regions: Iterable[Region]) -> Region:
        found = list(regions)
        while len(found) > 1:  # in pairs: one after the other, thousands of alternatives would take minutes
            found = [reduce(Region.union, found[at : at + 2]) for at in range(0, len(found), 2)]
        return found[0] if found else Region.empty()

    def all_of(self, nodes: Iterable[Node], regions: Iterable[Region], truth: bool) -> Region:
        found = Region.everything()
        for node, region in sorted(zip(nodes, regions, strict=True), key=lambda pair: pair[1].size):
            if found.size * region.size > MOST_RANGES and min(found.size, region.size) > 1:
                region = self.opaque(node, truth)
            found = found.intersect(region)
        return found

    def opaque(self, node: Node, truth: bool) -> Region:
        return Region.opaque(to_sql(node if truth else Call("not", (node,))), self.now.zone_name)

    # -- the tests

    def compare(self, name: str, left: Node, right: Node, truth: bool) -> Region | None:
        if isinstance(left, Literal) and not isinstance(right, Literal):
            name, left, right = _MIRRORED[name], right, left
        if not isinstance(right, Literal):
            return None
        if right.value is None and name != "<=>":
            return Region.empty()
        term = term_of(left, self.columns, self.now)
        if term is None:
            return None
        if right.value is None:
            values = Values.nothing(term.column, null=True)
            return Region.of(term.path, values if truth else values.complement())
        placed = self.placed(term, right)
        if placed is None:
            return None
        matching = Values.of(term.column, _ranges(name, *placed))
        if truth:
            return Region.of(term.path, matching)
        rest = matching.complement()
        return Region.of(term.path, rest if name == "<=>" else rest.not_null())

    def placed(self, term: Term, value: Literal) -> tuple[Key | None, Key | None] | None:
        try:
            return place(term, value, self.now)
        except ValueError:
            # A string that is no value of the column's type: Spark says so when it reads the first row.
            return None

    def is_null(self, operand: Node, truth: bool) -> Region | None:
        term = term_of(operand, self.columns, self.now)
        if term is not None:
            nulls = Values.nothing(term.column, null=True)
            return Region.of(term.path, nulls if truth else nulls.complement())
        if isinstance(operand, Call) and operand.name in PREDICATES:
            known = self.where(operand, True).union(self.where(operand, False))
            if known.is_exact:
                return Region.everything().subtract(known) if truth else known
        return None

    def is_truth(self, operand: Node, wanted: bool, truth: bool) -> Region | None:
        region = self.where(operand, wanted)
        if truth:
            return region
        return Region.everything().subtract(region) if region.is_exact else None

    def is_in(self, operand: Node, items: list[Node], truth: bool) -> Region | None:
        literals = [item for item in items if isinstance(item, Literal)]
        values = [item for item in literals if item.value is not None]
        if len(literals) < len(items) or not self.compared_one_by_one(operand, values):
            return None
        equal = [self.compare("=", operand, value, truth) for value in values]
        regions = [region for region in equal if region is not None]
        if len(regions) < len(equal):
            return None
        if truth:
            return self.any_of(regions)
        # x NOT IN (1, NULL) is never TRUE.
        return reduce(Region.intersect, regions) if len(values) == len(items) else Region.empty()

    def compared_one_by_one(self, operand: Node, values: list[Literal]) -> bool:
        """Whether IN compares like = does: Spark finds one type for all items first."""
        kinds = {"number" if v.type in (*INTEGERS, "decimal") else v.type for v in values}
        term = term_of(operand, self.columns, self.now)
        if term is None or len(kinds) > 1:
            return term is not None and not values
        if kinds == {"number"}:
            return term.result.name in (*INTEGERS, "decimal", "double") and len({v.type for v in values}) == 1
        return kinds <= {term.result.name} or (kinds == {"double"} and term.result.name != "bigint")

    def starts(self, operand: Node, prefix: str, truth: bool) -> Region | None:
        term = term_of(operand, self.columns, self.now)
        if term is None or term.column.name != "string" or term.reach is not None:
            return None
        matching = Values.of(term.column, [(prefix, _after_prefix(prefix))])
        return Region.of(term.path, matching if truth else matching.complement().not_null())

    def like(self, node: Node, operand: Node, pattern: str, truth: bool) -> Region | None:
        prefix, rest = _literal_prefix(pattern)
        bound = None if prefix is None else self.starts(operand, prefix, truth)
        if prefix is None or bound is None or (rest and set(rest) == {"%"}):
            return bound
        if not rest:
            return self.compare("=", operand, Literal("string", prefix), truth)
        # Beyond its first wildcard a pattern is opaque, but what it matches begins with what stands before.
        return bound.intersect(self.opaque(node, True)) if truth else None


def _ranges(name: str, first: Key | None, after: Key | None) -> list[Interval]:
    """The keys that compare so with a constant.

    :param first: the first key that is the constant or more
    :param after: the first that is more
    """
    match name:
        case "=" | "<=>":
            return [(first, after)]
        case "<>":
            return [(None, first), (after, None)]
        case "<":
            return [(None, first)]
        case "<=":
            return [(None, after)]
        case ">":
            return [(after, None)]
    return [(first, None)]


def _literal_prefix(pattern: str) -> tuple[str | None, str]:
    """A LIKE pattern's text before its first wildcard, escapes undone, and the rest; None for a wrong pattern."""
    prefix = ""
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character in "%_":
            break
        if character == "\\":
            position += 1
            if pattern[position : position + 1] not in ("%", "_", "\\"):
                return None, ""
        prefix += pattern[position]
        position += 1
    return prefix, pattern[position:]


def _after_prefix(prefix: str) -> str | None:
    """The first string after all that begin with the prefix."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    # Surrogates are no characters of UTF-8.
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if following == 0xD800 else following)
