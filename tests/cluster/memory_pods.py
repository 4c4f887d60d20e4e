"""Pods that do something with memory, on the nodes of one scenario."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.waiting import GUARD_SECONDS, eventually
from testbed.cluster import Testbed
from testbed.memory.pages import MIB
from testbed.memory.sizes import parse_size

Object = dict[str, Any]

NAMESPACE: Final = "default"
TEAM: Final = "team"
"""A namespace whose pods may be evicted."""
VAULT: Final = "vault"
"""A namespace that the settings of these operators protect."""
SCENE: Final = "example.com/scene"
WORKLOAD: Final = "example.com/workload"
EVERYTHING: Final[Object] = {"operator": "Exists"}
"""A toleration of all taints, for ever."""
IMAGE: Final = "registry.example.com/team/app:1.2"

# What the processes of pods do. A machine of these tests can commit 23.9 GiB, of which Windows has 1.1. Only
# pods that have grown since their node was calm, or since the operator first listed them, may be evicted.

GROWING_MINUTES: Final = 6
"""As long as a scenario or round lasts: an operator that was restarted in it sees growth again."""


def steady(commit: str) -> Object:
    """Return a workload that commits so much and touches little of it."""
    return {"workload": "steady", "commit": commit, "touchedPercent": 2}


def growing(commit: str, *, per_minute: int = 60) -> Object:
    """Return one that commits so much at once, and then so many MiB more each minute, for six minutes.

    Within half a minute it has grown by a fiftieth of what its node lacks. The node is at the same level all
    the time.
    """
    return {
        "workload": "leak",
        "commit": commit,
        "touchedPercent": 2,
        "growthPerMinute": f"{per_minute}Mi",
        "maximum": f"{parse_size(commit) // MIB + GROWING_MINUTES * per_minute}Mi",
    }


WARNING: Final = steady("19Gi")
"""84 % of what can be committed."""
SOFT: Final = growing("21Gi")
"""92.6 %, later 94 %, with 1.8 to 1.4 GiB left; RAM stays free."""
HARD: Final = growing("22Gi", per_minute=90)
"""96.8 %, later 99 %, with 0.8 to 0.3 GiB left."""
BRIM: Final = growing("23000Mi", per_minute=30)
"""98.7 %, later 99.4 %, with 0.3 to 0.1 GiB left: less than the 500Mi of a kubelet that evicts by itself."""
LEAK: Final = {
    "workload": "leak",
    "commit": "19Gi",
    "touchedPercent": 2,
    "growthPerMinute": "6Gi",
    "maximum": "21Gi",
}
"""From 84 % to 92.5 % in 20 seconds, and no further: nothing is denied to anybody."""
STORM: Final = {"workload": "pageStorm", "commit": "15Gi"}
"""More than the RAM that is left, all of it used every two seconds; 8 GiB of commit are left."""


EXEMPT: Final = {"tier": "gold"}
"""Labels of pods that a pool exempts by a rule, where a test has such a rule."""


class Pods:
    """The pods of one scenario, all with its label. What a ReplicaSet loses it makes anew."""

    def __init__(self, testbed: Testbed, *, scene: str) -> None:
        self._testbed = testbed
        self._scene = scene

    def run(
        self,
        name: str,
        node: str,
        memory: Mapping[str, Any],
        *,
        namespace: str = NAMESPACE,
        kind: str = "ReplicaSet",
        labels: Mapping[str, str] | None = None,
        request: str | None = None,
        tolerant: bool = False,
        stop_seconds: int = 0,
        **spec: Any,
    ) -> str:
        """Run one pod of a ReplicaSet or DaemonSet on a node; return its UID once it runs."""
        full = f"{name}-{self._scene}"
        mine = {SCENE: self._scene, WORKLOAD: full}
        container: Object = {"name": "app", "image": IMAGE}
        if request is not None:
            container["resources"] = {"requests": {"memory": request}}
        template = {
            "metadata": {
                "labels": {**mine, **(labels or {})},
                "annotations": {
                    "winsim/memory": json.dumps(memory),
                    "winsim/stop-seconds": str(stop_seconds),
                },
            },
            "spec": {
                "containers": [container],
                "nodeSelector": {"kubernetes.io/hostname": node},
                "terminationGracePeriodSeconds": max(1, stop_seconds),
                "tolerations": [EVERYTHING] if tolerant else [],
                **spec,
            },
        }
        manifest = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": full, "labels": mine},
            "spec": {"selector": {"matchLabels": {WORKLOAD: full}}, "template": template},
        }
        self._testbed.api().create(
            f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s", manifest, fieldValidation="Strict"
        )
        return self._running(namespace, full)

    def bind(
        self,
        name: str,
        node: str,
        memory: Mapping[str, Any],
        *,
        annotations: Mapping[str, str] | None = None,
        owners: Sequence[Object] = (),
        **spec: Any,
    ) -> str:
        """Create a pod without a ReplicaSet, bound to a node already; return its UID once it runs."""
        full = f"{name}-{self._scene}"
        metadata = {
            "name": full,
            "labels": {SCENE: self._scene, WORKLOAD: full},
            "annotations": {"winsim/memory": json.dumps(memory), **(annotations or {})},
            "ownerReferences": list(owners),
        }
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "containers": [{"name": "app", "image": IMAGE}],
                "nodeName": node,
                "terminationGracePeriodSeconds": 1,
                "tolerations": [EVERYTHING],
                **spec,
            },
        }
        self._testbed.api().create(f"/api/v1/namespaces/{NAMESPACE}/pods", manifest, fieldValidation="Strict")
        return self._running(NAMESPACE, full)

    def untouchable(self, node: Object) -> dict[str, str]:
        """Run a pod of each kind that is never evicted, 21 GiB together; return their UIDs by kind.

        Each grows, and none by more than half of what all do.
        """
        name, large = node["metadata"]["name"], growing("2688Mi", per_minute=8)
        self._testbed.api().create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VAULT}}
        )
        static = {
            "kubernetes.io/config.mirror": "1",
            "kubernetes.io/config.source": "file",
            "kubernetes.io/config.hash": "1",
        }
        kubelet = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": name,
            "uid": node["metadata"]["uid"],
            "controller": True,
        }
        system = {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}
        return {
            "agent": self.run("agent", name, large, kind="DaemonSet"),
            "static": self.bind("static", name, large, annotations=static, owners=[kubelet]),
            "naked": self.bind("naked", name, large),
            "critical": self.run("critical", name, large, priorityClassName="system-node-critical"),
            "system": self.run("system", name, large, namespace="kube-system"),
            "protected": self.run("vault", name, large, namespace=VAULT),
            "exempt": self.run("exempt", name, large, labels=EXEMPT),
            "host": self.run(
                "host", name, large, hostNetwork=True, os={"name": "windows"}, securityContext=system
            ),
        }

    def protect(self, name: str) -> None:
        """Forbid the eviction of the pod of a ReplicaSet by a PodDisruptionBudget; return when that holds."""
        full = f"{name}-{self._scene}"
        manifest = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": full, "labels": {SCENE: self._scene}},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {WORKLOAD: full}}},
        }
        where = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
        self._testbed.api().create(where, manifest)
        eventually(
            lambda: self._testbed.api().get(f"{where}/{full}").get("status", {}).get("currentHealthy") == 1,
            what=f"the PodDisruptionBudget {full} counts its pod",
        )

    def expose(self, name: str) -> None:
        """Take that PodDisruptionBudget away."""
        full = f"{name}-{self._scene}"
        self._testbed.api().delete(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{full}")

    def end(self, name: str, *, namespace: str = NAMESPACE) -> None:
        """Delete a ReplicaSet; return when its pods are gone."""
        full = f"{name}-{self._scene}"
        self._testbed.api().delete(f"/apis/apps/v1/namespaces/{namespace}/replicasets/{full}")
        eventually(
            lambda: not [each for each in self.all() if each["metadata"]["labels"][WORKLOAD] == full],
            what=f"the pods of {full} gone",
            every=1,
        )

    def all(self) -> list[Object]:
        """Return the pods of the scenario, in all namespaces."""
        found = self._testbed.api().get("/api/v1/pods", labelSelector=f"{SCENE}={self._scene}")["items"]
        return list(found)

    def of(self, name: str) -> list[Object]:
        """Return the pods of one ReplicaSet, DaemonSet or name, those that end as well."""
        full = f"{name}-{self._scene}"
        return [each for each in self.all() if each["metadata"]["labels"][WORKLOAD] == full]

    def events(self, uid: str, *, namespace: str) -> set[str]:
        """Return the reasons of the operator's events about a pod, which its owner can read."""
        found = self._testbed.api().get(
            f"/api/v1/namespaces/{namespace}/events", fieldSelector=f"involvedObject.uid={uid}"
        )
        return {
            each["reason"] for each in found["items"] if each["reportingComponent"] == "winpool.dev/winpool"
        }

    def staying(self) -> dict[str, str]:
        """Return the UIDs of the pods that nobody has told to end, and the nodes that they are on."""
        return {
            each["metadata"]["uid"]: each["spec"].get("nodeName", "")
            for each in self.all()
            if "deletionTimestamp" not in each["metadata"]
        }

    def close(self) -> None:
        """Take everything away at once."""
        api, mine = self._testbed.api(), f"{SCENE}={self._scene}"
        for path, kind in (
            ("/apis/apps/v1", "replicasets"),
            ("/apis/apps/v1", "daemonsets"),
            ("/apis/policy/v1", "poddisruptionbudgets"),
        ):
            for each in api.get(f"{path}/{kind}", labelSelector=mine)["items"]:
                about = each["metadata"]
                api.delete(f"{path}/namespaces/{about['namespace']}/{kind}/{about['name']}")
        for namespace in {each["metadata"]["namespace"] for each in self.all()}:
            self._testbed.kubectl(
                "delete", "pod", "-n", namespace, "-l", mine, "--force", "--grace-period=0", "--wait=false"
            )

    def _running(self, namespace: str, workload: str) -> str:
        where = f"/api/v1/namespaces/{namespace}/pods"

        def check() -> str:
            found = self._testbed.api().get(where, labelSelector=f"{WORKLOAD}={workload}")["items"]
            running = [each for each in found if each["status"].get("phase") == "Running"]
            return running[0]["metadata"]["uid"] if len(running) == 1 else ""

        return eventually(check, what=f"the pod of {workload} runs", seconds=GUARD_SECONDS, every=0.5)
