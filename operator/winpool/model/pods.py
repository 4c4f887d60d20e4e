"""Keeps what a pod tolerates and asks for, and the workloads that a drain of a node would move.

Pods that are alike share one shape, so that a pool of thousands of nodes costs little. A pod is kept only
until the questions about it are answered: see ``surveyor``.

The API server adds the nodeSelector and the tolerations of its RuntimeClass to a pod when it creates it, and
never again (k8s.io/kubernetes, plugin/pkg/admission/runtimeclass). So a pod that runs has those of the day
when it was created. A drain ends it, and the pod that its controller creates then has those of today.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.support.versions import build_text_of

SHAPES_KEPT: Final = 256
"""Shapes of the pods of one node; more pods than this run on no Windows node (a kubelet permits 110 by
default). The workload of a node with more is incomplete."""

BLOCKS_KEPT: Final = 5
"""Pods of a node that are named as not evictable; all are counted."""

WORKLOAD_EXAMPLES_KEPT: Final = 3


class Requests(msgspec.Struct, frozen=True):
    """What pods request: CPU in thousandths of a core, memory in bytes, and how many pods they are."""

    cpu_milli: int = 0
    memory: int = 0
    pods: int = 0

    def __add__(self, other: Requests) -> Requests:
        """Return both together."""
        return Requests(self.cpu_milli + other.cpu_milli, self.memory + other.memory, self.pods + other.pods)


NOTHING_REQUESTED: Final = Requests()


class PodShape(msgspec.Struct, frozen=True):
    """What the scheduler asks of a node for a pod; pods of one workload share one.

    ``selector`` are the labels of ``spec.nodeSelector``, and of required node affinity where that is one term
    of ``In`` with one value each. ``unclear`` says why it is not known which other nodes would take the
    pod (other affinity, topology spread, a volume, a resource that is not CPU or memory, host ports, a
    scheduler of its own); empty where it is.
    """

    requests: Requests
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    unclear: str = ""


class BlockedBy(StrEnum):
    """Why the API server would not evict a pod now."""

    NONE_ALLOWED = "NoneAllowed"
    """Its PodDisruptionBudget allows no disruption now."""
    SEVERAL_BUDGETS = "SeveralBudgets"
    """Two PodDisruptionBudgets are about it: the API server refuses to evict such a pod."""
    UNREADABLE = "Unreadable"
    """It was not found out, since there are too many budgets in the namespace."""


class Block(msgspec.Struct, frozen=True):
    """A pod that cannot be evicted now. ``pod`` is "namespace/name", ``budgets`` the names of its budgets."""

    pod: str
    why: BlockedBy
    budgets: tuple[str, ...] = ()


class DeclaredBuild(msgspec.Struct, frozen=True):
    """A Windows build that pods of a node declare that they are made for, such as 10.0.17763.

    ``is_bound`` says that they can only be scheduled to nodes of that build (nodeSelector or required
    affinity), not only annotated with it.
    """

    build: str
    is_bound: bool = False


class Workload(msgspec.Struct, frozen=True):
    """What runs on one node, from a list of all pods.

    ``used`` are the requests of all pods there that have not finished, agents included. ``moving`` are the
    pods that a drain moves, by shape: not those of DaemonSets, mirror pods, or finished or terminating ones.
    ``declared`` are the builds that moving pods declare, ``undeclared`` how many declare none. ``blocks`` are
    the first pods that cannot be evicted now, ``blocked`` counts all; ``budgets_known`` is False where the
    list of budgets failed or was forbidden. ``unmanaged`` pods have no controller and ``local`` ones use an
    emptyDir: both are lost by a drain. ``longest_grace`` is the longest grace of a moving pod in seconds.
    ``is_complete`` is False where a pod of the node could not be read, or there are more shapes than kept.
    Shapes and builds are those of the pods that would replace the moving ones, by their RuntimeClasses.
    ``runtime_classes_known`` is False where one of these is not known; ``missing_runtime_classes`` are the
    first that moving pods name and the cluster does not have.
    """

    used: Requests = NOTHING_REQUESTED
    moving: tuple[tuple[PodShape, int], ...] = ()
    declared: tuple[DeclaredBuild, ...] = ()
    undeclared: int = 0
    blocks: tuple[Block, ...] = ()
    blocked: int = 0
    budgets_known: bool = True
    unmanaged: int = 0
    local: int = 0
    longest_grace: int = 0
    is_complete: bool = True
    runtime_classes_known: bool = True
    missing_runtime_classes: tuple[str, ...] = ()

    @property
    def moving_pods(self) -> int:
        """How many pods a drain moves."""
        return sum(number for _, number in self.moving)


NO_WORKLOAD: Final = Workload()


DEFAULT_GRACE_SECONDS: Final = 30
"""What the API server sets where a pod sets none."""

MOST_GRACE_SECONDS: Final = 30 * 86400
"""A longer grace counts as this one: the API server permits three hundred billion years, with which no time
can be computed."""


class Unclear(StrEnum):
    """Why it is not known which other nodes would take a pod, in the order in which it is checked.

    The text is what of the pod it is because of.
    """

    SIZE = "node labels or tolerations that are too long"
    """They are not kept: anyone who may create pods could make the operator keep a megabyte for each."""
    NODE_AFFINITY = "its node affinity"
    POD_AFFINITY = "its affinity to other pods"
    SPREAD = "its topology spread constraints"
    VOLUMES = "its volumes"
    RESOURCES = "its request of a resource that is not CPU or memory"
    CLAIMS = "its resource claims"
    HOST_PORTS = "its host ports"
    SCHEDULER = "its scheduler"


class PodWork(msgspec.Struct, frozen=True):
    """What is read of a pod on a node that may be upgraded.

    ``build`` is the Windows that it declares to be made for, such as 10.0.17763, empty where it declares
    none; ``is_bound``: it can only be scheduled to nodes of that build. ``is_local``: it has an emptyDir.
    ``grace_seconds`` is its grace, at most MOST_GRACE_SECONDS. ``runtime_class`` is the RuntimeClass that it
    names, empty where it names none.
    """

    shape: PodShape
    build: str = ""
    is_bound: bool = False
    is_local: bool = False
    grace_seconds: int = DEFAULT_GRACE_SECONDS
    runtime_class: str = ""


class EvictionFacts(msgspec.Struct, frozen=True):
    """What decides whether a pod is evicted, for the memory of its node or as the node is drained.

    ``created`` is None where the time cannot be read. ``requests`` is the memory that it requests and its
    node has granted, in bytes. ``deletion_cost`` is ``controller.kubernetes.io/pod-deletion-cost``.
    ``is_host_process``: a container of it runs on the host. ``asks_to_stay``: it says that it must not be
    disrupted, or is of a Job that does not restart it: its work would be lost.

    Of a drain alone: ``is_local``: it has an emptyDir, whose data is lost. ``sub_paths`` are the mounts with
    a ``subPath`` of the container that has most. ``ends`` is ``metadata.deletionTimestamp``, the time at
    which its grace is over, None where it is not being deleted. ``finalizers`` are the first few. ``group``
    is the PodGroup of its ``schedulingGroup``, empty where it has none. ``controller_uid`` is the UID of the
    owner that manages it. ``tolerates_cordon``: the scheduler may bind it to a node that is cordoned.
    ``sandboxed`` is since when it has a sandbox with a network, None where it has none. ``resource_version``
    is that of the pod.
    """

    priority: int = 0
    created: datetime | None = None
    grace_seconds: int = DEFAULT_GRACE_SECONDS
    requests: int = 0
    deletion_cost: int = 0
    is_host_process: bool = False
    asks_to_stay: bool = False
    is_local: bool = False
    sub_paths: int = 0
    ends: datetime | None = None
    finalizers: tuple[str, ...] = ()
    group: str = ""
    controller_uid: str = ""
    tolerates_cordon: bool = False
    sandboxed: datetime | None = None
    resource_version: str = ""


FINALIZERS_KEPT: Final = 3
"""Of a pod: enough to name who has to act."""

UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
"""Key of the taint that Kubernetes sets on a node that is cordoned."""

NO_EXECUTE: Final = "NoExecute"
DAEMON_SET: Final = "DaemonSet"
JOB: Final = "Job"
LINUX: Final = "linux"
STATIC: Final = "Node"
"""The kind of the owner of a mirror pod."""

_EXISTS: Final = "Exists"
_EQUAL: Final = ("", "Equal")
"""The empty operator is Equal."""


class Toleration(msgspec.Struct, frozen=True):
    """A toleration as the pod has it. ``seconds`` (tolerationSeconds) is None for "for ever"."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None


class MemoryLimits(msgspec.Struct, frozen=True):
    """The memory limits of a pod: their sum in bytes, and how many containers have none."""

    limit: int = 0
    unlimited: int = 0


class PodTemplate(Protocol):
    """What pods share that a controller makes from one template. It is read where it is asked for."""

    def labels_without_os(self) -> tuple[tuple[str, str], ...] | None:
        """Return the labels that a node must have, where nothing says for which OS the pods are.

        None where anything does, where more than labels decides, or it cannot be read.
        """

    def memory_limits(self) -> MemoryLimits | None:
        """Return the memory limits; None where they cannot be read."""


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod that is bound to a node, as the API server last reported it. A struct, since lists have many.

    ``os`` is ``spec.os.name``, empty where it is not set. ``controller_kind`` and ``controller`` are the
    owner that manages it, empty where there is none. ``is_critical``: of the priority class of node or
    cluster agents. ``is_finished``: Succeeded or Failed. ``is_mirror``: of a static pod, which the
    API server does not manage. ``is_pending``: in the phase Pending.
    ``platform_problem`` is why the kubelet reports that it is for another platform, empty where it does not.
    ``work`` is what matters where its node may be upgraded, ``eviction`` what matters where it may be evicted
    for memory; None where that was not asked for, or cannot be read. ``template`` is None in lists of single
    nodes.
    """

    namespace: str
    name: str
    node: str
    uid: str = ""
    os: str = ""
    controller_kind: str = ""
    controller: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    is_critical: bool = False
    is_ready: bool = False
    is_finished: bool = False
    is_terminating: bool = False
    is_mirror: bool = False
    is_pending: bool = False
    platform_problem: str = ""
    work: PodWork | None = None
    eviction: EvictionFacts | None = None
    template: PodTemplate | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name, as people write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_of_daemon_set(self) -> bool:
        """Whether a DaemonSet manages it: by the kind alone, as kubectl drain does.

        So DaemonSets of other API groups count too, which also run agents on every node.
        """
        return self.controller_kind == DAEMON_SET

    @property
    def is_static(self) -> bool:
        """Whether the kubelet reads it from a file or a URL."""
        return self.is_mirror or self.controller_kind == STATIC

    @property
    def is_evicted_by_drain(self) -> bool:
        """Whether a drain evicts it: no DaemonSet manages it, and a taint can still affect it."""
        return self.heeds_taints and not self.is_of_daemon_set

    @property
    def heeds_taints(self) -> bool:
        """Whether a taint can still affect it: it is not finished, terminating, or a mirror pod."""
        return not (self.is_finished or self.is_terminating or self.is_mirror)


class DaemonSet(msgspec.Struct, frozen=True):
    """A DaemonSet that is made for Windows nodes.

    ``name`` is "namespace/name". Its pods run on nodes with the labels of ``selector``, and have
    ``tolerations``.
    """

    name: str
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether its pods are for a node with ``labels``."""
        return all(labels.get(key) == value for key, value in self.selector)


def tolerates(tolerations: Iterable[Toleration], *, key: str, value: str, effect: str) -> bool:
    """Whether a pod with these tolerations may stay on a node with this taint without a time limit.

    The rules are those of ``Toleration.ToleratesTaint`` (k8s.io/api/core/v1/toleration.go): an empty
    effect matches every effect, an empty key every key, the operator Exists every value. Of several that
    match a NoExecute taint the first decides (``GetMatchingTolerations``, used by the taint eviction
    controller). Where it has tolerationSeconds, the pod is deleted when they are over, so it does not
    tolerate the taint.

    An unknown operator counts as not matching. Lt and Gt (KEP-5471) are unknown here: whether they have an
    effect depends on a feature gate of the cluster, which clients cannot see.
    """
    for each in tolerations:
        if (each.effect and each.effect != effect) or (each.key and each.key != key):
            continue
        is_limited = effect == NO_EXECUTE and each.seconds is not None
        if each.operator == _EXISTS or (each.operator in _EQUAL and each.value == value):
            return not is_limited
        if is_limited and each.operator not in _EQUAL:
            return False  # it may be the one that decides, and then the pod is deleted
    return False


def misplaced_because(pod: Pod) -> str:
    """Return the evidence that ``pod``, which is on a Windows node, cannot run there; empty without evidence.

    A pod that is being deleted is no longer misplaced. A missing field is not evidence (P4).
    """
    if pod.is_terminating:
        return ""
    if pod.os == LINUX:
        return "its spec.os.name is linux"
    return pod.platform_problem


def keep_first(names: list[str], name: str, *, limit: int) -> None:
    """Insert ``name`` in order into ``names``, each once, and keep the first ``limit``."""
    if len(names) == limit and name > names[-1]:
        return
    place = bisect_left(names, name)
    if place == len(names) or names[place] != name:
        names.insert(place, name)
        del names[limit:]


class RuntimeClass(msgspec.Struct, frozen=True):
    """What a RuntimeClass adds to the pods that name it: ``scheduling`` of node.k8s.io/v1."""

    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


RuntimeClasses: TypeAlias = Mapping[str, RuntimeClass | None]
"""All of the cluster, by name. None is one that is too long to be kept: what it adds is not known."""


def replacement_of(work: PodWork, added: RuntimeClass) -> PodWork:
    """Return what the pod that replaces one with ``work`` has, by the class that it names.

    Where both have a label with different values, that of the class counts: a pod that has the other by
    itself would be refused. What the class no longer adds stays, since it looks the same as what the pod has
    by itself.
    """
    shape = work.shape
    labels = [each for each in added.selector if each not in shape.selector]
    tolerations = [each for each in added.tolerations if each not in shape.tolerations]
    if not labels and not tolerations:
        return work  # nearly always: the class is what it was
    changed = dict(labels)
    own = (each for each in shape.selector if each[0] not in changed)
    bound = build_text_of(changed.get(WINDOWS_BUILD_LABEL, ""))
    return replace(
        work,
        shape=replace(
            shape,
            selector=tuple(sorted([*own, *labels])),
            tolerations=(*shape.tolerations, *tolerations),
        ),
        build=bound or work.build,
        is_bound=bool(bound) or work.is_bound,
    )
