"""The counter's row: whoever has raised or touched it is alone until the end of the transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_provider_replacewhere.history.tables import counter

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def lock_counter(connection: Connection) -> int:
    """The last sequence number; nobody else can take the next before this transaction ends."""
    connection.execute(counter.update().values(last=counter.c.last))
    return int(connection.execute(sa.select(counter.c.last)).scalar_one())


def next_fences(connection: Connection, count: int) -> range:
    """So many numbers for leases, each above all that were given before. Holds the counter as well."""
    connection.execute(counter.update().values(fence=counter.c.fence + count))
    last = int(connection.execute(sa.select(counter.c.fence)).scalar_one())
    return range(last - count + 1, last + 1)
