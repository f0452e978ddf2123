"""The look without Spark over real tables: where it finds nothing to do, Spark finds the same, and says the same."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_replacewhere.operators.lake import WorkerLake
from airflow_provider_replacewhere.planning.quick_look import quick_look
from airflow_provider_replacewhere.planning.report import JobOutcome, Mode, RunReport
from airflow_provider_replacewhere.planning.request import Override, RunRequest
from airflow_provider_replacewhere.planning.table_log import InDoubtError
from airflow_provider_replacewhere.spark.job import run_request
from airflow_provider_replacewhere.text import Document
from tests.spark.tables import NOON, Lake, flow

RIDES = [(f"2026-03-{day:02d}", zone, day) for day in range(1, 11) for zone in ("a", "b")]
QUERY = "SELECT day, zone, sum(fare) AS fare FROM rides GROUP BY day, zone"


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, zone STRING, fare INT", RIDES)
    return lake


def request(lake: Lake, *texts: str, **changes: Any) -> RunRequest:
    """A request as an operator makes it, with the ledger's slice; the fingerprint is of the texts alone."""
    history = lake.session.history
    made = RunRequest(
        run_id=f"run-{len(history.runs())}",
        as_of=NOON,
        documents=tuple(Document(f"{n}.sql", text) for n, text in enumerate(texts)),
        root=str(lake.root),
        previous=history.last_successful(),
        coverage=history.coverage(),
        fingerprint="\0".join(texts),
    )
    return RunRequest.from_json(replace(made, **changes).to_json())


def run(lake: Lake, *texts: str, **changes: Any) -> tuple[RunReport, ...]:
    """A run by Spark, recorded."""
    outcome = run_request(lake.spark, request(lake, *texts, **changes))
    outcome.raise_for_failure()
    lake.session.history.record_outcome(outcome)
    return outcome.reports


def look(lake: Lake, *texts: str, **changes: Any) -> JobOutcome:
    """The quick look; what it finds must be what Spark finds at the same time."""
    asked = request(lake, *texts, **changes)
    found = quick_look(asked, WorkerLake(asked.root, is_remote=False))
    by_spark = run_request(lake.spark, asked)
    by_spark.raise_for_failure()
    assert {r.mode for r in by_spark.reports} == {Mode.NO_OP}
    assert [_alike(r) for r in found.reports] == [_alike(r) for r in by_spark.reports]
    return found


def _alike(report: RunReport) -> RunReport:
    """Without its times, and without how far Spark has looked for NULLs, which the worker leaves as it was."""
    return replace(report, started_at="", finished_at="", nulls=None)


def doubt(text: str) -> pytest.RaisesExc[InDoubtError]:
    return pytest.raises(InDoubtError, match=re.escape(text))


@pytest.mark.parametrize("clauses", ["", "PARTITIONED BY (day)"])
def test_what_changes_no_row_is_nothing_to_do(lake: Lake, clauses: str) -> None:
    text = flow(QUERY, clauses=clauses)
    run(lake, text)
    lake.session.history.record_outcome(look(lake, text))

    for statement in (
        "OPTIMIZE {rides}",
        "ALTER TABLE {rides} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE {rides} ADD CONSTRAINT positive CHECK (fare > 0)",
        "VACUUM {rides}",
        "OPTIMIZE {daily}",
    ):
        lake.sql(statement)
        lake.session.history.record_outcome(look(lake, text))
    (report,) = look(lake, text, as_of=NOON.replace(day=11)).reports
    assert report.source_versions == {"rides": lake.version("rides")}
    assert report.target_version == lake.version("daily")

    lake.add("rides", ("2026-03-09", "a", 100))
    with doubt("rides has changed since version "):
        look(lake, text)
    (written,) = run(lake, text)
    assert written.mode is not Mode.NO_OP
    look(lake, text)


def test_a_checkpoint_and_a_cleaned_log_do_not_matter_behind_the_last_look(lake: Lake) -> None:
    text = flow(QUERY)
    lake.sql("ALTER TABLE {rides} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for _ in range(3):
        lake.add("rides", ("2026-03-09", "a", 1))
    run(lake, text)
    log = lake.path("rides") / "_delta_log"
    assert any("checkpoint" in file.name for file in log.iterdir())
    for version in range(4):
        (log / f"{version:020d}.json").unlink()
    look(lake, text)

    # Without the checksum that Spark writes beside each commit, a reader of the checkpoint tells whose log this is.
    (log / f"{lake.version('rides'):020d}.crc").unlink()
    look(lake, text)


def test_flows_over_each_others_targets_are_all_fresh_or_go_to_spark_together(lake: Lake) -> None:
    pipeline = (
        flow("SELECT day, sum(fare) AS fare FROM doubled GROUP BY day", target="gold.total"),
        "CREATE VIEW doubled AS SELECT day, fare * 2 AS fare FROM daily;",
        flow(QUERY),
    )
    text = "; ".join(part.rstrip(";") for part in pipeline) + ";"
    assert [report.flow for report in run(lake, text)] == ["daily", "gold.total"]
    assert [report.flow for report in look(lake, text).reports] == ["daily", "gold.total"]

    lake.sql("DELETE FROM {daily} WHERE day = '2026-03-08'")
    with doubt("daily was changed by someone else (DELETE at version 2)"):
        look(lake, text)
    with doubt("daily has changed since version 1 (DELETE at version 2)"):
        look(lake, text, select=("gold.total",))


def test_a_source_named_by_path_and_one_in_a_schema(lake: Lake) -> None:
    lake.make("geo.zones", "zone STRING", [("a",)])
    path = lake.path("rides")
    text = flow(f"SELECT day, fare FROM delta.`{path}` JOIN GEO.zones USING (zone)")
    run(lake, text)
    look(lake, text)
    shutil.move(lake.path("geo.zones"), lake.root / "zones")
    with doubt("there is no Delta log of geo.zones"):
        look(lake, text)


def test_null_keys_and_time_zones_give_the_same_window(lake: Lake) -> None:
    lake.make("events", "at TIMESTAMP, fare INT", [("2026-03-09T23:30:00Z", 1), (None, 2)])
    text = flow("SELECT at, fare FROM events", where="at >= current_date()", clauses=(
        "TBLPROPERTIES ('replacewhere.timeZone' = 'Pacific/Auckland', 'replacewhere.nullKeys' = 'include')"
    ))  # fmt: skip
    run(lake, text)
    (report,) = look(lake, text).reports
    assert "IS NULL" in report.window


def test_an_override_of_the_stale_part_only(lake: Lake) -> None:
    text = flow(QUERY)
    run(lake, text)
    override = (Override("daily", "day = DATE '2026-03-05'"),)
    with doubt("an override recomputes its whole window"):
        look(lake, text, overrides=override)
    look(lake, text, overrides=override, only_stale=True)
    with doubt("WINDOW_WIDENED"):
        look(lake, text, overrides=(Override("daily", "day = DATE '2026-03-01'"),), only_stale=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("INSERT INTO {daily} VALUES (DATE '2026-03-09', 'z', 1)", "daily was changed by someone else (WRITE"),
        ("INSERT INTO {daily} VALUES (DATE '2020-01-01', 'z', 1)", "daily was changed by someone else (WRITE"),
        ("RESTORE {daily} TO VERSION AS OF 0", "daily was changed by someone else (RESTORE"),
        ("ALTER TABLE {daily} ADD COLUMNS (note STRING)", "daily was changed by someone else (ADD COLUMNS"),
        ("UPDATE {rides} SET fare = 7 WHERE day = '2026-03-01'", "rides has changed since version 0 (UPDATE"),
        ("ALTER TABLE {rides} ADD COLUMNS (note STRING)", "rides has changed since version 0 (ADD COLUMNS"),
        ("CREATE OR REPLACE TABLE {rides} USING DELTA AS SELECT DATE '2026-03-09' AS day, 'a' AS zone, 1 AS fare", ""),
    ],
)
def test_a_changed_table_is_left_to_spark(lake: Lake, change: str, why: str) -> None:
    text = flow(QUERY)
    run(lake, text)
    lake.sql(change)
    with doubt(why or "rides has been replaced by another table"):
        look(lake, text)


def test_a_table_dropped_and_made_again_with_as_many_commits_is_another_one(lake: Lake) -> None:
    text = flow(QUERY)
    run(lake, text)
    for table in ("rides", "daily"):
        kept, path = lake.read(table).collect(), lake.path(table)
        schema = lake.read(table).schema
        before = lake.version(table)
        shutil.move(path, lake.root.parent / table)
        lake.spark.createDataFrame(kept, schema).write.format("delta").save(str(path))
        for _ in range(before):
            lake.sql(f"ALTER TABLE {{{table}}} SET TBLPROPERTIES ('a' = 'b')")
        assert lake.version(table) == before
        with doubt(f"{table} has been replaced by another table"):
            look(lake, text)
        for checksum in (path / "_delta_log").glob("*.crc"):
            checksum.unlink()
        with doubt(f"{table} has been replaced by another table"):
            look(lake, text)
        shutil.rmtree(path)
        shutil.move(lake.root.parent / table, path)
        look(lake, text)


@pytest.fixture
def functions(lake: Lake) -> Iterator[None]:
    """What a catalog may hold: two functions, a view, a table."""
    spark = lake.spark
    spark.sql("CREATE OR REPLACE FUNCTION at_least(x INT) RETURNS BOOLEAN RETURN x > 2")
    spark.sql("CREATE OR REPLACE FUNCTION some_fares() RETURNS TABLE (fare INT) RETURN SELECT 3 AS fare")
    spark.sql(f"CREATE OR REPLACE VIEW seen AS SELECT * FROM {lake.sql_name('rides')}")
    spark.sql("CREATE OR REPLACE TABLE kept USING DELTA AS SELECT DATE '2026-03-09' AS day, 1 AS fare")
    yield
    for kind, name in (("VIEW", "seen"), ("TABLE", "kept"), ("FUNCTION", "at_least"), ("FUNCTION", "some_fares")):
        spark.sql(f"DROP {kind} {name}")


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT day, fare FROM rides WHERE day <= current_date()", "asks for the time (current_date)"),
        ("SELECT day, fare FROM rides WHERE day <= date(now())", "asks for the time (now)"),
        ("SELECT day, fare FROM rides WHERE at_least(fare)", "calls the function spark_catalog.default.at_least"),
        (
            "SELECT day, fare FROM rides JOIN some_fares() USING (fare)",
            "calls the function spark_catalog.default.some_",
        ),
        ("SELECT day, fare FROM rides WHERE fare > rand()", "could not prove what it left there"),
        ("SELECT day, fare FROM rides LIMIT 3", "could not prove what it left there"),
        ("SELECT day, fare FROM rides VERSION AS OF 0", "reads a table at a version of its own"),
        ("SELECT day, fare FROM parquet.`{path}`", "could not prove what it left there"),
        ("SELECT day, fare FROM seen", "seen is another table than the last run of daily read"),
        ("SELECT day, fare FROM kept", "kept is another table than the last run of daily read"),
        ("SELECT day, fare FROM default.kept", "default.kept is another table than the last run of daily read"),
    ],
)
def test_a_query_over_what_no_log_shows_is_left_to_spark(lake: Lake, query: str, why: str) -> None:
    text = flow(query.replace("{path}", str(lake.path("rides"))))
    run(lake, text)
    with doubt(why):
        look(lake, text)
