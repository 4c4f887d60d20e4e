"""A node whose endpoint is served: what it is, what is wrong with it, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from testbed.winsim.endpoint.configz import configz
from testbed.winsim.endpoint.expositions import exporter_metrics, resource_metrics
from testbed.winsim.endpoint.faults import Fault, is_kind, spoiled
from testbed.winsim.endpoint.scene import Scene
from testbed.winsim.endpoint.summary import summary

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from testbed.winsim.endpoint.faults import EndpointName
    from testbed.winsim.endpoint.furtherpods import FurtherPods
    from testbed.winsim.machines import Machine

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"
_STRANGER: Final = "somebody-else"
_ELSEWHERE: Final = "https://192.0.2.1/stats/summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent back."""

    body: bytes
    content_type: str = PLAIN
    status: HTTPStatus = HTTPStatus.OK
    location: str | None = None


NOT_FOUND: Final = Answer(body=b"404 page not found\n", status=HTTPStatus.NOT_FOUND)


@dataclass(slots=True, kw_only=True)
class Served:
    """One node. ``tls`` is there after the first connection."""

    machine: Machine
    booted: float
    kubelet_started: float
    faults: Mapping[EndpointName, Fault]
    tls: ssl.SSLContext | None = None
    frozen: Scene | None = None
    """The scene in which something froze; None: nothing is frozen."""

    def kubelet(
        self, path: str, *, query: Mapping[str, str], port: int, scene: Scene, further: FurtherPods
    ) -> Answer:
        """Return what the kubelet answers to a GET that is allowed."""
        fault = self.faults.get("kubelet")
        if (instead := _instead(fault)) is not None:
            return instead
        scene = self._distorted(scene, fault)
        match path:
            case "/stats/summary":
                light = query.get("only_cpu_and_memory") == "true"
                pods = () if light else further.stats(scene)
                body = msgspec.json.encode(summary(scene, only_cpu_and_memory=light, further=pods))
                return Answer(body=spoiled(body, fault=fault, json=True), content_type=JSON)
            case "/metrics/resource":
                light_summary = summary(scene, only_cpu_and_memory=True)
                body = resource_metrics(light_summary, at=scene.counters.time)
                return Answer(body=spoiled(body, fault=fault, json=False), content_type=EXPOSITION)
            case "/configz":
                body = configz(self.machine, port=port)
                return Answer(body=spoiled(body, fault=fault, json=True), content_type=JSON)
            case "/healthz":
                return Answer(body=spoiled(b"ok", fault=fault, json=True))
        return NOT_FOUND

    def exporter(self, path: str, *, scene: Scene, containers: bool) -> Answer:
        """Return what windows_exporter answers."""
        fault = self.faults.get("exporter")
        if path == "/health":
            return Answer(body=b'{"status":"ok"}', content_type=JSON)
        if path != "/metrics":
            return NOT_FOUND
        if (instead := _instead(fault)) is not None:
            return instead
        scene = self._distorted(scene, fault)
        body = exporter_metrics(scene.counters, tenants=scene.tenants, containers=containers)
        return Answer(body=spoiled(body, fault=fault, json=False), content_type=EXPOSITION)

    def _distorted(self, scene: Scene, fault: Fault | None) -> Scene:
        """Return the scene as a node with this fault sees it."""
        if fault is None:
            return scene
        if is_kind(fault, "frozen", "frozen_counters"):
            if self.frozen is None:
                self.frozen = scene
            return self.frozen if fault.kind == "frozen" else replace(scene, counters=self.frozen.counters)
        if fault.kind == "clock_behind":
            return scene.behind(fault.seconds)
        if fault.kind == "other_node":
            return replace(scene, called=fault.name or _STRANGER)
        return scene


def _instead(fault: Fault | None) -> Answer | None:
    """Return what is answered in place of what was asked for."""
    if is_kind(fault, "server_error"):
        # kubernetes/kubernetes#98509: one container that starts or ends fails the whole node.
        text = b"failed to list pod stats: failed to list all container stats: The handle is invalid.\n"
        return Answer(body=text, status=HTTPStatus.INTERNAL_SERVER_ERROR)
    if is_kind(fault, "redirect"):
        return Answer(body=b"", status=HTTPStatus.FOUND, location=_ELSEWHERE)
    return None
