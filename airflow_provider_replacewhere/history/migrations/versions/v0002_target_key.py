"""Targets are found however they are spelled: a key without letter case, and the index that their runs are read by."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

from airflow_provider_replacewhere.history.records import target_key

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Called by Alembic."""
    # MySQL commits each of these statements, so a migration that was cut off there goes on where it stopped.
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("replacewhere_events")}
    if "target_key" not in present:
        op.add_column("replacewhere_events", sa.Column("target_key", sa.String(64), nullable=True))
    events = sa.table("replacewhere_events", sa.column("target", sa.Text), sa.column("target_key", sa.String))
    connection = op.get_bind()
    for (target,) in connection.execute(sa.select(events.c.target).distinct()).fetchall():
        key = hashlib.sha256(target_key(target).encode()).hexdigest()
        connection.execute(events.update().where(events.c.target == target).values(target_key=key))
    with op.batch_alter_table("replacewhere_events") as table:
        table.alter_column("target_key", existing_type=sa.String(64), nullable=False)
    op.create_index("replacewhere_events_target", "replacewhere_events", ["target_key", "sequence"])
