"""Run REPLACE WHERE flows for another range than their own, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.operators import summary
from airflow_provider_replacewhere.operators.asked import Asked
from airflow_provider_replacewhere.operators.backfill_request import FIELDS, only_part, read_backfill
from airflow_provider_replacewhere.operators.definition import Definition
from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator
from airflow_provider_replacewhere.text import shown

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_replacewhere.planning.report import JobOutcome


class BackfillOperator(ReplaceWhereOperator):
    """Recompute a range that a person names, with the flows of a pipeline.

    The range is given in one of three ways, as arguments or as params of the Dag run:

    - ``overrides``: a list of ``{"flow_name": …, "predicate_override": …}``. As in the original's API, the whole
      pipeline runs unless ``refresh_selection`` names tables: flows with an override use it, others what they declare.
    - typed bounds: ``column``, ``start``, ``end`` (the range is ``start <= column < end``) and ``equals``. Only the
      flow ``flow_name`` runs; a pipeline with one flow needs no name.
    - ``statement``: ``REFRESH STREAMING TABLE name [WHERE predicate | FULL] [SYNC | ASYNC]``, one or several. Only the
      tables that they name run. A task waits for its work, so ``ASYNC`` changes nothing.

    An override holds for this run alone. Without any of them the flows run with their own predicates; ``flow_name`` or
    ``refresh_selection`` says which.

    What the Dag author gives as an argument is fixed: a param of the same name with another value is refused. What the
    author leaves out is taken from the Dag run's conf, then from the Dag's params; null and empty text count as left
    out. Names that are not listed here are not looked at, so a Dag can have other params. What people type is data: it
    is parsed, checked, and written again as a predicate, never put into SQL as it stands. ``allow_full_refresh`` can be
    given by the Dag's author only.

    :param overrides: list of ``{flow_name, predicate_override}`` (templated)
    :param statement: one or several ``REFRESH`` statements (templated)
    :param flow_name: the flow that the bounds are for (templated)
    :param column: a column of the target (templated)
    :param start: the first value of the range (templated)
    :param end: the first value behind the range (templated)
    :param equals: by column of the target: a value, a list of values, or null (templated)
    :param column_type: ``date``, ``timestamp``, ``timestamp_ntz``, ``number`` or ``string``; by default as the values
        look (templated)
    :param chunk: cut each override into chunks, which run one after another in one application, each with a commit of
        its own: by ``day``, ``week``, ``month`` or ``year`` of the flow's time zone, or by so many ``values`` of a
        column of numbers; a later try goes on where the earlier one stopped (templated)
    :param chunk_size: how many of them make a chunk (templated)
    :param chunk_column: the column to cut along; by default the only one that is bounded on both sides (templated)
    :param chunk_order: whether the ``oldest`` or the ``newest`` chunk comes first (templated)
    :param on_chunk_failure: ``stop`` at the first chunk that fails, or ``go_on`` with the next (templated)
    :param part: only this chunk, as :class:`~..dags.listing.ListChunks` lists those of a plan of the same backfill. For
        tasks that are mapped over them: ``BackfillOperator.partial(…).expand(part=chunks.output)``
    :param allow_predicates: whether the run's params may bring ``overrides`` or a ``statement``
    :param only_stale: recompute only what the ledger does not prove fresh; by default the whole range is (templated)

    All others are those of :class:`ReplaceWhereOperator`, of which ``refresh_selection``, ``full_refresh`` and
    ``dry_run`` can be params too.
    """

    template_fields: Sequence[str] = (
        *ReplaceWhereOperator.template_fields,
        "overrides",
        "statement",
        "flow_name",
        "column",
        "start",
        "end",
        "equals",
        "column_type",
        "only_stale",
        "chunk",
        "chunk_size",
        "chunk_column",
        "chunk_order",
        "on_chunk_failure",
    )
    ui_color = "#f2e6d0"

    def __init__(
        self,
        *,
        overrides: Sequence[Mapping[str, str]] | str | None = None,
        statement: str | None = None,
        flow_name: str | None = None,
        column: str | None = None,
        start: Any = None,
        end: Any = None,
        equals: Mapping[str, Any] | str | None = None,
        column_type: str | None = None,
        only_stale: bool | str = False,
        chunk: str | None = None,
        chunk_size: int | str | None = None,
        chunk_column: str | None = None,
        chunk_order: str | None = None,
        on_chunk_failure: str | None = None,
        part: Mapping[str, Any] | None = None,
        allow_predicates: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.overrides = overrides
        self.statement = statement
        self.flow_name = flow_name
        self.column = column
        self.start = start
        self.end = end
        self.equals = equals
        self.column_type = column_type
        self.only_stale = only_stale
        self.chunk = chunk
        self.chunk_size = chunk_size
        self.chunk_column = chunk_column
        self.chunk_order = chunk_order
        self.on_chunk_failure = on_chunk_failure
        self.part = part
        self.allow_predicates = allow_predicates

    def _read_asked(self, definition: Definition, context: Context) -> Asked:
        fixed = {name: getattr(self, attribute) for name, attribute in FIELDS.items()}
        values = _with_params(fixed, context)
        if not self.allow_predicates:
            _refuse_predicates({name: value for name, value in values.items() if _is_left_out(fixed[name])})
        asked = read_backfill(values, definition)
        return asked if self.part is None else only_part(asked, self.part, _backfill_id(context))

    def _tell(self, context: Context, outcome: JobOutcome) -> None:
        super()._tell(context, outcome)
        if outcome.reports and outcome.reports[0].dry_run:
            context["ti"].xcom_push(key="chunks", value=summary.parts(outcome))


def _backfill_id(context: Context) -> str:
    """What the mapped tasks of one backfill have in common."""
    ti: Any = context["ti"]
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}"


def _with_params(fixed: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The arguments, completed by the run's params.

    The conf is read beside the params: Airflow merges it into them only if so configured, and not for every run that
    was there before its conf.
    """
    dag_run: Any = context.get("dag_run")
    conf = getattr(dag_run, "conf", None) or {}
    params: Any = context.get("params") or {}
    return {name: _one(name, value, conf.get(name), params.get(name)) for name, value in fixed.items()}


def _refuse_predicates(given: Mapping[str, Any]) -> None:
    found = [name for name in ("overrides", "statement") if not _is_left_out(given.get(name))]
    if found:
        raise RequestError(
            f"{' and '.join(found)} came with the Dag run, but this Dag takes no predicates as text.",
            hint="Give the range by column, start, end and equals.",
        )


def _one(name: str, argument: Any, conf: Any, param: Any) -> Any:
    if _is_left_out(argument):
        return param if _is_left_out(conf) else conf
    if not _is_left_out(conf) and str(conf) != str(argument):
        raise RequestError(
            f"{name} was given as {shown(conf)}, but this Dag fixes it to {shown(argument)}.",
            hint=f"Trigger the Dag without {name}, or let its author leave that argument to the params.",
        )
    return argument


def _is_left_out(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | tuple | dict) and not value)
