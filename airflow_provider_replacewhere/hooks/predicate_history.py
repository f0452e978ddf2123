"""The one door from Airflow to the ledger."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_provider_replacewhere.errors import ReplaceWhereError, RequestError
from airflow_provider_replacewhere.get_provider_info import (
    CONNECTION_FIELDS,
    CONNECTION_TYPE,
    HIDDEN_FIELDS,
    HOOK_NAME,
    PLACEHOLDERS,
    RELABELING,
)
from airflow_provider_replacewhere.planning.leasing import COMMIT_SECONDS, LEASE_SECONDS
from airflow_provider_replacewhere.planning.request import Identity

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection
    from sqlalchemy.engine import URL

    from airflow_provider_replacewhere.history.leases import Claim, Conflict, Granted, Lease
    from airflow_provider_replacewhere.history.records import Run, RunStatus
    from airflow_provider_replacewhere.history.store import HistoryStore
    from airflow_provider_replacewhere.history.view import HistoryView
    from airflow_provider_replacewhere.planning.report import Failure, JobOutcome, RunReport
    from airflow_provider_replacewhere.predicates.region import Region

DEFAULT_FILE = "history.db"

_BACKENDS: tuple[str, ...] = tuple(CONNECTION_FIELDS["backend"]["schema"]["enum"])
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_FILE_NAME = re.compile(r"\w[\w.-]*")


class PredicateHistoryHook(BaseHook):
    """Records runs in the ledger and reads them back.

    The ledger is a database of its own; Airflow's is never touched. Without a connection ``replacewhere_default`` it is
    the SQLite file ``AIRFLOW_HOME/replacewhere/history.db``, which only processes on one machine can share.

    Every method that reaches the database raises :class:`~..errors.HistoryError` where it does not answer, and
    :class:`~..errors.HistorySchemaError` where its schema cannot be used.

    :param replacewhere_conn_id: a connection of type ``replacewhere``
    """

    conn_name_attr = "replacewhere_conn_id"
    default_conn_name = "replacewhere_default"
    conn_type = CONNECTION_TYPE
    hook_name = HOOK_NAME

    def __init__(self, replacewhere_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.replacewhere_conn_id = replacewhere_conn_id

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """The form's own fields, for Airflow 2.11 to 3.1."""
        # Imported here because only the web server has these packages.
        from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
        from flask_babel import lazy_gettext
        from wtforms import StringField
        from wtforms.validators import Optional, any_of

        return {
            name: StringField(
                lazy_gettext(field["label"]),
                widget=BS3TextFieldWidget(),
                # Optional first: forms of other connection types leave the field empty.
                validators=[Optional(), any_of(field["schema"]["enum"])] if "enum" in field["schema"] else [],
                description=field["description"],
                default=field["schema"].get("default"),
            )
            for name, field in CONNECTION_FIELDS.items()
        }

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """What the form does with the standard fields, for Airflow 2.11 to 3.1."""
        return {"hidden_fields": HIDDEN_FIELDS, "relabeling": RELABELING, "placeholders": PLACEHOLDERS}

    @cached_property
    def store(self) -> HistoryStore:
        """The ledger.

        :raises RequestError: the connection does not exist or does not describe a database
        """
        # Imported here because it brings SQLAlchemy, which no Dag file needs.
        from airflow_provider_replacewhere.history.store import HistoryStore

        return HistoryStore(self._database_url())

    @property
    def url(self) -> str:
        """Where the ledger is, without the password."""
        return self.store.url

    @cached_property
    def view(self) -> HistoryView:
        """The ledger for people who look at it: it is never written to, not even to migrate its schema.

        :raises RequestError: the connection does not exist or does not describe a database
        """
        # Imported here because it brings SQLAlchemy, which no Dag file needs.
        from airflow_provider_replacewhere.history.view import HistoryView

        return HistoryView(self._database_url())

    def get_conn(self) -> HistoryStore:
        """The ledger."""
        return self.store

    def test_connection(self) -> tuple[bool, str]:
        """Whether the ledger can be used, and words about it. Changes nothing in the database."""
        try:
            version = self.store.schema_version()
        except ReplaceWhereError as error:
            return False, str(error)
        state = f"has schema version {version}" if version else "is empty; its first use makes the tables"
        return True, f"The history at {self.url} answers and {state}."

    def migrate(self) -> None:
        """Bring the schema to the newest version. Not needed before other methods: each does so by itself."""
        self.store.migrate()

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
        """Record that a run has begun; see :meth:`HistoryStore.started`."""
        return self.store.started(
            run_id,
            flow,
            target,
            as_of=as_of,
            predicate=predicate,
            override=override,
            window=window,
            definition_hash=definition_hash,
            token=token,
            identity=identity,
        )

    def record(self, report: RunReport, identity: Identity = Identity()) -> bool:
        """Record that a run ended well; see :meth:`HistoryStore.record`."""
        return self.store.record(report, identity)

    def failed(self, failure: Failure, identity: Identity = Identity()) -> bool:
        """Record that a run failed; see :meth:`HistoryStore.failed`."""
        return self.store.failed(failure, identity)

    def record_outcome(self, outcome: JobOutcome, identity: Identity = Identity()) -> None:
        """Record all that one Spark application did; see :meth:`HistoryStore.record_outcome`."""
        self.store.record_outcome(outcome, identity)

    def end_lost(self, target: str, identity: Identity = Identity()) -> bool:
        """Record as lost what nobody will end any more; see :meth:`HistoryStore.end_lost`."""
        return self.store.end_lost(target, identity)

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
        """Runs, the newest first; see :meth:`HistoryStore.runs`."""
        return self.store.runs(target, flow, status, limit, before, mode, text)

    def run(self, run_id: str) -> Run | None:
        """The run of this id, or None; see :meth:`HistoryStore.run`."""
        return self.store.run(run_id)

    def last_successful(self, targets: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """By target, the last successful run's report as JSON; see :meth:`HistoryStore.last_successful`."""
        return self.store.last_successful(targets)

    def report_of(self, run: str | int) -> RunReport:
        """The report of one run that ended well; see :meth:`HistoryStore.report_of`."""
        return self.store.report_of(run)

    def recent_targets(self, limit: int) -> list[str]:
        """See :meth:`~..history.store.HistoryStore.recent_targets`."""
        return self.store.recent_targets(limit)

    def reports_of(self, identity: Identity, targets: Iterable[str]) -> list[dict[str, Any]]:
        """See :meth:`~..history.store.HistoryStore.reports_of`."""
        return self.store.reports_of(identity, targets)

    def coverage(self, targets: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
        """By target, what its runs prove of it; see :meth:`~..history.store.HistoryStore.coverage`."""
        return self.store.coverage(targets)

    def rebuild(self, tables: Iterable[str], *, root: str | None = None) -> dict[str, int]:
        """Record what the tables' own logs tell of runs that the ledger does not know, as after it was lost.

        Reads the logs from here, without Spark: tables by path, or by name below a root. For those of Spark's catalog
        there is ``replacewhere rebuild``.

        :param tables: as their flows name them
        :param root: folder of the directory catalog
        :return: by table, how many runs were found
        :raises RequestError: a log cannot be read; nothing is recorded then
        """
        # Imported here because they bring the region algebra, which no Dag file needs.
        from airflow_provider_replacewhere.flows.model import TableName
        from airflow_provider_replacewhere.operators.lake import WorkerLake
        from airflow_provider_replacewhere.planning.coverage import Coverage
        from airflow_provider_replacewhere.planning.rebuild import rebuilt
        from airflow_provider_replacewhere.planning.report import Found, JobOutcome
        from airflow_provider_replacewhere.planning.table_log import InDoubtError

        lake, found = WorkerLake(root, is_remote=False), {}
        for table in tables:
            name = TableName.parse(table)
            known = self.coverage([table]).get(table)
            try:
                log = lake.log(lake.folder(name), str(name))
                found[table] = rebuilt(log, Coverage.from_json(known) if known else Coverage()).runs
            except InDoubtError as doubt:
                raise RequestError(f"The runs of {table} cannot be told from its log: {doubt}.") from doubt
        runs = tuple(Found(run.report, run.identity) for each in found.values() for run in each)
        self.record_outcome(JobOutcome("rebuild", found=runs))
        return {table: len(runs) for table, runs in found.items()}

    def prune(self, *, keep_days: float | None = None, keep_runs: int | None = None) -> int:
        """Remove old runs; see :meth:`HistoryStore.prune`."""
        return self.store.prune(keep_days=keep_days, keep_runs=keep_runs)

    def acquire(
        self, claims: Iterable[Claim], *, seconds: float = LEASE_SECONDS, queue_seconds: float = 0.0
    ) -> Granted | Conflict:
        """Take leases on all the claimed regions, or on none; see :meth:`HistoryStore.acquire`."""
        return self.store.acquire(claims, seconds=seconds, queue_seconds=queue_seconds)

    def resume(self, target: str, run_id: str, *, seconds: float = LEASE_SECONDS) -> Lease | None:
        """Take up the lease of a run whose worker was lost; see :meth:`HistoryStore.resume`."""
        return self.store.resume(target, run_id, seconds=seconds)

    def withdraw(self, claims: Iterable[Claim]) -> None:
        """Give up places among those who wait; see :meth:`HistoryStore.withdraw`."""
        self.store.withdraw(claims)

    def renew(self, lease: Lease, *, seconds: float = LEASE_SECONDS) -> Lease:
        """The heartbeat; see :meth:`HistoryStore.renew`."""
        return self.store.renew(lease, seconds=seconds)

    def permit(self, lease: Lease, *, seconds: float = COMMIT_SECONDS) -> Lease:
        """Permission to commit; see :meth:`HistoryStore.permit`."""
        return self.store.permit(lease, seconds=seconds)

    def narrow(self, lease: Lease, region: Region) -> Lease:
        """Give up all of a lease but this region; see :meth:`HistoryStore.narrow`."""
        return self.store.narrow(lease, region)

    def release(self, lease: Lease) -> bool:
        """Free a lease; see :meth:`HistoryStore.release`."""
        return self.store.release(lease)

    def break_lease(self, fence: int) -> Lease:
        """Free a lease of somebody else; see :meth:`HistoryStore.break_lease`."""
        return self.store.break_lease(fence)

    def leases(self, target: str | None = None, *, waiting: bool = False) -> list[Lease]:
        """The leases that are there; see :meth:`HistoryStore.leases`."""
        return self.store.leases(target, waiting=waiting)

    def _database_url(self) -> URL:
        try:
            connection = self.get_connection(self.replacewhere_conn_id)
        except AirflowNotFoundException as error:
            if self.replacewhere_conn_id == self.default_conn_name:
                return _sqlite_url(DEFAULT_FILE)
            raise RequestError(
                f"The history's connection {self.replacewhere_conn_id!r} does not exist.",
                hint=f"Create a connection of type {self.conn_type!r} with this id, or leave the id out to keep the "
                "history in a file under AIRFLOW_HOME.",
            ) from error
        return _connection_url(connection)


def _connection_url(connection: Connection) -> URL:
    """:raises RequestError: the connection does not describe a database"""
    # Imported here because no Dag file needs SQLAlchemy.
    from sqlalchemy.engine import URL

    name = f"The history's connection {connection.conn_id!r}"
    if connection.conn_type != CONNECTION_TYPE:
        raise RequestError(
            f"{name} has the type {connection.conn_type!r}.", hint=f"Make one of type {CONNECTION_TYPE!r}."
        )
    extras = connection.extra_dejson
    if not isinstance(extras, dict):
        raise RequestError(
            f"{name} has extras that are no JSON object.", hint=f"Valid are {', '.join(CONNECTION_FIELDS)}."
        )
    unknown = sorted(set(extras) - set(CONNECTION_FIELDS))
    if unknown:
        raise RequestError(
            f"{name} has the extras {', '.join(unknown)}.", hint=f"Valid are {', '.join(CONNECTION_FIELDS)}."
        )
    backend = extras.get("backend")
    if backend not in _BACKENDS:
        raise RequestError(f"{name} names the backend {backend!r}.", hint=f"Valid are {', '.join(_BACKENDS)}.")
    if backend == "sqlite":
        return _sqlite_url(connection.schema or DEFAULT_FILE)
    if not connection.schema:
        raise RequestError(f"{name} names no database.", hint="Fill in the field Database (schema).")
    return URL.create(
        backend,
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host or None,
        port=connection.port,
        database=connection.schema,
        query=_query(name, backend, extras.get("sslmode")),
    )


def _query(name: str, backend: str, ssl_mode: str | None) -> dict[str, str]:
    if not ssl_mode:
        return {}
    if backend != "postgresql" or ssl_mode not in _SSL_MODES:
        raise RequestError(
            f"{name} has sslmode {ssl_mode!r} for {backend}.",
            hint=f"Only postgresql has one; valid are {', '.join(_SSL_MODES)}.",
        )
    return {"sslmode": ssl_mode}


def _sqlite_url(file_name: str) -> URL:
    """A file in our folder under AIRFLOW_HOME: whoever may edit connections may not thereby choose paths.

    :raises RequestError: the name is a path
    """
    # Imported here because no Dag file needs SQLAlchemy.
    from sqlalchemy.engine import URL

    if not _FILE_NAME.fullmatch(file_name):
        raise RequestError(
            f"The history's SQLite file is {file_name!r}, which is not a plain file name.",
            hint="Give a name such as history.db; the file lies below AIRFLOW_HOME/replacewhere.",
        )
    # As Airflow itself finds its home; its function for it is no public interface.
    home = Path(os.path.expandvars(os.environ.get("AIRFLOW_HOME", "~/airflow"))).expanduser()
    return URL.create("sqlite", database=str(home / "replacewhere" / file_name))
