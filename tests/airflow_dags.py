"""Dag files of one test each, and what came of running them by ``dag.test`` in this process."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

LOGICAL_DATE = datetime(2026, 3, 10, tzinfo=UTC)

HEAD = """\
from datetime import UTC, datetime, timedelta
from airflow.providers.common.compat.sdk import DAG, Asset, AssetAlias, Param
from airflow_provider_replacewhere.operators import backfill, replace_where

errors = []

class Noting:
    # Airflow 3.0 does not tell callbacks which error it was; Airflow 2 adds a mark by which it knows its own calls.
    def execute(self, context, **mark):
        try:
            return super().execute(context, **mark)
        except BaseException as error:
            errors.append(error)
            raise

class ReplaceWhereOperator(Noting, replace_where.ReplaceWhereOperator):
    pass

class BackfillOperator(Noting, backfill.BackfillOperator):
    pass

with DAG(
    {dag_id!r},
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    default_args={{"retry_delay": timedelta(0)}},
    {options}
) as dag:
"""


@dataclass(frozen=True)
class DagResult:
    """What came of one Dag run.

    :param state: of the run
    :param tasks: by task, its state
    :param values: by task, what it returned; of a mapped task, what one of its instances did
    :param errors: the errors that ended tries of tasks, in order
    """

    state: str
    tasks: Mapping[str, str]
    values: Mapping[str, Any]
    errors: tuple[BaseException, ...]

    @property
    def error(self) -> str:
        """The text of the one error that there was."""
        (error,) = self.errors
        return str(error)


@dataclass(frozen=True)
class DagFolder:
    """A folder from which Airflow reads Dags."""

    folder: Path

    def bundle(self) -> str:
        """The value of ``[dag_processor] dag_bundle_config_list`` that names this folder."""
        path = "airflow.dag_processing.bundles.local.LocalDagBundle"
        return json.dumps([{"name": "tests", "classpath": path, "kwargs": {"path": str(self.folder)}}])

    def write(self, tasks: str, options: str = "") -> str:
        """A Dag file with these lines in its ``with`` block; returns the Dag's id."""
        dag_id = f"dag_{uuid4().hex[:8]}"
        lines = "".join(f"    {line}\n" for line in tasks.strip().splitlines())
        (self.folder / f"{dag_id}.py").write_text(HEAD.format(dag_id=dag_id, options=options) + lines)
        return dag_id

    def run(
        self,
        tasks: str,
        conf: Mapping[str, Any] | None = None,
        *,
        options: str = "",
        logical_date: datetime = LOGICAL_DATE,
    ) -> DagResult:
        """Write a Dag with these tasks and run it once."""
        dag_id = self.write(tasks, options)
        return run_dag(self.folder / f"{dag_id}.py", conf, logical_date)


def load(file: Path) -> Any:
    """The module of a Dag file."""
    spec = importlib.util.spec_from_file_location(f"dag_of_a_test_{uuid4().hex[:8]}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_dag(file: Path, conf: Mapping[str, Any] | None, logical_date: datetime, done: str | None = None) -> DagResult:
    """Run the Dag called ``dag`` in a file.

    :param done: tasks whose id fits this pattern count as done and are not run
    """
    module = load(file)
    when = {"execution_date" if _airflow_2() else "logical_date": logical_date}
    with only_our_warnings_count():
        if any(task.outlets for task in module.dag.tasks):
            _register_assets(module.dag)
        with _timeouts_are_failures():
            module.dag.test(**when, run_conf=dict(conf or {}), mark_success_pattern=done)
        return result_of(module, logical_date)


@contextmanager
def _timeouts_are_failures() -> Iterator[None]:
    """Airflow 2 lets a task's time-out end ``dag.test`` itself, after it has recorded the task's failure."""
    from airflow.exceptions import AirflowTaskTimeout

    try:
        yield
    except AirflowTaskTimeout:
        if not _airflow_2():
            raise


def result_of(module: Any, logical_date: datetime) -> DagResult:
    """What the metadata database says of a Dag's run."""
    from airflow.utils.session import create_session

    with create_session() as session:
        run = _run_of(module.dag.dag_id, logical_date, session)
        tasks = run.get_task_instances(session=session)
        return DagResult(
            state=_text(run.state),
            tasks={task.task_id: _text(task.state) for task in tasks},
            values={
                # One instance at a time: Airflow 3.1 cannot read what several of a mapped task have returned.
                task.task_id: task.xcom_pull(task_ids=task.task_id, map_indexes=task.map_index, session=session)
                for task in tasks
            },
            errors=tuple(getattr(module, "errors", ())),
        )


def of_task(dag_id: str, task_id: str, what: Callable[[Any, Any], Any], logical_date: datetime = LOGICAL_DATE) -> Any:
    """What is to be said of a task that has run, by its record and the session in which that was read."""
    from airflow.utils.session import create_session

    with create_session() as session:
        run = _run_of(dag_id, logical_date, session)
        (task,) = [task for task in run.get_task_instances(session=session) if task.task_id == task_id]
        return what(task, session)


def set_conf(dag_id: str, logical_date: datetime, conf: Mapping[str, Any]) -> None:
    """Give a run that is there other params."""
    from airflow.utils.session import create_session

    with create_session() as session:
        _run_of(dag_id, logical_date, session).conf = dict(conf)


def run_task_again(file: Path, task_id: str, logical_date: datetime) -> None:
    """Run one task of a run that is there, as ``airflow tasks test`` does; the Dag is called like its file."""
    where = ("--subdir", str(file)) if _airflow_2() else ()  # Airflow 3 finds it in its bundles
    with only_our_warnings_count():
        _airflow("tasks", "test", *where, file.stem, task_id, logical_date.isoformat())


def _register_assets(dag: Any) -> None:
    """Write the Dag to the database, as newer versions of ``dag.test`` do by themselves."""
    if _airflow_2():
        dag.bulk_write_to_db([dag])
    else:
        _airflow("dags", "reserialize")


def _airflow(*words: str) -> None:
    """A command of Airflow's command line, in this process."""
    from airflow.cli import cli_parser

    arguments = cli_parser.get_parser().parse_args(words)
    arguments.func(arguments)


def _run_of(dag_id: str, logical_date: datetime, session: Any) -> Any:
    from airflow.models import DagRun
    from sqlalchemy import select

    column = DagRun.execution_date if _airflow_2() else DagRun.logical_date
    return session.scalars(select(DagRun).where(DagRun.dag_id == dag_id, column == logical_date)).one()


def asset_events(uri: str) -> list[dict[str, Any]]:
    """The extras of an asset's events, in order."""
    from airflow.utils.session import create_session
    from sqlalchemy import select

    if _airflow_2():
        from airflow.models.dataset import DatasetEvent as Event
        from airflow.models.dataset import DatasetModel as Model

        found = select(Event.extra).join(Model, Event.dataset_id == Model.id)
    else:
        from airflow.models.asset import AssetEvent as Event
        from airflow.models.asset import AssetModel as Model

        found = select(Event.extra).join(Model, Event.asset_id == Model.id)
    with create_session() as session:
        return list(session.scalars(found.where(Model.uri == uri).order_by(Event.id)))


def partition_keys(uri: str) -> list[str | None]:
    """The partition keys of an asset's events, sorted; from Airflow 3.2 on."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    found = select(AssetEvent.partition_key).join(AssetModel, AssetEvent.asset_id == AssetModel.id)
    with create_session() as session:
        return sorted(session.scalars(found.where(AssetModel.uri == uri)), key=str)


@contextmanager
def only_our_warnings_count() -> Iterator[None]:
    """Airflow's own machinery warns of its own future; a warning that our code causes stays an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", module=r"airflow_provider_replacewhere(\.|$)")
        yield


def _airflow_2() -> bool:
    import airflow

    return airflow.__version__.startswith("2.")


def _text(state: Any) -> str:
    return str(getattr(state, "value", state))
