"""One component of a running testbed, seen from its supervisor."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil

from testbed.components import Command
from testbed.control import ComponentState, ComponentStatus
from testbed.process import describe_exit, start_bound


class Child:
    """Starts, watches and signals one process; knows how it ended.

    A process that ends stays ended until somebody asks for it again: tests kill components in order to
    see what happens while they are away.
    """

    def __init__(
        self,
        command: Command,
        *,
        log: Path,
        cwd: Path,
        environment: dict[str, str],
        on_exit: Callable[["Child"], None],
    ) -> None:
        self.command = command
        self.log = log
        self._cwd = cwd
        self._environment = environment | command.environment
        self._on_exit = on_exit
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()

    @property
    def name(self) -> str:
        """Name of the component."""
        return self.command.name

    @property
    def alive(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.returncode is None

    @property
    def paused(self) -> bool:
        """Whether the process has been stopped by SIGSTOP and can go on."""
        if self._process is None or not self.alive:
            return False
        try:
            return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    @property
    def ending(self) -> str | None:
        """How the process ended; None while it runs or before it was started."""
        if self._process is None or self._process.returncode is None:
            return None
        return describe_exit(self._process.returncode)

    def start(self) -> None:
        """Start the process. Nothing happens where it runs already."""
        if self.alive:
            return
        self._ended.clear()
        self._process = start_bound(
            self.command.argv,
            executable=self.command.executable,
            environment=self._environment,
            log=self.log,
            cwd=self._cwd,
        )
        # A pidfd becomes readable when the process ends: no thread, no SIGCHLD handler, no polling.
        descriptor = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(descriptor, self._reap, descriptor, self._process)

    def send(self, number: int) -> None:
        """Send a signal. Nothing happens where the process has ended."""
        if self._process is not None:
            self._process.send_signal(number)  # looks first whether it has ended, so never a stranger's pid

    async def ended(self, *, timeout_seconds: float) -> bool:
        """Wait until the process is gone; False where it is still there after that time."""
        if not self.alive:
            return True
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self, *, grace_seconds: float) -> None:
        """End the process: politely where a grace is given, and then for good."""
        if grace_seconds > 0:
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)  # one that is paused cannot hear
            if await self.ended(timeout_seconds=grace_seconds):
                return
        self.send(signal.SIGKILL)
        await self._ended.wait() if self.alive else None

    def status(self, *, healthy: bool) -> ComponentStatus:
        """Say what to tell about it, given what its health endpoint said."""
        process = self._process
        return ComponentStatus(
            name=self.name,
            state=self._state(healthy=healthy),
            pid=process.pid if process is not None and self.alive else None,
            port=self.command.port,
            log=self.log,
            exit=self.ending,
        )

    def _state(self, *, healthy: bool) -> ComponentState:
        if self._process is None:
            return ComponentState.STARTING
        if not self.alive:
            return ComponentState.EXITED
        if self.paused:
            return ComponentState.PAUSED
        return ComponentState.RUNNING if healthy else ComponentState.STARTING

    def _reap(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        process.wait()
        if process is self._process:
            self._ended.set()
        self._on_exit(self)
