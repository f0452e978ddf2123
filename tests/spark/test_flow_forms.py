"""One story in every form in which a flow can be declared: whole tables after each chapter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import FullRefreshRefusedError, NullKeyError, SchemaError
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.planning.request import FlowArguments, Override, RunRequest
from airflow_provider_replacewhere.spark.job import run_request
from tests.spark.tables import NOON, Lake, Row, instant, rows_of, untouched

INLINE = """
-- revenue by day; a ';' in a comment ends nothing
CREATE OR REFRESH STREAMING TABLE daily
FLOW REPLACE WHERE day >= date_sub(current_date(), 7) BY NAME
SELECT r.day, z.name AS zone, sum(r.fare) AS fare{sql_metric}
FROM rides r LEFT JOIN zones z ON r.zone_id = z.zone_id
GROUP BY ALL;
"""
LONG = """
CREATE STREAMING TABLE daily;
CREATE TEMPORARY VIEW named AS
  SELECT r.*, z.name AS zone FROM rides AS r LEFT JOIN zones AS z USING (zone_id);
CREATE FLOW revenue COMMENT 'by day' AS
INSERT INTO daily BY NAME
REPLACE WHERE n.day >= date_sub(current_date(), 7)
SELECT sum(n.fare) AS fare, n.day, n.zone{sql_metric} FROM named AS n GROUP BY n.day, n.zone
"""
PYTHON_COLUMN = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.functions import col


@dp.table(name="daily", replace_where=col("day") >= F.date_sub(F.current_date(), 7))
def revenue():
    rides = spark.read.table("rides")
    zones = spark.table("zones").withColumnRenamed("name", "zone")
    metrics = [F.sum("fare").alias("fare"){python_metric}]
    return rides.join(zones, "zone_id", "left").groupBy("day", "zone").agg(*metrics)
"""
PYTHON_STRING = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.temporary_view(comment="rides with the zone's name")
def named() -> DataFrame:
    zones = spark.table("zones").withColumnRenamed("name", "zone")
    return spark.sql("SELECT r.*, z.zone FROM rides r LEFT JOIN {zones} z USING (zone_id)", zones=zones)


@dp.table(replace_where="day >= date_sub(current_date(), 7)", comment="by day")
def daily() -> DataFrame:
    return SparkSession.getActiveSession().sql(
        \"\"\"SELECT day, zone, sum(fare) AS fare{sql_metric} FROM named GROUP BY ALL\"\"\"
    )
"""
COUNT_SQL = ", count(*) AS rides"
COUNT_PYTHON = ', F.count("*").alias("rides")'


@dataclass(frozen=True)
class Form:
    """One way to declare the flow, and to run it. ``metric`` adds the column ``rides`` to the query."""

    text: str
    suffix: str
    flow_name: str = "daily"

    def run(self, lake: Lake, *, metric: bool = False, **arguments: Any) -> RunReport:
        text = self.text.replace("{sql_metric}", COUNT_SQL if metric else "")
        text = text.replace("{python_metric}", COUNT_PYTHON if metric else "")
        file = lake.root.parent / f"pipeline{self.suffix}"
        file.write_text(text)
        return lake.run(file, **arguments)


class Arguments(Form):
    """The flow as arguments of an operator, by way of the documents between worker and driver."""

    def run(self, lake: Lake, *, metric: bool = False, **arguments: Any) -> RunReport:
        declared = INLINE.replace("{sql_metric}", COUNT_SQL if metric else "")
        overrides = tuple(Override(name, text) for name, text in arguments.pop("overrides", {}).items())
        given = FlowArguments("daily", "day >= date_sub(current_date(), 7)", declared.partition("BY NAME")[2])
        request = RunRequest(
            run_id=f"run-{lake.version('daily')}-{len(lake.session.history.runs())}",
            **{"as_of": NOON, "arguments": given, "overrides": overrides, "root": str(lake.root), **arguments},
        )
        history = lake.session.history
        request = replace(request, previous=history.last_successful(), coverage=history.coverage())
        outcome = run_request(lake.spark, RunRequest.from_json(request.to_json()))
        lake.session.history.record_outcome(outcome)
        outcome.raise_for_failure()
        return outcome.reports[0]


FORMS = {
    "inline SQL": Form(INLINE, ".sql"),
    "CREATE FLOW": Form(LONG, ".sql", "revenue"),
    "Python, Column": Form(PYTHON_COLUMN, ".py"),
    "Python, string and view": Form(PYTHON_STRING, ".py"),
    "arguments": Arguments("", ""),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
# One of each kind: in a file of SQL, in a file of Python, as arguments.
KINDS = ("CREATE FLOW", "Python, Column", "arguments")
some_forms = pytest.mark.parametrize("form", [FORMS[kind] for kind in KINDS], ids=KINDS)


@pytest.fixture
def city(lake: Lake) -> Lake:
    lake.make("zones", "zone_id INT, name STRING", [(1, "north"), (2, "south")])
    lake.make(
        "rides",
        "day DATE, zone_id INT, fare DOUBLE",
        [("2026-02-20", 1, 5.0), ("2026-03-03", 1, 10.0), ("2026-03-09", 1, 20.0), ("2026-03-09", 2, 30.0)],
    )
    return lake


@every_form
def test_windows_are_replaced_and_history_stays(city: Lake, form: Form) -> None:
    first = form.run(city)

    def table() -> set[Row]:
        return set(rows_of(city.read("daily").select("day", "zone", "fare")))

    assert table() == {("2026-03-03", "north", 10.0), ("2026-03-09", "north", 20.0), ("2026-03-09", "south", 30.0)}
    assert first.reasons[0] == {"reason": "FIRST_REFRESH"}
    assert (first.flow, first.target, first.window) == (form.flow_name, "daily", "(`day` >= DATE '2026-03-03')")
    assert first.source_versions == {"rides": 0, "zones": 0}

    # Two days on: late rows inside and outside the window; a zone has a new name; somebody wrote rows by hand; and the
    # source has lost its oldest rows.
    city.add("rides", ("2026-03-06", 2, 1.0), ("2026-03-04", 2, 99.0), ("2026-03-11", 1, 2.0))
    city.sql("DELETE FROM {rides} WHERE day < '2026-03-04'")
    city.make("zones", "zone_id INT, name STRING", [(1, "harbour"), (2, "south")])
    city.sql(
        "INSERT INTO {daily} (day, zone, fare) VALUES (DATE'2026-01-01', 'hand', 7), (DATE'2026-03-09', 'hand', 7)"
    )
    second = form.run(city, as_of=instant("2026-03-12T23:59:59"))
    history = {("2026-01-01", "hand", 7.0), ("2026-03-03", "north", 10.0)}
    assert table() == history | {
        ("2026-03-06", "south", 1.0),
        ("2026-03-09", "harbour", 20.0),
        ("2026-03-09", "south", 30.0),
        ("2026-03-11", "harbour", 2.0),
    }
    rides, zones, foreign = second.reasons
    assert rides["reason"] == zones["reason"] == "SOURCE_CHANGED"
    assert (rides["table"], rides["from_version"], rides["to_version"]) == ("rides", 0, 2)
    assert zones["table"] == "zones"
    assert foreign["reason"] == "EXTERNAL_CHANGE_IN_REPLACE_WINDOW"
    assert (foreign["operation"], foreign["region"]) == ("WRITE", "(`day` = DATE '2026-03-09')")

    # An override replaces its own window, for this once.
    report = form.run(city, overrides={form.flow_name: "day BETWEEN '2026-03-04' AND '2026-03-05' AND zone = 'south'"})
    assert report.override
    assert report.reasons[0]["reason"] == "PREDICATE_OVERRIDE"
    assert table() >= history | {("2026-03-04", "south", 99.0), ("2026-03-09", "south", 30.0)}
    assert len(city.rows("daily")) == 7

    # Nothing left in the source: the window is emptied, and only that.
    city.sql("DELETE FROM {rides}")
    report = form.run(city, as_of=instant("2026-03-12T23:59:59"))
    assert report.window == second.window
    assert table() == history | {("2026-03-04", "south", 99.0)}


@some_forms
def test_a_new_column_fills_the_window_and_a_full_refresh_needs_permission(city: Lake, form: Form) -> None:
    columns = "fare DOUBLE, zone STRING, day DATE"
    city.make("daily", columns, [(1.0, "old", "2026-01-01"), (1.0, "gone", "2026-03-09")])
    report = form.run(city, metric=True)
    assert report.columns_added == ("rides",)
    assert city.columns("daily") == ["fare double", "zone string", "day date", "rides bigint"]
    window = [
        (10.0, "north", "2026-03-03", 1),
        (20.0, "north", "2026-03-09", 1),
        (30.0, "south", "2026-03-09", 1),
    ]
    assert city.rows("daily") == [(1.0, "old", "2026-01-01", None), *window]

    with untouched(city, "daily", by=SchemaError, match="no longer gives rides"):
        form.run(city)
    with untouched(city, "daily", by=FullRefreshRefusedError, match="would lose 1 row outside"):
        form.run(city, metric=True, full_refresh=("daily",))
    report = form.run(city, metric=True, full_refresh=("daily",), allow_full_refresh=True)
    assert (report.mode, report.rows_deleted, report.rows_written) == ("FULL_REFRESH", 4, 3)
    assert city.rows("daily") == window


@some_forms
def test_rows_without_a_key_fail_the_run_are_left_out_or_are_replaced_with_every_window(city: Lake, form: Form) -> None:
    city.add("rides", (None, 1, 1.0))
    columns = "day DATE, zone STRING, fare DOUBLE"
    city.make("daily", columns, [("2026-03-09", "gone", 1.0), (None, "by hand", 7.0)])
    with untouched(city, "daily", by=NullKeyError, match="1 row with NULL in day"):
        form.run(city)
    window = [("2026-03-03", "north", 10.0), ("2026-03-09", "north", 20.0), ("2026-03-09", "south", 30.0)]
    form.run(city, null_keys="drop")
    assert city.rows("daily") == [(None, "by hand", 7.0), *window]
    form.run(city, null_keys="include")
    assert city.rows("daily") == [(None, "north", 1.0), *window]


@pytest.mark.parametrize("name", KINDS)
def test_the_callers_time_zone_holds_for_flows_that_name_none(city: Lake, name: str) -> None:
    report = FORMS[name].run(city, time_zone="Pacific/Kiritimati")
    assert (report.time_zone, report.window) == ("Pacific/Kiritimati", "(`day` >= DATE '2026-03-04')")


def test_a_python_flow_may_use_functions_of_its_own_and_of_spark(city: Lake, tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text("""
import datetime

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

spark = SparkSession.builder.appName("ignored").getOrCreate()


@F.udf(StringType())
def shout(text):
    return f"{text.upper()}!"


@dp.table(
    name="gold.`Daily Shouts`",
    replace_where=(F.col("day") > datetime.date(2026, 3, 1))
    & F.col("zone").isin("NORTH!", "SOUTH!")
    & ~(F.col("n") == 7),
    partition_cols=["day"],
    table_properties={"team": "rides", "delta.enableChangeDataFeed": True},
    schema="day DATE, zone STRING COMMENT 'loud', n BIGINT",
    spark_conf={"spark.sql.shuffle.partitions": "1"},
)
def shouts():
    zones = F.broadcast(spark.table("zones"))
    extra = spark.createDataFrame([(datetime.date(2026, 3, 2), 1)], "day DATE, zone_id INT")
    rides = spark.table("rides").select("day", "zone_id").unionByName(extra)
    return rides.join(zones, "zone_id").groupBy("day", shout("name").alias("zone")).agg(F.count("*").alias("n"))
""")
    report = city.run(file)
    assert city.rows("gold.Daily Shouts") == [
        ("2026-03-02", "NORTH!", 1),
        ("2026-03-03", "NORTH!", 1),
        ("2026-03-09", "NORTH!", 1),
        ("2026-03-09", "SOUTH!", 1),
    ]
    assert report.source_versions == {"rides": 0, "zones": 0, "LogicalRDD [day, zone_id], false": None}
    detail = city.detail("gold.Daily Shouts")
    assert (detail["partitionColumns"], detail["properties"]["team"]) == (["day"], "rides")
    assert detail["properties"]["delta.enableChangeDataFeed"] == "true"
