"""What the tests of taints share: real pods on simulated nodes, and an operator that often looks at pods."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from harness.nodes import taints_of
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World
from testbed.audit import AuditRecord

Object = dict[str, Any]

NAMESPACE: Final = "default"
OFTEN: Final = {"WINPOOL_POD_PASS_SECONDS": "1"}
"""Environment of an operator that looks at all pods each second, which is as often as it ever does."""
EVERYTHING: Final[Object] = {"operator": "Exists"}
"""A toleration of all taints, for ever."""


class Pods:
    """The pods of one test, in the namespace ``default``; their names have the test's suffix in them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._label = {"example.com/pods": world.suffix}
        self._selector = ("-l", f"example.com/pods={world.suffix}")

    def bind(
        self,
        name: str,
        node: str,
        *,
        tolerations: Sequence[Object] = (),
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Sequence[str] = (),
        **spec: Any,
    ) -> str:
        """Create a pod that is bound to a node already, without the scheduler; return its name."""
        full = f"{name}-{self._world.suffix}"
        template = self._template(labels, tolerations=tolerations, nodeName=node, **spec)
        template["metadata"] |= {
            "name": full,
            "annotations": dict(annotations or {}),
            "finalizers": list(finalizers),
        }
        self._create({"apiVersion": "v1", "kind": "Pod", **template})
        return full

    def daemon_set(self, name: str, *, tolerations: Sequence[Object] = (), **spec: Any) -> str:
        """Create a DaemonSet on all nodes of the test, with ``spec`` for its pods; return its name."""
        full = f"{name}-{self._world.suffix}"
        mine = {"example.com/daemon-set": full}
        template = self._template(mine, tolerations=tolerations, nodeSelector=self._world.selector, **spec)
        self._create(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": full, "labels": self._label},
                "spec": {"selector": {"matchLabels": mine}, "template": template},
            }
        )
        return full

    def all(self) -> dict[str, Object]:
        """Return the pods of the test by name."""
        found = self._world.get("pods", "-n", NAMESPACE, *self._selector)["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def uids(self) -> dict[str, str]:
        """Return the UIDs of the pods that nobody has told to end, by name."""
        return {
            name: pod["metadata"]["uid"]
            for name, pod in self.all().items()
            if "deletionTimestamp" not in pod["metadata"]
        }

    def of(self, daemon_set: str) -> dict[str, Object]:
        """Return the pods of a DaemonSet by the name of their node."""
        return {
            pod["spec"]["nodeName"]: pod
            for pod in self.all().values()
            if pod["metadata"]["labels"].get("example.com/daemon-set") == daemon_set
            and "nodeName" in pod["spec"]
        }

    def wait_running(self, *, count: int) -> None:
        """Return when there are so many pods and all of them run."""

        def running() -> bool:
            phases = [pod["status"].get("phase") for pod in self.all().values()]
            assert phases == ["Running"] * count
            return True

        eventually(running, what=f"{count} pods that run")

    def tell(self, name: str, condition: str, *, status: str) -> None:
        """Set a condition of a pod that is not the kubelet's, such as one that a readiness gate waits for."""
        patch = json.dumps({"status": {"conditions": [{"type": condition, "status": status}]}})
        self._world.kubectl(
            "patch", "pod", name, "-n", NAMESPACE, "--subresource=status", "--type=strategic", "-p", patch
        )

    def tell_waiting(self, name: str, *, reason: str, message: str) -> None:
        """Say in place of its kubelet why the one container of a pod waits."""
        [status] = self.all()[name]["status"]["containerStatuses"]
        told = {**status, "state": {"waiting": {"reason": reason, "message": message}}}
        patch = json.dumps({"status": {"containerStatuses": [told]}})
        self._world.kubectl(
            "patch", "pod", name, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", patch
        )

    def delete(self, *names: str) -> None:
        """Delete pods, and return when they are gone."""
        self._world.kubectl("delete", "pod", "-n", NAMESPACE, *names, "--now", "--timeout=50s")

    def delete_daemon_set(self, name: str) -> None:
        """Delete a DaemonSet and then its pods, and return when all are gone."""
        self._world.kubectl(
            "delete", "daemonset", "-n", NAMESPACE, name, "--cascade=foreground", "--timeout=50s"
        )

    def close(self) -> None:
        """Take everything away, whatever holds it."""
        everything = ("-n", NAMESPACE, *self._selector)
        if self._world.get("daemonsets", *everything)["items"]:
            self._world.kubectl("delete", "daemonset", *everything, "--cascade=foreground", "--timeout=50s")
        patch = json.dumps({"metadata": {"finalizers": None}})
        for name, pod in self.all().items():
            if pod["metadata"].get("finalizers"):
                self._world.kubectl("patch", "pod", name, "-n", NAMESPACE, "--type=merge", "-p", patch)
        if self.all():
            self._world.kubectl("delete", "pod", *everything, "--force", "--grace-period=0", "--timeout=50s")
        assert self.all() == {}, "a pod of this test is left"

    def _template(
        self, labels: Mapping[str, str] | None, *, tolerations: Sequence[Object], **spec: Any
    ) -> Object:
        return {
            "metadata": {"labels": {**self._label, **(labels or {})}},
            "spec": {
                "containers": [{"name": "app", "image": "registry.example.com/team/app:1.2"}],
                "tolerations": list(tolerations),
                **spec,
            },
        }

    def _create(self, manifest: Object) -> None:
        self._world.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(manifest))


@contextmanager
def pods_in(
    world: World, *, environment: Mapping[str, str] | None = None, module: str = "winpool.__main__"
) -> Iterator[Pods]:
    """Hand over the pods of a test, and give it an operator, not started yet, that often looks at them."""
    world.operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.operator.log_file,
        environment={**OFTEN, **(environment or {})},
        module=module,
    )
    pods = Pods(world)
    try:
        yield pods
    finally:
        pods.close()


def passes(world: World, *, since: datetime) -> list[AuditRecord]:
    """Return the lists of all pods that the operator has begun, each by its first page."""
    return [
        each
        for each in world.requests(since=since)
        if (each.verb, each.resource) == ("list", "pods")
        and "limit=" in each.uri
        and "continue=" not in each.uri
    ]


def await_passes(world: World, *, count: int = 2) -> None:
    """Return when the operator has looked at all pods so often from now on, and begun to do so once more.

    Between two looks is a second at least: what it does because of the former it has done then.
    """
    since = world.now()
    eventually(lambda: len(passes(world, since=since)) > count, what=f"{count} more looks at all pods")


def removals(world: World, *, since: datetime, of: Collection[str]) -> list[str]:
    """Return who has asked for the deletion or eviction of one of these pods; the audit log omits nothing."""
    world.testbed.settle_audit()
    return [
        f"{each.user}: {each.verb} {each.uri}"
        for each in world.testbed.audit.writes(since=since, resource="pods")
        if (each.name in of and (each.verb == "delete" or each.subresource == "eviction"))
        or (each.verb == "deletecollection" and each.namespace in (NAMESPACE, ""))
    ]


def tainted(world: World, taint: str) -> set[str]:
    """Return the names of the nodes that carry a taint, given as kubectl writes it."""
    return {name for name, node in world.nodes().items() if taint in taints_of(node)}
