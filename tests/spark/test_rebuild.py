"""The history's database is lost: the tables' own logs fill it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.local import LocalSession
from airflow_provider_replacewhere.operators.lake import WorkerLake
from airflow_provider_replacewhere.planning.coverage import Coverage
from airflow_provider_replacewhere.planning.rebuild import rebuilt
from airflow_provider_replacewhere.planning.report import Mode
from tests.spark.tables import NOON, WEEK, Lake, flow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_replacewhere.history.records import Run

RIDES = [(f"2026-03-{day:02d}", day % 3, day) for day in range(1, 11)]
DAILY = flow("SELECT day, sum(fare) AS fare FROM rides GROUP BY day", where=WEEK, clauses="PARTITIONED BY (day)")
ZONES = flow(
    "SELECT zone, count(*) AS n FROM rides GROUP BY zone",
    where="zone >= 0",
    target="shop.zones",
    clauses="TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
)
BOTH = f"{DAILY};\n{ZONES}"


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Some runs of two flows, with a change of somebody else's in between."""
    lake.make("rides", "day DATE, zone INT, fare INT", RIDES)
    lake.run_all(BOTH)
    lake.add("rides", ("2026-03-10", 1, 5))
    lake.run_all(BOTH)
    lake.run_all(BOTH)  # nothing to do, so that no commit tells of it
    lake.sql("DELETE FROM {daily} WHERE day = DATE'2026-03-05'")
    lake.run_all(DAILY, overrides={"daily": "day = DATE'2026-03-08'"})
    lake.run_all(DAILY, overrides={"daily": "day = DATE'2026-03-01'"})
    return lake


def lost(lake: Lake) -> LocalSession:
    return LocalSession(lake.spark, root=lake.root, history=f"sqlite:///{lake.root}/_replacewhere/new.db")


def told(run: Run) -> Mapping[str, Any]:
    """What the history says of a run that wrote."""
    assert run.report is not None
    apart = {"started_at", "finished_at", "rows_unchanged", "lineage", "nulls", "estimate"}
    return {name: value for name, value in run.report.to_json().items() if name not in apart}


def proven(coverage: Mapping[str, Any]) -> Any:
    # A run that had nothing to do proved it anew; it is not found again, and what it proved was proven before.
    parts = [{k: v for k, v in part.items() if k != "run_id"} for part in coverage["fragments"]]
    return parts, coverage["target_id"], coverage["target_version"]


def test_the_history_is_as_it_was_before(lake: Lake) -> None:
    before = lake.session.history
    session = lost(lake)

    found = session.rebuild()

    assert {each.table: len(each.runs) for each in found} == {"daily": 4, "rides": 0, "shop.zones": 2}
    after = session.history
    wrote = [run for run in before.runs() if run.report and run.report.mode is not Mode.NO_OP]
    for table in ("daily", "shop.zones"):
        assert [told(run) for run in after.runs(table)] == [told(run) for run in wrote if run.target == table]
        assert proven(after.coverage()[table]) == proven(before.coverage()[table])
    # Both go on alike: what somebody else deleted is put back, and nothing else is touched.
    (report,) = session.run(DAILY, as_of=NOON)
    assert report.replaced == "(`day` = DATE '2026-03-05')"


def test_a_worker_finds_the_same_without_spark(lake: Lake) -> None:
    tables = ("daily", "shop.zones")
    by_spark = {each.table: each for each in lost(lake).rebuild(tables)}
    worker = WorkerLake(str(lake.root), is_remote=False)
    for table in tables:
        found = rebuilt(worker.log(worker.folder(TableName.parse(table)), table), Coverage())
        assert found.runs == by_spark[table].runs
        assert found.others == by_spark[table].others


def test_what_the_history_knows_is_not_recorded_twice(lake: Lake) -> None:
    known = [run.run_id for run in lake.session.history.runs()]
    found = lake.session.rebuild(["daily"])
    assert [len(each.runs) for each in found] == [0]
    assert [run.run_id for run in lake.session.history.runs()] == known


def test_commits_of_others_after_the_last_run_are_told(lake: Lake) -> None:
    lake.sql("UPDATE {daily} SET fare = 0 WHERE day = DATE'2026-03-04'")
    (found,) = lost(lake).rebuild(["daily"])
    assert [(commit.operation, commit.version) for commit in found.others] == [("UPDATE", lake.version("daily"))]


def test_of_commits_that_delta_has_removed_nothing_is_known(lake: Lake) -> None:
    log = lake.path("daily") / "_delta_log"
    newest = lake.version("daily")
    lake.spark.sql(f"ALTER TABLE {lake.sql_name('daily')} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    for commit in log.glob("*.json"):
        if commit.stem.isdecimal() and int(commit.stem) < newest:
            commit.unlink()
    (found,) = lost(lake).rebuild(["daily"])
    assert [run.report.window for run in found.runs] == ["(`day` = DATE '2026-03-01')"]


def test_a_table_that_there_is_not_is_named(lake: Lake) -> None:
    session = lost(lake)
    with pytest.raises(RequestError, match="There is no Delta table dayly"):
        session.rebuild(["daily", "dayly"])
    assert session.history.runs() == []
