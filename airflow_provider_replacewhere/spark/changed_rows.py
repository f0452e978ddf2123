"""The rows by which two versions of a Delta table differ, read from the files that changed and from no others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_replacewhere.planning.changes import File, LogCommit, net_files
from airflow_provider_replacewhere.spark.jvm import to_seq
from airflow_provider_replacewhere.spark.multiset import SURPLUS, counted, quoted, surplus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What createDataFrame looks at in a file's action.
_ACTION = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_IGNORES = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
SMALL_BYTES = 8 << 20
"""Changes up to this size are compared in one task: quicker than to divide them among several."""

_ADDED_BY = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


class ChangedRows:
    """What some successive commits added to a table and removed from it.

    ``gone`` and ``new`` are the files that they removed and added, those left out that came and went in between.

    :param commits: all of them, none missing, none of which changed the table's description
    """

    def __init__(self, session: SparkSession, path: str, commits: Sequence[LogCommit]) -> None:
        self._session = session
        self._path = path
        self._commits = commits
        self.gone, self.new = net_files(commits)

    @property
    def only_added(self) -> bool:
        return not self.gone

    @property
    def bytes(self) -> int:
        """The size of the files that have to be read."""
        return sum(file.size for file in (*self.gone, *self.new))

    def frame(self, columns: Sequence[str], *, only_removed: bool = False) -> DataFrame:
        """The rows, by some columns: those that are in one version oftener than in the other.

        A row that was copied from one file to another is in both, and so is one that was deleted and put back.

        :param only_removed: whether only those are wanted that are in the later version less often; some were removed
        :raises ValueError: the files, or the values in them, do not allow to tell
        """
        if self.only_added:
            return self._files(self.new).selectExpr(*quoted(columns))
        compared = self._counted(columns, are_small=self.bytes <= SMALL_BYTES)
        differs = F.col(SURPLUS) < 0 if only_removed else F.col(SURPLUS) != 0
        return compared.where(differs).selectExpr(*quoted(columns))

    def removed(self, columns: Sequence[str]) -> int:
        """How many rows are gone, or there less often, by some columns; for changes that one task can compare.

        :raises ValueError: as :meth:`frame`
        """
        fewer = F.sum(F.greatest(-F.col(SURPLUS), F.lit(0)))
        return int(self._counted(columns, are_small=True).agg(fewer).collect()[0][0] or 0)

    def _counted(self, columns: Sequence[str], *, are_small: bool = False) -> DataFrame:
        names = quoted(columns)
        if any(commit.has_change_data for commit in self._commits):
            changed = self._change_data(names)
            return counted(changed.coalesce(1) if are_small else changed)
        new, gone = (self._files(files).selectExpr(*names) for files in (self.new, self.gone))
        return surplus(new, gone, are_small=are_small)

    def _change_data(self, names: Sequence[str]) -> DataFrame:
        """The table's own change data feed: a commit that wrote one has told row by row what it changed."""
        feed = (
            self._session.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", str(self._commits[0].version))
            .option("endingVersion", str(self._commits[-1].version))
            .load(self._path)
        )
        signs = " ".join(f"WHEN '{kind}' THEN {sign}" for kind, sign in _ADDED_BY.items())
        return feed.selectExpr(*names, f"CASE _change_type {signs} ELSE raise_error(_change_type) END AS {SURPLUS}")

    def _files(self, files: Iterable[File]) -> DataFrame:
        """The rows of some files, deletion vectors applied, whether or not the table still has the files."""
        _refuse_silence(self._session)
        jvm = self._session._jvm
        assert jvm is not None
        none = jvm.scala.Option.empty()
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._session._jsparkSession, self._path)
        snapshot = log.getSnapshotAt(self._commits[-1].version, none, none, False)
        action = jvm.org.apache.spark.sql.delta.actions.Action
        added = to_seq(self._session, (action.fromJson(_as_added(file)) for file in files))
        frame = log.createDataFrame(snapshot, added, False, none)
        # In the flow's own session, whose time zone and settings count.
        plan = frame.queryExecution().analyzed()
        dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session._jsparkSession, plan)
        return DataFrame(dataset, self._session)


def _refuse_silence(session: SparkSession) -> None:
    for setting in _IGNORES:
        if str(session.conf.get(setting, "false")).lower() == "true":
            raise ValueError(f"{setting} is set, so that a file that is gone would count as empty")


def _as_added(file: File) -> str:
    if "size" not in file.action or "partitionValues" not in file.action:
        raise ValueError(f"the log does not describe the file {file.path}, which was removed")
    action: dict[str, Any] = {name: file.action[name] for name in _ACTION if name in file.action}
    return json.dumps({"add": {**action, "modificationTime": 0, "dataChange": True}})
