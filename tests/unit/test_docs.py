"""What the documentation says is there, parses, and can be called as it is written."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_replacewhere.cli.arguments import build_parser
from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows import check, parse_sql
from airflow_provider_replacewhere.text import Document
from tests.docs import FILES, ROOT, Block, blocks

OPERATORS = ROOT / "airflow_provider_replacewhere" / "operators"
# Arguments of Airflow's own operators that the documentation uses.
INHERITED = {"task_id", "outlets", "conf", "conn_id", "packages", "deploy_mode"}


@pytest.mark.parametrize("block", blocks("sql"), ids=str)
def test_sql_declares_flows(block: Block) -> None:
    pipeline = parse_sql(Document(str(block), block.text))
    check(pipeline)
    assert pipeline.flows


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles_and_calls_operators_with_arguments_that_they_have(block: Block) -> None:
    known = INHERITED | _arguments("replace_where.py")
    takes = {
        "ReplaceWhereOperator": known,
        "BackfillOperator": known | _arguments("backfill.py"),
        "UndoOperator": known | _arguments("undo.py"),
    }
    for call in ast.walk(ast.parse(block.text)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in takes:
            assert {keyword.arg for keyword in call.keywords} <= takes[call.func.id]


def test_the_parameters_of_the_operators_are_all_documented() -> None:
    text = (ROOT / "docs" / "operators.md").read_text()
    own = _arguments("replace_where.py") | _arguments("backfill.py")
    assert {name for name in own if f"`{name}" not in text} - {"name", "durable"} == set()


def _arguments(file: str) -> set[str]:
    tree = ast.parse((OPERATORS / file).read_text())
    init = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    return {argument.arg for argument in init.args.kwonlyargs}


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    for block in blocks("bash"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if line.startswith(f"{program} ") else []
            if words:
                yield str(block), words[1:]


@pytest.mark.parametrize("words", [words for _, words in commands("replacewhere")], ids=" ".join)
def test_the_command_takes_the_arguments_as_written(words: list[str]) -> None:
    assert build_parser().parse_args(words).verb == words[0]


def test_every_verb_and_argument_of_the_command_is_documented() -> None:
    text = (ROOT / "docs" / "command.md").read_text()
    parser = build_parser()
    (verbs,) = (action.choices for action in parser._actions if action.dest == "verb")
    assert verbs is not None
    for name, of_verb in verbs.items():  # type: ignore[attr-defined]
        assert f"| `{name}` |" in text
        flags = {flag for action in of_verb._actions for flag in action.option_strings} - {"-h", "--help"}
        assert {flag for flag in flags if flag not in text} - {"--column-type"} == set()


def test_the_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for file in FILES for word in re.findall(r"`make ([a-z][a-z-]*)`", file.read_text())}
    named |= {words[0] for _, words in commands("make")}
    assert named
    assert named <= targets


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_links_and_paths_lead_somewhere(file: Path) -> None:
    text = file.read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    # Paths in code that begin with a folder of this checkout.
    folders = "airflow_provider_replacewhere|constraints|dags|docs|tests|tools|\\.ci"
    paths = [p for p in re.findall(rf"`((?:{folders})/[\w./*-]*)`", text) if "NNNN" not in p]
    missing = [link for link in links if not (file.parent / link).exists()]
    missing += [path for path in paths if not list(ROOT.glob(path.rstrip("/")))]
    assert missing == []


def test_the_example_of_an_error_is_what_the_language_says() -> None:
    (shown,) = (block.text for block in blocks("") if block.text.startswith("flows/daily.sql"))
    with pytest.raises(DefinitionError) as error:
        parse_sql(
            "CREATE STREAMING TABLE t\nFLOW REPLACE WHERE d > '2026-01-01'\nSELECT d FROM s;\n", "flows/daily.sql"
        )
    assert str(error.value) == shown.rstrip("\n")


def test_the_readmes_first_flow_is_the_examples() -> None:
    readme = parse_sql(blocks("sql")[0].text).flows[0]
    example = parse_sql((ROOT / "dags" / "pipelines" / "daily_rides.sql").read_text()).flows[0]
    assert readme.query is not None
    assert example.query is not None
    assert readme.replace_where.text == example.replace_where.text
    assert readme.query.text.split() == example.query.text.split()
