"""Leases on regions of targets, and the counter that numbers them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"

# One dialect a call: SQLAlchemy 1.4, which Airflow 2 brings, takes no more.
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")


def upgrade() -> None:
    """Called by Alembic."""
    # MySQL commits each statement, so a migration that was cut off there goes on where it stopped.
    inspector = sa.inspect(op.get_bind())
    if "fence" not in {column["name"] for column in inspector.get_columns("replacewhere_counter")}:
        op.add_column("replacewhere_counter", sa.Column("fence", sa.BigInteger, nullable=False, server_default="0"))
    if "replacewhere_leases" in inspector.get_table_names():
        return
    op.create_table(
        "replacewhere_leases",
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("target_key", sa.String(64), nullable=False),
        sa.Column("run_key", sa.String(64), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("acquired_at", sa.String(32), nullable=False),
        sa.Column("renewed_at", sa.String(32), nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
        sa.Column("target", LongText, nullable=False),
        sa.Column("flow", LongText, nullable=False),
        sa.Column("run_id", LongText, nullable=False),
        sa.Column("region", LongText, nullable=False),
        sa.Column("dag_id", sa.String(250)),
        sa.Column("dag_run_id", sa.String(250)),
        sa.Column("task_id", sa.String(250)),
        sa.Column("map_index", sa.Integer),
        sa.Column("try_number", sa.Integer),
    )
