"""Where Catalyst says that a filter on the result arrives, for each shape of query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.planning.lineage import Arrival
from airflow_provider_replacewhere.spark.lineage import Answer, ask
from tests.spark.tables import sources_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {
    "rides": "SELECT 1 AS id, DATE'2026-03-01' AS day, TIMESTAMP'2026-03-01 12:00:00' AS at, 1 AS station, 2.5 AS fare",
    "stations": "SELECT 1 AS id, 'Bern' AS city",
    "events": "SELECT 1 AS id, DATE'2026-03-01' AS day",
    "regions": "SELECT 'Bern' AS city, 'west' AS region",
    "countries": "SELECT 'west' AS region, 'Switzerland' AS country",
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lineage")
    for name, query in TABLES.items():
        spark.sql(query).write.format("delta").save(str(root / name))
        pinned = spark.read.format("delta").option("versionAsOf", "0").load(str(root / name))
        pinned.createOrReplaceTempView(name)
    return root


def asked(spark: SparkSession, query: str, *columns: str) -> Answer:
    frame = spark.sql(query)
    return ask(frame, columns or frame.columns, sources_of(frame))


def shown(arrival: Arrival) -> str:
    if arrival.partner is None:
        return arrival.value
    chain = arrival.partner.chain
    on = (" AND ".join(partner.on) for partner in chain)
    return f"{'.'.join(partner.source for partner in reversed(chain))}.{arrival.value} ON {' THEN '.join(on)}"


REACHED = {
    "GROUP BY": ("SELECT day, count(*) AS n FROM rides GROUP BY day", {"rides": ["day"]}),
    "a day of instants": (
        "SELECT CAST(at AS DATE) AS day, count(*) AS n FROM rides GROUP BY 1",
        {"rides": ["CAST(at AS DATE)"]},
    ),
    "a month": (
        "SELECT date_trunc('MONTH', at) AS day, count(*) AS n FROM rides GROUP BY 1",
        {"rides": ["date_trunc('MONTH', at)"]},
    ),
    "join": (
        "SELECT day, city FROM rides JOIN stations ON station = stations.id",
        {"rides": ["day"], "stations": ["rides.day ON (partner.station = changed.id)"]},
    ),
    "left join": (
        "SELECT day, city FROM rides LEFT JOIN stations ON station = stations.id",
        {"rides": ["day"], "stations": ["rides.day ON (partner.station = changed.id)"]},
    ),
    "left join on the day": (
        "SELECT r.day, count(e.id) AS n FROM rides r LEFT JOIN events e ON r.day = e.day GROUP BY r.day",
        {"rides": ["day"], "events": ["day"]},
    ),
    "EXISTS": (
        "SELECT day, id FROM rides r WHERE EXISTS (SELECT 1 FROM events e WHERE e.day = r.day)",
        {"rides": ["day"], "events": ["day"]},
    ),
    "NOT IN": (
        "SELECT day, id FROM rides WHERE station NOT IN (SELECT id FROM stations)",
        {
            "rides": ["day"],
            "stations": ["rides.day ON ((partner.station = changed.id) OR ((partner.station = changed.id) IS NULL))"],
        },
    ),
    "correlated scalar subquery": (
        "SELECT day, (SELECT max(id) FROM events e WHERE e.day = r.day) AS m FROM rides r",
        {"rides": ["day"], "events": ["day"]},
    ),
    "scalar subquery": ("SELECT day, (SELECT max(id) FROM events) AS m FROM rides", {"rides": ["day"]}),
    "UNION ALL": ("SELECT day FROM rides UNION ALL SELECT day FROM events", {"rides": ["day"], "events": ["day"]}),
    "EXCEPT": ("SELECT day FROM rides EXCEPT SELECT day FROM events", {"rides": ["day"], "events": ["day"]}),
    "the day before": (
        "SELECT a.day, count(b.id) AS n FROM rides a LEFT JOIN rides b ON b.day = date_sub(a.day, 1) GROUP BY a.day",
        {"rides": ["day", "rides.day ON (changed.day = date_sub(partner.day, 1))"]},
    ),
    "a view of itself twice": (
        ("WITH x AS (SELECT day, sum(fare) AS s FROM rides GROUP BY day)"
        " SELECT a.day, b.s FROM x a JOIN x b USING (day)"),
        {"rides": ["day", "day"]},
    ),
    "window by day": ("SELECT day, row_number() OVER (PARTITION BY day ORDER BY id) AS n FROM rides",
                      {"rides": ["day"]}),
    "a constant": ("SELECT DATE'2026-03-01' AS day, count(*) AS n FROM rides GROUP BY station",
                   {"rides": ["DATE '2026-03-01'"]}),
    "COUNT DISTINCT": ("SELECT day, count(DISTINCT id) AS a, count(DISTINCT station) AS b FROM rides GROUP BY day",
                       {"rides": ["day"]}),
    "a partner that is grouped": (
        ("SELECT r.day, n FROM rides r"
        " JOIN (SELECT id % 3 AS k, count(*) AS n FROM events GROUP BY id % 3) x ON station = k"),
        {"rides": ["day"], "events": ["rides.day ON (partner.station = (changed.id % 3))"]},
    ),
    "window over all": ("SELECT day, row_number() OVER (ORDER BY id) AS n FROM rides", {}),
    "FULL JOIN": ("SELECT coalesce(r.day, e.day) AS day FROM rides r FULL JOIN events e ON r.day = e.day", {}),
    "LIMIT": ("SELECT day, id FROM rides LIMIT 3", {}),
    "the greatest day": ("SELECT max(day) AS day, station FROM rides GROUP BY station", {}),
    "GROUPING SETS": ("SELECT day, station FROM rides GROUP BY GROUPING SETS ((day, station), (day))", {}),
    "a dimension of a dimension": (
        "SELECT day, region FROM rides JOIN stations s ON station = s.id JOIN regions USING (city)",
        {
            "rides": ["day"],
            "stations": ["rides.day ON (partner.station = changed.id)"],
            "regions": ["rides.stations.day ON (partner.city = changed.city) THEN (partner.station = changed.id)"],
        },
    ),
    "the same, from the other end": (
        ("SELECT day, region, count(*) AS n FROM regions JOIN stations s USING (city) JOIN rides ON station = s.id"
         " GROUP BY day, region"),
        {
            "rides": ["day"],
            "stations": ["rides.day ON (partner.station = changed.id)"],
            "regions": ["rides.stations.day ON (changed.city = partner.city) THEN (partner.station = changed.id)"],
        },
    ),
    "the same, joined among themselves first": (
        ("SELECT day, n FROM rides JOIN (SELECT s.id, count(region) AS n FROM stations s LEFT JOIN regions USING (city)"
         " GROUP BY s.id) x ON station = x.id"),
        {
            "rides": ["day"],
            "stations": ["rides.day ON (partner.station = changed.id)"],
            "regions": ["rides.stations.day ON (partner.city = changed.city) THEN (partner.station = changed.id)"],
        },
    ),
    "a table in between that may be missing": (
        ("SELECT day, region FROM rides LEFT JOIN stations s ON station = s.id"
         " LEFT JOIN regions r ON r.city = coalesce(s.city, 'Bern')"),
        {"rides": ["day"], "stations": ["rides.day ON (partner.station = changed.id)"]},
    ),
    "a table in between that is grouped away": (
        ("SELECT day, region FROM rides JOIN (SELECT id, max(city) AS city FROM stations GROUP BY id) s"
         " ON station = s.id JOIN regions USING (city)"),
        {"rides": ["day"], "stations": ["rides.day ON (partner.station = changed.id)"]},
    ),
    "a day that is carried by the table in between": (
        "SELECT r.day, s.city FROM rides r JOIN events e ON e.day = r.day JOIN stations s ON s.id = e.id",
        {
            "rides": ["day"], "events": ["day"],
            "stations": ["events.day ON (changed.id = partner.id)"],
        },
    ),
    "a day that each side of a join carries": (
        ("SELECT date_add(r.day, 1) AS day, a.id, b.id AS mate FROM events a JOIN events b ON a.id = b.id + 1"
         " JOIN rides r ON a.day = date_add(r.day, 1) AND b.day = date_add(r.day, 1)"),
        {"rides": ["date_add(day, 1)"], "events": ["day"]},
    ),
    "three tables away": (
        ("SELECT day, country FROM rides JOIN stations s ON station = s.id JOIN regions USING (city)"
         " JOIN countries USING (region)"),
        {
            "rides": ["day"],
            "stations": ["rides.day ON (partner.station = changed.id)"],
            "regions": ["rides.stations.day ON (partner.city = changed.city) THEN (partner.station = changed.id)"],
            "countries": [("rides.stations.regions.day ON (partner.region = changed.region) THEN"
                           " (partner.city = changed.city) THEN (partner.station = changed.id)")],
        },
    ),
    "cross join": ("SELECT r.day, e.id FROM rides r CROSS JOIN events e", {"rides": ["day"]}),
    "a smaller one": ("SELECT r.day, e.id FROM rides r JOIN events e ON e.day <= r.day",
                      {"rides": ["day"], "events": ["rides.day ON (changed.day <= partner.day)"]}),
}  # fmt: skip


@pytest.mark.parametrize("shape", REACHED)
def test_where_a_filter_on_the_day_arrives(spark: SparkSession, tables: Path, shape: str) -> None:
    query, expected = REACHED[shape]
    answer = asked(spark, query, "day")
    found = {source: sorted(map(shown, columns["day"])) for source, columns in answer.items()}
    assert found == {source: sorted(arrivals) for source, arrivals in expected.items()}


def test_what_the_query_reads_and_which_rows(spark: SparkSession, tables: Path) -> None:
    (arrival,) = asked(spark, "SELECT day, sum(fare) AS s FROM rides WHERE station > 3 GROUP BY day", "day")["rides"][
        "day"
    ]
    assert arrival.used == ("day", "station", "fare")
    assert "(station > 3)" in arrival.where


def test_a_read_that_nobody_found_leaves_nothing_known(spark: SparkSession, tables: Path) -> None:
    frame = spark.sql(REACHED["join"][0])
    assert ask(frame, ["day"], [source for source in sources_of(frame) if source.name == "rides"]) == {}


def test_every_column_is_tried(spark: SparkSession, tables: Path) -> None:
    answer = asked(spark, "SELECT day, city, fare FROM rides JOIN stations ON station = stations.id")
    assert set(answer["stations"]) == {"day", "city", "fare"}
    assert shown(answer["stations"]["city"][0]) == "city"
    assert shown(answer["rides"]["city"][0]) == "stations.city ON (changed.station = partner.id)"


def test_asking_leaves_no_setting_behind(spark: SparkSession, tables: Path) -> None:
    before = spark.conf.getAll
    asked(spark, "SELECT day FROM rides")
    assert spark.conf.getAll == before


def test_a_name_that_needs_quotes_is_read_back(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "odd")
    spark.sql("SELECT DATE'2026-03-01' AS `the day`, 1 AS `a.b``c`").write.format("delta").option(
        "delta.columnMapping.mode", "name"
    ).save(path)
    frame = spark.read.format("delta").option("versionAsOf", "0").load(path).where("`a.b``c` > 0")
    answer = ask(frame, ["the day"], sources_of(frame))
    assert answer["odd"]["the day"][0].value == "`the day`"
    assert "(`a.b``c` > 0)" in answer["odd"]["the day"][0].where
