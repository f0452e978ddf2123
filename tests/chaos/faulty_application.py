"""The Spark application with a fault in it: driver and JVM are killed at the point that the environment names."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, NoReturn

from pyspark.sql.functions import spark_partition_id, udf

from airflow_provider_replacewhere.spark import asking, job, run


def die(*_: Any, **__: Any) -> NoReturn:
    """End like a machine that lost its power: the wrapper has given driver and JVM a process group of their own."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
    raise AssertionError


def killing_rows(rows: Any) -> Any:
    """The rows, of which the first kills the driver while it is written: the target's rows are read, no commit is."""
    group = os.getpgid(0)
    kill = udf(lambda _: os.killpg(group, signal.SIGKILL) or True, "boolean")
    return rows.where(kill(spark_partition_id()))


@contextmanager
def full_disk() -> Iterator[None]:
    """Let the JVM write no file of any size, as on a disk that is full."""
    jvm = os.getppid()
    before = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, before)


def _third(number: int, commit: Any) -> Any:
    return die() if number == 3 else commit


def at(point: str) -> None:
    """Put the fault in."""
    write, report = run._Run._replace, job._report
    match point:
        case "started":
            job.run_request = die  # type: ignore[assignment]
        case "before_write":
            run._Run._replace = die  # type: ignore[method-assign]
        case "while_writing":
            run._Run._replace = lambda self, decision, rows, *rest: write(  # type: ignore[method-assign]
                self, decision, killing_rows(rows), *rest
            )
        case "committed":
            run._Run._replace = lambda *about: die(write(*about))  # type: ignore[method-assign]
        case "third_committed":
            commits = count(1)
            run._Run._replace = lambda *about: _third(next(commits), write(*about))  # type: ignore[method-assign]
        case "reported":
            job._report = lambda session, request, outcome: (  # type: ignore[assignment]
                report(session, request, outcome),
                die() if outcome.reports else None,
            )
        case "disk_full":

            def on_a_full_disk(*about: Any) -> Any:
                with full_disk():
                    return write(*about)

            run._Run._replace = on_a_full_disk  # type: ignore[method-assign]
        case "none":
            pass
        case _:
            raise ValueError(point)


# A worker that is gone is not waited for as long as in life.
asking.SILENCE_SECONDS = 12.0
leases = job._leases
job._leases = lambda session, request: leases(session, replace(request, silence_seconds=12.0))
at(os.environ["REPLACEWHERE_TEST_FAULT"])
sys.exit(job.main(sys.argv[1:]))
