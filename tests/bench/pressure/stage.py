"""A scene on a testbed: simulated machines, pods with the workloads of the scene, a pool in mode Evict."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bench.api import Api
from bench.errors import BenchError
from bench.pressure.decisions import Decisions
from bench.pressure.operator_node import QUIET_NODES, Variant, pressure_of
from bench.pressure.scene import GRACE_SECONDS, Guest, Scene
from bench.pressure.virtual import MAX_PODS
from testbed.cluster import Testbed
from testbed.memory.pages import KIB
from testbed.memory.workloads import WORKLOADS, Workload
from testbed.winsim.control import FleetControl
from winpool.api.keys import API_VERSION, KIND, MEMORY_PRESSURE_TAINT, PRESSURE_CONDITION
from winpool.kube.nodes import NODES_PATH
from winpool.kube.pools import POOLS_PATH
from winpool.model.memory_report import MemoryReport, level_name
from winpool.model.pressure import Level

Object = dict[str, Any]

NODES: Final = QUIET_NODES + 1
"""Machines of each scene, as in virtual time. The first has the pods."""
SCENE_LABEL: Final = "example.com/scene"
WORKLOAD_LABEL: Final = "example.com/workload"
IMAGE: Final = "registry.example.com/team/bench:1.2.3"
NO_SCHEDULER: Final = "none"
"""Schedules no pod, so that an evicted pod does not come back. In virtual time it is on another node."""

PATIENCE_SECONDS: Final = 120.0
"""A guard: what is waited for takes a second on an idle machine."""
POLL_SECONDS: Final = 0.1

_SIZES: Final = {"commit", "growthPerMinute", "maximum", "burst", "peak"}
"""Fields of workloads that people write as sizes."""

_LEVELS: Final[Mapping[str | None, Level]] = {level_name(each): each for each in Level}


def fleet_arguments(scene: Scene, variant: Variant, *, socket: Path) -> list[str]:
    """Return the arguments of simulated nodes whose machines are those of the scene."""
    hardware = scene.hardware
    return [
        f"--prefix={scene.family.name}",
        f"--label={SCENE_LABEL}={scene.family.name}",
        f"--windows-memory={hardware.ram_bytes // KIB}Ki/2548Mi/none/0Ki",
        f"--windows-page-file={scene.page_file_bytes // KIB}Ki",
        "--kubelet-port=0",
        "--exporter-port=0",
        f"--control-socket={socket}",
        *(["--pod-stats-from-cri"] if variant.pods_commit else []),
    ]


def pool_of(scene: Scene, variant: Variant) -> Object:
    """Return the pool of the machines of a scene, which asks for what it asks for in virtual time."""
    pressure = pressure_of(scene, variant, max_pods=MAX_PODS)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": scene.family.name},
        "spec": {
            "nodeSelector": {"matchLabels": {SCENE_LABEL: scene.family.name}},
            "os": {"version": "2022"},
            "memoryPressure": pressure.model_dump(mode="json", by_alias=True, exclude_unset=True),
        },
    }


def script_of(workload: Workload) -> str:
    """Return a workload as the annotation of a pod has it, its sizes rounded down to whole KiB."""
    name = next(name for name, each in WORKLOADS.items() if type(workload) is each)
    fields = workload.model_dump(mode="json", by_alias=True, exclude_none=True)
    sizes = {each: f"{fields[each] // KIB}Ki" for each in _SIZES & fields.keys()}
    return json.dumps({"workload": name, **fields, **sizes})


def objects_of(guest: Guest, *, namespace: str, node: str) -> Iterator[tuple[str, Object]]:
    """Yield the pod of a guest and what controls and protects it, each with the path to create it at.

    The pod comes before its controller, which adopts it: so it has the guest's name, and is on the node.
    """
    labels = {WORKLOAD_LABEL: guest.name}
    about = {"name": guest.name, "labels": labels}
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"memory": guest.request_bytes}}}
    spec = {
        "containers": [container],
        "os": {"name": "windows"},
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
    }
    annotations = {
        "winsim/memory": script_of(guest.workload),
        "winsim/start-seconds": "0",
        "winsim/stop-seconds": str(guest.stop_seconds),
    }
    yield (
        f"/api/v1/namespaces/{namespace}/pods",
        {"metadata": {**about, "annotations": annotations}, "spec": {**spec, "nodeName": node}},
    )
    template: Object = {"metadata": {"labels": labels}, "spec": {**spec, "schedulerName": NO_SCHEDULER}}
    controller: Object = {"selector": {"matchLabels": labels}, "template": template}
    if guest.owner == "DaemonSet":
        template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        controller["updateStrategy"] = {"type": "OnDelete"}
    yield (
        f"/apis/apps/v1/namespaces/{namespace}/{guest.owner.lower()}s",
        {"metadata": about, "spec": controller},
    )
    if guest.budget_blocks:
        budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        yield path, {"metadata": about, "spec": budget}


@dataclass
class Delays:
    """What the real world adds, in seconds, each the longest that was measured.

    ``starts`` is from when a pod of a scene has to run until it runs, ``watched`` from the creation of the
    pool until the operator watches the node, and ``looks`` between two looks at what it has decided.
    """

    starts: float = 0.0
    watched: float = 0.0
    looks: float = 0.0

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.starts + self.watched + self.looks


@dataclass
class Stage:
    """One scene. Times are seconds since its pool was created; before, the pods that begin with it run."""

    scene: Scene
    variant: Variant
    testbed: Testbed
    api: Api
    delays: Delays = field(default_factory=Delays)
    decisions: Decisions = field(default_factory=Decisions)
    _zero: float = 0.0
    _looked_at: float | None = None
    _started: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The name of its pool and of the namespace of its pods."""
        return self.scene.family.name

    @property
    def node(self) -> str:
        """The node that has the pods."""
        return f"{self.name}-w01"

    @property
    def is_over(self) -> bool:
        """Whether the scene has ended."""
        return self.now >= self.scene.seconds

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return self.at(time.time())

    def at(self, moment: float) -> float:
        """Return when that was, by seconds since 1970."""
        return moment - self._zero

    def fleet(self) -> FleetControl:
        """Return what controls its machines."""
        return FleetControl(self.testbed.directory / f"{self.name}.sock")

    def prepare(self) -> None:
        """Start the machines."""
        extra = fleet_arguments(self.scene, self.variant, socket=self.fleet().path)
        command = self.testbed.winsim_command(windows=NODES, extra=extra)
        self.testbed.run(f"winsim-{self.name}", command)

    def populate(self) -> None:
        """Run the pods that are there from the beginning. The machines must be Ready."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        account = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
        wait_for(lambda: self.api.find(account) is not None, what=account)
        for guest in self.scene.guests:
            if guest.begins == 0:
                self._start(guest)

    def exporters(self) -> dict[str, str]:
        """Return where the exporters of its machines listen, by the names of the nodes."""
        port = self.fleet().summary().exporter_port
        return {each.name: f"{each.address}:{port}" for each in self.fleet().status()}

    def begin(self) -> None:
        """Create the pool, by which the scene begins."""
        self.api.create(POOLS_PATH, pool_of(self.scene, self.variant))
        self._zero = time.time()

    def act(self) -> None:
        """Start and end the pods that are due."""
        for guest in self.scene.guests:
            if guest.name not in self._started and guest.begins <= self.now:
                self._start(guest)
                self.delays.starts = max(self.delays.starts, self.now - guest.begins)
            if guest.ends is not None and guest.name not in self._ended and guest.ends <= self.now:
                self._ended.add(guest.name)
                # A second is the shortest grace: its memory is free then.
                self.api.delete(f"/api/v1/namespaces/{self.name}/pods/{guest.name}?gracePeriodSeconds=1")

    def look(self, report: MemoryReport) -> None:
        """Note what the operator reports of the node, and what it has written to it."""
        told = next((each for each in report.nodes if each.node == self.node), None)
        if told is None:
            self.delays.watched = self.now
            return
        if self._looked_at is not None:
            self.delays.looks = max(self.delays.looks, self.now - self._looked_at)
        self._looked_at = self.now
        signalled = is_signalled(self.api.find(f"{NODES_PATH}/{quote(self.node)}") or {})
        self.decisions.note(self.now, _LEVELS.get(told.level), signalled=signalled)

    def _start(self, guest: Guest) -> None:
        self._started.add(guest.name)
        for path, body in objects_of(guest, namespace=self.name, node=self.node):
            self.api.create(path, body)
        path = f"/api/v1/namespaces/{self.name}/pods/{guest.name}"
        wait_for(lambda: _runs(self.api.find(path) or {}), what=f"the pod {self.name}/{guest.name}")


def is_signalled(node: Object) -> bool:
    """Whether the node has the condition of memory pressure, and the taint."""
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
    taints = {each["key"] for each in node.get("spec", {}).get("taints", ())}
    return conditions.get(PRESSURE_CONDITION) == "True" and MEMORY_PRESSURE_TAINT in taints


def _runs(pod: Object) -> bool:
    return bool(
        pod.get("status", {}).get("phase") == "Running" and pod.get("metadata", {}).get("ownerReferences")
    )


def wait_for(check: Callable[[], bool], *, what: str) -> None:
    """Return when something is so. Raises BenchError after two minutes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not check():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {PATIENCE_SECONDS:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)
