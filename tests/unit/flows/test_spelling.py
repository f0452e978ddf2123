"""However a statement is spelled, it means the same."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows import Flow, Pipeline, parse_sql
from airflow_provider_replacewhere.flows.model import Refresh, Table, View
from airflow_provider_replacewhere.flows.scan import scan
from airflow_provider_replacewhere.text import Document, Span

# Lists of tokens; those in lower case are the user's own and keep their spelling.
NAMES = st.sampled_from(["sales", "`a b`", "shop.sales", "`x;y`.`select`", "delta.`/p/q`"])
PREDICATES = st.sampled_from([["d", ">", "1"], ["d", "in", "(", "1", ",", "2", ")"], ["x", "=", "'BY NAME ; it''s'"]])
QUERIES = st.sampled_from(
    [
        ["select", "*", "from", "o"],
        ["(", "select", "1", ")"],
        ["with", "q", "as", "(", "select", "1", ")", "table", "q"],
    ]
)
CLAUSES = st.lists(
    st.sampled_from(
        [
            ("SCHEDULE", "EVERY", "3", "DAYS"),
            ("SCHEDULE", "REFRESH", "CRON", "'0 0 1 * * ?'", "AT", "TIME", "ZONE", "'UTC'"),
            ("COMMENT", "'a -- b'"),
            ("PARTITIONED", "BY", "(", "d", ")"),
            ("TBLPROPERTIES", "(", "'k'", "=", "'/*'", ",", "a.b", "TRUE", ")"),
        ]
    ),
    unique_by=lambda clause: clause[0],
)
COLUMNS = st.sampled_from(
    [
        [],
        ["(", "d", "date", "NOT", "NULL", ",", "`x y`", "int", "COMMENT", "'c'", ")"],
        [
            "(",
            "d",
            "int",
            ",",
            "CONSTRAINT",
            "c",
            "EXPECT",
            "(",
            "(",
            "d",
            ")",
            ">",
            "1",
            ")",
            "ON",
            "VIOLATION",
            "DROP",
            "ROW",
            ")",
        ],
    ]
)


@st.composite
def statements(draw: st.DrawFn) -> list[str]:
    name, predicate, query = [draw(NAMES)], draw(PREDICATES), draw(QUERIES)
    table = ["CREATE", "STREAMING", "TABLE", *name, *draw(COLUMNS), *(w for c in draw(CLAUSES) for w in c)]
    return draw(
        st.sampled_from(
            [
                table,
                [*table, "FLOW", "REPLACE", "WHERE", *predicate, "BY", "NAME", *query],
                [
                    "CREATE",
                    "FLOW",
                    "f",
                    "AS",
                    "INSERT",
                    "INTO",
                    *name,
                    "BY",
                    "NAME",
                    "REPLACE",
                    "WHERE",
                    *predicate,
                    *query,
                ],
                ["CREATE", "OR", "REPLACE", "TEMPORARY", "VIEW", "v", "AS", *query],
                ["REFRESH", "STREAMING", "TABLE", *name, "WHERE", *predicate, "ASYNC"],
                ["SET", "a.b", "=", "'c;d'"],
            ]
        )
    )


GAPS = st.sampled_from([" ", "\n", "\t ", " /* a; ' */ ", " -- it's; `\n", "\n/* /* ; */ */\n", "\r\n"])


@st.composite
def spelled(draw: st.DrawFn, words: list[str]) -> str:
    cased = (
        word if not (word.isalpha() and word.isupper()) else draw(st.sampled_from([word, word.lower(), word.title()]))
        for word in words
    )
    return "".join(draw(GAPS) + word for word in cased) + draw(GAPS)


def meaning(pipeline: Pipeline) -> Pipeline:
    """The pipeline without places, and with the user's own texts word by word."""

    def words(text: str) -> str:
        return " ".join(token.text for token in scan(Document("", text)))

    def span(found: Span | None) -> Span | None:
        return None if found is None else Span.of(words(found.text), "")

    def table(found: Table) -> Table:
        kept = tuple(replace(e, condition=words(e.condition)) for e in found.expectations)
        return replace(found, expectations=kept, span=None)

    def flow(found: Flow) -> Flow:
        where = span(found.replace_where)
        assert where is not None
        return replace(found, table=table(found.table), replace_where=where, query=span(found.query), span=None)

    def view(found: View) -> View:
        return replace(found, query=span(found.query), span=None)

    def refresh(found: Refresh) -> Refresh:
        return replace(found, predicate=span(found.predicate), span=None)

    return Pipeline(
        flows=tuple(map(flow, pipeline.flows)),
        views=tuple(map(view, pipeline.views)),
        tables=tuple(map(table, pipeline.tables)),
        refreshes=tuple(map(refresh, pipeline.refreshes)),
        settings=pipeline.settings,
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_white_space_comments_and_letter_case_change_nothing(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(statements(), min_size=1, max_size=3))
    plain = ";".join(" ".join(words) for words in chosen)
    strange = ";".join(data.draw(spelled(words)) for words in chosen)
    assert meaning(parse_sql(strange)) == meaning(parse_sql(plain))


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab ;'\"`-/*\\\n()=.,1", max_size=40))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        parse_sql(text)
    except DefinitionError as error:
        refused = str(error)
    else:
        return
    assert refused.startswith("<text>:")
