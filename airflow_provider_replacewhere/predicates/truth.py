"""Which of TRUE, FALSE and NULL a predicate can be at all, as far as its form tells."""

from __future__ import annotations

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.nodes import COMPARISONS, Call, Column, Literal, Node, flatten
from airflow_provider_replacewhere.text import Span

Outcomes = frozenset[bool | None]
_ANY: Outcomes = frozenset({True, False, None})
_KNOWN: Outcomes = frozenset({True, False})


def refuse_constant(node: Node, span: Span) -> None:
    """Refuse what selects every row (NULLs aside) or none, whatever the rows are.

    Delta would remove the whole table, or append without removing anything.

    :raises PredicateError: the predicate is never FALSE, or never TRUE
    """
    found = outcomes(node)
    if True not in found:
        raise PredicateError(
            "The predicate is never TRUE: it would replace no row.",
            hint="Check its bounds against the run's clock.",
            span=span,
        )
    # x > NULL is never FALSE either, yet what it is joined to by OR still decides.
    null_as_operand = any(isinstance(part, Literal) and part.value is None for part in node.walk())
    if False not in found and not (None in found and null_as_operand):
        raise PredicateError(
            "The predicate is never FALSE: it would replace the whole table.",
            hint="Bound a column, such as: day >= DATE '2026-01-01', or ask for a full refresh of the table.",
            span=span,
        )


def outcomes(node: Node) -> Outcomes:
    """A superset of what the predicate can be."""
    match node:
        case Literal(value=bool() | None as value):
            return frozenset({value})
        case Call(name="not", args=(operand,)):
            return frozenset(None if one is None else not one for one in outcomes(operand))
        case Call(name="and" | "or"):
            return _joined(node)
        case Call(name="is null" | "is true" | "is false"):
            return _KNOWN
        case Call(name=name, args=(Column() as left, Column() as right)) if _same(left, right) and name in _WITH_ITSELF:
            return _WITH_ITSELF[name]
        case Call(name="<=>"):
            return _KNOWN
        case Call(name=name, args=args) if name in COMPARISONS and Literal("null", None) in args:
            return frozenset({None})
    return _ANY


def _same(left: Column, right: Column) -> bool:
    return [part.lower() for part in left.parts] == [part.lower() for part in right.parts]


_WITH_ITSELF: dict[str, Outcomes] = {
    **dict.fromkeys(("=", "<=", ">="), frozenset({True, None})),
    **dict.fromkeys(("<>", "<", ">"), frozenset({False, None})),
    "<=>": frozenset({True}),
}


def _joined(node: Call) -> Outcomes:
    """AND and OR: one operand (TRUE for OR, FALSE for AND) decides; else NULL wins over the other."""
    decisive = node.name == "or"
    operands = flatten(node, node.name)
    found = [outcomes(operand) for operand in operands]
    negated = [args[0] for one in operands if isinstance(one, Call) and one.name == "not" for args in [one.args]]
    for operand, its in zip(operands, found, strict=True):
        # x OR NOT x, x AND NOT x
        if its == {decisive} or operand in negated:
            return its - {not decisive}
    result: set[bool | None] = set()
    if any(decisive in its for its in found):
        result.add(decisive)
    if any(None in its for its in found):
        result.add(None)
    if all((not decisive) in its for its in found):
        result.add(not decisive)
    return frozenset(result)
