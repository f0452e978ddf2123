"""Which of TRUE, FALSE and NULL a predicate can be at all, as far as its form tells."""

from __future__ import annotations

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.nodes import Call, Column, Literal, Node, flatten
from airflow_provider_replacewhere.text import Span

Outcomes = frozenset[bool | None]
_ANY: Outcomes = frozenset({True, False, None})
_KNOWN: Outcomes = frozenset({True, False})


def refuse_constant(node: Node, span: Span) -> None:
    """Refuse what selects every row (NULLs aside) or none, whatever the rows are.

    Delta would remove the whole table, or append without removing anything.

    :raises PredicateError: the predicate is never FALSE, or never TRUE
    """
    if not any(isinstance(part, Column) for part in node.walk()) and not isinstance(node, Literal):
        return
    found = outcomes(node)
    if False not in found:
        raise PredicateError(
            "The predicate is never FALSE: it would replace the whole table.",
            hint="Bound a column, such as: day >= DATE '2026-01-01', or ask for a full refresh of the table.",
            span=span,
        )
    if True not in found:
        raise PredicateError(
            "The predicate is never TRUE: it would replace no row.",
            hint="Check its bounds against the run's clock.",
            span=span,
        )


def outcomes(node: Node) -> Outcomes:
    """A superset of what the predicate can be."""
    if isinstance(node, Literal):
        return (
            frozenset({node.value})
            if node.type == "boolean" and (node.value is None or isinstance(node.value, bool))
            else frozenset({None})
            if node.value is None
            else _ANY
        )
    if not isinstance(node, Call):
        return _ANY
    match node.name:
        case "not":
            return frozenset(None if one is None else not one for one in outcomes(node.args[0]))
        case "and" | "or":
            return _joined(node)
        case "is null" | "is true" | "is false":
            return _KNOWN
        case "=" | "<=" | ">=" if node.args[0] == node.args[1]:
            return frozenset({True, None})
        case "<>" | "<" | ">" if node.args[0] == node.args[1]:
            return frozenset({False, None})
        case "<=>":
            return frozenset({True}) if node.args[0] == node.args[1] else _KNOWN
        case "=" | "<>" | "<" | "<=" | ">" | ">=" if Literal("null", None) in node.args:
            return frozenset({None})
    return _ANY


def _joined(node: Call) -> Outcomes:
    decisive = node.name == "or"
    operands = flatten(node, node.name)
    for operand in operands:
        # x OR NOT x, x AND NOT x
        if Call("not", (operand,)) in operands:
            return frozenset({decisive, *({None} & outcomes(operand))})
    found = [outcomes(operand) for operand in operands]
    result: set[bool | None] = set()
    if any(decisive in one for one in found):
        result.add(decisive)
    if all(one != {decisive} for one in found):
        if all((not decisive) in one for one in found):
            result.add(not decisive)
        if any(None in one for one in found):
            result.add(None)
    if any(one == {decisive} for one in found):
        return frozenset({decisive})
    return frozenset(result)
