"""The ledger: runs are appended, never changed, and read back as folds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history import lease_table
from airflow_provider_replacewhere.history.appending import append
from airflow_provider_replacewhere.history.base import worker_time
from airflow_provider_replacewhere.history.counter import lock_counter
from airflow_provider_replacewhere.history.coverage import KEEP_AFTER, keep_coverage, read_coverage
from airflow_provider_replacewhere.history.lease_store import LeaseStore
from airflow_provider_replacewhere.history.listing import page_of
from airflow_provider_replacewhere.history.lost import MOST_LOOKED_AT, given_up
from airflow_provider_replacewhere.history.records import Event, EventKind, Run, RunStatus, fold, unreadable_row
from airflow_provider_replacewhere.history.retention import Outline, forgettable
from airflow_provider_replacewhere.history.rows import digest, event_of, read_document, target_digest
from airflow_provider_replacewhere.history.tables import events
from airflow_provider_replacewhere.planning.report import Failure, JobOutcome, RunReport
from airflow_provider_replacewhere.planning.request import Identity

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

# Databases limit the number of values in one statement.
_DELETE_AT_ONCE = 500


class HistoryStore(LeaseStore):
    """The ledger in a database: SQLite, PostgreSQL or MySQL.

    Opening it costs nothing. Its first use checks the schema and migrates it if need be. Every method raises
    :class:`~..errors.HistoryError` where the database does not answer, and :class:`~..errors.HistorySchemaError` where
    its schema cannot be used.

    :param url: SQLAlchemy URL, such as ``sqlite:////data/history.db`` or ``postgresql://user:password@host/database``
    :param clock: what time it is, UTC, for leases; the database's own clock by default
    :raises RequestError: the URL is none, names a database that is not supported, or its driver is not installed
    """

    def started(
        self,
        run_id: str,
        flow: str,
        target: str,
        *,
        as_of: datetime | None = None,
        predicate: str | None = None,
        override: bool | None = None,
        window: str | None = None,
        definition_hash: str | None = None,
        token: str | None = None,
        identity: Identity = Identity(),
    ) -> bool:
        """Record that a run has begun.

        :param run_id: the run's own id, ``<application>/<flow>``; every try of a task needs its own
        :param flow: the flow's name
        :param target: the target as the flow spells it
        :param as_of: the instant that the run's time functions see; aware
        :param predicate: the predicate as written
        :param override: whether that is an override
        :param window: the predicate with the clock put in, as SQL
        :param definition_hash: of the flow, where it is known already
        :param token: of the run, likewise
        :param identity: the task that runs it
        :return: False where it was recorded before
        """
        return self.append(
            Event(
                run_id=run_id,
                kind=EventKind.STARTED,
                flow=flow,
                target=target,
                as_of=as_of.isoformat() if as_of else None,
                predicate=predicate,
                override=override,
                window=window,
                definition_hash=definition_hash,
                token=token,
                identity=identity,
            )
        )

    def record(self, report: RunReport, identity: Identity = Identity()) -> bool:
        """Record that a run ended well, a NO_OP included. A dry run did nothing, so nothing is recorded.

        :param report: what the run did
        :param identity: the task that ran it
        :return: False where nothing was added: the same report was recorded before, or it is a dry run's
        :raises RequestError: the run is recorded with another report
        """
        return not report.dry_run and self.append(Event.of_report(report, identity))

    def failed(self, failure: Failure, identity: Identity = Identity()) -> bool:
        """Record that a run failed.

        :param failure: the run and its error
        :param identity: the task that ran it
        :return: False where its failure was recorded before
        """
        return self.append(Event.of_failure(failure, identity))

    def record_outcome(self, outcome: JobOutcome, identity: Identity = Identity()) -> None:
        """Record all that one Spark application did and found, in one transaction. Dry runs' reports are passed over.

        :param outcome: what the application left behind
        :param identity: the task that ran it
        :raises RequestError: one of the runs is recorded with another report
        """
        self.append(
            *(Event.of_report(found.report, found.identity) for found in outcome.found),
            *(Event.of_report(report, identity) for report in outcome.reports if not report.dry_run),
            *(Event.of_failure(failure, identity) for failure in outcome.failures),
        )

    def append(self, *new: Event) -> bool:
        """Add events in one transaction; an event that is there already is passed over.

        :return: whether any was added
        :raises RequestError: a run is recorded with another report; then none is added
        """
        self._prepare()
        with self._database.writing() as connection:
            return append(connection, new)

    def end_lost(self, target: str, identity: Identity = Identity()) -> bool:
        """Record as lost those of a target's last runs that nobody will end any more; see :mod:`.lost`.

        :param target: the target, in any letter case
        :param identity: the task that is about to run
        :return: whether there were any
        """
        self._prepare()
        with self._database.writing() as connection:
            lock_counter(connection)
            now = self._time(connection)
            leased = {lease.run_id for lease in lease_table.live(connection, now, target, waiting=True)}
            open_runs = _open_runs(connection, target_digest(target))
            found = [given_up(run, identity, now, has_lease=run.run_id in leased) for run in open_runs]
            return append(connection, [event for event in found if event is not None])

    def runs(
        self,
        target: str | None = None,
        flow: str | None = None,
        status: RunStatus | str | None = None,
        limit: int | None = 100,
        before: int | None = None,
        mode: str | None = None,
        text: str | None = None,
    ) -> list[Run]:
        """Runs, the newest first.

        :param target: only those of this target, in any letter case
        :param flow: only those of this flow
        :param status: only those of this status
        :param limit: at most so many; None: all
        :param before: only runs with a smaller ``sequence``: the next page is ``before=page[-1].sequence``
        :param mode: only those that ended well in this mode
        :param text: only those with this text in their flow, target, task, condition or error, in any letter case
        :raises RequestError: the status is none
        """
        return self._fold_of(page_of(target, flow, status, mode, text, before, limit))

    def run(self, run_id: str) -> Run | None:
        """The run of this id, or None.

        :param run_id: the run's id, ``<application>/<flow>``
        """
        found = self._fold_of(sa.select(events.c.run_key).where(events.c.run_key == digest(run_id)).distinct())
        return found[0] if found else None

    def find(self, run: str | int) -> Run:
        """One run.

        :param run: its id, or its number: the place of its first event
        :raises RequestError: there is no such run
        """
        if isinstance(run, str) and not run.isdecimal():
            found = self.run(run)
        else:
            page = self.runs(before=int(run) + 1, limit=1)
            found = page[0] if page and page[0].sequence == int(run) else None
        if found is None:
            hint = "List them with `replacewhere history`."
            raise RequestError(f"The history at {self.url} has no run {run}.", hint=hint)
        return found

    def report_of(self, run: str | int) -> RunReport:
        """The report of a run that ended well.

        :param run: its id, or its number; see :meth:`find`
        :raises RequestError: there is no such run, or it did not end well
        """
        found = self.find(run)
        if found.report is None:
            raise RequestError(f"The run {run} of {found.flow} is {found.status}: it has no report.")
        return found.report

    def last_successful(self, targets: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """By target as spelled in the argument, the last successful run's report as JSON.

        Targets that no run has filled yet are left out, and those of whose last report the ledger holds no readable
        one: what is not known is recomputed.

        :param targets: None for all there are, each as its last run spelled it
        """
        succeeded = events.c.kind == EventKind.SUCCEEDED.value
        self._prepare()
        with self._database.reading() as connection:
            if targets is None:
                keys = connection.execute(sa.select(events.c.target_key).where(succeeded).distinct()).scalars().all()
                every = [_last_report(connection, key) for key in keys]
                return {report["target"]: report for report in every if report}
            found = {target: _last_report(connection, target_digest(target)) for target in targets}
        return {target: report for target, report in found.items() if report}

    def recent_targets(self, limit: int) -> list[str]:
        """The targets, as spelled, of the newest successful runs: of their rows nothing else is read.

        :param limit: of so many runs
        """
        self._prepare()
        query = (
            sa.select(events.c.target)
            .where(events.c.kind == EventKind.SUCCEEDED.value)
            .order_by(events.c.sequence.desc())
            .limit(limit)
        )
        with self._database.reading() as connection:
            return sorted(set(connection.execute(query).scalars()))

    def reports_of(self, identity: Identity, targets: Iterable[str]) -> list[dict[str, Any]]:
        """The reports, as JSON, of what one task of one Dag run did to some targets in all its tries, newest first.

        :param identity: the task; its number of the try is not looked at
        :param targets: the targets, in any letter case
        """
        self._prepare()
        of_task = [
            column == value if value is not None else column.is_(None)
            for column, value in (
                (events.c.dag_id, identity.dag_id),
                (events.c.dag_run_id, identity.dag_run_id),
                (events.c.task_id, identity.task_id),
                (events.c.map_index, identity.map_index),
            )
        ]
        query = (
            sa.select(events.c.report)
            .where(
                events.c.target_key.in_([target_digest(target) for target in targets]),
                events.c.kind == EventKind.SUCCEEDED.value,
                *of_task,
            )
            .order_by(events.c.sequence.desc())
        )
        with self._database.reading() as connection:
            found = (_whole(report) for report in connection.execute(query).scalars())
            return [report for report in found if report is not None]

    def coverage(self, targets: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """By target, what its runs prove of it, as :class:`~..planning.coverage.Coverage` JSON.

        :param targets: None for all there are, each as its last run spelled it
        """
        spelled = list(self.last_successful(targets))
        self._prepare()
        found, long = {}, {}
        with self._database.reading() as connection:
            for target in spelled:
                known, folded = read_coverage(connection, target_digest(target))
                found[target] = known.to_json()
                if folded > KEEP_AFTER:
                    long[target_digest(target)] = known
        if long:
            with self._database.writing() as connection:
                lock_counter(connection)
                for key, known in long.items():
                    keep_coverage(connection, key, known)
        return found

    def prune(self, *, keep_days: float | None = None, keep_runs: int | None = None) -> int:
        """Remove old runs for good; with both limits, those that neither keeps.

        Runs that have not ended and each target's last success are kept whatever the limits.

        :param keep_days: keep runs whose last event is at most so many days old
        :param keep_runs: keep so many runs of each target, the newest
        :return: how many runs were removed
        :raises RequestError: neither limit is given, or one is negative
        """
        limits = [limit for limit in (keep_days, keep_runs) if limit is not None]
        if not limits or min(limits) < 0:
            raise RequestError(
                f"The history was to be pruned with keep_days={keep_days} and keep_runs={keep_runs}.",
                hint="Give at least one of them, and no negative number.",
            )
        self._prepare()
        with self._database.writing() as connection:
            lock_counter(connection)
            for (key,) in connection.execute(sa.select(events.c.target_key).distinct()).fetchall():
                # What the forgotten runs prove is not forgotten.
                keep_coverage(connection, key, read_coverage(connection, key)[0])
            keys = sorted(forgettable(_outlines(connection), worker_time(), keep_days=keep_days, keep_runs=keep_runs))
            for start in range(0, len(keys), _DELETE_AT_ONCE):
                some = keys[start : start + _DELETE_AT_ONCE]
                connection.execute(events.delete().where(events.c.run_key.in_(some)))
        return len(keys)

    def _fold_of(self, run_keys: sa.Select[Any]) -> list[Run]:
        page = run_keys.subquery()
        self._prepare()
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(events).join(page, events.c.run_key == page.c.run_key)).mappings()
            return fold([event_of(row) for row in rows])


def _outlines(connection: Connection) -> list[Outline]:
    ends = (EventKind.SUCCEEDED.value, EventKind.FAILED.value, EventKind.LOST.value)
    succeeded_as = sa.case((events.c.kind == EventKind.SUCCEEDED.value, events.c.sequence))
    query = sa.select(
        events.c.run_key,
        sa.func.min(events.c.target_key),
        sa.func.min(events.c.sequence),
        sa.func.max(events.c.recorded_at),
        sa.func.max(succeeded_as),
        sa.func.max(sa.case((events.c.kind.in_(ends), 1), else_=0)),
    ).group_by(events.c.run_key)
    return [
        Outline(key, target, sequence, _instant(sequence, last_at), success, bool(ended))
        for key, target, sequence, last_at, success, ended in connection.execute(query)
    ]


def _instant(sequence: int, text: str) -> datetime:
    """:raises HistoryRowError: it is none"""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found
    except (TypeError, ValueError):
        pass
    raise unreadable_row(sequence, "that begins there", f"recorded_at of one of its rows is {text!r}")


def _last_report(connection: Connection, key: str) -> dict[str, Any] | None:
    # One look-up in the index for each target: reading along the whole history would take longer with every run.
    query = (
        sa.select(events.c.report)
        .where(events.c.target_key == key, events.c.kind == EventKind.SUCCEEDED.value)
        .order_by(events.c.sequence.desc())
        .limit(1)
    )
    return _whole(connection.execute(query).scalar())


def _whole(text: str | None) -> dict[str, Any] | None:
    """A report as JSON; None where the row was changed by hand so that it is none: then nothing is known of its run."""
    report, _ = read_document(text)
    try:
        if report is not None:
            RunReport.from_json(report)
        return report
    except RequestError:
        return None


def _open_runs(connection: Connection, key: str) -> list[Event]:
    """The starts of a target's newest runs that have no end."""
    newest = (
        sa.select(events)
        .where(events.c.target_key == key, events.c.kind == EventKind.STARTED.value)
        .order_by(events.c.sequence.desc())
        .limit(MOST_LOOKED_AT)
        .subquery()
    )
    has_more = sa.exists().where(events.c.run_key == newest.c.run_key, events.c.kind != EventKind.STARTED.value)
    return [event_of(row) for row in connection.execute(sa.select(newest).where(~has_more)).mappings()]
