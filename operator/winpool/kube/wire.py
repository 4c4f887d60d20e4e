"""Declares the shapes that are read from the API server's JSON; nothing else of it is read.

Every field of an object is optional here, whatever the API promises: a missing one has a default, an unknown
one is skipped. An object is unreadable only if a field has the wrong type, or a text is longer than the API
server permits. Any bytes can be read as a meta/v1 Status: an answer that is not one must not hide the
failure.
"""

from __future__ import annotations

from typing import Annotated, Final, Generic, TypeVar

import msgspec

from winpool.api.keys import APPLIED_ANNOTATION, PREFIX, WINDOWS_BUILD_ANNOTATION


def is_older(version: str, than: str) -> bool | None:
    """Return whether ``version`` comes before ``than``; None where the two have no order.

    Equal texts are never older. Integers may have any length: the comparison is by length,
    then by digits, as KEP-5504 defines it.
    """
    if version == than:
        return False
    if not (is_comparable(version) and is_comparable(than)):
        return None
    return (len(version), version) < (len(than), than)


def newer_of(version: str, than: str) -> str:
    """Return the newer of two; ``version`` where they have no order or ``than`` is empty."""
    return than if is_older(version, than) else version


def is_comparable(version: str) -> bool:
    """Whether a resourceVersion is a positive integer as KEP-5504 defines it.

    "0" is not one: in requests it means "any version".
    """
    return version.isascii() and version.isdigit() and version[0] != "0"


BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises on foreign bytes: not JSON, wrong types, not UTF-8, or nested too deep."""

UNKNOWN: Final = "Unknown"

Bounded = Annotated[str, msgspec.Meta(max_length=512)]
"""A text that the API server limits, or writes itself: a name (253 characters), a key with its prefix (317),
a time. A longer one is none of them, and is not kept."""

ItemT = TypeVar("ItemT")


class Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds, without cycles, so ``gc`` is off."""


class NodeAnnotations(Base):
    """The annotations that are read of a node, those of ``api.keys``.

    Any client that may annotate a node can add any number of others.
    """

    applied: str | None = msgspec.field(default=None, name=APPLIED_ANNOTATION)
    upgrade: str | None = msgspec.field(default=None, name=f"{PREFIX}upgrade")
    upgrade_requested: str | None = msgspec.field(default=None, name=f"{PREFIX}upgrade-requested")
    upgrade_done: str | None = msgspec.field(default=None, name=f"{PREFIX}upgrade-done")
    upgrade_retry: str | None = msgspec.field(default=None, name=f"{PREFIX}upgrade-retry")
    hold: str | None = msgspec.field(default=None, name=f"{PREFIX}hold")
    memory: str | None = msgspec.field(default=None, name=f"{PREFIX}memory")
    scale_down_disabled: str | None = msgspec.field(
        default=None, name="cluster-autoscaler.kubernetes.io/scale-down-disabled"
    )
    do_not_disrupt: str | None = msgspec.field(default=None, name="karpenter.sh/do-not-disrupt")


class Identity(Base):
    """The identity of an object, for objects of which nothing else can be read."""

    name: Bounded = ""
    uid: Bounded = ""
    resource_version: Bounded = ""


class Metadata(Identity):
    """The part of meta/v1 ObjectMeta that is read of a node, for events also of ListMeta."""

    labels: dict[str, str] | None = None
    annotations: NodeAnnotations | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class TaintObject(Base):
    """core/v1 Taint."""

    key: Bounded = ""
    effect: Bounded = ""
    value: Bounded | None = None
    time_added: Bounded | None = None


class NodeSpec(Base):
    """The part of core/v1 NodeSpec that is read."""

    taints: list[TaintObject] | None = None
    unschedulable: bool | None = None


class Condition(Base):
    """The part of core/v1 NodeCondition that is read."""

    type: str = ""
    status: str = UNKNOWN
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class NodeInfo(Base):
    """The part of core/v1 NodeSystemInfo that is read."""

    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""
    os_image: str = ""
    boot_id: str = msgspec.field(default="", name="bootID")
    system_uuid: str = msgspec.field(default="", name="systemUUID")


class Resources(Base):
    """The part of a core/v1 ResourceList that is read."""

    memory: str | None = None
    cpu: str | None = None
    pods: str | None = None


class NodeAddress(Base):
    """core/v1 NodeAddress."""

    type: str = ""
    address: str = ""


class DaemonEndpoint(Base):
    """core/v1 DaemonEndpoint, whose field has a capital in JSON. It is an int32 in the API."""

    port: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = msgspec.field(
        default=None, name="Port"
    )


class DaemonEndpoints(Base):
    """core/v1 NodeDaemonEndpoints."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeStatus(Base):
    """The part of core/v1 NodeStatus that is read."""

    capacity: Resources | None = None
    allocatable: Resources | None = None
    conditions: list[Condition] | None = None
    addresses: list[NodeAddress] | None = None
    daemon_endpoints: DaemonEndpoints | None = None
    node_info: NodeInfo | None = None


class NodeObject(Base):
    """core/v1 Node; in an ERROR event a meta/v1 Status, whose ``status`` is a word."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: NodeSpec | None = None
    status: NodeStatus | str | None = None


class NodeEvent(Base):
    """A line of a watch."""

    type: str
    object: NodeObject


class IdentifiedObject(Base):
    """An object of which only the identity is read."""

    metadata: Identity


# core/v1 Pod. What is needed only of pods whose node may be upgraded, or that may be evicted, is raw, which
# costs as little as not to read it.

ABSENT: Final = msgspec.Raw()
Amounts = dict[str, str | int]
"""core/v1 ResourceList."""


class OwnerReference(Base):
    """The part of meta/v1 OwnerReference that is read."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Identity):
    """The part of meta/v1 ObjectMeta that is read of objects other than nodes and pods.

    The API server does not limit the UID of an owner.
    """

    namespace: Bounded = ""
    generation: int = 0
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None


class PodAnnotations(Base):
    """The kubelet sets ``mirror`` on the mirror pods of static pods. The others may be any text."""

    mirror: str | None = msgspec.field(default=None, name="kubernetes.io/config.mirror")
    windows_build: str | None = msgspec.field(default=None, name=WINDOWS_BUILD_ANNOTATION)
    isolation: str | None = msgspec.field(
        default=None, name="experimental.windows.kubernetes.io/isolation-type"
    )
    deletion_cost: str | None = msgspec.field(default=None, name="controller.kubernetes.io/pod-deletion-cost")
    do_not_disrupt: str | None = msgspec.field(default=None, name="karpenter.sh/do-not-disrupt")
    safe_to_evict: str | None = msgspec.field(
        default=None, name="cluster-autoscaler.kubernetes.io/safe-to-evict"
    )


class PodMetadata(Base):
    """The part of the metadata of a pod that is read."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: PodAnnotations | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    resource_version: str = ""
    finalizers: msgspec.Raw = ABSENT


class TolerationObject(msgspec.Struct, gc=False, frozen=True):
    """core/v1 Toleration. Frozen, so that equal ones can be shared: most pods have the same."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    seconds: int | None = msgspec.field(default=None, name="tolerationSeconds")


class PodOS(Base):
    """core/v1 PodOS."""

    name: str = ""


class PodSpec(Base):
    """The part of core/v1 PodSpec that is read."""

    node_name: str | None = None
    os: PodOS | None = None
    priority_class_name: str | None = None
    tolerations: tuple[TolerationObject, ...] | None = None
    priority: int | None = None
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT
    volumes: msgspec.Raw = ABSENT
    containers: msgspec.Raw = ABSENT
    init_containers: msgspec.Raw = ABSENT
    ephemeral_containers: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    overhead: msgspec.Raw = ABSENT
    resource_claims: msgspec.Raw = ABSENT
    scheduler_name: msgspec.Raw = ABSENT
    runtime_class_name: msgspec.Raw = ABSENT
    security_context: msgspec.Raw = ABSENT
    termination_grace_period_seconds: msgspec.Raw = ABSENT
    scheduling_group: msgspec.Raw = ABSENT
    restart_policy: str = ""


class WhyNotRunning(Base):
    """What is read of core/v1 ContainerStateWaiting and ContainerStateTerminated."""

    reason: str | None = None
    message: str | None = None


class ContainerState(Base):
    """The part of core/v1 ContainerState that is read."""

    waiting: WhyNotRunning | None = None
    terminated: WhyNotRunning | None = None


class ContainerStatus(Base):
    """The part of core/v1 ContainerStatus that is read. ``resources`` are those that the node has granted."""

    state: ContainerState | None = None
    last_state: ContainerState | None = None
    name: str = ""
    resources: msgspec.Raw = ABSENT


class PodCondition(Base):
    """The part of core/v1 PodCondition that is read."""

    type: str = ""
    status: str = ""
    last_transition_time: msgspec.Raw = ABSENT


class PodStatus(Base):
    """The part of core/v1 PodStatus that is read."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    resources: msgspec.Raw = ABSENT


class PodObject(Base):
    """core/v1 Pod."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus | None = None


class BoundSpec(Base):
    """The name of the node of a pod."""

    node_name: str


class BoundPod(Base):
    """A pod of which only the node is read."""

    spec: BoundSpec


class ContainerResources(Base):
    """The part of core/v1 ResourceRequirements that is read."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerPort(Base):
    """The part of core/v1 ContainerPort that is read."""

    host_port: int | None = None


class WindowsOptions(Base):
    """The part of core/v1 WindowsSecurityContextOptions that is read."""

    host_process: bool | None = None


class SecurityContext(Base):
    """The part of a security context, of a pod or a container, that is read."""

    windows_options: WindowsOptions | None = None


class Container(Base):
    """``restart_policy`` is that of a sidecar."""

    name: str = ""
    resources: ContainerResources | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    security_context: SecurityContext | None = None


class VolumeMount(Base):
    """The part of core/v1 VolumeMount that is read."""

    sub_path: str | None = None
    sub_path_expr: str | None = None


class MountingContainer(Container):
    """A container with its mounts, which only a drain asks for."""

    volume_mounts: list[VolumeMount] | None = None


class SchedulingGroup(Base):
    """core/v1 PodSchedulingGroup, of Kubernetes 1.36 and later."""

    pod_group_name: str | None = None


class SelectorExpression(Base):
    """core/v1 NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(Base):
    """core/v1 NodeSelectorTerm."""

    match_expressions: list[SelectorExpression] | None = None
    match_fields: list[SelectorExpression] | None = None


class NodeSelector(Base):
    """core/v1 NodeSelector."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(Base):
    """What is only preferred keeps a pod from no node."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(Base):
    """core/v1 PodAffinity and PodAntiAffinity, as far as they are required."""

    required: list[msgspec.Raw] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Base):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Base):
    """The part of core/v1 TopologySpreadConstraint that is read."""

    when_unsatisfiable: str = ""


class ListMetadata(Base):
    """The part of meta/v1 ListMeta that is read."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListOf(Base, Generic[ItemT]):
    """A page of a list. No field is optional: an answer that lacks one of these is not such a list."""

    kind: str
    api_version: str
    metadata: ListMetadata
    items: list[ItemT] | None
    """Null where there are none, but never absent."""


class RawEvent(Base):
    """A line of a watch whose object is read by itself."""

    type: str
    object: msgspec.Raw


class StatusCode(Base):
    """The part of a meta/v1 Status that says which HTTP status an ERROR event of a watch stands for."""

    code: int | None = None


class ServerVersion(Base):
    """The part of version.Info that is read."""

    git_version: str


node_event: Final = msgspec.json.Decoder(NodeEvent)
raw_event: Final = msgspec.json.Decoder(RawEvent)
node_object: Final = msgspec.json.Decoder(NodeObject)
identified_object: Final = msgspec.json.Decoder(IdentifiedObject)
server_version: Final = msgspec.json.Decoder(ServerVersion)
status_code: Final = msgspec.json.Decoder(StatusCode)

DISRUPTION_BUDGET: Final = "DisruptionBudget"
"""The cause of a 429 to an eviction. k8s.io/api: policy/v1 DisruptionBudgetCause."""

_SUCCESS: Final = "Success"


class StatusObject(msgspec.Struct):
    """The part that is read of each. ``details`` is decoded only when it is needed."""

    kind: str = ""
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    details: msgspec.Raw = msgspec.Raw(b"null")


class Cause(msgspec.Struct):
    """The part of StatusCause that is read. Its type is called ``reason`` in JSON."""

    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct):
    causes: list[Cause] | None = None


def status_object(body: bytes | bytearray) -> StatusObject:
    """Read a Status; an empty one where the bytes are not a Status."""
    try:
        told = msgspec.json.decode(body, type=StatusObject)
    except BROKEN:
        return StatusObject()
    return told if told.kind == "Status" else StatusObject()


def is_success(body: bytes | bytearray) -> bool:
    """Whether ``body`` is the Status of a request that was carried out."""
    return status_object(body).status == _SUCCESS


def cause_of(told: StatusObject, reason: str) -> Cause | None:
    """Return the cause of that type, None where there is none that can be read."""
    try:
        details = msgspec.json.decode(told.details, type=_Details | None)
    except BROKEN:
        return None
    causes = (details.causes if details else None) or ()
    return next((cause for cause in causes if cause.reason == reason), None)
