"""When a write may be tried again, by the outcomes of earlier tries: back-off per node, per pool and per pod.

How often something has happened to nodes lately. After ten quiet minutes the count starts at zero.

Pauses that grow: the second try is after 2 seconds, then 4, 8 … 300; ten quiet minutes reset them.

They are made for repairs: the first of a node is immediate. If it is needed again, someone else undoes it,
and repairs without a pause would only load the API server.

A pause delays the goal that it came after, and no other: what blocks one goal says nothing of the next. But
the count is kept for the node, so that repeated repairs that follow a node from goal to goal do not start
from zero with each goal.

Writes to a pool that were conflicts (409): someone has written it since it was read.

Its watch event wakes the pool, usually within milliseconds, and the newer state is tried at once. The same
state is tried again only after a pause, however often nodes wake the pool meanwhile: it would most likely
conflict once more. Where no event comes, and the same state conflicts again, all pools are listed.

Nodes that someone else wrote after we had read them (409, 404): when to try again.

That is not an error: once the newer state is known, the next try follows at once. Until then another
try would fail like the last, so it waits, and longer each time. The watch brings the newer state
within milliseconds. If a second try fails as well, the watch has missed a change.

What was tried on each node, and what our last write set there. A repeat is recognized by these.

A node whose goal changes is written at once, and a goal may follow what the node's own kubelet reports, such
as the label of its Windows revision. So goals can change at any rate, and only so many changes are without a
pause (P7).

When a node may be written again, by the outcome of the last write.

- *Written again* for the same goal: someone undid what we wrote. Each repeat comes after a longer pause. A
  write for another goal is no repeat, not even for an earlier one: A, B and A again are three goals.
- *Refused* (422, or 403 by a policy): the API server does not accept it, and probably will not soon.
- *Failed* (500 for single nodes): usually a webhook, or a short failure of etcd; it may soon be over.
- *Conflict* (409, 404): see ``conflicts``.

The first three delay a node with the goal that was tried. Another goal is written at once, as long as the
node has free changes left, see ``goal_history``. After that each write counts as a repeat, and the node waits
with every goal. After a conflict it also waits with every goal: a conflict concerns the known state of the
node.

Kept in memory only: after a restart everything is tried at once, once.

Pauses between two tries of one act, which grow as those of ``Pacer`` do.

Three things differ from ``Pacer``: the API server may ask for more time, each object has its own pause, and
the number of pauses has a limit, since pods come and go by the thousand.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from winpool.api.keys import APPLIED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.upgrade import UpgradeState
from winpool.kube.backoff import Backoff
from winpool.kube.errors import ApiError, Conflict, NotFound, Unavailable
from winpool.model.node import Node, NodePatch
from winpool.model.pool import Attempts, Pool

QUIET_SECONDS: Final = 600.0
"""Longer than the longest pause. Otherwise repeated repairs at that pace would not count as repeated."""

MOST_TIMES: Final = 9
"""2 ** 8 seconds is the last step below the longest pause; counting on would only grow a number."""


@dataclass(frozen=True, slots=True)
class _History:
    times: int
    last: float


class Recurrence:
    """Counts one kind of happening by the UIDs of nodes, each up to ``most``."""

    def __init__(self, *, monotonic: Callable[[], float], most: int = MOST_TIMES) -> None:
        self._monotonic = monotonic
        self._most = most
        self._histories: dict[str, _History] = {}

    def note(self, node_uid: str) -> int:
        """Note that it has happened again; return how often it has."""
        now = self._monotonic()
        before = self._histories.get(node_uid)
        is_quiet = before is None or now - before.last >= QUIET_SECONDS
        times = 1 if before is None or is_quiet else min(before.times + 1, self._most)
        self._histories[node_uid] = _History(times, now)
        return times

    def forget(self, node_uid: str) -> None:
        """Forget the count of a node."""
        self._histories.pop(node_uid, None)

    def known(self) -> frozenset[str]:
        """Return the UIDs of the nodes that are not forgotten yet."""
        return frozenset(self._histories)

    def times_of(self, node_uid: str) -> int:
        """Return how often it has happened to that node lately."""
        history = self._histories.get(node_uid)
        return history.times if history and self._monotonic() - history.last < QUIET_SECONDS else 0

    def times(self) -> dict[str, int]:
        """Return how often it has happened lately, by the UIDs of the nodes that it happened to."""
        self.forget_the_quiet(self._monotonic())
        return {uid: history.times for uid, history in self._histories.items()}

    def seconds_to_quiet(self, node_uid: str) -> float:
        """Return in how many seconds that node is forgotten, if nothing happens."""
        history = self._histories.get(node_uid)
        return max(0.0, history.last + QUIET_SECONDS - self._monotonic()) if history else 0.0

    def forget_the_quiet(self, now: float) -> None:
        """Forget the nodes without a happening for QUIET_SECONDS: machines come and go for years (P7)."""
        loud = {uid: each for uid, each in self._histories.items() if now - each.last < QUIET_SECONDS}
        self._histories = loud


FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 300.0

WHATEVER: Final = object()
"""In place of a goal: all goals."""


@dataclass(frozen=True, slots=True)
class _Pauses:
    """The pauses of one node. The one that ends first comes first: a later one is never shorter."""

    goals: tuple[object, ...]
    ends: tuple[float, ...]


class Pacer:
    """Which nodes of a pool have to wait for their next write, at most ``longest`` seconds."""

    def __init__(self, *, monotonic: Callable[[], float], longest: float = LONGEST_PAUSE_SECONDS) -> None:
        self._monotonic = monotonic
        self._longest = longest
        self._recurrence = Recurrence(monotonic=monotonic)
        # Pauses that were not over at the last call of ``waiting`` or ``held_back``, and those noted since.
        # Each needs one more pass, though it may end before ``seconds_to_next`` is called: a status is
        # written in between.
        self._of_nodes: dict[str, float] = {}
        self._of_goals: dict[str, _Pauses] = {}

    def note(self, node_uid: str, goal: object = WHATEVER) -> int:
        """Note that it has happened again, to a try at ``goal``; return how often it has, up to nine.

        Callers make sure that not too many goals of one node are paused at the same time.
        """
        times = self._recurrence.note(node_uid)
        end = self._monotonic() + min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 1), self._longest)
        if goal is WHATEVER:
            self._of_nodes[node_uid] = end
        else:
            before = self._of_goals.get(node_uid)
            others = [each for each in _each(before) if each[0] != goal] if before else ()
            self._of_goals[node_uid] = _pauses((*others, (goal, end)))
        return times

    def forget(self, node_uid: str) -> None:
        """Forget the tries and pauses of a node."""
        self._recurrence.forget(node_uid)
        self._of_nodes.pop(node_uid, None)
        self._of_goals.pop(node_uid, None)

    def known(self) -> frozenset[str]:
        """Return the UIDs of the nodes that are not forgotten yet."""
        return self._recurrence.known()

    def held_back(self) -> frozenset[str]:
        """Return the UIDs of the nodes that have to wait, with some goal or with all."""
        nodes, goals = self.waiting()
        return nodes | goals.keys()

    def waiting(self) -> tuple[frozenset[str], dict[str, tuple[object, ...]]]:
        """Return which nodes have to wait with any goal, and which goals of other nodes have to, by UID."""
        now = self._monotonic()
        self._recurrence.forget_the_quiet(now)
        self._of_nodes = {uid: end for uid, end in self._of_nodes.items() if end > now}
        for uid in [uid for uid, pauses in self._of_goals.items() if pauses.ends[0] <= now]:
            if left := [each for each in _each(self._of_goals[uid]) if each[1] > now]:
                self._of_goals[uid] = _pauses(left)
            else:
                del self._of_goals[uid]
        return frozenset(self._of_nodes), {uid: pauses.goals for uid, pauses in self._of_goals.items()}

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a pause ends: 0 if one is over now, None where there is none.

        A pause counts until ``waiting`` or ``held_back`` is called again and does not return it any more.
        """
        now = self._monotonic()
        of_goals = (pauses.ends[0] for pauses in self._of_goals.values())
        return min((max(0.0, end - now) for end in (*self._of_nodes.values(), *of_goals)), default=None)


def _each(pauses: _Pauses) -> Iterator[tuple[object, float]]:
    return zip(pauses.goals, pauses.ends, strict=True)


def _pauses(found: Iterable[tuple[object, float]]) -> _Pauses:
    goals, ends = zip(*found, strict=True)
    return _Pauses(goals, ends)


class Overtaken:
    """The state of one pool on which a write was a conflict."""

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


@dataclass(frozen=True, slots=True)
class _Conflict:
    version: str
    since: float


class Conflicts:
    """The nodes of one pool whose last write was a conflict."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pacer = Pacer(monotonic=monotonic)
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


_PERMISSIONS: Final = (UpgradeState.REQUIRED, UpgradeState.GATED)


def is_permission_alone(patch: NodePatch) -> bool:
    """Whether ``patch`` gives or withdraws the permission to upgrade a node, and changes nothing else.

    The room of upgrades itself gives it at most once a minute, and a rollout of a pool changes it on every
    node, twice for each node that is upgraded. A pause would leave a permission where it does not hold.
    """
    return (
        patch.labels.keys() == {UPGRADE_STATE_LABEL}
        and patch.labels[UPGRADE_STATE_LABEL] in _PERMISSIONS
        and patch.node.labels.get(UPGRADE_STATE_LABEL) in _PERMISSIONS
        and patch.annotations.keys() <= {APPLIED_ANNOTATION}
        and patch.taints is None
        and patch.unschedulable is None
    )


class GoalHistory:
    """The goals of the nodes of one pool, by their UIDs. A goal is only compared.

    ``written_nodes`` counts the nodes that were ever written, including those that are forgotten.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._tried: dict[str, object] = {}
        self._written: dict[str, object] = {}
        self.written_nodes = 0
        self._changes = Recurrence(monotonic=monotonic, most=FREE_CHANGES + 1)

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
        return self._changes.times_of(node_uid) > FREE_CHANGES

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
        for gone in self._changes.known().difference(node_uids):
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


class Patience:
    """The outcome of the last writes to the nodes of one pool, for one generation of its spec.

    ``is_from_start`` says that no other process has written nodes for that generation.
    """

    def __init__(self, *, monotonic: Callable[[], float], is_from_start: bool = False) -> None:
        self._is_from_start = is_from_start
        self._repeats = Pacer(monotonic=monotonic)
        self._repairs = Recurrence(monotonic=monotonic)
        self._refusals = Pacer(monotonic=monotonic)
        self._failures = Pacer(monotonic=monotonic, longest=LONGEST_AFTER_FAILURE_SECONDS)
        self._conflicts = Conflicts(monotonic=monotonic)
        self._goals = GoalHistory(monotonic=monotonic)
        self._refused: dict[str, str] = {}
        self._repaired: dict[str, tuple[str, ...]] = {}

    @property
    def _contested(self) -> dict[str, tuple[str, ...]]:
        """What someone keeps undoing on a node, in the words of kubectl, by the UIDs of the nodes."""
        times = self._repairs.times()
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
        waiting_nodes, waiting = self._conflicts.held_back(nodes), dict[str, tuple[object, ...]]()
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
        waits = [wait for kind in kinds if (wait := kind.seconds_to_next()) is not None]
        return min((*waits, *map(self._repairs.seconds_to_quiet, self._contested)), default=None)

    def _paused_by(self, patch: NodePatch) -> tuple[object, bool]:
        """Return which goal a pause after this try delays, and whether the goals of the node flap."""
        is_restless = self._goals.note_tried(patch.node.uid, patch.goal, is_free=is_permission_alone(patch))
        return (WHATEVER if is_restless else patch.goal), is_restless

    def _refuse(self, node: Node, error: ApiError) -> Advice:
        is_news = node.uid not in self._refused
        self._refused[node.uid] = error.message
        return Advice.TELL if is_news else Advice.WAIT


KeyT = TypeVar("KeyT", bound="Hashable")

KEPT: Final = 4096
"""Bound of memory, some 300 bytes each. Beyond it, the one noted longest ago is forgotten; at worst it is
tried once more."""

_MOST_TIMES: Final = 9
"""2 ** 8 seconds is the last step below the longest pause; counting on would only grow a number."""


@dataclass(frozen=True, slots=True)
class _Pause:
    times: int
    began: float
    due: float


class Pauses(Generic[KeyT]):
    """What has to wait, by a key; ``longest`` is the longest pause of our own, in seconds."""

    def __init__(self, *, monotonic: Callable[[], float], longest: float) -> None:
        self._monotonic = monotonic
        self._longest = longest
        self._pauses: OrderedDict[KeyT, _Pause] = OrderedDict()

    def note(self, key: KeyT, *, at_least: float = 0.0) -> int:
        """Note a try without success; return how many there were lately.

        The next try waits ``at_least`` so many seconds, up to LONGEST_PAUSE_SECONDS.
        """
        now = self._monotonic()
        before = self._pauses.pop(key, None)
        if before and now - before.began >= QUIET_SECONDS:
            before = None
        times = min(before.times + 1, _MOST_TIMES) if before else 1
        ours = min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 1), self._longest)
        due = now + max(ours, min(at_least, LONGEST_PAUSE_SECONDS))
        self._pauses[key] = _Pause(times, began=now, due=due)
        if len(self._pauses) > KEPT:
            self._pauses.popitem(last=False)
        return times

    def forget(self, key: KeyT) -> None:
        """Forget the tries and the pause of one."""
        self._pauses.pop(key, None)

    def has_to_wait(self, key: KeyT) -> bool:
        """Whether the pause of that one is not over."""
        pause = self._pauses.get(key)
        return pause is not None and pause.due > self._monotonic()

    def waiting(self) -> frozenset[KeyT]:
        """Return all that have to wait."""
        now = self._monotonic()
        return frozenset(key for key, pause in self._pauses.items() if pause.due > now)

    def seconds_to_next(self, wanted: Iterable[KeyT]) -> float | None:
        """Return in how many seconds one of ``wanted`` may be tried again: 0 for now, None if none waits.

        One whose pause is over counts until it is tried.
        """
        now = self._monotonic()
        pauses = (self._pauses.get(key) for key in wanted)
        return min((max(0.0, pause.due - now) for pause in pauses if pause), default=None)
