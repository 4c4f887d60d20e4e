"""The lives of kubelets: each begins with a start and ends with a stop, and a machine sees many."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from testbed.pins import chosen_pins
from testbed.winsim.clock import timestamp
from testbed.winsim.conditions import HEALTHY, Health
from testbed.winsim.kubelet import Environment, Kubelet
from testbed.winsim.machines import KUBELET_PORT, build_machine, usual_system
from testbed.winsim.releases import installed
from testbed.winsim.samples import Sample, parse_sample
from testbed.winsim.wire import IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testbed.winsim.census import Census
    from testbed.winsim.endpoint.server import Endpoint
    from testbed.winsim.entries import Entry
    from testbed.winsim.machines import Machine
    from testbed.winsim.pods.keeper import Keeper


@dataclass(frozen=True, slots=True)
class _Life:
    kubelet: Kubelet
    task: asyncio.Task[None]


class Lives:
    """All kubelets that run now, by node."""

    def __init__(
        self,
        environment: Environment,
        *,
        census: Census,
        pods: Keeper,
        endpoint: Endpoint | None,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._environment = environment
        self._census = census
        self._pods = pods
        self._endpoint = endpoint
        self._tasks = tasks
        self._running: dict[str, _Life] = {}
        self._starting = asyncio.Semaphore(IN_FLIGHT)

    def begin(self, entry: Entry) -> None:
        """Start the kubelet of a machine, once that is up. Nothing happens where it runs already."""
        if entry.name in self._running:
            return
        described = machine(entry, kubelet_port=self._port_of(entry))
        since = self._environment.clock.now().timestamp() - entry.booted
        kubelet = Kubelet(
            described,
            environment=self._environment,
            health=health(entry),
            ready_after=entry.ready_after,
            settling=max(0.0, entry.settling - max(0.0, since)),
        )
        self._pods.note_unready(entry.name, entry.unready_pods)
        self._census.began(entry.name)
        if since >= 0:
            self._serve(described, entry)
            life = self._live(kubelet, described)
        else:
            life = self._live_later(-since, kubelet, described, entry)
        self._running[entry.name] = _Life(kubelet, self._tasks.create_task(life))

    def _serve(self, described: Machine, entry: Entry) -> None:
        if self._endpoint is not None and entry.os == "windows":
            self._endpoint.attend(described, entry.faults)

    async def _live_later(self, seconds: float, kubelet: Kubelet, described: Machine, entry: Entry) -> None:
        await self._environment.clock.sleep(seconds)
        self._serve(described, entry)
        await self._live(kubelet, described)

    def _port_of(self, entry: Entry) -> int:
        return self._endpoint.port if self._endpoint is not None and entry.os == "windows" else KUBELET_PORT

    async def _live(self, kubelet: Kubelet, described: Machine) -> None:
        await kubelet.start(starting=self._starting)
        self._census.reported(kubelet.name, self._environment.mirror.get(kubelet.name))
        self._pods.attend(described)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(kubelet.run())
                if described.booted:
                    both.create_task(self._pods.look_again(kubelet.name))
        finally:
            self._pods.desert(kubelet.name)

    async def end(self, names: Iterable[str]) -> None:
        """Stop kubelets, and return when they send nothing more."""
        named = tuple(names)
        ending = [life.task for name in named if (life := self._running.pop(name, None)) is not None]
        if self._endpoint is not None:
            for name in named:
                self._endpoint.desert(name)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def forget(self, names: Iterable[str]) -> None:
        """Drop what endpoints know of machines that have left."""
        if self._endpoint is not None:
            for name in names:
                self._endpoint.forget(name)

    def set_faults(self, entry: Entry) -> None:
        """Have the endpoints of a machine, if its kubelet runs, be wrong as its line of the roster says."""
        if self._endpoint is not None:
            self._endpoint.set_faults(entry.name, entry.faults)

    def press(self, name: str, pressed: bool) -> None:
        """Tell the kubelet of a machine, if it runs, whether it is under memory pressure."""
        if life := self._running.get(name):
            life.kubelet.set_memory_pressure(pressed)

    def tell(self, entry: Entry) -> None:
        """Tell the kubelet of a machine, if it runs, how it now feels."""
        if life := self._running.get(entry.name):
            life.kubelet.set_health(health(entry))


@cache  # for thousands of machines
def _kubelet_version() -> str:
    return chosen_pins().kubernetes


def machine(entry: Entry, *, kubelet_port: int = KUBELET_PORT) -> Machine:
    """Describe the machine behind a line of the roster."""
    sample = parse_sample(entry.sample) if entry.sample else Sample()
    system = sample.os
    if entry.kernel:
        before = system or usual_system(entry.index, windows=entry.os == "windows")
        system = installed(entry.kernel, before=before)
    return build_machine(
        entry.name,
        index=entry.index,
        windows=entry.os == "windows",
        address=entry.address,
        kubelet_version=sample.kubelet or _kubelet_version(),
        kubelet_port=kubelet_port,
        labels=entry.labels,
        taints=entry.taints,
        generation=entry.generation,
        boots=entry.boots,
        booted=timestamp(datetime.fromtimestamp(entry.booted, UTC)) if entry.booted else "",
        networked=entry.networked,
        installed=system,
        memory=entry.memory,
        setup=entry.setup,
    )


def health(entry: Entry) -> Health:
    """Return what the kubelet of a machine reports."""
    if entry.trouble is None:
        return HEALTHY
    return Health(not_ready=entry.trouble.message, reason=entry.trouble.reason)
