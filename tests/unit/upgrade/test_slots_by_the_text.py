"""Slots, by the text of promise P6: no permission makes more nodes unavailable than may be so.

Two operators see the nodes and the pool up to half a minute late, and write to one status with
compare-and-swap. Programs upgrade the nodes that are permitted; people and machines take others away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from harness.builders import NOON, Nodes, a_snapshot, a_survey, with_status
from harness.clock import Seconds
from harness.upgrade_feature import HOUR, TARGET, settled_node, upgrade_pool
from harness.upgrade_world import permits, unavailable
from harness.writes import patched
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.status import HELD_STATES, WindowsNodePoolStatus
from winpool.controllers.backoff import WriteBackoff
from winpool.decide import decide
from winpool.kube.errors import Conflict
from winpool.model.node import Node, NodePatch
from winpool.model.pods import NO_WORKLOAD
from winpool.model.pool import KnownUpgrades, Pool
from winpool.model.snapshot import Snapshot

NAMES: Final = ("w1", "w2", "w3", "w4")
PATCHED: Final = f"10.0.20348.{TARGET}"
LATE: Final = timedelta(seconds=30)
"""How late an operator, or a program that has read the label, may be."""
ROUND: Final = timedelta(minutes=40) * len(NAMES)
"""In which each node had its permission for half an hour, and was told to have it for longer."""
REJOIN: Final = timedelta(minutes=30)
"""How long the slot of a node is kept that was deleted: ``rejoinTimeoutSeconds``, by default."""
PASSES: Final = 30


@dataclass
class Cluster:
    """What stands on the API server; ``gone`` has when permitted nodes were deleted that are not back."""

    pool: Pool
    nodes: Nodes
    now: datetime = NOON
    clock: Seconds = field(default_factory=Seconds)
    gone: dict[str, datetime] = field(default_factory=dict)
    writes: int = 0

    def change(self, name: str, **changes: object) -> None:
        node = self.nodes[name]
        version = str(int(node.resource_version) + 1)
        self.nodes[name] = replace(node, resource_version=version, **changes)

    def write_pool(self, pool: Pool, *, read: Pool) -> None:
        if read.resource_version == self.pool.resource_version:
            self.pool = replace(pool, resource_version=str(int(read.resource_version) + 1))
            self.writes += 1

    def permitted(self) -> set[str]:
        return {each.name for each in self.nodes.values() if is_permitted(each)}


def is_permitted(node: Node) -> bool:
    return node.labels.get(UPGRADE_STATE_LABEL) == "Required"


def down(nodes: Iterable[Node]) -> set[str]:
    return {each.name for each in nodes if unavailable({each.name: each})}


class Operator:
    """One of two: what it has seen is at most LATE behind."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.patience = WriteBackoff(monotonic=cluster.clock)
        self.look_again: datetime | None = None
        self.see()

    def see(self) -> None:
        self.see_pool()
        self.nodes = dict(self.cluster.nodes)
        self.seen_at = dict.fromkeys(NAMES, self.cluster.now)

    def see_pool(self) -> None:
        self.pool, self.pool_at = self.cluster.pool, self.cluster.now

    def see_node(self, name: str) -> None:
        self.seen_at[name] = self.cluster.now
        if (node := self.cluster.nodes.get(name)) is not None:
            self.nodes[name] = node
        else:
            self.nodes.pop(name, None)

    def catch_up(self) -> None:
        oldest = self.cluster.now - LATE
        if self.pool_at < oldest:
            self.see_pool()
        for name in NAMES:
            if self.seen_at[name] < oldest:
                self.see_node(name)

    def run(self) -> None:
        self.catch_up()
        snapshot = self.snapshot()
        decision = decide(snapshot)
        self.look_again = decision.look_again
        if decision.writes.finalizers is not None:
            self.write_pool(replace(self.pool, finalizers=decision.writes.finalizers))
        elif decision.writes.patches and not decision.writes.status_first:
            for patch in decision.writes.patches:
                self.act(patch)
        elif not decision.keeps_status and decision.status.to_object() != self.pool.written_status:
            self.write_pool(with_status(self.pool, decision.status))

    def snapshot(self) -> Snapshot:
        now = self.cluster.now
        empty = dict.fromkeys(self.nodes, NO_WORKLOAD)
        survey = a_survey(self.pool, self.nodes.values(), now=now, workloads=empty)
        taken = a_snapshot(self.pool, self.nodes, survey=survey, now=now)
        attempts = self.patience.attempts(self.nodes)
        known = KnownUpgrades(control_plane_since=NOON - HOUR)
        return replace(taken, attempts=attempts, upgrades=known)

    def write_pool(self, pool: Pool) -> None:
        self.cluster.write_pool(pool, read=self.pool)
        self.see_pool()  # the answer has it, or the conflict brings it

    def act(self, patch: NodePatch) -> None:
        node, name = self.cluster.nodes.get(patch.node.name), patch.node.name
        if node is None or (node.uid, node.resource_version) != (patch.node.uid, patch.node.resource_version):
            self.patience.note_stopped(patch, Conflict("409", status=409))
            return
        if permits(patch) and not is_permitted(node):
            self.check(node)
        self.cluster.nodes[name] = patched(node, patch)
        self.cluster.writes += 1
        self.patience.note_written(patch)
        self.see_node(name)

    def check(self, node: Node) -> None:
        """Assert that ``node`` may be permitted now; what went down just now need not be known.

        A machine that takes the name of one that had a slot is its heir.
        """
        cluster = self.cluster
        held = {each.node for each in cluster.pool.status.slots if each.state in HELD_STATES}
        assert node.name in held, f"{node.name} has no slot in {cluster.pool.status.slots}"
        taken = {*cluster.permitted(), *down(self.nodes.values()), *cluster.gone} - {node.name}
        if down([node]):
            return  # it has begun, keeps its slot, and makes no more nodes unavailable
        most = cluster.pool.spec.upgrade.max_unavailable  # type: ignore[union-attr]
        assert len(taken) < int(most), f"{node.name} is one more than {most}: {taken}"


class Slots(RuleBasedStateMachine):
    """Anything happens to the nodes and the status, in any order; then nothing changes any more."""

    names = st.sampled_from(NAMES)

    @initialize(most=st.sampled_from((1, 2)))
    def begin(self, most: int) -> None:
        pool = upgrade_pool({"maxUnavailable": most})
        self.most = most
        self.cluster = Cluster(pool, {name: settled_node(name) for name in NAMES})
        self.operators = (Operator(self.cluster), Operator(self.cluster))
        self.read_at: dict[str, datetime] = {}
        self.begun: set[str] = set()
        self.machines = 0
        self.wait_for(timedelta(minutes=5))

    @rule(which=st.integers(0, 1), pool=st.booleans(), names=st.sets(names), passes=st.integers(1, 4))
    def run(self, which: int, pool: bool, names: set[str], passes: int) -> None:
        operator = self.operators[which]
        if pool:
            operator.see_pool()
        for name in names:
            operator.see_node(name)
        for _ in range(passes):
            operator.run()

    @rule(seconds=st.sampled_from((1, 10, 25, 40, 65, 600, 1801)))
    def let_pass(self, seconds: int) -> None:
        self.move(timedelta(seconds=seconds))

    @rule(minutes=st.sampled_from((2, 10, 32)))
    def work(self, minutes: int) -> None:
        self.wait_for(timedelta(minutes=minutes))

    # Programs that upgrade nodes

    @rule()
    def read_the_labels(self) -> None:
        """Ask which nodes are permitted, to begin with one within half a minute."""
        self.read_at |= dict.fromkeys(self.cluster.permitted(), self.cluster.now)

    @rule(place=st.integers(0, 3), how=st.sampled_from(("cordon", "restart", "delete")))
    def upgrade(self, place: int, how: str) -> None:
        """Begin with a node that has the label, or had it when it was read: with no more than may be."""
        read = {name for name, at in self.read_at.items() if self.cluster.now - at < LATE}
        may_begin = sorted(self.cluster.permitted() | (read & self.cluster.nodes.keys()))
        if not may_begin:
            return
        name = may_begin[place % len(may_begin)]
        self.read_at.pop(name, None)
        self.begun.add(name)
        taken = self.cluster.permitted() | self.begun
        assert len(taken) <= self.most, f"{taken} are more than {self.most}"
        if how == "cordon":
            self.cluster.change(name, unschedulable=True)
        elif how == "restart":
            self.machines += 1
            self.cluster.change(
                name, ready="False", ready_since=self.cluster.now, boot_id=f"boot-{self.machines}"
            )
        else:
            del self.cluster.nodes[name]
            self.cluster.gone[name] = self.cluster.now

    @rule(name=names, succeeds=st.booleans())
    def come_back(self, name: str, succeeds: bool) -> None:
        cluster = self.cluster
        self.begun.discard(name)
        if cluster.gone.pop(name, None):
            self.machines += 1
            fresh = replace(settled_node(name), uid=f"uid-{self.machines}-of-{name}", created=cluster.now)
            cluster.nodes[name] = fresh
        node = cluster.nodes[name]
        kernel = PATCHED if succeeds else node.versions.kernel
        cluster.change(
            name,
            unschedulable=False,
            ready="True",
            ready_since=cluster.now,
            versions=replace(node.versions, kernel=kernel),
        )

    # Others

    @rule(name=names, changes=st.sampled_from(({"unschedulable": True}, {"ready": "False"})))
    def take_away(self, name: str, changes: dict[str, object]) -> None:
        if name in self.cluster.nodes:
            self.cluster.change(name, **changes)

    @rule()
    def lose_the_status(self) -> None:
        """Wipe the status, and let the operators rebuild it from the nodes: what is not there is lost."""
        if not self.cluster.gone:
            self.read_at.clear()
            self.cluster.write_pool(
                with_status(self.cluster.pool, WindowsNodePoolStatus()), read=self.cluster.pool
            )
            self.settle()

    # What time and the operators do

    def move(self, span: timedelta) -> None:
        self.cluster.now += span
        self.cluster.clock.now += span.total_seconds()
        away = {name: at for name, at in self.cluster.gone.items() if self.cluster.now - at < REJOIN}
        for name in self.cluster.gone.keys() - away.keys():
            self.come_back(name, succeeds=False)

    def settle(self) -> None:
        """Let both make passes until none writes anything."""
        for _ in range(PASSES):
            before = self.cluster.writes
            for each in self.operators:
                each.see()
                each.run()
            if self.cluster.writes == before:
                return
        raise AssertionError("never quiet")

    def wait_for(self, span: timedelta) -> None:
        """Let time pass, with a pass whenever one of the operators has asked for it."""
        end = self.cluster.now + span
        self.settle()
        while (at := self.next_look()) is not None and at <= end:
            self.move(max(at - self.cluster.now, timedelta(milliseconds=100)))
            self.settle()
        self.move(max(end - self.cluster.now, timedelta()))

    def next_look(self) -> datetime | None:
        pauses = [pause for each in self.operators if (pause := each.patience.seconds_to_next()) is not None]
        times = [self.cluster.now + timedelta(seconds=pause) for pause in pauses]
        return min((*times, *(each.look_again for each in self.operators if each.look_again)), default=None)

    def teardown(self) -> None:
        """Once nothing changes, the slots that are free are given, and then nothing is written."""
        if not hasattr(self, "cluster"):
            return
        for name in tuple(self.cluster.gone):
            self.come_back(name, succeeds=False)
        self.wait_for(2 * ROUND)
        cluster = self.cluster
        before, writes = cluster.permitted(), cluster.writes
        self.wait_for(2 * HOUR)
        assert (cluster.permitted(), cluster.writes) == (before, writes)
        away = down(cluster.nodes.values())
        due = {each.name for each in cluster.nodes.values() if each.versions.kernel != PATCHED} - away
        assert len(before - away) == min(len(due), max(0, self.most - len(away)))


TestSlots = pytest.mark.slow(Slots.TestCase)
TestSlots.settings = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    stateful_step_count=20,
)
