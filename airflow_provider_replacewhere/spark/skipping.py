"""What a query would read, told by Delta's own data skipping: from file statistics, without running it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.planning.nulls import ALWAYS, NEVER, Formula, all_of, any_of
from airflow_provider_replacewhere.spark.jvm import class_name, option, seq, walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Operators that give no row where their only input gives none.
_PASSING = frozenset(
    {"Project", "SubqueryAlias", "Sort", "Window", "Generate", "Expand", "Repartition", "GlobalLimit"}
    | {"LocalLimit", "RepartitionByExpression", "Distinct", "Deduplicate"}
)
_LEFT, _RIGHT = frozenset({"LeftOuter", "LeftAnti", "ExistenceJoin"}), frozenset({"RightOuter"})
_EITHER = frozenset({"Inner", "Cross", "LeftSemi"})


def gives_nothing(frame: DataFrame) -> bool:
    """True only where that is certain: every file that could hold a row is ruled out by its statistics."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    return emptiness(plan, lambda leaf: ALWAYS if _reads_no_file(leaf) else NEVER) == ALWAYS


def emptiness(
    plan: Any, of_scan: Callable[[Any], Formula], of_filter: Callable[[Any], Formula] = lambda _: NEVER
) -> Formula:
    """What has to hold so that an optimised plan gives no row.

    :param of_scan: so that a scan gives none
    :param of_filter: so that a filter lets none through, whatever is below it
    """

    def of(node: Any) -> Formula:
        children = seq(node.children())
        match class_name(node):
            case "LogicalRelation":
                return of_scan(node)
            case "LocalRelation":
                return ALWAYS if node.data().isEmpty() else NEVER
            case "Aggregate":
                return of(children[0]) if seq(node.groupingExpressions()) else NEVER
            case "Union":
                return all_of(*map(of, children))
            case "Join":
                kind = class_name(node.joinType()).removesuffix("$")
                left, right = children
                if kind in _EITHER:
                    return any_of(of(left), of(right))
                if kind in _LEFT | _RIGHT:
                    return of(left if kind in _LEFT else right)
                return all_of(of(left), of(right))
            case "Filter":
                return any_of(of_filter(node), of(children[0]))
            case name:
                return of(children[0]) if name in _PASSING else NEVER

    return of(plan)


def scanned(frame: DataFrame) -> dict[str, int | None]:
    """How many files, rows and bytes a query reads at most; None where the statistics do not tell."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    scans = [size for node in walk(plan) if class_name(node) == "LogicalRelation" and (size := _scanned(node))]
    return {
        "files": _total(option(scan.files()) for scan in scans),
        "rows": _total(option(scan.rows()) for scan in scans),
        "bytes": _total(option(scan.bytesCompressed()) for scan in scans),
    }


def table_bytes(frame: DataFrame) -> int:
    """The size of the tables that a query reads, whatever its conditions, in bytes."""
    leaves = (node for node in walk(frame._jdf.queryExecution().analyzed()) if class_name(node) == "LogicalRelation")
    return sum(int(str(leaf.relation().sizeInBytes())) for leaf in leaves)


def _total(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    return None if None in found else sum(int(n) for n in found if n is not None)


def _reads_no_file(scan: Any) -> bool:
    """Whether Delta's data skipping leaves no file of a scan."""
    size = _scanned(scan)
    return size is not None and option(size.files()) == 0


def _scanned(scan: Any) -> Any:
    """Delta's own DataSize of what is left of a scan; None where it is none of Delta's, or was not looked at."""
    relation = scan.relation()
    if not any(method.getName() == "location" for method in relation.getClass().getMethods()):
        return None
    location = relation.location()
    return location.preparedScan().scanned() if class_name(location) == "PreparedDeltaFileIndex" else None
