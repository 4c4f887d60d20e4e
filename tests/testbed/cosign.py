"""cosign, which signs a release and verifies it: ``python -m testbed.cosign`` builds it.

Its module, ``cosign/``, names it as a tool of a version that the pinned Go can compile.
"""

import sys
from pathlib import Path
from typing import Final

from testbed.gobuild import Program, ensure_program, print_path, tool
from testbed.progress import Report, say

GO_MOD: Final = Path(__file__).parent / "cosign" / "go.mod"
MODULE: Final = "github.com/sigstore/cosign/v3"
PACKAGE: Final = f"{MODULE}/cmd/cosign"


def program() -> Program:
    """Return what to build."""
    return tool(
        "cosign",
        go_mod=GO_MOD,
        module=MODULE,
        package=PACKAGE,
        minutes="five",
        space_gib=3,
    )


def ensure_cosign(*, cache: Path | None = None, report: Report = say) -> Path:
    """Return the binary of cosign; build it where it is not there yet.

    Raises:
        TestbedError: no Go, no network, no space or a compile error; the text says which.

    """
    return ensure_program(program(), cache=cache, report=report)


if __name__ == "__main__":
    sys.exit(print_path(ensure_cosign, name="cosign"))
