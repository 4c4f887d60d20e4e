"""Pods that exist in a kubelet's answer only, so that it is as large as that of a node in use.

A node in use has some fifteen pods. Those of thousands of such nodes would all be on the API server, where a
measurement of what it costs to poll kubelets does not need them. They use no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from testbed.memory.reading import PodReading
from testbed.winsim.endpoint.podstats import pod_stats
from testbed.winsim.endpoint.tenants import Tenant

if TYPE_CHECKING:
    from testbed.winsim.endpoint import stats
    from testbed.winsim.endpoint.scene import Scene

_PLACE: Final = "further-pods"


class FurtherPods:
    """So many of them, the same on all nodes. They are made once a second, whoever asks."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._second = 0
        self._made: tuple[stats.Pod, ...] = ()

    def stats(self, scene: Scene) -> tuple[stats.Pod, ...]:
        """Return their stats, with the times of that second."""
        second = int(scene.now)
        if self._count and second != self._second:
            self._second = second
            self._made = tuple(_stats_of(scene, number) for number in range(self._count))
        return self._made


def _stats_of(scene: Scene, number: int) -> stats.Pod:
    name, uid = f"further-{number}", f"00000000-0000-4000-8000-{number:012d}"
    tenant = Tenant(
        uid=uid, namespace=_PLACE, name=name, started=scene.booted, containers=("main",), annotations={}
    )
    reading = PodReading(namespace=_PLACE, name=name, uid=uid, commit_bytes=0, private_working_set_bytes=0)
    return pod_stats(scene, reading, tenant, only_cpu_and_memory=False)
