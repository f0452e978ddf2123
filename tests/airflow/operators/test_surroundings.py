"""What a worker's surroundings put into the fingerprint of a definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator
from airflow_provider_replacewhere.operators.surroundings import file_content, settings_of
from airflow_provider_replacewhere.planning.fingerprint import PARTS, fingerprint
from tests.airflow_dags import only_our_warnings_count

pytestmark = pytest.mark.matrix

CONNECTION = {
    "conn_type": "spark",
    "host": "local[2]",
    "password": "never-looked-at",
    "extra": {"deploy-mode": "client"},
}


@pytest.fixture
def spark_home(airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of the test's own: a command, a configuration, jars."""
    home = tmp_path / "spark"
    for folder in ("bin", "conf", "jars"):
        (home / folder).mkdir(parents=True)
    (home / "bin" / "spark-submit").write_text("#!/bin/sh\n")
    (home / "bin" / "spark-submit").chmod(0o755)
    (home / "conf" / "spark-defaults.conf").write_text("spark.sql.ansi.enabled true\n")
    (home / "jars" / "delta.jar").write_text("4.4.0")
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(CONNECTION))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return home


def settings(**arguments: Any) -> str:
    """The settings of a task as text."""
    flow = {"target": "t", "replace_where": "d > 1", "query": "SELECT d FROM s"}
    with only_our_warnings_count():
        operator = ReplaceWhereOperator(task_id="t", **flow, **arguments)
        return json.dumps(settings_of(operator, "spark_default"), sort_keys=True)


def test_the_same_surroundings_give_the_same_settings(spark_home: Path) -> None:
    assert settings() == settings()
    assert settings(conf={"a": 1, "b": 2}) == settings(conf={"b": 2, "a": 1})
    assert settings(executor_memory="1g", num_executors=2, name="a") == settings(executor_memory="8g", name="b")


def test_secrets_stay_inside_the_hash(spark_home: Path) -> None:
    found = settings(conf={"spark.hadoop.fs.s3a.secret.key": "hush-hush"}, env_vars={"TOKEN": "hush-hush"})
    line = fingerprint({**dict.fromkeys(PARTS), "spark": json.loads(found)})
    assert "hush" not in line
    assert "never-looked-at" not in found


def test_what_is_sent_with_the_application_counts_by_its_content(spark_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.txt"
    for argument in ("files", "py_files", "archives", "jars", "driver_class_path", "properties_file"):
        file.write_text("spark.x 1\n")
        given = f"{file}#name" if argument == "archives" else str(file)
        before = settings(**{argument: given})
        assert before == settings(**{argument: given})
        assert before != settings()
        file.write_text("spark.x 2\n")
        assert settings(**{argument: given}) != before
        file.unlink()
        assert settings(**{argument: given}) != before, "a missing file is for Spark to complain of"


def test_files_that_a_setting_names_count_by_their_content(spark_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("a")
    conf = {"spark.kubernetes.driver.podTemplateFile": f"file://{file}"}
    before = settings(conf=conf)
    file.write_text("b")
    assert settings(conf=conf) != before


def test_files_of_a_pattern_and_places_elsewhere(spark_home: Path, tmp_path: Path) -> None:
    before = settings(jars=f"{tmp_path}/*.jar,s3a://bucket/x.jar")
    (tmp_path / "a.jar").write_text("a")
    assert settings(jars=f"{tmp_path}/*.jar,s3a://bucket/x.jar") != before
    assert settings(jars="s3a://bucket/x.jar") != settings(jars="s3a://bucket/y.jar")


@pytest.mark.parametrize(
    "arguments",
    [
        {"conf": {"spark.sql.ansi.enabled": "false"}},
        {"packages": "io.delta:delta-spark_4.2_2.13:4.4.0"},
        {"exclude_packages": "a:b"},
        {"repositories": "https://repository"},
        {"env_vars": {"ANYTHING": "1"}},
        {"proxy_user": "someone"},
        {"deploy_mode": "cluster"},
    ],
)
def test_arguments_that_decide_what_runs_count(spark_home: Path, arguments: dict[str, Any]) -> None:
    assert settings(**arguments) != settings()


@pytest.mark.parametrize("change", [{"host": "local[4]"}, {"extra": {"queue": "nightly"}}, {"port": 7077}])
def test_the_connection_counts(spark_home: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    before = settings()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(CONNECTION | change))
    assert settings() != before


@pytest.mark.parametrize("name", ["SPARK_ANSI_SQL_MODE", "PYSPARK_PYTHON", "JAVA_TOOL_OPTIONS", "TZ"])
def test_the_environment_that_spark_reads_counts(spark_home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = settings()
    monkeypatch.setenv(name, "another")
    assert settings() != before


@pytest.mark.parametrize("name", ["SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS", "AIRFLOW_CTX_DAG_ID", "HOME"])
def test_what_differs_from_worker_to_worker_does_not(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = settings()
    monkeypatch.setenv(name, "another")
    assert settings() == before


@pytest.mark.parametrize(
    "file", ["bin/spark-submit", "conf/spark-defaults.conf", "conf/spark-env.sh", "jars/delta.jar"]
)
def test_spark_itself_counts(spark_home: Path, file: str) -> None:
    before = settings()
    with (spark_home / file).open("a") as added:
        added.write("# more\n")
    assert settings() != before


def test_a_configuration_named_by_the_environment_counts(
    spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hadoop"
    folder.mkdir()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    before = settings()
    (folder / "core-site.xml").write_text("<configuration/>")
    assert settings() != before


def test_a_spark_that_cannot_be_found_is_none(spark_home: Path, tmp_path: Path) -> None:
    assert settings(spark_binary="spark9-submit") != settings()


def test_a_folder_counts_by_what_lies_in_it(tmp_path: Path) -> None:
    before = file_content(tmp_path)
    (tmp_path / "module.py").write_text("a = 1\n")
    assert file_content(tmp_path) != before
