"""What people read of plans and runs."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_replacewhere.planning.words import impact
from tests.history import report


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (None, None),
        ({"files": None, "rows": None, "bytes": None}, None),
        ({"files": 0, "rows": 0, "bytes": 0}, "no row that is there"),
        ({"files": 3, "rows": None, "bytes": None}, "at most an unknown number of rows in 3 files"),
        ({"files": 3, "rows": 1_200, "bytes": 4_096}, "at most 1,200 rows in 3 files, 4,096 bytes"),
    ],
)
def test_what_a_plan_would_touch(estimate: dict[str, Any] | None, said: str | None) -> None:
    assert impact(report(dry_run=True, estimate=estimate)) == said
    assert impact(report(dry_run=True, estimate=estimate, replaced=None)) is None
