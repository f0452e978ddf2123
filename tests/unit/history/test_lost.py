"""Runs that nobody will end any more: the history says so, and believes a commit that is found later."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_replacewhere.history.leases import Granted
from airflow_provider_replacewhere.history.lost import SILENT_FOR
from airflow_provider_replacewhere.history.records import RunStatus
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.leasing import LEASE_SECONDS
from airflow_provider_replacewhere.planning.request import Identity
from tests.history import report
from tests.leases import TARGET, Clock, claim, granted, numbers

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

FIRST = Identity("sales", "scheduled__2026-03-10", "daily", map_index=-1, try_number=1)
SECOND = replace(FIRST, try_number=2)


@pytest.fixture
def clock() -> Clock:
    # Starts are recorded by the worker's clock.
    return Clock(datetime.now(UTC))


@pytest.fixture
def store(history_url: str, clock: Clock) -> HistoryStore:
    made = HistoryStore(history_url, clock=clock)
    made.started("app-1/daily", "daily", TARGET, identity=FIRST)
    return made


def status(store: HistoryStore, run_id: str = "app-1/daily") -> str:
    run = store.run(run_id)
    assert run is not None
    return str(run.status)


def test_a_later_try_of_the_same_task_ends_the_earlier_ones(store: HistoryStore) -> None:
    assert store.end_lost(TARGET.upper(), SECOND)

    (run,) = store.runs(status=RunStatus.LOST)
    assert run.run_id == "app-1/daily"
    assert run.identity == FIRST
    assert run.error is not None
    assert "Try 2 of the task has begun, and try 1 has left no end" in run.error["message"]
    assert store.runs(status=RunStatus.RUNNING) == []


@pytest.mark.parametrize(
    "other",
    [
        Identity(),
        FIRST,
        replace(SECOND, task_id="other"),
        replace(SECOND, map_index=2),
        replace(SECOND, dag_run_id="scheduled__2026-03-11"),
    ],
)
def test_any_other_task_leaves_a_young_run_alone(store: HistoryStore, other: Identity) -> None:
    assert not store.end_lost(TARGET, other)
    assert status(store) == "running"


def test_runs_of_other_targets_are_left_alone(store: HistoryStore) -> None:
    assert not store.end_lost("sales.weekly", SECOND)


def test_a_run_without_a_lease_is_given_up_after_a_day(store: HistoryStore, clock: Clock) -> None:
    clock.now += SILENT_FOR - timedelta(minutes=1)
    assert not store.end_lost(TARGET)
    clock.now += timedelta(minutes=2)
    assert store.end_lost(TARGET)
    assert status(store) == "lost"


def test_a_run_that_keeps_its_lease_is_never_given_up(store: HistoryStore, clock: Clock) -> None:
    lease = granted(store.acquire([claim("app-1/daily", identity=FIRST)]))
    for _ in range(3):
        clock.now += SILENT_FOR
        lease = store.renew(lease)
        assert not store.end_lost(TARGET)


def test_whose_lease_was_taken_is_lost(store: HistoryStore, clock: Clock) -> None:
    store.acquire([claim("app-1/daily", numbers(0, 5), identity=FIRST)])
    clock.now += timedelta(seconds=LEASE_SECONDS + 1)

    assert isinstance(store.acquire([claim("app-2/daily", numbers(3, 9))]), Granted)

    assert status(store) == "lost"


def test_an_expired_lease_that_is_in_nobodys_way_is_no_loss(store: HistoryStore, clock: Clock) -> None:
    store.acquire([claim("app-1/daily", numbers(0, 5), identity=FIRST)])
    clock.now += timedelta(seconds=LEASE_SECONDS + 1)

    store.acquire([claim("app-2/daily", numbers(5, 9))])

    assert status(store) == "running"


def test_whose_lease_was_broken_is_lost_and_who_merely_waited_is_not(store: HistoryStore) -> None:
    held = granted(store.acquire([claim("app-1/daily", identity=FIRST)]))
    store.started("app-2/daily", "daily", TARGET)
    store.acquire([claim("app-2/daily")], queue_seconds=60)
    (place,) = [lease for lease in store.leases(waiting=True) if lease.run_id == "app-2/daily"]

    store.break_lease(place.fence)
    store.break_lease(held.fence)

    assert status(store) == "lost"
    assert status(store, "app-2/daily") == "running"


def test_a_commit_that_is_found_later_wins(store: HistoryStore) -> None:
    store.end_lost(TARGET, SECOND)
    store.record(report("app-1/daily", target=TARGET), FIRST)

    (run,) = store.runs()
    assert run.status is RunStatus.SUCCEEDED
    assert run.error is None
    assert store.runs(status=RunStatus.LOST) == []


def test_an_ended_run_is_not_lost(store: HistoryStore, clock: Clock) -> None:
    store.record(report("app-1/daily", target=TARGET), FIRST)
    clock.now += 2 * SILENT_FOR
    assert not store.end_lost(TARGET, SECOND)


def test_a_lost_run_may_be_forgotten(store: HistoryStore) -> None:
    store.end_lost(TARGET, SECOND)
    assert store.prune(keep_runs=0) == 1
