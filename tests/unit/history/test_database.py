"""What goes wrong with a database is said so that it can be mended, and never with the password."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import HistoryError, HistorySchemaError, ReplaceWhereError, RequestError
from airflow_provider_replacewhere.history.database import Database, database_time, with_driver
from airflow_provider_replacewhere.history.store import HistoryStore
from tests.disk import full_disk
from tests.history import report
from tests.postgres import PostgresServer

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

PASSWORD = "s3cret-of-mine"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere, so it has to step down to meet a folder that cannot be written."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    HistoryStore(f"sqlite:///{tmp_path}/a/b/history.db").started("r", "f", "t")
    assert (tmp_path / "a" / "b" / "history.db").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        HistoryError, match=r"The folder of the history at sqlite:///.*/file/x/history\.db cannot be made"
    ):
        HistoryStore(f"sqlite:///{tmp_path}/file/x/history.db").runs()


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    file.write_bytes(b"These are my notes.\n" * 1000)
    store = HistoryStore(f"sqlite:///{file}")
    for use in (store.runs, lambda: store.record(report())):
        with pytest.raises(HistorySchemaError, match="is damaged or no SQLite file"):
            use()
    assert file.read_bytes() == b"These are my notes.\n" * 1000


def test_a_read_only_folder_is_an_error_that_says_so(open_folder: Path) -> None:
    HistoryStore(f"sqlite:///{open_folder}/warm.db").migrate()
    open_folder.chmod(0o555)
    with as_nobody(), pytest.raises(HistoryError, match=r"new\.db does not answer: .*\n.*can be written"):
        HistoryStore(f"sqlite:///{open_folder}/new.db").runs()


def test_a_history_that_cannot_be_written_can_still_be_read(open_folder: Path) -> None:
    url = f"sqlite:///{open_folder}/history.db"
    HistoryStore(url).record(report("r"))
    (open_folder / "history.db").chmod(0o444)
    open_folder.chmod(0o555)
    with as_nobody():
        store = HistoryStore(url)
        assert [run.run_id for run in store.runs()] == ["r"]
        with pytest.raises(HistoryError, match="readonly database"):
            store.record(report("s"))


def test_a_server_that_is_not_there_is_a_transient_error() -> None:
    store = HistoryStore(f"postgresql://user:{PASSWORD}@127.0.0.1:1/history")
    with pytest.raises(
        HistoryError, match=r"postgresql\+psycopg2://user:\*\*\*@127.0.0.1:1/history does not answer"
    ) as caught:
        store.runs()
    assert caught.value.retryable
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.postgres
def test_a_wrong_password_is_not_shown(postgres_server: PostgresServer) -> None:
    store = HistoryStore(postgres_server.url.set(password=PASSWORD))
    assert "***" in store.url
    with pytest.raises(HistoryError, match="password authentication failed") as caught:
        store.runs()
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.postgres
def test_a_user_who_may_not_create_tables_is_told(postgres_server: PostgresServer) -> None:
    import psycopg2

    url = postgres_server.new_database()
    with psycopg2.connect(url.set(drivername="postgresql").render_as_string(hide_password=False)) as connection:
        connection.cursor().execute(f"CREATE USER {url.database}_guest PASSWORD 'guest'")
    connection.close()
    store = HistoryStore(url.set(username=f"{url.database}_guest", password="guest"))
    with pytest.raises(
        HistorySchemaError, match=r"permission denied for schema public[\s\S]*may create and use tables"
    ):
        store.migrate()


def test_recorded_values_are_not_shown_in_errors(open_folder: Path) -> None:
    store = HistoryStore(f"sqlite:///{open_folder}/history.db")
    store.migrate()
    (open_folder / "history.db").chmod(0o444)
    open_folder.chmod(0o555)
    recorded = report(predicate="name = 'Ada'")
    with as_nobody(), pytest.raises(HistoryError) as caught:
        store.record(recorded)
    assert "Ada" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (f"no url with {PASSWORD}", "The history's URL cannot be read"),
        (f"postgresql://user:{PASSWORD}@host:port/x", "The history's URL cannot be read"),
        ("oracle://user@host/x", r"names the database 'oracle'[\s\S]*sqlite, postgresql, mysql"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("postgresql+nosuch://user@host/x", "names the driver 'postgresql"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_at_once(url: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        HistoryStore(url)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "modules", "extra"),
    [
        ("mysql://user@host/x", ["MySQLdb", "pymysql"], "mysql"),
        ("postgresql://user@host/x", ["psycopg2", "psycopg"], "postgres"),
    ],
)
def test_a_missing_driver_is_named_with_the_extra_that_brings_it(
    url: str, modules: list[str], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RequestError, match=rf"airflow-provider-replacewhere\[{extra}\]"):
        HistoryStore(url)


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://user@host/x", "postgresql+psycopg2"),
        ("postgres://user@host/x", "postgresql+psycopg2"),
        ("postgresql+psycopg2://user@host/x", "postgresql+psycopg2"),
        ("sqlite:///x.db", "sqlite"),
    ],
)
def test_the_driver_that_is_installed_is_taken(url: str, driver: str) -> None:
    assert with_driver(url).drivername == driver


@pytest.mark.postgres
def test_the_databases_time_is_that_of_the_moment_of_asking(postgres_server: PostgresServer) -> None:
    with Database(postgres_server.new_database()).writing() as connection:
        first = database_time(connection)
        assert first.tzinfo is UTC
        assert database_time(connection) > first, "a transaction may have waited for a lock since it began"


def test_errors_tell_airflow_whether_to_retry() -> None:
    kinds: dict[Callable[..., ReplaceWhereError], bool] = {HistoryError: True, HistorySchemaError: False}
    assert {kind: kind("").retryable for kind in kinds} == kinds


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    store = HistoryStore(f"sqlite:///{tmp_path}/history.db")
    store.record(report("first"))
    with full_disk(), pytest.raises(HistoryError, match="does not answer"):
        store.record(report("second"))
    assert [run.run_id for run in store.runs()] == ["first"]
    store.record(report("second"))
    assert [run.run_id for run in store.runs()] == ["second", "first"]
