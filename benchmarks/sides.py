"""The two sides of a comparison: a flow of this package, and the same window overwritten by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.meter import Meter, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_replacewhere.local import LocalSession


class DifferentTablesError(Exception):
    """The two sides did not make the same table, so that their times mean nothing."""


@dataclass(frozen=True)
class Side:
    """One way to bring a target up to date.

    :param refresh: does it, and says what it did
    """

    target: Path
    refresh: Callable[[], str]


def ours(session: LocalSession, pipeline: str, root: Path, target: str, as_of: datetime) -> Side:
    """The flow, run by the code that the Spark job runs, with its ledger beside the tables."""
    from airflow_provider_replacewhere.flows.sql import parse_sql

    parsed = parse_sql(pipeline)

    def refresh() -> str:
        (report,) = session.run(parsed, as_of=as_of)
        return str(report.mode)

    return Side(root / target, refresh)


def by_hand(spark: SparkSession, query: str, window: str, target: Path, partitioned_by: tuple[str, ...] = ()) -> Side:
    """The script that an engineer would write: the query, cut to the window, over the window.

    The target is made first, as no window can be replaced in a table that does not exist.
    """
    spark.sql(query).limit(0).write.format("delta").partitionBy(*partitioned_by).save(str(target))

    def refresh() -> str:
        rows = spark.sql(query).where(window)
        rows.write.format("delta").mode("overwrite").option("replaceWhere", window).save(str(target))
        return "window"

    return Side(target, refresh)


def measured_in_turn(meter: Meter, sides: dict[str, Side], turn: int) -> dict[str, Work]:
    """Measure each side once; the side that begins changes with every turn, so that neither gains by what the other
    has just read."""
    names = list(sides) if turn % 2 == 0 else list(reversed(sides))
    found = {name: meter.measure(sides[name].refresh, sides[name].target) for name in names}
    return {name: found[name] for name in sides}


def require_same(spark: SparkSession, one: Path, other: Path, when: str) -> None:
    """:raises DifferentTablesError: the tables differ in a column, in a row, or in how often they have one"""
    frames = [spark.read.format("delta").load(str(path)) for path in (one, other)]
    frames[1] = frames[1].select(*frames[0].columns)
    if frames[0].dtypes != frames[1].dtypes:
        raise DifferentTablesError(f"{when}: the columns are {frames[0].dtypes} and {frames[1].dtypes}.")
    # Hashes of all rows, added up, need one look at each table; which rows differ is asked only when some do.
    if len({frame.selectExpr("count(*)", ROWS_AS_ONE_NUMBER).collect()[0] for frame in frames}) > 1:
        lacking = frames[0].exceptAll(frames[1]).count(), frames[1].exceptAll(frames[0]).count()
        raise DifferentTablesError(
            f"{when}: {lacking[0]} rows are in {one.name} only, and {lacking[1]} in {other.name} only."
        )


ROWS_AS_ONE_NUMBER = "sum(CAST(xxhash64(*) AS DECIMAL(38,0)))"
