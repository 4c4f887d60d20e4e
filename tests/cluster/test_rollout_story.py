"""Twelve nodes in three zones are upgraded while all that can go wrong goes wrong on some of them.

What is asserted is what an independent watch of nodes and pool shows, and the audit log. The versions of both
watches are those of one etcd, so that they have one order.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from cluster.pods import NAMESPACE
from cluster.test_rollout import QUICKLY, TARGET, rights, successors  # noqa: F401 - a fixture
from cluster.upgrade_ground import HOLD, QUICK, STATE_LABEL, Ground, ground_in, upgrade
from cluster.upgrade_told import states
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.watcher import Watcher, version_of
from harness.world import World
from testbed.actuator import Actuator

Object = dict[str, Any]

STUCK: Final = "winsim/stuck-terminating"
"""On a pod of the testbed: its containers do not end."""
ZONE: Final = "topology.kubernetes.io/zone"
ALLOWED: Final = 3
ALONE: Final = 8
"""Nodes that are up to date while the held, the cordoned, the protected and the failing one are not."""
IN_WORK: Final = {
    "Claimed", "Draining", "DrainBlocked", "Drained", "Upgrading", "Rejoining", "Validating", "Soaking"
}  # fmt: skip


@dataclass
class Story:
    """The nodes to which something happens, by what it is, and what has been done about it."""

    ground: Ground
    names: dict[str, str]
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.world = self.ground.world
        self.patch = Actuator(api=self.world.testbed.api(), fleet=self.ground.fleet, outage=QUICK)
        self.replace = Actuator(
            api=self.world.testbed.api(), fleet=self.ground.fleet, method="replace", outage=QUICK
        )
        self.surge = Actuator(
            api=self.world.testbed.api(), fleet=self.ground.fleet, method="surge", outage=QUICK
        )

    def act(self) -> None:
        """Upgrade what is handed over, and end what keeps nodes once it was seen to keep them."""
        found = self.world.nodes()
        for name, node in found.items():
            if labels_of(node).get(STATE_LABEL) == "Upgrading":
                special = {self.names["replaced"]: self.replace, self.names["surged"]: self.surge}
                special.get(name, self.patch).look_at(node)
        said = {name: labels_of(node).get(STATE_LABEL) for name, node in found.items()}
        others = {name for name, state in said.items() if state == "UpToDate"}
        for one, what in (("hold", "held"), ("cordon", "cordoned"), ("budget", "protected")):
            assert one in self.done or said[self.names[what]] not in IN_WORK, (what, said)
        if said.get(self.names["stuck"]) == "DrainBlocked":
            self._once("stuck", self._free_pods)
        if said.get(self.names["failing"]) == "Failed":
            self._once("failing", self._repair)
        if len(others) >= ALONE:
            self._once("hold", lambda: self.ground.annotate(self.names["held"], HOLD, None))
            self._once("cordon", lambda: self.world.kubectl("uncordon", self.names["cordoned"]))
            self._once("budget", lambda: self.ground.remove("poddisruptionbudgets", self.names["budget"]))

    def _once(self, what: str, do: Any) -> None:
        if what not in self.done:
            do()
            self.done.add(what)

    def _repair(self) -> None:
        self.ground.fleet.set_updates([self.names["failing"]], result="succeed")
        self.ground.annotate(self.names["failing"], "winpool.dev/upgrade-retry", "")

    def _free_pods(self) -> None:
        self.world.kubectl("annotate", "pod", "-n", NAMESPACE, self.names["pod"], f"{STUCK}-")


def tell(ground: Ground, names: list[str]) -> Story:
    """Prepare what happens to which node."""
    world = ground.world
    parts = ("held", "cordoned", "failing", "stuck", "replaced", "protected", "surged")
    found = dict(zip(parts, names[3:], strict=False))
    ground.fill("web", build="10.0.20348", pods=12, cpu="100m")
    ground.annotate(found["held"], HOLD, "")
    world.cordon(found["cordoned"])
    ground.fleet.set_updates([found["failing"]], result="fail")
    found["pod"] = a_pod(world, "stuck", found["stuck"], annotations={STUCK: "true"})
    a_pod(world, "db", found["protected"], labels={"app": "db"})
    found["budget"] = ground.budget("db", {"app": "db"})
    return Story(ground, found)


def a_pod(world: World, name: str, node: str, **metadata: Any) -> str:
    """Run a pod that no controller manages on a node; return its name once it is Ready."""
    full = f"{name}-{world.suffix}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": full, **metadata},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "app", "image": "registry.example.com/team/app:1.2"}],
        },
    }
    world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(pod))
    world.kubectl("wait", "-n", NAMESPACE, "pod", full, "--for=condition=Ready", "--timeout=60s")
    return full


def pool_in(world: World, *, opens: datetime) -> Object:
    """Return the pool of the story: upgrades begin with a window."""
    window = {"schedule": f"{opens.minute} {opens.hour} * * *", "durationSeconds": 7200}
    return world.pool(
        os={"version": "2022", "targetRevision": TARGET},
        validation={"readySeconds": 0, "timeoutSeconds": 120},
        upgrade=upgrade(
            world,
            **QUICKLY,
            method="Replace",
            maxUnavailable=ALLOWED,
            maxFailedNodes=1,
            maxBlockedNodes=1,
            canary={"nodes": 1, "soakSeconds": 1},
            maintenanceWindows=[window],
            drain={"timeoutSeconds": 60, "unmanagedPods": "Evict"},
        ),
    )


class Cordons:
    """The first cordon of each claim, as independent watches of nodes and pool saw it.

    ``beyond_budget`` are those at which as many other nodes were unavailable, or had a slot, as may be.
    """

    def __init__(self, nodes: Watcher, pools: Watcher) -> None:
        self.beyond_budget: list[tuple[str, set[str]]] = []
        self.moments: list[datetime] = []
        seen = [(version_of(each), "", each) for states in pools.states.values() for each in states]
        seen += [(version_of(each), name, each) for name, states in nodes.states.items() for each in states]
        slots, missing, claims = set[str](), set[str](), dict[str, str]()
        for _, name, found in sorted(seen, key=lambda each: each[0]):
            if not name:
                entries = found.get("status", {}).get("slots", [])
                slots = {each["node"] for each in entries if each["state"] != "Unused"}
                continue
            if (name, version_of(found)) in nodes.deletions:
                missing.discard(name)
                continue
            state, is_cordoned = labels_of(found).get(STATE_LABEL), bool(found["spec"].get("unschedulable"))
            if state == "Draining" and is_cordoned:
                text = found["metadata"]["annotations"]["winpool.dev/upgrade"]
                claim = json.loads(text)
                if claims.get(name) != claim["claim"]:
                    claims[name] = claim["claim"]
                    self.moments.append(datetime.fromisoformat(claim["since"]))
                    if len((slots | missing) - {name}) >= ALLOWED:
                        self.beyond_budget.append((name, (slots | missing) - {name}))
            if is_cordoned or not is_ready(found):
                missing.add(name)
            else:
                missing.discard(name)


def is_ready(node: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])


@pytest.mark.nightly
@pytest.mark.timeout(900)  # a guard: twelve machines restart, two or three at a time
def test_twelve_nodes_are_upgraded_whatever_happens_to_some(world: World) -> None:
    with ground_in(world) as ground:
        names = [
            ground.fleet.join(
                1, release="2022", revision=1607, labels={**world.selector, ZONE: f"zone-{'abc'[place % 3]}"}
            )[0]
            for place in range(12)
        ]
        ground.wait_settled()
        story = tell(ground, names)
        opens = (world.now() + timedelta(seconds=70)).replace(second=0, microsecond=0)
        pool = world.apply(pool_in(world, opens=opens))
        start = world.now()
        with world.watch_nodes() as nodes, world.watch_pool(pool) as pools:
            world.operator.start()

            def done() -> bool:
                story.act()
                found = states(world)
                assert found.keys() >= set(names) - {story.names["surged"]}
                assert story.names["surged"] not in found
                assert set(found.values()) == {"UpToDate"}, (found, story.done)
                assert "slots" not in world.status(pool)
                return True

            eventually(done, what="all nodes up to date", seconds=700, every=1)
            nodes.catch_up(world.nodes().values())
        assert story.done == {"stuck", "failing", "hold", "cordon", "budget"}
        cordons = Cordons(nodes, pools)
        assert cordons.beyond_budget == []
        assert min(cordons.moments) >= opens
        heirs = world.nodes().keys() - {ground.first, *names}
        assert len(heirs) == 1
        assert successors(story.names["surged"], nodes) == heirs
        assert len(cordons.moments) == len(world.nodes()) + 1, "each once, and the one that failed twice"
        evicted = [
            each
            for each in world.requests(since=start)
            if each.subresource == "eviction" and each.code == 201
        ]
        assert evicted
        assert max(Counter((each.namespace, each.name) for each in evicted).values()) == 1
        for name, node in world.carried().items():
            assert not node.get("unschedulable"), name
        world.delete(pool)
