"""The page of benchmarks is what the kept results give."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks import page


def test_the_page_and_its_pictures_are_made_from_the_kept_results(tmp_path: Path) -> None:
    assert page.page(tmp_path) == page.PAGE.read_text(), "make bench-page writes it anew"
    made = {picture.name: picture.read_bytes() for picture in tmp_path.iterdir()}
    assert made
    assert made == {name: (page.IMAGES / name).read_bytes() for name in made}
