"""A pipeline as tasks, and as a whole Dag."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import DAG, Asset, TaskGroup

from airflow_provider_replacewhere.dags.caller import calling_file
from airflow_provider_replacewhere.dags.outline import FlowOutline, Outline, outline_of
from airflow_provider_replacewhere.dags.schedule import airflow_schedule, declared
from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.operators.outlets import ASSET_URI, uri_of
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

if TYPE_CHECKING:
    from airflow_provider_replacewhere.operators.definition import PathLike

_DECLARED: Any = object()


def replace_where_task_group(
    pipeline: PathLike | Sequence[PathLike],
    *,
    group_id: str = "replace_where",
    one_application: bool = False,
    asset_uri: str = ASSET_URI,
    **operator: Any,
) -> TaskGroup:
    """A task for each flow of a pipeline, each behind those that fill what it reads.

    Each target is an outlet of its task, as an asset of its own name; what a flow reads from outside the pipeline is an
    inlet. The group can stand among other tasks, as any.

    :param pipeline: SQL text, or a path or several: files, folders, or patterns
    :param group_id: the group's name, which its tasks' ids begin with
    :param one_application: run all flows in one task, and so in one Spark application. A pipeline with Python files
        always is one task: what they declare shows only in Spark
    :param asset_uri: URI of a table's asset; ``{table}`` stands for the table's name
    :param operator: arguments of every :class:`~..operators.replace_where.ReplaceWhereOperator`
    :raises DefinitionError: the pipeline declares no valid flows
    """
    outline = outline_of(pipeline, [str(Path(calling_file()).parent)], operator.get("time_zone", "UTC"))
    with TaskGroup(group_id) as group:
        _tasks(pipeline, outline, asset_uri, operator, one_application=one_application)
    return group


def replace_where_dag(
    pipeline: PathLike | Sequence[PathLike],
    dag_id: str,
    *,
    schedule: Any = _DECLARED,
    one_application: bool = False,
    asset_uri: str = ASSET_URI,
    operator: Mapping[str, Any] | None = None,
    **dag: Any,
) -> DAG:
    """A Dag that keeps a pipeline's tables fresh.

    :param pipeline: SQL text, or a path or several: files, folders, or patterns
    :param dag_id: the Dag's id
    :param schedule: as a Dag's; by default the one that the pipeline declares (``SCHEDULE EVERY …`` or
        ``SCHEDULE CRON …``), or None where it declares none
    :param one_application: see :func:`replace_where_task_group`
    :param asset_uri: likewise
    :param operator: arguments of every :class:`~..operators.replace_where.ReplaceWhereOperator`
    :param dag: further arguments of the Dag; ``catchup`` is False and ``max_active_runs`` is 1 unless they are given
    :raises DefinitionError: the pipeline declares no valid flows, or several schedules and none is given
    """
    file = calling_file()
    arguments = dict(operator or {})
    outline = outline_of(pipeline, [str(Path(file).parent)], arguments.get("time_zone", "UTC"))
    if schedule is _DECLARED:
        schedule = airflow_schedule(declared(outline))
    with DAG(dag_id, schedule=schedule, **{"catchup": False, "max_active_runs": 1, **dag}) as made:
        _tasks(pipeline, outline, asset_uri, arguments, one_application=one_application)
    # Airflow looks for the file by who calls it, which is this module.
    made.fileloc = file
    return made


def _tasks(
    pipeline: PathLike | Sequence[PathLike],
    outline: Outline,
    asset_uri: str,
    operator: Mapping[str, Any],
    *,
    one_application: bool,
) -> None:
    if "refresh_selection" in operator:
        raise DefinitionError(
            "refresh_selection is given, but each task runs the table of its own.",
            hint="Leave it out; for a part of the pipeline use the operator itself.",
        )

    def asset(table: str) -> Asset:
        return Asset(uri_of(asset_uri, table))

    if one_application or not outline.is_complete:
        targets = [flow.target for flow in outline.flows]
        sources = dict.fromkeys(source for flow in outline.flows for source in flow.sources)
        ReplaceWhereOperator(
            task_id="all_tables",
            pipeline=pipeline,
            outlets=[asset(target) for target in targets],
            inlets=[asset(source) for source in sources],
            **operator,
        )
        return
    tasks: dict[str, ReplaceWhereOperator] = {}
    for flow in outline.flows:
        tasks[flow.target] = task = ReplaceWhereOperator(
            task_id=_task_id(flow, tasks),
            pipeline=pipeline,
            refresh_selection=[flow.target],
            outlets=[asset(flow.target)],
            inlets=[asset(source) for source in flow.sources],
            **operator,
        )
        for upstream in flow.upstream:
            if upstream in tasks:
                task.set_upstream(tasks[upstream])


def _task_id(flow: FlowOutline, taken: Mapping[str, ReplaceWhereOperator]) -> str:
    """The table's name, in the letters that a task's may have."""
    name = re.sub(r"[^\w-]+", "_", flow.target).strip("_") or "table"
    ids = {str(task.task_id).rpartition(".")[2] for task in taken.values()}
    return name if name not in ids else f"{name}_{len(ids)}"
