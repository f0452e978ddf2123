"""Rows that a run rewrites as they were: counted after the write, or found before it and left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.predicates.values import Values
from airflow_provider_replacewhere.spark.changed_rows import ChangedRows
from airflow_provider_replacewhere.spark.log import read_commits
from airflow_provider_replacewhere.spark.multiset import SURPLUS, quoted, surplus
from airflow_provider_replacewhere.spark.schema import sql_type
from airflow_provider_replacewhere.spark.values import key_of, to_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_replacewhere.spark.target import Commit

MOST_ROWS = 100_000
MOST_BYTES = 16 << 20
"""A commit larger than this is not read again only to be counted."""

MOST_VALUES = 200
"""More values of a key than this that differ are taken together with all that do not."""


def count(session: SparkSession, path: str, columns: Sequence[str], commit: Commit) -> int | None:
    """How many of the rows that a commit deleted it wrote again as they were; None where that costs too much to tell.

    :param path: the table's folder
    :param columns: all of the table's after the commit
    """
    if 0 in (commit.rows_deleted, commit.rows_written):
        return 0
    if commit.rows_deleted is None or commit.rows_written is None:
        return None
    if max(commit.rows_deleted, commit.rows_written) > MOST_ROWS:
        return None
    commits = read_commits(session, path, commit.version - 1, commit.version)
    if not commits:
        return None
    changed = ChangedRows(session, path, commits)
    if changed.bytes > MOST_BYTES:
        return None
    try:
        return commit.rows_deleted - changed.removed(columns)
    except (PySparkException, Py4JError, ValueError):  # a column whose values cannot be compared
        return None


def difference(new: DataFrame, old: DataFrame, region: Region, keys: Sequence[str]) -> Region | None:
    """The part of a region in which the new rows differ from the old ones; None where they cannot be compared.

    :param new: what the query gives for the region
    :param old: what the target holds in it, with the same columns
    :param keys: columns by which the region may be narrowed
    """
    domains = {
        f.name: domain
        for f in new.schema
        if f.name in keys
        and (domain := Domain.of(sql_type(new.sparkSession, f.dataType))).is_ordered
        and domain.name not in ("double", "binary")
    }
    selected = [to_key(name, domain) for name, domain in zip(quoted(domains), domains.values(), strict=True)]
    try:
        differing = surplus(new, old.selectExpr(*quoted(new.columns))).where(F.col(SURPLUS) != 0)
        found = differing.selectExpr(*selected, "1 AS __any").distinct().limit(MOST_VALUES + 1).collect()
        if not found:
            return Region.empty()
        if len(found) > MOST_VALUES:
            return region
        for number, (name, domain) in enumerate(domains.items()):
            keys_found = [key_of(row[number], domain) for row in found if row[number] is not None]
            null = any(row[number] is None for row in found)
            values = Values.of(domain, [(key, domain.next(key)) for key in keys_found], null)
            region = region.intersect(Region.of((name,), values))
    except (PySparkException, Py4JError, PredicateError, ValueError):
        return None
    return region
