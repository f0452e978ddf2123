"""What the target's log says beyond what the ledger knows: our commits whose reports were lost, and those of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.planning.changes import LogCommit, parse_commit
from airflow_provider_replacewhere.planning.coverage import Coverage
from airflow_provider_replacewhere.planning.decide import ForeignChange
from airflow_provider_replacewhere.planning.landed import Landed, Touched, landed, replay
from airflow_provider_replacewhere.planning.touched import touched
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.types import spark_type
from airflow_provider_replacewhere.spark.log import commit_text, first_version, layout_of, read_commits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_replacewhere.spark.target import State

# Where the ledger knows nothing of a table, its log is read back so far.
MOST_UNKNOWN = 1_000


@dataclass(frozen=True)
class Look:
    """What is known of a target when its log has been read as well as the ledger.

    :param coverage: what our runs prove, those included whose reports never reached the ledger
    :param runs: the latter, in the order of their commits
    :param others: commits that nobody has accounted for; None: the log does not tell them all
    """

    coverage: Coverage
    runs: tuple[Landed, ...] = ()
    others: tuple[LogCommit, ...] | None = ()

    def foreign(self, changed: Touched, types: Mapping[str, str]) -> tuple[ForeignChange, ...] | None:
        """The commits of others, each with the rows that it may have changed.

        :param types: of the columns that matter
        """
        if self.others is None:
            return None
        return tuple(ForeignChange(c.version, c.operation, changed(c, types)) for c in self.others)


def look(session: SparkSession, state: State | None, known: Coverage) -> Look:
    """Read the target's log from where the ledger's knowledge ends.

    :param known: what the ledger knows of the target
    """
    if state is None:
        return Look(known)
    is_known = known.target_version is not None and known.target_id == state.table_id
    if is_known:
        assert known.target_version is not None
        after = known.target_version
    else:
        first = first_version(session, state.path)
        after = max(-1 if first is None else first - 1, state.version - MOST_UNKNOWN)
    commits = read_commits(session, state.path, after, state.version) if after <= state.version else None
    if commits is None:
        return Look(known, others=None) if is_known else Look(known)
    replayed = replay(known, state.table_id, commits, touched_in(state))
    if not is_known and not replayed.runs:
        return Look(known)  # nothing was known, so that nobody's commit can have changed it
    return Look(replayed.coverage, replayed.runs, replayed.rest)


def touched_in(state: State) -> Touched:
    """The rows of a target that a commit may have changed, by some of its columns."""
    of_target = {field.name.lower(): spark_type(field.dataType.simpleString()) for field in state.schema}

    def rows(commit: LogCommit, types: Mapping[str, str]) -> Region | None:
        # A column that the query gives in another type is written in the log as the table has it: '10' before '9'.
        same = {name: text for name, text in types.items() if of_target.get(name.lower()) == spark_type(text)}
        return touched([commit], layout_of(same, state.schema, state.partition_columns))

    return rows


def landed_since(session: SparkSession, path: str, version: int, token: str) -> Landed | None:
    """The run whose commit after a version carries a token; None where there is none."""
    while (text := commit_text(session, path, version := version + 1)) is not None:
        commit = parse_commit(version, text)
        if commit.token == token and (run := landed(commit)) is not None:
            return run
    return None
