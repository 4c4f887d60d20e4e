"""Every name that winpool puts on, or reads from, an object of the cluster.

A key is spelled here and nowhere else, so that a search for it ends in one place. Which of them stand on
nodes, and who sets them: ``node_keys``.
"""

from __future__ import annotations

from typing import Final

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
