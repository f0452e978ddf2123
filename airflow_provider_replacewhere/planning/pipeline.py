"""From a request's texts to the flows that it runs, as far as they show without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from airflow_provider_replacewhere.errors import DefinitionError, RequestError
from airflow_provider_replacewhere.flows.model import Flow, NullKeys, Pipeline
from airflow_provider_replacewhere.flows.names import parse_table_name
from airflow_provider_replacewhere.flows.pipeline import combine, flow_from_arguments, pipeline_of_documents
from airflow_provider_replacewhere.planning.request import FlowArguments, RunRequest
from airflow_provider_replacewhere.text import Document, Span


def pipeline_of(request: RunRequest) -> Pipeline:
    """The pipeline that a request carries as texts; its Python files are still to be run.

    :raises DefinitionError: a text does not declare valid flows
    """
    null_keys = cast(NullKeys, request.null_keys or "fail")
    parts = [pipeline_of_documents(request.documents, time_zone=request.time_zone, null_keys=null_keys)]
    if request.arguments is not None:
        flow = flow_of(request.arguments, request.time_zone, null_keys)
        parts.append(Pipeline(flows=(flow,), tables=(flow.table,)))
    return combine(*parts)


def flow_of(given: FlowArguments, time_zone: str, null_keys: NullKeys) -> Flow:
    """The flow that an operator's arguments declare.

    :raises DefinitionError: they declare no valid one
    """
    return flow_from_arguments(
        target=given.target,
        replace_where=given.replace_where,
        query=given.query,
        partitioned_by=given.partitioned_by,
        clustered_by=given.clustered_by,
        properties=given.properties,
        comment=given.comment,
        time_zone=time_zone,
        null_keys=null_keys,
    )


def selected(pipeline: Pipeline, select: Sequence[str]) -> tuple[Flow, ...]:
    """The flows that are asked for, by the name of the flow or of its target; all of them when none is named.

    :raises RequestError: no flow has that name
    """
    if not pipeline.flows:
        raise RequestError(
            "The pipeline has no flow.", hint="Declare one: CREATE STREAMING TABLE … FLOW REPLACE WHERE … BY NAME …"
        )
    if not select:
        return pipeline.flows
    names = {flow_named(pipeline, name).name for name in select}
    return tuple(flow for flow in pipeline.flows if flow.name in names)


def flow_named(pipeline: Pipeline, name: str) -> Flow:
    """:raises RequestError: no flow, and no target of one, has that name"""
    for flow in pipeline.flows:
        if flow.name.lower() == name.lower():
            return flow
    try:
        key = parse_table_name(name).key
    except DefinitionError:
        key = ()
    for flow in pipeline.flows:
        if flow.target.key == key:
            return flow
    raise RequestError(
        f"No flow and no target is named {name!r}.",
        hint=f"The pipeline has {', '.join(flow.name for flow in pipeline.flows)}.",
    )


def substituted(span: Span, settings: Mapping[str, str]) -> Span:
    """A text with ``${key}`` replaced by what ``SET key = value`` says.

    :raises DefinitionError: a key is not set
    """
    if "${" not in span.text:
        return span

    def value(match: re.Match[str]) -> str:
        found = next((v for k, v in settings.items() if k.lower() == match[1].lower()), None)
        if found is None:
            raise DefinitionError(
                f"{match[0]} is not set.",
                hint=f"Write SET {match[1]} = value in the pipeline file.",
                span=span.slice(match.start(), match.end()),
            )
        return found

    return Document(span.document.name, re.sub(r"\$\{([^}]*)\}", value, span.text)).span
