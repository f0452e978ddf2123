"""A run leaves what recomputing its window by hand gives, whatever happened to sources and target: in random worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.spark import changes, lineage, run
from tests.spark.differential.many import Told, explore
from tests.spark.differential.play import Stage
from tests.spark.differential.tally import Tally
from tests.spark.differential.worlds import world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, SCENARIOS = 1, 120


@pytest.fixture(scope="module")
def stage(spark: SparkSession) -> Iterator[Stage]:
    with Stage.at(spark) as stage:
        yield stage


def test_random_worlds_hold_what_recomputing_by_hand_gives(capsys: pytest.CaptureFixture[str]) -> None:
    stories: list[str] = []

    def on_world(told: Told, tally: Tally) -> None:
        stories.extend(told.stories)

    tally = explore(SEED, SCENARIOS, processes=2, on_world=on_world)
    with capsys.disabled():
        print("\n" + "\n".join(tally.lines(shapes=False)))
    assert not stories, "\n\n".join(stories)
    assert tally.scenarios >= SCENARIOS
    # If nothing were ever narrowed, or nothing ever stale, all this would prove little.
    assert all(tally.later(mode) > SCENARIOS // 10 for mode in ("NO_OP", "INCREMENTAL", "FULL_RECOMPUTE"))


# -- and if it did not, that would be seen -----------------------------------------------------------------------------

Breaking = Callable[[pytest.MonkeyPatch], None]


def nothing_touches(patch: pytest.MonkeyPatch) -> None:
    """No change of a source touches any row of a target."""
    patch.setattr(changes.SourceChanges, "__call__", lambda self, name, before: None)


def one_scan_is_enough(patch: pytest.MonkeyPatch) -> None:
    """A source counts as filtered where one of its scans is, whatever the others read."""
    whole = lineage._Reader._arrival

    def arrivals(self: Any, plan: Any) -> Any:
        scans = [s for leaf, path in lineage._leaves(plan, ()) if (s := lineage._scan(leaf, path, self.names))]
        found: dict[str, list[Any]] = {}
        for scan in scans:
            if (arrival := whole(self, scan, scans)) is not None:
                found.setdefault(scan.source, []).append(arrival)
        return {source: tuple(dict.fromkeys(arrivals)) for source, arrivals in found.items()}

    patch.setattr(lineage._Reader, "arrivals", arrivals)


def others_change_nothing(patch: pytest.MonkeyPatch) -> None:
    """What others do to the target goes unseen."""
    patch.setattr(run, "foreign_changes", lambda session, state, window, known: ())


def null_keys_never_change(patch: pytest.MonkeyPatch) -> None:
    """Rows whose key is NULL count as fresh."""
    whole = changes._Mapping.region_of

    def region_of(self: Any, column: Any, values: Any) -> Region:
        return whole(self, column, values).intersect(Region.of((column.name,), values.not_null()))

    patch.setattr(changes._Mapping, "region_of", region_of)


def rows_that_went_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Only the rows that a source gained count, not those that it lost."""
    patch.setattr(changes.ChangedRows, "frame", lambda self, columns: self._files(self._new).selectExpr(*columns))


@pytest.mark.parametrize(
    ("broken", "number"),
    [
        (nothing_touches, 0),
        (one_scan_is_enough, 0),
        (others_change_nothing, 0),
        (null_keys_never_change, 0),
        (rows_that_went_are_forgotten, 0),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_broken_criterion_is_found(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, broken: Breaking, number: int
) -> None:
    broken(monkeypatch)
    played = stage.play(world(SEED, number), stop=True)
    assert any(fault.startswith("the target is wrong") for wrong in played.wrong for fault in wrong.faults)
