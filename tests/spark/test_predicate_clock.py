"""What we make of constant expressions is what Spark makes of them, at the same instant and in the same zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.predicates.casts import Now
from airflow_provider_replacewhere.predicates.clock import Clock, fold_constants
from airflow_provider_replacewhere.predicates.nodes import Literal
from airflow_provider_replacewhere.predicates.parse import parse
from airflow_provider_replacewhere.predicates.render import to_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Around both changes of the clocks in each zone (Lord Howe's are half an hour), leap days, and ends of years.
INSTANTS = {
    "UTC": ["2024-02-29T12:00:00", "2026-01-01T00:00:00", "1969-12-31T23:59:59.999999"],
    "America/New_York": [
        "2026-03-08T06:59:59.999999",
        "2026-03-08T07:30:00",
        "2026-11-01T05:30:00.123456",
        "2026-11-01T06:30:00",
        "2025-01-01T04:59:59",
        "1883-11-18T12:00:00",
    ],
    "Europe/Berlin": ["2026-03-29T00:30:00", "2026-03-29T01:00:00", "2026-10-25T00:15:00", "2026-10-25T01:15:00"],
    "Australia/Lord_Howe": ["2026-04-04T14:45:00", "2026-04-04T15:15:00", "2026-10-03T15:29:00", "2026-10-03T15:31:00"],
    "Asia/Kolkata": ["2024-12-31T18:29:59"],
    "+05:45": ["2026-06-30T18:15:00"],
    "America/Sao_Paulo": ["2018-11-04T02:30:00", "2018-02-18T02:30:00"],
}

EXPRESSIONS = """
current_date()
current_date
curdate()
current_timestamp()
current_timestamp
now()
localtimestamp()
current_timezone()
unix_timestamp()
date_add(current_date(), -7)
date_sub(current_date(), 7)
date_sub(now(), 1)
date_add(localtimestamp(), 30)
date_add('2026-02-27', 3)
dateadd(current_date(), 1)
dateadd(DAY, 1, current_date())
dateadd(MONTH, -1, now())
dateadd(WEEK, 2, localtimestamp())
dateadd(HOUR, 23, now())
dateadd(HOUR, -3, now())
dateadd(MINUTE, -90, now())
timestampadd(QUARTER, 1, now())
timestampadd(YEAR, -1, now())
timestampadd(MICROSECOND, -1, now())
timestampadd(SECOND, 3661, now())
date_add(DAY, -3, localtimestamp())
current_date() - 7
current_date() + 1S
7 + current_date()
current_date() - INTERVAL 7 DAYS
current_date() - INTERVAL '7' DAY
current_date() - INTERVAL 1 WEEK
current_date() + INTERVAL 1 MONTH
current_date() - INTERVAL '1-2' YEAR TO MONTH
current_date() - INTERVAL -1 YEAR
current_date() - INTERVAL 3 HOURS
current_date() - INTERVAL '1 2:03:04.5' DAY TO SECOND
INTERVAL 1 DAY + current_date()
now() - INTERVAL 1 DAY
now() + INTERVAL 1 DAY
now() - INTERVAL 24 HOURS
now() - INTERVAL 25 HOURS
now() + INTERVAL 25 HOURS
now() - INTERVAL 1 DAY 2 HOURS
now() + INTERVAL 90 MINUTES
now() - INTERVAL '0.000001' SECOND
now() - INTERVAL 1 MONTH
now() + INTERVAL 1 MONTH
now() - INTERVAL 1 YEAR
now() - INTERVAL '36:30' HOUR TO MINUTE
now() + INTERVAL '1 day 2 hours'
now() - INTERVAL 5 MILLISECONDS
localtimestamp() - INTERVAL 1 DAY
localtimestamp() + INTERVAL 36 HOURS
localtimestamp() - INTERVAL 1 MONTH
add_months(current_date(), -1)
add_months(current_date(), 12)
add_months(date'2024-02-29', 12)
add_months(date'2026-01-31', 1)
add_months(now(), 1)
last_day(current_date())
last_day(now())
next_day(current_date(), 'MON')
next_day(now(), 'Sunday')
trunc(current_date(), 'MM')
trunc(now(), 'year')
trunc(current_date(), 'QUARTER')
trunc(current_date(), 'week')
date_trunc('MONTH', current_date())
date_trunc('month', now())
date_trunc('YEAR', now())
date_trunc('QUARTER', now())
date_trunc('WEEK', now())
date_trunc('DAY', now())
date_trunc('dd', now())
date_trunc('HOUR', now())
date_trunc('MINUTE', now())
date_trunc('SECOND', now())
date_trunc('MILLISECOND', now())
date_trunc('DAY', localtimestamp())
date_trunc('HOUR', '2026-05-05 05:05:05')
date_trunc('DAY', now()) - INTERVAL 1 DAY
date_sub(date_trunc('MONTH', now()), 1)
CAST(date_trunc('MONTH', now()) AS DATE)
make_date(2026, 2, 28)
make_date(year(current_date()), month(current_date()), 1)
make_date(year(now()) - 1, 12, 31)
make_timestamp(2026, 3, 8, 2, 30, 0)
make_timestamp(2026, 11, 1, 1, 30, 0)
make_timestamp_ntz(2026, 3, 8, 2, 30, 0)
make_timestamp_ltz(2026, 3, 29, 2, 30, 0)
to_date('2026-01-05')
to_date(now())
to_timestamp('2026-03-08 02:30:00')
to_timestamp('2026-03-10T08:00:00.5+02:00')
to_timestamp(current_date())
date('2026-1-5')
timestamp('2026-11-01 01:30')
year(current_date())
quarter(now())
month(current_date())
day(now())
dayofmonth(now())
dayofweek(current_date())
weekday(current_date())
dayofyear(now())
weekofyear(current_date())
hour(now())
minute(now())
second(now())
hour(current_date())
extract(YEAR FROM now())
extract(dow FROM current_date())
date_part('MONTH', now())
datediff(current_date(), date'2020-02-29')
date_diff(now(), date'2020-02-29')
CAST(now() AS DATE)
CAST(current_date() AS TIMESTAMP)
CAST(current_date() AS TIMESTAMP_NTZ)
CAST(now() AS TIMESTAMP_NTZ)
CAST(localtimestamp() AS TIMESTAMP)
CAST(localtimestamp() AS DATE)
CAST(current_date() AS STRING)
CAST(now() AS STRING)
CAST(localtimestamp() AS STRING)
now()::date
DATE '2026-02-03'
DATE '2026-02'
DATE '2026-02-03T10:00:00'
TIMESTAMP '2026-03-08 02:30:00'
TIMESTAMP '2026-11-01 01:30:00'
TIMESTAMP '2026-11-01T01:30:00.123456789'
TIMESTAMP '2026-11-01T06:30:00Z'
TIMESTAMP '2026-11-01 06:30:00 UTC'
TIMESTAMP '2026-11-01 06:30:00 Asia/Tokyo'
TIMESTAMP '2026-11-01 06:30:00-05:00'
TIMESTAMP '2026-11-01 06:30:00+1'
TIMESTAMP '2026-11-01'
TIMESTAMP '2026'
TIMESTAMP_LTZ '2026-11-01 01:30:00'
TIMESTAMP_NTZ '2026-03-08 02:30:00'
TIMESTAMP '0001-01-01 12:00:00'
DATE '0001-01-01'
DATE '9999-12-31'
1 + 2 * 3
-(5 - 7)
- 5 % 3
7 % -4
2147483647 + 1L
-2147483648
5Y + 6S
'a' || 'b' || 1
concat('year=', year(current_date()))
concat(current_date(), 'x')
CAST('12' AS INT)
CAST(300 AS BIGINT)
CAST(7 AS STRING)
current_date() > DATE '2020-01-01'
now() <= TIMESTAMP '2020-01-01 00:00:00'
NOT (1 = 2) AND 3 >= 3
NULL IS NULL
CAST(NULL AS DATE)
date_add(date_add(current_date(), -1), -dayofmonth(current_date()) + 1)
date_sub(next_day(current_date(), 'MO'), 7)
last_day(add_months(current_date(), -1))
date_trunc('HOUR', now() - INTERVAL 90 MINUTES) + INTERVAL 30 MINUTES
"""

EXPRESSION_LIST = [line for line in EXPRESSIONS.strip().splitlines() if line]
CASES = [(zone, instant) for zone, instants in INSTANTS.items() for instant in instants]


@pytest.fixture
def session_zone(spark: SparkSession):
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda name: spark.conf.set("spark.sql.session.timeZone", name)
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(("zone", "instant"), CASES)
def test_constants_fold_to_what_spark_computes(spark: SparkSession, session_zone, zone: str, instant: str) -> None:
    session_zone(zone)
    now = Clock(datetime.fromisoformat(instant).replace(tzinfo=UTC), zone).now
    folded = {text: fold_constants(parse(text), now) for text in EXPRESSION_LIST}
    not_literal = [text for text, value in folded.items() if not isinstance(value, Literal)]
    assert not_literal == []
    columns = []
    for number, (text, value) in enumerate(folded.items()):
        theirs, ours = f"({_at(text, now)})", to_sql(value)
        columns += [f"{theirs} <=> {ours} AS same{number}", f"CAST({theirs} AS STRING) AS theirs{number}"]
        columns += [f"typeof({theirs}) AS type{number}", f"typeof({ours}) AS ourtype{number}"]
    row = spark.sql(f"SELECT {', '.join(columns)}").first()
    assert row is not None
    different = [
        f"{text}: we say {to_sql(value)}, Spark says {row[f'type{n}']} {row[f'theirs{n}']}"
        for n, (text, value) in enumerate(folded.items())
        if not row[f"same{n}"] or row[f"type{n}"] != row[f"ourtype{n}"]
    ]
    assert different == []


def _at(text: str, now: Now) -> str:
    """The expression with the clock's functions as casts of one literal: what Spark is asked."""
    literal = to_sql(Literal("timestamp", now.as_of))
    for name, sql in (
        ("current_date()", f"CAST({literal} AS DATE)"),
        ("current_date", f"CAST({literal} AS DATE)"),
        ("curdate()", f"CAST({literal} AS DATE)"),
        ("localtimestamp()", f"CAST({literal} AS TIMESTAMP_NTZ)"),
        ("unix_timestamp()", f"unix_timestamp({literal})"),
        ("current_timestamp()", literal),
        ("current_timestamp", literal),
        ("now()", literal),
    ):
        text = text.replace(name, sql)
    return text
