"""A flow against overwriting its whole window by hand: ``python -m benchmarks.incremental [--rows N …]``.

90 days of sales, of which the last 30 are the window. Both sides have a target of their own over the same sources, in
one Spark session. A turn is: something changes in the sources, then each side refreshes its target, then the targets
are compared. The first turns of a case are not counted. Tables are as :mod:`benchmarks.sales` makes them.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.meter import Meter
from benchmarks.places import WORK
from benchmarks.results import BY_HAND, OURS, Case, write
from benchmarks.sales import AS_OF, LAYOUTS, SHAPES, WINDOW, Changes, Shape, make, working_copy
from benchmarks.session import spark_session
from benchmarks.sides import by_hand, measured_in_turn, ours, require_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UP = 1
"""Turns of each case that are not counted."""
WARM_UP_OF_SESSION = 3
"""Refreshes of a day before the first case: until then the JVM is still compiling what both sides do."""


def cases(changes: Changes) -> dict[str, Callable[[], str]]:
    """What changes between two refreshes, by case; those that leave traces in every later case come last."""
    return {
        "nothing": changes.nothing,
        "1 of 30 days": partial(changes.late_sales, 1),
        "3 of 30 days": partial(changes.late_sales, 3),
        "10 of 30 days": partial(changes.late_sales, 10),
        "a seasonal product": changes.seasonal_product,
        "a lasting product": changes.lasting_product,
        "30 of 30 days": partial(changes.late_sales, 30),
        "1 % of all rows": changes.sales_everywhere,
    }


def measure(
    spark: SparkSession, rows: int, layout: str, shape: Shape, turns: int, wanted: frozenset[str]
) -> list[Case]:
    """All cases over one copy of the tables, which grows by what each case adds."""
    from airflow_provider_replacewhere.local import LocalSession

    root = working_copy(make(spark, rows, layout), WORK / f"sales-{rows}-{layout}")
    session = LocalSession(spark, root=root)
    sides = {
        OURS: ours(session, shape.flow(), root, shape.target, AS_OF),
        BY_HAND: by_hand(spark, shape.by_hand(root), WINDOW, root / "by_hand", shape.partitioned_by),
    }
    meter, changes, found = Meter(spark), Changes(spark, root, rows, layout), []
    settings = {"layout": layout, "target": shape.target}
    for turn in range(1 + WARM_UP_OF_SESSION):
        for side in sides.values():
            side.refresh()
        if turn < WARM_UP_OF_SESSION:
            changes.late_sales(1)
    for name, change in cases(changes).items():
        if wanted and name not in wanted:
            continue
        case = Case(name, settings)
        for turn in range(-WARM_UP, turns):
            change()
            measured = measured_in_turn(meter, sides, turn)
            require_same(spark, sides[OURS].target, sides[BY_HAND].target, f"{name}, turn {turn}")
            if turn >= 0:
                case.turns.append(measured)
        found.append(case)
        print(case.line(), flush=True)
    shutil.rmtree(root)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="A flow against overwriting its whole window by hand.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["totals"])
    parser.add_argument("--turns", type=int, default=5, help="how often each case is measured")
    parser.add_argument("--cases", nargs="+", default=[], help="only these")
    options = parser.parse_args()
    spark = spark_session()
    for rows in options.rows:
        found = [
            case
            for shape in options.shapes
            for layout in options.layouts
            for case in measure(spark, rows, layout, SHAPES[shape], options.turns, frozenset(options.cases))
        ]
        print(write("incremental", rows, found))
    spark.stop()


if __name__ == "__main__":
    main()
