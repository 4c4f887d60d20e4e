"""Pools whose nodes are upgraded while everything goes wrong, by operators whose news are late.

``Cluster`` has what stands: nodes and the pool with their resourceVersions, pods, volumes, and evictions that
are under way. An ``Operator`` decides on what it has seen, at most LATE ago: a write that does not name the
newest state fails. ``Promises`` judges each write by what stands, and never by the code that is tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from harness.builders import GUARD, NOON, RED, Nodes, a_snapshot, a_survey, with_status
from harness.clock import Seconds
from harness.evicting import a_pod
from harness.rollout_world import CONDITIONS, THEIRS, goes, replace_pod, rolling_pool
from harness.upgrade_feature import DAY, HOUR, settled_node
from harness.writes import patched
from winpool.api.keys import (
    AKS_UPGRADE_STATUS_LABEL,
    BORROWED_ANNOTATIONS,
    PREFIX,
    UPGRADE_DONE_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.api.spec import Mode
from winpool.controllers.backoff import WriteBackoff
from winpool.controllers.services import Interruptions
from winpool.decide import Decision, decide
from winpool.features.upgrade.claims import (
    BEFORE_HAND_OVER,
    ENDED_BADLY,
    HANDED_OVER,
    IN_WORK,
    Claim,
    Done,
    Unreadable,
    claim_of,
    read,
)
from winpool.model.budgets import BudgetRoom
from winpool.model.node import ConditionsPatch, Eviction, Node, NodePatch, NodeVersions, is_available, is_held
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods
from winpool.model.pods import NO_WORKLOAD, Pod
from winpool.model.pool import GuardState, KnownUpgrades
from winpool.model.rollout import Attachments, Controller, KnownRollout, Workloads, mark_of
from winpool.model.snapshot import Snapshot
from winpool.model.survey import Survey
from winpool.ownership.record import Record, record_of

LATE: Final = timedelta(seconds=14)
"""How old what an operator knows may be."""

ATTACHMENTS: Final = timedelta(seconds=10)
"""Between two lists of attached volumes."""

GONE: Final = "gone"
WEB: Final = Controller("ReplicaSet", "shop/web", "uid-of-web", wanted=100, ready=100)
BUDGET: Final = "shop/web"
TOPOLOGY: Final = "topology.kubernetes.io/zone"
REFUSED: Final = "2099"
VETO: Final = {AKS_UPGRADE_STATUS_LABEL: "paused"}
"""A release that there is not, so that the spec is not accepted."""

NEXT: Final[Mapping[str, frozenset[str]]] = {
    "Claimed": frozenset({"Draining", GONE}),
    "Draining": frozenset({"Drained", "DrainBlocked", "Quarantined", GONE}),
    "DrainBlocked": frozenset({"Drained", "Quarantined", GONE}),
    "Drained": frozenset({"Draining", "DrainBlocked", "Upgrading", GONE}),
    "Upgrading": frozenset({"Rejoining", "Failed"}),
    "Rejoining": frozenset({"Validating", "Failed"}),
    "Validating": frozenset({"Soaking", "Failed"}),
    "Soaking": frozenset({"UpToDate", "Failed"}),
    "Failed": frozenset({"Validating", "Claimed"}),
    "Quarantined": frozenset({"Claimed", "Validating"}),
    GONE: frozenset({"Claimed", "Quarantined"}),
}
"""The table of states of the issue."""


class KilledError(Exception):
    """The operator was killed at this point."""


def kernel(revision: int) -> NodeVersions:
    """Return what a node reports that runs ``revision``."""
    return NodeVersions(kernel=f"10.0.20348.{revision}", kubelet="v1.36.3", runtime="containerd://2.3.0")


def revision_of(node: Node) -> int:
    """Return the revision that a node reports."""
    return int(node.versions.kernel.rpartition(".")[2])


def is_selected(node: Node) -> bool:
    """Whether the pool selects a node."""
    return RED.items() <= node.labels.items()


def state_of(node: Node) -> str:
    """Return how far the annotation says the upgrade is; GONE without one."""
    found = claim_of(node)
    if isinstance(found, Claim):
        return found.state
    return "UpToDate" if isinstance(found, Done) else GONE


@dataclass(eq=False)
class Cluster:
    """The API server, the machines, and what runs there."""

    chance: Random
    number: int
    upgrade: Mapping[str, Any]
    validation: Mapping[str, Any]
    now: datetime = NOON
    nodes: Nodes = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    ends: dict[str, datetime | None] = field(default_factory=dict)
    """When each pod that is being deleted has ended; None for one that is stuck."""
    absent: dict[str, datetime] = field(default_factory=dict)
    """When each pod that was evicted is Ready again elsewhere."""
    volumes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Each volume with its node and its pod."""
    is_closed: bool = False
    """Whether the budget lets no pod go."""
    writers: dict[str, Operator] = field(default_factory=dict)
    """Who wrote the conditions of each node last, by its UID."""
    guard: GuardState = field(default_factory=lambda: GuardState(identity=GUARD))
    can_list: bool = True
    tolerant: bool = False
    """Whether pods come that tolerate a cordon."""
    machines: dict[str, tuple[datetime, int]] = field(default_factory=dict)
    """Of the machines that restart or are replaced: when they are Ready, and with which revision."""
    leaving: dict[str, datetime] = field(default_factory=dict)
    """When nodes are deleted whose machines have a successor of another name already."""

    def __post_init__(self) -> None:
        self.clock = Seconds()
        self.made = 0
        self.asked_at = self.now
        self.pool = rolling_pool(self.upgrade, more={"validation": dict(self.validation)})
        self.promises = Promises(self)
        self.evictions: list[tuple[Operator, int, Eviction]] = []
        for place in range(1, self.number + 1):
            self.join(f"w{place}", 4052)
            self.fill(f"w{place}", self.chance.randint(0, 2))

    # Machines and pods

    def join(self, name: str, revision: int) -> None:
        """A new machine takes this name."""
        self.made += 1
        self.nodes[name] = replace(
            settled_node(name, labels={TOPOLOGY: f"z{int(name[1:]) % 2}"}),
            uid=f"uid-{self.made}",
            boot_id=f"boot-{self.made}",
            created=self.now - DAY,
            ready_since=self.now - HOUR,
            versions=kernel(revision),
        )

    def fill(self, name: str, number: int) -> None:
        """Bind pods to a node."""
        for _ in range(number):
            self.made += 1
            uid = f"pod-{self.made}"
            tolerates = self.tolerant and self.chance.random() < 0.3
            pod = a_pod(
                uid, uid=uid, node=name, controller="web", is_ready=True,
                created=self.now, sandboxed=self.now,
                tolerates_cordon=tolerates,
            )  # fmt: skip
            self.pods[uid] = pod
            if self.chance.random() < 0.3:
                self.volumes[f"pv-{self.made}"] = (name, uid)

    def on(self, name: str) -> list[Pod]:
        """Return the pods of a node."""
        return [each for each in self.pods.values() if each.node == name]

    @property
    def allowed(self) -> int:
        """How many pods the budget lets go now."""
        return 0 if self.is_closed else max(0, 2 - sum(at > self.now for at in self.absent.values()))

    def turn(self, name: str, **changes: Any) -> None:
        """Change a node as its kubelet or a person does."""
        node = self.nodes[name]
        version = str(int(node.resource_version) + 1)
        self.nodes[name] = replace(node, resource_version=version, **changes)

    def annotate(self, name: str, key: str, value: str | None) -> None:
        """Change an annotation as a person does."""
        rest = {each: text for each, text in self.nodes[name].annotations.items() if each != key}
        self.turn(name, annotations=rest if value is None else {**rest, key: value})

    def new_name(self) -> str:
        """Return a name that no node had before."""
        self.made += 1
        return f"w{100 + self.made}"

    def remove(self, name: str) -> None:
        """Delete a node, with its pods."""
        self.nodes.pop(name)
        for each in self.on(name):
            self.pods.pop(each.uid)
        self.volumes = {pv: at for pv, at in self.volumes.items() if at[0] != name}

    def pass_time(self, seconds: float) -> None:
        """Let time pass: pods end, others begin, machines come back."""
        self.now += timedelta(seconds=seconds)
        self.clock.now += seconds
        for uid, at in [*self.ends.items()]:
            if at is not None and at <= self.now:
                del self.ends[uid]
                self.pods.pop(uid, None)
                place = sorted(name for name, node in self.nodes.items() if is_available(node))
                if place:
                    self.fill(self.chance.choice(place), 1)
                elif self.tolerant:
                    self.fill(self.chance.choice(sorted(self.nodes) or ["w1"]), 1)
        if self.evictions and self.now - self.asked_at > timedelta(seconds=20):
            self.answer()  # the API server works on no request for longer
        self.absent = {uid: at for uid, at in self.absent.items() if at > self.now}
        self.volumes = {pv: at for pv, at in self.volumes.items() if at[1] in self.pods or self._stays()}
        self._come_and_go()

    def _come_and_go(self) -> None:
        """Machines leave that have a successor, and others come back."""
        for name, at in [*self.leaving.items()]:
            if at <= self.now:
                del self.leaving[name]
                if name in self.nodes:
                    self.remove(name)
        for name, (at, revision) in [*self.machines.items()]:
            if at > self.now:
                continue
            del self.machines[name]
            if name not in self.nodes:
                self.join(name, revision)
                self.turn(name, created=self.now, ready_since=self.now)
            else:
                self.turn(name, ready="True", ready_since=self.now, versions=kernel(revision))

    def _stays(self) -> bool:
        return self.chance.random() < 0.7

    # The API server

    def is_newest(self, node: Node) -> bool:
        """Whether a node is as it was read."""
        there = self.nodes.get(node.name)
        return there is not None and (there.uid, there.resource_version) == (node.uid, node.resource_version)

    def patch(self, operator: Operator, patch: NodePatch, seen: Snapshot) -> bool:
        """Write a node, if it is as it was read."""
        if not self.is_newest(patch.node):
            return False
        there = self.nodes[patch.node.name]
        after = patched(there, patch)
        self.nodes[there.name] = after
        self.promises.written(operator, there, after, seen)
        return True

    def apply(self, operator: Operator, patch: ConditionsPatch) -> bool:
        """Write the conditions of a node, if it is as it was read, and none of them is someone else's."""
        if not self.is_newest(patch.node):
            return False
        there = self.nodes[patch.node.name]
        others = tuple(one for one in there.conditions if one.type not in CONDITIONS or one.reason == THEIRS)
        if {each.type for each in others} & {each.type for each in patch.conditions}:
            return False
        self.writers[there.uid] = operator
        self.turn(there.name, conditions=(*others, *patch.conditions))
        operator.nodes[there.name] = self.nodes[there.name]
        return True

    def put_pool(self, operator: Operator, **changes: Any) -> bool:
        """Write the pool, if it is as it was read."""
        if operator.pool.resource_version != self.pool.resource_version:
            return False
        self.change_pool(**changes)
        operator.pool = self.pool
        return True

    def change_pool(self, **changes: Any) -> None:
        """Write the pool, whoever does."""
        self.pool = replace(self.pool, **changes)
        self.pool = replace(self.pool, resource_version=str(int(self.pool.resource_version) + 1))

    def answer(self, *, is_lost: bool = False) -> None:
        """Answer the evictions that are under way."""
        waiting, self.evictions = self.evictions, []
        for operator, life, each in waiting:
            pod = self.pods.get(each.uid)
            if pod is None:
                found = Answer.GONE
            elif pod.is_terminating:
                found = Answer.ACCEPTED
            elif self.allowed < 1 and each.deletion is None:
                found = Answer.REFUSED
            else:
                found = Answer.ACCEPTED
                self.pods[each.uid] = replace_pod(pod, is_terminating=True)
                self.ends[each.uid] = self.now + timedelta(seconds=self.chance.choice((2, 10, 40)))
                self.absent[each.uid] = self.now + timedelta(seconds=self.chance.choice((20, 60, 120)))
            if life == operator.life and not is_lost:
                operator.hear(each, found)


@dataclass(eq=False)
class Operator:
    """One process: what it knows, and when it began to know it."""

    cluster: Cluster
    name: str
    life: int = 0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Lose what is only in memory."""
        self.life += 1
        self.patience = WriteBackoff(monotonic=self.cluster.clock)
        self.survey: Survey | None = None
        self.lists: dict[str, NodePods] = {}
        self.coming: dict[str, NodePods] = {}
        self.answers: dict[str, Answered] = {}
        self.rollout = KnownRollout()
        self.conditions: dict[str, tuple[Any, ...]] = {}
        self.refused: dict[str, tuple[Any, ...]] = {}
        """By the UID of its node: conditions that could not be written beside someone else's."""
        self.decision: Decision | None = None
        self.seen: Snapshot | None = None
        """What ``decision`` was made on."""
        self.asked = Counter[tuple[float, str]]()
        self.taken: dict[str, tuple[float, str]] = {}
        self.interruptions = Interruptions(self.cluster.clock)
        self.stood: dict[str, datetime] = {}
        """When it last saw each pool paused, and each node held, by their UIDs."""
        self.since = self.cluster.now
        self.has_written = False
        self.attachments_at = self.cluster.now
        self.dies_after: int | None = None
        self.see()

    def see(self) -> None:
        """Learn what stands now."""
        self.see_nodes()
        self.see_pool()

    def see_nodes(self) -> None:
        """Learn of the nodes alone: they come by a watch of their own."""
        self.nodes, self.guard = dict(self.cluster.nodes), self.cluster.guard
        self.nodes_at = self.cluster.now

    def see_pool(self) -> None:
        """Learn of the pool alone."""
        self.pool, self.pool_at = self.cluster.pool, self.cluster.now

    def list_all(self) -> None:
        """List all pods of the cluster."""
        work = dict.fromkeys(self.nodes, NO_WORKLOAD)
        self.survey = a_survey(self.pool, self.nodes.values(), now=self.cluster.now, workloads=work)

    def snapshot(self) -> Snapshot:
        """Return what a pass sees."""
        now = self.cluster.now
        taken = a_snapshot(self.pool, self.nodes, now=now, survey=self.survey, looks=())
        return replace(
            taken,
            guard=self.guard,
            attempts=self.patience.attempts(self.nodes),
            upgrades=KnownUpgrades(control_plane_since=NOON - DAY),
            # A process that has to leave the writes to another one ends, and remembers none.
            written_conditions={
                uid: each for uid, each in self.conditions.items() if self.cluster.writers.get(uid) is self
            },
            evictions=KnownEvictions(
                pods=dict(self.lists), answers=dict(self.answers), read_at=self.cluster.clock.now
            ),
            rollout=self.rollout,
            force=replace(self.interruptions.terms(self.pool, self.nodes.values(), now=now), is_allowed=True),
        )

    def act(self) -> bool:
        """Make a pass; return whether it wrote anything."""
        if self.cluster.now - self.nodes_at > LATE:
            self.see_nodes()
        if self.cluster.now - self.pool_at > LATE:
            self.see_pool()
        snapshot = self.snapshot()
        held = [node.uid for node in snapshot.nodes if is_held(node, now=snapshot.now)]
        is_active = snapshot.pool.spec is not None and snapshot.pool.spec.mode is Mode.ACTIVE
        self.stood |= dict.fromkeys([*held, *([] if is_active else [snapshot.pool.uid])], snapshot.now)
        if self.decision is None or snapshot != self.seen:  # the same snapshot leads to the same decision
            self.decision, self.seen = decide(snapshot), snapshot
        decision = self.decision
        writes, before = decision.writes, self.cluster.promises.writes
        names = [each.node.name for each in writes.patches]
        assert len(set(names)) == len(names), f"two patches of a node in one pass: {names}"
        self._read(decision)
        if writes.finalizers is not None:
            self._put(finalizers=writes.finalizers)
        if writes.status_first:
            if writes.finalizers is None:
                self._report(decision)
        else:
            self._write(decision, snapshot)
        return self.cluster.promises.writes > before

    def _write(self, decision: Decision, snapshot: Snapshot) -> None:
        writes, has_written = decision.writes, False
        # What was refused is tried again after a pause.
        conditions = [
            each
            for each in writes.conditions
            if self.refused.get(each.node.uid) != each.conditions or self.chance.random() < 0.2
        ]
        is_due = bool(writes.patches or conditions)
        if is_due and self.has_written and not writes.takes_permissions:
            self._report(decision)
        for each in writes.patches:
            self._live()
            if self.cluster.patch(self, each, snapshot):
                self.nodes[each.node.name] = self.cluster.nodes[each.node.name]
                repaired = decision.repaired.get(each.node.name, ())
                self.patience.note_written(each, repaired=repaired)
                has_written = True
            elif self.chance.random() < 0.5:
                self.see_nodes()
        patched_uids = {each.node.uid for each in writes.patches}
        for applied in conditions:
            if applied.node.uid not in patched_uids:
                has_written |= self._apply(applied)
        for eviction in writes.evictions:
            self._evict(eviction, snapshot)
        if not has_written and not is_due:
            self._report(decision)
        self.has_written = has_written

    def _apply(self, applied: ConditionsPatch) -> bool:
        self._live()
        if self.cluster.apply(self, applied):
            self.conditions[applied.node.uid] = applied.conditions
            self.cluster.promises.writes += 1
            return True
        if self.cluster.is_newest(applied.node):
            self.refused[applied.node.uid] = applied.conditions
        return False

    @property
    def chance(self) -> Random:
        """The chance of this world."""
        return self.cluster.chance

    def remembers(self, node: Node) -> bool:
        """Whether it knows by itself which conditions of a node are ours."""
        return node.uid in self.conditions and self.cluster.writers.get(node.uid) is self

    def _live(self) -> None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise KilledError

    def _put(self, **changes: Any) -> None:
        self._live()
        if self.cluster.put_pool(self, **changes):
            self.cluster.promises.writes += 1
        elif self.chance.random() < 0.5:
            self.see_pool()

    def _report(self, decision: Decision) -> None:
        if decision.keeps_status or decision.status == self.pool.status:
            return
        after = with_status(self.pool, decision.status)
        if self.pool.resource_version == self.cluster.pool.resource_version:  # else it is refused
            self.cluster.promises.reported(decision)
        self._put(status=after.status, written_status=after.written_status)

    def _evict(self, eviction: Eviction, seen: Snapshot) -> None:
        self._live()
        cluster, before = self.cluster, self.answers.get(eviction.uid)
        cluster.promises.asked(self, eviction, before, seen)
        self.answers[eviction.uid] = Answered(
            Answer.ASKED,
            cluster.clock.now,
            node_uid=next(each.uid for each in seen.nodes if each.name == eviction.node),
            times=0 if before is None else before.times,
            budget=eviction.budget,
        )
        if not cluster.evictions:
            cluster.asked_at = cluster.now
        cluster.evictions.append((self, self.life, eviction))

    def hear(self, eviction: Eviction, answer: Answer) -> None:
        """Learn the answer to an eviction."""
        before = self.answers[eviction.uid]
        if answer is Answer.REFUSED and (took := self.taken.pop(eviction.uid, None)):
            self.asked[took] -= 1  # what is refused takes nothing of a budget
        times = before.times + 1 if answer is Answer.REFUSED else 0
        self.answers[eviction.uid] = replace(before, answer=answer, at=self.cluster.clock.now, times=times)

    def _read(self, decision: Decision) -> None:
        """Begin the lists that a pass asks for; they come later, with what stands now."""
        cluster, began = self.cluster, self.cluster.clock.now
        if not cluster.can_list:
            return
        for look in decision.pod_list_requests:
            if look.node.uid in self.coming or cluster.chance.random() < 0.1:
                continue
            there = cluster.nodes.get(look.node.name)
            pods = tuple(cluster.on(look.node.name)) if there and there.uid == look.node.uid else ()
            room = BudgetRoom(BUDGET, cluster.allowed)
            self.coming[look.node.uid] = NodePods(
                cluster.now,
                began,
                pods,
                frozenset(each.uid for each in pods) if cluster.allowed < 1 else frozenset(),
                budgets={each.uid: (room,) for each in pods},
                budgets_began=began,
            )
        if decision.reads_attachments and self.attachments_at <= cluster.now:
            self.attachments_at = cluster.now + ATTACHMENTS
            found: dict[str, tuple[str, ...]] = {}
            for pv, (name, _) in cluster.volumes.items():
                found[name] = (*found.get(name, ()), pv)
            self.rollout = replace(self.rollout, attachments=Attachments(cluster.now, began, found))
        if decision.reads_workloads:
            web = replace(WEB, ready=WEB.wanted - len(cluster.absent))
            mark = mark_of(WEB.uid)
            self.rollout = replace(
                self.rollout, workloads=Workloads(cluster.now, began, {mark: web}, {WEB.title: mark})
            )

    def receive(self) -> None:
        """Take the lists that have come."""
        self.lists |= self.coming
        self.coming = {}


class Promises:
    """What must hold after each write: P3 to P6, P8, and the table of states."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.writes = 0
        self.trail: list[tuple[str, str, str]] = []
        self._cordoned: dict[tuple[str, str], datetime] = {}
        """Each claim that has cordoned its node, by the UID of the node, and when."""
        self._deadlines: dict[tuple[str, str, str, datetime], datetime | None] = {}
        self._drains: dict[str, datetime | None] = {}
        self._first: dict[str, str] = {}
        """The node that each claim was made for."""
        self.inherited = 0
        self.uncordoned = 0

    def written(self, operator: Operator, before: Node, after: Node, seen: Snapshot) -> None:
        """Judge a write of a node."""
        self.writes += 1
        old, new = state_of(before), state_of(after)
        if old != new:
            self.trail.append((operator.name, after.name, new))
        self._foreign(before, after)
        if seen.pool.deleting or not is_selected(before):
            self._released(before, after, seen)
        else:
            self._allowed(before, after, seen)
            self._state(before, after, seen)
        self._cordon(before, after, seen)

    def _released(self, before: Node, after: Node, seen: Snapshot) -> None:
        """Someone may be at work on a machine: then even a release waits, until the deadline."""
        claim = claim_of(before)
        if isinstance(claim, Claim) and claim.state in HANDED_OVER and not isinstance(claim_of(after), Claim):
            was = claim.before
            has_restarted = (before.boot_id, before.versions.kernel) != (was.boot_id, was.kernel)
            is_done = before.annotations.get(UPGRADE_DONE_ANNOTATION) == claim.claim
            is_back = before.ready == "True" and (claim.state != "Upgrading" or has_restarted or is_done)
            assert is_back or claim.passed(seen.now), f"{before.name} was handed over and released: {claim}"

    def _foreign(self, before: Node, after: Node) -> None:
        """P3: what others have put there stays."""
        for part in ("labels", "annotations"):
            old, new = getattr(before, part), getattr(after, part)
            for key in old.keys() | new.keys():
                if not key.startswith(PREFIX) and key not in BORROWED_ANNOTATIONS:
                    assert old.get(key) == new.get(key), f"P3: {key} of {before.name}"
        assert before.taints == after.taints, f"P3: the taints of {before.name}"

    def _allowed(self, before: Node, after: Node, seen: Snapshot) -> None:
        """P3: a hold, Paused and DryRun let no write through but that a permission is withdrawn."""
        spec = seen.pool.spec
        stands = spec is not None and spec.mode is not Mode.ACTIVE
        if stands or is_held(before, now=seen.now):
            assert before.labels.get(UPGRADE_STATE_LABEL) == "Required", f"P3: {before.name} is held"
            assert after.labels.get(UPGRADE_STATE_LABEL) == "Gated", f"P3: {before.name} is held"

    def _state(self, before: Node, after: Node, seen: Snapshot) -> None:
        """The label says what the annotation says, and states follow each other as in the table."""
        old, new = claim_of(before), claim_of(after)
        label = after.labels.get(UPGRADE_STATE_LABEL, "")
        if before.labels.get(UPGRADE_STATE_LABEL) == "Required" and label == "Gated":
            return  # someone had written the permission, and it is taken back before all else
        if isinstance(new, Claim):
            assert label == ("Gated" if new.is_retried else new.state), f"{label} with {new}"
            self._deadline(after, new)
        else:
            is_in_work = label in {*IN_WORK, *ENDED_BADLY}
            assert not is_in_work or self._is_left(before, after, seen), f"{label} without a claim"
        before_, after_ = state_of(before), state_of(after)
        if before_ == after_ or (before_, after_) == ("UpToDate", GONE):
            return
        follows = NEXT[GONE if before_ == "UpToDate" else before_]
        if isinstance(old, Claim) and isinstance(new, Claim) and old.state not in ENDED_BADLY:
            assert old.claim == new.claim, f"another claim in mid-work: {old} {new}"
        if before_ == GONE and isinstance(new, Claim) and new.state in {*HANDED_OVER, "Failed"}:
            self._inherited(after, new, seen, is_overwritten=isinstance(old, Unreadable))
            return
        if isinstance(new, Claim):
            self._first.setdefault(new.claim, after.name)
        is_step = after_ in {*BEFORE_HAND_OVER, "Upgrading"}
        assert not (is_step and VETO.items() <= before.labels.items()), (
            f"{before_} to {after_} against a veto"
        )
        assert after_ in follows or self._may_end(before_, after_, seen), f"{before_} to {after_}: {old}"
        if before_ == "Draining" and after_ == "Drained":
            self._drained(after)
        if after_ == "UpToDate" and isinstance(new, Done):
            assert after.ready == "True", f"P4: {after.name} is UpToDate and not Ready"
            assert revision_of(after) >= (new.target.revision or 0), f"P4: {after.name} is not at the target"
        if after_ == "Upgrading":
            self._drained(after)

    def _is_left(self, before: Node, after: Node, seen: Snapshot) -> bool:
        """Whether a spec that is not accepted leaves what people have written: only claims are finished."""
        spec, guard, key = seen.pool.spec, seen.guard, UPGRADE_STATE_LABEL
        block = spec.upgrade if spec else None
        is_unguarded = block is not None and block.is_ours and not (guard.identity or guard.is_unknown)
        is_refused = is_unguarded or (spec is not None and spec.os.version == REFUSED)
        stays = before.labels.get(key) == after.labels.get(key)
        return is_refused and stays and not isinstance(claim_of(before), Claim)

    def _inherited(self, node: Node, claim: Claim, seen: Snapshot, *, is_overwritten: bool) -> None:
        """A machine has the slot of the one that it replaces, and no other takes the same place.

        The same machine has its own back where the spec has no upgrade any more, and someone overwrote it.
        """
        if claim.before.uid == node.uid:
            assert is_overwritten, f"handed over out of nothing: {claim}"
            assert seen.pool.spec is not None
            assert seen.pool.spec.upgrade is None, f"handed over out of garbage: {claim}"
            assert any(
                each.node == node.name and claim.claim in each.claim for each in seen.pool.status.slots
            )
            return
        self.inherited += 1
        slots = {each.node: each for each in seen.pool.status.slots if each.is_held}
        assert claim.claim in slots[node.name].claim, f"P6: {node.name} has no slot for {claim.claim}"
        assert node.unschedulable, f"{node.name} takes a place and is not cordoned"
        assert claim.before.uid not in {each.uid for each in self.cluster.nodes.values()}, (
            f"{node.name} takes the place of a node that is there"
        )
        others = [
            each.name
            for each in self.cluster.nodes.values()
            if each.name != node.name
            and isinstance(found := claim_of(each), Claim)
            and found.claim == claim.claim
        ]
        assert not others, f"{node.name} takes a place that {others} has"
        if self._first.get(claim.claim, node.name) != node.name:
            assert claim.replaces, f"{node.name} has another name"
            assert node.created is not None
            assert claim.drained_at is not None
            assert node.created >= claim.drained_at, f"{node.name} was there before the drain"

    def _may_end(self, before: str, after: str, seen: Snapshot) -> bool:
        """Whether what has failed may be forgotten: where the operator upgrades no nodes any more."""
        block = seen.pool.spec.upgrade if seen.pool.spec else None
        return before in ENDED_BADLY and after == GONE and (block is None or not block.is_ours)

    def _drained(self, node: Node) -> None:
        """P4: what was there a while ago has left, whatever a list says."""
        left = [
            each
            for each in self.cluster.on(node.name)
            if goes(each)
            and each.eviction is not None
            and each.eviction.created is not None
            and each.eviction.created < self.cluster.now - timedelta(seconds=35)
        ]
        assert not left, f"P4: {node.name} has {[each.name for each in left]}"
        assert node.unschedulable, f"P4: {node.name} is not cordoned"

    def _deadline(self, node: Node, claim: Claim) -> None:
        """P8: a deadline is written once."""
        key = (node.uid, claim.claim, claim.state, claim.since)
        known = self._deadlines.setdefault(key, claim.deadline)
        assert known == claim.deadline, f"P8: {known} became {claim.deadline} in {claim.state}"
        if claim.state == "Draining":
            first = self._drains.setdefault(claim.claim, claim.deadline)
            assert first == claim.deadline, f"P8: a drain until {first} got until {claim.deadline}"

    def _cordon(self, before: Node, after: Node, seen: Snapshot) -> None:
        if before.unschedulable and not after.unschedulable:
            record = record_of(before)
            assert isinstance(record, Record), f"P3: {before.name} was uncordoned without a record"
            assert record.unschedulable, f"P3: the cordon of {before.name} was not ours"
            self.uncordoned += 1
            if not seen.pool.deleting and is_selected(before):
                old, new = claim_of(before), claim_of(after)
                if isinstance(old, Claim) and old.state in HANDED_OVER:
                    assert isinstance(new, Claim), f"{before.name} was handed over and given up: {old}"
                    assert new.state == "Soaking", f"{before.name} was handed over and uncordoned: {old}"
        claim = claim_of(after)
        if before.unschedulable and isinstance(claim, Claim) and claim.state == "Draining":
            # One that has failed before is cordoned already when it is claimed again.
            self._cordoned.setdefault((after.uid, claim.claim), self.cluster.now)
        if after.unschedulable and not before.unschedulable:
            assert isinstance(claim, Claim), f"P3: {after.name} was cordoned without a claim"
            key = (after.uid, claim.claim)
            if key not in self._cordoned and claim.before.uid == after.uid:
                self._first_cordon(after, seen)
            self._cordoned.setdefault(key, self.cluster.now)

    def _first_cordon(self, node: Node, seen: Snapshot) -> None:
        """P6: fewer others are unavailable, or have a slot, than may be, and the node has its slot."""
        slots = {each.node for each in self.cluster.pool.status.slots if each.is_held}
        assert node.name in slots, f"P6: {node.name} was cordoned without a slot"
        known = {each.name for each in seen.nodes if is_selected(each) and not is_available(each)}
        ours = {
            each.name
            for each in self.cluster.nodes.values()
            if is_selected(each) and each.unschedulable
            if isinstance(record := record_of(each), Record) and record.unschedulable
        }
        assert seen.pool.spec is not None
        assert seen.pool.spec.upgrade is not None
        allowed = int(seen.pool.spec.upgrade.max_unavailable)
        others = (slots | known | ours) - {node.name}
        assert len(others) < allowed, f"P6: {node.name} was cordoned beside {others} of {allowed}"

    def reported(self, decision: Decision) -> None:
        """P6: a slot is one of 64, and a node has one."""
        held = [each for each in decision.status.slots if each.is_held]
        assert len({each.node for each in held}) == len(held) <= 64, f"P6: {held}"
        claims = [found.claim for each in held if isinstance(found := read(each.claim), Claim)]
        assert len(set(claims)) == len(claims), f"P6: two slots for a claim: {held}"

    def forced(self, operator: Operator, claim: Claim, pod: Pod, seen: Snapshot) -> None:
        """P5, P8: after the deadline alone, and 600 s after a start, a pause or a hold."""
        spec = seen.pool.spec
        assert spec is not None
        assert spec.upgrade is not None
        assert spec.upgrade.drain.on_timeout == "Force", "P5: deleted though the spec does not say so"
        assert claim.state == "DrainBlocked"
        assert claim.drain_until is not None
        assert claim.drain_until <= seen.now, "P5: deleted before the deadline"
        assert goes(pod), "P5: a pod that stays"
        node = next(each for each in seen.nodes if each.name == pod.node)
        last = max(operator.since, *(operator.stood.get(uid, NOON) for uid in (seen.pool.uid, node.uid)))
        assert seen.now - last >= timedelta(seconds=600), "P8: deleted too soon after an interruption"

    def asked(self, operator: Operator, eviction: Eviction, before: Answered | None, seen: Snapshot) -> None:
        """P5: one pod by its UID, one request at a time, within its budget, of a node that is drained."""
        node = next(each for each in seen.nodes if each.name == eviction.node)
        pods = operator.lists[node.uid]
        pod = pods.of(eviction.uid)
        assert pod is not None, "P5: a pod that was not listed"
        assert not pod.is_terminating, "P5: a pod that is being deleted"
        assert before is None or before.answer is not Answer.ACCEPTED, "P5: evicted twice"
        under_way = [
            each for who, life, each in self.cluster.evictions if (who, life) == (operator, operator.life)
        ]
        assert eviction.uid not in {each.uid for each in under_way}, "P5: two requests for a pod"
        assert node.unschedulable, "P4: evicted from a node that is not cordoned"
        claim = claim_of(node)
        assert isinstance(claim, Claim), "P4: evicted without a claim"
        assert claim.state in ("Draining", "DrainBlocked"), f"P4: evicted in {claim.state}"
        if eviction.deletion is not None:
            self.forced(operator, claim, pod, seen)
            return
        room = pods.budgets[eviction.uid][0]
        took = operator.taken[eviction.uid] = (pods.budgets_began, room.name)
        operator.asked[took] += 1
        assert operator.asked[took] <= room.allowed, "P5: past the budget"
