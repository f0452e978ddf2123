"""The definition hash: what decides a query's answer besides the rows it reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.flows.model import Flow
from airflow_provider_replacewhere.spark.jvm import class_name, option, scala_object, seq, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Settings that change what the same plan means.
MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")


def definition_hash(frame: DataFrame, flow: Flow, python_texts: Iterable[str]) -> str:
    """A hash of the analysed query in canonical form, as 64 hex digits.

    Layout, comments, letter case of keywords, aliases of tables and hints do not count; a view or a function that the
    query uses does, because it is part of the analysed plan, and so does as_of where the query asks for the time.
    Versions of sources do not count.

    :param python_texts: for a flow written in Python, the texts of its files: a plan does not show what a Python
        function does
    """
    # The bodies of SQL functions in place of their calls, which hide what they do; the stopped clock is made of them.
    inline = scala_object(frame.sparkSession, "org.apache.spark.sql.catalyst.optimizer.EliminateSQLFunctionNode")
    plan = inline.apply(frame._jdf.queryExecution().analyzed())
    parts = [
        # Expression ids are numbered anew by canonicalization, except in a few nodes that print them with their type.
        re.sub(r"#\d+L?", "#", plan.canonicalized().toString()),
        *(_leaf(node) for node in walk(plan) if not seq(node.children())),
        frame.schema.json(),
        *(f"{key}={frame.sparkSession.conf.get(key)}" for key in MEANING),
        *(f"{e.name}:{e.condition}:{e.on_violation}" for e in flow.table.expectations),
        *(python_texts if flow.function is not None else ()),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


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
