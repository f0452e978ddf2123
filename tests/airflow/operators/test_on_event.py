"""What a Dag's author is told of at once, by a callback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.planning.report import Mode, RunReport
from tests.airflow_dags import DagFolder
from tests.history import failure, report
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

FLOW = 'target="daily", replace_where="d >= date_sub(current_date(), 7)", query="SELECT d, n FROM rides"'
NOTING = """\
import json, pathlib

def note(context):
    event = {{**context["replacewhere_event"], "task": context["ti"].task_id}}
    with pathlib.Path("{file}").open("a") as file:
        file.write(json.dumps(event) + "\\n")

def broken(context):
    raise RuntimeError("no alert for you")

"""
NOTIFIER = """\
from airflow.providers.common.compat.sdk import BaseNotifier

class Notifier(BaseNotifier):
    template_fields = ("text",)

    def __init__(self, text):
        super().__init__()
        self.text = text

    def notify(self, context):
        with pathlib.Path("{file}").open("a") as file:
            file.write(json.dumps({{"text": self.text}}) + "\\n")

"""
FOREIGN = {
    "reason": "EXTERNAL_CHANGE_IN_REPLACE_WINDOW",
    "version": 7,
    "operation": "DELETE",
    "region": "(`d` = DATE '2026-03-01')",
}


def changed_by_others() -> RunReport:
    return report("{run_id}/daily", target="daily", mode=Mode.INCREMENTAL, reasons=(FOREIGN,))


class Dag:
    """A Dag whose callbacks write to a file."""

    def __init__(self, dags: DagFolder, folder: Path) -> None:
        self.dags, self.file = dags, folder / "told"

    def run(self, on_event: str, head: str = NOTING, more: str = "") -> str:
        code = head.format(file=self.file)
        task = f'ReplaceWhereOperator(task_id="t", {FLOW}, on_event={on_event}{more})'
        return self.dags.run(code + task).state

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []


@pytest.fixture
def dag(dags: DagFolder, tmp_path: Path) -> Dag:
    return Dag(dags, tmp_path)


def test_a_callback_gets_the_context_with_the_event_in_it(dag: Dag, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(changed_by_others())

    assert dag.run("note") == "success"

    (event,) = dag.told
    assert (event["event"], event["flow"], event["target"], event["task"]) == ("foreign_change", "daily", "daily", "t")
    assert event["run_id"] == f"{spark_submit.calls[0].request['run_id']}/daily"
    assert event["reasons"] == [FOREIGN]
    assert event["message"].startswith("Somebody else has changed daily inside the window")


def test_a_notifier_can_be_given_and_its_text_templated(dag: Dag, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(changed_by_others())

    text = "{{{{ replacewhere_event.target }}}}: {{{{ replacewhere_event.event }}}}"
    assert dag.run(f'Notifier("{text.format()}")', head=NOTING + NOTIFIER) == "success"

    assert dag.told == [{"text": "daily: foreign_change"}]


def test_an_error_in_a_callback_fails_nothing_and_the_next_is_called(
    dag: Dag, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.answer(changed_by_others())

    assert dag.run("[broken, note]") == "success"

    assert [event["event"] for event in dag.told] == ["foreign_change"]


def test_a_run_of_which_there_is_nothing_to_tell_calls_nobody(dag: Dag, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(report("{run_id}/daily", target="daily"))

    assert dag.run("note") == "success"

    assert dag.told == []


def test_what_happened_before_a_failure_is_told(dag: Dag, spark_submit: SparkSubmitStandIn) -> None:
    spark_submit.answer(changed_by_others(), failures=(failure("{run_id}/b", flow="b"),))

    assert dag.run("note") == "failed"

    assert [event["event"] for event in dag.told] == ["foreign_change"]


def test_what_cannot_be_called_is_refused_before_anything_runs(dag: Dag, spark_submit: SparkSubmitStandIn) -> None:
    assert dag.run("'note'") == "failed"

    assert spark_submit.calls == []
