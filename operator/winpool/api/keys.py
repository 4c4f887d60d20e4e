"""Every name that winpool puts on, or reads from, an object of the cluster, and the table of those on nodes.

A key is spelled here and nowhere else, so that a search for it ends in one place.

The patch of a node, the short way past nodes that are as they should be, release, strays, orphans, drift, the
reading of nodes and the guard's policy go by the table ``NODE_KEYS``. A new key is one line there, and the
feature that sets it.

- A key *of ours* stands under ``winpool.dev/``. Nobody else writes it, so it needs no record: where no
  feature asks for it, it comes off.
- A key that is *borrowed* has a meaning to others, who may set it as well. What of it is ours, and what stood
  there before, stands in the ownership record.
- A *request* is written by others, who ask us for something. Only a feature that has served it takes it off.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

GROUP: Final = "winpool.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "WindowsNodePool"
PLURAL: Final = "windowsnodepools"
SINGULAR: Final = "windowsnodepool"
SHORT_NAME: Final = "wnp"
CATEGORY: Final = "windowspools"
CRD_NAME: Final = f"{PLURAL}.{GROUP}"

PREFIX: Final = f"{GROUP}/"
POOL_LABEL: Final = f"{GROUP}/pool"
"""Node label: the name of the pool the node belongs to."""
OS_VERSION_LABEL: Final = f"{GROUP}/os-version"
"""Node label: the Windows Server release by its build, named as in the spec; absent where it is unknown."""
OS_REVISION_LABEL: Final = f"{GROUP}/os-revision"
"""Node label: the revision of Windows in decimal; absent where the node does not report one."""
RESERVED_MEMORY_TAINT: Final = f"{GROUP}/reserved-memory-mismatch"
"""Key of the NoSchedule taint on a node whose kubelet does not reserve what the pool declares."""
MEMORY_PRESSURE_TAINT: Final = f"{GROUP}/memory-pressure"
"""Key of the NoSchedule taint on a node that runs out of memory."""
PRESSURE_CONDITION: Final = "WindowsMemoryPressure"
"""Node condition: whether the node runs out of memory, with the numbers. The kubelet has one of its own,
``MemoryPressure``, which knows the commit axis alone and which only the kubelet may write."""
UPGRADE_STATE_LABEL: Final = f"{GROUP}/upgrade-state"
"""Node label: how far the upgrade of the node is."""
APPLIED_ANNOTATION: Final = f"{GROUP}/applied"
"""Node annotation: the ownership record, which labels and taints are ours and what stood there before."""
UPGRADE_ANNOTATION: Final = f"{GROUP}/upgrade"
"""Node annotation: what the upgrade of the node has to remember."""
MEMORY_ANNOTATION: Final = f"{GROUP}/memory"
"""Node annotation: evictions that were intended lately."""
HOLD_ANNOTATION: Final = f"{GROUP}/hold"
"""Node annotation, written by others: leave this node alone."""
UPGRADE_REQUESTED_ANNOTATION: Final = f"{GROUP}/upgrade-requested"
"""Node annotation, written by others: this node wants a reboot or a patch."""
UPGRADE_DONE_ANNOTATION: Final = f"{GROUP}/upgrade-done"
"""Node annotation, written by what upgrades the node: the claim that it names is done. Some upgrades need no
restart that the operator could see."""
UPGRADE_RETRY_ANNOTATION: Final = f"{GROUP}/upgrade-retry"
"""Node annotation, written by people: try the upgrade of this node again, which has failed."""

WINDOWS_BUILD_ANNOTATION: Final = f"{GROUP}/windows-build"
"""Pod annotation, written by others: the Windows that the images of the pod are built for, such as
10.0.20348."""

RELEASE_FINALIZER: Final = f"{GROUP}/release-nodes"
"""Finalizer of a pool that has written to a node: deletion waits until the nodes are released."""
KOPF_FINALIZER: Final = f"{GROUP}/kopf"
"""Never put on anything. Kopf strips the finalizer it is told is its own, so it must not be ours."""

OS_LABEL: Final = "kubernetes.io/os"
OS_WINDOWS: Final = "windows"
WINDOWS_BUILD_LABEL: Final = "node.kubernetes.io/windows-build"
"""Node label of the kubelet: major, minor and build of Windows, without the revision."""

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
"""The effect for which Kubernetes deletes pods that run already, without asking PodDisruptionBudgets.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
HARD_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep a pod from a node; PreferNoSchedule does not."""

STARTUP_TAINT_EFFECTS: Final = (NO_SCHEDULE, "PreferNoSchedule")
TAINT_EFFECTS: Final = (*STARTUP_TAINT_EFFECTS, NO_EXECUTE)

AKS_UPGRADE_STATUS_LABEL: Final = "kubernetes.azure.com/upgrade-status"
"""Node label of Azure Kubernetes Service, which workloads write too."""
WMCO_UPGRADING_LABEL: Final = "windowsmachineconfig.openshift.io/upgrading"
"""Node label of the Windows Machine Config Operator of OpenShift, while it upgrades the node.
https://github.com/openshift/windows-machine-config-operator/blob/master/pkg/metadata/metadata.go"""

NAMESPACE: Final = "winpool-system"
"""The operator's namespace, which has its ServiceAccount, its Lease and the ConfigMap of the fence."""
LEASE: Final = "winpool"
"""The Lease there, whose holder leads. The name is the same for every operator: the second must find it."""
ADDRESS_ANNOTATION: Final = f"{GROUP}/address"
"""On the Lease, for an operator that runs on the machine of who asks it and not in a Pod: where it serves
/memory. Whoever starts such an operator may set it, and the plugin reads it."""
SERVICE_ACCOUNT: Final = "winpool"
OPERATOR_USER: Final = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
"""Who the operator is. Its own token is bound to the node it runs on, like that of every pod."""
SYSTEM_NAMESPACE_PREFIXES: Final = ("kube-", "openshift-")
"""Prefixes of namespaces that are reserved for the system, whose pods are evicted by a drain alone.
https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/
https://docs.openshift.com/container-platform/latest/applications/projects/working-with-projects.html"""

READER_ACCOUNT: Final = "winpool-kubelet-reader"
"""The ServiceAccount whose token kubelets are shown: it may read statistics of nodes, and nothing else."""
MANIFESTS: Final = "install.yaml"
"""A file of a release with all that an installation applies. Only who has none is told to apply it: it resets
the image and the settings that someone has changed."""
MEMORY_MANIFESTS: Final = "install-memory.yaml"
"""The same with that account, and with the rights that only memory pressure needs."""
READER_MANIFEST: Final = "memory-reader.yaml"
"""A file of a release with the ServiceAccount and the role that may read /memory."""
GUARD_MANIFEST: Final = "guard.yaml"
"""A file of a release with the guard alone."""
APPLY_CRD: Final = (
    "Apply the CRD of the operator's version: kubectl apply -f crds.yaml of its release, or helm upgrade"
)
APPLY_GUARD: Final = (
    f"Apply the guard of the operator's version: kubectl apply -f {GUARD_MANIFEST} of its release, or helm "
    "upgrade"
)

FIELD_MANAGER: Final = "winpool"
"""Field manager of every write, so that managedFields and the audit log name winpool."""
REPORTING_CONTROLLER: Final = f"{GROUP}/winpool"


class KeyKind(StrEnum):
    """What of a node a key names."""

    LABEL = "label"
    ANNOTATION = "annotation"
    TAINT = "taint"
    CONDITION = "condition"


class SetBy(StrEnum):
    """Who sets a key."""

    OWNERSHIP = "ownership"
    """No feature: it says whose the node is, and goes on first and comes off last."""
    CONTRACT = "contract"
    MEMORY = "memory"
    UPGRADE = "upgrade"
    OTHERS = "others"


class NodeKey(NamedTuple):
    """One key. ``effect`` is that of a taint; ``is_borrowed`` says that it means something to others too."""

    name: str
    kind: KeyKind
    set_by: SetBy
    effect: str = ""
    is_borrowed: bool = False


_LABEL, _ANNOTATION, _TAINT, _CONDITION = KeyKind

NODE_KEYS: Final = (
    NodeKey(POOL_LABEL, _LABEL, SetBy.OWNERSHIP),
    NodeKey(OS_VERSION_LABEL, _LABEL, SetBy.CONTRACT),
    NodeKey(OS_REVISION_LABEL, _LABEL, SetBy.CONTRACT),
    NodeKey(UPGRADE_STATE_LABEL, _LABEL, SetBy.UPGRADE),
    NodeKey(APPLIED_ANNOTATION, _ANNOTATION, SetBy.OWNERSHIP),
    NodeKey(UPGRADE_ANNOTATION, _ANNOTATION, SetBy.UPGRADE),
    NodeKey(MEMORY_ANNOTATION, _ANNOTATION, SetBy.MEMORY),
    NodeKey(HOLD_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    NodeKey(UPGRADE_REQUESTED_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    NodeKey(UPGRADE_DONE_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    NodeKey(UPGRADE_RETRY_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    # https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
    NodeKey(
        "cluster-autoscaler.kubernetes.io/scale-down-disabled", _ANNOTATION, SetBy.UPGRADE, is_borrowed=True
    ),
    # https://karpenter.sh/docs/concepts/disruption/#node-level-controls
    NodeKey("karpenter.sh/do-not-disrupt", _ANNOTATION, SetBy.UPGRADE, is_borrowed=True),
    NodeKey(RESERVED_MEMORY_TAINT, _TAINT, SetBy.CONTRACT, effect=NO_SCHEDULE),
    NodeKey(MEMORY_PRESSURE_TAINT, _TAINT, SetBy.MEMORY, effect=NO_SCHEDULE),
    NodeKey(PRESSURE_CONDITION, _CONDITION, SetBy.MEMORY),
    # Names of KEP-5683, which others may write too.
    NodeKey("DrainInProgress", _CONDITION, SetBy.UPGRADE, is_borrowed=True),
    NodeKey("Drained", _CONDITION, SetBy.UPGRADE, is_borrowed=True),
    NodeKey("MaintenanceInProgress", _CONDITION, SetBy.UPGRADE, is_borrowed=True),
)


def _names(kind: KeyKind, *, borrowed: bool = False, by_others: bool = False) -> tuple[str, ...]:
    return tuple(
        each.name
        for each in NODE_KEYS
        if each.kind is kind and each.is_borrowed is borrowed and (each.set_by is SetBy.OTHERS) is by_others
    )


OWN_LABELS: Final = _names(KeyKind.LABEL)
"""Every node label that only the operator and people may write."""
OWN_ANNOTATIONS: Final = _names(KeyKind.ANNOTATION)
"""Every node annotation that only the operator and people may write."""
FEATURE_LABELS: Final = tuple(key for key in OWN_LABELS if key != POOL_LABEL)
FEATURE_ANNOTATIONS: Final = tuple(key for key in OWN_ANNOTATIONS if key != APPLIED_ANNOTATION)
"""Those of them that features set."""
REQUEST_ANNOTATIONS: Final = _names(KeyKind.ANNOTATION, by_others=True)
"""Every node annotation by which others ask the operator for something."""
BORROWED_ANNOTATIONS: Final = _names(KeyKind.ANNOTATION, borrowed=True)
"""Every annotation of others that we may set for a time."""
RECORDED_ANNOTATIONS: Final = (*BORROWED_ANNOTATIONS, UPGRADE_REQUESTED_ANNOTATION)
"""Those that the ownership record names where we have set them. The operator requests upgrades, too: only the
record says which requests are its own."""
OWN_TAINTS: Final = tuple((each.name, each.effect) for each in NODE_KEYS if each.kind is KeyKind.TAINT)
"""Every taint of ours, by key and effect."""
CONDITIONS: Final = tuple(each.name for each in NODE_KEYS if each.kind is KeyKind.CONDITION)
"""Every type of a node condition that we may write. It is ours where the record on the node says so."""

MISMATCH_TAINT: Final = (RESERVED_MEMORY_TAINT, NO_SCHEDULE)
"""The taint on a node that does not reserve the memory that the pool declares, without a value."""

PRESSURE_TAINT: Final = (MEMORY_PRESSURE_TAINT, NO_SCHEDULE)
"""The taint on a node that runs out of memory, without a value."""

TOLD_BY_THE_NODE: Final = (OS_VERSION_LABEL, OS_REVISION_LABEL)
"""The labels that tell a node's Windows, as they are read from what the node reports. Where they change it is
mostly the machine that has changed, so that nobody hears of drift."""
