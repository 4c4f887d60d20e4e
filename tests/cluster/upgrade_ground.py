"""What the tests of upgrades share: machines that can be told what to do, a pool with gates, obstacles.

What the tests assume of the operator beyond its API is in this file and in ``upgrade_told``. The names are
those of the issue and of design.md, written out, so that no table of the operator can make a test agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from cluster.pods import NAMESPACE, Pods, pods_in
from harness import quick_labels
from harness.nodes import is_settled
from harness.waiting import eventually
from harness.world import World
from testbed.winsim.control import FleetControl
from testbed.winsim.entries import Outage

Object = dict[str, Any]

STATE_LABEL: Final = "winpool.dev/upgrade-state"
WAY: Final = [
    "Gated",
    "Claimed",
    "Draining",
    "Drained",
    "Upgrading",
    "Rejoining",
    "Validating",
    "Soaking",
    "UpToDate",
]
"""What the label says of a node that the operator upgrades, one after the other."""
HOLD: Final = "winpool.dev/hold"
REQUESTED: Final = "winpool.dev/upgrade-requested"
SCENE: Final = "example.com/scene"
DECLARED_BUILD: Final = "winpool.dev/windows-build"
"""On a pod: what it is built for."""
OURS_ON_A_NODE: Final = {
    "labels": {STATE_LABEL, "winpool.dev/pool", "winpool.dev/os-version", "winpool.dev/os-revision"},
    "annotations": {"winpool.dev/applied"},
}
"""All that a pool without labels, taints and other blocks may ever write to a node."""

PAUSE_SECONDS: Final = 15.0
"""Between two changes of a label by gates: a quarter of what the operator waits."""
LABEL_SECONDS: Final = 90.0
"""How long a test waits for a label; beside the pause, it is for a busy machine."""

QUICK: Final = Outage(down=1.0, ready_after=1.0)
"""How long a machine of these tests takes to start again."""


def at(world: World, **later: float) -> str:
    """Return a time from now in the form of the API."""
    return (world.now() + timedelta(**later)).strftime("%Y-%m-%dT%H:%M:%SZ")


def stable_control_plane(world: World) -> Object:
    """Return the override of the one gate that opens only a quarter of an hour after a start."""
    reason = "the control plane of this test is as old as the test"
    return {"gate": "ControlPlane", "until": at(world, hours=8), "reason": reason}


def upgrade(world: World, **fields: Any) -> Object:
    """Return ``spec.upgrade`` with that override, and what else is given."""
    return {"overrides": [stable_control_plane(world)], **fields}


class Ground:
    """Windows machines of one test, under a prefix of their own; all carry the run label of the test."""

    def __init__(self, world: World, pods: Pods) -> None:
        self.world = world
        self.pods = pods
        socket = world.directory / "fleet.sock"
        # Of the nodes of a process the first has revision 4052 of Windows Server 2022.
        [self.first] = world.fleet(windows=1, extra=(f"--control-socket={socket}",))
        self.fleet = FleetControl(socket)

    def join(self, release: str, revision: int, *, pool: str | None = None) -> str:
        """Have a machine come that runs this Windows, for a ``pool_of`` some name; return its node."""
        labels = {**self.world.selector, **({} if pool is None else {SCENE: pool})}
        [name] = self.fleet.join(1, release=release, revision=revision, labels=labels)
        return name

    def wait_settled(self) -> None:
        """Return when all nodes are Ready, and the control plane is done with them."""
        eventually(
            lambda: all(map(is_settled, self.world.nodes().values())), what="all nodes Ready", seconds=120
        )

    # Obstacles

    def budget(self, name: str, labels: Mapping[str, str], *, least: int = 1) -> str:
        """Protect pods with these labels by a budget that allows no eviction; return its name."""
        full = f"{name}-{self.world.suffix}"
        manifest = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": full, "labels": self._mine},
            "spec": {"minAvailable": least, "selector": {"matchLabels": dict(labels)}},
        }
        self._create(manifest)

        def is_told() -> bool:
            [budget] = [each for each in self._existing("poddisruptionbudgets") if _name(each) == full]
            status = budget.get("status", {})
            assert status.get("observedGeneration") == budget["metadata"]["generation"]
            assert (status["expectedPods"], status["disruptionsAllowed"]) == (least, 0)
            return True

        eventually(is_told, what=f"the budget {full} counted its pods")
        return full

    def fill(self, name: str, *, build: str, pods: int, cpu: str) -> str:
        """Have a ReplicaSet with pods of this size on the nodes of a build; return its name once all run."""
        full = f"{name}-{self.world.suffix}"
        mine = {"example.com/replica-set": full}
        container = {
            "name": "app",
            "image": "registry.example.com/team/app:1.2",
            "resources": {"requests": {"cpu": cpu}},
        }
        selector = {**self.world.selector, "node.kubernetes.io/windows-build": build}
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": full, "labels": self._mine},
            "spec": {
                "replicas": pods,
                "selector": {"matchLabels": mine},
                "template": {
                    "metadata": {"labels": mine},
                    "spec": {"containers": [container], "nodeSelector": selector},
                },
            },
        }
        self._create(manifest)
        eventually(
            lambda: (
                [
                    each["status"].get("readyReplicas")
                    for each in self._existing("replicasets")
                    if _name(each) == full
                ]
                == [pods]
            ),
            what=f"{pods} pods of {full}",
        )
        return full

    def remove(self, kind: str, name: str) -> None:
        """Delete an obstacle, and with it what it has made."""
        self.world.kubectl(
            "delete", kind, "-n", NAMESPACE, name, "--cascade=foreground", "--timeout=50s", "--now"
        )

    def annotate(self, node: str, key: str, value: str | None) -> None:
        """Set an annotation of a node as a person; None removes it."""
        self.world.kubectl("annotate", "node", node, f"{key}-" if value is None else f"{key}={value}")

    def close(self) -> None:
        """Take the obstacles away."""
        for kind in ("replicasets", "poddisruptionbudgets"):
            for each in self._existing(kind):
                self.remove(kind, _name(each))

    @property
    def _mine(self) -> dict[str, str]:
        return {"example.com/obstacle": self.world.suffix}

    def _existing(self, kind: str) -> list[Object]:
        words = (
            "get",
            kind,
            "-n",
            NAMESPACE,
            "-l",
            f"example.com/obstacle={self.world.suffix}",
            "-o",
            "json",
        )
        found: list[Object] = json.loads(self.world.kubectl(*words))["items"]
        return found

    def _create(self, manifest: Object) -> None:
        self.world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(manifest))


@contextmanager
def ground_in(
    world: World,
    *,
    pause_seconds: float = PAUSE_SECONDS,
    use_seconds: float = quick_labels.USUAL["USE_SECONDS"],
) -> Iterator[Ground]:
    """Hand over the machines of a test, with an operator, not started yet, that often looks at pods.

    It gives a permission that was withdrawn after ``pause_seconds`` again, and withdraws one that no one uses
    after ``use_seconds``.
    """
    environment = quick_labels.environment(rest=pause_seconds, use=use_seconds)
    with pods_in(world, environment=environment, module="harness.quick_labels") as pods:
        ground = Ground(world, pods)
        try:
            yield ground
        finally:
            ground.close()


def pool_of(world: World, name: str, **spec: Any) -> Object:
    """Return a pool that selects the nodes of the test that have joined for the pool of this name."""
    selector = {**world.selector, SCENE: name}
    return world.pool(name, nodeSelector={"matchLabels": selector}, **spec)


def _name(manifest: Object) -> str:
    return str(manifest["metadata"]["name"])
