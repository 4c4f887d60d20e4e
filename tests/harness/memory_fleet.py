"""Kubelets and a Prometheus in virtual time, whose nodes use the memory that a test says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, Final, Self

from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool
from harness.memory import CEILING, GIB, MIB, RAM
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.memory_polls import Connections, DataSource
from winpool.kubelet.addresses import AddressRules, Target
from winpool.kubelet.client import KubeletClient
from winpool.kubelet.prometheus import PrometheusClient
from winpool.kubelet.samples import KubeletEviction, Outcome, PollError
from winpool.model.node import KubeletEndpoint, Node, NodeMemory
from winpool.model.pool import Pool
from winpool.model.pressure import KnownMemory, MemorySample, PodUsage

CALM_GIB: Final = 12.0
"""Of a ceiling of 24 GiB."""

EPOCH: Final = 1_790_000_000.0
"""What the clocks of the nodes show when the loop's time is 0."""

RULES: Final = AddressRules(allowed=(ip_network("127.0.0.0/8"),))


@dataclass
class Machine:
    """A node as its kubelet sees it, and what is wrong with it.

    ``committed`` is in GiB at a time. ``seconds`` is how long an answer takes, infinity for never.
    ``frozen_at`` is when its counters stopped.
    """

    committed: Callable[[float], float] = lambda _: CALM_GIB
    seconds: float = 0.05
    error: PollError | Exception | None = None
    frozen_at: float | None = None
    is_old: bool = False
    """A kubelet before 1.31: no commit container."""
    pods: tuple[tuple[str, float | None, float], ...] = ()
    """UID, commit and working set in GiB."""
    eviction: KubeletEviction | PollError = KubeletEviction.ARMED
    reads: float = 0.0
    available: float = 8.0


@dataclass
class Fleet:
    """Machines by the names of their nodes. ``polls`` are the times of all polls, by node."""

    machines: dict[str, Machine] = field(default_factory=dict)
    polls: dict[str, list[float]] = field(default_factory=dict)
    with_pods: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    followed: Counter[str] = field(default_factory=Counter)
    """Polls that were announced to be followed by another request, by node."""
    released: Counter[str] = field(default_factory=Counter)
    """Polls of which that was taken back."""
    probes: Counter[str] = field(default_factory=Counter)
    probed_at: list[float] = field(default_factory=list)
    queries: list[float] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    in_flight: Counter[str] = field(default_factory=Counter)
    most_in_flight: int = 0
    most_of_a_node: int = 0
    is_open: bool = False
    scrape_seconds: float = 30.0
    prometheus_error: PollError | Exception | None = None
    prometheus_seconds: float = 0.2
    forbidden: str = ""
    """Which right the operator lacks."""
    missing: set[str] = field(default_factory=set)
    """Nodes of which Prometheus has no series."""

    @property
    def time(self) -> float:
        """The time of the loop."""
        return asyncio.get_running_loop().time()

    def connections(self) -> Connections:
        """Return what a collector connects to."""
        return Connections(
            kubelets=lambda: Kubelets(self),
            rules=RULES,
            data_sources={"main": DataSource(Source(self), self.scrape_seconds)},
            missing=lambda: self.forbidden,
        )

    def sample(self, name: str, *, pods: bool) -> tuple[MemorySample, dict[str, PodUsage] | None]:
        """Return what the kubelet of a node answers now."""
        machine = self.machines[name]
        at = self.time if machine.frozen_at is None else min(self.time, machine.frozen_at)
        usage = {uid: _usage(commit, working_set) for uid, commit, working_set in machine.pods}
        commits = [each.commit for each in usage.values() if each.commit is not None]
        sample = MemorySample(
            taken_at=EPOCH + at,
            commit_total=int(machine.committed(at) * GIB),
            commit_limit=None if machine.is_old else CEILING,
            proxy_available=int(machine.available * GIB),
            pods_commit=sum(commits) if pods and commits and len(commits) == len(usage) else None,
        )
        return sample, usage if pods else None

    def scraped(self, name: str) -> MemorySample:
        """Return what Prometheus has scraped of a node last."""
        machine, now = self.machines[name], self.time
        at = now if machine.frozen_at is None else min(now, machine.frozen_at)
        at -= at % self.scrape_seconds
        return MemorySample(
            taken_at=EPOCH + at,
            age=now - at,
            commit_total=int(machine.committed(at) * GIB),
            commit_limit=CEILING,
            physical_total=RAM,
            physical_available=int(machine.available * GIB),
            hard_reads_per_second=machine.reads,
            write_out_per_second=machine.reads / 2,
            repurposed_per_second=0.0,
            pool_nonpaged=200 * MIB,
        )


def _usage(commit: float | None, working_set: float) -> PodUsage:
    return PodUsage(None if commit is None else int(commit * GIB), int(working_set * GIB))


class Kubelets(KubeletClient):
    """The client of the kubelets of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def __aenter__(self) -> Self:
        self._fleet.is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._fleet.is_open = False

    async def summary(
        self, target: Target, *, deadline: float, pods: bool = False, keep: bool = False, more: bool = False
    ) -> tuple[MemorySample, dict[str, PodUsage] | None]:
        fleet, name = self._fleet, target.node
        assert fleet.is_open
        fleet.polls.setdefault(name, []).append(fleet.time)
        fleet.with_pods[name] += pods
        fleet.kept[name] += keep
        fleet.followed[name] += more
        async with _Flight(fleet, name):
            await self._answer(name, deadline)
            return fleet.sample(name, pods=pods)

    async def eviction(self, target: Target, *, deadline: float) -> KubeletEviction:
        fleet, name = self._fleet, target.node
        fleet.probes[name] += 1
        fleet.probed_at.append(fleet.time)
        async with _Flight(fleet, name):
            await self._answer(name, deadline)
            found = fleet.machines[name].eviction
            if isinstance(found, PollError):
                raise found
            return found

    async def release(self, node: str) -> None:
        self._fleet.released[node] += 1

    async def forget(self, node: str) -> None:
        self._fleet.forgotten.append(node)

    async def _answer(self, name: str, deadline: float) -> None:
        machine = self._fleet.machines[name]
        if machine.seconds > deadline:
            await asyncio.sleep(deadline)
            raise PollError(Outcome.TIMEOUT, "too late")
        await asyncio.sleep(machine.seconds)
        if machine.error is not None:
            raise machine.error


class _Flight:
    def __init__(self, fleet: Fleet, name: str) -> None:
        self._fleet, self._name = fleet, name

    async def __aenter__(self) -> None:
        flying = self._fleet.in_flight
        flying[self._name] += 1
        self._fleet.most_in_flight = max(self._fleet.most_in_flight, flying.total())
        self._fleet.most_of_a_node = max(self._fleet.most_of_a_node, flying[self._name])

    async def __aexit__(self, *_: object) -> None:
        self._fleet.in_flight[self._name] -= 1


class Source(PrometheusClient):
    """A data source that has scraped the machines of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def samples(self, *, label: str, deadline: float) -> dict[str, MemorySample]:
        fleet = self._fleet
        assert label == "node"
        fleet.queries.append(fleet.time)
        if fleet.prometheus_seconds > deadline:
            await asyncio.sleep(deadline)
            raise PollError(Outcome.TIMEOUT, "too late")
        found = {name: fleet.scraped(name) for name in fleet.machines if name not in fleet.missing}
        await asyncio.sleep(fleet.prometheus_seconds)
        if fleet.prometheus_error is not None:
            raise fleet.prometheus_error
        return found


PROMETHEUS_SOURCE: Final = {
    "type": "Prometheus",
    "prometheus": {"dataSource": "main", "nodeLabel": "node"},
}
KUBELET_SOURCE: Final = {"type": "Kubelet"}


def a_watching_pool(
    name: str = "pool", *, uid: str = "uid-of-pool", generation: int = 1, **pressure: Any
) -> Pool:
    """Return a pool whose ``memoryPressure`` has these fields."""
    return a_pool(name, uid=uid, generation=generation, more={"memoryPressure": pressure})


def a_watched_node(number: int, *, uid: str | None = None, **changes: Any) -> Node:
    """Return a node with an address of its own, and 16 GiB of RAM."""
    node = a_node(f"w{number:03}")
    return replace(
        node,
        uid=uid or node.uid,
        kubelet=KubeletEndpoint(address=f"127.0.{number // 200}.{number % 200 + 1}", port=10250),
        memory=NodeMemory(capacity=RAM, allocatable=RAM - 2 * GIB),
        **changes,
    )


class Stage:
    """A collector on stage, with a fleet. ``wakes`` are the times at which pools were woken."""

    def __init__(self, numbers: Iterable[int] = range(1, 4), *, jitter: float | None = 0.5) -> None:
        loop = asyncio.get_running_loop()
        self.fleet = Fleet()
        self.nodes = [a_watched_node(number) for number in numbers]
        for node in self.nodes:
            self.fleet.machines[node.name] = Machine()
        self.wakes: list[tuple[float, str]] = []
        self.begun = loop.time()
        self.collector = MemoryCollector(
            self.fleet.connections(),
            wake=lambda pool: self.wakes.append((self.time, pool)),
            now=lambda: NOON,
            monotonic=loop.time,
            **({} if jitter is None else {"jitter": lambda: jitter}),
        )

    @property
    def time(self) -> float:
        """Seconds since the beginning."""
        return asyncio.get_running_loop().time() - self.begun

    def machine(self, number: int) -> Machine:
        """Return the machine of the node of that number, from 0."""
        return self.fleet.machines[self.nodes[number].name]

    def polls_of(self, number: int) -> list[float]:
        """Return when the node of that number was polled."""
        return [at - self.begun for at in self.fleet.polls.get(self.nodes[number].name, [])]

    def known(self, pool: Pool) -> KnownMemory:
        """Return what is known of the nodes of the pool now."""
        return self.collector.known(pool)


def a_mixed_stage() -> Stage:
    """Return five nodes: a full one, an old kubelet, a silent one, two that do not evict or say so."""
    stage = Stage(range(5))
    stage.machine(0).committed = lambda _: 21.0
    stage.machine(0).pods = (("a", 4.0, 1.0),)
    stage.machine(1).is_old = True
    stage.machine(2).error = PollError(Outcome.NO_CONNECTION, "")
    stage.machine(3).eviction = KubeletEviction.NOT_ARMED
    stage.machine(4).eviction = PollError(Outcome.FORBIDDEN, "")
    stage.fleet.missing = {stage.nodes[2].name, stage.nodes[4].name}
    return stage
