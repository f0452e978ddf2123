"""Texts that driver and worker leave for each other."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_provider_replacewhere.errors import RequestError
from airflow_provider_replacewhere.planning.questions import MOST_BYTES
from airflow_provider_replacewhere.spark.jvm import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_text(session: SparkSession, uri: str, text: str) -> None:
    """Write a text in one step, so that no reader ever sees half of it.

    :param uri: a local path, or any URI that Hadoop's file systems know
    """
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        _write_local(Path(unquote(parts.path) if parts.scheme else uri), text)
        return
    fs, target = file_system(session, uri)
    _, beside = file_system(session, f"{uri}.part")
    stream = fs.create(beside, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    fs.delete(target, False)
    fs.rename(beside, target)


def read_text(session: SparkSession, uri: str) -> str | None:
    """The text at a place; None where there is none (yet).

    :raises RequestError: it is too large for an answer
    """
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        path = Path(unquote(parts.path) if parts.scheme else uri)
        if not path.exists():
            return None
        _require_size(uri, path.stat().st_size)
        return path.read_text(encoding="utf-8")
    fs, source = file_system(session, uri)
    if not fs.exists(source):
        return None
    _require_size(uri, fs.getFileStatus(source).getLen())
    jvm = session._jvm
    assert jvm is not None
    stream = fs.open(source)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _require_size(uri: str, size: int) -> None:
    if size > MOST_BYTES:
        raise RequestError(
            f"{uri} has {size} bytes, which is no answer of a worker.",
            hint="Let nobody but the worker write there.",
        )


def _write_local(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(beside).replace(path)
