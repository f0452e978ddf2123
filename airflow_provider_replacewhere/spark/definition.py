"""The definition hash: what decides a query's answer besides the rows it reads."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from airflow_provider_replacewhere.spark.jvm import Part, analysed, option, parts, scala_object, seq
from airflow_provider_replacewhere.spark.session import TIME_FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = ("airflow_provider_replacewhere", "pyspark", "py4j", "sqlglot", "__main__")

# Names of classes in Spark's plans.
_CODE_OF_JARS = re.compile(
    r"ScalaUDF|ScalaAggregator|ScalaUDAF|ApplyFunctionExpression|V2Aggregator|Hive\w*(Function|UDF|UDAF)"
)
_PYTHON = re.compile(r"Python|Pandas|InArrow")
# ``none#3``, ``scalar-subquery#12``, and CTEs, which carry their number without the sign.
_IDS = re.compile(r"(#|CTERelation(?:Def|Ref) )(\d+)")
_IDS_IN_JSON = re.compile(r'"(?:id|cteId)":(\d+)(,"jvmId":"[^"]*")?')
# Comments of columns, and counters that Delta keeps with them.
_NOTES_IN_JSON = re.compile(r'"metadata":\{[^{}]*\}')
# What tells a function from its ``try_`` form, by the class of expression, where neither text nor JSON does.
_MODES = {
    **dict.fromkeys(
        ("Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Pmod", "Remainder", "Cast"), "evalMode"
    ),
    "ParseToTimestamp": "failOnError",
}

# Settings that cannot change what a query gives: how it is run, and where things are. All others count.
HARMLESS_SETTINGS = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.catalog",
    "spark.sql.debug.",
    "spark.sql.execution.",
    "spark.sql.extensions",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.hive.",
    "spark.sql.shuffle.",
    "spark.sql.streaming.",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
)
# Inline data of more rows than this is taken for new each time.
MOST_INLINE_ROWS = 10_000


def definition_hash(
    frame: DataFrame, settings: Mapping[str, str], expectations: Iterable[str], python_files: Iterable[str]
) -> str:
    """A hash of the analysed query in canonical form, as 64 hex digits.

    Layout, comments, letter case of keywords, aliases of tables and hints do not count; a view or a function that the
    query uses does, because it is part of the analysed plan. Versions of sources do not count.

    A plan shows that a Python function is called, not what it does. So where one is, the function as it is sent to
    the workers counts, and the source of every module that is neither installed nor part of Python: a helper's too.
    What cannot be seen at all (the code of a jar) makes each run's definition its own.

    :param frame: the query, with the conditions of its expectations as further columns
    :param settings: the pipeline's and the flow's own settings
    :param expectations: names and actions of the expectations, in order
    :param python_files: the texts of the pipeline's Python files
    """
    session = frame.sparkSession
    # The bodies of SQL functions in place of their calls, which hide what they do; the stopped clock is made of them.
    inline = scala_object(session, "org.apache.spark.sql.catalyst.optimizer.EliminateSQLFunctionNode")
    whole = frame._jdf.queryExecution().analyzed()
    plan = inline.apply(whole)
    found = analysed(frame) if plan.fastEquals(whole) else parts(plan)
    functions = _python_functions(found)
    told = [
        _numbered_anew(plan.canonicalized().toString()),
        _written_out(plan.canonicalized()),
        *(f"{part.kind}:{getattr(part.node, mode)()}" for part in found if (mode := _MODES.get(part.kind))),
        # A plan's text writes 'a,b' and 'a', 'b' alike.
        *(str(part.node.sql()) for part in found if part.is_expression and part.kind == "Literal"),
        *(_leaf(part, session) for part in found if not part.is_expression and not seq(part.node.children())),
        *_unseen_code(found),
        frame.schema.json(),
        *_meaning(session, settings),
        *expectations,
        *functions,
        *(python_files if functions else ()),
        *(_helper_sources() if functions else ()),
    ]
    return hashlib.sha256("\0".join(f"{len(text)}:{text}" for text in told).encode()).hexdigest()


def unwatched(frame: DataFrame) -> tuple[str, ...]:
    """What a query depends on besides its text, its settings and the rows of Delta tables; each once, in words.

    Where there is nothing of this kind, the same text over the same rows has the same definition hash. It is asked of
    the plan: a text does not tell Spark's functions from those of a catalog.
    """
    found: dict[str, None] = {}
    for part in analysed(frame):
        if (reason := _unwatched_by(part)) is not None:
            found.setdefault(reason)
    return tuple(found)


def _unwatched_by(part: Part) -> str | None:
    if part.kind in ("SQLScalarFunction", "SQLFunctionNode"):
        return _sql_function(part.node.function().name())
    if _CODE_OF_JARS.match(part.kind):
        return "calls code of a jar"
    if _PYTHON.search(part.kind):
        return "calls Python functions"
    if part.kind == "LocalRelation" and part.node.data().size() > MOST_INLINE_ROWS:
        return f"holds more than {MOST_INLINE_ROWS} rows itself"
    return None


def _sql_function(name: Any) -> str:
    if name.database().isDefined() or str(name.funcName()).lower() not in TIME_FUNCTIONS:
        return f"calls the function {name.unquotedString()}"
    return f"asks for the time ({name.funcName()})"  # as the stopped clock tells it


def _meaning(session: SparkSession, own: Mapping[str, str]) -> list[str]:
    """The settings under which the plan is run, but for those that cannot matter."""
    # Delta keeps counters among its own settings; none of them changes what a query gives.
    found = {key: value for key, value in session.conf.getAll.items() if key.startswith("spark.sql.")}
    return [
        f"{key}={value}" for key, value in sorted({**found, **own}.items()) if not key.startswith(HARMLESS_SETTINGS)
    ]


def _numbered_anew(text: str) -> str:
    """A plan's text with its ids numbered by their first appearance.

    Ids tell columns apart, so they stay; but some come from counters of the whole JVM and would differ with every run.
    """
    numbers: dict[tuple[bool, str], int] = {}

    def anew(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers.setdefault((found[1] == '#', found[2]), len(numbers))}"

    return re.sub(_IDS, anew, text)


def _written_out(plan: Any) -> str:
    """All that a plan's nodes are made of: its text leaves out IGNORE NULLS, and the time zone of a cast."""
    try:
        text = str(plan.toJSON())
    except Py4JError:  # of a node that cannot be written: nothing proves that it is as it was
        return uuid.uuid4().hex
    numbers: dict[tuple[bool, str], int] = {}

    def anew(found: re.Match[str]) -> str:
        return f'"id":{numbers.setdefault((found[2] is None, found[1]), len(numbers))}'

    return re.sub(_IDS_IN_JSON, anew, re.sub(_NOTES_IN_JSON, "", text))


def _unseen_code(plan: Iterable[Part]) -> list[str]:
    """Something new each time for a plan that calls functions of jars: no plan shows when their code changes."""
    return [uuid.uuid4().hex] if any(part.is_expression and _CODE_OF_JARS.match(part.kind) for part in plan) else []


def _python_functions(plan: Iterable[Part]) -> list[str]:
    """The Python functions that a plan calls, each as a text that changes when its code does."""
    found = []
    for node, kind, _ in plan:
        if _PYTHON.search(kind):
            has_function = any(method.getName() == "func" for method in node.getClass().getMethods())
            # A Scala sequence's hash is made of its bytes: the pickled function.
            found.append(f"{kind}:{node.func().command().hashCode() if has_function else ''}")
    return found


def _helper_sources() -> list[str]:
    """The sources of the user's own modules: all that is imported and neither installed nor part of Python."""
    paths = sysconfig.get_paths()
    installed = tuple(
        f"{paths[name].rstrip(os.sep)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
    )
    sources = []
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or file.startswith(installed) or name.startswith(_OWN):
            continue
        try:
            # By its loader: it may lie in a zip.
            sources.append(f"{name}:{inspect.getsource(module)}")
        except (OSError, TypeError):
            sources.append(f"{name}:{uuid.uuid4().hex}")
    return sources


def _leaf(leaf: Part, session: SparkSession) -> str:
    """A source and its columns: in a canonical plan columns have no names and a Delta folder has none either.

    Whether a column may hold NULL counts too, which each may in a canonical plan: the optimiser believes it, and so
    does what it says of the query.
    """
    node = leaf.node
    columns = ",".join(f"{a.name()}:{a.dataType().sql()}{'' if a.nullable() else '!'}" for a in seq(node.output()))
    if leaf.kind == "LocalRelation":
        return f"{columns}:{_inline_rows(node, session)}"
    if leaf.kind != "LogicalRelation":
        return f"{leaf.kind}({columns})"
    table = option(node.catalogTable())
    relation = node.relation()
    has_location = any(method.getName() == "location" for method in relation.getClass().getMethods())
    paths = [str(p.toString()) for p in seq(relation.location().rootPaths())] if has_location else []
    return f"{table.identifier().unquotedString() if table else ''}{paths}({columns})"


def _inline_rows(node: Any, session: SparkSession) -> str:
    """The rows of a VALUES list or of a DataFrame made from data in memory: they are part of the definition."""
    jvm = session._jvm
    assert jvm is not None
    if node.data().size() > MOST_INLINE_ROWS:
        return uuid.uuid4().hex
    try:
        rows = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, node), session)
        # By position, since names may come twice.
        named = rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))
        return "\n".join(
            str(row[0]) for row in named.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false'))").collect()
        )
    except (PySparkException, Py4JError):
        return uuid.uuid4().hex
