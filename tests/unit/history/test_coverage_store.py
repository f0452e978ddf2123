"""What a target's runs prove is folded from the ledger, and the fold is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from airflow_provider_replacewhere.history import coverage as module
from airflow_provider_replacewhere.history import schema, tables
from airflow_provider_replacewhere.history.coverage import KEEP_AFTER
from airflow_provider_replacewhere.history.database import Database
from airflow_provider_replacewhere.history.rows import target_digest
from airflow_provider_replacewhere.history.store import HistoryStore
from airflow_provider_replacewhere.planning.coverage import Coverage, Entry, Pin, fold
from airflow_provider_replacewhere.planning.landed import adopted
from airflow_provider_replacewhere.predicates import Region, parse_predicate
from tests.history import failure, report

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from tests.postgres import PostgresServer

# SQLAlchemy is 1.4 on some Airflow lines and 2 on others.
pytestmark = pytest.mark.matrix

TARGET = "sales.daily"


def days(first: int, end: int) -> Region:
    return parse_predicate(f"n >= {first} AND n < {end}", {"n": "int"})


def entry(number: int, region: Region | None = None, **changes: Any) -> Entry:
    region = days(number, number + 1) if region is None else region
    values: dict[str, Any] = {
        "region": region,
        "bound": region,
        "proves": True,
        "definition_hash": "one",
        "sources": {"s": Pin(number, "source")},
        "run_id": f"run {number}",
        "target_version": number,
        "target_id": "target",
        "since": number - 1,
        **changes,
    }
    return Entry(**values)


def record(store: HistoryStore, *entries: Entry, target: str = TARGET) -> None:
    for one in entries:
        run_id = f"{target} {one.run_id}"
        store.record(report(run_id, target=target, coverage=one.to_json(), target_version=one.target_version))


def known(store: HistoryStore, target: str = TARGET) -> Coverage:
    return Coverage.from_json(store.coverage([target])[target])


def covered(store: HistoryStore) -> Region:
    region = Region.empty()
    for fragment in known(store).fragments:
        region = region.union(fragment.region)
    return region


def folded(entries: Iterable[Entry]) -> Coverage:
    return fold(enumerate(entries, start=1))


@pytest.fixture
def engine(history_url: str) -> Engine:
    """The same database, past the store."""
    return sa.create_engine(history_url, poolclass=NullPool)


def kept(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(tables.coverage.c.target_key, tables.coverage.c.sequence))
        return {row.target_key: row.sequence for row in rows}


def write_document(engine: Engine, document: str) -> None:
    with engine.begin() as connection:
        connection.execute(tables.coverage.update().values(document=document))


def test_without_runs_nothing_is_covered(store: HistoryStore) -> None:
    assert store.coverage() == {}
    assert store.coverage([TARGET]) == {}


def test_the_runs_of_a_target_are_folded_in_the_order_of_the_ledger(store: HistoryStore) -> None:
    entries = [entry(1, days(0, 9)), entry(2, days(3, 5), proves=False), entry(3, days(4, 6))]
    record(store, *entries)
    assert known(store) == folded(entries)
    assert covered(store) == days(0, 3).union(days(4, 9))


def test_targets_are_told_apart_and_found_however_they_are_spelled(store: HistoryStore) -> None:
    record(store, entry(1, days(0, 5)))
    record(store, entry(7, days(5, 9)), target="other")
    assert set(store.coverage()) == {TARGET, "other"}
    assert store.coverage(["SALES.`Daily`"]) == {"SALES.`Daily`": store.coverage()[TARGET]}
    assert known(store).target_version == 1


def test_runs_that_did_not_succeed_prove_nothing(store: HistoryStore) -> None:
    record(store, entry(1, days(0, 5)))
    store.started("r", "daily", TARGET)
    store.failed(failure("s", target=TARGET))
    record_dry_run = report("d", target=TARGET, dry_run=True, coverage=entry(2, days(5, 9)).to_json())
    store.record(record_dry_run)
    assert covered(store) == days(0, 5)


def test_a_report_that_says_nothing_of_what_it_proves_forgets_all(store: HistoryStore) -> None:
    record(store, entry(1, days(0, 5)))
    store.record(report("from an older version", target=TARGET))
    assert known(store) == Coverage(sequence=2)
    record(store, entry(3, days(5, 9)))
    assert covered(store) == days(5, 9)


@pytest.mark.parametrize(
    "broken", [{"region": 7}, {"sources": None}, {"region": {"version": 99, "parts": []}}, {"x": 1}]
)
def test_a_report_whose_proof_cannot_be_read_forgets_all(store: HistoryStore, broken: dict[str, Any]) -> None:
    record(store, entry(1, days(0, 5)))
    store.record(report("broken", target=TARGET, coverage=entry(2).to_json() | broken))
    assert known(store).fragments == ()


def test_a_long_fold_is_kept_and_gone_on_from(
    store: HistoryStore, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [entry(n) for n in range(1, KEEP_AFTER + 1)], [entry(KEEP_AFTER + 1)]
    record(store, *first)
    assert known(store) == folded(first)
    assert kept(engine) == {}, "not worth it"
    record(store, *second)
    assert known(store) == folded([*first, *second])
    assert kept(engine) == {target_digest(TARGET): KEEP_AFTER + 1}
    record(store, entry(KEEP_AFTER + 2))
    seen: list[str] = []
    monkeypatch.setattr(module, "_with_report", lambda *about: seen.append(about[-1]) or _with_report(*about))
    assert known(store) == folded([*first, *second, entry(KEEP_AFTER + 2)])
    assert len(seen) == 1


_with_report = module._with_report


def test_pruned_runs_are_proof_all_the_same(store: HistoryStore, engine: Engine) -> None:
    entries = [entry(n, days(n, n + 2), proves=n % 3 > 0) for n in range(1, 12)]
    record(store, *entries)
    assert store.prune(keep_runs=1) == len(entries) - 1
    assert known(store) == folded(entries)
    record(store, entry(20, days(0, 3)))
    assert known(store) == folded([*entries, entry(20, days(0, 3))])
    assert store.prune(keep_days=0) == 1
    assert known(store) == folded([*entries, entry(20, days(0, 3))])


@pytest.mark.parametrize(
    "document",
    [
        "",
        "no JSON",
        "null",
        "[]",
        "7",
        "{}",
        '{"fragments": [7]}',
        '{"fragments": []}',
        '{"fragments": [{"region": 7}]}',
    ],
)
def test_a_kept_fold_that_cannot_be_read_is_nothing_known(store: HistoryStore, engine: Engine, document: str) -> None:
    record(store, entry(1, days(0, 5)), entry(2, days(7, 9)))
    store.prune(keep_runs=1)
    write_document(engine, document)
    assert known(store).fragments == ()
    record(store, entry(3, days(5, 6)))
    assert covered(store) == days(5, 6)


def test_a_fold_of_a_newer_form_is_nothing_known(store: HistoryStore, engine: Engine) -> None:
    record(store, entry(1, days(0, 5)))
    store.prune(keep_runs=1)
    document = store.coverage()[TARGET] | {"something_new": 1}
    write_document(engine, json.dumps(document))
    assert known(store) == Coverage(sequence=1)


def test_an_older_fold_does_not_take_the_place_of_a_newer_one(store: HistoryStore, engine: Engine) -> None:
    record(store, *(entry(n) for n in range(1, 4)))
    store.prune(keep_runs=1)
    with store._database.writing() as connection:
        module.keep_coverage(connection, target_digest(TARGET), Coverage(sequence=2))
        module.keep_coverage(connection, target_digest(TARGET), Coverage(sequence=3))
    assert kept(engine) == {target_digest(TARGET): 3}
    assert known(store) == folded([entry(n) for n in range(1, 4)])


def test_readers_and_writers_at_once_end_with_the_fold_of_all(history_url: str) -> None:
    stores = [HistoryStore(history_url) for _ in range(3)]
    stores[0].migrate()

    def work(worker: int) -> None:
        for number in range(12):
            record(stores[worker], entry(worker * 100 + number), target=f"t{worker}")
            record(stores[worker], entry(worker * 100 + number))
            stores[worker].coverage()
            if number % 4 == 3:
                stores[worker].prune(keep_runs=3)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    for worker in range(3):
        alone = folded([entry(worker * 100 + number) for number in range(12)])
        assert known(stores[0], f"t{worker}").fragments == alone.fragments
    assert known(stores[0]).target_version == 211


@pytest.mark.postgres
def test_runs_that_are_pruned_while_they_are_read_are_not_missed(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database().render_as_string(hide_password=False)
    reader, other = HistoryStore(url), HistoryStore(url)
    record(other, entry(1, days(0, 9)))
    other.prune(keep_runs=1)
    record(other, entry(2, days(0, 5), proves=False), entry(3, days(20, 21)))
    pruned: list[int] = []

    def prune_once(_c: Any, _k: Any, statement: str, *_: Any) -> None:
        if "replacewhere_coverage" in statement and not pruned:
            pruned.append(0)
            pruned[0] = other.prune(keep_runs=1)

    reader.runs()
    sa.event.listen(reader._database._engine, "after_cursor_execute", prune_once)
    assert covered(reader) == days(5, 9).union(days(20, 21))
    assert pruned == [2]


def test_a_ledger_from_before_coverage_is_migrated(history_url: str, engine: Engine) -> None:
    schema.migrate(Database(history_url), "0002")
    with engine.connect() as connection:
        assert tables.coverage.name not in sa.inspect(connection).get_table_names()
    store = HistoryStore(history_url)
    assert store.schema_version() == "0002"
    store.record(report("before", target=TARGET))
    assert store.schema_version() == schema.REVISIONS[-1]
    assert known(store) == Coverage(sequence=1)
    record(store, entry(2, days(0, 5)))
    assert covered(store) == days(0, 5)
    store.prune(keep_runs=1)
    assert kept(engine) == {target_digest(TARGET): 2}


def test_a_run_that_adopted_an_earlier_tries_commit_neither_proves_nor_uncovers(store: HistoryStore) -> None:
    record(store, entry(1), entry(2))
    before = known(store)
    store.record(adopted(report("first", target=TARGET, coverage=entry(1).to_json(), target_version=1), "again"))
    after = known(store)
    assert (after.fragments, after.target_version) == (before.fragments, before.target_version)
    assert after.sequence > before.sequence
