"""The pods that run on the nodes of a process, as far as their memory is concerned."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from testbed.winsim.pods.objects import Pod

_STATIC_SOURCE: Final = "kubernetes.io/config.source"
_MIRROR: Final = "kubernetes.io/config.mirror"
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]i|[kMGTPE]?|m)")
_UNITS: Final = {
    "": 1.0,
    "m": 0.001,
    **{unit: 1000.0**power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", start=1)},
}
_NOBODY: Final[Mapping[str, Tenant]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A pod whose containers run. Times are seconds since the epoch."""

    uid: str
    namespace: str
    name: str
    started: float
    containers: tuple[str, ...]
    host_process: bool = False
    request_bytes: int = 0
    priority: int = 0
    static: bool = False
    """Of the kubelet's own making: from a file on the node."""
    annotations: Mapping[str, str]


class Tenants:
    """Gets every change of a pod from the watch; a pod leaves when its containers have stopped.

    A pod that is being deleted or evicted stays until its kubelet reports that it has stopped, at the latest
    after its grace: until then it holds its memory. ``started`` gets a node and a pod that runs on it
    now, ``stopped`` of a node and the UID of a pod that does no more.
    """

    def __init__(
        self, *, started: Callable[[str, Tenant], None], stopped: Callable[[str, str], None]
    ) -> None:
        self._started = started
        self._stopped = stopped
        self._by_uid: dict[str, str] = {}
        self._on_node: dict[str, dict[str, Tenant]] = {}

    def on(self, node: str) -> Mapping[str, Tenant]:
        """Return the pods that run on a node, by UID, in the order in which they came."""
        return self._on_node.get(node, _NOBODY)

    def note(self, uid: str, pod: Pod | None) -> None:
        """Take note of a pod as it stands; None: it is gone."""
        if pod is None or pod.status.phase != "Running":
            self._leave(uid)
        elif uid not in self._by_uid:
            node = pod.spec.node_name
            self._by_uid[uid] = node
            found = self._on_node.setdefault(node, {})[uid] = tenant(pod)
            self._started(node, found)

    def _leave(self, uid: str) -> None:
        if (node := self._by_uid.pop(uid, None)) is not None:
            pods = self._on_node[node]
            del pods[uid]
            if not pods:
                del self._on_node[node]
            self._stopped(node, uid)


def tenant(pod: Pod) -> Tenant:
    """Take from a pod that runs what matters here."""
    meta, started = pod.metadata, pod.status.start_time
    return Tenant(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        started=datetime.fromisoformat(started).timestamp() if started else 0.0,
        containers=tuple(container.name for container in pod.spec.containers),
        host_process=pod.spec.host_process,
        request_bytes=sum(
            bytes_of(each.resources.requests.get("memory", "0")) for each in pod.spec.containers
        ),
        priority=pod.spec.priority,
        static=_STATIC_SOURCE in meta.annotations or _MIRROR in meta.annotations,
        annotations={key: text for key, text in meta.annotations.items() if key.startswith("winsim/")},
    )


def bytes_of(quantity: str) -> int:
    """Return the bytes of a quantity of Kubernetes; 0 for one in a form that is not used for memory."""
    found = _QUANTITY.fullmatch(quantity)
    return int(float(found[1]) * _UNITS[found[2]]) if found is not None else 0
