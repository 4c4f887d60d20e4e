"""Writes ``docs/reference/gates.md`` from the table of gates: ``python -m gen.gates_reference``."""

from __future__ import annotations

import sys
from typing import Final

from winpool.api.text import table
from winpool.features.upgrade.gates.table import GATES, closes_when_unknown, may_be_overridden

FILE: Final = "docs/reference/gates.md"
"""Where the result is, from the root of the repository."""

HEAD: Final = """\
<!-- Generated from operator/winpool/features/upgrade/gates/table.py. Do not edit; run: make generate -->
# Gates

What has to be open before a node of a pool with `spec.upgrade` may be upgraded
([OS upgrades](../upgrades/README.md)). The operator judges all of them in every pass and reports all that are
closed, in this order.

"""

FOOT: Final = """
*For* says whether a gate is judged once for the pool, or for each node that is due. *Unknown* says what
follows where it is not known how the gate stands. *Override* says whether an entry of
`spec.upgrade.overrides` can open it.
"""


def render() -> str:
    """Return the page."""
    rows = (
        (
            f"`{each.gate}`",
            each.scope.value,
            each.meaning,
            each.opens,
            "closed" if closes_when_unknown(each.gate) else "open",
            "yes" if may_be_overridden(each.gate) else "no",
        )
        for each in GATES
    )
    return HEAD + table(("Gate", "For", "It is open if", "What opens it", "Unknown", "Override"), rows) + FOOT


if __name__ == "__main__":
    sys.stdout.write(render())
