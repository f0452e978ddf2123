"""The few ways in which this floor looks into the JVM. Classic PySpark only: Spark Connect has no such door."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def seq(scala_seq: Any) -> list[Any]:
    """A Scala sequence as a Python list."""
    return [scala_seq.apply(i) for i in range(scala_seq.size())]


def to_seq(session: SparkSession, values: Iterable[Any]) -> Any:
    """A Scala sequence of some JVM objects or strings."""
    jvm = session._jvm
    assert jvm is not None
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()


def option(scala_option: Any) -> Any:
    """What a Scala Option holds, or None."""
    return scala_option.get() if scala_option.isDefined() else None


def scala_object(session: SparkSession, name: str) -> Any:
    """A Scala ``object`` by its full name."""
    jvm = session._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)


def class_name(node: Any) -> str:
    """The simple class name of a JVM object."""
    return str(node.getClass().getSimpleName())


def walk(plan: Any) -> Iterator[Any]:
    """All nodes of a logical plan, those inside subqueries and views too, parents first."""
    yield plan
    for child in (*seq(plan.children()), *seq(plan.subqueries())):
        yield from walk(child)


class Part(NamedTuple):
    """A node of a logical plan, or an expression in one."""

    node: Any
    kind: str
    """Its simple class name."""
    is_expression: bool


_analysed: WeakKeyDictionary[DataFrame, tuple[Part, ...]] = WeakKeyDictionary()


def analysed(frame: DataFrame) -> tuple[Part, ...]:
    """All parts of a query's analysed plan.

    A run asks several things of the same plan, and each step through it is a call into the JVM: they are taken once.
    """
    if frame not in _analysed:
        _analysed[frame] = parts(frame._jdf.queryExecution().analyzed())
    return _analysed[frame]


def parts(plan: Any) -> tuple[Part, ...]:
    """All of a logical plan, a node followed by its expressions at every depth."""
    found = []
    for node in walk(plan):
        found.append(Part(node, class_name(node), is_expression=False))
        for root in seq(node.expressions()):
            found += [Part(e, class_name(e), is_expression=True) for e in subexpressions(root)]
    return tuple(found)


def subexpressions(expression: Any) -> Iterator[Any]:
    """An expression and all below it, parents first."""
    yield expression
    for child in seq(expression.children()):
        yield from subexpressions(child)


def parse_plan(session: SparkSession, query: str) -> Any:
    """The unresolved logical plan of a query, as Spark's own parser reads it."""
    return session._jsparkSession.sessionState().sqlParser().parsePlan(query)


def file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system for a path, and the path as that file system wants it."""
    jvm = session._jvm
    assert jvm is not None
    jvm_path = jvm.org.apache.hadoop.fs.Path(path)
    return jvm_path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), jvm_path
