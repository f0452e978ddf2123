from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.clock import Clock, Frozen, NeedsSparkError, freeze
from airflow_provider_replacewhere.predicates.parse import parse

NEW_YORK = Clock(datetime(2026, 3, 10, 3, 30, tzinfo=UTC), "America/New_York")


def frozen(sql: str, clock: Clock = NEW_YORK) -> str:
    return freeze(parse(sql), clock).sql


@pytest.mark.parametrize(
    ("sql", "window"),
    [
        ("d = current_date", "(`d` = DATE '2026-03-09')"),
        (
            "d >= date_sub(current_date(), 7) AND d < current_date()",
            "((`d` >= DATE '2026-03-02') AND (`d` < DATE '2026-03-09'))",
        ),
        ("ts >= now()", "(`ts` >= TIMESTAMP '2026-03-10T03:30:00Z')"),
        ("ts >= now() - INTERVAL 2 DAYS", "(`ts` >= TIMESTAMP '2026-03-08T04:30:00Z')"),
        ("w >= localtimestamp()", "(`w` >= TIMESTAMP_NTZ '2026-03-09 23:30:00')"),
        (
            "d BETWEEN trunc(current_date(), 'MM') AND last_day(current_date())",
            "((`d` >= DATE '2026-03-01') AND (`d` <= DATE '2026-03-31'))",
        ),
        ("d - 7 > current_date()", "((`d` - 7) > DATE '2026-03-09')"),
        ("d > make_date(year(current_date()) - 1, 12, 31)", "(`d` > DATE '2025-12-31')"),
        (
            "d = DATE 'yesterday' OR ts < TIMESTAMP 'today'",
            "((`d` = DATE '2026-03-08') OR (`ts` < TIMESTAMP '2026-03-09T04:00:00Z'))",
        ),
        ("id = 1 AND current_date() > DATE '2020-01-01'", "(`id` = 1)"),
        ("id = 1 OR current_date() < DATE '2020-01-01'", "(`id` = 1)"),
        ("id = 1 AND (x = 2 OR NOT current_date() > DATE '2020-01-01')", "((`id` = 1) AND (`x` = 2))"),
        ("s = concat('y', year(current_date()))", "(`s` = 'y2026')"),
    ],
)
def test_time_functions_see_the_runs_instant_in_the_flows_zone(sql: str, window: str) -> None:
    assert frozen(sql) == window


def test_the_same_clock_gives_the_same_window() -> None:
    sql = "d >= date_sub(current_date(), 7) AND ts < current_timestamp()"
    assert freeze(parse(sql), NEW_YORK) == freeze(parse(sql), NEW_YORK)


def test_a_frozen_window_freezes_to_itself() -> None:
    sql = frozen(
        "d >= date_sub(current_date(), 7) AND (x > 1.5e0 OR s LIKE 'a%') AND NOT d NOT BETWEEN '2026-01-01' AND now()"
    )
    assert frozen(sql, Clock(datetime(2000, 1, 1, tzinfo=UTC), "Asia/Tokyo")) == sql


@pytest.mark.parametrize(
    ("sql", "place", "says"),
    [
        ("d > DATE '2026-02-30'", "DATE '2026-02-30'", "no date"),
        ("d > make_date(2026, 13, 1)", "make_date(2026, 13, 1)", "no date"),
        ("d > to_date('soon')", "to_date('soon')", "no date"),
        ("ts > TIMESTAMP 'soon'", "TIMESTAMP 'soon'", "no timestamp"),
        ("ts > TIMESTAMP '2026-01-01 25:00:00'", "TIMESTAMP '2026-01-01 25:00:00'", "no timestamp"),
        ("d > date_add(current_date(), 2147483647)", "date_add(current_date(), 2147483647)", "years 1 to 9999"),
        ("d > add_months(current_date(), -999999)", "add_months(current_date(), -999999)", "years 1 to 9999"),
        ("id > 2147483647 + 1", "2147483647 + 1", "does not fit into INT"),
        ("id > 1 % 0", "1 % 0", "division by zero"),
        ("d > trunc(current_date(), 'DAY')", "trunc(current_date(), 'DAY')", "no unit"),
        ("d > next_day(current_date(), 'XYZ')", "next_day(current_date(), 'XYZ')", "no day of the week"),
        ("d > current_date(1)", "current_date(1)", "takes no argument"),
    ],
)
def test_a_part_without_a_value_is_an_error_at_its_place(sql: str, place: str, says: str) -> None:
    with pytest.raises(PredicateError) as caught:
        frozen(sql)
    assert says in str(caught.value)
    assert caught.value.span is not None
    assert caught.value.span.text == place


@pytest.mark.parametrize(
    "sql", ["id = 1 OR current_date() > DATE '2020-01-01'", "id = 1 AND current_date() < DATE '2020-01-01'"]
)
def test_a_window_that_the_clock_makes_constant_is_refused(sql: str) -> None:
    with pytest.raises(PredicateError, match=r"never (TRUE|FALSE)"):
        frozen(sql)


@pytest.mark.parametrize("sql", ["rand(id) < 0.5", "shuffle(array(id)) = x", "uniform(0, id) > 1"])
def test_a_value_that_differs_from_row_to_row_is_refused(sql: str) -> None:
    with pytest.raises(PredicateError, match="another value for each row"):
        freeze(parse(sql), NEW_YORK, evaluate=lambda parts: ["1"] * len(parts))


def test_what_only_spark_knows_is_asked_in_one_call_with_the_clock_already_in_it() -> None:
    asked: list[Sequence[str]] = []

    def evaluate(parts: Sequence[str]) -> Sequence[str]:
        asked.append(parts)
        return ["DATE '2026-03-03'", "7.50BD"]

    result = freeze(
        parse("d > to_date(date_format(current_date(), 'yyyy'), 'yyyy') AND sqrt(n) > sqrt(56.25)"), NEW_YORK, evaluate
    )
    assert asked == [("to_date(date_format(DATE '2026-03-09', 'yyyy'), 'yyyy')", "sqrt(56.25BD)")]
    assert result == Frozen("((`d` > DATE '2026-03-03') AND (sqrt(`n`) > 7.50BD))", ("d", "n"))


def test_without_spark_such_a_part_is_told_apart_from_a_wrong_one() -> None:
    with pytest.raises(NeedsSparkError) as caught:
        frozen("n > sqrt(4)")
    assert caught.value.expressions == ("sqrt(4)",)


def test_what_is_not_deterministic_is_evaluated_once_and_recorded() -> None:
    values = iter(["0.25D", "0.75D"])
    result = freeze(
        parse("x > rand() AND y < rand() AND d < current_date()"), NEW_YORK, lambda parts: [next(values) for _ in parts]
    )
    assert result.sql == "((`x` > 0.25D) AND (`y` < 0.75D) AND (`d` < DATE '2026-03-09'))"
    assert result.evaluated == {"rand()": "0.25D", "rand() (2)": "0.75D"}
    assert not result.deterministic


@pytest.mark.parametrize(
    ("answer", "literal"),
    [
        ("CAST('0.25' AS DOUBLE)", "0.25D"),
        ("CAST('1E-7' AS DOUBLE)", "1e-07D"),
        ("CAST('NaN' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"),
        ("CAST('1.5' AS DECIMAL(10,2))", "1.50BD"),
        ("CAST('12' AS BIGINT)", "12L"),
        ("CAST('0.1' AS FLOAT)", "CAST('0.1' AS FLOAT)"),
        ("CAST(NULL AS DOUBLE)", "CAST(NULL AS DOUBLE)"),
        ("TIMESTAMP_NTZ '2026-01-01 10:00:00'", "TIMESTAMP_NTZ '2026-01-01 10:00:00'"),
    ],
)
def test_an_answer_may_be_any_typed_literal(answer: str, literal: str) -> None:
    assert (
        freeze(parse("n > sqrt(4) OR m = 1"), NEW_YORK, lambda parts: [answer]).sql
        == f"((`n` > {literal}) OR (`m` = 1))"
    )


@pytest.mark.parametrize("answer", ["id", "1 +", "sqrt(2)", "1; DROP TABLE t"])
def test_an_answer_that_is_no_literal_is_refused(answer: str) -> None:
    with pytest.raises(PredicateError):
        freeze(parse("n > sqrt(4)"), NEW_YORK, lambda parts: [answer])


def test_a_clock_needs_an_instant_and_a_zone() -> None:
    with pytest.raises(PredicateError, match="names no time zone"):
        Clock(datetime(2026, 1, 1), "UTC")  # noqa: DTZ001
    with pytest.raises(PredicateError, match="Mars/Base"):
        Clock(datetime(2026, 1, 1, tzinfo=UTC), "Mars/Base")
