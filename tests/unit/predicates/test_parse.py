from __future__ import annotations

import pytest

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.parse import check, columns_of, parse
from airflow_provider_replacewhere.predicates.render import to_sql
from airflow_provider_replacewhere.text import Document

COLUMNS = {
    "d": "date",
    "id": "int",
    "Amount": "decimal(10,2)",
    "name": "string",
    "flag": "boolean",
    "st": "struct<a:int,b:struct<c:date>>",
}


def refusal(sql: str) -> str:
    with pytest.raises(PredicateError) as caught:
        check(parse(sql), COLUMNS)
    return str(caught.value)


def underlined(sql: str) -> str:
    """The part of a one-line predicate that the error marks."""
    with pytest.raises(PredicateError) as caught:
        check(parse(sql), COLUMNS)
    assert caught.value.span is not None
    return caught.value.span.text


@pytest.mark.parametrize(
    ("sql", "place", "says"),
    [
        ("", "", "is empty"),
        ("  -- nothing but a comment", "-- nothing but a comment", "is empty"),
        ("d >=", ">=", "ends too early"),
        ("d >= 'x", "'", "never closed"),
        ("d >= /* open", "/*", "never closed"),
        ("d = 1 2", "2", "not expected"),
        ("d > 1 ORDER BY d", "ORDER", "not expected"),
        ("d > 1; DROP TABLE t", ";", "has no place"),
        ("d > 1 AS x", "AS", "not expected"),
        ("d IN (SELECT 1)", "SELECT", "subquery"),
        ("d = (select max(d) from t)", "select", "subquery"),
        ("EXISTS (SELECT 1)", "SELECT", "subquery"),
        ("d IN ()", ")", "empty"),
        ("max(d) = DATE '2026-01-01'", "max", "aggregate function"),
        ("count(*) > 1", "*", "no place"),
        ("sum(DISTINCT id) > 1", "DISTINCT", "aggregate function"),
        ("row_number() OVER (ORDER BY d) = 1", "OVER", "window or aggregate"),
        ("rank() = 1", "rank", "single row"),
        ("explode(id) = 1", "explode", "single row"),
        ("* = 1", "*", "no place"),
        ("st.* = 1", "st", "no place"),
        ("d >= :start", ":", "named parameter"),
        ("d >= ?", "?", "parameter marker"),
        ("d >= ${start}", "$", "variable"),
        ("d >= '{{ ds }}' AND {{ x }}", "{", "template"),
        ("d > /*+ hint */ 1", "/*+", "hint"),
        ("curent_date() = d", "curent_date", "Did you mean current_date?"),
        ("main.f(d) = 1", "(", "not expected"),
        ("reflect('java.lang.System', 'exit', 0) = d", "reflect", "runs code"),
        ("java_method('a', 'b') = d", "java_method", "runs code"),
        ("current_user() = name", "current_user", "who runs the flow"),
        ("current_user = name", "current_user", "who runs the flow"),
        ("input_file_name() = name", "input_file_name", "differs"),
        ("exists(st, x -> x > 1)", "->", "not expected"),
        ("CAST(d AS ARRAY<INT>) = d", "ARRAY", "cast to ARRAY"),
        ("CAST(name AS VARCHAR(3)) = 'x'", "VARCHAR", "cast to VARCHAR"),
        ("d > TIME '10:00:00'", "TIME '10:00:00'", "type TIME"),
        ("d > INTERVAL 1 MONTH 2 DAYS", "1 MONTH 2 DAYS", "months as well as days"),
        ("d > INTERVAL 1 FORTNIGHT", "1 FORTNIGHT", "no unit"),
        ("id = 99L AND id = 300Y", "300Y", "TINYINT"),
        ("name COLLATE UNICODE = 'x'", "COLLATE", "not supported"),
        ("name LIKE 'a' ESCAPE 'ab'", "'ab'", "one character"),
        ("trim(BOTH 'x' FROM name) = ''", "BOTH", "Use btrim"),
        ("substr(name FROM 2) = ''", "FROM", "form with commas"),
        ("id BETWEEN SYMMETRIC 1 AND 2", "SYMMETRIC", "not Spark SQL"),
        ("id IS 1", "1", "NULL, TRUE, FALSE"),
        ("1a = id", "1a", "no number"),
        ("d = $$x$$", "$", "variable"),
    ],
)
def test_what_is_no_predicate_is_refused_with_its_place(sql: str, place: str, says: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(sql)
    assert says in str(caught.value)
    assert caught.value.span is not None
    assert caught.value.span.text == place


@pytest.mark.parametrize(
    ("sql", "place", "says"),
    [
        ("dd > DATE '2026-01-01'", "dd", "Did you mean d?"),
        ("amuont > 1", "amuont", "Did you mean Amount?"),
        ("zzz > 1", "zzz", "Its columns are d, id, Amount"),
        ("r.d > DATE '2026-01-01'", "r.d", "Write d."),
        ("st.x = 1", "st.x", "Its fields are a, b"),
        ("st.b.x = 1", "st.b.x", "x is no field"),
        ("id.x = 1", "id.x", "id is a INT"),
        ("true", "true", "names no column"),
        ("1 = 1", "1 = 1", "names no column"),
        ("current_date() > DATE '2020-01-01'", "current_date() > DATE '2020-01-01'", "names no column"),
        ("d", "d", "this is a DATE"),
        ("id + 1", "id + 1", "this is a NUMBER"),
        ("flag AND id", "id", "this is a INT"),
        ("year(d)", "year(d)", "this is a INT"),
        ("d = d", "d = d", "never FALSE"),
        ("d IS NULL OR d IS NOT NULL", "d IS NULL OR d IS NOT NULL", "never FALSE"),
        ("id > 1 OR true", "id > 1 OR true", "never FALSE"),
        ("id > 1 OR NOT id > 1", "id > 1 OR NOT id > 1", "never FALSE"),
        ("id <=> ID", "id <=> ID", "never FALSE"),
        ("id > 1 AND false", "id > 1 AND false", "never TRUE"),
        ("id = NULL", "id = NULL", "never TRUE"),
        ("id <> id", "id <> id", "never TRUE"),
        ("id > 1 AND NOT id > 1", "id > 1 AND NOT id > 1", "never TRUE"),
        ("d >= 'today'", "'today'", "another time with every run"),
        ("d BETWEEN 'yesterday' AND 'now '", "'yesterday'", "another time with every run"),
    ],
)
def test_what_does_not_fit_the_target_is_refused_with_its_place(sql: str, place: str, says: str) -> None:
    assert says in refusal(sql)
    assert underlined(sql) == place


@pytest.mark.parametrize(
    "sql",
    [
        "D >= DATE '2026-01-01'",
        "AMOUNT = 1 AND `Id` IN (1, 2)",
        "st.b.c < current_date()",
        "ST.A = 1",
        "flag",
        "NOT flag",
        "name = 'today'",
        "id > NULL OR id = 1",
        "coalesce(flag, false)",
        "CASE WHEN id > 1 THEN flag END",
        "d = d AND id > 3",
    ],
)
def test_what_fits_the_target_passes(sql: str) -> None:
    check(parse(sql), COLUMNS)


def test_errors_name_file_line_and_column() -> None:
    document = Document("flow.sql", "SELECT 1;\nWHERE  d >= 'x' + foo(d)")
    start = document.text.index("d >=")
    with pytest.raises(PredicateError) as caught:
        parse(document.span.slice(start, len(document.text)))
    assert str(caught.value).splitlines() == [
        "flow.sql:2:19: foo is no function that a predicate may call.",
        "  2 | WHERE  d >= 'x' + foo(d)",
        "    |                   ^^^",
        "Did you mean floor?",
    ]


def test_columns_are_named_once_in_order_of_appearance() -> None:
    assert columns_of(parse("st.a > 1 AND id = 2 OR ID = 3 AND `two words` = d")) == ("st", "id", "two words", "d")


def test_comments_change_nothing() -> None:
    plain = "d >= DATE '2026-01-01' AND id = 1"
    commented = "d >= /* OR true */ DATE '2026-01-01' -- OR 1 = 1\n AND /* /* */ OR id = 2 */ id = 1 -- x"
    assert parse(commented).node == parse(plain).node


@pytest.mark.parametrize(
    ("sql", "rendered"),
    [
        ("a < 2 IN (true)", "((`a` < 2) IN (TRUE))"),
        ("a ^ 1 | 4 & b = 5", "(((`a` ^ 1) | (4 & `b`)) = 5)"),
        ("a = b IS NULL", "((`a` = `b`) IS NULL)"),
        ("NOT a = b AND c", "((NOT (`a` = `b`)) AND `c`)"),
        ("a OR b AND c OR d", "(`a` OR (`b` AND `c`) OR `d`)"),
        ("a + b || c * d = 1", "(((`a` + `b`) || (`c` * `d`)) = 1)"),
        ("a << 1 + 2 = b", "((`a` << (1 + 2)) = `b`)"),
        ("-a::int = - 1", "((-CAST(`a` AS INT)) = -1)"),
        ("a BETWEEN 1 AND 2 AND b", "(((`a` >= 1) AND (`a` <= 2)) AND `b`)"),
        ("a NOT BETWEEN 1 AND 2", "((`a` < 1) OR (`a` > 2))"),
        ("NOT a BETWEEN 1 AND 2", "((`a` < 1) OR (`a` > 2))"),
        ("a IS NOT DISTINCT FROM b", "(`a` <=> `b`)"),
        ("a IS DISTINCT FROM b", "(NOT (`a` <=> `b`))"),
        ("CASE a WHEN 1 THEN b ELSE c END", "CASE WHEN (`a` = 1) THEN `b` ELSE `c` END"),
        ("dateadd(DAY, 1, a) = b", "(timestampadd(DAY, 1, `a`) = `b`)"),
        ("extract(year FROM a) = 1", "(date_part('YEAR', `a`) = 1)"),
        ("a.b.`c.d``e` = 1", "(`a`.`b`.`c.d``e` = 1)"),
        ("date = 1 AND interval > 2 AND timestamp < 3", "((`date` = 1) AND (`interval` > 2) AND (`timestamp` < 3))"),
        ("a LIKE 'x' ESCAPE '/'", "(`a` LIKE 'x' ESCAPE '/')"),
        ("a NOT LIKE ANY ('x', 'y')", "(NOT (`a` LIKE ALL ('x', 'y')))"),
        ("a = 'it''s' 'x'", "(`a` = 'it\\'sx')"),
        ('a = "say \\"x\\""', "(`a` = 'say \"x\"')"),
        ("a = r'\\n'", "(`a` = '\\\\n')"),
        ("a = '\\n\\t\\0\\u00e9\\101\\%\\q'", "(`a` = '\\n\\t\\0éA\\\\%q')"),
        ("a = x'1f'", "(`a` = X'1F')"),
        ("a = x'F'", "(`a` = X'0F')"),
        (
            "a IN (1, 1L, 1S, 1Y, 1.50, 1e1, 1.5D, .5, 5., 2.5BD)",
            "(`a` IN (1, 1L, 1S, 1Y, 1.50BD, 10.0D, 1.5D, 0.5BD, 5BD, 2.5BD))",
        ),
        ("a > 2147483648 OR a > 9223372036854775808", "((`a` > 2147483648L) OR (`a` > 9223372036854775808BD))"),
        ("a > -2147483648", "(`a` > -2147483648)"),
        ("a > INTERVAL '36:30' HOUR TO MINUTE", "(`a` > INTERVAL '1 12:30:00.000000' DAY TO SECOND)"),
        ("a > INTERVAL -1 YEAR", "(`a` > INTERVAL '-12' MONTH)"),
    ],
)
def test_text_is_grouped_and_rendered_as_spark_reads_it(sql: str, rendered: str) -> None:
    assert to_sql(parse(sql).node) == rendered


@pytest.mark.parametrize("depth", [2000])
def test_deep_nesting_is_refused_not_a_crash(depth: int) -> None:
    for sql in ("(" * depth + "a = 1" + ")" * depth, "NOT " * depth + "a", "a" + " + 1" * depth + " = 1"):
        with pytest.raises(PredicateError, match=r"nested too deeply|in a row"):
            parse(sql)


def test_many_alternatives_are_no_depth() -> None:
    assert len(parse(" OR ".join(f"a = {n}" for n in range(5000))).node.children) == 5000
