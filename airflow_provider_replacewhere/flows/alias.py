"""Predicates that name a column of a source (``r.ride_date``) where a column of the target is meant.

The predicate of a flow is over the target. People write it with the alias of a source all the same, as they would in
the query's own WHERE; the column that such a source column becomes is looked up in the query's outermost SELECT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import SqlglotError

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.flows.scan import scan
from airflow_provider_replacewhere.text import Span

Path = tuple[str, ...]


def unqualify(predicate: Span, query: Span) -> str:
    """The predicate's text with columns of the query's sources replaced by the output columns that they become.

    A qualifier that is no source's name or alias is left alone: it may be a struct column. So is everything else of the
    text. A query that cannot be taken apart leaves the predicate as it is.

    :raises DefinitionError: such a column is not among the output columns, or only inside an expression; or the query
        is a set operation, whose output columns come from several sources
    """
    columns = [_Dotted(path, span) for path, span in dotted_names(predicate) if len(path) > 1]
    outermost = _outermost(query.text) if columns else None
    if outermost is None:
        return predicate.text
    text, end = "", predicate.start
    for column in columns:
        text += predicate.document.text[end : column.span.start] + _output(column, outermost)
        end = column.span.end
    return text + predicate.document.text[end : predicate.end]


@dataclass(frozen=True)
class _Dotted:
    """A dotted name in the predicate."""

    path: Path
    span: Span


def dotted_names(predicate: Span) -> Iterator[tuple[Path, Span]]:
    """The names in a predicate, each with its place; names of functions are left out, keywords are not."""
    tokens = tuple(scan(predicate.document, predicate.start, predicate.end))
    index = 0
    while index < len(tokens):
        end = index + 1
        if tokens[index].is_name:
            while end + 1 < len(tokens) and tokens[end].is_(".") and tokens[end + 1].is_name:
                end += 2
            if end == len(tokens) or not tokens[end].is_("("):  # else it is a function's name
                names = tokens[index:end]
                span = Span(predicate.document, names[0].span.start, names[-1].span.end)
                yield tuple(token.value for token in names[::2]), span
        index = end


def _outermost(query: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(query, dialect="databricks").unnest()
    except SqlglotError:
        return None


def _output(column: _Dotted, query: exp.Expr) -> str:
    """What to write in place of ``column``."""
    selects = list(_branches(query))
    wanted = next((found for select in selects if (found := _resolve(column.path, select))), None)
    if wanted is None:
        return column.span.text
    if len(selects) > 1:
        raise DefinitionError(
            f"The query joins rows with {type(query).__name__.upper()}: no output column is {column.span.text} alone.",
            hint="Write the name of the output column, without a qualifier.",
            span=column.span,
        )
    if any(_same((output.alias_or_name,), column.path[:1]) for output in selects[0].expressions):
        raise DefinitionError(
            f"{column.path[0]} is both a source and an output column of the query.",
            hint="Give the source another alias, or write the output column without a qualifier.",
            span=column.span,
        )
    outputs = [path for output in selects[0].expressions if (path := _becomes(wanted, output, selects[0]))]
    if not outputs:
        raise _not_given(column, wanted, selects[0])
    # A column that is given twice is best known under its own name.
    path = next((path for path in outputs if _same(path[:1], wanted.path[:1])), outputs[0])
    return ".".join(map(_quoted, path))


def _branches(query: exp.Expr) -> Iterator[exp.Select]:
    """The query's own SELECT, or those that a set operation joins."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        yield from _branches(query.left)
        yield from _branches(query.right)
    elif isinstance(query, exp.Select):
        yield query


@dataclass(frozen=True)
class _Column:
    """A column below one of the sources of a SELECT, which are numbered; ``source`` is None where none is named."""

    source: int | None
    path: Path


def _resolve(path: Path, select: exp.Select) -> _Column | None:
    """The column that a dotted name means, if it begins with a source's alias or name."""
    for number, qualifier in enumerate(_qualifiers(select)):
        for length in range(len(qualifier), 0, -1):
            if len(path) > length and _same(path[:length], qualifier[-length:]):
                return _Column(number, path[length:])
    return None


def _qualifiers(select: exp.Select) -> Iterator[Path]:
    """By what each source can be named: its alias, else its name, also without the schema."""
    from_ = select.args.get("from_")
    joined = (join.this for join in select.args.get("joins") or ())
    for source in (*((from_.this,) if from_ else ()), *joined, *(select.args.get("laterals") or ())):
        if source.alias:
            yield (source.alias,)
        elif isinstance(source, exp.Table):
            yield tuple(part.name for part in source.parts)


def _becomes(wanted: _Column, output: exp.Expr, select: exp.Select) -> Path | None:
    """The path below the output columns at which ``wanted`` is found, if ``output`` gives it."""
    given = output.unalias()
    path = _path(given)
    if path is None:
        return None
    column = _resolve(path, select) or _Column(None, path)
    if column.source not in (None, wanted.source):
        return None
    if column.path == ("*",):
        left_out = (name.name for star in given.find_all(exp.Star) for name in star.args.get("except_") or ())
        return None if any(_same((name,), wanted.path[:1]) for name in left_out) else wanted.path
    if not _same(column.path, wanted.path[: len(column.path)]):
        return None
    return (output.alias_or_name, *wanted.path[len(column.path) :])


def _path(expression: exp.Expr) -> Path | None:
    """The parts of a dotted name, the last of which may be a star; None for any other expression."""
    if isinstance(expression, exp.Star):
        return ("*",)
    if isinstance(expression, exp.Dot):
        before = _path(expression.this)
        after = expression.expression
        return (*before, after.name) if before and isinstance(after, exp.Identifier) else None
    return tuple(part.name for part in expression.parts) if isinstance(expression, exp.Column) else None


def _not_given(column: _Dotted, wanted: _Column, select: exp.Select) -> DefinitionError:
    name = column.span.text
    for output in select.expressions:
        for inner in () if output.is_star else output.find_all(exp.Column):
            path = _path(inner) or ()
            if (_resolve(path, select) or _Column(wanted.source, path)) == wanted:
                return DefinitionError(
                    f"The query gives {name} only inside an expression.",
                    hint=f"Write a condition over the output column {_quoted(output.alias_or_name)}."
                    if output.alias_or_name
                    else "Give the expression a name with AS, and write a condition over that.",
                    span=column.span,
                )
    named = [_quoted(output.alias_or_name) for output in select.expressions if output.output_name not in ("", "*")]
    return DefinitionError(
        f"The query does not give {name}.",
        hint=f"Add {name} to its SELECT, or write a condition over {', '.join(named) or 'another column'}.",
        span=column.span,
    )


def _same(one: Path, other: Path) -> bool:
    return [part.lower() for part in one] == [part.lower() for part in other]


def _quoted(name: str) -> str:
    """The name for use in a predicate, in backticks where it could be taken for a keyword."""
    if name.upper() in Databricks.Tokenizer.KEYWORDS:
        return TableName((name,)).to_sql()
    return str(TableName((name,)))
