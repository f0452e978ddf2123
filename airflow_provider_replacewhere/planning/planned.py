"""A run's report as it stands when the run is decided and nothing is written yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow_provider_replacewhere.flows.model import Flow
from airflow_provider_replacewhere.planning.decide import Decision, Facts, planning_information
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest


def planned(
    request: RunRequest,
    flow: Flow,
    started: str,
    predicate: str,
    facts: Facts,
    decision: Decision,
    sources: Sequence[Mapping[str, Any]],
    target: Mapping[str, Any],
) -> RunReport:
    """The report of a run that has been decided.

    :param started: when the run began, ISO 8601 in UTC
    :param predicate: of the flow or of the override, over the target's columns
    :param sources: of each source ``table_name``, ``version``, ``path`` and ``table_id``
    :param target: ``table_id`` and ``path`` of a target that exists
    """
    run_id = f"{request.run_id}/{flow.name}"
    known = {
        "table_name": str(flow.target),
        "version": facts.target_version,
        "exists": facts.target_exists,
        "commits_of_others": None
        if facts.foreign is None
        else [{"version": change.version, "operation": change.operation} for change in facts.foreign],
    }
    return RunReport(
        flow=flow.name,
        target=str(flow.target),
        run_id=run_id,
        mode=decision.mode,
        reasons=decision.reasons,
        window=facts.window,
        # What it would replace, until it has: a NO_OP replaces nothing.
        replaced=_replaces(decision, facts.window) if request.dry_run else None,
        as_of=request.as_of.astimezone(UTC).isoformat(),
        time_zone=flow.time_zone,
        predicate=predicate,
        override=facts.override is not None,
        definition_hash=facts.definition_hash,
        source_versions={name: pin.version if pin else None for name, pin in facts.pins.items()},
        target_version=facts.target_version,
        rows_deleted=None,
        rows_written=None,
        rows_unchanged=None,
        bytes_written=None,
        planning_information=planning_information(decision, sources, {**known, **target}),
        token=request.token(flow.name, facts.window, facts.definition_hash),
        started_at=started,
        finished_at=datetime.now(UTC).isoformat(),
        evaluated=facts.evaluated,
        fresh=None if decision.fresh.is_empty else decision.fresh.to_sql(),
        dry_run=request.dry_run,
        fingerprint=request.fingerprint,
    )


def _replaces(decision: Decision, window: str) -> str | None:
    if decision.mode is Mode.NO_OP:
        return None
    if decision.mode is Mode.FULL_REFRESH:
        return "TRUE"
    return window if decision.stale is None else decision.stale.to_sql()
