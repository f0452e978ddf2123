"""The parts of ``CREATE STREAMING TABLE`` between its name and its flow: columns, constraints and clauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.cursor import Cursor
from airflow_provider_replacewhere.flows.model import Column, Expectation, OnViolation, Schedule
from airflow_provider_replacewhere.flows.scan import Kind, scan
from airflow_provider_replacewhere.flows.settings import check_setting, check_time_zone
from airflow_provider_replacewhere.text import Document

_UNITS: dict[str, Literal["HOURS", "DAYS", "WEEKS"]] = {
    "HOUR": "HOURS",
    "HOURS": "HOURS",
    "DAY": "DAYS",
    "DAYS": "DAYS",
    "WEEK": "WEEKS",
    "WEEKS": "WEEKS",
}
_AFTER_TYPE = (
    "NOT",
    "COMMENT",
    "CONSTRAINT",
    "GENERATED",
    "DEFAULT",
    "PRIMARY",
    "FOREIGN",
    "REFERENCES",
    "CHECK",
    "MASK",
)
_INTERVAL_WORDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO")
_OTHER_CLAUSES = {
    "LOCATION": "Give the table a place by its name, as in delta.`/path`, or by the catalog's root.",
    "TRIGGER": "Let Airflow start the run; a Dag can be scheduled on the source's asset.",
    "DEFAULT": "Give single columns a collation in the column list.",
    "OPTIONS": "Write TBLPROPERTIES.",
    "WITH": "Create a view with the condition on top of the table.",
}


def column_list(cursor: Cursor) -> tuple[tuple[Column, ...], tuple[Expectation, ...]]:
    """Read ``(name [type] [NOT NULL] [COMMENT '…'], …, CONSTRAINT …)``."""
    columns: list[Column] = []
    expectations: list[Expectation] = []
    seen: set[tuple[str, str]] = set()
    cursor.expect("(")
    while True:
        constraint, start = cursor.accept("CONSTRAINT"), cursor.here
        entry = _constraint(cursor) if constraint else _column(cursor)
        if ((what := "constraint" if constraint else "column"), entry.name.lower()) in seen:
            raise cursor.error(f"There are two {what}s named {entry.name}.", hint="Remove one of them.", span=start)
        seen.add((what, entry.name.lower()))
        if isinstance(entry, Column):
            columns.append(entry)
        else:
            expectations.append(entry)
        if cursor.accept(")"):
            return tuple(columns), tuple(expectations)
        if not cursor.accept(","):
            raise cursor.expected(
                ", or )",
                hint="A column is written: name type [NOT NULL] [COMMENT '…']. It has no other properties here.",
            )


def columns_of(text: str, name: str) -> tuple[Column, ...]:
    """The columns of a schema string such as ``id INT NOT NULL, day DATE``.

    :param name: what the text is called in errors
    :raises DefinitionError: the text is no list of columns, or declares a constraint
    """
    columns, expectations = column_list(Cursor(tuple(scan(Document(name, f"({text})")))))
    if expectations:
        raise DefinitionError(
            f"The {name} declares the constraint {expectations[0].name}.", hint="Write it as a decorator: @expect."
        )
    return columns


def _column(cursor: Cursor) -> Column:
    name = cursor.identifier("a column name").value
    type_ = _type(cursor) if cursor.at_kind(Kind.WORD) and not any(map(cursor.at, _AFTER_TYPE)) else None
    nullable, comment = True, None
    while True:
        if cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("COMMENT"):
            comment = cursor.string("the column's comment")
        else:
            return Column(name, type_, nullable, comment)


def _type(cursor: Cursor) -> str:
    """A data type as text."""
    start, interval = cursor.here, cursor.at("INTERVAL")
    cursor.take()
    if cursor.at("("):
        cursor.parenthesised("the type")
    elif cursor.at("<"):
        _angle_brackets(cursor)
    while interval and cursor.accept_any(*_INTERVAL_WORDS):
        pass
    if cursor.accept("COLLATE"):
        cursor.identifier("the collation's name")
    return cursor.since(start).text


def _angle_brackets(cursor: Cursor) -> None:
    opening, depth = cursor.here, 0
    while not cursor.done:
        token = cursor.take()
        depth += token.is_("<") - token.is_(">")
        if depth == 0:
            return
    raise cursor.error("The angle bracket of the type does not close.", hint="Close it with >.", span=opening)


def _constraint(cursor: Cursor) -> Expectation:
    name = cursor.identifier("the constraint's name").value
    if not cursor.accept("EXPECT"):
        raise cursor.expected(
            "EXPECT", hint=f"Of constraints, only expectations are known: CONSTRAINT {name} EXPECT (condition)."
        )
    condition = cursor.parenthesised("the condition")
    if not condition.text:
        raise cursor.error("The expectation has no condition.", hint="Write one in the parentheses.", span=condition)
    if not cursor.accept("ON"):
        return Expectation(name, condition.text)
    cursor.expect("VIOLATION", hint="Write ON VIOLATION DROP ROW or ON VIOLATION FAIL UPDATE.")
    for violation in (OnViolation.DROP_ROW, OnViolation.FAIL_UPDATE):
        if cursor.accept(*violation.value.split()):
            return Expectation(name, condition.text, violation)
    raise cursor.expected(
        "DROP ROW or FAIL UPDATE", hint="Without ON VIOLATION, rows that break it are kept and counted."
    )


def table_clauses(cursor: Cursor) -> dict[str, Any]:
    """The clauses that come next, in any order, as fields of :class:`Table`."""
    found: dict[str, Any] = {}
    while not cursor.done:
        start = cursor.here
        clause = next((words for words in _CLAUSES if cursor.accept(*words)), None)
        if clause is None:
            _refuse_other(cursor)
            break
        field, read = _CLAUSES[clause]
        if field in found:
            raise cursor.error(
                f"{' '.join(clause)} is given twice.", hint="Give each clause once.", span=cursor.since(start)
            )
        found[field] = read(cursor)
        if found.get("partitioned_by") and found.get("clustered_by"):
            raise cursor.error(
                "A Delta table is either partitioned or clustered.",
                hint="Remove PARTITIONED BY or CLUSTER BY.",
                span=cursor.since(start),
            )
    found.pop("format", None)  # a table is Delta, whether it says so or not
    return found


def _refuse_other(cursor: Cursor) -> None:
    for word, hint in _OTHER_CLAUSES.items():
        if cursor.at(word):
            raise cursor.error(f"{word} is not supported in CREATE STREAMING TABLE.", hint=hint)


def _only_delta(cursor: Cursor) -> None:
    if not cursor.accept("DELTA"):
        raise cursor.error("A target is a Delta table.", hint="Write USING DELTA, or nothing.")


def _schedule(cursor: Cursor) -> Schedule:
    cursor.accept("REFRESH")
    if cursor.accept("CRON"):
        cron = cursor.string("the cron expression")
        return Schedule(cron=cron, time_zone=_at_time_zone(cursor))
    cursor.expect("EVERY", hint="Write SCHEDULE EVERY n HOURS|DAYS|WEEKS or SCHEDULE CRON '…' [AT TIME ZONE '…'].")
    if not (cursor.at_kind(Kind.NUMBER) and cursor.here.text.isdigit() and int(cursor.here.text)):
        raise cursor.expected("a whole number above 0", hint="For example SCHEDULE EVERY 1 DAY.")
    every = int(cursor.take().text)
    unit = cursor.accept_any(*_UNITS)
    if unit is None:
        raise cursor.expected("HOURS, DAYS or WEEKS", hint="For anything else, write SCHEDULE CRON '…'.")
    return Schedule(every=every, unit=_UNITS[unit])


def _at_time_zone(cursor: Cursor) -> str | None:
    if not cursor.accept("AT"):
        return None
    cursor.expect("TIME", "ZONE", hint="Write AT TIME ZONE '…'.")
    start = cursor.here
    zone = cursor.string("the time zone")
    check_time_zone(zone, start)
    return zone


def comment(cursor: Cursor) -> str:
    """The string behind ``COMMENT``."""
    return cursor.string("the comment")


def _partition_columns(cursor: Cursor) -> tuple[str, ...]:
    return _names(
        cursor, "PARTITIONED BY", "Delta partitions by columns: compute the value in the query and name it here."
    )


def _cluster_columns(cursor: Cursor) -> tuple[str, ...]:
    if cursor.accept("NONE"):
        return ()
    if cursor.at("AUTO"):
        raise cursor.error(
            "CLUSTER BY AUTO needs a service that picks the columns.",
            hint="Name the columns: CLUSTER BY (column, …). The predicate's columns are a good choice.",
        )
    return _names(cursor, "CLUSTER BY", "Cluster by columns of the table, not by fields or expressions.")


def _names(cursor: Cursor, clause: str, hint: str) -> tuple[str, ...]:
    cursor.expect("(", hint=f"Write {clause} (column, …).")
    names = [cursor.identifier("a column name").value]
    while cursor.accept(","):
        names.append(cursor.identifier("a column name").value)
    if not cursor.at(")"):
        raise cursor.expected(", or )", hint=hint)
    cursor.take()
    return tuple(names)


def properties(cursor: Cursor) -> dict[str, str]:
    """``(key = value, key value, …)``: keys dotted or quoted, values strings, numbers, booleans or words."""
    cursor.expect("(", hint="Write TBLPROPERTIES ('key' = 'value', …).")
    found: dict[str, str] = {}
    while True:
        start = cursor.here
        key = property_key(cursor)
        cursor.accept("=")
        value_at = cursor.here
        value = _property_value(cursor)
        if key in found:
            raise cursor.error(f"The property {key} is given twice.", hint="Give it once.", span=start)
        check_setting(key, value, value_at)
        found[key] = value
        if cursor.accept(")"):
            return found
        if not cursor.accept(","):
            raise cursor.expected(", or )", hint="Properties are written: 'key' = 'value', 'key' = 'value'.")


def property_key(cursor: Cursor) -> str:
    """A key: ``a.b``, `` `a.b` `` or ``'a.b'``."""
    if cursor.at_kind(Kind.STRING):
        return cursor.string("a key")
    return ".".join(cursor.name("a key").parts)


def _property_value(cursor: Cursor) -> str:
    if cursor.at_kind(Kind.STRING):
        return cursor.string("a value")
    sign = "-" if cursor.accept("-") else ""
    if cursor.at_kind(Kind.NUMBER) or (not sign and cursor.at_kind(Kind.WORD)):
        token = cursor.take()
        return sign + (token.text.lower() if token.is_("TRUE") or token.is_("FALSE") else token.text)
    raise cursor.expected("a value", hint="Write it as a string in single quotes.")


_CLAUSES: dict[tuple[str, ...], tuple[str, Callable[[Cursor], Any]]] = {
    ("USING",): ("format", _only_delta),
    ("SCHEDULE",): ("schedule", _schedule),
    ("COMMENT",): ("comment", comment),
    ("PARTITIONED", "BY"): ("partitioned_by", _partition_columns),
    ("CLUSTER", "BY"): ("clustered_by", _cluster_columns),
    ("TBLPROPERTIES",): ("properties", properties),
}
