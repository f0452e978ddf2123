"""The console command with real runs, in the test process's own Spark session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.cli import main
from tests.spark.tables import Lake

FLOW = """\
CREATE STREAMING TABLE daily
FLOW REPLACE WHERE day >= date_sub(current_date(), 7) BY NAME
SELECT day, count(*) AS rides FROM rides GROUP BY ALL;
"""
PYTHON = """\
from pyspark import pipelines as dp

@dp.table(replace_where="day >= date_sub(current_date(), 7)")
def stations():
    return spark.sql("SELECT day, station, count(*) AS rides FROM rides GROUP BY ALL")
"""
AS_OF = "2026-03-10"


class Command:
    """``replacewhere`` over one lake."""

    def __init__(self, lake: Lake, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.lake, self.folder, self.capsys = lake, folder, capsys
        self.file = folder / "daily.sql"
        self.file.write_text(FLOW)

    def __call__(self, verb: str, *arguments: object) -> tuple[int, str, str]:
        self.capsys.readouterr()
        given = [str(a) for a in arguments]
        when = [] if verb in ("history", "validate") else ["--as-of", AS_OF]
        status = main([verb, *given, "--root", str(self.lake.root), *when])
        printed = self.capsys.readouterr()
        return status, printed.out, printed.err

    def json(self, verb: str, *arguments: object) -> Any:
        status, out, err = self(verb, *arguments, "--format", "json")
        assert status == 0, err
        return json.loads(out)


@pytest.fixture
def command(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    lake.make("rides", "day DATE, station INT", [("2026-02-01", 1), ("2026-03-03", 1), ("2026-03-09", 2)])
    return Command(lake, tmp_path, capsys)


def test_plan_says_what_would_be_replaced_and_writes_nothing(command: Command) -> None:
    status, out, _ = command("plan", command.file)
    assert status == 0
    assert out.splitlines() == [
        "Plan as of 2026-03-10T00:00:00+00:00",
        "",
        "table  mode            window",
        "daily  FULL_RECOMPUTE  day >= DATE '2026-03-03'",
        "                       why FIRST_REFRESH",
    ]
    assert command.lake.version("daily") == -1
    assert command.json("history") == []


def test_run_replaces_the_window_and_is_in_the_history(command: Command) -> None:
    status, out, _ = command("run", command.file)
    assert status == 0
    assert "daily  FULL_RECOMPUTE        0        2        1  day >= DATE '2026-03-03'" in out
    assert command.lake.rows("daily") == [("2026-03-03", 1), ("2026-03-09", 1)]
    (run,) = command.json("history", "--target", "daily")
    assert run["report"]["rows_written"] == 2


def test_backfill_adds_a_range_and_leaves_the_rest(command: Command) -> None:
    command("run", command.file)
    bounds = ("--column", "day", "--start", "2026-02-01", "--end", "2026-03-01")
    status, out, _ = command("backfill", command.file, *bounds)
    assert status == 0
    assert "(override)" in out
    assert command.lake.rows("daily") == [("2026-02-01", 1), ("2026-03-03", 1), ("2026-03-09", 1)]


def test_backfill_with_a_predicate_can_be_planned_first(command: Command) -> None:
    command("run", command.file)
    version = command.lake.version("daily")
    outcome = command.json("backfill", command.file, "--where", "day < current_date()", "--dry-run")
    assert outcome["reports"][0]["window"] == "(`day` < DATE '2026-03-10')"
    assert command.lake.version("daily") == version


def test_files_in_both_languages_run_together_and_can_be_selected(command: Command) -> None:
    python = command.folder / "stations.py"
    python.write_text(PYTHON)
    outcome = command.json("run", command.folder, "--select", "stations")
    assert [report["target"] for report in outcome["reports"]] == ["stations"]
    assert command.lake.rows("stations") == [("2026-03-03", 1, 1), ("2026-03-09", 2, 1)]


def test_validate_shows_what_a_python_file_declares(command: Command) -> None:
    python = command.folder / "stations.py"
    python.write_text(PYTHON)
    (flow,) = command.json("validate", python)
    assert (flow["target"], flow["reads"]) == ("stations", ["rides"])


def test_a_python_file_that_fails_is_wrong_input_and_shows_the_line(command: Command) -> None:
    python = command.folder / "stations.py"
    python.write_text("import no_such_module\n")
    status, _, err = command("validate", python)
    assert status == 2
    assert f"{python}:1:1" in err


def test_a_full_refresh_is_refused_unless_allowed(command: Command) -> None:
    command("run", command.file)
    command("backfill", command.file, "--where", "day < date'2026-03-01'")
    status, out, err = command("run", command.file, "--full-refresh", "daily")
    assert status == 2
    assert "daily: failed (FullRefreshRefusedError); the table is as it was" in out
    assert "would lose 1 row outside" in err
    outcome = command.json("run", command.file, "--full-refresh", "daily", "--allow-full-refresh")
    assert outcome["reports"][0]["mode"] == "FULL_REFRESH"
    assert command.lake.rows("daily") == [("2026-03-03", 1), ("2026-03-09", 1)]


def test_a_failure_of_the_data_is_status_1_and_still_gives_the_outcome(command: Command) -> None:
    command.lake.add("rides", (None, 3))
    status, out, err = command("run", command.file, "--format", "json")
    assert status == 1
    assert json.loads(out)["failures"][0]["error"]["type"] == "NullKeyError"
    assert "rows with NULL in day" in err or "row with NULL in day" in err
    status, _, _ = command("run", command.file, "--null-keys", "drop")
    assert status == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--where", "1 = 1"], "no column"),
        (["--where", "day > (SELECT max(day) FROM rides)"], "subquer"),
        (["--where", "day > '2026-01-01'; DROP TABLE daily"], ";"),
        (["--where", "no_such_column = 1"], "no_such_column"),
        (["--flow", "weekly", "--where", "day > '2026-01-01'"], "'weekly'"),
    ],
)
def test_an_override_that_must_not_run_is_wrong_input(arguments: list[str], named: str, command: Command) -> None:
    command("run", command.file)
    version = command.lake.version("daily")
    status, _, err = command("backfill", command.file, *arguments)
    assert status == 2
    assert named in err
    assert command.lake.version("daily") == version


def test_a_relative_root_means_the_working_directory(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(command.lake.root.parent)
    for _ in range(2):
        assert main(["run", str(command.file), "--root", command.lake.root.name, "--as-of", AS_OF]) == 0
    assert command.lake.rows("daily") == [("2026-03-03", 1), ("2026-03-09", 1)]
