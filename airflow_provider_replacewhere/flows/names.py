"""Names of tables as text."""

from __future__ import annotations

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.cursor import Cursor
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.flows.scan import scan
from airflow_provider_replacewhere.text import Span


def parse_table_name(text: str | Span, what: str = "the table's name") -> TableName:
    """A table's name as a person writes it, such as ``shop.orders``, `` `a b` `` or `` delta.`/data/orders` ``.

    :param text: the name alone; a plain text stands in errors as ``what``
    :raises DefinitionError: the text is empty or holds anything but a name
    """
    span = text if isinstance(text, Span) else Span.of(text, what)
    tokens = tuple(scan(span.document, span.start, span.end))
    if not tokens:
        raise DefinitionError(f"{what[0].upper()}{what[1:]} is empty.", hint="Write a name such as schema.table.")
    cursor = Cursor(tokens)
    name = cursor.name(what)
    if not cursor.done:
        raise cursor.expected(f"the end of {what}", hint="Put backticks around a part that is not a plain word.")
    return name
