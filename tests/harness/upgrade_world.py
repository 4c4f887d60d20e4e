"""A pool with ``spec.upgrade`` and its nodes while time passes, and the passes of an operator.

It keeps apart what stands in the cluster and what is only in the memory of the operator, and speaks no HTTP.
A pass is made when something happens, when a list of all pods comes, and at the time that the last decision
names; never because some time is over. So a rule that forgets to ask for another pass never converges here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from harness.builders import CONTROL_PLANE, GUARD, NOON, Nodes, a_snapshot, a_survey, deleted, with_status
from harness.clock import Seconds
from harness.upgrade_feature import DAY, HOUR, settled_node
from harness.writes import patched
from winpool.api.conditions import ConditionType
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.status import Condition
from winpool.controllers.backoff import WriteBackoff
from winpool.decide import Decision, decide
from winpool.model.node import Node, NodePatch
from winpool.model.pods import NO_WORKLOAD, Workload
from winpool.model.pool import KnownUpgrades, Pool
from winpool.model.pressure import NOTHING_KNOWN, KnownMemory
from winpool.model.snapshot import Snapshot
from winpool.model.survey import Survey

POD_PASS: Final = timedelta(minutes=10)
"""How often all pods are listed by default."""

ASKED: Final = timedelta(seconds=20)
"""How long a list takes that someone asked for."""

PASSES: Final = 12
"""In which everything is written that is due."""

Watcher = Callable[["UpgradeWorld", NodePatch, Snapshot], None]


@dataclass
class UpgradeWorld:
    """``writes`` are all patches of nodes so far, with the time; ``watchers`` are called before each."""

    pool: Pool
    nodes: Nodes
    now: datetime = NOON
    version: str = CONTROL_PLANE
    guard: str = GUARD
    operator_node: str = ""
    workloads: dict[str, Workload] = field(default_factory=dict)
    memory: KnownMemory = NOTHING_KNOWN
    can_list: bool = True
    """Whether lists of all pods come."""
    pod_pass: timedelta = POD_PASS
    lists: int = 0
    """How many lists of all pods there were."""
    can_read: bool = True
    """Whether ``/version`` can be read."""
    writes: list[tuple[datetime, NodePatch]] = field(default_factory=list)
    watchers: list[Watcher] = field(default_factory=list)
    status_writes: int = 0

    def __post_init__(self) -> None:
        self._machines = 0
        self._clock = Seconds()
        self._survey: Survey | None = None
        self._listed_at: datetime | None = None
        self._problem = ""
        self._asked_at = self.now
        self._plane_since: datetime | None = None
        self._plane_read: datetime | None = None
        self._plane = ""
        self._plane_is_first = True
        self.decision: Decision | None = None
        self.restart()

    # What others do

    def join(self, name: str, **changes: Any) -> None:
        """A new machine takes this name, with a UID of its own; it has been Ready for an hour."""
        self._machines += 1
        node = replace(settled_node(name), uid=f"uid-{self._machines}-of-{name}")
        times: dict[str, Any] = {"created": self.now - DAY, "ready_since": self.now - HOUR}
        self.nodes[name] = replace(node, **{**times, **changes})

    def turn(self, name: str, **changes: Any) -> None:
        """Change a node as its kubelet or a person does: fields of ``Node``."""
        node = self.nodes[name]
        self._put(replace(node, resource_version=_next(node), **changes))

    def write(self, name: str, **changes: Any) -> None:
        """Patch a node as others do: ``labels``, ``annotations``, ``taints``, ``unschedulable``."""
        node = self.nodes[name]
        nothing: dict[str, Any] = {"labels": {}, "annotations": {}, "taints": None}
        self._put(patched(node, NodePatch(node=node, **(nothing | changes))))

    def edit(self, pool: Pool) -> None:
        """Change the pool: pauses are between writes for one generation."""
        self.pool, self._patience = pool, WriteBackoff(monotonic=self._clock)

    def delete(self) -> None:
        """``kubectl delete`` the pool."""
        self.edit(deleted(self.pool))

    def state(self, name: str) -> str | None:
        """Return the label of a node."""
        return self.nodes[name].labels.get(UPGRADE_STATE_LABEL)

    def condition(self, kind: ConditionType = ConditionType.UPGRADE_ALLOWED) -> Condition | None:
        """Return a condition as it stands on the pool."""
        return self.pool.status.condition(kind)

    # What the operator does

    def restart(self) -> None:
        """Lose what is only in memory; the version is read at once, the pods are not listed yet."""
        self._patience = WriteBackoff(monotonic=self._clock)
        self._survey, self._listed_at, self._problem = None, None, ""
        self._plane, self._plane_since, self._plane_read, self._plane_is_first = "", None, None, True
        self._read_version()

    def list_pods(self) -> None:
        """List all pods now, or fail to."""
        self._listed_at = self.now
        self.lists += 1
        if not self.can_list:
            self._problem = "The API server answers 500."
            return
        self._problem = ""
        found = {name: self.workloads.get(name, NO_WORKLOAD) for name in self.nodes}
        self._survey = a_survey(self.pool, self.nodes.values(), now=self.now, workloads=found)

    def snapshot(self) -> Snapshot:
        """Return what a pass sees."""
        self._read_version()
        taken = a_snapshot(
            self.pool,
            self.nodes,
            guard=self.guard,
            now=self.now,
            survey=self._survey,
            looks=(),
            pods_problem=self._problem,
            control_plane=self._plane,
        )
        known = KnownUpgrades(
            control_plane_since=self._plane_since,
            control_plane_is_first=self._plane_is_first,
        )
        return replace(
            taken,
            attempts=self._patience.attempts(self.nodes),
            upgrades=known,
            memory=self.memory,
            operator_node=self.operator_node,
        )

    def run(self) -> Decision:
        """Make a pass: decide, write, and report."""
        snapshot = self.snapshot()
        decision = decide(snapshot)
        if decision.writes.finalizers is not None:
            self.pool = replace(self.pool, finalizers=decision.writes.finalizers)
        if not decision.writes.status_first:
            for patch in decision.writes.patches:
                self._act(patch, decision, snapshot)
        reported = decide(self.snapshot())
        if not reported.keeps_status:
            after = with_status(self.pool, reported.status)
            self.status_writes += after.written_status != self.pool.written_status
            self.pool = after
        if decision.needs_pods and not (self.decision and self.decision.needs_pods):
            self._asked_at = self.now
        self.decision = decision
        return decision

    def settle(self) -> None:
        """Make passes until one writes nothing."""
        for _ in range(PASSES):
            decision = self.run()
            if not (decision.writes.patches or decision.writes.finalizers or decision.writes.status_first):
                return
        raise AssertionError("never quiet")

    def pass_time(self, span: timedelta) -> None:
        """Let time pass, with the lists of pods that come then, and the passes that someone asked for."""
        end = self.now + span
        self.settle()
        while (at := self._next_wake()) is not None and at <= end:
            self._move(max(at, self.now + timedelta(milliseconds=100)))
            if self._lists_at <= self.now:
                self.list_pods()
            self.settle()
        if end > self.now:
            self._move(end)

    def start_over(self, span: timedelta = timedelta(minutes=45)) -> None:
        """End all faults, and let so much time pass that everything is known that can be known."""
        self.can_list = self.can_read = True
        self.list_pods()
        self.pass_time(span)

    def _next_wake(self) -> datetime | None:
        assert self.decision is not None
        pause = self._patience.seconds_to_next()
        at = None if pause is None else self.now + timedelta(seconds=pause)
        wakes = [self._lists_at, self.decision.look_again, at]
        if not self.can_read or self._plane_since is None:
            wakes.append(self.now + timedelta(minutes=5))
        return min(each for each in wakes if each is not None)

    @property
    def _lists_at(self) -> datetime:
        """When all pods are listed next: from time to time, and soon where a pass asks for it."""
        if self._listed_at is None:
            return self.now
        regular = self._listed_at + self.pod_pass
        is_asked = self.can_list and self.decision is not None and self.decision.needs_pods
        return min(regular, max(self._asked_at, self._listed_at) + ASKED) if is_asked else regular

    def _move(self, at: datetime) -> None:
        self._clock.now += (at - self.now).total_seconds()
        self.now = at

    def _read_version(self) -> None:
        """Read ``/version``; what was not read for 15 minutes is not known to be unchanged."""
        if self.can_read:
            if self._plane != self.version or self._plane_since is None:
                self._plane_is_first = self._plane_is_first and self._plane_read is None
                self._plane, self._plane_since = self.version, self.now
            self._plane_read = self.now
        elif self._plane_read is None or self.now - self._plane_read > timedelta(minutes=15):
            self._plane_since, self._plane_is_first = None, self._plane_read is None

    def _act(self, patch: NodePatch, decision: Decision, snapshot: Snapshot) -> None:
        for watcher in self.watchers:
            watcher(self, patch, snapshot)
        self._patience.note_written(patch, repaired=decision.repaired.get(patch.node.name, ()))
        self.writes.append((self.now, patch))
        self._put(patched(self.nodes[patch.node.name], patch))

    def _put(self, node: Node) -> None:
        self.nodes[node.name] = node


def permits(patch: NodePatch) -> bool:
    """Whether ``patch`` gives a node the permission to be upgraded."""
    return patch.labels.get(UPGRADE_STATE_LABEL) == "Required"


def _next(node: Node) -> str:
    return str(int(node.resource_version) + 1)


def unavailable(nodes: Mapping[str, Node]) -> int:
    """Return how many nodes cannot take pods now, for whatever reason."""
    return sum(each.ready != "True" or each.unschedulable or each.deleting for each in nodes.values())
