"""The console command, as far as it needs no Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_replacewhere import __version__
from airflow_provider_replacewhere.cli import main, verbs
from airflow_provider_replacewhere.cli.show import table
from airflow_provider_replacewhere.errors import LeaseLostError
from airflow_provider_replacewhere.history.place import beside
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.report import Failure, JobOutcome, Mode, RunReport
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.planning.words import plain, reason
from tests.leases import claim, granted, numbers
from tests.pages import fill

FLOW = """\
CREATE STREAMING TABLE daily_rides SCHEDULE EVERY 1 DAY
FLOW REPLACE WHERE ride_date >= date_sub(current_date(), 7) BY NAME
SELECT ride_date, count(*) AS rides FROM rides GROUP BY ALL;
"""
READER = """\
CREATE STREAMING TABLE weeks FLOW REPLACE WHERE week >= '2026-01-01' BY NAME
SELECT week, sum(rides) AS rides FROM daily_rides GROUP BY ALL;
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    folder = tmp_path / "flows"
    folder.mkdir()
    # Alphabetically the reader comes first.
    (folder / "a_weeks.sql").write_text(READER)
    (folder / "rides.sql").write_text(FLOW)
    return folder


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_asking_for_help_brings_in_neither_spark_nor_a_database() -> None:
    code = (
        "import sys\n"
        "from airflow_provider_replacewhere.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'sqlglot', 'sqlalchemy', 'airflow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "validate" in done.stdout


def test_validating_sql_needs_no_spark(pipeline: Path) -> None:
    code = (
        "import sys\n"
        "from airflow_provider_replacewhere.cli import main\n"
        f"assert main(['validate', {str(pipeline)!r}]) == 0\n"
        "heavy = {'pyspark', 'sqlalchemy', 'airflow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"replacewhere {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "VERB"),
        (["erase"], "erase"),
        (["validate"], "FILE"),
        (["run", "a.sql", "--conf", "spark.x"], "'spark.x' is not key=value"),
        (["run", "a.sql", "--conf", "=1"], "'=1' is not key=value"),
        (["run", "a.sql", "--null-keys", "keep"], "keep"),
        (["run", "a.sql", "--format", "yaml"], "yaml"),
        (["history", "--limit", "many"], "many"),
    ],
)
def test_arguments_that_cannot_be_read_end_with_status_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert named in capsys.readouterr().err


def test_validate_shows_flows_in_the_order_in_which_they_run(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = command(capsys, "validate", pipeline)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "2 flows, in the order in which they run:",
        "",
        "#  flow         schedule      replaces",
        "1  daily_rides  EVERY 1 DAYS  where ride_date >= date_sub(current_date(), 7)",
        "                              reads rides",
        "2  weeks        -             where week >= '2026-01-01'",
        "                              reads daily_rides",
    ]


def test_validate_as_json(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = command(
        capsys, "validate", pipeline / "rides.sql", "--format", "json", "--time-zone", "Asia/Tokyo"
    )
    assert status == 0
    assert json.loads(out) == [
        {
            "flow": "daily_rides",
            "target": "daily_rides",
            "replace_where": "ride_date >= date_sub(current_date(), 7)",
            "reads": ["rides"],
            "schedule": "EVERY 1 DAYS",
            "time_zone": "Asia/Tokyo",
            "null_keys": "fail",
            "declared_at": f"{pipeline / 'rides.sql'}:1:1",
            "warnings": [],
        }
    ]


def test_validate_shows_the_place_of_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.sql"
    file.write_text("CREATE STREAMING TABLE t\nFLOW REPLACE WHERE d > '2026-01-01'\nSELECT d FROM s;\n")
    status, out, err = command(capsys, "validate", file)
    assert (status, out) == (2, "")
    assert err.startswith(f"replacewhere validate: {file}:3:1: BY NAME is missing")
    assert "  3 | SELECT d FROM s;\n    | ^^^^^^" in err


def test_validate_warns_where_the_work_cannot_be_kept_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "totals.sql"
    file.write_text(
        "CREATE STREAMING TABLE t FLOW REPLACE WHERE n > 1 BY NAME SELECT d, count(*) AS n FROM s GROUP BY d"
    )
    status, out, _ = command(capsys, "validate", file)
    assert status == 0
    assert f"\n\nwarning: {file}:1:45: " in out


def test_a_pipeline_that_is_wrong_as_a_whole_is_refused(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pipeline / "again.sql").write_text(FLOW)
    status, _, err = command(capsys, "validate", pipeline)
    assert status == 2
    assert "daily_rides is declared twice" in err


def test_a_file_without_flows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "empty.sql"
    file.write_text("-- nothing yet\n")
    status, _, err = command(capsys, "validate", file)
    assert status == 2
    assert "declares no flow" in err


def test_json_output_is_json_also_when_the_input_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = command(capsys, "run", tmp_path / "missing.sql", "--format", "json")
    assert status == 2
    assert json.loads(out)["error"]["type"] == "DefinitionError"
    assert "missing.sql" in err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "The backfill has no range"),
        (["--where", "d > '2026-01-01'", "--column", "d"], "given twice"),
        (["--start", "2026-01-01"], "no column"),
        (["--column", "d"], "neither start nor end"),
        (["--column", "d", "--start", "2026-01-02", "--end", "2026-01-02"], "is empty"),
        (["--column", "d", "--start", "soon", "--column-type", "date"], "no date"),
    ],
)
def test_a_backfill_without_a_clear_range_is_refused_before_spark_starts(
    arguments: list[str], named: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = command(capsys, "backfill", pipeline / "rides.sql", "--root", pipeline, *arguments)
    assert status == 2
    assert named in err


def test_a_backfill_of_several_flows_wants_to_know_which(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = command(capsys, "backfill", pipeline, "--root", pipeline, "--where", "d > '2026-01-01'")
    assert status == 2
    assert "the flows are weeks, daily_rides" in err


@pytest.mark.parametrize(("option", "value"), [("--as-of", "tomorrow"), ("--time-zone", "Mars/Olympus")])
def test_an_instant_or_zone_that_is_none_is_refused(
    option: str, value: str, pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = command(capsys, "plan", pipeline, "--root", pipeline, option, value)
    assert status == 2
    assert value in err


def test_typed_bounds_become_literals_never_sql() -> None:
    options = SimpleNamespace(where=None, column="d`; DROP", start="1' OR '1'='1", end=None, column_type=None)
    assert verbs._override(options) == r"`d``; DROP` >= '1\' OR \'1\'=\'1'"  # type: ignore[arg-type]


# -- history ----------------------------------------------------------------------------------------------------------


def report(run_id: str, **changes: Any) -> RunReport:
    values: dict[str, Any] = {
        "flow": "daily_rides",
        "target": "daily_rides",
        "run_id": run_id,
        "mode": Mode.FULL_RECOMPUTE,
        "reasons": ({"reason": "FIRST_REFRESH"},),
        "window": "(`ride_date` >= DATE '2026-03-03')",
        "replaced": "(`ride_date` >= DATE '2026-03-03')",
        "as_of": "2026-03-10T00:00:00+00:00",
        "time_zone": "UTC",
        "predicate": "ride_date >= date_sub(current_date(), 7)",
        "override": False,
        "definition_hash": "h",
        "source_versions": {"rides": 4},
        "target_version": 1,
        "rows_deleted": 0,
        "rows_written": 1200,
        "rows_unchanged": None,
        "bytes_written": 9000,
        "planning_information": {},
        "token": "t",
        "started_at": "2026-03-10T00:00:00+00:00",
        "finished_at": "2026-03-10T00:00:09+00:00",
    }
    return RunReport(**{**values, **changes})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    store = HistoryStore(beside(tmp_path))
    store.record_outcome(JobOutcome("a", (report("a/daily_rides"),)))
    store.record_outcome(JobOutcome("b", (report("b/weeks", flow="weeks", target="weeks", override=True),)))
    now = datetime.now(UTC).isoformat()
    error = {"type": "WriteError", "retryable": False, "message": "Delta refused the rows.\nA row does not belong."}
    store.record_outcome(
        JobOutcome("c", (), (Failure("daily_rides", "daily_rides", "c/daily_rides", error, now, now),))
    )
    return tmp_path


def test_history_lists_runs_newest_first(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = command(capsys, "history", "--root", root)
    assert status == 0
    head, *rows = [line.split() for line in out.splitlines() if re.match("run| +[0-9] ", line)]
    assert head == ["run", "started", "(UTC)", "table", "outcome", "removed", "written", "window"]
    assert [row[0] for row in rows] == ["3", "2", "1"]
    assert rows[0][3:] == ["daily_rides", "failed", "-", "-", "Delta", "refused", "the", "rows."]
    assert rows[2][3:] == ["daily_rides", "FULL_RECOMPUTE", "0", "1,200", "ride_date", ">=", "DATE", "'2026-03-03'"]
    assert "(override)" in out


def test_history_of_one_table_and_at_most_so_many(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = command(capsys, "history", "--root", root, "--target", "DAILY_RIDES", "--format", "json")
    assert [run["run_id"] for run in json.loads(out)] == ["c/daily_rides", "a/daily_rides"]
    _, out, _ = command(capsys, "history", "--root", root, "--limit", "1", "--format", "json")
    assert [run["run_id"] for run in json.loads(out)] == ["c/daily_rides"]


@pytest.mark.parametrize("wanted", ["1", "a/daily_rides"])
def test_one_run_in_detail_by_number_or_id(wanted: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = command(capsys, "history", "--root", root, "--run", wanted)
    assert status == 0
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    assert lines["run"] == "1, a/daily_rides"
    assert lines["predicate"] == "ride_date >= date_sub(current_date(), 7)"
    assert lines["why"] == "FIRST_REFRESH"
    assert lines["rows"] == "0 removed, 1,200 written"
    assert lines["sources"] == "rides at version 4"


def test_a_failed_run_shows_its_whole_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = command(capsys, "history", "--root", root, "--run", "3")
    assert out.endswith("\n\nDelta refused the rows.\nA row does not belong.\n")


@pytest.mark.parametrize("arguments", [["--run", "99"], ["--run", "nobody"], ["--limit", "0"]])
def test_a_run_that_is_not_there_is_wrong_input(
    arguments: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = command(capsys, "history", "--root", root, *arguments)
    assert status == 2
    assert arguments[1] in err


def test_a_history_without_a_place_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = command(capsys, "history")
    assert status == 2
    assert "has no place" in err


# -- leases -----------------------------------------------------------------------------------------------------------


def test_leases_are_listed_with_who_holds_them_and_who_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = HistoryStore(beside(tmp_path))
    task = Identity("sales", "manual__1", "fill", map_index=-1, try_number=2)
    lease = granted(store.acquire([claim("a", numbers(0, 5), target="rides", flow="fill", identity=task)]))
    store.permit(lease)
    store.acquire([claim("b", target="rides")], queue_seconds=600)
    granted(store.acquire([claim("c", target="zones")]))
    status, out, _ = command(capsys, "leases", "--root", tmp_path)
    assert status == 0
    since, until = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"\d\d:\d\d:\d\d"
    assert re.sub(until, "hh:mm:ss", re.sub(since, "yyyy-mm-dd hh:mm:ss", out)).splitlines() == [
        "lease  table  state       since (UTC)          heard of  until     region",
        "    1  rides  committing  yyyy-mm-dd hh:mm:ss  hh:mm:ss  hh:mm:ss  (n >= 0) AND (n < 5)",
        "                                                                   flow fill (Dag sales, Dag run",
        "                                                                     manual__1, task fill, try 2)",
        "    2  rides  waiting     yyyy-mm-dd hh:mm:ss  hh:mm:ss  hh:mm:ss  the whole table",
        "                                                                   flow daily, run b",
        "    3  zones  held        yyyy-mm-dd hh:mm:ss  hh:mm:ss  hh:mm:ss  the whole table",
        "                                                                   flow daily, run c",
    ]
    _, out, _ = command(capsys, "leases", "--root", tmp_path, "--target", "ZONES", "--format", "json")
    assert [(each["lease"], each["run_id"], each["region"]) for each in json.loads(out)] == [(3, "c", "TRUE")]


def test_a_lease_is_broken_by_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = HistoryStore(beside(tmp_path))
    lease = granted(store.acquire([claim("a", numbers(0, 5), target="rides")]))
    status, out, _ = command(capsys, "leases", "--root", tmp_path, "--break", "1")
    assert (status, out.splitlines()) == (
        0,
        [
            "Lease 1 on rides is broken: (n >= 0) AND (n < 5) is free.",
            "It was that of flow daily, run a, which can no longer commit under it.",
        ],
    )
    with pytest.raises(LeaseLostError):
        store.permit(lease)
    assert command(capsys, "leases", "--root", tmp_path)[1].endswith("has no such lease: nobody is writing.\n")


def test_a_lease_that_is_not_there_or_may_be_committing_is_not_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = command(capsys, "leases", "--root", tmp_path, "--break", "7")
    assert status == 2
    assert "There is no lease 7" in err
    store = HistoryStore(beside(tmp_path))
    store.permit(granted(store.acquire([claim("a")])))
    status, _, err = command(capsys, "leases", "--root", tmp_path, "--break", "1")
    assert status == 2
    assert "has permission to commit until" in err


# -- what is printed --------------------------------------------------------------------------------------------------


def test_a_table_is_never_wider_than_asked() -> None:
    lines = table(["table", "n", "window"], [["t", "1", "word " * 60], ["longer", "22", "a\nb"]], width=60)
    assert max(map(len, lines)) <= 60
    assert lines[0] == "table    n  window"
    assert lines[-2:] == ["longer  22  a", "            b"]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("(`d` >= DATE '2026-01-01')", "d >= DATE '2026-01-01'"),
        ("((`a` = 1) AND (`b` = 2))", "(a = 1) AND (b = 2)"),
        ("(`a` = 1) OR (`a` IS NULL)", "(a = 1) OR (a IS NULL)"),
        ("(`two words` = ')')", "`two words` = ')'"),
        ("(`a` = '(') OR (`b` = ')')", "(a = '(') OR (b = ')')"),
        ("TRUE", "TRUE"),
    ],
)
def test_sql_for_the_eye_means_the_same(sql: str, shown: str) -> None:
    assert plain(sql) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"reason": "FIRST_REFRESH"}, "FIRST_REFRESH"),
        (
            {"reason": "SOURCE_CHANGED", "table": "rides", "from_version": 3, "to_version": 4},
            "SOURCE_CHANGED (rides: version 4, was 3)",
        ),
        (
            {"reason": "SOURCE_CHANGED", "table": "rides", "from_version": None, "to_version": 4},
            "SOURCE_CHANGED (rides: version 4)",
        ),
        ({"reason": "SOURCE_NOT_VERSIONED", "table": "raw"}, "SOURCE_NOT_VERSIONED (raw)"),
        ({"reason": "PREDICATE_OVERRIDE", "predicate": "d > 1"}, "PREDICATE_OVERRIDE"),
    ],
)
def test_a_reason_carries_what_is_behind_it(value: dict[str, Any], shown: str) -> None:
    assert reason(value) == shown


# -- coverage --


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    fill(HistoryStore(url))
    return url


def test_the_map_of_a_table_is_drawn(capsys: pytest.CaptureFixture[str], ledger: str) -> None:
    status, printed, _ = command(capsys, "coverage", "--history", ledger, "--target", "daily_rides")
    assert status == 0
    by_month = dict(line.split("  ", 1) for line in printed.splitlines() if re.match(r"20\d\d-\d\d ", line))
    assert by_month["2026-02"].strip() == ">>>>>+++!!!++++++++xxx+++++++"[:28]
    assert by_month["2026-03"].strip().endswith("########")
    assert "NullKeyError" not in printed
    assert "The query gives 3 rows whose ride_date is NULL." in printed
    assert max(map(len, printed.splitlines())) <= 110


def test_the_map_as_json_is_that_of_the_page(capsys: pytest.CaptureFixture[str], ledger: str) -> None:
    status, printed, _ = command(
        capsys, "coverage", "--history", ledger, "--target", "CITY_WEEKS", "--unit", "month", "--format", "json"
    )
    assert status == 0
    found = json.loads(printed)
    assert found["unit"] == "month"
    assert [row["label"] for row in found["rows"]] == ["Basel, Bern", "Zürich", "all others"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "knows 4 tables"),
        (("--target", "nowhere"), "does not know the table nowhere"),
        (("--target", "daily_rides", "--from", "soon"), "'soon' is no date"),
    ],
)
def test_a_map_that_cannot_be_drawn_says_why(
    capsys: pytest.CaptureFixture[str], ledger: str, arguments: tuple[str, ...], words: str
) -> None:
    status, _, said = command(capsys, "coverage", "--history", ledger, *arguments)
    assert status == 2
    assert words in said


def test_looking_at_a_history_that_is_not_there_does_not_make_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, _, said = command(capsys, "coverage", "--history", f"sqlite:///{tmp_path / 'new' / 'history.db'}")
    assert (status, "knows no tables" in said) == (2, True)
    assert not (tmp_path / "new").exists()
