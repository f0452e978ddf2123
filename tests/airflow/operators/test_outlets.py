"""The events of a task's outlets: what was written, and for an alias none where nothing was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_replacewhere.operators.versions import airflow_line
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from tests.airflow_dags import DagFolder, asset_events, partition_keys
from tests.history import report
from tests.spark_submit import SparkSubmitStandIn

pytestmark = pytest.mark.matrix

PIPELINE = """\
CREATE STREAMING TABLE {a} FLOW REPLACE WHERE d > '2026-01-01' BY NAME SELECT d FROM rides;
CREATE STREAMING TABLE {b} FLOW REPLACE WHERE d > '2026-01-01' BY NAME SELECT d FROM rides;
"""


def task(a: str, b: str, outlets: str, more: str = "") -> str:
    pipeline = PIPELINE.format(a=a, b=b)
    return f'ReplaceWhereOperator(task_id="t", pipeline="""{pipeline}""", outlets=[{outlets}]{more})'


def written(name: str) -> RunReport:
    return report(f"{{run_id}}/{name}", flow=name, target=name, replaced="(`d` = DATE '2026-03-01')")


def nothing(name: str) -> RunReport:
    return report(f"{{run_id}}/{name}", flow=name, target=name, mode=Mode.NO_OP, reasons=(), replaced=None)


def events(uri: str) -> list[list[dict[str, Any]]]:
    """The runs that each event of an asset tells of."""
    told = [extra.get("replacewhere", []) for extra in asset_events(uri)]
    return [json.loads(runs) if isinstance(runs, str) else runs for runs in told]


def targets(uri: str) -> list[list[str]]:
    """The targets that each event of an asset tells of."""
    return [[run["target"] for run in runs] for runs in events(uri)]


def test_an_alias_has_an_event_for_each_table_that_was_written(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.answer(written("one"), nothing("two"))

    assert dags.run(task("one", "two", 'AssetAlias("tables_of_one")')).state == "success"

    assert targets("replacewhere://tables/one") == [["one"]]
    assert targets("replacewhere://tables/two") == []
    ((told,),) = events("replacewhere://tables/one")
    assert (told["replaced"], told["rows_written"], told["target_version"]) == ("(`d` = DATE '2026-03-01')", 12, 3)


def test_an_alias_that_is_called_like_a_table_is_about_that_one_only(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.answer(written("three"), written("four"))

    result = dags.run(task("three", "four", 'AssetAlias("four")', ', asset_uri="file://lake/{table}"'))

    assert result.state == "success"
    assert targets("file://lake/four") == [["four"]]
    assert targets("file://lake/three") == []


def test_an_asset_has_an_event_in_any_case_which_says_when_nothing_was_written(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    spark_submit.answer(nothing("five"), nothing("six"))

    assert dags.run(task("five", "six", 'Asset("file://lake/five")')).state == "success"

    assert targets("file://lake/five") == [[]]


def test_a_pattern_that_gives_no_uri_is_refused_before_anything_runs(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    result = dags.run(task("seven", "eight", 'AssetAlias("x")', ', asset_uri="file://{name}"'))

    assert "asset_uri is 'file://{name}', which gives no URI" in result.error
    assert spark_submit.calls == []


def test_an_asset_has_an_event_for_each_partition_that_was_replaced(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    days = replace(
        written("nine"), replaced="(`d` >= DATE '2026-03-01' AND `d` < DATE '2026-03-03')", window_types={"d": "date"}
    )
    spark_submit.answer(days, nothing("ten"))
    outlets = 'Asset("file://lake/nine"), Asset("file://lake/ten")'

    result = dags.run(task("nine", "ten", outlets, ', partition_keys="day"'))

    assert result.state == "success"
    if airflow_line() in ("2", "3.0", "3.1", "3.2"):
        assert targets("file://lake/nine") == [["nine"]]
        return
    assert partition_keys("file://lake/nine") == ["2026-03-01T00:00:00", "2026-03-02T00:00:00"]
    assert targets("file://lake/nine") == [["nine"], ["nine"]]
    assert partition_keys("file://lake/ten") == [None]


def test_what_no_partition_keys_can_name_has_an_event_without_any(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    open_below = replace(written("e11"), replaced="(`d` < DATE '2026-03-03')", window_types={"d": "date"})
    spark_submit.answer(open_below, nothing("e12"))

    result = dags.run(task("e11", "e12", 'Asset("file://lake/e11")', ', partition_keys="day"'))

    assert result.state == "success"
    assert targets("file://lake/e11") == [["e11"]]


def test_a_unit_of_partitions_that_is_none_is_refused_before_anything_runs(
    dags: DagFolder, spark_submit: SparkSubmitStandIn
) -> None:
    result = dags.run(task("e13", "e14", 'Asset("x")', ', partition_keys="hour"'))

    assert "partition_keys is 'hour'; it can be day, week, month, year" in result.error
    assert spark_submit.calls == []
