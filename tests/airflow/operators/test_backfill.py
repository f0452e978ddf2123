"""What a backfill makes of arguments, of params, and of what people type, with a stand-in for ``spark-submit``."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_replacewhere.planning.chunking import Chunk
from tests.airflow_dags import DagFolder, run_dag, run_task_again, set_conf
from tests.history import report
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

TWO = "".join(
    f"CREATE STREAMING TABLE {name} FLOW REPLACE WHERE d >= current_date() BY NAME SELECT d, n FROM rides;"
    for name in ("daily", "weekly")
)
TASK = f'BackfillOperator(task_id="t", pipeline="{TWO}")'


def task(arguments: str) -> str:
    return f'BackfillOperator(task_id="t", pipeline="{TWO}", {arguments})'


def asked(spark_submit: SparkSubmitStandIn) -> tuple[Any, Any, Any]:
    (call,) = spark_submit.calls
    overrides = {o["flow_name"]: o["predicate_override"] for o in call.request["overrides"]}
    return overrides, call.request["select"], call.request["full_refresh"]


def test_overrides_come_from_the_runs_conf(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(TASK, {"overrides": [{"flow_name": "daily", "predicate_override": "d = DATE '2026-01-01'"}]})

    # As in the original's API: without a selection the whole pipeline runs.
    assert asked(spark_submit) == ({"daily": "d = DATE '2026-01-01'"}, [], [])


def test_a_selection_leaves_the_other_flows_out(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(
        TASK,
        {
            "overrides": [{"flow_name": "daily", "predicate_override": "d = DATE '2026-01-01'"}],
            "refresh_selection": ["daily"],
        },
    )

    assert asked(spark_submit) == ({"daily": "d = DATE '2026-01-01'"}, ["daily"], [])


def test_typed_bounds_come_from_the_form_and_run_one_flow(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(
        task('column="d"'),
        {"flow_name": "daily", "start": "2026-01-01", "end": "2026-02-01", "equals": {"city": "O'Fallon"}},
        options="params={'start': Param(None, type=['null', 'string'], format='date')},",
    )

    predicate = "`d` >= DATE '2026-01-01' AND `d` < DATE '2026-02-01' AND `city` = 'O\\'Fallon'"
    assert asked(spark_submit) == ({"daily": predicate}, ["daily"], [])


def test_defaults_of_the_form_count_where_the_conf_says_nothing(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    dags.run(
        task('column="n"'), {"start": 5}, options="params={'flow_name': Param('daily', type='string'), 'start': 1},"
    )

    assert asked(spark_submit)[0] == {"daily": "`n` >= 5"}


def test_the_conf_counts_where_airflow_does_not_merge_it_into_the_params(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAG_RUN_CONF_OVERRIDES_PARAMS", "False")

    dags.run(task('column="n", flow_name="daily"'), {"start": 5}, options="params={'start': 1},")

    assert asked(spark_submit)[0] == {"daily": "`n` >= 5"}


def test_params_given_to_a_run_that_was_there_before_count(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    day = datetime(2026, 3, 10, tzinfo=UTC)
    dag_id = dags.write(task('column="n", flow_name="daily"'))
    file = dags.folder / f"{dag_id}.py"
    run_dag(file, {"start": 1}, day)
    set_conf(dag_id, day, {"start": 7})

    run_task_again(file, "t", day)

    predicates = [o["predicate_override"] for call in spark_submit.calls for o in call.request["overrides"]]
    assert predicates == ["`n` >= 1", "`n` >= 7"]


def test_a_statement_refreshes_the_tables_it_names(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(TASK, {"statement": "REFRESH STREAMING TABLE daily WHERE d = DATE '2026-01-01' ASYNC"})

    assert asked(spark_submit) == ({"daily": "d = DATE '2026-01-01'"}, ["daily"], [])


def test_a_statement_may_ask_for_a_full_refresh_and_the_driver_decides(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    dags.run(TASK, {"statement": "REFRESH STREAMING TABLE weekly FULL", "allow_full_refresh": True})

    assert asked(spark_submit) == ({}, ["weekly"], ["weekly"])
    assert spark_submit.calls[0].request["allow_full_refresh"] is False, "only the Dag's author can allow it"


def test_without_a_range_the_flows_run_as_declared(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    dags.run(TASK, {"unrelated": 1})

    assert asked(spark_submit) == ({}, [], [])


def test_a_dry_run_of_the_stale_part_can_be_asked_for_in_the_form(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    dags.run(TASK, {"dry_run": True, "only_stale": True})

    assert spark_submit.calls[0].request["dry_run"] is True
    assert spark_submit.calls[0].request["only_stale"] is True


def test_what_the_author_fixed_cannot_be_changed_by_the_conf(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    result = dags.run(task('column="d", flow_name="daily", start="2026-01-01"'), {"flow_name": "weekly"})

    assert "flow_name was given as 'weekly', but this Dag fixes it to 'daily'." in result.error
    assert spark_submit.calls == []


@pytest.mark.parametrize(
    "predicate",
    ["1=1; DROP TABLE rides", "d IN (SELECT d FROM secrets)", "d = '2026-01-01", "java_method('a.B', 'c') = d"],
)
def test_a_predicate_that_is_more_than_one_is_refused_before_spark_is_started(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, predicate: str
) -> None:
    result = dags.run(TASK, {"overrides": [{"flow_name": "daily", "predicate_override": predicate}]})

    assert [type(error).__name__ for error in result.errors] == ["AirflowFailException"]
    assert "override of daily" in result.error
    assert spark_submit.calls == []


NIGHTLY = 'target="daily", replace_where="d > current_date()", query="SELECT d FROM r"'


@pytest.mark.parametrize(
    "conf",
    [
        {"overrides": [{"flow_name": "daily", "predicate_override": "d IS NOT NULL"}]},
        {"statement": "REFRESH STREAMING TABLE daily WHERE d IS NOT NULL"},
    ],
)
def test_predicates_as_text_are_for_dags_that_allow_them(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, conf: dict[str, Any]
) -> None:
    task = f'BackfillOperator(task_id="t", allow_predicates=False, {NIGHTLY})'
    result = dags.run(task, conf=conf)
    assert "this Dag takes no predicates as text" in result.error
    assert not spark_submit.calls


PLANNED = report(
    "{run_id}/daily",
    target="daily",
    dry_run=True,
    coverage=None,
    planning_information={"chunks": ["(`d` = DATE '2026-03-01')", "(`d` = DATE '2026-03-02')"]},
)


def test_a_plan_says_what_it_would_do_as_text(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(PLANNED)
    task = f'BackfillOperator(task_id="t", dry_run=True, column="d", start="2026-03-01", end="2026-03-03", {NIGHTLY})'
    value = dags.run(task).values["t"]
    assert value["plan"].splitlines()[0] == "daily: would replace its window (FULL_RECOMPUTE)"
    assert "  chunks         2, from d = DATE '2026-03-01' to d = DATE '2026-03-02'" in value["plan"].splitlines()


def test_each_chunk_of_a_plan_can_be_a_task(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(PLANNED)
    tasks = f"""
from airflow_provider_replacewhere.dags.listing import ListChunks
shared = dict(column="d", start="2026-03-01", end="2026-03-03", chunk="day", {NIGHTLY})
plan = BackfillOperator(task_id="plan", dry_run=True, **shared)
chunks = ListChunks(task_id="chunks", plan="plan")
plan >> chunks
BackfillOperator.partial(task_id="t", **shared).expand(part=chunks.output)
"""
    assert dags.run(tasks).state == "success"
    requests = [call.request for call in spark_submit.calls[1:]]
    assert sorted(request["chunk"]["number"] for request in requests) == [1, 2]
    assert {request["chunk"]["of"] for request in requests} == {2}
    assert len({request["chunk"]["backfill"] for request in requests}) == 1
    assert all(request["chunking"] is None for request in requests)
    predicates = sorted(request["overrides"][0]["predicate_override"] for request in requests)
    assert [predicate.rpartition(" AND ")[2] for predicate in predicates] == [
        "((`d` = DATE '2026-03-01'))",
        "((`d` = DATE '2026-03-02'))",
    ]


def test_an_application_that_dies_between_its_chunks_has_failed(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    done = [replace(report(f"{{run_id}}/{n}/daily", target="daily"), chunk=Chunk(n, 3, "{run_id}")) for n in (1, 2, 3)]
    task = f'BackfillOperator(task_id="t", column="d", start="2026-03-01", end="2026-03-04", chunk="day", {NIGHTLY})'
    spark_submit.answer(*done[:2], status=137)
    result = dags.run(task)
    assert "ended before it had run all flows; none ended well." in result.error
    spark_submit.answer(*done, status=137)
    assert dags.run(task).state == "success"
