"""What is known of one target while an application writes it again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_replacewhere.planning.coverage import Coverage, Entry
from airflow_provider_replacewhere.planning.report import RunReport
from airflow_provider_replacewhere.planning.request import RunRequest


@dataclass(frozen=True)
class Known:
    """A target's part of the ledger, kept up by the driver until the ledger hears of it.

    :param previous: the report of the last run that ended well
    """

    target: str
    previous: Mapping[str, Any] | None
    coverage: Coverage

    @classmethod
    def of(cls, request: RunRequest, target: str) -> Known:
        """As the request tells it."""
        known = request.coverage.get(target)
        return cls(target, request.previous.get(target), Coverage() if known is None else Coverage.from_json(known))

    def after(self, report: RunReport) -> Known:
        """With one more run, which ended well."""
        coverage = self.coverage
        if report.coverage is not None:
            coverage = coverage.with_entry(Entry.from_json(report.coverage))
        return Known(self.target, report.to_json(), coverage)

    def slice(self) -> dict[str, Any]:
        """As parts of a request."""
        return {
            "previous": {} if self.previous is None else {self.target: self.previous},
            "coverage": {self.target: self.coverage.to_json()},
        }
