"""Pods on the nodes of a run: bound when they are created, and told to run in one write each.

They are a mixture, layer by layer over all nodes: of four pods on a node one belongs to a DaemonSet and
tolerates everything, one tolerates the taint of the pool, and two tolerate nothing but what the bench says.
Their DaemonSet is being deleted and held by a finalizer. So its controller leaves its pods alone, and the
garbage collector, which would delete the pods of an owner that is not there, finds one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bench.ground import Ground
from bench.many import Requests, for_each
from bench.pool import TAINTS
from testbed.progress import progress
from testbed.winsim.pods.addresses import PodAddresses
from testbed.winsim.pods.objects import Pod
from testbed.winsim.pods.status import running
from testbed.winsim.pods.steps import UNMANAGED_ANNOTATION
from testbed.winsim.wire import STRATEGIC_MERGE

NAMESPACE: Final = "winpool-bench-pods"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
DAEMON_SETS_PATH: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
AGENT: Final = "agent"
KINDS: Final = 4

_POD: Final = msgspec.json.Decoder(Pod)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodSetup:
    """What it took to have them. ``pod_bytes`` is the size of one as JSON, as whoever lists them gets it."""

    pods: int
    seconds: float
    pod_bytes: int


NO_PODS: Final = PodSetup(0, 0.0, 0)


def create_pods(ground: Ground, *, count: int, tolerated: Sequence[Object] = ()) -> PodSetup:
    """Create pods that are bound to the nodes in turn, and report each as a kubelet does that is Ready.

    All of them tolerate the taints that are ``tolerated``: a bench that puts NoExecute needs pods that stay.
    """
    if not count:
        return NO_PODS
    ground.testbed.kubectl("create", "namespace", NAMESPACE)
    ground.testbed.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s")
    agent = ground.api.create(DAEMON_SETS_PATH, daemon_set())["metadata"]["uid"]
    ground.api.delete(f"{DAEMON_SETS_PATH}/{AGENT}")  # its finalizer holds it
    addresses = {node.name: node.address for node in ground.testbed.fleet.status()}
    started = time.monotonic()
    with progress("pods Running", total=count, report=ground.report.say) as advance:
        creation = _Creation(
            addresses=addresses,
            agent_uid=agent,
            tolerated=tolerated,
            advance=lambda done: advance(done, ""),
        )
        for_each(ground, range(count), creation.create)
    seconds = time.monotonic() - started
    return PodSetup(count, seconds, len(ground.api.get(f"{PODS_PATH}/{pod_name(0)}")))


class _Creation:
    """Creates pods and reports them, one after the other for each that works on it."""

    def __init__(
        self,
        *,
        addresses: Mapping[str, str],
        agent_uid: str,
        tolerated: Sequence[Object],
        advance: Callable[[int], None],
    ) -> None:
        self._addresses = addresses
        self._nodes = sorted(addresses)
        self._agent_uid = agent_uid
        self._tolerated = tolerated
        self._advance = advance
        self._pod_addresses = PodAddresses(seed=NAMESPACE)
        self._done = 0

    async def create(self, requests: Requests, number: int) -> None:
        """Create one pod, and report it."""
        layer, place = divmod(number, len(self._nodes))
        node = self._nodes[place]
        body = pod(number, node=node, layer=layer, agent_uid=self._agent_uid, tolerated=self._tolerated)
        report = running(
            _POD.decode(await requests.send("POST", PODS_PATH, body)),
            host_ip=self._addresses[node],
            pod_ip=self._pod_addresses.take(),
            now=datetime.now(UTC),
        )
        path = f"{PODS_PATH}/{pod_name(number)}/status"
        await requests.send("PATCH", path, report, content_type=STRATEGIC_MERGE)
        self._done += 1
        self._advance(self._done)


def pod_name(number: int) -> str:
    """Return the name of a pod; as long as those that a controller makes."""
    return f"bench-{number:08d}-pod"


def pod(number: int, *, node: str, layer: int, agent_uid: str, tolerated: Sequence[Object] = ()) -> Object:
    """Return a pod that is bound to a node.

    Args:
        number: which of all.
        node: its node.
        layer: which of that node; what kind of pod it is goes by it.
        agent_uid: UID of the DaemonSet that every fourth belongs to.
        tolerated: taints that each tolerates, whatever its kind.

    """
    kind = layer % KINDS
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": AGENT,
        "uid": agent_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {"app.kubernetes.io/name": "bench", "app.kubernetes.io/component": f"layer-{layer}"}
    return {
        "metadata": {
            "name": pod_name(number),
            "labels": labels | ({"app": AGENT} if kind == 0 else {}),
            "annotations": {UNMANAGED_ANNOTATION: "true"},
            "ownerReferences": [owner] if kind == 0 else [],
        },
        "spec": {
            "nodeName": node,
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "os": {"name": "windows"},
            "automountServiceAccountToken": False,
            "tolerations": [*tolerations(kind), *(dict(taint) for taint in tolerated)],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/team/bench:1.2.3",
                    "env": [{"name": "LAYER", "value": str(layer)}, {"name": "MODE", "value": "bench"}],
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "64Mi"},
                        "limits": {"memory": "64Mi"},
                    },
                }
            ],
        },
    }


def tolerations(kind: int) -> list[Object]:
    """Return what pods of a kind tolerate; beside it all get what the API server adds for five minutes."""
    if kind == 0:
        return [{"operator": "Exists"}]
    return [dict(taint) for taint in TAINTS] if kind == 1 else []


def daemon_set() -> Object:
    """Return the DaemonSet that pods belong to; it makes none, since there is no node that it selects."""
    labels = {"app": AGENT}
    return {
        "metadata": {"name": AGENT, "finalizers": ["bench.winpool.dev/held"]},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"bench.winpool.dev/nowhere": "true"},
                    "containers": [{"name": "main", "image": "registry.example.com/team/agent:1.2.3"}],
                },
            },
        },
    }
