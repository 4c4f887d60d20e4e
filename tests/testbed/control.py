"""The control socket of a supervisor: one JSON line asks, one JSON line answers, then it closes."""

import contextlib
import os
import socket
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from testbed.errors import TestbedError, tail
from testbed.paths import Layout

REPLY_TIMEOUT_SECONDS: Final = 30.0
"""The slowest answer is that to a terminating signal: up to ten seconds for the process to go."""


class ComponentState(StrEnum):
    """What the supervisor can tell about a component."""

    STARTING = "Starting"
    RUNNING = "Running"
    PAUSED = "Paused"
    EXITED = "Exited"


class ComponentStatus(BaseModel):
    """One line of ``status``."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: ComponentState
    pid: int | None = None
    port: int | None = None
    log: Path
    exit: str | None = None
    """How it ended, where it has: ``SIGKILL``, ``exit code 1``."""


class Request(BaseModel):
    """What can be asked of a supervisor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    do: Literal["status", "signal", "start", "run", "detach", "token", "shutdown"]
    component: str = ""
    signal: int = 0
    argv: tuple[str, ...] = ()
    health_url: str | None = None
    lifetime_seconds: float | None = Field(default=None, gt=0)


class Reply(BaseModel):
    """The answer; ``error`` is set where it was no."""

    model_config = ConfigDict(frozen=True)

    error: str = ""
    ready: bool = False
    """The control plane has been up completely at least once."""
    token: bool = False
    """The operator's token has been written."""
    components: tuple[ComponentStatus, ...] = ()


@contextlib.contextmanager
def address(path: Path) -> Iterator[str]:
    """Give a short name for a socket path: those over 107 bytes do not fit into a socket address."""
    descriptor = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def ask(path: Path, request: Request, *, timeout_seconds: float = REPLY_TIMEOUT_SECONDS) -> Reply:
    """Send a request to the supervisor that listens on a socket.

    Raises:
        OSError: nobody listens there, or no answer came in time.
        TestbedError: the supervisor said no.

    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        with address(path) as name:
            connection.connect(name)
        connection.sendall(request.model_dump_json().encode() + b"\n")
        with connection.makefile("rb") as lines:
            line = lines.readline()
    if not line:
        raise ConnectionResetError(f"the supervisor at {path} closed the connection without an answer")
    reply = Reply.model_validate_json(line)
    if reply.error:
        raise TestbedError(reply.error)
    return reply


class Control:
    """The supervisor of a directory, as its users talk to it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def ask(self, request: Request) -> Reply:
        """Ask the supervisor.

        Raises:
            TestbedError: it said no, or there is nobody to ask; with the end of its log.

        """
        try:
            return ask(self.layout.socket, request)
        except OSError as error:
            raise TestbedError(
                f"the supervisor of {self.layout.root} does not answer ({error}); "
                f"the end of its log:\n{tail(self.layout.supervisor_log)}"
            ) from error

    def status(self) -> Reply:
        """Ask how everything is."""
        return self.ask(Request(do="status"))
