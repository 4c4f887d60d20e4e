"""What a machine has to be or to allow, said in a sentence before anything is started on it."""

import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError

DEMAND: Final = "WINPOOL_DEMAND_NETNS"
"""1: what needs a private network namespace fails where there can be none; 0: it is skipped."""
CI: Final = "CI"
"""Set by nearly every CI; there a test that is skipped would not be missed by anybody."""
CAP_SYS_ADMIN: Final = 21
"""Its number in ``linux/capability.h``."""
PROBE_TIMEOUT_SECONDS: Final = 30.0
"""Guard: the probe is a start of Python and a few calls of the kernel, half a second."""


def require_linux(system: str | None = None) -> None:
    """Raise TestbedError with what to do, where this is no Linux."""
    found = platform.system() if system is None else system
    if found != "Linux":
        raise TestbedError(
            f"the testbed runs on Linux only, and this is {found or 'unknown'}: it needs parent-death "
            "signals, pidfds and addresses in 127.x; use a Linux machine or the devcontainer in .devcontainer"
        )


def reason_to_skip(
    *, may_always: bool, environment: Mapping[str, str], refusal: Callable[[], str | None]
) -> str | None:
    """Say why what needs a private network namespace is skipped; None where it has to run.

    Args:
        may_always: this process has the capability for it, so that a refusal is a fault.
        environment: ``WINPOOL_DEMAND_NETNS`` decides where it is set, else ``CI`` demands.
        refusal: tries it, and returns the kernel's refusal in a sentence, or None.

    """
    demand = environment.get(DEMAND, "")
    if demand not in {"", "0", "1"}:
        raise TestbedError(f"{DEMAND} is {demand!r}; it may be 1 or 0")
    demanded = demand == "1" or (not demand and environment.get(CI, "") not in {"", "0", "false"})
    if may_always or demanded:
        return None
    said = refusal()
    return said and f"{said} ({DEMAND}=1 makes this a failure)"


def may_enter_namespaces(status: Path = Path("/proc/self/status")) -> bool:
    """Tell whether this process has the capability SYS_ADMIN, by its own status file."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    return match is not None and bool(int(match[1], 16) >> CAP_SYS_ADMIN & 1)


def namespace_refusal() -> str | None:
    """Try a private network namespace in a process that ends at once; return why there is none."""
    done = subprocess.run(
        [sys.executable, "-m", "testbed", "exec", "--netns", "--", "true"],
        capture_output=True,
        text=True,
        timeout=PROBE_TIMEOUT_SECONDS,
        check=False,
    )
    return None if done.returncode == 0 else done.stderr.strip().removeprefix("testbed: ")
