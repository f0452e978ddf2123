"""A rendered predicate selects the rows that the user's own text selects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.predicates.clock import Clock, freeze
from airflow_provider_replacewhere.predicates.parse import check, parse
from airflow_provider_replacewhere.predicates.render import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "id": "int",
    "n": "bigint",
    "m": "smallint",
    "x": "double",
    "f": "float",
    "p": "decimal(10,2)",
    "s": "string",
    "b": "boolean",
    "d": "date",
    "ts": "timestamp",
    "w": "timestamp_ntz",
    "st": "struct<a:int,b:struct<c:string>>",
    "arr": "array<int>",
    "mp": "map<string,int>",
    "bin": "binary",
    "two words": "int",
    "a.b": "int",
    "tick`s": "int",
    "Select": "int",
}

ROWS = r"""
(1, 10L, 1S, 1.5D, 1.5F, 1.50BD, 'abc', true,
 DATE '2026-01-01', TIMESTAMP '2026-11-01T05:30:00Z', TIMESTAMP_NTZ '2026-11-01 01:30:00',
 named_struct('a', 1, 'b', named_struct('c', 'x')), array(1, 2), map('k', 1), X'1F', 1, 1, 1, 1),
(2, 20L, 2S, CAST('NaN' AS DOUBLE), 0.1F, 2.00BD, 'a_b%', false,
 DATE '2026-01-31', TIMESTAMP '2026-11-01T06:30:00Z', TIMESTAMP_NTZ '2026-03-08 02:30:00',
 named_struct('a', 2, 'b', named_struct('c', 'y')), array(3), map('k', 2), X'', 2, 2, 2, 2),
(3, -5L, -3S, -0.0D, CAST('Infinity' AS FLOAT), -0.01BD, 'it\'s "q" \\ \n\t', true,
 DATE '2024-02-29', TIMESTAMP '1969-12-31T23:59:59.999999Z', TIMESTAMP_NTZ '2024-02-29 23:59:59.999999',
 named_struct('a', null, 'b', null), array(9), map('x', 0), X'00FF', 3, 3, 3, 3),
(4, 9223372036854775807L, 32767S, 1e300D, -2F, 99999999.99BD, 'Grüße 日本 😀', null,
 DATE '9999-12-31', TIMESTAMP '9999-12-31T23:59:59Z', TIMESTAMP_NTZ '9999-12-31 23:59:59',
 null, null, null, null, 4, 4, 4, 4),
(5, null, null, null, null, null, null, null,
 null, null, null,
 null, array(null), map('z', null), null, null, null, null, null),
(6, 0L, 0S, 0D, 0F, 0.00BD, '', false,
 DATE '2026-03-10', TIMESTAMP '2026-03-10T12:00:00Z', TIMESTAMP_NTZ '2026-03-10 12:00:00',
 named_struct('a', 6, 'b', named_struct('c', null)), array(6), map('k', 6), X'27', 6, 6, 6, 6),
(7, 7L, 7S, CAST('-Infinity' AS DOUBLE), CAST('NaN' AS FLOAT), 7.77BD, 'ABC', true,
 DATE '2026-03-09', TIMESTAMP '2026-03-10T03:59:59Z', TIMESTAMP_NTZ '2026-03-10 03:59:59',
 named_struct('a', 7, 'b', named_struct('c', 'a''b')), array(7), map('k', 7), X'07', 7, 7, 7, 7)
"""

PREDICATES = r"""
id = 1
id == 2
1 < id
id <> 3
id != 3
id <=> n
n <=> NULL
NOT n <=> NULL
n IS NULL
n IS NOT NULL
b
NOT b
!b
b = true
b IS TRUE
b IS NOT TRUE
b IS FALSE
b IS NOT FALSE
b IS UNKNOWN
b IS NOT UNKNOWN
n IS DISTINCT FROM 10
n IS NOT DISTINCT FROM 10
id IN (1, 2, NULL)
id NOT IN (1, 2)
id NOT IN (1, NULL)
NOT id IN (1, 2)
id BETWEEN 2 AND 4
id NOT BETWEEN 2 AND 4
NOT id BETWEEN 2 AND 4
n BETWEEN 5 AND id * 10
id = 1 OR id = 2 AND n > 100
(id = 1 OR id = 2) AND n > 15
NOT id = 1 AND n > 0
NOT (id = 1 AND n > 0)
id < 3 IN (true)
id = 1 IS NULL
n > 5 IS NULL
n > 5 IS NOT NULL
id = n BETWEEN false AND true
NOT b = true
id ^ 1 | 4 & 3 = 5
id & 1 = 1
id | 1 = id
~id = -2
id << 1 = 4
id >> 1 >= 2
id + 1 || '0' = '20'
-id = -1
- -id = 1
+id = 1
id - -1 = 2
-id + 3 > 0
2 - id - 1 = 0
id * 2 + 1 = 3
id % 2 = 0
id DIV 2 = 1
id / 2 = 0.5
p = 1.5
p >= 2.00BD
p < 0
p > -0.01
x = 'NaN'
x > 1.0
x >= 0D
x = -0.0D
x <= 1e300
f = 0.1F
f > 1.5
f < -1F
m = 1S
n = 9223372036854775807L
n > 2147483647
n < 9223372036854775808
s = 'abc'
s = "abc"
s = 'a' 'bc'
s = 'it\'s "q" \\ \n\t'
s = "it's \"q\" \\ \n\t"
s = r'abc'
s LIKE r'a\_b%'
s = 'Gr\u00fc\u00dfe \u65e5\u672c \U0001F600'
s = 'Grüße 日本 😀'
s = '\141\142c'
s = ''
s <> ''
s > 'a'
s >= 'Gr'
s < 'a_c'
s LIKE 'a%'
s LIKE 'a\_b%'
s LIKE 'a!_b!%' ESCAPE '!'
s NOT LIKE 'a%'
s LIKE '%b_'
s ILIKE 'ABC'
s RLIKE '^a.c$'
s REGEXP '\\W'
s NOT RLIKE 'a'
s LIKE ANY ('a%', 'A%')
s LIKE ALL ('a%', '%c')
s NOT LIKE ANY ('a%', 'A%')
s NOT LIKE ALL ('a%', 'A%')
startswith(s, 'a_b')
contains(s, 'b')
s IN ('abc', 'ABC', '')
lower(s) = 'abc'
upper(s) IN ('ABC')
s || 'x' = 'abcx'
concat(s, '-', id) = 'abc-1'
length(s) > 3
substring(s, 1, 2) = 'ab'
coalesce(s, 'none') = 'none'
nvl(n, 0) = 0
if(id > 3, b, NOT b)
CASE WHEN id > 3 THEN b ELSE NOT b END
CASE id WHEN 1 THEN true WHEN 2 THEN false END
CASE WHEN n > 5 THEN 1 ELSE 2 END = 1
nullif(id, 1) IS NULL
greatest(id, n) = 10
isnull(n)
isnotnull(n)
isnan(x)
abs(n) = 5
round(p, 0) = 2
ceil(p) = 2
hash(id) > 0
md5(s) = 'x' OR id = 1
d = DATE '2026-01-01'
d = '2026-01-01'
d >= '2026-01'
d < DATE'2026-01-31' + 1
d > current_date() - 30
d - 7 < DATE '2026-01-01'
d + INTERVAL 1 MONTH > DATE '2026-02-27'
d - INTERVAL 1 MONTH = DATE '2025-12-31'
date_add(d, 1) = DATE '2026-01-02'
date_sub(d, id) <= DATE '2025-12-31'
datediff(d, DATE '2026-01-01') BETWEEN 0 AND 30
datediff(DAY, DATE '2026-01-01', d) = 30
year(d) = 2026
year(d) = 2026 AND month(d) = 1
extract(MONTH FROM d) = 1
trunc(d, 'MM') = DATE '2026-01-01'
date_trunc('month', d) = TIMESTAMP '2026-01-01 00:00:00'
date_trunc('HOUR', ts) >= TIMESTAMP '2026-11-01 01:00:00'
last_day(d) = d
d BETWEEN DATE '2026-01-01' AND DATE '2026-01-31'
d BETWEEN add_months(current_date(), -2) AND current_date()
d IN (DATE '2026-01-01', DATE '2024-02-29')
date_format(d, 'yyyyMM') = '202601'
CAST(d AS STRING) LIKE '2026%'
CAST(ts AS DATE) = DATE '2026-11-01'
ts::date = '2026-11-01'
date(ts) = DATE '2026-03-09'
ts >= TIMESTAMP '2026-11-01 01:00:00' AND ts < TIMESTAMP '2026-11-01 02:00:00'
ts >= TIMESTAMP '2026-11-01T06:00:00Z' AND ts < TIMESTAMP '2026-11-01T07:00:00Z'
ts = '2026-11-01T06:30:00Z'
ts < '2026-03-10'
ts > DATE '2026-03-09'
ts < current_timestamp() - INTERVAL 6 HOURS
ts > now() - INTERVAL 1 DAY
hour(ts) = 1
ts + INTERVAL 1 DAY > TIMESTAMP '2026-11-02 02:00:00'
timestampadd(HOUR, 1, ts) > TIMESTAMP '2026-11-01 02:00:00'
w = TIMESTAMP_NTZ '2026-03-08 02:30:00'
w >= '2026-11-01 01:00:00'
w < DATE '2026-01-01'
CAST(w AS DATE) = DATE '2026-03-10'
unix_date(d) = 20454
mod(id, 2) = 0
pmod(n, 3) = 1
try_cast(s AS INT) IS NULL
CAST(id AS STRING) = '1'
CAST(p AS DECIMAL(10, 1)) = 1.5
CAST(p AS INT) = 1
int(p) = 1
string(id) = '2'
st.a = 1
st.b.c = 'a\'b'
ST.B.C IS NULL
st IS NULL
`st`.`a` > 1
(st.a, id) = (1, 1)
(id, n) IN ((1, 10L), (2, 20L))
arr[0] = 1
mp['k'] = 2
array_contains(arr, 3)
size(arr) = 1
element_at(mp, 'k') = 7
bin = X'1F'
bin > X'07'
bin = X'7'
`two words` = 1
`a.b` = 2
`tick``s` = 3
`select` = 4
ID = 1 AND `Two Words` = 1
id = 1 -- OR id = 2
id = 1 /* OR id = 2 /* nested */ */ OR id = 3
  id
   = 1
id > 1 AND (current_date() > DATE '2020-01-01')
id > 1 OR (current_date() < DATE '2020-01-01')
id > CAST(NULL AS INT) OR id = 1
id > NULL OR id = 1
id = 1 OR id = 2 OR id = 3 OR id = 4
try_to_date(s, 'yyyy') IS NULL OR id = 1
interval 1 day + d = DATE '2026-01-02'
"""


def _predicates() -> list[str]:
    lines: list[str] = []
    for line in PREDICATES.strip("\n").splitlines():
        if line.startswith("   "):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    return lines


PREDICATE_LIST = _predicates()


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    named = enumerate(COLUMNS.items(), 1)
    casts = ", ".join(f"CAST(col{n} AS {type_}) AS {quoted(name)}" for n, (name, type_) in named)
    return spark.sql(f"SELECT {casts} FROM (VALUES {ROWS})").cache()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_rendered_text_selects_what_the_users_text_selects(spark: SparkSession, rows: DataFrame, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        clock = Clock(datetime(2026, 3, 10, 12, tzinfo=UTC), zone)
        different = []
        names, expressions = [], []
        for number, text in enumerate(PREDICATE_LIST):
            parsed = parse(text)
            check(parsed, COLUMNS)
            frozen = freeze(parsed, clock, evaluate=lambda parts: pytest.fail(f"asked Spark for {parts}"))
            theirs = _at(text)
            names.append((text, frozen.sql))
            expressions += [f"({theirs}\n) AS t{number}", f"{frozen.sql} AS o{number}"]
        for row in rows.selectExpr("id AS _id", *expressions).collect():
            for number, (text, ours) in enumerate(names):
                if row[f"t{number}"] != row[f"o{number}"]:
                    different.append((row["_id"], text, ours, row[f"t{number}"], row[f"o{number}"]))
        assert different == []
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def _at(text: str) -> str:
    instant = "TIMESTAMP '2026-03-10T12:00:00Z'"
    for name in ("current_timestamp()", "now()"):
        text = text.replace(name, instant)
    return text.replace("current_date()", f"CAST({instant} AS DATE)")
