"""What the operator does on the Airflow side, with a stand-in for ``spark-submit``."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import ConcurrentWriteError, SchemaError
from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook
from airflow_provider_replacewhere.planning.report import JobOutcome
from tests.airflow_dags import DagFolder, asset_events
from tests.history import failure, report
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

FLOW = 'target="daily", replace_where="d >= date_sub(current_date(), 7)", query="SELECT d, n FROM rides"'
TASK = f'ReplaceWhereOperator(task_id="t", {FLOW})'
SQL = """\
-- {{ ds }} stays as it is
CREATE STREAMING TABLE {name} FLOW REPLACE WHERE d >= date_sub(current_date(), 7) BY NAME SELECT d, n FROM {source};
"""


def test_a_flow_given_as_arguments_is_run_and_summed_up(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(report("{run_id}/daily", target="daily"))

    result = dags.run(TASK)

    assert result.state == "success"
    (call,) = spark_submit.calls
    assert result.values["t"] == {
        "run_id": call.request["run_id"],
        "as_of": "2026-03-10T00:00:00+00:00",
        "dry_run": False,
        "flows": {
            "daily": {
                "target": "daily",
                "run_id": f"{call.request['run_id']}/daily",
                "mode": "FULL_RECOMPUTE",
                "reasons": [{"reason": "FIRST_REFRESH"}],
                "window": "(`d` >= DATE '2026-03-01')",
                "replaced": "(`d` >= DATE '2026-03-01')",
                "fresh": None,
                "override": False,
                "rows_deleted": 10,
                "rows_written": 12,
                "rows_unchanged": None,
                "target_version": 3,
                "source_versions": {"rides": 7, "zones": None},
                "token": f"token of {call.request['run_id']}/daily",
            }
        },
    }


def test_the_request_says_who_asks_for_what_at_which_instant(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(f'ReplaceWhereOperator(task_id="t", {FLOW}, root="/lake", null_keys="drop", cluster_by=["d"])')

    request = spark_submit.calls[0].request
    assert request["arguments"] == {
        "target": "daily",
        "replace_where": "d >= date_sub(current_date(), 7)",
        "query": "SELECT d, n FROM rides",
        "partitioned_by": [],
        "clustered_by": ["d"],
        "properties": {},
        "comment": None,
    }
    assert (request["root"], request["null_keys"], request["time_zone"]) == ("/lake", "drop", "UTC")
    assert request["as_of"] == "2026-03-10T00:00:00+00:00"
    assert request["identity"]["task_id"] == "t"
    assert request["identity"]["try_number"] == 1


def test_only_the_requests_name_is_on_the_command_line(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(f'ReplaceWhereOperator(task_id="t", {FLOW}, files="/etc/hosts", conf={{"spark.x": "1"}})')

    (call,) = spark_submit.calls
    files = call.value("--files").split(",")
    assert files[0] == "/etc/hosts"
    assert call.arguments[-1] == Path(files[1]).name
    assert Path(call.arguments[-2]).name == "replacewhere_application.py"
    assert Path(call.value("--py-files")).name == "replacewhere_code.zip"
    assert not any("current_date" in word or "SELECT" in word for word in call.arguments)
    assert call.conf == {
        "spark.x": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    assert not Path(files[1]).exists(), "the exchange folder is removed"


def test_an_instant_may_be_given_and_templated(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(f'ReplaceWhereOperator(task_id="t", {FLOW}, as_of="{{{{ ds }}}}", time_zone="Europe/Zurich")')

    assert spark_submit.calls[0].request["as_of"] == "2026-03-10T00:00:00+01:00"


def test_a_pipeline_file_is_found_next_to_the_dag_and_never_templated(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    (dags.folder / "flows").mkdir()
    text = SQL.format(name="daily", source="rides").replace("{ ds }", "{{ ds }}")
    (dags.folder / "flows" / "daily.sql").write_text(text)
    spark_submit.answer(report("{run_id}/daily"))

    result = dags.run('ReplaceWhereOperator(task_id="t", pipeline="flows/{{ params.file }}.sql")', {"file": "daily"})

    assert result.state == "success"
    (document,) = spark_submit.calls[0].request["documents"]
    assert document["text"] == text
    assert document["name"].endswith("/flows/daily.sql")


def test_sql_text_in_the_dag_file_is_templated(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(
        'ReplaceWhereOperator(task_id="t", pipeline="""' + SQL.format(name="t_{{ ds_nodash }}", source="r") + '""")'
    )

    assert "CREATE STREAMING TABLE t_20260310 FLOW" in spark_submit.calls[0].request["documents"][0]["text"]


def test_the_last_report_of_each_target_goes_along(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(report("{run_id}/daily", target="daily"))
    dags.run(TASK)
    dags.run(TASK)

    first, second = spark_submit.calls
    assert first.request["previous"] == {}
    assert second.request["previous"]["daily"]["run_id"] == f"{first.request['run_id']}/daily"


def test_a_terminal_error_fails_the_task_at_once(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(error=SchemaError("The column fare is gone.").to_json())

    result = dags.run(f'ReplaceWhereOperator(task_id="t", retries=1, {FLOW})')

    assert result.state == "failed"
    assert [type(error).__name__ for error in result.errors] == ["AirflowFailException"]
    assert result.error == "The column fare is gone."
    assert len(spark_submit.calls) == 1


def test_a_transient_error_is_left_to_the_retries(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(error=ConcurrentWriteError("Another writer was first.").to_json())

    result = dags.run(f'ReplaceWhereOperator(task_id="t", retries=1, {FLOW})')

    assert result.state == "failed"
    assert [type(error).__name__ for error in result.errors] == ["AirflowException", "AirflowException"]
    first, second = spark_submit.calls
    assert first.request["run_id"] != second.request["run_id"]
    assert first.request["as_of"] == second.request["as_of"]
    assert second.value("--files").count("request-") == 1, "the first try's files are gone"


def test_what_ended_well_before_a_failure_is_recorded(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(
        report("{run_id}/a", flow="a", target="a"),
        failures=(failure("{run_id}/b", flow="b", target="b"),),
    )
    pipeline = "".join(SQL.format(name=name, source="rides") for name in "abc")

    result = dags.run(f'ReplaceWhereOperator(task_id="t", pipeline="""{pipeline}""")')

    assert result.error == "The commit was refused."
    runs = {run.flow: str(run.status) for run in PredicateHistoryHook().runs()}
    assert runs == {"a": "succeeded", "b": "failed", "c": "failed"}


def test_an_application_without_an_outcome_is_told_from_one_that_failed(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.leave(None, status=0)

    result = dags.run(TASK)

    assert "ended without an outcome at " in result.error
    assert "outcome.json" in result.error
    (run,) = PredicateHistoryHook().runs()
    assert str(run.status) == "failed"


def test_a_killed_application_is_worth_another_try(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.leave(None, killed=True)

    result = dags.run(f'ReplaceWhereOperator(task_id="t", retries=1, {FLOW})')

    assert [type(error).__name__ for error in result.errors] == ["AirflowException", "AirflowException"]
    assert all("without an outcome" in str(error) for error in result.errors)


def test_an_outcome_that_is_cut_off_is_named(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.leave('{"version": 1, "run_id": "{run_id}", "reports": [', status=0)

    assert "or is cut off after " in dags.run(TASK).error


def test_an_outcome_of_another_application_is_refused(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.leave(JobOutcome("other").to_json())

    assert "belongs to the application other" in dags.run(TASK).error


def test_an_outcome_of_another_version_is_refused(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.leave('{"version": 99, "run_id": "{run_id}"}')

    result = dags.run(f'ReplaceWhereOperator(task_id="t", retries=1, {FLOW})')

    assert "version 99" in result.error


def test_a_report_counts_although_the_application_failed_afterwards(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.answer(report("{run_id}/daily"), status=1)

    result = dags.run(TASK)

    assert result.state == "success"
    assert str(PredicateHistoryHook().runs()[0].status) == "succeeded"


def test_an_application_that_dies_between_two_flows_did_not_do_its_work(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.answer(report("{run_id}/a", flow="a", target="a"), status=137)
    pipeline = "".join(SQL.format(name=name, source="rides") for name in "ab")

    result = dags.run(f'ReplaceWhereOperator(task_id="t", pipeline="""{pipeline}""")')

    assert "ended before it had run all flows; a ended well." in result.error
    assert type(result.errors[0]).__name__ == "AirflowException"
    assert {run.flow: str(run.status) for run in PredicateHistoryHook().runs()} == {"a": "succeeded", "b": "failed"}


def test_a_dry_run_is_asked_for_and_not_recorded(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(report("{run_id}/daily", dry_run=True))

    result = dags.run(f'ReplaceWhereOperator(task_id="t", {FLOW}, dry_run="{{{{ params.plan }}}}")', {"plan": True})

    assert spark_submit.calls[0].request["dry_run"] is True
    assert result.values["t"]["dry_run"] is True
    assert PredicateHistoryHook().runs() == []


def test_the_selection_and_a_full_refresh_are_named(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    pipeline = "".join(SQL.format(name=name, source="rides") for name in "ab")
    dags.run(
        f'ReplaceWhereOperator(task_id="t", pipeline="""{pipeline}""", refresh_selection=["b"], full_refresh=True,'
        " allow_full_refresh=True)"
    )

    request = spark_submit.calls[0].request
    assert (request["select"], request["full_refresh"], request["allow_full_refresh"]) == (["b"], ["b"], True)


def test_an_outlet_tells_what_was_written(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(report("{run_id}/daily", target="daily"))

    result = dags.run(f'ReplaceWhereOperator(task_id="t", {FLOW}, outlets=[Asset("file://lake/daily")])')

    assert result.state == "success"
    (event,) = asset_events("file://lake/daily")
    assert event["replacewhere"] == [
        {
            "target": "daily",
            "run_id": f"{spark_submit.calls[0].request['run_id']}/daily",
            "mode": "FULL_RECOMPUTE",
            "replaced": "(`d` >= DATE '2026-03-01')",
            "rows_deleted": 10,
            "rows_written": 12,
            "target_version": 3,
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "The operator defines no flow: target, replace_where, query are missing."),
        (f'{FLOW}, pipeline="x.sql"', "Both pipeline and target, replace_where, query are given."),
        ('pipeline="nowhere.sql"', "There is no pipeline file nowhere.sql."),
        ('pipeline="CREATE TABLE x"', "pipeline argument:1:"),
        (
            f'{FLOW}, refresh_selection=["other"]',
            "refresh_selection names other, which no flow of this pipeline feeds.",
        ),
        (f'{FLOW}, time_zone="Mars/Base"', "time_zone is 'Mars/Base', which is no time zone."),
        (f'{FLOW}, as_of="yesterday"', "as_of is 'yesterday', which is no instant."),
        (f'{FLOW}, refresh_policy="sometimes"', "refresh_policy is 'sometimes'."),
        (f'{FLOW}, null_keys="maybe"', "null_keys is 'maybe'."),
        (f'{FLOW}, conn_id="nowhere"', "The Spark connection 'nowhere' cannot be loaded"),
        (f'{FLOW}, deploy_mode="cluster"', "the driver cannot write its outcome to this worker's disk"),
        (f'{FLOW}, history_conn_id="nowhere"', "The history's connection 'nowhere' does not exist."),
        (f'{FLOW}, spark_binary="spark9-submit"', "There is no spark9-submit on the PATH"),
    ],
)
def test_what_cannot_run_is_refused_before_spark_is_started(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, arguments: str, message: str
) -> None:
    result = dags.run(f'ReplaceWhereOperator(task_id="t", retries=1, {arguments})')

    assert [type(error).__name__ for error in result.errors] == ["AirflowFailException"]
    assert message in result.error
    assert spark_submit.calls == []


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        ("spark://local[2]", "cannot be loaded"),
        ('{"conn_type": "spark"}', "names no master"),
        ('{"conn_type": "spark", "host": "spark://m:7077", "extra": {"deploy-mode": "cluster"}}', "standalone master"),
    ],
)
def test_a_connection_never_silently_becomes_yarn(
    dags: DagFolder,
    spark_submit: SparkSubmitStandIn,
    monkeypatch: pytest.MonkeyPatch,
    connection: str,
    message: str,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)

    result = dags.run(TASK)

    assert message in result.error
    assert spark_submit.calls == []


def test_a_task_that_takes_too_long_ends_its_application_and_is_recorded(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.leave(None, seconds=300)

    result = dags.run(f'ReplaceWhereOperator(task_id="t", {FLOW}, execution_timeout=timedelta(seconds=4))')

    assert result.tasks == {"t": "failed"}
    assert not spark_submit.is_running
    (run,) = PredicateHistoryHook().runs()
    assert str(run.status) == "failed"
    assert "The task was ended: " in str(run.error)
