"""Random histories of one target: whatever is called fresh is what recomputing it by hand gives.

A wrong "fresh" is the worst bug there can be, so the machine is also shown to find such bugs: each way of breaking the
planner in the last test must make it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from airflow_provider_replacewhere.planning import coverage, decide, promise
from airflow_provider_replacewhere.planning.changes import LogCommit
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, fold
from airflow_provider_replacewhere.planning.report import Mode
from airflow_provider_replacewhere.spark import freshness, landed
from tests.unit.planning.warehouse import CELLS, DAYS, EVERYTHING, REGIONS, Cell, Run, Table, Warehouse, WindowSpec

windows = st.builds(
    lambda start, length, only, opaque: WindowSpec(start, min(start + length, DAYS.stop), only, opaque),
    st.integers(DAYS.start, DAYS.stop - 1),
    st.integers(1, 5),
    st.sampled_from(["", "", "", "a", "b", "null"]),
    st.sampled_from([False] * 7 + [True]),
)
definitions = st.sampled_from([0, 0, 0, 1])
cells = st.builds(
    lambda start, length, regions: frozenset((d, r) for d in range(start, min(start + length, 8)) for r in regions),
    st.integers(DAYS.start, DAYS.stop - 1),
    st.integers(1, 2),
    st.sets(st.sampled_from(REGIONS), min_size=1),
)
how = st.fixed_dictionaries(
    {},
    optional={
        "policy": st.sampled_from(["auto", "incremental", "full"]),
        "override": st.just(True),
        "only_stale": st.booleans(),
    },
)
rare = st.sampled_from(["rand", "random_query", "full_refresh", "unversioned"]).map(
    lambda name: {"versioned": False} if name == "unversioned" else {name: True}
)


class Histories(RuleBasedStateMachine):
    """Each rule is one thing that may happen to a target, in any order."""

    @initialize(partitioned=st.booleans(), filled=st.dictionaries(st.sampled_from(CELLS), st.integers(1, 9)))
    def begin(self, partitioned: bool, filled: dict[Cell, int]) -> None:
        self.house = Warehouse(partitioned=partitioned)
        self.house.source.commit("WRITE", filled, frozenset(filled))
        self.last = WindowSpec(0, 3)
        self.asked: list[Coverage] = [self.house.coverage]
        self.in_flight: list[Run] = []
        self.unrecorded: list[Run] = []

    # -- runs --

    @rule(window=windows, definition=definitions, how=how)
    def run(self, window: WindowSpec, definition: int, how: dict[str, Any]) -> None:
        self.house.run(window, definition, **how)

    @rule(start=st.integers(-1, 1), end=st.integers(-1, 2), definition=definitions, how=how)
    def run_with_moving_bounds(self, start: int, end: int, definition: int, how: dict[str, Any]) -> None:
        first = min(max(self.last.start + start, DAYS.start), DAYS.stop - 1)
        self.last = WindowSpec(first, max(first + 1, min(self.last.end + end, DAYS.stop)))
        self.house.run(self.last, definition, **how)

    @rule(window=windows, definition=definitions, how=how, rare=rare)
    def run_that_proves_little(
        self, window: WindowSpec, definition: int, how: dict[str, Any], rare: dict[str, Any]
    ) -> None:
        self.house.run(window, definition, **(how | rare))

    @rule(window=windows, definition=definitions)
    def full_refresh(self, window: WindowSpec, definition: int) -> None:
        self.house.run(window, definition, full_refresh=True)

    @rule(window=windows, definition=definitions)
    def run_twice(self, window: WindowSpec, definition: int) -> None:
        self.house.run(window, definition)
        self.house.run(window, definition)

    @rule(window=windows, definition=definitions, how=how)
    def run_begins(self, window: WindowSpec, definition: int, how: dict[str, Any]) -> None:
        run = self.house.begin(window, definition, **how)
        (self.unrecorded if run.decision.mode is Mode.NO_OP else self.in_flight).append(run)

    @precondition(lambda self: self.house.target)
    @rule(window=windows, definition=definitions, how=how, cells=cells, value=st.none() | st.integers(100, 109))
    def run_while_others_write(
        self, window: WindowSpec, definition: int, how: dict[str, Any], cells: frozenset[Cell], value: int | None
    ) -> None:
        run = self.house.begin(window, definition, **how)
        self.house.change(self.house.target, cells, value)
        if run.decision.mode is Mode.NO_OP or self.house.commit(run):
            self.house.record(run)

    @rule(first=windows, second=windows, definition=definitions)
    def report_is_overtaken(self, first: WindowSpec, second: WindowSpec, definition: int) -> None:
        run = self.house.begin(first, definition)
        if run.decision.mode is Mode.NO_OP or self.house.commit(run):
            self.house.run(second, 1 - definition)
            self.house.record(run)

    @rule()
    def run_is_asked_for(self) -> None:
        """Spark starts slowly: what the ledger proves goes with the request, and others go on meanwhile."""
        self.asked.append(self.house.coverage)

    @precondition(lambda self: self.house.target)
    @rule(cells=cells, value=st.none() | st.integers(100, 109), window=windows, definition=definitions)
    def run_was_asked_for_before_all_others(
        self, cells: frozenset[Cell], value: int | None, window: WindowSpec, definition: int
    ) -> None:
        self.house.change(self.house.target, cells, value)
        self.house.run(window, definition, slice_=Coverage())

    @precondition(lambda self: self.asked)
    @rule(choice=st.data(), window=windows, definition=definitions)
    def run_that_was_asked_for(self, choice: st.DataObject, window: WindowSpec, definition: int) -> None:
        asked = self.asked[choice.draw(st.integers(0, len(self.asked) - 1))]
        self.house.run(window, definition, slice_=asked)

    @precondition(lambda self: self.in_flight)
    @rule(choice=st.data())
    def run_commits(self, choice: st.DataObject) -> None:
        run = self.in_flight.pop(choice.draw(st.integers(0, len(self.in_flight) - 1)))
        if self.house.commit(run):
            self.unrecorded.append(run)

    @precondition(lambda self: self.in_flight)
    @rule(choice=st.data())
    def run_fails(self, choice: st.DataObject) -> None:
        self.in_flight.pop(choice.draw(st.integers(0, len(self.in_flight) - 1)))

    @precondition(lambda self: self.unrecorded)
    @rule(choice=st.data())
    def report_arrives(self, choice: st.DataObject) -> None:
        self.house.record(self.unrecorded.pop(choice.draw(st.integers(0, len(self.unrecorded) - 1))))

    @precondition(lambda self: self.unrecorded)
    @rule(choice=st.data())
    def report_is_lost(self, choice: st.DataObject) -> None:
        self.unrecorded.pop(choice.draw(st.integers(0, len(self.unrecorded) - 1)))

    @rule()
    def ledger_is_lost(self) -> None:
        self.house.lose_ledger()

    # -- the source --

    @rule(cells=cells, value=st.none() | st.integers(1, 9))
    def source_changes(self, cells: frozenset[Cell], value: int | None) -> None:
        self.house.change(self.house.source, cells, value)

    @rule(operation=st.sampled_from(["OPTIMIZE", "VACUUM START", "SET TBLPROPERTIES"]))
    def source_is_tidied_up(self, operation: str) -> None:
        tidy(self.house.source, operation)

    @rule()
    def source_is_replaced(self) -> None:
        source = Table(f"source-{next(self.house.numbers)}", self.house.partitioned)
        content = {cell: value + 1 for cell, value in self.house.source.now.items()}
        # It soon has the versions that the old one had.
        for _ in range(self.house.source.version):
            source.commit("WRITE", content, frozenset(CELLS))
        self.house.source = source

    @rule(back=st.integers(1, 3))
    def source_is_restored(self, back: int) -> None:
        self.house.restore(self.house.source, max(0, self.house.source.version - back))

    @rule(kept=st.integers(0, 2), of=st.sampled_from(["source", "target"]))
    def log_is_cleaned_up(self, kept: int, of: str) -> None:
        table = getattr(self.house, of)
        if table is not None:
            table.forget_log(max(0, table.version - kept))

    # -- others at the target --

    @precondition(lambda self: self.house.target)
    @rule(cells=cells, value=st.none() | st.integers(100, 109))
    def others_write_and_the_log_forgets(self, cells: frozenset[Cell], value: int | None) -> None:
        self.house.change(self.house.target, cells, value)
        self.house.target.forget_log(self.house.target.version + 1)

    @precondition(lambda self: self.house.target)
    @rule(cells=cells, value=st.none() | st.integers(100, 109))
    def others_write(self, cells: frozenset[Cell], value: int | None) -> None:
        self.house.change(self.house.target, cells, value)

    @precondition(lambda self: self.house.target)
    @rule(operation=st.sampled_from(["OPTIMIZE", "VACUUM START", "SET TBLPROPERTIES"]))
    def target_is_tidied_up(self, operation: str) -> None:
        tidy(self.house.target, operation)

    @precondition(lambda self: self.house.target)
    @rule(back=st.integers(1, 3))
    def target_is_restored(self, back: int) -> None:
        self.house.restore(self.house.target, max(0, self.house.target.version - back))

    @precondition(lambda self: self.house.target)
    @rule(value=st.integers(100, 109))
    def target_is_replaced(self, value: int) -> None:
        content = dict.fromkeys(CELLS, value)
        self.house.target.commit("CREATE OR REPLACE TABLE AS SELECT", content, frozenset(), metadata=True)

    @precondition(lambda self: self.house.target)
    @rule(again=st.booleans())
    def target_is_dropped(self, again: bool) -> None:
        old = self.house.target.version
        self.house.target = None
        if again:
            self.house.target = Table(f"target-{next(self.house.numbers)}", self.house.partitioned)
            for _ in range(old):
                self.house.target.commit("WRITE", {}, frozenset())

    # -- what always holds --

    @invariant()
    def fresh_is_fresh(self) -> None:
        """A look at the whole table by each definition; ``begin`` compares with the recomputation."""
        if hasattr(self, "house"):
            for definition in (0, 1):
                self.house.begin(EVERYTHING, definition)

    @invariant()
    def folding_in_pieces_is_folding_at_once(self) -> None:
        if hasattr(self, "house"):
            entries = [Entry.from_json(report["coverage"]) for report in self.house.ledger.values()]
            assert fold(enumerate(entries, start=1)) == self.house.coverage


def tidy(table: Table, operation: str) -> None:
    touched = frozenset(CELLS) if operation == "OPTIMIZE" else frozenset()
    table.commit(operation, table.now, touched, data_change=False, metadata=operation == "SET TBLPROPERTIES")


@pytest.fixture(autouse=True)
def logs_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (freshness, landed):
        monkeypatch.setattr(module, "read_commits", lambda house, *arguments: house.read_commits(None, *arguments))
    monkeypatch.setattr(landed, "first_version", lambda house, *arguments: house.first_version(None, *arguments))


def search(examples: int, steps: int = 25, phases: tuple[Phase, ...] = (Phase.explicit, Phase.generate)) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Histories,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=phases,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_nothing_is_called_fresh_that_is_not() -> None:
    search(120, phases=(Phase.generate, Phase.shrink))


# -- the machine finds what it is there to find --


def blind_to_foreign_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(landed.Look, "foreign", lambda *_: ())


def late_reports_count_as_news(patch: pytest.MonkeyPatch) -> None:
    def with_entry(self: Coverage, entry: Entry, sequence: int | None = None) -> Coverage:
        folded = original(replace(self, target_version=None), entry, sequence)
        return replace(folded, target_version=max(entry.target_version, self.target_version or 0))

    original = Coverage.with_entry
    patch.setattr(Coverage, "with_entry", with_entry)


def commits_between_decision_and_write_are_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(freshness, "late_changes", lambda *_: ())


def definitions_are_all_one(patch: pytest.MonkeyPatch) -> None:
    patch_why(patch, lambda facts, fragment: (replace(facts, definition_hash=fragment.definition_hash), fragment))


def source_changes_are_missed(patch: pytest.MonkeyPatch) -> None:
    patch_why(patch, lambda facts, fragment: (replace(facts, changes=lambda *_: None), fragment))


def sources_are_known_by_version_alone(patch: pytest.MonkeyPatch) -> None:
    def same(facts: Any, fragment: Any) -> Any:
        of_now = {name: pin and replace(pin, table_id="source") for name, pin in facts.pins.items()}
        before = {name: replace(pin, table_id="source") for name, pin in fragment.sources.items()}
        return replace(facts, pins=of_now), replace(fragment, sources=before)

    patch_why(patch, same)


def targets_are_known_by_name_alone(patch: pytest.MonkeyPatch) -> None:
    original = Warehouse._state

    def state(self: Warehouse, target: Table) -> Any:
        found = original(self, target)
        found.table_id = "target"
        return found

    patch.setattr(Warehouse, "_state", state)
    patch.setattr(
        "tests.unit.planning.warehouse.Facts",
        lambda **facts: decide.Facts(**(facts | {"target_id": facts["target_id"] and "target"})),
    )


def everything_written_is_proof(patch: pytest.MonkeyPatch) -> None:
    original = promise.promise
    patch.setattr(
        promise, "promise", lambda facts, *about: replace(original(facts, *about), proves=facts.region.is_exact)
    )


def what_a_run_replaces_stays_covered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coverage, "_uncovered", lambda fragments, region: fragments)


def a_full_refresh_leaves_the_rest(patch: pytest.MonkeyPatch) -> None:
    original = promise.promise
    patch.setattr(promise, "promise", lambda *about: replace(original(*about), whole=False))


def a_log_with_a_gap_tells_nothing_new(patch: pytest.MonkeyPatch) -> None:
    original = landed.Look.foreign
    patch.setattr(landed.Look, "foreign", lambda *about: original(*about) or ())


def a_run_may_have_been_asked_for_long_ago(patch: pytest.MonkeyPatch) -> None:
    original = Coverage.with_entry
    patch.setattr(Coverage, "with_entry", lambda self, entry, *number: original(self, replace(entry, since=0), *number))


def patch_why(patch: pytest.MonkeyPatch, change: Callable[[Any, Any], Any]) -> None:
    original = decide._why_stale
    patch.setattr(decide, "_why_stale", lambda facts, fragment: original(*change(facts, fragment)))


def a_replay_forgets_what_others_did_before(patch: pytest.MonkeyPatch) -> None:
    patch_replay(patch, lambda commits: [c for c in commits if c.token is not None])


def a_replay_forgets_all_others_but_the_last(patch: pytest.MonkeyPatch) -> None:
    def last(commits: Sequence[LogCommit]) -> list[LogCommit]:
        ours = [number for number, commit in enumerate(commits) if commit.token is not None]
        return [c for n, c in enumerate(commits) if c.token is not None or n > max(ours, default=-1)]

    patch_replay(patch, last)


def patch_replay(patch: pytest.MonkeyPatch, shown: Callable[[Sequence[LogCommit]], Sequence[LogCommit]]) -> None:
    original = landed.replay
    patch.setattr(landed, "replay", lambda known, id_, commits, *rest: original(known, id_, shown(commits), *rest))


BUGS = (
    a_replay_forgets_what_others_did_before,
    a_replay_forgets_all_others_but_the_last,
    blind_to_foreign_commits,
    late_reports_count_as_news,
    commits_between_decision_and_write_are_missed,
    definitions_are_all_one,
    source_changes_are_missed,
    sources_are_known_by_version_alone,
    targets_are_known_by_name_alone,
    everything_written_is_proof,
    what_a_run_replaces_stays_covered,
    a_full_refresh_leaves_the_rest,
    a_log_with_a_gap_tells_nothing_new,
    a_run_may_have_been_asked_for_long_ago,
)


@pytest.fixture
def quiet(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """The steps to a failure that is wanted are of no interest."""
    yield
    capsys.readouterr()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_search_finds_a_planner_in_which(bug: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        with pytest.raises(AssertionError, match="is called fresh, and is not"):
            search(600)
