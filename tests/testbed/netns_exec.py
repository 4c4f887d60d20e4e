"""Runs one command in a private network namespace: ``python -m testbed exec --netns -- COMMAND …``.

This process *becomes* the command. Its pid, terminal, input, output, signals and exit code are therefore
the command's without anything between. What the command leaves behind is ended by a watcher that
remembers nothing but the namespace, so that no daemon gets away, however it went into the background.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Never

from testbed import netns
from testbed.errors import TestbedError

PAUSE_SECONDS: Final = 0.01
"""Between two rounds of killing: a process that was killed is gone in less."""


def become(command: Sequence[str]) -> Never:
    """Enter a new namespace and become the command; once that has ended, nothing runs in there any more.

    Programs beside this Python are found first, so that ``pytest`` is the one of this environment.

    Raises:
        TestbedError: the kernel forbids the namespace, or the command cannot be started.

    """
    netns.enter()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, netns.VARIABLE: str(netns.NETWORK), "PATH": path}
    _start_watcher()
    try:
        os.execvpe(command[0], list(command), environment)  # noqa: S606 no shell is what is wanted
    except OSError as error:
        raise TestbedError(f"cannot start {command[0]}: {error.strerror}") from error


def _start_watcher() -> None:
    """Leave a process behind that ends the namespace after us; it is nobody's child to wait for."""
    ending = os.pidfd_open(os.getpid())
    between = os.fork()
    if between == 0:
        try:
            if os.fork() == 0:
                _watch(ending)
        finally:
            os._exit(0)  # never back into the caller's code, whatever happened
    os.waitpid(between, 0)
    os.close(ending)


def _watch(ending: int) -> None:
    _let_go(kept=ending)
    poll = select.poll()
    poll.register(ending, select.POLLIN)
    poll.poll()
    while sum(map(_kill, _others_in_namespace())):
        time.sleep(PAUSE_SECONDS)


def _let_go(*, kept: int) -> None:
    """Stop being part of the terminal, of pipes and of a folder that others wait for or want to remove."""
    os.setsid()
    os.chdir("/")
    os.closerange(0, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)


def _others_in_namespace() -> Iterator[int]:
    ours = _namespace_of("self")  # raises where /proc does not say: who does not know it may kill nobody
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
                if _namespace_of(entry.name) == ours:
                    yield int(entry.name)


def _namespace_of(process: str) -> Path:
    return Path("/proc", process, "ns", "net").readlink()


def _kill(pid: int) -> bool:
    """Return whether it was there to be killed, and so may have left children."""
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return False
    return True
