"""Which pages the site lists where: those that ``index.md`` names, and below a page those of its folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

INDEX: Final = "index"
_LISTS: Final = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


def pages_below(docs: Path, page: str) -> str | None:
    """Return the pages below a page, as a pattern that is relative to it; None where it has none.

    Below the README of a folder are the others in the folder, below ``x`` the pages in the folder ``x``.
    """
    path = Path(page)
    if path.name == "README":
        return "*"
    return f"{path.name}/*" if any((docs / path).glob("*.md")) else None


def listed(docs: Path) -> Iterator[str]:
    """Yield the names of the pages that the navigation has, a page that is there twice twice."""
    for named in _LISTS.findall((docs / f"{INDEX}.md").read_text()):
        found: set[str] = set()
        for line in (each for each in named.splitlines() if each and not each.startswith(":")):
            names = {str(path.relative_to(docs).with_suffix("")) for path in docs.glob(f"{line}.md")}
            yield from names - found
            found |= names
        for page in sorted(found):
            below = pages_below(docs, page)
            paths = (docs / page).parent.glob(f"{below}.md") if below else ()
            yield from (
                name for path in paths if (name := str(path.relative_to(docs).with_suffix(""))) != page
            )
