"""The document that goes from the worker to the Spark driver: everything that a run is to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.chunking import Chunk, Chunking
from airflow_provider_replacewhere.planning.limits import Limits
from airflow_provider_replacewhere.planning.questions import SILENCE_SECONDS
from airflow_provider_replacewhere.text import Document

REQUEST_VERSION = 1
REFRESH_POLICIES = ("auto", "incremental", "incremental_strict", "full")
NULL_KEY_POLICIES = ("fail", "drop", "include")


@dataclass(frozen=True)
class Override:
    """A predicate for one run, in place of the flow's own."""

    flow_name: str
    predicate_override: str


@dataclass(frozen=True)
class FlowArguments:
    """A flow given as operator arguments instead of in a file."""

    target: str
    replace_where: str
    query: str
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


@dataclass(frozen=True)
class Undo:
    """A run whose replaced region is to be put back as it was before.

    :param report: of that run, as JSON
    :param force: whether to do so even where the region was changed since
    """

    report: Mapping[str, Any]
    force: bool = False


@dataclass(frozen=True)
class Identity:
    """Which task of which Dag run asks. All None outside Airflow."""

    dag_id: str | None = None
    dag_run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None

    def is_earlier_try_of(self, other: Identity) -> bool:
        """Whether both are of one task, and this one's time is over because the other has begun."""
        return (
            None not in (self.dag_id, self.try_number, other.try_number)
            and (self.dag_id, self.dag_run_id, self.task_id, self.map_index)
            == (other.dag_id, other.dag_run_id, other.task_id, other.map_index)
            and (self.try_number or 0) < (other.try_number or 0)
        )


@dataclass(frozen=True)
class RunRequest:
    """What one Spark application is to do.

    :param run_id: the application's own id; each flow's run is ``<run_id>/<flow>``
    :param as_of: the instant that all time functions see; aware
    :param documents: pipeline files, SQL or Python, as texts
    :param arguments: a flow given as arguments, beside or instead of files
    :param time_zone: IANA name for flows that do not name one
    :param overrides: predicates for this run only
    :param select: targets to run; empty: all flows of the pipeline
    :param full_refresh: targets whose whole table is replaced by what the query gives for the window
    :param allow_full_refresh: whether that may lose rows outside the window
    :param root: folder of the directory catalog; None: names are resolved by Spark's own catalog
    :param allow_missing_columns: whether a target's column that the query does not give may be filled with NULL
    :param previous: by target's name, the last successful run's report as JSON (the ledger slice)
    :param coverage: by target's name, what the ledger proves of it, as :class:`~.coverage.Coverage` JSON
    :param only_stale: whether an override recomputes only the stale part of its window
    :param skip_unchanged: whether the part of a window is left out in which the target holds the query's rows already
    :param report_uri: where the driver puts the outcome
    :param dry_run: plan only, write nothing
    :param fingerprint: of all that decides what the flows mean and can be seen where the run is asked for; see
        :mod:`~.fingerprint`. None: not taken
    :param logical_run: what all tries of one task's run have in common, and a run that was cleared does not; by default
        the application's own id
    :param undo: in place of flows, the run that is to be undone
    :param questions_uri: the folder in which the driver asks the worker for leases; None: it takes none
    :param silence_seconds: after so long without a sign of the worker, the driver takes it for lost and gives up
    :param limits: beyond which a run is refused
    :param chunking: how overrides are cut into chunks; None: each is one run
    :param chunk: which chunk this is; set by the driver, which makes a request of its own for each
    :param earlier: the reports of earlier tries of this task, as JSON: what they wrote is not written again
    """

    run_id: str
    as_of: datetime
    documents: tuple[Document, ...] = ()
    arguments: FlowArguments | None = None
    time_zone: str = "UTC"
    overrides: tuple[Override, ...] = ()
    select: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    allow_full_refresh: bool = False
    refresh_policy: str = "auto"
    null_keys: str | None = None
    root: str | None = None
    allow_missing_columns: bool = False
    previous: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    coverage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    only_stale: bool = False
    skip_unchanged: bool = False
    report_uri: str | None = None
    identity: Identity = Identity()
    dry_run: bool = False
    fingerprint: str | None = None
    logical_run: str | None = None
    earlier: tuple[Mapping[str, Any], ...] = ()
    limits: Limits = Limits()
    undo: Undo | None = None
    questions_uri: str | None = None
    silence_seconds: float = SILENCE_SECONDS
    chunking: Chunking | None = None
    chunk: Chunk | None = None

    def __post_init__(self) -> None:
        if self.as_of.tzinfo is None:
            raise RequestError(
                f"as_of is {self.as_of.isoformat()}, which names no time zone.",
                hint="Give an instant, such as 2026-03-10T00:00:00+00:00.",
            )
        _one_of("refresh_policy", self.refresh_policy, REFRESH_POLICIES)
        if self.null_keys is not None:
            _one_of("null_keys", self.null_keys, NULL_KEY_POLICIES)

    def token(self, flow: str, window: str, definition_hash: str) -> str:
        """The identity of one write: every try of it has the same, and nothing else has.

        :param window: canonical SQL with constants only
        """
        parts = (self.logical_run or self.run_id, flow, window, definition_hash)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def asks_the_same(self, other: RunRequest) -> bool:
        """Whether both are to do the same, whatever was known when they were made and wherever they are answered."""
        return self._asked() == other._asked()

    def _asked(self) -> str:
        known: dict[str, Any] = {"previous": {}, "coverage": {}, "earlier": (), "identity": Identity()}
        places: dict[str, Any] = {"run_id": "", "report_uri": None, "questions_uri": None, "silence_seconds": 0.0}
        return replace(self, **known, **places).to_json()

    def to_json(self) -> str:
        """The request as a JSON document with a version."""
        value = asdict(replace(self, previous={}, coverage={}, earlier=(), undo=None))
        value["previous"] = {target: dict(report) for target, report in self.previous.items()}
        value["coverage"] = {target: dict(known) for target, known in self.coverage.items()}
        value["earlier"] = [dict(report) for report in self.earlier]
        value["undo"] = {"report": dict(self.undo.report), "force": self.undo.force} if self.undo else None
        value["as_of"] = self.as_of.isoformat()
        return json.dumps({"version": REQUEST_VERSION, **value}, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> RunRequest:
        """The request of a JSON document.

        :raises RequestError: the document is cut off, of another version, or lacks a part
        """
        try:
            value = json.loads(text)
            version = value.pop("version")
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
            raise RequestError(
                f"The run request is not a request document ({len(text)} characters): {error}.",
                hint="It may have been cut off in transit; run the task again.",
            ) from error
        if version != REQUEST_VERSION:
            raise RequestError(
                f"The run request has version {version}; this driver reads version {REQUEST_VERSION}.",
                hint="Let the worker and the driver run the same version of airflow-provider-replacewhere.",
            )
        try:
            arguments, undo = value.pop("arguments"), value.pop("undo")
            chunking, chunk = value.pop("chunking"), value.pop("chunk")
            _require_forms(value)
            return cls(
                as_of=datetime.fromisoformat(value.pop("as_of")),
                documents=tuple(Document(**d) for d in value.pop("documents")),
                arguments=FlowArguments(**_tuples(arguments)) if arguments else None,
                overrides=tuple(Override(**o) for o in value.pop("overrides")),
                identity=Identity(**value.pop("identity")),
                limits=Limits(**value.pop("limits")),
                undo=Undo(**undo) if undo else None,
                chunking=Chunking(**chunking) if chunking else None,
                chunk=Chunk(**chunk) if chunk else None,
                **_tuples(value),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RequestError(
                f"The run request lacks a part, has one too many, or one of another form: {error}.",
                hint="Let the worker and the driver run the same version of airflow-provider-replacewhere.",
            ) from error


_LISTS = ("documents", "overrides", "select", "full_refresh", "earlier")
_OBJECTS = ("previous", "coverage", "identity", "limits")


def _require_forms(value: Mapping[str, Any]) -> None:
    """:raises TypeError: a part is no list or no object where it has to be one"""
    for names, form, word in ((_LISTS, list, "list"), (_OBJECTS, dict, "object")):
        for name in names:
            if not isinstance(value[name], form):
                raise TypeError(f"{name} is no {word}")
    for name in ("previous", "coverage"):
        if not all(isinstance(document, dict) for document in value[name].values()):
            raise TypeError(f"{name} holds something else than objects")


def _one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise RequestError(f"{name} is {value!r}.", hint=f"Valid are {', '.join(valid)}.")


def _tuples(value: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
