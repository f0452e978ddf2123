"""The definition hash: equal where the answer cannot differ, different wherever it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.spark.definition import MOST_INLINE_ROWS, definition_hash, unwatched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = {
    "layout and comments": (
        "SELECT d, sum(a) AS x FROM t GROUP BY d",
        "select d, -- days\n  SUM(a) as x\nfrom t group by d",
    ),
    "aliases of tables": ("SELECT t.d, t.a FROM t", "SELECT q.d, q.a FROM t AS q"),
    "hints": ("SELECT t.d FROM t JOIN u ON t.a = u.k", "SELECT /*+ BROADCAST(u) */ t.d FROM t JOIN u ON t.a = u.k"),
    "a CTE": ("WITH c AS (SELECT d, a FROM t) SELECT * FROM c", "WITH c AS (SELECT d, a FROM t) SELECT * FROM c"),
    "a CTE read twice": (
        "WITH c AS (SELECT d, a FROM t) SELECT * FROM c UNION ALL SELECT * FROM c",
        "with c as (select d, a from t) select * from c union all select * from c",
    ),
    "a scalar subquery": (
        "SELECT d, (SELECT max(k) FROM u) AS m FROM t",
        "select d, (select max(k) from u) as m from t",
    ),
    "a lambda": (
        "SELECT d, transform(array(a), x -> x + b) y FROM t",
        "SELECT d, transform(array(a), z -> z + b) y FROM t",
    ),
    "a window": (
        "SELECT d, sum(a) OVER (PARTITION BY d ORDER BY b) s FROM t",
        "select d, sum(a) over (partition by d order by b) s from t",
    ),
    "a struct": ("SELECT d, struct(a, b) s FROM t", "select d, struct(a, b) s from t"),
}
DIFFERENT = {
    "where a list of strings is cut": (
        "SELECT d FROM t WHERE c IN ('c', 'a,b')",
        "SELECT d FROM t WHERE c IN ('c', 'a', 'b')",
    ),
    "NULL and a text": ("SELECT d FROM t WHERE c <=> 'null'", "SELECT d FROM t WHERE c <=> NULL"),
    "where arguments are cut": (
        "SELECT concat_ws('-', c, 'b, c') x FROM t",
        "SELECT concat_ws('-', c, 'b', 'c') x FROM t",
    ),
    "a row of VALUES": (
        "SELECT t.d FROM t JOIN (VALUES (1, 2)) AS r(k, w) ON t.a = r.k",
        "SELECT t.d FROM t JOIN (VALUES (1, 3)) AS r(k, w) ON t.a = r.k",
    ),
    "the column that is summed": ("SELECT d, sum(a) AS x FROM t GROUP BY d", "SELECT d, sum(b) AS x FROM t GROUP BY d"),
    "the column that is filtered": ("SELECT d, a FROM t WHERE a > 1", "SELECT d, a FROM t WHERE b > 1"),
    "a constant": ("SELECT d, a FROM t WHERE a > 1", "SELECT d, a FROM t WHERE a > 2"),
    "the columns of a join": ("SELECT t.d FROM t JOIN u ON t.a = u.k", "SELECT t.d FROM t JOIN u ON t.b = u.k"),
    "the kind of join": ("SELECT t.d FROM t JOIN u ON t.a = u.k", "SELECT t.d FROM t LEFT JOIN u ON t.a = u.k"),
    "columns that change places": ("SELECT a AS x, b AS y FROM t", "SELECT b AS x, a AS y FROM t"),
    "the columns of a CTE": (
        "WITH c AS (SELECT a, b FROM t) SELECT a AS x FROM c",
        "WITH c AS (SELECT a, b FROM t) SELECT b AS x FROM c",
    ),
    "which CTE is read": (
        "WITH c AS (SELECT a FROM t), e AS (SELECT a FROM t WHERE b > 0) SELECT c.a FROM c JOIN e ON c.a = e.a",
        "WITH c AS (SELECT a FROM t), e AS (SELECT a FROM t WHERE b > 0) SELECT c.a FROM c JOIN c AS e ON c.a = e.a",
    ),
    "the table": ("SELECT a FROM t", "SELECT a FROM same_columns"),
    "the order of a window": (
        "SELECT d, sum(a) OVER (PARTITION BY d ORDER BY a) s FROM t",
        "SELECT d, sum(a) OVER (PARTITION BY d ORDER BY b) s FROM t",
    ),
    "what a lambda captures": (
        "SELECT transform(array(a), x -> x + a) y FROM t",
        "SELECT transform(array(a), x -> x + b) y FROM t",
    ),
    "what a subquery gives": (
        "SELECT d, (SELECT max(k) FROM u) AS m FROM t",
        "SELECT d, (SELECT max(w) FROM u) AS m FROM t",
    ),
    "the type of a cast": ("SELECT CAST(a AS BIGINT) AS x FROM t", "SELECT CAST(a AS DECIMAL(20, 0)) AS x FROM t"),
    "the name of a column": ("SELECT a AS x FROM t", "SELECT a AS y FROM t"),
}


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Delta tables, as temporary views: their columns a and b, k and w are of one type."""
    root = tmp_path_factory.mktemp("definition")
    shapes = {
        "t": "d date, a int, b int, c string",
        "same_columns": "d date, a int, b int, c string",
        "u": "k int, w int",
    }
    for name, columns in shapes.items():
        spark.createDataFrame([], columns).write.format("delta").save(str(root / name))
        spark.read.format("delta").load(str(root / name)).createOrReplaceTempView(name)


def hashed(spark: SparkSession, query: str) -> str:
    return definition_hash(spark.sql(query), {}, (), ())


@pytest.mark.parametrize("queries", SAME.values(), ids=SAME)
def test_what_cannot_change_the_answer_does_not_count(spark: SparkSession, queries: tuple[str, str]) -> None:
    assert hashed(spark, queries[0]) == hashed(spark, queries[1])


@pytest.mark.parametrize("queries", DIFFERENT.values(), ids=DIFFERENT)
def test_what_can_change_the_answer_counts(spark: SparkSession, queries: tuple[str, str]) -> None:
    assert hashed(spark, queries[0]) != hashed(spark, queries[1])


def test_a_function_of_a_jar_is_never_the_same_definition(spark: SparkSession) -> None:
    from pyspark.ml.functions import array_to_vector

    # One of Spark's own that is written in Scala, as a user's would be.
    frame = spark.sql("SELECT array(CAST(a AS DOUBLE)) AS x FROM t").select(array_to_vector("x"))
    assert definition_hash(frame, {}, (), ()) != definition_hash(frame, {}, (), ())
    assert unwatched(frame) == ("calls code of a jar",)


def test_what_a_query_depends_on_besides_its_text_is_told_in_words(spark: SparkSession) -> None:
    from pyspark.sql.functions import udf

    assert unwatched(spark.sql("SELECT d, upper(c) FROM t WHERE a IN (SELECT k FROM u)")) == ()
    python = udf(lambda a: a, "int")
    assert unwatched(spark.table("t").select(python("a"))) == ("calls Python functions",)
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION own(x INT) RETURNS INT RETURN x + 1")
    nested = spark.sql("SELECT d FROM t WHERE a IN (SELECT own(k) FROM u) AND b > (SELECT max(own(k)) FROM u)")
    assert unwatched(nested) == ("calls the function own",)
    many = spark.sql("SELECT * FROM VALUES " + ", ".join(f"({n})" for n in range(MOST_INLINE_ROWS + 1)))
    assert unwatched(many) == (f"holds more than {MOST_INLINE_ROWS} rows itself",)


def test_settings_that_change_the_answer_count(spark: SparkSession) -> None:
    frame = spark.sql("SELECT d FROM t")
    before = definition_hash(frame, {}, (), ())
    assert definition_hash(frame, {"spark.sql.legacy.timeParserPolicy": "LEGACY"}, (), ()) != before
    assert definition_hash(frame, {"spark.sql.shuffle.partitions": "7"}, (), ()) == before


def test_the_rows_of_a_frame_made_in_memory_count(spark: SparkSession) -> None:
    def of(number: int) -> str:
        frame = spark.sql(f"SELECT * FROM VALUES (1, {number}) AS r(k, w)")
        return definition_hash(frame, {}, (), ())

    assert of(1) == of(1)
    assert of(1) != of(2)
