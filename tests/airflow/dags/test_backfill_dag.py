"""The backfill Dag: its form, its tasks, and what it lets people ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

from airflow_provider_replacewhere.dags import backfill_dag
from airflow_provider_replacewhere.dags.backfill import form

pytestmark = pytest.mark.matrix

START = {"start_date": datetime(2026, 1, 1, tzinfo=UTC)}
TWO = "".join(
    f"CREATE STREAMING TABLE {name} FLOW REPLACE WHERE d >= current_date() BY NAME SELECT d, n FROM rides;"
    for name in ("daily", "weekly")
)


def test_the_form_lists_the_flows_and_bounds_what_can_be_typed() -> None:
    params = backfill_dag(TWO, "backfill", column="d", **START).params
    schema = params.get_param("flow_name").schema
    assert schema["enum"] == ["daily", "weekly"]
    assert params["column"] == "d"
    assert "overrides" not in params
    assert "overrides" in backfill_dag(TWO, "backfill", predicates=True, **START).params


def test_each_param_has_a_value_that_its_own_schema_takes() -> None:
    for name, param in form(["daily"], None, predicates=True, approval=True).items():
        assert param.resolve(suppress_exception=False) == param.value, name
    # Several flows: which one is meant, only a person knows.
    assert form(["a", "b"], None, predicates=False, approval=False)["flow_name"].value is None


def test_a_plan_comes_first_and_a_person_is_asked_where_airflow_can() -> None:
    asked = backfill_dag(TWO, "backfill", **START)
    silent = backfill_dag(TWO, "backfill", approval=False, **START)
    assert {task.task_id for task in silent.tasks} == {"plan", "backfill"}
    plan: Any = silent.get_task("plan")
    assert plan.plan_only is True
    assert plan.downstream_task_ids == {"backfill"}
    try:
        import airflow.providers.standard.operators.hitl  # noqa: F401
    except (ImportError, AirflowOptionalProviderFeatureException):
        assert "approve" not in {task.task_id for task in asked.tasks}
        return
    assert asked.get_task("approve").upstream_task_ids == {"plan"}
    assert asked.get_task("backfill").upstream_task_ids == {"approve"}


def test_a_person_is_shown_the_plan_as_the_markdown_that_airflow_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        from airflow.providers.standard.operators.hitl import ApprovalOperator

        from airflow_provider_replacewhere.dags.approval import ApproveBackfill
    except (ImportError, AirflowOptionalProviderFeatureException):
        return  # this Airflow cannot ask
    monkeypatch.setattr(ApprovalOperator, "execute", lambda operator, _: operator.body)
    plan = "daily_rides: nothing to do (NO_OP)\n  sources        rides@2"
    approve = ApproveBackfill(task_id="approve", subject="Backfill", body=plan)
    shown = approve.execute({"params": {"ask": True}})
    assert shown.splitlines() == [r"**daily\_rides\: nothing to do \(NO\_OP\)**", "", r"- **sources** rides\@2"]


def test_each_chunk_can_be_a_task_with_a_limit_on_how_many_run_at_once() -> None:
    dag = backfill_dag(TWO, "backfill", approval=False, max_active_chunks=3, **START)
    backfill: Any = dag.get_task("backfill")
    assert type(backfill).__name__ == "MappedOperator"
    assert backfill.partial_kwargs["max_active_tis_per_dagrun"] == 3
    assert backfill.upstream_task_ids == {"chunks"}
    assert dag.get_task("chunks").upstream_task_ids == {"plan"}
