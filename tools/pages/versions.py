"""Which versions a site has: ``versions.json`` for the list on each page, and a first page that leads on.

``python -m pages.versions SITE`` writes both. The site has a folder for each version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from release.addresses import Addresses


def newest_first(names: Iterable[str]) -> list[str]:
    """Return versions by their numbers, those that are no releases (``1.0.0-rc.1``) last."""
    return sorted(names, key=_order, reverse=True)


def _order(name: str) -> tuple[bool, list[int], str]:
    numbers, hyphen, rest = name.partition("-")
    return not hyphen, [int(number) for number in numbers.split(".")], rest


def listed(versions: list[str], *, address: str) -> list[dict[str, str | bool]]:
    """Return the versions, the newest first, as pydata-sphinx-theme reads them."""
    return [
        {"version": version, "url": f"{address}/{version}/", "preferred": at == 0}
        for at, version in enumerate(versions)
    ]


def main(site: Path, address: str) -> int:
    """Entry point: write what lists the versions of a site."""
    versions = newest_first(page.parent.name for page in site.glob("*/index.html"))
    (site / "versions.json").write_text(json.dumps(listed(versions, address=address), indent=2) + "\n")
    (site / "index.html").write_text(
        f'<!DOCTYPE html>\n<meta http-equiv="refresh" content="0; url={versions[0]}/">\n'
        f'<title>winpool</title>\n<a href="{versions[0]}/">winpool {versions[0]}</a>\n'
    )
    # Otherwise GitHub Pages leaves out folders whose names begin with an underscore.
    (site / ".nojekyll").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Addresses.read().docs))
