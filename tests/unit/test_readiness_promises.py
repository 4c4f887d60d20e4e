"""The promises of the design, for NodesNotReady and CloudTaintStays: from its text, not the code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from string import ascii_lowercase
from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import NOON, Object, a_node, taints_of
from harness.loops import MemoryCluster, MemoryOperator
from harness.stage import SETTLE_SECONDS, on_stage, until, writes_since
from winpool.api.keys import APPLIED_ANNOTATION
from winpool.api.status import MAX_ISSUES
from winpool.api.text import written_moment
from winpool.kube.nodes import decode_event
from winpool.model.node import Node, Taint

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
LONG_AGO: Final = written_moment(NOON - timedelta(days=1))
SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
ADDED: Final = "2026-10-31T08:00:00Z"
CNI: Final = "container runtime network not ready: cni plugin not initialized"


def heard(node: Node, condition: Object | None) -> Node:
    """Return ``node`` after its kubelet has written this condition or none, as it is read."""
    metadata = {"name": node.name, "uid": node.uid, "resourceVersion": "1"}
    conditions = [] if condition is None else [condition]
    event = {"type": "MODIFIED", "object": {"metadata": metadata, "status": {"conditions": conditions}}}
    read = decode_event(json.dumps(event).encode()).object
    assert read is not None
    return replace(node, ready=read.ready, ready_since=read.ready_since, unready=read.unready)


def a_ready(status: str = "True", *, message: str = CNI, **times: Any) -> Object:
    """Return a condition Ready; it has been so for a day, unless ``lastTransitionTime`` says more."""
    reason = "KubeletReady" if status == "True" else "KubeletNotReady"
    said = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": LONG_AGO, **times}


def report(cluster: MemoryCluster, name: str, condition: Object | None) -> None:
    cluster.put_node(heard(cluster.nodes[name], condition))


def reported(cluster: MemoryCluster, reason: str) -> list[Object]:
    """Return the issues of that reason that are on the pool now."""
    issues: list[Object] = cluster.bodies["pool"]["status"].get("issues", [])
    return [each for each in issues if each["reason"] == reason]


def named(cluster: MemoryCluster, reason: str) -> list[str]:
    """Return the nodes of these issues."""
    return sorted(name for each in reported(cluster, reason) for name in each["nodes"])


def now_of(cluster: MemoryCluster) -> str:
    return written_moment(cluster.now())


HEARTBEATS: Final[tuple[Callable[[int, str], str], ...]] = (
    lambda n, _: (
        f"[container runtime is down, PLEG is not healthy: pleg was last seen active {n}m{n % 60}.1s "
        "ago; threshold is 3m0s]"
    ),
    lambda n, _: (
        f"dial tcp 10.0.{n % 250}.7:{40000 + n}->10.0.0.1:6443: i/o timeout (attempt {n}, pid={n + 7})"
    ),
    lambda n, now: (
        f"x509: certificate has expired or is not yet valid: current time {now} is after "
        f"2026-10-31T00:00:00Z; {n} % of the disk is free; retry in {n * 1.5}s"
    ),
    lambda n, now: (
        f"at {now.replace('T', ' ').replace('Z', f'.{n:06} +0000 UTC m=+{n}.25')}: sandbox "
        f"{n:064x} of {n:08x}-0000-4000-8000-{n:012x} is not ready since {n} seconds"
    ),
)
"""What a kubelet says at its heartbeat of that number and time."""


def test_p2_what_changes_with_each_heartbeat_is_reported_once_in_a_day() -> None:
    names = [f"w{place}" for place in range(len(HEARTBEATS))]

    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        began, since = cluster.time, now_of(cluster)
        for number in range(DAY // MINUTE):
            for name, says in zip(names, HEARTBEATS, strict=True):
                message = says(number, now_of(cluster))
                report(cluster, name, a_ready("False", message=message, lastTransitionTime=since))
            await asyncio.sleep(MINUTE)
            if number == 15:
                assert named(cluster, "NodesNotReady") == names
        assert named(cluster, "NodesNotReady") == names
        # The nodes are lost, and stay so for five minutes: a person needs both, once.
        assert len(writes_since(cluster, began, "status")) <= 4
        assert writes_since(cluster, began + 15 * MINUTE) == []
        assert writes_since(cluster, began, "node", "conditions", "eviction") == []

    on_stage(scene, *(heard(a_node(name), a_ready()) for name in names), spec={})


@pytest.mark.slow
def test_p2_p7_many_nodes_that_fail_for_as_many_causes_cost_few_writes_and_a_small_status() -> None:
    names = [f"w{place:03}" for place in range(500)]
    words = ["".join(letters) for letters in product(ascii_lowercase, repeat=2)]
    failing = dict(zip(names[::2], words, strict=False))

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        began, passes = cluster.time, len(operator.passes)
        for name, word in failing.items():
            # Letters alone: none of it is taken for a number, and each is a cause of its own.
            message = f"cannot resolve {word}.corp.example: " + f"{word} " * 2000
            report(cluster, name, a_ready("False", message=message, lastTransitionTime=now_of(cluster)))
            await asyncio.sleep(MINUTE / len(failing))
        await asyncio.sleep(SETTLE_SECONDS)
        lost = cluster.time
        assert len(writes_since(cluster, began, "status")) <= MINUTE + 2  # the counts change, once a second
        await asyncio.sleep(HOUR)
        status = cluster.bodies["pool"]["status"]
        # However they are grouped, none is hidden.
        assert sum(each["nodeCount"] for each in reported(cluster, "NodesNotReady")) == len(failing)
        assert status["readyNodes"] == len(names) - len(failing)
        assert len(status["issues"]) <= MAX_ISSUES
        assert len(json.dumps(status)) <= 40_000
        # They all have been not Ready for five minutes within one minute.
        assert len(writes_since(cluster, lost, "status")) <= 10
        assert writes_since(cluster, lost + 10 * MINUTE) == []
        assert writes_since(cluster, began, "node", "conditions", "eviction") == []
        assert len(operator.passes) - passes <= 2 * len(failing)

    on_stage(scene, *(heard(a_node(name), a_ready()) for name in names), spec={})


CLOUDS: Final = (
    Taint(UNINITIALIZED, "NoSchedule", "true", ADDED),
    Taint(SHUTDOWN, "NoSchedule", "", ADDED),
    Taint(SHUTDOWN, "NoExecute", "odd"),
)
OURS: Final = {"key": "os", "value": "windows", "effect": "NoSchedule"}
SAME: Final = [{"key": key, "value": "ours", "effect": "NoSchedule"} for key in (SHUTDOWN, UNINITIALIZED)]
SPECS: Final[tuple[Object, ...]] = (
    {},
    {"taints": [OURS]},
    {"taints": [OURS, *SAME]},
    {"startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]},
    {"startupTaints": SAME},
    {"labels": {"team": "shop"}, "mode": "DryRun"},
    {"labels": {"team": "shop"}, "mode": "Paused"},
)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_p3_the_taints_of_the_cloud_stay_as_the_cloud_has_written_them(spec: Object) -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        def are_the_clouds() -> bool:
            kept = [tuple(t for t in n.taints if "cloudprovider" in t.key) for n in cluster.nodes.values()]
            records = [node.annotations.get(APPLIED_ANNOTATION, "") for node in cluster.nodes.values()]
            return kept == [CLOUDS] * 3 and "cloudprovider" not in "".join(records)

        await asyncio.sleep(HOUR)
        assert are_the_clouds()
        cluster.edit_pool("pool", taints=[OURS], labels={"team": "shop"}, startupTaints=[], mode="Active")
        await asyncio.sleep(HOUR)
        assert set(named(cluster, "CloudTaintStays")) == {"w1"}
        assert (
            taints_of("os=windows:NoSchedule")[0] in cluster.nodes["w1"].taints
        )  # it does write taints there
        assert are_the_clouds()
        cluster.edit_pool("pool", **{"taints": [], "startupTaints": [], **spec})
        await asyncio.sleep(HOUR)
        assert are_the_clouds()
        cluster.put_node(replace(cluster.nodes["w3"], labels={"kubernetes.io/os": "windows"}))
        await asyncio.sleep(MINUTE)
        cluster.delete_pool("pool")
        await asyncio.sleep(HOUR)
        assert are_the_clouds()

    on_stage(
        scene,
        heard(a_node("w1", taints=CLOUDS), a_ready()),
        heard(a_node("w2", taints=CLOUDS), a_ready("False")),
        heard(a_node("w3", taints=CLOUDS), None),
        spec=spec,
    )


UNREADABLE: Final[dict[str, dict[str, Any]]] = {
    "null": {"lastTransitionTime": None},
    "no time": {"lastTransitionTime": "yesterday"},
    "empty": {"lastTransitionTime": ""},
    "no such day": {"lastTransitionTime": "2026-10-32T00:00:00Z"},
    "too long": {"lastTransitionTime": LONG_AGO + " " * 2**12},
    "to come": {"lastTransitionTime": "2026-11-02T12:00:00Z"},
    "another time": {"lastTransitionTime": None, "lastHeartbeatTime": LONG_AGO},
}


@pytest.mark.parametrize("status", ["True", "False", "Unknown", "Perhaps", ""])
@pytest.mark.parametrize("times", [None, *UNREADABLE], ids=str)
def test_p4_a_node_of_which_it_is_not_known_since_when_it_is_so_claims_nothing(
    status: str, times: str | None
) -> None:
    condition = None if times is None else a_ready(status, **UNREADABLE[times])

    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        began = now_of(cluster)
        for _minute in range(60):
            report(cluster, "w1", condition)
            report(cluster, "w2", condition)
            await asyncio.sleep(MINUTE)
            assert {"w1", "w2"}.isdisjoint(
                named(cluster, "NodesNotReady") + named(cluster, "CloudTaintStays")
            )
        # The same with a time is reported, when it was found.
        [lost], [stays] = reported(cluster, "NodesNotReady"), reported(cluster, "CloudTaintStays")
        assert (lost["nodes"], stays["nodes"]) == (["w3"], ["w4"])
        assert began <= min(lost["since"], stays["since"])

    on_stage(
        scene,
        heard(a_node("w1"), condition),
        heard(a_node("w2", taints=CLOUDS[:1]), condition),
        heard(a_node("w3"), a_ready("False")),
        heard(a_node("w4", taints=CLOUDS[:1]), a_ready()),
        spec={},
    )


def test_p9_what_nodes_do_not_report_any_more_is_not_reported() -> None:
    names = ["w1", "w2", "w3"]

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        async def comes_to(*names: str) -> None:
            await until(lambda: named(cluster, "NodesNotReady") == [*names])

        await comes_to(*names)
        report(cluster, "w1", a_ready(lastTransitionTime=now_of(cluster)))
        await comes_to("w2", "w3")
        [found] = reported(cluster, "NodesNotReady")
        assert found["nodeCount"] == 2
        cluster.drop_node("w2")
        await comes_to("w3")
        report(cluster, "w3", a_ready("False", message="the disk is full"))
        await until(lambda: "the disk is full" in reported(cluster, "NodesNotReady")[0]["message"])
        assert CNI not in json.dumps(reported(cluster, "NodesNotReady"))
        # Also where no operator saw it become Ready.
        await operator.stop()
        report(cluster, "w3", a_ready(lastTransitionTime=now_of(cluster)))
        MemoryOperator(cluster).start()
        await comes_to()
        # One that fails again is reported when that has lasted five minutes.
        report(cluster, "w1", a_ready("False", lastTransitionTime=now_of(cluster)))
        await asyncio.sleep(5 * MINUTE - 1)
        assert named(cluster, "NodesNotReady") == []
        await asyncio.sleep(MINUTE + 1)
        assert named(cluster, "NodesNotReady") == ["w1"]

    on_stage(scene, *(heard(a_node(name), a_ready("False")) for name in names), spec={})


def test_p9_a_taint_that_is_gone_or_on_a_node_that_is_not_ready_is_not_reported() -> None:
    names = ["w1", "w2", "w3"]

    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        async def comes_to(*names: str) -> None:
            await until(lambda: named(cluster, "CloudTaintStays") == [*names])

        await comes_to(*names)
        cluster.put_node(replace(cluster.nodes["w1"], taints=()))
        await comes_to("w2", "w3")
        report(cluster, "w2", a_ready("False", lastTransitionTime=now_of(cluster)))
        await comes_to("w3")
        cluster.drop_node("w3")
        await comes_to()

    on_stage(scene, *(heard(a_node(name, taints=CLOUDS[:1]), a_ready()) for name in names), spec={})
