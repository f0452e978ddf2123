"""``python -m tests.chaos.faulty_worker POINT FILE ANSWER``: as :mod:`tests.run_dag`, killed at a point of its work."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from itertools import count
from typing import Any, NoReturn

from airflow_provider_replacewhere.history import keeping
from airflow_provider_replacewhere.history.holding import Held
from airflow_provider_replacewhere.operators import answering
from airflow_provider_replacewhere.operators.exchange import Exchange
from airflow_provider_replacewhere.operators.ledger import Ledger
from tests import run_dag


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def be_told_to_end(self: Any, *_: Any) -> NoReturn:
    """As a task is by its supervisor, when somebody marks it or its time is over."""
    os.kill(os.getpid(), signal.SIGTERM)
    self.stop.event.wait(60)  # the main thread is told, and ends what it waits for
    raise InterruptedError


def at(point: str) -> None:
    """Put the fault in."""
    answers, record, write = answering._Answers, Ledger.record, Exchange.write
    match point:
        case "before_request":
            Exchange.put = die  # type: ignore[method-assign]
        case "asked":
            answers._take = die  # type: ignore[method-assign]
        case "before_permission":
            answers._permit = die  # type: ignore[method-assign]
        case "permitted":
            permit = answers._permit

            def permitted(self: Any, question: Any) -> None:
                permit(self, question)
                Exchange.write = lambda *letter: die(write(*letter))  # type: ignore[method-assign]

            answers._permit = permitted  # type: ignore[method-assign]
        case "committed":
            answers._release = die  # type: ignore[method-assign]
        case "told_to_end":
            answers._permit = be_told_to_end  # type: ignore[method-assign]
        case "third_told_to_end":
            allow, permits = answers._permit, count(1)
            answers._permit = lambda self, question: (  # type: ignore[method-assign]
                be_told_to_end(self) if next(permits) == 3 else allow(self, question)
            )
        case "before_record":
            Ledger.record = die  # type: ignore[method-assign]
        case "recorded":
            Ledger.record = lambda *about: die(record(*about))  # type: ignore[method-assign]
        case _:
            raise ValueError(point)


# What the dead leave behind is not waited for as long as in life.
keeping.LedgerLeases = partial(keeping.LedgerLeases, seconds=15.0)  # type: ignore[assignment, misc]
Held.permit.__kwdefaults__["seconds"] = 15.0
at(sys.argv.pop(1))
run_dag.main()
