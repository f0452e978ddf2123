"""Runs as OpenLineage tells them. To be imported only where OpenLineage asks: it is no dependency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    OutputDatasetFacet,
    RunFacet,
    dataset_version_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
)

from airflow_provider_replacewhere.operators.datasets import dataset_of
from airflow_provider_replacewhere.operators.summary import flow_value
from airflow_provider_replacewhere.operators.telling import Teller
from airflow_provider_replacewhere.planning.report import RunReport

FACET = "replaceWhere"
SCHEMA = "urn:airflow-provider-replacewhere:openlineage:1"
"""A name, not an address: nothing is to be fetched from there."""


@attr.define
class ReplaceWhereRunFacet(RunFacet):
    """The application: which instant its runs were about, and what failed."""

    runId: str = attr.field()  # noqa: N815  (as OpenLineage spells)
    asOf: str = attr.field()  # noqa: N815
    dryRun: bool = attr.field()  # noqa: N815
    failures: list[dict[str, Any]] = attr.field(factory=list)

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA}:run"


@attr.define
class ReplaceWhereOutputFacet(OutputDatasetFacet):
    """What one flow's run replaced of its target, and why."""

    flow: str = attr.field()
    runId: str = attr.field()  # noqa: N815
    mode: str = attr.field()
    reasons: list[dict[str, Any]] = attr.field()
    window: str = attr.field()
    replaced: str | None = attr.field()
    override: bool = attr.field()
    rowsDeleted: int | None = attr.field()  # noqa: N815
    rowsWritten: int | None = attr.field()  # noqa: N815
    chunks: dict[str, int] | None = attr.field(default=None)

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA}:output"


def facets(teller: Teller | None) -> OperatorLineage[Any, Any]:
    """What a task's application read and wrote.

    :param teller: who knows; None, or one who knows of no outcome: nothing can be told
    """
    if teller is None or teller.outcome is None or teller.request is None:
        return OperatorLineage()
    outcome, request = teller.outcome, teller.request
    by_flow: dict[str, list[RunReport]] = {}
    for report in outcome.reports:
        by_flow.setdefault(report.flow, []).append(report)
    inputs = {(each.namespace, each.name): each for report in outcome.reports for each in _inputs(report)}
    outputs = [] if request.dry_run else [_output(reports, outcome.schemas) for reports in by_flow.values()]
    failures = [
        {"flow": failure.flow, "target": failure.target, "runId": failure.run_id, "error": failure.error.get("type")}
        for failure in outcome.failures
    ]
    as_of = request.as_of.isoformat()
    run = ReplaceWhereRunFacet(runId=outcome.run_id, asOf=as_of, dryRun=request.dry_run, failures=failures)
    return OperatorLineage(inputs=list(inputs.values()), outputs=outputs, run_facets={FACET: run})


def _inputs(report: RunReport) -> list[InputDataset]:
    known = {
        str(source.get("table_name")): source
        for source in report.planning_information.get("source_table_information") or ()
    }
    found = []
    for table, version in report.source_versions.items():
        namespace, name = dataset_of(table, known.get(table, {}).get("path"))
        found.append(InputDataset(namespace=namespace, name=name, facets=_dataset_facets(table, name, version)))
    return found


def _output(reports: Sequence[RunReport], schemas: Mapping[str, Mapping[str, str]]) -> OutputDataset:
    last, value = reports[-1], flow_value(reports)
    target = last.planning_information.get("target_table_information") or {}
    namespace, name = dataset_of(last.target, target.get("path"))
    sizes = [report.bytes_written for report in reports if report.replaced is not None]
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        # A run that replaced nothing wrote no row, which OpenLineage's readers take from a number only.
        rowCount=value["rows_written"] if sizes else 0,
        size=None if None in sizes else sum(size or 0 for size in sizes),
    )
    own = ReplaceWhereOutputFacet(
        flow=last.flow,
        runId=last.run_id,
        mode=str(last.mode),
        reasons=[dict(reason) for reason in last.reasons],
        window=last.window,
        replaced=last.replaced,
        override=last.override,
        rowsDeleted=value["rows_deleted"] if sizes else 0,
        rowsWritten=value["rows_written"] if sizes else 0,
        chunks=value.get("chunks"),
    )
    of_table = _dataset_facets(last.target, name, last.target_version)
    if columns := schemas.get(last.target):
        fields = [schema_dataset.SchemaDatasetFacetFields(name=each, type=kind) for each, kind in columns.items()]
        of_table["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields)
    of_run = {"outputStatistics": statistics, FACET: own}
    return OutputDataset(namespace=namespace, name=name, facets=of_table, outputFacets=of_run)


def _dataset_facets(table: str, name: str, version: int | None) -> dict[str, DatasetFacet]:
    found: dict[str, DatasetFacet] = {}
    if version is not None:
        found["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))
    plain = table.replace("`", "")
    if plain != name and not plain.endswith(name):
        # As the Spark integration does: the dataset is the folder, and the table's name leads to it.
        by_name = symlinks_dataset.Identifier(namespace="replacewhere", name=plain, type="TABLE")
        found["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[by_name])
    return found
