"""Every right of the operator, with its reason: one table for the manifests, for its page and for the tests.

A new right is one row here, reviewed with its reason. There is no wildcard, nothing about Secrets, and no
``get`` of pools, nodes or pods: what the operator knows it learns by list and watch. What of a node or a pool
the operator may change, RBAC cannot say; the fence does (``fence``).

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from winpool.api.admission import API_GROUP, BINDINGS, GUARD_NAME, POLICIES
from winpool.api.events import CLUSTER_EVENTS
from winpool.api.fence import EVICT, SYSTEM_PODS
from winpool.api.keys import CRD_NAME, GROUP, LEASE, NAMESPACE, PLURAL, READER_ACCOUNT, SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True)
class Role:
    """What rows of the table belong to: a Role in ``namespace``, or a ClusterRole where that is empty.

    A binding of the same name gives it to the ServiceAccount ``account`` of the operator's namespace.
    """

    name: str
    namespace: str = ""
    account: str = SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One row: ``verbs`` on ``resources`` of an API group, in the scope of ``role``.

    ``names`` restricts it to objects of these names; where it is empty, it is for all objects. ``reason`` is
    one sentence for who reviews the rights. ``used_by`` has the modules that make such
    requests, below ``operator/winpool``. Those of ``READER`` go to kubelets, which ask the API server.
    """

    role: Role
    group: str
    resources: tuple[str, ...]
    names: tuple[str, ...] = ()
    verbs: tuple[str, ...]
    reason: str
    used_by: tuple[str, ...]


CLUSTER: Final = Role("winpool")
EVENTS: Final = Role("winpool-events", namespace=CLUSTER_EVENTS)
LEADER: Final = Role("winpool-lease", namespace=NAMESPACE)
METRICS: Final = Role("winpool-metrics-auth")
"""For ``--metrics-auth`` only. It comes with what turns that on: an operator that asks for no token does not
need the right to review tokens, with which a thief of its own token could try others."""
MEMORY: Final = Role("winpool-memory")
"""For pools with ``memoryPressure`` only, as are the next two: evicting is the one right that reaches into
workloads, and who uses no such pool should not have to trust the operator with it."""
READER_TOKEN: Final = Role("winpool-kubelet-reader-token", namespace=NAMESPACE)
READER: Final = Role(READER_ACCOUNT, account=READER_ACCOUNT)
"""What the token may do that kubelets are shown, and could use themselves."""

WITH_MEMORY: Final = (MEMORY, READER_TOKEN, READER)
"""What ``deploy/overlays/memory`` brings."""

ROLLOUT: Final = Role("winpool-rollout")
"""For pools whose nodes the operator drains only. It repeats rows of ``MEMORY``, since an installation may
have one without the other."""

FORCE: Final = Role("winpool-force")
"""For pools with ``drain.onTimeout: Force`` only: the one right that no PodDisruptionBudget can refuse."""

INSTALLED: Final = (CLUSTER, EVENTS, LEADER)
"""What every installation has."""

RIGHTS: Final = (
    Right(
        role=CLUSTER,
        group=GROUP,
        resources=(PLURAL,),
        verbs=("list", "watch", "patch"),
        reason="Read all pools, and add and remove their finalizer `winpool.dev/release-nodes`.",
        used_by=("kube/feed.py", "kube/pools.py", "kube/writer.py"),
    ),
    Right(
        role=CLUSTER,
        group=GROUP,
        resources=(f"{PLURAL}/status",),
        verbs=("patch",),
        reason="Write the status of pools.",
        used_by=("kube/writer.py",),
    ),
    Right(
        role=CLUSTER,
        group="apiextensions.k8s.io",
        resources=("customresourcedefinitions",),
        names=(CRD_NAME,),
        verbs=("list", "watch"),
        reason="Notice when the CRD is installed or deleted, and what it lacks; no other CRD is read.",
        used_by=("kube/feed.py", "kube/pools.py"),
    ),
    Right(
        role=CLUSTER,
        group=API_GROUP,
        resources=(POLICIES, BINDINGS),
        names=(GUARD_NAME,),
        verbs=("list", "watch"),
        reason="Know whether the guard of winpool's keys on nodes is in force; no other policy is read.",
        used_by=("kube/control_plane.py",),
    ),
    Right(
        role=CLUSTER,
        group="",
        resources=("pods",),
        verbs=("list",),
        reason=(
            "Find the pods that do not tolerate a taint of a pool or cannot run on their node, the agents of"
            " a joining node that are Ready, and, for pools with `upgrade`, the pods that have to move."
        ),
        used_by=("kube/pods.py",),
    ),
    Right(
        role=CLUSTER,
        group="policy",
        resources=("poddisruptionbudgets",),
        verbs=("list",),
        reason=(
            "Know which pods cannot be evicted now, for pools with `upgrade`, and choose a pod that can, for"
            " pools with the mode Evict."
        ),
        used_by=("kube/budgets.py",),
    ),
    Right(
        role=CLUSTER,
        group="node.k8s.io",
        resources=("runtimeclasses",),
        verbs=("list",),
        reason=(
            "Know on which nodes the pods that replace those of a drained node may run, for pools with"
            " `upgrade`."
        ),
        used_by=("kube/listers.py",),
    ),
    Right(
        role=CLUSTER,
        group="apps",
        resources=("daemonsets",),
        verbs=("list",),
        reason=(
            "Find the DaemonSets for Windows nodes that do not tolerate a taint of a pool, since on a node"
            " with the taint no pod shows it."
        ),
        used_by=("kube/listers.py",),
    ),
    Right(
        role=CLUSTER,
        group="",
        resources=("nodes",),
        verbs=("list", "watch", "patch"),
        reason=(
            "Read Windows nodes, set labels, annotations and taints of them, and remove from any node what"
            " the operator had added; RBAC cannot say which fields, so the fence does."
        ),
        used_by=("kube/nodes.py", "kube/writer.py"),
    ),
    Right(
        role=EVENTS,
        group="events.k8s.io",
        resources=("events",),
        verbs=("create", "patch"),
        reason=(
            "Write events about pools and nodes, and count repetitions; both kinds have no namespace, so"
            " Kubernetes keeps their events in this one."
        ),
        used_by=("kube/events.py",),
    ),
    Right(
        role=LEADER,
        group="coordination.k8s.io",
        resources=("leases",),
        names=(LEASE,),
        verbs=("get", "list", "watch", "patch"),
        reason="Elect the one operator that acts: read, acquire, renew and release this Lease.",
        used_by=("kube/leader_election.py",),
    ),
    Right(
        role=LEADER,
        group="coordination.k8s.io",
        resources=("leases",),
        verbs=("create",),
        reason=(
            "Create that Lease where it is missing; RBAC cannot restrict create to a name, so the operator"
            " may create any Lease in this namespace, but read and change only `winpool`."
        ),
        used_by=("kube/leader_election.py",),
    ),
    Right(
        role=METRICS,
        group="authentication.k8s.io",
        resources=("tokenreviews",),
        verbs=("create",),
        reason="Authenticate who reads the metrics; only with `--metrics-auth=token`.",
        used_by=("kube/tokens.py",),
    ),
    Right(
        role=METRICS,
        group="authorization.k8s.io",
        resources=("subjectaccessreviews",),
        verbs=("create",),
        reason="Authorize who reads the metrics; only with `--metrics-auth=token`.",
        used_by=("kube/tokens.py",),
    ),
    Right(
        role=MEMORY,
        group="",
        resources=("nodes/status",),
        verbs=("patch",),
        reason="Set the condition `WindowsMemoryPressure` of nodes; the fence refuses any other change.",
        used_by=("kube/writer.py",),
    ),
    Right(
        role=MEMORY,
        group="",
        resources=("pods/eviction",),
        verbs=("create",),
        reason=(
            "Evict a pod under memory pressure, which a PodDisruptionBudget can refuse; only for pools with"
            " the mode Evict."
        ),
        used_by=("kube/writer.py",),
    ),
    Right(
        role=MEMORY,
        group="events.k8s.io",
        resources=("events",),
        verbs=("create", "patch"),
        reason=(
            "Write an event about each evicted pod in the pod's namespace; the fence refuses others there."
        ),
        used_by=("kube/events.py",),
    ),
    Right(
        role=READER_TOKEN,
        group="",
        resources=("serviceaccounts/token",),
        names=(READER_ACCOUNT,),
        verbs=("create",),
        reason="Get the token that kubelets are shown in place of the operator's own.",
        used_by=("kube/tokens.py",),
    ),
    Right(
        role=READER,
        group="",
        resources=("nodes/stats",),
        verbs=("get",),
        reason="Read the statistics of nodes and their pods from their kubelets (`/stats/summary`).",
        used_by=("kubelet/client.py",),
    ),
    Right(
        role=READER,
        group="",
        resources=("nodes/configz",),
        verbs=("get",),
        reason="Read whether a kubelet evicts pods itself (`/configz`, from Kubernetes 1.33 on).",
        used_by=("kubelet/client.py",),
    ),
    Right(
        role=ROLLOUT,
        group="",
        resources=("nodes/status",),
        verbs=("patch",),
        reason=(
            "Apply the conditions `DrainInProgress`, `Drained` and `MaintenanceInProgress` of a node in work,"
            " without force, so that those of others stay; the fence refuses any other"
            " change."
        ),
        used_by=("kube/writer.py",),
    ),
    Right(
        role=ROLLOUT,
        group="",
        resources=("pods/eviction",),
        verbs=("create",),
        reason="Drain a node that is to be upgraded: evict its pods, which PodDisruptionBudgets can refuse.",
        used_by=("kube/writer.py",),
    ),
    Right(
        role=ROLLOUT,
        group=GROUP,
        resources=(SYSTEM_PODS,),
        verbs=(EVICT,),
        reason=(
            "Drain also the pods of namespaces that begin with `kube-` or `openshift-`; no API server serves"
            " this resource, the fence asks for the right to it."
        ),
        used_by=("api/fence.py",),
    ),
    Right(
        role=ROLLOUT,
        group="events.k8s.io",
        resources=("events",),
        verbs=("create", "patch"),
        reason=(
            "Write an event about each evicted pod in the pod's namespace; the fence refuses others there."
        ),
        used_by=("kube/events.py",),
    ),
    Right(
        role=ROLLOUT,
        group="policy",
        resources=("poddisruptionbudgets",),
        verbs=("watch",),
        reason=(
            "Evict the pods behind a budget as soon as it permits that, and ask for no more evictions than it"
            " permits; only while a node drains."
        ),
        used_by=("kube/budgets.py",),
    ),
    Right(
        role=ROLLOUT,
        group="storage.k8s.io",
        resources=("volumeattachments",),
        verbs=("list",),
        reason=(
            "Know whether the volumes of a drained node are detached before it is handed over; only while a"
            " node drains."
        ),
        used_by=("kube/listers.py",),
    ),
    Right(
        role=ROLLOUT,
        group="apps",
        resources=("deployments", "replicasets", "statefulsets"),
        verbs=("list",),
        reason=(
            "Know whether the workloads that a drain moved are Ready again before the next node; only while a"
            " rollout settles."
        ),
        used_by=("kube/listers.py",),
    ),
    Right(
        role=ROLLOUT,
        group="",
        resources=("replicationcontrollers",),
        verbs=("list",),
        reason="The same for pods that a ReplicationController owns.",
        used_by=("kube/listers.py",),
    ),
    Right(
        role=ROLLOUT,
        group="batch",
        resources=("jobs",),
        verbs=("list",),
        reason="The same for pods that a Job owns, which may be complete or suspended by then.",
        used_by=("kube/listers.py",),
    ),
    Right(
        role=FORCE,
        group="",
        resources=("pods",),
        verbs=("delete",),
        reason=(
            "Delete the pods that are left on a node when its drain has taken too long, which no"
            " PodDisruptionBudget can refuse; only with `--allow-force`, for pools with `onTimeout: Force`,"
            " and within the limits of the fence."
        ),
        used_by=("kube/writer.py",),
    ),
)
"""All of it. In the order in which the manifest and the page have it."""


def rights_of(role: Role) -> tuple[Right, ...]:
    """Return the rows of a role."""
    return tuple(each for each in RIGHTS if each.role == role)
