"""Reports and failures to record, for tests that do not care what is in them."""

from __future__ import annotations

from typing import Any

from airflow_provider_replacewhere.planning.report import Failure, Mode, RunReport


def report(run_id: str = "app-1/daily", **changes: Any) -> RunReport:
    """The report of a run, complete; what matters to a test is given by name."""
    values: dict[str, Any] = {
        "flow": "daily",
        "target": "sales.daily",
        "run_id": run_id,
        "mode": Mode.FULL_RECOMPUTE,
        "reasons": ({"reason": "FIRST_REFRESH"},),
        "window": "(`d` >= DATE '2026-03-01')",
        "replaced": "(`d` >= DATE '2026-03-01')",
        "as_of": "2026-03-10T00:00:00+00:00",
        "time_zone": "UTC",
        "predicate": "d >= date_sub(current_date(), 9)",
        "override": False,
        "definition_hash": "5f2c",
        "source_versions": {"rides": 7, "zones": None},
        "target_version": 3,
        "rows_deleted": 10,
        "rows_written": 12,
        "rows_unchanged": None,
        "bytes_written": 4096,
        "planning_information": {"technique_information": [{"maintenance_type": "FULL_RECOMPUTE", "is_chosen": True}]},
        "token": f"token of {run_id}",
        "started_at": "2026-03-10T00:00:01+00:00",
        "finished_at": "2026-03-10T00:00:09+00:00",
        **changes,
    }
    return RunReport(**values)


def failure(run_id: str = "app-1/daily", **changes: Any) -> Failure:
    """A run that failed."""
    values: dict[str, Any] = {
        "flow": "daily",
        "target": "sales.daily",
        "run_id": run_id,
        "error": {"type": "WriteError", "retryable": False, "message": "The commit was refused."},
        "started_at": "2026-03-10T00:00:01+00:00",
        "finished_at": "2026-03-10T00:00:09+00:00",
        **changes,
    }
    return Failure(**values)
