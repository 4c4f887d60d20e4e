"""What a kubelet that evicts by itself says about it, and which kubelets do."""

from __future__ import annotations

import pytest

from testbed.winsim.endpoint.evictions import evicted, eviction_message, threshold_of
from testbed.winsim.endpoint.tenants import bytes_of, tenant
from testbed.winsim.pods.objects import Container, Pod, PodMetadata, PodSpec, PodStatus, Resources
from unit.winsim.endpoint.scenes import GIB, a_machine, a_reading, a_tenant

MIB = 1 << 20


@pytest.mark.parametrize(
    ("memory", "kubelet", "threshold"),
    [
        ("16Gi", "v1.37.1", 500 * MIB),
        ("16Gi/4Gi/1Gi", "v1.31.0", GIB),
        ("16Gi/4Gi/none", "v1.37.1", None),
        ("16Gi", "v1.30.9", None),
        ("16Gi", "garbage", None),
    ],
)
def test_a_kubelet_evicts_where_it_is_armed_and_from_1_31_on(
    memory: str, kubelet: str, threshold: int | None
) -> None:
    assert threshold_of(a_machine(memory=memory, kubelet=kubelet)) == threshold


def test_an_eviction_is_told_in_the_kubelets_words() -> None:
    reading = a_reading(commit_limit_bytes=24 * GIB, commit_total_bytes=24 * GIB - 300 * MIB)
    message = eviction_message(a_machine(), reading)
    assert message == (
        "The node was low on resource: memory. Threshold quantity: 500Mi, available: 307200Ki. "
    )
    patch = evicted(a_tenant(), message=message, moment="2027-01-15T08:00:00Z")
    status = patch["status"]
    assert patch["metadata"] == {"uid": "uid-shop"}
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
    assert [(each["type"], each["status"], each["reason"]) for each in status["conditions"]] == [
        ("DisruptionTarget", "True", "TerminationByKubelet"),
        ("Ready", "False", "PodFailed"),
        ("ContainersReady", "False", "PodFailed"),
    ]


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [("0", 0), ("500Mi", 500 * MIB), ("1.5Gi", 3 * GIB // 2), ("128M", 128_000_000), ("1k", 1000), ("?", 0)],
)
def test_requests_are_read_as_kubernetes_writes_them(quantity: str, expected: int) -> None:
    assert bytes_of(quantity) == expected


def test_what_ranks_a_pod_comes_from_the_pod() -> None:
    containers = tuple(Container(name, resources=Resources({"memory": "1Gi"})) for name in ("a", "b"))
    meta = PodMetadata(name="x", uid="u", annotations={"kubernetes.io/config.mirror": "y"})
    found = tenant(Pod(meta, PodSpec(containers=containers, priority=1000), PodStatus(phase="Running")))
    assert (found.request_bytes, found.priority, found.static) == (2 * GIB, 1000, True)
