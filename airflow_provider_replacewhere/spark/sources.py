"""What a flow reads: every source found by name, pinned at one version, and told apart from what has no versions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException

from airflow_provider_replacewhere.errors import DefinitionError, SourceError
from airflow_provider_replacewhere.flows.model import TableName, View
from airflow_provider_replacewhere.spark.directory import DirectoryCatalog
from airflow_provider_replacewhere.spark.errors import in_short
from airflow_provider_replacewhere.spark.jvm import class_name, option, parse_plan, seq, walk
from airflow_provider_replacewhere.spark.relations import (
    Edit,
    Relation,
    apply,
    bare_time_words,
    qualified_columns,
    relations,
)
from airflow_provider_replacewhere.spark.session import refuse_moving_literals, running_clocks, set_safely
from airflow_provider_replacewhere.text import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Leaves of a plan that hold no stored rows, so that nothing can change behind them.
CONSTANT_LEAVES = frozenset({"OneRowRelation", "LocalRelation", "Range", "CTERelationRef", "UnionLoopRef"})


@dataclass(frozen=True)
class Source:
    """A table that a flow reads.

    :param name: the name by which reports call it
    :param version: the Delta version it is pinned at; None where it has no versions or could not be pinned
    :param table_id: Delta's id, which a table that is dropped and made again does not keep
    """

    name: str
    version: int | None = None
    path: str | None = None
    table_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"table_name": self.name, "version": self.version, "path": self.path, "table_id": self.table_id}


class Sources:
    """Reads on behalf of one flow, in that flow's own session.

    A table is pinned when it is first read: ``VERSION AS OF`` behind its name where Spark's catalog knows the name,
    a temporary view of the same name where it does not. So the user's text stays as it is, and one run sees one
    version of each table however often the query names it.

    :param views: the pipeline's own views, by :attr:`TableName.key`
    :param before_read: called with the name of every table before it is looked up; runs the flow that fills it
    :param call: calls a view's Python function, with this object as what its ``spark`` reads from
    :param prepare: fills the pipeline's variables into a query's text
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        directory: DirectoryCatalog | None,
        views: Mapping[tuple[str, ...], View],
        before_read: Callable[[TableName, Span | None], None],
        call: Callable[[Callable[[], Any], Sources], DataFrame],
        prepare: Callable[[Span], Span] = lambda query: query,
    ) -> None:
        self.session = session
        self._directory = directory
        self._views = views
        self._before_read = before_read
        self._call = call
        self._prepare = prepare
        self._found: dict[str, Source] = {}
        self._stand_ins: dict[tuple[str, ...], str] = {}
        self._taken: dict[str, tuple[str, ...]] = {}

    def sql(self, query: Span, **arguments: Any) -> DataFrame:
        """The DataFrame of a query's text, all its tables pinned.

        :raises DefinitionError: Spark cannot parse or resolve the text
        :raises SourceError: a table that it names does not exist
        """
        query = self._prepare(query)
        text = query.text
        refuse_moving_literals(query)
        try:
            named = relations(self.session, text)
        except PySparkException as error:
            raise _unparsable(error, query) from error
        # No stand-in may take the name of a CTE or of another table: it would be read in its place.
        taken = _cte_names(self.session, text) | {r.name.parts[0].lower() for r in named if len(r.name.parts) == 1}
        edits = [edit for relation in named for edit in self._edits(relation, query, taken)]
        return self._analysed(apply(text, edits), query, arguments)

    def table(self, name: TableName, span: Span | None = None) -> DataFrame:
        """The pinned DataFrame of one table or view."""
        sql = f"SELECT * FROM {name.to_sql()}"
        pinned = [e for r in relations(self.session, sql) for e in self._edits(r, span or Span.of(sql, "table"), set())]
        return self.session.sql(apply(sql, pinned))

    def found(self, query: DataFrame) -> tuple[Source, ...]:
        """All sources of an analysed query, those too that were reached by other ways than through this object.

        What is not held at one version has none in the answer: it may move before the write.
        """
        sources = {(source.path or source.name, source.version): source for source in self._found.values()}
        ours = {source.path: source for source in self._found.values()}
        for leaf in _leaves(query._jdf.queryExecution().analyzed()):
            source = source_of(leaf)
            if source is None:
                continue
            if not _is_pinned(leaf):
                source = replace(source, version=None)
            elif source.path in ours and source.version != ours[source.path].version:
                # The query's own VERSION AS OF beside the version that this run reads.
                source = replace(source, name=f"{ours[source.path].name} VERSION AS OF {source.version}")
            sources.setdefault((source.path or source.name, source.version), source)
        return _by_unique_names(sources.values())

    # -- one table name ------------------------------------------------------------------------------------------------

    def _edits(self, relation: Relation, query: Span, ctes: set[str]) -> list[Edit]:
        name, place = relation.name, query.slice(relation.start, relation.end)
        if relation.streaming:
            raise DefinitionError(
                "A REPLACE WHERE flow reads whole tables, not streams.", hint=f"Write FROM {name}.", span=place
            )
        if name.key in self._views:
            return self._stand_in_edits(relation, query, ctes, lambda: self._view(self._views[name.key]))
        if len(name.parts) == 1 and self._is_temporary_view(name):
            return []
        self._before_read(name, place)
        if not name.is_path and self._directory is not None:
            folder = self._directory.find(self.session, name)
            if folder is not None:
                if relation.pinned:
                    path = TableName(("delta", folder)).to_sql()
                    return [Edit(relation.start, relation.end, path), *self._alias_edits(relation, query)]
                return self._stand_in_edits(relation, query, ctes, lambda: self._pinned_folder(folder))
        return self._catalog_edits(relation, query, ctes, place)

    def _catalog_edits(self, relation: Relation, query: Span, ctes: set[str], place: Span) -> list[Edit]:
        """A table of Spark's own catalog, or a path: its version is written behind its name."""
        other = self._taken.get(relation.name.parts[0].lower(), relation.name.key)
        if len(relation.name.parts) == 1 and other != relation.name.key:
            raise DefinitionError(
                f"{relation.name} is another table than {'.'.join(other)}, which this flow reads too.",
                hint="Name it with its schema, so that it is clear which of the two is meant.",
                span=place,
            )
        if relation.pinned:
            return []
        plan = self._look_up(relation.name, place)
        view = next((node for node in walk(plan) if class_name(node) == "View" and not node.isTempView()), None)
        if view is not None:
            return self._stand_in_edits(relation, query, ctes, lambda: self._stored_view(view))
        leaf = next((leaf for leaf in _leaves(plan) if source_of(leaf) is not None), None)
        source = source_of(leaf) if leaf is not None else None
        if source is None or source.version is None or _is_pinned(leaf):
            return []
        version = f" VERSION AS OF {self._remember(source).version}"
        if re.search(r"\btable\s+$", query.text[: relation.start], re.IGNORECASE):
            # TABLE name takes no version behind it.
            pinned = f"SELECT * FROM {relation.name.to_sql()}{version}"
            return self._stand_in_edits(relation, query, ctes, lambda: self.session.sql(pinned))
        return [Edit(relation.end, relation.end, version)]

    def _look_up(self, name: TableName, place: Span) -> Any:
        try:
            return self.session.sql(f"SELECT * FROM {name.to_sql()}")._jdf.queryExecution().analyzed()
        except AnalysisException as error:
            root = f" and not a Delta folder below {self._directory.root}" if self._directory else ""
            raise SourceError(
                f"The query reads {name}, which is not a table of Spark's catalog{root}: {in_short(error)}",
                hint="Check the name, and that the table exists before this flow runs.",
                span=place,
            ) from error

    def _remember(self, source: Source) -> Source:
        """The source at the version at which this flow already reads it, if it does."""
        return self._found.setdefault(source.path or source.name, source)

    # -- stand-ins: temporary views in the flow's own session ----------------------------------------------------------

    def _stand_in_edits(
        self, relation: Relation, query: Span, ctes: set[str], make: Callable[[], DataFrame]
    ) -> list[Edit]:
        name = relation.name
        view = self._stand_ins.get(name.key)
        if view is None or (len(name.parts) > 1 and view.lower() in ctes):
            view = self._free_name(name, ctes)
            self._stand_ins[name.key] = view
            try:
                make().createOrReplaceTempView(TableName((view,)).to_sql())
            except BaseException:
                del self._stand_ins[name.key]
                raise
        if len(name.parts) == 1 and view.lower() == name.parts[0].lower():
            return []
        edits = [Edit(relation.start, relation.end, TableName((view,)).to_sql())]
        if view.lower() == name.parts[-1].lower():
            return [*edits, *qualified_columns(self.session, query.text, name)]
        return [*edits, *self._alias_edits(relation, query)]

    def _alias_edits(self, relation: Relation, query: Span) -> list[Edit]:
        """Keeps columns that are qualified by the table's own name resolvable once it is called otherwise."""
        columns = qualified_columns(self.session, query.text, relation.name)
        if relation.aliased:
            return columns
        alias = f" AS {TableName(relation.name.parts[-1:]).to_sql()}"
        return [Edit(relation.alias_at, relation.alias_at, alias), *columns]

    def _free_name(self, name: TableName, ctes: set[str]) -> str:
        """The table's own last name, unless another table of the query, a CTE or a caller's view goes by it."""
        candidate, number = name.parts[-1], 1
        while (
            self._taken.get(candidate.lower(), name.key) != name.key
            or (len(name.parts) > 1 and candidate.lower() in ctes)
            or (len(name.parts) > 1 and self._is_temporary_view(TableName((candidate,))))
        ):
            number += 1
            candidate = f"{name.parts[-1]}__{number}"
        self._taken[candidate.lower()] = name.key
        return candidate

    def _pinned_folder(self, folder: str) -> DataFrame:
        assert self._directory is not None
        name = folder[len(self._directory.root.rstrip("/")) + 1 :].replace("/", ".")
        latest = self.session.read.format("delta").load(folder)
        (leaf,) = _leaves(latest._jdf.queryExecution().analyzed())
        source = source_of(leaf)
        assert source is not None
        kept = self._remember(replace(source, name=name))
        return self.session.read.format("delta").option("versionAsOf", str(kept.version)).load(folder)

    def _view(self, view: View) -> DataFrame:
        # The session is this flow's own: a view's settings hold for the flows that read it.
        for key, value in view.spark_conf.items():
            set_safely(self.session, key, value)
        if view.function is not None:
            return self._call(view.function, self)
        assert view.query is not None
        return self.sql(view.query)

    def _stored_view(self, view: Any) -> DataFrame:
        """A view of the catalog, opened up so that the tables below it are pinned too."""
        catalog, *namespace = seq(view.desc().viewCatalogAndNamespace())
        here = self.session.catalog.currentCatalog(), self.session.catalog.currentDatabase()
        try:
            # A view's own names count from the schema in which it was made.
            self._use(catalog, TableName(tuple(namespace)).to_sql())
            name = view.desc().identifier().unquotedString()
            frame = self.sql(Span.of(option(view.desc().viewText()), f"view {name}"))
        finally:
            self._use(here[0], TableName((here[1],)).to_sql())
        # The view keeps the columns that it was made with, under the names that it gives them.
        kept = seq(view.desc().viewQueryColumnNames()) or frame.columns
        named = [attribute.name() for attribute in seq(view.output())]
        return frame.select(*(frame[_quoted(old)].alias(new) for old, new in zip(kept, named, strict=True)))

    def _use(self, catalog: str, namespace: str) -> None:
        self.session.catalog.setCurrentCatalog(catalog)
        self.session.sql(f"USE {namespace}")

    def _is_temporary_view(self, name: TableName) -> bool:
        """Whether the caller's session has a temporary view of that name: stand-ins are none of the caller's."""
        catalog = self.session._jsparkSession.sessionState().catalog()
        return bool(catalog.getTempView(name.parts[0]).isDefined()) and name.parts[0].lower() not in self._taken

    # -- analysis ------------------------------------------------------------------------------------------------------

    def _analysed(self, text: str, query: Span, arguments: Mapping[str, Any]) -> DataFrame:
        try:
            frame = self.session.sql(text, **arguments)
            if running_clocks(frame):
                # Only now: a column may well be called current_date, and then the word is no clock.
                frame = self.session.sql(apply(text, bare_time_words(self.session, text)), **arguments)
        except PySparkException as error:
            raise _unresolvable(error, query) from error
        return frame


def pinned(session: SparkSession, source: Source) -> DataFrame:
    """The rows of a source at the version that it is read at."""
    assert source.path is not None
    return session.read.format("delta").option("versionAsOf", str(source.version)).load(source.path)


def _by_unique_names(sources: Iterable[Source]) -> tuple[Source, ...]:
    """The sources by name; where two have one name, each is told by its place."""
    found = list(sources)
    names = Counter(source.name for source in found)
    unique = [
        # Not by its version, which is what a next run compares.
        replace(s, name=f"{s.name} ({s.path or 'no path'}{', not pinned' if s.version is None else ''})")
        if names[s.name] > 1
        else s
        for s in found
    ]
    return tuple(sorted(unique, key=lambda source: source.name))


def _quoted(name: str) -> str:
    return TableName((name,)).to_sql()


def _leaves(plan: Any) -> list[Any]:
    return [node for node in walk(plan) if not seq(node.children())]


def source_of(leaf: Any) -> Source | None:
    """What a leaf of an analysed plan reads, or None where it reads nothing stored."""
    kind = class_name(leaf)
    if kind in CONSTANT_LEAVES:
        return None
    if kind != "LogicalRelation":
        # Without the ids of expressions, which differ with every run.
        return Source(re.sub(r"#\d+L?", "", _first_line(leaf.toString()))[:80])
    table = option(leaf.catalogTable())
    name = str(table.identifier().unquotedString()).removeprefix("spark_catalog.") if table is not None else None
    location = _location(leaf)
    if location is None:
        return Source(name or _first_line(leaf.toString())[:80])
    if not _is_delta(location):
        paths = ", ".join(str(p.toString()) for p in seq(location.rootPaths()))
        return Source(name or paths, None, paths)
    path = str(location.path().toString())
    return Source(name or f"delta.`{path}`", int(location.version()), path, str(location.metadata().id()))


def _is_pinned(leaf: Any) -> bool:
    location = _location(leaf) if class_name(leaf) == "LogicalRelation" else None
    return location is not None and _is_delta(location) and bool(location.isTimeTravelQuery())


def _location(leaf: Any) -> Any:
    relation = leaf.relation()
    return relation.location() if any(m.getName() == "location" for m in relation.getClass().getMethods()) else None


def _is_delta(location: Any) -> bool:
    return str(location.getClass().getName()).startswith("org.apache.spark.sql.delta.")


def _cte_names(session: SparkSession, text: str) -> set[str]:
    return {
        str(cte._1()).lower()
        for node in walk(parse_plan(session, text))
        if class_name(node) == "UnresolvedWith"
        for cte in seq(node.cteRelations())
    }


def _unparsable(error: PySparkException, query: Span) -> DefinitionError:
    place = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    span = query
    if place is not None:
        lines = query.text.split("\n")[: int(place[1]) - 1]
        offset = sum(len(line) + 1 for line in lines) + int(place[2])
        word = re.match(r"\w+|\S?", query.text[offset:])
        span = query.slice(offset, offset + len(word[0] if word else ""))
    return DefinitionError(
        f"Spark cannot parse the query. {in_short(error)}", hint="Try the query alone in spark-sql.", span=span
    )


def _unresolvable(error: PySparkException, query: Span) -> DefinitionError:
    span = query
    for context in error.getQueryContext():
        fragment = context.fragment()
        offset = query.text.find(fragment) if fragment else -1
        if offset >= 0:
            span = query.slice(offset, offset + len(fragment))
            break
    return DefinitionError(f"Spark cannot resolve the query. {in_short(error)}", span=span)


def _first_line(value: Any) -> str:
    lines = [line for line in str(value).strip().split("\n") if line.strip()]
    return lines[0] if lines else ""
