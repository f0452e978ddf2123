"""What Airflow's OpenLineage provider tells of a task: its own listener, with its transport to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.planning.report import JobOutcome, Mode, RunReport
from tests.airflow_dags import DagFolder
from tests.dag_process import run_in_process
from tests.history import failure, report
from tests.spark_submit import SparkSubmitStandIn

pytest.importorskip("airflow.providers.openlineage", reason="OpenLineage is no dependency")
pytestmark = pytest.mark.matrix

FLOW = 'target="daily", replace_where="d >= date_sub(current_date(), 7)", query="SELECT d, n FROM rides"'
TASK = f'ReplaceWhereOperator(task_id="t", {FLOW})'
INFORMATION = {
    "source_table_information": [
        {"table_name": "rides", "version": 7, "path": "s3a://lake/rides", "table_id": "id-1"},
        {"table_name": "zones", "version": None, "path": None, "table_id": None},
    ],
    "target_table_information": {"table_name": "daily", "version": 2, "path": "s3a://lake/daily", "table_id": "id-2"},
}


def told(**changes: Any) -> RunReport:
    return report("{run_id}/daily", target="daily", planning_information=INFORMATION, **changes)


def run(dags: DagFolder, folder: Path, task: str = TASK) -> dict[str, Any]:
    """Run a task; the event that tells of its end."""
    events = folder / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    dag_id = dags.write(task)
    run_in_process(dags.folder / f"{dag_id}.py", folder, AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport))
    ended = [json.loads(line) for line in events.read_text().splitlines()]
    (event,) = [e for e in ended if e["eventType"] in ("COMPLETE", "FAIL") and e["job"]["name"] == f"{dag_id}.t"]
    assert isinstance(event, dict)
    return event


def test_a_run_tells_what_it_read_and_wrote(dags: DagFolder, spark_submit: SparkSubmitStandIn, tmp_path: Path) -> None:
    outcome = JobOutcome("{run_id}", (told(),), schemas={"daily": {"d": "date", "n": "bigint"}})
    spark_submit.leave(outcome.to_json())

    event = run(dags, tmp_path)

    assert event["eventType"] == "COMPLETE"
    assert [(each["namespace"], each["name"]) for each in event["inputs"]] == [
        ("s3://lake", "rides"),
        ("replacewhere", "zones"),
    ]
    assert [each["facets"].get("version", {}).get("datasetVersion") for each in event["inputs"]] == ["7", None]
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://lake", "daily")
    assert output["facets"]["version"]["datasetVersion"] == "3"
    assert [(f["name"], f["type"]) for f in output["facets"]["schema"]["fields"]] == [("d", "date"), ("n", "bigint")]
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (12, 4096)
    own = output["outputFacets"]["replaceWhere"]
    assert own["_schemaURL"] == "urn:airflow-provider-replacewhere:openlineage:1:output"
    run_id = spark_submit.calls[0].request["run_id"]
    kept = {key: value for key, value in own.items() if not key.startswith("_") and value is not None}
    assert kept == {
        "flow": "daily",
        "runId": f"{run_id}/daily",
        "mode": "FULL_RECOMPUTE",
        "reasons": [{"reason": "FIRST_REFRESH"}],
        "window": "(`d` >= DATE '2026-03-01')",
        "replaced": "(`d` >= DATE '2026-03-01')",
        "override": False,
        "rowsDeleted": 10,
        "rowsWritten": 12,
    }
    facet = event["run"]["facets"]["replaceWhere"]
    assert (facet["runId"], facet["asOf"], facet["dryRun"]) == (run_id, "2026-03-10T00:00:00+00:00", False)


def test_a_run_with_nothing_to_do_still_tells_what_it_keeps_fresh(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, tmp_path: Path
) -> None:
    nothing = told(mode=Mode.NO_OP, reasons=(), replaced=None, rows_deleted=None, rows_written=None, bytes_written=None)
    spark_submit.answer(nothing)

    (output,) = run(dags, tmp_path)["outputs"]

    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (0, 0)
    assert output["outputFacets"]["replaceWhere"]["mode"] == "NO_OP"


def test_a_plan_writes_nothing(dags: DagFolder, spark_submit: SparkSubmitStandIn, tmp_path: Path) -> None:
    spark_submit.answer(told(dry_run=True))

    event = run(dags, tmp_path, f'ReplaceWhereOperator(task_id="t", {FLOW}, dry_run=True)')

    assert event["outputs"] == []
    assert len(event["inputs"]) == 2


def test_a_task_that_fails_tells_what_ended_well_and_what_did_not(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, tmp_path: Path
) -> None:
    spark_submit.answer(told(), failures=(failure("{run_id}/b", flow="b", target="other"),))

    event = run(dags, tmp_path)

    assert event["eventType"] == "FAIL"
    assert [each["name"] for each in event["outputs"]] == ["daily"]
    run_id = spark_submit.calls[0].request["run_id"]
    assert event["run"]["facets"]["replaceWhere"]["failures"] == [
        {"flow": "b", "target": "other", "runId": f"{run_id}/b", "error": "WriteError"}
    ]


def test_a_task_without_an_outcome_tells_that_it_failed(
    dags: DagFolder, spark_submit: SparkSubmitStandIn, tmp_path: Path
) -> None:
    spark_submit.leave(None)

    event = run(dags, tmp_path)

    assert (event["eventType"], event["outputs"]) == ("FAIL", [])
