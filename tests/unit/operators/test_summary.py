"""What people see of a run."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_provider_replacewhere.operators.summary import (
    asset_extra,
    failure_lines,
    markdown_of_plan,
    report_lines,
    request_lines,
    xcom_value,
)
from airflow_provider_replacewhere.planning.chunking import Chunk
from airflow_provider_replacewhere.planning.report import JobOutcome, Mode
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


def test_chunks_are_numbered_and_added_up() -> None:
    chunks = [
        report(f"app-1/{number}/daily", target="daily", mode=mode, rows_written=rows, chunk=Chunk(number, 3, "app-1"))
        for number, mode, rows in ((1, Mode.FULL_RECOMPUTE, 12), (2, Mode.NO_OP, 0))
    ]
    assert report_lines(chunks[0])[0] == "daily, chunk 1 of 3: replaced its window (FULL_RECOMPUTE)"
    assert report_lines(chunks[1]) == ["daily, chunk 2 of 3: nothing to do (NO_OP)"]
    request = RunRequest("app-1", datetime(2026, 3, 10, tzinfo=UTC))
    flow = xcom_value(JobOutcome("app-1", tuple(chunks)), request)["flows"]["daily"]
    assert flow["chunks"] == {"of": 3, "ended_well": 2, "nothing_to_do": 1}
    assert (flow["rows_deleted"], flow["rows_written"], flow["run_id"]) == (20, 12, "app-1/2/daily")


def test_a_plan_is_no_deed() -> None:
    lines = report_lines(report(target="daily", dry_run=True, rows_deleted=None))
    assert lines[0] == "daily: would replace its window (FULL_RECOMPUTE)"
    assert not any("removed" in line for line in lines)


def test_a_plan_as_markdown_is_a_list_of_what_it_says_and_nothing_else() -> None:
    plan = "\n".join(
        (
            "daily_*: would replace its window (FULL_RECOMPUTE)",
            "  window         (`a  b` < '<b>') AND (c = '[x](y)')",
            "weekly: nothing to do (NO_OP)",
            "  sources        rides@2",
        )
    )
    assert markdown_of_plan(plan).splitlines() == [
        r"**daily\_\*\: would replace its window \(FULL\_RECOMPUTE\)**",
        "",
        r"- **window** \(\`a  b\` \< \'\<b\>\'\) AND \(c \= \'\[x\]\(y\)\'\)",
        "",
        r"**weekly\: nothing to do \(NO\_OP\)**",
        "",
        r"- **sources** rides\@2",
    ]


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
