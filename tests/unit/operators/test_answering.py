"""A driver asks for leases by files, and the worker that submitted it answers from the ledger."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere import operators
from airflow_provider_replacewhere.errors import LeaseLostError
from airflow_provider_replacewhere.history.keeping import LedgerLeases
from airflow_provider_replacewhere.history.leases import Claim
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.operators import answering as answering_module
from airflow_provider_replacewhere.operators.answering import Stop, Waits, answering, start_answering
from airflow_provider_replacewhere.operators.cluster import Cluster
from airflow_provider_replacewhere.operators.exchange import Exchange, open_exchange
from airflow_provider_replacewhere.planning.questions import SIGN
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.driver import WEEK, Driver
from tests.leases import granted

LOCAL = Cluster("local[2]", "client")
NEXT = parse_predicate("day >= DATE'2026-03-08'", {"day": "date"})
TASK = Identity("dag", "run", "task", -1, 1)
BACKWARDS = {"type": "int", "ranges": [[5, 1]], "null": False}


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    store = HistoryStore(f"sqlite:///{tmp_path}/history.db")
    store.migrate()
    return store


@contextmanager
def worker(store: HistoryStore, **policy: Any) -> Iterator[Driver]:
    exchange = open_exchange("app", LOCAL, None)
    stop = Stop()
    leases = LedgerLeases(store, Identity("dag", "run", "task", -1, 1), sleep=stop.sleep, **policy)
    driver = Driver(exchange)
    try:
        with answering(exchange, leases, stop, poll_seconds=0.01):
            yield driver
    finally:
        exchange.discard()


def test_a_region_is_taken_permitted_and_given_back(store: HistoryStore) -> None:
    with worker(store) as driver:
        assert driver.ask("take") == {}
        (lease,) = store.leases()
        assert (lease.region, lease.identity.dag_id, lease.run_id) == (WEEK, "dag", "app/daily")
        assert driver.ask("permit") == {}
        assert [str(each.state) for each in store.leases()] == ["committing"]
        assert driver.ask("release") == {}
        assert store.leases() == []


def test_the_first_question_tells_that_the_driver_is_there(store: HistoryStore) -> None:
    exchange, stop, contacts = open_exchange("app", LOCAL, None), Stop(), list[None]()
    leases = LedgerLeases(store, Identity("dag", "run", "task", -1, 1), sleep=stop.sleep)
    driver = Driver(exchange)
    with answering(exchange, leases, stop, poll_seconds=0.01, on_contact=lambda: contacts.append(None)):
        assert contacts == []
        assert (driver.ask("take"), driver.ask("release")) == ({}, {})
    exchange.discard()
    assert len(contacts) == 1


def test_how_long_a_run_waits_for_others_is_added_up(store: HistoryStore) -> None:
    stop = Stop()
    waits = Waits(stop)
    with worker(store) as first:
        first.ask("take")
        second, own = open_exchange("other", LOCAL, None), Stop()
        leases = LedgerLeases(store, Identity("dag", "run", "other", -1, 1), wait_seconds=1.0, sleep=waits.sleep)
        driver = Driver(second)
        with answering(second, leases, own, poll_seconds=0.01):
            answer = driver.ask("take", WEEK, "other/daily")
        second.discard()
    assert answer is not None
    assert answer["error"]["type"] == "RegionHeldError"
    assert 0.9 < waits.seconds < 20


def test_what_the_driver_leaves_behind_is_given_back_when_it_ends(store: HistoryStore) -> None:
    with worker(store) as driver:
        driver.ask("take")
    assert store.leases() == []


@pytest.mark.parametrize(("region", "granted"), [(WEEK, False), (NEXT, True)], ids=["overlapping", "disjoint"])
def test_another_run_in_the_region_is_named(store: HistoryStore, region: Region, granted: bool) -> None:
    with worker(store) as first, worker(store, on_overlap="skip") as second:
        first.ask("take")
        answer = second.ask("take", region, "other/daily")
        assert answer is not None
        assert ("overlapped" in answer) is not granted
        assert granted or "Dag dag, Dag run run, task task, try 1" in answer["overlapped"]


def test_a_run_that_must_not_wait_is_refused(store: HistoryStore) -> None:
    with worker(store) as first, worker(store, on_overlap="fail") as second:
        first.ask("take")
        answer = second.ask("take", WEEK, "other/daily")
        assert answer is not None
        assert answer["error"]["type"] == "RegionHeldError"
        assert answer["error"]["retryable"]


def test_a_worker_that_waits_is_ended_with_its_application(store: HistoryStore) -> None:
    with worker(store) as first:
        first.ask("take")
        with worker(store, wait_seconds=600) as second:
            asked = {"verb": "take", "target": "daily", "flow": "d", "run_id": "other/daily", "region": WEEK.to_json()}
            number = second.write(json.dumps(asked))
            until = time.monotonic() + 20
            while len(store.leases(waiting=True)) < 2 and time.monotonic() < until:
                time.sleep(0.01)
            assert len(store.leases(waiting=True)) == 2
            assert second.answer(number, 0.1) is None
        assert [each.run_id for each in store.leases(waiting=True)] == ["app/daily"]


def test_a_worker_shows_that_it_is_alive_while_it_waits_for_others(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators.answering, "SIGN_SECONDS", 0.05)
    with worker(store) as first:
        first.ask("take")
        with worker(store, wait_seconds=600) as second:
            asked = {"verb": "take", "target": "daily", "flow": "d", "run_id": "other/daily", "region": WEEK.to_json()}
            number = second.write(json.dumps(asked))
            signs: set[str] = set()
            until = time.monotonic() + 30
            while (len(store.leases(waiting=True)) < 2 or len(signs) < 3) and time.monotonic() < until:
                if len(store.leases(waiting=True)) == 2 and (second.folder / SIGN).exists():
                    signs.add((second.folder / SIGN).read_text())
            assert second.answer(number, 0.1) is None
            assert len(signs) == 3


def test_no_permission_without_a_lease(store: HistoryStore) -> None:
    with worker(store) as driver:
        answer = driver.ask("permit")
        assert answer is not None
        assert answer["error"]["type"] == "LeaseLostError"


def test_a_lease_that_was_taken_away_gives_no_permission_and_is_told_at_once(store: HistoryStore) -> None:
    told: list[LeaseLostError] = []
    lost = threading.Event()

    def on_lost(error: LeaseLostError) -> None:
        told.append(error)
        lost.set()

    with worker(store, on_lost=on_lost, seconds=1.0) as driver:
        driver.ask("take")
        store.break_lease(store.leases()[0].fence)
        assert lost.wait(20)
        answer = driver.ask("permit")
        assert answer is not None
        assert answer["error"]["type"] == "LeaseLostError"
    assert len(told) == 1


@pytest.mark.parametrize("text", ["{", "[1]", '"take"'])
def test_a_question_that_cannot_be_read_is_not_answered(store: HistoryStore, text: str) -> None:
    with worker(store) as driver:
        assert driver.answer(driver.write(text), 0.3) is None


@pytest.mark.parametrize("verb", ["give", "", "take "])
def test_an_unknown_question_is_refused(store: HistoryStore, verb: str) -> None:
    with worker(store) as driver:
        answer = driver.ask(verb)
        assert answer is not None
        assert answer["error"]["type"] == "RequestError"


@pytest.mark.parametrize(
    "changed",
    [
        {"verb": 5},
        {"run_id": None},
        {"target": ["daily"]},
        {"flow": {}},
        {"region": None},
        {"region": []},
        {"region": {"version": 99}},
        {"region": {"version": 1, "parts": [7]}},
        {"region": {"version": 1, "parts": [{"boxes": [[[["n"], BACKWARDS]]], "conditions": []}]}},
    ],
    ids=str,
)
def test_a_question_with_a_broken_part_takes_nothing_and_the_next_is_answered(
    store: HistoryStore, changed: dict[str, Any]
) -> None:
    question = {"verb": "take", "target": "daily", "flow": "daily", "run_id": "app/daily", "region": WEEK.to_json()}
    with worker(store) as driver:
        answer = driver.answer(driver.write(json.dumps({**question, **changed})))
        assert answer is not None
        assert answer["error"]["type"] in ("RequestError", "PredicateError")
        assert store.leases() == []
        assert driver.ask("take") == {}


# -- in place of a worker that was lost --------------------------------------------------------------------------------


@contextmanager
def successor(store: HistoryStore, driver: Driver, exchange: Exchange) -> Iterator[None]:
    stop = Stop()
    leases = LedgerLeases(store, Identity("dag", "run", "task", -1, 2), sleep=stop.sleep)
    with answering(exchange, leases, stop, poll_seconds=0.01, taken_up=True):
        yield


@pytest.fixture
def left_behind(store: HistoryStore) -> Iterator[tuple[Driver, Exchange]]:
    """A driver whose worker has given it a lease and was lost; nobody has heard of the lease in time."""
    exchange = open_exchange("app", LOCAL, None)
    driver = Driver(exchange)
    question = {"verb": "take", "target": "daily", "flow": "daily", "run_id": "app/daily", "region": WEEK.to_json()}
    number = driver.write(json.dumps(question))
    (driver.folder / f"answer-{number}.json").write_text("{}")
    claim = Claim(target="daily", flow="daily", run_id="app/daily", region=WEEK, identity=TASK)
    store.acquire([claim], seconds=0)
    yield driver, exchange
    exchange.discard()


def test_the_next_worker_keeps_the_lease_and_answers_what_is_open(
    store: HistoryStore, left_behind: tuple[Driver, Exchange]
) -> None:
    driver, _ = left_behind
    with successor(store, *left_behind):
        assert driver.ask("permit") == {}
        (lease,) = store.leases()
        assert (str(lease.state), lease.region, lease.run_id) == ("committing", WEEK, "app/daily")
        assert driver.ask("release") == {}
        assert store.leases() == []
        assert driver.ask("take", NEXT, "app/other") == {}
    assert store.leases() == []


def test_a_lease_that_others_had_meanwhile_is_not_taken_again(
    store: HistoryStore, left_behind: tuple[Driver, Exchange]
) -> None:
    other = Claim(target="daily", flow="daily", run_id="other/daily", region=WEEK, identity=TASK)
    store.release(granted(store.acquire([other], seconds=60)))  # it may have written, and the region is free again
    driver, _ = left_behind
    with successor(store, *left_behind):
        answer = driver.ask("permit")
        assert answer is not None
        assert answer["error"]["type"] == "LeaseLostError"
        assert store.leases() == []


def test_a_question_that_the_lost_worker_did_not_answer_is_answered(store: HistoryStore) -> None:
    exchange = open_exchange("app", LOCAL, None)
    driver = Driver(exchange)
    question = {"verb": "take", "target": "daily", "flow": "daily", "run_id": "app/daily", "region": WEEK.to_json()}
    number = driver.write(json.dumps(question))
    with successor(store, driver, exchange):
        assert driver.answer(number) == {}
        assert driver.ask("permit") == {}
    exchange.discard()


class Flaky:
    """Letters in a place that is out of reach for some calls."""

    def __init__(self, letters: Exchange, failures: int) -> None:
        self.letters, self.failures = letters, failures

    def read(self, name: str) -> str | None:
        self._fail()
        return self.letters.read(name)

    def write(self, name: str, text: str) -> None:
        self._fail()
        self.letters.write(name, text)

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("503 Slow Down")


@pytest.mark.parametrize(("failures", "goes_on"), [(4, True), (1_000, False)])
def test_a_place_that_is_out_of_reach_for_a_while_is_tried_again(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch, failures: int, goes_on: bool
) -> None:
    monkeypatch.setattr(answering_module, "PAUSES", (0.01,) * 5)
    exchange, stop = open_exchange("app", LOCAL, None), Stop()
    leases = LedgerLeases(store, TASK, sleep=stop.sleep)
    answers = start_answering(Flaky(exchange, failures), leases, stop, poll_seconds=0.01)
    if goes_on:
        assert Driver(exchange).ask("take") == {}
        assert len(store.leases()) == 1
    else:
        answers.thread.join(20)
    assert answers.goes_on is goes_on
    answers.end()
    assert store.leases() == []
    exchange.discard()
