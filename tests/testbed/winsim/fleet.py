"""Many kubelets in one process: bring-up, the wait until all are Ready, what their owner does, the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from testbed.winsim import sight
from testbed.winsim.census import Census
from testbed.winsim.enrolment import enter_plan, free_addresses
from testbed.winsim.entries import AT_ONCE, FAMILIES, NOTHING_INSTALLED
from testbed.winsim.identities import SIMULATOR
from testbed.winsim.lives import Lives, machine
from testbed.winsim.machines import USUAL_SETUP
from testbed.winsim.memory import USUAL_MEMORY, Memory
from testbed.winsim.mirror import NODES
from testbed.winsim.parts import build_parts
from testbed.winsim.patches import range_patch
from testbed.winsim.wire import METADATA_ONLY, STRATEGIC_MERGE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from testbed.winsim.endpoint.faults import EndpointName, Fault
    from testbed.winsim.endpoint.server import Endpoint
    from testbed.winsim.entries import Arrival, Entry, Outage, Trouble, Updates
    from testbed.winsim.machines import Setup
    from testbed.winsim.objects import Node
    from testbed.winsim.parts import Settings
    from testbed.winsim.plan import Plan
    from testbed.winsim.replies import NodeView, Summary
    from testbed.winsim.roster import Roster

# The watch is a few milliseconds behind the answer.
_MIRROR_SECONDS: Final = 0.02
# How often it is looked whether a new machine is Ready, whose predecessor then leaves.
_SURGE_SECONDS: Final = 0.2


class Fleet:
    """The nodes of one roster on one API server.

    ``ready`` is set when all that were there at the start have been Ready once and that has been said.
    ``open`` is set when the owner of the machines may do something to them; the methods for that change the
    roster at once, so that two at the same time cannot contradict each other.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        roster: Roster,
        server: str,
        settings: Settings,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.open = asyncio.Event()
        self.ready = asyncio.Event()
        self.roster = roster
        self._plan = plan
        self._seed = f"{server}|{plan.prefix}"
        self._clock = settings.clock
        self._say = settings.say
        self.endpoint = endpoint
        """Serves the endpoints of its Windows nodes; None: there are none."""
        self._census = Census()
        self._lives: Lives | None = None
        self._tasks: asyncio.TaskGroup | None = None
        parts = build_parts(
            settings,
            seed=self._seed,
            endpoint=endpoint,
            on_change=self._changed,
            is_ours=lambda name: name in roster.entries,
            prefix=plan.prefix,
        )
        self._mirror, self._pods, self._attacher = parts.mirror, parts.pods, parts.attacher
        self._removal, self._environment = parts.removal, parts.environment

    async def run(self) -> None:
        """Bring all nodes up and keep them alive until cancelled.

        Raises:
            ValueError: there are no addresses left for so many nodes.

        """
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._mirror.run())
            await self._mirror.synced.wait()
            tasks.create_task(self._pods.run())
            if self._attacher is not None:
                tasks.create_task(self._attacher.run())
            self._lives = Lives(
                self._environment,
                census=self._census,
                pods=self._pods,
                endpoint=self.endpoint,
                tasks=tasks,
            )
            if self.endpoint is not None:
                tasks.create_task(self.endpoint.run(press=self._lives.press))
            if not self.roster.loaded:
                enter_plan(self._plan, roster=self.roster, addresses=self._addresses(self._plan.names))
            for name, node in self._mirror.nodes.items():
                self._changed(name, node)
            entries = tuple(self.roster.entries.values())
            self._census.expect(entry.name for entry in entries if entry.healthy)
            for entry in entries:
                if entry.running:
                    self._lives.begin(entry)
                if entry.replaces:
                    tasks.create_task(self._retire(entry.name))
            self.open.set()
            tasks.create_task(self._announce())

    async def _announce(self) -> None:
        await self._census.tell(total=lambda: len(self.roster), clock=self._clock, say=self._say)
        self.ready.set()

    def _addresses(self, names: Collection[str]) -> dict[str, str]:
        return free_addresses(names, roster=self.roster, nodes=self._mirror.nodes, seed=self._seed)

    def _changed(self, name: str, node: Node | None) -> None:
        if name in self.roster.entries:
            self._census.saw(name, node)

    # What the owner of the machines can do

    def join(self, names: tuple[str, ...], arrival: Arrival) -> None:
        """Add machines under these names, which nobody has, and start their kubelets."""
        os, memory = arrival.os, arrival.memory
        usual = self._plan.memory if os == "windows" and self._plan.memory else (USUAL_MEMORY,)
        addresses = self._addresses(names)
        self.roster.add(
            names,
            os=os,
            addresses=addresses,
            labels=arrival.labels,
            taints=arrival.taints,
            samples=self._plan.samples,
            kernel=arrival.kernel,
            memory=[each.but(memory) for each in usual],
            ready_after=arrival.ready_after,
            unready_pods=arrival.unready_pods,
        )
        self.roster.set_trouble(names, arrival.trouble)
        for name in names:
            self._changed(name, self._mirror.get(name))
            self._running_lives.begin(self.roster.entries[name])
        self._say(f"{_count(names)} joined")

    async def leave(self, names: tuple[str, ...]) -> None:
        """Take machines away and delete their Nodes."""
        self.roster.remove(names)
        unborn = self._unregistered(names)
        self._census.forget(names)
        await self._delete(names, unborn=unborn)
        self._running_lives.forget(names)
        self._say(f"{_count(names)} left")

    async def replace(
        self,
        names: tuple[str, ...],
        *,
        memory: Memory = USUAL_MEMORY,
        outage: Outage = AT_ONCE,
        kernels: Mapping[str, str] = NOTHING_INSTALLED,
    ) -> None:
        """Delete Nodes and start new machines under their names.

        They have other memory and run other kernels where these are given.
        """
        self.roster.set_memory(names, memory)
        self.roster.renew(
            names,
            booted=self._wall(after=outage.down),
            ready_after=outage.ready_after,
            networked=self._networked(outage),
            kernels=kernels,
        )
        renewed = self._lines(names)
        self._census.excuse(names)
        await self._delete(names, unborn=self._unregistered(names))
        self._begin(renewed)
        self._say(f"{_count(names)} replaced")

    def surge(
        self,
        names: tuple[str, ...],
        *,
        ready_after: float = 0.0,
        kernels: Mapping[str, str] = NOTHING_INSTALLED,
    ) -> None:
        """Start new machines beside these, under other names; of these each leaves once its own is Ready."""
        successors = dict(zip(names, self._new_names(names), strict=True))
        self.roster.add_successors(
            successors,
            addresses=self._addresses(tuple(successors.values())),
            ready_after=ready_after,
            kernels=kernels,
        )
        new = tuple(successors.values())
        self._begin(self._lines(new))
        if self._tasks is not None:
            for name in new:
                self._tasks.create_task(self._retire(name))
        self._say(f"{_count(new)} joined, and {_count(names)} to leave")

    def _new_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        entries = self.roster.entries
        by_os = {
            os: iter(self.roster.new_names(os, sum(entries[name].os == os for name in names)))
            for os in FAMILIES
        }
        return tuple(next(by_os[entries[name].os]) for name in names)

    async def _retire(self, name: str) -> None:
        """Have the predecessor of a machine leave once that is Ready."""
        while name not in self._census.ready:
            if name not in self.roster.entries:
                return
            await self._clock.sleep(_SURGE_SECONDS)
        old = self.roster.entries[name].replaces
        if old in self.roster.entries:
            await self.leave((old,))
        if name in self.roster.entries:
            self.roster.set_replaced(name)

    def hotpatch(self, kernels: Mapping[str, str]) -> None:
        """Install kernels on machines that run on; their kubelets report them after their next start."""
        self.roster.set_kernels(kernels)
        self._say(f"{_count(tuple(kernels))} patched without a start")

    def set_updates(self, names: tuple[str, ...], updates: Updates) -> None:
        """Have updates of machines succeed from now on, or fail in one way."""
        self.roster.set_updates(names, updates)
        self._say(f"updates of {_count(names)}: {updates}")

    async def reboot(
        self,
        names: tuple[str, ...],
        outage: Outage,
        *,
        kernels: Mapping[str, str] = NOTHING_INSTALLED,
        anew: bool = False,
    ) -> None:
        """Start machines again, with other kernels where given; ``anew``: their system is installed anew."""
        booted = self._wall(after=outage.down)
        self.roster.reboot(
            names,
            booted=booted,
            settling=outage.ready_after,
            networked=self._networked(outage),
            kernels=kernels,
            anew=anew,
        )
        changed = self._lines(names)
        self._census.excuse(names)
        await self._running_lives.end(names)
        self._begin(changed)
        self._say(f"{_count(names)} rebooted")

    def _wall(self, *, after: float) -> float:
        return self._clock.now().timestamp() + after

    def _networked(self, outage: Outage) -> float:
        if not outage.network_after:
            return 0.0
        return self._wall(after=outage.down + outage.ready_after + outage.network_after)

    def _lines(self, names: tuple[str, ...]) -> dict[str, Entry]:
        return {name: self.roster.entries[name] for name in names}

    def _begin(self, entries: Mapping[str, Entry]) -> None:
        for name, entry in entries.items():
            # Unless something else has been done to it in the meantime.
            if self.roster.entries.get(name) is entry and entry.running:
                self._running_lives.begin(entry)

    async def _delete(self, names: tuple[str, ...], *, unborn: tuple[str, ...]) -> None:
        old = {name: node.metadata.uid for name in names if (node := self._mirror.get(name))}
        await self._running_lives.end(names)
        await self._removal.delete(names, stragglers=unborn)
        # What comes next must not take an old Node for a new one.
        while any(self._uid(name) == uid for name, uid in old.items()):
            await self._clock.sleep(_MIRROR_SECONDS)

    def _uid(self, name: str) -> str:
        node = self._mirror.get(name)
        return node.metadata.uid if node is not None else ""

    async def stop(self, names: tuple[str, ...]) -> None:
        """Stop kubelets: their nodes fall silent."""
        self.roster.set_running(names, running=False)
        self._census.excuse(names)
        await self._running_lives.end(names)
        self._say(f"{_count(names)} stopped")

    def start(self, names: tuple[str, ...]) -> None:
        """Start kubelets that were stopped."""
        self.roster.set_running(names, running=True)
        for name in names:
            self._running_lives.begin(self.roster.entries[name])
        self._say(f"{_count(names)} started")

    async def restart(
        self, names: tuple[str, ...], *, memory: Memory = USUAL_MEMORY, setup: Setup = USUAL_SETUP
    ) -> None:
        """Stop kubelets and start them again, with what is given of memory held back and of configuration."""
        self.roster.set_memory(names, memory)
        self.roster.set_setup(names, setup)
        self.roster.set_running(names, running=True)
        changed = self._lines(names)
        await self._running_lives.end(names)
        self._begin(changed)
        self._say(f"{_count(names)} restarted")

    def pod_cidr(self, name: str) -> str | None:
        """Return the range of pod addresses of a node, empty where it has none; None: there is no Node."""
        node = self._mirror.get(name)
        return node.spec.pod_cidr if node is not None else None

    async def assign_pod_cidr(self, names: tuple[str, ...], pod_cidr: str, *, flannel: bool) -> None:
        """Give all these Nodes one range of pod addresses, with the annotations of flannel or without."""
        for name in names:
            await self._environment.wire.request(
                "PATCH",
                f"{NODES}/{name}",
                identity=SIMULATOR,
                body=range_patch(machine(self.roster.entries[name]), pod_cidr=pod_cidr, flannel=flannel),
                content_type=STRATEGIC_MERGE,
                accept=METADATA_ONLY,
            )
        self._say(f"pod addresses of {_count(names)}: {pod_cidr}")

    async def set_pods_ready(self, names: tuple[str, ...], pods: tuple[str, ...], *, ready: bool) -> None:
        """Have the containers of DaemonSets and pods, as NAMESPACE/NAME, be Ready on these nodes or not."""
        self.roster.set_unready_pods(names, pods, ready=ready)
        entries = self.roster.entries
        await asyncio.gather(*(self._pods.set_unready(name, entries[name].unready_pods) for name in names))
        self._say(f"{', '.join(pods)} {'' if ready else 'not '}Ready on {_count(names)}")

    def set_fault(self, names: tuple[str, ...], endpoint: EndpointName, fault: Fault | None) -> None:
        """Have something be wrong with an endpoint of these nodes, or nothing any more."""
        self.roster.set_fault(names, endpoint, fault)
        for name in names:
            self._running_lives.set_faults(self.roster.entries[name])
        self._say(f"{endpoint} of {_count(names)}: {fault.kind if fault else 'no fault'}")

    def set_trouble(self, names: tuple[str, ...], trouble: Trouble | None) -> None:
        """Have kubelets report that they are not ready and why, or that they are."""
        self.roster.set_trouble(names, trouble)
        if trouble is not None:
            self._census.excuse(names)
        for name in names:
            self._running_lives.tell(self.roster.entries[name])
        self._say(f"{_count(names)} {'healthy' if trouble is None else f'not ready: {trouble.reason}'}")

    @property
    def _running_lives(self) -> Lives:
        if self._lives is None:
            raise RuntimeError("await Fleet.open before doing something to nodes")
        return self._lives

    def _unregistered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in self._census.registered)

    # What can be asked

    def summary(self) -> Summary:
        """Return the fleet in numbers."""
        return sight.summary(self.roster, census=self._census, pods=self._pods, endpoint=self.endpoint)

    def unready(self) -> tuple[str, ...]:
        """Return the nodes that are not Ready; cheap enough to be asked ten times a second."""
        return tuple(sorted(self.roster.entries.keys() - self._census.ready))

    def views(self) -> tuple[NodeView, ...]:
        """Return what is known about each node."""
        return sight.views(self.roster, census=self._census, pods=self._pods, uid=self._uid)

    async def remove_nodes(self) -> frozenset[str]:
        """Delete all nodes of the fleet, as a cloud does with machines that are gone; return those left."""
        return await self._removal.sweep(frozenset(self.roster.entries))


def _count(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} nodes"
