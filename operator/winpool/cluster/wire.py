"""The shapes that are read from the API server's JSON, and nothing else of it.

Every field is optional here, whatever the API promises: a missing one has a default, an
unknown one is skipped. Only a field of the wrong type makes an object unreadable.
"""

from __future__ import annotations

from typing import Final

import msgspec

BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises on foreign bytes: no JSON, wrong types, no UTF-8, or nested beyond reason."""

UNKNOWN: Final = "Unknown"


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds and hold no cycles, so the collector is spared."""


class Metadata(_Base):
    """The part of meta/v1 ObjectMeta that is read, for events also of ListMeta."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class TaintObject(_Base):
    """core/v1 Taint."""

    key: str = ""
    effect: str = ""
    value: str | None = None
    time_added: str | None = None


class NodeSpec(_Base):
    """The part of core/v1 NodeSpec that is read."""

    taints: list[TaintObject] | None = None
    unschedulable: bool | None = None


class Condition(_Base):
    """The part of core/v1 NodeCondition that is read."""

    type: str = ""
    status: str = UNKNOWN
    last_transition_time: str | None = None


class NodeInfo(_Base):
    """The part of core/v1 NodeSystemInfo that is read."""

    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class Resources(_Base):
    """The part of a core/v1 ResourceList that is read."""

    memory: str | None = None


class NodeStatus(_Base):
    """The part of core/v1 NodeStatus that is read."""

    capacity: Resources | None = None
    allocatable: Resources | None = None

    conditions: list[Condition] | None = None
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
    """What an object is, for those of which nothing else can be read."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""


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


class NodeList(_Base):
    """A page of a list of nodes."""

    kind: str
    metadata: ListMetadata
    items: list[NodeObject] | None = None


class RawList(_Base):
    """A page of a list whose items are read one by one."""

    kind: str
    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class RawEvent(_Base):
    """A line of a watch whose object is read by itself."""

    type: str
    object: msgspec.Raw


class WrittenObject(_Base):
    """The answer to a write: PartialObjectMetadata, or the whole object where the server ignores the wish."""

    metadata: Metadata


class ServerVersion(_Base):
    """The part of version.Info that is read."""

    git_version: str


node_event: Final = msgspec.json.Decoder(NodeEvent)
identified_event: Final = msgspec.json.Decoder(IdentifiedEvent)
raw_event: Final = msgspec.json.Decoder(RawEvent)
node_list: Final = msgspec.json.Decoder(NodeList)
raw_list: Final = msgspec.json.Decoder(RawList)
node_object: Final = msgspec.json.Decoder(NodeObject)
identified_object: Final = msgspec.json.Decoder(IdentifiedObject)
server_version: Final = msgspec.json.Decoder(ServerVersion)
written_object: Final = msgspec.json.Decoder(WrittenObject)
