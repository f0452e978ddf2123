"""A Dag with a form: a person names a range, reads the plan, approves it, and it is recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import DAG, AirflowOptionalProviderFeatureException, Param

from airflow_provider_replacewhere.dags.caller import calling_file
from airflow_provider_replacewhere.dags.listing import ListChunks
from airflow_provider_replacewhere.dags.outline import Outline, outline_of
from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.operators.backfill import BackfillOperator
from airflow_provider_replacewhere.planning.bounds import COLUMN_TYPES
from airflow_provider_replacewhere.planning.chunking import ON_CHUNK_FAILURE, ORDERS, UNITS

if TYPE_CHECKING:
    from airflow_provider_replacewhere.operators.definition import PathLike

TAG = "replacewhere-backfill"
"""By this tag the page finds the Dags that can backfill a table; it reads from their form which flows they know."""


def backfill_dag(
    pipeline: PathLike | Sequence[PathLike],
    dag_id: str,
    *,
    column: str | None = None,
    approval: bool | None = None,
    predicates: bool = False,
    max_active_chunks: int | None = None,
    flows: Sequence[str] = (),
    operator: Mapping[str, Any] | None = None,
    **dag: Any,
) -> DAG:
    """A Dag that is triggered by hand: a form, a plan, an approval, the backfill.

    The form asks for a flow of the pipeline, a range and how it is cut into chunks. The first task plans and writes
    nothing; its log and its result say what would be replaced, in which chunks, and who is writing there now. Where
    Airflow can ask people (3.1 and later), a person then approves or rejects it, unless the form says that none need
    be asked.

    :param pipeline: SQL text, or a path or several: files, folders, or patterns
    :param dag_id: the Dag's id
    :param column: the column that the form names beforehand
    :param approval: whether a person is asked before anything is written; None: where Airflow can
    :param predicates: whether the form takes predicates as text too. They are parsed and checked as ever, but may name
        any rows
    :param max_active_chunks: make each chunk a task, of which so many run at once; None: one task runs them all, one
        after another, in one Spark application
    :param flows: the flows in the form's list; by default those that the pipeline's SQL declares. Of Python files they
        have to be named, for they show only in Spark
    :param operator: arguments of the :class:`~..operators.backfill.BackfillOperator`
    :param dag: further arguments of the Dag; ``max_active_runs`` is 1 unless it is given, and it is not paused when it
        is new. Its tags get one more, by which the page finds it
    :raises DefinitionError: the pipeline declares no valid flows, or approval is wanted where there is none
    """
    file = calling_file()
    arguments = dict(operator or {})
    outline = outline_of(pipeline, [str(Path(file).parent)], arguments.get("time_zone", "UTC"))
    asking = _approval_operator()
    if approval and asking is None:
        raise DefinitionError(
            f"The Dag {dag_id} wants an approval, which this Airflow cannot ask for.",
            hint="It takes Airflow 3.1 and the provider `standard`; leave approval out to go without.",
        )
    if approval is False:
        asking = None
    params = form(list(flows) or _flows(outline), column, predicates=predicates, approval=asking is not None)
    dag["tags"] = [*dict.fromkeys((*(dag.get("tags") or ()), TAG))]
    # A form that starts nothing because its Dag is paused would only puzzle: nothing here runs by itself.
    given = {"catchup": False, "max_active_runs": 1, "is_paused_upon_creation": False, **dag}
    with DAG(dag_id, schedule=None, params=params, **given) as made:
        shared = {"pipeline": pipeline, "allow_predicates": predicates, **arguments}
        plan = BackfillOperator(task_id="plan", dry_run=True, **shared)
        first = _backfill(plan.task_id, shared, max_active_chunks)
        if asking is None:
            plan >> first
        else:
            approve = asking(
                task_id="approve",
                subject="Backfill of {{ params.flow_name or 'the pipeline' }}",
                body="{{ ti.xcom_pull(task_ids='plan')['plan'] }}",
            )
            plan >> approve >> first
    made.fileloc = file
    return made


def _backfill(plan: str, shared: Mapping[str, Any], max_active_chunks: int | None) -> Any:
    """The first task of those that recompute."""
    if max_active_chunks is None:
        return BackfillOperator(task_id="backfill", **shared)
    chunks = ListChunks(task_id="chunks", plan=plan)
    limited = {**shared, "max_active_tis_per_dagrun": max_active_chunks}
    BackfillOperator.partial(task_id="backfill", **limited).expand(part=chunks.output)
    return chunks


def form(flows: Sequence[str], column: str | None, *, predicates: bool, approval: bool) -> dict[str, Param]:
    """The params of a backfill Dag, as Airflow's form shows them."""
    nothing, text = ["null"], ["null", "string"]
    flow: dict[str, Any] = {"enum": list(flows)} if flows else {}
    only = flows[0] if len(flows) == 1 else None
    found = {
        "flow_name": Param(only, type="string" if flows else text, title="Flow", **flow),
        "column": Param(column, type=text, title="Column of the range"),
        "start": Param(None, type=text, title="First value", description="2026-01-31, 2026-01-31T06:00:00+00:00, 12"),
        "end": Param(None, type=text, title="First value behind the range"),
        "column_type": Param(None, type=text, enum=[None, *COLUMN_TYPES], title="Type of the range's values"),
        "equals": Param(
            None, type=[*nothing, "object"], title="Only rows with", description='Values by column: {"city": "Basel"}'
        ),
        "chunk": Param(None, type=text, enum=[None, *UNITS], title="In chunks, by"),
        "chunk_size": Param(1, type="integer", minimum=1, title="So many in a chunk"),
        "chunk_order": Param(ORDERS[0], type="string", enum=list(ORDERS), title="Which chunk comes first"),
        "on_chunk_failure": Param(
            ON_CHUNK_FAILURE[0], type="string", enum=list(ON_CHUNK_FAILURE), title="When a chunk fails"
        ),
        "only_stale": Param(False, type="boolean", title="Leave alone what is proven fresh"),
    }
    if predicates:
        found["overrides"] = Param(
            None,
            type=[*nothing, "array"],
            items={"type": "object"},
            title="Predicates instead of a range",
            description='[{"flow_name": "daily", "predicate_override": "day >= current_date()"}]',
        )
    if approval:
        found["ask"] = Param(True, type="boolean", title="Ask a person before anything is written")
    return found


def _flows(outline: Outline) -> list[str]:
    return [flow.name for flow in outline.flows] if outline.is_complete else []


def _approval_operator() -> Any:
    """The class of the task that asks; None where this Airflow has none."""
    try:
        from airflow_provider_replacewhere.dags.approval import ApproveBackfill
    except (ImportError, AirflowOptionalProviderFeatureException):  # on 3.0 the latter, where the provider is there
        return None
    return ApproveBackfill
