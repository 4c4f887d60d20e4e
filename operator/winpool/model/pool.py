"""Keeps a pool as the API server last reported it, and what else a pass of that pool has to know of pools.

All passes see the same other pools, so that they agree on which pool has a node. Beside objects in the
cluster a pass knows what this process alone has seen: the outcome of its earlier writes, what it has reported
and the status had no room for, whether the guard of our keys is in force (ADR 0011), and what machines did.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from winpool.api.model import InvalidSpecError
from winpool.api.spec import ObjectMeta, WindowsNodePool, WindowsNodePoolSpec, status_and_problem
from winpool.api.status import Issue, WindowsNodePoolStatus
from winpool.model.node import Keys, NodePatch

NO_ROOM: Final = (
    "The specs of all pools together take more than 32 MiB of the operator's memory, so it reads neither the "
    "largest nor, of those of usual size, the newest. This is one of them. Delete pools that are not needed, "
    "or select nodes by fewer values. The next list of all pools, within some minutes, reads this spec then."
)
"""The refusal of a pool whose spec is not read since there is no room (``controllers/pools.py``)."""

_NEVER = datetime.max.replace(tzinfo=UTC)


class Pool(msgspec.Struct, frozen=True):
    """A WindowsNodePool as the API server last reported it.

    ``spec`` is None where the operator cannot read it, and ``refusal`` then says why.
    ``status`` is the status of the object, and ``written_status`` the same as it was written: they
    are continued and compared, and only their ``set_keys`` is trusted for nodes. Where the status cannot be
    read, ``status_problem`` says why and ``status`` is empty, unlike the object's: the operator does nothing
    that depends on the status until it has been written again.
    """

    name: str
    uid: str
    resource_version: str
    generation: int
    created: datetime | None
    deleting: bool
    finalizers: tuple[str, ...]
    spec: WindowsNodePoolSpec | None
    refusal: str
    status: WindowsNodePoolStatus
    written_status: Mapping[str, Any]
    status_problem: str = ""

    @property
    def seniority(self) -> tuple[datetime, str]:
        """The order of pools that select the same node without an owner: age, then name."""
        return (self.created or _NEVER, self.name)


def read_pool(body: Mapping[str, Any], *, refusal: str = "") -> Pool:
    """Make a Pool of the object as the API server gives it; with a ``refusal``, its spec is not read.

    A spec that cannot be read (a CRD older or newer than this operator may permit one) is not an
    error here: it becomes a pool with a refusal, which is reported; the operator does nothing else with it.
    Raises InvalidSpecError where even its metadata cannot be read.
    """
    metadata = ObjectMeta.from_object(body)
    spec = None
    try:
        spec = None if refusal else WindowsNodePool.from_object(body).spec
    except InvalidSpecError as error:
        refusal = str(error)
    status, status_problem = status_and_problem(body)
    return Pool(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        created=metadata.creation_timestamp,
        deleting=metadata.deletion_timestamp is not None,
        finalizers=metadata.finalizers,
        spec=spec,
        refusal=refusal,
        status=status,
        status_problem=status_problem,
        written_status=body.get("status", {}),
    )


class PoolName(NamedTuple):
    """The name of a pool, where a UID, a bare text, may stand too: a pool may be named like a UID."""

    name: str


class OtherPools(msgspec.Struct, frozen=True):
    """What is known of all pools except the one that is decided on.

    ``rivals`` are those that exist. ``vanished`` are UIDs of which two complete lists have shown that no pool
    has them; a UID that is only unknown is not among them (P4). ``decided_at`` says for an unknown UID when
    the list is due that decides whether it has vanished. ``seen`` are the keys that pools have set, by their
    UIDs: of those that this process has seen, gone or not, and that records name.
    """

    rivals: tuple[Pool, ...] = ()
    vanished: frozenset[str] = frozenset()
    decided_at: Mapping[str, datetime] = msgspec.field(default_factory=dict)
    seen: Mapping[str, Keys] = msgspec.field(default_factory=dict)


class KnownIssue(msgspec.Struct, frozen=True):
    """An issue with its cause, which is not published; the status may have had no room for it."""

    issue: Issue
    cause: str


_NOT_TRIED: Final = object()


class Attempts(msgspec.Struct, frozen=True):
    """The outcome of earlier writes. All by the UIDs of nodes; ``Attempts()``: nothing was tried yet.

    ``waiting`` are the goals that must not be tried again now, and ``waiting_nodes`` the nodes that must not
    be written now with any goal. ``refused`` says why the API server refused the last write to a node, and
    ``contested`` what someone keeps undoing on a node, in the words of kubectl. ``conflicting`` are nodes
    that someone else has written, and whose newer state is not known yet. ``written`` is the goal of the last
    write that was carried out. Both it and ``written_generation``, the generation of the spec for
    which nodes were last written, 0 where that is not known, are of this process alone. ``written_nodes``
    counts the nodes that it has written for this generation, including those that are gone by now; with
    ``is_from_start`` no other process has written any for it before. Nothing in this record changes while a
    pass decides on it.
    """

    waiting: Mapping[str, tuple[object, ...]] = msgspec.field(default_factory=dict)
    waiting_nodes: frozenset[str] = frozenset()
    refused: Mapping[str, str] = msgspec.field(default_factory=dict)
    contested: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    conflicting: frozenset[str] = frozenset()
    written: Mapping[str, object] = msgspec.field(default_factory=dict)
    written_generation: int = 0
    written_nodes: int = 0
    is_from_start: bool = False

    def holds_back(self, patch: NodePatch) -> bool:
        """Whether ``patch`` must not be sent now, even if it is due.

        To take a permission back waits for no other write of the node, and for no pace of them.
        """
        uid = patch.node.uid
        waiting_nodes = self.conflicting if patch.only_takes_permission else self.waiting_nodes
        return uid in waiting_nodes or patch.goal in self.waiting.get(uid, ())

    def holds_back_some(self, node_uid: str) -> bool:
        """Whether some goal must not be tried now on that node: for callers without a patch."""
        return node_uid in self.waiting_nodes or node_uid in self.waiting

    def has_written(self, node_uid: str, goal: object) -> bool:
        """Whether the last write of this process to that node had this very goal."""
        return bool(self.written.get(node_uid, _NOT_TRIED) == goal)


class GuardState(msgspec.Struct, frozen=True):
    """Whether the admission policy that stops kubelets from writing our keys is in force.

    ``identity`` names the one that is in force; it is empty where none is, and ``problem`` then says why.
    ``is_unknown`` says that one may still be in force that cannot be read now.
    """

    identity: str = ""
    problem: str = ""
    is_unknown: bool = False


SURPRISE_SECONDS: Final = 3600.0
"""How long a surprise is known after it was seen: long enough that people who look in find it."""


class SurpriseKind(StrEnum):
    """What has happened to a machine that no one had announced."""

    REBOOT = "SurpriseReboot"
    OS_CHANGE = "SurpriseOSChange"


class Surprise(msgspec.Struct, frozen=True):
    """Something that happened to a machine outside of an announced upgrade.

    ``node`` is the name and ``node_uid`` the UID of the node as it is now; ``at`` is when this process saw
    it, ``said`` says in a sentence what has changed, without names of nodes.
    """

    kind: SurpriseKind
    node: str
    node_uid: str
    at: datetime
    said: str


class KnownUpgrades(msgspec.Struct, frozen=True):
    """What this process has seen of machines and of the control plane.

    ``control_plane_since`` is since when the API server reports the version that it reports, as far as this
    process has seen; None where it is not known, or could not be read lately. ``control_plane_is_first``:
    this process has seen no other version, and no gap in which it could read none. ``surprises`` are those of
    the last SURPRISE_SECONDS, the newest first.
    """

    control_plane_since: datetime | None = None
    control_plane_is_first: bool = True
    surprises: tuple[Surprise, ...] = ()
