"""Serves the kubelet endpoints of all Windows nodes of a process, and windows_exporter beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from testbed.winsim.endpoint.access import api_verb, subresources
from testbed.winsim.endpoint.faults import is_kind
from testbed.winsim.endpoint.listener import Listener
from testbed.winsim.endpoint.reviews import RefusedError, forbidden
from testbed.winsim.endpoint.scene import Scene
from testbed.winsim.endpoint.served import Answer, Served
from testbed.winsim.nodestatus import minor_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from testbed.memory.reading import MemoryReading
    from testbed.winsim.clock import Clock
    from testbed.winsim.endpoint.certificates import Certificates
    from testbed.winsim.endpoint.faults import EndpointName, Fault
    from testbed.winsim.endpoint.options import EndpointOptions
    from testbed.winsim.endpoint.reviews import Reviews
    from testbed.winsim.endpoint.source import MemorySource
    from testbed.winsim.endpoint.tenants import Tenant, Tenants
    from testbed.winsim.machines import Machine

# IdleTimeout of the kubelet's server (pkg/kubelet/server/server.go).
_IDLE_SECONDS: Final = 90.0
_BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class _Look:
    """A machine's memory, and the pods that had a part in it."""

    reading: MemoryReading
    tenants: Mapping[str, Tenant]


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
        reviews: Reviews,
        clock: Clock,
        tenants: Tenants,
        source: Callable[[Mapping[str, Machine]], MemorySource],
    ) -> None:
        self.tenants = tenants
        self._options = options
        self._certificates = certificates
        self._reviews = reviews
        self._clock = clock
        self._machines: dict[str, Machine] = {}
        self._source = source(self._machines)
        self._served: dict[str, Served] = {}
        self._boots: dict[str, float] = {}
        self._looks: dict[str, _Look] = {}
        is_open = self._served.__contains__
        self._kubelets = Listener(
            port=options.port, is_open=is_open, tls=self._tls, server=partial(_server, self._answer_kubelet)
        )
        self._listeners = [self._kubelets]
        if options.exporter_port is not None:
            server = partial(_server, self._answer_exporter)
            self._listeners.append(
                Listener(port=options.exporter_port, is_open=is_open, tls=None, server=server)
            )

    @property
    def port(self) -> int:
        """The port of all kubelets."""
        return self._kubelets.port

    @property
    def exporter_port(self) -> int | None:
        """The port of all exporters; None: there are none."""
        return self._listeners[1].port if len(self._listeners) > 1 else None

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for listener in self._listeners:
                tasks.create_task(listener.run())

    def attend(self, machine: Machine, faults: Mapping[EndpointName, Fault]) -> None:
        """Answer for a node from now on; its kubelet has just started."""
        now = self._clock.now().timestamp()
        self._machines[machine.name] = machine
        self._served[machine.address] = Served(
            machine=machine,
            booted=self._boots.setdefault(machine.system_uuid, now),
            kubelet_started=now,
            faults=faults,
        )

    def desert(self, name: str) -> None:
        """Answer for a node no more: its connections break, and new ones are refused."""
        machine = self._machines.get(name)
        if machine is not None and self._served.pop(machine.address, None) is not None:
            self._hang_up(machine.address)

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
        fault = served.faults.get("kubelet")
        await _delay(fault)
        try:
            await self._admit(request, served, fault)
        except RefusedError as refused:
            return web.Response(text=refused.text, status=refused.status)
        if request.method != "GET":
            return web.Response(text="Method Not Allowed", status=HTTPStatus.METHOD_NOT_ALLOWED)
        answer = served.kubelet(request.path, query=request.query, port=self.port, scene=self._scene(served))
        return await _send(request, answer, fault)

    async def _answer_exporter(self, request: web.BaseRequest) -> web.StreamResponse:
        served = self._asked(request)
        fault = served.faults.get("exporter")
        await _delay(fault)
        answer = served.exporter(
            request.path, scene=self._scene(served), containers=self._options.exporter_containers
        )
        return await _send(request, answer, fault)

    async def _admit(self, request: web.BaseRequest, served: Served, fault: Fault | None) -> None:
        if is_kind(fault, "unauthorized"):
            raise RefusedError(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        asked = subresources(request.path, minor=minor_of(served.machine))
        verb = api_verb(request.method)
        if is_kind(fault, "forbidden"):
            raise forbidden("somebody", verb=verb, subresources=asked)
        given = request.headers.get("Authorization", "")
        token = given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else None
        await self._reviews.admit(served.machine.name, token=token, verb=verb, subresources=asked)

    def _asked(self, request: web.BaseRequest) -> Served:
        sockname = request.get_extra_info("sockname")
        served = self._served.get(sockname[0]) if sockname else None
        if served is None:
            raise ConnectionResetError("the kubelet has just been stopped")
        return served

    def _scene(self, served: Served) -> Scene:
        now, name = self._clock.now().timestamp(), served.machine.name
        look = self._looks.get(name)
        # Windows' counters are read once a second (perfCounterUpdatePeriod in pkg/kubelet/winstats).
        if look is None or not look.reading.time <= now < look.reading.time + 1:
            reading = self._source.reading(name, float(int(now)))
            look = self._looks[name] = _Look(reading, dict(self.tenants.on(name)))
        return Scene(
            machine=served.machine,
            called=name,
            now=now,
            booted=served.booted,
            kubelet_started=served.kubelet_started,
            counters=look.reading,
            current=look.reading,
            tenants=look.tenants,
            stats_from_cri=self._options.stats_from_cri,
        )


def _server(answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> web.Server:
    # A client that hangs up ends the work for it: hanging and trickling nodes pile up nothing.
    return web.Server(answer, access_log=None, keepalive_timeout=_IDLE_SECONDS, handler_cancellation=True)


async def _delay(fault: Fault | None) -> None:
    if is_kind(fault, "hang"):
        await asyncio.Event().wait()
    if fault is not None and fault.kind == "slow":
        await asyncio.sleep(fault.seconds)


async def _send(request: web.BaseRequest, answer: Answer, fault: Fault | None) -> web.StreamResponse:
    headers = {"Content-Type": answer.content_type}
    if answer.location is not None:
        headers["Location"] = answer.location
    if fault is None or fault.kind != "trickle":
        return web.Response(body=answer.body, status=answer.status, headers=headers)
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_length = len(answer.body)
    await response.prepare(request)
    for index in range(len(answer.body)):
        await response.write(answer.body[index : index + 1])
        await asyncio.sleep(fault.seconds)
    return response
