"""The commands that build and check the project."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools import fetch_jars, matrix, run_tests


@pytest.mark.parametrize(
    ("jar", "module"),
    [
        ("jackson-core-2.21.2.jar", "jackson-core"),
        ("delta-spark_4.2_2.13-4.4.0.jar", "delta-spark_4.2_2.13"),
        ("json4s-core_2.13-4.0.7.jar", "json4s-core_2.13"),
        ("log4j-1.2-api-2.25.3.jar", "log4j-1.2-api"),
        ("zstd-jni-1.5.7-7.jar", "zstd-jni"),
        ("hive-shims-0.23-2.3.10.jar", "hive-shims-0.23"),
        ("netty-transport-native-epoll-4.2.1.Final-linux-x86_64.jar", "netty-transport-native-epoll"),
    ],
)
def test_a_jar_file_is_taken_for_the_module_before_its_version(jar: str, module: str) -> None:
    assert fetch_jars.module_of(Path(jar)) == module


def test_jars_of_another_delta_release_are_not_taken_for_the_wanted_ones(tmp_path: Path) -> None:
    for prefix in fetch_jars.PROVES_DELTA:
        (tmp_path / f"{prefix}4.3.1.jar").touch()
    assert fetch_jars.has_delta(tmp_path, "4.3.1")
    assert not fetch_jars.has_delta(tmp_path, "4.4.0")


def test_an_interrupted_fetch_is_not_taken_for_a_complete_one(tmp_path: Path) -> None:
    (tmp_path / "delta-spark_4.2_2.13-4.4.0.jar").touch()
    assert not fetch_jars.has_delta(tmp_path, "4.4.0")


def test_installing_removes_the_jars_of_the_release_before(tmp_path: Path) -> None:
    fetched, jars = tmp_path / "fetched", tmp_path / "jars"
    fetched.mkdir()
    jars.mkdir()
    new = fetched / "delta-storage-4.4.0.jar"
    new.write_text("new")
    for name in ("delta-storage-4.3.1.jar", "jackson-core-2.21.2.jar"):
        (jars / name).touch()
    fetch_jars.install([new], jars)
    assert sorted(path.name for path in jars.iterdir()) == ["delta-storage-4.4.0.jar", "jackson-core-2.21.2.jar"]


def test_without_java_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fetch_jars.JarsNotFetchedError, match="Java 17: install it"):
        fetch_jars.resolve(fetch_jars.Wish("io.delta", "delta-spark_4.2_2.13", "4.4.0"), tmp_path, tmp_path)


def test_the_environment_of_this_run_has_its_jars() -> None:
    checker = [sys.executable, fetch_jars.__file__, "--check"]
    assert subprocess.run(checker, capture_output=True, check=False).returncode == 0


def suite(folder: Path, code: str) -> Counter[str]:
    """Run pytest over one file of ``code`` and read the report it leaves."""
    (folder / "test_it.py").write_text(code)
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(folder)]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return run_tests.read_report(report)


def test_totals_tell_passed_failed_and_skipped_apart(tmp_path: Path) -> None:
    counts = suite(
        tmp_path,
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert False\n"
        "def test_c(): pytest.skip('no')\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError\n"
        "def test_d(broken): pass\n",
    )
    assert counts == Counter(passed=1, failed=2, skipped=1)


def test_a_folder_without_tests_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests" / "empty").mkdir(parents=True)
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["run_tests", "empty"])
    assert run_tests.main() == 1


@pytest.mark.parametrize("line", matrix.LINES)
def test_each_airflow_line_is_pinned_to_one_spark_and_its_delta(line: str) -> None:
    pins = matrix.Environment(line).constraints.read_text().splitlines()
    assert {f"apache-airflow=={matrix.LINES[line].airflow}", "pyspark==4.2.0", "pyspark-client==4.2.0"} <= set(pins)
    assert {pin.lower().replace("_", "-") for pin in pins} >= {"delta-spark==4.4.0"}
    assert [pin for pin in pins if "==" not in pin or "/" in pin] == []
