"""Makes every change that winpool makes to nodes, pods and pools.

- Nodes and a pool's finalizers: by merge patch with the resourceVersion of what was read, so that a write by
  someone else in between is a 409. (A JSON patch with ``test`` would be a 422, like any other fault.) The
  taint list is atomic for the API server, so it is sent whole.
- A pool's status and our conditions of a node: by server-side apply, also with the resourceVersion. It does
  not touch what is not ours, removes what we applied before and leave out now, and writes nothing where
  nothing differs. ``force`` takes over what another manager wrote there. The pool object itself is never
  applied: that could create a deleted one again.
- Pods: through the Eviction API; by a deletion only where a drain is forced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from winpool.api.keys import API_VERSION, FIELD_MANAGER, KIND, PLURAL
from winpool.api.text import written_moment
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Conflict, Forbidden, NotFound, StreamGarbled, Unavailable
from winpool.kube.lists import ItemT, ListPage, Pager
from winpool.kube.nodes import NODES_PATH, decode_node, decode_written
from winpool.kube.pools import LISTING, POOLS_PATH
from winpool.kube.request import APPLY_PATCH, JSON, MERGE_PATCH, Request
from winpool.kube.wire import BROKEN, Base, PodMetadata, is_success
from winpool.model.node import (
    MESSAGE_LENGTH,
    REASON_LENGTH,
    ConditionsPatch,
    Deletion,
    Eviction,
    Node,
    NodeCondition,
    NodePatch,
    Taint,
)

_encode: Final = msgspec.json.Encoder().encode

_ANOTHER_UID: Final = re.compile(r"\bUID in (?:the )?precondition\b")
"""In k8s.io/apiserver: "Precondition failed: UID in precondition: …" of the storage, and "the UID in the
precondition (…) does not match the UID in record (…)" of registry/rest/delete.go."""

_DENIED: Final = re.compile(
    r"""\badmission webhook "|\bfailed calling webhook "|\b(?:Validating|Mutating)AdmissionPolicy '"""
)
"""In k8s.io/apiserver: pkg/admission/plugin. The first two are of webhooks that deny, and that fail."""

_BUDGET_GONE: Final = "poddisruptionbudgets"

_BUDGET_CONFLICTS: Final = "couldn't update PodDisruptionBudget"
"""In a 504, which is of this pod alone, and not of the server: other clients write its budget."""


def eviction_request(eviction: Eviction) -> Request:
    """Return the request of an eviction, which the transport sends once: the caller decides about more.

    A precondition names the pod by its UID, and no grace period is set, so that the pod's own holds (P5).
    """
    namespace, name = quote(eviction.namespace, safe=""), quote(eviction.name, safe="")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": eviction.namespace, "name": eviction.name},
        "deleteOptions": {"preconditions": {"uid": eviction.uid}},
    }
    return Request(
        verb="create",
        resource="pods/eviction",
        name=eviction.full_name,
        path=f"/api/v1/namespaces/{namespace}/pods/{name}/eviction",
        body=_encode(body),
    )


class _Answer(Base):
    """What is read of the pod that a deletion answers with."""

    metadata: PodMetadata


_answer: Final = msgspec.json.Decoder(_Answer)


def deletion_request(eviction: Eviction, deletion: Deletion) -> Request:
    """Return the request that deletes the pod as it was read, which the transport sends once.

    The grace is named, although it is the pod's own: with one of 0 the API server would remove the pod at
    once.
    """
    namespace, name = quote(eviction.namespace, safe=""), quote(eviction.name, safe="")
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": deletion.grace_seconds,
        "preconditions": {"uid": eviction.uid, "resourceVersion": deletion.resource_version},
    }
    return Request(
        verb="delete",
        resource="pods",
        name=eviction.full_name,
        path=f"/api/v1/namespaces/{namespace}/pods/{name}",
        body=_encode(body),
        accept=METADATA_ONLY,
    )


def eviction_error(error: ApiError, eviction: Eviction) -> ApiError:
    """Return the error whose type says what the answer ``error`` means for the pod, evicted or deleted.

    NotFound only where the pod, or its namespace, is gone; Forbidden for each denial by admission. The
    answers, as pkg/registry/core/pod/storage/eviction.go of Kubernetes gives them:

    - 404: the pod is gone. 409 with a message about the UID: another pod has its name. Asking again would do
      harm: the server checks the UID after it has counted the eviction against the disruption budget, and
      only after two minutes does it undo that. Where the budget refuses, the server never checks the UID.
    - 409 without it, or 504 about the budget: the pod or its budget changed again and again while the server
      tried, up to 10 s. The pod was not evicted. A pod that was to be deleted is not as it was read.
    - 429 with the cause DisruptionBudget: not now. Without it the server is overloaded.
    - 403 without a message of RBAC: the budget's own status is invalid. 500: the pod has more than one
      budget.
    - Any status from 400 on, with any reason: an admission webhook denies it. Some choose 429 (KubeVirt),
      which is not flow control, and 401 would say nothing of our credentials. 403, 413 or 422: a policy
      denies it.

    A 404 about something else says nothing of the pod: its budget was deleted while the server tried, or a
    proxy does not know the path.
    """
    said, status, reason = error.message, error.status, error.reason
    if status is None:
        return error
    if _DENIED.search(said):
        return Forbidden(said, status=status, reason=reason, retry_after=error.retry_after)
    if _BUDGET_CONFLICTS in said:
        return Conflict(said, status=status, reason=reason, retry_after=error.retry_after)
    if isinstance(error, Conflict) and _ANOTHER_UID.search(said):
        return NotFound(said, status=status, reason=reason)
    if not isinstance(error, NotFound):
        return error
    if f'pods "{eviction.name}" not found' in said or f'namespaces "{eviction.namespace}" not found' in said:
        return error
    kind = Conflict if _BUDGET_GONE in said else Unavailable
    return kind(said, status=status, reason=reason, retry_after=error.retry_after)


def encode_conditions(patch: ConditionsPatch, *, now: datetime) -> bytes:
    """Write what is applied. A condition keeps its time where the node has it with the same status.

    The time has to be sent each time. Otherwise the API server would remove it. Raises ValueError for a text
    that would be read back as another one, see ``NodeCondition``.
    """
    standing = {each.type: each for each in patch.node.conditions}
    conditions = [_condition(each, standing.get(each.type), now=now) for each in patch.conditions]
    return _encode(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": patch.node.name, "resourceVersion": patch.node.resource_version},
            "status": {"conditions": conditions},
        }
    )


def _condition(wanted: NodeCondition, standing: NodeCondition | None, *, now: datetime) -> dict[str, str]:
    if len(wanted.reason) > REASON_LENGTH or len(wanted.message) > MESSAGE_LENGTH:
        raise ValueError(f"condition {wanted.type}: the reason or the message is too long")
    is_same = standing is not None and standing.status == wanted.status
    since = (standing.since if standing and is_same else None) or now
    written = {
        "type": wanted.type,
        "status": wanted.status,
        "lastTransitionTime": written_moment(since),
        "reason": wanted.reason,
        "message": wanted.message,
    }
    return {key: text for key, text in written.items() if text}


METADATA_ONLY: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""Asks for a small answer: 2.7 kB for a real node instead of 7.6, and 15 % less work for the API server."""

_pool: Final = msgspec.json.Decoder(dict[str, Any])

_FORCED: Final = f"{FIELD_MANAGER}&force=true"


class Writer:
    """Writes through a transport. Raises ApiErrors; Conflict means: read and decide again."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pools = Pager(transport.request, LISTING)

    async def patch_node(self, patch: NodePatch) -> Node:
        """Send the one patch of a node and return the node as it is now.

        Raises Conflict where the node has changed since it was read, NotFound where it is gone,
        ValueError for a patch that changes nothing (it would still be a write).
        """
        name = patch.node.name
        path, body = f"{NODES_PATH}/{quote(name)}", encode_node_patch(patch)
        answer = await self._patch("nodes", name, path=path, body=body, accept=METADATA_ONLY)
        return decode_written(answer, patch=patch)

    async def apply_node_conditions(self, patch: ConditionsPatch, *, now: datetime) -> Node:
        """Set exactly these conditions of ours on a node, and return the node as it is now.

        The operator sends no other apply for nodes. Otherwise one apply would remove what the other has set.
        ``now`` is the transition time of a condition whose status is new. An equal set changes nothing, not
        even the resourceVersion. Raises Conflict where the node has changed since it was read, NotFound
        where it is gone, ValueError for a reason or a message that is too long.
        """
        name = patch.node.name
        path, body = f"{NODES_PATH}/{quote(name)}/status", encode_conditions(patch, now=now)
        answer = await self._patch("nodes/status", name, path=path, body=body, is_applied=True)
        return decode_node(answer, request=f"patch nodes/status {name}")

    async def evict(self, eviction: Eviction) -> None:
        """Evict a pod; it then ends within its own grace period.

        Raises NotFound where the pod is gone, also where another has its name; DisruptionBudget where its
        budget does not permit it now, with ``retry_after`` where the server sends it; Forbidden where
        admission denies it, whatever its status; Conflict where it is to be deleted and is not as it was
        read; and other ApiErrors. StreamGarbled where the answer is not that of the API server.
        """
        deletion = eviction.deletion
        request = deletion_request(eviction, deletion) if deletion else eviction_request(eviction)
        try:
            answer = await self._transport.request(request)
        except ApiError as error:
            raise eviction_error(error, eviction) from None
        if not (is_success(answer) or (deletion and _has_uid(answer, eviction.uid))):
            raise StreamGarbled(f"{request.label}: the answer does not say that the pod ends")

    async def patch_pool_finalizers(
        self, *, name: str, resource_version: str, finalizers: Sequence[str]
    ) -> dict[str, Any]:
        """Set the finalizers of a pool to exactly ``finalizers`` and return the pool as it is now.

        Raises Conflict where it has changed since it was read, NotFound where it is gone, Invalid
        where one would be added to a pool that is being deleted.
        """
        metadata = {"resourceVersion": resource_version, "finalizers": list(finalizers)}
        body = _encode({"metadata": metadata})
        return _decode_pool(await self._patch(PLURAL, name, path=_pool_path(name), body=body), name=name)

    async def apply_pool_status(
        self, *, name: str, resource_version: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Apply the whole status of a pool and return the pool as it is now.

        ``status`` is all of it: what was applied before and is not in it is removed. An equal
        one changes nothing, not even the resourceVersion. Its UID is not named: the API server ignores a
        wrong one there. Raises Conflict where the pool is not as it was read, NotFound where it is gone.
        """
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "resourceVersion": resource_version},
            "status": status,
        }
        path = f"{_pool_path(name)}/status"
        answer = await self._patch(f"{PLURAL}/status", name, path=path, body=_encode(body), is_applied=True)
        return _decode_pool(answer, name=name)

    async def clear_pool_status(self, *, name: str, resource_version: str) -> dict[str, Any]:
        """Remove the whole status of a pool, whichever client wrote it, and return the pool as it is now.

        Raises Conflict where the pool is not as it was read, NotFound where it is gone.
        """
        body = _encode({"metadata": {"resourceVersion": resource_version}, "status": None})
        path = f"{_pool_path(name)}/status"
        return _decode_pool(await self._patch(f"{PLURAL}/status", name, path=path, body=body), name=name)

    async def list_pools(
        self,
        items: Callable[[tuple[dict[str, Any], ...]], Iterable[ItemT]],
        *,
        begin: Callable[[], object] = tuple,
    ) -> ListPage[ItemT]:
        """List all pools, complete or not at all: what ``items`` makes of each page, see ``Pager.collect``.

        Raises NotFound where the CRD is missing, and the other ApiErrors.
        """
        return ListPage(*await self._pools.collect(lambda page: items(page.items), begin=begin))

    async def _patch(
        self,
        resource: str,
        name: str,
        *,
        path: str,
        body: bytes,
        is_applied: bool = False,
        accept: str = JSON,
    ) -> bytes | bytearray:
        """Send a patch that names the resourceVersion it was decided on."""
        return await self._transport.request(
            Request(
                verb="patch",
                resource=resource,
                name=name,
                path=f"{path}?fieldManager={_FORCED if is_applied else FIELD_MANAGER}",
                body=body,
                content_type=APPLY_PATCH if is_applied else MERGE_PATCH,
                accept=accept,
                guarded=True,
            )
        )


def _has_uid(answer: bytes | bytearray, uid: str) -> bool:
    """Whether ``answer`` is the object of that UID."""
    try:
        return _answer.decode(answer).metadata.uid == uid
    except BROKEN:
        return False


def encode_node_patch(patch: NodePatch) -> bytes:
    """Write a node patch as the JSON merge patch (RFC 7386) that is sent: null removes a key.

    Raises ValueError for a patch without a change.
    """
    metadata: dict[str, Any] = {"resourceVersion": patch.node.resource_version}
    if patch.labels:
        metadata["labels"] = patch.labels
    if patch.annotations:
        metadata["annotations"] = patch.annotations
    spec: dict[str, Any] = {}
    if patch.taints is not None:
        spec["taints"] = [_taint(taint) for taint in patch.taints]
    if patch.unschedulable is not None:
        # False is never stored; null is what kubectl uncordon sends.
        spec["unschedulable"] = True if patch.unschedulable else None
    if not spec and len(metadata) == 1:
        raise ValueError(f"the patch of node {patch.node.name} changes nothing")
    return _encode({"metadata": metadata, "spec": spec} if spec else {"metadata": metadata})


def _taint(taint: Taint) -> dict[str, str]:
    """Write a taint with the fields that it has: those of others are sent as read, with timeAdded."""
    written = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        written["value"] = taint.value
    if taint.time_added is not None:
        written["timeAdded"] = taint.time_added
    return written


def _pool_path(name: str) -> str:
    return f"{POOLS_PATH}/{quote(name)}"


def _decode_pool(answer: bytes | bytearray, *, name: str) -> dict[str, Any]:
    try:
        return _pool.decode(answer)
    except BROKEN as error:
        raise StreamGarbled(f"patch {PLURAL} {name}: unreadable answer: {error}") from None
