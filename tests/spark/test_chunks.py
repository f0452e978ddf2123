"""A wide backfill in chunks: a commit for each, and what is done stays done."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere.errors import ExpectationError, RequestError
from airflow_provider_replacewhere.flows.sql import parse_sql
from airflow_provider_replacewhere.planning.chunking import Chunk, Chunking
from airflow_provider_replacewhere.planning.report import JobOutcome, Mode
from airflow_provider_replacewhere.planning.request import Identity, Override, RunRequest
from airflow_provider_replacewhere.spark import run
from airflow_provider_replacewhere.spark.job import run_pipeline
from tests.spark.tables import NOON, WEEK, Lake, flow

if TYPE_CHECKING:
    from airflow_provider_replacewhere.planning.report import RunReport

DAYS = [f"2026-02-{day:02d}" for day in range(1, 11)]
DAILY = flow("SELECT day, sum(fare) AS fare FROM rides GROUP BY day", where=WEEK, clauses="PARTITIONED BY (day)")
WINDOW = "day >= DATE'2026-02-01' AND day < DATE'2026-02-11'"
TASK = Identity("dag", "run", "task", -1, 1)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, fare INT", [(day, 1) for day in DAYS])
    return lake


def backfill(lake: Lake, chunking: Chunking, pipeline: str = DAILY, **more: Any) -> list[RunReport]:
    return lake.run_all(pipeline, overrides={"daily": WINDOW}, chunking=chunking, **more)


def execute(lake: Lake, run_id: str, chunking: Chunking, **about: Any) -> JobOutcome:
    """Run a backfill as one try of a task does; nothing is recorded."""
    history = lake.session.history
    request = RunRequest(
        run_id,
        NOON,
        overrides=(Override("daily", WINDOW),),
        root=str(lake.root),
        previous=history.last_successful(),
        coverage=history.coverage(),
        identity=TASK,
        logical_run="a task",
        chunking=chunking,
    )
    return run_pipeline(lake.spark, parse_sql(DAILY), replace(request, **about))


def test_each_chunk_is_a_run_with_a_commit_of_its_own(lake: Lake) -> None:
    reports = backfill(lake, Chunking("day", 3))

    assert lake.rows("daily") == [(day, 1) for day in DAYS]
    assert [report.window for report in reports] == [
        "((`day` >= DATE '2026-02-01') AND (`day` < DATE '2026-02-04'))",
        "((`day` >= DATE '2026-02-04') AND (`day` < DATE '2026-02-07'))",
        "((`day` >= DATE '2026-02-07') AND (`day` < DATE '2026-02-10'))",
        "(`day` = DATE '2026-02-10')",
    ]
    assert [report.target_version for report in reports] == [1, 2, 3, 4]
    backfill_id = reports[0].run_id.split("/")[0]
    assert [report.chunk for report in reports] == [Chunk(n, 4, backfill_id) for n in range(1, 5)]
    assert [report.run_id for report in reports] == [f"{backfill_id}/{n}/daily" for n in range(1, 5)]
    # History and commits tell the same.
    assert [run.report.chunk for run in lake.session.history.runs() if run.report] == [r.chunk for r in reports][::-1]
    metadata = json.loads(lake.commit("daily")["userMetadata"])["replacewhere"]
    assert metadata["chunk"] == {"number": 4, "of": 4, "backfill": backfill_id}


def test_what_is_proven_fresh_is_left_out_when_asked(lake: Lake) -> None:
    backfill(lake, Chunking("day", 5))
    lake.add("rides", ("2026-02-08", 10))
    outcome = lake.session.execute(DAILY, _request(lake, only_stale=True, chunking=Chunking("day", 5, order="newest")))
    assert [str(report.mode) for report in outcome.reports] == ["INCREMENTAL", "NO_OP"]
    assert outcome.reports[0].replaced == "(`day` = DATE '2026-02-08')"
    # All of it is proven by one fragment, as if it had been one run.
    again = lake.run(DAILY.replace(WEEK, WINDOW))
    assert again.mode is Mode.NO_OP, (again.reasons, again.replaced)


def _request(lake: Lake, **about: Any) -> RunRequest:
    return RunRequest("again", NOON, overrides=(Override("daily", WINDOW),), root=str(lake.root), **about)


def test_a_chunk_that_fails_stops_the_rest_or_not(lake: Lake) -> None:
    lake.add("rides", ("2026-02-05", -5))
    checked = DAILY.replace(
        "daily PARTITIONED", "daily (CONSTRAINT sane EXPECT (fare > 0) ON VIOLATION FAIL UPDATE) PARTITIONED"
    )
    for policy, days in (("stop", DAYS[:4]), ("go_on", [day for day in DAYS if day not in DAYS[4:6]])):
        with pytest.raises(ExpectationError, match="sane"):
            backfill(lake, Chunking("day", 2, on_failure=policy), checked)
        assert [day for day, _ in lake.rows("daily")] == days
    failed = lake.session.history.runs(status="failed")
    assert [run.run_id.split("/")[1:] for run in failed] == [["3", "daily"], ["3", "daily"]]


def test_a_later_try_does_only_what_is_missing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    write, written = run._Run._replace, []

    def dies(self: Any, *about: Any) -> Any:
        written.append(self.run_id)
        if len(written) == 4:
            raise KeyboardInterrupt
        return write(self, *about)

    monkeypatch.setattr(run._Run, "_replace", dies)
    with pytest.raises(KeyboardInterrupt):
        execute(lake, "first", Chunking("day", 2))
    monkeypatch.setattr(run._Run, "_replace", write)
    before = lake.version("daily")
    assert before == 3
    lake.sql("DELETE FROM {daily} WHERE day = DATE'2026-02-20'")  # nothing of it: a commit of somebody else's

    outcome = execute(lake, "second", Chunking("day", 2))

    assert outcome.failures == ()
    assert [report.adopted for report in outcome.reports] == [f"first/{n}/daily" for n in (1, 2, 3)] + [None, None]
    assert [found.report.run_id for found in outcome.found] == [f"first/{n}/daily" for n in (1, 2, 3)]
    assert lake.rows("daily") == [(day, 1) for day in DAYS]
    # And the ledger is as if nothing had happened.
    lake.session.history.record_outcome(outcome, TASK)
    again = lake.run(DAILY.replace(WEEK, WINDOW))
    assert again.mode is Mode.NO_OP, (again.reasons, again.replaced)


def test_a_gap_in_the_middle_is_filled(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    write = run._Run._replace

    def fails(self: Any, *about: Any) -> Any:
        if self.run_id == "first/2/daily":
            raise RequestError("no")
        return write(self, *about)

    monkeypatch.setattr(run._Run, "_replace", fails)
    assert len(execute(lake, "first", Chunking("day", 2, on_failure="go_on")).failures) == 1
    monkeypatch.setattr(run._Run, "_replace", write)

    outcome = execute(lake, "second", Chunking("day", 2))

    assert outcome.failures == ()
    assert [report.adopted is None for report in outcome.reports] == [False, True, False, False, False]
    assert lake.rows("daily") == [(day, 1) for day in DAYS]


def test_a_plan_tells_the_chunks(lake: Lake) -> None:
    request = _request(lake, dry_run=True, chunking=Chunking("week"))
    (report,) = lake.session.execute(DAILY, request).reports
    assert report.planning_information["chunks"] == [
        "(`day` = DATE '2026-02-01')",
        "((`day` >= DATE '2026-02-02') AND (`day` < DATE '2026-02-09'))",
        "((`day` >= DATE '2026-02-09') AND (`day` < DATE '2026-02-11'))",
    ]
    assert not lake.path("daily").exists()


def test_what_cannot_be_cut_is_refused(lake: Lake) -> None:
    with pytest.raises(RequestError, match="cannot be cut by month"):
        lake.run(DAILY, overrides={"daily": "day < DATE'2026-02-11'"}, chunking=Chunking("month"))
    assert not lake.path("daily").exists()


def test_chunks_of_about_as_many_rows(lake: Lake) -> None:
    lake.add("rides", *[("2026-02-04", 1)] * 20, *[("2026-02-05", 1)] * 20)
    reports = backfill(lake, Chunking("rows", 8))
    assert len(reports) > 2
    assert sum(fare for _, fare in lake.rows("daily")) == 50


def test_by_bytes_of_the_target_where_no_source_tells(lake: Lake) -> None:
    pipeline = flow("SELECT max(day) AS day, sum(fare) AS fare FROM rides GROUP BY month(day), day(day)")
    with pytest.raises(RequestError, match="No statistics tell how many bytes there are along day"):
        backfill(lake, Chunking("bytes", 1_000_000), pipeline)
    lake.run(pipeline, overrides={"daily": WINDOW})
    assert len(backfill(lake, Chunking("bytes", 1_000_000), pipeline)) == 1
