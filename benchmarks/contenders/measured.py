"""The frame in which every contender runs: the same tables, changes and comparison, in a Spark session of its own.

It needs pyspark and Delta only, so that it runs in a contender's own environment.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.meter import Meter
from benchmarks.places import WORK
from benchmarks.results import BY_HAND, Case
from benchmarks.sales import SHAPES, WINDOW, Changes, make, working_copy
from benchmarks.session import spark_session
from benchmarks.sides import Side, by_hand, measured_in_turn, require_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUT = "partitioned"
SHAPE = replace(SHAPES["totals"], partitioned_by=("day",))
CHANGED = "1 of 30 days"

MakeSide = Callable[["SparkSession", Path], Side]
"""From the session and the folder of the tables to the contender; its first refresh has no target yet."""


def compete(name: str, make_side: MakeSide) -> None:
    """Measure a contender against the window overwritten by hand, and write the case where the command line says."""
    parser = argparse.ArgumentParser(description=f"{name} against overwriting the window by hand.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file for the case")
    options = parser.parse_args()
    root = WORK / f"contender-{options.rows}"
    warehouse = WORK / "warehouse"
    shutil.rmtree(warehouse, ignore_errors=True)
    spark = spark_session(spark__sql__warehouse__dir=str(warehouse))
    root = working_copy(make(spark, options.rows, LAYOUT), root)
    sides = {
        name: make_side(spark, root),
        BY_HAND: by_hand(spark, SHAPE.by_hand(root), WINDOW, root / "by_hand", SHAPE.partitioned_by),
    }
    meter, changes = Meter(spark), Changes(spark, root, options.rows, LAYOUT)
    case = Case(name, {"changed": CHANGED})
    for side in sides.values():
        side.refresh()
    for turn in range(-1, options.turns):
        changes.late_sales(1)
        works = measured_in_turn(meter, sides, turn)
        require_same(spark, sides[name].target, sides[BY_HAND].target, f"{name}, turn {turn}")
        if turn >= 0:
            case.turns.append(works)
    print(case.line(), flush=True)
    options.out.write_text(json.dumps(case.to_json()))
    spark.stop()
    shutil.rmtree(root)
