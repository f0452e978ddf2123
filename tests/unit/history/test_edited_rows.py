"""Rows that were changed by hand, or are damaged: nothing is called fresh because of them, and they are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from airflow_provider_replacewhere.errors import (
    HistoryError,
    HistoryRowError,
    HistorySchemaError,
    PredicateError,
    ReplaceWhereError,
    SubmitError,
)
from airflow_provider_replacewhere.history import database, tables
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.operators.definition import define
from airflow_provider_replacewhere.operators.ledger import Ledger
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin
from airflow_provider_replacewhere.planning.report import JobOutcome
from airflow_provider_replacewhere.planning.request import Identity, RunRequest
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.history import report
from tests.leases import claim, granted

TARGET, OTHER = "sales.daily", "other"
TASK = Identity("dag", "run", "task", -1, 2)


def days(first: int, end: int) -> Region:
    return parse_predicate(f"n >= {first} AND n < {end}", {"n": "int"})


def entry(number: int, proven: Region, /, **changes: Any) -> dict[str, Any]:
    proof = Entry(proven, proven, True, "one", {"s": Pin(number, "s")}, f"run {number}", number, "t", since=number - 1)
    return {**proof.to_json(), **changes}


def record(store: HistoryStore, number: int, proven: Region, /, target: str = TARGET, **changes: Any) -> None:
    proof = entry(number, proven, **changes)
    store.record(report(f"{target} {number}", target=target, coverage=proof, target_version=number), TASK)


def covered(store: HistoryStore, target: str = TARGET) -> Region:
    found = store.coverage([target]).get(target)
    region = Region.empty()
    for fragment in Coverage.from_json(found).fragments if found else ():
        region = region.union(fragment.region)
    return region


@pytest.fixture
def engine(history_url: str) -> sa.engine.Engine:
    return sa.create_engine(history_url, poolclass=NullPool)


def edit(engine: sa.engine.Engine, number: int, /, **values: Any) -> None:
    with engine.begin() as connection:
        changed = connection.execute(tables.events.update().where(tables.events.c.sequence == number).values(values))
        assert changed.rowcount == 1


BROKEN = {
    "no JSON": "once upon a time",
    "cut off": '{"flow": "daily", "coverage": {"region"',
    "empty": "",
    "a list": "[1, 2]",
    "a number": "7",
    "null": "null",
    "nothing in it": "{}",
    "nested": "[" * 200_000,
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_report_that_is_none_proves_nothing_and_is_named(store: HistoryStore, engine: Any, name: str) -> None:
    record(store, 1, days(0, 9))
    record(store, 2, days(9, 12))
    record(store, 3, days(0, 5), target=OTHER)
    edit(engine, 2, report=BROKEN[name])

    assert covered(store).is_empty
    assert TARGET not in store.last_successful([TARGET])
    assert TARGET not in store.last_successful()
    assert [one["run_id"] for one in store.reports_of(TASK, [TARGET])] == [f"{TARGET} 1"]
    # Others go on.
    assert covered(store, OTHER) == days(0, 5)
    assert set(store.last_successful()) == {OTHER}
    assert store.recent_targets(10) == sorted([OTHER, TARGET])
    assert [run.sequence for run in store.runs()] == [3, 2, 1]
    assert store.find(3).report is not None
    if name != "empty":
        with pytest.raises(HistoryRowError, match=rf"Row 2 of the history, of the run '{TARGET} 2', cannot be read"):
            store.report_of(2)
        assert not HistoryRowError("").retryable
    # What comes after is known again.
    record(store, 4, days(20, 21))
    assert covered(store) == days(20, 21)


@pytest.mark.parametrize(
    "changes",
    [
        {"proves": "no"},
        {"proves": 1},
        {"whole": "false"},
        {"target_version": "2"},
        {"target_version": True},
        {"since": "1"},
        {"target_id": 5},
        {"definition_hash": None},
        {"run_id": 7},
        {"sources": {"s": {"version": "2", "table_id": "s"}}},
        {"sources": {"s": {"version": None, "table_id": "s"}}},
        {"sources": {"s": 2}},
        {"region": "n >= 0"},
        {"region": {"version": 1, "parts": "all"}},
        {"foreign": None},
        {"foreign": [5]},
    ],
    ids=str,
)
def test_a_proof_with_a_broken_part_proves_nothing(store: HistoryStore, changes: dict[str, Any]) -> None:
    record(store, 1, days(0, 9))
    record(store, 2, days(3, 5), **changes)
    assert covered(store).is_empty


RANGES = {
    "backwards": [[5, 1]],
    "empty": [[5, 5]],
    "out of order": [[5, 9], [0, 3]],
    "overlapping": [[0, 5], [3, 9]],
    "open in the middle": [[0, None], [5, 9]],
    "text": [["0", "9"]],
    "fractions": [[0.5, 9]],
    "truth": [[False, True]],
    "no pairs": [[0]],
    "no list": 7,
}


@pytest.mark.parametrize("name", sorted(RANGES))
def test_ranges_that_are_none_are_no_region(store: HistoryStore, name: str) -> None:
    region = days(0, 9).to_json()
    text = json.dumps(region).replace("[[0, 9]]", json.dumps(RANGES[name]))
    assert text != json.dumps(region)
    with pytest.raises(PredicateError, match=r"The region cannot be read"):
        Region.from_json(json.loads(text))
    record(store, 1, days(0, 9))
    record(store, 2, days(0, 9), region=json.loads(text))
    assert covered(store).is_empty


@pytest.mark.parametrize(
    "part", ["target_id", "target_version", "fragments", "sequence"], ids=lambda part: f"broken {part}"
)
def test_a_kept_fold_with_a_broken_part_is_nothing_known(store: HistoryStore, engine: Any, part: str) -> None:
    record(store, 1, days(0, 9))
    store.prune(keep_runs=1)
    document = {**store.coverage([TARGET])[TARGET], part: [{"a": 1}]}
    with engine.begin() as connection:
        connection.execute(tables.coverage.update().values(document=json.dumps(document)))
    assert covered(store).is_empty
    record(store, 2, days(3, 4))
    assert covered(store) == days(3, 4)


def test_a_run_whose_number_was_changed_takes_the_proof_of_the_others_with_it(store: HistoryStore, engine: Any) -> None:
    record(store, 1, days(0, 9))
    record(store, 2, days(3, 5), proves=False)
    assert covered(store) == days(0, 3).union(days(5, 9))
    edit(engine, 2, sequence=-2)
    record(store, 3, days(20, 21))
    assert covered(store) == days(20, 21), "a commit lies between, of which the ledger says nothing"
    assert [run.sequence for run in store.runs()] == [3, 1, -2]


def test_events_of_an_unknown_kind_prove_nothing_and_stop_nothing(store: HistoryStore, engine: Any) -> None:
    record(store, 1, days(0, 9))
    edit(engine, 1, kind="SUCCEEDED!", report="not even JSON")
    assert covered(store).is_empty
    assert store.last_successful([TARGET]) == {}
    assert [str(run.status) for run in store.runs()] == ["running"]


@pytest.mark.parametrize("value", ["noon", "", "2026-13-01T00:00:00+00:00"])
def test_an_instant_that_is_none_is_named_and_stops_no_run(store: HistoryStore, engine: Any, value: str) -> None:
    record(store, 1, days(0, 9))
    edit(engine, 1, recorded_at=value)
    for use in (store.runs, lambda: store.prune(keep_runs=1)):
        with pytest.raises(HistoryRowError, match=r"cannot be read: recorded_at") as named:
            use()
        assert "Delete the row with sequence 1" in str(named.value)
    assert covered(store) == days(0, 9)
    record(store, 2, days(9, 10))
    assert store.last_successful([TARGET])[TARGET]["run_id"] == f"{TARGET} 2"


def test_a_damaged_start_of_an_old_run_keeps_no_new_one_from_running(store: HistoryStore, engine: Any) -> None:
    store.started("old/daily", "daily", "daily")
    with engine.begin() as connection:
        connection.execute(tables.events.update().values(recorded_at="yesterday"))
    with pytest.raises(HistoryRowError):
        store.end_lost("daily", TASK)
    with run(store) as (ledger, request):
        assert ledger.identity == TASK
        assert store.run(f"{request.run_id}/daily") is not None


@pytest.mark.parametrize("column", ["acquired_at", "renewed_at", "expires_at"])
@pytest.mark.parametrize("value", ["noon", "", "2026-03-10T00:00:00"])
def test_a_lease_with_a_broken_instant_stops_its_target_alone(
    store: HistoryStore, engine: Any, column: str, value: str
) -> None:
    granted(store.acquire([claim("a")]))
    with engine.begin() as connection:
        connection.execute(tables.leases.update().values({column: value}))
    with pytest.raises(HistoryRowError, match=r"Lease 1 on sales.daily cannot be read"):
        store.acquire([claim("b")])
    assert granted(store.acquire([claim("c", target="elsewhere")]))


BACKWARDS = '{"type": "int", "ranges": [[9, 0]], "null": false}'


@pytest.mark.parametrize(
    "region",
    [
        "[" * 200_000,
        '{"version": 1, "parts": [7]}',
        '{"version": 1, "parts": [{"boxes": [[[["n"], BACKWARDS]]], "conditions": []}]}',
    ],
    ids=["nested", "no parts", "backwards"],
)
def test_a_lease_with_a_broken_region_holds_everything(store: HistoryStore, engine: Any, region: str) -> None:
    granted(store.acquire([claim("a")]))
    with engine.begin() as connection:
        connection.execute(tables.leases.update().values(region=region.replace("BACKWARDS", BACKWARDS)))
    assert store.leases()[0].region == Region.everything()


# -- the database is away ----------------------------------------------------------------------------------------------


FLOW = {"target": "daily", "replace_where": "n >= 1", "query": "SELECT n FROM s"}


@contextmanager
def run(store: HistoryStore) -> Iterator[tuple[Ledger, RunRequest]]:
    """A task between its start and its end, as the operator has it."""
    definition = define(None, FLOW, folders=["."], time_zone="UTC", null_keys=None)
    request = RunRequest("app", datetime(2026, 3, 10, tzinfo=UTC))
    ledger = Ledger(store, TASK)  # type: ignore[arg-type]  # the hook has the same methods
    ledger.slice(definition)
    with ledger.running(request, definition):
        yield ledger, request


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(database, "SQLITE_BUSY_SECONDS", 0.1)
    return tmp_path / "history.db"


def test_a_history_that_is_locked_at_the_end_leaves_the_run_to_the_next_try(file: Path) -> None:
    store = HistoryStore(f"sqlite:///{file}")
    done = JobOutcome("app", (report("app/daily", target="daily"),))
    other = sa.create_engine(f"sqlite:///{file}", poolclass=NullPool)
    blocker = other.connect()

    def work() -> None:
        with run(store) as (ledger, _):
            blocker.exec_driver_sql("BEGIN IMMEDIATE")
            ledger.record(done)

    with pytest.raises(HistoryError, match=r"does not answer: database is locked") as error:
        work()
    assert error.value.retryable, "the next try finds the commit and adopts it"
    blocker.close()
    assert [str(each.status) for each in store.runs()] == ["running"]
    store.record_outcome(done, TASK)
    assert [str(each.status) for each in store.runs()] == ["succeeded"], "as soon as the commit is found again"


@pytest.mark.parametrize("ending", [HistoryError("away"), SubmitError("killed"), KeyboardInterrupt()], ids=repr)
def test_the_error_that_ended_a_task_is_the_one_to_see_whatever_the_history_says(
    file: Path, ending: BaseException
) -> None:
    store = HistoryStore(f"sqlite:///{file}")

    def work() -> None:
        with run(store):
            file.write_bytes(b"These are my notes.\n" * 1_000)
            raise ending

    with pytest.raises(type(ending)) as seen:
        work()
    assert seen.value is ending


def test_a_history_that_is_away_at_the_start_starts_nothing() -> None:
    store = HistoryStore("postgresql://user:secret@127.0.0.1:1/history")
    with pytest.raises(HistoryError, match=r"does not answer"), run(store):
        raise AssertionError("the task goes on")


def test_a_folder_that_the_history_makes_is_closed_to_strangers(tmp_path: Path) -> None:
    HistoryStore(f"sqlite:///{tmp_path}/new/history.db").migrate()
    assert (tmp_path / "new").stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("query", ["password=s3cret", "sslpassword=s3cret&sslmode=require"])
def test_a_password_among_the_parameters_of_a_url_is_not_shown(query: str) -> None:
    store = HistoryStore(f"postgresql://user@127.0.0.1:1/history?{query}")
    assert store.url == "postgresql+psycopg2://user@127.0.0.1:1/history"
    with pytest.raises((HistoryError, HistorySchemaError)) as error:
        store.runs()
    assert isinstance(error.value, ReplaceWhereError)
    assert "s3cret" not in str(error.value)
