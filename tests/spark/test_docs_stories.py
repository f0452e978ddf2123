"""The tutorial and the recipes, run as a reader runs them: the same files, commands and code, and what they print."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_replacewhere import cli, local
from tests.docs import Block, stories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECIPES = stories("recipes.md")


class Reader:
    """Runs blocks in an empty folder, one after the other.

    A block that is a file is written; other Python is run; of ``bash``, the commands of this package and the reader's
    own scripts. A block of text is what was printed last, where ``…`` stands for anything.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: str | None = None

    def read(self, story: Iterable[Block]) -> None:
        for block in story:
            if block.language == "text":
                self._compare(block)
            elif block.file_name is not None:
                Path(block.file_name).write_text(block.text)
            elif block.language == "python":
                self.run(block)
            elif block.language == "bash":
                for line in block.text.splitlines():
                    self._command(shlex.split(line), block)

    def run(self, block: Block) -> None:
        """Run Python in the names of what was run before."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block.text, str(block), "exec"), self.names)
        self.printed = printed.getvalue()

    def _command(self, words: list[str], block: Block) -> None:
        program, *arguments = words
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if program == "replacewhere":
                assert cli.main(arguments) == 0, block
            else:
                assert program == "python", f"{block}: nothing runs {program}"
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(sys, "argv", arguments)
                    runpy.run_path(arguments[0], run_name="__main__")
        self.printed = printed.getvalue()

    def _compare(self, block: Block) -> None:
        assert self.printed is not None, f"{block}: nothing was printed before"
        pattern = ".*?".join(re.escape(part) for part in _words(block.text).split("…"))
        assert re.fullmatch(pattern, _words(self.printed)), f"{block}\n{self.printed}"


def _words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def reader(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.chdir(tmp_path)
    # A reader's scripts start a session each.
    monkeypatch.setattr(local, "create_spark_session", lambda **_: spark)
    return Reader()


def test_the_tutorial_prints_what_it_says(reader: Reader) -> None:
    sections = stories("tutorial.md")
    for title in [title for title in sections if re.match(r"\d", title)]:
        if "Airflow" not in title:  # a Dag's, see tests/airflow
            reader.read(sections[title])


@pytest.mark.parametrize("title", [title for title in RECIPES if title], ids=str)
def test_a_recipe_prints_what_it_says(reader: Reader, title: str) -> None:
    (setup,) = RECIPES[""]
    reader.run(setup)
    reader.read(RECIPES[title])
