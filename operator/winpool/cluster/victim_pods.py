"""Lists the pods of a node under memory pressure, with what decides which of them may be evicted.

It is the request of ``node_pods``, without failed pods: one answer, as fresh as a read of etcd.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from winpool.api.moments import read_moment
from winpool.api.quantity import bytes_of
from winpool.cluster import victim_wire as wire
from winpool.cluster.envelope import ListReader
from winpool.cluster.errors import StreamGarbled, Unavailable
from winpool.cluster.node_pods import ANSWER_SECONDS, node_request
from winpool.pods.node_pods import NodePod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from winpool.cluster.request import Request

MOST: Final = 1000
"""Pods of a node. A kubelet runs 110 by default, and 250 at most on managed clusters; the rest has ended."""

DEFAULT_GRACE_SECONDS: Final = 30
"""What the API server sets where a pod sets none."""

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_STATIC_OWNER: Final = "Node"
"""The kind of the owner of a mirror pod."""
_SIDECAR: Final = "Always"
_COST: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)
"""A deletion cost is an int32."""

_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
"""A DNS subdomain (RFC 1123), as the API server requires of the names of pods and namespaces."""

_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
"""What an intent on a node may have (``memory.intent_text``). The API server makes a UUID for each pod."""

_list: Final = ListReader(wire.victim_list, resource="pods", kind="PodList", api_version="v1")


async def list_victim_pods(
    request: Callable[[Request], Awaitable[bytes | bytearray]], node: str
) -> tuple[NodePod, ...]:
    """Return all pods on ``node`` that have not ended.

    Those that failed are not asked for: where a kubelet has evicted pods itself, it leaves thousands of them.

    ``request`` sends a request to the API server and returns its answer. Raises ApiErrors, TooLarge among
    them, and StreamGarbled where one pod cannot be read: it could be the one that is looked for (P4).
    """
    asked = node_request(node, with_failed=False)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await request(asked)
    except TimeoutError:
        raise Unavailable(f"{asked.label}: no answer within {ANSWER_SECONDS:g} s", reason="Timeout") from None
    return decode_victims(answer, node=node, label=asked.label)


def decode_victims(body: bytes | bytearray, *, node: str, label: str) -> tuple[NodePod, ...]:
    """Read the whole list of the pods of ``node``. Raises StreamGarbled for anything else."""
    page = _list.read(body)
    if page.metadata.continue_:
        raise StreamGarbled(f"{label}: half a list, though all of it was asked for")
    items = page.items or ()
    if len(items) > MOST:
        raise StreamGarbled(f"{label}: more than {MOST} pods, which no node has")
    found: list[NodePod] = []
    for item in items:
        if not isinstance(item, wire.VictimPod):
            raise StreamGarbled(f"{label}: a pod that cannot be read")
        metadata = item.metadata
        if not _is_named(metadata) or item.spec.node_name != node:
            raise StreamGarbled(
                f"{label}: a pod of another node, or with a namespace, name or UID that no pod has"
            )
        found.append(_pod(item))
    if len({each.uid for each in found}) < len(found):
        raise StreamGarbled(f"{label}: two pods with one UID")
    return tuple(found)


def _is_named(pod: wire.VictimMetadata) -> bool:
    """Whether the pod can be named in a path, in a log and in an annotation."""
    names = (pod.namespace, pod.name)
    return all(_NAME.fullmatch(each) for each in names) and _UID.fullmatch(pod.uid) is not None


def _pod(found: wire.VictimPod) -> NodePod:
    metadata, spec, annotations = found.metadata, found.spec, found.metadata.annotations
    owner = next((each.kind for each in metadata.owner_references or () if each.controller), "")
    grace = spec.termination_grace_period_seconds
    return NodePod(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        labels=metadata.labels or {},
        owner_kind=owner,
        priority=spec.priority or 0,
        is_static=owner == _STATIC_OWNER or (annotations is not None and annotations.mirror is not None),
        is_host_process=_is_host_process(spec),
        is_finished=found.status is not None and found.status.phase in _FINISHED,
        is_terminating=metadata.deletion_timestamp is not None,
        created=read_moment(metadata.creation_timestamp),
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else max(0, grace),
        requests=_requests(spec, found.status or wire.VictimStatus()),
        deletion_cost=_cost(annotations.deletion_cost if annotations else None),
    )


def _is_host_process(spec: wire.VictimSpec) -> bool:
    """Whether the pod, or any container of it, is a HostProcess one."""
    containers = (*_all(spec.containers), *_all(spec.init_containers), *_all(spec.ephemeral_containers))
    contexts = (spec.security_context, *(each.security_context for each in containers))
    return any(
        each is not None and each.windows_options is not None and bool(each.windows_options.host_process)
        for each in contexts
    )


def _requests(spec: wire.VictimSpec, status: wire.VictimStatus) -> int:
    """Return the memory that the pod requests and its node has granted, as the scheduler counts it.

    Requests of the pod as a whole come first (KEP-2837). Otherwise it is the sum of its containers and
    sidecars, or what its largest init container requests, if that is more. The spec of a running pod has what
    its author wishes now (KEP-1287): who writes a large number there, and gets it not, would not be evicted.
    """
    whole = _granted(_memory(spec.resources), _memory(status.resources))
    if whole is not None:
        return whole
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    granted = {each.name: _memory(each.resources) for each in statuses}

    def of(container: wire.VictimContainer) -> int:
        return _granted(_memory(container.resources), granted.get(container.name)) or 0

    inits = _all(spec.init_containers)
    sidecars = [each for each in inits if each.restart_policy == _SIDECAR]
    running = sum(of(each) for each in (*_all(spec.containers), *sidecars))
    return max(running, *(of(each) for each in inits), 0)


def _granted(wished: int | None, granted: int | None) -> int | None:
    """Return the smaller one; what is wished where the node reports nothing, as kubelets before 1.33 do."""
    return wished if wished is None or granted is None else min(wished, granted)


def _all(containers: Iterable[wire.VictimContainer] | None) -> tuple[wire.VictimContainer, ...]:
    return tuple(containers or ())


def _memory(resources: wire.Resources | None) -> int | None:
    """Return the memory that is requested; None where none is, or it is no amount."""
    if resources is None or resources.requests is None or resources.requests.memory is None:
        return None
    try:
        return max(0, bytes_of(resources.requests.memory))
    except ValueError:
        return None


def _cost(text: str | None) -> int:
    """Return the deletion cost; 0 for what is none, as the controller of ReplicaSets does."""
    return int(text) if text is not None and _COST.fullmatch(text) else 0
