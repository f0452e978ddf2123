"""What driver and worker say to each other while an application runs: files, numbered, one answer to each question."""

from __future__ import annotations

QUESTION = "question-{}.json"
ANSWER = "answer-{}.json"

MOST_BYTES = 16 * 1024 * 1024
"""Of a question or an answer. A region has some thousand ranges at most; what is larger is nobody's letter."""

SILENCE_SECONDS = 120.0
"""A worker that has not answered for so long is taken for lost."""
