"""Random changes to sources and targets: statements of Spark, and a few that only :func:`~.play.apply` knows.

``RESTORE {t} BACK n`` goes back n versions, ``DROP {t}`` removes the folder, ``FORGET {t}`` writes a checkpoint and
removes the log before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.spark.differential.columns import DAYS, Column, literal
from tests.spark.differential.sources import Table, row

Change = Callable[[random.Random, Table], list[str]]


def _place(table: Table) -> str:
    return f"{{{table.name}}}"


def _names(table: Table) -> str:
    return ", ".join(column.name for column in table.columns)


def _some(rng: random.Random, table: Table) -> str:
    """A condition that some rows meet."""
    day = table["d"]
    options = [
        f"d = {day.literal(rng.randrange(DAYS))}",
        f"d = {day.literal(rng.randrange(DAYS))}",
        f"d >= {day.literal(rng.randrange(6, DAYS))}",
        f"k = {table['k'].literal(rng.randrange(4))}",
        f"s = {table['s'].literal(rng.randrange(5))} AND d < {day.literal(rng.randrange(2, DAYS))}",
        f"n > {rng.randrange(2, 6)}",
        "d IS NULL",
        f"d = {day.literal(rng.randrange(DAYS))} AND s = {table['s'].literal(rng.randrange(5))}",
    ]
    return rng.choice(options)


def _insert(rng: random.Random, table: Table) -> list[str]:
    rows = ", ".join(row(rng, table.columns) for _ in range(rng.randint(1, 3)))
    return [f"INSERT INTO {_place(table)} ({_names(table)}) VALUES {rows}"]


def _insert_null_day(rng: random.Random, table: Table) -> list[str]:
    values = [column.random(rng) for column in table.columns]
    values[[column.name for column in table.columns].index("d")] = f"CAST(NULL AS {table['d'].type})"
    return [f"INSERT INTO {_place(table)} ({_names(table)}) VALUES ({', '.join(values)})"]


def _copy_rows(rng: random.Random, table: Table) -> list[str]:
    return [f"INSERT INTO {_place(table)} SELECT * FROM {_place(table)} WHERE {_some(rng, table)}"]


def _update(rng: random.Random, table: Table) -> list[str]:
    value = rng.choice(("n = n + 1", "n = NULL", f"s = {table['s'].literal(rng.randrange(6))}", "n = 0, s = 'a'"))
    return [f"UPDATE {_place(table)} SET {value} WHERE {_some(rng, table)}"]


def _move(rng: random.Random, table: Table) -> list[str]:
    """Rows change their day or their key."""
    day = f"d = {table['d'].literal(rng.randrange(DAYS))}"
    key = f"k = {table['k'].literal(rng.randrange(4))}"
    return [f"UPDATE {_place(table)} SET {rng.choice((day, day, key, 'd = NULL'))} WHERE {_some(rng, table)}"]


def _update_nothing(rng: random.Random, table: Table) -> list[str]:
    return [f"UPDATE {_place(table)} SET n = n WHERE {_some(rng, table)}"]


def _there_and_back(rng: random.Random, table: Table) -> list[str]:
    where = f"d = {table['d'].literal(rng.randrange(DAYS))}"
    return [
        f"UPDATE {_place(table)} SET n = n + 1 WHERE {where}",
        f"UPDATE {_place(table)} SET n = n - 1 WHERE {where}",
    ]


def _delete(rng: random.Random, table: Table) -> list[str]:
    return [f"DELETE FROM {_place(table)} WHERE {_some(rng, table)}"]


def _delete_all(_: random.Random, table: Table) -> list[str]:
    return [f"DELETE FROM {_place(table)}"]


def _merge(rng: random.Random, table: Table) -> list[str]:
    day, key = table["d"].literal(rng.randrange(DAYS)), table["k"].literal(rng.randrange(4))
    deleted = " WHEN MATCHED AND t.n > 4 THEN DELETE" if rng.random() < 0.5 else ""
    missing = f" WHEN NOT MATCHED BY SOURCE AND t.d = {table['d'].literal(rng.randrange(DAYS))} THEN DELETE"
    return [
        (
            f"MERGE INTO {_place(table)} t USING (SELECT CAST({day} AS {table['d'].type}) AS d, "
            f"CAST({key} AS {table['k'].type}) AS k) u ON t.d = u.d AND t.k = u.k{deleted} "
            f"WHEN MATCHED THEN UPDATE SET t.n = coalesce(t.n, 0) + 1 "
            f"WHEN NOT MATCHED THEN INSERT (d, k, n) VALUES (u.d, u.k, 1)"
            f"{missing if rng.random() < 0.3 else ''}"
        )
    ]


def _overwrite(rng: random.Random, table: Table) -> list[str]:
    """The same rows again, but for those of a condition."""
    return [
        f"INSERT OVERWRITE {_place(table)} SELECT * FROM {_place(table)} WHERE NOT coalesce({_some(rng, table)}, false)"
    ]


def _replace_where(rng: random.Random, table: Table) -> list[str]:
    day = table["d"].literal(rng.randrange(DAYS))
    names = ", ".join("n + 1 AS n" if column.name == "n" else column.name for column in table.columns)
    return [f"INSERT INTO {_place(table)} REPLACE WHERE d = {day} SELECT {names} FROM {_place(table)} WHERE d = {day}"]


def _optimize(rng: random.Random, table: Table) -> list[str]:
    return [f"OPTIMIZE {_place(table)}"]


def _optimize_then_update(rng: random.Random, table: Table) -> list[str]:
    return [*_optimize(rng, table), *_update(rng, table)]


def _vacuum(rng: random.Random, table: Table) -> list[str]:
    return [*rng.choice((_update, _delete, _optimize))(rng, table), f"VACUUM {_place(table)} RETAIN 0 HOURS"]


def _restore(rng: random.Random, table: Table) -> list[str]:
    return [f"RESTORE {_place(table)} BACK {rng.randint(1, 3)}"]


def _change_and_restore(rng: random.Random, table: Table) -> list[str]:
    return [*_delete(rng, table), f"RESTORE {_place(table)} BACK 1"]


def _replace_table(rng: random.Random, table: Table) -> list[str]:
    """The table made anew, by other rows of the same columns."""
    head = table.statement.split("AS SELECT", 1)[0]
    rows = ", ".join(row(rng, table.columns) for _ in range(rng.randint(5, 15)))
    return [f"{head}AS SELECT * FROM VALUES {rows} AS t({_names(table)})"]


def _drop_and_create(rng: random.Random, table: Table) -> list[str]:
    created = rng.choice(([table.statement], _replace_table(rng, table)))
    return [f"DROP {_place(table)}", *created, *(_update(rng, table) if rng.random() < 0.6 else [])]


def _add_column(rng: random.Random, table: Table) -> list[str]:
    name = f"x{rng.randrange(100)}"
    return [
        f"ALTER TABLE {_place(table)} ADD COLUMN {name} INT",
        *([f"UPDATE {_place(table)} SET {name} = 1 WHERE {_some(rng, table)}"] if rng.random() < 0.5 else []),
    ]


def _property(_: random.Random, table: Table) -> list[str]:
    return [f"ALTER TABLE {_place(table)} SET TBLPROPERTIES ('team' = 'sales')"]


def _forget(rng: random.Random, table: Table) -> list[str]:
    return [*_update(rng, table), f"FORGET {_place(table)}"]


def _purge(rng: random.Random, table: Table) -> list[str]:
    return [*_delete(rng, table), f"REORG TABLE {_place(table)} APPLY (PURGE)"]


def _switch_feature(rng: random.Random, table: Table) -> list[str]:
    key = rng.choice(("delta.enableDeletionVectors", "delta.enableChangeDataFeed"))
    return [f"ALTER TABLE {_place(table)} SET TBLPROPERTIES ('{key}' = '{rng.choice(('true', 'false'))}')"]


def _swap_columns(rng: random.Random, table: Table) -> list[str]:
    """No file changes, and yet every row does: two columns trade their names."""
    of_kind = [c.name for c in table.columns if c.type == table["n"].type and c.name != "n"]
    other = rng.choice(of_kind) if of_kind else None
    renamed = [("n", "old_n"), ("old_n", "n")]
    if other is not None:
        renamed = [("n", "old_n"), (other, "n"), ("old_n", other)]
    return [f"ALTER TABLE {_place(table)} RENAME COLUMN {old} TO {new}" for old, new in renamed]


def _drop_and_add_column(_: random.Random, table: Table) -> list[str]:
    return [
        f"ALTER TABLE {_place(table)} DROP COLUMN n",
        f"ALTER TABLE {_place(table)} ADD COLUMN n {table['n'].type}",
    ]


def _rename(_: random.Random, table: Table) -> list[str]:
    """Until the next rename, queries that name the column fail."""
    return [f"ALTER TABLE {_place(table)} RENAME COLUMN n TO renamed_n"]


COMMON: Sequence[tuple[Change, int]] = (
    (_insert, 12),
    (_insert_null_day, 2),
    (_copy_rows, 2),
    (_update, 8),
    (_move, 6),
    (_update_nothing, 3),
    (_there_and_back, 2),
    (_delete, 6),
    (_delete_all, 1),
    (_merge, 4),
    (_overwrite, 2),
    (_replace_where, 3),
    (_optimize, 3),
    (_optimize_then_update, 2),
    (_vacuum, 3),
    (_restore, 3),
    (_change_and_restore, 2),
    (_replace_table, 1),
    (_drop_and_create, 1),
    (_add_column, 1),
    (_property, 1),
    (_forget, 1),
    (_purge, 1),
    (_switch_feature, 1),
)
MAPPED: Sequence[tuple[Change, int]] = ((_swap_columns, 3), (_drop_and_add_column, 1), (_rename, 1))


def change(rng: random.Random, table: Table) -> list[str]:
    """Random statements on a source."""
    among = [*COMMON, *(MAPPED if table.mapped else ())]
    return rng.choices([made for made, _ in among], [weight for _, weight in among])[0](rng, table)


def rename_back(table: Table) -> str:
    """Undo a rename."""
    return f"ALTER TABLE {_place(table)} RENAME COLUMN renamed_n TO n"


def on_target(rng: random.Random, target: str, columns: Sequence[Column]) -> list[str]:
    """What somebody else may do to a flow's target, inside and outside of its window."""
    place, day = f"{{{target}}}", columns[0]
    some = f"{day.name} = {literal(day.kind, rng.randrange(DAYS))}"
    if day.kind not in ("bool", "string") and rng.random() < 0.3:
        some = f"{day.name} >= {literal(day.kind, rng.randrange(6, DAYS))}"
    if rng.random() < 0.1:
        some = f"{day.name} IS NULL"
    other = rng.choice(columns)
    value = "NULL" if rng.random() < 0.3 else literal(other.kind, rng.randrange(6), rng)
    names = ", ".join(column.name for column in columns)
    row = ", ".join(
        "NULL" if rng.random() < 0.1 else literal(c.kind, rng.randrange(DAYS if i == 0 else 6), rng)
        for i, c in enumerate(columns)
    )
    options = [
        [f"INSERT INTO {place} ({names}) VALUES ({row})"],
        [f"INSERT INTO {place} ({names}) VALUES ({row})"],
        [f"UPDATE {place} SET {other.name} = {value} WHERE {some}"],
        [f"UPDATE {place} SET {other.name} = {other.name} WHERE {some}"],
        [f"DELETE FROM {place} WHERE {some}"],
        [f"DELETE FROM {place} WHERE {some}"],
        [f"DELETE FROM {place}"],
        [f"OPTIMIZE {place}"],
        [f"VACUUM {place} RETAIN 0 HOURS"],
        [f"RESTORE {place} BACK {rng.randint(1, 3)}"],
        [f"INSERT INTO {place} SELECT * FROM {place} WHERE {some}"],
        [f"DELETE FROM {place} WHERE {some}", f"RESTORE {place} BACK 1"],
        [f"ALTER TABLE {place} SET TBLPROPERTIES ('team' = 'sales')"],
    ]
    if rng.random() < 0.05:
        return [f"DROP {place}"]
    if rng.random() < 0.05:
        return [f"FORGET {place}"]
    return rng.choice(options)
