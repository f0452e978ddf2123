"""Tables as OpenLineage names datasets: by where they lie."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

# Schemes of one store under several names, and the one that OpenLineage uses.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
_OBJECT_STORES = ("s3", "gs", "abfss", "wasbs")

NAMESPACE = "replacewhere"
"""Of tables of which only the name is known."""


def dataset_of(table: str, path: str | None) -> tuple[str, str]:
    """The namespace and the name of a table.

    :param table: as a flow names it
    :param path: its folder, as a URI or a path; None: it is not known
    """
    if not path:
        return NAMESPACE, table.replace("`", "")
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return "file", (unquote(parts.path) if parts.scheme else path).rstrip("/") or "/"
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    name = unquote(parts.path).rstrip("/")
    return f"{scheme}://{parts.netloc}", name.lstrip("/") if scheme in _OBJECT_STORES else name or "/"
