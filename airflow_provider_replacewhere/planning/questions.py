"""What driver and worker say to each other while an application runs: files, numbered, one answer to each question."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_replacewhere.errors import RequestError, error_from_json
from airflow_provider_replacewhere.text import shown

QUESTION = "question-{}.json"
ANSWER = "answer-{}.json"

APPLICATION = "application.json"
"""The driver's first letter, which wants no answer: where the application can be looked at while it runs."""

MOST_BYTES = 16 * 1024 * 1024
"""Of a question or an answer. A region has some thousand ranges at most; what is larger is nobody's letter."""

SIGN = "alive.json"
"""The worker's sign of life, another text each time: it may have to wait for other runs before it can answer."""

SIGN_SECONDS = 5.0
"""Between two signs of life."""

SILENCE_SECONDS = 120.0
"""A worker of which nothing was seen for so long is taken for lost."""


def read_answer(text: str, verb: str) -> dict[str, Any]:
    """The worker's answer: an empty object is a yes, and nothing else is.

    :param verb: of the question; only to ``take`` may the answer be that others are in the region
    :raises ReplaceWhereError: the worker says no
    :raises RequestError: this is no answer, so there is no permission
    """
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"The worker's answer about a lease cannot be read: {error}.", hint=_HINT) from error
    if isinstance(answer, dict):
        if isinstance(answer.get("error"), dict):
            raise error_from_json(answer["error"])
        if not answer or (verb == "take" and set(answer) == {"overlapped"}):
            return answer
    raise RequestError(f"The worker's answer about a lease is {shown(answer)}.", hint=_HINT)


_HINT = (
    "Nothing was written. Let the worker and the driver run the same version of airflow-provider-replacewhere, and "
    "nobody but the worker answer in the exchange place."
)
