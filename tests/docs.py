"""The documentation's code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


@dataclass(frozen=True)
class Block:
    """One fenced block; ``str`` says where it is."""

    file: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """All fenced blocks of the documentation in these languages; the empty one is that of a block without a name."""
    return [
        Block(file, text.count("\n", 0, found.start()) + 2, found[1], found[2])
        for file in FILES
        for text in [file.read_text()]
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        if found[1] in languages
    ]
