"""Where a predicate ends and a query starts: decided over tokens, outside of all parentheses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_replacewhere.flows.cursor import Cursor
from airflow_provider_replacewhere.flows.scan import Kind, Token
from airflow_provider_replacewhere.text import Span

_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
_UNCLEAR_WORDS = frozenset({"VALUES", "TABLE"})  # Spark also takes these two as names of columns
# Behind one of these words an expression goes on, so what follows is no query: ``x IS DISTINCT FROM y`` for one.
_OPEN_WORDS = frozenset(
    (
        *("AND", "OR", "NOT", "IN", "EXISTS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "IS", "DISTINCT", "DIV"),
        *("ANY", "SOME", "ALL", "CASE", "WHEN", "THEN", "ELSE", "INTERVAL", "ESCAPE", "COLLATE"),
    )
)
_QUERY_GOES_ON = (
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "ORDER",
    "SORT",
    "CLUSTER",
    "DISTRIBUTE",
    "LIMIT",
    "OFFSET",
    "|",
)
SHORT_FORM = "FLOW REPLACE WHERE predicate BY NAME query"
LONG_FORM = "INSERT INTO target BY NAME REPLACE WHERE predicate query"


def short_form(cursor: Cursor) -> tuple[Span, Span]:
    """``REPLACE WHERE predicate BY NAME query``, from ``REPLACE`` on; the predicate and the query."""
    if cursor.at("BY", "NAME"):
        raise cursor.error("BY NAME stands before REPLACE WHERE.", hint=f"Write {SHORT_FORM}.")
    _expect_replace_where(cursor, SHORT_FORM)
    upcoming = cursor.upcoming
    query = _query_start(upcoming)
    by_name = next((i for i, token in _outside(upcoming) if _is_by_name(upcoming, i)), None)
    if query is not None and (by_name is None or query < by_name):
        _predicate(cursor, upcoming[:query])
        raise cursor.error(
            "BY NAME is missing before the query: columns are matched by name only.",
            hint=f"Write BY NAME here: {SHORT_FORM}.",
            span=upcoming[query].span,
        )
    if by_name is None:
        _predicate(cursor, upcoming)
        cursor.skip_to(len(upcoming))
        raise cursor.expected("BY NAME and a query", hint=f"Write {SHORT_FORM}.")
    predicate = _predicate(cursor, upcoming[:by_name])
    cursor.skip_to(by_name + 2)
    return predicate, query_after(cursor, "BY NAME")


def long_form(cursor: Cursor) -> tuple[Span, Span]:
    """``BY NAME REPLACE WHERE predicate query``; the predicate and the query."""
    if cursor.at("REPLACE", "WHERE"):
        raise cursor.error(
            "BY NAME is missing before REPLACE WHERE: columns are matched by name only.",
            hint=f"Write BY NAME here: {LONG_FORM}.",
        )
    if cursor.at("("):
        raise cursor.error("A list of columns has no place here.", hint="Columns are matched by name: write BY NAME.")
    cursor.expect("BY", "NAME", hint=f"Write {LONG_FORM}.")
    if _opens_query(cursor.upcoming, 0):
        raise cursor.error(
            "This flow appends to its target, which is another kind of flow.",
            hint=f"Write REPLACE WHERE and a predicate here: {LONG_FORM}.",
        )
    _expect_replace_where(cursor, LONG_FORM)
    upcoming = cursor.upcoming
    query = _query_start(upcoming)
    for index, _ in _outside(upcoming[:query]):
        if _is_by_name(upcoming, index):
            raise cursor.error(
                "BY NAME stands behind the predicate.",
                hint=f"Write BY NAME before REPLACE WHERE: {LONG_FORM}.",
                span=Span(cursor.here.document, upcoming[index].span.start, upcoming[index + 1].span.end),
            )
    predicate = _predicate(cursor, upcoming[:query])
    cursor.skip_to(len(upcoming) if query is None else query)
    return predicate, query_after(cursor, "the predicate")


def query_after(cursor: Cursor, what: str) -> Span:
    """All that is left, which must look like a query."""
    if not _opens_query(cursor.upcoming, 0):
        raise cursor.expected(
            f"a query behind {what}", hint="A query starts with SELECT, WITH, FROM, VALUES, TABLE or a parenthesis."
        )
    query = cursor.rest
    cursor.skip_to(len(cursor.upcoming))
    return query


def predicate_until(cursor: Cursor, end: int) -> Span:
    """The predicate that the next ``end`` tokens make, which are taken."""
    predicate = _predicate(cursor, cursor.upcoming[:end])
    cursor.skip_to(end)
    return predicate


def _expect_replace_where(cursor: Cursor, form: str) -> None:
    if cursor.at("REPLACE", "USING") or cursor.at("REPLACE", "ON"):
        raise cursor.error("Rows are replaced by a predicate here, not by key.", hint="Write REPLACE WHERE predicate.")
    cursor.expect("REPLACE", "WHERE", hint=f"Write {form}.")


def _predicate(cursor: Cursor, tokens: Sequence[Token]) -> Span:
    if not tokens:
        raise cursor.error(
            "There is no predicate behind WHERE.",
            hint="Write a condition over the target's columns, such as d >= date_sub(current_date(), 7).",
        )
    return Span(tokens[0].span.document, tokens[0].span.start, tokens[-1].span.end)


def _outside(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """The tokens outside of all parentheses, with their index; an opening parenthesis counts as outside."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.is_(")"):
            depth -= 1
        elif depth <= 0:
            yield index, token
        depth += token.is_("(")


def _is_by_name(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].is_("BY") and index + 1 < len(tokens) and tokens[index + 1].is_("NAME")


def _query_start(tokens: Sequence[Token]) -> int | None:
    """The index of the token at which a query follows a predicate, or 0 if it stands in the predicate's place."""
    if tokens and tokens[0].kind is Kind.WORD and tokens[0].text.upper() in _QUERY_WORDS - _UNCLEAR_WORDS:
        return 0
    for index, token in _outside(tokens):
        if index and _ends_operand(tokens[index - 1]) and (_is_query_word(token) or _is_query_group(tokens, index)):
            return index
    return None


def _is_query_word(token: Token) -> bool:
    return token.kind is Kind.WORD and token.text.upper() in _QUERY_WORDS


def _opens_query(tokens: Sequence[Token], index: int) -> bool:
    """Whether a query starts here, in any number of parentheses."""
    while index < len(tokens) and tokens[index].is_("("):
        index += 1
    return index < len(tokens) and _is_query_word(tokens[index])


def _is_query_group(tokens: Sequence[Token], index: int) -> bool:
    """Whether this parenthesis holds a query of its own, not an argument of a function such as ``f((SELECT 1), 2)``."""
    if not (tokens[index].is_("(") and _opens_query(tokens, index)):
        return False
    depth = 0
    for position in range(index, len(tokens)):
        depth += tokens[position].is_("(") - tokens[position].is_(")")
        if depth == 0:
            return position + 1 == len(tokens) or any(map(tokens[position + 1].is_, _QUERY_GOES_ON))
    return True


def _ends_operand(token: Token) -> bool:
    if token.kind is Kind.SYMBOL:
        return token.text in ")]}"  # } for ${key}, which the driver puts in
    return token.kind is not Kind.WORD or token.text.upper() not in _OPEN_WORDS
