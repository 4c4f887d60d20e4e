"""promtool, which tries alerts as Prometheus evaluates them: ``python -m testbed.promtool`` builds it.

It comes from the module of the server (``testbed.prometheus``).
"""

import sys
from pathlib import Path
from typing import Final

from testbed.gobuild import ensure_program, print_path
from testbed.progress import Report, say
from testbed.prometheus import program

PROGRAM: Final = program("promtool", minutes="three")


def ensure_promtool(*, cache: Path | None = None, report: Report = say) -> Path:
    """Return the binary of promtool; build it where it is not there yet.

    Raises:
        TestbedError: no Go, no network, no space or a compile error; the text says which.

    """
    return ensure_program(PROGRAM, cache=cache, report=report)


if __name__ == "__main__":
    sys.exit(print_path(ensure_promtool, name="promtool"))
