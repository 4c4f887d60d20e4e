"""Reading Pod objects: from the API server's JSON to the few fields that are needed.

What cannot be read never counts as absent (P4). A pod with a field of the wrong type is *unreadable*: the
others are still read, and its node is named, so that the pods of that node count as unknown. Bytes that are
not JSON of the expected kind are *garbled*: they mean nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from winpool.cluster import pod_wire, pod_work_wire, wire
from winpool.cluster.envelope import ListReader
from winpool.cluster.pod_work import work_of
from winpool.pods.pod import Pod, Toleration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import msgspec

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

_list: Final = ListReader(pod_wire.pod_list, resource="pods", kind="PodList", api_version="v1")
_work_list: Final = ListReader(pod_work_wire.work_list, resource="pods", kind="PodList", api_version="v1")


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
        found = item if isinstance(item, pod_wire.PodObject) else _decode_object(item, has_work=has_work)
        read = _pod(found, with_work) if isinstance(found, pod_wire.PodObject) else found
        if isinstance(read, Pod):
            pods.append(read)
        else:
            unreadable.append(read)
    version, token = page.metadata.resource_version, page.metadata.continue_
    return PodPage(tuple(pods), tuple(unreadable), version, token)


def _pod(found: pod_wire.PodObject, with_work: Collection[str]) -> Pod | UnreadablePod:
    metadata, spec, status = found.metadata, found.spec, found.status
    if not (metadata.namespace and metadata.name and spec.node_name):
        # Only pods on nodes are requested: one without a node must not count as "on no node of ours".
        return UnreadablePod(spec.node_name or "", "namespace, name or spec.nodeName is missing")
    kind, controller = _controller(metadata)
    annotations = metadata.annotations
    tolerations = _tolerations(spec.tolerations) if spec.tolerations else ()
    work = None
    if spec.node_name in with_work and isinstance(found, pod_work_wire.WorkObject):
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


def _controller(metadata: pod_wire.PodMetadata) -> tuple[str, str]:
    for owner in metadata.owner_references or ():
        if owner.controller:
            return (owner.kind, owner.name)
    return ("", "")


def _tolerations(found: tuple[pod_wire.TolerationObject, ...]) -> tuple[Toleration, ...]:
    return _made_once(found) if len(found) <= _LONGEST_SET_KEPT else _make(found)


def _make(found: tuple[pod_wire.TolerationObject, ...]) -> tuple[Toleration, ...]:
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


def _is_ready(status: pod_wire.PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _platform_problem(status: pod_wire.PodStatus) -> str:
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


def _waiting(status: pod_wire.PodStatus) -> Iterator[pod_wire.Waiting]:
    for containers in (status.init_container_statuses, status.container_statuses):
        for container in containers or ():
            if container.state and container.state.waiting:
                yield container.state.waiting


def _told(reason: str | None, message: str) -> str:
    """Write a reason and its message, if there is one, in one line."""
    words = " ".join(message[:PROBLEM_LENGTH].split())
    return f"{reason}: {words}" if words else f"{reason}"


def _decode_object(raw: msgspec.Raw, *, has_work: bool) -> pod_wire.PodObject | UnreadablePod:
    try:
        return pod_work_wire.work_object.decode(raw) if has_work else pod_wire.pod_object.decode(raw)
    except wire.BROKEN as error:
        problem = str(error)
    try:
        node = pod_wire.bound_pod.decode(raw).spec.node_name
    except wire.BROKEN:
        node = ""
    return UnreadablePod(node if len(node) <= _LONGEST_NAME else "", problem)
