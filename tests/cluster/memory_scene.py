"""One scenario of memory pressure: its nodes, its pool, its pods, and what became of them."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cluster.evictions import Eviction
from cluster.memory_pods import Pods
from cluster.memory_world import (
    CONDITION,
    EVERY_SECONDS,
    HEALTHY,
    HOLD_SECONDS,
    LONG_SECONDS,
    PATIENCE_SECONDS,
    Ground,
    block,
    label,
    taken,
)
from harness.nodes import annotations_of, labels_of, taints_of
from harness.operator import USER
from harness.waiting import eventually, holds
from harness.world import World
from testbed.winsim.control import FleetControl
from winpool.api.keys import MEMORY_ANNOTATION, MEMORY_PRESSURE_TAINT, POOL_LABEL

Object = dict[str, Any]

TAINT = f"{MEMORY_PRESSURE_TAINT}=:NoSchedule"


class Scene:
    """A pool with nodes of its own. Nothing of another scenario touches it but the operator."""

    def __init__(self, ground: Ground, *, key: str, nodes: Sequence[str]) -> None:
        self.ground = ground
        self.world: World = ground.world
        self.nodes = list(nodes)
        self.name = f"{key}-{ground.world.suffix}"
        self.pods = Pods(ground.world.testbed, scene=self.name)
        self._key = key
        for node in nodes:
            label(self.world, node, scene=key)

    @property
    def node(self) -> str:
        """The first node, or the only one."""
        return self.nodes[0]

    @property
    def fleet(self) -> FleetControl:
        """What tells the machines of this scenario what to do."""
        return self.ground.fleets[self.node]

    # The pool

    def pool(self, mode: str | None, *, spec: Mapping[str, Any] | None = None, **memory: Any) -> None:
        """Have the pool ask for this; return when the operator says so of this generation.

        Args:
            mode: of ``memoryPressure``; None: the block is absent.
            spec: further fields of the spec.
            memory: further fields of ``memoryPressure``.

        """
        asked = {} if mode is None else {"memoryPressure": block(mode, **memory)}
        labels = {**self.world.selector, "example.com/scene": self._key}
        manifest = self.world.pool(
            self._key, nodeSelector={"matchLabels": labels}, **{**asked, **(spec or {})}
        )
        self.world.apply(manifest)
        eventually(self.is_current, what=f"a status of the new spec of {self.name}", every=EVERY_SECONDS)

    def close(self) -> None:
        """Take pods and pool away, so that another scenario can have the nodes."""
        self.pods.close()
        if self.name in self.world.pools():
            self.world.delete(self.name)

    def is_current(self) -> bool:
        """Whether the status is about the spec that the pool has now."""
        found = self.world.get("wnp", self.name)
        current: bool = found["status"]["observedGeneration"] == found["metadata"]["generation"]
        return current

    def await_members(self) -> None:
        """Return when all nodes carry the label of the pool, and everything else that it asks for."""
        eventually(
            lambda: (
                all(labels_of(self.read(each)).get(POOL_LABEL) == self.name for each in self.nodes)
                and self.condition("Reconciling").get("status") == "False"
            ),
            what=f"the nodes of {self.name} are in the pool",
            seconds=PATIENCE_SECONDS,
            every=EVERY_SECONDS,
        )

    def await_calm(self) -> None:
        """Return when the memory of all members is known and well, by at least two polls of each kubelet.

        In mode Evict the first has listed the pods: all that a pod has that starts from then on is growth.
        """
        self.await_members()
        eventually(
            lambda: self.condition(HEALTHY).get("status") == "True",
            what=f"healthy memory of {self.name}",
            seconds=PATIENCE_SECONDS,
            every=EVERY_SECONDS,
        )

    def status(self) -> Object:
        """Return the status of the pool."""
        return self.world.status(self.name)

    def condition(self, kind: str) -> Object:
        """Return a condition of the pool; {} where it has none of that type."""
        return self.world.condition(self.name, kind)

    def issues(self, *, about: str | None = None) -> dict[str, Object]:
        """Return the issues of the pool by reason, or those about a node."""
        found = self.status().get("issues", [])
        return {each["reason"]: each for each in found if about is None or about in each["nodes"]}

    def told(self) -> set[str]:
        """Return the reasons of the events that the operator emitted about the pool and its nodes."""
        found = {*self.world.reasons(kind="WindowsNodePool", name=self.name)}
        for node in self.nodes:
            found |= {*self.world.reasons(kind="Node", name=node)}
        return found

    def await_event(self, reason: str) -> None:
        """Return when the operator has emitted an event with this reason about the pool or its nodes."""
        eventually(
            lambda: reason in self.told(),
            what=f"the event {reason} of {self.name}",
            every=EVERY_SECONDS,
        )

    def await_issue(self, reason: str, *, says: str = "") -> Object:
        """Return the issue with this reason once the pool has it, and its message ``says`` this."""

        def told() -> Object:
            found = self.issues().get(reason) or {}
            return found if says in found.get("message", "") else {}

        return eventually(
            told,
            what=f"the issue {reason} of {self.name}",
            seconds=PATIENCE_SECONDS,
            every=EVERY_SECONDS,
        )

    def await_pressured(self, count: int, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Return when the pool reports so many nodes under pressure."""
        eventually(
            lambda: self.status()["pressuredNodes"] == count,
            what=f"{count} nodes of {self.name} under pressure",
            seconds=seconds,
            every=EVERY_SECONDS,
        )

    # The nodes

    def read(self, node: str | None = None) -> Object:
        """Return a node."""
        return self.world.node(node or self.node)

    def signal(self, node: str | None = None) -> tuple[str, bool]:
        """Return the status of our condition on a node, empty for none, and whether it has our taint."""
        return signal_of(self.read(node))

    def await_signal(
        self, status: str, *, taint: bool, node: str | None = None, seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Return when a node has this."""
        eventually(
            lambda: self.signal(node) == (status, taint),
            what=f"{node or self.node}: condition {status!r}, {'a' if taint else 'no'} taint",
            seconds=seconds,
            every=EVERY_SECONDS,
        )

    def await_marked(self, node: str | None = None) -> None:
        """Return when a node has our condition, True, and our taint."""
        self.await_signal("True", taint=True, node=node)

    def await_unmarked(self, node: str | None = None, *, seconds: float = LONG_SECONDS) -> None:
        """Return when a node has no taint of ours, and no condition that says more than that all is well."""

        def check() -> bool:
            status, taint = self.signal(node)
            return status in ("", "False") and not taint

        eventually(check, what=f"{node or self.node} without marks", seconds=seconds, every=EVERY_SECONDS)

    def bare(self, node: str | None = None) -> bool:
        """Whether nothing of memory pressure is on a node, not even a condition that is False."""
        found = self.read(node)
        return signal_of(found) == ("", False) and MEMORY_ANNOTATION not in annotations_of(found)

    def writes_to_nodes(self, *, since: datetime) -> list[str]:
        """Return what the operator has written to the nodes, those that were taken."""
        return [
            f"{each.verb} {each.resource}/{each.subresource}".rstrip("/")
            for each in taken(self.ground.asked(since=since))
            if each.resource == "nodes" and each.name in self.nodes
        ]

    def exported(self, metric: str, node: str | None = None) -> float:
        """Return a value of windows_exporter on a node, which asks nobody for a token."""
        addresses = {each["type"]: each["address"] for each in self.read(node)["status"]["addresses"]}
        url = f"http://{addresses['InternalIP']}:{self.fleet.summary().exporter_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        (value,) = (line.split()[1] for line in lines if line.startswith(f"{metric} "))
        return float(value)

    # Evictions

    def evictions(self) -> list[Eviction]:
        """Return what evictions of pods of these nodes the operator has asked for."""
        return self.ground.evictions.of(*self.nodes)

    def evicted(self) -> set[str]:
        """Return the UIDs of the pods that the operator has asked to evict."""
        return {each.pod_uid for each in self.evictions()}

    def await_evicted(self, uid: str, *, seconds: float = PATIENCE_SECONDS) -> Eviction:
        """Return the eviction of a pod once the operator has asked for it.

        It names the pod by its UID, leaves the grace to the pod, and the node has named the pod before.
        """
        found = eventually(
            lambda: [each for each in self.evictions() if each.pod_uid == uid],
            what=f"the eviction of {uid} on {self.nodes}",
            seconds=seconds,
            every=EVERY_SECONDS,
        )[0]
        assert (found.uid, found.grace) == (uid, None)
        assert uid in found.intents, f"{found.node} did not name the pod: {found.intents!r}"
        return found

    def spares(self, *uids: str, seconds: float = HOLD_SECONDS) -> None:
        """Assert that none of these pods is evicted or told to end in that time."""

        def spared() -> bool:
            assert not self.evicted() & {*uids}
            assert {*uids} <= self.pods.staying().keys()
            return True

        holds(spared, seconds=seconds, every=EVERY_SECONDS)

    def deletions(self, *, since: datetime) -> list[str]:
        """Return the pods that the operator has deleted, which it has no business to do."""
        return [
            f"{each.verb} {each.uri}"
            for each in self.ground.asked(since=since)
            if each.resource == "pods" and each.verb in ("delete", "deletecollection") and each.user == USER
        ]


def signal_of(node: Object) -> tuple[str, bool]:
    """Return the status of our condition on a node, empty for none, and whether it has our taint."""
    found = [each["status"] for each in node["status"].get("conditions", []) if each["type"] == CONDITION]
    assert len(found) <= 1
    return "".join(found), TAINT in taints_of(node)
