"""The documentation's code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
# The first line of a block that is a file of the reader's: `-- daily.sql`, `# rides.py`.
FILE_NAME = re.compile(r"(?:--|#) ([\w./-]+\.(?:sql|py))$")


@dataclass(frozen=True)
class Block:
    """One fenced block; ``str`` says where it is.

    :param section: the heading of the second order that it stands under; empty before the first
    """

    file: Path
    line: int
    language: str
    text: str
    section: str = ""

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}"

    @property
    def file_name(self) -> str | None:
        """The name of the file that it is, where its first line tells one."""
        found = FILE_NAME.match(self.text.partition("\n")[0])
        return found[1] if found else None


def blocks(*languages: str, files: tuple[Path, ...] = FILES) -> list[Block]:
    """All fenced blocks of the documentation in these languages; the empty one is that of a block without a name."""
    return [
        Block(file, text.count("\n", 0, found.start()) + 2, found[1], found[2], _section(text[: found.start()]))
        for file in files
        for text in [file.read_text()]
        for found in re.finditer(r"^```([\w+]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        if found[1] in languages
    ]


def stories(page: str) -> dict[str, list[Block]]:
    """The blocks of a page that a reader runs or sees, by section, in order."""
    found: dict[str, list[Block]] = {}
    for block in blocks("sql", "python", "bash", "text", files=(ROOT / "docs" / page,)):
        found.setdefault(block.section, []).append(block)
    return found


def _section(before: str) -> str:
    # A comment in a block of code begins with one `#`, so two of them are always a heading.
    return ["", *re.findall(r"^## (.+)$", before, re.MULTILINE)][-1]
