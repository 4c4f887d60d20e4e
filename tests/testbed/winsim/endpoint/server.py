"""Serves the kubelet endpoints of all Windows nodes of a process, and windows_exporter beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from testbed.winsim.endpoint.admission import admit
from testbed.winsim.endpoint.delivery import delay, http_server, send
from testbed.winsim.endpoint.evictions import Evictions
from testbed.winsim.endpoint.faults import is_kind
from testbed.winsim.endpoint.furtherpods import FurtherPods
from testbed.winsim.endpoint.listener import Listener
from testbed.winsim.endpoint.looks import Looks
from testbed.winsim.endpoint.modelled import ModelledMemory
from testbed.winsim.endpoint.reviews import RefusedError, Reviews
from testbed.winsim.endpoint.scene import Scene
from testbed.winsim.endpoint.served import Served
from testbed.winsim.endpoint.tally import Tally
from testbed.winsim.endpoint.tenants import Tenants
from testbed.winsim.troubles import Troubles

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from testbed.memory.truth import GroundTruth
    from testbed.memory.workloads import OsLeak
    from testbed.winsim.clock import Clock
    from testbed.winsim.endpoint.certificates import Certificates
    from testbed.winsim.endpoint.faults import EndpointName, Fault
    from testbed.winsim.endpoint.options import EndpointOptions
    from testbed.winsim.endpoint.tenants import Tenant
    from testbed.winsim.machines import Machine
    from testbed.winsim.wire import Wire

_CLOCK_WAS_SET_SECONDS: Final = 0.5


class Endpoint:
    """The endpoints of all nodes that are attended. Both ports are bound by the constructor.

    Raises:
        OSError: a port is taken.

    """

    def __init__(
        self,
        options: EndpointOptions,
        *,
        certificates: Certificates,
        wire: Wire,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self.tenants = Tenants(started=self._pod_started, stopped=self._pod_stopped)
        self.memory = ModelledMemory(self.tenants, page_file=options.page_file, say=say)
        self._options = options
        self._certificates = certificates
        self._reviews = Reviews(wire, clock=clock, trust=options.trust)
        self._clock = clock
        self._machines: dict[str, Machine] = {}
        self._served: dict[str, Served] = {}
        self._offset = 0.0
        """From the time that machines live in, which is never set, to that which they tell."""
        self._booted: dict[str, float] = {}
        self._looks = Looks(self.memory, tenants=self.tenants)
        self._further_pods = FurtherPods(options.further_pods)
        self.tally = Tally()
        troubles = Troubles(clock=clock, say=say)
        self._evictions = Evictions(
            wire, clock=clock, looks=self._looks, changes=self.memory.changes, troubles=troubles
        )
        is_open = self._served.__contains__
        self._kubelets = Listener(
            port=options.port,
            is_open=is_open,
            tls=self._tls,
            server=partial(http_server, self._answer_kubelet),
        )
        self._listeners = [self._kubelets]
        if options.exporter_port is not None:
            server = partial(http_server, self._answer_exporter)
            self._listeners.append(
                Listener(port=options.exporter_port, is_open=is_open, tls=None, server=server)
            )

    @property
    def port(self) -> int:
        """The port of all kubelets."""
        return self._kubelets.port

    @property
    def connections(self) -> int:
        """How many connections to kubelets have been taken."""
        return self._kubelets.taken

    @property
    def exporter_port(self) -> int | None:
        """The port of all exporters; None: there are none."""
        return self._listeners[1].port if len(self._listeners) > 1 else None

    async def run(self, *, press: Callable[[str, bool], None]) -> None:
        """Serve until cancelled; ``press`` gets a node and whether it is under memory pressure."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._evictions.run(self._attended, press=press))
            for listener in self._listeners:
                tasks.create_task(listener.run())

    def attend(self, machine: Machine, faults: Mapping[EndpointName, Fault]) -> None:
        """Answer for a node from now on; its kubelet has just started."""
        now = self._clock.now().timestamp()
        known = self._machines.get(machine.name)
        if known is None or (known.system_uuid, known.booted) != (machine.system_uuid, machine.booted):
            self._booted[machine.name] = now
            self._looks.forget(machine.name)
            self.memory.boot(machine, at=self._clock.monotonic())
        self._evictions.forget(machine.name)
        self._machines[machine.name] = machine
        self._served[machine.address] = Served(
            machine=machine,
            booted=self._booted[machine.name],
            kubelet_started=now,
            faults=faults,
        )

    def desert(self, name: str) -> None:
        """Answer for a node no more: its connections break, and new ones are refused."""
        machine = self._machines.get(name)
        if machine is not None and self._served.pop(machine.address, None) is not None:
            self._hang_up(machine.address)

    def forget(self, name: str) -> None:
        """Drop what is known of a machine that has left."""
        self._machines.pop(name, None)
        self._booted.pop(name, None)
        self._looks.forget(name)
        self._evictions.forget(name)
        self.memory.forget(name)

    def _attended(self) -> list[Machine]:
        return [served.machine for served in self._served.values()]

    def lose_memory(self, name: str, leak: OsLeak) -> None:
        """Have Windows itself lose memory on a machine from now on."""
        self.memory.lose_memory(name, leak, at=self._clock.monotonic())

    def knows(self, name: str) -> bool:
        """Tell whether the memory of a machine is simulated: a Windows kubelet has started on it."""
        return name in self._machines

    def truth(self, name: str) -> GroundTruth:
        """Return what has really happened on a machine that it knows."""
        return self.memory.truth(name, self._clock.monotonic())

    def _pod_started(self, node: str, tenant: Tenant) -> None:
        self.memory.start(node, tenant, at=self._clock.monotonic())

    def _pod_stopped(self, node: str, uid: str) -> None:
        self.memory.stop(node, uid, at=self._clock.monotonic())

    def set_faults(self, name: str, faults: Mapping[EndpointName, Fault]) -> None:
        """Give a node these faults and no others. Its connections are cut, so that all see it at once."""
        machine = self._machines.get(name)
        served = self._served.get(machine.address) if machine is not None else None
        if served is not None:
            served.faults, served.tls, served.frozen = faults, None, None
            self._hang_up(served.machine.address)

    def _hang_up(self, address: str) -> None:
        for listener in self._listeners:
            listener.hang_up(address)

    def _tls(self, address: str) -> ssl.SSLContext:
        served, now = self._served[address], self._clock.now()
        if served.tls is None:
            fault = served.faults.get("kubelet")
            make = self._certificates.of
            if is_kind(fault, "wrong_certificate"):
                make = self._certificates.for_another
            elif is_kind(fault, "unknown_authority"):
                make = self._certificates.of_unknown_authority
            served.tls = make(served.machine, now=now)
        return served.tls

    async def _answer_kubelet(self, request: web.BaseRequest) -> web.StreamResponse:
        served = self._asked(request)
        with self.tally.answering(request.path, node=served.machine.name):
            return await self._answer_of_kubelet(request, served)

    async def _answer_of_kubelet(self, request: web.BaseRequest, served: Served) -> web.StreamResponse:
        fault = served.faults.get("kubelet")
        await delay(fault)
        try:
            await admit(request, machine=served.machine, fault=fault, reviews=self._reviews)
        except RefusedError as refused:
            return web.Response(text=refused.text, status=refused.status)
        if request.method != "GET":
            return web.Response(text="Method Not Allowed", status=HTTPStatus.METHOD_NOT_ALLOWED)
        answer = served.kubelet(
            request.path,
            query=request.query,
            port=self.port,
            scene=self._scene(served),
            further=self._further_pods,
        )
        return await send(request, answer, fault)

    async def _answer_exporter(self, request: web.BaseRequest) -> web.StreamResponse:
        served = self._asked(request)
        fault = served.faults.get("exporter")
        await delay(fault)
        answer = served.exporter(
            request.path, scene=self._scene(served), containers=self._options.exporter_containers
        )
        return await send(request, answer, fault)

    def _asked(self, request: web.BaseRequest) -> Served:
        sockname = request.get_extra_info("sockname")
        served = self._served.get(sockname[0]) if sockname else None
        if served is None:
            raise ConnectionResetError("the kubelet has just been stopped")
        return served

    def _scene(self, served: Served) -> Scene:
        now, name = self._clock.now().timestamp(), served.machine.name
        lived = self._clock.monotonic()
        look = self._looks.at(name, lived)
        # A clock that runs beside another by microseconds must not make a time jump by a second.
        if abs(now - lived - self._offset) > _CLOCK_WAS_SET_SECONDS:
            self._offset = now - lived
        reading = replace(look.reading, time=look.reading.time + self._offset)
        return Scene(
            machine=served.machine,
            called=name,
            now=now,
            booted=served.booted,
            kubelet_started=served.kubelet_started,
            counters=reading,
            current=reading,
            tenants=look.tenants,
            stats_from_cri=self._options.stats_from_cri,
        )
