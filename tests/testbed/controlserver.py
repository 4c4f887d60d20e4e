"""The supervisor's side of the control socket."""

import asyncio
import logging
import signal
import socket
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from testbed.components import Command
from testbed.control import Reply, Request, address
from testbed.errors import TestbedError
from testbed.health import Probe
from testbed.renewal import TokenRenewal

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.child import Child
    from testbed.supervisor import Supervisor

log = logging.getLogger("testbed.control")

ENDING_SIGNALS: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT})
"""After these the answer waits until the process is gone, so that a test may go on from there."""
READ_TIMEOUT_SECONDS: Final = 5.0
"""A client writes its line at once; one that does not must not keep the supervisor from ending."""
END_TIMEOUT_SECONDS: Final = 10.0
"""A component told to end politely closes its connections first; what takes longer is reported as such."""


class ControlServer:
    """Answers requests about one supervisor."""

    def __init__(self, supervisor: "Supervisor", *, probe: Probe, renewal: TokenRenewal) -> None:
        self._supervisor = supervisor
        self._probe = probe
        self._renewal = renewal

    async def serve(self) -> None:
        """Listen until cancelled."""
        path = self._supervisor.layout.socket
        path.unlink(missing_ok=True)  # of a supervisor that was killed; the directory's lock says it is gone
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            with address(path) as name:
                listener.bind(name)
            path.chmod(0o600)
            try:
                async with await asyncio.start_unix_server(self._converse, sock=listener) as server:
                    await server.serve_forever()
            finally:
                path.unlink(missing_ok=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                line = await reader.readline()
            reply = await self._answer(line)
            writer.write(reply.model_dump_json().encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            log.info("a client of the control socket left: %s", error)
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> Reply:
        try:
            request = Request.model_validate_json(line)
            return await self._do(request)
        except (TestbedError, OSError) as error:
            return Reply(error=str(error))
        except ValidationError as error:
            return Reply(error=f"malformed request: {error.errors()[0]['msg']}")

    async def _do(self, request: Request) -> Reply:
        simple: dict[str, Callable[[], object]] = {
            "detach": self._supervisor.detach,
            "shutdown": self._supervisor.stop.set,
            "token": lambda: self._renewal.renew_now(lifetime_seconds=request.lifetime_seconds),
            "start": lambda: self._child(request).start(),
            "run": lambda: self._supervisor.add(
                Command(name=request.component, argv=request.argv, health_url=request.health_url)
            ),
            "status": lambda: None,
        }
        if request.do == "signal":
            await self._signal(self._child(request), signal.Signals(request.signal))
        else:
            simple[request.do]()
        # After a shutdown nobody is left to be asked about.
        return Reply() if request.do == "shutdown" else await self._status()

    def _child(self, request: Request) -> "Child":
        children = self._supervisor.children
        if request.component not in children:
            raise TestbedError(
                f"there is no component {request.component!r}; there are: {', '.join(children) or 'none yet'}"
            )
        return children[request.component]

    async def _signal(self, child: "Child", number: signal.Signals) -> None:
        child.send(number)
        if number in ENDING_SIGNALS and not await child.ended(timeout_seconds=END_TIMEOUT_SECONDS):
            raise TestbedError(
                f"{child.name} did not end within {END_TIMEOUT_SECONDS:.0f} s of {number.name}"
            )

    async def _status(self) -> Reply:
        children = list(self._supervisor.children.values())
        health = await asyncio.gather(*(self._is_healthy(child) for child in children))
        return Reply(
            ready=self._supervisor.ready.is_set(),
            token=self._renewal.written,
            components=tuple(
                child.status(healthy=healthy) for child, healthy in zip(children, health, strict=True)
            ),
        )

    async def _is_healthy(self, child: "Child") -> bool:
        # One that is paused would only be waited for in vain.
        return child.alive and not child.paused and await self._probe.healthy(child.command.health_url)
