"""The code that travels with an application."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import SubmitError
from airflow_provider_replacewhere.operators.package import code_package


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build(cache: str) -> str:
    return digest(code_package(Path(cache)).archive)


def test_the_archive_alone_is_enough_to_import_what_the_driver_needs(tmp_path: Path) -> None:
    code = code_package(tmp_path)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from airflow_provider_replacewhere import planning, predicates, spark\n"
        "from airflow_provider_replacewhere.flows import parse_sql\n"
        "import sqlglot\n"
        "assert all(m.__file__.startswith(sys.argv[1]) for m in (planning, predicates, spark, sqlglot)), sys.modules\n"
        "text = 'CREATE STREAMING TABLE t FLOW REPLACE WHERE d > current_date() BY NAME SELECT d FROM s'\n"
        "assert parse_sql(text).flows[0].name == 't'\n"
    )
    # -S: without site-packages, as on a cluster where nothing of ours is installed.
    command = [sys.executable, "-S", "-W", "error", "-c", program, str(code.archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_archive_holds_the_drivers_floors_and_sqlglot_alone(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_package(tmp_path).archive) as archive:
        names = archive.namelist()
    ours = {name.split("/")[1] for name in names if name.startswith("airflow_provider_replacewhere/")}
    assert ours - {"__init__.py", "__init__.pyc", "text.py", "text.pyc", "errors.py", "errors.pyc"} == {
        "predicates",
        "flows",
        "planning",
        "spark",
    }
    assert {name.split("/")[0] for name in names} == {"airflow_provider_replacewhere", "sqlglot"}


def test_nothing_lies_beside_the_launcher_that_could_hide_a_module(tmp_path: Path) -> None:
    code = code_package(tmp_path)
    assert sorted(path.name for path in code.application.parent.iterdir()) == [code.application.name, code.archive.name]
    assert code.application.parent.stat().st_mode & 0o077 == 0


def test_equal_code_gives_equal_bytes(tmp_path: Path) -> None:
    assert build(str(tmp_path / "a")) == build(str(tmp_path / "b"))


def test_a_second_call_builds_nothing(tmp_path: Path) -> None:
    archive = code_package(tmp_path).archive
    before = archive.stat()
    os.utime(archive, (0, 0))

    again = code_package(tmp_path).archive.stat()

    assert again.st_ino == before.st_ino
    assert again.st_mtime > 0, "what is in use does not look old to a cleaner of temporary folders"


def test_several_processes_may_build_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        digests = pool.map(build, [str(tmp_path)] * 6)
    assert len(set(digests)) == 1
    (home,) = tmp_path.iterdir()
    assert len(list(home.iterdir())) == 2, "no half-written file stays"


def test_a_folder_that_someone_else_can_write_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / f"airflow_provider_replacewhere-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)

    assert planted not in code_package().archive.parents


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SubmitError, match="cannot be written"):
        code_package(tmp_path / "file")
