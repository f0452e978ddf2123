"""Asking Catalyst which scans of which sources a filter on the query's result reaches, and as which condition.

The query is filtered by ``column = v`` and optimised, with an expression for ``v`` of whose value the optimiser knows
nothing: no row is read, nothing is folded, and what the plan then shows holds for every ``v``. See
:mod:`..planning.lineage` for what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from airflow_provider_replacewhere.planning.lineage import CHANGED, MOST_HOPS, PARTNER, Arrival, Partner
from airflow_provider_replacewhere.predicates.domains import Domain
from airflow_provider_replacewhere.spark.jvm import class_name, seq, subexpressions, to_seq, walk
from airflow_provider_replacewhere.spark.schema import sql_type
from airflow_provider_replacewhere.spark.sources import Source, source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What would hide a scan, double one, or look at the value of ``v`` or at the table's files.
_WHILE_ASKING = {
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.databricks.delta.optimizeMetadataQuery.enabled": "false",
    "spark.databricks.delta.stats.skipping": "false",
}
_EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_LOOKS_AT_ROWS = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"

# Of which values may be equal and not the same; maps are compared without their order.
_BLURRED_TYPES = re.compile(r"\b(FLOAT|DOUBLE|COLLATE|MAP)\b")

# A column of a row that no operator has: were it ever evaluated, it would fail.
_UNKNOWN_ORDINAL = 1_000_001

MOST_COLUMNS = 24
"""So many of the target's columns are tried."""


Answer: TypeAlias = dict[str, dict[str, tuple[Arrival, ...]]]


def ask(rows: DataFrame, columns: Iterable[str], sources: Iterable[Source]) -> Answer:
    """By source and column, how a filter on the column reaches each scan of the source.

    :param rows: the query, in the types of the target; further columns do no harm
    :param columns: those to try; one whose type has no plain equality is passed over
    :param sources: what the query reads, as :meth:`Sources.found` tells it
    """
    names = {(source.path, source.version): source.name for source in sources}
    analysed = rows._jdf.queryExecution().analyzed()
    found: Answer = {}
    reader = _Reader(rows.sparkSession, names)
    with asking(rows.sparkSession):
        for attribute in _askable(rows, columns)[:MOST_COLUMNS]:
            try:
                plan = _optimised(rows.sparkSession, analysed, attribute)
                for source, arrivals in reader.arrivals(plan).items():
                    found.setdefault(source, {})[str(attribute.name())] = arrivals
            except (Py4JError, PySparkException):
                continue  # a rule that wanted to know the value: nothing is known of this column
    return found


@contextmanager
def asking(session: SparkSession) -> Iterator[None]:
    """Let the optimiser show every scan, and look neither at rows nor at the files of tables."""
    excluded = ",".join(filter(None, (session.conf.get(_EXCLUDED_RULES, None), _LOOKS_AT_ROWS)))
    settings = {**_WHILE_ASKING, _EXCLUDED_RULES: excluded}
    before = {key: session.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)


def _askable(rows: DataFrame, columns: Iterable[str]) -> list[Any]:
    wanted = {name.lower(): number for number, name in reversed(list(enumerate(columns)))}
    domains = {f.name: Domain.of(sql_type(rows.sparkSession, f.dataType)) for f in rows.schema}
    attributes = [
        attribute
        for attribute in seq(rows._jdf.queryExecution().analyzed().output())
        # NaN and -0.0 make an equality of DOUBLEs something of its own.
        if attribute.name().lower() in wanted
        and domains[attribute.name()].is_ordered
        and domains[attribute.name()].name not in ("double", "binary")
    ]
    return sorted(attributes, key=lambda attribute: wanted[attribute.name().lower()])


def _optimised(session: SparkSession, plan: Any, attribute: Any) -> Any:
    """The query filtered by ``attribute = v``, optimised."""
    jvm = session._jvm
    assert jvm is not None
    catalyst = jvm.org.apache.spark.sql.catalyst
    unknown = catalyst.expressions.BoundReference(_UNKNOWN_ORDINAL, attribute.dataType(), False)
    filtered = catalyst.plans.logical.Filter(catalyst.expressions.EqualTo(attribute, unknown), plan)
    return session._jsparkSession.sessionState().optimizer().execute(filtered)


# -- reading the optimised plan ----------------------------------------------------------------------------------------

Step = tuple[Any, int]
"""A node above a scan, and by which of its children the scan is reached."""


@dataclass(frozen=True)
class _Scan:
    """One occurrence of a source in the plan.

    :param path: from the root down to the scan; it begins anew inside a subquery
    :param value: the expression that the filter requires to be ``v``; None where it does not arrive
    :param where: the other conditions that every row meets
    :param used: the columns that the query reads
    """

    leaf: Any
    source: str
    path: tuple[Step, ...]
    value: Any = None
    where: tuple[Any, ...] = ()
    used: tuple[str, ...] = ()


def _leaves(node: Any, path: tuple[Step, ...]) -> Iterator[tuple[Any, tuple[Step, ...]]]:
    children = seq(node.children())
    if not children:
        yield node, path
    for number, child in enumerate(children):
        yield from _leaves(child, (*path, (node, number)))
    for subquery in seq(node.subqueries()):
        yield from _leaves(subquery, ())


def _scan(leaf: Any, path: tuple[Step, ...], source: str) -> _Scan:
    conditions: list[Any] = []
    needed: list[Any] | None = None
    for node, _ in reversed(path):
        match class_name(node):
            case "Filter":
                conditions += conjuncts(node.condition())
            case "Project" if needed is None:
                needed = [*seq(node.projectList()), *conditions]
            case "Project" | "SubqueryAlias":
                pass
            case _:
                break
    value = None
    where = []
    for condition in conditions:
        if not condition.references().subsetOf(leaf.outputSet()):
            continue
        required = _required(condition)
        if required is not None and value is None:
            value = required
        elif not _mentions_unknown(condition) and condition.deterministic() and not _has_subquery(condition):
            where.append(condition)
    read = {a.exprId().id() for e in needed for a in seq(e.references().toSeq())} if needed is not None else None
    used = tuple(str(a.name()) for a in seq(leaf.output()) if read is None or a.exprId().id() in read)
    return _Scan(leaf, source, path, value, tuple(where), used)


def _required(condition: Any) -> Any:
    """What a condition requires to be ``v``, or None."""
    if class_name(condition) not in ("EqualTo", "EqualNullSafe"):
        return None
    left, right = condition.left(), condition.right()
    for value, unknown in ((left, right), (right, left)):
        if class_name(unknown) == "BoundReference" and not _mentions_unknown(value):
            return value if value.deterministic() and not _has_subquery(value) else None
    return None


def _mentions_unknown(expression: Any) -> bool:
    return any(class_name(part) == "BoundReference" for part in subexpressions(expression))


def _has_subquery(expression: Any) -> bool:
    return any("Subquery" in class_name(part) or class_name(part) == "Exists" for part in subexpressions(expression))


def conjuncts(condition: Any) -> list[Any]:
    """The conditions that a condition joins by AND."""
    if class_name(condition) == "And":
        return [*conjuncts(condition.left()), *conjuncts(condition.right())]
    return [condition]


# -- through a join ----------------------------------------------------------------------------------------------------

# Sides of a join on which a changed row changes only those of the join's rows that it matches.
_MATCHED_SIDES = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (1,),
    "LeftSemi": (1,),
    "LeftAnti": (1,),
    "ExistenceJoin": (1,),
    "RightOuter": (0,),
}
# Sides each of whose rows stands, with its columns, in every row of the join that is made from it.
_KEPT_SIDES = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (0,),
    "LeftSemi": (0,),
    "LeftAnti": (0,),
    "ExistenceJoin": (0,),
    "RightOuter": (1,),
}


@dataclass
class _Columns:
    """What the columns of a node are made of, by the ids of its attributes: expressions over one scan below it."""

    session: SparkSession
    made_of: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, session: SparkSession, leaf: Any) -> _Columns:
        return cls(session, {attribute.exprId().id(): attribute for attribute in seq(leaf.output())})

    def through(self, node: Any, child: int, *, as_partner: bool) -> bool:
        """Climb to the next node; False where the scan's rows cannot be told apart any more above it.

        :param as_partner: whether it is enough that every row above is made from *some* row of the scan
        """
        match class_name(node):
            case "Filter" | "SubqueryAlias":
                return True
            case "Project":
                return self._keep(seq(node.projectList()), lambda _: True)
            case "Aggregate":
                keys = seq(node.groupingExpressions())
                return self._keep(
                    seq(node.aggregateExpressions()),
                    lambda made: _is_told_apart(made) and any(made.semanticEquals(key) for key in keys),
                )
            case "Window" if as_partner:
                return True
            case "Join":
                return child in _KEPT_SIDES.get(_join_type(node), ())
        return False

    def _keep(self, columns: Sequence[Any], wanted: Any) -> bool:
        kept = {}
        for column in columns:
            inner = column.child() if class_name(column) == "Alias" else column
            expression = self.replaced(inner) if wanted(inner) else None
            if expression is not None:
                kept[column.exprId().id()] = expression
        self.made_of = kept
        return bool(kept)

    def replaced(self, expression: Any) -> Any:
        """The expression over the scan's own columns, or None where it needs others."""
        return _replaced(self.session, expression, self.made_of)


@dataclass(frozen=True)
class _Meeting:
    """A join above a scan.

    :param depth: where in the scan's path it stands
    :param columns: what the columns below it, on the scan's side, are made of
    :param others: the scans on its other side
    """

    join: Any
    depth: int
    columns: _Columns
    others: Sequence[_Scan]


@dataclass
class _Reader:
    """Reads what arrives where from optimised plans of one query."""

    session: SparkSession
    names: Mapping[tuple[str | None, int | None], str]
    texts: dict[tuple[Any, ...], str | None] = field(default_factory=dict)

    def arrivals(self, plan: Any) -> dict[str, tuple[Arrival, ...]]:
        """By source, how the filter reaches its scans; sources that it does not reach everywhere are left out."""
        scans = []
        for leaf, path in _leaves(plan, ()):
            source = source_of(leaf)
            if source is None:
                continue
            if (source.path, source.version) not in self.names:
                return {}  # it reads what nobody has found: nothing is known of this plan
            scans.append(_scan(leaf, path, self.names[source.path, source.version]))
        found: dict[str, list[Arrival | None]] = {}
        for scan in scans:
            found.setdefault(scan.source, []).append(self._arrival(scan, scans))
        return {
            source: tuple(dict.fromkeys(arrival for arrival in arrivals if arrival is not None))
            for source, arrivals in found.items()
            if None not in arrivals
        }

    def _arrival(self, scan: _Scan, scans: Sequence[_Scan], beside: tuple[_Scan, ...] = ()) -> Arrival | None:
        """How the filter reaches a scan.

        :param beside: the scans that the filter is to reach through this one, which it cannot come through
        """
        if any(_blurs(node) for node, _ in scan.path):
            return None
        if scan.value is not None:
            value = self._text(scan.value, scan)
            return None if value is None else Arrival(value, self._all(scan.where, scan), scan.used)
        meetings = list(self._meetings(scan, scans))
        # Scans that the filter itself reaches come first, at whichever join: each table in between is read as well.
        for is_reached in (True, False):
            for meeting in meetings:
                for other in meeting.others:
                    if (other.value is not None) is is_reached and not any(other is one for one in beside):
                        arrival = self._through(scan, meeting, other, scans, beside)
                        if arrival is not None:
                            return arrival
        return None

    def _meetings(self, scan: _Scan, scans: Sequence[_Scan]) -> Iterator[_Meeting]:
        """The joins, from the scan upwards, at which only those rows matter that its own rows meet."""
        mine = _Columns.of(self.session, scan.leaf)
        for depth in reversed(range(len(scan.path))):
            node, child = scan.path[depth]
            if class_name(node) == "Join" and child in _MATCHED_SIDES.get(_join_type(node), ()):
                others = [other for other in scans if _is_other_side(other, node, depth, child)]
                yield _Meeting(node, depth, replace(mine), others)
            if not mine.through(node, child, as_partner=False):
                return

    def _through(
        self,
        scan: _Scan,
        meeting: _Meeting,
        other: _Scan,
        scans: Sequence[_Scan],
        beside: tuple[_Scan, ...],
    ) -> Arrival | None:
        """How the filter that reaches one side of a join bounds the rows of the other that matter.

        Rows of the scan that meet none of the other's rows matter to nothing, so those that changed matter to no more
        than the other's rows that they meet: what those matter to is the other's own arrival.
        """
        if other.value is None and len(beside) + 1 >= MOST_HOPS:
            return None
        join, mine, theirs = meeting.join, meeting.columns, _Columns.of(self.session, other.leaf)
        for node, child in reversed(other.path[meeting.depth + 1 :]):
            if not theirs.through(node, child, as_partner=True):
                return None
        on = []
        for conjunct in _conditions(join):
            if _mentions_unknown(conjunct) or _has_subquery(conjunct) or not conjunct.deterministic():
                continue
            carried = None if other.value is None else _same_value(conjunct, mine, theirs, other.value)
            if carried is not None and (value := self._text(carried, scan)) is not None:
                return Arrival(value, self._all(scan.where, scan), scan.used)
            both = _replaced(self.session, conjunct, {**mine.made_of, **theirs.made_of})
            if both is not None and _touches(both, scan.leaf) and _touches(both, other.leaf):
                on.append(both)
        sql = self._all(on, scan, other)
        arrival = self._arrival(other, scans, (*beside, scan)) if sql else None
        if arrival is None:
            return None
        partner = Partner(other.source, arrival.where, sql, arrival.used, arrival.partner)
        return Arrival(arrival.value, self._all(scan.where, scan), scan.used, partner)

    def _all(self, conditions: Iterable[Any], *scans: _Scan) -> tuple[str, ...]:
        """Those of some conditions that can be written down: fewer conditions let through more rows."""
        texts = (self._text(condition, *scans) for condition in conditions)
        return tuple(dict.fromkeys(text for text in texts if text is not None))

    def _text(self, expression: Any, *scans: _Scan) -> str | None:
        """An expression over one scan, or over two, as SQL; None where Spark would not read it back as the same."""
        aliases = [CHANGED, PARTNER] if len(scans) > 1 else [None]
        by_id = {id_: alias for scan, alias in zip(scans, aliases, strict=True) for id_ in _ids(scan.leaf)}
        text = str(_named(self.session, expression, by_id).sql())
        # By what it is, too: the zone of a cast stands in no text.
        key = (text, expression.semanticHash(), *by_id)
        if key not in self.texts:
            self.texts[key] = text if self._is_read_back(text, expression, scans) else None
        return self.texts[key]

    def _is_read_back(self, text: str, expression: Any, scans: Sequence[_Scan]) -> bool:
        frames = [_frame(self.session, scan.leaf) for scan in scans]
        try:
            over = frames[0] if len(frames) == 1 else frames[0].alias(CHANGED).crossJoin(frames[1].alias(PARTNER))
            execution = over.selectExpr(f"{text} AS `value`")._jdf.queryExecution()
            return _selects(execution.analyzed(), expression) or _selects(execution.optimizedPlan(), expression)
        except (PySparkException, Py4JError):
            return False


def _is_told_apart(expression: Any) -> bool:
    """Whether values that Spark calls equal are the same: not so for 0.0 and -0.0, nor where letter case is ignored.

    Of those that a group or a partition holds, one stands for all, and what is made of it is not what the others give.
    """
    return not _BLURRED_TYPES.search(str(expression.dataType().sql()))


def _blurs(node: Any) -> bool:
    """Whether Spark let the filter pass a group, partition or join whose keys may be equal and not the same.

    Spark does so for a filter on what is made of such a key (measured on 4.2.0: ``CAST(d AS STRING)`` passes
    ``GROUP BY d``), which then says of one row what holds for another, and so does all that follows from it below.
    """
    return not all(_is_told_apart(key) for key in _keys(node)) and any(
        _mentions_unknown(conjunct) and not all(_is_told_apart(part) for part in subexpressions(conjunct))
        for below in walk(node)
        for conjunct in _conditions(below)
    )


def _conditions(node: Any) -> list[Any]:
    match class_name(node):
        case "Filter":
            return conjuncts(node.condition())
        case "Join" if node.condition().isDefined():
            return conjuncts(node.condition().get())
    return []


def _keys(node: Any) -> list[Any]:
    """What a node compares rows by."""
    match class_name(node):
        case "Aggregate":
            return seq(node.groupingExpressions())
        case "Window" | "WindowGroupLimit":
            return seq(node.partitionSpec())
        case "Join":
            return [
                side
                for conjunct in _conditions(node)
                if class_name(conjunct) in ("EqualTo", "EqualNullSafe")
                for side in (conjunct.left(), conjunct.right())
            ]
    return []


def _selects(plan: Any, expression: Any) -> bool:
    if class_name(plan) != "Project":
        return False
    (column,) = seq(plan.projectList())
    return bool((column.child() if class_name(column) == "Alias" else column).semanticEquals(expression))


def _is_other_side(other: _Scan, join: Any, depth: int, child: int) -> bool:
    if len(other.path) <= depth:
        return False
    node, side = other.path[depth]
    return side != child and bool(node.fastEquals(join))


def _same_value(conjunct: Any, mine: _Columns, theirs: _Columns, value: Any) -> Any:
    """What on this side equals the other's ``value`` wherever the two sides meet, or None."""
    if class_name(conjunct) not in ("EqualTo", "EqualNullSafe"):
        return None
    left, right = conjunct.left(), conjunct.right()
    for own, foreign in ((left, right), (right, left)):
        one, other = mine.replaced(own), theirs.replaced(foreign)
        if one is not None and other is not None and other.semanticEquals(value):
            return one
    return None


def _touches(expression: Any, leaf: Any) -> bool:
    ids = {attribute.exprId().id() for attribute in seq(leaf.output())}
    return any(attribute.exprId().id() in ids for attribute in seq(expression.references().toSeq()))


def _join_type(node: Any) -> str:
    return class_name(node.joinType()).removesuffix("$")


def _replaced(session: SparkSession, expression: Any, by_id: Mapping[int, Any]) -> Any:
    """The expression with its attributes replaced; None where one of them is not among those given."""
    if class_name(expression) == "AttributeReference":
        return by_id.get(expression.exprId().id())
    children = seq(expression.children())
    if not children:
        return expression
    replaced = [_replaced(session, child, by_id) for child in children]
    return None if None in replaced else expression.withNewChildren(to_seq(session, replaced))


def _named(session: SparkSession, expression: Any, aliases: Mapping[int, str | None]) -> Any:
    """The expression with its columns called by the aliases of their scans, whatever the query calls them."""
    if class_name(expression) == "AttributeReference":
        alias = aliases.get(expression.exprId().id())
        return expression.withQualifier(to_seq(session, [] if alias is None else [alias]))
    children = seq(expression.children())
    if not children:
        return expression
    return expression.withNewChildren(to_seq(session, [_named(session, child, aliases) for child in children]))


def _ids(leaf: Any) -> list[int]:
    return [attribute.exprId().id() for attribute in seq(leaf.output())]


def _frame(session: SparkSession, leaf: Any) -> DataFrame:
    jvm = session._jvm
    assert jvm is not None
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, leaf), session)
