"""The WindowsNodePool as users write it: its spec, each rule beside the field it guards, and how it is read.

On Windows a reservation of memory only makes a node's Allocatable smaller, so that fewer pods are scheduled
there; nothing holds the memory free. It is a kubelet's setting, and the operator never sets it: it compares
what is declared here with what the nodes report.
https://kubernetes.io/docs/concepts/configuration/windows-resource-management/#resource-reservation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import Field, ValidationError

from winpool.api.fields import (
    ALLOWED_LABEL_KEYS,
    EACH_KEY_SYNTAX,
    NODE_RESTRICTION_DOMAIN,
    NODE_ROLE_DOMAIN,
    POOL_NAME_PATTERN,
    RESERVED_LABEL_DOMAINS,
    RESERVED_TAINT_DOMAINS,
    RESERVED_TAINT_KEYS,
    LabelKey,
    LabelValue,
    Revision,
    WindowsRelease,
    is_key,
    is_label_key_allowed,
    is_pool_name,
    is_taint_key_allowed,
    under,
)
from winpool.api.keys import NO_EXECUTE, STARTUP_TAINT_EFFECTS, TAINT_EFFECTS
from winpool.api.matrix import MAX_ROWS, MatrixRow, RowVerdict
from winpool.api.memory_pressure import MemoryPressure, OnUnattributed
from winpool.api.model import (
    ATOMIC,
    ApiModel,
    InvalidSpecError,
    KeyRule,
    Rule,
    Timestamp,
    Validation,
    cel_list,
    describe,
    list_map,
)
from winpool.api.quantity import Memory, bytes_of, exact
from winpool.api.selector import NodeSelector, NodeValidation
from winpool.api.status import WindowsNodePoolStatus
from winpool.api.upgrade import Trigger, Upgrade


class OnIntolerantPods(StrEnum):
    """What is done with a NoExecute taint where pods run that do not tolerate it."""

    HOLD = "Hold"
    """The taint is not put on that node: nothing is deleted."""
    DELETE = "Delete"
    """It is put there, and Kubernetes deletes those pods without asking any PodDisruptionBudget."""


TaintKey = Annotated[
    LabelKey,
    Rule(
        f"!(self in {cel_list(RESERVED_TAINT_KEYS)}) && !self.matches('{under(RESERVED_TAINT_DOMAINS)}')",
        "must not be a reserved key, such as 'node.kubernetes.io/not-ready', nor be under 'winpool.dev' or "
        "'karpenter.sh'; keys such as 'os' or 'node.kubernetes.io/os' are allowed",
        # What is not a key at all is the other rule's to refuse.
        lambda key: is_taint_key_allowed(key) or not is_key(key),
    ),
]


class _Taint(ApiModel):
    key: TaintKey
    """Key of the taint, such as os. A string, required."""
    value: LabelValue = Field(default_factory=str)
    """Value of the taint, such as windows. A string, empty if absent."""
    effect: str

    @property
    def identity(self) -> tuple[str, str]:
        """Key and effect: what the API server requires to be unique within a pool and within a node."""
        return (self.key, self.effect)


class PoolTaint(_Taint):
    """A taint that every node of the pool has."""

    effect: Annotated[
        str,
        Field(max_length=64),
        Rule(
            f"self in {cel_list(TAINT_EFFECTS)}",
            "must be 'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
            lambda effect: effect in TAINT_EFFECTS,
        ),
    ]
    """What the taint does to pods that do not tolerate it: NoSchedule keeps new pods away, PreferNoSchedule
    tries to, NoExecute also deletes running pods. A string, required."""
    on_intolerant_pods: OnIntolerantPods | None = None
    """What to do with a NoExecute taint if the node runs pods that do not tolerate it. Hold: the operator
    does not add the taint, and reports the pods. Delete: the operator adds the taint, and Kubernetes
    deletes the pods without asking any PodDisruptionBudget. A string, Hold if absent."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "!has(self.onIntolerantPods) || self.onIntolerantPods == 'Hold' || self.effect == 'NoExecute'",
            "must be 'Hold' unless `effect` is 'NoExecute': no other taint deletes pods",
            lambda self: not self.deletes_pods or self.effect == NO_EXECUTE,
            at=".onIntolerantPods",
        ),
    )

    @property
    def deletes_pods(self) -> bool:
        """Whether the admin has chosen that pods are deleted that do not tolerate it."""
        return self.on_intolerant_pods is OnIntolerantPods.DELETE


class StartupTaint(_Taint):
    """A taint that a node of the pool has from when it joins until it passes validation."""

    effect: Annotated[
        str,
        Field(max_length=64),
        Rule(
            f"self in {cel_list(STARTUP_TAINT_EFFECTS)}",
            "must be 'NoSchedule' or 'PreferNoSchedule': a node that joins has no pods to delete",
            lambda effect: effect in STARTUP_TAINT_EFFECTS,
        ),
    ]
    """What the taint does to pods that do not tolerate it: NoSchedule keeps them away, PreferNoSchedule tries
    to. A string, required."""


DEFAULT_SYSTEM_RESERVED: Final = "2Gi"
"""What Kubernetes' page on Windows nodes calls good practice."""

DEFAULT_KUBE_RESERVED: Final = "0"
"""As the kubelet itself. On Windows nobody tells the two apart, so one of them is enough."""

DEFAULT_EVICTION_HARD: Final = "500Mi"
"""The kubelet's own ``memory.available`` on Windows since 1.31 (kubernetes/kubernetes#122922)."""


class OnMismatch(StrEnum):
    """What becomes of a node whose kubelet reserves another amount than the pool declares."""

    REPORT = "Report"
    TAINT = "Taint"


def _is_above_zero(field: str) -> str:
    """Return the CEL for it. What is no quantity at all is the other rule's to refuse."""
    return f"!isQuantity(string(self.{field})) || quantity(string(self.{field})).isGreaterThan(quantity('0'))"


class ReservedMemory(ApiModel):
    """Memory that the kubelets of the pool must reserve, as the pool declares it."""

    system_reserved: Memory = Field(default_factory=lambda: DEFAULT_SYSTEM_RESERVED)
    """The kubelet's `systemReserved.memory`, for Windows and its services. An integer of bytes or a string
    such as 2Gi, 2Gi if absent."""
    kube_reserved: Memory = Field(default_factory=lambda: DEFAULT_KUBE_RESERVED)
    """The kubelet's `kubeReserved.memory`, for the kubelet and the container runtime. An integer of bytes or
    a string such as 512Mi, 0 if absent."""
    eviction_hard: Memory = Field(default_factory=lambda: DEFAULT_EVICTION_HARD)
    """The kubelet's `evictionHard` threshold for `memory.available`, which it also subtracts from
    Allocatable. An integer of bytes or a string such as 500Mi, 500Mi if absent."""
    on_mismatch: OnMismatch = OnMismatch.REPORT
    """What to do if the kubelet of a node reserves another amount. Report: the operator reports an issue.
    Taint: it also adds a taint that keeps new pods away. A string, default Report."""

    rules: ClassVar[tuple[Validation, ...]] = (
        # None of the three is below 0, so their sum is above it where one of them is, and two of them are
        # by default.
        Rule(
            f"!has(self.systemReserved) || {_is_above_zero('systemReserved')} || "
            f"!has(self.evictionHard) || {_is_above_zero('evictionHard')} || "
            f"(has(self.kubeReserved) && ({_is_above_zero('kubeReserved')}))",
            "must have a sum of `systemReserved`, `kubeReserved` and `evictionHard` above 0; to compare "
            "nothing, remove `reservedMemory`",
            lambda self: self.declared_bytes > 0,
        ),
    )

    @property
    def declared_bytes(self) -> int:
        """What a node's Allocatable is to be below its Capacity, in bytes."""
        return sum(bytes_of(each) for each in (self.system_reserved, self.kube_reserved, self.eviction_hard))

    @property
    def for_windows_bytes(self) -> int:
        """What is declared for Windows, its services and the kubelet: without ``evictionHard``, in bytes."""
        return sum(bytes_of(each) for each in (self.system_reserved, self.kube_reserved))

    @property
    def told(self) -> str:
        """The sum and what it is made of, as a sentence has room for it."""
        parts = (
            f"systemReserved {self.system_reserved}",
            f"kubeReserved {self.kube_reserved}",
            f"evictionHard {self.eviction_hard}",
        )
        return f"{exact(self.declared_bytes)} ({' + '.join(parts)})"


class Mode(StrEnum):
    """What the operator does with a pool."""

    ACTIVE = "Active"
    DRY_RUN = "DryRun"
    PAUSED = "Paused"


class OperatingSystem(ApiModel):
    """The operating system that the nodes must run."""

    version: WindowsRelease
    """Windows Server release that the nodes must run, such as "2022", "2025" or "23H2". A node with another
    release is not up to date. A string, so a number needs quotes. Required."""
    target_revision: Revision | None = None
    """The revision of that release that the nodes must have or exceed: the last number of 10.0.20348.4052. A
    node below it is not up to date and needs an upgrade. An integer. If absent, no revision is required."""
    min_revision: Revision | None = None
    """The lowest supported revision of that release. A node below it is unsupported. At most
    `targetRevision`. The highest of this value and the floors of the support matrix applies. An integer.
    If absent, only the support matrix applies."""
    accepted_revisions: Annotated[tuple[Revision, ...], ATOMIC] = Field(default_factory=tuple, max_length=16)
    """Revisions that count as high enough for `targetRevision` and `minRevision`, although they are lower:
    those of hotpatches, which are below the cumulative update of their month. The floors of the support
    matrix still apply. A list of at most 16 integers."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "!has(self.minRevision) || !has(self.targetRevision) || self.minRevision <= self.targetRevision",
            "must be at most `targetRevision`: otherwise a node at that revision would be unsupported",
            lambda self: _is_within(self.min_revision, self.target_revision),
            at=".minRevision",
        ),
    )


def _is_within(floor: int | None, target: int | None) -> bool:
    return floor is None or target is None or floor <= target


def _are_unique(builds: Sequence[str]) -> bool:
    return len(builds) == len(set(builds))


class WindowsNodePoolSpec(ApiModel):
    """What the nodes of the pool must be."""

    node_selector: NodeSelector
    """Which nodes belong to the pool. `kubernetes.io/os: windows` is implied, so the pool never includes
    other nodes. Required, and must name at least one label."""
    mode: Mode = Mode.ACTIVE
    """What the operator does. Active: it keeps the nodes as the spec says. DryRun: it reports in
    `status.plan` what it would do. Paused: it does nothing. In DryRun and Paused the operator writes to no
    node until the pool is deleted, which always releases its nodes. A string, default Active."""
    os: OperatingSystem
    """The operating system that the nodes must run. Required."""
    support_matrix: Annotated[tuple[MatrixRow, ...], list_map("osVersion")] = Field(
        default_factory=tuple, max_length=MAX_ROWS
    )
    """Rows of the support matrix for this pool. A field that is set replaces the built-in one for that
    release. A list of at most 16, one per osVersion."""
    labels: Annotated[
        Mapping[str, LabelValue],
        EACH_KEY_SYNTAX,
        KeyRule(
            f"k in {cel_list(ALLOWED_LABEL_KEYS)} || "
            f"k.startsWith('{NODE_ROLE_DOMAIN}/') || "
            f"k.matches('{under((NODE_RESTRICTION_DOMAIN,))}') || "
            f"!k.matches('{under(RESERVED_LABEL_DOMAINS)}')",
            "is reserved; under 'kubernetes.io' and 'k8s.io' only 'node-role.kubernetes.io/*', "
            "'node-restriction.kubernetes.io/*' and "
            "'node.kubernetes.io/exclude-from-external-load-balancers' "
            "are allowed, under 'winpool.dev' and 'karpenter.sh' none",
            lambda key: is_label_key_allowed(key) or not is_key(key),
        ),
    ] = Field(default_factory=dict, max_length=32)
    """Labels that every node of the pool has. The operator restores them when they are removed or changed,
    and removes them when the node leaves the pool. A map of at most 32 strings."""
    taints: Annotated[tuple[PoolTaint, ...], list_map("key", "effect")] = Field(
        default_factory=tuple, max_length=16
    )
    """Taints that every node of the pool has. The operator restores and removes them like `labels`. A list of
    at most 16, one per key and effect."""
    startup_taints: Annotated[tuple[StartupTaint, ...], list_map("key", "effect")] = Field(
        default_factory=tuple, max_length=16
    )
    """Taints that a node has from when it joins the cluster until it passes `validation` for the first time.
    A node that already has pods, or is ten minutes old, gets none. A list of at most 16, one per key and
    effect."""
    validation: NodeValidation | None = None
    """What a node must show before the operator removes its startup taints. If absent, the defaults of its
    fields apply."""
    reserved_memory: ReservedMemory | None = None
    """The memory that the kubelets must reserve. The operator compares it with Capacity minus Allocatable of
    each node. If absent, the operator compares nothing."""
    memory_pressure: MemoryPressure | None = None
    """How memory pressure on the nodes is detected, and what the operator does about it. If absent, the
    operator reads no memory of nodes."""
    upgrade: Upgrade | None = None
    """Which nodes are due for an upgrade of Windows, and what must be open before one may begin. If absent,
    the operator reports nodes that are due and judges no gates."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "!has(self.labels) || !self.labels.exists(k, "
            "(has(self.nodeSelector.matchLabels) && k in self.nodeSelector.matchLabels) || "
            "(has(self.nodeSelector.matchExpressions) && "
            "self.nodeSelector.matchExpressions.exists(e, e.key == k)))",
            "must not set a label that `nodeSelector` selects by: the node would leave its own pool",
            lambda self: self.labels.keys().isdisjoint(self.node_selector.label_keys),
            at=".labels",
        ),
        Rule(
            "!has(self.supportMatrix) || !has(self.os.targetRevision) || !self.supportMatrix.exists(r, "
            "r.osVersion == self.os.version && has(r.minRevision) && r.minRevision > self.os.targetRevision)",
            "must be at least the `minRevision` that `supportMatrix` has for this release: otherwise a node "
            "at that revision would be unsupported",
            lambda self: (
                self.own_row is None or _is_within(self.own_row.min_revision, self.os.target_revision)
            ),
            at=".os.targetRevision",
        ),
        Rule(
            "!has(self.supportMatrix) || !self.supportMatrix.exists(r, "
            "r.osVersion == self.os.version && has(r.verdict) && r.verdict == 'Deny')",
            "must not be a release that `supportMatrix` denies: all its nodes would be unsupported",
            lambda self: self.own_row is None or self.own_row.verdict is not RowVerdict.DENY,
            at=".os.version",
        ),
        Rule(
            "!has(self.supportMatrix) || self.supportMatrix.all(r, !has(r.build) || "
            "self.supportMatrix.exists_one(o, has(o.build) && o.build == r.build))",
            "must name each `build` only once: nodes of a build are judged as one release",
            lambda self: _are_unique([row.build for row in self.support_matrix if row.build is not None]),
            at=".supportMatrix",
        ),
        Rule(
            "!has(self.startupTaints) || !has(self.taints) || !self.startupTaints.exists(s, "
            "self.taints.exists(t, t.key == s.key && t.effect == s.effect))",
            "must not repeat a key and effect of `taints`: the operator could not remove it",
            lambda self: {each.identity for each in self.taints}.isdisjoint(
                each.identity for each in self.startup_taints
            ),
            at=".startupTaints",
        ),
        Rule(
            "!has(self.memoryPressure) || !has(self.memoryPressure.onUnattributed) || "
            "self.memoryPressure.onUnattributed != 'RequestUpgrade' || (has(self.upgrade) && "
            "(!has(self.upgrade.triggers) || 'Request' in self.upgrade.triggers))",
            "must be Report unless the spec has `upgrade`, with Request among its `triggers`: a request "
            "would have no effect",
            lambda self: (
                self.memory_pressure is None
                or self.memory_pressure.on_unattributed is OnUnattributed.REPORT
                or self.serves_requests
            ),
            at=".memoryPressure.onUnattributed",
        ),
    )

    @property
    def serves_requests(self) -> bool:
        """Whether a node that asks for an upgrade is due for one."""
        return self.upgrade is not None and Trigger.REQUEST in self.upgrade.triggers

    @property
    def own_row(self) -> MatrixRow | None:
        """The row of ``supportMatrix`` about the release that the nodes are to run, if there is one."""
        return next((row for row in self.support_matrix if row.os_version == self.os.version), None)


_M = TypeVar("_M", bound=ApiModel)

_MAX_NAME: Final = 253
"""The API server's own limit for names of objects; ours is the rule beside it."""


class ObjectMeta(ApiModel):
    """The metadata of a pool that the operator goes by."""

    name: str = Field(max_length=_MAX_NAME)
    """Name of the pool: at most 63 lowercase letters, digits and '-', since it becomes the value of the node
    label winpool.dev/pool. A string, required."""
    uid: str = Field(default_factory=str)
    resource_version: str = Field(default_factory=str)
    generation: int = Field(default_factory=int)
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    finalizers: tuple[str, ...] = Field(default_factory=tuple)

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> Self:
        """Read the metadata of ``obj``, also where its spec cannot be read: such a pool must be released too.

        Raises InvalidSpecError where that is impossible, which no object of an API server is.
        """
        return _read(cls, obj.get("metadata", {}), at="metadata")


class WindowsNodePool(ApiModel):
    """A pool of Windows nodes: which nodes belong to it, what they must have, and their state."""

    metadata: ObjectMeta
    spec: WindowsNodePoolSpec
    """What the nodes of the pool must be. Required."""
    status: WindowsNodePoolStatus = WindowsNodePoolStatus()
    """What the operator last saw. Only the operator writes it."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            f"self.metadata.name.matches('{POOL_NAME_PATTERN}')",
            "must be at most 63 lowercase letters, digits and '-', beginning and ending with a letter or "
            "digit, since it becomes the value of a node label",
            lambda self: is_pool_name(self.metadata.name),
            at=".metadata.name",
        ),
    )

    @classmethod
    def from_object(cls, obj: Mapping[str, Any]) -> Self:
        """Read a pool as the API server sends it.

        Raises InvalidSpecError where the spec is one that this operator cannot act on: stored before a rule
        was tightened, or under a CRD that is not ours. A status that cannot be read (of another version, say)
        counts as not yet written: it is ours, and computed anew.
        """
        pool = {"metadata": obj.get("metadata", {}), "spec": obj.get("spec", {})}
        return _read(cls, pool | {"status": read_status(obj)})


def read_status(obj: Mapping[str, Any]) -> WindowsNodePoolStatus:
    """Read the status of ``obj``; one that cannot be read counts as not yet written."""
    return status_and_problem(obj)[0]


def status_and_problem(obj: Mapping[str, Any]) -> tuple[WindowsNodePoolStatus, str]:
    """Read the status of ``obj``; where it cannot be read, return an empty one and say why, for people."""
    try:
        return WindowsNodePoolStatus.model_validate(obj.get("status") or {}), ""
    except ValidationError as error:
        return WindowsNodePoolStatus(), "; ".join(describe(error, at="status"))


def _read(model: type[_M], content: Any, *, at: str = "") -> _M:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InvalidSpecError(describe(error, at=at)) from error
