"""Dag files as Airflow wants them, and what came of running one."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

HEAD = """\
from datetime import UTC, datetime, timedelta
from airflow.providers.common.compat.sdk import DAG, Asset, Param
from airflow_provider_replacewhere.operators.backfill import BackfillOperator
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

with DAG({dag_id!r}, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), {options}) as dag:
"""


@contextmanager
def only_our_warnings_count() -> Iterator[None]:
    """Airflow's own machinery warns of its own future; a warning that our code causes stays an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", module=r"airflow_provider_replacewhere(\.|$)")
        yield


@dataclass(frozen=True)
class DagResult:
    """What came of one Dag run.

    :param state: of the run
    :param tasks: by task, its state
    :param values: by task, what it returned
    :param errors: texts of the errors that ended tasks
    :param lines: what our operators logged
    """

    run_id: str
    state: str
    tasks: Mapping[str, str | None]
    values: Mapping[str, Any]
    log: str

    @property
    def ok(self) -> bool:
        return self.state == "success"


@dataclass(frozen=True)
class DagFolder:
    folder: Path

    def clear(self) -> None:
        for entry in self.folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def write(self, tasks: str, options: str = "") -> str:
        """A Dag file with these lines in the ``with`` block; returns the Dag's id."""
        dag_id = f"dag_{uuid4().hex[:8]}"
        lines = "".join(f"    {line}\n" for line in tasks.strip().splitlines())
        (self.folder / f"{dag_id}.py").write_text(HEAD.format(dag_id=dag_id, options=options) + lines)
        return dag_id

    def load(self, dag_id: str, file: Path | None = None) -> Any:
        """The Dag, from its file."""
        path = file or self.folder / f"{dag_id}.py"
        spec = importlib.util.spec_from_file_location(f"dags_of_test_{dag_id}_{uuid4().hex[:4]}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return next(d for d in vars(module).values() if getattr(d, "dag_id", None) == dag_id and hasattr(d, "test"))

    def run(
        self,
        tasks: str,
        conf: Mapping[str, Any] | None = None,
        *,
        options: str = "",
        logical_date: datetime = datetime(2026, 3, 10, tzinfo=UTC),
    ) -> DagResult:
        """Write a Dag with these tasks and run it once."""
        return run_dag(self.load(self.write(tasks, options)), conf, logical_date)


def run_dag(dag: Any, conf: Mapping[str, Any] | None, logical_date: datetime) -> DagResult:
    """Run a Dag by ``dag.test`` in this process."""
    log = _Log()
    root = logging.getLogger()
    root.addHandler(log)
    try:
        with only_our_warnings_count():
            run = dag.test(logical_date=logical_date, run_conf=dict(conf or {}))
    finally:
        root.removeHandler(log)
    tis = run.get_task_instances()
    return DagResult(
        run_id=run.run_id,
        state=str(run.state.value if hasattr(run.state, "value") else run.state),
        tasks={ti.task_id: str(getattr(ti.state, "value", ti.state)) for ti in tis},
        values={ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in tis},
        log="\n".join(log.lines),
    )


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
