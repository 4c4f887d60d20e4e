"""The fault proxy as a test uses it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import yaml

from testbed.cluster import Testbed
from testbed.components import LOOPBACK
from testbed.faults.actions import When, kill
from testbed.faults.counting import Count
from testbed.faults.errors import FaultError
from testbed.faults.exchange import Log
from testbed.faults.record import PROGRESS, Match, Record, RecordTest
from testbed.faults.relay import Relay
from testbed.faults.rule import Action, Rule
from testbed.kubeconfig import render
from testbed.paths import write_atomically
from testbed.pki import Pki
from testbed.ports import Reservation, reserve

WAIT_SECONDS: Final = 180.0
"""For a request to come: a guard, not an expectation."""
CALL_SECONDS: Final = 10.0
"""For the loop of the proxy to do something: it takes microseconds, and seconds on a machine that sleeps."""

T = TypeVar("T")


class FaultProxy:
    """Stands between clients and the API server of a testbed, and does harm when told to.

    Use it as a context manager. It runs on a thread and a loop of its own; all methods may be called from
    any thread and take effect before they return.
    """

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._log = Log()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._reservation: Reservation = reserve()
        # Any port of the block will do; the others stay unused.
        self._port = self._reservation.ports.apiserver
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(started)), name=f"fault-proxy-{self._port}", daemon=True
        )
        self._thread.start()
        try:
            started.result(timeout=CALL_SECONDS)
        except BaseException:
            self._reservation.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_loop(self._stop.set)
        self._thread.join()
        self._reservation.release()
        if self._relay.failures.errors and error is None:
            raise FaultError(
                "a function that was given to the proxy failed"
            ) from self._relay.failures.errors[0]

    async def _live(self, started: Future[None]) -> None:
        try:
            pki = Pki(self._testbed.layout.pki)
            relay = Relay(server=self._testbed.server, pki=pki, port=self._port, requests=self._log)
            async with relay:
                self._relay, self._loop = relay, asyncio.get_running_loop()
                started.set_result(None)
                await self._stop.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            raise

    # Who goes through it

    @property
    def server(self) -> str:
        """URL of the proxy, in place of the API server's."""
        return f"https://{LOOPBACK}:{self._port}"

    def kubeconfig(self, role: str) -> Path:
        """Return a copy of a role's kubeconfig that goes through the proxy.

        Raises:
            FaultError: it authenticates by a client certificate, which ends at the proxy's TLS.
            TestbedError: there is no such role.

        """
        document = yaml.safe_load(self._testbed.kubeconfig(role).read_text())
        [user] = document["users"]
        if not user["user"].keys() & {"token", "tokenFile"}:
            raise FaultError(f"{role} authenticates by certificate; through the proxy only tokens pass")
        path = self._testbed.layout.kubeconfig(f"{role}-via-{self._port}")
        text = render(
            server=self.server, ca_file=self._testbed.ca_file, user=user["name"], credentials=user["user"]
        )
        write_atomically(path, text)
        return path

    # Harm

    def add(
        self,
        match: Match,
        action: Action,
        *,
        nth: int | None = None,
        every: int | None = None,
        first: int | None = None,
    ) -> Rule:
        """Have something done to requests from now on; return the rule, to release or remove.

        All rules that select a request act on it, in the order in which they were added, until one
        answers or cuts. A rule for lines looks at watches that are open or were opened with success, and
        acts on them from now on, or from their first line on.

        Args:
            match: which requests, see ``on``.
            action: what to do to them.
            nth: only to this one of them, counted from 1 as they arrive.
            every: to this one, and the one after as many again.
            first: to so many of them and no more.

        """
        count = Count.of(nth=nth, every=every, first=first)
        rule = Rule(match, action, count=count, run_on_loop=self._on_loop)
        self._wait(self._relay.add, rule)
        return rule

    def kill_operator_on(
        self, nth_write: int, *, when: When, pid: Callable[[], int], writes: Match = PROGRESS
    ) -> Rule:
        """SIGKILL the operator at its nth write.

        Args:
            nth_write: counted from 1, from now on.
            when: before: the writes before it are carried out, it and all later ones are not; after: it is
                carried out, and the operator never learns of it.
            pid: of the operator, asked at that moment.
            writes: which ones count; by default all but those of Leases.

        """
        return self.add(writes, kill(pid, when=when), nth=nth_write)

    def refuse_connections(self) -> None:
        """Break off all connections and refuse new ones, as if there were no API server."""
        self._on_loop(self._relay.refuse)

    def accept_connections(self) -> None:
        """Be there again."""
        self._wait(self._relay.listen)

    def heal(self) -> None:
        """End all harm: remove all rules, accept connections."""
        self._on_loop(self._relay.remove_all)
        self.accept_connections()

    # What it has seen

    @property
    def log(self) -> tuple[Record, ...]:
        """All requests since the start or the last ``clear``, in order of arrival, as they stand."""
        return self._log.records()

    def writes(self, match: Match = PROGRESS) -> tuple[Record, ...]:
        """Return the writes in the log; by default all but those of Leases."""
        return tuple(record for record in self.log if record.writes and match(record))

    @property
    def open_watches(self) -> tuple[Record, ...]:
        """Watches that are open now, oldest first."""
        return tuple(watch.exchange.record for watch in tuple(self._relay.watches) if not watch.over)

    def wait_for(self, test: RecordTest, *, count: int = 1, seconds: float = WAIT_SECONDS) -> Record:
        """Return the ``count``-th request in the log that passes the test, once there is one.

        ``test`` is what ``on`` returns, or any function of a record.

        Raises:
            FaultError: there is none within ``seconds``; the text shows the latest requests.

        """
        return self._log.wait_for(test, count=count, seconds=seconds)

    def clear(self) -> None:
        """Forget what is over: open watches and stalled requests stay in the log. Rules go on counting."""
        self._log.clear()

    # The thread

    def _on_loop(self, function: Callable[[], None]) -> None:
        async def work() -> None:
            function()

        self._wait(work)

    def _wait(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T | None:
        """Run something on the loop and return when it is done; nothing happens once the loop is gone."""
        if self._loop is None or self._loop.is_closed():
            return None
        if threading.current_thread() is self._thread:
            raise FaultError("called from a function that runs on the loop of the proxy; use call() instead")

        async def work() -> T:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(timeout=CALL_SECONDS)
