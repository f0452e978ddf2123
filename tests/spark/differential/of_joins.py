"""Shapes of queries that join."""

from __future__ import annotations

from collections.abc import Sequence

from tests.spark.differential.columns import DAY_KINDS, Column
from tests.spark.differential.writer import Writer, shape


def _joined(w: Writer, kind: str, key: str) -> tuple[str, Sequence[Column]]:
    day = w.column("d", "facts" if key != "e.d" else "events", "day")
    columns = [day, w.column("k", "facts"), w.column("s", "facts"), w.column("n", "events", "en")]
    where = f"WHERE {w.condition('f') if w.rng.random() < 0.6 else w.condition('e', 'events')}"
    where = where if w.rng.random() < 0.3 else ""
    return (
        (
            f"SELECT {key} AS day, f.k, f.s, e.n AS en FROM {{facts}} f {kind} JOIN {{events}} e ON {w.on('f', 'e')} "
            f"{where}"
        ),
        columns,
    )


@shape
def _inner_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return _joined(w, "INNER", w.pick("f.d", "f.d", "e.d"))


@shape
def _inner_join_computed(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f", plain=0.0)
    sql, columns = _joined(w, "INNER", "f.d")
    return sql.replace("SELECT f.d AS day", f"SELECT {key} AS day", 1), [day, *columns[1:]]


@shape
def _left_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return _joined(w, "LEFT", "f.d")


@shape
def _left_join_key_from_right(w: Writer) -> tuple[str, Sequence[Column]]:
    if w.rng.random() < 0.4:
        sql, columns = _joined(w, "LEFT", "f.d")
        coalesced = f"coalesce({w.date('e', 'events')}, {w.date('f', 'facts')})"
        return sql.replace("SELECT f.d AS day", f"SELECT {coalesced} AS day", 1), [Column("day", "date"), *columns[1:]]
    return _joined(w, "LEFT", "e.d")


@shape
def _right_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return _joined(w, "RIGHT", w.pick("f.d", "e.d"))


@shape
def _full_join(w: Writer) -> tuple[str, Sequence[Column]]:
    sql, columns = _joined(w, "FULL", "f.d")
    key = w.pick("coalesce(f.d, e.d)", "coalesce(f.d, e.d)", "f.d", "e.d")
    return sql.replace("SELECT f.d AS day", f"SELECT {key} AS day", 1), columns


@shape
def _join_using(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("INNER", "LEFT", "FULL", "RIGHT")
    return (
        f"SELECT d AS day, f.s, f.n, e.n AS en FROM {{facts}} f {kind} JOIN {{events}} e USING ({w.pick('d', 'd, k')})",
        [
            w.column("d", "facts", "day"),
            w.column("s", "facts"),
            w.column("n", "facts"),
            w.column("n", "events", "en"),
        ],
    )


@shape
def _dimension(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    kind = w.pick("INNER", "LEFT", "INNER", "LEFT", "CROSS")
    if kind == "CROSS":
        on = "CROSS JOIN {dims} c"
    else:
        since = f" AND c.d <= {w.date('f', 'facts')}"
        on = f"{kind} JOIN {{dims}} c ON c.k = f.k{w.pick('', '', since)}"
    hint = w.pick("", "/*+ BROADCAST(c) */ ")
    return (
        f"SELECT {hint}{key} AS day, f.k, c.s AS name, f.n FROM {{facts}} f {on} {w.where('f')}",
        [day, w.column("k", "facts"), w.column("s", "dims", "name"), w.column("n", "facts")],
    )


@shape
def _dimension_grouped(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    kind = w.pick("INNER", "LEFT")
    return (
        (
            f"SELECT {key} AS day, c.s AS name, count(*) AS c, sum(f.n) AS n FROM {{facts}} f {kind} JOIN {{dims}} c "
            f"ON c.k = f.k {w.where('c', 'dims', 0.2)} GROUP BY {key}, c.s"
        ),
        [day, w.column("s", "dims", "name"), Column("c", "int"), w.column("n", "facts")],
    )


@shape
def _three_tables(w: Writer) -> tuple[str, Sequence[Column]]:
    first, second = w.pick("INNER", "LEFT"), w.pick("INNER", "LEFT")
    return (
        (
            f"SELECT f.d AS day, c.s AS name, e.n AS en, count(*) AS c FROM {{facts}} f {first} JOIN {{events}} e "
            f"ON {w.on('f', 'e')} {second} JOIN {{dims}} c ON c.k = {w.pick('f', 'e')}.k GROUP BY ALL"
        ),
        [
            w.column("d", "facts", "day"),
            w.column("s", "dims", "name"),
            w.column("n", "events", "en"),
            Column("c", "int"),
        ],
    )


@shape
def _dimension_of_a_dimension(w: Writer) -> tuple[str, Sequence[Column]]:
    key, day = w.key("f")
    kinds, met = (w.pick("INNER", "INNER", "LEFT"), w.pick("INNER", "INNER", "LEFT")), w.pick("c.s = e.s", "c.k = e.k")
    columns = [day, w.column("k", "facts"), w.column("s", "dims", "name"), w.column("n", "facts")]
    of_facts = f"SELECT {key} AS day, f.k, {{name}} AS name, f.n FROM"
    match w.rng.randrange(5):
        case 0:
            joined = f"{{facts}} f {kinds[0]} JOIN {{events}} e ON e.k = f.k {kinds[1]} JOIN {{dims}} c ON {met}"
            return f"{of_facts.format(name='c.s')} {joined} {w.where('f')}", columns
        case 1:
            joined = f"{{dims}} c INNER JOIN {{events}} e ON {met} INNER JOIN {{facts}} f ON e.k = f.k"
            return f"{of_facts.format(name='c.s')} {joined} {w.where('c', 'dims', 0.2)}", columns
        case 2:
            joined = "{dims} c INNER JOIN {dims} o ON c.s = o.s INNER JOIN {facts} f ON f.k = c.k AND f.n = o.n"
            return f"{of_facts.format(name='o.s')} {joined}", columns
        case 3:
            # Both sides of the first join carry the day, and Spark does not see it.
            day_of = f"date_add({w.date('f', 'facts')}, 1)"
            on = f"{w.date('c', 'dims')} = {day_of} AND {w.date('o', 'dims')} = {day_of}"
            joined = (
                f"{{dims}} c INNER JOIN {{dims}} o ON {w.pick('c.s = o.s', 'c.k = o.k')} INNER JOIN {{facts}} f ON {on}"
            )
            return f"SELECT {day_of} AS day, f.k, o.s AS name, f.n FROM {joined}", [Column("day", "date"), *columns[1:]]
    inner = f"SELECT e.k, max(c.s) AS name FROM {{events}} e {kinds[1]} JOIN {{dims}} c ON {met} GROUP BY e.k"
    return f"{of_facts.format(name='x.name')} {{facts}} f {kinds[0]} JOIN ({inner}) x ON x.k = f.k", columns


@shape
def _semi_or_anti_join(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT SEMI", "LEFT ANTI")
    key, day = w.key("f", plain=0.8)
    return (
        f"SELECT {key} AS day, f.k, f.s, f.n FROM {{facts}} f {kind} JOIN {{events}} e ON {w.on('f', 'e')}",
        [day, *w.facts()],
    )


@shape
def _semi_join_of_earlier_days(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT SEMI", "LEFT ANTI")
    return (
        f"SELECT f.d AS day, f.k, f.s, f.n FROM {{facts}} f {kind} JOIN {{events}} e ON e.k = f.k AND e.d < f.d",
        [w.column("d", "facts", "day"), *w.facts()],
    )


@shape
def _cross_join(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, count(*) AS c, max(e.n) AS m FROM {{facts}} f CROSS JOIN {{events}} e "
            f"WHERE e.d {w.pick('<=', '<', '>=', '=')} f.d GROUP BY f.d"
        ),
        [w.column("d", "facts", "day"), Column("c", "int"), w.column("n", "events", "m")],
    )


@shape
def _self_join_shifted(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT", "INNER", "LEFT")
    days = w.rng.choice((1, -1, 2))
    on = f"y.d = {w.shifted('x', 'facts', days)}"
    if w.tables["facts"].kind("d") in DAY_KINDS and w.rng.random() < 0.5:
        on = f"{w.date('y', 'facts')} = date_sub({w.date('x', 'facts')}, {days})"
    return (
        f"SELECT x.d AS day, x.k, x.n, y.n AS before FROM {{facts}} x {kind} JOIN {{facts}} y ON {on} AND y.k = x.k",
        [
            w.column("d", "facts", "day"),
            w.column("k", "facts"),
            w.column("n", "facts"),
            w.column("n", "facts", "before"),
        ],
    )


@shape
def _self_join(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("LEFT", "INNER", "LEFT SEMI", "LEFT ANTI")
    on = w.pick("y.k = x.k", "y.d = x.d", "y.d = x.d AND y.k = x.k AND y.n > x.n", "y.k = x.k AND y.d > x.d")
    return (
        f"SELECT x.d AS day, x.k, x.s, x.n FROM {{facts}} x {kind} JOIN {{facts}} y ON {on}",
        [w.column("d", "facts", "day"), *w.facts()],
    )


@shape
def _lateral(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, f.k, l.total FROM {{facts}} f, LATERAL (SELECT sum(e.n) AS total FROM {{events}} e "
            f"WHERE {w.pick('e.d = f.d', 'e.k = f.k', 'e.d = f.d AND e.k = f.k')}) l"
        ),
        [w.column("d", "facts", "day"), w.column("k", "facts"), w.column("n", "events", "total")],
    )


@shape
def _join_with_inline_rows(w: Writer) -> tuple[str, Sequence[Column]]:
    return (
        (
            f"SELECT f.d AS day, f.s, v.x FROM {{facts}} f {w.pick('LEFT', 'INNER')} JOIN "
            f"(VALUES ('a', 1), ('b', 2), ('c', 3)) AS v(s, x) ON v.s = f.s {w.where('f')}"
        ),
        [w.column("d", "facts", "day"), w.column("s", "facts"), Column("x", "int")],
    )


def _of_dims(w: Writer) -> str:
    """Something that has one row or several for a key."""
    return w.pick(
        "{dims}",
        "(SELECT k, max(s) AS s, count(*) AS n FROM {dims} GROUP BY k)",
        "(SELECT k, s, n FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY d DESC, s, n) AS r FROM {dims}) "
        "WHERE r = 1)",
        "(SELECT DISTINCT k, s, n FROM {dims})",
        "(SELECT c.k, e.s, e.n FROM {dims} c JOIN {events} e ON e.k = c.k)",
        "(SELECT k, s, n FROM {dims} UNION ALL SELECT k, s, n FROM {events})",
        "(SELECT k, s, n FROM {dims} WHERE n > 1)",
    )


@shape
def _snowflake(w: Writer) -> tuple[str, Sequence[Column]]:
    kind = w.pick("INNER", "LEFT", "FULL", "RIGHT")
    key, day = w.key("f", plain=0.8)
    also = w.pick("", "", " AND c.s = f.s", " AND c.n <= f.n", " AND f.n > 1")
    return (
        (
            f"SELECT {key} AS day, f.k, c.s AS name, c.n AS cn FROM {{facts}} f {kind} JOIN {_of_dims(w)} c "
            f"ON c.k = f.k{also} {w.where('f', chance=0.2)}"
        ),
        [day, w.column("k", "facts"), w.column("s", "dims", "name"), w.column("n", "dims", "cn")],
    )


@shape
def _without_partner(w: Writer) -> tuple[str, Sequence[Column]]:
    """An anti-join, or what amounts to one."""
    inner = _of_dims(w)
    condition = w.pick("c.k = f.k", "c.k = f.k AND c.s = f.s", "c.k = f.k OR c.s = f.s")
    if w.rng.random() < 0.5:
        return (
            f"SELECT f.d AS day, f.k, f.s, f.n FROM {{facts}} f LEFT JOIN {inner} c ON {condition} WHERE c.k IS NULL",
            [w.column("d", "facts", "day"), *w.facts()],
        )
    kind = w.pick("LEFT ANTI", "LEFT SEMI")
    return (
        f"SELECT f.d AS day, f.k, f.s, f.n FROM {{facts}} f {kind} JOIN {inner} c ON {condition}",
        [w.column("d", "facts", "day"), *w.facts()],
    )


@shape
def _ranked_then_joined(w: Writer) -> tuple[str, Sequence[Column]]:
    by = w.pick("PARTITION BY d", "PARTITION BY k", "PARTITION BY d, k", "")
    kind = w.pick("INNER", "LEFT")
    return (
        (
            f"SELECT f.d AS day, f.k, f.r, c.s AS name FROM (SELECT d, k, n, rank() OVER ({by} ORDER BY n) AS r "
            f"FROM {{facts}}) f {kind} JOIN {{dims}} c ON c.k = f.k"
        ),
        [w.column("d", "facts", "day"), w.column("k", "facts"), Column("r", "int"), w.column("s", "dims", "name")],
    )


@shape
def _joined_then_ranked(w: Writer) -> tuple[str, Sequence[Column]]:
    by = w.pick("PARTITION BY f.d", "PARTITION BY c.s", "PARTITION BY f.k")
    return (
        (
            f"SELECT f.d AS day, f.k, c.s AS name, sum(f.n) OVER ({by}) AS total FROM {{facts}} f "
            f"{w.pick('INNER', 'LEFT')} JOIN {{dims}} c ON c.k = f.k"
        ),
        [w.column("d", "facts", "day"), w.column("k", "facts"), w.column("s", "dims", "name"), Column("total", "int")],
    )


@shape
def _chain(w: Writer) -> tuple[str, Sequence[Column]]:
    first, second = w.pick("INNER", "LEFT"), w.pick("INNER", "LEFT")
    meet = w.pick("e.k = f.k", "e.d = f.d", "e.d = f.d AND e.k = f.k")
    then = w.pick("c.s = e.s", "c.k = e.k", "c.k = e.k AND c.s = f.s", "c.k = f.k AND c.n = e.n")
    return (
        (
            f"SELECT f.d AS day, f.k, e.n AS en, c.s AS name FROM {{facts}} f {first} JOIN {{events}} e ON {meet} "
            f"{second} JOIN {{dims}} c ON {then}"
        ),
        [
            w.column("d", "facts", "day"),
            w.column("k", "facts"),
            w.column("n", "events", "en"),
            w.column("s", "dims", "name"),
        ],
    )


@shape
def _grouped_then_joined(w: Writer) -> tuple[str, Sequence[Column]]:
    kind, on = w.pick("INNER", "LEFT"), w.pick("c.k = g.k", "c.n = g.n")
    return (
        (
            f"SELECT g.d AS day, g.k, g.n, c.s AS name FROM (SELECT f.d, f.k, sum(f.n) AS n FROM {{facts}} f "
            f"GROUP BY f.d, f.k {w.pick('', 'HAVING count(*) > 1')}) g {kind} JOIN {{dims}} c ON {on}"
        ),
        [w.column("d", "facts", "day"), w.column("k", "facts"), w.column("n", "facts"), w.column("s", "dims", "name")],
    )
