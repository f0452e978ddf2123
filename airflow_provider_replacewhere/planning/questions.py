"""What driver and worker say to each other while an application runs: files, numbered, one answer to each question."""

from __future__ import annotations

QUESTION = "question-{}.json"
ANSWER = "answer-{}.json"

SILENCE_SECONDS = 120.0
"""A worker that has not answered for so long is taken for lost."""
