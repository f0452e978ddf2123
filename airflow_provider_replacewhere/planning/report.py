"""The document that comes back from the Spark driver: what each run did, or why it did not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_replacewhere.errors import ReplaceWhereError, RequestError, error_from_json
from airflow_provider_replacewhere.planning.chunking import Chunk
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.text import shown

REPORT_VERSION = 1


class Mode(StrEnum):
    """How much of the target a run replaces."""

    NO_OP = "NO_OP"
    INCREMENTAL = "INCREMENTAL"
    FULL_RECOMPUTE = "FULL_RECOMPUTE"
    FULL_REFRESH = "FULL_REFRESH"
    UNDO = "UNDO"


@dataclass(frozen=True)
class RunReport:
    """What one run of one flow did to its target.

    Instants are ISO 8601 in UTC. ``window`` and ``replaced`` are SQL with constants only; ``replaced`` is None where
    nothing was written. Counts are None where Delta's statistics do not tell them.

    :param reasons: why the run recomputed what it did, each ``{"reason": NAME, …the data behind it}``
    :param source_versions: by table name or path, the Delta version read; None for a source without versions
    :param fresh: the part of the window that was proven fresh and left alone, as SQL; None where there is none
    :param estimate: of a dry run, the ``files``, ``rows`` and ``bytes`` of the target that it would touch, at most:
        told by the target's statistics, without a look at the rows
    :param coverage: what the run proves of its target, as :class:`~.coverage.Entry` JSON; None for a dry run
    :param lineage: how the target's columns reach the sources, as :class:`~.lineage.Lineage` JSON; None where no run of
        this definition has asked yet
    :param nulls: what rules out rows without a key, as :class:`~.nulls.NullsKnown` JSON; None likewise
    :param target_version: the target's version after the run
    :param predicate: the predicate as written, of the flow or of the override
    :param override: whether that predicate was an override
    :param expectations: by expectation, ``{"action": …, "violations": n}``
    :param evaluated: parts of the predicate that are not deterministic, with the value that this run used
    :param fingerprint: of the request, where it had one
    :param window_types: by column that the predicate is about, its Spark type in the target
    :param unwatched: what the query depends on besides its text and the rows of Delta tables, each in words; None: not
        known
    :param chunk: which chunk of a backfill it was; None: it was none
    :param adopted: the run id of an earlier try that had made this run's commit, so that nothing was written again
    """

    flow: str
    target: str
    run_id: str
    mode: Mode
    reasons: tuple[Mapping[str, Any], ...]
    window: str
    replaced: str | None
    as_of: str
    time_zone: str
    predicate: str
    override: bool
    definition_hash: str
    source_versions: Mapping[str, int | None]
    target_version: int | None
    rows_deleted: int | None
    rows_written: int | None
    rows_unchanged: int | None
    bytes_written: int | None
    planning_information: Mapping[str, Any]
    token: str
    started_at: str
    finished_at: str
    evaluated: Mapping[str, str] = field(default_factory=dict)
    expectations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    columns_added: tuple[str, ...] = ()
    fresh: str | None = None
    coverage: Mapping[str, Any] | None = None
    estimate: Mapping[str, int | None] | None = None
    lineage: Mapping[str, Any] | None = None
    nulls: Mapping[str, Any] | None = None
    dry_run: bool = False
    fingerprint: str | None = None
    window_types: Mapping[str, str] = field(default_factory=dict)
    unwatched: tuple[str, ...] | None = None
    adopted: str | None = None
    chunk: Chunk | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values only: fit for XCom, the ledger and the commit."""
        value = asdict(self)
        value["mode"] = str(self.mode)
        value["reasons"] = [dict(r) for r in self.reasons]
        value["columns_added"] = list(self.columns_added)
        value["unwatched"] = None if self.unwatched is None else list(self.unwatched)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunReport:
        """:raises RequestError: a part is missing or one too many"""
        try:
            _require_forms(value)
            unwatched, chunk = value.get("unwatched"), value.get("chunk")
            return cls(
                **{
                    **value,
                    "mode": Mode(value["mode"]),
                    "reasons": tuple(value["reasons"]),
                    "columns_added": tuple(value["columns_added"]),
                    "unwatched": None if unwatched is None else tuple(unwatched),
                    "chunk": None if chunk is None else Chunk(**chunk),
                }
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RequestError(
                f"The run report cannot be read: {error}.",
                hint="It was written by another version of airflow-provider-replacewhere, or changed by hand.",
            ) from error


_FORMS: dict[type | tuple[type, ...], tuple[str, ...]] = {
    str: (
        *("flow", "target", "run_id", "mode", "window", "as_of", "time_zone", "predicate", "definition_hash", "token"),
        *("started_at", "finished_at"),
    ),
    (str, type(None)): ("replaced", "fresh", "fingerprint", "adopted"),
    (int, type(None)): ("target_version", "rows_deleted", "rows_written", "rows_unchanged", "bytes_written"),
    (list, tuple): ("reasons", "columns_added"),
    (list, tuple, type(None)): ("unwatched",),
    Mapping: ("source_versions", "planning_information", "evaluated", "expectations", "window_types"),
    (Mapping, type(None)): ("coverage", "estimate", "lineage", "nulls", "chunk"),
    bool: ("override", "dry_run"),
}


def _require_forms(value: Mapping[str, Any]) -> None:
    """:raises TypeError: a part of a report has another form than a report's"""
    for form, names in _FORMS.items():
        for name in names:
            if name in value and not isinstance(value[name], form):
                raise TypeError(f"{name} is {shown(value[name])}")
    for name in ("columns_added", "unwatched"):
        if not all(isinstance(part, str) for part in value.get(name) or ()):
            raise TypeError(f"{name} is {shown(value[name])}")
    if not all(isinstance(reason, Mapping) and "reason" in reason for reason in value["reasons"]):
        raise TypeError(f"reasons is {shown(value['reasons'])}")


def _require_error(value: Any) -> None:
    """:raises TypeError: this is no error as :meth:`~..errors.ReplaceWhereError.to_json` gives it"""
    if not isinstance(value, Mapping) or not isinstance(value.get("message"), str):
        raise TypeError(f"an error is {shown(value)}")


@dataclass(frozen=True)
class Failure:
    """A flow whose run failed; its target is as it was."""

    flow: str
    target: str
    run_id: str
    error: Mapping[str, Any]
    started_at: str
    finished_at: str

    def exception(self) -> ReplaceWhereError:
        return error_from_json(dict(self.error))


@dataclass(frozen=True)
class Found:
    """A run that the ledger does not know, as the commit that it made tells of it.

    :param identity: the task that ran it
    """

    report: RunReport
    identity: Identity = Identity()


@dataclass(frozen=True)
class Application:
    """Where a Spark application can be looked at.

    :param id: as its cluster calls it
    :param ui: address of the driver's own pages, which end with it; None: it has none
    :param is_logged: whether it leaves an event log, from which a history server makes the same pages afterwards
    """

    id: str
    ui: str | None = None
    is_logged: bool = False

    @classmethod
    def from_json(cls, value: Any) -> Application:
        """:raises TypeError: the value is none"""
        if not isinstance(value, Mapping) or not isinstance(value.get("id"), str):
            raise TypeError(f"an application is {shown(value)}")
        ui, is_logged = value.get("ui"), value.get("is_logged", False)
        if not isinstance(ui, str | None) or not isinstance(is_logged, bool):
            raise TypeError(f"an application is {shown(value)}")
        return cls(value["id"], ui, is_logged)


@dataclass(frozen=True)
class JobOutcome:
    """What one Spark application did: the reports of the runs that ended well, and the failures.

    :param error: what stopped the application before or outside any flow
    :param found: runs of others that it came upon in the targets' logs, in the order of their commits
    :param application: in Spark; None: none was started, or it is not known
    :param schemas: by target, the Spark types of its columns after the run, by name; of those that Spark looked at
    """

    run_id: str
    reports: tuple[RunReport, ...] = ()
    failures: tuple[Failure, ...] = ()
    error: Mapping[str, Any] | None = None
    found: tuple[Found, ...] = ()
    application: Application | None = None
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def raise_for_failure(self) -> None:
        """:raises ReplaceWhereError: the application, or one of its runs, failed"""
        if self.error is not None:
            raise error_from_json(dict(self.error))
        if self.failures:
            raise self.failures[0].exception()

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": REPORT_VERSION,
                "run_id": self.run_id,
                "reports": [report.to_json() for report in self.reports],
                "failures": [asdict(failure) for failure in self.failures],
                "error": self.error,
                "found": [{"report": f.report.to_json(), "identity": asdict(f.identity)} for f in self.found],
                "application": asdict(self.application) if self.application else None,
                "schemas": {target: dict(columns) for target, columns in self.schemas.items()},
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> JobOutcome:
        """:raises RequestError: the document is cut off, of another version, or lacks a part"""
        try:
            value = json.loads(text)
            version = value["version"]
            if version != REPORT_VERSION:
                raise RequestError(
                    f"The run report has version {version}; this worker reads version {REPORT_VERSION}.",
                    hint="Let the worker and the driver run the same version of airflow-provider-replacewhere.",
                )
            if not isinstance(value["run_id"], str):
                raise TypeError(f"run_id is {shown(value['run_id'])}")
            for error in (*(f["error"] for f in value["failures"]), *([value["error"]] if value["error"] else ())):
                _require_error(error)
            for failure in value["failures"]:
                if not all(isinstance(part, str) for name, part in failure.items() if name != "error"):
                    raise TypeError(f"a failure is {shown(failure)}")
            application, schemas = value.get("application"), value.get("schemas", {})
            if not all(isinstance(text, str) for columns in schemas.values() for text in columns.values()):
                raise TypeError(f"schemas is {shown(schemas)}")
            return cls(
                run_id=value["run_id"],
                reports=tuple(RunReport.from_json(r) for r in value["reports"]),
                failures=tuple(Failure(**f) for f in value["failures"]),
                error=value["error"],
                found=tuple(Found(RunReport.from_json(f["report"]), Identity(**f["identity"])) for f in value["found"]),
                application=Application.from_json(application) if application else None,
                schemas=schemas,
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise RequestError(
                f"The run report is not a report document ({len(text)} characters): {error}.",
                hint="The driver may have ended early; the Delta commit's own metadata tells what was written.",
            ) from error
