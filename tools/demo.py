"""The main job, for someone who sees it for the first time: ``python -m tools.demo``, or ``make demo``.

A real Airflow (a throw-away home, SQLite, no service) runs the example Dags with real ``spark-submit``: a flow on one
day, again on the next when late rows have come, and a backfill with a predicate of its own. After each run it shows
what was replaced, why, and the table before and after.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import date, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from airflow_provider_replacewhere.errors import ReplaceWhereError
from airflow_provider_replacewhere.history.records import Run
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.planning.words import plain, reason
from tools.demo_airflow import ROOT, AirflowFailedError, DemoError, ThrowAwayAirflow, dags_test
from tools.demo_table import Cells, Window, comparison, query, rides_by_day_and_city

if TYPE_CHECKING:
    from rich.status import Status

FOLDER = ROOT / "build" / "demo"
PIPELINE = ROOT / "dags" / "pipelines" / "daily_rides.sql"
TARGET = "daily_rides"
DAY_1 = date(2026, 3, 10)
DAY_2 = DAY_1 + timedelta(days=1)
LOADED_LATER = {"start": "2026-02-17", "end": "2026-03-03"}
WIDTH = 100
SHOWN_OF_THE_LOG = 8
IN_WORDS = {
    "FIRST_REFRESH": "no run has filled the table before",
    "PREDICATE_OVERRIDE": "the predicate was given for this run only",
}


class Demo:
    """Three runs, each told as what happens, what was replaced, and what the table looks like."""

    def __init__(self, console: Console, folder: Path = FOLDER) -> None:
        self.console = console
        self.folder = folder
        self.airflow = ThrowAwayAirflow(folder)
        self.target = self.airflow.tables / TARGET
        self.sources = self.airflow.tables / "rides"

    def play(self) -> None:
        """Run everything, in order.

        :raises DemoError: a run failed
        """
        started = time.monotonic()
        self._opening()
        with self._waiting("preparing Airflow"):
            self.airflow = ThrowAwayAirflow.create(self.folder)

        self._chapter(1, f"The morning of {DAY_1:%d %B}: the first run")
        self.say("A month of rides is there. The flow fills its window, the last seven days, and nothing else.")
        self._run("example_daily_rides", DAY_1)

        self._chapter(2, f"The morning of {DAY_2:%d %B}: yesterday's rides, and some that come late")
        self.say("Stations report late. Whatever falls into the window is found without keys and without MERGE.")
        self._run("example_daily_rides", DAY_2)

        self._chapter(3, "A backfill: two weeks of February, by hand")
        self.say("The same flow with a predicate for this run only. In Airflow's UI a form asks for the two days.")
        self._run("example_backfill", DAY_2, LOADED_LATER)

        self._ending(time.monotonic() - started)

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style))

    def _opening(self) -> None:
        self.console.print(Rule("REPLACE WHERE flows on Airflow, Spark and Delta Lake", style="bold"))
        self.say(
            f"Airflow {version('apache-airflow')}, Spark {version('pyspark')}, Delta {version('delta-spark')}; "
            "one to four minutes, most of it Spark starting six times."
        )
        self.say(f"What Airflow and Spark say goes to {short(self.airflow.log)}\n", style="dim")
        self.say(f"The flow, {short(PIPELINE)}: a target, a predicate, a query.\n")
        text = PIPELINE.read_text()
        self.console.print(Syntax(text[text.index("CREATE") :].strip(), "sql", background_color="default"))
        self.say("")

    def _chapter(self, number: int, title: str) -> None:
        self.console.print(Rule(f"{number}  {title}", align="left"))

    def _run(self, dag_id: str, day: date, conf: dict[str, object] | dict[str, str] | None = None) -> None:
        before, rides_before = self._table(), self._rides(day)
        words = ["airflow", *(f"'{word}'" if " " in word else word for word in dags_test(dag_id, day, conf))]
        self.console.print(Text(f"$ {' '.join(words)}", style="cyan"), soft_wrap=True)
        started = time.monotonic()
        with self._waiting("Airflow runs it, and Spark starts twice"):
            self.airflow.run_dag(dag_id, day, conf)
        report = self._last_report()
        self._what_happened(report, self._rides(day), rides_before, time.monotonic() - started)
        self.console.print(comparison(before, self._table(), Window.of(report.window)))
        self.say("")

    def _what_happened(
        self, report: RunReport, rides: tuple[int, int], before: tuple[int, int], seconds: float
    ) -> None:
        new, late = rides[0] - before[0], rides[1] - before[1]
        came = f"{new:,} new" + (f", {late} of them late: they began before yesterday" if before[0] and late else "")
        facts = {
            "took": f"{seconds:.0f} s",
            "rides": f"{rides[0]:,} rows, {came}" if new else f"{rides[0]:,} rows, nothing new",
            "replaced": f"{plain(report.window)}",
            "because": ("\n" + 10 * " ").join(_in_words(each) for each in report.reasons),
            "rows": f"{report.rows_deleted} removed, {report.rows_written} written, in one commit: "
            f"version {report.target_version} of {report.target}",
        }
        for name, value in facts.items():
            self.console.print(Text(f"{name:<10}", style="bold").append(value, style="not bold"))
        self.say("")

    def _ending(self, seconds: float) -> None:
        self.console.print(Rule(f"Done in {seconds:.0f} s. Where to look next", align="left", style="bold"))
        history = f"replacewhere history --history {self.airflow.history_url}"
        for what, where in {
            "what was recorded": f"{short(Path(sys.executable).parent)}/{history}",
            "the tables": short(self.airflow.tables),
            "the Dags": "dags/example_*.py, their flows in dags/pipelines/",
            "every line of the log": short(self.airflow.log),
            "add it to your Airflow": "README.md",
        }.items():
            self.console.print(Text(f"{what:<24}", style="bold").append(where, style="not bold"), soft_wrap=True)

    def _table(self) -> Cells:
        return rides_by_day_and_city(self.target)

    def _rides(self, day: date) -> tuple[int, int]:
        """How many rides were reported, and how many of them began before the day before ``day``."""
        by_day = query(self.sources, "SELECT ride_date, count(*) AS rides FROM t GROUP BY ride_date")
        yesterday = day - timedelta(days=1)
        return sum(n for _, n in by_day), sum(n for ride_date, n in by_day if ride_date < yesterday)

    def _last_report(self) -> RunReport:
        run = last_run(self.airflow)
        if run is None or run.report is None:
            raise DemoError("Airflow says that the Dag ended well, but the history has no such run.")
        return run.report

    def _waiting(self, what: str) -> Status:
        return self.console.status(what)


def last_run(airflow: ThrowAwayAirflow) -> Run | None:
    """The newest run in the demo's history."""
    runs = HistoryStore(airflow.history_url).runs(limit=1)
    return runs[0] if runs else None


def explain(error: Exception, airflow: ThrowAwayAirflow, console: Console) -> None:
    """Say why the demo stopped, in the words of whoever knows best."""
    console.print(Text(f"\nThe demo stopped: {error}", style="bold red"))
    if not isinstance(error, AirflowFailedError):
        return
    run = last_run(airflow)
    if run is not None and run.error is not None:
        console.print(Text(str(run.error["message"])))
    else:
        for line in error.said[-SHOWN_OF_THE_LOG:]:
            console.print(Text(f"  {line.strip()}", style="dim"), no_wrap=True, overflow="ellipsis")
    console.print(f"The whole log is {short(airflow.log)}")


def _in_words(value: Mapping[str, Any]) -> str:
    words = IN_WORDS.get(str(value["reason"]))
    return f"{reason(value)}: {words}" if words else reason(value)


def short(path: Path) -> str:
    """A path as seen from the checkout."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def main() -> int:
    """Play the demo; 1 when something failed."""
    console = Console(highlight=False)
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    demo = Demo(console)
    try:
        demo.play()
    except (DemoError, ReplaceWhereError, OSError) as error:
        explain(error, demo.airflow, console)
        return 1
    except KeyboardInterrupt:
        console.print("\nThe demo was interrupted.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
