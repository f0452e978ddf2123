"""Leases for a driver, which has no way to the ledger's database: it asks the worker, by files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_replacewhere.errors import LeaseLostError, ReplaceWhereError
from airflow_provider_replacewhere.planning.leasing import Overlapped, Permit
from airflow_provider_replacewhere.planning.questions import (
    ANSWER,
    QUESTION,
    SIGN,
    SIGN_SECONDS,
    SILENCE_SECONDS,
    read_answer,
)
from airflow_provider_replacewhere.predicates.region import Region
from airflow_provider_replacewhere.spark.exchange import read_text, write_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class WorkersLeases:
    """As :class:`~..planning.leasing.Leases`, from the worker that submitted this application.

    A worker that died answers nothing, so that the driver which it left behind gets no permission to commit.

    :param place: the folder of questions and answers, as the driver reaches it
    :param poll_seconds: between two looks for an answer
    :param silence_seconds: after which a worker that shows no sign of life is lost; where another may take its place,
        so long as that may take
    """

    session: SparkSession
    place: str
    poll_seconds: float = 0.1
    silence_seconds: float = SILENCE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @contextmanager
    def holding(self, target: str, flow: str, run_id: str, region: Region) -> Iterator[Permit | Overlapped]:
        """See :meth:`..planning.leasing.Leases.holding`."""
        about = {"target": target, "flow": flow, "run_id": run_id}
        asked = {"verb": "take", **about, "region": region.to_json()}
        answer = self._ask(asked, self.silence_seconds)
        if "overlapped" in answer:
            yield Overlapped(answer["overlapped"])
            return
        try:
            yield lambda: self._permit(about)
        finally:
            # Whatever comes of it: a lease that is not given back expires.
            with suppress(ReplaceWhereError):
                self._ask({"verb": "release", **about}, SILENCE_SECONDS)

    def _permit(self, about: dict[str, str]) -> None:
        self._ask({"verb": "permit", **about}, self.silence_seconds)

    def _ask(self, question: dict[str, Any], silence_seconds: float) -> dict[str, Any]:
        """The worker's answer, for which it may take as long as it shows that it is alive.

        :raises ReplaceWhereError: the worker says no
        :raises LeaseLostError: it says nothing
        """
        number = next(self._numbers)
        write_text(self.session, f"{self.place}/{QUESTION.format(number)}", json.dumps(question))
        sign, heard, looked = None, self.clock(), 0.0
        while self.clock() - heard < silence_seconds:
            text = read_text(self.session, f"{self.place}/{ANSWER.format(number)}")
            if text is not None:
                return read_answer(text, question["verb"])
            if self.clock() - looked >= SIGN_SECONDS:
                looked = self.clock()
                seen = read_text(self.session, f"{self.place}/{SIGN}")
                if seen != sign:
                    sign, heard = seen, looked
            time.sleep(self.poll_seconds)
        raise LeaseLostError(
            f"Nothing was seen of the worker that submitted this application for {silence_seconds:.0f} seconds, so "
            f"that nobody tells whether {question['flow']} may write {question['target']}.",
            hint="It may have been lost. Nothing was written; the task's next try takes a lease of its own.",
        )
