"""What the quick look may call a NO_OP, and every doubt for which it leaves the run to Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin
from airflow_provider_replacewhere.planning.decide import Facts, decide
from airflow_provider_replacewhere.planning.directory import place
from airflow_provider_replacewhere.planning.fingerprint import PARTS, fingerprint
from airflow_provider_replacewhere.planning.pipeline import pipeline_of
from airflow_provider_replacewhere.planning.planned import planned
from airflow_provider_replacewhere.planning.promise import promise
from airflow_provider_replacewhere.planning.quick_look import quick_look
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.request import Override, RunRequest
from airflow_provider_replacewhere.planning.table_log import InDoubtError, TableLog
from airflow_provider_replacewhere.planning.window import window_of
from airflow_provider_replacewhere.predicates import Clock, freeze, parse
from airflow_provider_replacewhere.text import Document
from tests.unit.planning.logs import MemoryLog, add, metadata, remove

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
TYPES = {"day": "DATE", "zone": "STRING", "at": "TIMESTAMP"}
WEEK = "day >= date_sub(current_date(), 7)"
FLOW = "CREATE STREAMING TABLE {target} FLOW REPLACE WHERE {where} BY NAME {query};"


def flow(target: str = "daily", where: str = WEEK, query: str = "SELECT day, zone, at FROM rides") -> str:
    return FLOW.format(target=target, where=where, query=query)


@dataclass
class House:
    """Tables in memory, a ledger, and a driver that recomputes every window and reports what it did.

    :param sources: by target, the tables that its query reads, by their names in the directory catalog
    """

    sources: dict[str, list[str]] = field(default_factory=lambda: {"daily": ["rides"]})
    logs: dict[str, MemoryLog] = field(default_factory=dict)
    previous: dict[str, dict[str, Any]] = field(default_factory=dict)
    coverage: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: int = 0

    def table(self, name: str) -> MemoryLog:
        if name not in self.logs:
            self.logs[name] = MemoryLog.made(f"id of {name}")
            self.logs[name].append()
        return self.logs[name]

    # -- as a Lake -----------------------------------------------------------------------------------------------------

    def folder(self, name: Any) -> str:
        if name.is_path:
            return place(name.parts[1])
        if len(name.parts) > 2:
            raise InDoubtError(f"{name} is a table of Spark's catalog, which cannot be watched from here")
        return "file:/lake/" + "/".join(name.parts).lower()

    def log(self, folder: str, name: str) -> TableLog:
        key = folder.removeprefix("file:/lake/").replace("/", ".")
        return TableLog(name, self.logs.get(key, MemoryLog("none")))

    # -- runs ----------------------------------------------------------------------------------------------------------

    def request(self, *texts: str, **changes: Any) -> RunRequest:
        self.runs += 1
        made = RunRequest(
            run_id=f"run-{self.runs}",
            as_of=NOON,
            documents=tuple(Document(f"{n}.sql", text) for n, text in enumerate(texts or (flow(),))),
            root="/lake",
            previous=json.loads(json.dumps(self.previous)),
            coverage=json.loads(json.dumps(self.coverage)),
            fingerprint=fingerprint({**dict.fromkeys(PARTS), "definition": texts or (flow(),)}),
        )
        return replace(made, **changes)

    def spark(self, request: RunRequest, *, overridden: str | None = None, **known: Any) -> None:
        """A driver's run of all flows: each recomputes its whole window."""
        for each in pipeline_of(request).flows:
            name, clock = str(each.target), Clock(request.as_of, each.time_zone)
            where = overridden or each.replace_where.text
            window = window_of(freeze(parse(where), clock, lambda parts: ["0.5"] * len(parts)), TYPES, clock, "fail")
            pins: Mapping[str, Pin | None] = {
                source: Pin(self.table(source).newest, self.table(source).table_id) for source in self.sources[name]
            }
            facts = Facts(
                window=window.sql,
                region=window.region,
                definition_hash=known.get("definition_hash", "hash"),
                pins=known.get("pins", pins),
                target_exists=name in self.logs,
                previous=self.previous.get(name),
                coverage=Coverage.from_json(self.coverage[name]) if name in self.coverage else Coverage(),
                override=overridden,
                evaluated=known.get("evaluated", window.evaluated),
                query_is_deterministic=known.get("deterministic", True),
            )
            decision = decide(replace(facts, override=facts.override or "TRUE"))  # never narrowed
            version = self.table(name).append()
            read = [
                {"table_name": n, "path": f"file:/lake/{n.replace('.', '/')}", **(pin.to_json() if pin else {})}
                for n, pin in pins.items()
            ]
            report = planned(request, each, NOON.isoformat(), where, facts, decision, read, {})
            promised = promise(facts, decision, self.table(name).table_id, version - 1)
            entry = promised.proven(report.run_id, version)
            types = {column: type_ for column, type_ in TYPES.items() if column in where}
            changes = {"window_types": types, "unwatched": (), "target_version": version, "coverage": entry.to_json()}
            self.record(replace(report, **{**changes, **known.get("report", {})}))

    def record(self, report: RunReport) -> None:
        value = json.loads(json.dumps(report.to_json()))
        self.previous[report.target] = value
        known = Coverage.from_json(self.coverage[report.target]) if report.target in self.coverage else Coverage()
        self.coverage[report.target] = known.with_entry(Entry.from_json(value["coverage"])).to_json()

    def look(self, *texts: str, **changes: Any) -> tuple[RunReport, ...]:
        outcome = quick_look(self.request(*texts, **changes), self)
        for report in outcome.reports:
            assert report.mode is Mode.NO_OP
            assert RunReport.from_json(json.loads(json.dumps(report.to_json()))) == report
            self.record(report)
        return outcome.reports


@pytest.fixture
def house() -> House:
    """A house in which the driver has run once."""
    built = House()
    built.spark(built.request())
    return built


def doubt(text: str) -> pytest.RaisesExc[InDoubtError]:
    return pytest.raises(InDoubtError, match=re.escape(text))


# -- nothing to do -----------------------------------------------------------------------------------------------------


def test_nothing_changed_is_a_no_op_that_says_all_that_sparks_own_would(house: House) -> None:
    house.logs["rides"].optimize()
    house.logs["daily"].commit("VACUUM END")

    (report,) = house.look()

    assert report.reasons == ()
    assert (report.flow, report.target, report.run_id) == ("daily", "daily", "run-2/daily")
    assert report.window == report.fresh == "(`day` >= DATE '2026-03-03')"
    assert report.replaced is None
    assert report.definition_hash == "hash"
    assert report.source_versions == {"rides": 2}
    assert report.target_version == house.logs["daily"].newest == 3
    info = report.planning_information
    assert info["source_table_information"] == [
        {"table_name": "rides", "path": "file:/lake/rides", "version": 2, "table_id": "id of rides"}
    ]
    assert info["target_table_information"] == {
        "table_name": "daily",
        "version": 3,
        "exists": True,
        "commits_of_others": [],
        "table_id": "id of daily",
        "path": "file:/lake/daily",
    }
    assert (report.lineage, report.unwatched, report.window_types["day"]) == (None, (), "DATE")
    entry = Entry.from_json(dict(report.coverage or {}))
    assert (entry.since, entry.target_version, entry.target_id, entry.proves) == (2, 3, "id of daily", True)
    assert entry.sources == {"rides": Pin(2, "id of rides")}


def test_no_ops_follow_each_other_and_carry_the_coverage_on(house: House) -> None:
    for _ in range(3):
        house.logs["rides"].optimize()
        (report,) = house.look()
        house.logs["rides"].forget(house.logs["rides"].newest - 1)
    assert report.source_versions == {"rides": 4}
    (fragment,) = Coverage.from_json(house.coverage["daily"]).fragments
    assert fragment.sources == {"rides": Pin(4, "id of rides")}


def test_what_catalyst_answered_of_the_definition_stays_known() -> None:
    house = House()
    house.spark(house.request(), report={"lineage": {"definition_hash": "hash", "asked": ["day"]}})
    for _ in range(2):
        (report,) = house.look()
        assert report.lineage == {"definition_hash": "hash", "asked": ["day"]}


def test_a_window_that_has_moved_inside_what_is_covered_is_fresh(house: House) -> None:
    (report,) = house.look(as_of=NOON + timedelta(days=2))
    assert report.window == "(`day` >= DATE '2026-03-05')"


def test_flows_that_read_each_other_are_all_fresh_or_none_is() -> None:
    house = House({"daily": ["rides"], "weekly": ["daily"]})
    texts = (flow("weekly", query="SELECT day FROM rolled"), "CREATE VIEW rolled AS SELECT day FROM daily;", flow())
    # The driver runs the upstream flow first.
    house.spark(house.request(texts[2], fingerprint=house.request(*texts).fingerprint))
    house.spark(house.request(texts[0], fingerprint=house.request(*texts).fingerprint))

    assert [report.flow for report in house.look(*texts)] == ["daily", "weekly"]

    house.logs["daily"].append()
    with doubt("daily was changed by someone else (WRITE at version 3)"):
        house.look(*texts)
    with doubt("daily has changed since version 2"):
        house.look(*texts, select=("weekly",))


def test_an_override_of_what_is_fresh_is_a_no_op_when_only_the_stale_part_is_asked_for(house: House) -> None:
    override = (Override("daily", "day = DATE '2026-03-05'"),)
    (report,) = house.look(overrides=override, only_stale=True)
    assert (report.override, report.predicate) == (True, "day = DATE '2026-03-05'")
    assert report.window == "(`day` = DATE '2026-03-05')"

    with doubt("daily is not all fresh: WINDOW_WIDENED (newly exposed: day = DATE '2026-02-01')"):
        house.look(overrides=(Override("daily", "day = DATE '2026-02-01'"),), only_stale=True)


@pytest.mark.parametrize("policy", ["auto", "incremental", "incremental_strict"])
def test_every_policy_but_full_may_find_nothing_to_do(house: House, policy: str) -> None:
    (report,) = house.look(refresh_policy=policy)
    assert report.mode is Mode.NO_OP


def test_views_ctes_and_variables_of_the_pipeline_are_seen_through() -> None:
    house = House({"daily": ["rides", "shop.zones"]})
    texts = (
        "SET first = DATE '2026-03-01'; CREATE VIEW v AS SELECT * FROM w; CREATE VIEW w AS SELECT * FROM Rides;",
        flow(
            where="day >= ${first}",
            query="WITH v2 AS (SELECT * FROM v) SELECT * FROM v2 JOIN `shop`.zones z USING (zone)",
        ),
    )
    request = house.request(*texts)
    house.spark(replace(request, documents=(Document("0.sql", flow(where="day >= DATE '2026-03-01'")),)))
    (report,) = house.look(*texts)
    assert report.source_versions == {"rides": 1, "shop.zones": 1}


def test_sources_named_by_path_are_looked_at_too() -> None:
    house = House()
    query = "SELECT day FROM delta.`/lake//rides/`"
    house.spark(house.request(flow(query=query)))
    (report,) = house.look(flow(query=query))
    assert report.source_versions == {"rides": 1}


def test_a_query_over_no_table_has_nothing_that_could_change() -> None:
    house = House({"daily": []})
    text = flow(query="SELECT DATE '2026-03-09' AS day")
    house.spark(house.request(text))
    (report,) = house.look(text)
    assert report.source_versions == {}


def test_a_predicate_that_names_a_source_is_read_as_the_driver_read_it() -> None:
    house = House()
    text = flow(where="r.day >= date_sub(current_date(), 7)", query="SELECT day, zone FROM rides r")
    request = house.request(text)
    house.spark(replace(request, documents=(Document("0.sql", flow()),)))
    (report,) = house.look(text)
    assert report.predicate == "day >= date_sub(current_date(), 7)"

    house.previous["daily"]["override"] = True
    with doubt("the predicate of daily names a source"):
        house.look(text)


# -- what is asked -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"dry_run": True}, "a dry run is asked for"),
        ({"full_refresh": ("daily",)}, "a full refresh is asked for"),
        ({"refresh_policy": "full"}, "refresh_policy is full"),
        ({"overrides": (Override("daily", "day > DATE '2026-03-05'"),)}, "an override recomputes its whole window"),
        ({"fingerprint": None}, "what the flows mean cannot be told without it"),
        ({"select": ("weekly",)}, "No flow and no target is named 'weekly'."),
        ({"overrides": (Override("weekly", "day > DATE '2026-03-05'"),), "only_stale": True}, "No flow and no target"),
        (
            {"overrides": (Override("daily", "day > DATE '2026-03-05'"),) * 2, "only_stale": True},
            "the overrides do not fit the flows",
        ),
        ({"overrides": (Override("daily", "zone = 'a'"),), "only_stale": True}, "zone is no column of the target"),
        ({"overrides": (Override("daily", "day >"),), "only_stale": True}, "it must read the predicate of daily"),
    ],
)
def test_what_is_asked_for_may_need_spark(house: House, asked: dict[str, Any], why: str) -> None:
    with doubt(why):
        house.look(**asked)


def test_flows_of_python_files_show_only_in_spark(house: House) -> None:
    request = replace(house.request(), documents=(Document("f.py", "import dp"),))
    with doubt("the flows of Python files show only there"):
        quick_look(request, house)


# -- what the ledger says ----------------------------------------------------------------------------------------------


def report_with(**changes: Any) -> Callable[[House], None]:
    return lambda house: house.previous["daily"].update(changes)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda house: house.previous.clear(), "the ledger knows no run of daily"),
        (lambda house: house.coverage.clear(), "the ledger proves nothing of daily"),
        (report_with(fingerprint=None), "the last run of daily left no fingerprint of its definition"),
        (lambda house: house.previous["daily"].pop("fingerprint"), "the last run of daily left no fingerprint"),
        (report_with(unwatched=None), "the last run of daily does not say what its query depends on"),
        (lambda house: house.previous["daily"].pop("unwatched"), "the last run of daily does not say"),
        (report_with(unwatched=["calls code of a jar"]), "the query of daily calls code of a jar"),
        (report_with(evaluated={"rand()": "0.5"}), "the predicate of the last run of daily was not deterministic"),
        (report_with(coverage=None), "the last run of daily could not prove what it left there"),
        (report_with(window_types={}), "day is no column of the target"),
        (report_with(definition_hash="other"), "daily is not all fresh: QUERY_FINGERPRINT_CHANGED"),
    ],
)
def test_what_the_ledger_does_not_tell_needs_spark(house: House, change: Callable[[House], None], why: str) -> None:
    change(house)
    with doubt(why):
        house.look()


@pytest.mark.parametrize(
    "known",
    [
        {"deterministic": False},
        {"pins": {"rides": None}},
        {"evaluated": {"rand()": "0.5"}, "report": {"evaluated": {}}},
    ],
)
def test_a_run_that_proved_nothing_is_no_ground_for_a_no_op(known: dict[str, Any]) -> None:
    house = House()
    house.spark(house.request(), **known)
    with doubt("the last run of daily could not prove what it left there"):
        house.look()


@pytest.mark.parametrize(("part", "words"), PARTS.items())
def test_the_part_of_the_fingerprint_that_differs_is_named(house: House, part: str, words: str) -> None:
    other = fingerprint({**dict.fromkeys(PARTS), "definition": (flow(),), part: "other"})
    with doubt(f"{words} since the last run of daily"):
        house.look(fingerprint=other)


# -- what the window is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("day >= date_sub(current_date(), CAST(rand() * 3 AS INT))", "predicate of the last run of daily was not"),
        ("upper(zone) = 'A'", "the last run of daily could not prove what it left there"),
    ],
)
def test_a_window_that_only_spark_knows_needs_spark(where: str, why: str) -> None:
    house = House()
    house.spark(house.request(flow(where=where)))
    with doubt(why):
        house.look(flow(where=where))


def test_a_value_that_only_spark_knows_needs_spark(house: House) -> None:
    text = flow(where="day >= to_date('2026-03-04', 'yyyy-MM-dd')")
    request = house.request(text)
    with doubt("it must evaluate"):
        quick_look(replace(request, fingerprint=house.previous["daily"]["fingerprint"]), house)


# -- what the names mean -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT day FROM rides, zones", "zones is another table than the last run of daily read"),
        ("SELECT day FROM zones", "zones is another table than the last run of daily read"),
        ("SELECT DATE'2026-03-09' AS day", "the last run of daily read rides, not by this name"),
        ("SELECT day FROM main.shop.rides", "main.shop.rides is a table of Spark's catalog"),
        ("SELECT day FROM rides VERSION AS OF 1", "reads a table at a version of its own"),
        ("SELECT day FROM rides TIMESTAMP AS OF '2026-03-01'", "reads a table at a version of its own"),
        ("TABLE rides", "can be read there only"),
        ("FROM rides |> WHERE", "can be read there only"),
        ("SELECT ${what} FROM rides", "${what} is not set."),
    ],
)
def test_other_tables_than_those_that_were_read_need_spark(house: House, query: str, why: str) -> None:
    request = house.request(flow(query=query))
    with doubt(why):
        quick_look(replace(request, fingerprint=house.previous["daily"]["fingerprint"]), house)


def test_a_target_that_lies_elsewhere_needs_spark(house: House) -> None:
    house.look()
    house.previous["daily"]["planning_information"]["target_table_information"]["path"] = "file:/other/daily"
    with doubt("daily is another table than at its last run"):
        house.look()


# -- what the logs say -------------------------------------------------------------------------------------------------


def anew(name: str) -> Callable[[House], object]:
    def make(house: House) -> None:
        commits = house.logs[name].newest
        house.logs[name] = MemoryLog.made("another id")
        for _ in range(commits + 1):
            house.logs[name].append()

    return make


def forgetful(house: House) -> None:
    house.logs["rides"].append()
    house.logs["rides"].optimize()
    house.logs["rides"].forget(2)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda house: house.logs["rides"].append(), "rides has changed since version 1 (WRITE at version 2)"),
        (
            lambda house: house.logs["rides"].commit("ADD COLUMNS", metadata("id of rides")),
            "rides has changed since version 1 (ADD COLUMNS at version 2)",
        ),
        (anew("rides"), "rides has been replaced by another table"),
        (lambda house: house.logs.pop("rides"), "there is no Delta log of rides"),
        (forgetful, "the log of rides does not reach back to version 1: 2 is gone"),
        (lambda house: house.logs["daily"].append(), "daily was changed by someone else (WRITE at version 3)"),
        (lambda house: house.logs["daily"].commit("RESTORE"), "daily was changed by someone else (RESTORE at"),
        (
            lambda house: house.logs["daily"].commit("ADD COLUMNS", metadata("id of daily")),
            "daily was changed by someone else (ADD COLUMNS at version 3)",
        ),
        (anew("daily"), "daily has been replaced by another table"),
        (lambda house: house.logs.pop("daily"), "there is no Delta log of daily"),
    ],
)
def test_every_change_of_a_table_needs_spark(house: House, change: Callable[[House], object], why: str) -> None:
    change(house)
    with doubt(why):
        house.look()


def test_a_fragment_over_an_older_version_is_fresh_only_if_nothing_changed_since_that(house: House) -> None:
    earlier = {"overrides": (Override("daily", "day = DATE '2026-03-04'"),), "only_stale": True}
    house.logs["rides"].append()
    # A backfill of one day over the newer version; the rest of the week is over the older one.
    house.spark(house.request(), overridden="day = DATE '2026-03-05'")
    with doubt("daily is not all fresh: SOURCE_CHANGED (rides: version 2, was 1)"):
        house.look()
    with doubt("SOURCE_CHANGED"):
        house.look(**earlier)
    (report,) = house.look(overrides=(Override("daily", "day = DATE '2026-03-05'"),), only_stale=True)
    assert report.source_versions == {"rides": 2}


def test_a_condition_that_is_no_region_is_left_to_spark_under_every_policy(house: House) -> None:
    override = (Override("daily", "day >= DATE '2026-03-05' AND dayofweek(day) = 2"),)
    with doubt("daily is not all fresh: UNSUPPORTED_REPLACE_WHERE_PREDICATE"):
        house.look(overrides=override, only_stale=True)
    with doubt("would be recomputed, because UNSUPPORTED_REPLACE_WHERE_PREDICATE"):
        house.look(overrides=override, only_stale=True, refresh_policy="incremental_strict")


def test_an_empty_window_is_left_to_spark() -> None:
    house = House()
    text = flow(where="day >= trunc(current_date(), 'MM') AND day < current_date()")
    house.spark(house.request(text))
    with doubt("the window of daily is empty, or the whole table"):
        house.look(text, as_of=datetime(2026, 4, 1, 12, tzinfo=UTC))


# -- any order of all of this ------------------------------------------------------------------------------------------

HARMLESS = st.sampled_from(["optimize", "vacuum", "properties", "checkpoint"])
HARMFUL = st.sampled_from(["append", "delete", "restore", "rename", "add columns", "replace", "anew", "anew at length"])


class LooksAndRuns(RuleBasedStateMachine):
    """Commits of all kinds, runs and looks in any order: a NO_OP only where nothing has happened since the last run."""

    def __init__(self) -> None:
        super().__init__()
        self.house = House({"daily": ["rides"], "weekly": ["daily"]})
        self.texts = (flow(), flow("weekly", query="SELECT day FROM daily"))
        self.changed = True
        self.ids = 0

    @rule()
    def run(self) -> None:
        fingerprints = self.house.request(*self.texts).fingerprint
        for text in self.texts:
            self.house.spark(self.house.request(text, fingerprint=fingerprints))
        self.changed = False

    @precondition(lambda self: "weekly" in self.house.logs)
    @rule(table=st.sampled_from(["rides", "daily", "weekly"]), what=HARMLESS)
    def happens_what_changes_no_row(self, table: str, what: str) -> None:
        log = self.house.logs[table]
        match what:
            case "optimize":
                log.optimize()
            case "vacuum":
                log.commit("VACUUM END")
            case "properties":
                log.commit("SET TBLPROPERTIES", metadata(log.table_id))
            case "checkpoint":
                log.files[f"{log.newest:020d}.checkpoint.parquet"] = ""

    @precondition(lambda self: "weekly" in self.house.logs)
    @rule(table=st.sampled_from(["rides", "daily", "weekly"]), what=HARMFUL, checksums=st.booleans())
    def happens_what_may_change_one(self, table: str, what: str, checksums: bool) -> None:
        log, self.changed, self.ids = self.house.logs[table], True, self.ids + 1
        log.checksums = checksums
        match what:
            case "append":
                log.append()
            case "delete":
                log.commit("DELETE", remove())
            case "restore":
                log.commit("RESTORE", add())
            case "rename":
                log.commit("RENAME COLUMN", metadata(log.table_id))
            case "add columns":
                log.commit("ADD COLUMNS", metadata(log.table_id))
            case "replace":
                log.commit("CREATE OR REPLACE TABLE AS SELECT", metadata(f"id {self.ids}"), add())
            case _:
                length = log.newest if what == "anew at length" else 1
                self.house.logs[table] = MemoryLog.made(f"id {self.ids}", checksums=checksums)
                for _ in range(length):
                    self.house.logs[table].append()

    @precondition(lambda self: "weekly" in self.house.logs)
    @rule(table=st.sampled_from(["rides", "daily", "weekly"]), share=st.floats(0, 1))
    def the_log_is_cleaned(self, table: str, share: float) -> None:
        log = self.house.logs[table]
        versions = sorted(int(name[:20]) for name in log.files if len(name) == 25)
        log.forget(*versions[: int(share * (len(versions) - 1))])

    @rule(days=st.integers(0, 3))
    def look(self, days: int) -> None:
        try:
            self.house.look(*self.texts, as_of=NOON + timedelta(days=days))
        except InDoubtError:
            return
        assert not self.changed, "nothing to do, although something has happened"


LooksAndRuns.TestCase.settings = settings(max_examples=60, stateful_step_count=15)
test_no_order_of_events_makes_a_wrong_no_op = LooksAndRuns.TestCase


@pytest.mark.parametrize(("method", "what"), [("first_change", "append"), ("require_identity", "anew at length")])
def test_the_search_would_find_a_look_that_is_blind(monkeypatch: pytest.MonkeyPatch, method: str, what: str) -> None:
    monkeypatch.setattr(TableLog, method, lambda *_: None)
    machine = LooksAndRuns()
    machine.run()
    machine.look(0)
    machine.happens_what_may_change_one("rides", what, True)
    with pytest.raises(AssertionError, match="although something has happened"):
        machine.look(0)
