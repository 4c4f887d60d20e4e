"""The frozen picture that a pass decides on: nodes, a pool, the time.

Records only: no I/O, no clock, no rules. ``cluster/`` makes them from what the API
server says, the pure rooms read them, ``control/`` carries them from one to the other.
A node is kept as the few fields that a rule asks for, so that a heartbeat, which changes
none of them, compares equal and wakes nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.api.v1alpha1 import WindowsNodePoolSpec, WindowsNodePoolStatus
    from winpool.support.matrix import Matrix
    from winpool.support.rows import Row
    from winpool.survey import Survey

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint as it stands on a node, all of it: the list is sent back whole (it is atomic).

    ``time_added`` is the RFC 3339 text of the API server; a taint that we add has none.
    """

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """Key and effect: what the API server requires to be unique within a node."""
        return (self.key, self.effect)


@dataclass(frozen=True, slots=True)
class NodeVersions:
    """What a node says it runs, in its own words (``status.nodeInfo``); empty where it does not say.

    ``kernel`` is ``10.0.20348.4052`` on Windows, ``runtime`` is like ``containerd://2.1.4``.
    """

    kernel: str = ""
    kubelet: str = ""
    runtime: str = ""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What a node says of its memory, in bytes; None where it does not say, or cannot be read.

    What its kubelet holds back from pods is the difference.
    """

    capacity: int | None = None
    allocatable: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A Windows node as the API server last reported it.

    ``ready`` is the status of its Ready condition ("True", "False", "Unknown"), or "Unknown" where the
    condition is absent, ``ready_since`` when that status began by the kubelet's clock. ``created`` is the
    API server's time of creation. Times that cannot be read are None. ``annotations`` holds only those
    under ``winpool.dev/``. ``resource_version`` is the server's own text. ``memo`` is for what a rule reads
    from this node alone and would read again in every pass.
    """

    name: str
    uid: str
    resource_version: str = field(compare=False)
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: str
    deleting: bool = False
    versions: NodeVersions = NodeVersions()
    created: datetime | None = None
    ready_since: datetime | None = None
    memory: NodeMemory = NodeMemory()
    memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NodePatch:
    """The one merge patch that a pass sends to a node.

    It carries the resourceVersion of ``node``, so that it fails with 409 rather than
    overwrite what somebody wrote meanwhile. None as a label or annotation value removes
    the key; ``taints`` is the whole list to stand on the node, None leaves it alone.
    """

    node: Node
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    taints: tuple[Taint, ...] | None


@dataclass(frozen=True, slots=True)
class Keys:
    """Labels by their keys, and taints by key and effect."""

    labels: frozenset[str] = frozenset()
    taints: frozenset[tuple[str, str]] = frozenset()

    def __or__(self, other: Keys) -> Keys:
        """Return those of both."""
        return Keys(self.labels | other.labels, self.taints | other.taints)

    def __sub__(self, other: Keys) -> Keys:
        """Return those that ``other`` has not."""
        return Keys(self.labels - other.labels, self.taints - other.taints)

    def __and__(self, other: Keys) -> Keys:
        """Return those that both have."""
        return Keys(self.labels & other.labels, self.taints & other.taints)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.labels or self.taints)

    @property
    def count(self) -> int:
        """How many there are of both."""
        return len(self.labels) + len(self.taints)


NO_KEYS: Final = Keys()


@dataclass(frozen=True, slots=True)
class Pool:
    """A WindowsNodePool as the API server last reported it.

    ``spec`` is None where the operator cannot read it, and ``refusal`` then says why, for people.
    ``status`` is what stands on the object, and ``written_status`` the same as it was written: they
    are continued and compared, and trusted for one thing about nodes: ``set_keys``. Where it cannot be read,
    ``status_problem`` says why and ``status`` is empty, but that is not what stands there: nothing that goes
    by the status is done until it has been written anew.
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
        """What orders pools that ask for the same free node: age, then name."""
        return (self.created or _NEVER, self.name)


@dataclass(frozen=True, slots=True)
class LookProblem:
    """Why the last look at the pods of one node failed, for people; ``lasts`` says that it will again."""

    message: str
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a pass of one pool decides on.

    ``nodes`` are all Windows nodes, ``rivals`` all other pools, so that two that select the same
    node come to the same answer about whose it is. ``vanished_pools`` are UIDs that name no pool
    any more, known from two complete lists; a UID that is merely unknown is not among them (P4).
    ``held_back`` are UIDs of nodes that are not to be written now, though something may be due;
    ``refused`` says, by UID, why the API server did not let us write a node when we last tried.
    ``written_generation`` is the generation of the spec for which nodes were last written, 0 where
    that is not known. ``missing_permission`` says which right the API server says we lack, empty where
    we lack none. ``control_plane`` is the version of the API server in its own words, empty where not known.
    ``survey`` is what the last look at all pods found about this pool, None where there was none yet, and
    ``pods_problem`` why there is none newer, for people; ``pods_forbidden`` which right is missing to look.
    ``looks`` are the own looks at single nodes since, by the name of the node, and ``look_problems`` says, by
    UID, why the last one at a node failed. ``bare_since`` says, by UID,
    since when a node has been seen to lack the NoExecute taints that it lacks, in the monotonic seconds of
    ``Survey.began``. ``contested`` says, by UID, what of a node somebody keeps undoing.
    ``matrix`` is the built-in support matrix, ``cluster_rows`` what the operator's settings put on top of it.
    ``seen_pools`` are the keys that pools have set, by their UIDs: of those that this process has seen, gone
    or not, and that records name.
    ``guard`` identifies the admission policy that keeps kubelets from writing our keys, empty where none is
    in force, and ``guard_problem`` then says why not, for people; ``guard_is_unknown`` that it
    may be in force all the same, and cannot be looked at now.
    """

    pool: Pool
    nodes: tuple[Node, ...]
    rivals: tuple[Pool, ...]
    vanished_pools: frozenset[str]
    now: datetime
    held_back: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    written_generation: int = 0
    missing_permission: str = ""
    control_plane: str = ""
    survey: Survey | None = None
    pods_problem: str = ""
    pods_forbidden: str = ""
    looks: Mapping[str, Survey] = field(default_factory=dict)
    look_problems: Mapping[str, LookProblem] = field(default_factory=dict)
    bare_since: Mapping[str, float] = field(default_factory=dict)
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    matrix: Matrix = field(default_factory=built_in)
    cluster_rows: tuple[Row, ...] = ()
    seen_pools: Mapping[str, Keys] = field(default_factory=dict)
    guard: str = ""
    guard_problem: str = ""
    guard_is_unknown: bool = False
