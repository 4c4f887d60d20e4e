"""Many kubelets in one process: bring-up, the wait until all are Ready, and the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, Final

from testbed.pins import chosen_pins
from testbed.winsim.addresses import assign_addresses, machine_network
from testbed.winsim.identities import SIMULATOR
from testbed.winsim.kubelet import Environment, Kubelet
from testbed.winsim.machines import build_fleet, node_names
from testbed.winsim.mirror import NODES, Mirror, list_nodes
from testbed.winsim.replies import Summary
from testbed.winsim.troubles import Troubles
from testbed.winsim.wire import IN_FLIGHT, ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from testbed.winsim.clock import Clock
    from testbed.winsim.objects import Node, Taint
    from testbed.winsim.schedule import Timing
    from testbed.winsim.wire import Wire

_PROGRESS_SECONDS: Final = 1.0
# Deleting runs at several hundred a second; the rest is patience with an API server that restarts.
_REMOVAL_SECONDS: Final = 10.0
_REMOVAL_SECONDS_PER_NODE: Final = 0.02
_REMOVAL_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which nodes to simulate. ``labels`` and ``taints`` go on every node, Windows and Linux."""

    prefix: str
    windows: int
    linux: int
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return node_names(self.prefix, windows=self.windows, linux=self.linux)


class Fleet:
    """The nodes of one plan on one API server.

    ``ready`` is set when all of them have been Ready at one time and that has been said.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        server: str,
        wire: Wire,
        clock: Clock,
        timing: Timing,
        say: Callable[[str], None],
    ) -> None:
        self.ready = asyncio.Event()
        self._complete = asyncio.Event()
        self._plan = plan
        self._names = frozenset(plan.names)
        self._seed = f"{server}|{plan.prefix}"
        self._wire = wire
        self._clock = clock
        self._say = say
        self._started: set[str] = set()
        self._registered_now: set[str] = set()
        self._ready_now: set[str] = set()
        troubles = Troubles(clock=clock, say=say)
        self._environment = Environment(
            wire=wire,
            mirror=Mirror(
                wire, clock=clock, random=Random(self._seed), troubles=troubles, on_change=self._changed
            ),
            clock=clock,
            timing=timing,
            troubles=troubles,
        )

    async def run(self) -> None:
        """Bring all nodes up and keep them alive until cancelled.

        Raises:
            ValueError: there are no addresses left for so many nodes.

        """
        mirror = self._environment.mirror
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(mirror.run())
            await mirror.synced.wait()
            starting = asyncio.Semaphore(IN_FLIGHT)
            for kubelet in self._kubelets():
                tasks.create_task(self._operate(kubelet, starting=starting))
            tasks.create_task(self._tell_progress())

    def summary(self) -> Summary:
        """Return the fleet in numbers."""
        return Summary(
            nodes=len(self._names), registered=len(self._registered_now), ready=len(self._ready_now)
        )

    async def _operate(self, kubelet: Kubelet, *, starting: asyncio.Semaphore) -> None:
        await kubelet.start(starting=starting)
        self._started.add(kubelet.name)
        self._changed(kubelet.name, self._environment.mirror.get(kubelet.name))
        await kubelet.run()

    def _kubelets(self) -> list[Kubelet]:
        plan = self._plan
        others = {
            address.address
            for name, node in self._environment.mirror.nodes.items()
            if name not in self._names
            for address in node.status.addresses
            if address.type == "InternalIP"
        }
        machines = build_fleet(
            plan.prefix,
            windows=plan.windows,
            linux=plan.linux,
            addresses=assign_addresses(plan.names, seed=self._seed, taken=others, network=machine_network()),
            kubelet_version=chosen_pins().kubernetes,
            labels=plan.labels,
            taints=plan.taints,
        )
        return [Kubelet(machine, environment=self._environment) for machine in machines]

    def _changed(self, name: str, node: Node | None) -> None:
        if name not in self._names:
            return
        self._registered_now.discard(name)
        self._ready_now.discard(name)
        if node is not None:
            self._registered_now.add(name)
            # A Node that was there before may say Ready while its kubelet is not yet at work.
            if node.ready and name in self._started:
                self._ready_now.add(name)
        if len(self._ready_now) == len(self._names):
            self._complete.set()

    async def _tell_progress(self) -> None:
        """Say how far the bring-up is, once a second while that changes, until all are Ready."""
        started = self._clock.monotonic()
        total = len(self._names)
        told = ""
        while True:
            text = f"registered {len(self._registered_now)}/{total}, Ready {len(self._ready_now)}/{total}"
            if text != told:
                self._say(f"{text} after {self._clock.monotonic() - started:.1f} s")
                told = text
            if self._complete.is_set():
                self._say(f"{total} nodes Ready")
                self.ready.set()
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._complete.wait(), _PROGRESS_SECONDS)

    async def remove_nodes(self) -> frozenset[str]:
        """Delete the nodes of the plan, as a cloud does with machines that are gone; return those left.

        Looks again until the API server lists none of them, so that a registration still under
        way at the end is found too. Leases go with their nodes (owner references).
        """
        left = self._names
        patience = _REMOVAL_SECONDS + _REMOVAL_SECONDS_PER_NODE * len(left)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while left := await self._existing():
                    async with asyncio.TaskGroup() as tasks:
                        for name in left:
                            tasks.create_task(self._delete(name))
        return left

    async def _existing(self) -> frozenset[str]:
        """Ask the API server which nodes of the plan there are, until it answers."""
        while True:
            try:
                return self._names & (await list_nodes(self._wire))[0].keys()
            except UnreachableError:
                pass
            except ApiError as error:
                self._environment.troubles.report(self._plan.prefix, "listing nodes", error)
            await self._clock.sleep(_REMOVAL_PAUSE_SECONDS)

    async def _delete(self, name: str) -> None:
        try:
            await self._wire.request("DELETE", f"{NODES}/{name}", identity=SIMULATOR)
        except UnreachableError:
            await self._clock.sleep(_REMOVAL_PAUSE_SECONDS)
        except ApiError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                self._environment.troubles.report(name, "deleting the node", error)
                await self._clock.sleep(_REMOVAL_PAUSE_SECONDS)
