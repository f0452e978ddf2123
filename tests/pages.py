"""A ledger with everything that a page shows: filled by the calls that runs make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow_provider_replacewhere.history.leases import Claim, Granted
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.chunking import Chunk
from airflow_provider_replacewhere.planning.coverage import Entry, Pin
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.history import failure, report

TYPES = {"ride_date": "date", "city": "string"}
COUNTS = ("rows_deleted", "rows_written", "bytes_written")
LAST_DAY = date(2026, 3, 20)
HOSTILE = "city = '<script>document.title = \"taken\"</script><b>bold</b>' AND ride_date >= DATE'2026-03-01'"


def region(first: date, end: date | None, more: str = "") -> Region:
    bounds = f"ride_date >= DATE'{first}'" + ("" if end is None else f" AND ride_date < DATE'{end}'")
    return parse_predicate(bounds + more, TYPES)


def run(
    number: int,
    of: Region,
    *,
    target: str = "daily_rides",
    version: int = 1,
    definition: str = "5f2c9ab07d31",
    foreign: tuple[Region | None, ...] = (),
    as_of: date = LAST_DAY,
    seconds: float = 42,
    **changes: Any,
) -> RunReport:
    """The report of a run that left a region equal to its query."""
    run_id = f"scheduled-{number}/{target}"
    found = Entry(
        region=of,
        bound=of,
        proves=True,
        definition_hash=definition,
        sources={"rides": Pin(version, "rides"), "stations": Pin(3, "stations")},
        run_id=run_id,
        target_version=number,
        target_id=target,
        foreign=foreign,
        since=0,
    )
    begun = datetime(as_of.year, as_of.month, as_of.day, 4, tzinfo=UTC)
    values: dict[str, Any] = {
        "flow": target,
        "target": target,
        "mode": Mode.INCREMENTAL,
        "reasons": (
            {"reason": "SOURCE_CHANGED", "table": "rides", "from_version": version - 1, "to_version": version},
        ),
        "window": of.to_sql(),
        "replaced": of.to_sql(),
        "as_of": begun.isoformat(),
        "predicate": "ride_date >= date_sub(current_date(), 7)",
        "definition_hash": definition,
        "source_versions": {"rides": version, "stations": 3},
        "target_version": number,
        "rows_deleted": 1200 + number,
        "rows_written": 1340 + number,
        "bytes_written": 52_480,
        "coverage": found.to_json(),
        "window_types": TYPES,
        "token": f"{number:064x}",
        "started_at": begun.isoformat(),
        "finished_at": (begun + timedelta(seconds=seconds)).isoformat(),
        **changes,
    }
    return report(run_id, **values)


def identity(number: int, dag: str = "rides_daily", task: str = "daily_rides") -> Identity:
    return Identity(dag, f"scheduled__{number}", task, -1, 1)


def fill(store: HistoryStore) -> None:
    """Some weeks in the life of three tables."""
    for number, found in enumerate(_daily_rides(), start=1):
        store.record(found, identity(number))
    _failures(store)
    _lease(store)
    _backfill(store)
    for found in _city_weeks():
        store.record(found, Identity("cities", "manual__1", "city_weeks", -1, 1))
    hostile = run(1, region(date(2026, 3, 1), None), target="hostile", predicate=HOSTILE, override=True)
    store.record(replace(hostile, window=HOSTILE))


def _daily_rides() -> Iterator[RunReport]:
    old, new = "a1b2c3d4e5f6", "5f2c9ab07d31"
    yield run(
        1,
        region(date(2025, 11, 3), date(2026, 2, 1)),
        definition=old,
        as_of=date(2026, 2, 1),
        mode=Mode.FULL_RECOMPUTE,
        reasons=({"reason": "FIRST_REFRESH"},),
        predicate="ride_date >= DATE'2025-11-03'",
        source_versions={"rides": 1},
    )
    whole = region(date(2026, 1, 12), date(2026, 3, 1))
    yield run(
        2,
        whole,
        version=2,
        definition=new,
        as_of=date(2026, 3, 1),
        mode=Mode.FULL_RECOMPUTE,
        reasons=({"reason": "QUERY_FINGERPRINT_CHANGED"},),
        rows_written=184_000,
        seconds=412,
    )
    for number in range(3, 20):
        today = date(2026, 3, 1) + timedelta(days=number)
        window = region(today - timedelta(days=7), None)
        is_quiet = number % 5 == 0
        changes: dict[str, Any] = (
            {"mode": Mode.NO_OP, "reasons": (), "replaced": None, "seconds": 0.4, **dict.fromkeys(COUNTS)}
            if is_quiet
            else {}
        )
        version = number - 1 if is_quiet else number
        yield run(number, window, version=version, definition=new, as_of=today, **changes)
    yield run(
        20,
        region(LAST_DAY - timedelta(days=7), None),
        version=20,
        definition=new,
        foreign=(region(date(2026, 2, 9), date(2026, 2, 12)),),
        planning_information={
            "target_table_information": {"commits_of_others": [{"operation": "DELETE", "version": 19}]}
        },
    )


def _failures(store: HistoryStore) -> None:
    run_id = "manual-21/daily_rides"
    as_of = datetime(2026, 3, 20, 6, tzinfo=UTC)
    by_hand = "ride_date >= '2026-02-20' AND ride_date < '2026-02-23'"
    store.started(
        run_id,
        "daily_rides",
        "daily_rides",
        as_of=as_of,
        predicate=by_hand,
        override=True,
        identity=identity(21, "fix"),
    )
    error = {
        "type": "NullKeyError",
        "retryable": False,
        "message": "The query gives 3 rows whose ride_date is NULL.\nSet null_keys, or filter them.",
    }
    store.failed(failure(run_id, flow="daily_rides", target="daily_rides", error=error), identity(21, "fix"))


def _lease(store: HistoryStore) -> None:
    busy = Claim(
        target="daily_rides",
        flow="daily_rides",
        run_id="manual-22/daily_rides",
        region=region(date(2026, 2, 1), date(2026, 2, 6)),
        identity=identity(22, "backfill_rides", "backfill"),
    )
    assert isinstance(store.acquire([busy], seconds=86_400), Granted)
    store.started(busy.run_id, busy.flow, busy.target, predicate="ride_date < '2026-02-06'", identity=busy.identity)


def _backfill(store: HistoryStore) -> None:
    for number in range(1, 5):
        first = date(2026, 1, 1) + timedelta(days=7 * number)
        chunk = run(
            30 + number,
            region(first, first + timedelta(days=7)),
            target="hourly_rides",
            override=True,
            chunk=Chunk(number, 9, "backfill-7"),
            predicate=f"ride_date >= '{first}'",
            seconds=60,
        )
        store.record(chunk, Identity("backfill_rides", "manual__7", "backfill", -1, 1))


def _city_weeks() -> Iterator[RunReport]:
    target = "city_weeks"
    yield run(41, region(date(2026, 2, 2), date(2026, 3, 9)), target=target, version=1)
    for number, cities, first in ((42, "'Basel', 'Bern'", date(2026, 3, 2)), (43, "'Zürich'", date(2026, 2, 16))):
        where = f" AND city IN ({cities})"
        yield run(number, region(first, date(2026, 3, 9), where), target=target, version=2, override=True)


def many(store: HistoryStore, runs: int, *, days: int, progress: Callable[[int], None] = lambda _: None) -> None:
    """A long life of one table: a run for each day and further ones, over so many days.

    Written straight into the tables, for a transaction for each of 100 000 runs would take an hour.
    """
    from airflow_provider_replacewhere.history.records import Event
    from airflow_provider_replacewhere.history.rows import row_of
    from airflow_provider_replacewhere.history.tables import counter, events

    store.migrate()
    first = LAST_DAY - timedelta(days=days - 1)
    rows = []
    with store._database.writing() as connection:
        for number in range(1, runs + 1):
            today = first + timedelta(days=(number - 1) * days // runs)
            found = run(
                number, region(today - timedelta(days=6), today + timedelta(days=1)), version=number, as_of=today
            )
            at = datetime(today.year, today.month, today.day, 4, tzinfo=UTC)
            begun = Event(found.run_id, "started", found.flow, found.target, identity=identity(number))
            rows += [row_of(begun, 2 * number - 1, at)]
            rows += [row_of(Event.of_report(found, identity(number)), 2 * number, at)]
            if len(rows) >= 2_000:
                connection.execute(events.insert(), rows)
                rows = []
                progress(number)
        if rows:
            connection.execute(events.insert(), rows)
        connection.execute(counter.update().values(last=2 * runs))
    # The coverage keeps so many ranges of daily windows and no more: what came before is covered by one backfill.
    store.record(backfilled(runs, days), identity(runs + 1, "backfill_rides", "backfill"))


def backfilled(runs: int, days: int) -> RunReport:
    """The last run of :func:`many`: all but the last 400 days anew."""
    first = LAST_DAY - timedelta(days=days - 1)
    return run(runs + 1, region(first, LAST_DAY - timedelta(days=400)), version=runs, override=True)
