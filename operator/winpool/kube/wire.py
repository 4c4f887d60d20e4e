"""Declares the shapes that are read from the API server's JSON; nothing else of it is read.

Every field of an object is optional here, whatever the API promises: a missing one has a default, an unknown
one is skipped. An object is unreadable only if a field has the wrong type, or a text is longer than the API
server permits. Any bytes can be read as a meta/v1 Status: an answer that is not one must not hide the
failure.
"""

from __future__ import annotations

from typing import Annotated, Final, Generic, TypeVar

import msgspec

from winpool.api.keys import APPLIED_ANNOTATION, PREFIX


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


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds, without cycles, so ``gc`` is off."""


class NodeAnnotations(_Base):
    """The annotations that are read of a node, those of ``api.node_keys``.

    Any client that may annotate a node can add any number of others.
    """

    applied: str | None = msgspec.field(default=None, name=APPLIED_ANNOTATION)
    upgrade: str | None = msgspec.field(default=None, name=f"{PREFIX}upgrade")
    upgrade_requested: str | None = msgspec.field(default=None, name=f"{PREFIX}upgrade-requested")
    hold: str | None = msgspec.field(default=None, name=f"{PREFIX}hold")
    memory: str | None = msgspec.field(default=None, name=f"{PREFIX}memory")
    scale_down_disabled: str | None = msgspec.field(
        default=None, name="cluster-autoscaler.kubernetes.io/scale-down-disabled"
    )
    do_not_disrupt: str | None = msgspec.field(default=None, name="karpenter.sh/do-not-disrupt")


class Metadata(_Base):
    """The part of meta/v1 ObjectMeta that is read, for events also of ListMeta."""

    name: Bounded = ""
    uid: Bounded = ""
    resource_version: Bounded = ""
    labels: dict[str, str] | None = None
    annotations: NodeAnnotations | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class TaintObject(_Base):
    """core/v1 Taint."""

    key: Bounded = ""
    effect: Bounded = ""
    value: Bounded | None = None
    time_added: Bounded | None = None


class NodeSpec(_Base):
    """The part of core/v1 NodeSpec that is read."""

    taints: list[TaintObject] | None = None
    unschedulable: bool | None = None


class Condition(_Base):
    """The part of core/v1 NodeCondition that is read."""

    type: str = ""
    status: str = UNKNOWN
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class NodeInfo(_Base):
    """The part of core/v1 NodeSystemInfo that is read."""

    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""
    boot_id: str = msgspec.field(default="", name="bootID")


class Resources(_Base):
    """The part of a core/v1 ResourceList that is read."""

    memory: str | None = None
    cpu: str | None = None
    pods: str | None = None


class NodeAddress(_Base):
    """core/v1 NodeAddress."""

    type: str = ""
    address: str = ""


class DaemonEndpoint(_Base):
    """core/v1 DaemonEndpoint, whose field has a capital in JSON. It is an int32 in the API."""

    port: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = msgspec.field(
        default=None, name="Port"
    )


class DaemonEndpoints(_Base):
    """core/v1 NodeDaemonEndpoints."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeStatus(_Base):
    """The part of core/v1 NodeStatus that is read."""

    capacity: Resources | None = None
    allocatable: Resources | None = None
    conditions: list[Condition] | None = None
    addresses: list[NodeAddress] | None = None
    daemon_endpoints: DaemonEndpoints | None = None
    node_info: NodeInfo | None = None


class NodeObject(_Base):
    """core/v1 Node; in an ERROR event a meta/v1 Status, whose ``status`` is a word."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: NodeSpec | None = None
    status: NodeStatus | str | None = None
    code: int | None = None


class NodeEvent(_Base):
    """A line of a watch."""

    type: str
    object: NodeObject


class Identity(_Base):
    """The identity of an object, for objects of which nothing else can be read."""

    name: Bounded = ""
    uid: Bounded = ""
    resource_version: Bounded = ""


class IdentifiedObject(_Base):
    """An object of which only the identity is read."""

    metadata: Identity


class IdentifiedEvent(_Base):
    """A line of a watch of which only the identity of the object is read."""

    type: str
    object: IdentifiedObject


class ListMetadata(_Base):
    """The part of meta/v1 ListMeta that is read."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListOf(_Base, Generic[ItemT]):
    """A page of a list. No field is optional: an answer that lacks one of these is not such a list."""

    kind: str
    api_version: str
    metadata: ListMetadata
    items: list[ItemT] | None
    """Null where there are none, but never absent."""


class RawEvent(_Base):
    """A line of a watch whose object is read by itself."""

    type: str
    object: msgspec.Raw


class _ErrorObject(_Base):
    code: int | None = None


class WrittenObject(_Base):
    """The answer to a write: PartialObjectMetadata, or the whole object if the server ignores ``as``."""

    metadata: Metadata


class ServerVersion(_Base):
    """The part of version.Info that is read."""

    git_version: str


node_event: Final = msgspec.json.Decoder(NodeEvent)
identified_event: Final = msgspec.json.Decoder(IdentifiedEvent)
raw_event: Final = msgspec.json.Decoder(RawEvent)
node_list: Final = msgspec.json.Decoder(ListOf[NodeObject])
node_object: Final = msgspec.json.Decoder(NodeObject)
identified_object: Final = msgspec.json.Decoder(IdentifiedObject)
server_version: Final = msgspec.json.Decoder(ServerVersion)
written_object: Final = msgspec.json.Decoder(WrittenObject)
_error_object: Final = msgspec.json.Decoder(_ErrorObject)

_DEFAULT_ERROR_STATUS: Final = 500


def error_status(status: msgspec.Raw) -> int:
    """Return the HTTP status of an ERROR event of a watch, whose object is a meta/v1 Status.

    Raises what BROKEN names.
    """
    return _error_object.decode(status).code or _DEFAULT_ERROR_STATUS


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
