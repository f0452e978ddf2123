"""A run leaves what recomputing its window by hand gives, whatever happened to sources and target: in random worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere.planning.lineage import Arrival
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.spark import changes, landed, lineage
from airflow_provider_replacewhere.spark.multiset import quoted
from airflow_provider_replacewhere.spark.sources import source_of
from tests.spark.differential.found import shown
from tests.spark.differential.play import Stage
from tests.spark.differential.script import Script
from tests.spark.differential.tally import Tally
from tests.spark.differential.worlds import world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, SCENARIOS = 1, 75


@pytest.fixture(scope="module")
def stage(spark: SparkSession) -> Iterator[Stage]:
    with Stage.at(spark) as stage:
        yield stage


def test_random_worlds_hold_what_recomputing_by_hand_gives(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stories, tally = [], Tally()
    for number in count():
        script = world(SEED, number)
        played = stage.play(script)
        stories += [f"seed {SEED}, world {number}\n{shown(script, wrong)}" for wrong in played.wrong]
        tally.add(played)
        if tally.scenarios >= SCENARIOS:
            break
    with capsys.disabled():
        print("\n" + "\n".join(tally.lines(shapes=False)))
    assert not stories, "\n\n".join(stories)
    # If nothing were ever narrowed, nothing ever stale, and nobody ever died, all this would prove little.
    assert tally.killed
    assert all(tally.later(mode) > SCENARIOS // 10 for mode in ("NO_OP", "INCREMENTAL", "FULL_RECOMPUTE"))


# -- and if it did not, that would be seen -----------------------------------------------------------------------------

Breaking = Callable[[pytest.MonkeyPatch], None]


def nothing_touches(patch: pytest.MonkeyPatch) -> None:
    """No change of a source touches any row of a target."""
    patch.setattr(changes.SourceChanges, "__call__", lambda self, name, before: None)


def one_scan_is_enough(patch: pytest.MonkeyPatch) -> None:
    """A source counts as filtered where one of its scans is, whatever the others read."""

    def arrivals(self: Any, plan: Any) -> dict[str, tuple[Arrival, ...]]:
        leaves = [(leaf, path, source_of(leaf)) for leaf, path in lineage._leaves(plan, ())]
        scans = [lineage._scan(leaf, path, self.names[s.path, s.version]) for leaf, path, s in leaves if s is not None]
        found: dict[str, list[Arrival]] = {}
        for scan in scans:
            if (arrival := self._arrival(scan, scans)) is not None:
                found.setdefault(scan.source, []).append(arrival)
        return {source: tuple(dict.fromkeys(arrivals)) for source, arrivals in found.items()}

    patch.setattr(lineage._Reader, "arrivals", arrivals)


def others_change_nothing(patch: pytest.MonkeyPatch) -> None:
    """What others do to the target goes unseen."""
    patch.setattr(landed.Look, "foreign", lambda *_: ())


def null_keys_never_change(patch: pytest.MonkeyPatch) -> None:
    """Rows whose key is NULL count as fresh."""
    patch.setattr(
        changes._Mapping, "region_of", lambda self, column, values: Region.of((column.name,), values.not_null())
    )


def rows_that_went_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Only the rows that a source gained count, not those that it lost."""
    patch.setattr(
        changes.ChangedRows, "frame", lambda self, columns: self._files(self._new).selectExpr(*quoted(columns))
    )


SCANNED_TWICE = ("self_join", "share_of_the_total", "cte_twice", "against_all_days", "running_total")


PLAIN = ("project", "group")


def found(stage: Stage, monkeypatch: pytest.MonkeyPatch, broken: Breaking, scripts: Iterable[Script]) -> bool:
    """Whether the planner, broken so, leaves a wrong target in one of these worlds."""
    broken(monkeypatch)
    wrong = (scenario for script in scripts for scenario in stage.play(script, stop=True).wrong)
    return any(fault.startswith("the target is wrong") for scenario in wrong for fault in scenario.faults)


def test_a_broken_criterion_is_found(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(stage, monkeypatch, nothing_touches, [world(SEED, 8, flows=2, steps=4, shapes=PLAIN)])


@pytest.mark.long
@pytest.mark.parametrize(
    ("broken", "shapes"),
    [
        (one_scan_is_enough, SCANNED_TWICE),
        (others_change_nothing, PLAIN),
        (null_keys_never_change, PLAIN),
        (rows_that_went_are_forgotten, PLAIN),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_way_of_breaking_the_criterion_is_found(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, broken: Breaking, shapes: Sequence[str]
) -> None:
    assert found(stage, monkeypatch, broken, (world(SEED, number, flows=3, shapes=shapes) for number in range(5)))
