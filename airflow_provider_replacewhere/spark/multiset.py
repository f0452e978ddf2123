"""Two sets of rows compared as multisets: by value, to the last bit."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from airflow_provider_replacewhere.flows.model import TableName

SURPLUS = "__surplus"
"""How much oftener a row is among the one than among the other."""


def surplus(more: DataFrame, less: DataFrame, *, are_small: bool = False) -> DataFrame:
    """Each row of either once, with how much oftener it is in ``more``; where that is 0, the two have it alike.

    :param are_small: whether one task is to compare them all, which spares the exchange
    :raises ValueError: a column's values cannot be told apart by Spark's own comparison
    """
    signed = more.selectExpr("*", f"1 AS {SURPLUS}").unionAll(less.selectExpr("*", f"-1 AS {SURPLUS}"))
    return counted(signed.coalesce(1) if are_small else signed)


def counted(signed: DataFrame) -> DataFrame:
    """Each row once, with the sum of its signs.

    :param signed: rows with a column :data:`SURPLUS`
    :raises ValueError: as :func:`surplus`
    """
    fields = [field for field in signed.schema if field.name != SURPLUS]
    if blurred := [field.name for field in fields if _is_blurred(field.dataType)]:
        raise ValueError(f"the values of {', '.join(blurred)} cannot be compared")
    # Spark groups -0.0 with 0.0; their texts differ, and a text is read back as the very number.
    keys = [_as(f, "STRING" if _is_fraction(f.dataType) else None) for f in fields]
    back = [_as(f, f.dataType.simpleString() if _is_fraction(f.dataType) else None) for f in fields]
    grouped = signed.selectExpr(*keys, SURPLUS).groupBy(*(F.col(_quoted(f.name)) for f in fields))
    return grouped.agg(F.sum(SURPLUS).alias(SURPLUS)).selectExpr(*back, SURPLUS)


def quoted(columns: Iterable[str]) -> list[str]:
    """Columns as SQL."""
    return [_quoted(name) for name in columns]


def _quoted(name: str) -> str:
    return TableName((name,)).to_sql()


def _as(field: StructField, data_type: str | None) -> str:
    name = _quoted(field.name)
    return name if data_type is None else f"CAST({name} AS {data_type}) AS {name}"


def _is_fraction(data_type: DataType) -> bool:
    return isinstance(data_type, FloatType | DoubleType)


def _is_blurred(data_type: DataType) -> bool:
    """Whether values that differ may count as equal, or none can be compared."""
    match data_type:
        case MapType() | VariantType():
            return True
        case ArrayType():
            return _is_fraction(data_type.elementType) or _is_blurred(data_type.elementType)
        case StructType():
            return any(_is_fraction(f.dataType) or _is_blurred(f.dataType) for f in data_type)
        case StringType():
            return "collate" in data_type.simpleString()
    return False
