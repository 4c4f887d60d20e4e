"""Writes ``docs/reference/security-tests.md``, which tests show what the pages on security state.

``python -m gen.security_tests``. The pages in ``docs/security`` give each statement a name, such as ``S1``;
``security_tests.yaml`` has the tests by these names.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import yaml

from winpool.api.text import table

ROOT: Final = Path(__file__).parents[2]

PAGES: Final = ("security/nodes.md", "security/people.md", "security/operator-token.md", "security.md")
"""In ``docs``, in the order of the result. The last one has no statements, but says what is not shown."""

TEXT: Final = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES)

FILE: Final = "docs/reference/security-tests.md"
"""Where the result is, from the root of the repository."""

DATA: Final = "tools/gen/security_tests.yaml"
"""The tests of each statement, as ``file::test``, from the root of the repository."""

HEAD: Final = f"""\
<!-- Generated from docs/security and {DATA}. Do not edit; run: make generate -->
# Tests of security

Which tests show the statements of [Security](../security.md), by the names that they have on its pages.
"""


def shown_by() -> dict[str, list[str]]:
    """Return the tests of each statement, by its name, as the data has them."""
    found: dict[str, list[str]] = yaml.safe_load((ROOT / DATA).read_text(encoding="utf-8"))
    return found


def statements() -> dict[str, list[str]]:
    """Return the names of the statements on the pages, by the heading that they are under, in order."""
    _, *parts = re.split(r"^## (.+)$", TEXT, flags=re.MULTILINE)
    named = {
        heading: re.findall(r"^- \*\*(S\d+)\*\* ", body, re.MULTILINE)
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }
    return {heading: names for heading, names in named.items() if names}


def render() -> str:
    """Return the page.

    Raises:
        KeyError: a statement of a page has no entry in the data.

    """
    tests = shown_by()
    sections = (
        f"\n## {heading}\n\n"
        + table(("Statement", "Test"), ((name, f"`{test}`") for name in names for test in tests[name]))
        for heading, names in statements().items()
    )
    return HEAD + "".join(sections)


if __name__ == "__main__":
    sys.stdout.write(render())
