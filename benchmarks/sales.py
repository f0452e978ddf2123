"""The tables of the benchmarks: 90 days of sales, the products that were sold, and what changes in them later.

All values follow from the row's number, so two machines make the same tables. The tables as they were made are kept
below ``build/bench/data``; a benchmark works on a copy whose data files are hard links, which costs no time or space.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.places import DATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = 90
WINDOW_DAYS = 30
FIRST_DAY = date(2026, 1, 1)
AS_OF = datetime(2026, 4, 1, tzinfo=UTC)
WINDOW_START = AS_OF.date() - timedelta(days=WINDOW_DAYS)
WINDOW = f"day >= DATE'{WINDOW_START}'"
PREDICATE = f"day >= date_sub(current_date(), {WINDOW_DAYS})"

LONG_SELLERS = 1_000
PRODUCTS = 10_000
CATEGORIES = 200
FILES = 40
"""Of the table that is not partitioned: a file holds two to three days, as after compaction."""

LAYOUTS = ("ordered", "partitioned")


@dataclass(frozen=True)
class Shape:
    """A target: its name, its query over the tables that ``{sales}`` and ``{products}`` stand for, and its layout."""

    target: str
    query: str
    partitioned_by: tuple[str, ...] = ()

    def flow(self) -> str:
        """The pipeline's text: the tables by name, in the directory catalog."""
        query = self.query.format(sales="sales", products="products")
        layout = f"PARTITIONED BY ({', '.join(self.partitioned_by)}) " if self.partitioned_by else ""
        return f"CREATE STREAMING TABLE {self.target} {layout}FLOW REPLACE WHERE {PREDICATE} BY NAME {query}"

    def by_hand(self, root: Path) -> str:
        """The same query over the tables' folders."""
        return self.query.format(sales=f"delta.`{root / 'sales'}`", products=f"delta.`{root / 'products'}`")


SHAPES = {
    # Counting distinct customers is what keeps such a table from being kept up by adding numbers up.
    "totals": Shape(
        "daily_totals",
        "SELECT s.day, p.category, count(*) AS sales, sum(s.quantity * s.price) AS revenue, "
        "count(DISTINCT s.customer_id) AS customers "
        "FROM {sales} s JOIN {products} p ON p.product_id = s.product_id GROUP BY s.day, p.category",
    ),
    "rows": Shape(
        "sales_by_category",
        "SELECT s.sale_id, s.day, s.sold_at, p.category, s.shop_id, s.customer_id, s.quantity * s.price AS amount "
        "FROM {sales} s JOIN {products} p ON p.product_id = s.product_id",
        ("day",),
    ),
}


def make(spark: SparkSession, rows: int, layout: str) -> Path:
    """The folder of the tables as they were made, made now unless they are there.

    :param layout: ``ordered`` (not partitioned, files in the order of days) or ``partitioned`` (by day)
    """
    folder = DATA / f"sales-{rows}-{layout}"
    if (folder / "complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    per_day = rows // DAYS
    sales = spark.range(0, per_day * DAYS, 1, DAYS if layout == "partitioned" else FILES).selectExpr(
        "id AS sale_id", f"date_add(DATE'{FIRST_DAY}', CAST(id DIV {per_day} AS INT)) AS day"
    )
    writer = _with_facts(sales).write.format("delta")
    if layout == "partitioned":
        writer = writer.partitionBy("day")
    writer.save(str(folder / "sales"))
    spark.range(0, PRODUCTS, 1, 1).selectExpr(
        "CAST(id AS INT) AS product_id", "concat('product ', id) AS name", f"concat('c', id % {CATEGORIES}) AS category"
    ).write.format("delta").save(str(folder / "products"))
    (folder / "complete").touch()
    return folder


def _with_facts(sales: DataFrame) -> DataFrame:
    """Sales with all their columns. Of ten, nine are of a product that sells all the time; the tenth is of one that
    sells on three days only."""
    day = f"datediff(day, DATE'{FIRST_DAY}')"

    def below(salt: int, end: int) -> str:
        return f"pmod(xxhash64(sale_id, {salt}), {end})"

    seasonal = f"{LONG_SELLERS} + ({day} * 100 + {below(2, 300)}) % {PRODUCTS - LONG_SELLERS}"
    lasting = f"{below(2, LONG_SELLERS)}"
    return sales.selectExpr(
        "sale_id",
        "day",
        f"timestamp_seconds(unix_date(day) * 86400L + {below(0, 86400)}) AS sold_at",
        f"CAST(IF({below(1, 10)} > 0, {lasting}, {seasonal}) AS INT) AS product_id",
        f"CAST({below(3, 500)} AS INT) AS shop_id",
        f"CAST({below(4, 1000000)} AS INT) AS customer_id",
        f"CAST(1 + {below(5, 5)} AS INT) AS quantity",
        f"CAST({below(6, 20000)} / 100 AS DECIMAL(9,2)) AS price",
    )


def working_copy(made: Path, into: Path) -> Path:
    """A copy of tables that a benchmark may change: data files are links, as Delta never changes one."""
    shutil.rmtree(into, ignore_errors=True)

    def link(source: str, target: str) -> None:
        if "_delta_log" in source:
            shutil.copyfile(source, target)
        else:
            os.link(source, target)

    shutil.copytree(made, into, copy_function=link)
    return into


class Changes:
    """What happens to the sources between two refreshes; days and products are drawn with a fixed seed.

    :param root: folder of the tables
    :param rows: how many sales there were at first
    """

    def __init__(self, spark: SparkSession, root: Path, rows: int, layout: str) -> None:
        self.spark, self.root, self.layout = spark, root, layout
        self.per_day = rows // DAYS
        self._random = random.Random(20260401)
        self._next_id = 10**12

    def nothing(self) -> str:
        return "nothing"

    def late_sales(self, days: int) -> str:
        """Append, in one commit, a thousandth of a day's sales to each of some days of the window."""
        chosen = sorted(self._random.sample(range(WINDOW_DAYS), days))
        self._append(WINDOW_START, chosen, max(1, self.per_day // 1_000))
        return f"late sales for {len(chosen)} days"

    def sales_everywhere(self) -> str:
        """Append, in one commit, a hundredth of each day's sales to all 90 days."""
        self._append(FIRST_DAY, list(range(DAYS)), max(1, self.per_day // 100))
        return "one in a hundred sales is new, on all days"

    def seasonal_product(self) -> str:
        """Give a product that was sold on three days another category."""
        offset = self._random.randrange(WINDOW_DAYS - 3)
        index = (WINDOW_START - FIRST_DAY).days + offset
        return self._new_category(LONG_SELLERS + (index * 100 + 200 + self._random.randrange(100)))

    def lasting_product(self) -> str:
        """Give a product that is sold every day another category."""
        return self._new_category(self._random.randrange(LONG_SELLERS))

    def _append(self, first: date, days: list[int], per_day: int) -> None:
        end = self._next_id + per_day * len(days)
        wanted = f"array({', '.join(str(day) for day in days)})"
        late = self.spark.range(self._next_id, end, 1, 1).selectExpr(
            "id AS sale_id",
            f"date_add(DATE'{first}', {wanted}[CAST((id - {self._next_id}) DIV {per_day} AS INT)]) AS day",
        )
        self._next_id = end
        writer = _with_facts(late).write.format("delta").mode("append")
        if self.layout == "partitioned":
            writer = writer.partitionBy("day")
        writer.save(str(self.root / "sales"))

    def _new_category(self, product: int) -> str:
        # Two categories further on, so that the same product drawn twice changes twice.
        self.spark.sql(
            f"UPDATE delta.`{self.root / 'products'}` SET category = "
            f"concat('c', (CAST(substring(category, 2) AS INT) + 2) % {CATEGORIES}) WHERE product_id = {product}"
        )
        return f"product {product} has another category"
