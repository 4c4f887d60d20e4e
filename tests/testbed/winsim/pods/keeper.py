"""All pods of all nodes of a process, and what their kubelets do about them.

One watch stands for all kubelets: that of every pod that has a node. What is to be done is told from the
pod as it stands (``steps``), so that nothing is lost with a process; while nothing is to be done, a pod
costs its place in a table.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from testbed.winsim.clock import Backoff
from testbed.winsim.identities import node_identity
from testbed.winsim.pods import events, status
from testbed.winsim.pods.addresses import PodAddresses
from testbed.winsim.pods.agenda import Agenda
from testbed.winsim.pods.objects import Pod
from testbed.winsim.pods.reports import WITH_ADDRESS, report, version_of
from testbed.winsim.pods.steps import NONE_YET, WARNINGS, Do, Efforts, next_step
from testbed.winsim.reflector import Reflector, list_all
from testbed.winsim.wire import IN_FLIGHT, METADATA_ONLY, STRATEGIC_MERGE, ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from random import Random

    from testbed.winsim.clock import Clock
    from testbed.winsim.machines import Machine
    from testbed.winsim.pods.steps import PodTiming
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

PODS: Final = "/api/v1/pods"
# Half of what may be in flight, so that heartbeats never wait for a thousand pods.
_AT_WORK: Final = IN_FLIGHT // 2
_POD: Final = msgspec.json.Decoder(Pod)


@dataclass(slots=True)
class _Record:
    """A pod that has a node. ``pod`` is None while nothing is to be done about it."""

    node: str
    ip: str
    version: int
    pod: Pod | None
    acted: int = 0
    """Version that our last request made, or the least it can be: what is older is not worth looking at."""
    task: asyncio.Task[bool] | None = None
    backoff: Backoff | None = None
    efforts: Efforts = NONE_YET


class Keeper:
    """Does for every attended node what its kubelet does about its pods.

    ``on_pod`` is told of every pod as it stands whenever it changes, by UID; with None once it is gone.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        clock: Clock,
        random: Random,
        troubles: Troubles,
        timing: PodTiming,
        seed: str,
        on_pod: Callable[[str, Pod | None], None] | None = None,
    ) -> None:
        self._wire = wire
        self._clock = clock
        self._random = random
        self._troubles = troubles
        self._timing = timing
        self._on_pod = on_pod
        self._addresses = PodAddresses(seed=seed)
        self._agenda: Agenda[Do] = Agenda(clock=clock)
        self._records: dict[str, _Record] = {}
        self._on_node: dict[str, set[str]] = {}
        self._attended: dict[str, Machine] = {}
        self._unready: dict[str, AbstractSet[str]] = {}
        self._slots = asyncio.Semaphore(_AT_WORK)
        self._reflector = Reflector(
            wire,
            path=PODS,
            kind=Pod,
            # Those that have a node: unscheduled ones are nobody's yet.
            query={"fieldSelector": "spec.nodeName!="},
            clock=clock,
            random=random,
            troubles=troubles,
            replace=self._replace,
            change=self._change,
        )

    async def run(self) -> None:
        """Keep all pods of attended nodes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run())
            while True:
                await self._slots.acquire()
                uid, do = await self._agenda.next()
                record = self._records.get(uid)
                machine = self._attended.get(record.node) if record is not None else None
                if record is None or record.pod is None or machine is None:
                    self._slots.release()
                    continue
                record.task = tasks.create_task(self._do(do, record.pod, record, machine=machine))
                # Not at the end of the coroutine: one that is cancelled before it begins has no end.
                record.task.add_done_callback(partial(self._done, uid, do, record))

    def attend(self, machine: Machine) -> None:
        """Serve the pods of a node from now on, beginning with those that are there."""
        self._attended[machine.name] = machine
        for uid in self._on_node.get(machine.name, ()):
            self._look(uid, self._records[uid])

    def desert(self, node: str) -> None:
        """Serve the pods of a node no more; nothing is sent for it after this."""
        self._attended.pop(node, None)
        for uid in self._on_node.get(node, ()):
            self._agenda.drop(uid)
            if task := self._records[uid].task:
                task.cancel()

    def note_unready(self, node: str, called: AbstractSet[str]) -> None:
        """Take note of the pods of a node, as they are called, whose containers are not to be Ready."""
        self._unready[node] = called

    async def set_unready(self, node: str, called: AbstractSet[str]) -> None:
        """Do the same, and have it reported of the pods that are there; return when that is on its way."""
        self.note_unready(node, called)
        await self.look_again(node)

    async def look_again(self, node: str) -> None:
        """Look what is to be done about each pod of a node; return when that is on its way.

        Of pods that are well only their place in the table is kept, so those of this node are read.
        """
        backoff = Backoff(random=self._random)
        while True:
            try:
                pods, _ = await list_all(
                    self._wire, path=PODS, decoder=_POD, query={"fieldSelector": f"spec.nodeName={node}"}
                )
            except (UnreachableError, ApiError):
                await self._clock.sleep(backoff.next())
            else:
                break
        for pod in pods:
            self._reconsider(pod)

    def _reconsider(self, pod: Pod) -> None:
        uid, version = pod.metadata.uid, int(pod.metadata.resource_version)
        record = self._records.get(uid)
        # Of one that is new, or newer, the watch tells: it is judged then by what has been noted.
        if record is not None and record.version == version:
            record.pod = pod
            self._look(uid, record)

    def count(self, node: str) -> int:
        """Count the pods bound to a node."""
        return len(self._on_node.get(node, ()))

    def _replace(self, pods: list[Pod]) -> None:
        for uid in self._records.keys() - {pod.metadata.uid for pod in pods}:
            self._forget(uid)
        for pod in pods:
            self._store(pod)

    def _change(self, pod: Pod, gone: bool) -> None:
        if gone:
            self._forget(pod.metadata.uid)
        else:
            self._store(pod)

    def _store(self, pod: Pod) -> None:
        uid, version = pod.metadata.uid, int(pod.metadata.resource_version)
        record = self._records.get(uid)
        if record is None:
            record = _Record(node=pod.spec.node_name, ip="", version=0, pod=None)
            self._records[uid] = record
            self._on_node.setdefault(record.node, set()).add(uid)
        if version <= record.version:
            return
        record.version = version
        record.pod = pod
        if self._on_pod is not None:
            self._on_pod(uid, pod)
        if pod.status.pod_ip and not record.ip and not pod.spec.host_network:
            record.ip = pod.status.pod_ip
            self._addresses.note(record.ip)
        self._look(uid, record)

    def _forget(self, uid: str) -> None:
        record = self._records.pop(uid, None)
        if record is None:
            return
        if self._on_pod is not None:
            self._on_pod(uid, None)
        self._agenda.drop(uid)
        self._addresses.free(record.ip)
        on_node = self._on_node[record.node]
        on_node.discard(uid)
        if not on_node:
            del self._on_node[record.node]

    def _look(self, uid: str, record: _Record) -> None:
        """Find out what is to be done next about a pod, and enter it."""
        machine = self._attended.get(record.node)
        if record.pod is None or machine is None or record.task is not None or record.version < record.acted:
            return
        now = self._clock.now()
        step = next_step(
            record.pod,
            family=machine.os.family,
            timing=self._timing,
            now=now,
            ready=self._is_to_be_ready(record.pod),
            booted=machine.booted,
            build=machine.os.build if machine.os.family == "windows" else "",
            efforts=replace(
                record.efforts,
                network_in=machine.networked - now.timestamp(),
                pauses=not machine.setup.pause_image,
            ),
        )
        if step is None:
            self._agenda.drop(uid)
            record.pod = None
        else:
            self._agenda.put(uid, step.do, delay=step.delay)

    def _is_to_be_ready(self, pod: Pod) -> bool:
        unready = self._unready.get(pod.spec.node_name)
        return not unready or unready.isdisjoint(pod.called)

    async def _do(self, do: Do, pod: Pod, record: _Record, *, machine: Machine) -> bool:
        """Do something about a pod, and tell whether it changed anything."""
        try:
            record.acted = await self._send(do, pod, record, machine=machine)
        except UnreachableError:
            return False
        except ApiError as error:
            # Gone, or another of that name by now: the watch will tell.
            if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                self._troubles.report(machine.name, do, error)
            return False
        record.efforts = record.efforts.after(do)
        return do in WARNINGS or record.acted > int(pod.metadata.resource_version)

    def _done(self, uid: str, do: Do, record: _Record, task: asyncio.Task[bool]) -> None:
        record.task = None
        self._slots.release()
        if self._records.get(uid) is not record:
            return
        if task.cancelled():  # its node was deserted, and may be attended again by now
            self._look(uid, record)
        elif task.exception():  # ends the process; it is told there
            return
        elif task.result():
            record.backoff = None
            self._look(uid, record)
        elif record.node in self._attended:
            record.backoff = record.backoff or Backoff(random=self._random)
            self._agenda.put(uid, do, delay=record.backoff.next())

    async def _send(self, do: Do, pod: Pod, record: _Record, *, machine: Machine) -> int:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"
        identity = node_identity(machine.name)
        if do is Do.REMOVE:
            await self._wire.request(
                "DELETE", path, identity=identity, body=status.removal(pod), accept=METADATA_ONLY
            )
            # Either the pod is gone or its grace is 0 now: an event is certain to tell.
            return int(pod.metadata.resource_version) + 1
        if do in WARNINGS:
            body = events.obstacle(do, pod, machine=machine, now=self._clock.now())
            path = f"/api/v1/namespaces/{pod.metadata.namespace}/events"
            await self._wire.request("POST", path, identity=identity, body=body, accept=METADATA_ONLY)
            return int(pod.metadata.resource_version)
        answer = await self._wire.request(
            "PATCH",
            f"{path}/status",
            identity=identity,
            body=report(
                do,
                pod,
                machine=machine,
                pod_ip=self._address(do, pod, record, machine=machine),
                ready=self._is_to_be_ready(pod),
                now=self._clock.now(),
            ),
            content_type=STRATEGIC_MERGE,
            accept=METADATA_ONLY,
        )
        return version_of(answer)

    def _address(self, do: Do, pod: Pod, record: _Record, *, machine: Machine) -> str:
        if do in WITH_ADDRESS and not pod.spec.host_network:
            if pod.status.phase == "Running":  # its machine was started again: another sandbox
                self._addresses.free(record.ip)
                record.ip = ""
            record.ip = record.ip or self._addresses.take()
        return record.ip or machine.address
