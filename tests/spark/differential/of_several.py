"""Shapes of queries with set operations, subqueries and several layers."""

from __future__ import annotations

from collections.abc import Sequence

from tests.spark.differential.columns import Column
from tests.spark.differential.writer import Writer, shape


def _both_sides(w: Writer, operation: str) -> tuple[str, Sequence[Column]]:
    facts, events = w.tables["facts"].kind("d"), w.tables["events"].kind("d")
    second = "e.d" if facts == events else w.date("e", "events")
    first = "f.d" if facts == events else w.date("f", "facts")
    return (
        (
            f"SELECT {first} AS day, f.s, f.k FROM {{facts}} f {w.where('f')} {operation} "
            f"SELECT {second}, e.s, e.k FROM {{events}} e {w.where('e', 'events')}"
        ),
        [Column("day", facts if facts == events else "date"), w.column("s", "facts"), w.column("k", "facts")],
    )


@shape
def _union(w: Writer) -> tuple[str, Sequence[Column]]:
    return _both_sides(w, w.pick("UNION ALL", "UNION ALL", "UNION"))


@shape
def _union_of_a_table_with_itself(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, f.s, f.n FROM {{facts}} f {w.where('f', chance=0.8)} UNION ALL "
            f"SELECT {w.shifted('g', 'facts', 1)}, g.s, g.n FROM {{facts}} g {w.where('g', chance=0.8)}"
        ),
        [w.column("d", "facts", "day"), w.column("s", "facts"), w.column("n", "facts")],
    )


@shape
def _except(w: Writer) -> tuple[str, Sequence[Column]]:
    return _both_sides(w, w.pick("EXCEPT", "EXCEPT ALL", "MINUS"))


@shape
def _intersect(w: Writer) -> tuple[str, Sequence[Column]]:
    return _both_sides(w, w.pick("INTERSECT", "INTERSECT ALL"))


def _subquery(w: Writer, condition: str) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.8)
    return f"SELECT {key} AS day, f.k, f.s, f.n FROM {{facts}} f WHERE {condition}", [day, *w.facts()]


@shape
def _in(w: Writer) -> tuple[str, Sequence[Column]]:
    column = w.pick("k", "d", "s")
    negated = w.pick("", "", "NOT ")
    nulls = "" if not negated or w.rng.random() < 0.4 else f" WHERE e.{column} IS NOT NULL"
    return _subquery(w, f"f.{column} {negated}IN (SELECT e.{column} FROM {{events}} e{nulls})")


@shape
def _in_of_dimension(w: Writer) -> tuple[str, Sequence[Column]]:
    return _subquery(w, f"f.k IN (SELECT c.k FROM {{dims}} c {w.where('c', 'dims', 0.6)})")


@shape
def _exists(w: Writer) -> tuple[str, Sequence[Column]]:
    correlated = w.pick("e.d = f.d", "e.k = f.k", "e.d = f.d AND e.k = f.k", "e.n > 4", "e.d < f.d")
    return _subquery(w, f"{w.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {{events}} e WHERE {correlated})")


@shape
def _exists_or(w: Writer) -> tuple[str, Sequence[Column]]:
    return _subquery(w, f"(f.n > 3 OR EXISTS (SELECT 1 FROM {{events}} e WHERE {w.pick('e.d = f.d', 'e.k = f.k')}))")


@shape
def _scalar(w: Writer) -> tuple[str, Sequence[Column]]:
    aggregated = w.pick(
        "f.n >= (SELECT avg(n) FROM {facts})",
        "f.n <= (SELECT max(e.n) FROM {events} e)",
        "f.d < (SELECT max(e.d) FROM {events} e)",
        "f.d = (SELECT max(g.d) FROM {facts} g)",
        "(SELECT count(*) FROM {dims}) > 3",
    )
    return _subquery(w, aggregated)


@shape
def _scalar_of_the_same_day(w: Writer) -> tuple[str, Sequence[Column]]:
    match = w.pick("e.d = f.d", "e.d = f.d", "e.k = f.k")
    if w.rng.random() < 0.5:
        return _subquery(w, f"coalesce((SELECT sum(e.n) FROM {{events}} e WHERE {match}), 0) > 2")
    return (
        f"SELECT f.d AS day, f.k, (SELECT count(*) FROM {{events}} e WHERE {match}) AS c FROM {{facts}} f",
        [w.column("d", "facts", "day"), w.column("k", "facts"), Column("c", "int")],
    )


@shape
def _nested_ctes(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"WITH a AS (SELECT f.d, f.k, f.s, sum(f.n) AS n FROM {{facts}} f {w.where('f')} GROUP BY f.d, f.k, f.s), "
            f"b AS (SELECT d, k, max(n) AS n FROM a GROUP BY d, k) "
            f"SELECT a.d AS day, a.k, a.s, b.n FROM a JOIN b ON a.d = b.d AND a.k = b.k"
        ),
        [w.column("d", "facts", "day"), *w.facts()],
    )


@shape
def _cte_twice(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"WITH a AS (SELECT f.d, f.s, count(*) AS c FROM {{facts}} f {w.where('f')} GROUP BY f.d, f.s) "
            f"SELECT x.d AS day, x.s, x.c, y.total FROM a x LEFT JOIN (SELECT s, sum(c) AS total FROM a GROUP BY s) y "
            f"ON x.s = y.s"
        ),
        [w.column("d", "facts", "day"), w.column("s", "facts"), Column("c", "int"), Column("total", "int")],
    )


@shape
def _join_of_groups(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT", "INNER", "FULL")
    key = "coalesce(x.d, y.d)" if kind == "FULL" else "x.d"
    return (
        (
            f"SELECT {key} AS day, x.n, y.c FROM (SELECT f.d, sum(f.n) AS n FROM {{facts}} f GROUP BY f.d) x "
            f"{kind} JOIN (SELECT e.d, count(*) AS c FROM {{events}} e {w.where('e', 'events')} GROUP BY e.d) y "
            f"ON x.d = y.d"
        ),
        [w.column("d", "facts", "day"), w.column("n", "facts"), Column("c", "int")],
    )


@shape
def _share_of_the_total(w: Writer) -> tuple[str, Sequence[Column]]:
    total = w.pick("SELECT sum(n) AS t FROM {facts}", "SELECT count(*) AS t FROM {events}")
    return (
        f"SELECT f.d AS day, f.s, f.n, x.t FROM {{facts}} f CROSS JOIN ({total}) x",
        [w.column("d", "facts", "day"), w.column("s", "facts"), w.column("n", "facts"), Column("t", "int")],
    )


@shape
def _against_all_days(w: Writer) -> tuple[str, Sequence[Column]]:
    """Each row beside what its key has ever had."""
    kind, value = w.pick("INNER", "LEFT"), w.pick("min(g.d)", "max(g.d)")
    return (
        (
            f"SELECT f.d AS day, f.k, f.n, a.total, f.d = a.edge AS here FROM {{facts}} f {kind} JOIN "
            f"(SELECT g.k, sum(g.n) AS total, {value} AS edge FROM {{facts}} g {w.where('g')} GROUP BY g.k) a "
            f"ON a.k = f.k"
        ),
        [
            w.column("d", "facts", "day"),
            w.column("k", "facts"),
            w.column("n", "facts"),
            Column("total", "int"),
            Column("here", "bool"),
        ],
    )


@shape
def _running_total(w: Writer) -> tuple[str, Sequence[Column]]:
    meet = w.pick("g.d <= f.d", "g.d < f.d AND g.k = f.k", "g.k = f.k AND g.d >= f.d")
    return (
        (
            f"SELECT f.d AS day, f.k, sum(g.n) AS total FROM {{facts}} f JOIN {{facts}} g ON {meet} {w.where('f')} "
            f"GROUP BY f.d, f.k"
        ),
        [w.column("d", "facts", "day"), w.column("k", "facts"), Column("total", "int")],
    )


@shape
def _clock_in_the_query(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    if w.rng.random() < 0.5:
        condition = f"{w.date('f', 'facts')} >= date_sub({{today}}, {w.pick('3', '6')})"
        return f"SELECT {key} AS day, f.s, f.n FROM {{facts}} f WHERE {condition}", [day, *w.facts()[1:]]
    return (
        f"SELECT {key} AS day, f.s, datediff({{today}}, {w.date('f', 'facts')}) AS age FROM {{facts}} f",
        [day, w.column("s", "facts"), Column("age", "int")],
    )
