"""A run leaves what recomputing its window by hand gives, whatever happened to sources and target: in random worlds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from airflow_provider_replacewhere.spark import changes
from tests.spark.differential.many import Told, explore
from tests.spark.differential.play import Stage
from tests.spark.differential.tally import Tally
from tests.spark.differential.worlds import world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, SCENARIOS = 1, 30


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
    assert all(tally.later(mode) > SCENARIOS // 20 for mode in ("NO_OP", "INCREMENTAL", "FULL_RECOMPUTE"))


# -- and if it did not, that would be seen -----------------------------------------------------------------------------


def nothing_touches(patch: pytest.MonkeyPatch) -> None:
    """No change of a source touches any row of a target."""
    patch.setattr(changes.SourceChanges, "__call__", lambda self, name, before: None)


def test_a_broken_criterion_is_found(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_touches(monkeypatch)
    played = stage.play(world(SEED, 0), stop=True)
    assert any(fault.startswith("the target is wrong") for wrong in played.wrong for fault in wrong.faults)
