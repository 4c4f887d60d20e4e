"""The supervisor: one process that starts the components of a testbed, watches them and ends them.

Run by ``testbed.cluster`` as ``python -m testbed.supervisor``; nobody calls it by hand. Its children die
with it, whatever kills it, and it dies with the process that started it until told to stay (``detach``).
"""

import argparse
import asyncio
import contextlib
import logging
import os
import resource
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from testbed import components, ports
from testbed.child import Child
from testbed.components import Command
from testbed.controlserver import ControlServer
from testbed.errors import TestbedError, tail
from testbed.health import Probe
from testbed.options import Options
from testbed.paths import Layout
from testbed.pki import Pki
from testbed.prepare import prepare, small_environment, take_lock
from testbed.process import start_time
from testbed.renewal import TokenRenewal
from testbed.state import State

log = logging.getLogger("testbed.supervisor")

START_TIMEOUT_SECONDS: Final = 90.0
"""All is up in 5 s on two free cores; a machine under full load has been seen to need ten times that."""
POLL_SECONDS: Final = 0.05
"""Between two looks at a component that starts: small against the seconds that a start takes."""
WINSIM_GRACE_SECONDS: Final = 3.0
"""For simulated nodes to close their connections. The control plane gets none: its data ends with it."""


class Supervisor:
    """All components of one testbed and what belongs to them."""

    def __init__(self, layout: Layout, *, options: Options, binary: Path) -> None:
        self.layout = layout
        self.options = options
        self.binary = binary
        self.children: dict[str, Child] = {}
        self.ready = asyncio.Event()
        self.stop = asyncio.Event()
        self._parent: int | None = None
        self._failed = ""

    def bind_to_parent(self, pid: int) -> None:
        """Stop when that process ends, until ``detach``."""
        descriptor = os.pidfd_open(pid)
        if os.getppid() != pid:  # it ended before we held it, and the descriptor may be a stranger's
            os.close(descriptor)
            raise TestbedError("the process that started this testbed has ended")
        self._parent = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._parent_ended)

    def detach(self) -> None:
        """Outlive the process that started us."""
        if self._parent is not None:
            asyncio.get_running_loop().remove_reader(self._parent)
            os.close(self._parent)
            self._parent = None

    def _parent_ended(self) -> None:
        log.info("the process that started this testbed has ended; stopping")
        self.detach()
        self.stop.set()

    def add(self, command: Command) -> Child:
        """Start one more component.

        Raises:
            TestbedError: there is one of that name that has not ended.

        """
        if (known := self.children.get(command.name)) and known.alive:
            raise TestbedError(f"component {command.name} runs already")
        child = Child(
            command,
            log=self.layout.log(command.name),
            cwd=self.layout.root,
            # Simulated nodes need the Python environment; the control plane needs nothing of ours.
            environment=small_environment(self.layout) if command.executable else dict(os.environ),
            on_exit=self._note_exit,
        )
        self.children[command.name] = child
        child.start()
        log.info("%s started", command.name)
        return child

    def _note_exit(self, child: Child) -> None:
        log.warning("%s ended: %s", child.name, child.ending)

    async def run(self) -> None:
        """Bring everything up, keep it until asked to stop, end it.

        Raises:
            TestbedError: it did not come up; the text says which component and shows the end of its log.

        """
        reservation = ports.reserve()
        server = reservation.ports.server
        State(
            pid=os.getpid(),
            start_time=start_time(os.getpid()),
            created=datetime.now(UTC),
            server=server,
            ports=reservation.ports,
            options=self.options,
        ).write(self.layout)
        prepare(self.layout, server=server, binary=self.binary)
        pki = Pki(self.layout.pki)
        try:
            async with Probe(server=server, pki=pki) as probe, asyncio.TaskGroup() as tasks:
                renewal = TokenRenewal(
                    probe,
                    key_file=pki.service_account_key,
                    token_file=self.layout.token,
                    lifetime_seconds=self.options.token_lifetime_seconds,
                )
                control = ControlServer(self, probe=probe, renewal=renewal)
                work = [
                    tasks.create_task(control.serve()),
                    tasks.create_task(self._start_all(reservation.ports, probe=probe)),
                ]
                work.append(tasks.create_task(self._renew_when_ready(renewal)))
                await self.stop.wait()
                for task in work:
                    task.cancel()
        finally:
            await self._end_all()
            reservation.release()
        if self._failed:
            raise TestbedError(self._failed)

    async def _renew_when_ready(self, renewal: TokenRenewal) -> None:
        await self.ready.wait()
        await renewal.run()

    async def _start_all(self, chosen: components.Ports, *, probe: Probe) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                await self._start_control_plane(chosen, probe=probe)
        except TimeoutError:
            waiting = next((c for c in reversed(self.children.values()) if c.alive), None)
            name = waiting.name if waiting else components.ETCD
            self._fail(f"{name} was not ready within {START_TIMEOUT_SECONDS:.0f} s", name)
        except TestbedError as error:
            self._fail(str(error), "")
        else:
            self.ready.set()
            log.info("ready at %s", chosen.server)

    def _fail(self, text: str, component: str) -> None:
        shown = (
            f"; the end of {self.layout.log(component)}:\n{tail(self.layout.log(component))}"
            if component
            else ""
        )
        self._failed = text + shown
        self.stop.set()

    async def _start_control_plane(self, chosen: components.Ports, *, probe: Probe) -> None:
        commands = components.control_plane(
            self.layout, ports=chosen, options=self.options, binary=self.binary
        )
        etcd, apiserver, *clients = commands
        for command in (etcd, apiserver):
            await self._until_healthy([self.add(command)], probe=probe)
        # Only now: the other two give up when they cannot read their authentication settings at start.
        started = [self.add(command) for command in clients]
        if self.options.windows or self.options.linux:
            self.add(components.winsim(self.layout, ports=chosen, options=self.options))
        await self._until_healthy(started, probe=probe)
        # The proof that controllers work, and without which no pod can be created in that namespace.
        while await probe.service_account_uid(namespace="default", name="default") is None:
            self._refuse_dead(started)
            await asyncio.sleep(POLL_SECONDS)

    async def _until_healthy(self, started: list[Child], *, probe: Probe) -> None:
        for child in started:
            while not await probe.healthy(child.command.health_url):
                self._refuse_dead(started)
                await asyncio.sleep(POLL_SECONDS)

    def _refuse_dead(self, started: list[Child]) -> None:
        for child in started:
            if child.ending is not None:
                raise TestbedError(
                    f"{child.name} ended while starting ({child.ending}); "
                    f"the end of {child.log}:\n{tail(child.log)}"
                )

    async def _end_all(self) -> None:
        simulated = [child for child in self.children.values() if child.name not in components.CONTROL_PLANE]
        await asyncio.gather(*(child.stop(grace_seconds=WINSIM_GRACE_SECONDS) for child in simulated))
        await asyncio.gather(*(child.stop(grace_seconds=0) for child in self.children.values()))
        # Its keys are made anew, so nobody can use the data any more; logs stay for whoever asks why.
        shutil.rmtree(self.layout.etcd, ignore_errors=True)


async def supervise(layout: Layout, *, options: Options, binary: Path, parent: int) -> None:
    """Run a testbed until a signal, a request or the end of the parent stops it."""
    supervisor = Supervisor(layout, options=options, binary=binary)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop.set)
    supervisor.bind_to_parent(parent)
    try:
        await supervisor.run()
    finally:
        supervisor.detach()


def main() -> int:
    """Entry point of ``python -m testbed.supervisor``."""
    parser = argparse.ArgumentParser(prog="testbed.supervisor")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--options", required=True, help="JSON of testbed.options.Options")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    layout = Layout(arguments.directory)
    options = Options.model_validate_json(arguments.options)
    try:
        with contextlib.closing(take_lock(layout)):
            asyncio.run(supervise(layout, options=options, binary=arguments.binary, parent=arguments.parent))
    except TestbedError as error:
        sys.stderr.write(f"{error}\n")  # for people: whoever started us shows the end of this log
        return 1
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
