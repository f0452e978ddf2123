"""Leases are kept while work goes on, freed in the end, and nobody goes on working without knowing that one is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_replacewhere.errors import HistoryError, LeaseLostError
from airflow_provider_replacewhere.history import holding as module
from airflow_provider_replacewhere.history.holding import Held, holding
from airflow_provider_replacewhere.history.leases import LeaseState
from airflow_provider_replacewhere.history.store import HistoryStore
from tests.leases import claim, granted, numbers, refused
from tests.postgres import PostgresServer

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

# Long enough for a busy machine to do what has to happen in time, wherever something has to.
SOON = 60.0


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def beat_after(held: Held) -> None:
    """Wait until each lease is renewed once more."""
    before = held.leases
    until(lambda: all(new.renewed_at > old.renewed_at for new, old in zip(held.leases, before, strict=True)))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lease")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    until(lambda: threads() == [])


def test_leases_are_renewed_while_the_body_runs_and_freed_at_its_end(store: HistoryStore) -> None:
    leases = [granted(store.acquire([claim(name, numbers(n, n + 1))])) for n, name in enumerate("ab")]
    with holding(store, leases, every=0.05) as held:
        for _ in range(3):
            beat_after(held)
        held.check()
        assert refused(store.acquire([claim("c")])) == ["a", "b"]
        assert not held.lost.is_set()
    assert store.leases() == []
    assert threads() == []


def test_a_lease_is_held_for_longer_than_it_lasts(store: HistoryStore) -> None:
    lease = granted(store.acquire([claim("a")], seconds=3))
    with holding(store, [lease], seconds=3, every=0.1) as held:
        until(lambda: held.leases[0].renewed_at > lease.expires_at)
        assert refused(store.acquire([claim("b")])) == ["a"]


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_leases_are_freed_however_the_body_ends(store: HistoryStore, error: BaseException) -> None:
    lease = granted(store.acquire([claim("a")]))
    with pytest.raises(type(error)), holding(store, [lease]):
        raise error
    assert store.leases() == []


def test_a_lease_can_be_freed_before_the_others(store: HistoryStore) -> None:
    first, second = (granted(store.acquire([claim(name, numbers(n, n + 1))])) for n, name in enumerate("ab"))
    with holding(store, [first, second], every=0.05) as held:
        held.release(first)
        assert [lease.run_id for lease in store.leases()] == ["b"]
        beat_after(held)
        assert [lease.run_id for lease in held.leases] == ["b"]
        held.check()


def test_a_lease_that_is_taken_away_is_lost_and_can_commit_nothing(store: HistoryStore) -> None:
    told: list[LeaseLostError] = []
    leases = [granted(store.acquire([claim(name, numbers(n, n + 1))])) for n, name in enumerate("ab")]
    with holding(store, leases, every=0.05, on_lost=told.append) as held:
        store.break_lease(leases[0].fence)
        granted(store.acquire([claim("thief", numbers(0, 1))]))
        assert held.lost.wait(SOON)
        until(lambda: bool(told))
        assert "run a has lost lease 1" in str(told[0])
        with pytest.raises(LeaseLostError, match="run a has lost lease 1"):
            held.check()
        with pytest.raises(LeaseLostError):
            held.permit(leases[0])
        assert held.permit(leases[1]).state is LeaseState.COMMITTING, "the other is still its own"
        assert [lease.run_id for lease in held.leases] == ["b"]
    assert [lease.run_id for lease in store.leases()] == ["thief"]
    assert len(told) == 1


def test_permission_asks_the_database_whatever_the_heartbeat_knows(store: HistoryStore) -> None:
    lease = granted(store.acquire([claim("a")]))
    with holding(store, [lease]) as held:
        permitted = held.permit(lease, seconds=500)
        assert held.leases == (permitted,)
        assert permitted.lasts_seconds == 500
        store.release(lease)
        with pytest.raises(LeaseLostError):
            held.permit(lease)
        assert held.lost.is_set()


def test_what_is_told_of_a_loss_may_fail(store: HistoryStore, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: LeaseLostError) -> None:
        raise ValueError("no such process")

    lease = granted(store.acquire([claim("a")]))
    with holding(store, [lease], every=0.05, on_lost=fail) as held:
        store.release(lease)
        assert held.lost.wait(SOON)
        until(lambda: "could not be told" in caplog.text)


def test_the_body_does_not_start_without_the_leases(store: HistoryStore) -> None:
    leases = [granted(store.acquire([claim(name, numbers(n, n + 1))])) for n, name in enumerate("ab")]
    store.release(leases[0])
    with pytest.raises(LeaseLostError), holding(store, leases):
        pytest.fail("it started")
    assert store.leases() == [], "the other is freed"


# -- the database is away ---------------------------------------------------------------------------------------------


@contextmanager
def away(server: PostgresServer) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start()


@pytest.mark.postgres
def test_a_database_that_is_started_again_in_time_loses_no_lease(
    postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = HistoryStore(postgres_server.new_database())
    lease = granted(store.acquire([claim("a")], seconds=600))
    with holding(store, [lease], seconds=600, every=0.05) as held:
        with away(postgres_server):
            until(lambda: "could not be renewed" in caplog.text)
            with pytest.raises(HistoryError):
                held.permit(lease)
        beat_after(held)
        held.permit(lease)
        assert not held.lost.is_set()
    assert store.leases() == []


@pytest.mark.postgres
def test_a_lease_is_lost_when_the_database_stays_away_for_as_long_as_it_lasts(
    postgres_server: PostgresServer,
) -> None:
    store = HistoryStore(postgres_server.new_database())
    lease = granted(store.acquire([claim("a")], seconds=2))
    with holding(store, [lease], seconds=2, every=0.05) as held:
        with away(postgres_server):
            assert held.lost.wait(SOON)
            with pytest.raises(LeaseLostError, match=r"could not renew lease 1 .* has not answered since"):
                held.permit(lease)
        with pytest.raises(LeaseLostError):
            held.check()
    assert store.leases() == [], "the lease that was still there is freed"


class Hanging:
    """A ledger whose database takes everything and answers nothing, as behind a network that is cut.

    :ivar hanging: how many calls wait for an answer
    """

    def __init__(self, store: HistoryStore, *verbs: str) -> None:
        self._store = store
        self._verbs = verbs
        self.hangs = False
        self.hanging = 0
        self.end = threading.Event()

    def __getattr__(self, name: str) -> object:
        method = getattr(self._store, name)

        def call(*arguments: object, **options: object) -> object:
            if self.hangs and name in self._verbs:
                self.hanging += 1
                self.end.wait()
                self.hanging -= 1
            return method(*arguments, **options)

        return call


def test_a_database_that_hangs_hides_no_loss_and_holds_up_no_end(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_GOODBYE_SECONDS", 0.2)
    keeper = Hanging(store, "renew", "release")
    lease = granted(store.acquire([claim("a")], seconds=1))
    try:
        with holding(keeper, [lease], seconds=1, every=0.05) as held:  # type: ignore[arg-type]
            keeper.hangs = True
            assert held.lost.wait(SOON)
            with pytest.raises(LeaseLostError, match="could not renew"):
                held.permit(lease)
        assert "will expire" in caplog.text
    finally:
        keeper.end.set()
    until(lambda: store.leases() == [])


def test_a_heartbeat_that_comes_too_late_is_no_news_of_a_loss(store: HistoryStore) -> None:
    keeper = Hanging(store, "renew")
    told: list[LeaseLostError] = []
    first, second = (granted(store.acquire([claim(name, numbers(n, n + 1))])) for n, name in enumerate("ab"))
    with holding(keeper, [first, second], every=0.01, on_lost=told.append) as held:  # type: ignore[arg-type]
        keeper.hangs = True
        until(lambda: keeper.hanging == 1)
        # Freed while its renewal is on its way.
        held.release(first)
        keeper.hangs = False
        keeper.end.set()
        beat_after(held)
        assert [lease.run_id for lease in held.leases] == ["b"]
        held.check()
    assert told == []
    assert not held.lost.is_set()
