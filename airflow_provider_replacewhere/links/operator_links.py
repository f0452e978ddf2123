"""The buttons beside a task: its table and its run on the provider's page, and Spark's own pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator, TaskInstanceKey


class KeptLink(BaseOperatorLink):
    """A link that the task's operator knows once it has run, and keeps as an XCom.

    Airflow 3 asks for it in the worker, right after the task, and shows the XCom; Airflow 2 asks in the web server,
    which has the XCom alone.
    """

    name = ""

    @property
    def xcom_key(self) -> str:
        """The key of the XCom that holds the address."""
        return f"_link_replacewhere_{type(self).__name__}"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address; empty where there is none."""
        links: Any = getattr(operator, "links", None)
        if links is None:
            return _kept(ti_key, self.xcom_key)
        return str(links.get(self.xcom_key) or "")


class TableLink(KeptLink):
    """To the map of what is fresh in the table that a task keeps."""

    name = "Table's freshness"


class RunLink(KeptLink):
    """To the run: its plan, and why it did what it did."""

    name = "Run and reasons"


class SparkLink(KeptLink):
    """To Spark's own pages about the application."""

    name = "Spark"


def _kept(ti_key: TaskInstanceKey, key: str) -> str:
    """What Airflow 2's database says."""
    # Imported here because only Airflow 2's web server asks.
    from airflow.providers.common.compat.sdk import XCom

    return str(XCom.get_value(ti_key=ti_key, key=key) or "")
