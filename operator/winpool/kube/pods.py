"""Reads Pod objects: from the API server's JSON to the few fields that are needed.

The shapes that are read from the JSON of pods; nothing else of it is read. For nodes, see ``wire``.

Of a pod of 5 to 20 kB a few hundred bytes are needed.

The shapes that are read of pods on nodes that may be upgraded, beside those of ``pod_wire``.

Most pods of a cluster are on other nodes. So these fields are passed over at first, and read where they are
needed: a part of a pod that is *raw* costs as little as one that is not read at all.

What the scheduler counts for a pod, by the rule of ``PodRequests`` (k8s.io/component-helpers/resource).

The spec alone says it: Windows pods do not support resizing in place, which would leave other amounts in the
status. https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/#limitations

Reads what a pod asks of a node, and what a drain would do to it, from the raw parts of ``pod_work_wire``.

Anyone who may create pods decides what these say. So nothing long is kept of them, whatever was read.

Reading Pod objects: from the API server's JSON to the few fields that are needed.

What cannot be read never counts as absent (P4). A pod with a field of the wrong type is *unreadable*: the
others are still read, and its node is named, so that the pods of that node count as unknown. Bytes that are
not JSON of the expected kind are *garbled*: they mean nothing at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from winpool.api.keys import WINDOWS_BUILD_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.api.quantity import bytes_of, milli_of
from winpool.kube.lists import ListReader
from winpool.kube.wire import BROKEN, Bounded, ListOf
from winpool.model.pods import (
    DEFAULT_GRACE_SECONDS,
    MOST_GRACE_SECONDS,
    Pod,
    PodShape,
    PodWork,
    Requests,
    Toleration,
    Unclear,
)
from winpool.support.versions import parse_windows


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds, without cycles, so ``gc`` is off."""


class Owner(_Base):
    """The part of meta/v1 OwnerReference that is read."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class PodAnnotations(_Base):
    """The one annotation that is read: the kubelet sets it on the mirror pods of static pods."""

    mirror: str | None = msgspec.field(default=None, name="kubernetes.io/config.mirror")


class PodMetadata(_Base):
    """The part of meta/v1 ObjectMeta that is read of a pod."""

    namespace: str = ""
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: PodAnnotations | None = None
    owner_references: list[Owner] | None = None
    deletion_timestamp: str | None = None


class TolerationObject(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """core/v1 Toleration. Frozen, so that equal ones can be shared: most pods have the same."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class PodOS(_Base):
    """core/v1 PodOS."""

    name: str = ""


class PodSpec(_Base):
    """The part of core/v1 PodSpec that is read."""

    node_name: str | None = None
    os: PodOS | None = None
    priority_class_name: str | None = None
    tolerations: tuple[TolerationObject, ...] | None = None


class Waiting(_Base):
    """The part of core/v1 ContainerStateWaiting that is read."""

    reason: str | None = None
    message: str | None = None


class ContainerState(_Base):
    """The part of core/v1 ContainerState that is read."""

    waiting: Waiting | None = None


class ContainerStatus(_Base):
    """The part of core/v1 ContainerStatus that is read."""

    state: ContainerState | None = None


class PodCondition(_Base):
    """The part of core/v1 PodCondition that is read."""

    type: str = ""
    status: str = ""


class PodStatus(_Base):
    """The part of core/v1 PodStatus that is read."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class PodObject(_Base):
    """core/v1 Pod."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus | None = None


class BoundSpec(_Base):
    """The part of a spec that says on which node a pod is."""

    node_name: str


class BoundPod(_Base):
    """A pod; only its node is read."""

    spec: BoundSpec


pod_list: Final = msgspec.json.Decoder(ListOf[PodObject])
pod_object: Final = msgspec.json.Decoder(PodObject)
bound_pod: Final = msgspec.json.Decoder(BoundPod)


ABSENT: Final = msgspec.Raw()


class WorkAnnotations(PodAnnotations):
    """The annotations that are read. The second may be any text."""

    windows_build: str | None = msgspec.field(default=None, name=WINDOWS_BUILD_ANNOTATION)


class WorkMetadata(PodMetadata):
    """The part of meta/v1 ObjectMeta that is read of a pod."""

    annotations: WorkAnnotations | None = None


class WorkSpec(PodSpec):
    """The part of core/v1 PodSpec that is read, raw but for what is read of every pod."""

    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT
    volumes: msgspec.Raw = ABSENT
    containers: msgspec.Raw = ABSENT
    init_containers: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    overhead: msgspec.Raw = ABSENT
    resource_claims: msgspec.Raw = ABSENT
    scheduler_name: msgspec.Raw = ABSENT
    termination_grace_period_seconds: msgspec.Raw = ABSENT


class WorkObject(PodObject):
    """core/v1 Pod."""

    metadata: WorkMetadata
    spec: WorkSpec


Amounts = dict[str, str | int]
"""core/v1 ResourceList."""


class Resources(_Base):
    """The part of core/v1 ResourceRequirements that is read."""

    requests: Amounts | None = None


class Port(_Base):
    """The part of core/v1 ContainerPort that is read."""

    host_port: int | None = None


class Container(_Base):
    """The part of core/v1 Container that is read. ``restart_policy`` is that of a sidecar."""

    resources: Resources | None = None
    ports: list[Port] | None = None
    restart_policy: str | None = None


class Expression(_Base):
    """core/v1 NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(_Base):
    """core/v1 NodeSelectorTerm."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(_Base):
    """core/v1 NodeSelector."""

    node_selector_terms: list[Term] | None = None


class NodeAffinity(_Base):
    """The part of core/v1 NodeAffinity that is read: what is only preferred keeps a pod from no node."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(_Base):
    """The part of core/v1 PodAffinity, and of PodAntiAffinity, that is read."""

    required: list[msgspec.Raw] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Base):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(_Base):
    """The part of core/v1 TopologySpreadConstraint that is read."""

    when_unsatisfiable: str = ""


containers: Final = msgspec.json.Decoder(list[Container] | None)
resources: Final = msgspec.json.Decoder(Resources | None)
amounts: Final = msgspec.json.Decoder(Amounts | None)
decode_affinity: Final = msgspec.json.Decoder(Affinity | None)
decode_spreads: Final = msgspec.json.Decoder(list[Spread] | None)
decode_volumes: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | None)
decode_selector: Final = msgspec.json.Decoder(dict[str, str] | None)
claims: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
name: Final = msgspec.json.Decoder(Bounded | None)
number: Final = msgspec.json.Decoder(int | None)

work_list: Final = msgspec.json.Decoder(ListOf[WorkObject])
work_object: Final = msgspec.json.Decoder(WorkObject)


CPU: Final = "cpu"
MEMORY: Final = "memory"
_SIDECAR: Final = "Always"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pod requests. ``has_others``: also a resource that is not CPU or memory.

    ``has_host_ports``: a port of it is one of the node.
    """

    requests: Requests
    has_others: bool = False
    has_host_ports: bool = False


def asked_by(
    containers: Sequence[Container],
    inits: Sequence[Container],
    *,
    whole: Resources | None,
    overhead: Amounts | None,
) -> Asked:
    """Return what a pod with these containers requests. Raises ValueError where an amount is none.

    All containers and sidecars run at once. Before them the init containers run one after the other, each
    beside the sidecars that come before it. Requests of the pod as a whole (KEP-2837) replace that, and the
    overhead of its runtime class is added.
    """
    parts = [(each.resources and each.resources.requests) or {} for each in (*containers, *inits)]
    of_pod, more = (whole and whole.requests) or {}, overhead or {}
    return Asked(
        Requests(
            cpu_milli=_peak(containers, inits, of_pod, CPU) + _amount(more, CPU),
            memory=_peak(containers, inits, of_pod, MEMORY) + _amount(more, MEMORY),
            pods=1,
        ),
        has_others=any(map(_has_others, (*parts, of_pod, more))),
        has_host_ports=any(each.host_port for one in (*containers, *inits) for each in one.ports or ()),
    )


def _peak(containers: Sequence[Container], inits: Sequence[Container], of_pod: Amounts, resource: str) -> int:
    if resource in of_pod:
        return _amount(of_pod, resource)
    beside = first = 0
    for each in inits:
        own = _of(each, resource)
        if each.restart_policy == _SIDECAR:
            beside += own
            first = max(first, beside)
        else:
            first = max(first, beside + own)
    return max(first, beside + sum(_of(each, resource) for each in containers))


def _of(container: Container, resource: str) -> int:
    requests = container.resources and container.resources.requests
    return _amount(requests, resource) if requests else 0


def _amount(amounts: Amounts, resource: str) -> int:
    found = amounts.get(resource)
    if found is None:
        return 0
    return max(0, milli_of(found) if resource == CPU else bytes_of(found))


def _has_others(amounts: Amounts) -> bool:
    return any(bytes_of(amount) > 0 for key, amount in amounts.items() if key not in {CPU, MEMORY})


TEXT_KEPT: Final = 2048
"""Characters of the selector and the tolerations of a pod that are kept. Real ones have some two hundred."""

TOLERATIONS_KEPT: Final = 32
"""As many as are shared between pods (``pods``)."""

_HARMLESS: Final = frozenset(
    {"name", "configMap", "downwardAPI", "emptyDir", "hostPath", "image", "projected", "secret"}
)
"""Volumes that keep a pod from no node (core/v1 Volume). All others may: a disk is in one zone."""

_EMPTY_DIR: Final = "emptyDir"
_SOFT: Final = "ScheduleAnyway"
_IN: Final = "In"
_DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")

Pairs = tuple[tuple[str, str], ...]
"""Labels that a node must have, in order."""

ReadT = TypeVar("ReadT")


def work_of(found: WorkObject, tolerations: tuple[Toleration, ...]) -> PodWork | None:
    """Return what is read of a pod whose tolerations are read already; None where a part cannot be read."""
    try:
        return _work(_Parts.of(found.spec), tolerations, annotation=_annotation(found))
    except (*BROKEN, ValueError):  # wrong types, or an amount that is none
        return None


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a spec, read."""

    asked: Asked
    selector: Mapping[str, str]
    affinity: Affinity
    spreads: Sequence[Spread]
    volumes: Sequence[Mapping[str, msgspec.Raw]]
    has_claims: bool
    scheduler: str
    grace: int | None

    @classmethod
    def of(cls, spec: WorkSpec) -> _Parts:
        """Read the parts. Raises one of BROKEN, or ValueError, where one cannot be read."""
        return cls(
            asked=asked_by(
                _read(containers, spec.containers) or (),
                _read(containers, spec.init_containers) or (),
                whole=_read(resources, spec.resources),
                overhead=_read(amounts, spec.overhead),
            ),
            selector=_read(decode_selector, spec.node_selector) or {},
            affinity=_read(decode_affinity, spec.affinity) or Affinity(),
            spreads=_read(decode_spreads, spec.topology_spread_constraints) or (),
            volumes=_read(decode_volumes, spec.volumes) or (),
            has_claims=bool(_read(claims, spec.resource_claims)),
            scheduler=_read(name, spec.scheduler_name) or "",
            grace=_read(number, spec.termination_grace_period_seconds),
        )


def _read(decoder: msgspec.json.Decoder[ReadT | None], raw: msgspec.Raw) -> ReadT | None:
    return decoder.decode(raw) if raw else None


def _annotation(found: WorkObject) -> str:
    annotations = found.metadata.annotations
    return (annotations.windows_build or "") if annotations else ""


def _work(parts: _Parts, tolerations: tuple[Toleration, ...], *, annotation: str) -> PodWork:
    required = parts.affinity.node_affinity and parts.affinity.node_affinity.required
    terms = required.node_selector_terms or () if required else ()
    pairs = tuple(sorted({*parts.selector.items(), *_labels_of(terms)}))
    is_short = _is_short(pairs, tolerations)
    bound = _build(next((value for key, value in pairs if key == WINDOWS_BUILD_LABEL), ""))
    unclear = _unclear(parts, is_simple=not required or _is_simple(terms)) if is_short else Unclear.SIZE
    return PodWork(
        shape=PodShape(
            requests=parts.asked.requests,
            selector=pairs if is_short else (),
            tolerations=tolerations if is_short else (),
            unclear=unclear,
        ),
        build=bound or _build(annotation),
        is_bound=bool(bound),
        is_local=any(_EMPTY_DIR in each for each in parts.volumes),
        grace_seconds=_grace(parts.grace),
    )


def _unclear(parts: _Parts, *, is_simple: bool) -> str:
    """Return the first reason why it is not known which nodes would take the pod; empty where it is."""
    to_pods = (parts.affinity.pod_affinity, parts.affinity.pod_anti_affinity)
    checks = (
        (Unclear.NODE_AFFINITY, not is_simple),
        (Unclear.POD_AFFINITY, any(each is not None and bool(each.required) for each in to_pods)),
        (Unclear.SPREAD, any(each.when_unsatisfiable != _SOFT for each in parts.spreads)),
        (Unclear.VOLUMES, any(not each.keys() <= _HARMLESS for each in parts.volumes)),
        (Unclear.RESOURCES, parts.asked.has_others),
        (Unclear.CLAIMS, parts.has_claims),
        (Unclear.HOST_PORTS, parts.asked.has_host_ports),
        (Unclear.SCHEDULER, parts.scheduler not in _DEFAULT_SCHEDULERS),
    )
    return next((why for why, is_so in checks if is_so), "")


def _is_simple(terms: Sequence[Term]) -> bool:
    """Whether the required affinity is one term that names labels only, as a nodeSelector does."""
    if len(terms) != 1 or terms[0].match_fields:
        return False
    return all(_is_one_label(each) for each in terms[0].match_expressions or ())


def _is_one_label(each: Expression) -> bool:
    return each.operator == _IN and len(each.values or ()) == 1


def _labels_of(terms: Sequence[Term]) -> Iterator[tuple[str, str]]:
    """Yield the labels that a node must have by the affinity; of several terms any may hold, so none."""
    if len(terms) == 1:
        for each in terms[0].match_expressions or ():
            if _is_one_label(each) and each.values:
                yield each.key, each.values[0]


def _is_short(pairs: Pairs, tolerations: Sequence[Toleration]) -> bool:
    if len(tolerations) > TOLERATIONS_KEPT:
        return False
    return _length(part for pair in pairs for part in pair) + sum(map(_length_of, tolerations)) <= TEXT_KEPT


def _length(texts: Iterable[str]) -> int:
    return sum(map(len, texts))


def _length_of(each: Toleration) -> int:
    return len(each.key) + len(each.operator) + len(each.value) + len(each.effect)


def _build(text: str) -> str:
    """Return the build that a text names, without a revision; empty where it names none."""
    version = parse_windows(text)
    return version.build_text if version is not None else ""


def _grace(seconds: int | None) -> int:
    return DEFAULT_GRACE_SECONDS if seconds is None else min(max(0, seconds), MOST_GRACE_SECONDS)


PROBLEM_LENGTH: Final = 160
"""Characters of a kubelet's message that are kept: enough for the sentence that matters."""

_SETS_KEPT: Final = 256
"""Sets of tolerations that pods share: those of the pods of one workload are the same."""

_LONGEST_SET_KEPT: Final = 32
"""A longer set is made for each pod and not shared, so that no pod can make the operator keep megabytes."""

_REFUSALS: Final = frozenset({"PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"})
"""With these a kubelet fails a pod for its operating system (k8s.io/kubernetes, pkg/kubelet/lifecycle)."""

_NOT_STARTED: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
    }
)
"""Why a container waits whose image may be at fault (pkg/kubelet/images, pkg/kubelet/kuberuntime)."""

_NO_MANIFEST: Final = ("no match for platform in manifest", "no matching manifest for")
"""The messages of containerd and Docker for an image that does not exist for the platform of the node."""

_LONGEST_NAME: Final = 253
"""Characters that the name of a node may have (RFC 1123). A longer text is not the name of a node."""

_CRITICAL: Final = frozenset({"system-node-critical", "system-cluster-critical"})
_FINISHED: Final = frozenset({"Succeeded", "Failed"})

_PENDING: Final = "Pending"

_list: Final = ListReader(pod_list, resource="pods", kind="PodList", api_version="v1")
_work_list: Final = ListReader(work_list, resource="pods", kind="PodList", api_version="v1")


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """A pod that cannot be read. ``node`` is its node, empty where even that cannot be read.

    It is a record and not an exception: an exception would keep the whole page in memory as long as itself.
    """

    node: str
    problem: str

    def __str__(self) -> str:
        return f"a pod on {f'node {self.node}' if self.node else 'an unknown node'}: {self.problem}"


@dataclass(frozen=True, slots=True)
class PodPage:
    """One page of a list. ``unreadable`` are the pods on it that could not be read."""

    pods: tuple[Pod, ...]
    unreadable: tuple[UnreadablePod, ...]
    resource_version: str
    continue_token: str

    @property
    def size(self) -> int:
        """How many pods are on it."""
        return len(self.pods) + len(self.unreadable)


def decode_pod_page(body: bytes | bytearray, *, with_work: Collection[str] = ()) -> PodPage:
    """Read one page of a list of pods; ``with_work`` names the nodes whose pods are read with their work.

    Raises StreamGarbled for anything that is not a list of pods, see ``envelope``.
    """
    has_work = bool(with_work)
    page = _work_list.read(body) if has_work else _list.read(body)
    unreadable: list[UnreadablePod] = []
    pods: list[Pod] = []
    for item in page.items or ():
        found = item if isinstance(item, PodObject) else _decode_object(item, has_work=has_work)
        read = _pod(found, with_work) if isinstance(found, PodObject) else found
        if isinstance(read, Pod):
            pods.append(read)
        else:
            unreadable.append(read)
    version, token = page.metadata.resource_version, page.metadata.continue_
    return PodPage(tuple(pods), tuple(unreadable), version, token)


def _pod(found: PodObject, with_work: Collection[str]) -> Pod | UnreadablePod:
    metadata, spec, status = found.metadata, found.spec, found.status
    if not (metadata.namespace and metadata.name and spec.node_name):
        # Only pods on nodes are requested: one without a node must not count as "on no node of ours".
        return UnreadablePod(spec.node_name or "", "namespace, name or spec.nodeName is missing")
    kind, controller = _controller(metadata)
    annotations = metadata.annotations
    tolerations = _tolerations(spec.tolerations) if spec.tolerations else ()
    work = None
    if spec.node_name in with_work and isinstance(found, WorkObject):
        work = work_of(found, tolerations)
    return Pod(
        namespace=metadata.namespace,
        name=metadata.name,
        node=spec.node_name,
        os=spec.os.name if spec.os else "",
        controller_kind=kind,
        controller=controller,
        labels=metadata.labels or {},
        tolerations=tolerations,
        is_critical=spec.priority_class_name in _CRITICAL,
        is_ready=status is not None and _is_ready(status),
        is_finished=status is not None and status.phase in _FINISHED,
        is_terminating=metadata.deletion_timestamp is not None,
        is_mirror=annotations is not None and annotations.mirror is not None,
        is_pending=status is not None and status.phase == _PENDING,
        platform_problem="" if status is None else _platform_problem(status),
        work=work,
    )


def _controller(metadata: PodMetadata) -> tuple[str, str]:
    for owner in metadata.owner_references or ():
        if owner.controller:
            return (owner.kind, owner.name)
    return ("", "")


def _tolerations(found: tuple[TolerationObject, ...]) -> tuple[Toleration, ...]:
    return _made_once(found) if len(found) <= _LONGEST_SET_KEPT else _make(found)


def _make(found: tuple[TolerationObject, ...]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=each.key or "",
            operator=each.operator or "",
            value=each.value or "",
            effect=each.effect or "",
            seconds=each.toleration_seconds,
        )
        for each in found
    )


_made_once: Final = lru_cache(maxsize=_SETS_KEPT)(_make)


def _is_ready(status: PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _platform_problem(status: PodStatus) -> str:
    """Return why the kubelet reports that a pod is for another platform; empty where it does not."""
    if status.phase in _FINISHED:
        return _told(status.reason, status.message or "") if status.reason in _REFUSALS else ""
    for waiting in _waiting(status):
        if waiting.reason in _NOT_STARTED and waiting.message:
            for sentence in _NO_MANIFEST:
                _, found, rest = waiting.message.partition(sentence)
                if found:
                    # Not the reason, which alternates between trying and backing off.
                    return _told("its image", found + rest)
    return ""


def _waiting(status: PodStatus) -> Iterator[Waiting]:
    for containers in (status.init_container_statuses, status.container_statuses):
        for container in containers or ():
            if container.state and container.state.waiting:
                yield container.state.waiting


def _told(reason: str | None, message: str) -> str:
    """Write a reason and its message, if there is one, in one line."""
    words = " ".join(message[:PROBLEM_LENGTH].split())
    return f"{reason}: {words}" if words else f"{reason}"


def _decode_object(raw: msgspec.Raw, *, has_work: bool) -> PodObject | UnreadablePod:
    try:
        return work_object.decode(raw) if has_work else pod_object.decode(raw)
    except BROKEN as error:
        problem = str(error)
    try:
        node = bound_pod.decode(raw).spec.node_name
    except BROKEN:
        node = ""
    return UnreadablePod(node if len(node) <= _LONGEST_NAME else "", problem)
