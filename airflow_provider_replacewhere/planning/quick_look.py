"""Whether everything that a request asks for is provably fresh: told from the ledger's slice and Delta logs alone.

The driver decides with full knowledge; this decides only what needs none. It may say NO_OP exactly where the driver
would, because the texts, settings and files that decide a definition are those of the last run, the tables that the
last run read are those that the names mean now, and no log shows a change. Anything else is a doubt, and doubts are for
Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Protocol

from airflow_provider_replacewhere.errors import PlanRefusedError, PredicateError, ReplaceWhereError
from airflow_provider_replacewhere.flows.alias import unqualify
from airflow_provider_replacewhere.flows.model import Flow, Pipeline, TableName
from airflow_provider_replacewhere.flows.reads import order, references
from airflow_provider_replacewhere.flows.scan import scan
from airflow_provider_replacewhere.planning import fingerprint
from airflow_provider_replacewhere.planning.coverage import Coverage, Pin
from airflow_provider_replacewhere.planning.decide import Decision, Facts, Reason, SourceChange, decide
from airflow_provider_replacewhere.planning.directory import place
from airflow_provider_replacewhere.planning.pipeline import flow_named, pipeline_of, selected, substituted
from airflow_provider_replacewhere.planning.planned import planned
from airflow_provider_replacewhere.planning.promise import promise
from airflow_provider_replacewhere.planning.report import JobOutcome, Mode, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.planning.table_log import InDoubtError, TableLog
from airflow_provider_replacewhere.planning.window import Window, window_of
from airflow_provider_replacewhere.planning.words import reason
from airflow_provider_replacewhere.predicates.clock import Clock, NeedsSparkError, freeze
from airflow_provider_replacewhere.predicates.parse import check, parse
from airflow_provider_replacewhere.text import Span


class Lake(Protocol):
    """The Delta tables that can be looked at from here."""

    def folder(self, name: TableName) -> str:
        """The folder that a name stands for, spelled as Spark would.

        :raises InDoubtError: it is a name that only a catalog knows, or a place that cannot be looked at
        """

    def log(self, folder: str, name: str) -> TableLog:
        """The log of the table in a folder; the same one each time.

        :raises InDoubtError: there is none, or it cannot be read
        """


def quick_look(request: RunRequest, lake: Lake) -> JobOutcome:
    """The outcome of a request for which there is nothing to do: a NO_OP of every flow.

    :raises InDoubtError: something may have to be done, or only Spark can tell
    """
    _refuse_what_is_asked(request)
    try:
        pipeline = pipeline_of(request)
        flows = _flows(request, pipeline)
        overrides = {flow_named(pipeline, o.flow_name).name: o.predicate_override for o in request.overrides}
        if len(overrides) < len(request.overrides) or not overrides.keys() <= {flow.name for flow in flows}:
            raise InDoubtError("the overrides do not fit the flows")  # Spark's side has the words for it
        reports = [_Look(request, pipeline, flow, overrides.get(flow.name), lake).report() for flow in flows]
    except ReplaceWhereError as error:
        raise InDoubtError(error.message) from error
    return JobOutcome(request.run_id, tuple(reports))


def _refuse_what_is_asked(request: RunRequest) -> None:
    if any(document.is_python for document in request.documents):
        raise InDoubtError("the flows of Python files show only there")
    if request.fingerprint is None:
        raise InDoubtError("what the flows mean cannot be told without it")
    if request.dry_run:
        raise InDoubtError("a dry run is asked for")
    if request.full_refresh:
        raise InDoubtError("a full refresh is asked for")
    if request.refresh_policy == "full":
        raise InDoubtError("refresh_policy is full")
    if request.overrides and not request.only_stale:
        raise InDoubtError("an override recomputes its whole window")


def _flows(request: RunRequest, pipeline: Pipeline) -> list[Flow]:
    """The flows that run, each behind those that it reads."""
    names = {flow.name for flow in selected(pipeline, request.select)}
    return [flow for flow in order(pipeline) if flow.name in names]


@dataclass(frozen=True)
class _Source:
    """A table that the last run read, and its log now."""

    name: str
    path: str
    before: Pin
    log: TableLog

    @property
    def now(self) -> Pin:
        return Pin(self.log.newest, self.before.table_id)

    def to_json(self) -> dict[str, Any]:
        return {"table_name": self.name, "path": self.path, **self.now.to_json()}


@dataclass(frozen=True)
class _Look:
    """The look at one flow."""

    request: RunRequest
    pipeline: Pipeline
    flow: Flow
    override: str | None
    lake: Lake

    def report(self) -> RunReport:
        """The report of its NO_OP.

        :raises InDoubtError: it may be none
        """
        started, target = datetime.now(UTC).isoformat(), str(self.flow.target)
        previous, known = self._last_run(), self._coverage()
        sources = self._sources(previous)
        table = self._target(previous, known)
        predicate = self._predicate(previous)
        window = self._window(predicate, previous)
        log = self.lake.log(table["path"], target)
        log.require_identity(known.target_id)
        self._refuse_changes(sources, log, known)
        facts = Facts(
            window=window.sql,
            region=window.region,
            definition_hash=previous["definition_hash"],
            pins={source.name: source.now for source in sources},
            target_id=known.target_id,
            target_version=log.newest,
            coverage=known,
            previous=previous,
            override=self.override,
            only_stale=self.request.only_stale,
            changes=lambda name, before: _change(sources, name, before[name]),
        )
        decision = self._decide(facts)
        report = planned(
            self.request, self.flow, started, predicate.text, facts, decision, [s.to_json() for s in sources], table
        )
        promised = promise(facts, decision, str(known.target_id), log.newest)
        return replace(
            report,
            window_types=previous["window_types"],
            unwatched=(),
            # Asked of Catalyst once for each definition, and this run's is the last one's.
            lineage=previous.get("lineage"),
            nulls=previous.get("nulls"),
            coverage=promised.proven(report.run_id, log.newest).to_json(),
        )

    # -- what the ledger says ------------------------------------------------------------------------------------------

    def _last_run(self) -> Mapping[str, Any]:
        """The last report of the target, which is of a run with the same definition."""
        target = self.flow.target
        previous = self.request.previous.get(str(target))
        if previous is None:
            raise InDoubtError(f"the ledger knows no run of {target}")
        before, now = previous.get("fingerprint"), self.request.fingerprint
        if before is None or now is None:
            raise InDoubtError(f"the last run of {target} left no fingerprint of its definition")
        if (changed := fingerprint.changed(before, now)) is not None:
            raise InDoubtError(f"{changed} since the last run of {target}")
        if previous.get("unwatched") is None:
            raise InDoubtError(f"the last run of {target} does not say what its query depends on")
        if previous["unwatched"]:
            raise InDoubtError(f"the query of {self.flow.name} {previous['unwatched'][0]}")
        if previous["evaluated"]:
            raise InDoubtError(f"the predicate of the last run of {target} was not deterministic")
        if not (previous["coverage"] or {}).get("proves"):
            raise InDoubtError(f"the last run of {target} could not prove what it left there")
        return previous

    def _coverage(self) -> Coverage:
        value = self.request.coverage.get(str(self.flow.target))
        known = Coverage() if value is None else Coverage.from_json(value)
        if known.target_version is None or known.target_id is None:
            raise InDoubtError(f"the ledger proves nothing of {self.flow.target}")
        return known

    # -- what the names mean -------------------------------------------------------------------------------------------

    def _sources(self, previous: Mapping[str, Any]) -> tuple[_Source, ...]:
        """The sources of the last run, if they are what the query names now."""
        assert self.flow.query is not None
        named = {self.lake.folder(name): str(name) for name in self._tables(self.flow.query, set())}
        found = previous["planning_information"]["source_table_information"]
        read = {place(str(source["path"])): source for source in found}
        for folder, name in named.items():
            if folder not in read:
                raise InDoubtError(f"{name} is another table than the last run of {self.flow.target} read")
        if unnamed := [source for folder, source in read.items() if folder not in named]:
            raise InDoubtError(f"the last run of {self.flow.target} read {unnamed[0]['table_name']}, not by this name")
        if len(read) < len(found):
            raise InDoubtError(f"the query of {self.flow.name} reads a table at two versions")
        return tuple(
            _Source(
                source["table_name"],
                source["path"],
                Pin(source["version"], source["table_id"]),
                self.lake.log(folder, source["table_name"]),
            )
            for folder, source in read.items()
        )

    def _tables(self, query: Span, seen: set[tuple[str, ...]]) -> Iterator[TableName]:
        """The tables that a query names, directly or through the pipeline's views."""
        text = substituted(query, self.pipeline.settings)
        names = references(text.text)
        if names is None:
            raise InDoubtError(f"the query at {query.where} can be read there only")
        if _travels(text):
            raise InDoubtError(f"the query at {query.where} reads a table at a version of its own")
        views = {view.name.key: view for view in self.pipeline.views}
        for name in names:
            view = views.get(name.key)
            if view is None:
                yield name
            elif view.query is not None and name.key not in seen:
                seen.add(name.key)
                yield from self._tables(view.query, seen)

    def _target(self, previous: Mapping[str, Any], known: Coverage) -> dict[str, Any]:
        """Where the target is, and its id."""
        folder = self.lake.folder(self.flow.target)
        before = previous["planning_information"]["target_table_information"].get("path")
        if before is not None and place(before) != folder:  # the first run made it, and did not know it yet
            raise InDoubtError(f"{self.flow.target} is another table than at its last run")
        return {"table_id": known.target_id, "path": before or folder}

    # -- what is asked -------------------------------------------------------------------------------------------------

    def _predicate(self, previous: Mapping[str, Any]) -> Span:
        """The predicate over the target's columns, as the driver reads it."""
        flow = self.flow
        if self.override is not None:
            return Span.of(self.override, f"predicate_override for {flow.name}")
        assert flow.query is not None
        predicate = substituted(flow.replace_where, self.pipeline.settings)
        text = unqualify(predicate, substituted(flow.query, self.pipeline.settings))
        if text == predicate.text:
            return predicate
        if previous["override"] or previous["predicate"] != text:
            # Whether r.day is a source's column or a field of a struct, the driver has not told yet.
            raise InDoubtError(f"the predicate of {flow.name} names a source")
        return Span.of(text, predicate.document.name)

    def _window(self, predicate: Span, previous: Mapping[str, Any]) -> Window:
        types, clock = previous["window_types"], Clock(self.request.as_of, self.flow.time_zone)
        try:
            parsed = parse(predicate)
            check(parsed, types)
            window = window_of(freeze(parsed, clock), types, clock, self.flow.null_keys)
        except NeedsSparkError as error:
            raise InDoubtError(f"it must evaluate {', '.join(error.expressions)}") from error
        except PredicateError as error:
            raise InDoubtError(f"it must read the predicate of {self.flow.name} ({error.message})") from error
        if window.region.is_empty or window.region.is_everything:
            raise InDoubtError(f"the window of {self.flow.name} is empty, or the whole table")
        return window

    # -- what the logs say ---------------------------------------------------------------------------------------------

    def _refuse_changes(self, sources: Sequence[_Source], log: TableLog, known: Coverage) -> None:
        for source in sources:
            source.log.require_identity(source.before.table_id)
            if (change := source.log.first_change(source.before.version)) is not None:
                raise InDoubtError(
                    f"{source.name} has changed since version {source.before.version}"
                    f" ({change.operation} at version {change.version})"
                )
        assert known.target_version is not None
        if (change := log.first_change(known.target_version)) is not None:
            raise InDoubtError(
                f"{self.flow.target} was changed by someone else ({change.operation} at version {change.version})"
            )

    def _decide(self, facts: Facts) -> Decision:
        try:
            decision = decide(facts, self.request.refresh_policy)
        except PlanRefusedError as error:
            raise InDoubtError(error.message) from error
        if decision.mode is not Mode.NO_OP:
            why = "; ".join(map(reason, decision.reasons)) or decision.mode
            raise InDoubtError(f"{self.flow.target} is not all fresh: {why}")
        return decision


def _change(sources: Sequence[_Source], name: str, before: Pin) -> SourceChange | None:
    """Whether a commit between a fragment's version of a source and now changed a row; which, only Spark finds out."""
    source = next(source for source in sources if source.name == name)
    if source.log.first_change(before.version) is None:
        return None
    return SourceChange(Reason.SOURCE_CHANGED)


def _travels(query: Span) -> bool:
    """Whether a query may say which version of a table it reads."""
    words = [token.text.upper() for token in scan(query.document, query.start, query.end)]
    return ("AS", "OF") in pairwise(words)
