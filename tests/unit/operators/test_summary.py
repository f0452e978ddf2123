"""What people see of a run."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_provider_replacewhere.operators.summary import (
    asset_extra,
    failure_lines,
    report_lines,
    request_lines,
)
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.planning.request import FlowArguments, Override, RunRequest
from tests.history import failure, report


def test_a_run_is_told_in_a_few_lines() -> None:
    told = report(
        target="daily",
        replaced="(`d` = DATE '2026-03-02')",
        rows_written=1200,
        override=True,
        columns_added=("fee",),
        expectations={"positive": {"violations": 3, "action": "DROP ROW"}, "fine": {"violations": 0}},
    )
    assert report_lines(told) == [
        "daily: replaced its window (FULL_RECOMPUTE)",
        "  why            FIRST_REFRESH",
        "  window         d >= DATE '2026-03-01'  (override)",
        "  replaced       d = DATE '2026-03-02'",
        "  rows           10 removed, 1,200 written",
        "  version        3, token token of app-1/daily",
        "  sources        rides@7, zones",
        "  new columns    fee",
        "  expectation    positive: 3 rows break it (DROP ROW)",
    ]


def test_a_run_that_wrote_nothing_says_so() -> None:
    told = report(target="daily", mode=Mode.NO_OP, reasons=(), replaced=None, source_versions={})
    assert report_lines(told) == [
        "daily: nothing to do (NO_OP)",
        "  why            the ledger proves the whole window fresh",
        "  window         d >= DATE '2026-03-01'",
        "  sources        none",
    ]


def test_a_plan_is_no_deed() -> None:
    lines = report_lines(report(target="daily", dry_run=True, rows_deleted=None))
    assert lines[0] == "daily: would have replaced its window (FULL_RECOMPUTE)"
    assert not any("removed" in line for line in lines)


def test_what_is_asked_is_told_before_it_runs() -> None:
    request = RunRequest(
        "app",
        datetime(2026, 3, 10, tzinfo=UTC),
        arguments=FlowArguments("daily", "p", "q"),
        overrides=(Override("daily", "d = 1"),),
        full_refresh=("other",),
        dry_run=True,
    )
    assert request_lines(request, "local[2]") == [
        "Planning daily from arguments on local[2]",
        "  as of          2026-03-10T00:00:00+00:00 (UTC)",
        "  override       daily: d = 1",
        "  full refresh   other",
    ]


def test_a_failure_says_that_the_table_is_as_it_was() -> None:
    assert failure_lines(failure(target="daily")) == ["daily: failed, the table is as it was (WriteError)"]


def test_an_outlet_named_like_a_target_tells_of_that_target_alone() -> None:
    daily, weekly = report(flow="a", target="lake.daily"), report(flow="b", target="weekly")
    nothing = report(flow="c", target="idle", mode=Mode.NO_OP, replaced=None)

    def targets(name: str, uri: str) -> list[str] | None:
        extra = asset_extra(name, uri, [daily, weekly, nothing])
        return extra and [run["target"] for run in extra["replacewhere"]]

    assert targets("lake.daily", "") == ["lake.daily"]
    assert targets("", "s3://bucket/WEEKLY/") == ["weekly"]
    assert targets("everything", "s3://bucket") == ["lake.daily", "weekly"]
    assert targets("idle", "") is None
    assert asset_extra("x", "", [nothing, report(dry_run=True)]) is None


def test_an_override_is_one_line_of_the_log_whatever_is_in_it() -> None:
    typed = "n = 1 -- \x1b[2J\n[2026-03-10] INFO all is well\r/* \u202e */"
    request = RunRequest("app", datetime(2026, 3, 10, tzinfo=UTC), overrides=(Override("daily", typed),))
    (line,) = [line for line in request_lines(request, "local") if "override" in line]
    assert line.isprintable()
    assert "all is well" in line
