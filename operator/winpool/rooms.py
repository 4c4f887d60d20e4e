"""What a room is: one function, from what is seen to what it wants, with one signature for all of them.

A room knows its own concern and no other room. It gets the snapshot, the nodes that concern the pool, and
the mandate; it returns a ``RoomResult``. ``decide`` puts the results together into at most one patch for each
node. A room never sees a patch, writes nothing, and reports nothing: it says what it wants and what it
finds, and the rest follows for every room alike: release, drift, pauses, status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.ownership.goals import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from winpool.api.conditions import Reason
    from winpool.api.issues import IssueReason
    from winpool.objects.acts import Eviction
    from winpool.objects.node import Node
    from winpool.ownership.goals import Goals
    from winpool.ownership.members import Members
    from winpool.snapshot import Snapshot


class Mandate(Enum):
    """What may be done for a pool now. Rooms judge alike under all but RELEASE, where they want nothing."""

    ACT = "act"
    NOTHING = "nothing"
    """The pool is paused, or in a dry run: everything is judged and nothing is done."""
    FINISH = "finish"
    """The spec cannot be acted on: only rooms that say so (``RoomResult.finishes``) go on with what they have
    begun, and all else stays as it stands."""
    RELEASE = "release"
    """The pool is being deleted: all that it has put on nodes comes off."""


class Stage(Enum):
    """How far a node is that is not as it is to be. What each means to people: ``report.progress``."""

    WRITING = "writing"
    """A patch is due. No room says so: it follows from what they want."""
    WAITING = "waiting"
    """Something has to be known first, and will be soon."""
    VALIDATING = "validating"
    """It is written, and has to show something by itself."""
    HELD = "held"
    """The operator holds something back until a person has seen to it."""
    TIMED_OUT = "timed out"
    """It has not shown in time what it was to show."""
    DUE = "due"
    """It carries all that it is to carry and runs another Windows than it is to run: somebody else acts."""
    UNKNOWN = "unknown"
    """Nobody can tell whether it is as it is to be."""
    REFUSED = "refused"
    """The API server does not let it be written. No room says so."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Nodes that are at one stage, by their names.

    ``reason`` is that of the condition, and ``said`` a sentence about them with "{nodes}" in the place of how
    many they are; their names follow it.
    """

    stage: Stage
    nodes: Sequence[str]
    reason: Reason
    said: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, and what to do about it: one entry of ``status.issues``.

    ``nodes`` are the names of all nodes that it is about, in any order; empty where it is about the pool as a
    whole. ``message`` and ``fix`` are sentences; ``message`` names and counts no nodes, since the entry does
    so beside it. ``cause`` is what tells it from other findings of that reason for as long as it goes on: a
    release, a taint, a DaemonSet. It is not published. Where it is empty the message is the cause.
    """

    reason: IssueReason
    nodes: Sequence[str]
    message: str
    fix: str
    cause: str = ""

    @property
    def key(self) -> str:
        """What tells it from other findings of that reason."""
        return self.cause or self.message

    @property
    def text(self) -> str:
        """Message and fix."""
        return f"{self.message} {self.fix}"


@dataclass(frozen=True, slots=True)
class RoomResult:
    """What one room wants and finds.

    ``goals`` are by the UIDs of the pool's nodes; on a node that is not among them nothing of the room's is
    to stand. ``looks`` are nodes whose pods have to be looked at before the room can go on, and
    ``needs_all_pods`` asks for a look at those of all. At ``requeue_at`` time alone may change the room's
    mind. ``finishes`` says that its goals hold under the mandate FINISH.
    """

    goals: Mapping[str, Goals] = field(default_factory=lambda: NONE)
    evictions: tuple[Eviction, ...] = ()
    findings: tuple[Finding, ...] = ()
    progress: tuple[Progress, ...] = ()
    looks: tuple[Node, ...] = ()
    needs_all_pods: bool = False
    requeue_at: datetime | None = None
    finishes: bool = False


NOTHING_WANTED: Final = RoomResult()

Room = Callable[["Snapshot", "Members", Mandate], RoomResult]
