"""Writes ``docs/reference/gates.md`` from the table of gates: ``python -m gen.gates_reference``."""

from __future__ import annotations

import sys
from typing import Final

from winpool.api.text import table
from winpool.api.upgrade import NEVER_OVERRIDDEN
from winpool.features.upgrade.gates.table import GATES, PoolGate
from winpool.features.upgrade.records import OPEN_WHEN_UNKNOWN

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
            "pool" if isinstance(each, PoolGate) else "node",
            each.meaning,
            each.opens,
            "open" if each.gate in OPEN_WHEN_UNKNOWN else "closed",
            "no" if each.gate in NEVER_OVERRIDDEN else "yes",
        )
        for each in GATES
    )
    return HEAD + table(("Gate", "For", "It is open if", "What opens it", "Unknown", "Override"), rows) + FOOT


if __name__ == "__main__":
    sys.stdout.write(render())
