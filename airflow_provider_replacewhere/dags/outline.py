"""What a Dag file has to know of a pipeline: its flows, who reads whom, and when each is to run.

A scheduler reads Dag files again and again, so outlines are kept in files of this user's, by the texts that they
are of.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_provider_replacewhere import __version__
from airflow_provider_replacewhere.flows.model import Flow, Pipeline, Schedule, TableName, View
from airflow_provider_replacewhere.operators.definition import PathLike, documents_of
from airflow_provider_replacewhere.operators.package import private_cache
from airflow_provider_replacewhere.text import Document


@dataclass(frozen=True)
class FlowOutline:
    """One flow.

    :param target: as the flow spells it
    :param upstream: targets of the same pipeline that it reads, directly or through views
    :param sources: all other tables that it reads
    """

    name: str
    target: str
    upstream: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Outline:
    """A pipeline.

    :param flows: each behind those that it reads
    :param is_complete: whether these are all; the flows of Python files show only in Spark
    """

    flows: tuple[FlowOutline, ...]
    is_complete: bool

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Outline:
        """:raises (LookupError, TypeError, ValueError): it is none"""
        value = json.loads(text)
        flows = tuple(
            FlowOutline(
                name=flow["name"],
                target=flow["target"],
                upstream=tuple(flow["upstream"]),
                sources=tuple(flow["sources"]),
                schedule=Schedule(**flow["schedule"]) if flow["schedule"] else None,
            )
            for flow in value["flows"]
        )
        return cls(flows, bool(value["is_complete"]))


def outline_of(pipeline: PathLike | Sequence[PathLike], folders: Sequence[str], time_zone: str) -> Outline:
    """The outline of a pipeline.

    :param pipeline: as the operator takes it
    :param folders: where relative paths are looked for, in order
    :raises DefinitionError: there is no such file, or it declares no valid flows
    """
    documents = documents_of(pipeline, folders)
    kept = _place(documents, time_zone)
    if kept is not None:
        with suppress(OSError, LookupError, TypeError, ValueError):
            return Outline.from_json(kept.read_text(encoding="utf-8"))
    found = _read(documents, time_zone)
    if kept is not None:
        with suppress(OSError):
            _keep(kept, found)
    return found


def _read(documents: Sequence[Document], time_zone: str) -> Outline:
    # Imported here because they bring the parsers, which a Dag file whose outline is kept does not need.
    from airflow_provider_replacewhere.flows.pipeline import pipeline_of_documents
    from airflow_provider_replacewhere.flows.reads import order

    pipeline = pipeline_of_documents(documents, time_zone=time_zone)
    return Outline(tuple(_flow(flow, pipeline) for flow in order(pipeline)), is_complete=not pipeline.python)


def _flow(flow: Flow, pipeline: Pipeline) -> FlowOutline:
    targets = {other.target.key: other.target for other in pipeline.flows}
    read = _tables(flow, {view.name.key: view for view in pipeline.views}, set())
    return FlowOutline(
        name=flow.name,
        target=str(flow.target),
        upstream=tuple(str(targets[name.key]) for name in read if name.key in targets),
        sources=tuple(str(name) for name in read if name.key not in targets),
        schedule=flow.table.schedule,
    )


def _tables(node: Flow | View, views: dict[tuple[str, ...], View], seen: set[tuple[str, ...]]) -> list[TableName]:
    from airflow_provider_replacewhere.flows.reads import reads

    found: dict[tuple[str, ...], TableName] = {}
    for name in reads(node):
        view = views.get(name.key)
        if view is None:
            found[name.key] = name
        elif name.key not in seen:
            seen.add(name.key)
            found |= {inner.key: inner for inner in _tables(view, views, seen)}
    return list(found.values())


def _place(documents: Sequence[Document], time_zone: str) -> Path | None:
    """Where the outline of these texts is kept; None where this user can keep nothing."""
    parts = [__version__, time_zone, *(part for document in documents for part in (document.name, document.text))]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    try:
        folder = private_cache() / "outlines"
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder / f"{name}.json"


def _keep(place: Path, outline: Outline) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=place.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(outline.to_json())
    Path(name).replace(place)
