"""What a WHERE means: parse, check, put the clock in, and reason about the rows it selects.

All of it is standard library, so nothing here is loaded late.
"""

from airflow_provider_replacewhere.predicates.clock import Clock, Frozen, NeedsSparkError, freeze
from airflow_provider_replacewhere.predicates.meaning import parse_predicate
from airflow_provider_replacewhere.predicates.parse import ParsedPredicate, check, columns_of, parse
from airflow_provider_replacewhere.predicates.region import Region

__all__ = [
    "Clock",
    "Frozen",
    "NeedsSparkError",
    "ParsedPredicate",
    "Region",
    "check",
    "columns_of",
    "freeze",
    "parse",
    "parse_predicate",
]
