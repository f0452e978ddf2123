"""Spark's type names, as far as a predicate needs them: what a column is, and which fields a struct has."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SYNONYMS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
    "void": "null",
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[<>(),:]|[^\s<>(),:`]+)")


@dataclass(frozen=True)
class SparkType:
    """A type: ``name`` in lower case (``decimal``, ``struct``, …), ``sizes`` in parentheses, ``fields`` of a struct."""

    name: str
    sizes: tuple[int, ...] = ()
    fields: tuple[tuple[str, SparkType], ...] = ()

    def field(self, name: str) -> SparkType | None:
        """The struct's field of that name, letter case ignored."""
        return next((type_ for field, type_ in self.fields if field.lower() == name.lower()), None)


def spark_type(text: str) -> SparkType:
    """A type from Spark's text for it (``DataType.simpleString`` or DDL).

    What is not understood keeps its first word as its name.
    """
    type_, _ = _read(_TOKEN.findall(text), 0)
    return type_


def _read(tokens: list[str], position: int) -> tuple[SparkType, int]:
    if position >= len(tokens):
        return SparkType("unknown"), position
    name = tokens[position].lower()
    name = _SYNONYMS.get(name, name)
    position += 1
    opened = tokens[position] if position < len(tokens) else ""
    if opened.lower() == "collate":
        # Its strings are equal and sorted by other rules than a plain STRING's.
        return SparkType("collated string"), position + 2
    if opened == "(":
        end = tokens.index(")", position) if ")" in tokens[position:] else len(tokens)
        return SparkType(name, tuple(int(t) for t in tokens[position + 1 : end] if t.isdigit())), end + 1
    if opened != "<":
        return SparkType("decimal", (10, 0)) if name == "decimal" else SparkType(name), position
    if name == "struct":
        return _struct(tokens, position + 1)
    return SparkType(name), _closing(tokens, position + 1)


def _struct(tokens: list[str], position: int) -> tuple[SparkType, int]:
    fields: list[tuple[str, SparkType]] = []
    while position < len(tokens) and tokens[position] != ">":
        name = tokens[position]
        position += 1 + (tokens[position + 1 : position + 2] == [":"])
        type_, position = _read(tokens, position)
        fields.append((name[1:-1].replace("``", "`") if name.startswith("`") else name, type_))
        # NOT NULL and COMMENT '…' of a field say nothing about its type.
        while position < len(tokens) and tokens[position] not in (",", ">"):
            position += 1
        position += tokens[position : position + 1] == [","]
    return SparkType("struct", fields=tuple(fields)), position + 1


def _closing(tokens: list[str], position: int) -> int:
    depth = 1
    while position < len(tokens) and depth:
        depth += (tokens[position] == "<") - (tokens[position] == ">")
        position += 1
    return position
