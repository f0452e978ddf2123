"""The site holds all that it promises: each argument, each reason, each error; its pieces are where its pages say."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from airflow_provider_replacewhere import errors
from airflow_provider_replacewhere.flows import clauses, settings
from airflow_provider_replacewhere.get_provider_info import CONNECTION_FIELDS, CONNECTION_TYPE, get_provider_info
from airflow_provider_replacewhere.planning.decide import Reason
from airflow_provider_replacewhere.plugin.reading import NotFoundError
from airflow_provider_replacewhere.predicates.clock import NeedsSparkError
from tests.docs import FILES, ROOT
from tools.docs_pages import PageError, excerpt, expanded, fetched_from_elsewhere
from tools.docs_reference import Docstring, UndocumentedError, markdown, reference, verbs

DOCS = ROOT / "docs"
PACKAGE = "airflow_provider_replacewhere"
# Said where it is raised; not of the enumeration, which is of decisions.
OF_AN_UNDO = "UNDO_REQUESTED"


@pytest.mark.parametrize("file", sorted(DOCS.glob("*.md")), ids=lambda file: file.name)
def test_what_a_page_names_is_there(file: Path) -> None:
    assert "<!-- " not in re.sub(r"^```.*?^```$", "", expanded(file.read_text()), flags=re.MULTILINE | re.DOTALL)


def test_the_reference_has_all_that_is_public() -> None:
    text = (DOCS / "reference.md").read_text()
    named = set(re.findall(r"<!-- reference: ([\w.]+):(\w+)", text))
    info = get_provider_info()
    modules = {module for kind in ("operators", "hooks") for each in info[kind] for module in each["python-modules"]}
    assert {module.removeprefix(f"{PACKAGE}.") for module in modules} <= {module for module, _ in named}
    names = {name for _, name in named}
    assert {
        "LocalSession",
        "create_spark_session",
        "parse_sql",
        "load_pipeline",
        "parse_predicate",
        "RunReport",
    } <= names
    assert _all_of("dags/__init__.py") <= names
    assert _all_of("flows/decorators.py") - {"collecting", "view"} <= names


def test_the_fields_of_the_connection_are_told() -> None:
    text = (DOCS / "reference.md").read_text()
    assert f"`{CONNECTION_TYPE}`" in text
    for name, field in CONNECTION_FIELDS.items():
        assert {value for value in (name, *field["schema"].get("enum", ())) if f"`{value}`" not in text} == set()


def _all_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / PACKAGE / file).read_text())
    (names,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
    return set(ast.literal_eval(names))


@pytest.mark.parametrize(
    ("what", "argument"),
    [
        ("operators.replace_where:ReplaceWhereOperator", "| `wait_seconds` | `float` | `3600.0` | how long"),
        ("operators.replace_where:ReplaceWhereOperator", "| `history_conn_id` | `str` | `'replacewhere_default'` |"),
        ("operators.undo:UndoOperator", "| `run` | `str \\| int` | required |"),
        ("hooks.predicate_history:PredicateHistoryHook methods", "#### `prune`"),
        ("local:LocalSession methods", "#### `undo`"),
        ("planning.limits:Limits", "| `max_window_days` |"),
    ],
)
def test_the_reference_tells_type_default_and_meaning(what: str, argument: str) -> None:
    assert argument in reference(what)


def test_an_argument_without_a_word_is_an_error() -> None:
    with pytest.raises(UndocumentedError, match="does not tell of decision, sources, target"):
        reference("planning.decide:planning_information")
    with pytest.raises(UndocumentedError, match="has no NoSuchOperator"):
        reference("operators.undo:NoSuchOperator")


def test_a_docstring_is_taken_apart() -> None:
    found = Docstring.parse(
        """Do it.

        :param a: one of
            :class:`~..flows.model.Flow`
        :param b: ``x | y``
        :raises RequestError: it cannot
        :return: what it did

        Afterwards :meth:`undo` helps.
        """
    )
    assert found.text == "Do it.\n\n\nAfterwards `undo` helps."
    assert found.params == {"a": "one of `Flow`", "b": "`x | y`"}
    assert found.raises == (("RequestError", "it cannot"),)
    assert found.returns == "what it did"
    assert markdown("see :meth:`~..history.store.HistoryStore.coverage`") == "see `HistoryStore.coverage`"


def test_every_verb_is_in_the_reference_of_the_command() -> None:
    text = verbs()
    assert "### `replacewhere undo`" in text
    assert "| `--on-overlap wait\\|fail\\|skip` | `wait` |" in text


@pytest.mark.parametrize(
    ("file", "name"),
    [("dags/no_such_file.py", ""), ("dags/example_backfill.py", "no_such_piece"), ("README.md", "howto_pipeline")],
)
def test_a_piece_that_is_not_there_is_an_error(file: str, name: str) -> None:
    with pytest.raises(PageError, match=re.escape(file)):
        excerpt(file, name)


def test_every_piece_of_the_example_dags_is_shown() -> None:
    marked = {
        (f"dags/{file.name}", name)
        for file in (ROOT / "dags").glob("*.py")
        for name in re.findall(r"\[START (\w+)\]", file.read_text())
    }
    shown = {
        tuple(found.split()) for file in FILES for found in re.findall(r"<!-- excerpt: (.+?) -->", file.read_text())
    }
    assert marked
    assert marked <= shown


def test_every_reason_and_every_error_is_explained() -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    reasons, _, faults = text.partition("## Errors")
    headed = [re.findall(r"^### `(\w+)`$", part, re.MULTILINE) for part in (reasons, faults)]
    assert set(headed[0]) == {*Reason, OF_AN_UNDO}
    assert set(headed[1]) == {cls.__name__ for cls in errors._all_subclasses(errors.ReplaceWhereError) if _is_ours(cls)}
    assert {NeedsSparkError.__name__, NotFoundError.__name__} <= set(headed[1])
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        assert "- **Means:**" in part
        assert "- **Do:**" in part


def _is_ours(cls: type) -> bool:
    return not cls.__name__.startswith("_") and cls.__module__.startswith(PACKAGE)


@pytest.mark.parametrize("name", [cls.__name__ for cls in errors._all_subclasses(errors.ReplaceWhereError)])
def test_what_is_said_of_retries_is_so(name: str) -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    (part,) = re.findall(rf"^### `{name}`$(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL) or [""]
    means = part.partition("- **Do:**")[0]
    cls = next(cls for cls in errors._all_subclasses(errors.ReplaceWhereError) if cls.__name__ == name)
    if _is_ours(cls) and name not in ("TerminalError", "TransientError"):
        assert ("Transient" in means, "Terminal" in means) == (cls.retryable, not cls.retryable)


def test_every_clause_setting_and_argument_of_the_language_is_described() -> None:
    text = (DOCS / "flows.md").read_text()
    words = {" ".join(clause) for clause in clauses._CLAUSES}
    words |= {settings.TIME_ZONE, settings.NULL_KEYS}
    tree = ast.parse((ROOT / PACKAGE / "flows" / "decorators.py").read_text())
    (table,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "table")
    words |= {argument.arg for argument in table.args.kwonlyargs}
    assert {word for word in words if not re.search(rf"\b{re.escape(word)}\b", text)} == set()


@pytest.mark.parametrize("file", sorted((DOCS / "images").glob("*.svg")), ids=lambda file: file.name)
def test_a_picture_says_what_it_shows_and_has_colours_for_light_and_dark(file: Path) -> None:
    picture = Xml.parse(file).getroot()
    name = "{http://www.w3.org/2000/svg}"
    assert picture.findtext(f"{name}title")
    assert picture.findtext(f"{name}desc")
    assert "prefers-color-scheme: dark" in file.read_text()
    assert fetched_from_elsewhere(file.read_text()) == []


def test_a_page_that_would_ask_another_host_is_found() -> None:
    html = """
        <link rel="stylesheet" href="assets/main.css"><link href="https://fonts.example/css" rel="stylesheet">
        <script src="assets/bundle.js"></script><img alt="" src=//cdn.example/x.png>
        <a href="https://docs.example/">a link is no asset</a><link rel="canonical" href="https://site.example/">
    """
    assert fetched_from_elsewhere(html) == ["https://fonts.example/css", "//cdn.example/x.png"]
