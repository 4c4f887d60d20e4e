"""Lists pods, of the whole cluster or of one node, and reads them: from JSON to ``model.pods.Pod``.

Of a pod of 5 to 20 kB a few hundred bytes are read. What only some lists need is raw at first, which costs as
little as not to read it, and is read on demand: what a pod asks of a node, and what decides on its eviction.

What cannot be read never counts as absent (P4). A pod with a field of the wrong type is *unreadable*: the
others are still read, and its node is named, so that the pods of that node count as unknown. A part of a list
means nothing, and neither does a list with a pod whose node cannot be read: it may be on any node.

Anyone who may create pods decides what their texts say, so nothing long is kept of them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from winpool.api.keys import NO_SCHEDULE, WINDOWS_BUILD_LABEL
from winpool.api.quantity import bytes_of, milli_of
from winpool.api.text import read_moment
from winpool.features.audit.workloads import (
    CONTAINER_WORDS,
    NODE_WORDS,
    PodOS,
    os_of_labels,
    workload_of,
)
from winpool.kube import wire
from winpool.kube.errors import StreamGarbled, Unavailable
from winpool.kube.lists import Kind, Listing, Pager
from winpool.kube.request import Request, Send
from winpool.kube.wire import BROKEN, Bounded
from winpool.model.pods import (
    DEFAULT_GRACE_SECONDS,
    FINALIZERS_KEPT,
    JOB,
    MOST_GRACE_SECONDS,
    UNSCHEDULABLE_TAINT,
    EvictionFacts,
    MemoryLimits,
    Pod,
    PodShape,
    PodWork,
    Requests,
    Toleration,
    Unclear,
    tolerates,
)
from winpool.support.compat import IMAGE_MISMATCH, NO_VARIANT, OTHER_BUILD
from winpool.support.versions import build_text_of

log = logging.getLogger(__name__)

_bound_pod: Final = msgspec.json.Decoder(wire.BoundPod)
_containers: Final = msgspec.json.Decoder(list[wire.Container] | None)
_mounting: Final = msgspec.json.Decoder(list[wire.MountingContainer] | None)
_resources: Final = msgspec.json.Decoder(wire.ContainerResources | None)
_amounts: Final = msgspec.json.Decoder(wire.Amounts | None)
_affinity: Final = msgspec.json.Decoder(wire.Affinity | None)
_spreads: Final = msgspec.json.Decoder(list[wire.SpreadConstraint] | None)
_volumes: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | None)
_selector: Final = msgspec.json.Decoder(dict[str, str] | None)
_claims: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_context: Final = msgspec.json.Decoder(wire.SecurityContext | None)
_name: Final = msgspec.json.Decoder(Bounded | None)
_names: Final = msgspec.json.Decoder(list[str] | None)
_group: Final = msgspec.json.Decoder(wire.SchedulingGroup | None)
_number: Final = msgspec.json.Decoder(int | None)
_text: Final = msgspec.json.Decoder(str | None)

ReadT = TypeVar("ReadT")


def _read(decoder: msgspec.json.Decoder[ReadT | None], raw: msgspec.Raw) -> ReadT | None:
    return decoder.decode(raw) if raw else None


# What pods share that a controller makes from one template.


class PodAsListed(wire.PodObject):
    """A pod of a list, and its template: a ``model.pods.PodTemplate``."""

    def labels_without_os(self) -> tuple[tuple[str, str], ...] | None:
        """Return the labels that a node must have, where nothing says for which OS the pod is.

        By the rules of the audit, which says what is evidence. What a RuntimeClass selects is in the
        nodeSelector of a pod already: the API server adds it.
        """
        try:
            if self._has_os():
                return None
            spec = self.spec
            if not (spec.node_selector or spec.affinity):
                return ()
            affinity = (_read(_affinity, spec.affinity) if spec.affinity else None) or wire.Affinity()
            pairs, has_labels_only = _required_labels(spec, affinity)
        except BROKEN:
            return None
        return pairs if has_labels_only and _is_short(pairs, ()) else None

    def _has_os(self) -> bool:
        """Whether anything says for which OS the pod is. First what costs little to find out."""
        spec, annotations = self.spec, self.metadata.annotations
        if spec.os is not None:
            return True
        if annotations and (annotations.windows_build is not None or annotations.isolation is not None):
            return True
        if spec.node_selector:
            labels = _read(_selector, spec.node_selector)
            if labels and os_of_labels(labels) is not PodOS.UNKNOWN:
                return True
        parts = {
            "securityContext": spec.security_context,
            "containers": spec.containers,
            "initContainers": spec.init_containers,
            "ephemeralContainers": spec.ephemeral_containers,
        }
        if not (
            _has_word(b"".join(parts.values()).lower(), CONTAINER_WORDS)
            or (spec.affinity and _has_word(bytes(spec.affinity), NODE_WORDS))
        ):
            return False
        found = {
            name: msgspec.json.decode(part)
            for name, part in {**parts, "affinity": spec.affinity}.items()
            if part
        }
        workload = workload_of({"kind": "Pod", "spec": found})
        return workload is None or workload.os is not PodOS.UNKNOWN

    def memory_limits(self) -> MemoryLimits | None:
        """Return the memory limits of the containers, init containers included.

        All containers and sidecars run at once, so the sum is that of requests. A limit of 0 is none: the
        kubelet passes it to no runtime (pkg/kubelet/kuberuntime/kuberuntime_container_windows.go).
        """
        try:
            containers = _read(_containers, self.spec.containers) or []
            inits = _read(_containers, self.spec.init_containers) or []
            return MemoryLimits(
                limit=_peak(containers, inits, lambda each: _amount(_limits_of(each), MEMORY)),
                unlimited=sum(_amount(_limits_of(each), MEMORY) == 0 for each in (*containers, *inits)),
            )
        except (*BROKEN, ValueError):
            return None


def _has_word(text: bytes, words: Iterable[bytes]) -> bool:
    return any(word in text for word in words)


_pod: Final = msgspec.json.Decoder(PodAsListed)

_KIND: Final = Kind(PodAsListed, lambda found: found, resource="pods", kind="Pod", api_version="v1")


# A page of a list.

PROBLEM_LENGTH: Final = 160
"""Characters of a kubelet's message that are kept: enough for the sentence that matters."""

_SETS_KEPT: Final = 256
"""Sets of tolerations that pods share: those of the pods of one workload are the same."""

TOLERATIONS_KEPT: Final = 32
"""A longer set is made for each pod and not shared, so that no pod can make the operator keep megabytes."""

LABELS_KEPT: Final = 16 * 1024
"""Bytes of the labels of a pod. Real pods have some hundreds. The API server accepts a megabyte and more, and
lists of 16 nodes are made at once and kept for two minutes."""

OF_LABEL: Final = 128
"""Bytes that key and value of a label take in memory beside their characters."""

LONGEST_LABEL: Final = 253 + 1 + 63 + 63 + OF_LABEL
"""Bytes of one label at most. Only of a pod with more than thirty labels are they counted."""

_REFUSALS: Final = frozenset({"PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"})
"""With these a kubelet fails a pod for its operating system (k8s.io/kubernetes, pkg/kubelet/lifecycle)."""

_NOT_STARTED: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
        "StartError",
        "ContainerCannotRun",
    }
)
"""Why a container waits, or has ended, whose image may be at fault (pkg/kubelet/images,
pkg/kubelet/kuberuntime). The last two are of containers that could not be started: of containerd and of
Docker."""

_OTHER_BUILD: Final = "its image is for another build of Windows"

_LONGEST_KEY: Final = 253 + 1 + 63
"""Characters of a key with its prefix, such as a finalizer. Anyone who may write a pod sets those."""

_LONGEST_NAME: Final = 253
"""Characters that the name of a node may have (RFC 1123). A longer text is not the name of a node."""

_CRITICAL: Final = frozenset({"system-node-critical", "system-cluster-critical"})
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_PENDING: Final = "Pending"


class UnreadablePod(msgspec.Struct, frozen=True):
    """A pod that cannot be read. ``node`` is its node, empty where even that cannot be read.

    It is a record and not an exception: an exception would keep the whole page in memory as long as itself.
    """

    node: str
    problem: str

    def __str__(self) -> str:
        return f"a pod on {f'node {self.node}' if self.node else 'an unknown node'}: {self.problem}"


class PodPage(msgspec.Struct, frozen=True):
    """One page of a list. ``unreadable`` are the pods on it that could not be read."""

    pods: tuple[Pod, ...]
    unreadable: tuple[UnreadablePod, ...]
    resource_version: str
    continue_token: str


def decode_pod_page(
    body: bytes | bytearray,
    *,
    with_work: Collection[str] = (),
    for_eviction: bool = False,
    with_templates: bool = False,
) -> PodPage:
    """Read one page of a list of pods.

    ``with_work`` names the nodes whose pods are read with what an upgrade has to know of them;
    ``for_eviction``: all pods are read with what decides on their eviction. ``with_templates``: each has its
    template, and with it the whole page stays in memory.
    Raises StreamGarbled for anything that is not a list of pods, see ``Kind.read``.
    """
    page = _KIND.read(body)
    unreadable: list[UnreadablePod] = []
    pods: list[Pod] = []
    for item in page.items or ():
        found = item if isinstance(item, PodAsListed) else _decoded(item)
        if isinstance(found, PodAsListed):
            read = _pod_of(found, with_work, for_eviction, found if with_templates else None)
        else:
            read = found
        if isinstance(read, Pod):
            pods.append(read)
        else:
            unreadable.append(read)
    return PodPage(tuple(pods), tuple(unreadable), page.metadata.resource_version, page.metadata.continue_)


def _decoded(raw: msgspec.Raw) -> PodAsListed | UnreadablePod:
    try:
        return _pod.decode(raw)
    except BROKEN as error:
        problem = str(error)
    try:
        node = _bound_pod.decode(raw).spec.node_name
    except BROKEN:
        node = ""
    return UnreadablePod(node if len(node) <= _LONGEST_NAME else "", problem)


def _pod_of(
    found: wire.PodObject, with_work: Collection[str], for_eviction: bool, template: PodAsListed | None
) -> Pod | UnreadablePod:
    metadata, spec, status = found.metadata, found.spec, found.status
    if not (metadata.namespace and metadata.name and spec.node_name):
        # Only pods on nodes are requested: one without a node must not count as "on no node of ours".
        return UnreadablePod(spec.node_name or "", "namespace, name or spec.nodeName is missing")
    labels = metadata.labels or {}
    if len(labels) * LONGEST_LABEL > LABELS_KEPT < _size(labels):
        return UnreadablePod(spec.node_name, f"its labels take more than {LABELS_KEPT} bytes")
    kind, controller = _controller(metadata)
    annotations = metadata.annotations
    # Of an eviction only one question is asked about them, and such pods are kept.
    tolerations = () if for_eviction else _tolerations(spec)
    work = eviction = None
    if spec.node_name in with_work:
        work = _work(found, tolerations)
    if for_eviction:
        try:
            eviction = _eviction_facts(found)
        except BROKEN as error:
            return UnreadablePod(spec.node_name, str(error))
    return Pod(
        namespace=metadata.namespace,
        name=metadata.name,
        node=spec.node_name,
        uid=metadata.uid,
        os=spec.os.name if spec.os else "",
        controller_kind=kind,
        controller=controller,
        labels=labels,
        tolerations=tolerations,
        is_critical=spec.priority_class_name in _CRITICAL,
        is_ready=status is not None and _is_ready(status),
        is_finished=status is not None and status.phase in _FINISHED,
        is_terminating=metadata.deletion_timestamp is not None,
        is_mirror=annotations is not None and annotations.mirror is not None,
        is_pending=status is not None and status.phase == _PENDING,
        platform_problem="" if status is None else _platform_problem(status),
        work=work,
        eviction=eviction,
        template=template,
    )


def _size(labels: dict[str, str]) -> int:
    return OF_LABEL * len(labels) + sum(map(len, (*labels, *labels.values())))


def _controller(metadata: wire.PodMetadata) -> tuple[str, str]:
    for owner in metadata.owner_references or ():
        if owner.controller:
            # The API server limits neither.
            return (owner.kind[:_LONGEST_NAME], owner.name[:_LONGEST_NAME])
    return ("", "")


def _made(found: tuple[wire.TolerationObject, ...]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.key or "", each.operator or "", each.value or "", each.effect or "", each.seconds)
        for each in found
    )


_made_once: Final = lru_cache(maxsize=_SETS_KEPT)(_made)


def _tolerations(spec: wire.PodSpec) -> tuple[Toleration, ...]:
    found = spec.tolerations or ()
    return (_made_once if len(found) <= TOLERATIONS_KEPT else _made)(found)


def _is_ready(status: wire.PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _platform_problem(status: wire.PodStatus) -> str:
    """Return why the kubelet reports that a pod is for another platform; empty where it does not."""
    if status.phase in _FINISHED:
        return _in_one_line(status.reason, status.message or "") if status.reason in _REFUSALS else ""
    for containers in (status.init_container_statuses, status.container_statuses):
        for container in containers or ():
            # A start that failed is tried again, and meanwhile it is the last state.
            for state in (container.state, container.last_state):
                why = state and (state.waiting or state.terminated)
                if why and why.reason in _NOT_STARTED and (problem := _problem_of(why.message or "")):
                    return problem
    return ""


def _problem_of(said: str) -> str:
    found = OTHER_BUILD.search(said)
    if found and not found["releases"]:
        return f"{_OTHER_BUILD} (0xc0370101)" if IMAGE_MISMATCH.search(said) else _OTHER_BUILD
    # Not the reason, which alternates between trying and backing off.
    found = found or NO_VARIANT.search(said)
    return _in_one_line("its image", said[found.start() :]) if found else ""


def _in_one_line(reason: str | None, message: str) -> str:
    words = " ".join(message[:PROBLEM_LENGTH].split())
    return f"{reason}: {words}" if words else f"{reason}"


# What the scheduler counts for a pod, by the rule of ``PodRequests`` (k8s.io/component-helpers/resource). For
# the work of a pod the spec alone says it: Windows pods do not support resizing in place.
# https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/#limitations

CPU: Final = "cpu"
MEMORY: Final = "memory"
_SIDECAR: Final = "Always"


def _peak(
    containers: Iterable[wire.Container],
    inits: Iterable[wire.Container],
    amount_of: Callable[[wire.Container], int],
) -> int:
    """Return what all containers request at most at one time.

    All containers and sidecars run at once. Before them the init containers run one after the other, each
    beside the sidecars that come before it.
    """
    beside = first = 0
    for each in inits:
        own = amount_of(each)
        first = max(first, beside + own)
        if each.restart_policy == _SIDECAR:
            beside += own
    return max(first, beside + sum(map(amount_of, containers)))


def _requests_of(container: wire.Container) -> wire.Amounts:
    return (container.resources and container.resources.requests) or {}


def _limits_of(container: wire.Container) -> wire.Amounts:
    return (container.resources and container.resources.limits) or {}


def _amount(amounts: wire.Amounts, resource: str) -> int:
    """Return an amount of CPU (in thousandths) or of memory. Raises ValueError."""
    found = amounts.get(resource)
    if found is None:
        return 0
    return max(0, milli_of(found) if resource == CPU else bytes_of(found))


def _has_others(amounts: wire.Amounts) -> bool:
    return any(bytes_of(amount) > 0 for key, amount in amounts.items() if key not in {CPU, MEMORY})


# What a pod asks of a node, and what a drain would do to it.

TEXT_KEPT: Final = 2048
"""Characters of the selector and the tolerations of a pod that are kept. Real ones have some two hundred."""

_HARMLESS: Final = frozenset(
    {"name", "configMap", "downwardAPI", "emptyDir", "hostPath", "image", "projected", "secret"}
)
"""Volumes that keep a pod from no node (core/v1 Volume). All others may: a disk is in one zone."""

_EMPTY_DIR: Final = "emptyDir"
_SOFT: Final = "ScheduleAnyway"
_DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")


def _work(found: wire.PodObject, tolerations: tuple[Toleration, ...]) -> PodWork | None:
    """Return what is read of a pod whose tolerations are read already; None where a part cannot be read."""
    spec, annotations = found.spec, found.metadata.annotations
    try:
        volumes = _read(_volumes, spec.volumes) or ()
        affinity = _read(_affinity, spec.affinity) or wire.Affinity()
        pairs, has_labels_only = _required_labels(spec, affinity)
        grace = _read(_number, spec.termination_grace_period_seconds)
        runtime_class = _read(_name, spec.runtime_class_name) or ""
        requests, unclear = _requests(spec)
        checks = {
            Unclear.NODE_AFFINITY: not has_labels_only,
            Unclear.POD_AFFINITY: any(
                each is not None and bool(each.required)
                for each in (affinity.pod_affinity, affinity.pod_anti_affinity)
            ),
            Unclear.SPREAD: any(
                each.when_unsatisfiable != _SOFT
                for each in _read(_spreads, spec.topology_spread_constraints) or ()
            ),
            Unclear.VOLUMES: any(not each.keys() <= _HARMLESS for each in volumes),
            Unclear.CLAIMS: bool(_read(_claims, spec.resource_claims)),
            Unclear.SCHEDULER: (_read(_name, spec.scheduler_name) or "") not in _DEFAULT_SCHEDULERS,
            **unclear,
        }
    except (*BROKEN, ValueError):  # wrong types, or an amount that is none
        return None
    bound = build_text_of(next((value for key, value in pairs if key == WINDOWS_BUILD_LABEL), ""))
    if _is_short(pairs, tolerations):
        why = next((each for each in Unclear if checks.get(each)), "")
        shape = PodShape(requests, pairs, tolerations, why)
    else:
        shape = PodShape(requests, unclear=Unclear.SIZE)
    return PodWork(
        shape=shape,
        build=bound or build_text_of((annotations and annotations.windows_build) or ""),
        is_bound=bool(bound),
        is_local=any(_EMPTY_DIR in each for each in volumes),
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else min(max(0, grace), MOST_GRACE_SECONDS),
        runtime_class=runtime_class,
    )


def _requests(spec: wire.PodSpec) -> tuple[Requests, dict[Unclear, bool]]:
    """Return what the containers request, and what else they need that not every node may have."""
    containers = _read(_containers, spec.containers) or []
    inits = _read(_containers, spec.init_containers) or []
    whole, overhead = _read(_resources, spec.resources), _read(_amounts, spec.overhead) or {}
    of_pod = (whole and whole.requests) or {}
    every = [*containers, *inits]

    def requested(resource: str) -> int:
        # Requests of the pod as a whole (KEP-2837) come first. The overhead of its runtime is added.
        if resource in of_pod:
            own = _amount(of_pod, resource)
        else:
            own = _peak(containers, inits, lambda each: _amount(_requests_of(each), resource))
        return own + _amount(overhead, resource)

    return Requests(requested(CPU), requested(MEMORY), pods=1), {
        Unclear.RESOURCES: any(map(_has_others, (*map(_requests_of, every), of_pod, overhead))),
        Unclear.HOST_PORTS: any(port.host_port for each in every for port in each.ports or ()),
    }


def placement_of(spec: wire.PodSpec) -> tuple[tuple[tuple[str, str], ...], tuple[Toleration, ...]] | None:
    """Return which labels a node must have for a pod with ``spec``, and what the pod tolerates.

    None where its affinity asks for more than labels, and where they are too long to be kept. Raises one of
    BROKEN.
    """
    pairs, has_labels_only = _required_labels(spec, _read(_affinity, spec.affinity) or wire.Affinity())
    tolerations = _made(spec.tolerations or ())
    return (pairs, tolerations) if has_labels_only and _is_short(pairs, tolerations) else None


def _required_labels(spec: wire.PodSpec, affinity: wire.Affinity) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Return the labels that a node must have for a pod, and whether it must have nothing else."""
    required = affinity.node_affinity and affinity.node_affinity.required
    terms = (required.node_selector_terms or ()) if required else ()
    labels = (_read(_selector, spec.node_selector) or {}).items()
    return tuple(sorted({*labels, *_labels_of(terms)})), required is None or _is_simple(terms)


def _is_simple(terms: Sequence[wire.NodeSelectorTerm]) -> bool:
    """Whether the required affinity is one term that names labels only, as a nodeSelector does."""
    if len(terms) != 1 or terms[0].match_fields:
        return False
    return all(_is_one_label(each) for each in terms[0].match_expressions or ())


def _is_one_label(each: wire.SelectorExpression) -> bool:
    return each.operator == "In" and len(each.values or ()) == 1


def _labels_of(terms: Sequence[wire.NodeSelectorTerm]) -> Iterator[tuple[str, str]]:
    """Yield the labels that a node must have by the affinity; of several terms any may hold, so none."""
    if len(terms) == 1:
        for each in terms[0].match_expressions or ():
            if _is_one_label(each) and each.values:
                yield each.key, each.values[0]


def _is_short(selector: Iterable[tuple[str, str]], tolerations: Sequence[Toleration]) -> bool:
    if len(tolerations) > TOLERATIONS_KEPT:
        return False
    length = sum(len(key) + len(value) for key, value in selector)
    for each in tolerations:
        length += len(each.key) + len(each.operator) + len(each.value) + len(each.effect)
    return length <= TEXT_KEPT


# What decides whether a pod is evicted, for the memory of its node or by a drain.

_COST: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)
"""A deletion cost is an int32. The controller of ReplicaSets takes anything else for 0."""


def _eviction_facts(found: wire.PodObject) -> EvictionFacts:
    """Return what decides on the eviction of a pod. Raises one of BROKEN where a part cannot be read."""
    metadata, spec = found.metadata, found.spec
    containers = _read(_mounting, spec.containers) or []
    inits = _read(_mounting, spec.init_containers) or []
    others = _read(_containers, spec.ephemeral_containers) or []
    contexts = [each.security_context for each in (*containers, *inits, *others)]
    grace = _read(_number, spec.termination_grace_period_seconds)
    said = metadata.annotations or wire.PodAnnotations()
    cost = said.deletion_cost or ""
    group = _read(_group, spec.scheduling_group)
    owner = next((each.uid for each in metadata.owner_references or () if each.controller), "")
    return EvictionFacts(
        priority=spec.priority or 0,
        created=read_moment(metadata.creation_timestamp),
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else max(0, grace),
        requests=_granted_memory(found, containers, inits),
        deletion_cost=int(cost) if _COST.fullmatch(cost) else 0,
        is_host_process=any(
            each is not None and each.windows_options is not None and bool(each.windows_options.host_process)
            for each in (_read(_context, spec.security_context), *contexts)
        ),
        asks_to_stay=said.do_not_disrupt == "true"
        or said.safe_to_evict == "false"
        or (_controller(metadata)[0] == JOB and spec.restart_policy == "Never"),
        is_local=any(_EMPTY_DIR in each for each in _read(_volumes, spec.volumes) or ()),
        sub_paths=max(map(_sub_paths, (*containers, *inits)), default=0),
        ends=read_moment(metadata.deletion_timestamp),
        finalizers=tuple(
            [each[:_LONGEST_KEY] for each in (_read(_names, metadata.finalizers) or ())[:FINALIZERS_KEPT]]
        ),
        group=((group and group.pod_group_name) or "")[:_LONGEST_NAME],
        controller_uid=owner[:_LONGEST_NAME],
        sandboxed=_sandboxed(found.status),
        resource_version=metadata.resource_version[:_LONGEST_NAME],
        tolerates_cordon=tolerates(_tolerations(spec), key=UNSCHEDULABLE_TAINT, value="", effect=NO_SCHEDULE),
    )


def _sandboxed(status: wire.PodStatus | None) -> datetime | None:
    """Return since when a pod has a sandbox with a network; None where it has none, or does not say.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-has-network
    """
    for condition in (status and status.conditions) or ():
        if condition.type == "PodReadyToStartContainers" and condition.status == "True":
            return read_moment(_read(_text, condition.last_transition_time))
    return None


def _sub_paths(container: wire.MountingContainer) -> int:
    return sum(bool(each.sub_path or each.sub_path_expr) for each in container.volume_mounts or ())


def _granted_memory(
    found: wire.PodObject, containers: Iterable[wire.Container], inits: Iterable[wire.Container]
) -> int:
    """Return the memory that the pod requests and its node has granted, as the scheduler counts it.

    The spec of a running pod has what its author wishes now (KEP-1287): who writes a large number there, and
    gets it not, would not be evicted. Kubelets before 1.33 report nothing, and then the wish counts.
    """
    status = found.status or wire.PodStatus()
    whole = _memory(_read(_resources, found.spec.resources))
    if whole is not None:
        return _smaller(whole, _memory(_read(_resources, status.resources)))
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    granted = {each.name: _memory(_read(_resources, each.resources)) for each in statuses}
    return _peak(containers, inits, lambda each: _smaller(_memory(each.resources), granted.get(each.name)))


def _smaller(wished: int | None, granted: int | None) -> int:
    return (wished or 0) if granted is None else min(wished or 0, granted)


def _memory(resources: wire.ContainerResources | None) -> int | None:
    """Return the memory that is requested; None where none is, or it is no amount."""
    found = (resources and resources.requests) or {}
    try:
        return _amount(found, MEMORY) if MEMORY in found else None
    except ValueError:
        return None


# Lists.

PODS_PATH: Final = "/api/v1/pods"

BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded"
"""Pods that are on a node and have not succeeded. Failed ones are needed: a kubelet that refuses a pod for
its operating system sets it to Failed."""

POD_PAGE_BYTES: Final = 16 * 1024 * 1024
"""In memory at once. Real pods have 5 to 20 kB, so a page of 500 fits; where it does not, the next list asks
for smaller pages."""

PODS_A_TURN: Final = 32
"""Pods after which other tasks run. A pod is compared with the budgets of its namespace, which takes 2 ms
where there are as many as are compared (``model.budgets``)."""

ANSWER_BYTES: Final = 8 * 1024 * 1024
"""A kubelet runs 110 pods by default, of 5 to 20 kB each. Eight answers are in memory at once."""

ANSWER_SECONDS: Final = 10.0
"""For the whole answer, including retries of the transport: a later one is too old to decide a write on."""


class ListedPods(msgspec.Struct, frozen=True):
    """A complete list: how many pods.

    ``unreadable_nodes`` are the nodes with a pod that could not be read, and was not passed on.
    """

    count: int
    unreadable_nodes: frozenset[str] = frozenset()


class PodLister:
    """Lists the pods of all nodes, or of one. After a page that was too large it asks for smaller ones."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._with_work: Collection[str] = ()
        listing = Listing(
            resource="pods",
            collection=PODS_PATH,
            selectors={"fieldSelector": BOUND},
            decode=self._decode,
            page_bytes=POD_PAGE_BYTES,
        )
        self._pager = Pager(send, listing)

    def _decode(self, body: bytes | bytearray) -> PodPage:
        return decode_pod_page(body, with_work=self._with_work, with_templates=True)

    async def list_all(self, *, see: Callable[[Pod], None], with_work: Collection[str] = ()) -> ListedPods:
        """Call ``see`` with every pod that is on a node, once each, all as of one moment; keep none.

        ``with_work`` names the nodes whose pods are read with their work. One list at a time.
        Raises ApiErrors, at any page: the pods until then do not count. Gone is among them: the list took
        longer than the API server keeps its version, and the rest would be as of another moment. After
        TooLarge a new list, of smaller pages, may succeed.
        """
        self._with_work = with_work
        count = 0
        unreadable: dict[str, UnreadablePod] = {}

        def take(page: PodPage) -> Iterator[None]:
            nonlocal count
            for number, pod in enumerate(page.pods, start=1):
                see(pod)
                if number % PODS_A_TURN == 0:
                    yield
            for lost in page.unreadable:
                if not lost.node:
                    raise StreamGarbled(f"list pods: {lost}")
                unreadable.setdefault(lost.node, lost)
            count += len(page.pods) + len(page.unreadable)

        await self._pager.show(take)
        if unreadable:
            example = next(iter(unreadable.values()))
            log.warning("list pods: %s; the pods of %d nodes count as unknown", example, len(unreadable))
        return ListedPods(count, frozenset(unreadable))

    async def list_node(self, node: str, *, for_eviction: bool = False) -> PodPage:
        """Return the pods on ``node`` from one answer. Raises ApiErrors, TooLarge among them.

        ``for_eviction``: each with its EvictionFacts, and without those that failed: where a kubelet has
        evicted pods itself, it leaves thousands of them. Then StreamGarbled is raised where one cannot be
        read: it could be the one that is looked for (P4). Otherwise such pods are ``unreadable``, and logged.
        """
        asked = node_request(node, with_failed=not for_eviction)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._send(asked)
        except TimeoutError:
            said = f"{asked.label}: no answer within {ANSWER_SECONDS:g} s"
            raise Unavailable(said, reason="Timeout") from None
        page = decode_pod_page(answer, for_eviction=for_eviction)
        if page.continue_token:
            raise StreamGarbled(f"{asked.label}: half a list, though all of it was asked for")
        if for_eviction and (page.unreadable or any(pod.node != node or not pod.uid for pod in page.pods)):
            raise StreamGarbled(f"{asked.label}: a pod that cannot be read, or of another node")
        if page.unreadable:
            log.warning("%s: %s; the pods of the node count as unknown", asked.label, page.unreadable[0])
        return page


def node_request(node: str, *, with_failed: bool = True) -> Request:
    """Return the request for the pods on ``node`` that have not succeeded; failed ones may be left out.

    It has no ``limit`` and no ``resourceVersion``: the API server answers it from its watch cache, which has
    an index of ``spec.nodeName``, once the cache has caught up with etcd (KEP-2340, on by default from 1.31).
    Such an answer is as fresh as a read of etcd, and reads no other pod. With a limit, servers before 1.34
    read all pods from etcd. With ``resourceVersion=0`` the answer may be of any age, while evidence has to be
    younger than what it permits.
    https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
    """
    phases = ["Succeeded"] if with_failed else ["Succeeded", "Failed"]
    selected = [f"spec.nodeName={node}", *(f"status.phase!={each}" for each in phases)]
    path = f"{PODS_PATH}?{urlencode({'fieldSelector': ','.join(selected)}, quote_via=quote)}"
    return Request(verb="list", resource="pods", path=path, name=f"of node {node}", reply_limit=ANSWER_BYTES)
