"""promtool, which tries alerts as Prometheus evaluates them: ``python -m testbed.promtool`` builds it.

Its module, ``promtool/``, names it as a tool of a version that the pinned Go can compile. What promtool has
for finding targets in clouds is left out by a build tag of Prometheus: tests of rules find nothing.
"""

import sys
from pathlib import Path
from typing import Final

from testbed.gobuild import Program, ensure_program, print_path
from testbed.progress import Report, say

MODULE_DIRECTORY: Final = Path(__file__).parent / "promtool"
PACKAGE: Final = "github.com/prometheus/prometheus/cmd/promtool"
PROGRAM: Final = Program(
    name="promtool",
    title="promtool",
    full_title="promtool",
    minutes="three",
    space_gib=2,
    module=MODULE_DIRECTORY,
    sources={name: MODULE_DIRECTORY / name for name in ("go.mod", "go.sum")},
    package=PACKAGE,
    main=PACKAGE,
    linker_flags="-s -w",
    tags="remove_all_sd",
)


def ensure_promtool(*, cache: Path | None = None, report: Report = say) -> Path:
    """Return the binary of promtool; build it where it is not there yet.

    Raises:
        TestbedError: no Go, no network, no space or a compile error; the text says which.

    """
    return ensure_program(PROGRAM, cache=cache, report=report)


if __name__ == "__main__":
    sys.exit(print_path(ensure_promtool, name="promtool"))
