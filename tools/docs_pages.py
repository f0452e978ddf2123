"""What the pages of the documentation hold beside their own text: pieces of the example Dags, and the reference.

A page names them in a comment of its own line, so that it can also be read where nothing is put in:

- ``<!-- excerpt: dags/example_backfill.py howto_backfill -->``: what stands between ``[START …]`` and ``[END …]``; the
  whole file where no name is given
- ``<!-- reference: operators.undo:UndoOperator -->``: see :func:`tools.docs_reference.reference`
- ``<!-- verbs -->``: the console command's verbs
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tools.docs_reference import reference, verbs

ROOT = Path(__file__).resolve().parent.parent
DIRECTIVE = re.compile(r"^<!-- (excerpt|reference|verbs)(?:: (.*?))? -->$", re.MULTILINE)
LANGUAGES = {".py": "python", ".sql": "sql", ".yaml": "yaml"}
# What a browser would fetch from somewhere else while it shows a page.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*?\ssrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|icon|preconnect|modulepreload))[^>]*?\shref=["']?((?:https?:)?//[^"'\s>]+)""",
    re.IGNORECASE,
)


class PageError(Exception):
    """A page names something that is not there."""


def expanded(text: str) -> str:
    """A page with what its comments name.

    :raises PageError: there is no such file or marker
    :raises UndocumentedError: a part of the reference is not documented
    """
    return _for_python_markdown(DIRECTIVE.sub(_put_in, text))


def _put_in(found: re.Match[str]) -> str:
    kind, what = found[1], found[2] or ""
    if kind == "verbs":
        return verbs()
    return reference(what) if kind == "reference" else excerpt(*what.split())


def excerpt(file: str, name: str = "") -> str:
    """A piece of a file as a fenced block.

    :param file: its path in the checkout
    :param name: of the markers around the piece; empty: the whole file
    :raises PageError: there is no such file, or not exactly one piece of that name
    """
    path = ROOT / file
    if not path.is_file():
        raise PageError(f"There is no file {file}.")
    text = path.read_text(encoding="utf-8")
    if name:
        pieces = re.findall(rf"^[ ]*# \[START {name}\]\n(.*?)^[ ]*# \[END {name}\]$", text, re.MULTILINE | re.DOTALL)
        if len(pieces) != 1:
            raise PageError(f"{file} has {len(pieces)} pieces between [START {name}] and [END {name}].")
        text = pieces[0]
    return f'```{LANGUAGES.get(path.suffix, "text")} title="{file}"\n{textwrap.dedent(text).strip()}\n```'


def _for_python_markdown(text: str) -> str:
    """In tables, a bar inside code is written with a backslash; Python-Markdown would show it, and needs none."""
    lines = text.split("\n")
    inside = False
    for number, line in enumerate(lines):
        inside ^= line.startswith("```")
        if not inside and line.startswith("|"):
            lines[number] = re.sub(r"(`+)(.+?)\1", lambda code: code[0].replace(r"\|", "|"), line)
    return "\n".join(lines)


def fetched_from_elsewhere(html: str) -> list[str]:
    """The addresses on other hosts that a browser would fetch to show a page. Links that people follow are none."""
    return [script or link for script, link in FETCHED.findall(html)]
