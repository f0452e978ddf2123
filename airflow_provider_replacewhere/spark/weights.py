"""How much of a flow's tables lies where, by Delta's own statistics of their files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from airflow_provider_replacewhere.planning.changes import File
from airflow_provider_replacewhere.planning.touched import rows_of
from airflow_provider_replacewhere.planning.weights import Weight, weights_of
from airflow_provider_replacewhere.predicates.boxes import Path
from airflow_provider_replacewhere.predicates.render import quoted
from airflow_provider_replacewhere.predicates.values import Values
from airflow_provider_replacewhere.spark.changes import SourceChanges
from airflow_provider_replacewhere.spark.jvm import class_name, walk
from airflow_provider_replacewhere.spark.log import layout_of_frame
from airflow_provider_replacewhere.spark.schema import sql_type
from airflow_provider_replacewhere.spark.sources import Source, pinned

if TYPE_CHECKING:
    from airflow_provider_replacewhere.spark.prepared import Prepared


def weights(prepared: Prepared, path: Path, by: str) -> tuple[Weight, ...]:
    """How much of what a run reads lies where along a column of its target; of the target where no source tells.

    A source tells where its own column becomes the target's as it is.

    :param by: ``rows`` or ``bytes``
    """
    found: list[Weight] = []
    for source, column in _told_by(prepared, path):
        found += _of_table(pinned(prepared.session, source), column, by)
    if not found and prepared.state is not None:
        found += _of_table(prepared.target.frame(), path[0], by)
    return tuple(found)


def _told_by(prepared: Prepared, path: Path) -> Iterator[tuple[Source, str]]:
    """The sources, each with the column that becomes the target's."""
    if len(path) != 1:
        return
    sources = {source.name: source for source in prepared.sources}
    asked = SourceChanges(prepared.session, prepared.question("auto"), sources, prepared.definition_hash)
    types = {field.name.lower(): sql_type(prepared.session, field.dataType) for field in prepared.rows.schema}
    for name, source in sources.items():
        arrivals = asked.lineage.of(name).get(path[0], ()) if source.version is not None else ()
        if not arrivals or any(arrival.partner is not None for arrival in arrivals):
            continue
        for field in pinned(prepared.session, source).schema:
            same_type = sql_type(prepared.session, field.dataType) == types.get(path[0].lower())
            names = (field.name.lower(), quoted(field.name).lower())
            if same_type and all(arrival.value.lower() in names for arrival in arrivals):
                yield source, field.name


def _of_table(frame: DataFrame, column: str, by: str) -> Sequence[Weight]:
    types = {f.name: sql_type(frame.sparkSession, f.dataType) for f in frame.schema if f.name == column}
    layout = layout_of_frame(frame, types)
    files: list[tuple[Values | None, float]] = []
    for file in _files(frame):
        amount = file.size if by == "bytes" else (file.stats or {}).get("numRecords")
        if amount is None:
            continue
        boxes = rows_of(file, layout).boxes
        side = boxes[0].by_path.get((column,)) if boxes else None
        files.append((side, float(amount)))
    return weights_of(files)


def _files(frame: DataFrame) -> Iterator[File]:
    """The files of the Delta table that a frame reads, at the version that it reads."""
    (leaf,) = (n for n in walk(frame._jdf.queryExecution().analyzed()) if class_name(n) == "LogicalRelation")
    files = leaf.relation().location().getSnapshot().allFiles().toDF()
    wanted = DataFrame(files, frame.sparkSession).select("path", "partitionValues", "size", "stats")
    for row in wanted.toLocalIterator():
        stats = json.loads(row["stats"], parse_float=Decimal) if row["stats"] else None
        yield File(row["path"], dict(row["partitionValues"] or {}), stats, size=int(row["size"]))
