"""Shapes of queries over one table: projections, groups, windows."""

from __future__ import annotations

from collections.abc import Sequence

from tests.spark.differential.columns import Column, literal
from tests.spark.differential.writer import Writer, shape


@shape
def _project(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.3)
    return f"SELECT {key} AS day, f.k, f.s, f.n FROM {{facts}} f {w.where('f')}", [day, *w.facts()]


@shape
def _star(w: Writer) -> tuple[str, Sequence[Column]]:
    return f"SELECT * FROM {{facts}} f {w.where('f')}", w.tables["facts"].columns


@shape
def _other_keys(w: Writer) -> tuple[str, Sequence[Column]]:
    text, kind = w.rng.choice(
        (("upper(f.s)", "string"), ("concat(f.s, 'x')", "string"), ("f.n % 3", "int"), ("f.b", "bool"), ("-f.n", "int"))
    )
    key, day = w.key("f")
    return (
        f"SELECT {key} AS day, f.k, f.s, f.n, {text} AS other FROM {{facts}} f {w.where('f')}",
        [day, *w.facts(), Column("other", kind)],
    )


@shape
def _distinct(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    return f"SELECT DISTINCT {key} AS day, f.s FROM {{facts}} f {w.where('f')}", [day, w.column("s", "facts")]


@shape
def _group(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    values, columns = w.aggregates("f")
    return f"SELECT {key} AS day, {values} FROM {{facts}} f {w.where('f')} GROUP BY {key}", [day, *columns]


@shape
def _group_by_two(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    values, columns = w.aggregates("f")
    other = w.pick("s", "k")
    return (
        f"SELECT {key} AS day, f.{other} AS g, {values} FROM {{facts}} f {w.where('f')} GROUP BY {key}, f.{other}",
        [day, w.column(other, "facts", "g"), *columns],
    )


@shape
def _having(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    condition = w.pick("count(*) > 1", "sum(f.n) > 4", "max(f.n) < 5", "min(f.s) = 'a'", "count(DISTINCT f.k) = 1")
    return (
        f"SELECT {key} AS day, count(*) AS c, sum(f.n) AS n FROM {{facts}} f GROUP BY {key} HAVING {condition}",
        [day, Column("c", "int"), w.column("n", "facts")],
    )


@shape
def _derived_key(w: Writer) -> tuple[str, Sequence[Column]]:
    function = w.pick("max", "min")
    day = w.column("d", "facts", "day")
    return (
        f"SELECT {function}(f.d) AS day, f.k, count(*) AS c FROM {{facts}} f {w.where('f')} GROUP BY f.k",
        [day, w.column("k", "facts"), Column("c", "int")],
    )


@shape
def _global_aggregate(w: Writer) -> tuple[str, Sequence[Column]]:
    n = w.number()
    if w.rng.random() < 0.5:
        return (
            f"SELECT {literal('date', n)} AS day, count(*) AS c, max(f.n) AS m FROM {{facts}} f {w.where('f')}",
            [Column("day", "date"), Column("c", "int"), w.column("n", "facts", "m")],
        )
    day = w.column("d", "facts", "day")
    return (
        f"SELECT max(f.d) AS day, count(*) AS c FROM {{facts}} f {w.where('f')}",
        [day, Column("c", "int")],
    )


@shape
def _constant_key(w: Writer) -> tuple[str, Sequence[Column]]:
    first, second = literal("date", w.number()), literal("date", w.number())
    return (
        (
            f"SELECT {first} AS day, f.s, f.n FROM {{facts}} f {w.where('f')} UNION ALL "
            f"SELECT {second}, e.s, e.n FROM {{events}} e {w.where('e', 'events')}"
        ),
        [Column("day", "date"), w.column("s", "facts"), w.column("n", "facts")],
    )


@shape
def _grouping_sets(w: Writer) -> tuple[str, Sequence[Column]]:
    sets = w.pick("GROUPING SETS ((f.d, f.s), (f.d))", "GROUPING SETS ((f.d), (f.s))", "ROLLUP (f.d, f.s)")
    sets = w.pick(sets, "CUBE (f.d, f.s)")
    return (
        f"SELECT f.d AS day, f.s, count(*) AS c, grouping_id() AS g FROM {{facts}} f {w.where('f')} GROUP BY {sets}",
        [w.column("d", "facts", "day"), w.column("s", "facts"), Column("c", "int"), Column("g", "int")],
    )


@shape
def _explode(w: Writer) -> tuple[str, Sequence[Column]]:
    if w.rng.random() < 0.5:
        date = w.date("f", "facts")
        return (
            (
                f"SELECT explode(sequence({date}, date_add({date}, 2))) AS day, f.s, f.n FROM {{facts}} f "
                f"WHERE f.d IS NOT NULL"
            ),
            [Column("day", "date"), w.column("s", "facts"), w.column("n", "facts")],
        )
    key, day = w.key("f")
    return (
        f"SELECT {key} AS day, f.s, explode(array(1, CAST(f.n AS INT))) AS x FROM {{facts}} f",
        [day, w.column("s", "facts"), Column("x", "int")],
    )


@shape
def _pivot(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        "SELECT * FROM (SELECT f.d AS day, f.s, f.n FROM {facts} f) PIVOT (sum(n) AS n FOR s IN ('a' AS a, 'b' AS b))",
        [w.column("d", "facts", "day"), w.column("n", "facts", "a"), w.column("n", "facts", "b")],
    )


@shape
def _limit(w: Writer) -> tuple[str, Sequence[Column]]:
    order = w.pick("day, k, s, n", "n DESC, day, k, s", "s, k, n, day DESC")
    return (
        f"SELECT f.d AS day, f.k, f.s, f.n FROM {{facts}} f {w.where('f')} ORDER BY {order} LIMIT {w.pick('5', '12')}",
        [w.column("d", "facts", "day"), *w.facts()],
    )


def _windowed(w: Writer, partition: str) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.8)
    total = "f.d, f.k, f.s, f.n, f.ts, f.b"
    by_day = f"PARTITION BY {key}"
    by = {"day": by_day, "both": f"{by_day}, f.s", "key": "PARTITION BY f.k", "none": ""}[partition]
    function = w.pick(
        f"row_number() OVER ({by} ORDER BY {total})",
        f"rank() OVER ({by} ORDER BY f.n)",
        f"sum(f.n) OVER ({by} ORDER BY f.d)",
        f"max(f.n) OVER ({by})",
        f"count(*) OVER ({by} ORDER BY f.d RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        f"lag(f.n) OVER ({by} ORDER BY {total})",
        f"lead(f.n, 1, 0) OVER ({by} ORDER BY {total})",
        f"sum(f.n) OVER ({by} ORDER BY {total} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    )
    return (
        f"SELECT {key} AS day, f.k, f.s, f.n, {function} AS w FROM {{facts}} f {w.where('f')}",
        [day, *w.facts(), Column("w", "int")],
    )


@shape
def _window_by_day(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "day")


@shape
def _window_by_day_and_more(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "both")


@shape
def _window_by_key(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "key")


@shape
def _window_over_all(w: Writer) -> tuple[str, Sequence[Column]]:
    return _windowed(w, "none")


@shape
def _newest_by_key(w: Writer) -> tuple[str, Sequence[Column]]:
    by = w.pick("f.k", "f.d", "f.d, f.k", "f.s")
    return (
        (
            f"SELECT day, k, s, n FROM (SELECT f.d AS day, f.k, f.s, f.n, "
            f"row_number() OVER (PARTITION BY {by} ORDER BY f.n DESC, f.d, f.k, f.s, f.ts, f.b) AS r FROM {{facts}} f) "
            f"WHERE r = 1"
        ),
        [w.column("d", "facts", "day"), *w.facts()],
    )
