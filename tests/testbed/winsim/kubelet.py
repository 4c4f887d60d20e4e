"""One simulated kubelet: registers its node, reports its status, keeps its Lease.

Follows the kubelet at v1.36 (``pkg/kubelet/kubelet_node_status.go``). It registers once. If
somebody deletes the Node it does not register again, as a real kubelet does not until it is
restarted: its reports fail with 404 until somebody creates a Node of that name.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from http import HTTPStatus
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from testbed.winsim.clock import Backoff, jittered
from testbed.winsim.conditions import HEALTHY, STARTING
from testbed.winsim.identities import node_identity
from testbed.winsim.lease import NodeLease
from testbed.winsim.mirror import NODES
from testbed.winsim.nodestatus import has_changed, initial_node, reported, reregistered
from testbed.winsim.objects import Node
from testbed.winsim.patches import status_patch
from testbed.winsim.schedule import ReportSchedule
from testbed.winsim.wire import METADATA_ONLY, STRATEGIC_MERGE, ApiError, UnreachableError

if TYPE_CHECKING:
    from testbed.winsim.clock import Clock
    from testbed.winsim.conditions import Health
    from testbed.winsim.machines import Machine
    from testbed.winsim.mirror import Mirror
    from testbed.winsim.schedule import Timing
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

# nodeStatusUpdateRetry of the kubelet.
_REPORT_TRIES: Final = 5
_NODE: Final = msgspec.json.Decoder(Node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What all kubelets of a process share."""

    wire: Wire
    mirror: Mirror
    clock: Clock
    timing: Timing
    troubles: Troubles


class Kubelet:
    """The kubelet of one machine. Its jitter is drawn from its name, so that runs can be repeated.

    Where it makes its Node, that is not Ready for ``ready_after`` seconds, as on a machine whose network has
    yet to be set up. A kubelet that finds its Node there does not wait, unless its machine has just been
    started: then ``settling`` seconds.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        environment: Environment,
        health: Health = HEALTHY,
        ready_after: float = 0.0,
        settling: float = 0.0,
    ) -> None:
        self._machine = machine
        self.name = machine.name
        self._identity = node_identity(machine.name)
        self._path = f"{NODES}/{machine.name}"
        self._env = environment
        self._random = Random(machine.name)
        self._health = health
        self._ready_after = ready_after
        self._settling = settling
        self._ready_at = -inf
        self._loops: asyncio.TaskGroup | None = None
        self._status: asyncio.Task[None] | None = None
        self._schedule = ReportSchedule(interval=environment.timing.status_report, random=self._random)
        self._settled: Node | None = None
        self._lease = NodeLease(
            machine.name,
            wire=environment.wire,
            clock=environment.clock,
            timing=environment.timing,
            random=self._random,
            troubles=environment.troubles,
            owner=self._uid,
        )

    async def start(self, *, starting: asyncio.Semaphore) -> None:
        """Register the node and report its status, until the API server has accepted both.

        ``starting`` bounds how many nodes come up at once, so that each is Ready soon after it
        registered; a node that was refused waits outside of it.
        """
        if self._settling > 0:
            self._ready_at = self._env.clock.monotonic() + self._settling
        backoff = Backoff(random=self._random)
        while not await self._start(starting):
            await self._env.clock.sleep(backoff.next())

    async def run(self) -> None:
        """Send heartbeats for ever."""
        async with asyncio.TaskGroup() as loops:
            self._loops = loops
            self._status = loops.create_task(self._keep_status())
            loops.create_task(self._lease.keep())
            if (self._ready_after or self._settling) and self._ready_at > -inf:
                loops.create_task(self._be_ready_in(self._ready_at - self._env.clock.monotonic()))

    def set_health(self, health: Health) -> None:
        """Report this from now on, and at once where the kubelet is past its start.

        A real one may take one status interval (10 s) to say it; tests should not have to.
        """
        self._health = replace(health, memory_pressure=self._health.memory_pressure)
        self._report_now()

    def set_memory_pressure(self, pressed: bool) -> None:
        """Report MemoryPressure from now on, or that there is none, and at once."""
        self._health = replace(self._health, memory_pressure=pressed)
        self._report_now()

    async def _be_ready_in(self, seconds: float) -> None:
        await self._env.clock.sleep(max(0.0, seconds))
        self._ready_at = -inf
        self._report_now()

    def _report_now(self) -> None:
        self._settled = None
        if self._loops is not None and self._status is not None:
            self._status.cancel()
            self._status = self._loops.create_task(self._keep_status(now=True))

    async def _start(self, starting: asyncio.Semaphore) -> bool:
        async with starting:
            try:
                node = await self._register()
            except UnreachableError:
                return False
            except ApiError as error:
                self._env.troubles.report(self.name, "registering", error)
                return False
            return await self._report(node)

    async def _register(self) -> Node:
        """Create the Node; where it exists, or may not be created, reconcile the one that is there."""
        node = initial_node(self._machine, health=STARTING, now=self._env.clock.now())
        try:
            created = await self._env.wire.request("POST", NODES, identity=self._identity, body=node)
        except ApiError as error:
            if error.code not in (HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN):
                raise
            existing = await self._read()
            if existing is None:
                raise
        else:
            self._ready_at = self._env.clock.monotonic() + self._ready_after
            return _NODE.decode(created)
        reconciled = reregistered(self._machine, existing=existing)
        await self._patch(existing, reconciled)
        return reconciled

    async def _keep_status(self, *, now: bool = False) -> None:
        timing = self._env.timing
        while True:
            if not now:
                pause = jittered(timing.status_sync, factor=timing.jitter, random=self._random)
                await self._env.clock.sleep(pause)
            now = False
            await self._report(self._env.mirror.get(self.name))

    async def _report(self, seen: Node | None) -> bool:
        """Bring the status on the API server up to date, if it is not or if a report is due.

        ``seen`` is the node as last heard of; if that leads nowhere it is read. Returns whether
        the API server now has the status that it should have.
        """
        for _ in range(_REPORT_TRIES):
            try:
                seen = seen or await self._read()
                if seen is None:
                    raise ApiError(
                        HTTPStatus.NOT_FOUND,
                        "NotFound",
                        "the Node was deleted; a kubelet registers only once",
                    )
                await self._report_on(seen)
            except UnreachableError:
                return False
            except ApiError as error:
                self._env.troubles.report(self.name, "reporting its status", error)
                if error.code == HTTPStatus.NOT_FOUND:
                    return False
                seen = None
            else:
                return True
        return False

    async def _report_on(self, seen: Node) -> None:
        now = self._env.clock.monotonic()
        due = self._schedule.due(now)
        if seen is self._settled and not due:
            return
        # Until then it says what it said when it registered, whatever else it has been told.
        starting = self._env.clock.monotonic() < self._ready_at
        health = STARTING if starting else self._health
        wanted = reported(self._machine, seen=seen, health=health, now=self._env.clock.now())
        changed = has_changed(seen, wanted)
        if changed or due:
            await self._patch(seen, wanted)
            self._schedule.sent(now, changed=changed)
        else:
            self._settled = seen

    async def _patch(self, seen: Node, wanted: Node) -> None:
        if patch := status_patch(seen, wanted):
            await self._env.wire.request(
                "PATCH",
                f"{self._path}/status",
                identity=self._identity,
                body=patch,
                content_type=STRATEGIC_MERGE,
                accept=METADATA_ONLY,
            )

    async def _read(self) -> Node | None:
        try:
            return _NODE.decode(await self._env.wire.request("GET", self._path, identity=self._identity))
        except ApiError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _uid(self) -> str | None:
        """Look up the UID of the Node: in the mirror, or on the API server where that is behind."""
        node = self._env.mirror.get(self.name) or await self._read()
        return node.metadata.uid if node is not None else None
