"""The console command's verbs as ``airflow replacewhere …``, on Airflow 3."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_replacewhere.cli import run
from airflow_provider_replacewhere.cli.arguments import DESCRIPTION, EXIT_STATUS, PROGRAM, VERBS, Verb

if TYPE_CHECKING:
    from airflow.cli.cli_config import ActionCommand, CLICommand


def get_commands() -> list[CLICommand]:
    """One group with the verbs. Airflow asks for it whenever its own command starts, so it costs next to nothing."""
    from airflow.cli.cli_config import GroupCommand

    verbs = [_command(verb) for verb in VERBS]
    return [
        GroupCommand(
            name=PROGRAM,
            help="Run REPLACE WHERE flows, and list what was run",
            description=DESCRIPTION,
            epilog=EXIT_STATUS,
            subcommands=verbs,
        )
    ]


def _command(verb: Verb) -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg

    return ActionCommand(
        name=verb.name,
        help=verb.help,
        description=verb.description or None,
        func=partial(_run, verb.name),
        # Airflow declares no types for Arg.
        args=[Arg(flags=each.flags, **each.options) for each in verb.arguments],  # type: ignore[no-untyped-call]
    )


def _run(verb: str, options: Namespace) -> None:
    """Run a verb over the operators' history, unless another is named, and end the process with its status."""
    # What Airflow's logging would print of migrations is no part of an answer.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    options.verb = verb
    if getattr(options, "history", "") is None:
        # Imported here because Airflow asks for the commands whenever its own command starts.
        from airflow_provider_replacewhere.hooks.predicate_history import PredicateHistoryHook

        hook = PredicateHistoryHook()
        options.history = hook.view if verb == "coverage" else hook.store
    sys.exit(run(options))
