"""A warehouse in memory: one source, one target, a ledger, and runs that walk as those of ``spark/run.py`` do.

A cell is a day and a region. The source holds a number for some cells, the query multiplies it, the target holds what
was written. Both tables keep a transaction log in Delta's own form, which the planner reads as it reads a real one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any

from airflow_provider_replacewhere.planning import promise
from airflow_provider_replacewhere.planning.changes import LogCommit, parse_commit
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin
from airflow_provider_replacewhere.planning.decide import Decision, Facts, Reason, SourceChange, decide
from airflow_provider_replacewhere.planning.landed import Landed, metadata_of
from airflow_provider_replacewhere.planning.report import Mode, RunReport
from airflow_provider_replacewhere.planning.request import Identity
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from airflow_provider_replacewhere.spark import freshness, landed
from tests.history import report as report_of

Cell = tuple[int, str | None]
Content = dict[Cell, int]

FIRST_DAY = date(2026, 3, 1)
DAYS = range(8)
REGIONS = ("a", "b", None)
CELLS: tuple[Cell, ...] = tuple(itertools.product(DAYS, REGIONS))
TYPES = {"day": "date", "region": "string"}


def day(number: int) -> date:
    return FIRST_DAY + timedelta(days=number)


def row(cell: Cell) -> dict[str, Any]:
    return {"day": day(cell[0]), "region": cell[1]}


@cache
def region_of(sql: str) -> Region:
    return parse_predicate(sql, TYPES)


@cache
def cells_in(region: Region) -> frozenset[Cell]:
    return frozenset(cell for cell in CELLS if region.contains_row(row(cell)))


@dataclass(frozen=True)
class WindowSpec:
    """A window: days from ``start`` up to ``end``, of one region or of all.

    :param opaque: with a condition besides that no region can hold
    """

    start: int
    end: int
    only: str = ""
    opaque: bool = False

    @property
    def sql(self) -> str:
        parts = [f"day >= DATE'{day(self.start)}' AND day < DATE'{day(self.end)}'"]
        parts += [{"a": "region = 'a'", "b": "region = 'b'", "null": "region IS NULL"}[self.only]] if self.only else []
        parts += ["length(region) = 1"] if self.opaque else []
        return " AND ".join(parts)

    @property
    def cells(self) -> frozenset[Cell]:
        return frozenset(
            (d, r)
            for d, r in CELLS
            if self.start <= d < self.end
            and (not self.only or (r is None if self.only == "null" else r == self.only))
            and (not self.opaque or r is not None)
        )


EVERYTHING = WindowSpec(DAYS.start, DAYS.stop)


@dataclass
class Table:
    """A Delta table: what it holds at each version, and its log."""

    table_id: str
    partitioned: bool
    contents: list[Content] = field(default_factory=lambda: [{}])
    log: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.log:
            self.log.append(self._text("CREATE TABLE", (), metadata=True))

    @property
    def version(self) -> int:
        return len(self.contents) - 1

    @property
    def now(self) -> Content:
        return self.contents[-1]

    def commit(self, operation: str, content: Content, touched: frozenset[Cell], **about: Any) -> int:
        """One more version; ``touched`` are the cells whose files are rewritten."""
        self.contents.append(dict(content))
        self.log.append(self._text(operation, touched, **about))
        return self.version

    def forget_log(self, upto: int) -> None:
        """Delta's clean-up of old log files."""
        self.log[:upto] = [None] * upto

    def commits(self, after: int, upto: int) -> tuple[LogCommit, ...] | None:
        texts = [(version, self.log[version]) for version in range(after + 1, upto + 1)]
        if any(text is None for _, text in texts):
            return None
        return tuple(parse_commit(version, text) for version, text in texts if text is not None)

    def _text(
        self,
        operation: str,
        touched: Any,
        *,
        metadata: bool = False,
        data_change: bool = True,
        said: str | None = None,
    ) -> str:
        info: dict[str, Any] = {"operation": operation, "timestamp": 1_772_323_200_000}
        if said is not None:
            info["userMetadata"] = said
        actions: list[dict[str, Any]] = [{"commitInfo": info}]
        if metadata:
            actions.append({"metaData": {"id": self.table_id}})
        for number, cell in enumerate(sorted(touched, key=str)):
            kind = ("add", "remove")[number % 2]
            actions.append({kind: {"path": f"f{number}", "dataChange": data_change, **self._bounds(cell)}})
        return "\n".join(map(json.dumps, actions))

    def _bounds(self, cell: Cell) -> dict[str, Any]:
        values = {"day": day(cell[0]).isoformat(), "region": cell[1]}
        if self.partitioned:
            return {"partitionValues": values}
        known = {name: value for name, value in values.items() if value is not None}
        nulls = {name: int(value is None) for name, value in values.items()}
        stats = {"numRecords": 1, "minValues": known, "maxValues": known, "nullCount": nulls}
        return {"partitionValues": {}, "stats": json.dumps(stats)}


@dataclass
class Run:
    """A run between its decision and the record of it."""

    number: int
    spec: WindowSpec
    definition: int
    facts: Facts
    decision: Decision
    state: Any
    content: Content
    found: tuple[Landed, ...] = ()
    entry: Mapping[str, Any] | None = None

    @property
    def report(self) -> RunReport:
        """What the ledger and the commit need to know of it; the rest of a report is of no account here."""
        return report_of(
            str(self.number),
            mode=self.decision.mode,
            reasons=self.decision.reasons,
            window=self.facts.window,
            evaluated=dict(self.facts.evaluated),
            window_types=TYPES,
            coverage=self.entry,
            replaced=None,
        )


class Warehouse:
    def __init__(self, *, partitioned: bool, checked: Callable[[Facts, str], Decision] = decide) -> None:
        self.partitioned = partitioned
        self.numbers = itertools.count(1)
        self.source = Table("source-0", partitioned)
        self.target: Table | None = None
        self.ledger: dict[str, Mapping[str, Any]] = {}
        self.coverage = Coverage()
        self.decide = checked

    # -- the query -----------------------------------------------------------------------------------------------------

    @staticmethod
    def answer(definition: int, source: Content) -> Content:
        """What the query gives over the whole source."""
        return {cell: value * (definition + 1) for cell, value in source.items()}

    # -- one run, in three steps ---------------------------------------------------------------------------------------

    def begin(
        self,
        spec: WindowSpec,
        definition: int,
        *,
        policy: str = "auto",
        full_refresh: bool = False,
        override: bool = False,
        only_stale: bool = False,
        rand: bool = False,
        random_query: bool = False,
        versioned: bool = True,
        slice_: Coverage | None = None,
    ) -> Run:
        """Look at the world and decide.

        :param slice_: what the ledger proved when the run was asked for; now, if not given
        """
        coverage = self.coverage if slice_ is None else slice_
        target, region = self.target, region_of(spec.sql)
        state = None if target is None else self._state(target)
        seen = landed.look(self, state, coverage)  # type: ignore[arg-type]
        previous = seen.runs[-1].report.to_json() if seen.runs else next(reversed(self.ledger.values()), None)
        version = self.source.version if versioned else None
        source: Any = SimpleNamespace(name="s", version=version, path="source", table_id=self.source.table_id)
        facts = Facts(
            window=spec.sql,
            region=region,
            definition_hash=f"definition {definition}",
            pins=freshness.pins([source]),
            target_exists=target is not None,
            target_id=target.table_id if target else None,
            target_version=target.version if target else None,
            coverage=seen.coverage,
            foreign=seen.foreign(landed.touched_in(state), TYPES) if state is not None else (),
            previous=previous,
            override=spec.sql if override else None,
            evaluated={"rand()": "0.5"} if rand else {},
            query_is_deterministic=not random_query,
            full_refresh=full_refresh,
            only_stale=only_stale,
            changes=self.changes,
        )
        decision = self.decide(facts, policy)
        self.check(facts, decision, definition)
        answer = self.answer(definition, self.source.now)
        if random_query:
            answer = {cell: value + 1000 * next(self.numbers) for cell, value in answer.items()}
        run = Run(next(self.numbers), spec, definition, facts, decision, state, answer, seen.runs)
        if decision.mode is Mode.NO_OP:
            self._prove(run, None)
        return run

    def changes(self, name: str, before: Mapping[str, Pin]) -> SourceChange | None:
        """What the source's log alone tells."""
        now = Pin(self.source.version, self.source.table_id)
        found = freshness.source_commits(self, "source", before[name], now)  # type: ignore[arg-type]
        if isinstance(found, SourceChange):
            return found
        return SourceChange(Reason.SOURCE_CHANGED) if found else None

    def check(self, facts: Facts, decision: Decision, definition: int) -> None:
        """What is called fresh is what the query gives; a NO_OP leaves nothing to do."""
        if decision.mode is Mode.FULL_REFRESH:
            return
        held = self.target.now if self.target else {}
        wanted = self.answer(definition, self.source.now)
        for cell in cells_in(decision.fresh):
            assert held.get(cell) == wanted.get(cell), f"{cell} is called fresh, and is not"
        if decision.mode is Mode.NO_OP:
            assert cells_in(decision.fresh) == cells_in(facts.region)
        if decision.mode is Mode.INCREMENTAL:
            assert decision.stale is not None
            assert cells_in(decision.stale) | cells_in(decision.fresh) == cells_in(facts.region)

    def commit(self, run: Run) -> bool:
        """Write; False where Delta refuses because somebody else was there first, and the run fails."""
        if self.target is None:
            if run.state is not None:
                return False
            self.target = Table(f"target-{next(self.numbers)}", self.partitioned)
        target = self.target
        if run.state is None:
            run.state = self._state(target)
        if run.state.table_id != self._state(target).table_id:
            return False
        everything = run.decision.mode is Mode.FULL_REFRESH
        stale = run.decision.stale
        replaced = frozenset(CELLS) if everything else run.spec.cells if stale is None else cells_in(stale)
        for version in range(run.state.version + 1, target.version + 1):
            changed = {c for c in CELLS if target.contents[version].get(c) != target.contents[version - 1].get(c)}
            text = target.log[version]
            if text is None or '"metaData"' in text or (changed & replaced):
                return False
        written = {cell: value for cell, value in run.content.items() if cell in run.spec.cells & replaced}
        kept = {cell: value for cell, value in target.now.items() if cell not in replaced}
        promised = promise.promise(run.facts, run.decision, run.state.table_id, run.state.version)
        said = metadata_of(run.report, promised, Identity())
        version = target.commit("WRITE", kept | written, replaced, said=said)
        self._prove(run, version)
        return True

    def record(self, run: Run) -> None:
        """Put the run into the ledger, and those before it that its commits were found of."""
        for report in (*(found.report for found in run.found), run.report):
            if report.run_id in self.ledger:
                continue
            value = json.loads(json.dumps(report.to_json()))
            self.ledger[report.run_id] = value
            folded = Coverage.from_json(json.loads(json.dumps(self.coverage.to_json())))
            self.coverage = folded.with_entry(Entry.from_json(value["coverage"]), len(self.ledger))

    def lose_ledger(self) -> None:
        """The database is gone, and an empty one is in its place."""
        self.ledger, self.coverage = {}, Coverage()

    def run(self, spec: WindowSpec, definition: int = 0, **how: Any) -> Run:
        """All three steps."""
        run = self.begin(spec, definition, **how)
        if run.decision.mode is Mode.NO_OP or self.commit(run):
            self.record(run)
        return run

    # -- what others do ------------------------------------------------------------------------------------------------

    def change(self, table: Table, cells: frozenset[Cell], value: int | None, operation: str = "WRITE") -> None:
        """Set some cells to a value, or delete them."""
        content = {cell: held for cell, held in table.now.items() if cell not in cells}
        content |= {} if value is None else dict.fromkeys(cells, value)
        table.commit(operation, content, cells)

    def restore(self, table: Table, version: int) -> None:
        content = table.contents[version]
        changed = frozenset(cell for cell in CELLS if content.get(cell) != table.now.get(cell))
        table.commit("RESTORE", content, changed)

    # -- what the planner asks of Spark --------------------------------------------------------------------------------

    def read_commits(self, _: Any, path: str, after: int, upto: int) -> tuple[LogCommit, ...] | None:
        """In the place of :func:`spark.log.read_commits`."""
        table = self.source if path == "source" else self.target
        assert table is not None
        return table.commits(after, upto)

    def first_version(self, _: Any, path: str) -> int | None:
        """In the place of :func:`spark.log.first_version`."""
        log = (self.source if path == "source" else self.target).log  # type: ignore[union-attr]
        return next((version for version, text in enumerate(log) if text is not None), None)

    def _state(self, target: Table) -> Any:
        return SimpleNamespace(
            schema=[
                SimpleNamespace(
                    name=name, dataType=SimpleNamespace(simpleString=lambda type_=type_: type_), metadata={}
                )
                for name, type_ in TYPES.items()
            ],
            version=target.version,
            path="target",
            table_id=target.table_id,
            partition_columns=("day", "region") if self.partitioned else (),
        )

    def _prove(self, run: Run, version: int | None) -> None:
        promised = promise.promise(run.facts, run.decision, run.state.table_id, run.state.version)
        committed = run.state.version if version is None else version
        late = freshness.late_changes(self, run.state, TYPES, committed) if version is not None else ()  # type: ignore[arg-type]
        found = promised.proven(str(run.number), committed, late)
        run.entry = found.to_json()
