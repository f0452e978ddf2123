"""The hook finds the ledger's database by its connection, and only there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import Connection

from airflow_provider_replacewhere.errors import HistoryError, LeaseLostError, RequestError
from airflow_provider_replacewhere.history.holding import holding
from airflow_provider_replacewhere.history.records import RunStatus
from airflow_provider_replacewhere.history.schema import REVISIONS
from airflow_provider_replacewhere.history.waiting import take
from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.planning.landed import metadata_of
from airflow_provider_replacewhere.planning.promise import Promise
from airflow_provider_replacewhere.planning.report import JobOutcome
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates import Region
from tests.history import failure, report
from tests.leases import claim, granted, numbers, refused
from tests.postgres import PostgresServer

TASK = Identity("sales", "scheduled__2026-03-10", "daily", map_index=-1, try_number=1)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Define a connection in the environment, as JSON."""

    def define(conn_id: str = "history", **fields: Any) -> str:
        value = json.dumps({"conn_type": "replacewhere", **fields})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", value)
        return conn_id

    return define


def postgres_fields(server: PostgresServer, **changes: Any) -> dict[str, Any]:
    url = server.new_database()
    return {
        "host": url.host,
        "port": url.port,
        "login": url.username,
        "password": url.password,
        "schema": url.database,
        "extra": {"backend": "postgresql"},
        **changes,
    }


def test_without_a_connection_the_history_is_a_file_under_airflow_home(history_file: Path) -> None:
    hook = PredicateHistoryHook()
    assert hook.started("hook-1/daily", "daily", "sales.daily", identity=TASK)
    assert hook.record(report("hook-1/daily"), TASK)
    assert hook.failed(failure("hook-2/daily", target="sales.other"), TASK)
    hook.record_outcome(JobOutcome("hook-3", reports=(report("hook-3/daily", target_version=9),)), TASK)
    assert history_file.exists()
    assert hook.url == f"sqlite:///{history_file}"

    other = PredicateHistoryHook()
    assert [run.run_id for run in other.runs()] == ["hook-3/daily", "hook-2/daily", "hook-1/daily"]
    assert [run.run_id for run in other.runs(target="SALES.OTHER", status=RunStatus.FAILED)] == ["hook-2/daily"]
    assert other.last_successful(["sales.daily"])["sales.daily"]["target_version"] == 9
    run = other.run("hook-1/daily")
    assert run is not None
    assert (run.identity, run.report) == (TASK, report("hook-1/daily"))
    assert other.prune(keep_runs=0) == 2
    assert [run.run_id for run in other.runs()] == ["hook-3/daily"]


def test_the_hook_keeps_leases_as_the_store_does(history_file: Path) -> None:
    hook = PredicateHistoryHook()
    lease = granted(hook.acquire([claim("a", identity=TASK)], seconds=600))
    assert refused(PredicateHistoryHook().acquire([claim("b")], queue_seconds=60)) == ["a"]
    assert [each.run_id for each in hook.leases("SALES.daily", waiting=True)] == ["a", "b"]
    hook.withdraw([claim("b")])
    assert hook.narrow(lease, numbers(0, 5)).region == numbers(0, 5)
    with holding(hook, [lease]) as held:
        assert held.permit(lease).state == "committing"
    assert hook.leases() == []
    lease = granted(take(hook, [claim("c")], on_overlap="fail"))
    assert hook.renew(lease, seconds=900).lasts_seconds == 900
    assert hook.break_lease(lease.fence).identity == Identity()
    assert not hook.release(lease)
    with pytest.raises(LeaseLostError):
        hook.permit(lease)


def test_a_lost_history_is_filled_from_a_tables_own_log(history_file: Path, tmp_path: Path) -> None:
    window = numbers(0, 5)
    promised = Promise(window, window, Region(), True, "5f2c", {}, "id-1", decided_at=0, since=0)
    ran = report("hook-1/daily", target="daily", window=window.to_sql(), window_types={"n": "int"})
    schema = {"type": "struct", "fields": [{"name": "n", "type": "integer", "nullable": True, "metadata": {}}]}
    made = {"metaData": {"id": "id-1", "schemaString": json.dumps(schema), "partitionColumns": ["n"]}}
    info = {
        "operation": "WRITE",
        "timestamp": 1773144000000,
        "operationMetrics": {"numOutputRows": "12", "numDeletedRows": "10", "numOutputBytes": "4096"},
        "userMetadata": metadata_of(ran, promised, TASK),
    }
    log = tmp_path / "daily" / "_delta_log"
    log.mkdir(parents=True)
    for version, actions in enumerate(([made], [{"commitInfo": info}])):
        text = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
        (log / f"{version:020d}.json").write_text(text)
    hook = PredicateHistoryHook()

    assert hook.rebuild(["daily"], root=str(tmp_path)) == {"daily": 1}

    (run,) = hook.runs()
    assert (run.run_id, run.status, run.identity) == ("hook-1/daily", RunStatus.SUCCEEDED, TASK)
    assert run.report is not None
    assert (run.report.target_version, run.report.rows_deleted, run.report.rows_written) == (1, 10, 12)
    assert hook.coverage(["daily"])["daily"]["target_version"] == 1
    assert hook.rebuild(["daily"], root=str(tmp_path)) == {"daily": 0}
    (log / f"{2:020d}.json").write_text("{")
    with pytest.raises(RequestError, match=r"The runs of daily cannot be told from its log: version 2"):
        hook.rebuild(["daily"], root=str(tmp_path))


def test_a_connection_that_is_named_and_missing_is_an_error(airflow_home: Path) -> None:
    with pytest.raises(RequestError, match=r"connection 'no_such_history' does not exist[\s\S]*type 'replacewhere'"):
        PredicateHistoryHook("no_such_history").runs()


@pytest.mark.postgres
def test_the_default_connection_is_used_where_there_is_one(connect: Any, postgres_server: PostgresServer) -> None:
    connect("replacewhere_default", **postgres_fields(postgres_server))
    hook = PredicateHistoryHook()
    assert hook.record(report("r"))
    assert [run.run_id for run in PredicateHistoryHook().runs()] == ["r"]
    assert hook.url.startswith("postgresql+psycopg2://history:***@127.0.0.1:")


@pytest.mark.postgres
def test_a_connection_may_be_written_as_a_url(monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database().set(drivername="replacewhere", query={"backend": "postgresql"})
    monkeypatch.setenv("AIRFLOW_CONN_HISTORY", url.render_as_string(hide_password=False))
    hook = PredicateHistoryHook("history")
    hook.migrate()
    assert hook.runs() == []


@pytest.mark.postgres
def test_an_ssl_mode_reaches_the_server(connect: Any, postgres_server: PostgresServer) -> None:
    fields = postgres_fields(postgres_server, extra={"backend": "postgresql", "sslmode": "disable"})
    assert PredicateHistoryHook(connect(**fields)).runs() == []
    fields["extra"]["sslmode"] = "require"
    with pytest.raises(HistoryError, match="SSL"):
        PredicateHistoryHook(connect(**fields)).runs()


def test_a_password_with_any_characters_is_passed_on_and_never_shown(connect: Any) -> None:
    password = "p@ss:w/rd#?%20'"
    fields = {"login": "user", "password": password, "host": "127.0.0.1", "port": 1, "schema": "history"}
    hook = PredicateHistoryHook(connect(**fields, extra={"backend": "postgresql"}))
    assert hook.url == "postgresql+psycopg2://user:***@127.0.0.1:1/history"
    works, message = hook.test_connection()
    assert not works
    assert "127.0.0.1:1/history does not answer" in message
    assert password not in message


def test_sqlite_by_connection_lies_in_our_folder(connect: Any) -> None:
    hook = PredicateHistoryHook(connect(schema="team-a.db", extra={"backend": "sqlite", "sslmode": ""}))
    assert hook.url == f"sqlite:///{os.environ['AIRFLOW_HOME']}/replacewhere/team-a.db"
    assert hook.test_connection() == (
        True,
        f"The history at {hook.url} answers and is empty; its first use makes the tables.",
    )
    hook.migrate()
    assert hook.test_connection() == (
        True,
        f"The history at {hook.url} answers and has schema version {REVISIONS[-1]}.",
    )


@pytest.mark.parametrize(
    "name", ["/etc/history.db", "../history.db", "a/b.db", "..", ".hidden", "file:x?mode=ro", "a\n"]
)
def test_a_connection_cannot_choose_a_path(connect: Any, name: str) -> None:
    with pytest.raises(RequestError, match="not a plain file name"):
        PredicateHistoryHook(connect(schema=name, extra={"backend": "sqlite"})).runs()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"conn_type": "postgres"}, r"has the type 'postgres'[\s\S]*type 'replacewhere'"),
        ({}, r"names the backend None[\s\S]*postgresql, mysql, sqlite"),
        ({"extra": {"backend": "oracle"}}, r"names the backend 'oracle'"),
        ({"extra": {"backend": ["sqlite"]}}, r"names the backend \['sqlite'\]"),
        ({"schema": "../../history.db", "extra": {"backend": "sqlite"}}, "not a plain file name"),
        ({"extra": {"backend": "postgresql"}}, "names no database"),
        ({"extra": {"backend": "sqlite", "path": "/x", "Backend": "x"}}, "has the extras Backend, path"),
        (
            {"schema": "x", "extra": {"backend": "postgresql", "sslmode": "please"}},
            "has sslmode 'please' for postgresql",
        ),
        ({"schema": "x", "extra": {"backend": "mysql", "sslmode": "require"}}, "has sslmode 'require' for mysql"),
    ],
)
def test_a_connection_that_describes_no_history_is_refused(connect: Any, fields: dict[str, Any], message: str) -> None:
    hook = PredicateHistoryHook(connect(**fields))
    with pytest.raises(RequestError, match=message):
        hook.runs()
    assert not hook.test_connection()[0]


def test_a_missing_driver_is_named_with_its_extra(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("MySQLdb", "pymysql"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RequestError, match=r"airflow-provider-replacewhere\[mysql\]"):
        PredicateHistoryHook(connect(schema="x", host="h", extra={"backend": "mysql"})).runs()


def test_airflow_makes_the_hook_of_a_connection(connect: Any) -> None:
    connection = Connection(conn_id=connect(extra={"backend": "sqlite"}), conn_type="replacewhere")
    hook = connection.get_hook()
    assert type(hook) is PredicateHistoryHook
    assert hook.replacewhere_conn_id == "history"


WITHOUT_METADATA = """
import sys
from airflow.providers.common.compat.sdk import BaseHook
before = set(sys.modules)
from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
added = {name.partition(".")[0] for name in set(sys.modules) - before}
assert not added & {"alembic", "pyspark", "sqlalchemy", "sqlglot"}, added
assert "airflow_provider_replacewhere.history" not in sys.modules
hook = PredicateHistoryHook("history")
assert hook.started("r", "f", "t")
print(hook.runs()[0].run_id)
"""


def test_neither_importing_nor_using_the_hook_needs_airflows_own_database(connect: Any, tmp_path: Path) -> None:
    connect(extra={"backend": "sqlite"})
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/no/such/folder/airflow.db",
    }
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_METADATA], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "r", "Airflow's own log lines may come before"
    assert (tmp_path / "replacewhere" / "history.db").exists()


def test_the_view_only_looks(history_file: Path) -> None:
    view = PredicateHistoryHook().view
    assert view.is_empty
    assert not history_file.exists()
    PredicateHistoryHook().record(report("hook-1/daily"), TASK)
    seen = PredicateHistoryHook().view
    assert not seen.is_empty
    assert [target.name for target in seen.targets()] == ["sales.daily"]
    with pytest.raises(AssertionError):
        seen.record(report("hook-2/daily"), TASK)
