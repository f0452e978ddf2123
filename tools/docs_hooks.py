"""What MkDocs calls while it builds the site: see ``hooks`` in ``mkdocs.yml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError

from tools.docs_pages import PageError, expanded, fetched_from_elsewhere
from tools.docs_reference import UndocumentedError

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

# Pages of the navigation that are there only once something else has made them.
OPTIONAL = frozenset({"benchmarks.md", "page.md"})


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave optional pages that are not there out of the navigation."""
    config.nav = _present(config.nav or [], Path(config.docs_dir))
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put into a page what its comments name.

    :raises PluginError: that is not there, or not documented
    """
    try:
        return expanded(markdown)
    except (PageError, UndocumentedError) as error:
        raise PluginError(f"{page.file.src_path}: {error}") from error


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page for which a browser would ask another host.

    :raises PluginError: it would
    """
    if found := fetched_from_elsewhere(output):
        raise PluginError(f"{page.file.src_path} would be shown with {', '.join(found)}.")
    return output


def _present(nav: list[Any], folder: Path) -> list[Any]:
    found: list[Any] = []
    for entry in nav:
        ((title, value),) = entry.items() if isinstance(entry, dict) else ((None, entry),)
        if isinstance(value, list):
            found.append({title: _present(value, folder)})
        elif value not in OPTIONAL or (folder / value).exists():
            found.append(entry)
    return found
