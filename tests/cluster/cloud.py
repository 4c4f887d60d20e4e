"""Stands for what upgrades machines: a cloud that replaces them one by one, a tool that patches its own.

Run as a program: ``cloud.py replace|surge|patch SOCKET REVISION NODE...``. It does to simulated machines what
a cloud or Windows Update does to real ones. A cloud cordons each node before it replaces the machine; with
surge it brings the new machine first, under another name.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testbed.winsim.control import FleetControl
from testbed.winsim.entries import Outage

QUICK: Final = Outage(down=1.0, ready_after=1.0)
"""How long a machine takes to start again."""
RELEASE: Final = "2022"


def main(arguments: Sequence[str]) -> None:
    """Do it; return when a cloud's command would, or when the machine that is patched is down."""
    what, socket, revision, *nodes = arguments
    fleet = FleetControl(Path(socket))
    for node in nodes:
        if what == "patch":
            fleet.patch(node, revision=int(revision), outage=QUICK)
        elif what == "surge":
            fleet.surge(node, release=RELEASE, revision=int(revision))
            gone = ["kubectl", "wait", "--for=delete", f"node/{node}", "--timeout=60s"]
            subprocess.run(gone, check=True)
        else:
            subprocess.run(["kubectl", "cordon", node], check=True)
            fleet.reimage(node, release=RELEASE, revision=int(revision), outage=QUICK)
            fleet.wait_ready([node])


if __name__ == "__main__":
    main(sys.argv[1:])
