"""The parts around a run: what an import costs, the instant, the configuration."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.operators.cluster import DELTA_CATALOG, DELTA_EXTENSION, with_delta
from airflow_provider_replacewhere.operators.exchange import Cluster, open_exchange
from airflow_provider_replacewhere.operators.instant import instant_of_run

pytestmark = pytest.mark.matrix

END, LOGICAL, ALLOWED, BEGUN = (datetime(2026, 3, 10, hour, tzinfo=UTC) for hour in (4, 3, 2, 1))
EXTENSIONS, CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"


@pytest.mark.parametrize("module", ["replace_where", "backfill"])
def test_importing_an_operator_loads_no_engine(airflow_home: Path, module: str) -> None:
    program = f"""
import importlib.abc, sys
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
before = set(sys.modules)
import airflow_provider_replacewhere.operators.{module}
heavy = ("pyspark", "py4j", "sqlglot", "sqlalchemy", "alembic", "deltalake", "fsspec")
print(sorted(m for m in set(sys.modules) - before if m.split(".")[0] in heavy))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_the_look_that_may_spare_spark_loads_none_of_it(airflow_home: Path) -> None:
    program = """
import sys
from airflow_provider_replacewhere.operators.lake import WorkerLake
from airflow_provider_replacewhere.planning.quick_look import quick_look
heavy = ("pyspark", "py4j", "deltalake", "fsspec", "airflow")
print(sorted(m for m in sys.modules if m.split(".")[0] in heavy))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("context", "instant"),
    [
        ({"data_interval_end": END, "logical_date": LOGICAL}, END),
        ({"data_interval_end": None, "logical_date": LOGICAL}, LOGICAL),
        ({"dag_run": SimpleNamespace(run_after=ALLOWED, start_date=BEGUN)}, ALLOWED),
        ({"logical_date": None, "dag_run": SimpleNamespace(start_date=BEGUN)}, BEGUN),
    ],
)
def test_a_run_is_about_the_end_of_its_interval_or_the_next_best(context: dict[str, Any], instant: datetime) -> None:
    found = instant_of_run(context)
    assert found == instant
    assert found.utcoffset() == timedelta(0)


def test_a_run_without_any_instant_is_refused() -> None:
    with pytest.raises(RequestError, match="Give the operator as_of"):
        instant_of_run({"dag_run": None})


def test_delta_joins_the_users_configuration_and_never_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert with_delta(None, None) == {EXTENSIONS: DELTA_EXTENSION, CATALOG: DELTA_CATALOG}
    assert with_delta({EXTENSIONS: "a.B", CATALOG: "my.Catalog", "x": 1}, None) == {
        EXTENSIONS: f"a.B,{DELTA_EXTENSION}",
        CATALOG: "my.Catalog",
        "x": 1,
    }
    assert with_delta({EXTENSIONS: f"a.B, {DELTA_EXTENSION}"}, None)[EXTENSIONS] == f"a.B, {DELTA_EXTENSION}"

    (tmp_path / "spark-defaults.conf").write_text(f"# mine\n{EXTENSIONS}\ta.B\n{CATALOG} = my.Catalog\n")
    assert with_delta({}, None) == {EXTENSIONS: f"a.B,{DELTA_EXTENSION}"}

    (tmp_path / "other.conf").write_text(f"{EXTENSIONS}=c.D\n")
    assert with_delta({}, str(tmp_path / "other.conf")) == {
        EXTENSIONS: f"c.D,{DELTA_EXTENSION}",
        CATALOG: DELTA_CATALOG,
    }


def test_an_exchange_that_both_sides_reach_hides_the_connection_from_the_driver(tmp_path: Path) -> None:
    remote = open_exchange("run-1", Cluster("yarn", "cluster"), "s3a://lake@bucket/exchange/")
    assert remote.place == "s3a://lake@bucket/exchange/run-1/outcome.json"
    assert remote.report_uri == "s3a://bucket/exchange/run-1/outcome.json"
    remote.folder.rmdir()

    shared = open_exchange("run-2", Cluster("yarn", "cluster"), str(tmp_path))
    assert shared.report_uri == str(tmp_path / "run-2" / "outcome.json")
    assert (tmp_path / "run-2").is_dir()
    shared.discard()
    assert list(tmp_path.iterdir()) == []
