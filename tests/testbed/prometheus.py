"""The Prometheus server, which tests start: ``python -m testbed.prometheus`` builds it.

One Go module, ``prometheus/``, names the server and promtool as tools, of one version that the pinned Go can
compile. What they have for finding targets in clouds is left out by a build tag of Prometheus: the tests name
their targets. The web UI is no part of the module that is published, so the server has its HTTP API only.
"""

import sys
from pathlib import Path
from typing import Final

from testbed.gobuild import Program, ensure_program, print_path
from testbed.progress import Report, say

MODULE_DIRECTORY: Final = Path(__file__).parent / "prometheus"


def program(name: str, *, minutes: str) -> Program:
    """Return a program of Prometheus, which takes so many minutes to build."""
    package = f"github.com/prometheus/prometheus/cmd/{name}"
    return Program(
        name=name,
        title=name,
        full_title=name,
        minutes=minutes,
        space_gib=2,
        module=MODULE_DIRECTORY,
        sources={file: MODULE_DIRECTORY / file for file in ("go.mod", "go.sum")},
        package=package,
        main=package,
        linker_flags="-s -w",
        tags="remove_all_sd",
    )


PROGRAM: Final = program("prometheus", minutes="three")


def ensure_prometheus(*, cache: Path | None = None, report: Report = say) -> Path:
    """Return the binary of the server; build it where it is not there yet.

    Raises:
        TestbedError: no Go, no network, no space or a compile error; the text says which.

    """
    return ensure_program(PROGRAM, cache=cache, report=report)


if __name__ == "__main__":
    sys.exit(print_path(ensure_prometheus, name="prometheus"))
