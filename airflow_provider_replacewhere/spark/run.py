"""One run of one flow, step by step: from its declaration to the commit that is read back."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.errors import ConcurrentWriteError, SkippedWriteError
from airflow_provider_replacewhere.flows.model import Flow
from airflow_provider_replacewhere.planning.decide import Decision, Facts, Reason, decide
from airflow_provider_replacewhere.planning.landed import adopted, metadata_of
from airflow_provider_replacewhere.planning.leasing import Overlapped, Permit
from airflow_provider_replacewhere.planning.planned import planned
from airflow_provider_replacewhere.planning.promise import promise
from airflow_provider_replacewhere.planning.report import Found, Mode, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.planning.window import Window
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.spark import unchanged
from airflow_provider_replacewhere.spark.changes import SourceChanges
from airflow_provider_replacewhere.spark.checks import (
    check_deleted,
    check_full_refresh,
    check_null_keys,
    checked,
    is_refused_as_empty,
    may_have_null_keys,
)
from airflow_provider_replacewhere.spark.definition import unwatched
from airflow_provider_replacewhere.spark.freshness import coverage_of, estimate, is_deterministic, late_changes, pins
from airflow_provider_replacewhere.spark.landed import Look, landed_since, look, touched_in
from airflow_provider_replacewhere.spark.nulls import KeyNulls
from airflow_provider_replacewhere.spark.prepared import BeforeRead, Prepared, Setting, prepare
from airflow_provider_replacewhere.spark.schema import declared_schema
from airflow_provider_replacewhere.spark.target import EVERYTHING, Commit, State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Seconds before a write that met another is planned anew.
PAUSES = (0.5, 2.0, 8.0)


def run_flow(
    setting: Setting, flow: Flow, *, override: str | None, full_refresh: bool, before: BeforeRead
) -> RunReport:
    """Replace one window of one target, or with ``dry_run`` say what that would do.

    :param override: predicate for this run in place of the flow's own
    :param full_refresh: replace the whole table by what the query gives for the window
    :param before: called for every table before it is read, so that the flow which fills it runs first
    :raises ReplaceWhereError: the run is refused or fails; the target is as it was
    """
    request, started = setting.request, _now()
    run_id = f"{request.run_id}/{flow.name}"

    def prepared() -> Prepared:
        return prepare(setting, flow, override=override, full_refresh=full_refresh, before=before)

    def run(now: Prepared, permit: Permit) -> _Run:
        seen = look(now.session, now.state, coverage_of(request.coverage.get(str(flow.target))))
        setting.found.extend(Found(each.report, each.identity) for each in seen.runs)
        return _Run(request, now, seen, override, full_refresh, started, permit)

    def ended(now: Prepared, report: RunReport) -> RunReport:
        is_written = report.replaced is not None and not request.dry_run
        setting.schemas[report.target] = now.schema(is_written=is_written)
        return report

    first = prepared()
    request.limits.check_window(first.window.region, first.window.sql, request.as_of)
    if request.dry_run:
        return ended(first, run(first, _nobody).plan())
    region = Region.everything() if full_refresh else first.window.region
    with setting.leases.holding(str(flow.target), flow.name, run_id, region) as held:
        if isinstance(held, Overlapped):
            return ended(first, run(first, _nobody).skipped(held))
        # Those that were waited for may have written the target, and what is read as well.
        now = first if first.target.version() == first.version else prepared()
        for pause in PAUSES:
            try:
                return ended(now, run(now, held).go())
            except ConcurrentWriteError:
                # Another writer, who takes no lease. What is to be done may be something else now.
                time.sleep(pause * random.uniform(0.5, 1.5))
                now = prepared()
        return ended(now, run(now, held).go())


@dataclass(frozen=True)
class _Run:
    """One run, from its decision on.

    :param started: when it began, ISO 8601 in UTC
    :param permit: to be asked right before the commit
    """

    request: RunRequest
    prepared: Prepared
    seen: Look
    override: str | None
    full_refresh: bool
    started: str
    permit: Permit

    @property
    def run_id(self) -> str:
        return f"{self.request.run_id}/{self.prepared.flow.name}"

    @cached_property
    def facts(self) -> Facts:
        """What the decision stands on."""
        prepared, state, window = self.prepared, self.prepared.state, self.prepared.window
        return Facts(
            window=window.sql,
            region=window.region,
            definition_hash=prepared.definition_hash,
            pins=pins(prepared.sources),
            target_exists=state is not None,
            target_id=state.table_id if state else None,
            target_version=state.version if state else None,
            coverage=self.seen.coverage,
            foreign=self.seen.foreign(touched_in(state), window.types) if state is not None else (),
            previous=self._previous,
            override=self.override,
            evaluated=window.evaluated,
            query_is_deterministic=is_deterministic(prepared.judged),
            full_refresh=self.full_refresh,
            only_stale=self.request.only_stale,
            changes=self._changes,
        )

    @cached_property
    def _changes(self) -> SourceChanges:
        return SourceChanges(
            self.prepared.session,
            self.prepared.question(self.request.refresh_policy),
            {source.name: source for source in self.prepared.sources},
            self.prepared.definition_hash,
            (self._previous or {}).get("lineage"),
        )

    @property
    def _previous(self) -> Mapping[str, Any] | None:
        """The last report that ended well, whether the ledger has it or only the log."""
        if self.seen.runs:
            return self.seen.runs[-1].report.to_json()
        return self.request.previous.get(str(self.prepared.flow.target))

    def by_an_earlier_try(self) -> RunReport | None:
        """What an earlier try of the same run wrote; None where none did."""
        prepared = self.prepared
        token = self.request.token(prepared.flow.name, prepared.window.sql, prepared.definition_hash)
        written = (*(run.report for run in self.seen.runs), *map(RunReport.from_json, self.request.earlier))
        return next((report for report in written if report.token == token), None)

    def go(self) -> RunReport:
        """Do what there is to do."""
        if (written := self.by_an_earlier_try()) is not None:
            return adopted(written, self.run_id)
        decision = self.decide()
        if decision.mode is not Mode.NO_OP:
            return self.write(decision)
        if self._sources_moved():
            # What came in belongs to no row of the window; rows with a NULL key belong to none for another reason.
            self._check_null_keys()
        return self.unwritten(decision)

    def _check_null_keys(self) -> None:
        """:raises NullKeyError: the query gives rows of which the predicate cannot tell whether they belong"""
        prepared = self.prepared
        if may_have_null_keys(prepared.rows, prepared.window, prepared.flow) and not self._nulls.ruled_out():
            check_null_keys(prepared.rows, prepared.window, prepared.flow)

    @cached_property
    def _nulls(self) -> KeyNulls:
        return KeyNulls(
            self.prepared.rows,
            self.prepared.window,
            {source.name: source for source in self.prepared.sources},
            self.prepared.definition_hash,
            self._changes.commits,
            (self._previous or {}).get("nulls"),
        )

    def _sources_moved(self) -> bool:
        before = (self._previous or {}).get("source_versions")
        return before != {name: pin.version if pin else None for name, pin in self.facts.pins.items()}

    def plan(self) -> RunReport:
        """Say what there is to do."""
        report, target = self.report(self.decide()), self.prepared.target
        return report if self.prepared.state is None else replace(report, estimate=estimate(target, report.replaced))

    def decide(self) -> Decision:
        """:raises FullRefreshRefusedError: one was asked for that is not allowed"""
        decision = decide(self.facts, self.request.refresh_policy)
        if self.full_refresh:
            prepared, allowed = self.prepared, self.request.allow_full_refresh
            check_full_refresh(prepared.target, prepared.flow, prepared.state, prepared.window, allowed=allowed)
        return decision

    def report(self, decision: Decision) -> RunReport:
        """The report as it stands before anything is written."""
        prepared, state = self.prepared, self.prepared.state
        report = planned(
            self.request,
            prepared.flow,
            self.started,
            prepared.predicate.text,
            self.facts,
            decision,
            [source.to_json() for source in prepared.sources],
            {"table_id": state.table_id, "path": state.path} if state is not None else {},
        )
        return replace(
            report,
            window_types=prepared.window.types,
            unwatched=unwatched(prepared.judged),
            lineage=self._changes.answered,
            nulls=self._nulls.to_json(),
        )

    def unwritten(self, decision: Decision) -> RunReport:
        """The report of a run that leaves the target as it is."""
        state = self.prepared.state
        assert state is not None
        proof = promise(self.facts, decision, state.table_id, state.version).proven(self.run_id, state.version)
        return replace(self.report(decision), coverage=proof.to_json(), finished_at=_now())

    def write(self, decision: Decision) -> RunReport:
        """Check what is to be written, write it, and say what that did."""
        prepared, flow, limits = self.prepared, self.prepared.flow, self.request.limits
        self._check_null_keys()
        rows = prepared.rows.where(_replaced(decision, prepared.window))
        twice = self.request.skip_unchanged or limits.on_empty != "replace"
        with checked(rows, flow, keep=twice) as (kept, expectations):
            if self.request.skip_unchanged:
                decision = self._without_unchanged(decision, kept)
                if decision.mode is Mode.NO_OP:
                    return replace(self.unwritten(decision), expectations=expectations)
                kept = kept.where(_replaced(decision, prepared.window))
            everything = decision.mode is Mode.FULL_REFRESH
            replaced = EVERYTHING if everything else _replaced(decision, prepared.window)
            if is_refused_as_empty(kept, flow, replaced, limits):
                left = self._left_alone(decision, {"reason": str(Reason.EMPTY_RESULT_SKIPPED)})
                return replace(left, expectations=expectations)
            if prepared.state is not None:
                check_deleted(prepared.target, replaced, limits)
            report = replace(
                self.report(decision),
                replaced="TRUE" if everything else replaced,
                expectations=expectations,
                columns_added=prepared.fit.added if self.facts.target_exists else (),
            )
            return self._commit(decision, report, kept)

    def skipped(self, held: Overlapped) -> RunReport:
        """The report of a run that leaves the target to another."""
        return self._left_alone(self.decide(), {"reason": str(Reason.REGION_HELD_SKIPPED), "holders": held.holders})

    def _left_alone(self, decision: Decision, reason: Mapping[str, Any]) -> RunReport:
        """The report of a run that leaves the target as it is, although there is something to do."""
        left = replace(decision, mode=Mode.NO_OP, reasons=(*decision.reasons, reason))
        if (state := self.prepared.state) is None:
            return replace(self.report(left), finished_at=_now())
        fresh = left.fresh
        promised = replace(promise(self.facts, left, state.table_id, state.version), region=fresh, bound=fresh.hull(1))
        proof = promised.proven(self.run_id, state.version)
        return replace(self.report(left), coverage=proof.to_json(), finished_at=_now())

    def _commit(self, decision: Decision, report: RunReport, rows: DataFrame) -> RunReport:
        session, state = self.prepared.session, self._existing()
        report = _with_place(report, state)
        promised = promise(self.facts, decision, state.table_id, state.version)
        metadata = metadata_of(report, promised, self.request.identity)
        self.permit()
        try:
            commit = self._replace(decision, rows, report.token, metadata)
        except (ConcurrentWriteError, SkippedWriteError):
            # A worker that was lost may have left a driver behind, which has the same token.
            by_another = landed_since(session, state.path, state.version, report.token)
            if by_another is None:
                raise
            return adopted(by_another.report, self.run_id)
        late = late_changes(session, state, self.prepared.window.types, commit.version)
        columns = tuple(dict.fromkeys((*(field.name for field in state.schema), *rows.columns)))
        return replace(
            report,
            target_version=commit.version,
            rows_deleted=commit.rows_deleted,
            rows_written=commit.rows_written,
            rows_unchanged=unchanged.count(session, state.path, columns, commit),
            bytes_written=commit.bytes_written,
            coverage=promised.proven(self.run_id, commit.version, late).to_json(),
            finished_at=_now(),
        )

    def _existing(self) -> State:
        """The target as it was when the decision was taken; made, empty, where there was none."""
        prepared = self.prepared
        if prepared.state is not None:
            return prepared.state
        table, name = prepared.flow.table, str(prepared.flow.target)
        prepared.target.create(table, declared_schema(prepared.session, prepared.query.schema, table.columns, name))
        state = prepared.target.state()
        assert state is not None
        return state

    def _replace(self, decision: Decision, rows: DataFrame, token: str, metadata: str) -> Commit:
        target, fit = self.prepared.target, self.prepared.fit
        if fit.redefines:
            return target.refresh(rows, self.prepared.flow.table, token=token, metadata=metadata)
        where = EVERYTHING if decision.mode is Mode.FULL_REFRESH else _replaced(decision, self.prepared.window)
        return target.replace(rows, where, token=token, metadata=metadata, new_columns=bool(fit.added))

    def _without_unchanged(self, decision: Decision, rows: DataFrame) -> Decision:
        """The decision without the part of what it replaces in which the target holds the same rows already."""
        state, region, window = self.prepared.state, self.facts.region, self.prepared.window
        if state is None or decision.mode is Mode.FULL_REFRESH or not region.is_exact:
            return decision
        if self.prepared.fit.added or set(rows.columns) != {field.name for field in state.schema}:
            return decision
        part = region if decision.stale is None else decision.stale
        old = self.prepared.session.read.format("delta").option("versionAsOf", str(state.version)).load(state.path)
        differs = unchanged.difference(rows, old.where(part.to_sql()), part, window.columns)
        if differs is None or differs == part:
            return decision
        mode = Mode.NO_OP if differs.is_empty else Mode.INCREMENTAL
        return replace(decision, mode=mode, stale=differs, fresh=region.subtract(differs))


def _with_place(report: RunReport, state: State) -> RunReport:
    """The report, with where its target is: a table that the run had to make was nowhere when it was planned."""
    information = report.planning_information
    target = {**information["target_table_information"], "table_id": state.table_id, "path": state.path}
    return replace(report, planning_information={**information, "target_table_information": target})


def _replaced(decision: Decision, window: Window) -> str:
    """The condition of the rows that are replaced: the window, or its stale part."""
    return window.sql if decision.stale is None else decision.stale.to_sql()


def _nobody() -> None:
    """The permission of a run that writes nothing."""
    raise AssertionError("a run that is only planned or skipped writes nothing")


def _now() -> str:
    return datetime.now(UTC).isoformat()
