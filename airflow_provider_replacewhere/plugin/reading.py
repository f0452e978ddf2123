"""What the pages and their JSON say, read from the ledger: plain values, the same for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.history.leases import LeaseState, in_words
from airflow_provider_replacewhere.history.records import Run, RunStatus
from airflow_provider_replacewhere.history.seen import ended, report_of, writing
from airflow_provider_replacewhere.history.view import MOST_RUNS, HistoryView, Look
from airflow_provider_replacewhere.planning import definitions as changes
from airflow_provider_replacewhere.planning.document import OPEN, map_as_json
from airflow_provider_replacewhere.planning.overview import Overview, overview
from airflow_provider_replacewhere.planning.progress import backfills
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.saved import saved, seconds
from airflow_provider_replacewhere.planning.states import MEANINGS, Ended, State
from airflow_provider_replacewhere.planning.words import plain, why

RUNS_IN_LIST = 200
"""So many runs of each table of the list of tables are read."""
PAGE = 50
TABLES_ON_PAGE = 25
STRIP = 45
_MOST_DIGITS = 18  # of a number that every database takes
"""Cells of a table in the list of tables: the newest."""


class NotFoundError(RequestError):
    """The ledger knows no such thing."""


@dataclass(frozen=True)
class Filter:
    """Which runs are listed; None and the empty text: all."""

    target: str | None = None
    status: str | None = None
    mode: str | None = None
    text: str | None = None
    before: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Filter:
        """From the parameters of an address.

        :raises RequestError: one of them makes no sense
        """
        before = given.get("before") or None
        if before is not None and not (before.isascii() and before.isdecimal() and len(before) <= _MOST_DIGITS):
            raise RequestError(f"before is {before!r}.", hint="Give the number of a run.")
        mode = given.get("mode") or None
        if mode is not None and mode not in set(Mode):
            raise RequestError(f"The mode is {mode!r}.", hint=f"Valid are {', '.join(Mode)}.")
        return cls(
            target=given.get("target") or None,
            status=given.get("status") or None,
            mode=mode,
            text=(given.get("text") or "").strip() or None,
            before=None if before is None else int(before),
        )

    def to_query(self) -> dict[str, str | None]:
        """As parameters of an address; None for those that are not set."""
        return {"target": self.target, "status": self.status, "mode": self.mode, "text": self.text}


@dataclass(frozen=True)
class Reading:
    """The ledger as one request sees it. Every method raises what those of the view do."""

    view: HistoryView

    @property
    def ledger(self) -> str:
        """Where it is, without the password."""
        return self.view.url

    def tables(self, page: int = 1) -> dict[str, Any]:
        """All tables, so many at a time, each with its last cells."""
        targets = [] if self.view.is_empty else self.view.targets()
        start = (max(1, page) - 1) * TABLES_ON_PAGE
        return {
            "tables": [self._summary(target.name) for target in targets[start : start + TABLES_ON_PAGE]],
            "page": max(1, page),
            "pages": max(1, -(-len(targets) // TABLES_ON_PAGE)),
            "count": len(targets),
            "states": {str(state): meaning for state, meaning in MEANINGS.items()},
        }

    def table(
        self,
        target: str,
        *,
        unit: str | None = None,
        column: str | None = None,
        first: str | None = None,
        end: str | None = None,
    ) -> dict[str, Any]:
        """One table: its map, what is not fresh, who is writing, backfills.

        :raises NotFoundError: the ledger does not know it
        :raises RequestError: the unit, or one of the days, is none
        """
        look = self._look(target, MOST_RUNS)
        known, all_ended = self._known(look, target, column)
        found = map_as_json(look.runs[0].target, known, unit, first, end)
        if not look.is_whole:
            found["notes"].append(
                f"The newest {MOST_RUNS:,} runs were read for reasons; what is proven is folded from all of them."
            )
        saving = saved(all_ended)
        return {
            **found,
            "columns": _columns(known, column),
            "saved": None if saving is None else saving.to_json(),
            "leases": self._leases(target),
            "backfills": [each.to_json() for each in backfills(all_ended)[:5]],
            "runs": [run_as_row(run) for run in look.runs[:8]],
            "definitions": len(changes.definitions(all_ended)),
        }

    def runs(self, given: Filter) -> dict[str, Any]:
        """A page of runs, the newest first.

        :raises RequestError: there is no such status
        """
        runs: list[Run] = []
        if not self.view.is_empty:
            runs = self.view.runs(
                given.target,
                status=given.status,
                mode=given.mode,
                text=given.text,
                before=given.before,
                limit=PAGE + 1,
            )
        more = runs[PAGE - 1].sequence if len(runs) > PAGE else None
        return {
            "runs": [run_as_row(run) for run in runs[:PAGE]],
            "older": None if more is None else {**given.to_query(), "before": str(more)},
            "filter": given.to_query(),
            "before": given.before,
        }

    def run(self, run: str) -> dict[str, Any]:
        """One run.

        :param run: its number or its id
        :raises NotFoundError: there is none
        """
        try:
            found = None if self.view.is_empty else self.view.find(run)
        except RequestError as error:
            raise NotFoundError(error.message) from error
        if found is None:
            raise NotFoundError(f"The history at {self.ledger} has no run {run}.")
        report = report_of(found)
        return {
            **run_as_row(found),
            "details": None if report is None else _details(report),
            "document": found.to_json(),
        }

    def definitions(self, target: str) -> dict[str, Any]:
        """The definitions that a table was computed by, the newest first.

        :raises NotFoundError: the ledger does not know it
        """
        look = self._look(target, MOST_RUNS)
        found = changes.definitions(ended(look.runs))
        return {
            "target": look.runs[0].target,
            "definitions": changes.as_json(found),
            "is_whole": look.is_whole,
        }

    def activity(self) -> dict[str, Any]:
        """Who is writing, who waits, which runs have not ended, and how far backfills have come."""
        if self.view.is_empty:
            return {"leases": [], "running": [], "backfills": []}
        open_runs = self.view.runs(status=RunStatus.RUNNING, limit=PAGE)
        recent = ended(self.view.runs(limit=RUNS_IN_LIST))
        return {
            "leases": self._leases(None),
            "running": [run_as_row(run) for run in open_runs],
            "backfills": [each.to_json() for each in backfills(recent)],
        }

    # -- parts of them

    def _look(self, target: str, most: int) -> Look:
        look = None if self.view.is_empty else self.view.look(target, most)
        if look is None or not look.runs:
            raise NotFoundError(f"The history at {self.ledger} does not know the table {target}.")
        return look

    def _known(self, look: Look, target: str, column: str | None = None) -> tuple[Overview, tuple[Ended, ...]]:
        all_ended = ended(look.runs)
        return overview(look.coverage, all_ended, writing(self.view.leases(target)), column), all_ended

    def _summary(self, target: str) -> dict[str, Any]:
        look = self._look(target, RUNS_IN_LIST)
        known, all_ended = self._known(look, target)
        found = map_as_json(target, known)
        saving = saved(all_ended)
        rows = found["rows"]
        # With several rows, a cell of the strip is as urgent as the most urgent of them.
        strip = [_most_urgent([row["cells"][n] for row in rows]) for n in range(len(rows[0]["cells"]))] if rows else []
        return {
            "target": target,
            "flow": found["flow"],
            "looked": found["looked"],
            "fresh": _fresh_to(found, strip),
            "in_part": any("fresh" in cell["shares"] for row in rows for cell in row["cells"]),
            "column": found["column"],
            "unit": found["unit"],
            "counts": found["counts"],
            "strip": strip[-STRIP:],
            "last_run": run_as_row(look.runs[0]),
            "writing": len(self.view.leases(target)),
            "saved": None if saving is None else saving.to_json(),
        }

    def _leases(self, target: str | None) -> list[dict[str, Any]]:
        return [
            {
                **lease.to_json(),
                "words": in_words(lease.region),
                "who": lease.run,
                "waits": lease.state is LeaseState.WAITING,
            }
            for lease in self.view.leases(target, waiting=True)
        ]


def run_as_row(run: Run) -> dict[str, Any]:
    """A run in a list."""
    report = report_of(run)
    task = run.identity
    begun = run.events[0]
    return {
        "run": run.sequence,
        "run_id": run.run_id,
        "flow": run.flow,
        "target": run.target,
        "status": str(run.status),
        "mode": None if report is None else str(report.mode),
        "started_at": report.started_at if report else run.started_at.isoformat(),
        "finished_at": report.finished_at if report else run.finished_at and run.finished_at.isoformat(),
        "recorded_at": None if run.finished_at is None else run.finished_at.isoformat(),
        "seconds": None if report is None else seconds(report),
        "window": plain(report.window) if report else None,
        "predicate": report.predicate if report else begun.predicate,
        "override": report.override if report else begun.override,
        "why": why(report) if report else _error(run),
        "rows_deleted": None if report is None else report.rows_deleted,
        "rows_written": None if report is None else report.rows_written,
        "chunk": None if report is None or report.chunk is None else f"{report.chunk.number} of {report.chunk.of}",
        "dag_id": task.dag_id,
        "dag_run_id": task.dag_run_id,
        "task_id": task.task_id,
        "map_index": task.map_index,
        "try_number": task.try_number,
    }


def _error(run: Run) -> list[str]:
    message = (run.error or {}).get("message")
    return str(message).splitlines() if message else []


def _details(report: RunReport) -> dict[str, Any]:
    target = report.planning_information.get("target_table_information") or {}
    commits = target.get("commits_of_others") or () if isinstance(target, Mapping) else ()
    return {
        "as_of": f"{report.as_of} ({report.time_zone})",
        "replaced": None if report.replaced is None else plain(report.replaced),
        "fresh": None if report.fresh is None else plain(report.fresh),
        "rows_unchanged": report.rows_unchanged,
        "bytes_written": report.bytes_written,
        "target_version": report.target_version,
        "source_versions": dict(report.source_versions),
        "definition_hash": report.definition_hash,
        "token": report.token,
        "adopted": report.adopted,
        "columns_added": list(report.columns_added),
        "evaluated": dict(report.evaluated),
        "expectations": {name: dict(found) for name, found in report.expectations.items()},
        "unwatched": None if report.unwatched is None else list(report.unwatched),
        "others": [f"{commit.get('operation')} at version {commit.get('version')}" for commit in commits],
    }


def _columns(known: Overview, chosen: str | None) -> list[str]:
    """The columns that a person may lay the map out along."""
    names = [axis.name for axis in (known.column, known.rows_by) if axis is not None and axis.domain.is_ordered]
    return names if len(names) > 1 or chosen else []


def _fresh_to(found: Mapping[str, Any], strip: list[dict[str, Any]]) -> str | None:
    """The last cell that is fresh, and whether some before it are not; None where none is."""
    fresh = [number for number, cell in enumerate(strip) if cell["state"] == State.FRESH]
    if not fresh:
        return None
    goes_on = strip[-1]["state"] == State.FRESH and all(r["after"]["state"] == State.FRESH for r in found["rows"])
    has_gaps = any(cell["state"] in OPEN for cell in strip[fresh[0] : fresh[-1]])
    return f"{strip[fresh[-1]]['label']}{' and on' if goes_on else ''}{', with gaps' if has_gaps else ''}"


_URGENCY = {str(state): number for number, state in enumerate(State)}


def _most_urgent(cells: list[dict[str, Any]]) -> dict[str, Any]:
    worst = min(cells, key=lambda cell: _URGENCY[cell["state"]])
    return {"label": worst["label"], "state": worst["state"]}
