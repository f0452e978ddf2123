"""What a piece of Spark work costs: time, task time, bytes read and written, and rows rewritten in a target."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    """The cost of one measured step; None is what was not measured.

    :param seconds: wall time
    :param cpu_seconds: of a step that is a process of its own: what it and its children used
    :param task_seconds: time that Spark's tasks ran, added up over the cores
    :param bytes_read: what tasks read of files; the column chunks that are needed, not whole files
    :param bytes_written: what tasks wrote to files
    :param jobs: Spark jobs that were started
    :param rows_written: rows in files added to the target, those included that were only copied
    :param mode: what the step did, in the words of whoever did it
    """

    seconds: float
    cpu_seconds: float | None = None
    task_seconds: float | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    jobs: int | None = None
    rows_written: int | None = None
    mode: str = ""


class Meter:
    """Measures steps in one Spark application, one after another, with the numbers that Spark itself keeps.

    :param spark: a session in which ``parquet.hadoop.vectored.io.enabled`` is false; else Spark counts no bytes read
    """

    def __init__(self, spark: SparkSession) -> None:
        context, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway
        assert gateway is not None
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._bus, self._store = context.listenerBus(), context.statusStore()
        self._no_quantiles = gateway.new_array(jvm.double, 0)

    def measure(self, step: Callable[[], str], *targets: Path) -> Work:
        """Run a step once.

        :param step: the work; what it returns becomes ``mode``
        :param targets: the Delta tables that it may write
        """
        self._jvm.System.gc()  # neither step pays for what the one before left behind
        first_stage, first_job = self._last_stage() + 1, self._last_job() + 1
        versions = {target: last_version(target) for target in targets}
        started = time.perf_counter()
        mode = step()
        seconds = time.perf_counter() - started
        stages = [stage for stage in self._stages() if stage.stageId() >= first_stage]
        return Work(
            seconds=seconds,
            task_seconds=sum(stage.executorRunTime() for stage in stages) / 1000,
            bytes_read=sum(stage.inputBytes() for stage in stages),
            bytes_written=sum(stage.outputBytes() for stage in stages),
            jobs=self._last_job() + 1 - first_job,
            rows_written=sum(rows_written(target, version) for target, version in versions.items()),
            mode=mode,
        )

    def _stages(self) -> list[Any]:
        self._bus.waitUntilEmpty()
        nothing = self._jvm.java.util.ArrayList()
        stages = self._store.stageList(nothing, False, False, self._no_quantiles, nothing)
        return [stages.apply(i) for i in range(stages.size())]

    def _last_stage(self) -> int:
        return max((int(stage.stageId()) for stage in self._stages()), default=-1)

    def _last_job(self) -> int:
        self._bus.waitUntilEmpty()
        jobs = self._store.jobsList(self._jvm.java.util.ArrayList())
        return max((int(jobs.apply(i).jobId()) for i in range(jobs.size())), default=-1)


def last_version(table: Path) -> int:
    """The newest version of a local Delta table; -1 where there is none."""
    return max((int(file.stem) for file in (table / "_delta_log").glob("*.json") if file.stem.isdigit()), default=-1)


def rows_written(table: Path, since: int) -> int:
    """Rows in the files that the commits after a version added, by Delta's own count."""
    total = 0
    for version in range(since + 1, last_version(table) + 1):
        for line in (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines():
            total += int(json.loads(json.loads(line).get("add", {}).get("stats") or "{}").get("numRecords", 0))
    return total
