"""From an operator's arguments to what they define, as far as it can be known without Spark."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_replacewhere.errors import DefinitionError, RequestError
from airflow_provider_replacewhere.planning.request import FlowArguments
from airflow_provider_replacewhere.text import Document

if TYPE_CHECKING:
    from airflow_provider_replacewhere.flows.model import Flow, NullKeys, TableName

PathLike = str | os.PathLike[str]
SUFFIXES = (".sql", ".py")


@dataclass(frozen=True)
class Definition:
    """A pipeline's texts, and the flows that they declare.

    :param flows: the flows of SQL and of arguments; those of Python files show only in the driver
    :param is_complete: whether these are all the flows there are
    """

    documents: tuple[Document, ...]
    arguments: FlowArguments | None
    flows: tuple[Flow, ...]
    is_complete: bool

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(str(flow.target) for flow in self.flows)

    def flow_named(self, name: str) -> Flow | None:
        """The flow of this name, in any letter case."""
        return next((flow for flow in self.flows if flow.name.lower() == name.lower()), None)

    def flow_of(self, table: str, what: str = "the table's name") -> Flow | None:
        """The flow that feeds a table.

        :raises DefinitionError: ``table`` is no name
        """
        # Imported here because no Dag file needs it.
        from airflow_provider_replacewhere.flows.names import parse_table_name

        return self._feeding(parse_table_name(table, what))

    def selected(self, tables: Sequence[str]) -> tuple[Flow, ...] | None:
        """The flows that run when these tables are selected, none meaning all; None where that is not known."""
        if not self.is_complete:
            return None
        return tuple(flow for table in tables if (flow := self.flow_of(table)) is not None) if tables else self.flows

    def _feeding(self, table: TableName) -> Flow | None:
        return next((flow for flow in self.flows if flow.target.key == table.key), None)


def define(
    pipeline: PathLike | Iterable[PathLike] | None,
    arguments: Mapping[str, Any],
    *,
    folders: Sequence[str],
    time_zone: str,
    null_keys: str | None,
) -> Definition:
    """Read and check what an operator was given.

    :param pipeline: SQL text, or paths of files, folders or patterns
    :param arguments: the fields of :class:`FlowArguments`; None or empty where not given
    :param folders: where relative paths are looked for, in order
    :raises RequestError: neither or both forms are given, or an argument is missing
    :raises DefinitionError: the texts declare no valid flows
    """
    given = {name: value for name, value in arguments.items() if value}
    if pipeline and given:
        raise RequestError(
            f"Both pipeline and {', '.join(given)} are given.",
            hint="A flow is either in the pipeline or in target, replace_where and query.",
        )
    if pipeline:
        return _of_pipeline(documents_of(pipeline, folders), time_zone, null_keys)
    missing = [name for name in ("target", "replace_where", "query") if name not in given]
    if missing:
        raise RequestError(
            f"The operator defines no flow: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing.",
            hint="Give pipeline (a file or SQL text), or target, replace_where and query.",
        )
    return _of_arguments(FlowArguments(**given), time_zone, null_keys)


def _of_pipeline(documents: tuple[Document, ...], time_zone: str, null_keys: str | None) -> Definition:
    from airflow_provider_replacewhere.flows.pipeline import (
        pipeline_of_documents,
    )

    pipeline = pipeline_of_documents(documents, time_zone=time_zone, null_keys=cast("NullKeys", null_keys or "fail"))
    if not pipeline.flows and not pipeline.python:
        raise DefinitionError(
            f"{', '.join(document.name for document in documents)} declares no flow.",
            hint="Write CREATE STREAMING TABLE name FLOW REPLACE WHERE predicate BY NAME query.",
        )
    return Definition(documents, None, pipeline.flows, is_complete=not pipeline.python)


def _of_arguments(arguments: FlowArguments, time_zone: str, null_keys: str | None) -> Definition:
    # Imported here because no Dag file needs it.
    from airflow_provider_replacewhere.planning.pipeline import flow_of

    flow = flow_of(arguments, time_zone, cast("NullKeys", null_keys or "fail"))
    return Definition((), arguments, (flow,), is_complete=True)


def documents_of(pipeline: PathLike | Iterable[PathLike], folders: Sequence[str]) -> tuple[Document, ...]:
    """The texts of a pipeline.

    :param pipeline: SQL text, or paths of files, folders or patterns
    :param folders: where relative paths are looked for, in order
    :raises DefinitionError: there is no such file
    """
    if isinstance(pipeline, str) and _is_text(pipeline):
        return (Document("pipeline argument", pipeline),)
    # Imported here because no Dag file needs it.
    from airflow_provider_replacewhere.flows.pipeline import read_documents

    paths = [pipeline] if isinstance(pipeline, str | os.PathLike) else list(pipeline)
    return read_documents(_found(os.fspath(path), folders) for path in paths)


def _is_text(pipeline: str) -> bool:
    # No statement fits into one word, and a path with spaces still ends like a file of ours.
    return len(pipeline.split()) > 1 and not pipeline.endswith(SUFFIXES)


def _found(path: str, folders: Sequence[str]) -> str:
    candidates = [path] if Path(path).is_absolute() else [str(Path(folder) / path) for folder in folders]
    for candidate in candidates:
        if Path(candidate).exists() or any(glob.iglob(candidate, recursive=True)):  # noqa: PTH207  (absolute patterns)
            return candidate
    raise DefinitionError(
        f"There is no pipeline file {path}.",
        hint=f"Looked for {' and '.join(candidates)}."
        + ("" if path.endswith(SUFFIXES) else " Files end in .sql or .py; SQL text has more than one word."),
    )
