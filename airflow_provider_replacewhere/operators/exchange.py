"""The place through which worker and driver exchange a request and an outcome, once per try of a task."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from airflow_provider_replacewhere.errors import RequestError, SubmitError
from airflow_provider_replacewhere.operators.cluster import Cluster
from airflow_provider_replacewhere.planning.questions import APPLICATION, MOST_BYTES
from airflow_provider_replacewhere.planning.report import Application, JobOutcome
from airflow_provider_replacewhere.planning.request import RunRequest

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import ObjectStoragePath


MOST_OUTCOME_BYTES = 128 * 1024 * 1024
"""Of an outcome. That of a run has some thousand bytes for each flow, and as many for each commit that was found in a
target's log; what is much larger would only fill this worker's memory."""

KEPT_REQUEST = "request.json"
"""The request of an application that another worker may take up, beside its outcome."""

_NOBODY_ELSE = "Let nobody but the driver write where {} is."


@dataclass(frozen=True)
class Exchange:
    """Where one application's request lies and where its outcome will be.

    :param folder: a local folder of this try alone, readable by this user only
    :param run_id: the application's own id
    :param place: the outcome as this worker reads it: a local path, or a URI that may name an Airflow connection
    :param report_uri: the outcome as the driver writes it: the same without the connection
    """

    folder: Path
    run_id: str
    place: str
    report_uri: str
    _seen: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def questions_uri(self) -> str:
        """The folder in which the driver asks this worker, as the driver reaches it."""
        return f"{self.report_uri.rpartition('/')[0]}/questions"

    @property
    def is_local(self) -> bool:
        """Whether worker and driver meet in a folder."""
        return _is_local(self.place)

    def read(self, name: str) -> str | None:
        """A question of the driver; None where there is none (yet). See :class:`.answering.Letters`.

        :raises RequestError: it is too large to be one
        """
        try:
            text = _read(self._letter(name), MOST_BYTES)
        except FileNotFoundError:
            return None
        if text is None:
            raise RequestError(
                f"The driver's question {name} has more than {MOST_BYTES} bytes.", hint=_NOBODY_ELSE.format(self.place)
            )
        return text

    def application(self) -> Application | None:
        """Where the driver says that it can be looked at; None where it says nothing that can be read."""
        try:
            text = self.read(APPLICATION)
            return None if text is None else Application.from_json(json.loads(text))
        except (RequestError, TypeError, ValueError, RecursionError):
            return None

    def write(self, name: str, text: str) -> None:
        """An answer to the driver, or a sign of life, for which the driver may have made no folder yet."""
        _write(self._letter(name), text)

    def _letter(self, name: str) -> Path | ObjectStoragePath:
        return self._beside(f"questions/{name}")

    def _beside(self, name: str) -> Path | ObjectStoragePath:
        place = f"{self.place.rpartition('/')[0]}/{name}"
        return _local(place) if self.is_local else _remote(place)

    @property
    def request_file(self) -> Path:
        return self.folder / f"replacewhere-request-{self.run_id}.json"

    def put(self, request: RunRequest, *, keep: bool = False) -> None:
        """Write the request to the local file that ``--files`` sends.

        :param keep: also beside where the outcome will be, for a worker that takes the application up
        :raises SubmitError: there is no room for it
        """
        text = request.to_json()
        try:
            self.request_file.touch(mode=0o600)  # it holds predicates and queries, whatever becomes of its folder
            self.request_file.write_text(text, encoding="utf-8")
            if keep:
                _write(self._beside(KEPT_REQUEST), text)
        except OSError as error:
            raise SubmitError(
                f"The request of {len(text)} bytes cannot be written for the Spark driver: {error}.",
                hint=f"Nothing was started. Make room and let this worker write in {self.folder.parent}"
                + (f" and {self.place.rpartition('/')[0]}." if keep else "."),
            ) from error

    def kept_request(self) -> RunRequest:
        """What another worker asked of this application.

        :raises SubmitError: it is not there (any more), or cannot be reached
        :raises RequestError: it is of another version, or too large to be a request
        """
        place = self._beside(KEPT_REQUEST)
        try:
            text = _read(place, MOST_OUTCOME_BYTES)
        except Exception as error:  # whatever a store's client raises
            raise SubmitError(f"The request of the application {self.run_id} cannot be read: {error}") from error
        if text is None:
            raise RequestError(
                f"The request at {place} has more than {MOST_OUTCOME_BYTES} bytes.",
                hint=_NOBODY_ELSE.format(self.place),
            )
        return RunRequest.from_json(text)

    def outcome(self) -> JobOutcome:
        """What the driver wrote.

        :raises SubmitError: nothing is there, it is cut off, or it cannot be reached
        :raises RequestError: it is of another version, of another application, or too large to be an outcome
        """
        text = self._read()
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SubmitError(
                f"The outcome of the Spark application at {self.place} is no JSON document, or is cut off after "
                f"{len(text)} characters.",
                hint="The driver ended while it wrote it. A commit that it had made says so in its own metadata"
                " (DESCRIBE HISTORY, userMetadata). The next try runs the flows again.",
            ) from error
        outcome = JobOutcome.from_json(text)
        if outcome.run_id != self.run_id:
            raise RequestError(
                f"The outcome at {self.place} belongs to the application {outcome.run_id}, not to {self.run_id}.",
                hint=_NOBODY_ELSE.format(self.place),
            )
        return outcome

    def outcome_so_far(self) -> JobOutcome | None:
        """What the driver has done by now; None where it is nothing new, or nothing that can be read (yet).

        :raises Exception: whatever a store's client raises
        """
        try:
            text = _read(_local(self.place) if self.is_local else _remote(self.place), MOST_OUTCOME_BYTES)
            if text is None or hash(text) == self._seen.get("outcome"):
                return None
            outcome = JobOutcome.from_json(text)
        except (FileNotFoundError, ValueError, RequestError):
            return None
        self._seen["outcome"] = hash(text)
        return outcome if outcome.run_id == self.run_id else None

    def discard_folder(self) -> None:
        """Remove what this try left on this worker alone."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def discard(self) -> None:
        """Remove what this try left. A remote outcome that cannot be removed is not worth a failure."""
        self.discard_folder()
        if _is_local(self.place):
            shutil.rmtree(_local(self.place).parent, ignore_errors=True)
            return
        with suppress(Exception):  # whatever a store's client raises
            _remote(self.place).parent.rmdir(recursive=True)

    def _read(self) -> str:
        try:
            text = _read(_local(self.place) if self.is_local else _remote(self.place), MOST_OUTCOME_BYTES)
        except FileNotFoundError as error:
            raise SubmitError(
                f"The Spark application ended without an outcome at {self.place}.",
                hint="Look into this task's log above for what spark-submit said"
                + (", and check that driver and worker both reach the exchange place." if self._shared else "."),
            ) from error
        except Exception as error:
            raise SubmitError(
                f"The outcome of the Spark application at {self.place} cannot be read: {error}",
                hint="Check that this worker has the provider and the credentials for that place.",
            ) from error
        if text is None:
            raise RequestError(
                f"The outcome at {self.place} has more than {MOST_OUTCOME_BYTES} bytes, which is no outcome of a run.",
                hint=_NOBODY_ELSE.format(self.place)
                + " What was committed says so in its own metadata (DESCRIBE HISTORY, userMetadata).",
            )
        return text

    @property
    def _shared(self) -> bool:
        return not _is_local(self.place) or _local(self.place).parent != self.folder


def open_exchange(run_id: str, cluster: Cluster, exchange: str | None) -> Exchange:
    """A fresh exchange for one application.

    :param run_id: the application's own id, used as the name of its folder
    :param exchange: a folder that driver and worker both reach: a path, or a URI (``s3a://connection@bucket/folder``);
        None: a local folder, enough where the driver is a process of this worker
    :raises RequestError: the driver will run elsewhere and no exchange is given
    :raises SubmitError: the local folder cannot be made
    """
    if cluster.is_remote and not exchange:
        raise RequestError(
            f"With deploy mode 'cluster' ({cluster.master}) the driver cannot write its outcome to this worker's disk.",
            hint="Give the operator exchange=, a folder that both sides reach, such as s3a://bucket/replacewhere.",
        )
    try:
        folder = Path(tempfile.mkdtemp(prefix="replacewhere-"))
        if not exchange:
            place = str(folder / "outcome.json")
        else:
            place = f"{exchange.rstrip('/')}/{run_id}/outcome.json"
            if _is_local(place):
                _local(place).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SubmitError(
            f"There is no place for the exchange with the Spark driver: {error}.",
            hint=f"Make {exchange or tempfile.gettempdir()} writable for this worker.",
        ) from error
    return Exchange(folder, run_id, place, _without_connection(place))


def reopen_exchange(run_id: str, place: str) -> Exchange:
    """The exchange of an application that another worker submitted.

    :param place: of its outcome, as that worker read it
    """
    return Exchange(Path(tempfile.mkdtemp(prefix="replacewhere-")), run_id, place, _without_connection(place))


def _without_connection(place: str) -> str:
    if _is_local(place):
        return place
    parts = urlsplit(place)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _is_local(place: str) -> bool:
    return "://" not in place or place.startswith("file://")


def _read(place: Path | ObjectStoragePath, most: int) -> str | None:
    """The text of a file; None where it has more bytes than may be."""
    with place.open("rb") as file:
        content: bytes = file.read(most + 1)
    return None if len(content) > most else content.decode("utf-8")


def _write(place: Path | ObjectStoragePath, text: str) -> None:
    """Write a file, whole or not at all."""
    if not isinstance(place, Path):
        place.write_text(text, encoding="utf-8")  # an object is there whole or not at all
        return
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(place)


def _local(place: str) -> Path:
    return Path(place.removeprefix("file://"))


def _remote(place: str) -> ObjectStoragePath:
    # Brings fsspec along: only where a place is remote.
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    return ObjectStoragePath(place)
