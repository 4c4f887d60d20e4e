"""The fleet of ``make bench-memory``: kubelets that answer, and what is wrong with some of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.ground import Ground
from bench.many import Requests, for_each
from bench.pool import TAINTS
from testbed.options import Options
from testbed.paths import Layout
from testbed.pki import Pki

Object = dict[str, Any]

INSTALLATION: Final = (Path(__file__).with_name("memory-installation"),)
"""What an operator needs in a cluster whose kubelets it polls."""

HOT_SHARE: Final = 0.05
SLOW_SHARE: Final = 0.05
HUNG_SHARE: Final = 0.01
SEED: Final = 17
"""Which nodes are which is drawn, and the same in every run."""

PAGE_FILE: Final = "8096Mi"
MACHINE: Final = "16776756Ki/2548Mi/none/0Ki"
"""Can commit 23.9 GiB, of which Windows has 1.1 itself. Its kubelet evicts nothing for memory."""
WORKLOAD: Final = {"workload": "steady", "commit": "19Gi", "touchedPercent": 2, "jitterPercent": 1}
"""Of hot nodes: 84 % of what can be committed. Warning begins at 80 %, Soft at 90 %. It varies a little, so
that each sample has other numbers than the last."""
FURTHER_PODS: Final = 14
"""In the answer of each kubelet, which has some 18 kB with them, as that of a real node with 15 pods."""
MODE: Final = "Signal"
"""It decides everything that Observe does, and what to write to nodes. Evict would also read the pods in the
answers of hot nodes, and most of these are nowhere else."""

NAMESPACE: Final = "winpool-bench-memory"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"

MOST_SLOW_SECONDS: Final = 6.0
"""After which a slow node answers: late, which is 5 s for the operator, and within its deadline of 10 s."""
SLOW_PART: Final = 0.6
"""The part of a shorter interval: a poll may take 0.8 of it."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The names of nodes by what they are. Nodes in ``slow`` and ``hung`` are healthy at first."""

    cold: frozenset[str]
    hot: frozenset[str]
    slow: frozenset[str]
    hung: frozenset[str]

    def of(self, name: str) -> str:
        """Return the name of the group of a node."""
        return next((each for each in ("hot", "slow", "hung") if name in getattr(self, each)), "cold")


def grouped(names: Sequence[str]) -> Groups:
    """Draw 5 % of the nodes to be hot, 5 % to be slow, 1 % to hang, at least one of each, no node twice."""
    sizes = [max(1, round(len(names) * share)) for share in (HOT_SHARE, SLOW_SHARE, HUNG_SHARE)]
    drawn = Random(SEED).sample(sorted(names), sum(sizes))
    hot, slow = sizes[0], sizes[0] + sizes[1]
    return Groups(
        cold=frozenset(names) - frozenset(drawn),
        hot=frozenset(drawn[:hot]),
        slow=frozenset(drawn[hot:slow]),
        hung=frozenset(drawn[slow:]),
    )


def fleet_options() -> Options:
    """Return the choices of a testbed whose nodes serve their kubelets' endpoints."""
    return Options(
        kubelet_endpoints=True,
        windows_page_file=PAGE_FILE,
        windows_memory=(MACHINE,),
        further_pods=FURTHER_PODS,
    )


def operator_settings(directory: Path, *, poll_seconds: int, hot_poll_seconds: int) -> dict[str, str]:
    """Return the environment of an operator that can poll the kubelets of a testbed in ``directory``."""
    return {
        "WINPOOL_MEMORY_POLL_SECONDS": str(poll_seconds),
        "WINPOOL_MEMORY_HOT_POLL_SECONDS": str(hot_poll_seconds),
        "WINPOOL_KUBELET_CA_FILE": str(Pki(Layout(directory).pki).kubelet_ca.certificate),
        "WINPOOL_KUBELET_ADDRESS_RANGES": "127.0.0.0/8",
    }


def block() -> Object:
    """Return the patch that has the pool watch memory."""
    page_file = {"type": "Fixed", "maxSize": PAGE_FILE}
    return {"spec": {"memoryPressure": {"mode": MODE, "pageFile": page_file}}}


def heat(ground: Ground, names: Sequence[str]) -> None:
    """Run a pod on each of these nodes that commits so much that the node is at Warning."""
    ground.testbed.kubectl("create", "namespace", NAMESPACE)
    ground.testbed.kubectl("wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=60s")

    async def create(requests: Requests, node: str) -> None:
        await requests.send("POST", PODS_PATH, pod(node))

    for_each(ground, names, create)


def pod(node: str) -> Object:
    """Return a pod that is bound to a node and makes it hot."""
    return {
        "metadata": {"name": f"hot-{node}", "annotations": {"winsim/memory": json.dumps(WORKLOAD)}},
        "spec": {
            "nodeName": node,
            "os": {"name": "windows"},
            "automountServiceAccountToken": False,
            "tolerations": [dict(taint) for taint in TAINTS],
            "containers": [{"name": "main", "image": "registry.example.com/team/bench:1.2.3"}],
        },
    }


def slow_seconds(*, poll_seconds: int) -> float:
    """Return after how many seconds a slow node answers."""
    return min(MOST_SLOW_SECONDS, SLOW_PART * poll_seconds)


def spoil(ground: Ground, groups: Groups, *, poll_seconds: int) -> None:
    """Have the slow nodes be slow and the hung ones hang."""
    fleet = ground.testbed.fleet
    seconds = slow_seconds(poll_seconds=poll_seconds)
    fleet.set_endpoint_fault(sorted(groups.slow), fault="slow", seconds=seconds)
    fleet.set_endpoint_fault(sorted(groups.hung), fault="hang")
