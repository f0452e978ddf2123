"""The target table: made explicitly, replaced in one commit, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from airflow_provider_replacewhere.errors import SkippedWriteError, WriteError
from airflow_provider_replacewhere.flows.model import Table, TableName
from airflow_provider_replacewhere.planning.changes import LogCommit, parse_commit
from airflow_provider_replacewhere.planning.landed import counts_of
from airflow_provider_replacewhere.spark.directory import DirectoryCatalog, is_delta_table
from airflow_provider_replacewhere.spark.errors import reason, write_error
from airflow_provider_replacewhere.spark.jvm import class_name, file_system, seq, walk
from airflow_provider_replacewhere.spark.log import commit_text
from airflow_provider_replacewhere.spark.schema import schema_of, sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# The predicate of a full refresh that keeps the table's columns and layout.
EVERYTHING = "true"
# How long Delta remembers a commit's txnAppId; without it every run's would stay in the table's state for ever.
TRANSACTION_RETENTION = ("delta.setTransactionRetentionDuration", "interval 30 days")
RESET_ALLOWED = "pipelines.reset.allowed"


@dataclass(frozen=True)
class State:
    """A target that exists, at one version."""

    schema: StructType
    version: int
    path: str
    table_id: str
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    """The columns by which a table is partitioned, or else clustered."""

    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[tuple[str, ...], ...]:
        """What two spellings of one layout have in common."""
        return tuple(tuple(name.lower() for name in names) for names in (self.partitioned_by, self.clustered_by))


@dataclass(frozen=True)
class Commit:
    """What one commit did, read back from the table's log; counts are None where Delta keeps no statistics."""

    version: int
    read_version: int
    rows_deleted: int | None
    rows_written: int | None
    bytes_written: int | None


class Target:
    """One target table, by its name in the directory catalog, in Spark's catalog, or by path.

    :param folder: where the table is, or is to be, when no catalog keeps that
    """

    def __init__(self, session: SparkSession, name: TableName, folder: str | None) -> None:
        self.session = session
        self.name = name
        self._folder = folder
        parts = ("delta", folder) if folder is not None else name.parts
        if len(parts) == 1:
            # Spelt out, or a temporary view of that name in the caller's session would be taken for the table.
            parts = (session.catalog.currentDatabase(), *parts)
        self._sql_name = TableName(parts).to_sql()

    @classmethod
    def at(cls, session: SparkSession, name: TableName, directory: DirectoryCatalog | None) -> Target:
        """The target that a name stands for, whether it exists or not."""
        if name.is_path:
            return cls(session, name, name.parts[1])
        folder = directory.path(session, name) if directory is not None else None
        if folder is not None and not is_delta_table(session, folder):
            in_catalog = cls(session, name, None)
            if session.catalog.tableExists(in_catalog._sql_name):
                return in_catalog  # which no folder below the root hides
        return cls(session, name, folder)

    def __str__(self) -> str:
        return str(self.name)

    def state(self) -> State | None:
        """The table as it is now, or None where there is none yet.

        :raises WriteError: something else than a Delta table has the name or the folder
        """
        if self._folder is not None and not is_delta_table(self.session, self._folder):
            self._refuse_other_files(self._folder)
            return None
        if self._folder is None and not self.session.catalog.tableExists(self._sql_name):
            return None
        location = self._location()
        metadata = location.metadata()
        return State(
            schema=schema_of(metadata),
            version=int(location.version()),
            path=str(location.path().toString()),
            table_id=str(metadata.id()),
            partition_columns=tuple(seq(metadata.partitionColumns())),
            properties=_as_dict(self.session, metadata.configuration()),
        )

    def version(self) -> int | None:
        """Its newest version; None where there is no table."""
        state = self.state()
        return None if state is None else state.version

    def layout(self) -> Layout:
        """How the table's rows are laid out in files."""
        (detail,) = self.session.sql(f"DESCRIBE DETAIL {self._sql_name}").collect()
        return Layout(tuple(detail["partitionColumns"]), tuple(detail["clusteringColumns"]))

    def frame(self) -> DataFrame:
        """The table's rows, at whatever version it has when they are read."""
        return self.session.sql(f"SELECT * FROM {self._sql_name}")

    def count_outside(self, window: str) -> int:
        """How many rows the window does not hold: what a full refresh would lose."""
        return int(self.frame().where(f"NOT coalesce(({window}), false)").count())

    def create(self, table: Table, schema: StructType) -> None:
        """Make the table, empty, as it was declared.

        On a table that does not exist Delta's replaceWhere would neither delete nor check a row.
        """
        columns = ", ".join(
            f"{TableName((field.name,)).to_sql()} {sql_type(self.session, field.dataType)}"
            + ("" if field.nullable else " NOT NULL")
            + (f" COMMENT {_string(field.metadata['comment'])}" if "comment" in field.metadata else "")
            for field in schema
        )
        properties = dict([TRANSACTION_RETENTION]) | dict(table.properties)
        statement = [f"CREATE TABLE IF NOT EXISTS {self._sql_name} ({columns}) USING DELTA"]
        if table.partitioned_by:
            statement.append(f"PARTITIONED BY ({_columns(table.partitioned_by)})")
        if table.clustered_by:
            statement.append(f"CLUSTER BY ({_columns(table.clustered_by)})")
        if table.comment:
            statement.append(f"COMMENT {_string(table.comment)}")
        pairs = ", ".join(f"{_string(key)} = {_string(value)}" for key, value in properties.items())
        statement.append(f"TBLPROPERTIES ({pairs})")
        try:
            self.session.sql(" ".join(statement))
        except (PySparkException, Py4JJavaError) as error:
            raise WriteError(
                f"The target {self.name} cannot be created: {reason(error)}",
                hint="Check its declaration: columns, PARTITIONED BY, CLUSTER BY and TBLPROPERTIES.",
            ) from error

    def replace(self, rows: DataFrame, window: str, *, token: str, metadata: str, new_columns: bool) -> Commit:
        """Delete the window's rows and put ``rows`` in, in one commit.

        :param window: SQL with constants only
        :param token: becomes Delta's txnAppId, so that one token commits once
        :param metadata: becomes the commit's userMetadata
        :param new_columns: whether the rows bring columns that the table does not have
        :raises WriteError: Delta refused, or the commit is not what was asked for
        :raises SkippedWriteError: the token was there before
        :raises ConcurrentWriteError: another writer was faster
        """
        options = {"replaceWhere": window, "txnAppId": token, "txnVersion": "1", "userMetadata": metadata}
        if new_columns:
            options["mergeSchema"] = "true"
        commit, info = self._write(rows, options, window, metadata)
        if info["operationParameters"].get("predicate") != window:
            raise WriteError(
                f"The commit {commit.version} of {self.name} has the predicate "
                f"{info['operationParameters'].get('predicate')!r} instead of {window!r}.",
                hint=f"Look at the table, and undo with RESTORE TABLE … TO VERSION AS OF {commit.read_version}.",
            )
        return commit

    def refresh(self, rows: DataFrame, table: Table, *, token: str, metadata: str) -> Commit:
        """Put ``rows`` in place of the whole table, in one commit, and define its columns anew.

        The layout becomes the one that is declared; where none is, it stays.

        :raises WriteError: Delta refused, or the commit is not what was asked for
        :raises SkippedWriteError: the token was there before
        :raises ConcurrentWriteError: another writer was faster
        """
        options = {"overwriteSchema": "true", "txnAppId": token, "txnVersion": "1", "userMetadata": metadata}
        layout = Layout(table.partitioned_by, table.clustered_by)
        if layout == Layout():
            layout = self.layout()
        for column in table.columns:
            if column.comment:
                rows = rows.withMetadata(column.name, {"comment": column.comment})
        commit, _ = self._write(rows, options, "the whole table", metadata, layout.partitioned_by)
        if layout.clustered_by:
            # Delta forgets it with every overwrite of the whole table.
            self.session.sql(f"ALTER TABLE {self._sql_name} CLUSTER BY ({_columns(layout.clustered_by)})")
        return commit

    # -- the commit ----------------------------------------------------------------------------------------------------

    def _write(
        self,
        rows: DataFrame,
        options: Mapping[str, str],
        what: str,
        metadata: str,
        partitioned_by: tuple[str, ...] = (),
    ) -> tuple[Commit, dict[str, Any]]:
        before = int(self._location().version())
        writer = rows.write.format("delta").mode("overwrite").options(**options)
        if partitioned_by:
            writer = writer.partitionBy(*partitioned_by)
        try:
            if self._folder is not None:
                writer.save(self._folder)
            else:
                writer.saveAsTable(self._sql_name)
        except (PySparkException, Py4JJavaError) as error:
            raise write_error(error, str(self.name), what) from error
        return self._read_back(before, metadata)

    def _read_back(self, before: int, metadata: str) -> tuple[Commit, dict[str, Any]]:
        location = self._location()
        for version in range(before + 1, int(location.version()) + 1):
            text = commit_text(self.session, str(location.path().toString()), version)
            written = parse_commit(version, text) if text is not None else None
            if written is None or written.user_metadata != metadata:
                continue
            info = dict(written.info)
            if info["operationParameters"].get("mode") != "Overwrite" or info.get("readVersion") is None:
                raise WriteError(
                    f"The commit {version} of {self.name} is no overwrite of an existing table: "
                    f"{info['operationParameters']}.",
                    hint=f"Look at the table, and undo with RESTORE TABLE … TO VERSION AS OF {version - 1}.",
                )
            return self._counted(_commit(written), info), info
        raise SkippedWriteError(
            f"Spark wrote {self.name}, but no commit after version {before} carries this run's mark.",
            hint="Another driver may have written with the same token; look at DESCRIBE HISTORY.",
        )

    def _counted(self, commit: Commit, info: Mapping[str, Any]) -> Commit:
        """With the rows that were deleted where nothing was written: then Delta's metrics do not tell."""
        metrics = info.get("operationMetrics", {})
        if commit.rows_deleted is not None or metrics.get("numFiles") != "0":
            return commit
        if metrics.get("numRemovedFiles") == "0":
            return replace(commit, rows_deleted=0, rows_written=0)
        deleted = self._count(commit.version - 1) - self._count(commit.version)
        return replace(commit, rows_deleted=deleted, rows_written=0)

    def _count(self, version: int) -> int:
        return int(self.session.sql(f"SELECT count(*) FROM {self._sql_name} VERSION AS OF {version}").collect()[0][0])

    def _location(self) -> Any:
        """Delta's file index of the table's newest snapshot."""
        plan = self.frame()._jdf.queryExecution().analyzed()
        for node in walk(plan):
            if class_name(node) == "View":
                raise WriteError(
                    f"{self.name} is a view.",
                    hint="A REPLACE WHERE flow writes Delta tables only: choose another name.",
                )
            if class_name(node) == "LogicalRelation" and "delta" in str(
                node.relation().location().getClass().getName()
            ):
                return node.relation().location()
        raise WriteError(
            f"{self.name} exists, but is no Delta table.",
            hint="A REPLACE WHERE flow writes Delta tables only: choose another name, or convert the table.",
        )

    def _refuse_other_files(self, folder: str) -> None:
        fs, path = file_system(self.session, folder)
        if fs.exists(path) and len(fs.listStatus(path)) > 0:
            raise WriteError(
                f"The folder {folder} of the target {self.name} holds files, but no Delta table.",
                hint="Choose another name, or move the files away.",
            )


def _commit(commit: LogCommit) -> Commit:
    counts = counts_of(commit)
    return Commit(
        version=commit.version,
        read_version=int(commit.info["readVersion"]),
        rows_deleted=counts.rows_deleted,
        rows_written=counts.rows_written,
        bytes_written=counts.bytes_written,
    )


def _as_dict(session: SparkSession, scala_map: Any) -> dict[str, str]:
    jvm = session._jvm
    assert jvm is not None
    return {str(k): str(v) for k, v in jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map).items()}


def _columns(names: tuple[str, ...]) -> str:
    return ", ".join(TableName((name,)).to_sql() for name in names)


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
