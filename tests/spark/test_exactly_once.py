"""One logical write is one commit, however often it is tried; what the ledger lost is found in the table's log."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere.flows.sql import parse_sql
from airflow_provider_replacewhere.local import LocalSession
from airflow_provider_replacewhere.planning.report import JobOutcome, Mode, RunReport
from airflow_provider_replacewhere.planning.request import Identity, Override, RunRequest
from airflow_provider_replacewhere.spark import run
from airflow_provider_replacewhere.spark.job import run_pipeline
from tests.spark.tables import NOON, WEEK, Lake, flow

if TYPE_CHECKING:
    from collections.abc import Mapping

RIDES = [(f"2026-03-{day:02d}", day) for day in range(1, 11)]
DAILY = flow("SELECT day, sum(fare) AS fare FROM rides GROUP BY day", where=WEEK, clauses="PARTITIONED BY (day)")
TASK = Identity("dag", "run", "task", -1, 1)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, fare INT", RIDES)
    return lake


def request(logical_run: str | None = None, **about: Any) -> RunRequest:
    return RunRequest(str(uuid.uuid4()), NOON, logical_run=logical_run, identity=TASK, **about)


def execute(lake: Lake, asked: RunRequest, pipeline: str = DAILY, *, record: bool = True) -> JobOutcome:
    """Run a request as an application does; without ``record``, its worker is lost before it hears of the end."""
    history = lake.session.history
    known = replace(asked, root=str(lake.root), previous=history.last_successful(), coverage=history.coverage())
    outcome = run_pipeline(lake.spark, parse_sql(pipeline), known)
    outcome.raise_for_failure()
    if record:
        history.record_outcome(outcome, TASK)
    return outcome


def told(report: RunReport) -> Mapping[str, Any]:
    """What a report says of its write, by whomever it is told."""
    apart = {"run_id", "adopted", "started_at", "finished_at", "rows_unchanged", "lineage", "nulls", "coverage"}
    return {name: value for name, value in report.to_json().items() if name not in apart}


def test_a_retry_adopts_the_commit_whose_report_was_lost(lake: Lake) -> None:
    (first,) = execute(lake, request("a task"), record=False).reports
    lake.add("rides", ("2026-03-10", 5))  # the retry must give what the first try gave
    written = lake.version("daily")
    outcome = execute(lake, request("a task"))
    (again,) = outcome.reports
    assert lake.version("daily") == written
    assert told(again) == told(first)
    assert again.adopted == first.run_id
    assert [(found.report.run_id, found.identity) for found in outcome.found] == [(first.run_id, TASK)]
    runs = lake.session.history.runs()
    assert {r.run_id: str(r.status) for r in runs} == {again.run_id: "succeeded", first.run_id: "succeeded"}
    # The rows that came in between are the next run's.
    assert lake.run(DAILY).mode is Mode.INCREMENTAL
    assert ("2026-03-10", 15) in lake.rows("daily")


def test_a_retry_of_a_run_that_was_recorded_writes_nothing(lake: Lake) -> None:
    (first,) = execute(lake, request("a task")).reports
    lake.run(DAILY, refresh_policy="full")  # another one, so that the ledger's last report is not the first's
    written = lake.version("daily")
    earlier = tuple(lake.session.history.reports_of(TASK, ["daily"]))
    (again,) = execute(lake, request("a task", earlier=earlier)).reports
    assert lake.version("daily") == written
    assert told(again) == told(first)


def test_another_run_of_the_same_flow_is_no_retry(lake: Lake) -> None:
    execute(lake, request("a task", refresh_policy="full"))
    (cleared,) = execute(lake, request("the task after it was cleared", refresh_policy="full")).reports
    assert cleared.adopted is None
    assert lake.version("daily") == 2


def test_a_retry_with_another_window_or_query_is_another_write(lake: Lake) -> None:
    execute(lake, request("a task"))
    override = (Override("daily", "day = DATE'2026-03-04'"),)
    (other,) = execute(lake, request("a task", overrides=override)).reports
    (changed,) = execute(lake, request("a task"), DAILY.replace("sum(fare)", "max(fare)")).reports
    assert [other.adopted, changed.adopted] == [None, None]
    assert lake.version("daily") == 3


def test_a_driver_that_was_left_behind_and_a_retry_make_one_commit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(lake, request("first of all"))
    lake.add("rides", ("2026-03-10", 5))
    plain, others = run.checked, []

    def overtaken(*about: Any, **how: Any) -> Any:
        if not others:
            others.append(None)
            others[:] = execute(lake, request("a task"), record=False).reports
        return plain(*about, **how)

    monkeypatch.setattr(run, "checked", overtaken)
    (slow,) = execute(lake, request("a task")).reports
    (fast,) = others
    assert fast is not None
    assert slow.adopted == fast.run_id
    assert lake.version("daily") == fast.target_version
    assert told(slow) == told(fast)


def test_the_ledger_is_rebuilt_from_the_log(lake: Lake) -> None:
    lake.run(DAILY)
    lake.add("rides", ("2026-03-10", 5))
    lake.run(DAILY)
    lake.run(DAILY, overrides={"daily": "day = DATE'2026-03-01'"})
    before = lake.session.history
    lost = LocalSession(lake.spark, root=lake.root, history=f"sqlite:///{lake.root}/new.db")
    (report,) = lost.run(DAILY, as_of=NOON)
    assert report.mode is Mode.NO_OP
    after = lost.history
    assert [r.run_id for r in after.runs()][1:] == [r.run_id for r in before.runs()]
    assert [told(r.report) for r in after.runs() if r.report][1:] == [told(r.report) for r in before.runs() if r.report]
    assert _proven(after.coverage()["daily"]) == _proven(before.coverage()["daily"])


def _proven(coverage: dict[str, Any]) -> Any:
    fragments = [{k: v for k, v in f.items() if k != "run_id"} for f in coverage["fragments"]]
    return fragments, coverage["target_id"], coverage["target_version"]


def test_commits_of_others_between_lost_reports_are_not_forgotten(lake: Lake) -> None:
    lake.run(DAILY)
    lake.sql("DELETE FROM {daily} WHERE day = DATE'2026-03-05'")
    execute(lake, request(overrides=(Override("daily", "day = DATE'2026-03-08'"),)), record=False)
    report = lake.run(DAILY)
    assert report.replaced == "(`day` = DATE '2026-03-05')"
    assert ("2026-03-05", 5) in lake.rows("daily")


def test_what_was_undone_by_hand_stays_undone_for_a_retry_and_is_stale_for_the_next_run(lake: Lake) -> None:
    execute(lake, request("first of all"))
    lake.add("rides", ("2026-03-10", 5))
    (first,) = execute(lake, request("a task"), record=False).reports
    lake.sql("RESTORE TABLE {daily} TO VERSION AS OF 1")
    undone = lake.version("daily")
    (again,) = execute(lake, request("a task")).reports
    assert again.adopted == first.run_id
    assert lake.version("daily") == undone
    assert lake.run(DAILY).replaced is not None
    assert ("2026-03-10", 15) in lake.rows("daily")


def test_a_plan_adopts_and_records_nothing(lake: Lake) -> None:
    execute(lake, request("a task"), record=False)
    (plan,) = execute(lake, request("a task", dry_run=True), record=False).reports
    assert plan.adopted is None
    assert lake.session.history.runs() == []
