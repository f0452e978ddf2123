"""What each verb does. Each prints its result and returns the error of a run that failed, or None."""

from __future__ import annotations

import json
import uuid
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.cli import show
from airflow_provider_replacewhere.cli.session import spark_session
from airflow_provider_replacewhere.errors import ReplaceWhereError, RequestError
from airflow_provider_replacewhere.flows.checks import check
from airflow_provider_replacewhere.flows.model import Pipeline
from airflow_provider_replacewhere.flows.pipeline import load_pipeline
from airflow_provider_replacewhere.planning.bounds import Bounds
from airflow_provider_replacewhere.planning.chunking import Chunking
from airflow_provider_replacewhere.planning.instant import instant_given, zone_named
from airflow_provider_replacewhere.planning.limits import Limits
from airflow_provider_replacewhere.planning.request import Override, RunRequest

if TYPE_CHECKING:
    from airflow_provider_replacewhere.history.store import HistoryStore
    from airflow_provider_replacewhere.history.view import HistoryView
    from airflow_provider_replacewhere.planning.report import JobOutcome

Result = ReplaceWhereError | None


def validate(options: Namespace) -> Result:
    """Read and check pipeline files, and show their flows.

    :raises DefinitionError: they declare no valid pipeline
    """
    pipeline = _load(options)
    check(pipeline)
    if pipeline.python:
        with spark_session(options.conf) as spark:
            # Imported here because it brings pyspark, which SQL files do not need.
            from airflow_provider_replacewhere.spark.pipeline import with_python
            from airflow_provider_replacewhere.spark.python_files import PipelineSpark

            pipeline = with_python(pipeline, PipelineSpark(spark))
    if not pipeline.flows:
        raise RequestError(
            f"{', '.join(document.name for document in pipeline.documents)} declares no flow.",
            hint="Write CREATE STREAMING TABLE name FLOW REPLACE WHERE predicate BY NAME query.",
        )
    _print(show.flows_as_json(pipeline), show.flows_as_text(pipeline), options)
    return None


def plan(options: Namespace) -> Result:
    """Say what :func:`run` would do."""
    return _execute(options, _load(options), replace(_request(options), dry_run=True))


def run(options: Namespace) -> Result:
    """Run the flows of pipeline files."""
    return _execute(options, _load(options), _request(options))


def backfill(options: Namespace) -> Result:
    """Run one flow with another predicate, once.

    :raises RequestError: the range is missing or given in two ways, or it is not clear for which flow it is
    """
    pipeline = _load(options)
    name = options.flow or _only_flow(pipeline)
    request = _request(options, overrides=(Override(name, _override(options)),), select=(name,))
    return _execute(options, pipeline, replace(request, dry_run=options.dry_run, chunking=_chunking(options)))


def history(options: Namespace) -> Result:
    """List runs, or show one.

    :raises RequestError: there is no such run
    """
    store = _history(options)
    if options.run is not None:
        found = store.find(options.run)
        _print(found.to_json(), show.run_as_text(found), options)
        return None
    if options.limit < 1:
        raise RequestError(f"--limit is {options.limit}.", hint="Give a number above 0.")
    runs = store.runs(target=options.target, limit=options.limit)
    _print([each.to_json() for each in runs], show.runs_as_text(runs, store.url), options)
    return None


def coverage(options: Namespace) -> Result:
    """Draw what is known of a table.

    :raises RequestError: the history does not know the table, or knows several and none was named
    """
    # Imported here because no other verb draws.
    from airflow_provider_replacewhere.cli import draw

    found = draw.coverage_of(_view(options), options.target, options.column, options.unit, options.first, options.end)
    _print(found, draw.coverage_as_text(found), options)
    return None


def undo(options: Namespace) -> Result:
    """Put back what one run replaced."""
    with spark_session(options.conf) as spark:
        # Imported here because it brings pyspark.
        from airflow_provider_replacewhere.local import LocalSession

        session = LocalSession(spark, root=options.root, history=options.history, **_overlap(options))
        outcome, request = session.execute_undo(options.run_to_undo, force=options.force, dry_run=options.dry_run)
    _print(json.loads(outcome.to_json()), show.outcome_as_text(outcome, request), options)
    return _failure(outcome)


def rebuild(options: Namespace) -> Result:
    """Record what tables' logs tell of runs that the history does not know.

    :raises RequestError: there is no such table, or its log cannot be read
    """
    with spark_session(options.conf) as spark:
        # Imported here because it brings pyspark.
        from airflow_provider_replacewhere.local import LocalSession

        session = LocalSession(spark, root=options.root, history=options.history)
        found = session.rebuild(options.tables)
    _print(show.rebuilt_as_json(found), show.rebuilt_as_text(found), options)
    return None


def leases(options: Namespace) -> Result:
    """List leases, or break one.

    :raises RequestError: the lease to break is not there, or its run may commit
    """
    store = _history(options)
    if options.break_lease is not None:
        broken = store.break_lease(options.break_lease)
        _print(broken.to_json(), show.broken_as_text(broken), options)
        return None
    found = store.leases(options.target, waiting=True)
    _print([each.to_json() for each in found], show.leases_as_text(found, store.url), options)
    return None


def _load(options: Namespace) -> Pipeline:
    zone_named(options.time_zone)
    return load_pipeline(options.files, time_zone=options.time_zone, null_keys=options.null_keys or "fail")


def _request(
    options: Namespace, *, overrides: tuple[Override, ...] = (), select: tuple[str, ...] | None = None
) -> RunRequest:
    return RunRequest(
        run_id=f"command-{uuid.uuid4()}",
        as_of=instant_given(options.as_of, options.time_zone) if options.as_of else datetime.now(UTC),
        time_zone=options.time_zone,
        overrides=overrides,
        select=tuple(options.select) if select is None else select,
        full_refresh=tuple(getattr(options, "full_refresh", ())),
        allow_full_refresh=getattr(options, "allow_full_refresh", False),
        null_keys=options.null_keys,
        root=options.root,
        refresh_policy=options.policy,
        only_stale=getattr(options, "only_stale", False),
        skip_unchanged=getattr(options, "skip_unchanged", False),
        limits=_limits(options),
    )


def _overlap(options: Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("on_overlap", "wait_seconds") if hasattr(options, name)}


def _chunking(options: Namespace) -> Chunking | None:
    if options.chunk is None:
        return None
    return Chunking(
        options.chunk, options.chunk_size, options.chunk_column, options.chunk_order, options.on_chunk_failure
    )


def _limits(options: Namespace) -> Limits:
    given = {limit.name: getattr(options, limit.name, None) for limit in fields(Limits)}
    return Limits(**{name: value for name, value in given.items() if value is not None})


def _execute(options: Namespace, pipeline: Pipeline, request: RunRequest) -> Result:
    with spark_session(options.conf) as spark:
        # Imported here because it brings pyspark.
        from airflow_provider_replacewhere.local import LocalSession

        session = LocalSession(spark, root=options.root, history=options.history, **_overlap(options))
        outcome = session.execute(pipeline, request)
    _print(json.loads(outcome.to_json()), show.outcome_as_text(outcome, request), options)
    return _failure(outcome)


def _failure(outcome: JobOutcome) -> Result:
    try:
        outcome.raise_for_failure()
    except ReplaceWhereError as error:
        return error
    return None


def _override(options: Namespace) -> str:
    bounds = Bounds(options.column, options.start, options.end, column_type=options.column_type)
    has_bounds = any(value is not None for value in (options.column, options.start, options.end))
    if (options.where is None) is not has_bounds:
        raise RequestError(
            "The range is given twice." if has_bounds else "The backfill has no range.",
            hint="Give --where PREDICATE, or --column NAME with --start and --end.",
        )
    return str(options.where) if options.where is not None else bounds.predicate()


def _only_flow(pipeline: Pipeline) -> str:
    if len(pipeline.flows) == 1 and not pipeline.python:
        return pipeline.flows[0].name
    known = ", ".join(flow.name for flow in pipeline.flows)
    raise RequestError(
        "It is not said which flow the backfill is for.",
        hint=f"Give --flow NAME{f'; the flows are {known}' if known else ''}.",
    )


def _history(options: Namespace) -> HistoryStore:
    # Imported here because it brings SQLAlchemy, which validate does not need.
    from airflow_provider_replacewhere.history.place import beside
    from airflow_provider_replacewhere.history.store import HistoryStore

    given = options.history
    return given if isinstance(given, HistoryStore) else HistoryStore(given or beside(options.root))


def _view(options: Namespace) -> HistoryView:
    # Imported here because it brings SQLAlchemy, which validate does not need.
    from airflow_provider_replacewhere.history.place import beside
    from airflow_provider_replacewhere.history.view import HistoryView

    given = options.history
    return given if isinstance(given, HistoryView) else HistoryView(given or beside(options.root))


def _print(as_json: object, as_text: Iterable[str], options: Namespace) -> None:
    print(json.dumps(as_json, indent=1) if options.format == "json" else "\n".join(as_text))
