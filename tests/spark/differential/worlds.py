"""A random script from one number."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from tests.spark.differential import dml
from tests.spark.differential.columns import DAYS, Column, literal
from tests.spark.differential.queries import over_target, query
from tests.spark.differential.script import POINTS, Flow, Form, Script, Step, places
from tests.spark.differential.sources import Table, sources
from tests.spark.differential.windows import Window, window
from tests.spark.differential.writer import SHAPES, Query

FLOWS = 5
STEPS = 6
# How many of the runs die.
_DEADLY = 0.1


def world(
    seed: int, number: int, *, flows: int = FLOWS, steps: int = STEPS, shapes: Collection[str] = SHAPES
) -> Script:
    """The script of one world; the same for the same numbers.

    Shapes take turns over the worlds of a seed, so that a few worlds have seen all of them.

    :param shapes: the shapes of queries to choose from
    """
    rng = random.Random(f"{seed}/{number}")
    tables = sources(rng)
    order = list(shapes)
    random.Random(seed).shuffle(order)
    views: dict[str, str] = {}
    made: list[Flow] = []
    queries: list[Query] = []
    for index in range(flows):
        near = _near(rng)
        if queries and index == flows - 1 and queries[-1].columns[0].kind != "bool" and rng.random() < 0.4:
            found = over_target(rng, made[-1].target, queries[-1])
        else:
            found = query(rng, tables, near, order[(number * flows + index) % len(order)])
        if rng.random() < 0.1 and "{t" not in found.sql and "{today}" not in found.sql:
            view = f"v{index}"
            views[view] = found.sql
            found = replace(found, sql=f"SELECT {found.names} FROM {{{view}}}", label=f"{found.label}+view")
        queries.append(found)
        made.append(_flow(rng, f"t{index}", found, near))
    return Script(
        tables={table.name: table.statement for table in tables.values()},
        flows=tuple(made),
        steps=tuple(_steps(rng, tables, made, queries, steps)),
        time_zone=rng.choices(("UTC", "America/New_York", "Asia/Kolkata"), (8, 1, 1))[0],
        views=views,
    )


def _near(rng: random.Random) -> tuple[int, ...]:
    low = rng.randrange(1, DAYS - 5)
    return (low, min(low + rng.randint(3, 7), DAYS))


def _flow(rng: random.Random, target: str, found: Query, near: tuple[int, ...]) -> Flow:
    first = window(rng, found.columns, near)
    forms = [_form(found.sql, first)]
    moved = first
    for _ in range(rng.choice((0, 1, 2, 3))):
        moved = moved.moved(rng)
        forms.append(_form(found.sql, moved))
    if rng.random() < 0.4:
        column = rng.choice(found.columns)
        condition = f"q.{column.name} IS NOT NULL OR q.{found.columns[0].name} IS NOT NULL"
        if rng.random() < 0.6:
            condition = f"q.{column.name} <> {column.literal(rng.randrange(4))}"
        forms.append(_form(f"SELECT {found.names} FROM ({found.sql}) q WHERE {condition}", first))
    return Flow(
        target=target,
        forms=tuple(forms),
        clauses=_clauses(rng, found.columns),
        properties=_properties(rng),
        null_keys=rng.choices(("drop", "include", "fail"), (5, 4, 2))[0],
        expectation=_expectation(rng, found.columns),
        label=found.label,
    )


def _form(sql: str, chosen: Window) -> Form:
    return Form(sql, chosen.sql, chosen.keys)


def _clauses(rng: random.Random, columns: Sequence[Column]) -> str:
    day = columns[0]
    if len(columns) > 1 and rng.random() < 0.4:
        return f"PARTITIONED BY ({day.name})"
    if len(columns) > 2 and rng.random() < 0.15:
        return f"PARTITIONED BY ({day.name}, {columns[1].name})"
    return f"CLUSTER BY ({day.name})" if day.kind != "bool" and rng.random() < 0.15 else ""


def _properties(rng: random.Random) -> dict[str, str]:
    found = {}
    if rng.random() < 0.3:
        found["delta.enableDeletionVectors"] = "true"
    if rng.random() < 0.1:
        found["delta.enableChangeDataFeed"] = "true"
    if rng.random() < 0.1:
        found["delta.columnMapping.mode"] = "name"
    return found


def _expectation(rng: random.Random, columns: Sequence[Column]) -> tuple[str, str] | None:
    if rng.random() > 0.15:
        return None
    column = rng.choice(columns)
    condition = f"{column.name} IS NOT NULL"
    if column.kind in ("int", "dec") and rng.random() < 0.6:
        condition = f"{column.name} < {literal(column.kind, rng.randrange(3, 8))}"
    return condition, rng.choice(("", "DROP ROW", "DROP ROW", "FAIL UPDATE", "FAIL UPDATE"))


def _steps(
    rng: random.Random, tables: dict[str, Table], flows: Sequence[Flow], queries: Sequence[Query], count: int
) -> list[Step]:
    steps = [Step(policy=rng.choice(("incremental", "auto")))]
    day, forms = 10, [0] * len(flows)
    renamed: list[Table] = []
    # A table counts as often as it is read, so that few runs have nothing to do.
    busy = [tables[name] for query in queries for name in places(query.sql) if name in tables] or [tables["facts"]]
    for _ in range(count - 1):
        changes = [dml.rename_back(table) for table in renamed]
        renamed = []
        for _ in range(rng.choices((0, 1, 2, 3), (1, 12, 3, 1))[0]):
            table = rng.choice(busy)
            if table not in renamed:
                changes += dml.change(rng, table)
                renamed += [table] if "renamed_n" in changes[-1] else []
        if rng.random() < 0.3:
            chosen = rng.randrange(len(flows))
            changes += dml.on_target(rng, flows[chosen].target, queries[chosen].columns)
        if rng.random() < 0.25:
            day += rng.choice((1, 1, 1, 2, -1))
        for number, flow in enumerate(flows):
            if rng.random() < 0.12:
                forms[number] = rng.randrange(len(flow.forms))
        steps.append(
            Step(
                changes=tuple(changes),
                day=day,
                policy=rng.choices(("incremental", "auto", "full", "incremental_strict"), (20, 4, 1, 1))[0],
                forms=tuple(forms),
                overrides=_overrides(rng, flows, queries),
                full_refresh=(rng.choice(flows).target,) if rng.random() < 0.03 else (),
                select=(rng.choice(flows[:-1]).target,) if rng.random() < 0.05 and len(flows) > 1 else (),
            )
        )
    return _dying([_consistent(step) for step in steps])


def _dying(steps: list[Step]) -> list[Step]:
    """Some runs die; which, the rest of the steps decides. The last one lives, to show what became of the others."""
    rng = random.Random(repr(steps))
    return [
        *(
            replace(step, dies=f"{rng.choice(POINTS)} {rng.randint(1, 3)}") if rng.random() < _DEADLY else step
            for step in steps[:-1]
        ),
        steps[-1],
    ]


def _overrides(
    rng: random.Random, flows: Sequence[Flow], queries: Sequence[Query]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    if rng.random() > 0.12:
        return {}
    number = rng.randrange(len(flows))
    chosen = window(rng, queries[number].columns, _near(rng))
    return {flows[number].target: (chosen.sql, chosen.keys)}


def _consistent(step: Step) -> Step:
    """A flow has either an override or a full refresh, and is selected where it has one."""
    overrides = {t: o for t, o in step.overrides.items() if t not in step.full_refresh}
    named = {*overrides, *step.full_refresh}
    select = step.select if named <= set(step.select) else ()
    return replace(step, overrides=overrides, select=select)
