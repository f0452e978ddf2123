"""A run leaves what recomputing its window by hand gives, whatever happened to sources and target: in random worlds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.differential.many import Told, explore
from tests.spark.differential.play import Stage
from tests.spark.differential.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIOS = 240


@pytest.fixture(scope="module")
def stage(spark: SparkSession) -> Iterator[Stage]:
    with Stage.at(spark) as stage:
        yield stage


def test_random_worlds_hold_what_recomputing_by_hand_gives(capsys: pytest.CaptureFixture[str]) -> None:
    stories: list[str] = []

    def on_world(told: Told, tally: Tally) -> None:
        stories.extend(told.stories)

    tally = explore(1, SCENARIOS, processes=2, on_world=on_world)
    with capsys.disabled():
        print("\n" + "\n".join(tally.lines(shapes=False)))
    assert not stories, "\n\n".join(stories)
    assert tally.scenarios >= SCENARIOS
    # If nothing were ever narrowed, or nothing ever stale, all this would prove little.
    assert tally.later("INCREMENTAL") > SCENARIOS // 10
    assert tally.later("FULL_RECOMPUTE") > SCENARIOS // 10
    assert tally.later("NO_OP") > SCENARIOS // 10
