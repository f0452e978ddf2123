"""A warehouse load in batches, by flows and by overwriting every window by hand: ``python -m benchmarks.warehouse``.

Half a year of history, then a batch every morning; after each batch, both sides bring six targets up to date, whose
window is the last 30 or 90 days: see :mod:`benchmarks.warehouse_tables`. After each, all targets are compared.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.meter import Meter, Work
from benchmarks.places import WORK
from benchmarks.results import BY_HAND, OURS, Case, write
from benchmarks.sales import working_copy
from benchmarks.session import spark_session
from benchmarks.sides import by_hand, require_same
from benchmarks.warehouse_tables import FLOWS, WINDOWS, Batches, Size, make, pipeline
from benchmarks.warehouse_tables import by_hand as query_by_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = ("few change", "many change")


def changed_in(case: str, size: Size) -> int:
    """How many customers, and how many accounts, change with each batch: three, or one in a thousand."""
    return 3 if case == "few change" else max(3, size.customers // 1_000)


class Load:
    """Both sides over one copy of the tables.

    :param days: of the flows' windows
    :param flows: seconds and modes of each flow, a row for each flow and batch
    """

    def __init__(self, spark: SparkSession, size: Size, changed: int, days: int) -> None:
        from airflow_provider_replacewhere.flows.sql import parse_sql
        from airflow_provider_replacewhere.local import LocalSession

        self.spark, self.meter, self.days = spark, Meter(spark), days
        self.root = working_copy(make(spark, size), WORK / f"warehouse-{size.trades}")
        self.targets = self.root / "by_hand"
        self.batches = Batches(spark, self.root, size, changed)
        self.flows: list[dict[str, Any]] = []
        self._session, self._pipeline = LocalSession(spark, root=self.root), parse_sql(pipeline(days))
        self._seconds: dict[str, dict[str, float]] = {}
        self._modes: dict[str, str] = {}

    def turn(self, number: int) -> dict[str, Work]:
        """One batch; -1 is the first run, over the history alone."""
        as_of = self.batches.as_of(number)
        sides: dict[str, tuple[Callable[[], str], list[Path]]] = {
            OURS: (lambda: self._ours(as_of), [self.root / flow.target for flow in FLOWS]),
            BY_HAND: (lambda: self._by_hand(as_of), [self.targets / flow.target for flow in FLOWS]),
        }
        order = list(sides) if number % 2 == 0 else list(reversed(sides))
        works = {side: self.meter.measure(sides[side][0], *sides[side][1]) for side in order}
        for flow in FLOWS:
            require_same(self.spark, self.root / flow.target, self.targets / flow.target, f"batch {number}")
            seconds = {side: self._seconds[side][flow.target] for side in sides}
            self.flows.append({"batch": number, "target": flow.target, "mode": self._modes[flow.target], **seconds})
        return {side: works[side] for side in sides}

    def _ours(self, as_of: datetime) -> str:
        reports = self._session.run(self._pipeline, as_of=as_of)
        instant = datetime.fromisoformat
        self._seconds[OURS] = {
            report.target: (instant(report.finished_at) - instant(report.started_at)).total_seconds()
            for report in reports
        }
        self._modes = {report.target: str(report.mode) for report in reports}
        return ", ".join(f"{count} {mode}" for mode, count in sorted(Counter(self._modes.values()).items()))

    def _by_hand(self, as_of: datetime) -> str:
        window = f"day >= DATE'{as_of.date() - timedelta(days=self.days)}'"
        self._seconds[BY_HAND] = {}
        for flow in FLOWS:
            query, target = query_by_hand(flow, self.root, self.targets), self.targets / flow.target
            started = time.perf_counter()
            if target.exists():
                rows = self.spark.sql(query).where(window)
                rows.write.format("delta").mode("overwrite").option("replaceWhere", window).save(str(target))
            else:
                by_hand(self.spark, query, window, target, flow.partitioned_by).refresh()
            self._seconds[BY_HAND][flow.target] = time.perf_counter() - started
        return f"{len(FLOWS)} windows"


def measure(spark: SparkSession, size: Size, name: str, days: int, batches: int) -> tuple[Case, list[dict[str, Any]]]:
    """All batches, one after another, after a first run over the history that is not counted."""
    changed = changed_in(name, size)
    case = Case(f"{name}, {days} days", {"changed": changed, "window_days": days})
    load = Load(spark, size, changed, days)
    load.turn(-1)
    load.flows.clear()
    for number in range(batches):
        load.batches.load(number)
        case.turns.append(load.turn(number))
        works = case.turns[-1]
        print(
            f"{case.name}, batch {number + 1}: "
            + ", ".join(f"{side} {work.seconds:.1f} s ({work.mode})" for side, work in works.items()),
            flush=True,
        )
    print(case.line(), flush=True)
    shutil.rmtree(load.root)
    return case, [{"case": case.name, **flow} for flow in load.flows]


def main() -> None:
    parser = argparse.ArgumentParser(description="A warehouse load in batches, by flows and by hand.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000], help="trades in the history")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--days", type=int, nargs="+", default=list(WINDOWS), help="of the flows' windows")
    options = parser.parse_args()
    spark = spark_session()
    for rows in options.rows:
        measured = [
            measure(spark, Size(rows), name, days, options.batches) for days in options.days for name in options.cases
        ]
        flows = [flow for _, of_case in measured for flow in of_case]
        print(write("warehouse", rows, [case for case, _ in measured], flows=flows))
    spark.stop()


if __name__ == "__main__":
    main()
