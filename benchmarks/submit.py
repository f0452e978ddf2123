"""A whole run, ``spark-submit`` included, against a hand-written script submitted the same way.

``python -m benchmarks.submit [--rows N …]``. Sources, targets and turns are as in :mod:`benchmarks.incremental`; a step
is the process from its start to its end, and of ours the look for which no process is started. What Airflow itself does
before and after is the same for both and left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.meter import Work
from benchmarks.places import WORK
from benchmarks.results import BY_HAND, OURS, Case, write
from benchmarks.sales import AS_OF, SHAPES, WINDOW, Changes, Shape, make, working_copy
from benchmarks.session import SETTINGS, spark_session
from benchmarks.sides import by_hand, require_same

if TYPE_CHECKING:
    from airflow_provider_replacewhere.history.store import HistoryStore

SCRIPT = Path(__file__).parent / "window_by_hand.py"
LAYOUT = "ordered"


class SubmitFailedError(Exception):
    """A submitted application failed; the message is the end of what it said."""


def cases(changes: Changes) -> dict[str, tuple[str, Callable[[], str]]]:
    """By case: our refresh policy, and what changes before each turn."""
    return {
        "the same window": ("full", partial(changes.late_sales, 1)),
        "30 of 30 days": ("auto", partial(changes.late_sales, 30)),
        "1 of 30 days": ("auto", partial(changes.late_sales, 1)),
        "nothing": ("auto", changes.nothing),
    }


def submit(arguments: list[str]) -> Work:
    """Run ``spark-submit`` once.

    :raises SubmitFailedError: it ended with another status than 0
    """
    program = Path(sys.executable).parent / "spark-submit"
    conf = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [str(program), *conf, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SubmitFailedError("\n".join((done.stdout + done.stderr).splitlines()[-30:]))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Work(seconds=seconds, cpu_seconds=cpu)


def submit_flow(store: HistoryStore, root: Path, shape: Shape, policy: str) -> Work:
    """One run as the operator does it: a look without Spark; then, unless that proves everything fresh, the request
    goes as a file, the code as an archive, and the outcome comes from a file."""
    from airflow_provider_replacewhere.operators.lake import WorkerLake
    from airflow_provider_replacewhere.operators.package import code_package
    from airflow_provider_replacewhere.planning.quick_look import quick_look
    from airflow_provider_replacewhere.planning.report import JobOutcome
    from airflow_provider_replacewhere.planning.request import RunRequest
    from airflow_provider_replacewhere.planning.table_log import InDoubtError
    from airflow_provider_replacewhere.text import Document

    code = code_package()
    exchange = root / "_exchange"
    exchange.mkdir(exist_ok=True)
    request_file, report_file = exchange / "request.json", exchange / "report.json"
    request = RunRequest(
        run_id=uuid.uuid4().hex,
        as_of=AS_OF,
        documents=(Document("flow.sql", shape.flow()),),
        refresh_policy=policy,
        root=str(root),
        previous=store.last_successful([shape.target]),
        coverage=store.coverage([shape.target]),
        report_uri=report_file.as_uri(),
        fingerprint="the same in every turn",
    )
    request_file.write_text(request.to_json())
    started, cpu_started = time.perf_counter(), time.process_time()
    try:
        outcome = quick_look(request, WorkerLake(str(root), is_remote=False))
    except InDoubtError:
        outcome = None
    looked = Work(time.perf_counter() - started, time.process_time() - cpu_started, mode="NO_OP without Spark")
    if outcome is not None:
        store.record_outcome(outcome)
        return looked
    files = ["--files", str(request_file), "--py-files", str(code.archive)]
    submitted = submit([*files, str(code.application), request_file.name])
    outcome = JobOutcome.from_json(report_file.read_text())
    outcome.raise_for_failure()
    store.record_outcome(outcome)
    return replace(
        submitted,
        seconds=looked.seconds + submitted.seconds,
        cpu_seconds=(looked.cpu_seconds or 0) + (submitted.cpu_seconds or 0),
        mode=str(outcome.reports[0].mode),
    )


def submit_script(root: Path, shape: Shape, target: Path) -> Work:
    """The hand-written script once."""
    return replace(submit([str(SCRIPT), str(target), WINDOW, shape.by_hand(root)]), mode="window")


def measure(rows: int, turns: int, wanted: frozenset[str]) -> list[Case]:
    """All cases over one copy of the tables."""
    from airflow_provider_replacewhere.history.place import beside
    from airflow_provider_replacewhere.history.store import HistoryStore

    # It changes the tables and compares the targets; while an application runs, it only waits.
    spark = spark_session(spark__driver__memory="2g")
    shape = SHAPES["totals"]
    root = working_copy(make(spark, rows, LAYOUT), WORK / f"submit-{rows}")
    theirs = by_hand(spark, shape.by_hand(root), WINDOW, root / "by_hand").target
    store, changes, found = HistoryStore(beside(str(root))), Changes(spark, root, rows, LAYOUT), []
    for name, (policy, change) in cases(changes).items():
        if wanted and name not in wanted:
            continue
        case = Case(name, {"layout": LAYOUT, "target": shape.target})
        sides: dict[str, Callable[[], Work]] = {
            OURS: partial(submit_flow, store, root, shape, policy),
            BY_HAND: partial(submit_script, root, shape, theirs),
        }
        for turn in range(-1, turns):
            change()
            order = list(sides) if turn % 2 == 0 else list(reversed(sides))
            works = {side: sides[side]() for side in order}
            require_same(spark, root / shape.target, theirs, f"{name}, turn {turn}")
            if turn >= 0:
                case.turns.append({side: works[side] for side in sides})
        found.append(case)
        print(case.line(), flush=True)
    spark.stop()
    shutil.rmtree(root)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="A whole run against a hand-written script submitted the same way.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--turns", type=int, default=5, help="how often each case is measured")
    parser.add_argument("--cases", nargs="+", default=[], help="only these")
    options = parser.parse_args()
    for rows in options.rows:
        print(write("submit", rows, measure(rows, options.turns, frozenset(options.cases))))


if __name__ == "__main__":
    main()
