"""Values about the image, and about the Pods of the operator: how many, how large, and where they run."""

from __future__ import annotations

from typing import Any, Final

from release.shapes import (
    LABEL_VALUES,
    NAME,
    NODE_EXPRESSION,
    PREFERRED_NODES,
    RESOURCES,
    TOLERATION,
    bounded,
    choice,
    items,
    passed_on,
    text,
)
from release.value import Value

Object = dict[str, Any]

MOST_REPLICAS: Final = 5
"""Each replica watches all pools and nodes, and one of them writes: more repair nothing sooner."""


def image_values(name: str, *, pull_policy: str) -> tuple[Value, ...]:
    """Return the values about the image, with the name and the pull policy of the manifests as defaults."""
    return (
        Value(
            path="image.repository",
            default=name,
            schema=text(r"^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$"),
            text="Registry and name of the image, without tag and digest.",
        ),
        Value(
            path="image.tag",
            default="",
            schema=text(r"^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$"),
            text="Tag of the image. Empty: the appVersion of the chart.",
        ),
        Value(
            path="image.digest",
            default="",
            schema=text(r"^(sha256:[0-9a-f]{64})?$"),
            text="Digest of the image (sha256:…), which pins one image. The tag then only says "
            "which version it is.",
        ),
        Value(
            path="image.pullPolicy",
            default=pull_policy,
            schema=choice("Always", "IfNotPresent", "Never"),
            text="When nodes pull the image. A tag is never moved, so IfNotPresent is enough.",
        ),
        Value(
            path="image.pullSecrets",
            default=[],
            schema=items(NAME),
            text="Names of Secrets in the namespace winpool-system with credentials for the registry.",
        ),
    )


def pod_values(pod: Object, *, replicas: int, resources: Object) -> tuple[Value, ...]:
    """Return the values about the Pods; ``pod`` is the spec of their template in the manifests."""
    return (
        Value(
            path="replicas",
            default=replicas,
            schema=bounded(1, MOST_REPLICAS),
            text="Replicas of the operator: one leads, the others stand by. With 1 there is no "
            "PodDisruptionBudget, and nothing is repaired while the replica is replaced.",
        ),
        Value(
            path="resources",
            default=resources,
            schema=RESOURCES,
            text="Resources of the operator. The default of memory is four times what 5,000 Windows nodes "
            "and 150,000 pods need. CPU has no limit: a process that is throttled renews its Lease "
            "late.",
        ),
        Value(
            path="priorityClassName",
            default=pod["priorityClassName"],
            schema=text(r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$"),
            text="Priority class of the replicas. Empty: none, and no ResourceQuota.",
        ),
        Value(
            path="resourceQuota.create",
            default=True,
            schema={"type": "boolean"},
            text="Whether to create the ResourceQuota for that priority class. Some clouds admit a system "
            "priority class outside of kube-system only in namespaces with such a quota.",
        ),
        Value(
            path="nodeSelector",
            default={},
            schema=LABEL_VALUES,
            text="Labels that the nodes of the replicas must have.",
        ),
        Value(
            path="tolerations",
            default=[],
            schema=items(TOLERATION),
            text="Taints that the replicas tolerate.",
        ),
        Value(
            path="affinity.nodeExpressions",
            default=[],
            schema=items(NODE_EXPRESSION),
            text="Further requirements for the nodes of the replicas. The replicas always run on Linux nodes "
            "that belong to no pool.",
        ),
        Value(
            path="affinity.preferredNodes",
            default=[],
            schema=items(PREFERRED_NODES),
            text="Nodes to prefer: preferredDuringSchedulingIgnoredDuringExecution of a nodeAffinity.",
        ),
        Value(
            path="affinity.podAffinity",
            default={},
            schema=passed_on(),
            text="podAffinity of the replicas, as in a Pod.",
        ),
        Value(
            path="affinity.podAntiAffinity",
            default={},
            schema=passed_on(),
            text="podAntiAffinity of the replicas, as in a Pod. They are spread over hosts without it.",
        ),
    )
