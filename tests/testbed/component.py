"""One process of a testbed, seen by whoever uses the testbed."""

import signal
from typing import Final

from testbed.control import ComponentState, ComponentStatus, Control, Request
from testbed.errors import TestbedError, tail
from testbed.waiting import wait_until

TIMEOUT_SECONDS: Final = 180.0
"""For a component that was started again: etcd may have a log to replay, the API server caches to fill."""


class Component:
    """One process of a testbed: look at it, kill it, start it again."""

    def __init__(self, control: Control, name: str) -> None:
        self._control = control
        self.name = name

    @property
    def status(self) -> ComponentStatus:
        """What the supervisor knows about it now."""
        reply = self._control.status()
        for status in reply.components:
            if status.name == self.name:
                return status
        known = ", ".join(status.name for status in reply.components)
        raise TestbedError(
            f"there is no component {self.name!r} in {self._control.layout.root}; there are: {known}"
        )

    @property
    def pid(self) -> int:
        """Its process.

        Raises:
            TestbedError: it does not run.

        """
        status = self.status
        if status.pid is None:
            raise TestbedError(f"{self.name} does not run ({status.exit})")
        return status.pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; after SIGKILL, SIGTERM and SIGINT the process is gone when this returns.

        SIGSTOP and SIGCONT pause it and let it go on. Nobody starts it again but ``start``.
        """
        self._control.ask(Request(do="signal", component=self.name, signal=number))

    def start(self) -> None:
        """Start it again after it has ended, as it was: same command line, same ports, same log."""
        self._control.ask(Request(do="start", component=self.name))

    def wait_ready(self, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait until it runs and says itself that it is well.

        Raises:
            TestbedError: it has ended, or the time is over; with the end of its log.

        """
        wait_until(
            self._is_ready,
            what=f"{self.name} to be ready",
            timeout_seconds=timeout_seconds,
            explain=lambda: f"; the end of its log:\n{tail(self.status.log)}",
        )

    def _is_ready(self) -> bool:
        status = self.status
        if status.state is ComponentState.EXITED:
            raise TestbedError(f"{self.name} ended ({status.exit}); the end of its log:\n{tail(status.log)}")
        return status.state is ComponentState.RUNNING
