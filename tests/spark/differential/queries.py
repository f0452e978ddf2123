"""Random queries over the sources: a shape, and layers around it."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tests.spark.differential import of_joins, of_one_table, of_several  # noqa: F401 (they fill SHAPES)
from tests.spark.differential.columns import Column, literal
from tests.spark.differential.sources import Table
from tests.spark.differential.writer import SHAPES, Query, Writer


def _around(w: Writer, query: Query) -> Query:
    """A layer on top of a query."""
    day, names = query.columns[0].name, query.names
    others = [column.name for column in query.columns[1:]]
    kind = w.rng.choice(("filter", "cte", "distinct", "group", "rank", "in_days", "union", "subselect"))
    inner, columns = f"({query.sql}) q", query.columns
    match kind:
        case "filter":
            bound = literal(query.columns[0].kind, w.number())
            condition = w.pick(f"q.{day} >= {bound}", f"q.{day} < {bound}", f"q.{day} IS NOT NULL OR true")
            sql = f"SELECT {names} FROM {inner} WHERE {condition}"
        case "cte":
            sql = f"WITH q AS ({query.sql}) SELECT {names} FROM q"
        case "distinct":
            sql = f"SELECT DISTINCT {names} FROM {inner}"
        case "group":
            sql = f"SELECT {day}, count(*) AS rows FROM {inner} GROUP BY {day}"
            columns = (query.columns[0], Column("rows", "int"))
        case "rank":
            by = w.pick(f"PARTITION BY q.{day} ", f"PARTITION BY q.{others[0]} ", "")
            sql = f"SELECT {names}, dense_rank() OVER ({by}ORDER BY {names}) AS dr FROM {inner}"
            columns = (*query.columns, Column("dr", "int"))
        case "in_days":
            negated = w.pick("", "NOT ")
            kind_of_day = w.tables["events"].kind("d")
            if query.columns[0].kind != kind_of_day:
                return query
            sql = f"SELECT {names} FROM {inner} WHERE {negated}EXISTS (SELECT 1 FROM {{events}} z WHERE z.d = q.{day})"
        case "union":
            sql = f"WITH q AS ({query.sql}) SELECT {names} FROM q UNION ALL SELECT {names} FROM q WHERE {day} IS NULL"
        case _:
            sql = f"SELECT {names} FROM (SELECT * FROM {inner}) r"
    return Query(sql, tuple(columns), f"{query.label}+{kind}")


def query(rng: random.Random, tables: Mapping[str, Table], near: tuple[int, ...], shape: str | None = None) -> Query:
    """A random query.

    :param near: days that the query's own literals prefer
    :param shape: its shape; any by default
    """
    writer = Writer(rng, tables, near)
    name = shape or rng.choice(list(SHAPES))
    sql, columns = SHAPES[name](writer)
    found = Query(" ".join(sql.split()), tuple(columns), name)
    while rng.random() < 0.25 and found.label.count("+") < 2:
        found = _around(writer, found)
    return found


def over_target(rng: random.Random, target: str, upstream: Query) -> Query:
    """A query over another flow's target."""
    day, *others = upstream.columns
    if rng.random() < 0.5 or not others:
        sql = f"SELECT u.{day.name}, count(*) AS rows FROM {{{target}}} u GROUP BY u.{day.name}"
        return Query(sql, (day, Column("rows", "int")), "over_a_target")
    chosen = rng.choice(others)
    sql = (
        f"SELECT u.{day.name}, u.{chosen.name}, x.times FROM {{{target}}} u LEFT JOIN "
        f"(SELECT {chosen.name} AS v, count(*) AS times FROM {{{target}}} GROUP BY {chosen.name}) x "
        f"ON x.v = u.{chosen.name}"
    )
    return Query(sql, (day, chosen, Column("times", "int")), "over_a_target_twice")
