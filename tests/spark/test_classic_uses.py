"""The four uses for which people want such flows, each as text in a file and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import SchemaError
from tests.spark.tables import Lake, instant, untouched


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "flow.sql"


def test_aggregates_are_kept_longer_than_the_source_keeps_its_rows(lake: Lake, file: Path) -> None:
    file.write_text("""
        CREATE STREAMING TABLE visits_by_day
        FLOW REPLACE WHERE day >= date_sub(current_date(), 2) BY NAME
        SELECT to_date(at) AS day, count(*) AS visits FROM visits GROUP BY 1;
    """)
    lake.make("visits", "at TIMESTAMP")
    for day in range(1, 5):
        lake.add("visits", (f"2026-03-{day:02}T08:00:00Z",), (f"2026-03-{day:02}T23:59:59.999999Z",))
        lake.sql(f"DELETE FROM {{visits}} WHERE at < TIMESTAMP'2026-03-{day:02}T00:00:00Z' - INTERVAL 2 DAYS")
        lake.run(file, as_of=instant(f"2026-03-{day:02}T23:59:59.999999"))
    assert len(lake.rows("visits")) == 6
    assert lake.rows("visits_by_day") == [(f"2026-03-{day:02}", 2) for day in range(1, 5)]


def test_history_stays_as_it_was_when_a_dimension_changes(lake: Lake, file: Path) -> None:
    file.write_text("""
        CREATE STREAMING TABLE sales_by_region
        FLOW REPLACE WHERE s.day >= date_sub(current_date(), 1) BY NAME
        SELECT s.day, c.region, sum(s.amount) AS amount
        FROM sales s JOIN customers c ON s.customer = c.customer
        GROUP BY s.day, c.region;
    """)
    lake.make("customers", "customer INT, region STRING", [(1, "east"), (2, "west")])
    lake.make("sales", "day DATE, customer INT, amount INT", [("2026-03-01", 1, 10), ("2026-03-01", 2, 20)])
    lake.run(file, as_of=instant("2026-03-01T23:00:00"))
    lake.sql("UPDATE {customers} SET region = 'west' WHERE customer = 1")  # the customer has moved
    lake.add("sales", ("2026-03-03", 1, 5), ("2026-03-03", 2, 6))
    lake.run(file, as_of=instant("2026-03-03T23:00:00"))
    assert lake.rows("sales_by_region") == [
        ("2026-03-01", "east", 10),
        ("2026-03-01", "west", 20),
        ("2026-03-03", "west", 11),
    ]


def test_a_new_metric_is_filled_for_thirty_days_only(lake: Lake, file: Path) -> None:
    flow = """
        CREATE STREAMING TABLE orders_by_day
        FLOW REPLACE WHERE day >= date_sub(current_date(), 1) BY NAME
        SELECT day, count(*) AS orders {metric} FROM orders GROUP BY day;
    """
    file.write_text(flow.replace("{metric}", ""))
    days = ("2026-01-15", "2026-02-20", "2026-03-08", "2026-03-09")
    lake.make("orders", "day DATE, amount INT", [(day, 5) for day in days])
    noon = instant("2026-03-10T12:00:00")
    lake.run(file, as_of=noon, overrides={"orders_by_day": "day >= '2026-01-01'"})
    assert lake.rows("orders_by_day") == [(day, 1) for day in days]

    file.write_text(flow.replace("{metric}", ", sum(amount) AS amount"))
    report = lake.run(file, as_of=noon, overrides={"orders_by_day": "day >= date_sub(current_date(), 30)"})
    assert report.columns_added == ("amount",)
    assert lake.rows("orders_by_day") == [("2026-01-15", 1, None), *((day, 1, 5) for day in days[1:])]
    lake.run(file, as_of=instant("2026-03-11T12:00:00"))  # the daily run goes on, with its own window
    assert lake.rows("orders_by_day") == [("2026-01-15", 1, None), *((day, 1, 5) for day in days[1:])]
    file.write_text(flow.replace("{metric}", ""))
    with untouched(lake, "orders_by_day", by=SchemaError, match="no longer gives amount"):
        lake.run(file, as_of=noon)


def test_a_query_is_tried_on_a_week_and_then_loaded_for_a_year(lake: Lake, file: Path) -> None:
    file.write_text("""
        CREATE STREAMING TABLE readings_by_sensor (day DATE, sensor STRING, mean DECIMAL(6, 2))
        PARTITIONED BY (day)
        FLOW REPLACE WHERE day >= date_sub(current_date(), 7) BY NAME
        SELECT sensor, to_date(at) AS day, CAST(avg(value) AS DECIMAL(6, 2)) AS mean FROM readings GROUP BY ALL;
    """)
    readings = [
        ("2025-01-01T00:00:00Z", "a", 1.0),
        ("2025-03-10T00:00:00Z", "a", 2.0),
        ("2025-12-31T23:59:59Z", "b", 3.0),
        ("2026-03-03T00:00:00Z", "a", 4.0),
        ("2026-03-09T12:00:00Z", "b", 5.0),
        ("2026-03-09T13:00:00Z", "b", 6.0),
    ]
    lake.make("readings", "at TIMESTAMP, sensor STRING, value DOUBLE", readings)
    noon = instant("2026-03-10T12:00:00")
    lake.run(file, as_of=noon)
    week = [("2026-03-03", "a", "4.00"), ("2026-03-09", "b", "5.50")]
    assert [(day, sensor, str(mean)) for day, sensor, mean in lake.rows("readings_by_sensor")] == week

    year = "day >= add_months(current_date(), -12)"
    report = lake.run(file, as_of=noon, overrides={"readings_by_sensor": year})
    assert report.window == "(`day` >= DATE '2025-03-10')"
    assert [(day, sensor, str(mean)) for day, sensor, mean in lake.rows("readings_by_sensor")] == [
        ("2025-03-10", "a", "2.00"),
        ("2025-12-31", "b", "3.00"),
        *week,
    ]
