"""A trigger in place of the worker that submitted an application: real ledger, real files, a stand-in for YARN."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import airflow
import pytest

from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.operators.cluster import Cluster
from airflow_provider_replacewhere.operators.durable import Submitted
from airflow_provider_replacewhere.operators.exchange import open_exchange
from airflow_provider_replacewhere.planning.questions import SIGN
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.triggers import application
from airflow_provider_replacewhere.triggers.application import ApplicationTrigger
from tests.driver import Driver

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(
        airflow.__version__.startswith(("2.", "3.0.", "3.1.", "3.2.")), reason="tasks are deferred from Airflow 3.3 on"
    ),
]

JOB = "application_1700000000000_0001"


class Manager:
    """In place of YARN's resource manager: says of one application what it is told to say."""

    def __init__(self) -> None:
        manager = self
        self.state = "RUNNING"
        self.asked = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                manager.asked += 1
                state = manager.state
                final = {"RUNNING": "UNDEFINED", "FINISHED": "SUCCEEDED"}.get(state, state)
                body = json.dumps({"app": {"state": state, "finalStatus": final}}).encode()
                self.send_response(500 if state == "SILENT" else 200)
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"]))
                manager.state = json.loads(text)["state"]
                self.send_response(202)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    manager = Manager()
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": manager.address}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_YARN", json.dumps(connection))
    yield manager
    manager.close()


@pytest.fixture
def store(airflow_home: Path, history_file: Path) -> HistoryStore:
    return PredicateHistoryHook().store


class Scene:
    """A driver that asks, and triggers that wait for its application, one after another."""

    def __init__(self, folder: Path) -> None:
        self.exchange = open_exchange("app", Cluster("yarn", "cluster"), str(folder))
        self.driver = Driver(self.exchange)

    def trigger(self) -> ApplicationTrigger:
        made = ApplicationTrigger(
            submitted=Submitted(JOB, "logical", "app", self.exchange.place).to_json(),
            identity=asdict(Identity("dag", "run", "task", -1, 1)),
            spark={"conn_id": "spark_yarn", "deploy_mode": None, "yarn_track_via_rm_api": True},
            history_conn_id="replacewhere_default",
            on_overlap="wait",
            wait_seconds=600.0,
            poll_seconds=0.1,
        )
        path, arguments = made.serialize()
        assert path == "airflow_provider_replacewhere.triggers.application.ApplicationTrigger"
        return ApplicationTrigger(**json.loads(json.dumps(arguments)))

    def play(self, part: Callable[[], None], *, cancel: bool = False) -> Any:
        """Run a trigger in an event loop while a part is played beside it; what it fired, if it was not cancelled."""

        async def both() -> Any:
            events = self.trigger().run()
            waiting = asyncio.ensure_future(anext(events))
            ticks = asyncio.ensure_future(_ticks())
            await asyncio.to_thread(part)
            assert ticks.result() if ticks.done() else True
            ticks.cancel()
            if cancel:
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                return None
            return (await asyncio.wait_for(waiting, 60)).payload

        return asyncio.run(both())


async def _ticks() -> bool:
    """Fails when something keeps the event loop from going round."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.05)
        assert time.monotonic() - before < 2


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_it_answers_the_driver_and_fires_when_the_application_has_ended(
    scene: Scene, manager: Manager, store: HistoryStore
) -> None:
    def part() -> None:
        assert scene.driver.ask("take") == {}
        (lease,) = store.leases()
        assert (lease.identity.task_id, lease.run_id) == ("task", "app/daily")
        assert scene.driver.ask("permit") == {}
        assert (scene.driver.folder / SIGN).exists()
        assert scene.driver.ask("release") == {}
        manager.state = "FINISHED"

    event = scene.play(part)

    assert event == {"job": JOB, "state": "SUCCEEDED", "waited_seconds": 0.0}
    assert store.leases() == []


def test_an_application_that_dies_gives_its_leases_back(scene: Scene, manager: Manager, store: HistoryStore) -> None:
    def part() -> None:
        assert scene.driver.ask("take") == {}
        manager.state = "FAILED"

    assert scene.play(part)["state"] == "FAILED"
    assert store.leases() == []


def test_when_the_triggerer_stops_the_next_one_goes_on_with_the_same_lease(
    scene: Scene, manager: Manager, store: HistoryStore
) -> None:
    def first() -> None:
        assert scene.driver.ask("take") == {}

    def second() -> None:
        assert scene.driver.ask("permit") == {}
        assert scene.driver.ask("release") == {}
        manager.state = "FINISHED"

    scene.play(first, cancel=True)
    (left,) = store.leases()
    assert scene.play(second)["state"] == "SUCCEEDED"

    assert left.run_id == "app/daily"
    assert store.leases() == []


def test_a_lease_that_was_given_away_meanwhile_permits_nothing(
    scene: Scene, manager: Manager, store: HistoryStore
) -> None:
    def first() -> None:
        assert scene.driver.ask("take") == {}

    def second() -> None:
        answer = scene.driver.ask("permit")
        assert answer is not None
        assert answer["error"]["type"] == "LeaseLostError"
        manager.state = "FAILED"

    scene.play(first, cancel=True)
    store.break_lease(store.leases()[0].fence)
    scene.play(second)


def test_a_cluster_that_is_silent_for_a_while_is_asked_again(
    scene: Scene, manager: Manager, store: HistoryStore
) -> None:
    def part() -> None:
        manager.state = "SILENT"
        asked = manager.asked
        while manager.asked < asked + 4:
            time.sleep(0.05)
        manager.state = "FINISHED"

    assert scene.play(part)["state"] == "SUCCEEDED"


def test_a_cluster_that_stays_silent_fails_the_task(
    scene: Scene, manager: Manager, store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MOST_SILENT_LOOKS", 2)
    manager.state = "SILENT"
    with pytest.raises(RuntimeError, match="HTTP 500"):
        scene.play(lambda: None)


def test_a_task_that_is_ended_by_a_person_ends_its_application(scene: Scene, manager: Manager) -> None:
    asyncio.run(scene.trigger().on_kill())

    assert manager.state == "KILLED"
