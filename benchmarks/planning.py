"""What planning costs as the ledger grows: ``python -m benchmarks.planning [--runs N …] [--boxes N …]``.

A flow has run N times over a window that moves by one step each time, in B boxes (a range of days for each of B
regions). All is measured through the ledger in an SQLite file, without Spark:

* ``first fold``: the coverage of a ledger of which no fold is kept yet; it is kept then
* ``fold``: the coverage while as many reports came after the kept fold as there may be before it is kept anew
* ``decide``: from that coverage's JSON to the decision of a run whose window moved once more
* ``plan``: fold and decide together, the median of 15; ``best``: the quickest of them, for a machine that is not idle
* ``document``: the coverage as it goes along with a request
* ``peak``: memory that Python held at most during the first fold
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from airflow_provider_replacewhere.history.coverage import KEEP_AFTER
from airflow_provider_replacewhere.history.database import Database
from airflow_provider_replacewhere.history.records import Event
from airflow_provider_replacewhere.history.rows import row_of
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.history.tables import counter, coverage, events
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin
from airflow_provider_replacewhere.planning.decide import Decision, Facts, Reason, SourceChange, decide
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.predicates import Region
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.predicates.values import Values

DAY, TEXT = Domain.of("date"), Domain.of("string")
WINDOW_DAYS = 30
TARGET = "warehouse.daily_revenue"
T = TypeVar("T")


def window(step: int, boxes: int) -> Region:
    """30 days; with several boxes, of each region other days, so that they cannot be joined."""
    if boxes == 1:
        return Region.of(("day",), Values.of(DAY, [(step, step + WINDOW_DAYS)]))
    region = Region.empty()
    for number in range(boxes):
        days = Region.of(("day",), Values.of(DAY, [(step + number % 7, step + WINDOW_DAYS + number % 5)]))
        region = region.union(
            days.intersect(Region.of(("region",), Values.of(TEXT, [(f"r{number:03}", f"r{number:03}~")])))
        )
    return region


def entry(step: int, region: Region) -> Entry:
    return Entry(
        region=region,
        bound=region.hull(64),
        proves=True,
        definition_hash="5f2c" * 16,
        sources={f"warehouse.source_{n}": Pin(step, "3f0c7a3e-6e0d-4a53-9a56-0d5f3f6f8f1b") for n in range(3)},
        run_id=f"scheduled__{step}/daily_revenue",
        target_version=step,
        target_id="9b1d7a3e-6e0d-4a53-9a56-0d5f3f6f8f1b",
        since=step - 1,
    )


def report(step: int, region: Region) -> RunReport:
    sql = region.to_sql()
    return RunReport(
        flow="daily_revenue", target=TARGET, run_id=f"scheduled__{step}/daily_revenue", mode=Mode.INCREMENTAL,
        reasons=({"reason": "WINDOW_WIDENED", "newly_exposed": sql},), window=sql, replaced=sql,
        as_of="2026-03-10T00:00:00+00:00", time_zone="UTC", predicate="day >= date_sub(current_date(), 30)",
        override=False, definition_hash="5f2c" * 16, source_versions={f"warehouse.source_{n}": step for n in range(3)},
        target_version=step, rows_deleted=1, rows_written=1, rows_unchanged=None, bytes_written=1,
        planning_information={"technique_information": []}, token="0" * 64, started_at="", finished_at="",
        coverage=entry(step, region).to_json(),
    )  # fmt: skip


def fill(url: str, first: int, end: int, boxes: int) -> None:
    """Record many runs at once: the store's own way takes a transaction for each."""
    now = datetime.now(UTC)
    with Database(url).writing() as connection:
        for steps in batched(range(first, end), 1_000):
            moved = [Event.of_report(report(step, window(step, boxes))) for step in steps]
            rows = [row_of(event, step + 1, now) for step, event in zip(steps, moved, strict=True)]
            connection.execute(events.insert(), rows)
        connection.execute(counter.update().values(last=end))


def batched(steps: range, size: int) -> Iterator[range]:
    for start in range(0, len(steps), size):
        yield steps[start : start + size]


def timed(do: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = do()
    return result, time.perf_counter() - started


def measure(runs: int, boxes: int, *, memory: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'history.db'}"
        store = HistoryStore(url)
        store.migrate()
        fill(url, 0, runs, boxes)
        _, first = timed(lambda: store.coverage([TARGET]))
        fill(url, runs, runs + KEEP_AFTER, boxes)
        next_window = window(runs + KEEP_AFTER, boxes)
        folds, decisions = [], []
        for _ in range(15):
            documents, fold_seconds = timed(lambda: store.coverage([TARGET]))
            text = json.dumps(documents[TARGET])
            decision, decide_seconds = timed(lambda: plan(text, runs + KEEP_AFTER, next_window))  # noqa: B023
            folds.append(fold_seconds)
            decisions.append(decide_seconds)
        assert not decision.fresh.is_empty
        fold, decided = statistics.median(folds), statistics.median(decisions)
        plans = [a + b for a, b in zip(folds, decisions, strict=True)]
        size = (Path(folder) / "history.db").stat().st_size
        peak = peak_of(url) if memory else None
    return [
        f"{runs:,}", f"{boxes}", f"{first:,.2f} s", f"{fold * 1e3:,.1f} ms", f"{decided * 1e3:,.1f} ms",
        f"{statistics.median(plans) * 1e3:,.1f} ms", f"{min(plans) * 1e3:,.1f} ms",
        f"{len(text) / 1024:,.0f} KiB", f"{size / 2**20:,.0f} MiB",
        "" if peak is None else f"{peak / 2**20:,.1f} MiB",
    ]  # fmt: skip


def plan(text: str, step: int, region: Region) -> Decision:
    """As the driver does, sources unchanged since a few runs."""
    pins = {f"warehouse.source_{n}": Pin(step, "3f0c7a3e-6e0d-4a53-9a56-0d5f3f6f8f1b") for n in range(3)}
    coverage = Coverage.from_json(json.loads(text))
    return decide(
        Facts(
            window=region.to_sql(),
            region=region,
            definition_hash="5f2c" * 16,
            pins=pins,
            target_id=coverage.target_id,
            target_version=step,
            coverage=coverage,
            previous={"evaluated": {}},
            changes=lambda name, before: (
                None if step - before[name].version < 10 else SourceChange(Reason.SOURCE_CHANGED)
            ),
        )
    )


def peak_of(url: str) -> int:
    """A first fold once more, watched; slow, so it is not the one that is timed."""
    with Database(url).writing() as connection:
        connection.execute(coverage.delete())
    tracemalloc.start()
    HistoryStore(url).coverage([TARGET])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description="What planning costs as the ledger grows.")
    parser.add_argument("--runs", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--boxes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--memory-up-to", type=int, default=10_000, help="watch memory up to so many runs")
    options = parser.parse_args()
    head = ["runs", "boxes", "first fold", "fold", "decide", "plan", "best", "document", "ledger", "peak"]
    print("".join(f"{name:>12}" for name in head))
    for boxes in options.boxes:
        for runs in options.runs:
            cells = measure(runs, boxes, memory=runs <= options.memory_up_to)
            print("".join(f"{cell:>12}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
