"""Which application of an earlier try is taken up, and which is not; that it works on a real YARN: tests/chaos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_replacewhere.operators.cluster import Cluster
from airflow_provider_replacewhere.operators.durable import Submitted
from airflow_provider_replacewhere.operators.exchange import open_exchange
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator
from airflow_provider_replacewhere.planning.request import Identity, Override, RunRequest
from airflow_provider_replacewhere.text import Document

YARN = Cluster("yarn", "cluster")
REQUEST = RunRequest(
    "app",
    datetime(2026, 3, 10, tzinfo=UTC),
    documents=(Document("daily.sql", "SELECT 1"),),
    logical_run="this run",
    coverage={"daily": {"entries": []}},
    identity=Identity("flow", "scheduled", "daily", -1, 1),
)
WANTED = replace(REQUEST, run_id="of the next try", coverage={}, identity=Identity("flow", "scheduled", "daily", -1, 2))


pytestmark = pytest.mark.skipif(
    not hasattr(SparkSubmitOperator, "get_job_status"), reason="this Spark provider asks for no application"
)


@pytest.fixture
def left(tmp_path: Path) -> Submitted:
    """What a lost worker left behind."""
    exchange = open_exchange("app", YARN, str(tmp_path))
    exchange.put(replace(REQUEST, report_uri=exchange.report_uri), keep=True)
    exchange.discard_folder()
    return Submitted("application_1", "this run", "app", exchange.place)


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], ReplaceWhereOperator]:
    """The operator, over a cluster that says of each application what is given."""

    def made(status: Any) -> ReplaceWhereOperator:
        def told(*_: Any) -> str:
            if isinstance(status, Exception):
                raise status
            return str(status)

        monkeypatch.setattr(SparkSubmitOperator, "get_job_status", told)
        monkeypatch.setattr(SparkSubmitOperator, "is_job_active", lambda _, found: found == "RUNNING")
        monkeypatch.setattr(SparkSubmitOperator, "is_job_succeeded", lambda _, found: found == "SUCCEEDED")
        monkeypatch.setattr(SparkSubmitOperator, "on_kill", lambda _: killed.append("application_1"))
        monkeypatch.setattr(ReplaceWhereOperator, "_tell_hook", lambda *_: None)
        return ReplaceWhereOperator(task_id="t", target="daily", yarn_track_via_rm_api=True)

    killed: list[str] = []
    made.killed = killed  # type: ignore[attr-defined]
    return made


def context(value: Any) -> Any:
    return {"task_state_store": Store({"spark_job_id": value.to_json() if isinstance(value, Submitted) else value})}


class Store(dict[str, Any]):
    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.mark.parametrize("status", ["RUNNING", "SUCCEEDED"])
def test_one_that_runs_or_has_ended_well_is_taken_up_with_what_was_asked(
    left: Submitted, operator: Any, status: str
) -> None:
    task = operator(status)
    taken = task.take_up(context(left), WANTED)
    assert taken is not None
    exchange, request = taken
    assert (exchange.run_id, exchange.place) == ("app", left.place)
    assert request == replace(REQUEST, report_uri=exchange.report_uri)
    assert task.outlives_worker
    assert operator.killed == []


@pytest.mark.parametrize(
    ("logical_run", "status", "is_killed"),
    [
        ("a run that was cleared", "RUNNING", True),
        ("a run that was cleared", "SUCCEEDED", False),
        ("this run", "FAILED", False),
        ("this run", ConnectionError("404: no such application"), False),
    ],
)
def test_any_other_is_given_up_with_its_exchange(
    left: Submitted, operator: Any, logical_run: str, status: Any, is_killed: bool
) -> None:
    assert operator(status).take_up(context(left), replace(WANTED, logical_run=logical_run)) is None
    assert bool(operator.killed) is is_killed
    assert not Path(left.place).parent.exists(), "nobody answers it any more"


def test_one_whose_request_is_of_another_run_is_given_up(left: Submitted, operator: Any) -> None:
    wanted = replace(WANTED, logical_run="another")
    assert operator("RUNNING").take_up(context(replace(left, logical_run="another")), wanted) is None
    assert operator.killed == ["application_1"]


@pytest.mark.parametrize(
    "change",
    [
        {"documents": (Document("daily.sql", "SELECT 2"),)},
        {"overrides": (Override("daily", "day >= DATE'2026-01-01'"),)},
        {"full_refresh": ("daily",)},
        {"fingerprint": "of a module that was edited"},
    ],
    ids=lambda change: str(next(iter(change))),
)
def test_one_that_was_asked_something_else_is_given_up(left: Submitted, operator: Any, change: Any) -> None:
    assert operator("RUNNING").take_up(context(left), replace(WANTED, **change)) is None
    assert operator.killed == ["application_1"]


@pytest.mark.parametrize("value", [None, "application_1", {"job": "application_1"}, {"job": 1, "place": None}])
def test_what_was_kept_by_something_else_is_passed_over(operator: Any, value: Any) -> None:
    assert operator("RUNNING").take_up(context(value), WANTED) is None
    assert operator.killed == []


def test_where_airflow_keeps_nothing_no_driver_waits_for_another_worker(operator: Any) -> None:
    task = operator("RUNNING")
    assert task.take_up({}, WANTED) is None
    assert not task.outlives_worker
    assert not ReplaceWhereOperator(task_id="u", target="daily").outlives_worker
    assert not ReplaceWhereOperator(task_id="v", target="daily", durable=False, yarn_track_via_rm_api=True).durable
