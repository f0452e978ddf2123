"""Which names the directory catalog knows: ``name`` and ``schema.name`` are Delta folders below one root."""

from __future__ import annotations

import re

from airflow_provider_replacewhere.errors import DefinitionError
from airflow_provider_replacewhere.flows.model import TableName
from airflow_provider_replacewhere.text import shown

# Of a folder, in bytes, in nearly all file systems.
_LONGEST_NAME = 255


def folder_parts(name: TableName) -> tuple[str, ...] | None:
    """The names of the folders, from the root on, that a table's name stands for; None where it cannot stand for any.

    Names of more than two parts cannot, and neither can files named by their format, as in parquet.`/path`.

    :raises DefinitionError: a part of the name would lead out of the root, or is no folder's name
    """
    if len(name.parts) > 2 or (len(name.parts) == 2 and "/" in name.parts[1]):
        return None
    for part in name.parts:
        leads_out = part in ("", ".", "..") or "/" in part or "\\" in part or part.startswith(("_", "."))
        if leads_out or not part.isprintable() or len(part.encode(errors="replace")) > _LONGEST_NAME:
            raise DefinitionError(
                f"{shown(part)} in the table name {shown(str(name))} cannot be a folder's name in the directory "
                "catalog.",
                hint="Name tables with letters, digits and underscores, not starting with an underscore; to read a "
                "folder elsewhere write delta.`/path`.",
            )
    return name.parts


def place(path: str) -> str:
    """A folder as Hadoop spells it, whatever slashes it was written with; one without a scheme is on the local disk."""
    scheme, separator, rest = path.partition(":") if re.match(r"[A-Za-z][\w+.-]*:", path) else ("file", ":", path)
    authority = ""
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        authority = f"//{authority}" if authority else ""
    folders = re.sub("/+", "/", rest)
    return f"{scheme}{separator}{authority}{folders.rstrip('/') or '/'}"
