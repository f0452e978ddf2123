"""What lies in the exchange place is anybody's who can write there: read with care, and never taken for a yes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_replacewhere.errors import (
    LeaseLostError,
    RegionHeldError,
    ReplaceWhereError,
    RequestError,
    SubmitError,
)
from airflow_provider_replacewhere.operators.cluster import Cluster
from airflow_provider_replacewhere.operators.exchange import MOST_OUTCOME_BYTES, Exchange, open_exchange
from airflow_provider_replacewhere.planning.questions import APPLICATION, MOST_BYTES, read_answer
from airflow_provider_replacewhere.planning.report import Application, JobOutcome, RunReport
from airflow_provider_replacewhere.planning.request import RunRequest
from airflow_provider_replacewhere.spark.exchange import read_text
from tests.disk import full_disk
from tests.history import failure, report

LOCAL = Cluster("local[2]", "client")
NESTED = "[" * 200_000
NO_OBJECTS = ["null", "7", "true", '"text"', "[]", "[1]", NESTED]


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    exchange = open_exchange("app", LOCAL, None)
    yield exchange
    exchange.discard()


def outcome() -> dict[str, Any]:
    value = json.loads(JobOutcome("app", (report("app/daily"),), (failure("app/other"),)).to_json())
    assert isinstance(value, dict)
    return value


def request() -> dict[str, Any]:
    value = json.loads(RunRequest("app", datetime(2026, 3, 10, tzinfo=UTC)).to_json())
    assert isinstance(value, dict)
    return value


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_disk_that_is_full_takes_no_request(exchange: Exchange) -> None:
    asked = RunRequest("app", datetime(2026, 3, 10, tzinfo=UTC))
    with full_disk(), pytest.raises(SubmitError, match=r"cannot be written for the Spark driver: .*File too large"):
        exchange.put(asked)
    exchange.put(asked)
    assert RunRequest.from_json(exchange.request_file.read_text()) == asked


# -- letters -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [*NO_OBJECTS, "{", "", "{}", '{"id": 5}', '{"id": "a", "ui": 5}', '{"id": "a", "is_logged": "yes"}']
)
def test_an_application_that_introduces_itself_in_another_form_is_not_linked(exchange: Exchange, text: str) -> None:
    assert exchange.application() is None
    exchange.write(APPLICATION, text)
    assert exchange.application() is None


def test_an_application_that_introduces_itself_can_be_looked_at(exchange: Exchange) -> None:
    exchange.write(APPLICATION, json.dumps({"id": "local-17", "ui": "http://worker:4040", "is_logged": True}))
    assert exchange.application() == Application("local-17", "http://worker:4040", is_logged=True)


# -- outcomes ----------------------------------------------------------------------------------------------------------


def test_every_cut_of_an_outcome_is_told(exchange: Exchange) -> None:
    text = json.dumps(outcome())
    for length in (0, 1, len(text) // 2, len(text) - 1):
        Path(exchange.place).write_text(text[:length])
        with pytest.raises(SubmitError, match=rf"or is cut off after {length} characters"):
            exchange.outcome()
    Path(exchange.place).write_text(text)
    assert exchange.outcome() == JobOutcome.from_json(text)


@pytest.mark.parametrize("text", NO_OBJECTS)
def test_an_outcome_of_another_form_is_refused(exchange: Exchange, text: str) -> None:
    Path(exchange.place).write_text(text)
    with pytest.raises((RequestError, SubmitError), match=r"is not a report document|is no JSON document"):
        exchange.outcome()


def test_an_outcome_that_is_no_text_is_an_error_that_says_where(exchange: Exchange) -> None:
    Path(exchange.place).write_bytes(b"\x80\x00\xff" * 100)
    with pytest.raises(SubmitError, match=r"outcome\.json cannot be read"):
        exchange.outcome()


def test_an_outcome_that_would_fill_the_workers_memory_is_not_read(exchange: Exchange) -> None:
    with Path(exchange.place).open("wb") as file:
        file.truncate(MOST_OUTCOME_BYTES + 1)  # takes no room on the disk
    with pytest.raises(RequestError, match=f"has more than {MOST_OUTCOME_BYTES} bytes"):
        exchange.outcome()


@pytest.mark.parametrize("part", sorted(outcome()))
@pytest.mark.parametrize("value", [5, "text", [5], [None], {"a": 1}, [{}], [[]]], ids=repr)
def test_a_part_of_an_outcome_of_another_form_is_refused(part: str, value: Any) -> None:
    if (part, value) in (("run_id", "text"),):
        return
    with pytest.raises(RequestError) as refused:
        JobOutcome.from_json(json.dumps({**outcome(), part: value}))
    assert len(str(refused.value)) < 2_000


@pytest.mark.parametrize("part", sorted(outcome()["reports"][0]))
def test_a_part_of_a_report_of_another_form_is_refused(part: str) -> None:
    good = outcome()["reports"][0]
    for value in (5.5, [5], {"a": [1]}):
        if isinstance(value, dict) and isinstance(RunReport.from_json(good).to_json()[part], dict | None):
            continue  # objects whose content is read where it is needed
        with pytest.raises(RequestError, match="The run report cannot be read"):
            RunReport.from_json({**good, part: value})


@pytest.mark.parametrize("error", ["text", 5, {"type": "WriteError"}, {"message": 5}, [1]])
def test_a_failure_without_words_is_refused(error: Any) -> None:
    for broken in (
        {**outcome(), "error": error},
        {**outcome(), "failures": [{**outcome()["failures"][0], "error": error}]},
    ):
        with pytest.raises(RequestError, match="is not a report document"):
            JobOutcome.from_json(json.dumps(broken))


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_can_be_read_by_its_owner_alone(exchange: Exchange) -> None:
    before = os.umask(0)
    try:
        exchange.put(RunRequest("app", datetime(2026, 3, 10, tzinfo=UTC)))
    finally:
        os.umask(before)
    assert stat.S_IMODE(exchange.request_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(exchange.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", [*NO_OBJECTS, "", "{", "{}", '{"version": 99}', '{"version": 1}'])
def test_a_request_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="The run request "):
        RunRequest.from_json(text)


@pytest.mark.parametrize("part", ["documents", "overrides", "select", "previous", "coverage", "identity", "limits"])
@pytest.mark.parametrize("value", [None, 5, "text", [5], {"a": 1}, {"a": None}], ids=repr)
def test_a_part_of_a_request_of_another_form_is_refused(part: str, value: Any) -> None:
    if part == "select" and value == [5]:
        return
    with pytest.raises(RequestError, match="lacks a part, has one too many, or one of another form"):
        RunRequest.from_json(json.dumps({**request(), part: value}))


@pytest.mark.parametrize("value", [5, "text", [1], {"target": "t"}], ids=repr)
def test_arguments_of_another_form_are_refused(value: Any) -> None:
    with pytest.raises(RequestError, match="of another form"):
        RunRequest.from_json(json.dumps({**request(), "arguments": value}))


# -- questions and answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["take", "permit", "release"])
@pytest.mark.parametrize("text", [*NO_OBJECTS, "", "{", '""', "[[]]", '{"a": 1}', '{"error": null}', '{"error": "no"}'])
def test_only_an_empty_object_is_a_permission(verb: str, text: str) -> None:
    with pytest.raises(RequestError, match="The worker's answer about a lease"):
        read_answer(text, verb)
    assert read_answer("{}", verb) == {}


def test_that_others_are_in_the_region_is_no_permission() -> None:
    assert read_answer('{"overlapped": "flow a"}', "take") == {"overlapped": "flow a"}
    with pytest.raises(RequestError, match="overlapped"):
        read_answer('{"overlapped": "flow a"}', "permit")


def test_a_no_of_the_worker_comes_back_as_it_was_meant() -> None:
    with pytest.raises(LeaseLostError, match="gone"):
        read_answer(json.dumps({"error": LeaseLostError("gone").to_json()}), "permit")
    for odd in ({"type": ["x"], "message": 5}, {"message": "gone"}, {}):
        with pytest.raises(ReplaceWhereError):
            read_answer(json.dumps({"error": odd}), "permit")
    with pytest.raises(RegionHeldError):
        read_answer(json.dumps({"error": RegionHeldError("held").to_json()}), "take")


def test_a_question_that_would_fill_the_workers_memory_is_not_read(exchange: Exchange) -> None:
    folder = Path(exchange.questions_uri)
    folder.mkdir()
    with (folder / "question-1.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(RequestError, match=f"question-1.json has more than {MOST_BYTES} bytes"):
        exchange.read("question-1.json")
    assert exchange.read("question-2.json") is None


def test_an_answer_that_would_fill_the_drivers_memory_is_not_read(tmp_path: Path) -> None:
    answer = tmp_path / "answer-1.json"
    session: Any = None  # files of this machine are read without Spark
    assert read_text(session, str(answer)) is None
    answer.write_text("{}")
    assert read_text(session, str(answer)) == "{}"
    with answer.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(RequestError, match=f"has {MOST_BYTES + 1} bytes, which is no answer"):
        read_text(session, answer.as_uri())
