"""The verbs of the console command and their arguments as data, for argparse and for Airflow's own command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_replacewhere import __version__
from airflow_provider_replacewhere.planning.chunking import ON_CHUNK_FAILURE, ORDERS, UNITS
from airflow_provider_replacewhere.planning.leasing import WAIT_SECONDS

PROGRAM = "replacewhere"
DESCRIPTION = "REPLACE WHERE flows on Spark and Delta: replace exactly the rows that match a predicate."
EXIT_STATUS = "Exit status: 0 done, 1 failed, 2 wrong input. `replacewhere VERB --help` lists a verb's arguments."


@dataclass(frozen=True)
class Argument:
    """One argument, as ``ArgumentParser.add_argument`` takes it."""

    flags: tuple[str, ...]
    options: Mapping[str, Any]


def argument(*flags: str, **options: Any) -> Argument:
    """An argument with these flags, or this name."""
    return Argument(flags, options)


@dataclass(frozen=True)
class Verb:
    """One verb. ``name`` is also the name of its function in :mod:`.verbs`."""

    name: str
    help: str
    arguments: tuple[Argument, ...] = field(repr=False)
    description: str = ""


def key_and_value(text: str) -> tuple[str, str]:
    """``key=value`` taken apart.

    :raises argparse.ArgumentTypeError: there is no ``=``, or no key before it
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key.strip(), value


FILES = argument("files", nargs="+", metavar="FILE", help="pipeline files (.sql, .py), folders, or patterns")
FORMAT = argument("--format", choices=("text", "json"), default="text", help="what to print (default: text)")
ROOT = argument("--root", metavar="FOLDER", help="tables are Delta folders below it, by name; default: Spark's catalog")
CONF = argument(
    "--conf", metavar="KEY=VALUE", type=key_and_value, action="append", default=[], help="a Spark setting; repeatable"
)
HISTORY = argument("--history", metavar="URL", help="SQLAlchemy URL of the history (default: an SQLite file in --root)")
TIME_ZONE = argument("--time-zone", metavar="ZONE", default="UTC", help="for flows that name none (default: UTC)")
NULL_KEYS = argument(
    "--null-keys",
    choices=("fail", "drop", "include"),
    help="what to do with rows for which the predicate is NULL, for flows that do not say (default: fail)",
)
AS_OF = argument(
    "--as-of", metavar="INSTANT", help="what current_date() and its like see: 2026-03-10, 2026-03-10T06:00+01:00 (now)"
)
SELECT = argument(
    "--select", metavar="TABLE", action="append", default=[], help="run this table only; repeatable (default: all)"
)
FULL_REFRESH = argument(
    "--full-refresh",
    metavar="TABLE",
    action="append",
    default=[],
    help="replace this whole table by what the query gives for the window; repeatable",
)
ALLOW_FULL_REFRESH = argument(
    "--allow-full-refresh", action="store_true", help="let a full refresh lose the rows outside the window"
)
POLICY = argument(
    "--policy",
    choices=("auto", "incremental", "incremental_strict", "full"),
    default="auto",
    help="how much to recompute: the stale part (auto), that or nothing (incremental_strict), all of the window (full)",
)
ONLY_STALE = argument("--only-stale", action="store_true", help="leave alone what the ledger proves fresh")
SKIP_UNCHANGED = argument(
    "--skip-unchanged", action="store_true", help="leave out the part in which the table holds the query's rows already"
)
LIMITS = (
    argument(
        "--max-deleted-rows", metavar="N", type=int, help="refuse to delete more rows, those that are put back too"
    ),
    argument(
        "--max-deleted-fraction", metavar="SHARE", type=float, help="refuse to delete a larger share: 0.1 for 10 %%"
    ),
    argument("--max-window-days", metavar="DAYS", type=float, help="refuse a window that reaches over more days"),
    argument(
        "--on-empty",
        choices=("replace", "fail", "skip"),
        help="where the query gives no row: empty the window (replace, the default), refuse, or leave it as it is",
    ),
)
CHUNKS = (
    argument("--chunk", choices=UNITS, help="cut the range into chunks, each with a commit of its own"),
    argument("--chunk-size", metavar="N", type=int, default=1, help="how many of them make a chunk (default: 1)"),
    argument("--chunk-column", metavar="NAME", help="the column to cut along (default: the only one with two bounds)"),
    argument("--chunk-order", choices=ORDERS, default="oldest", help="which comes first (default: oldest)"),
    argument(
        "--on-chunk-failure",
        choices=ON_CHUNK_FAILURE,
        default="stop",
        help="stop, or go on with the next (default: stop)",
    ),
)
FLOW = argument("--flow", metavar="NAME", help="the flow, or its table; needed where the pipeline has several")
WHERE = argument("--where", metavar="PREDICATE", help="the predicate for this run, over columns of the target")
COLUMN = argument("--column", metavar="NAME", help="in place of --where: a column of the target, with --start or --end")
START = argument("--start", metavar="VALUE", help="the first value of the range: 2026-01-01, or a number")
END = argument("--end", metavar="VALUE", help="the first value behind the range: start <= column < end")
COLUMN_TYPE = argument(
    "--column-type",
    choices=("date", "timestamp", "timestamp_ntz", "number", "string"),
    help="of --start and --end (default: as they look)",
)
DRY_RUN = argument("--dry-run", action="store_true", help="plan only, write nothing")
TARGET = argument("--target", metavar="TABLE", help="only runs of this table")
LIMIT = argument("--limit", metavar="N", type=int, default=20, help="at most so many runs (default: 20)")
RUN = argument("--run", metavar="RUN", help="one run in detail, by its number or its id")
COVERAGE_OF = argument("--target", metavar="TABLE", help="the table (default: the only one that the history knows)")
UNIT = argument("--unit", choices=("day", "week", "month", "year"), help="what a cell is (default: as it fits)")
MAP_COLUMN = argument("--column", metavar="NAME", help="the column to lay it out along (default: one of times)")
FROM = argument("--from", dest="first", metavar="DAY", help="the first day to show: 2026-01-31")
TO = argument("--to", dest="end", metavar="DAY", help="the day behind the last one to show")
LEASES_OF = argument("--target", metavar="TABLE", help="only leases on this table")
BREAK = argument(
    "--break",
    dest="break_lease",
    metavar="LEASE",
    type=int,
    help="free this lease, of a run that is known to be dead; its run can no longer commit",
)

RUN_TO_UNDO = argument("run_to_undo", metavar="RUN", help="the run, by its number or its id")
TABLES = argument(
    "tables", nargs="*", metavar="TABLE", help="the tables, as their flows name them (default: all below --root)"
)
FORCE = argument("--force", action="store_true", help="also where the region was changed since")

ON_OVERLAP = (
    argument(
        "--on-overlap",
        choices=("wait", "fail", "skip"),
        default="wait",
        help="where another run is writing a part of the window: wait for it (default), fail, or leave the flow out",
    ),
    argument(
        "--wait-seconds", metavar="SECONDS", type=float, default=WAIT_SECONDS, help="how long to wait at most (an hour)"
    ),
)

_WHERE_TABLES_ARE = (ROOT, CONF, HISTORY)
_HOW = (AS_OF, TIME_ZONE, NULL_KEYS, POLICY)
_WHAT = (SELECT, FULL_REFRESH, ALLOW_FULL_REFRESH)

VERBS = (
    Verb(
        "validate",
        "read pipeline files and show their flows; nothing is run",
        (FILES, ROOT, CONF, TIME_ZONE, NULL_KEYS, FORMAT),
        "Read and check pipeline files, and show their flows in the order in which they would run. SQL files need no "
        "Spark; a Python file is run for what it declares, in a local Spark session. --root is not looked at.",
    ),
    Verb(
        "plan",
        "say what a run would replace and why; nothing is written",
        (FILES, *_WHERE_TABLES_ARE, *_HOW, *_WHAT, FORMAT),
    ),
    Verb(
        "run",
        "run the flows of pipeline files",
        (FILES, *_WHERE_TABLES_ARE, *_HOW, *_WHAT, SKIP_UNCHANGED, *LIMITS, *ON_OVERLAP, FORMAT),
    ),
    Verb(
        "backfill",
        "run one flow for another range than its own, once",
        (
            FILES,
            FLOW,
            WHERE,
            COLUMN,
            START,
            END,
            COLUMN_TYPE,
            ONLY_STALE,
            *CHUNKS,
            SKIP_UNCHANGED,
            DRY_RUN,
            *_WHERE_TABLES_ARE,
            *_HOW,
            *LIMITS,
            *ON_OVERLAP,
            FORMAT,
        ),
        "Run one flow with a predicate for this run only: --where, or --column with --start and --end. Later runs use "
        "the flow's own predicate again.",
    ),
    Verb(
        "undo",
        "put back what one run replaced, as it was before",
        (RUN_TO_UNDO, FORCE, DRY_RUN, *_WHERE_TABLES_ARE, *ON_OVERLAP, FORMAT),
        "Put the region that one run replaced back as it was before that run, in one commit with a record of its own. "
        "Refused where the region was changed since, or the version before is gone. The region counts as stale then.",
    ),
    Verb(
        "rebuild",
        "fill the history from the tables' own logs",
        (TABLES, ROOT, CONF, HISTORY, FORMAT),
        "Read the logs of tables and record the runs that they tell of and the history does not know, as after its "
        "database was lost. Each run does as much for its own table; runs that wrote nothing are not found again.",
    ),
    Verb("history", "list what was run, the newest first", (RUN, TARGET, LIMIT, ROOT, HISTORY, FORMAT)),
    Verb(
        "coverage",
        "show what of a table is fresh, stale or missing",
        (COVERAGE_OF, UNIT, MAP_COLUMN, FROM, TO, ROOT, HISTORY, FORMAT),
        "Draw what the history knows of a table, as its last run saw it: what is fresh, stale, missing, being written, "
        "changed by others, or failed, and why.",
    ),
    Verb(
        "leases",
        "list who is writing which part of which table",
        (LEASES_OF, BREAK, ROOT, HISTORY, FORMAT),
        "List the leases on parts of tables, and who waits for one. A lease of a run that died ends by itself; --break "
        "ends it now.",
    ),
)


def build_parser() -> argparse.ArgumentParser:
    """The command's parser; the parsed options carry the verb's name as ``verb``."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION, epilog=EXIT_STATUS)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        of_verb = verbs.add_parser(verb.name, help=verb.help, description=verb.description or _sentence(verb.help))
        for each in verb.arguments:
            of_verb.add_argument(*each.flags, **each.options)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
