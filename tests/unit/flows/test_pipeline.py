"""Pipelines from files and arguments, and the order of their flows."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows import (
    TableName,
    check,
    combine,
    flow_from_arguments,
    load_pipeline,
    order,
    parse_sql,
    parse_table_name,
    references,
)
from airflow_provider_replacewhere.flows.pipeline import pipeline_of_documents
from airflow_provider_replacewhere.text import Document

TABLE = "CREATE STREAMING TABLE {} FLOW REPLACE WHERE d > 1 BY NAME SELECT * FROM {};"

# In Spark, a line comment goes on behind a backslash at its end.
UNREAD = "SELECT x, a -- as it was: \\\n ( \nFROM raw"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.sql").write_text(TABLE.format("b", "a"))
    (tmp_path / "a.sql").write_bytes(b"\xef\xbb\xbf" + TABLE.format("a", "raw").encode())
    (tmp_path / "c.py").write_text("1 / 0  # not run")
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "notes.txt").write_text("no pipeline")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.sql").write_text(TABLE.format("d", "b"))
    return tmp_path


def test_a_folder_gives_its_files_by_name(folder: Path) -> None:
    pipeline = load_pipeline(folder)
    assert [flow.name for flow in pipeline.flows] == ["a", "b"]
    assert [Path(document.name).name for document in pipeline.documents] == ["a.sql", "b.sql", "c.py"]
    assert [document.text for document in pipeline.python] == ["1 / 0  # not run"]


def test_files_folders_and_patterns_together_give_each_file_once(folder: Path) -> None:
    pipeline = load_pipeline([folder / "b.sql", str(folder), f"{folder}/**/*.sql"])
    assert [flow.name for flow in pipeline.flows] == ["b", "a", "d"]
    assert len(pipeline.python) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.sql", "There is no file {}/missing.sql."),
        ("x*.sql", "No file fits {}/x*.sql."),
        ("notes.txt", "{}/notes.txt is neither SQL nor Python.\nA pipeline file ends in .sql or .py."),
        ("empty", "The folder {}/empty holds no *.sql and no *.py file.\nName another folder."),
        ("latin.sql", "{}/latin.sql is not UTF-8 text.\nByte 3 is at fault."),
    ],
)
def test_what_cannot_be_read_is_named(folder: Path, path: str, message: str) -> None:
    (folder / "empty").mkdir()
    (folder / "latin.sql").write_bytes("-- é".encode("latin-1"))
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(folder / path)
    assert str(caught.value) == message.format(folder)


def test_a_relative_path_that_is_missing_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError, match=f"There is no file x.sql.\nRelative paths begin in {tmp_path}."):
        load_pipeline("x.sql")


def test_no_path_is_refused() -> None:
    with pytest.raises(DefinitionError, match="No pipeline file is named"):
        load_pipeline([])


def test_flow_and_table_may_be_in_two_files() -> None:
    flow = parse_sql(
        "SET replacewhere.timeZone = Asia/Seoul; CREATE FLOW f AS INSERT INTO t BY NAME REPLACE WHERE d > 1 SELECT 1"
    )
    table = parse_sql("CREATE STREAMING TABLE T PARTITIONED BY (d) TBLPROPERTIES (replacewhere.nullKeys = include)")
    (found,) = combine(flow, table).flows
    assert (found.table.partitioned_by, found.null_keys, found.time_zone) == (("d",), "include", "Asia/Seoul")


def test_settings_of_one_file_leave_flows_of_another_alone() -> None:
    one = parse_sql("SET replacewhere.timeZone = Asia/Seoul;" + TABLE.format("a", "x"))
    two = parse_sql(TABLE.format("b", "x"), time_zone="Europe/Oslo")
    assert [flow.time_zone for flow in combine(one, two).flows] == ["Asia/Seoul", "Europe/Oslo"]


def test_two_files_with_two_values_for_one_key_are_refused() -> None:
    with pytest.raises(DefinitionError, match="k is set to '1' in one file and to '2' in another"):
        combine(parse_sql("SET k = 1"), parse_sql("SET k = 2"))


def test_a_refresh_waits_for_the_python_files() -> None:
    refresh = Document("r.sql", "REFRESH STREAMING TABLE t")
    check(pipeline_of_documents([refresh, Document("t.py", "# declares t")]))
    with pytest.raises(DefinitionError, match="No flow feeds t"):
        check(pipeline_of_documents([refresh]))


def test_flows_come_behind_those_that_they_read() -> None:
    pipeline = parse_sql(
        TABLE.format("d", "v")
        + "CREATE VIEW v AS SELECT * FROM w JOIN x; CREATE VIEW w AS TABLE C;"
        + TABLE.format("c", "b")
        + TABLE.format("first", "raw")
        + TABLE.format("b", "raw")
    )
    check(pipeline)
    assert [flow.name for flow in order(pipeline)] == ["b", "c", "d", "first"]


def test_a_guess_never_makes_a_circle() -> None:
    # sqlglot cannot parse this; every name behind FROM or a comma counts then, also one that is a column.
    check(parse_sql(f"CREATE STREAMING TABLE a FLOW REPLACE WHERE d > 1 BY NAME {UNREAD}"))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT /*+ BROADCAST(p) */ * FROM s.o JOIN p USING (x), o", ["s.o", "p", "o"]),
        (
            "WITH c AS (SELECT * FROM t), d AS (SELECT * FROM c) SELECT * FROM d WHERE EXISTS (SELECT 1 FROM e)",
            ["e", "t"],
        ),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT * FROM c) SELECT * FROM c", []),
        ("SELECT * FROM (WITH u AS (SELECT 1) SELECT * FROM u) JOIN u", ["u"]),
        ("SELECT * FROM delta.`/a b/p`, range(3), (VALUES (1)) v", ["delta.`/a b/p`"]),
        ("FROM t |> WHERE x IN (SELECT y FROM z)", ["t", "z"]),
    ],
)
def test_references_are_tables_and_views(query: str, names: list[str]) -> None:
    found = references(query)
    assert found is not None
    assert sorted(map(str, found)) == sorted(names)


@pytest.mark.parametrize("query", [UNREAD, "TABLE t", "SELEC 1"])
def test_references_of_what_cannot_be_parsed_are_unknown(query: str) -> None:
    assert references(query) is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("t",)),
        (" c . s.`t``x` -- table\n", ("c", "s", "t`x")),
        ("delta.`/p/q r`", ("delta", "/p/q r")),
        ("2x.select", ("2x", "select")),
    ],
)
def test_table_names(text: str, parts: tuple[str, ...]) -> None:
    name = parse_table_name(text)
    assert name == TableName(parts)
    assert parse_table_name(str(name)) == parse_table_name(name.to_sql()) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The table's name is empty.\nWrite a name such as schema.table."),
        ("a.", "Expected the next part of the table's name, the statement ends."),
        ("a b", "Expected the end of the table's name, found b."),
        ("a; DROP TABLE b", "Expected the end of the table's name, found ;."),
        ("a-b", "The table's name holds a hyphen, which Spark reads as minus."),
        ("'a'", "Expected the table's name, found 'a'."),
    ],
)
def test_what_is_no_table_name(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_table_name(text)
    assert message in str(caught.value)


def test_arguments_make_a_flow() -> None:
    flow = flow_from_arguments(
        target="shop.sales",
        replace_where=" day > 1 ",
        query="SELECT 1 ;\n",
        partitioned_by=["day"],
        properties={"replacewhere.timeZone": "Asia/Tokyo", "x": "y"},
        null_keys="drop",
    )
    assert (flow.name, flow.target.parts, flow.table.partitioned_by) == ("shop.sales", ("shop", "sales"), ("day",))
    assert flow.query is not None
    assert (flow.replace_where.text, flow.query.text) == ("day > 1", "SELECT 1")
    assert (flow.replace_where.where, flow.query.where) == ("replace_where argument:1:2", "query argument:1:1")
    assert (flow.time_zone, flow.null_keys) == ("Asia/Tokyo", "drop")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "a b"}, "target argument:1:3: Expected the end of target argument, found b."),
        ({"replace_where": " ; "}, "The argument replace_where is empty."),
        ({"query": ""}, "The argument query is empty."),
        ({"time_zone": "Mars"}, "time_zone argument:1:1: 'Mars' is no time zone."),
        ({"partitioned_by": ["a"], "clustered_by": ["b"]}, "A Delta table is either partitioned or clustered."),
        ({"properties": {"replacewhere.x": "1"}}, "properties argument:1:1: There is no setting replacewhere.x."),
    ],
)
def test_arguments_that_make_no_flow(change: dict[str, object], message: str) -> None:
    given = {"target": "t", "replace_where": "d > 1", "query": "SELECT 1", **change}
    with pytest.raises(DefinitionError) as caught:
        flow_from_arguments(**given)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
