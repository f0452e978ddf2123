"""One application of several flows: their order, what a failure stops, and what is told while it runs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.errors import DefinitionError, RequestError
from airflow_provider_replacewhere.planning.report import JobOutcome
from airflow_provider_replacewhere.planning.request import Override, RunRequest
from airflow_provider_replacewhere.spark.job import run_request
from airflow_provider_replacewhere.text import Document
from tests.spark.tables import NOON, Lake, flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def request(lake: Lake, *texts: str, **arguments: object) -> RunRequest:
    """A request as it reaches the driver: it has been JSON."""
    documents = tuple(Document(f"flow_{n}.{'py' if 'import' in text else 'sql'}", text) for n, text in enumerate(texts))
    defaults = {"run_id": "run-1", "as_of": NOON, "documents": documents, "root": str(lake.root)}
    made = RunRequest(**{**defaults, **arguments})  # type: ignore[arg-type]
    return RunRequest.from_json(made.to_json())


@pytest.fixture
def rides(lake: Lake) -> Lake:
    lake.make("rides", "day DATE, fare DOUBLE", [("2026-03-08", 1.0), ("2026-03-09", 2.0)])
    return lake


LAST_FIRST = """
CREATE STREAMING TABLE gold.total FLOW REPLACE WHERE day >= '2026-03-01' BY NAME
  SELECT day, sum(fare) AS fare FROM doubled GROUP BY day;
CREATE VIEW doubled AS SELECT day, fare * 2 AS fare FROM silver;
CREATE STREAMING TABLE silver FLOW REPLACE WHERE day >= '2026-03-01' BY NAME SELECT day, fare FROM bronze;
"""
PYTHON_BRONZE = """
from pyspark import pipelines as dp

@dp.table(replace_where="day >= '2026-03-01'")
def bronze():
    return spark.read.table("rides")
"""


def test_flows_run_in_the_order_in_which_they_read_each_other(rides: Lake) -> None:
    told: list[JobOutcome] = []
    outcome = run_request(rides.spark, request(rides, LAST_FIRST, PYTHON_BRONZE), told.append)
    assert [report.flow for report in outcome.reports] == ["bronze", "silver", "gold.total"]
    assert rides.rows("gold.total") == [("2026-03-08", 2.0), ("2026-03-09", 4.0)]
    assert outcome.reports[1].source_versions == {"bronze": 1}
    assert outcome.schemas["gold.total"] == {"day": "date", "fare": "double"}
    made = outcome.reports[2].planning_information["target_table_information"]
    assert made["path"].endswith("/gold/total"), "also of a table that the run had to make"
    assert [len(done.reports) for done in told] == [1, 2, 3, 3]
    assert JobOutcome.from_json(told[-1].to_json()) == outcome
    assert [report.run_id for report in outcome.reports] == ["run-1/bronze", "run-1/silver", "run-1/gold.total"]

    # A selection runs alone, over the others' tables as they are.
    rides.add("rides", ("2026-03-09", 10.0))
    some = run_request(
        rides.spark, request(rides, LAST_FIRST, PYTHON_BRONZE, run_id="run-2", select=("SILVER", "bronze"))
    )
    assert [report.flow for report in some.reports] == ["bronze", "silver"]
    assert rides.rows("gold.total") == [("2026-03-08", 2.0), ("2026-03-09", 4.0)]


def test_a_flow_that_fails_stops_its_readers_and_nobody_else(rides: Lake) -> None:
    rides.make("silver", "day DATE, fare INT")
    beside = flow("SELECT day, fare FROM rides", target="beside")
    outcome = run_request(rides.spark, request(rides, LAST_FIRST, PYTHON_BRONZE, beside))
    assert [report.flow for report in outcome.reports] == ["bronze", "beside"]
    failures = {failure.flow: failure.error for failure in outcome.failures}
    assert list(failures) == ["silver", "gold.total"]
    assert failures["silver"]["type"] == "SchemaError"
    assert "whose flow silver failed" in failures["gold.total"]["message"]
    assert not failures["gold.total"]["retryable"]
    assert not rides.path("gold.total").exists()
    assert rides.version("silver") == 0
    with pytest.raises(Exception, match="gives double for"):
        outcome.raise_for_failure()


def test_flows_in_a_circle_are_refused_also_when_only_python_shows_it(rides: Lake) -> None:
    a, b = (flow(f"SELECT * FROM {source}", target=target) for target, source in (("a", "b"), ("b", "a")))
    outcome = run_request(rides.spark, request(rides, a, b))
    assert outcome.error is not None
    assert "circle" in outcome.error["message"]
    python = PYTHON_BRONZE.replace("bronze", "b").replace('"rides"', '"a"')
    outcome = run_request(rides.spark, request(rides, a, python))
    assert outcome.reports == ()
    assert "circle: a → b → a" in outcome.failures[0].error["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"select": ("gold",)}, "No flow and no target is named 'gold'.*has .*silver"),
        ({"overrides": (Override("tota", "day > '2026-01-01'"),)}, "No flow and no target is named 'tota'"),
        ({"full_refresh": ("rides",)}, "No flow and no target is named 'rides'"),
        ({"select": ("silver",), "overrides": (Override("bronze", "day > '2026-01-01'"),)}, "selection leaves out"),
        ({"full_refresh": ("silver",), "overrides": (Override("silver", "day > '2026-01-01'"),)}, "fully refreshed"),
    ],
)  # fmt: skip
def test_a_request_that_makes_no_sense_runs_nothing(shared: Lake, arguments: dict[str, object], message: str) -> None:
    outcome = run_request(shared.spark, request(shared, LAST_FIRST, PYTHON_BRONZE, **arguments))
    assert (outcome.reports, outcome.failures) == ((), ())
    with pytest.raises(RequestError, match=f"(?s){message}"):
        outcome.raise_for_failure()
    assert not shared.path("bronze").exists()


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(spark, tmp_path_factory.mktemp("shared"))
    lake.make("rides", "day DATE, fare DOUBLE", [("2026-03-08", 1.0)])
    return lake


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name", "(?s)flow_0.py:1:1.*ModuleNotFoundError"),
        ("import os\n\nx = 1 +", "(?s)flow_0.py:3:1.*SyntaxError"),
        ("import os\nspark.table('rides')", "is called while the pipeline file is loaded"),
        ("from pyspark import pipelines as dp\n@dp.table()\ndef t(): pass", "(?s)flow_0.py:2.*has no replace_where"),
        ("from pyspark import pipelines as dp\n@dp.materialized_view\ndef t(): pass", "declares another kind"),
        ("SELECT 1", "(?s)flow_0.sql:1:1"),
        ("", "has no flow"),
    ],
)  # fmt: skip
def test_a_file_that_declares_no_flow_stops_the_application(shared: Lake, text: str, message: str) -> None:
    outcome = run_request(shared.spark, request(shared, text))
    with pytest.raises((DefinitionError, RequestError), match=message):
        outcome.raise_for_failure()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 / 0", "query function t fails: ZeroDivisionError"),
        ("return 'rides'", "gives a str"),
        ("return spark.readStream.table('rides')", "whole tables, not streams"),
        ("return spark.read.table('ridez')", "reads ridez"),
        ("return spark.sql('SELECT * FROM rides WHERE fair > 1')", "(?s)cannot resolve.*fair"),
    ],
)
def test_a_query_function_that_gives_no_rows_is_named(shared: Lake, body: str, message: str) -> None:
    text = PYTHON_BRONZE.replace("bronze", "t").replace('return spark.read.table("rides")', body)
    outcome = run_request(shared.spark, request(shared, text, dry_run=True))
    assert outcome.error is None
    with pytest.raises(Exception, match=message):
        outcome.raise_for_failure()
    assert not outcome.failures[0].error["retryable"]


def test_the_same_request_given_twice_writes_once(rides: Lake) -> None:
    asked = request(rides, flow("SELECT day, fare FROM rides"))
    (first,) = run_request(rides.spark, asked).reports
    (again,) = run_request(rides.spark, asked).reports
    assert (again.adopted, again.target_version) == (first.run_id, first.target_version)
    assert rides.version("daily") == first.target_version
    other = dataclasses.replace(asked, run_id="run-2", refresh_policy="full")
    assert run_request(rides.spark, other).reports[0].target_version == 2
