"""A pool as the API server sends it, in good order and in trouble, for tests of ``status``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from harness.builders import NOON, a_node
from winpool.api.keys import OS_REVISION_LABEL, OS_VERSION_LABEL, POOL_LABEL
from winpool.model.node import Node

Object = dict[str, Any]

TEAM = {"team": "payments"}
TAINT = "os=windows:NoSchedule"

GOOD: Mapping[str, tuple[str, str]] = {
    "Ready": ("True", "UpToDate"),
    "Accepted": ("True", "Accepted"),
    "Available": ("True", "NodesAvailable"),
    "NodesUpToDate": ("True", "UpToDate"),
    "OSSupported": ("True", "NodesSupported"),
    "UpgradeAllowed": ("True", "NothingDue"),
    "MemoryHealthy": ("True", "NoPressure"),
    "Reconciling": ("False", "Settled"),
    "Stalled": ("False", "NotStalled"),
    "Paused": ("False", "NotPaused"),
    "Deleting": ("False", "NotDeleting"),
}


def written(ago: timedelta) -> str:
    """Return the time that long before noon as the API server writes it."""
    return (NOON - ago).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_condition(
    type_: str, status: str, reason: str, message: str = "", *, ago: timedelta = timedelta(minutes=12)
) -> Object:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message or f"what {reason} says of {type_}",
        "lastTransitionTime": written(ago),
        "observedGeneration": 1,
    }


def an_issue(reason: str, *nodes: str, count: int | None = None, message: str = "", fix: str = "") -> Object:
    return {
        "reason": reason,
        "nodeCount": len(nodes) if count is None else count,
        "nodes": list(nodes[:3]),
        "since": written(timedelta(hours=5)),
        "message": message or f"what is wrong by {reason}",
        "fix": fix or f"what to do about {reason}",
    }


def a_pool(
    *,
    name: str = "win-2022",
    nodes: int = 40,
    conditions: Iterable[Object] = (),
    issues: Iterable[Object] = (),
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Object:
    """Return a pool of 40 nodes in good order; ``conditions`` replace those of the same type."""
    others = {each["type"]: each for each in conditions}
    return {
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": written(timedelta(days=5, hours=3)),
            **(metadata or {}),
        },
        "spec": {
            "nodeSelector": {"matchLabels": {"agentpool": "red"}},
            "mode": "Active",
            "os": {"version": "2022"},
            "labels": TEAM,
            "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
            **(spec or {}),
        },
        "status": {
            "observedGeneration": 1,
            "nodes": nodes,
            "readyNodes": nodes,
            "availableNodes": nodes,
            "upToDateNodes": nodes,
            "misplacedPods": 0,
            "conditions": [others.get(type_) or a_condition(type_, *found) for type_, found in GOOD.items()],
            "issues": (listed := list(issues)),
            "issueCount": len(listed),
            "builds": [
                {
                    "build": "10.0.20348",
                    "osVersion": "2022",
                    "nodes": nodes,
                    "minRevision": 4052,
                    "maxRevision": 4052,
                    "verdict": "Supported",
                    "endOfSupport": "2031-10-14",
                }
            ],
            **(status or {}),
        },
    }


def a_member(
    name: str, *, release: str | None = "2022", revision: int | str | None = 4052, **more: Any
) -> Node:
    """Return a node of that pool that is as it asks, but for what is given as for ``a_node``."""
    os_labels = {} if release is None else {OS_VERSION_LABEL: release}
    if revision is not None:
        os_labels[OS_REVISION_LABEL] = str(revision)
    labels = {POOL_LABEL: "win-2022", **TEAM, **os_labels}
    shows: dict[str, Any] = {"labels": labels, "taints": [TAINT], **more}
    return a_node(name, **shows)


def members(count: int) -> list[Node]:
    return [a_member(f"w{number:02}") for number in range(1, count + 1)]


def five_troubles() -> tuple[Object, list[Node]]:
    """Return a pool of 40 nodes with five kinds of trouble, told in sentences as long as the longest are."""
    held = "a NoExecute taint is held back: pods on the nodes do not tolerate it and would be deleted"
    pool = a_pool(
        conditions=[
            a_condition("Ready", "False", "TooFewAvailable", "36 of 40 nodes are Ready and not cordoned"),
            a_condition("Available", "False", "TooFewAvailable", "36 of 40 nodes are Ready and not cordoned"),
            a_condition("NodesUpToDate", "False", "TaintsHeld", held),
            a_condition("OSSupported", "False", "VersionSkew", "2 nodes run a kubelet that is too old"),
            a_condition("Stalled", "True", "TaintsHeld", held),
        ],
        issues=[
            an_issue(
                "WriteRefused",
                "w01",
                "w02",
                message="The API server does not let the node be changed: admission policy "
                '"nodes-are-frozen" denied the request: nodes are frozen until the audit has ended, ask the '
                "platform team in #platform",
                fix="change what the message names (a policy, a webhook, a limit), or change the spec",
            ),
            an_issue(
                "IntolerantPods",
                *(f"w{number:02}" for number in range(3, 10)),
                message="Pods on the node do not tolerate the taint os=windows:NoExecute, for example "
                "payments/web-5d9c7c5b9d-abcde. The taint is held back, since Kubernetes would delete them.",
                fix="give the pods a toleration without tolerationSeconds, drain the nodes, or set "
                "onIntolerantPods: Delete on that taint",
            ),
            an_issue(
                "ValidationTimedOut",
                "w10",
                message="The node has not passed validation in time: it waits for a Ready pod of the "
                "DaemonSet kube-system/csi-proxy.",
                fix="Make the listed pods Ready. The startup taints are removed when the node passes.",
            ),
            an_issue(
                "VersionSkew",
                "w11",
                "w12",
                message="The kubelet is v1.31.0; the control plane is v1.36.3 and supports kubelets of 1.33 "
                "or later.",
                fix="upgrade the kubelet of the nodes to 1.33 or later, or replace the nodes",
            ),
            an_issue(
                "OSVersionMismatch",
                "w13",
                "w14",
                "w15",
                "w16",
                message="The node runs Windows Server 2019; the spec asks for 2022.",
                fix="replace the nodes by nodes with Windows Server 2022, or change os.version of the spec",
            ),
        ],
        status={"readyNodes": 38, "availableNodes": 36, "upToDateNodes": 26},
    )
    nodes = [
        *(a_member(f"w{number:02}", labels={POOL_LABEL: "win-2022"}) for number in (1, 2)),
        *(a_member(f"w{number:02}", taints=[]) for number in range(3, 10)),
        a_member("w10", ready="False"),
        a_member("w11", unschedulable=True),
        a_member("w12"),
        *(a_member(f"w{number:02}", release="2019") for number in range(13, 17)),
        *(a_member(f"w{number:02}") for number in range(17, 41)),
    ]
    return pool, nodes
