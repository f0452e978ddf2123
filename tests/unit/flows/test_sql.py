"""The SQL dialect in all its valid forms."""

from __future__ import annotations

import pytest

from airflow_provider_replacewhere.flows import Flow, Pipeline, parse_sql
from airflow_provider_replacewhere.flows.model import Column, Expectation, OnViolation, Schedule, TableName
from airflow_provider_replacewhere.flows.scan import string_literal, string_value


def only_flow(text: str) -> Flow:
    (flow,) = parse_sql(text).flows
    return flow


def parts(flow: Flow) -> tuple[str, str]:
    assert flow.query is not None
    return flow.replace_where.text, flow.query.text


FULL = r"""
/* the sales /* of the shop */ ; */
create or refresh streaming table if not exists shop.`daily ``sales``` (
  day DATE NOT NULL COMMENT 'the day''s date',
  Items ARRAY<STRUCT<id: BIGINT, `a b`: MAP<STRING, DECIMAL(10, 2)>>> COMMENT "of the day",
  took INTERVAL DAY TO SECOND, note STRING COLLATE UTF8_LCASE, total,
  constraint has_day EXPECT (day IS NOT NULL AND (1 = 1)) on violation fail update,
  CONSTRAINT `some sales` EXPECT (size(items) > 0) ON VIOLATION DROP ROW,
  CONSTRAINT cheap EXPECT (total < ')')
)
using delta
CLUSTER BY (day, `total`)
TBLPROPERTIES ('a.b' = 'x', c.d = 3, `e.f` 'y', g true, h = -1.5)
SCHEDULE REFRESH CRON '0 0 6 * * ?' AT TIME ZONE 'Europe/Zurich'
COMMENT 'one; two' ' three'
FLOW REPLACE WHERE day >= current_date() - INTERVAL 7 DAYS BY NAME -- a week; at most
SELECT /*+ BROADCAST(s) */ day, ';' AS note FROM orders o JOIN shops s USING (shop) GROUP BY ALL;
"""


def test_every_part_of_a_table_is_read() -> None:
    pipeline = parse_sql(FULL)
    (table,), (flow,) = pipeline.tables, pipeline.flows
    assert table.name == TableName(("shop", "daily `sales`"))
    assert table.columns == (
        Column("day", "DATE", nullable=False, comment="the day's date"),
        Column("Items", "ARRAY<STRUCT<id: BIGINT, `a b`: MAP<STRING, DECIMAL(10, 2)>>>", comment="of the day"),
        Column("took", "INTERVAL DAY TO SECOND"),
        Column("note", "STRING COLLATE UTF8_LCASE"),
        Column("total"),
    )
    assert table.expectations == (
        Expectation("has_day", "day IS NOT NULL AND (1 = 1)", OnViolation.FAIL_UPDATE),
        Expectation("some sales", "size(items) > 0", OnViolation.DROP_ROW),
        Expectation("cheap", "total < ')'", OnViolation.WARN),
    )
    assert table.clustered_by == ("day", "total")
    assert table.properties == {"a.b": "x", "c.d": "3", "e.f": "y", "g": "true", "h": "-1.5"}
    assert table.schedule == Schedule(cron="0 0 6 * * ?", time_zone="Europe/Zurich")
    assert table.comment == flow.comment == "one; two three"
    assert flow.table == table
    assert flow.name == "shop.`daily ``sales```"
    assert parts(flow) == (
        "day >= current_date() - INTERVAL 7 DAYS",
        "SELECT /*+ BROADCAST(s) */ day, ';' AS note FROM orders o JOIN shops s USING (shop) GROUP BY ALL",
    )


CLAUSES = ("SCHEDULE EVERY 2 WEEK", "COMMENT 'c'", "PARTITIONED BY (d)", "TBLPROPERTIES (a = 1)")


@pytest.mark.parametrize("turn", range(len(CLAUSES)))
def test_clauses_come_in_any_order(turn: int) -> None:
    clauses = " ".join((*CLAUSES[turn:], *CLAUSES[:turn]))
    (table,) = parse_sql(f"CREATE STREAMING TABLE t {clauses}").tables
    assert (table.schedule, table.comment) == (Schedule(every=2, unit="WEEKS"), "c")
    assert (table.partitioned_by, table.properties) == (("d",), {"a": "1"})


QUERIES = [
    "SELECT * FROM orders",
    "WITH a AS (SELECT 1), b AS (SELECT ';') SELECT * FROM a, b",
    "FROM orders SELECT day, sum(total) GROUP BY day",
    "FROM orders |> WHERE day > 1 |> SELECT day",
    "VALUES (1, 'BY NAME'), (2, 'SELECT')",
    "TABLE orders",
    "(SELECT 1)",
    "(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1",
    "((SELECT 1) EXCEPT (SELECT 2)) LIMIT 3",
    "SELECT day, row_number() OVER (PARTITION BY name ORDER BY day) AS by FROM (SELECT * FROM orders)",
    r"SELECT 'it\'s', r'\', \"x\"\"y\", `a``b`, 1L, 2.5BD, .5e-3, a::int, x[0].y, ${key} FROM orders".replace(
        '\\"', '"'
    ),
    "SELECT CASE WHEN a THEN b END, extract(YEAR FROM day), trim(BOTH 'x' FROM name) FROM orders -- end",
]
PREDICATES = [
    "day >= date_sub(current_date(), 7)",
    "CASE WHEN a THEN b ELSE c END",
    "a IS NOT DISTINCT FROM b AND c IS DISTINCT FROM d",
    "extract(YEAR FROM day) = 2026 AND trim(LEADING ' ' FROM name) = 'SELECT 1'",
    "day IN (SELECT max(day) FROM orders) OR EXISTS (SELECT 1)",
    "coalesce((SELECT 1), 2) > a",
    "(SELECT max(day) FROM orders) > day",
    "values > 3 AND `select` = t.table",
    "name LIKE 'BY NAME' -- BY NAME SELECT\n AND x = date",
    "price > 2.5BD AND hash(name) = 1L AND is_open",
    "day > ${start}",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_predicate_and_query_stay_as_they_are_written(predicate: str, query: str) -> None:
    # A comment at the very end belongs to nothing.
    expected = (predicate, query.removesuffix(" -- end"))
    short = only_flow(f"CREATE STREAMING TABLE t FLOW REPLACE WHERE {predicate}\nBY NAME\n{query}\n;")
    long = only_flow(f"CREATE FLOW t AS INSERT INTO t BY NAME REPLACE WHERE {predicate}\n{query}\n;")
    assert parts(short) == parts(long) == expected


def test_long_form_finds_the_declaration_of_its_target() -> None:
    flow = only_flow(
        "CREATE FLOW load COMMENT 'c' AS INSERT INTO `T` BY NAME REPLACE WHERE d > 1 SELECT 1 AS d;"
        "CREATE STREAMING TABLE t PARTITIONED BY (d) TBLPROPERTIES (replacewhere.nullKeys = DROP)"
    )
    assert (flow.name, flow.comment, flow.table.partitioned_by, flow.null_keys) == ("load", "c", ("d",), "drop")


def test_long_form_needs_no_declaration() -> None:
    flow = only_flow("CREATE FLOW load AS INSERT INTO delta.`/data/t` BY NAME REPLACE WHERE d > 1 SELECT 1 AS d")
    assert flow.target.is_path
    assert flow.table.columns == ()


def test_views() -> None:
    temporary, plain, values = parse_sql(
        "CREATE OR REPLACE TEMPORARY VIEW a COMMENT 'c' TBLPROPERTIES (x = 1) AS SELECT 1;"
        "create view `b c` as with q as (select 1) select * from q; CREATE TEMP VIEW IF NOT EXISTS c AS VALUES (1)"
    ).views
    assert (temporary.name.parts, temporary.comment) == (("a",), "c")
    assert plain.query is not None
    assert plain.query.text == "with q as (select 1) select * from q"
    assert values.name.parts == ("c",)


@pytest.mark.parametrize(
    ("text", "full", "predicate", "wait"),
    [
        ("REFRESH STREAMING TABLE s.t", False, None, True),
        ("refresh table s.t full", True, None, True),
        ("REFRESH STREAMING TABLE s.t FULL ASYNC", True, None, False),
        ("REFRESH STREAMING TABLE s.t SYNC", False, None, True),
        ("REFRESH STREAMING TABLE s.t WHERE d = 1 AND async > 2", False, "d = 1 AND async > 2", True),
        ("REFRESH STREAMING TABLE s.t WHERE d IN (1, 2) ASYNC;", False, "d IN (1, 2)", False),
    ],
)
def test_refresh(text: str, full: bool, predicate: str | None, wait: bool) -> None:
    (refresh,) = parse_sql(text).refreshes
    assert refresh.target.parts == ("s", "t")
    assert (refresh.full, refresh.predicate and refresh.predicate.text, refresh.wait) == (full, predicate, wait)


def test_set_takes_plain_and_quoted_keys_and_values() -> None:
    settings = parse_sql("SET a.b = 1 hour; SET `c.d` = 'x;y'; set 'e f' = `z`; SET a.b = 1 hour").settings
    assert settings == {"a.b": "1 hour", "c.d": "x;y", "e f": "z"}


FLOW = "CREATE STREAMING TABLE t {} FLOW REPLACE WHERE d > 1 BY NAME SELECT 1 AS d;"


@pytest.mark.parametrize(
    ("text", "time_zone"),
    [
        (FLOW.format(""), "Asia/Tokyo"),
        ("SET spark.sql.session.timeZone = 'Europe/Oslo';" + FLOW.format(""), "Europe/Oslo"),
        (
            FLOW.format("") + "SET ReplaceWhere.TimeZone = Europe/Rome; SET spark.sql.session.timeZone=UTC",
            "Europe/Rome",
        ),
        (
            "SET replacewhere.timeZone=UTC;" + FLOW.format("TBLPROPERTIES (replacewhere.timezone='Asia/Seoul')"),
            "Asia/Seoul",
        ),
    ],
)
def test_time_zone_of_property_before_set_before_default(text: str, time_zone: str) -> None:
    (flow,) = parse_sql(text, time_zone="Asia/Tokyo").flows
    assert flow.time_zone == time_zone


@pytest.mark.parametrize("text", ["", " \n", ";;", "-- nothing; here", "/* ; */ ;"])
def test_text_without_statements_is_an_empty_pipeline(text: str) -> None:
    pipeline = parse_sql(text)
    assert pipeline == Pipeline(documents=pipeline.documents)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'a\'b'", "a'b"),
        ("'a''b'", "a'b"),
        ('"a""b"', 'a"b'),
        (r"r'\n'", r"\n"),
        (r"'\n\t\\\u00e9\101\%\_\q'", "\n\t\\éA\\%\\_q"),
        (r"'\U0001F600'", "😀"),
    ],
)
def test_string_literals_mean_what_spark_says(literal: str, value: str) -> None:
    # Each pair was read off Spark 4.2: SELECT literal.
    assert string_value(literal) == value


@pytest.mark.parametrize("value", ["", "it's", "a\\", "\n'\\'", '"', "é😀"])
def test_string_literal_gives_back_its_value(value: str) -> None:
    assert string_value(string_literal(value)) == value
