"""Whether the query's columns fit the target's: by name, never by position."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from airflow_provider_replacewhere.errors import SchemaError
from airflow_provider_replacewhere.flows.model import Column, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Delta keeps these in a field's metadata; a column that has one is filled by the table when the query leaves it out.
FILLED_BY_TABLE = ("delta.generationExpression", "delta.identity.start", "CURRENT_DEFAULT")


@dataclass(frozen=True)
class Fit:
    """How to give the query's columns to the target.

    :param select: Spark SQL expressions over the query's columns, in the order in which they are written
    :param added: columns that the target does not have yet, those inside a struct with its name in front
    :param redefines: whether the table's columns are defined anew, which only a full refresh may do
    """

    select: tuple[str, ...]
    added: tuple[str, ...]
    redefines: bool = False


def schema_of(metadata: Any) -> StructType:
    """A table's schema in Delta's own form: a frame's does not tell which columns the table generates.

    :param metadata: Delta's description of the table
    """
    return StructType.fromJson(json.loads(metadata.schema().json()))


def declared_schema(session: SparkSession, query: StructType, declared: Sequence[Column], target: str) -> StructType:
    """The schema that a new target is created with: the declared columns, else the query's, NULLs allowed.

    :raises SchemaError: a declared column is not among the query's, or one of the query's has no type
    """
    require_unique(query, target)
    if not declared:
        void = [field.name for field in query if _is_void(field.dataType)]
        if void:
            raise SchemaError(
                f"The query gives only NULL for {_names(void)}, so that {target} would have a column without a type.",
                hint=f"Give it one: CAST(NULL AS STRING) AS {void[0]}.",
            )
        return StructType([StructField(field.name, field.dataType, True) for field in query])
    given = {field.name.lower(): field for field in query}
    fields = []
    for column in declared:
        field = given.get(column.name.lower())
        if field is None and column.type is None:
            raise SchemaError(
                f"{target} declares the column {column.name}, which the query does not give.",
                hint=f"The query gives {_names(query.fieldNames())}.",
            )
        data_type = field.dataType if column.type is None and field else _parse_type(session, str(column.type), column)
        metadata = {"comment": column.comment} if column.comment else {}
        fields.append(StructField(column.name, data_type, column.nullable, metadata))
    return StructType(fields)


def fit(session: SparkSession, query: StructType, target: StructType, name: str, *, allow_missing: bool) -> Fit:
    """How the query's columns go into the target's.

    A column that only the query has is added to the target. A column that only the target has would be filled with NULL
    by Delta without a word, so it is refused unless the table fills it itself or ``allow_missing`` is set.

    :raises SchemaError: a column is missing, or its type has changed so that values could be lost
    """
    require_unique(query, name)
    given = {field.name.lower(): field for field in query}
    known = {field.name.lower() for field in target}
    missing = [f.name for f in target if f.name.lower() not in given and not _is_filled_by_table(f)]
    if missing and not allow_missing:
        raise SchemaError(
            f"The query no longer gives {_names(missing)}, which {name} has.",
            hint="Add the column to the query (CAST(NULL AS type) AS name where it has no value any more), or set "
            "allow_missing_columns=True to have NULL written for it.",
        )
    select = []
    for field in target:
        source = given.get(field.name.lower())
        if source is None:
            continue
        wanted = _merged(session, source.dataType, field.dataType, f"{name}.{field.name}")
        column = TableName((source.name,)).to_sql()
        cast = column if source.dataType == wanted else f"CAST({column} AS {sql_type(session, wanted)})"
        select.append(f"{cast} AS {TableName((field.name,)).to_sql()}")
    added = [field for field in query if field.name.lower() not in known]
    for field in added:
        if _is_void(field.dataType):
            raise SchemaError(
                f"The query gives only NULL for the new column {field.name}, which so has no type.",
                hint=f"Give it one: CAST(NULL AS STRING) AS {field.name}.",
            )
        select.append(TableName((field.name,)).to_sql())
    inner = [
        f"{field.name}{path}"
        for field in target
        if field.name.lower() in given
        for path in _new_fields(given[field.name.lower()].dataType, field.dataType)
    ]
    return Fit(tuple(select), (*inner, *(field.name for field in added)))


def same_columns(wanted: StructType, target: StructType) -> bool:
    """Whether a table has the wanted columns, or fills itself those that it has beside them; it may lack some."""
    types = {field.name.lower(): field.dataType.simpleString() for field in wanted}
    return all(
        _is_filled_by_table(field)
        if field.name.lower() not in types
        else types[field.name.lower()] == field.dataType.simpleString()
        for field in target
    )


def _new_fields(source: DataType, target: DataType) -> list[str]:
    """Paths, from the column's name on, of the fields of structs that only the query has."""
    if isinstance(source, StructType) and isinstance(target, StructType):
        known = {field.name.lower(): field for field in target}
        return [
            f".{field.name}{path}"
            for field in source
            for path in (
                _new_fields(field.dataType, known[field.name.lower()].dataType) if field.name.lower() in known else [""]
            )
        ]
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return [f"[]{path}" for path in _new_fields(source.elementType, target.elementType)]
    if isinstance(source, MapType) and isinstance(target, MapType):
        return [f"[]{path}" for path in _new_fields(source.valueType, target.valueType)]
    return []


def _is_void(data_type: DataType) -> bool:
    """Whether a type is that of NULL alone, or holds it, so that no table can have it."""
    if isinstance(data_type, StructType):
        return any(_is_void(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return _is_void(data_type.elementType)
    if isinstance(data_type, MapType):
        return _is_void(data_type.keyType) or _is_void(data_type.valueType)
    return isinstance(data_type, NullType)


def _merged(session: SparkSession, source: DataType, target: DataType, where: str) -> DataType:
    """The type to write: the target's, with fields of structs that only the query has.

    :raises SchemaError: a value of the query's type may not fit the target's
    """
    if isinstance(source, StructType) and isinstance(target, StructType):
        given = {f.name.lower(): f for f in source}
        known = {f.name.lower(): f for f in target}
        missing = [f.name for f in target if f.name.lower() not in given]
        if missing:
            raise SchemaError(
                f"The query no longer gives {_names(missing)} inside {where}.",
                hint="Keep the field in the query's struct; CAST(NULL AS type) where it has no value any more.",
            )
        return StructType(
            [
                StructField(
                    known[f.name.lower()].name if f.name.lower() in known else f.name,
                    _merged(session, f.dataType, known[f.name.lower()].dataType, f"{where}.{f.name}")
                    if f.name.lower() in known
                    else f.dataType,
                )
                for f in source
            ]
        )
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return ArrayType(_merged(session, source.elementType, target.elementType, f"{where}[]"))
    if isinstance(source, MapType) and isinstance(target, MapType):
        return MapType(
            _merged(session, source.keyType, target.keyType, f"{where} (key)"),
            _merged(session, source.valueType, target.valueType, f"{where} (value)"),
        )
    if source == target or _can_up_cast(session, source, target):
        return target
    raise SchemaError(
        f"The query gives {source.simpleString()} for {where}, which is {target.simpleString()}: values could be lost.",
        hint=f"Write CAST(… AS {target.simpleString().upper()}) in the query; or change the table's type with a full "
        "refresh (allow_full_refresh=True), which rewrites the whole table.",
    )


def sql_type(session: SparkSession, data_type: DataType) -> str:
    """A type as Spark SQL text, names of nested fields quoted."""
    return str(session._jsparkSession.parseDataType(data_type.json()).sql())


def _can_up_cast(session: SparkSession, source: DataType, target: DataType) -> bool:
    jvm = session._jvm
    assert jvm is not None
    parse = session._jsparkSession.parseDataType
    return bool(
        jvm.org.apache.spark.sql.catalyst.expressions.Cast.canUpCast(parse(source.json()), parse(target.json()))
    )


def _parse_type(session: SparkSession, text: str, column: Column) -> DataType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import _parse_datatype_json_string

    try:
        parsed = session._jsparkSession.sessionState().sqlParser().parseDataType(text)
    except PySparkException as error:
        raise SchemaError(
            f"The column {column.name} is declared with the type {text}, which Spark does not know.",
            hint="See Spark's list of SQL data types; a type with a comma goes in parentheses, as in DECIMAL(10, 2).",
        ) from error
    return _parse_datatype_json_string(parsed.json())


def _is_filled_by_table(field: StructField) -> bool:
    return any(key in field.metadata for key in FILLED_BY_TABLE)


def require_unique(query: StructType, target: str) -> None:
    """:raises SchemaError: two columns of the query have one name"""
    names = [name.lower() for name in query.fieldNames()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(
            f"The query for {target} gives {_names(twice)} more than once.",
            hint="Columns go into the target by name: give each an alias of its own.",
        )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)
