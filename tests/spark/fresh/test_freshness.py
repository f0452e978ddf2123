"""Each reason for which a run recomputes, provoked on real tables, and read back from report and ledger."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import NullKeyError, PlanRefusedError
from airflow_provider_replacewhere.planning.changes import LogCommit, parse_commit
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.spark.log import commit_text
from tests.spark.tables import NOON, WEEK, Lake, flow, untouched

RIDES = [(f"2026-03-{day:02d}", zone, day) for day in range(1, 11) for zone in ("a", "b")]
QUERY = "SELECT day, zone, sum(fare) AS fare FROM rides GROUP BY day, zone"
BY_DAY = "PARTITIONED BY (day)"


def days(first: int, end: int) -> str:
    """A window as a person writes it."""
    return f"day >= DATE'2026-03-{first:02d}' AND day < DATE'2026-03-{end:02d}'"


def canonical(first: int, end: int) -> str:
    """The same as reports show it."""
    if end == first + 1:
        return f"(`day` = DATE '2026-03-{first:02d}')"
    return f"((`day` >= DATE '2026-03-{first:02d}') AND (`day` < DATE '2026-03-{end:02d}'))"


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, zone STRING, fare INT", RIDES)
    return lake


def names(report: RunReport) -> list[str]:
    return [reason["reason"] for reason in report.reasons]


def only(report: RunReport) -> dict[str, Any]:
    """The one reason of a run."""
    (reason,) = report.reasons
    return dict(reason)


def recorded(lake: Lake, report: RunReport) -> RunReport:
    """The report, after a look at what the ledger keeps of it."""
    found = lake.session.history.runs(limit=1)[0].report
    assert found == report
    (technique,) = found.planning_information["technique_information"]
    assert technique["maintenance_type"] == report.mode
    assert technique["is_chosen"]
    assert [issue.pop("issue_type") for issue in technique["incrementalization_issues"]] == names(report)
    data = [{k: v for k, v in reason.items() if k != "reason"} for reason in report.reasons]
    assert technique["incrementalization_issues"] == data
    return report


def run(lake: Lake, text: str, **how: Any) -> RunReport:
    return recorded(lake, lake.run(text, **how))


def plan(lake: Lake, text: str, **how: Any) -> RunReport:
    (report,) = lake.session.plan(text, **{"as_of": how.pop("as_of", None) or NOON, **how})
    return report


def is_right(lake: Lake, where: str = WEEK, query: str = QUERY) -> bool:
    """Whether the window holds what the query gives for it; at NOON."""
    where = where.replace("current_date()", "DATE'2026-03-10'")
    wanted = query.replace("FROM rides", f"FROM {lake.sql_name('rides')}")
    columns = "day, zone, fare"
    held = lake.spark.sql(f"SELECT {columns} FROM {lake.sql_name('daily')} WHERE {where}")
    return sorted(map(str, held.collect())) == sorted(
        map(str, lake.spark.sql(f"SELECT {columns} FROM ({wanted}) WHERE {where}").collect())
    )


def last_commit(lake: Lake) -> LogCommit:
    version = lake.version("daily")
    text = commit_text(lake.spark, str(lake.path("daily")), version)
    assert text is not None
    return parse_commit(version, text)


def partitions(lake: Lake) -> set[str | None]:
    """The days of which the last commit added or removed a file."""
    commit = last_commit(lake)
    return {file.partition_values["day"] for file in (*commit.added, *commit.removed)}


def test_a_second_run_has_nothing_to_do_until_rows_change(lake: Lake) -> None:
    first = run(lake, flow(QUERY))
    assert (first.mode, names(first), first.replaced) == ("FULL_RECOMPUTE", ["FIRST_REFRESH"], first.window)
    assert is_right(lake)
    version = lake.version("daily")
    second = run(lake, flow(QUERY))
    assert (second.mode, names(second), second.replaced) == ("NO_OP", [], None)
    assert second.fresh == second.window
    assert lake.version("daily") == version
    # Files move, no row does.
    lake.add("rides", ("2026-02-01", "a", 1))
    run(lake, flow(QUERY))
    for table in ("rides", "daily"):
        lake.sql(f"OPTIMIZE {{{table}}}")
        lake.sql(f"VACUUM {{{table}}} RETAIN 200 HOURS")
        lake.sql(f"ALTER TABLE {{{table}}} SET TBLPROPERTIES ('team' = 'sales')")
    assert lake.commit("rides", lake.version("rides") - 3)["operation"] == "OPTIMIZE"
    assert run(lake, flow(QUERY)).mode == "NO_OP"


def test_only_what_changes_the_answer_changes_the_query(lake: Lake) -> None:
    view = "CREATE TEMPORARY VIEW some AS SELECT * FROM rides WHERE fare > {};"
    text = view + flow(QUERY.replace("FROM rides", "FROM some"))
    first = run(lake, text.format(0))
    same = (
        text.format(0).replace("SELECT day, zone, sum", "-- by day\n select  day,\n zone, SUM").replace("FROM", "from")
    )
    assert plan(lake, same).mode == "NO_OP"
    another = plan(lake, text.format(4))
    assert (another.mode, names(another)) == ("FULL_RECOMPUTE", ["QUERY_FINGERPRINT_CHANGED"])
    assert only(another)["previous"] == first.definition_hash
    assert only(another)["region"] == another.window
    elsewhere = plan(lake, text.format(0), time_zone="Asia/Tokyo")
    assert names(elsewhere) == ["QUERY_FINGERPRINT_CHANGED"]
    changed = run(lake, text.format(4))
    assert names(changed) == ["QUERY_FINGERPRINT_CHANGED"]
    assert run(lake, text.format(4)).mode == "NO_OP"
    assert names(run(lake, text.format(0))) == ["QUERY_FINGERPRINT_CHANGED"], "what was is gone"


@pytest.mark.parametrize(
    "clauses",
    [BY_DAY, "", "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"],
    ids=["partitioned", "plain", "deletion vectors"],
)
def test_changes_by_others(lake: Lake, clauses: str) -> None:
    text = flow(QUERY, clauses=clauses)
    run(lake, text)
    filled = lake.version("daily")
    lake.sql("INSERT INTO {daily} VALUES (DATE'2026-02-01', 'a', 1)")
    assert run(lake, text).mode == "NO_OP", "outside of the window"

    lake.sql("INSERT INTO {daily} VALUES (DATE'2026-03-05', 'x', 1)")
    inserted = run(lake, text)
    assert (inserted.mode, names(inserted)) == ("INCREMENTAL", ["EXTERNAL_CHANGE_IN_REPLACE_WINDOW"])
    assert only(inserted)["operation"] == "WRITE"
    assert only(inserted)["version"] == lake.version("daily") - 1
    assert only(inserted)["region"] == inserted.replaced == canonical(5, 6)
    assert is_right(lake)

    lake.sql("UPDATE {daily} SET fare = fare + 1 WHERE day = DATE'2026-03-06' AND zone = 'a'")
    lake.sql("DELETE FROM {daily} WHERE day = DATE'2026-03-07' AND zone = 'b'")
    changed = run(lake, text)
    assert names(changed) == ["EXTERNAL_CHANGE_IN_REPLACE_WINDOW"] * 2
    assert {reason["operation"] for reason in changed.reasons} == {"UPDATE", "DELETE"}
    assert is_right(lake)
    if clauses == BY_DAY:
        assert changed.replaced == canonical(6, 8)
        assert partitions(lake) == {"2026-03-06", "2026-03-07"}

    lake.sql(f"RESTORE TABLE {{daily}} TO VERSION AS OF {filled - 1}")
    restored = run(lake, text)
    assert (restored.mode, names(restored)) == ("FULL_RECOMPUTE", ["EXTERNAL_CHANGE_IN_REPLACE_WINDOW"])
    assert only(restored)["operation"] == "RESTORE"
    assert is_right(lake)
    assert run(lake, text).mode == "NO_OP"


def test_a_target_that_was_made_anew_is_not_the_one_that_was_filled(lake: Lake) -> None:
    run(lake, flow(QUERY))
    shutil.rmtree(lake.path("daily"))
    assert names(plan(lake, flow(QUERY))) == ["FIRST_REFRESH"]
    lake.make("daily", "day DATE, zone STRING, fare BIGINT", [("2026-03-05", "x", 1)])
    again = run(lake, flow(QUERY))
    assert again.mode == "FULL_RECOMPUTE"
    assert "EXTERNAL_CHANGE_IN_REPLACE_WINDOW" in names(again)
    assert is_right(lake)


def test_a_random_bound_is_recorded_and_recomputed_twice(lake: Lake) -> None:
    random = "day >= date_sub(DATE'2026-03-10', CAST(7 + 0 * rand() AS INT))"
    for _ in range(2):
        report = run(lake, flow(QUERY, where=random))
        assert report.mode == "FULL_RECOMPUTE"
        assert "REPLACE_WHERE_NOT_DETERMINISTIC" in names(report)
        assert report.evaluated
        chosen = next(r for r in report.reasons if r["reason"] == "REPLACE_WHERE_NOT_DETERMINISTIC")
        assert chosen["evaluated"] == report.evaluated
    assert names(report)[1] == "PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC"
    after = run(lake, flow(QUERY))
    assert after.mode == "FULL_RECOMPUTE"
    assert "PRIOR_REPLACE_WHERE_NOT_DETERMINISTIC" in names(after)
    assert run(lake, flow(QUERY)).mode == "NO_OP"


def test_a_predicate_that_is_no_box_is_recomputed_whole(lake: Lake) -> None:
    where = f"{WEEK} AND length(zone) = 1"
    run(lake, flow(QUERY, where=where))
    report = run(lake, flow(QUERY, where=where))
    assert (report.mode, report.replaced) == ("FULL_RECOMPUTE", report.window)
    assert "UNSUPPORTED_REPLACE_WHERE_PREDICATE" in names(report)
    assert report.reasons[0]["predicate"] == report.window
    with untouched(lake, "daily", by=PlanRefusedError, match="UNSUPPORTED_REPLACE_WHERE_PREDICATE"):
        lake.run(flow(QUERY, where=where), refresh_policy="incremental_strict")


def test_a_widened_window_recomputes_only_what_it_newly_exposes(lake: Lake) -> None:
    run(lake, flow(QUERY, where=days(4, 7), clauses=BY_DAY))
    wider = run(lake, flow(QUERY, where=days(3, 9), clauses=BY_DAY))
    assert (wider.mode, names(wider)) == ("INCREMENTAL", ["WINDOW_WIDENED"])
    newly = f"((`day` = DATE '2026-03-03') OR {canonical(7, 9)})"
    assert only(wider)["newly_exposed"] == wider.replaced == newly
    assert wider.fresh == canonical(4, 7)
    assert (wider.rows_written, wider.rows_deleted) == (6, 0)
    assert partitions(lake) == {"2026-03-03", "2026-03-07", "2026-03-08"}
    assert is_right(lake, days(3, 9))

    moved = run(lake, flow(QUERY, where=days(4, 10), clauses=BY_DAY))
    assert only(moved)["newly_exposed"] == moved.replaced == canonical(9, 10)
    assert run(lake, flow(QUERY, where=days(5, 8), clauses=BY_DAY)).mode == "NO_OP"
    assert run(lake, flow(QUERY, where=days(3, 10), clauses=BY_DAY)).mode == "NO_OP", "what was proven stays proven"
    apart = run(lake, flow(QUERY, where=days(1, 2), clauses=BY_DAY))
    assert (apart.mode, apart.replaced) == ("FULL_RECOMPUTE", canonical(1, 2))
    assert only(apart)["newly_exposed"] == canonical(1, 2)
    assert is_right(lake, "day >= DATE'2026-03-01' AND day < DATE'2026-03-10' AND day <> DATE'2026-03-02'")
    forced = plan(lake, flow(QUERY, where=days(3, 10), clauses=BY_DAY), refresh_policy="full")
    assert (forced.mode, names(forced)) == ("FULL_RECOMPUTE", ["FULL_RECOMPUTE_REQUESTED"])


def test_an_override_recomputes_its_window_and_leaves_the_rest_proven(lake: Lake) -> None:
    text = flow(QUERY, where=days(4, 8))
    run(lake, text)
    report = run(lake, text, overrides={"daily": days(6, 10)})
    assert (report.mode, report.replaced) == ("FULL_RECOMPUTE", canonical(6, 10))
    assert report.reasons[0] == {"reason": "PREDICATE_OVERRIDE", "predicate": days(6, 10)}
    assert run(lake, text).mode == "NO_OP"
    assert run(lake, flow(QUERY, where=days(4, 10))).mode == "NO_OP"


def test_changes_in_sources(lake: Lake) -> None:
    run(lake, flow(QUERY))
    before = lake.version("rides")
    lake.add("rides", ("2026-03-05", "a", 100))
    changed = run(lake, flow(QUERY))
    assert names(changed) == ["SOURCE_CHANGED"]
    assert only(changed) == {
        "reason": "SOURCE_CHANGED",
        "table": "rides",
        "from_version": before,
        "to_version": before + 1,
        "found_by": "statistics",
        "region": changed.replaced,
    }
    assert changed.replaced == canonical(5, 6)
    assert is_right(lake)
    shutil.rmtree(lake.path("rides"))
    lake.make("rides", "day DATE, zone STRING, fare INT", RIDES[6:])
    lake.add("rides", ("2026-03-05", "c", 7))
    replaced = run(lake, flow(QUERY))
    assert names(replaced) == ["SOURCE_REPLACED"]
    assert only(replaced)["table"] == "rides"
    assert is_right(lake)


def test_a_row_without_a_key_is_refused_although_nothing_is_stale(lake: Lake) -> None:
    pipeline = flow(QUERY, clauses=BY_DAY)
    lake.run(pipeline)
    lake.add("rides", ("2026-01-01", "a", 1))  # before the window
    assert lake.run(pipeline).mode == "NO_OP"
    lake.add("rides", (None, "a", 1))
    for _ in range(2):
        with untouched(lake, "daily", by=NullKeyError, match="1 row with NULL in day"):
            lake.run(pipeline)
    lake.run(pipeline, null_keys="drop")


def test_a_source_without_versions_is_never_fresh(lake: Lake) -> None:
    files = lake.root / "files"
    lake.read("rides").write.parquet(str(files))
    text = flow(QUERY.replace("FROM rides", f"FROM parquet.`{files}`"))
    run(lake, text)
    again = run(lake, text)
    assert again.mode == "FULL_RECOMPUTE"
    assert "SOURCE_NOT_VERSIONED" in names(again)
    assert str(files) in next(r["table"] for r in again.reasons if r["reason"] == "SOURCE_NOT_VERSIONED")


def test_a_random_query_is_never_fresh(lake: Lake) -> None:
    text = flow("SELECT day, zone, CAST(sum(fare) + rand() AS BIGINT) AS fare FROM rides GROUP BY day, zone")
    run(lake, text)
    again = run(lake, text)
    assert again.mode == "FULL_RECOMPUTE"
    assert "QUERY_NOT_DETERMINISTIC" in names(again)
    steady = run(lake, flow(QUERY))
    assert "QUERY_NOT_DETERMINISTIC" not in names(steady)
    assert steady.mode == "FULL_RECOMPUTE"
    assert is_right(lake)


def test_a_run_whose_report_was_lost_is_found_in_the_log(lake: Lake) -> None:
    run(lake, flow(QUERY))
    lake.add("rides", ("2026-03-05", "a", 100))
    history = next(lake.root.rglob("*.db"))
    kept = history.read_bytes()
    lost = lake.run(flow(QUERY))
    history.write_bytes(kept)
    assert run(lake, flow(QUERY)).mode == "NO_OP"
    assert lost.run_id in [found.run_id for found in lake.session.history.runs()]
    assert is_right(lake)


def test_a_target_whose_column_has_another_type_than_the_querys(lake: Lake) -> None:
    lake.make("daily", "day DATE, zone STRING, fare STRING")
    text = flow("SELECT day, zone, fare FROM rides", where="fare >= 5 AND fare < 20")
    run(lake, text)
    # In one file, of which the statistics say that it goes from '10' to '9'.
    rows = "VALUES (DATE'2026-03-05', 'x', '10'), (DATE'2026-03-05', 'x', '9')"
    lake.sql(f"INSERT INTO {{daily}} SELECT /*+ COALESCE(1) */ * FROM {rows}")
    assert plan(lake, text).mode != "NO_OP"
