"""What the operators do on the Airflow side, with a stand-in for ``spark-submit``."""

from __future__ import annotations

from tests.airflow_dags import DagFolder
from tests.history import report
from tests.spark_submit import SparkSubmitStandIn

FLOW = 'target="daily", replace_where="d >= date_sub(current_date(), 7)", query="SELECT d, n FROM rides"'


def test_a_flow_given_as_arguments_is_run_and_summed_up(dags: DagFolder, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(report("{run_id}/daily"))

    result = dags.run(f'ReplaceWhereOperator(task_id="t", {FLOW})')

    print(result.log)
    assert result.ok
    assert result.values["t"]["flows"]["daily"]["mode"] == "FULL_RECOMPUTE"
