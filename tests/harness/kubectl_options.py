"""Makes the tables of ``winpool.cli.parsing`` from what ``kubectl options`` prints.

Make them anew with ``kubectl options | ../.venv/bin/python -m harness.kubectl_options``, run in the folder
``tests``, by the kubectl of the testbed.
"""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parents[2] / "operator/winpool/cli/parsing.py"

OURS: Final = frozenset({"version"})
"""Flags of kubectl that the plugin has itself."""

_BEGIN, _END = "# From here on generated.\n", "# Until here generated.\n"
_FLAG: Final = re.compile(r"^ +(?:-(?P<short>\w), )?--(?P<name>[\w-]+)=(?P<default>.*):$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of kubectl: those with a value, those without, and the long names of short ones."""

    values: set[str] = field(default_factory=set)
    switches: set[str] = field(default_factory=set)
    short: dict[str, str] = field(default_factory=dict)


def flags_in(options: str) -> Flags:
    """Read what ``kubectl options`` prints: a flag is a switch if its default is true or false."""
    found = Flags()
    for each in _FLAG.finditer(options):
        if each["name"] in OURS:
            continue
        is_switch = each["default"] in ("true", "false")
        (found.switches if is_switch else found.values).add(each["name"])
        if each["short"]:
            found.short[each["short"]] = each["name"]
    return found


def with_tables(source: str, flags: Flags) -> str:
    """Return the module with the tables of ``flags`` in it."""
    before, _, rest = source.partition(_BEGIN)
    return f"{before}{_BEGIN}{_tables(flags)}{_END}{rest.partition(_END)[2]}"


def _tables(flags: Flags) -> str:
    lines: list[str] = []
    for title, names in (("VALUES", flags.values), ("SWITCHES", flags.switches)):
        words = textwrap.wrap(" ".join(f'"{each}",' for each in sorted(names)), 100, break_on_hyphens=False)
        lines += [f"{title}: Final = frozenset({{", *(f"    {line}" for line in words), "})  # fmt: skip"]
    short = ", ".join(f'"{short}": "{name}"' for short, name in sorted(flags.short.items()))
    return "\n".join([*lines, f"SHORT: Final[Mapping[str, str]] = {{{short}}}", ""])


if __name__ == "__main__":
    FILE.write_text(with_tables(FILE.read_text(), flags_in(sys.stdin.read())))
