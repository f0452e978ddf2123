"""Pipelines from files and from arguments, and several pipelines as one."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import Flow, NullKeys, Pipeline, Table
from airflow_provider_replacewhere.flows.names import parse_table_name
from airflow_provider_replacewhere.flows.settings import attach, check_setting, check_time_zone, configured
from airflow_provider_replacewhere.flows.sql import parse_sql
from airflow_provider_replacewhere.text import Document, Span

_SUFFIXES = (".sql", ".py")
PathLike = str | os.PathLike[str]


def load_pipeline(
    paths: PathLike | Iterable[PathLike], *, time_zone: str = "UTC", null_keys: NullKeys = "fail"
) -> Pipeline:
    """The pipeline of one or several files. Python files are kept as text, to be run where there is a Spark session.

    :param paths: files, folders (their ``*.sql`` and ``*.py``, by name, without those of inner folders), or patterns
        such as ``flows/**/*.sql``
    :param time_zone: IANA name for flows that name none
    :param null_keys: policy for flows that name none
    :raises DefinitionError: nothing is there, a file cannot be read, or one is no pipeline
    """
    documents = read_documents(paths)
    return pipeline_of_documents(documents, time_zone=time_zone, null_keys=null_keys)


def pipeline_of_documents(
    documents: Iterable[Document], *, time_zone: str = "UTC", null_keys: NullKeys = "fail"
) -> Pipeline:
    """The pipeline of texts that were read already; see :func:`load_pipeline`."""
    return combine(
        *(
            Pipeline(documents=(document,), python=(document,))
            if document.is_python
            else parse_sql(document, time_zone=time_zone, null_keys=null_keys)
            for document in documents
        )
    )


def read_documents(paths: PathLike | Iterable[PathLike]) -> tuple[Document, ...]:
    """The texts of pipeline files, each file once; see :func:`load_pipeline` for ``paths``."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise DefinitionError("No pipeline file is named.", hint="Name a file, a folder or a pattern.")
    files = dict.fromkeys(chain.from_iterable(_files(os.fspath(path)) for path in given))
    return tuple(_read(file) for file in files)


def _files(given: str) -> Iterator[str]:
    path = Path(given)
    if path.is_dir():
        found = sorted(str(file) for file in path.iterdir() if file.suffix in _SUFFIXES and file.name != "__init__.py")
        if not found:
            raise DefinitionError(f"The folder {given} holds no *.sql and no *.py file.", hint="Name another folder.")
        yield from found
    elif path.exists() or not glob.has_magic(given):
        yield given
    else:
        # Not Path.glob, which takes no absolute patterns.
        found = sorted(file for file in glob.glob(given, recursive=True) if Path(file).is_file())  # noqa: PTH207
        if not found:
            raise DefinitionError(f"No file fits {given}.", hint=_searched_from(given))
        yield from found


def _read(file: str) -> Document:
    if not file.endswith(_SUFFIXES):
        raise DefinitionError(f"{file} is neither SQL nor Python.", hint="A pipeline file ends in .sql or .py.")
    try:
        # utf-8-sig: editors on Windows put a mark in front, which is no part of the text.
        return Document(file, Path(file).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DefinitionError(f"There is no file {file}.", hint=_searched_from(file)) from None
    except OSError as error:
        raise DefinitionError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{file} is not UTF-8 text.", hint=f"Byte {error.start} is at fault.") from error


def _searched_from(path: str) -> str:
    return "" if Path(path).is_absolute() else f"Relative paths begin in {Path.cwd()}."


def combine(*pipelines: Pipeline) -> Pipeline:
    """Several pipelines as one: a flow finds its target's declaration in any of them.

    Settings stay with the flows of the file that sets them.

    :raises DefinitionError: two files set one key to different values
    """
    tables = tuple(chain.from_iterable(pipeline.tables for pipeline in pipelines))
    settings: dict[str, str] = {}
    for pipeline in pipelines:
        for key, value in pipeline.settings.items():
            if settings.setdefault(key, value) != value:
                raise DefinitionError(
                    f"{key} is set to {settings[key]!r} in one file and to {value!r} in another.",
                    hint="Set it in one file only, or to one value.",
                )
    return Pipeline(
        flows=tuple(configured(attach(flow, tables)) for pipeline in pipelines for flow in pipeline.flows),
        views=tuple(chain.from_iterable(pipeline.views for pipeline in pipelines)),
        tables=tables,
        refreshes=tuple(chain.from_iterable(pipeline.refreshes for pipeline in pipelines)),
        settings=settings,
        documents=tuple(chain.from_iterable(pipeline.documents for pipeline in pipelines)),
        python=tuple(chain.from_iterable(pipeline.python for pipeline in pipelines)),
    )


def flow_from_arguments(
    *,
    target: str,
    replace_where: str,
    query: str,
    name: str | None = None,
    partitioned_by: Sequence[str] = (),
    clustered_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
    time_zone: str = "UTC",
    null_keys: NullKeys = "fail",
) -> Flow:
    """A flow from arguments instead of a file. In errors each text is called after its argument.

    :param target: the table's name, as in SQL
    :param replace_where: a predicate over the target's columns
    :param query: the source query; one semicolon at its end is taken off
    :param name: the flow's name; the target's unless given
    :param partitioned_by: columns of the target, as plain names
    :param clustered_by: columns of the target, as plain names
    :raises DefinitionError: the target is no name, a text is empty, or both kinds of layout are given
    """
    table_name = parse_table_name(target, "target argument")
    own = dict(properties or {})
    for key, value in own.items():
        check_setting(key, value, Span.of(f"{key} = {value}", "properties argument"))
    if partitioned_by and clustered_by:
        raise DefinitionError(
            "A Delta table is either partitioned or clustered.", hint="Give partitioned_by or clustered_by."
        )
    check_time_zone(time_zone, Span.of(time_zone, "time_zone argument"))
    table = Table(
        table_name,
        partitioned_by=tuple(partitioned_by),
        clustered_by=tuple(clustered_by),
        properties=own,
        comment=comment,
    )
    return configured(
        Flow(
            name or str(table_name),
            table,
            _argument("replace_where", replace_where),
            _argument("query", query),
            comment=comment,
            time_zone=time_zone,
            null_keys=null_keys,
        )
    )


def _argument(name: str, text: str) -> Span:
    span = Span.of(text, f"{name} argument").strip()
    if span.text.endswith(";"):
        span = span.slice(0, len(span.text) - 1).strip()
    if not span.text:
        raise DefinitionError(f"The argument {name} is empty.", hint=f"Give {name} as SQL text.")
    return span
