"""krew, which installs the plugin from its archive: ``python -m testbed.krew`` builds it.

Its module, ``krew/``, names it as a tool of a version that the pinned Go can compile.
"""

import sys
from pathlib import Path
from typing import Final

from testbed.gobuild import Program, ensure_program, print_path, tool
from testbed.progress import Report, say

GO_MOD: Final = Path(__file__).parent / "krew" / "go.mod"
MODULE: Final = "sigs.k8s.io/krew"
PACKAGE: Final = f"{MODULE}/cmd/krew"


def program() -> Program:
    """Return what to build."""
    return tool(
        "krew",
        go_mod=GO_MOD,
        module=MODULE,
        package=PACKAGE,
        minutes="one",
        space_gib=1,
    )


def ensure_krew(*, cache: Path | None = None, report: Report = say) -> Path:
    """Return the binary of krew; build it where it is not there yet.

    Raises:
        TestbedError: no Go, no network, no space or a compile error; the text says which.

    """
    return ensure_program(program(), cache=cache, report=report)


if __name__ == "__main__":
    sys.exit(print_path(ensure_krew, name="krew"))
