"""The console command ``replacewhere``: the same runs without Airflow, from a terminal or a script.

Exit status: 0 the work is done, 1 it failed, 2 what was asked or declared is wrong (nothing was started).
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from airflow_provider_replacewhere.cli.arguments import build_parser
from airflow_provider_replacewhere.errors import DefinitionError, ReplaceWhereError, RequestError

DONE, FAILED, WRONG_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; see ``replacewhere --help``.

    :param arguments: the command line without the program's name; the process's own by default
    :return: the exit status; arguments that cannot be read end the process with 2, as argparse does it
    """
    return run(build_parser().parse_args(arguments))


def run(options: Namespace) -> int:
    """Run the verb that was parsed. Results go to standard output, errors to standard error.

    With ``--format json``, standard output holds one JSON document, also when it failed.
    """
    # Imported here because it brings SQLAlchemy and sqlglot, which asking for help does not need.
    from airflow_provider_replacewhere.cli import verbs

    try:
        error: ReplaceWhereError | None = getattr(verbs, options.verb)(options)
    except ReplaceWhereError as raised:
        error = raised
        if options.format == "json":
            print(json.dumps({"error": error.to_json()}, indent=1))
    if error is not None:
        print(f"replacewhere {options.verb}: {error}", file=sys.stderr)
    return exit_status(error)


def exit_status(error: ReplaceWhereError | None) -> int:
    """What an error means to whoever called the command; None is no error."""
    if error is None:
        return DONE
    return WRONG_INPUT if isinstance(error, DefinitionError | RequestError) else FAILED
