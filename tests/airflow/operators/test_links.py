"""The links beside a task: computed where it runs, read by Airflow from its XComs."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import Any

import airflow
import pytest

from airflow_provider_replacewhere.links.operator_links import KeptLink, RunLink, SparkLink, TableLink
from airflow_provider_replacewhere.planning.report import Application, JobOutcome, RunReport
from tests.airflow_dags import LOGICAL_DATE as DAY
from tests.airflow_dags import DagFolder, of_task, run_dag
from tests.history import failure, report
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

HAS_PAGE = not airflow.__version__.startswith("2.")
BASE = "https://flows.example/airflow"
FLOW = 'target="sales.daily", replace_where="d >= date_sub(current_date(), 7)", query="SELECT d, n FROM rides"'
TASK = f'ReplaceWhereOperator(task_id="t", {FLOW})'
TWO = """\
CREATE STREAMING TABLE a FLOW REPLACE WHERE d > '2026-01-01' BY NAME SELECT d FROM rides;
CREATE STREAMING TABLE b FLOW REPLACE WHERE d > '2026-01-01' BY NAME SELECT d FROM rides;
"""


LETTERS = {
    "application.json": json.dumps({"id": "local-17", "ui": "http://worker:4040", "is_logged": True}),
    "question-1.json": json.dumps({"verb": "release", "target": "daily", "flow": "daily", "run_id": "x/daily"}),
}
needs_threads = pytest.mark.skipif(
    airflow.__version__.startswith(("3.0.", "3.1.")), reason="one thread at a time may ask this Airflow"
)


@pytest.fixture(autouse=True)
def base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", BASE)


def run(dags: DagFolder, task: str) -> dict[str, str]:
    """Run a task once; what Airflow shows for its links."""
    dag_id = dags.write(task)
    run_dag(dags.folder / f"{dag_id}.py", None, DAY)
    return {link.name: shown(dag_id, link) for link in (TableLink(), RunLink(), SparkLink())}


def shown(dag_id: str, link: KeptLink) -> str:
    """A link as Airflow's own web server makes it, which has no operator, but the Dag's record and the XComs."""
    return str(of_task(dag_id, "t", lambda task, _: _of_web_server(link).get_link(object(), ti_key=task.key)))


def _of_web_server(link: KeptLink) -> Any:
    if not HAS_PAGE:
        return link
    try:
        from airflow.serialization.definitions.operatorlink import XComOperatorLink
    except ImportError:
        from airflow.serialization.serialized_objects import XComOperatorLink  # before 3.2
    return XComOperatorLink(name=link.name, xcom_key=link.xcom_key)


def answer(spark_submit: SparkSubmitStandIn, *reports: RunReport, application: Application | None = None) -> None:
    spark_submit.leave(JobOutcome("{run_id}", reports, application=application).to_json())


def on_page(path: str) -> str:
    """Where something is on the provider's page, which Airflow 2 and 3.0 do not have, or not for a browser."""
    return f"{BASE}/replacewhere/{path}" if not airflow.__version__.startswith(("2.", "3.0.")) else ""


def test_a_task_with_one_flow_leads_to_its_table_and_its_run(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    answer(spark_submit, report("{run_id}/daily", flow="daily", target="sales.daily"))

    links = run(dags, TASK)

    run_id = spark_submit.calls[0].request["run_id"]
    assert links == {
        "Table's freshness": on_page("table?target=sales.daily"),
        "Run and reasons": on_page(f"run?run={run_id}%2Fdaily"),
        "Spark": "",
    }


def test_a_task_with_several_flows_leads_to_the_page_and_to_the_run_that_failed(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.answer(report("{run_id}/a", flow="a"), failures=(failure("{run_id}/b", flow="b"),))

    links = run(dags, f'ReplaceWhereOperator(task_id="t", pipeline="""{TWO}""")')

    run_id = spark_submit.calls[0].request["run_id"]
    assert links["Table's freshness"] == on_page("")
    assert links["Run and reasons"] == on_page(f"run?run={run_id}%2Fb")


def test_a_plan_has_no_run_to_lead_to(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    answer(spark_submit, report("{run_id}/daily", target="sales.daily", dry_run=True))

    links = run(dags, f'ReplaceWhereOperator(task_id="t", {FLOW}, dry_run=True)')

    assert links["Table's freshness"] == on_page("table?target=sales.daily")
    assert links["Run and reasons"] == ""


@pytest.mark.parametrize(
    ("extra", "argument"),
    [({"spark_history_url": "http://history:18080"}, ""), ({}, ', spark_history_url="http://history:18080/"')],
    ids=["connection", "operator"],
)
def test_an_application_that_was_logged_leads_to_the_history_server(
    dags: DagFolder,
    spark_submit: SparkSubmitStandIn,
    monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, str],
    argument: str,
) -> None:
    connection = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client", **extra}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    application = Application("local-1700000000000", "http://worker:4040", is_logged=True)
    answer(spark_submit, report("{run_id}/daily"), application=application)

    links = run(dags, f'ReplaceWhereOperator(task_id="t", {FLOW}{argument})')

    assert links["Spark"] == "http://history:18080/history/local-1700000000000/"


def test_the_drivers_own_pages_end_with_it(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    answer(spark_submit, report("{run_id}/daily"), application=Application("local-17", "http://worker:4040"))

    assert run(dags, TASK)["Spark"] == ""


@needs_threads
def test_while_an_application_runs_its_link_leads_to_the_drivers_own_pages(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.leave(JobOutcome("{run_id}", (report("{run_id}/daily"),)).to_json(), seconds=4, letters=LETTERS)
    dag_id, seen, ended = dags.write(TASK), list[str](), threading.Event()

    def watch() -> None:
        while not seen and not ended.wait(0.2):
            with suppress(Exception):  # the run is not there yet
                seen.extend(filter(None, [shown(dag_id, SparkLink())]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    run_dag(dags.folder / f"{dag_id}.py", None, DAY)
    ended.set()
    watcher.join()

    assert seen == ["http://worker:4040"]
    assert shown(dag_id, SparkLink()) == "", "it ended with the driver"


@needs_threads
def test_an_application_that_left_no_outcome_still_leads_to_the_history_server(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.leave(None, killed=True, seconds=2, letters=LETTERS)

    links = run(dags, f'ReplaceWhereOperator(task_id="t", {FLOW}, spark_history_url="https://history")')

    assert links["Spark"] == "https://history/history/local-17/"


def test_airflow_knows_the_links_of_a_dag_that_it_has_only_in_its_database(dags: DagFolder) -> None:
    from airflow.providers_manager import ProvidersManager

    names = {f"{link.__module__}.{link.__name__}" for link in (TableLink, RunLink, SparkLink)}
    assert names <= set(ProvidersManager().extra_links_class_names)
