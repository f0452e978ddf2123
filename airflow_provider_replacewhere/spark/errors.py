"""Spark's and Delta's errors in the flow's terms.

Delta wraps its errors several times, and gives one error class to quite different faults (a row outside the window, a
CHECK constraint, a string that is too long for its VARCHAR), so the whole chain of causes is looked at.
"""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_provider_replacewhere.errors import (
    ConcurrentWriteError,
    ReplaceWhereError,
    TerminalError,
    TransientError,
    WriteError,
)

# Conflict errors reach Python as plain Py4JJavaError, without a condition: the class name tells them apart.
CONFLICTS = (
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
)
# Faults of the cluster or the network rather than of the flow.
PASSING = ("java.net.", "java.io.InterruptedIOException", "org.apache.spark.rpc.", "ExecutorLostFailure")
# Conditions that a retry may not meet again.
PASSING_CONDITIONS = ("INTERNAL_ERROR", "FAILED_READ_FILE", "_LEGACY_ERROR", "DELTA_CONCURRENT")


def causes(error: BaseException) -> list[str]:
    """``class: message`` of a Java error and of all that caused it, outermost first."""
    origin: Any = getattr(error, "_origin", error)
    # By type: a Java object answers to any attribute.
    java = origin.java_exception if isinstance(origin, Py4JJavaError) else None if origin is error else origin
    chain: list[str] = []
    while java is not None and len(chain) < 20:
        chain.append(f"{java.getClass().getName()}: {java.getMessage()}")
        java = java.getCause()
    return chain or [f"{type(error).__name__}: {error}"]


def in_short(error: BaseException) -> str:
    """What an error of Spark says, in one line: the first, or of a failed Python function what Python said."""
    lines = [line for line in str(error).strip().split("\n") if line.strip()]
    python = [line for line in lines if re.match(r"\w+(Error|Exception)\b", line)]
    if "Python worker" in "".join(lines[:1]) and python:
        return f"a Python function failed: {python[0]}"
    return lines[0] if lines else type(error).__name__


def write_error(error: BaseException, target: str, window: str) -> ReplaceWhereError:
    """What a failed write means for the flow. Nothing was committed."""
    chain = causes(error)
    text = "\n".join(chain)
    if any(name in text for name in CONFLICTS):
        return ConcurrentWriteError(
            f"Another writer committed to {target} while this run was replacing {window}; nothing was written.",
            hint="The run can be repeated as it is. For disjoint windows of one table to commit side by side, "
            f"partition the table by the predicate's column.\n{_message(chain[0])}",
        )
    if "DELTA_EXCEED_CHAR_VARCHAR_LIMIT" in text:
        return _refused(target, "a string is longer than its CHAR or VARCHAR column allows", chain)
    if "Generated Column" in text:
        return _refused(target, "the query's value for a generated column is not what the table generates", chain)
    if "CHECK constraint" in text and "replaceWhere" not in text.split("CHECK constraint", 1)[1][:200]:
        return _refused(target, "a row breaks a CHECK constraint of the table", chain)
    if "DELTA_NOT_NULL_CONSTRAINT_VIOLATED" in text:
        return _refused(target, "a row has NULL in a NOT NULL column", chain)
    if "DELTA_REPLACE_WHERE_MISMATCH" in text:
        return _refused(target, f"a row does not belong to {window}", chain)
    if any(mark in text for mark in PASSING):
        return TransientError(f"Spark lost its way while writing {target}; nothing was written.\n{_message(chain[-1])}")
    if isinstance(error, PySparkException | Py4JJavaError):
        return WriteError(f"Spark could not replace {window} in {target}; nothing was written.\n{_message(chain[-1])}")
    raise error


def _refused(target: str, why: str, chain: list[str]) -> WriteError:
    return WriteError(f"Delta refused the rows for {target}: {why}; nothing was written.", hint=_message(chain[-1]))


def reason(error: BaseException) -> str:
    """What the innermost cause says, in one line."""
    text = causes(error)[-1].partition(": ")[2]
    return next((line.strip() for line in text.split("\n") if line.strip()), type(error).__name__)


def _message(cause: str) -> str:
    return "\n".join(line for line in cause.split("\n")[:6] if not line.startswith("\tat "))


def unexpected(error: Exception) -> ReplaceWhereError:
    """What an error means that nobody foresaw.

    Where Spark names a condition, the query or its data are at fault, and will be on the next try: a string that is no
    number, a division by zero, a column that there is not. Everything else is the cluster's or the network's fault, as
    likely as not, and so is a file that is gone: a later try reads a later version.
    """
    lines = [line for line in str(error).split("\n") if not line.lstrip().startswith("at ")]
    message = f"Spark failed: {type(error).__name__}: {' '.join(lines)[:2000]}"
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition is None or condition.startswith(PASSING_CONDITIONS):
        return TransientError(message)
    return TerminalError(message)
