"""Everything that can go wrong, in two kinds.

A *terminal* error will come again on every retry, so the task fails at once. A *transient* error may be gone on the
next try, so Airflow's retries decide. Each message says what was asked, what was found, and what to do.
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow_provider_replacewhere.text import Span


class ReplaceWhereError(Exception):
    """Root of all errors of this package.

    :param message: what was asked and what was found
    :param hint: what to do about it
    :param span: the text that is at fault, where there is one
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", span: Span | None = None) -> None:
        self.message = message
        self.hint = hint
        self.span = span
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = [f"{self.span.where}: {self.message}", self.span.excerpt()] if self.span else [self.message]
        return "\n".join([*parts, self.hint] if self.hint else parts)

    def to_json(self) -> dict[str, Any]:
        """Kind and readable text: what crosses from the driver to the worker."""
        return {"type": type(self).__name__, "retryable": self.retryable, "message": str(self)}


class TerminalError(ReplaceWhereError):
    """Comes again on every retry: the task fails at once."""


class TransientError(ReplaceWhereError):
    """May be gone on the next try."""

    retryable = True


class DefinitionError(TerminalError):
    """A pipeline file, a decorator or an operator argument does not declare a valid flow."""


class PredicateError(DefinitionError):
    """A predicate is no predicate, or one that must not be run."""


class RequestError(TerminalError):
    """What a run was asked to do makes no sense: an unknown flow, a broken request or report file, a bad parameter."""


class FullRefreshRefusedError(RequestError):
    """A full refresh was asked for, and the operator or the table does not allow it."""


class SourceError(TerminalError):
    """A source of the query does not exist or cannot be read."""


class SchemaError(TerminalError):
    """The query's columns and the target's do not fit together."""


class NullKeyError(TerminalError):
    """The query gives rows whose key is NULL, which no range window can hold."""


class ExpectationError(TerminalError):
    """Rows break an expectation that was declared ``ON VIOLATION FAIL UPDATE``."""


class UndoRefusedError(TerminalError):
    """A run cannot be undone: what it replaced was changed since, or what was there before is gone."""


class LimitExceededError(TerminalError):
    """The run would do more than it may: delete too many rows, or replace too long a window."""


class EmptyResultError(TerminalError):
    """The query gives no row for what is to be replaced, and the run must not empty it."""


class WriteError(TerminalError):
    """The commit was refused, or what was read back is not what was asked for."""


class SkippedWriteError(WriteError):
    """Delta passed the write over: the table remembers another one with the same token."""


class PlanRefusedError(TerminalError):
    """The refresh policy does not allow what the run would have to do."""


class ConcurrentWriteError(TransientError):
    """Another writer committed to the same part of the target first."""


class RegionHeldError(TransientError):
    """Another run holds a lease on a part of the region, or waits for one, and this run was not to wait any longer."""


class LeaseLostError(TransientError):
    """The run's lease is gone, so it must not commit: another run may be writing its region.

    Transient, for the next try takes a lease of its own and recomputes what the other run has left stale.
    """


class SubmitError(TransientError):
    """The Spark application could not be started, or ended without a report."""


class RunLostError(TransientError):
    """The process that was to record a run's end is gone."""


class HistoryError(TransientError):
    """The ledger's database cannot be reached or does not answer."""


class HistorySchemaError(TerminalError):
    """The ledger's database has a schema that this version cannot use."""


class HistoryRowError(HistorySchemaError):
    """A row of the ledger is not as this package writes it: it was changed by hand, or is damaged."""


def error_from_json(value: dict[str, Any]) -> ReplaceWhereError:
    """The error that :meth:`ReplaceWhereError.to_json` described, of the same class where it is known."""
    known = {cls.__name__: cls for cls in _all_subclasses(ReplaceWhereError)}
    fallback = TransientError if value.get("retryable") else TerminalError
    return known.get(str(value.get("type")), fallback)(str(value.get("message")))


def kinds_of_errors() -> set[str]:
    """The names of all errors that there are."""
    return {cls.__name__ for cls in _all_subclasses(ReplaceWhereError)}


def _all_subclasses(cls: type[ReplaceWhereError]) -> list[type[ReplaceWhereError]]:
    return [found for child in cls.__subclasses__() for found in (child, *_all_subclasses(child))]
