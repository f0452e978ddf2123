"""What a run does to its target: how the table is made, what the commit replaces, and what leaves it as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.errors import (
    DefinitionError,
    FullRefreshRefusedError,
    PredicateError,
    ReplaceWhereError,
    SchemaError,
    WriteError,
)
from airflow_provider_replacewhere.local import LocalSession
from tests.spark.tables import NOON, Lake, flow, rows_of, untouched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RIDES = [("2026-02-01", "old", 1.0), ("2026-03-08", "late", 2.0), ("2026-03-09", "new", 3.0)]
RIDES_COLUMNS = "day DATE, zone STRING, fare DOUBLE"
IN_WINDOW = RIDES[1:]


@pytest.fixture
def rides(lake: Lake) -> Lake:
    lake.make("rides", RIDES_COLUMNS, RIDES)
    return lake


# -- a new table -------------------------------------------------------------------------------------------------------

DECLARED = """
CREATE STREAMING TABLE daily (
  zone STRING,
  day DATE NOT NULL COMMENT 'the day it''s "for" \\\\o/',
  fare DECIMAL(10, 2)
)
PARTITIONED BY (day) COMMENT 'one row\\'s zone and day'
TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'team' = 'it''s us')
FLOW REPLACE WHERE day >= date_sub(current_date(), 7) BY NAME
SELECT day, zone, CAST(fare AS DECIMAL(6, 1)) AS fare FROM rides
"""


def test_a_new_table_is_made_as_it_was_declared_and_a_full_refresh_keeps_it_so(rides: Lake) -> None:
    rides.run(DECLARED)
    assert rides.columns("daily") == ["zone string", "day date", "fare decimal(10,2)"]
    rides.sql("INSERT INTO {daily} VALUES ('kept', DATE'2026-01-01', 7)")
    assert [row[0] for row in rides.rows("daily")] == ["kept", "late", "new"]

    for full_refresh in ([], ["daily"]):
        rides.run(DECLARED, full_refresh=full_refresh, allow_full_refresh=True)
        detail = rides.detail("daily")
        assert detail["partitionColumns"] == ["day"]
        assert detail["description"] == "one row's zone and day"
        assert detail["properties"]["team"] == "it's us"
        assert detail["properties"]["delta.setTransactionRetentionDuration"] == "interval 30 days"
        fields = {field.name: field for field in rides.read("daily").schema}
        assert fields["day"].metadata["comment"] == 'the day it\'s "for" \\o/'
        with untouched(rides, "daily", by=WriteError, match=r"NOT NULL|NULL in"):
            rides.run(DECLARED.replace("SELECT day", "SELECT CAST(NULL AS DATE) AS day"), null_keys="include")
    assert [row[0] for row in rides.rows("daily")] == ["late", "new"]


def test_clustering_is_kept_by_windows_and_by_full_refreshes(rides: Lake) -> None:
    pipeline = flow("SELECT * FROM rides", clauses="CLUSTER BY (day, zone)")
    rides.run(pipeline)
    assert rides.detail("daily")["clusteringColumns"] == ["day", "zone"]
    report = rides.run(pipeline, full_refresh=["daily"], allow_full_refresh=True)
    assert rides.detail("daily")["clusteringColumns"] == ["day", "zone"]
    assert rides.rows("daily") == IN_WINDOW
    assert (report.mode, report.replaced, report.rows_written) == ("FULL_REFRESH", "TRUE", 2)


def test_a_full_refresh_of_a_table_with_no_declared_layout_keeps_the_layout_that_it_has(rides: Lake) -> None:
    rides.sql(f"CREATE TABLE {{daily}} ({RIDES_COLUMNS}) USING delta PARTITIONED BY (zone)")
    rides.run(flow("SELECT * FROM rides"), full_refresh=["daily"], allow_full_refresh=True)
    assert rides.detail("daily")["partitionColumns"] == ["zone"]
    assert rides.rows("daily") == IN_WINDOW


def test_a_first_run_writes_the_window_only(rides: Lake) -> None:
    report = rides.run(flow("SELECT * FROM rides"))
    assert rides.rows("daily") == IN_WINDOW
    assert rides.commit("daily", 0)["operation"] == "CREATE TABLE"
    assert (report.rows_deleted, report.rows_written, report.target_version) == (0, 2, 1)


# -- tables made by hand -----------------------------------------------------------------------------------------------

BY_HAND = {
    "plain": "",
    "partitioned by the key": "PARTITIONED BY (day)",
    "partitioned by another column": "PARTITIONED BY (zone)",
    "clustered": "CLUSTER BY (day)",
    "deletion vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "change data feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "both, partitioned": "PARTITIONED BY (day) TBLPROPERTIES "
    "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')",
    "column mapping": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "row tracking": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "no statistics": "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')",
}


@pytest.mark.parametrize("layout", BY_HAND.values(), ids=BY_HAND.keys())
def test_the_window_is_replaced_and_nothing_else_in_a_table_of_any_layout(rides: Lake, layout: str) -> None:
    rides.sql(f"CREATE TABLE {{daily}} (fare DOUBLE, day DATE, zone STRING) USING delta {layout}")
    by_hand = "(1, DATE'2026-03-02', 'outside'), (2, DATE'2026-03-03', 'edge'), (3, DATE'2026-03-09', 'gone'), "
    rides.sql(f"INSERT INTO {{daily}} VALUES {by_hand} (4, NULL, 'no day'), (5, DATE'2026-03-02', 'new')")
    report = rides.run(flow("SELECT zone, day, fare FROM rides"))
    kept = [(1.0, "2026-03-02", "outside"), (4.0, None, "no day"), (5.0, "2026-03-02", "new")]
    assert rides.rows("daily") == sorted([*kept, (2.0, "2026-03-08", "late"), (3.0, "2026-03-09", "new")])
    counted = "dataSkippingNumIndexedCols" not in layout
    assert (report.rows_deleted, report.rows_written) == (2, 2) or not counted

    commit = rides.commit("daily")
    assert commit["operationParameters"]["predicate"] == report.window == report.replaced
    assert (commit["operationParameters"]["mode"], commit["readVersion"]) == ("Overwrite", 1)
    ours = json.loads(commit["userMetadata"])["replacewhere"]
    assert {key: ours[key] for key in ("token", "run_id", "window", "source_versions", "definition_hash")} == {
        "token": report.token,
        "run_id": report.run_id,
        "window": report.window,
        "source_versions": {"rides": 0},
        "definition_hash": report.definition_hash,
    }


def test_a_renamed_column_is_known_by_its_new_name(rides: Lake) -> None:
    mapping = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    rides.sql(f"CREATE TABLE {{daily}} (date DATE, zone STRING, fare DOUBLE) USING delta {mapping}")
    rides.sql("INSERT INTO {daily} VALUES (DATE'2026-03-09', 'gone', 1), (DATE'2026-03-01', 'kept', 1)")
    rides.sql("ALTER TABLE {daily} RENAME COLUMN date TO day")
    rides.run(flow("SELECT * FROM rides"))
    assert rides.rows("daily") == [("2026-03-01", "kept", 1.0), *IN_WINDOW]


def test_columns_that_the_table_fills_itself_may_be_left_out(rides: Lake) -> None:
    rides.sql(
        "CREATE TABLE {daily} (day DATE, zone CHAR(6), month INT GENERATED ALWAYS AS (month(day)), "
        "state STRING DEFAULT 'open') USING delta PARTITIONED BY (month) "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    by_hand = "(DATE'2026-03-08', 'gone', 'x'), (DATE'2026-01-01', 'kept', 'y')"
    rides.sql(f"INSERT INTO {{daily}} (day, zone, state) VALUES {by_hand}")
    rides.run(flow("SELECT day, zone FROM rides"))
    assert rides.rows("daily") == [
        ("2026-01-01", "kept  ", 1, "y"),
        ("2026-03-08", "late  ", 3, "open"),
        ("2026-03-09", "new   ", 3, "open"),
    ]
    report = rides.run(
        flow("SELECT day, zone, 'shut' AS state FROM rides", where="zone = 'new' AND day > '2026-03-01'")
    )
    assert report.rows_deleted == report.rows_written == 1
    assert rides.rows("daily")[-1] == ("2026-03-09", "new   ", 3, "shut")


def test_rows_that_the_tables_own_rules_forbid_are_refused_with_the_rule(rides: Lake) -> None:
    rides.sql(
        "CREATE TABLE {daily} (day DATE, zone VARCHAR(4), fare DOUBLE, month INT GENERATED ALWAYS AS (month(day))) "
        "USING delta"
    )
    rides.sql("ALTER TABLE {daily} ADD CONSTRAINT cheap CHECK (fare < 100)")
    rides.run(flow("SELECT * FROM rides"))
    for query, message in (
        (
            "SELECT day, 'too long' AS zone, fare FROM rides",
            r"(?s)longer than its CHAR or VARCHAR.*nothing was written",
        ),
        ("SELECT day, zone, fare * 100 AS fare FROM rides", r"(?s)breaks a CHECK constraint.*fare < 100"),
        ("SELECT *, 7 AS month FROM rides", r"(?s)value for a generated column.*month"),
    ):
        with untouched(rides, "daily", by=WriteError, match=message):
            rides.run(flow(query))
    rides.sql("ALTER TABLE {daily} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with untouched(rides, "daily", by=WriteError, match="(?i)nothing was written(?s:.*)append"):
        rides.run(flow("SELECT * FROM rides"), refresh_policy="full")
    assert [row[:3] for row in rides.rows("daily")] == IN_WINDOW


# -- columns -----------------------------------------------------------------------------------------------------------


def test_columns_go_by_name_and_only_where_no_value_can_be_lost(lake: Lake) -> None:
    lake.make("rides", "day DATE, n INT, big BIGINT, x INT, y INT", [("2026-03-08", 1, 2, 3, 4)])
    lake.make("daily", "day DATE, n BIGINT, place STRUCT<x: INT, y: INT>", [("2026-03-01", 9, None)])
    place = "named_struct('x', x, 'y', y) AS place"
    for query, message in (
        (f"SELECT day, CAST(n AS STRING) AS n, {place} FROM rides", r"gives string for daily.n, which is bigint"),
        (f"SELECT day, CAST(n AS DECIMAL(30)) AS n, {place} FROM rides", r"gives decimal\(30,0\) for daily.n"),
        (f"SELECT CAST(day AS TIMESTAMP) AS day, n, {place} FROM rides", r"gives timestamp for daily.day"),
        ("SELECT day, n, named_struct('x', big, 'y', y) AS place FROM rides", r"gives bigint for daily.place.x"),
        ("SELECT day, n, named_struct('x', x) AS place FROM rides", r"no longer gives y inside daily.place"),
        ("SELECT day, n FROM rides", r"no longer gives place, which daily has"),
        (f"SELECT day, n, {place}, n AS N FROM rides", r"gives n more than once"),
        (f"SELECT day, day AS Day, n, {place} FROM rides", r"gives day more than once"),
        (f"SELECT day, n, {place}, NULL AS note FROM rides", r"(?s)only NULL for the new column note.*CAST\(NULL AS"),
        (f"SELECT day, n, {place}, array() AS notes FROM rides", r"(?s)notes.*type"),
    ):
        with untouched(lake, "daily", by=SchemaError, match=message):
            lake.run(flow(query))

    # Another order of the columns and of a struct's fields, narrower types, a field and a column that are new.
    report = lake.run(
        flow("SELECT named_struct('y', y, 'z', 5, 'x', x) AS Place, n AS N, 'hi' AS note, day AS DAY FROM rides")
    )
    assert lake.columns("daily") == ["day date", "n bigint", "place struct<x:int,y:int,z:int>", "note string"]
    assert lake.rows("daily") == [("2026-03-01", 9, None, None), ("2026-03-08", 1, (3, 4, 5), "hi")]
    assert report.columns_added == ("place.z", "note")

    report = lake.run(flow("SELECT day, n FROM rides"), allow_missing_columns=True)
    assert lake.rows("daily") == [("2026-03-01", 9, None, None), ("2026-03-08", 1, None, None)]


def test_structs_inside_arrays_and_maps_go_by_name_too(lake: Lake) -> None:
    lake.make("rides", "day DATE, x INT, y INT", [("2026-03-08", 3, 4)])
    lake.make("daily", "day DATE, list ARRAY<STRUCT<x: INT, y: INT>>, map MAP<STRING, STRUCT<x: INT, y: INT>>")
    swapped = "named_struct('y', y, 'x', CAST(x AS SMALLINT))"
    lake.run(flow(f"SELECT day, array({swapped}) AS list, map('k', {swapped}) AS map FROM rides"))
    assert lake.rows("daily") == [("2026-03-08", [(3, 4)], {"k": (3, 4)})]


def test_declared_columns_hold_for_a_new_table(rides: Lake) -> None:
    for columns, message in (
        ("(day DATE, zone STRING)", "gives fare, which daily does not declare"),
        ("(day DATE, zone STRING, fare DOUBLE, tip)", "declares the column tip, which the query does not give"),
        ("(day DATE, zone STRING, fare INT)", "gives double for daily.fare, which is int"),
        ("(day DATE, zone STRING, fare DUBLE)", "type DUBLE, which Spark does not know"),
    ):
        with pytest.raises(SchemaError, match=message):
            rides.run(flow("SELECT * FROM rides", clauses=columns))
    with pytest.raises(WriteError, match=r"cannot be created: .*owner is a reserved table property"):
        rides.run(flow("SELECT * FROM rides", clauses="TBLPROPERTIES ('owner' = 'me')"))
    assert not rides.path("daily").exists()
    rides.run(flow("SELECT * FROM rides", clauses="(fare, zone COMMENT 'where', day)"))
    assert rides.columns("daily") == ["fare double", "zone string", "day date"]


# -- places that are not ours ------------------------------------------------------------------------------------------


def test_what_is_no_delta_table_is_left_alone(rides: Lake, spark: SparkSession, database: str, tmp_path: Path) -> None:
    session = LocalSession(spark, history=f"sqlite:///{tmp_path}/history.db")
    spark.sql("CREATE TABLE shop.parquet (day DATE, n INT) USING parquet")
    spark.sql("CREATE TABLE shop.base (day DATE, n INT) USING delta")
    spark.sql("CREATE VIEW shop.seen AS SELECT * FROM shop.base")
    query = "SELECT DATE'2026-03-09' AS day, 1 AS n"
    for target, message in (
        ("shop.parquet", "exists, but is no Delta table"),
        ("shop.seen", "is a view"),
        ("no_such_schema.daily", "cannot be created"),
    ):
        with pytest.raises(WriteError, match=message):
            session.run(flow(query, target=target), as_of=NOON)
    assert rows_of(spark.table("shop.base")) == []

    (rides.path("daily") / "inner").mkdir(parents=True)
    (rides.path("daily") / "notes.txt").write_text("mine")
    with pytest.raises(WriteError, match="holds files, but no Delta table"):
        rides.run(flow(query))
    with pytest.raises(WriteError, match="holds files, but no Delta table"):
        rides.run(flow(query, target=f"delta.`{rides.path('daily')}`"))
    assert sorted(path.name for path in rides.path("daily").iterdir()) == ["inner", "notes.txt"]


def test_a_temporary_view_of_the_callers_session_is_not_taken_for_the_target(rides: Lake) -> None:
    rides.make("other", RIDES_COLUMNS, [("2026-03-08", "theirs", 1.0)])
    rides.read("other").createOrReplaceTempView("daily")
    try:
        rides.run(flow("SELECT * FROM rides"))
    finally:
        rides.spark.catalog.dropTempView("daily")
    assert rides.rows("daily") == IN_WINDOW
    assert rides.version("other") == 0


def test_a_target_may_be_in_a_schema_at_a_path_or_spelt_in_another_case(rides: Lake, tmp_path: Path) -> None:
    query = "SELECT * FROM rides"
    path = tmp_path / "at 100% ü's"
    (rides.root / "Silver").mkdir()
    for target in ("silver.`Daily`", f"delta.`{path}/daily`"):
        rides.run(flow(query, target=target))
        report = rides.run(flow(query, target=target.replace("Daily", "DAILY")), refresh_policy="full")
        assert (report.target_version, report.rows_deleted) == (2, 2)
    assert sorted(p.name for p in (rides.root / "Silver").iterdir()) == ["Daily"]
    assert rides.rows("Silver.Daily") == rows_of(rides.spark.read.format("delta").load(f"{path}/daily")) == IN_WINDOW


# -- the window --------------------------------------------------------------------------------------------------------


def test_predicates_that_delta_itself_would_get_wrong(lake: Lake) -> None:
    columns = "`a.b` STRING, a STRUCT<b: STRING>, part STRING, n INT"
    old = [("a_b1", None, "x", 1), ("axb1", None, "x", 2), ("a_b2", None, "y", 3), ("z", None, "y", 4)]
    lake.make("daily", columns, old)
    lake.make("rides", columns, [("a_bNEW", None, "x", 10), ("axbNEW", None, "x", 20)])
    query = "SELECT `a.b`, named_struct('b', `a.b`) AS a, part, n FROM rides"
    report = lake.run(flow(query, where="startswith(`a.b`, 'a_b') AND part IN ('x', NULL)"))
    assert [row[0] for row in lake.rows("daily")] == ["a_b2", "a_bNEW", "axb1", "z"]
    assert (report.rows_deleted, report.rows_written) == (1, 1)
    where = "a.b = 'a_bNEW' OR n BETWEEN 3 AND 4 AND NOT part BETWEEN 'a' AND 'x'"
    report = lake.run(flow(query, where=where), refresh_policy="full")
    assert [row[0] for row in lake.rows("daily")] == ["a_bNEW", "axb1"]
    assert (report.rows_deleted, report.rows_written) == (3, 1)


@pytest.mark.parametrize(
    "where",
    [
        "1 = 1",
        "TRUE",
        "current_date() > DATE'2020-01-01'",
        "day >= '2026-01-01' OR TRUE",
        "day IS NULL OR day IS NOT NULL",
        "day IN (SELECT day FROM rides)",
        "dayy >= '2026-01-01'",
        "day",
        "day >= '2026-01-01'; DROP TABLE rides",
        "day >= '2026-01-01' -- OR day IS NULL\n OR 1",
        "day >= input_file_name()",
    ],
)
def test_a_predicate_that_would_replace_everything_is_refused(shared: Lake, where: str) -> None:
    with untouched(shared, "daily", by=PredicateError, match="."):
        shared.run(flow("SELECT * FROM rides"), overrides={"daily": where})


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A source and a target that no test changes."""
    lake = Lake(spark, tmp_path_factory.mktemp("shared"))
    lake.make("rides", RIDES_COLUMNS, RIDES)
    lake.make("daily", RIDES_COLUMNS, [("2026-03-01", "kept", 9.0)])
    return lake


def test_an_empty_result_empties_the_window_and_one_over_an_empty_window_still_commits(rides: Lake) -> None:
    rides.make("daily", RIDES_COLUMNS, [("2026-03-01", "kept", 9.0), ("2026-03-09", "gone", 9.0)])
    pipeline = flow("SELECT * FROM rides WHERE zone = 'nowhere'")
    first, second = (rides.run(pipeline, refresh_policy="full") for _ in range(2))
    assert rides.rows("daily") == [("2026-03-01", "kept", 9.0)]
    assert (first.rows_deleted, first.target_version) == (1, 1)
    assert (second.rows_deleted or 0, second.rows_written or 0, second.target_version) == (0, 0, 2)
    assert json.loads(rides.commit("daily")["userMetadata"])["replacewhere"]["run_id"] == second.run_id


def test_settings_of_the_callers_session_do_not_make_a_run_dangerous(rides: Lake, settings: dict[str, str]) -> None:
    rides.sql(f"CREATE TABLE {{daily}} ({RIDES_COLUMNS}) USING delta PARTITIONED BY (day)")
    rides.sql("INSERT INTO {daily} VALUES (DATE'2026-03-01', 'kept', 9), (DATE'2026-03-05', 'gone', 9)")
    settings["spark.databricks.delta.replaceWhere.constraintCheck.enabled"] = "false"
    settings["spark.databricks.delta.replaceWhere.dataColumns.enabled"] = "false"
    settings["spark.databricks.delta.schema.autoMerge.enabled"] = "true"
    settings["spark.sql.sources.partitionOverwriteMode"] = "dynamic"
    settings["spark.databricks.delta.commitInfo.userMetadata"] = "theirs"
    settings["spark.databricks.delta.write.txnAppId"] = "theirs"
    settings["spark.databricks.delta.write.txnVersion"] = "1"
    settings["spark.sql.ansi.enabled"] = "false"
    settings["spark.sql.storeAssignmentPolicy"] = "LEGACY"
    settings["spark.sql.timestampType"] = "TIMESTAMP_NTZ"
    for _ in range(2):
        rides.run(flow("SELECT * FROM rides"))
        assert rides.rows("daily") == [("2026-03-01", "kept", 9.0), *IN_WINDOW]
    with untouched(rides, "daily", by=SchemaError, match="gives string for daily.fare"):
        rides.run(flow("SELECT day, zone, 'dear' AS fare FROM rides"))
    rides.run(flow("SELECT day, current_timestamp() AS at FROM rides", target="stamped"))
    assert rides.columns("stamped") == ["day date", "at timestamp"]


@pytest.mark.parametrize(
    ("setting", "value"), [("spark.sql.warehouse.dir", "/elsewhere"), ("spark.sql.shuffle.partitions", "many")]
)
def test_a_setting_that_a_pipeline_cannot_make_is_named(shared: Lake, setting: str, value: str) -> None:
    with pytest.raises(DefinitionError, match=f"{setting}.*{value}"):
        shared.session.plan(f"SET {setting} = {value};" + flow("SELECT * FROM rides"), as_of=NOON)


# -- full refreshes ----------------------------------------------------------------------------------------------------


def test_a_full_refresh_needs_the_runs_and_the_tables_permission(rides: Lake) -> None:
    rides.make("daily", RIDES_COLUMNS, [("2026-03-01", "lost", 9.0), (None, "lost", 9.0), ("2026-03-09", "gone", 9.0)])
    pipeline = flow("SELECT * FROM rides")
    with untouched(rides, "daily", by=FullRefreshRefusedError, match="(?s)lose 2 rows outside.*allow_full_refresh"):
        rides.run(pipeline, full_refresh=["daily"])
    rides.sql("ALTER TABLE {daily} SET TBLPROPERTIES ('pipelines.reset.allowed' = 'FALSE')")
    with untouched(
        rides, "daily", by=FullRefreshRefusedError, match=r"(?s)lose 2 rows.*pipelines.reset.allowed = false"
    ):
        rides.run(pipeline, full_refresh=["daily"], allow_full_refresh=True)
    with pytest.raises(FullRefreshRefusedError, match="lose 2 rows"):
        rides.session.plan(pipeline, full_refresh=["daily"], as_of=NOON)
    rides.sql("ALTER TABLE {daily} SET TBLPROPERTIES ('pipelines.reset.allowed' = 'true')")
    report = rides.run(pipeline, full_refresh=["daily"], allow_full_refresh=True)
    assert rides.rows("daily") == IN_WINDOW
    assert report.mode == "FULL_REFRESH"


def test_a_full_refresh_may_change_types_and_leave_columns_out(rides: Lake) -> None:
    rides.make("daily", "day STRING, fare INT, dropped INT", [("2026-03-01", 1, 1)])
    rides.run(flow("SELECT * FROM rides"), full_refresh=["daily"], allow_full_refresh=True)
    assert rides.columns("daily") == ["day date", "zone string", "fare double"]
    assert rides.rows("daily") == IN_WINDOW


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_query_that_fails_while_it_runs_is_the_queries_fault_and_changes_nothing(shared: Lake) -> None:
    for query in (
        "SELECT day, zone, CAST(zone AS DOUBLE) AS fare FROM rides",
        "SELECT CAST(zone AS DATE) AS day, zone, fare FROM rides",
        "SELECT day, zone, fare / 0 AS fare FROM rides",
    ):
        with untouched(shared, "daily", by=ReplaceWhereError, match="CAST_INVALID_INPUT|DIVIDE_BY_ZERO") as found:
            shared.run(flow(query))
        assert not found.value.retryable


def test_what_others_do_to_the_tables_meanwhile_does_not_mislead_a_run(rides: Lake, tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(f"""
from pyspark import pipelines as dp

first_time = [True]

@dp.table(replace_where="day >= date_sub(current_date(), 7)")
def daily():
    if first_time:
        first_time.clear()
        foreign = spark.sql("SELECT day, 'foreign' AS zone, fare FROM rides")
        foreign.write.format("delta").mode("append").save("{rides.path("daily")}")
    return spark.table("rides")
""")
    kept = [("2026-02-01", "foreign", 1.0)]
    rides.make("daily", RIDES_COLUMNS)
    first = rides.run(file)  # after the target was looked at and before it is written, somebody appends to it
    assert rides.rows("daily") == [*kept, *IN_WINDOW]
    assert (first.target_version, first.rows_deleted) == (2, 2)

    pipeline = flow("SELECT * FROM rides")
    rides.sql("OPTIMIZE {daily}")
    rides.sql("RESTORE TABLE {daily} TO VERSION AS OF 1")
    rides.run(pipeline)
    assert rides.rows("daily") == [*kept, *IN_WINDOW]

    # A source that is dropped and made again starts at version 0, and is another table.
    shutil.rmtree(rides.path("rides"))
    rides.make("rides", RIDES_COLUMNS, [("2026-03-09", "again", 4.0)])
    report = rides.run(pipeline)
    assert rides.rows("daily") == [*kept, ("2026-03-09", "again", 4.0)]
    (source,) = report.planning_information["source_table_information"]
    assert source["table_id"] != first.planning_information["source_table_information"][0]["table_id"]


def test_a_plan_writes_nothing(rides: Lake) -> None:
    (report,) = rides.session.plan(flow("SELECT * FROM rides"), as_of=NOON)
    assert report.dry_run
    assert report.window == report.replaced == "(`day` >= DATE '2026-03-03')"
    assert not rides.path("daily").exists()
    assert rides.session.history.runs() == []
