"""A PostgreSQL server of our own, as plain processes: started once per test session, with a new database per test."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool


class NoServerProgramsError(Exception):
    """No PostgreSQL server programs are installed on this machine."""


@dataclass(frozen=True)
class PostgresServer:
    """A server that is running.

    :param url: of its own first database, with the password
    :param control: pg_ctl with the server's folder and options
    """

    url: URL
    control: tuple[str | Path, ...]

    def new_database(self) -> URL:
        """An empty database."""
        name = f"history_{secrets.token_hex(6)}"
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        return self.url.set(database=name)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        _run(*self.control, "-w", "start")

    def kill(self) -> None:
        """Stop it as a crash does: nothing is written any more, and nobody is told."""
        _run(*self.control, "-m", "immediate", "stop")


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Start a server on a free port of this machine, and stop it in the end.

    :raises NoServerProgramsError: there is no server to start
    """
    programs = _programs()
    # Not pytest's tmp_path: the server's own user has to reach its folder.
    home = Path(tempfile.mkdtemp(prefix="replacewhere-postgres-"))
    port, password = _free_port(), secrets.token_hex(8)
    data, password_file = home / "data", home / "password"
    password_file.write_text(password)
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        for path in (home, password_file):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    try:
        _run(
            programs / "initdb",
            "-D",
            data,
            "-U",
            "history",
            "-A",
            "scram-sha-256",
            "--pwfile",
            password_file,
            "--no-sync",
        )
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={home} -c fsync=off"
        url = URL.create("postgresql+psycopg2", "history", password, "127.0.0.1", port, "postgres")
        server = PostgresServer(url, (programs / "pg_ctl", "-D", data, "-l", home / "log", "-o", options))
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _programs() -> Path:
    # Debian keeps the server programs off PATH, one folder per version.
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    raise NoServerProgramsError("no initdb on PATH or below /usr/lib/postgresql: install the package postgresql")


def _run(*command: str | Path) -> None:
    # The server refuses to run as root.
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*prefix, *map(str, command)], cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's server. Without server programs: a failure where ``CI`` is set, a skip elsewhere."""
    try:
        with running_server() as server:
            yield server
    except NoServerProgramsError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))
