"""What is recorded comes back, in order, once, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history.records import Event, RunStatus
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.report import Found, JobOutcome, Mode
from airflow_provider_replacewhere.planning.request import Identity
from tests.history import failure, report

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

TASK = Identity("sales", "scheduled__2026-03-10", "daily", map_index=-1, try_number=2)


def test_an_empty_history_has_no_runs(store: HistoryStore) -> None:
    assert store.runs() == []
    assert store.run("app-1/daily") is None
    assert store.last_successful(["sales.daily"]) == {}


def test_a_run_that_began_is_running(store: HistoryStore) -> None:
    as_of = datetime(2026, 3, 10, 1, tzinfo=timezone(timedelta(hours=1)))
    before = datetime.now(UTC)
    assert store.started(
        "app-1/daily", "daily", "sales.daily", as_of=as_of, predicate="d > 1", override=True, window="(`d` > 1)",
        definition_hash="5f2c", token="t", identity=TASK,
    )  # fmt: skip
    (run,) = store.runs()
    assert run.status is RunStatus.RUNNING
    assert before <= run.started_at <= datetime.now(UTC)
    assert run.finished_at is None
    assert run.report is None
    assert run.error is None
    (event,) = run.events
    assert event == Event(
        run_id="app-1/daily", kind="started", flow="daily", target="sales.daily", sequence=1,
        recorded_at=run.started_at, identity=TASK, window="(`d` > 1)", predicate="d > 1", override=True,
        as_of="2026-03-10T01:00:00+01:00", definition_hash="5f2c", token="t",
    )  # fmt: skip


def test_the_report_of_a_run_comes_back_whole(store: HistoryStore) -> None:
    done = report(
        target="Sales.`Täglich`",
        evaluated={"rand()": "0.25"},
        expectations={"positive": {"action": "WARN", "violations": 2}},
        columns_added=("tip",),
        planning_information={"words": "quote ' backtick ` percent % colon :x emoji \N{ROCKET}"},
        window="x" * 100_000,
    )
    store.started(done.run_id, done.flow, done.target)
    assert store.record(done, TASK)
    run = store.run(done.run_id)
    assert run is not None
    assert run.status is RunStatus.SUCCEEDED
    assert run.report == done
    assert run.identity == TASK
    assert run.started_at <= (run.finished_at or run.started_at)
    last = run.events[-1]
    assert (last.mode, last.window, last.target_version) == ("FULL_RECOMPUTE", done.window, 3)
    assert store.last_successful(["SALES.täglich"]) == {"SALES.täglich": done.to_json()}
    assert run.to_json()["report"] == done.to_json()


def test_a_failed_run_keeps_its_error_and_is_no_success(store: HistoryStore) -> None:
    store.record(report("app-1/daily", target_version=1))
    assert store.failed(failure("app-2/daily"), TASK)
    run = store.run("app-2/daily")
    assert run is not None
    assert run.status is RunStatus.FAILED
    assert run.error == failure().error
    assert store.last_successful(["sales.daily"])["sales.daily"]["run_id"] == "app-1/daily"


def test_a_commit_stays_a_success_when_its_task_fails_later(store: HistoryStore) -> None:
    store.record(report())
    store.failed(failure())
    run = store.run("app-1/daily")
    assert run is not None
    assert run.status is RunStatus.SUCCEEDED
    assert run.error is None
    assert store.runs(status="failed") == []


def test_a_failure_that_turns_out_to_have_committed_becomes_a_success(store: HistoryStore) -> None:
    store.failed(failure())
    store.record(report())
    assert [run.status for run in store.runs()] == [RunStatus.SUCCEEDED]
    assert len(store.last_successful(["sales.daily"])) == 1


def test_recording_twice_adds_nothing(store: HistoryStore) -> None:
    assert [store.started("r", "daily", "sales.daily") for _ in range(2)] == [True, False]
    assert [store.record(report("r")) for _ in range(2)] == [True, False]
    assert [store.failed(failure("s")) for _ in range(2)] == [True, False]
    assert [len(run.events) for run in store.runs()] == [1, 2]
    store.record(report("t"))
    assert store.runs()[0].sequence == 4, "a recording that adds nothing uses up no number"


def test_another_report_under_the_same_run_id_is_refused(store: HistoryStore) -> None:
    store.record(report("r"))
    with pytest.raises(RequestError, match="The run r of daily is in the history with another report"):
        store.record(report("r", target_version=4, token="other"))
    assert store.last_successful(["sales.daily"])["sales.daily"]["target_version"] == 3


def test_a_report_that_was_found_in_the_log_before_it_came_is_the_same_one(store: HistoryStore) -> None:
    found = Found(report("r", rows_unchanged=None), Identity("dag", "run", "task", -1, 1))
    store.record_outcome(JobOutcome("another", found=(found,)))
    assert not store.record(report("r", rows_unchanged=1))
    (run,) = store.runs()
    assert run.identity.dag_id == "dag"
    assert run.report == found.report


def test_reports_of_one_task_are_those_of_all_its_tries(store: HistoryStore) -> None:
    task = Identity("dag", "run", "task", -1, 1)
    store.record(report("first"), task)
    store.record(report("second", target="Sales.Daily"), replace(task, try_number=2))
    for number, other in enumerate(
        (replace(task, dag_run_id="other"), replace(task, task_id="other"), replace(task, map_index=0), Identity())
    ):
        store.record(report(f"other {number}"), other)
    store.record(report("third", target="sales.other"), task)
    assert [r["run_id"] for r in store.reports_of(task, ["sales.daily"])] == ["second", "first"]


def test_a_dry_run_is_not_recorded(store: HistoryStore) -> None:
    assert not store.record(report(dry_run=True))
    store.record_outcome(JobOutcome("app-1", reports=(report(dry_run=True),)))
    assert store.runs() == []


def test_an_outcome_is_recorded_whole_or_not_at_all(store: HistoryStore) -> None:
    outcome = JobOutcome(
        "app-1",
        reports=(report("app-1/a", flow="a", target="a"), report("app-1/b", flow="b", target="b", mode=Mode.NO_OP)),
        failures=(failure("app-1/c", flow="c", target="c"),),
    )
    store.record_outcome(outcome, TASK)
    store.record_outcome(outcome, TASK)
    assert [(run.flow, str(run.status)) for run in store.runs()] == [
        ("c", "failed"), ("b", "succeeded"), ("a", "succeeded"),
    ]  # fmt: skip
    broken = JobOutcome("app-2", reports=(report("app-2/new"), report("app-1/a", token="another")))
    with pytest.raises(RequestError):
        store.record_outcome(broken)
    assert store.run("app-2/new") is None


def test_the_last_success_is_the_last_recorded_whatever_the_clocks_said(store: HistoryStore) -> None:
    store.record(report("first", finished_at="2030-01-01T00:00:00+00:00"))
    store.record(report("second", finished_at="2020-01-01T00:00:00+00:00"))
    assert store.last_successful(["sales.daily"])["sales.daily"]["run_id"] == "second"
    assert [run.run_id for run in store.runs()] == ["second", "first"]


def test_targets_are_found_however_they_are_spelled(store: HistoryStore) -> None:
    store.record(report("table", target="Sales.Daily"))
    store.record(report("path", target="delta.`/data/Daily`"))
    found = store.last_successful(["sales.`DAILY`", "SALES.daily", "DELTA.`/data/Daily/`", "delta.`/data/daily`"])
    assert {target: last["run_id"] for target, last in found.items()} == {
        "sales.`DAILY`": "table",
        "SALES.daily": "table",
        "DELTA.`/data/Daily/`": "path",
    }
    assert [run.run_id for run in store.runs(target="sales.DAILY")] == ["table"]
    assert store.last_successful([]) == {}


def test_without_naming_targets_all_last_successes_come_back(store: HistoryStore) -> None:
    store.record(report("old", target="A"))
    store.record(report("new", target="a"))
    store.record(report("b", target="b"))
    store.failed(failure("c", target="c"))
    assert {target: last["run_id"] for target, last in store.last_successful().items()} == {"a": "new", "b": "b"}


def test_runs_are_filtered_and_paged(store: HistoryStore) -> None:
    for number in range(6):
        flow = "even" if number % 2 == 0 else "odd"
        store.started(f"r{number}", flow, flow)
    for number in range(4):
        store.record(report(f"r{number}", flow="x", target="x"))
    store.failed(failure("r4", flow="even", target="even"))

    def ids(**filters: object) -> list[str]:
        return [run.run_id for run in store.runs(**filters)]  # type: ignore[arg-type]

    assert ids() == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert ids(flow="odd") == ["r5", "r3", "r1"]
    assert ids(status="running") == ["r5"]
    assert ids(status=RunStatus.FAILED) == ["r4"]
    assert ids(status="succeeded", limit=2) == ["r3", "r2"]
    assert ids(limit=None, before=store.runs(limit=2)[-1].sequence) == ["r3", "r2", "r1", "r0"]
    assert ids(limit=2, before=store.runs(limit=2)[-1].sequence) == ["r3", "r2"]
    with pytest.raises(RequestError, match="The status is 'done'"):
        store.runs(status="done")


def test_a_filtered_run_keeps_all_its_events(store: HistoryStore) -> None:
    store.started("r", "daily", "sales.daily")
    store.record(report("r"))
    for found in (store.runs(target="sales.daily"), store.runs(flow="daily"), store.runs(status="succeeded")):
        assert [len(run.events) for run in found] == [2]


def test_events_of_a_kind_unknown_to_this_version_are_kept_and_passed_over(store: HistoryStore) -> None:
    store.append(Event(run_id="r", kind="adopted", flow="daily", target="sales.daily"))
    assert [(run.status, run.events[0].kind) for run in store.runs()] == [(RunStatus.RUNNING, "adopted")]


def test_writers_at_once_lose_nothing_and_share_no_number(history_url: str) -> None:
    stores = [HistoryStore(history_url) for _ in range(4)]

    def write(worker: int) -> None:
        for number in range(10):
            run_id = f"{worker}-{number}"
            stores[worker].started(run_id, f"flow{worker}", f"target{worker}")
            stores[worker].record(report(run_id, flow=f"flow{worker}", target=f"target{worker}"))
            stores[worker].record(report("the same for all"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    runs = stores[0].runs(limit=None)
    assert len(runs) == 41
    assert all(run.status is RunStatus.SUCCEEDED for run in runs)
    assert sorted(event.sequence for run in runs for event in run.events) == list(range(1, 82))
    assert {last["run_id"] for last in stores[0].last_successful([f"target{n}" for n in range(4)]).values()} == {
        f"{worker}-9" for worker in range(4)
    }
