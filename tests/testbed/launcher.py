"""Becomes another program that dies with its parent: ``launcher.py PARENT FILE ARGV0 ARGUMENT…``.

Run as a file by ``testbed.process``, isolated from site packages, so that it starts in about 20 ms. The
request survives the exec, and the pid stays the same.
"""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
"""From ``linux/prctl.h``."""
CANNOT_START: Final = 127
"""What a shell reports for a command that it cannot run."""


def main(arguments: list[str]) -> None:
    """Ask the kernel for the signal and become the program."""
    parent, file, *argv = arguments
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before the request took effect
        sys.exit(CANNOT_START)
    try:
        os.execvp(file, argv)  # noqa: S606 to become the program is what this file is for
    except OSError as error:
        sys.stderr.write(f"cannot start {file}: {error.strerror}\n")
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    main(sys.argv[1:])
