"""The definition hash: what decides a query's answer besides the rows it reads."""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.flows.model import Flow
from airflow_provider_replacewhere.spark.jvm import (
    class_name,
    expressions,
    option,
    scala_object,
    seq,
    subexpressions,
    walk,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OWN = ("airflow_provider_replacewhere", "pyspark", "py4j", "sqlglot", "__main__")

# ``none#3``, ``scalar-subquery#12``, and CTEs, which carry their number without the sign.
_IDS = re.compile(r"(#|CTERelation(?:Def|Ref) )(\d+)")

# Settings that change what the same plan means.
MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")


def definition_hash(frame: DataFrame, flow: Flow, python_files: Iterable[str]) -> str:
    """A hash of the analysed query in canonical form, as 64 hex digits.

    Layout, comments, letter case of keywords, aliases of tables and hints do not count; a view or a function that the
    query uses does, because it is part of the analysed plan, and so does as_of where the query asks for the time.
    Versions of sources do not count.

    A plan shows that a Python function is called, not what it does. So where one is, the function as it is sent to
    the workers counts, and the source of every module that is neither installed nor part of Python: a helper's too.

    :param python_files: the texts of the pipeline's Python files
    """
    # The bodies of SQL functions in place of their calls, which hide what they do; the stopped clock is made of them.
    inline = scala_object(frame.sparkSession, "org.apache.spark.sql.catalyst.optimizer.EliminateSQLFunctionNode")
    plan = inline.apply(frame._jdf.queryExecution().analyzed())
    functions = _python_functions(plan)
    parts = [
        _numbered_anew(plan.canonicalized().toString()),
        *_unseen_code(plan),
        *(_leaf(node) for node in walk(plan) if not seq(node.children())),
        frame.schema.json(),
        *(f"{key}={frame.sparkSession.conf.get(key)}" for key in MEANING),
        *(f"{e.name}:{e.condition}:{e.on_violation}" for e in flow.table.expectations),
        *functions,
        *(python_files if functions else ()),
        *(_helper_sources() if functions else ()),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _numbered_anew(text: str) -> str:
    """A plan's text with its ids numbered by their first appearance.

    Ids tell columns apart, so they stay; but some come from counters of the whole JVM and would differ with every run.
    """
    numbers: dict[tuple[bool, str], int] = {}

    def anew(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers.setdefault((found[1] == '#', found[2]), len(numbers))}"

    return re.sub(_IDS, anew, text)


def _unseen_code(plan: Any) -> list[str]:
    """Something new each time for a plan that calls functions of jars: no plan shows when their code changes."""
    calls = any(
        re.match(r"ScalaUDF|ScalaAggregator|ScalaUDAF|Hive\w*(Function|UDF|UDAF)", n) for n in _class_names(plan)
    )
    return [uuid.uuid4().hex] if calls else []


def _class_names(plan: Any) -> Iterator[str]:
    return map(class_name, expressions(plan))


def _python_functions(plan: Any) -> list[str]:
    """The Python functions that a plan calls, each as a text that changes when its code does."""
    found = []
    for node in walk(plan):
        for part in (node, *(e for root in seq(node.expressions()) for e in subexpressions(root))):
            if "Python" in class_name(part) or "Pandas" in class_name(part) or "InArrow" in class_name(part):
                has_function = any(method.getName() == "func" for method in part.getClass().getMethods())
                # A Scala sequence's hash is made of its bytes: the pickled function.
                found.append(f"{class_name(part)}:{part.func().command().hashCode() if has_function else ''}")
    return found


def _helper_sources() -> list[str]:
    """The sources of the user's own modules: all that is imported and neither installed nor part of Python."""
    installed = tuple({sys.prefix, sys.base_prefix, *map(str, sysconfig.get_paths().values())})
    sources = []
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py") or file.startswith(installed) or name.startswith(_OWN):
            continue
        try:
            sources.append(f"{name}:{Path(file).read_text(encoding='utf-8')}")
        except (OSError, UnicodeDecodeError):
            sources.append(f"{name}:{file}")
    return sources


def _leaf(node: Any) -> str:
    """A source and its columns: in a canonical plan columns have no names and a Delta folder has none either."""
    columns = ",".join(f"{a.name()}:{a.dataType().simpleString()}" for a in seq(node.output()))
    if class_name(node) != "LogicalRelation":
        return f"{class_name(node)}({columns})"
    table = option(node.catalogTable())
    relation = node.relation()
    has_location = any(method.getName() == "location" for method in relation.getClass().getMethods())
    paths = [str(p.toString()) for p in seq(relation.location().rootPaths())] if has_location else []
    return f"{table.identifier().unquotedString() if table else ''}{paths}({columns})"
