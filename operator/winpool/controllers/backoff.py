"""Says when a write to a node or a pool may be tried again, by the outcomes of earlier writes.

``WriteBackoff`` has those of the nodes of one pool, kept in memory only: after a restart everything is tried
at once, once. ``ConflictBackoff`` has the state of a pool on which a write was a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final

import msgspec

from winpool.kube.backoff import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    Backoff,
    KeyedBackoff,
    doubled,
)
from winpool.kube.errors import ApiError, Conflict, NotFound, Unavailable
from winpool.loops import soonest
from winpool.model.node import Node, NodePatch
from winpool.model.pool import Attempts, Pool

_KEPT: Final = 50_000
"""Nodes whose failures are remembered: all of the largest cluster, ten times over."""

WHATEVER: Final = object()
"""In place of a goal: all goals."""


class NodeBackoff:
    """Which nodes of a pool have to wait for their next write, at most ``cap`` seconds.

    A pause delays the goal that it came after, and no other: what blocks one goal says nothing of the next.
    But the count is kept for the node, so that repeated repairs that follow a node from goal to goal do not
    start from zero with each goal.
    """

    def __init__(self, *, monotonic: Callable[[], float], cap: float = LONGEST_PAUSE_SECONDS) -> None:
        self._monotonic = monotonic
        self._cap = cap
        self._failures: KeyedBackoff[str] = KeyedBackoff(monotonic=monotonic, kept=_KEPT)
        # By UID each goal and when its pause ends: those that were not over at the last call of ``waiting``,
        # and those noted since. Each needs one more pass, though it may end before ``seconds_to_next`` is
        # called: a status is written in between.
        self._pauses: dict[str, list[tuple[object, float]]] = {}

    def note(self, node_uid: str, goal: object = WHATEVER) -> int:
        """Note that it has happened again, to a try at ``goal``; return how often it has lately.

        Callers make sure that not too many goals of one node are paused at the same time.
        """
        times = self._failures.note(node_uid)
        end = self._monotonic() + doubled(FIRST_PAUSE_SECONDS, times, cap=self._cap)
        others = [each for each in self._pauses.get(node_uid, ()) if each[0] != goal]
        self._pauses[node_uid] = [*others, (goal, end)]
        return times

    def forget(self, node_uid: str) -> None:
        """Forget the tries and pauses of a node."""
        self._failures.forget(node_uid)
        self._pauses.pop(node_uid, None)

    def known(self) -> frozenset[str]:
        """Return the UIDs of the nodes that failed lately."""
        return frozenset(self._failures.counts())

    def held_back(self) -> frozenset[str]:
        """Return the UIDs of the nodes that have to wait, with some goal or with all."""
        nodes, goals = self.waiting()
        return nodes | goals.keys()

    def waiting(self) -> tuple[frozenset[str], dict[str, tuple[object, ...]]]:
        """Return which nodes have to wait with any goal, and which goals of other nodes have to, by UID."""
        now = self._monotonic()
        self._failures.forget_quiet(now)
        nodes, goals = set[str](), dict[str, tuple[object, ...]]()
        for uid, pauses in tuple(self._pauses.items()):
            left = self._pauses[uid] = [each for each in pauses if each[1] > now]
            if any(goal is WHATEVER for goal, _ in left):
                nodes.add(uid)
            if not left:
                del self._pauses[uid]
            elif paused := tuple([goal for goal, _ in left if goal is not WHATEVER]):
                goals[uid] = paused
        return frozenset(nodes), goals

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a pause ends: 0 if one is over now, None where there is none.

        A pause counts until ``waiting`` or ``held_back`` is called again and does not return it any more.
        """
        ends = (end for pauses in self._pauses.values() for _, end in pauses)
        return None if (first := min(ends, default=None)) is None else max(0.0, first - self._monotonic())


class ConflictBackoff:
    """The state of one pool on which a write was a conflict (409): someone has written it since it was read.

    Its watch event wakes the pool, usually within milliseconds, and the newer state is tried at once. The
    same state is tried again only after a pause, however often nodes wake the pool meanwhile: it would most
    likely conflict once more. Where no event comes, and the same state conflicts again, all pools are listed.
    """

    def __init__(self, *, ask_for_pools: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._ask_for_pools = ask_for_pools
        self._monotonic = monotonic
        self._backoff = Backoff()
        self._version = ""
        self._until = 0.0

    def note(self, pool: Pool) -> float:
        """Note a conflict on ``pool`` as it is known; return in how many seconds to try again."""
        if self._version == pool.resource_version:
            self._ask_for_pools()
        else:
            self._backoff.reset()
        self._version = pool.resource_version
        seconds = self._backoff.next()
        self._until = self._monotonic() + seconds
        return seconds

    def seconds_to_next(self, pool: Pool) -> float | None:
        """Return in how many seconds ``pool``, as it is known, may be written again; None for now."""
        seconds = self._until - self._monotonic()
        return seconds if self._version == pool.resource_version and seconds > 0 else None


LOOK_SECONDS: Final = 0.2
"""How soon to check whether the newer state is known: it wakes no pool where no field that we ask for has
changed. The next check comes after twice the time, also after the same state has conflicted again,
so that a dead watch costs a few checks and not hundreds, however many nodes it concerns."""


class _Conflict(msgspec.Struct, frozen=True):
    version: str
    since: float


class Conflicts:
    """The nodes of one pool that someone else wrote after we had read them (409, 404).

    That is not an error: once the newer state is known, the next try follows at once. Until then another
    try would fail like the last, so it waits, and longer each time. The watch brings the newer state
    within milliseconds. If a second try fails as well, the watch has missed a change.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pacer = NodeBackoff(monotonic=monotonic)
        self._nodes: dict[str, _Conflict] = {}

    def note(self, node: Node) -> int:
        """Note a conflict on ``node``, as it is known; return how many there were on this state."""
        known = self._nodes.get(node.uid)
        if known is None or known.version != node.resource_version:
            self._pacer.forget(node.uid)
            self._nodes[node.uid] = _Conflict(node.resource_version, self._monotonic())
        return self._pacer.note(node.uid)

    def forget(self, uid: str) -> None:
        """Note that the node has been written."""
        self._nodes.pop(uid, None)
        self._pacer.forget(uid)

    def held_back(self, nodes: Mapping[str, Node]) -> frozenset[str]:
        """Return the UIDs of those that have to wait. ``nodes`` are all that are known, by name."""
        if not self._nodes:
            return frozenset()
        versions = {node.uid: node.resource_version for node in nodes.values() if node.uid in self._nodes}
        for uid, each in tuple(self._nodes.items()):
            if versions.get(uid) != each.version:
                self.forget(uid)
        return self._pacer.held_back()

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds one may be written, or is to be checked again; None where none waits."""
        seconds = self._pacer.seconds_to_next()
        if seconds is None:
            return None
        passed = self._monotonic() - max(each.since for each in self._nodes.values())
        return min(seconds, max(LOOK_SECONDS, passed))


FREE_CHANGES: Final = 32
"""Changes of the goal of one node that are written at once, each within ten minutes of the one before. Twice
the thirteen states that a node has in an OS upgrade, and some for what changes meanwhile. A node can cost the
API server as many writes in a burst; after that they come at the pace of repeated repairs."""


class GoalHistory:
    """What was tried on each node of one pool, and what our last write set there, by the UIDs of the nodes.

    A repeat is recognized by these; a goal is only compared. A node whose goal changes is written at once,
    and a goal may follow what the node's own kubelet reports, such as the label of its Windows revision. So
    goals can change at any rate, and only so many changes are without a pause (P7).

    ``written_nodes`` counts the nodes that were ever written, including those that are forgotten.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._tried: dict[str, object] = {}
        self._written: dict[str, object] = {}
        self.written_nodes = 0
        self._changes = KeyedBackoff[str](monotonic=monotonic, kept=_KEPT)

    def __len__(self) -> int:
        """Return how many nodes are known."""
        return len(self._tried)

    def note_tried(self, node_uid: str, goal: object, *, is_free: bool = False) -> bool:
        """Note a try, whatever its outcome; return whether the free changes of that node are used up.

        One that ``is_free`` uses up none.
        """
        if node_uid in self._tried and self._tried[node_uid] != goal and not is_free:
            self._changes.note(node_uid)
        self._tried[node_uid] = goal
        return self._changes.times(node_uid) > FREE_CHANGES

    def note_written(self, node_uid: str, goal: object) -> bool:
        """Note a write that was carried out; return whether it was for the goal of the one before."""
        self.written_nodes += node_uid not in self._written
        is_repeat = node_uid in self._written and self._written[node_uid] == goal
        self._written[node_uid] = goal
        return is_repeat

    def written(self) -> dict[str, object]:
        """Return the goal of the last write to each node that was carried out."""
        return self._written.copy()

    def forget_all_but(self, node_uids: Collection[str]) -> None:
        """Forget the nodes that are gone."""
        self._tried = {uid: goal for uid, goal in self._tried.items() if uid in node_uids}
        self._written = {uid: goal for uid, goal in self._written.items() if uid in node_uids}
        for gone in self._changes.counts().keys() - set(node_uids):
            self._changes.forget(gone)


LONGEST_AFTER_FAILURE_SECONDS: Final = 30.0
"""As long as the longest pause of a pool whose API server is out of order. One node does not wait longer."""

CONFLICTS_BEFORE_LIST: Final = 2
"""After so many conflicts on the same state, the watch does not bring the next state."""

CONFLICTS_BEFORE_TELLING: Final = 4
"""By then all nodes have been listed, and the state is still the same: this is not a conflict, but a
refusal."""

FAILURES_BEFORE_TELLING: Final = 3
"""A short failure of etcd ends within these tries, which take six seconds; a broken webhook does not."""


REPAIRS_BEFORE_TELLING: Final = 3
"""Repairs of one node within ten minutes. One or two may be accidents; with the third, someone keeps undoing
what the pool sets."""


class Advice(Enum):
    """What follows from a write that was not carried out, beside another try."""

    WAIT = "wait"
    TELL = "tell"
    """It has to be reported, and was not yet."""
    LIST = "list"
    """The watch has missed a change: list all nodes."""


class WriteBackoff:
    """The outcome of the last writes to the nodes of one pool, for one generation of its spec.

    - *Written again* for the same goal: someone undid what we wrote. The first repair is immediate, and each
      repeat comes after a longer pause: repairs without one would only load the API server. A write for
      another goal is no repeat, not even for an earlier one: A, B and A again are three goals.
    - *Refused* (422, or 403 by a policy): the API server does not accept it, and probably will not soon.
    - *Failed* (500 for single nodes): usually a webhook, or a short failure of etcd; it may soon be over.
    - *Conflict* (409, 404): see ``Conflicts``.

    The first three delay a node with the goal that was tried. Another goal is written at once, as long as
    the node has free changes left, see ``GoalHistory``. After that each write counts as a repeat, and the
    node waits with every goal. After a conflict it also waits with every goal: a conflict concerns the known
    state of the node.

    ``is_from_start`` says that no other process has written nodes for that generation.
    """

    def __init__(self, *, monotonic: Callable[[], float], is_from_start: bool = False) -> None:
        self._monotonic = monotonic
        self._is_from_start = is_from_start
        self._repeats = NodeBackoff(monotonic=monotonic)
        self._repairs = KeyedBackoff[str](monotonic=monotonic, kept=_KEPT)
        self._refusals = NodeBackoff(monotonic=monotonic)
        self._failures = NodeBackoff(monotonic=monotonic, cap=LONGEST_AFTER_FAILURE_SECONDS)
        self._conflicts = Conflicts(monotonic=monotonic)
        self._goals = GoalHistory(monotonic=monotonic)
        self._refused: dict[str, str] = {}
        self._repaired: dict[str, tuple[str, ...]] = {}

    @property
    def _contested(self) -> dict[str, tuple[str, ...]]:
        """What someone keeps undoing on a node, in the words of kubectl, by the UIDs of the nodes."""
        times = self._repairs.counts()
        self._repaired = {uid: what for uid, what in self._repaired.items() if uid in times}
        return {uid: what for uid, what in self._repaired.items() if times[uid] >= REPAIRS_BEFORE_TELLING}

    def is_refused(self, node: Node) -> bool:
        """Whether the API server refuses writes to ``node``, as far as is known."""
        return node.uid in self._refused

    @property
    def failing(self) -> frozenset[str]:
        """The UIDs of nodes whose writes failed lately: others come first."""
        return self._refusals.known() | self._failures.known()

    def note_written(self, patch: NodePatch, *, repaired: tuple[str, ...] = ()) -> None:
        """Note a write that was carried out; ``repaired``: what it restored that someone had undone.

        A second write for the same goal is a repeat, whatever was undone. What was undone may be the
        ownership record, without which no drift can be recognized.
        """
        node = patch.node
        goal, is_restless = self._paused_by(patch)
        is_repeat = self._goals.note_written(node.uid, patch.goal)
        self._refused.pop(node.uid, None)
        self._conflicts.forget(node.uid)
        self._refusals.forget(node.uid)
        self._failures.forget(node.uid)
        if repaired or is_repeat or is_restless:
            self._repeats.note(node.uid, goal)
        if repaired:
            self._repairs.note(node.uid)
            self._repaired[node.uid] = repaired

    def note_stopped(self, patch: NodePatch, error: ApiError) -> Advice:
        """Note a write that was not carried out."""
        node = patch.node
        if isinstance(error, Conflict | NotFound):
            tries = self._conflicts.note(node)
            if tries == 1:
                self._refused.pop(node.uid, None)
            if tries >= CONFLICTS_BEFORE_TELLING:
                return self._refuse(node, error)
            return Advice.LIST if tries >= CONFLICTS_BEFORE_LIST else Advice.WAIT
        goal, _ = self._paused_by(patch)
        if isinstance(error, Unavailable):
            tries = self._failures.note(node.uid, goal)
            return self._refuse(node, error) if tries >= FAILURES_BEFORE_TELLING else Advice.WAIT
        self._refusals.note(node.uid, goal)
        return self._refuse(node, error)

    def attempts(self, nodes: Mapping[str, Node], *, written_generation: int = 0) -> Attempts:
        """Return what a pass needs. ``nodes`` are all that are known, by name; the others are forgotten."""
        if len(self._goals) + len(self._refused) > 2 * len(nodes):  # machines come and go for years
            known = {node.uid for node in nodes.values()}
            self._goals.forget_all_but(known)
            self._refused = {uid: why for uid, why in self._refused.items() if uid in known}
        conflicting = waiting_nodes = self._conflicts.held_back(nodes)
        waiting = dict[str, tuple[object, ...]]()
        for pacer in (self._repeats, self._refusals, self._failures):
            paused_nodes, paused = pacer.waiting()
            waiting_nodes |= paused_nodes
            for uid in waiting.keys() & paused.keys():
                paused[uid] += waiting[uid]
            waiting |= paused
        return Attempts(
            waiting=waiting,
            waiting_nodes=waiting_nodes,
            refused=self._refused.copy(),
            contested=self._contested,
            conflicting=conflicting,
            written=self._goals.written(),
            written_generation=written_generation,
            written_nodes=self._goals.written_nodes,
            is_from_start=self._is_from_start,
        )

    def seconds_to_newer_state(self) -> float | None:
        """Return in how many seconds to check for the newer state of nodes with a conflict; None for none.

        The time between two such checks grows.
        """
        return self._conflicts.seconds_to_next()

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a node that has to wait may be tried again; None where none waits.

        This includes nodes that someone contests, for the moment at which that ends.
        """
        kinds = (self._repeats, self._refusals, self._failures, self._conflicts)
        quiet = map(self._repairs.seconds_to_quiet, self._contested)
        return soonest(*(kind.seconds_to_next() for kind in kinds), *quiet)

    def _paused_by(self, patch: NodePatch) -> tuple[object, bool]:
        """Return which goal a pause after this try delays, and whether the goals of the node flap."""
        is_free = patch.only_takes_permission
        is_restless = self._goals.note_tried(patch.node.uid, patch.goal, is_free=is_free) and not is_free
        return (WHATEVER if is_restless else patch.goal), is_restless

    def _refuse(self, node: Node, error: ApiError) -> Advice:
        is_news = node.uid not in self._refused
        self._refused[node.uid] = error.message
        return Advice.TELL if is_news else Advice.WAIT
