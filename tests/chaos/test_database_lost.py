"""The history's database is killed in the middle of a run: the table is before or after it, and the next run knows."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere.errors import HistoryError, ReplaceWhereError
from airflow_provider_replacewhere.history.leases import Conflict, Granted, Lease
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.local import LocalSession
from airflow_provider_replacewhere.planning.report import Mode
from tests.postgres import PostgresServer, postgres_server, running_server  # noqa: F401 (a fixture)
from tests.spark.tables import NOON, WEEK, Lake, flow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

DAILY = flow("SELECT day, sum(fare) AS fare FROM rides GROUP BY day", where=WEEK, clauses="PARTITIONED BY (day)")


class Dying(HistoryStore):
    """A ledger whose database is killed at one call.

    :ivar at: the call, or None
    :ivar back: whether it is started again at once
    """

    server: PostgresServer
    at: str | None = None
    back: bool = False

    def _strike(self, call: str) -> None:
        if self.at == call:
            self.at = None
            self.server.kill()
            if self.back:
                self.server.start()

    def coverage(self, *arguments: Any) -> dict[str, dict[str, Any]]:
        self._strike("start")
        return super().coverage(*arguments)

    def acquire(self, *arguments: Any, **more: Any) -> Granted | Conflict:
        self._strike("lease")
        found = super().acquire(*arguments, **more)
        self._strike("leased")
        return found

    def permit(self, lease: Lease, **more: Any) -> Lease:
        self._strike("permission")
        found = super().permit(lease, **more)
        self._strike("permitted")
        return found

    def record_outcome(self, *arguments: Any) -> None:
        self._strike("record")
        super().record_outcome(*arguments)


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:  # noqa: F811 (the fixture)
    """One of our own, since it is killed; the session's own is asked for only to learn whether there can be one."""
    with running_server() as own:
        yield own


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    made = Lake(spark, tmp_path)
    made.make("rides", "day DATE, fare INT", [(f"2026-03-{day:02d}", day) for day in range(1, 11)])
    return made


# Whether the run can go on when the database comes back at once, and whether its commit is there when it does not.
CALLS = {
    "start": (True, False),
    "lease": (True, False),
    "leased": (True, False),
    "permission": (True, False),
    "permitted": (True, True),
    "record": (True, True),
}


IN_SUITE = {("leased", True), ("record", False)}


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("call", "back"),
    [
        pytest.param(
            *case,
            marks=() if case in IN_SUITE else pytest.mark.long,
            id=f"{case[0]}-{'back at once' if case[1] else 'away'}",
        )
        for case in itertools.product(CALLS, (True, False))
    ],
)
def test_a_run_whose_database_is_killed(lake: Lake, server: PostgresServer, call: str, back: bool) -> None:
    url = server.new_database().render_as_string(hide_password=False)
    LocalSession(lake.spark, root=lake.root, history=url).run(DAILY, as_of=NOON)
    lake.add("rides", ("2026-03-10", 5))
    before, version = lake.rows("daily"), lake.version("daily")
    wanted = [(day, fare + 5 if day == "2026-03-10" else fare) for day, fare in before]
    dying = Dying(url)
    dying.server, dying.at, dying.back = server, call, back
    goes_on, has_landed = CALLS[call]

    problem = _problem(LocalSession(lake.spark, root=lake.root, history=dying))
    if problem is None:
        assert back or call == "permitted"
    else:
        assert isinstance(problem, HistoryError), problem
        assert problem.retryable
        assert not (back and goes_on)
    assert dying.at is None, "it was killed"
    assert lake.rows("daily") == (wanted if has_landed or back else before)
    assert lake.version("daily") <= version + 1

    if not back:
        server.start()
    # By then the leases that could not be given back have expired.
    later = HistoryStore(url, clock=lambda: datetime.now(UTC) + timedelta(hours=1))
    again = LocalSession(lake.spark, root=lake.root, history=later)
    (report,) = again.run(DAILY, as_of=NOON)
    assert lake.rows("daily") == wanted
    assert lake.version("daily") == version + 1, "in one commit"
    assert report.mode is (Mode.NO_OP if has_landed or back else Mode.INCREMENTAL)
    # The ledger knows all commits, whoever recorded them.
    assert len({run.report.token for run in again.history.runs() if run.report and run.report.mode != "NO_OP"}) == 2


def _problem(session: LocalSession) -> ReplaceWhereError | None:
    try:
        session.run(DAILY, as_of=NOON)
    except ReplaceWhereError as problem:
        return problem
    return None
