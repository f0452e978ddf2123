"""The tables of a brokerage's warehouse, in the style of TPC-DI: half a year of history, then a batch every morning.

A batch brings the day's trades, cash movements and prices, some that are late, corrected prices, new customers and
accounts, and some of either that changed. All values follow from the row's number.

Most customers seldom trade, as in TPC-DI (there, once in ten weeks); one in twenty makes 95 of 100 trades. Who changes
is drawn from all, so that a change mostly reaches few days, and now and then every day. Customers and accounts have a
change data feed, as tables do of which single rows are changed and others are to follow.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.places import DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY_DAYS = 180
WINDOWS = (30, 90)
"""How many days the flows' windows have."""
FIRST_DAY = date(2025, 10, 1)

LATE_DAYS = 3
LATE_SHARE = 0.015
SYMBOLS, SECTORS, BROKERS, COUNTRIES = 5_000, 25, 500, 40
HISTORY_FILES = 60
KINDS = ("deposit", "dividend", "fee", "settlement", "withdrawal")


@dataclass(frozen=True)
class Flow:
    """One target; ``{name}`` in its query stands for a source or for another flow's target."""

    target: str
    query: str
    partitioned_by: tuple[str, ...] = ()


FLOWS = (
    Flow(
        "account_days",
        "SELECT day, account_id, count(*) AS trades, sum(quantity * price) AS turnover, sum(fee) AS fees "
        "FROM {trades} GROUP BY day, account_id",
        ("day",),
    ),
    Flow(
        "broker_days",
        "SELECT d.day, a.broker_id, count(*) AS accounts, sum(d.trades) AS trades, sum(d.fees) AS fees "
        "FROM {account_days} d JOIN {accounts} a ON a.account_id = d.account_id GROUP BY d.day, a.broker_id",
    ),
    Flow(
        "tier_days",
        "SELECT t.day, c.tier, c.country, count(*) AS trades, count(DISTINCT a.customer_id) AS customers, "
        "sum(t.quantity * t.price) AS turnover "
        "FROM {trades} t JOIN {accounts} a ON a.account_id = t.account_id "
        "JOIN {customers} c ON c.customer_id = a.customer_id GROUP BY t.day, c.tier, c.country",
    ),
    Flow(
        "symbol_days",
        "SELECT t.day, s.symbol, s.sector, min(t.price) AS low, max(t.price) AS high, sum(t.quantity) AS volume, "
        "count(DISTINCT t.account_id) AS accounts "
        "FROM {trades} t JOIN {securities} s ON s.symbol_id = t.symbol_id GROUP BY t.day, s.symbol, s.sector",
    ),
    Flow(
        "cash_days",
        "SELECT day, kind, count(DISTINCT account_id) AS accounts, sum(amount) AS amount "
        "FROM {cash} GROUP BY day, kind",
    ),
    Flow(
        "sector_days",
        "SELECT p.day, s.sector, avg(p.close) AS close, max(p.high / p.low) AS widest, sum(p.volume) AS volume "
        "FROM {prices} p JOIN {securities} s ON s.symbol_id = p.symbol_id GROUP BY p.day, s.sector",
    ),
)
SOURCES = ("trades", "cash", "prices", "securities", "accounts", "customers")


def pipeline(days: int) -> str:
    """The flows as one text, their tables by name.

    :param days: of their windows
    """
    names = {name: name for name in (*SOURCES, *(flow.target for flow in FLOWS))}
    statements = []
    for flow in FLOWS:
        layout = f"PARTITIONED BY ({', '.join(flow.partitioned_by)}) " if flow.partitioned_by else ""
        statements.append(
            f"CREATE STREAMING TABLE {flow.target} {layout}FLOW REPLACE WHERE "
            f"day >= date_sub(current_date(), {days}) BY NAME "
            f"{flow.query.format(**names)}"
        )
    return ";\n".join(statements)


def by_hand(flow: Flow, root: Path, targets: Path) -> str:
    """A flow's query over folders."""
    names = {name: f"delta.`{root / name}`" for name in SOURCES}
    return flow.query.format(**names, **{other.target: f"delta.`{targets / other.target}`" for other in FLOWS})


@dataclass(frozen=True)
class Size:
    """How large the warehouse is.

    :param trades: in the half year of history; there is half as much cash
    """

    trades: int

    @property
    def trades_per_day(self) -> int:
        return self.trades // HISTORY_DAYS

    @property
    def customers(self) -> int:
        return max(1_000, self.trades // 50)

    @property
    def accounts(self) -> int:
        return self.customers * 3 // 2


def make(spark: SparkSession, size: Size) -> Path:
    """The folder of the history as it was made, made now unless it is there."""
    folder = DATA / f"warehouse-{size.trades}"
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    history = range(HISTORY_DAYS)
    for name, frame in {
        "trades": trades(spark, size, history, size.trades_per_day, 0, HISTORY_FILES),
        "cash": cash(spark, size, history, size.trades_per_day // 2, 0, HISTORY_FILES),
        "prices": prices(spark, history, HISTORY_FILES // 10),
        "securities": spark.range(0, SYMBOLS, 1, 1).selectExpr(
            "CAST(id AS INT) AS symbol_id",
            "concat('SYM', id) AS symbol",
            f"concat('sector ', id % {SECTORS}) AS sector",
        ),
        "accounts": accounts(spark, size, 0, size.accounts, 4),
        "customers": customers(spark, 0, size.customers, 4),
    }.items():
        feed = str(name in ("accounts", "customers")).lower()
        frame.write.format("delta").option("delta.enableChangeDataFeed", feed).save(str(folder / name))
    (folder / "complete").touch()
    return folder


def trades(spark: SparkSession, size: Size, days: range | list[int], per_day: int, first: int, files: int) -> DataFrame:
    """Trades of some days, which are counted from the first day of history.

    :param first: number of the first trade
    """
    active = (
        f"IF({_below('trade_id', 1, 100)} < 95, {_below('trade_id', 2, max(1, size.accounts // 20))}, "
        f"{_below('trade_id', 2, size.accounts)})"
    )
    return _numbered(spark, "trade_id", days, per_day, first, files).selectExpr(
        "trade_id",
        "day",
        f"timestamp_seconds(unix_date(day) * 86400L + {_below('trade_id', 3, 86_400)}) AS traded_at",
        f"CAST({active} AS INT) AS account_id",
        f"CAST({_below('trade_id', 4, SYMBOLS)} AS INT) AS symbol_id",
        f"{_below('trade_id', 5, 2)} = 0 AS is_buy",
        f"CAST(1 + {_below('trade_id', 6, 1_000)} AS INT) AS quantity",
        f"CAST(1 + {_below('trade_id', 7, 50_000)} / 100 AS DECIMAL(9,2)) AS price",
        f"CAST({_below('trade_id', 8, 2_000)} / 100 AS DECIMAL(7,2)) AS fee",
    )


def cash(spark: SparkSession, size: Size, days: range | list[int], per_day: int, first: int, files: int) -> DataFrame:
    """Cash movements of some days."""
    kinds = f"array({', '.join(repr(kind) for kind in KINDS)})"
    return _numbered(spark, "cash_id", days, per_day, first, files).selectExpr(
        "cash_id",
        "day",
        f"CAST({_below('cash_id', 1, size.accounts)} AS INT) AS account_id",
        f"{kinds}[CAST({_below('cash_id', 2, len(KINDS))} AS INT)] AS kind",
        f"CAST({_below('cash_id', 3, 2_000_000)} / 100 - 10000 AS DECIMAL(12,2)) AS amount",
    )


def prices(spark: SparkSession, days: range | list[int], files: int) -> DataFrame:
    """One price of each symbol for each of some days."""
    return _numbered(spark, "price_id", days, SYMBOLS, days[0] * SYMBOLS, files).selectExpr(
        "day",
        f"CAST(price_id % {SYMBOLS} AS INT) AS symbol_id",
        f"CAST(10 + {_below('price_id', 1, 30_000)} / 100 AS DECIMAL(9,2)) AS low",
        f"CAST(310 + {_below('price_id', 2, 10_000)} / 100 AS DECIMAL(9,2)) AS close",
        f"CAST(410 + {_below('price_id', 3, 10_000)} / 100 AS DECIMAL(9,2)) AS high",
        f"{_below('price_id', 4, 1_000_000)} AS volume",
    )


def securities(spark: SparkSession) -> DataFrame:
    """All securities; none is new or changes."""
    return spark.range(0, SYMBOLS, 1, 1).selectExpr(
        "CAST(id AS INT) AS symbol_id", "concat('SYM', id) AS symbol", f"concat('sector ', id % {SECTORS}) AS sector"
    )


def customers(spark: SparkSession, first: int, end: int, files: int) -> DataFrame:
    """Customers by number."""
    return spark.range(first, end, 1, files).selectExpr(
        "CAST(id AS INT) AS customer_id",
        f"CAST(1 + {_below('id', 1, 3)} AS INT) AS tier",
        f"concat('country ', {_below('id', 2, COUNTRIES)}) AS country",
        "concat('name of ', id) AS name",
    )


def accounts(spark: SparkSession, size: Size, first: int, end: int, files: int) -> DataFrame:
    """Accounts by number; customers have one or two."""
    return spark.range(first, end, 1, files).selectExpr(
        "CAST(id AS INT) AS account_id",
        f"CAST(id % {size.customers} AS INT) AS customer_id",
        f"CAST({_below('id', 3, BROKERS)} AS INT) AS broker_id",
        "IF(id % 50 = 0, 'closed', 'active') AS status",
    )


def _numbered(
    spark: SparkSession, name: str, days: range | list[int], per_day: int, first: int, files: int
) -> DataFrame:
    index = f"CAST((id - {first}) DIV {per_day} AS INT)"
    if isinstance(days, range):
        day = f"{days.start} + {index}"
    else:
        day = f"array({', '.join(str(day) for day in days)})[{index}]"
    return spark.range(first, first + per_day * len(days), 1, files).selectExpr(
        f"id AS {name}", f"date_add(DATE'{FIRST_DAY}', {day}) AS day"
    )


def _below(number: str, salt: int, end: int) -> str:
    return f"pmod(xxhash64({number}, {salt}), {end})"


class Batches:
    """The batches of the mornings after the history.

    :param changed: how many customers, and how many accounts, change with each
    """

    def __init__(self, spark: SparkSession, root: Path, size: Size, changed: int) -> None:
        self.spark, self.root, self.size, self.changed = spark, root, size, changed
        self._random = random.Random(20260330)

    @staticmethod
    def as_of(number: int) -> datetime:
        """The morning on which a batch is loaded, counted from 0; -1 is the last of the history."""
        return datetime.combine(FIRST_DAY + timedelta(days=HISTORY_DAYS + number + 1), time(), UTC)

    def load(self, number: int) -> None:
        """Bring the sources of one batch in."""
        spark, size, today = self.spark, self.size, HISTORY_DAYS + number
        first = 10**12 + number * 10**10
        late = [today - back for back in range(LATE_DAYS, 0, -1)]
        for name, make_rows, per_day in (
            ("trades", trades, size.trades_per_day),
            ("cash", cash, size.trades_per_day // 2),
        ):
            few = max(1, int(per_day * LATE_SHARE / LATE_DAYS))
            rows = make_rows(spark, size, [today], per_day, first, 1)
            # One file, as a loader that takes what has come since yesterday writes it.
            self._append(name, rows.union(make_rows(spark, size, late, few, first + 10**9, 1)).coalesce(1))
        self._append("prices", prices(spark, [today], 1))
        self._append("customers", customers(spark, *self._new(size.customers, number, 30), 1))
        self._append("accounts", accounts(spark, size, *self._new(size.accounts, number, 40), 1))
        corrected = FIRST_DAY + timedelta(days=today - 1 - self._random.randrange(5))
        self._update("prices", "close = close + 0.01", f"day = DATE'{corrected}' AND symbol_id % 500 = {number}")
        self._update("customers", "tier = 1 + tier % 3", self._some("customer_id", size.customers))
        self._update("accounts", f"broker_id = (broker_id + 1) % {BROKERS}", self._some("account_id", size.accounts))

    def _new(self, before: int, number: int, count: int) -> tuple[int, int]:
        return before + number * count, before + (number + 1) * count

    def _some(self, column: str, end: int) -> str:
        drawn = self._random.sample(range(end), self.changed)
        return f"{column} IN ({', '.join(str(value) for value in drawn)})"

    def _append(self, table: str, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(str(self.root / table))

    def _update(self, table: str, assignment: str, where: str) -> None:
        self.spark.sql(f"UPDATE delta.`{self.root / table}` SET {assignment} WHERE {where}")
