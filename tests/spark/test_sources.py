"""What a run reads: sources found by every way of naming them, each at one version, told in the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.errors import DefinitionError, SourceError
from airflow_provider_replacewhere.local import LocalSession
from airflow_provider_replacewhere.predicates.clock import Clock
from airflow_provider_replacewhere.spark.directory import DirectoryCatalog
from airflow_provider_replacewhere.spark.session import flow_session
from airflow_provider_replacewhere.spark.sources import Sources
from airflow_provider_replacewhere.text import Span
from tests.spark.tables import NOON, Lake, Row, flow, rows_of, untouched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RIDES = [(1, "2026-03-08", 10.0), (2, "2026-03-09", 20.0), (3, "2026-02-01", 99.0)]
RIDES_COLUMNS = "ride INT, day DATE, fare DOUBLE"


@pytest.fixture
def rides(lake: Lake) -> Lake:
    """The table ``rides`` at version 1: version 0 lacks ride 2."""
    lake.make("rides", RIDES_COLUMNS, [RIDES[0], RIDES[2]])
    lake.add("rides", RIDES[1])
    return lake


# -- one version of each table -----------------------------------------------------------------------------------------


def test_a_table_that_changes_while_a_run_reads_it_is_read_at_one_version(rides: Lake, tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(f"""
from pyspark import pipelines as dp

@dp.table(replace_where="day >= '2026-03-01'")
def daily():
    first = spark.read.table("rides").selectExpr("'first' AS read", "day", "ride")
    late = spark.sql("SELECT 7 AS ride, DATE'2026-03-10' AS day, CAST(1 AS DOUBLE) AS fare")
    late.write.format("delta").mode("append").save({str(rides.path("rides"))!r})
    again = spark.sql("SELECT 'by name' AS read, day, ride FROM rides")
    by_path = spark.read.format("delta").load({str(rides.path("rides"))!r}).selectExpr("'by path'", "day", "ride")
    return first.union(again).union(by_path)
""")
    report = rides.run(file)
    kept = [("2026-03-08", 1), ("2026-03-09", 2)]
    assert rides.rows("daily") == [(read, *row) for read in ("by name", "by path", "first") for row in kept]
    assert report.source_versions == {"rides": 1}
    assert rides.version("rides") == 2

    assert rides.run(file).source_versions == {"rides": 2}
    assert rides.rows("daily") == [
        (read, *row) for read in ("by name", "by path", "first") for row in (*kept, ("2026-03-10", 7))
    ]


def test_views_over_views_read_the_version_of_the_query(rides: Lake, tmp_path: Path) -> None:
    python = tmp_path / "views.py"
    python.write_text(f"""
from pyspark import pipelines as dp

@dp.temporary_view
def changed_meanwhile():
    late = spark.sql("SELECT 7 AS ride, DATE'2026-03-10' AS day, CAST(1 AS DOUBLE) AS fare")
    late.write.format("delta").mode("append").save({str(rides.path("rides"))!r})
    return spark.table("recent")
""")
    sql = tmp_path / "flow.sql"
    sql.write_text(
        "CREATE VIEW recent AS SELECT * FROM rides WHERE day > DATE'2026-03-01';"
        "CREATE TEMPORARY VIEW both AS SELECT day, ride FROM recent UNION ALL SELECT day, ride FROM changed_meanwhile;"
        + flow("SELECT day, ride, count(*) AS seen FROM both GROUP BY ALL")
    )
    report = rides.run([sql, python])
    assert rides.rows("daily") == [("2026-03-08", 1, 2), ("2026-03-09", 2, 2)]
    assert report.source_versions == {"rides": 1}


# -- the forms in which a query names a table --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Tables that are only read: ``rides`` at version 1, and one of that name in each of two schemas."""
    lake = Lake(spark, tmp_path_factory.mktemp("shop"))
    lake.make("rides", RIDES_COLUMNS, [RIDES[0], RIDES[2]])
    lake.add("rides", RIDES[1])
    lake.make("gold.rides", "ride INT, label STRING", [(2, "gold")])
    lake.make("Silver.Rides", "ride INT, label STRING, place STRUCT<zone: INT>", [(2, "silver", None)])
    lake.make("my ri`des", "ride INT, the_day DATE", [(5, "2026-03-05")])
    return lake


def read(lake: Lake, query: str) -> tuple[list[Row], dict[str, int | None]]:
    """The rows that a flow's query gives, and the versions of what it reads."""
    session = flow_session(lake.spark, Clock(NOON), {})
    sources = Sources(
        session,
        directory=DirectoryCatalog(str(lake.root)),
        views={},
        before_read=lambda *_: None,
        call=lambda function, _: function(),
    )
    frame = sources.sql(Span.of(query, "query"))
    return rows_of(frame), {source.name: source.version for source in sources.found(frame)}


BOTH = [("2026-03-08", 1), ("2026-03-09", 2)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT day, ride FROM rides",
        "SELECT rides.day, RIDES.`ride` FROM Rides",
        "SELECT r.day, r.ride FROM `rides` AS r",
        "SELECT r.d AS day, r.n AS ride FROM rides AS r (n, d, f)",
        "WITH rides AS (SELECT * FROM rides) SELECT day, ride FROM rides",
        "WITH a AS (SELECT * FROM rides), rides AS (SELECT day, ride FROM a) SELECT rides.* FROM rides",
        "FROM rides SELECT day, ride",
        "FROM rides |> WHERE fare > 0 |> SELECT day, ride",
        "TABLE rides |> SELECT day, ride",
        "SELECT day, ride FROM (TABLE rides)",
        "SELECT /*+ BROADCAST(b) */ a.day, a.ride FROM rides a JOIN rides b USING (ride)",
        "SELECT /*+ BROADCAST(rides) */ rides.day, rides.ride FROM rides",
        "SELECT r.day, r.ride FROM rides TABLESAMPLE (100 PERCENT) REPEATABLE (1) AS r",
        "SELECT r.day, t.x AS ride FROM rides r, LATERAL (SELECT r.ride AS x) AS t",
        "SELECT day, ride FROM rides LATERAL VIEW explode(array(1)) t AS one",
        "SELECT day, ride FROM rides WHERE ride IN (SELECT ride FROM rides)",
        "SELECT day, ride FROM rides r WHERE EXISTS (SELECT 1 FROM rides q WHERE q.ride = r.ride)",
        "SELECT day, ride FROM rides WHERE fare <= (SELECT max(fare) FROM rides)",
        "SELECT day, max(ride) AS ride FROM rides GROUP BY ALL",
        "SELECT day, ride FROM rides -- FROM nothing\n WHERE 'FROM rides' <> ';' /* FROM nothing */",
        "(SELECT day, ride FROM rides WHERE ride = 1) UNION ALL (SELECT day, ride FROM rides WHERE ride <> 1)",
        "SELECT day, ride FROM rides PIVOT (sum(fare) FOR fare IN (10.0 AS a, 20.0 AS b))",
        "SELECT day, ride FROM delta.`{root}/rides`",
        "SELECT day, ride FROM rides r LEFT ANTI JOIN delta.`{root}/rides` s ON r.ride = -s.ride",
    ],
)
def test_a_query_names_a_table_of_the_directory(shop: Lake, query: str) -> None:
    rows, versions = read(shop, query.replace("{root}", str(shop.root)))
    assert [row for row in rows if row[0] > "2026-03"] == BOTH
    assert versions == {"rides": 1} or versions == {f"delta.`file:{shop.path('rides')}`": 1}


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT gold.rides.ride, label FROM gold.rides", [(2, "gold")]),
        ("SELECT GOLD.rides.*, rides.label AS l FROM gold.Rides", [(2, "gold", "gold")]),
        ("SELECT silver.rides.label, silver.rides.place.zone FROM silver.rides", [("silver", None)]),
        ("SELECT s.label FROM silver.rides AS s WHERE s.ride = 2", [("silver",)]),
        ("SELECT g.label, s.label AS l FROM gold.rides g JOIN silver.rides s USING (ride)", [("gold", "silver")]),
        ("SELECT r.ride, g.label FROM gold.rides g JOIN rides r USING (ride)", [(2, "gold")]),
        ("SELECT r.ride, g.label FROM rides r JOIN gold.rides g USING (ride)", [(2, "gold")]),
        ("SELECT label FROM gold.rides UNION ALL SELECT 'plain' FROM rides WHERE fare = 99", [("gold",), ("plain",)]),
        ("SELECT gold.rides.label, rides.fare FROM rides JOIN gold.rides USING (ride)", [("gold", 20.0)]),
        ("WITH rides AS (SELECT 2 AS ride) SELECT g.label FROM rides JOIN gold.rides g USING (ride)", [("gold",)]),
        ("WITH rides AS (SELECT * FROM gold.rides) SELECT label FROM rides", [("gold",)]),
        ("WITH rides AS (SELECT * FROM gold.rides) SELECT a.label FROM gold.rides a, rides", [("gold",)]),
        ("SELECT gold . rides.* EXCEPT (ride) FROM gold.rides", [("gold",)]),
        ("SELECT count(gold.rides.ride) AS n FROM gold.rides HAVING max(gold.rides.label) = 'gold'", [(1,)]),
        ("SELECT the_day, `my ri``des`.ride FROM `my ri``des`", [("2026-03-05", 5)]),
        ("SELECT ride FROM rides VERSION AS OF 0 WHERE rides.fare < 50", [(1,)]),
        ("SELECT r.ride FROM rides FOR SYSTEM_VERSION AS OF 0 AS r WHERE r.fare < 50", [(1,)]),
        ("SELECT n.ride FROM rides n LEFT ANTI JOIN rides VERSION AS OF 0 o ON n.ride = o.ride", [(2,)]),
        ("SELECT gold.rides.label FROM gold.rides VERSION AS OF 0", [("gold",)]),
        ("SELECT ride FROM delta.`{root}/rides@v0` WHERE fare < 50", [(1,)]),
    ],
)  # fmt: skip
def test_names_that_are_alike_are_told_apart(shop: Lake, query: str, rows: list[Row]) -> None:
    found, versions = read(shop, query.replace("{root}", str(shop.root)))
    assert found == rows
    assert None not in versions.values()


def test_a_stand_in_for_a_table_is_not_taken_for_a_cte_of_a_later_query(rides: Lake) -> None:
    rides.make("gold.fares", "ride INT, fare DOUBLE", [(1, 100.0)])
    rides.run(
        "CREATE VIEW priced AS SELECT day, ride, g.fare FROM rides JOIN gold.fares g USING (ride);"
        + flow(
            "WITH fares AS (SELECT 1 AS ride, -1.0D AS fare) "
            "SELECT day, p.fare, g.fare AS again FROM priced p JOIN gold.fares g USING (ride)"
        )
    )
    assert rides.rows("daily") == [("2026-03-08", 100.0, 100.0)]


def test_a_sample_that_names_no_seed_is_still_pinned(shop: Lake) -> None:
    assert read(shop, "SELECT * FROM gold.rides TABLESAMPLE (1 ROWS)") == ([(2, "gold")], {"gold.rides": 0})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM STREAM(rides)", "reads whole tables, not streams"),
        ("SELECT * FROM STREAM rides", "reads whole tables, not streams"),
        ("SELECT * FROM stream ( rides ) AS r", "reads whole tables, not streams"),
        ("SELECT * FROM\n  ridez", "(?s)query:2:3: .*reads ridez, which is not a table.*\\^\\^\\^\\^\\^"),
        ("SELECT * FROM gold.nothing", "reads gold.nothing"),
        ("SELECT * FROM a.b.c.d", "reads a.b.c.d"),
        ("SELECT * FROM delta.`/no/such/folder`", "reads delta.`/no/such/folder`"),
        ("SELECT fair FROM rides", "(?s)cannot resolve the query.*fair"),
        ("SELECT FROM (WHERE", "cannot parse the query"),
        ("SELECT * FROM `../rides`", "cannot be a folder's name"),
        ("SELECT * FROM rides VERSION AS OF 9", "(?s)cannot resolve the query.*9"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(shop: Lake, query: str, message: str) -> None:
    with pytest.raises((DefinitionError, SourceError), match=message):
        read(shop, query)


# -- the caller's own session and Spark's catalog ----------------------------------------------------------------------


def test_tables_of_the_catalog_are_pinned_also_below_views(spark: SparkSession, database: str, lake: Lake) -> None:
    spark.sql("CREATE TABLE shop.rides USING delta AS SELECT 1 AS ride, DATE'2026-03-08' AS day, 10.0D AS fare")
    spark.sql("CREATE TABLE shop.zones (ride INT, zone STRING) USING parquet")
    spark.sql("INSERT INTO shop.zones VALUES (1, 'north')")
    spark.sql("USE shop")
    spark.sql("CREATE VIEW shop.inner AS SELECT * FROM rides WHERE fare > 0")
    spark.sql("CREATE VIEW shop.seen (ride, on_day) AS SELECT ride, i.day FROM inner AS i")
    spark.sql("USE default")
    one = [("2026-03-08", 1)]
    for query in (
        "SELECT day, ride FROM shop.rides",
        "SELECT shop.rides.day, spark_catalog.shop.rides.ride FROM spark_catalog.shop.rides",
        "SELECT r.day, r.ride FROM shop.rides TABLESAMPLE (100 PERCENT) r",
        "FROM shop.rides |> SELECT day, ride",
        "TABLE shop.rides |> SELECT day, ride",
        "SELECT day, ride FROM shop.rides VERSION AS OF 0",
        "SELECT on_day AS day, ride FROM shop.seen",
        "SELECT shop.seen.on_day AS day, seen.ride FROM shop.seen",
        "WITH seen AS (SELECT * FROM shop.seen), rides AS (SELECT * FROM seen) SELECT on_day, ride FROM rides",
    ):
        assert read(lake, query) == (one, {"shop.rides": 0}), query
    rows, versions = read(lake, "SELECT day, zone FROM shop.rides JOIN shop.zones USING (ride)")
    assert (rows, versions) == ([("2026-03-08", "north")], {"shop.rides": 0, "shop.zones": None})


def test_a_folder_below_the_root_hides_a_table_of_the_catalog(spark: SparkSession, database: str, shop: Lake) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS gold")
    try:
        spark.sql("CREATE TABLE gold.rides USING delta AS SELECT 'catalog' AS label")
        assert read(shop, "SELECT label FROM gold.rides")[0] == [("gold",)]
    finally:
        spark.sql("DROP DATABASE gold CASCADE")


def test_temporary_views_and_unversioned_files_of_the_session_are_read_and_reported_so(
    spark: SparkSession, shop: Lake, tmp_path: Path
) -> None:
    spark.sql("SELECT 2 AS ride, 'file' AS label").write.parquet(str(tmp_path / "files"))
    spark.read.parquet(str(tmp_path / "files")).createOrReplaceTempView("labels")
    shop.read("rides").createOrReplaceTempView("mine")
    spark.sql("SELECT 2 AS ride, 'notebook' AS label").createOrReplaceTempView("rides")
    try:
        rows, versions = read(shop, "SELECT m.ride, l.label FROM mine m JOIN labels l USING (ride)")
        assert rows == [(2, "file")]
        assert versions == {f"delta.`file:{shop.path('rides')}`": None, f"file:{tmp_path}/files": None}
        rows, versions = read(shop, f"SELECT label FROM parquet.`{tmp_path}/files`")
        assert (rows, list(versions.values())) == ([("file",)], [None])
        # As in Spark: a temporary view comes before a table of one name.
        assert read(shop, "SELECT label FROM rides") == ([("notebook",)], {})
        query = "SELECT r.label, g.label AS gold FROM gold.rides g JOIN rides r USING (ride)"
        assert read(shop, query) == ([("notebook", "gold")], {"gold.rides": 0})
    finally:
        for view in ("labels", "mine", "rides"):
            spark.catalog.dropTempView(view)


def test_a_flow_does_not_leave_its_views_in_the_callers_session(spark: SparkSession, shop: Lake) -> None:
    before = {table.name for table in spark.catalog.listTables()}
    read(shop, "SELECT r.ride FROM rides r, gold.rides g")
    assert {table.name for table in spark.catalog.listTables()} == before


# -- variables, and the target among the sources -----------------------------------------------------------------------


def test_variables_are_filled_into_query_predicate_and_view(rides: Lake) -> None:
    report = rides.run(
        "SET least = 15; SET source = rides; SET days = 7;"
        "CREATE VIEW dear AS SELECT * FROM ${source} WHERE fare > ${least};"
        + flow("SELECT day, ride FROM dear", where="day >= date_sub(current_date(), ${days})")
    )
    assert rides.rows("daily") == [("2026-03-09", 2)]
    assert report.predicate == "day >= date_sub(current_date(), 7)"
    with untouched(rides, "daily", by=DefinitionError, match=r"\$\{lest\} is not set"):
        rides.run("SET least = 15;" + flow("SELECT day, ride FROM rides WHERE fare > ${lest}"))


def test_a_flow_that_reads_its_own_target_is_refused_by_whatever_name(rides: Lake, tmp_path: Path) -> None:
    rides.run(flow("SELECT day, ride FROM rides"))
    python = tmp_path / "flow.py"
    python.write_text(f"""
from pyspark import pipelines as dp

@dp.table(replace_where="day > '2026-01-01'")
def daily():
    return spark.read.format("delta").load("{rides.path("daily")}")
""")
    for pipeline in (
        flow("SELECT day, ride FROM Daily"),
        flow(f"SELECT day, ride FROM delta.`{rides.path('daily')}`"),
        flow(f"SELECT day, ride FROM delta.`file:{rides.path('daily')}`"),
        "CREATE VIEW v AS SELECT * FROM daily;" + flow("SELECT day, ride FROM v"),
        python,
    ):
        with untouched(rides, "daily", by=DefinitionError, match="reads its own target|in a circle"):
            rides.run(pipeline)


def test_a_session_without_a_root_finds_everything_in_the_catalog(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    spark.sql("CREATE TABLE shop.rides USING delta AS SELECT 1 AS ride, DATE'2026-03-08' AS day")
    session = LocalSession(spark, history=f"sqlite:///{tmp_path}/history.db")
    pipeline = flow("SELECT day, ride FROM shop.rides", target="shop.daily")
    (report,) = session.run(pipeline, as_of=NOON)
    assert rows_of(spark.table("shop.daily")) == [("2026-03-08", 1)]
    assert report.source_versions == {"shop.rides": 0}
    spark.sql("INSERT INTO shop.rides VALUES (2, DATE'2026-03-09')")
    spark.sql("INSERT INTO shop.daily VALUES (DATE'2026-03-08', 9), (DATE'2026-03-01', 9)")
    session.run(pipeline, as_of=NOON)
    assert rows_of(spark.table("shop.daily")) == [("2026-03-01", 9), ("2026-03-08", 1), ("2026-03-09", 2)]
