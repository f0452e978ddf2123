"""Leases for the driver of this task's application: the driver asks by files, and this worker asks the ledger."""

from __future__ import annotations

import contextvars
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow_provider_replacewhere.errors import LeaseLostError, ReplaceWhereError, RequestError
from airflow_provider_replacewhere.planning.leasing import Overlapped, Permit
from airflow_provider_replacewhere.planning.questions import ANSWER, QUESTION, SIGN, SIGN_SECONDS
from airflow_provider_replacewhere.text import shown

if TYPE_CHECKING:
    from airflow_provider_replacewhere.history.keeping import LedgerLeases

# How long the end of a task waits for the leases to be given back; those that are left expire.
_GOODBYE_SECONDS = 15.0

PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds between tries to reach the exchange place or the ledger; a driver waits longer for a sign of life."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class Letters(Protocol):
    """The place in which questions and answers lie."""

    def read(self, name: str) -> str | None:
        """A letter; None where there is none (yet)."""

    def write(self, name: str, text: str) -> None:
        """Leave a letter, whole or not at all."""


def _nothing() -> None:
    pass


@dataclass
class Stop:
    """Tells the thread that answers to end, wherever it waits."""

    event: threading.Event = field(default_factory=threading.Event)
    on_sleep: Callable[[], None] = _nothing

    def sleep(self, seconds: float) -> None:
        """:raises InterruptedError: the application has ended"""
        self.on_sleep()
        if self.event.wait(seconds):
            raise InterruptedError("the application has ended")


@dataclass
class Waits:
    """Sleeps for leases that wait for other runs, and adds up how long they did.

    :param stop: ends the waiting
    """

    stop: Stop
    seconds: float = 0.0

    def sleep(self, seconds: float) -> None:
        """:raises InterruptedError: the application has ended"""
        began = time.monotonic()
        try:
            self.stop.sleep(seconds)
        finally:
            self.seconds += time.monotonic() - began


@dataclass(frozen=True)
class Answering:
    """The thread that answers a driver."""

    thread: threading.Thread
    stop: Stop

    @property
    def goes_on(self) -> bool:
        """Whether it still does. If not, the driver gets no permission any more, and gives up."""
        return self.thread.is_alive()

    def end(self) -> None:
        """End it, and wait until it has given the leases back."""
        self.stop.event.set()
        self.thread.join(_GOODBYE_SECONDS)


def start_answering(
    letters: Letters,
    leases: LedgerLeases,
    stop: Stop,
    *,
    poll_seconds: float,
    taken_up: bool = False,
    on_contact: Callable[[], None] = _nothing,
) -> Answering:
    """Answer the driver's questions from a thread; see :func:`answering`."""
    answers = _Answers(letters, leases, stop, poll_seconds, taken_up, on_contact)
    stop.on_sleep = answers.live
    # What it logs is told where the caller's own words are.
    target = partial(contextvars.copy_context().run, answers.run)
    thread = threading.Thread(target=target, name="answers about leases", daemon=True)
    thread.start()
    return Answering(thread, stop)


@contextmanager
def answering(
    letters: Letters,
    leases: LedgerLeases,
    stop: Stop,
    *,
    poll_seconds: float,
    taken_up: bool = False,
    on_contact: Callable[[], None] = _nothing,
) -> Iterator[None]:
    """Answer the driver's questions while the body waits for its application, and give its leases back afterwards.

    :param leases: whose waiting is ended by ``stop``
    :param poll_seconds: between two looks for a question
    :param taken_up: whether somebody else has answered before
    :param on_contact: called, from another thread, when the driver is first heard of
    """
    begun = start_answering(letters, leases, stop, poll_seconds=poll_seconds, taken_up=taken_up, on_contact=on_contact)
    try:
        yield
    finally:
        begun.end()


@dataclass
class _Answers:
    letters: Letters
    leases: LedgerLeases
    stop: Stop
    poll_seconds: float
    taken_up: bool
    on_contact: Callable[[], None]
    _is_in_contact: bool = False
    _held: dict[str, tuple[ExitStack, Permit]] = field(default_factory=dict)
    _lived_at: float | None = None

    def live(self) -> None:
        """Show that somebody is here: wherever this waits, for a question or for other runs."""
        now = time.monotonic()
        if self._lived_at is None or now - self._lived_at >= SIGN_SECONDS:
            self._lived_at = now
            try:
                self.letters.write(SIGN, json.dumps({"alive": now}))
            except Exception as error:  # whatever the store raises; the next sign follows soon
                log.warning("  no sign of life could be left for the driver: %s", error)

    def run(self) -> None:
        try:
            for number in count(self._patiently(self._catch_up) if self.taken_up else 1):
                question = self._next(QUESTION.format(number))
                if not self._is_in_contact:
                    self._is_in_contact = True
                    self.on_contact()
                answer = json.dumps(self._answer(question))
                self._patiently(lambda: self.letters.write(ANSWER.format(number), answer))  # noqa: B023  (called here)
        except InterruptedError:
            pass
        except Exception:
            # The driver gets no answer, and so no permission: it gives up and says so.
            log.exception("Questions of the driver about leases are not answered any more")
        finally:
            for held, _ in self._held.values():
                with held:
                    pass

    def _patiently(self, reach: Callable[[], T]) -> T:
        """Reach a store that may be out of reach for a while."""
        for pause in PAUSES:
            try:
                return reach()
            except InterruptedError:
                raise
            except Exception as error:  # whatever the store's client raises
                if isinstance(error, ReplaceWhereError) and not error.retryable:
                    raise
                log.warning("  the driver cannot be answered now, tried again in %g s: %s", pause, error)
            if self.stop.event.wait(pause):
                raise InterruptedError("the application has ended")
        return reach()

    def _catch_up(self) -> int:
        """Take up the leases that the worker before held; the number of the first question that it left unanswered.

        A lease that is gone is not taken anew, for others may have written the region since: its run will get no
        permission.
        """
        taken: dict[str, Mapping[str, Any]] = {}
        for number in count(1):
            asked, answered = self.letters.read(QUESTION.format(number)), self.letters.read(ANSWER.format(number))
            if asked is None or answered is None:
                break
            question = _question(asked, QUESTION.format(number))
            _require_names(question)
            if question["verb"] == "take" and json.loads(answered) == {}:
                taken[question["run_id"]] = question
            elif question["verb"] == "release":
                taken.pop(question["run_id"], None)
        for run_id, question in taken.items():
            if run_id in self._held:
                continue  # taken up before the store was out of reach
            stack = ExitStack()
            permit = stack.enter_context(self.leases.resuming(question["target"], run_id))
            if permit is None:
                stack.close()
                log.warning("The lease of %s on %s is gone: it may not commit", run_id, question["target"])
            else:
                self._held[run_id] = stack, permit
        return number

    def _next(self, name: str) -> Mapping[str, Any]:
        while (text := self._patiently(lambda: self.letters.read(name))) is None:
            self.stop.sleep(self.poll_seconds)
        return _question(text, name)

    def _answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            _require_names(question)
            match question["verb"]:
                case "take":
                    return self._take(question)
                case "permit":
                    self._permit(question)
                case "release":
                    self._release(question)
                case other:
                    raise RequestError(f"The driver asks for {other!r}, which is no question about a lease.")
        except ReplaceWhereError as error:
            return {"error": error.to_json()}
        return {}

    def _take(self, question: Mapping[str, Any]) -> dict[str, Any]:
        # Imported here because it brings the region algebra, which no Dag file needs.
        from airflow_provider_replacewhere.predicates.region import Region

        stack = ExitStack()
        region = Region.from_json(question.get("region"))
        holding = self.leases.holding(question["target"], question["flow"], question["run_id"], region)
        found = stack.enter_context(holding)
        if isinstance(found, Overlapped):
            stack.close()
            return {"overlapped": found.holders}
        self._held[question["run_id"]] = stack, found
        return {}

    def _permit(self, question: Mapping[str, Any]) -> None:
        held = self._held.get(question["run_id"])
        if held is None:
            raise LeaseLostError(f"The run {question['run_id']} holds no lease on {question['target']}.")
        held[1]()

    def _release(self, question: Mapping[str, Any]) -> None:
        held = self._held.pop(question["run_id"], None)
        if held is not None:
            held[0].close()


def _question(text: str, name: str) -> Mapping[str, Any]:
    """:raises RequestError: it is none"""
    try:
        question = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"The driver's question {name} cannot be read: {error}.") from error
    if not isinstance(question, dict):
        raise RequestError(f"The driver's question {name} is no object: {shown(question)}.")
    return question


def _require_names(question: Mapping[str, Any]) -> None:
    """:raises RequestError: the question does not say what it is about"""
    for name in ("verb", "target", "flow", "run_id"):
        if not isinstance(question.get(name), str):
            raise RequestError(
                f"The driver's question has {shown(question.get(name))} as its {name}.",
                hint="Let the worker and the driver run the same version of airflow-provider-replacewhere, and nobody "
                "but the driver write into the exchange place.",
            )
