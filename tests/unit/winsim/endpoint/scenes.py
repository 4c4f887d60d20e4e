"""A Windows machine, its memory and its pods, for tests of what its kubelet says."""

from __future__ import annotations

from typing import Any

from testbed.memory.reading import MemoryReading, PodReading
from testbed.winsim.endpoint.scene import Scene
from testbed.winsim.endpoint.tenants import Tenant
from testbed.winsim.machines import Machine, build_machine
from testbed.winsim.memory import parse_memory

GIB = 1 << 30
NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z"""


def a_machine(*, kubelet: str = "v1.37.1", memory: str = "16Gi") -> Machine:
    return build_machine(
        "win-w01",
        index=0,
        windows=True,
        address="127.1.0.1",
        kubelet_version=kubelet,
        labels={},
        memory=parse_memory(memory),
    )


def a_reading(*, time: float = NOW, pods: tuple[PodReading, ...] = (), **numbers: int) -> MemoryReading:
    usual: dict[str, int] = {
        "physical_total_bytes": 16 * GIB,
        "available_bytes": 5 * GIB,
        "private_working_set_bytes": 9 * GIB,
        "commit_total_bytes": 18 * GIB,
        "commit_limit_bytes": 24 * GIB,
        "pool_nonpaged_bytes": 1 * GIB,
        "pool_paged_bytes": 2 * GIB,
        "page_file_limit_bytes": 8 * GIB,
        "page_file_free_bytes": 6 * GIB,
        "modified_page_list_bytes": GIB // 8,
        "page_reads_total": 100,
        "pages_read_total": 400,
        "pages_written_total": 50,
        "transition_pages_repurposed_total": 7,
    }
    return MemoryReading(time=time, pods=pods, **(usual | numbers))


def a_pod_reading(name: str = "shop", *, commit: int = 3 * GIB, private: int = 2 * GIB + 1) -> PodReading:
    return PodReading(
        namespace="web", name=name, uid=f"uid-{name}", commit_bytes=commit, private_working_set_bytes=private
    )


def a_tenant(name: str = "shop", *, host_process: bool = False) -> Tenant:
    return Tenant(
        uid=f"uid-{name}",
        namespace="web",
        name=name,
        started=NOW - 600,
        containers=("app", "proxy"),
        host_process=host_process,
        annotations={},
    )


def a_scene(**given: Any) -> Scene:
    reading = given.pop("reading", a_reading(pods=(a_pod_reading(),)))
    usual: dict[str, Any] = {
        "machine": a_machine(),
        "called": "win-w01",
        "now": NOW,
        "booted": NOW - 7200,
        "kubelet_started": NOW - 3600,
        "counters": reading,
        "current": reading,
        "tenants": {"uid-shop": a_tenant()},
    }
    return Scene(**(usual | given))
