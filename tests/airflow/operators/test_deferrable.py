"""Where a task cannot be deferred it is said before anything is started."""

from __future__ import annotations

import inspect
import json

import airflow
import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from tests.airflow_dags import DagFolder
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

FLOW = 'target="daily", replace_where="d >= date_sub(current_date(), 7)", query="SELECT d, n FROM rides"'
CAN_DEFER = not airflow.__version__.startswith(("2.", "3.0.", "3.1.", "3.2."))
CLUSTER = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}


@pytest.mark.parametrize(
    ("connection", "arguments", "message"),
    [
        ({**CLUSTER, "host": "local[2]", "extra": {}}, "", "cannot go on without its worker"),
        ({**CLUSTER, "extra": {}}, ", yarn_track_via_rm_api=True", "cannot go on without its worker"),
        (CLUSTER, "", "cannot go on without its worker"),
        (CLUSTER, ", yarn_track_via_rm_api=True, durable=False", "cannot go on without its worker"),
        (CLUSTER, ", yarn_track_via_rm_api=True, yarn_rm_auth=object()", "a trigger cannot be given yarn_rm_auth"),
        (CLUSTER, ', yarn_track_via_rm_api=True, keytab="k", principal="p"', "a trigger cannot be given keytab"),
    ],
    ids=[
        "a local driver",
        "a driver of the worker's",
        "not tracked",
        "not durable",
        "an object for requests",
        "a keytab",
    ],
)
def test_a_task_that_cannot_be_deferred_is_refused(
    dags: DagFolder,
    spark_submit: SparkSubmitStandIn,
    monkeypatch: pytest.MonkeyPatch,
    connection: dict[str, object],
    arguments: str,
    message: str,
) -> None:
    if arguments and "yarn_rm_auth" not in inspect.signature(SparkSubmitOperator.__init__).parameters:
        pytest.skip("this Spark provider cannot ask YARN for an application")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    result = dags.run(
        f'ReplaceWhereOperator(task_id="t", retries=1, exchange="/tmp", deferrable=True, {FLOW}{arguments})'
    )

    assert [type(error).__name__ for error in result.errors] == ["AirflowFailException"]
    expected = "this Airflow keeps nothing" if "trigger" in message and not CAN_DEFER else message
    assert expected in result.error
    assert spark_submit.calls == []
