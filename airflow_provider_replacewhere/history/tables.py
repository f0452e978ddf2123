"""The ledger's tables as they are after the last migration."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

PREFIX = "replacewhere_"
VERSION_TABLE = f"{PREFIX}alembic_version"

metadata = sa.MetaData()

# MySQL's TEXT ends at 64 KiB, which a report with many sources can pass.
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")


def digest_column(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """A SHA-256 in place of a name that is searched for.

    Run ids and targets hold flow names and paths of any length in any letter case, which MySQL can neither index whole
    nor compare exactly by default.
    """
    return sa.Column(name, sa.String(64), nullable=nullable)


# Instants are ISO 8601 text in UTC with microseconds: MySQL drops the zone, SQLite has no type for them, and the text
# sorts as the instants do.
events = sa.Table(
    f"{PREFIX}events",
    metadata,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("recorded_at", sa.String(32), nullable=False),
    digest_column("run_key"),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("run_id", LongText, nullable=False),
    sa.Column("flow", LongText, nullable=False),
    sa.Column("target", LongText, nullable=False),
    digest_column("target_key"),
    sa.Column("dag_id", sa.String(250)),
    sa.Column("dag_run_id", sa.String(250)),
    sa.Column("task_id", sa.String(250)),
    sa.Column("map_index", sa.Integer),
    sa.Column("try_number", sa.Integer),
    sa.Column("mode", sa.String(32)),
    sa.Column("window_sql", LongText),
    sa.Column("replaced_sql", LongText),
    sa.Column("predicate", LongText),
    sa.Column("is_override", sa.Boolean),
    sa.Column("as_of", sa.String(40)),
    sa.Column("definition_hash", sa.String(128)),
    sa.Column("token", sa.String(128)),
    sa.Column("target_version", sa.BigInteger),
    sa.Column("error", LongText),
    sa.Column("report", LongText),
    sa.UniqueConstraint("run_key", "kind", name=f"{PREFIX}events_run_kind"),
    sa.Index(f"{PREFIX}events_target", "target_key", "sequence"),
)

# What the reports prove of each target, folded up to a sequence number. Derived, so it may be dropped at any time, but
# for the reports that were pruned.
coverage = sa.Table(
    f"{PREFIX}coverage",
    metadata,
    digest_column("target_key"),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("document", LongText, nullable=False),
    sa.PrimaryKeyConstraint("target_key"),
)

# One row. Whoever raises it holds the row until the commit, so numbers become visible in their order: a reader who has
# seen n never misses a smaller one. Sequences of PostgreSQL and MySQL do not promise that.
counter = sa.Table(
    f"{PREFIX}counter",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    # Of leases: apart from `last`, so that the runs' numbers keep following one another.
    sa.Column("fence", sa.BigInteger, nullable=False, server_default="0"),
)

# Leases and the places of those who wait for one; no two leases of one target overlap, expired or not. Rows come and
# go, and are few: without a second index, statements that meet here lock one row each and cannot block one another
# in a circle.
leases = sa.Table(
    f"{PREFIX}leases",
    metadata,
    sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
    digest_column("target_key"),
    digest_column("run_key"),
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
