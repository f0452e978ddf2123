"""How far an application is, is told and recorded while it runs; nothing depends on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import HistoryError
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.operators.cluster import Cluster
from airflow_provider_replacewhere.operators.exchange import Exchange, open_exchange
from airflow_provider_replacewhere.operators.following import Progress, following
from airflow_provider_replacewhere.planning.chunking import Chunk
from airflow_provider_replacewhere.planning.report import JobOutcome, RunReport
from tests.history import failure, report

SOON = 0.02


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    exchange = open_exchange("app", Cluster("local[2]", "client"), None)
    yield exchange
    exchange.discard()


def chunk(number: int, of: int = 4) -> RunReport:
    return replace(report(f"app/{number}/daily"), chunk=Chunk(number, of, "app"), rows_written=10)


def write(exchange: Exchange, outcome: JobOutcome) -> None:
    part = Path(exchange.place).with_suffix(".part")
    part.write_text(outcome.to_json())
    part.replace(exchange.place)


class Heard:
    """What was said, and a way to wait for it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self.changed = threading.Condition()

    def say(self, lines: list[str]) -> None:
        with self.changed:
            self.lines += lines
            self.changed.notify_all()

    def warn(self, text: str) -> None:
        with self.changed:
            self.warnings.append(text)
            self.changed.notify_all()

    def await_number(self, number: int, of: str = "lines") -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(getattr(self, of)) >= number, timeout=20)


def test_chunks_are_in_the_ledger_before_the_application_ends(exchange: Exchange, tmp_path: Path) -> None:
    store, heard = HistoryStore(f"sqlite:///{tmp_path}/history.db"), Heard()
    with following(exchange, store.record_outcome, heard.say, heard.warn, every_seconds=SOON):
        write(exchange, JobOutcome("app", (chunk(1),)))
        heard.await_number(1)
        assert [run.run_id for run in store.runs()] == ["app/1/daily"]
        write(exchange, JobOutcome("app", (chunk(1), chunk(2)), (failure("app/3/daily"),)))
        heard.await_number(2)
    assert [(run.run_id, str(run.status)) for run in store.runs()] == [
        ("app/3/daily", "failed"),
        ("app/2/daily", "succeeded"),
        ("app/1/daily", "succeeded"),
    ]
    assert heard.lines[0] == "daily: chunk 1 of 4 is done, 10 rows written"
    assert heard.lines[1].startswith("daily: chunk 2 of 4 is done, 20 rows written, about ")
    store.record_outcome(JobOutcome("app", (chunk(1), chunk(2)), (failure("app/3/daily"),)))
    assert len(store.runs()) == 3, "the end records nothing twice"


def test_what_cannot_be_read_or_recorded_ends_nothing(exchange: Exchange) -> None:
    heard, given = Heard(), []

    def record(outcome: JobOutcome) -> None:
        given.append(outcome)
        if len(given) < 3:
            raise HistoryError("The database is away.")

    with following(exchange, record, heard.say, heard.warn, every_seconds=SOON):
        Path(exchange.place).write_text('{"cut off')
        threading.Event().wait(5 * SOON)
        write(exchange, JobOutcome("another", (chunk(1),)))
        threading.Event().wait(5 * SOON)
        assert given == []
        write(exchange, JobOutcome("app", (chunk(1),)))
        heard.await_number(1, "warnings")
        write(exchange, JobOutcome("app", (chunk(1), chunk(2))))
        write(exchange, JobOutcome("app", (chunk(1), chunk(2), chunk(3))))
        threading.Event().wait(5 * SOON)
        write(exchange, JobOutcome("app", tuple(chunk(number) for number in range(1, 5))))
        threading.Event().wait(5 * SOON)
    assert heard.warnings == ["The progress of the application is not recorded now: The database is away."]
    assert {each.run_id for each in given[-1].reports} >= {"app/4/daily"}


def test_time_left_is_told_from_the_chunks_before() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])
    assert progress.lines(JobOutcome("app", (chunk(1, 100),))) == ["daily: chunk 1 of 100 is done, 10 rows written"]
    now[0] = 90.0
    (line,) = progress.lines(JobOutcome("app", (chunk(1, 100), chunk(10, 100))))
    assert line == "daily: chunk 10 of 100 is done, 20 rows written, about 15 min left"
    assert progress.lines(JobOutcome("app", (chunk(100, 100),))) == []


def test_what_was_done_before_a_task_was_ended_is_recorded(exchange: Exchange, tmp_path: Path) -> None:
    store, heard = HistoryStore(f"sqlite:///{tmp_path}/history.db"), Heard()

    write(exchange, JobOutcome("app", (chunk(1),)))
    follow = following(exchange, store.record_outcome, heard.say, heard.warn, every_seconds=3600)
    with pytest.raises(KeyboardInterrupt), follow:
        raise KeyboardInterrupt
    assert [run.run_id for run in store.runs()] == ["app/1/daily"]
