"""Reading the logs of tables for the runs that wrote them, wherever the tables are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.planning.rebuild import Rebuilt, rebuilt
from airflow_provider_replacewhere.planning.table_log import InDoubtError, TableLog
from airflow_provider_replacewhere.spark.directory import DirectoryCatalog
from airflow_provider_replacewhere.spark.freshness import coverage_of
from airflow_provider_replacewhere.spark.log import HadoopFolder
from airflow_provider_replacewhere.spark.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    session: SparkSession, root: str | None, tables: Sequence[str], coverage: Mapping[str, Mapping[str, Any]]
) -> list[Rebuilt]:
    """What the logs of some tables tell that the ledger does not know.

    :param root: of the directory catalog; None: names belong to Spark's catalog
    :param tables: their names; none: all below the root
    :param coverage: by target, what the ledger knows, as JSON
    :raises RequestError: no table is named, one does not exist, or its log cannot be read
    """
    directory = DirectoryCatalog(root) if root is not None else None
    names = tables or (directory.tables(session) if directory is not None else ())
    if not names:
        below = f" below {root}" if root is not None else ""
        raise RequestError(f"There is no table{below} to read a log of.", hint="Name the tables, or their root.")
    known = {TableName.parse(target).key: value for target, value in coverage.items()}
    found = []
    for name in map(TableName.parse, names):
        state = Target.at(session, name, directory).state()
        if state is None:
            raise RequestError(f"There is no Delta table {name}.", hint="Name it as its flow does.")
        try:
            log = TableLog(str(name), HadoopFolder(session, f"{state.path}/_delta_log"))
            found.append(rebuilt(log, coverage_of(known.get(name.key))))
        except InDoubtError as doubt:
            raise RequestError(f"The runs of {name} cannot be told from its log: {doubt}.") from doubt
    return found
