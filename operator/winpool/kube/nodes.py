"""Lists and watches Node objects, and reads from the API server's JSON the few fields that winpool needs.

The parser decodes only these fields and skips the rest: 7 µs per event of a real node of 7.5 kB, where a
full dict takes 32 and a typed model 256. What cannot be read never counts as absent (P4): a node with a
field of the wrong type is unreadable, is reported by name, and its earlier state is kept. A kubelet may
write a megabyte into its node, a different one each time: texts that are kept once for all nodes are short,
and longer ones are cut (P7).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import CONDITIONS, OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.api.quantity import bytes_of, milli_of
from winpool.api.text import read_moment
from winpool.kube import wire
from winpool.kube.errors import StreamGarbled, event_error
from winpool.kube.lists import CHANGES, Kind, Listing, ListPage, Pager, UnreadableObjectError, WatchEvent
from winpool.kube.request import ApiServer
from winpool.kube.watch import Source
from winpool.kube.wire import BROKEN, UNKNOWN
from winpool.model.node import (
    MESSAGE_LENGTH,
    REASON_LENGTH,
    Allocatable,
    KubeletEndpoint,
    Node,
    NodeCondition,
    NodeMemory,
    NodePatch,
    NodeVersions,
    Taint,
)
from winpool.ownership.record import MAX_BYTES, record_of

_INTERNAL_IP: Final = "InternalIP"

_NO_CONDITION: Final = wire.Condition()

_NO_ENDPOINT: Final = KubeletEndpoint()
"""Kept once for all nodes that report none."""

_CONDITIONS: Final = frozenset(CONDITIONS)

_KUBELET_CONDITIONS: Final = frozenset({"Ready", "MemoryPressure"})
"""The kubelet's own conditions that are read. Ours have other types."""

_STATUSES: Final = {"True": "True", "False": "False"}
"""The statuses of a condition. Any other text, which the API server permits a kubelet to write, is
unknown."""

_ANNOTATIONS: Final = tuple([each.encode_name for each in msgspec.structs.fields(wire.NodeAnnotations)])
"""The keys of those that are read, in the order of the record."""

TOO_LONG: Final = "?" * (MAX_BYTES + 1)
"""Replaces an annotation that is longer than anything we write. It is too long itself, so that it is read as
one that is too long; and all nodes share it."""

VERSION_LENGTH: Final = 400
"""Characters of a version that are kept. A longer one cannot be read (``support.versions``), and neither can
the part that is kept, which is long enough to show people what is wrong."""

_SHORT: Final = 64
"""Characters of a text that is kept once for all nodes: a version of a vendor's build has some 40. A longer
text is neither a time, nor an amount, nor an IP address."""

_HELD_ONCE: Final = 1024
"""Combinations that are kept: more than any cluster runs at once, of about 100 bytes each."""

_CHANGING: Final = re.compile(
    r"(?<!\w)(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12,}"
    r"|(?!0x[0-9a-f]{8}\b)\d(?:[\w.:+-]*\w)?)(?!\w)",
    re.IGNORECASE,
)
"""What changes in a message from one heartbeat to the next, or from node to node: times, durations, ports,
identifiers. "PLEG is not healthy: pleg was last seen active 3m5.1s ago" changes every ten seconds, and would
wake a pass each time. An HRESULT of Windows, 0x and eight digits, stays: it names the cause."""

_versions_once: Final = lru_cache(maxsize=_HELD_ONCE)(NodeVersions)

_text_once: Final = lru_cache(maxsize=_HELD_ONCE)(str)
"""Of labels, annotations and unready nodes: most are the same on thousands of nodes, the record of ours too.

Not ``sys.intern``: Python 3.12 before 3.12.7 keeps such texts for ever, and kubelets choose the words.
https://github.com/python/cpython/issues/113993"""

_ORDINARY: Final = 1024
"""Characters of an annotation that is kept once: a record of twelve labels and taints."""


def _labels(found: dict[str, str] | None) -> dict[str, str]:
    """Return the labels, their texts kept once for all nodes."""
    return {} if found is None else {_text_once(key): _text_once(value) for key, value in found.items()}


def _annotations(found: wire.NodeAnnotations | None) -> dict[str, str]:
    """Return the annotations that are kept, by key."""
    if found is None:
        return {}
    return {
        key: _kept(text)
        for key, text in zip(_ANNOTATIONS, msgspec.structs.astuple(found), strict=True)
        if text is not None
    }


def _kept(text: str) -> str:
    if len(text) <= _ORDINARY:
        return _text_once(text)
    return text if len(text) <= MAX_BYTES else TOO_LONG


def _kubelet(status: wire.NodeStatus) -> KubeletEndpoint:
    """Return where the node says that its kubelet listens: the first InternalIP counts, and no other one.

    An address that is too long to be one is cut, so that it is still none. Port 0 is what a kubelet writes
    that has no port.
    """
    first = next((each.address for each in status.addresses or () if each.type == _INTERNAL_IP), "")
    endpoint = None if status.daemon_endpoints is None else status.daemon_endpoints.kubelet_endpoint
    port = None if endpoint is None else endpoint.port or None
    return KubeletEndpoint(_cut(first, _SHORT), port) if first or port else _NO_ENDPOINT


def _first_conditions(status: wire.NodeStatus, types: frozenset[str]) -> dict[str, wire.Condition]:
    """Return the conditions of these types: of several of one type, which a kubelet may send, the first."""
    return {each.type: each for each in reversed(status.conditions or ()) if each.type in types}


def _condition(told: wire.Condition) -> NodeCondition:
    return NodeCondition(
        type=told.type,
        status=_STATUSES.get(told.status, UNKNOWN),
        reason=_cut(told.reason or "", REASON_LENGTH),
        message=_cut(told.message or "", MESSAGE_LENGTH),
        since=_time(told.last_transition_time),
    )


def _unready(ready: wire.Condition) -> str:
    """Return reason and message in one line, cut before as well as after numbers are taken out.

    Nodes that share a cause share the text.
    """
    said = (_cut(ready.reason or "", REASON_LENGTH), _cut(ready.message or "", 4 * MESSAGE_LENGTH))
    text = " ".join(": ".join(filter(None, said)).split())
    return _text_once(_cut(_CHANGING.sub("…", text), MESSAGE_LENGTH))


def _time(text: str | None) -> datetime | None:
    """Read a metav1.Time; one that cannot be read is unknown, and the rest of the node is still read."""
    return None if text is None or len(text) > _SHORT else read_moment(text)


def _amount(text: str | None) -> str | None:
    """Return an amount as written; None also for a text that is too long to be one."""
    return None if text is None or len(text) > _SHORT else text


@lru_cache(maxsize=_HELD_ONCE)
def _memory_once(capacity: str | None, allocatable: str | None) -> NodeMemory:
    """Read both. Machines of a kind report the same, so each pair is read and kept once."""
    return NodeMemory(capacity=_number(capacity, bytes_of), allocatable=_number(allocatable, bytes_of))


@lru_cache(maxsize=_HELD_ONCE)
def _allocatable_once(cpu: str | None, pods: str | None) -> Allocatable:
    """Read both. Machines of a kind report the same, so each pair is read and kept once."""
    return Allocatable(cpu_milli=_number(cpu, milli_of), pods=_number(pods, bytes_of))


def _number(quantity: str | None, read: Callable[[str], int]) -> int | None:
    try:
        return None if quantity is None else read(quantity)
    except ValueError:
        return None


def _versions(info: wire.NodeInfo) -> NodeVersions:
    """Read what runs on the node. Few combinations are in use, so each is kept once for all nodes."""
    texts = (info.kernel_version, info.kubelet_version, info.container_runtime_version, info.os_image)
    if max(map(len, texts)) <= _SHORT:
        return _versions_once(*texts)
    return NodeVersions(*[_cut(text, VERSION_LENGTH) for text in texts])


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


NODE: Final = "node"
"""How a message about a node that cannot be read names it."""


def decode_event(line: bytes) -> WatchEvent[Node]:
    """Read one line of a watch.

    Raises StreamGarbled for a line that is not a watch event, UnreadableObjectError for an
    event about a node that cannot be read (unless it was deleted).
    """
    try:
        event = wire.node_event.decode(line)
        if event.type == "ERROR":
            error = event_error(wire.raw_event.decode(line).object, request="watch nodes")
            return WatchEvent(event.type, error=error)
    except BROKEN as fault:
        return _salvage(line, problem=str(fault))
    version = event.object.metadata.resource_version
    if event.type in CHANGES:
        return WatchEvent(event.type, version, _node(event.object))
    return WatchEvent(event.type, version)  # BOOKMARK, and types that a later Kubernetes may add


def decode_page(body: bytes | bytearray) -> ListPage[Node]:
    """Read one page of a list of nodes.

    Raises StreamGarbled for anything that is not a list of nodes, see ``Kind.read``.
    """
    page = _KIND.read(body)
    unreadable: list[UnreadableObjectError] = []
    nodes: list[Node] = []
    for item in page.items or ():
        try:
            nodes.append(_node(item if isinstance(item, wire.NodeObject) else _decode_object(item)))
        except UnreadableObjectError as error:
            unreadable.append(error)
    metadata = page.metadata
    return ListPage(tuple(nodes), metadata.resource_version, metadata.continue_, tuple(unreadable))


def decode_written(body: bytes | bytearray, *, patch: NodePatch) -> Node:
    """Read the metadata in the answer to a PATCH, and return the node as it is now.

    The answer is a PartialObjectMetadata, or the whole node if the server ignores ``as``.
    Spec and status are those of the node that the patch was decided on, with the taints and the
    cordon that were sent: the patch had that node's resourceVersion, so nothing else can have changed.
    Raises StreamGarbled.
    """
    try:
        metadata = wire.node_object.decode(body).metadata
    except BROKEN as error:
        raise StreamGarbled(f"patch nodes {patch.node.name}: unreadable answer: {error}") from None
    if not metadata.resource_version:
        raise StreamGarbled(f"patch nodes {patch.node.name}: the answer has no resourceVersion")
    return replace(
        patch.node,
        resource_version=metadata.resource_version,
        labels=_labels(metadata.labels),
        annotations=_annotations(metadata.annotations),
        taints=patch.node.taints if patch.taints is None else patch.taints,
        unschedulable=patch.node.unschedulable if patch.unschedulable is None else patch.unschedulable,
        deleting=metadata.deletion_timestamp is not None,
    )


def decode_node(body: bytes | bytearray, *, request: str) -> Node:
    """Read the whole node in the answer to a write; the message of an error begins with ``request``.

    Raises StreamGarbled.
    """
    try:
        return _node(wire.node_object.decode(body))
    except (*BROKEN, UnreadableObjectError) as error:
        raise StreamGarbled(f"{request}: unreadable answer: {error}") from None


def _node(found: wire.NodeObject) -> Node:
    metadata, spec = found.metadata, found.spec
    if not (metadata.name and metadata.uid and metadata.resource_version):
        raise UnreadableObjectError(NODE, metadata.name, "name, uid or resourceVersion is missing")
    status = found.status if isinstance(found.status, wire.NodeStatus) else wire.NodeStatus()
    kubelets, ours = _first_conditions(status, _KUBELET_CONDITIONS), _first_conditions(status, _CONDITIONS)
    ready = kubelets.get("Ready", _NO_CONDITION)
    info, offers = status.node_info or wire.NodeInfo(), status.allocatable or wire.Resources()
    node = Node(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        labels=_labels(metadata.labels),
        annotations=_annotations(metadata.annotations),
        taints=() if spec is None else tuple([_taint(taint) for taint in spec.taints or ()]),
        unschedulable=spec is not None and spec.unschedulable is True,
        ready=_STATUSES.get(ready.status, UNKNOWN),
        ready_since=_time(ready.last_transition_time),
        created=_time(metadata.creation_timestamp),
        deleting=metadata.deletion_timestamp is not None,
        versions=_versions(info),
        memory=_memory_once(_amount((status.capacity or wire.Resources()).memory), _amount(offers.memory)),
        conditions=tuple([_condition(ours[type_]) for type_ in sorted(ours)]),
        kubelet=_kubelet(status),
        kubelet_pressure=_STATUSES.get(kubelets.get("MemoryPressure", _NO_CONDITION).status, UNKNOWN),
        boot_id=_cut(info.boot_id, _SHORT),
        system_uuid=_cut(info.system_uuid, _SHORT),
        allocatable=_allocatable_once(_amount(offers.cpu), _amount(offers.pods)),
        unready="" if ready.status == "True" else _unready(ready),
    )
    record_of(node)  # read now, page by page; otherwise the first pass would read thousands at once
    return node


_KIND: Final = Kind(wire.NodeObject, _node, resource="nodes", kind="Node", api_version="v1")


def _taint(taint: wire.TaintObject) -> Taint:
    return Taint(key=taint.key, effect=taint.effect, value=taint.value or "", time_added=taint.time_added)


def _salvage(line: bytes, *, problem: str) -> WatchEvent[Node]:
    """Read at least the identity of the node in an unreadable event: a deletion needs no more."""
    try:
        event = wire.raw_event.decode(line)
        found = wire.identified_object.decode(event.object).metadata
    except BROKEN:
        raise StreamGarbled(f"watch nodes: a line that is no watch event ({problem})") from None
    if event.type == "DELETED" and found.name and found.uid and found.resource_version:
        known = wire.Metadata(name=found.name, uid=found.uid, resource_version=found.resource_version)
        return WatchEvent(event.type, found.resource_version, _node(wire.NodeObject(metadata=known)))
    raise UnreadableObjectError(NODE, found.name, problem)


def _decode_object(raw: msgspec.Raw) -> wire.NodeObject:
    try:
        return wire.node_object.decode(raw)
    except BROKEN as error:
        problem = str(error)
    try:
        name = wire.identified_object.decode(raw).metadata.name
    except BROKEN:
        name = ""
    raise UnreadableObjectError(NODE, name, problem)


NODES_PATH: Final = "/api/v1/nodes"
WINDOWS_SELECTOR: Final = f"{OS_LABEL}={OS_WINDOWS}"

PAGE_BYTES: Final = 32 * 1024 * 1024
"""In memory at once. Real nodes have 8 to 55 kB, so a page of 500 fits; where it does not, the next list asks
for smaller pages."""


def listing_of(selector: str) -> Listing[ListPage[Node]]:
    """Return the listing of the nodes that ``selector`` selects."""
    return Listing(
        resource="nodes",
        collection=NODES_PATH,
        selectors={"labelSelector": selector},
        decode=decode_page,
        page_bytes=PAGE_BYTES,
    )


WINDOWS_NODES: Final = Source(listing=listing_of(WINDOWS_SELECTOR), decode_event=decode_event)
"""What the operator keeps in memory: all Windows nodes of the cluster."""

STRAYS: Final = f"{POOL_LABEL},{OS_LABEL}!={OS_WINDOWS}"


# Both return all that exist, and raise ApiErrors, also for a node that cannot be read: what it has is not
# known (P4).
async def list_strays(transport: ApiServer) -> tuple[Node, ...]:
    """Return those that are not Windows nodes, also those without an OS label, which ``!=`` selects too."""
    return await _list_labelled(transport, selector=STRAYS)


async def list_labelled(transport: ApiServer, *, pool_name: str) -> tuple[Node, ...]:
    """Return the Windows nodes that have the label of this pool."""
    return await _list_labelled(transport, selector=f"{POOL_LABEL}={pool_name},{WINDOWS_SELECTOR}")


async def _list_labelled(transport: ApiServer, *, selector: str) -> tuple[Node, ...]:
    nodes, _ = await Pager(transport.request, listing_of(selector)).collect(_nodes)
    return nodes


def _nodes(page: ListPage[Node]) -> tuple[Node, ...]:
    if page.unreadable:
        raise StreamGarbled(f"list nodes: {page.unreadable[0]}")
    return page.items
