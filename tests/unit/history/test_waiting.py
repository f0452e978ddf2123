"""A run whose region is taken waits, fails or is skipped, and says for whom."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import HistoryError, RegionHeldError, RequestError
from airflow_provider_replacewhere.history.leases import Conflict, Granted
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.history.waiting import take
from airflow_provider_replacewhere.planning.leasing import LEASE_SECONDS
from tests.leases import Clock, claim, granted, numbers, refused
from tests.postgres import PostgresServer

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix


class Waiting(Clock):
    """A clock whose sleepers meet what happens while they sleep: by the number of the sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.meanwhile: dict[int, Callable[[], object]] = {}

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept.append(seconds)
        self.meanwhile.get(len(self.slept), lambda: None)()

    def take(self, store: HistoryStore, *claims: Any, **options: Any) -> Granted | Conflict:
        return take(store, claims, sleep=self.sleep, clock=self.monotonic, **options)


@pytest.fixture
def clock() -> Waiting:
    return Waiting()


@pytest.fixture
def store(history_url: str, clock: Waiting) -> HistoryStore:
    return HistoryStore(history_url, clock=clock)


@pytest.mark.parametrize("on_overlap", ["wait", "fail", "skip"])
def test_what_is_free_is_taken_at_once(store: HistoryStore, clock: Waiting, on_overlap: str) -> None:
    granted(clock.take(store, claim("a"), on_overlap=on_overlap))
    assert clock.slept == []


def test_a_run_waits_until_the_region_is_free(store: HistoryStore, clock: Waiting) -> None:
    lease = granted(store.acquire([claim("a", numbers(0, 10))], seconds=1000))
    clock.meanwhile = {
        1: lambda: refused(store.acquire([claim("late", numbers(10, 20))])) == ["b"] or pytest.fail("passed"),
        3: lambda: store.release(lease),
    }
    granted(clock.take(store, claim("b"), wait_seconds=600))
    assert clock.slept == [5, 5, 5]
    assert [held.run_id for held in store.leases(waiting=True)] == ["b"]


def test_a_run_that_died_is_waited_for_until_its_lease_expires_and_is_named(
    store: HistoryStore, clock: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    granted(store.acquire([claim("dead")]))
    with caplog.at_level(logging.INFO):
        granted(clock.take(store, claim("b")))
    assert sum(clock.slept) == LEASE_SECONDS
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, "who is waited for is said once"
    assert "Waiting, for at most 3600 seconds more, for\nsales.daily: flow daily, run dead writes" in messages[0]
    assert "Lease 1 on sales.daily of flow daily, run dead was not renewed after 2026-03-10T04:00:00" in messages[1]


def test_waiting_ends_at_its_limit_and_leaves_no_place(store: HistoryStore, clock: Waiting) -> None:
    granted(store.acquire([claim("a")], seconds=1000))
    with pytest.raises(
        RegionHeldError, match=r"after 12 seconds of waiting\.\nsales.daily: flow daily, run a writes"
    ) as e:
        clock.take(store, claim("b"), wait_seconds=12)
    assert e.value.retryable
    assert clock.slept == [5, 5, 2]
    assert [lease.run_id for lease in store.leases(waiting=True)] == ["a"]


def test_failing_and_skipping_do_not_wait_and_say_for_whom(store: HistoryStore, clock: Waiting) -> None:
    granted(store.acquire([claim("a")]))
    with pytest.raises(
        RegionHeldError, match=r"stands in the way\.\nsales.daily: flow daily, run a writes the whole table"
    ):
        clock.take(store, claim("b"), on_overlap="fail")
    assert refused(clock.take(store, claim("b"), on_overlap="skip")) == ["a"]
    assert clock.slept == []
    assert [lease.run_id for lease in store.leases(waiting=True)] == ["a"]


class Ended(BaseException):
    """As Airflow ends a task from outside."""


def test_a_run_that_is_ended_while_it_waits_leaves_no_place(store: HistoryStore, clock: Waiting) -> None:
    granted(store.acquire([claim("a")]))

    def end() -> None:
        assert len(store.leases(waiting=True)) == 2
        raise Ended

    clock.meanwhile = {2: end}
    with pytest.raises(Ended):
        clock.take(store, claim("b"))
    assert [lease.run_id for lease in store.leases(waiting=True)] == ["a"]


def test_a_policy_that_is_none_is_refused(store: HistoryStore) -> None:
    with pytest.raises(RequestError, match=r"on_overlap is 'queue'.\nValid are wait, fail, skip"):
        take(store, [claim("a")], on_overlap="queue")


@pytest.mark.postgres
def test_who_waits_survives_a_database_that_is_started_again(postgres_server: PostgresServer, clock: Waiting) -> None:
    store = HistoryStore(postgres_server.new_database(), clock=clock)
    lease = granted(store.acquire([claim("a")], seconds=1000))
    clock.meanwhile = {
        1: postgres_server.kill,
        3: postgres_server.start,
        4: lambda: refused(store.acquire([claim("late")])) == ["a", "b"] or pytest.fail("b has lost its place"),
        5: lambda: store.release(lease),
    }
    granted(clock.take(store, claim("b")))
    assert len(clock.slept) == 5


def test_a_database_that_never_answered_is_not_waited_for(clock: Waiting) -> None:
    with pytest.raises(HistoryError):
        clock.take(HistoryStore("postgresql://user@127.0.0.1:1/history"), claim("a"))
    assert clock.slept == []


@pytest.mark.postgres
def test_a_database_that_stays_away_is_waited_for_until_the_limit(
    postgres_server: PostgresServer, clock: Waiting
) -> None:
    store = HistoryStore(postgres_server.new_database(), clock=clock)
    granted(store.acquire([claim("a")], seconds=1000))
    clock.meanwhile = {1: postgres_server.kill}
    try:
        with pytest.raises(HistoryError):
            clock.take(store, claim("b"), wait_seconds=60)
    finally:
        postgres_server.start()
    assert sum(clock.slept) == 60
