"""A cluster in memory, for state machines about ``decide``: nodes, pools, passes, and no HTTP.

It keeps what the operator keeps in memory (which pools are known to be gone) apart from what stands in
the cluster, so that a restart loses the one and not the other. It also remembers what others wrote, to
say at the end what has to stand on a node.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from harness.builders import (
    GUARD,
    MINUTE,
    NOON,
    Nodes,
    a_pool,
    a_snapshot,
    a_survey,
    deleted,
    edited,
    with_status,
)
from harness.others import Key, Others, is_windows, owned_on, owner_of
from harness.writes import carries_ours, patched, relabelled, retainted
from winpool.api.keys import NO_EXECUTE, POOL_LABEL
from winpool.api.selector import selects
from winpool.api.spec import Mode, WindowsNodePoolSpec
from winpool.decide import Decision, decide
from winpool.model.node import Keys, Node, NodePatch, Taint
from winpool.model.pool import Pool, PoolName
from winpool.model.snapshot import Snapshot
from winpool.ownership.leftovers import release_orphan, release_stray
from winpool.ownership.record import Record, TaintIdentity, record_of
from winpool.ownership.trust import RecordTrust, keys_of
from winpool.status.pods import written

LISTS: Final = 2
"""Complete lists without a pool after which it is known to be gone."""


@dataclass
class Model:
    """The cluster, the operator's memory, and what others wrote.

    ``far_sighted``: whether a pass sees nodes that are not Windows. The operator watches Windows nodes
    only, so that what it has on others is left to the sweep; seeing more must do no harm.
    """

    nodes: Nodes = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    others: dict[str, Others] = field(default_factory=dict)
    missing: dict[str | PoolName, int] = field(default_factory=dict)
    guard: str = GUARD
    """The identity of the guard that is in force, empty where none is."""
    is_guard_steady: bool = True
    """Whether it was the same all the time. Else what stood on a node before us may be gone."""
    remembered: dict[str, Keys] = field(default_factory=dict)
    now: datetime = NOON
    created: int = 0
    far_sighted: bool = False
    blind: bool = False
    """Whether the pods cannot be looked at."""
    minding: set[str] = field(default_factory=set)
    """Names of nodes with a pod that tolerates no NoExecute taint."""

    # The world

    def join(self, node: Node) -> None:
        """A machine joins, under a UID of its own."""
        self.created += 1
        self.nodes[node.name] = replace(node, uid=f"uid-{self.created}-of-{node.name}")
        self.others[node.name] = Others.of(node)

    def create(self, name: str, spec: WindowsNodePoolSpec) -> None:
        """Create a pool, under a UID of its own."""
        self.created += 1
        pool = a_pool(name, uid=f"uid-{self.created}-of-{name}")
        self.pools[name] = replace(pool, spec=spec, created=self.now)

    def edit(self, name: str, spec: WindowsNodePoolSpec) -> None:
        """Edit the spec of a pool."""
        self.pools[name] = edited(self.pools[name], spec)

    def delete(self, name: str) -> None:
        """Delete a pool: it stays as long as it has a finalizer."""
        self.pools[name] = deleted(self.pools[name])
        self._collect(name)

    def force(self, name: str) -> None:
        """Strip the finalizers of a pool under deletion, as people do who are in a hurry."""
        self.pools[name] = replace(self.pools[name], finalizers=())
        self._collect(name)

    def write(self, name: str, key: Key, value: str | None) -> None:
        """Write a label or taint as others do."""
        node, others = self.nodes[name], self.others[name]
        others.ever[key].add(value)
        if key in owned_on(node):
            others.due.pop(key, None)
        else:
            others.due[key] = value
        self.nodes[name] = (
            relabelled(node, **{key: value}) if isinstance(key, str) else _retaint(node, key, value)
        )

    def relabel(self, name: str, labels: dict[str, str | None]) -> None:
        """Write labels that pools select by, or our own, as others do."""
        self.nodes[name] = relabelled(self.nodes[name], **labels)

    def protect(self, name: str, taint: Taint) -> None:
        """Put on or take off a taint that no pool may touch."""
        node, others = self.nodes[name], self.others[name]
        if taint in others.taints:
            others.taints.remove(taint)
            self.nodes[name] = retainted(node, *(each for each in node.taints if each != taint))
        else:
            others.taints.append(taint)
            self.nodes[name] = retainted(node, *node.taints, taint)

    def haunt(self, name: str, annotations: dict[str, str | None]) -> None:
        """Tamper with the record on a node."""
        self.others[name].haunted = True
        node = self.nodes[name]
        self.nodes[name] = patched(
            node, NodePatch(node=node, labels={}, annotations=annotations, taints=None)
        )

    def change_guard(self, identity: str) -> None:
        """Install another guard, or none: what records say of the time before us counts no more."""
        self.guard, self.is_guard_steady = identity, False

    # The operator

    def list_pools(self) -> None:
        """Read a complete list of pools."""
        alive = {pool.uid for pool in self.pools.values()} | {PoolName(name) for name in self.pools}
        named: set[str | PoolName | None] = {owner_of(node) for node in self.nodes.values()}
        named |= {
            PoolName(node.labels[POOL_LABEL]) for node in self.nodes.values() if POOL_LABEL in node.labels
        }
        self.missing = {each: self.missing.get(each, 0) + 1 for each in named - alive if each is not None}

    def restart(self) -> None:
        """Lose what is only in memory."""
        self.missing.clear()
        self.remembered.clear()

    @property
    def rights(self) -> RecordTrust:
        """By what records are believed."""
        return RecordTrust(guard=self.guard, pools=self.seen)

    @property
    def seen(self) -> dict[str, Keys]:
        """What is known of pools that this operator has seen, by UID."""
        self.remembered.update({pool.uid: keys_of(pool) for pool in self.pools.values()})
        return dict(self.remembered)

    @property
    def vanished(self) -> frozenset[str]:
        """The UIDs of pools that are known to be gone."""
        return frozenset(each for each in self.missing if isinstance(each, str) and self.is_vanished(each))

    def is_vanished(self, identity: str | PoolName) -> bool:
        """Whether no pool has that UID or name, for certain."""
        return self.missing.get(identity, 0) >= LISTS

    def is_let_go(self, identity: str | PoolName) -> bool:
        """Whether someone has deleted that pool, or there is none."""
        deleted = any(pool.deleting for pool in self.pools.values() if pool.uid == identity)
        return deleted or self.is_vanished(identity)

    def snapshot(self, name: str, *, held_back: Collection[str] = ()) -> Snapshot:
        """Return what a pass of the pool sees."""
        pool = self.pools[name]
        rivals = [pool for other, pool in self.pools.items() if other != name]
        nodes = [node for node in self.nodes.values() if self.far_sighted or is_windows(node)]
        intolerant = {
            written(Taint(*each.identity, each.value)): [
                f"{node}/default/web" for node in sorted(self.minding)
            ]
            for each in (pool.spec.taints if pool.spec else ())
            if each.effect == NO_EXECUTE
        }
        return a_snapshot(
            pool,
            nodes,
            survey=None if self.blind else a_survey(pool, nodes, now=self.now, intolerant=intolerant),
            pods_problem="list pods: 500" if self.blind else "",
            rivals=rivals,
            vanished=self.vanished,
            held_back=held_back,
            guard=self.guard,
            seen=self.seen,
            now=self.now,
        )

    def run_pass(self, name: str, *, writes: int | None = None, held_back: Collection[str] = ()) -> Decision:
        """Run a pass of a pool; with ``writes`` it is killed after so many, and its memory is lost."""
        self.now += MINUTE
        snapshot = self.snapshot(name, held_back=held_back)
        decision = decide(snapshot)
        if decision.writes.finalizers is not None:
            writes = self._spend(writes)
            if writes is not None and writes < 0:
                return decision
            self.pools[name] = replace(self.pools[name], finalizers=decision.writes.finalizers)
        if decision.writes.status_first:
            writes = self._spend(writes)
            if writes is not None and writes < 0:
                return decision
            self.pools[name] = with_status(self.pools[name], decision.status)
        for patch in decision.writes.patches:
            self._check_brake(patch, self.pools[name])
            writes = self._spend(writes)
            if writes is not None and writes < 0:
                return decision
            self._write(patch)
        status = decide(self.snapshot(name)).status
        self.pools[name] = with_status(self.pools[name], status)
        self._collect(name)
        return decision

    def sweep(self) -> None:
        """Release what no pool sees, or what a pool left that is gone."""
        self.now += MINUTE
        everything, rights = tuple(self.pools.values()), self.rights
        for node in list(self.nodes.values()):
            if is_windows(node):
                assert (
                    release_stray(node, is_let_go=self.is_let_go, rights=rights, now=self.now).patch is None
                )
                patch = release_orphan(
                    node, pools=everything, is_vanished=self.is_vanished, rights=rights
                ).patch
            else:
                patch = release_stray(node, is_let_go=self.is_let_go, rights=rights, now=self.now).patch
            if patch is not None:
                self._write(patch)

    def settle(self) -> None:
        """Run everything until nothing changes. Asserts that it ends."""
        for _ in range(30):
            before = (dict(self.nodes), {name: pool.finalizers for name, pool in self.pools.items()})
            for _ in range(LISTS):
                self.list_pools()
            self.sweep()
            for name in sorted(self.pools):
                self.run_pass(name)
            if before == (self.nodes, {name: pool.finalizers for name, pool in self.pools.items()}):
                return
        raise AssertionError("never quiet")

    # Questions

    def selecting(self, node: Node) -> list[Pool]:
        """Return the pools that ask for the node."""
        return [
            pool
            for pool in self.pools.values()
            if is_windows(node)
            and not pool.deleting
            and pool.spec is not None
            and selects(pool.spec.node_selector, node.labels)
        ]

    # Writes

    def _write(self, patch: NodePatch) -> None:
        node = self.nodes[patch.node.name]
        self.nodes[node.name] = patched(node, patch)
        if not is_windows(node):
            assert carries_ours(node), f"{node.name} is not Windows and had nothing of ours"
            assert patch.labels.get(POOL_LABEL) is None
            self._check_record(of=node, after=self.nodes[node.name])

    def _check_record(self, *, of: Node, after: Node) -> None:
        """Assert that a write to a stray takes the record off, or leaves less of it while the pool exists."""
        before, left = record_of(of), record_of(after)
        if left is None:
            return
        assert isinstance(before, Record)
        assert isinstance(left, Record)
        assert not self.is_let_go(before.pool_uid), f"{of.name} keeps a record of a pool that was deleted"
        assert (left.pool_uid, left.guard, left.taints) == (before.pool_uid, before.guard, before.taints)
        assert left.labels.items() < before.labels.items(), f"{of.name} was written to for nothing"
        assert after.taints == of.taints, f"{of.name} lost taints while its pool exists"

    def _check_brake(self, patch: NodePatch, pool: Pool) -> None:
        """Assert that no pod is deleted that minds: the pools of these worlds all say Hold."""
        if pool.spec is None or pool.deleting or not (self.blind or patch.node.name in self.minding):
            return
        wanted = {Taint(*each.identity, each.value) for each in pool.spec.taints if each.effect == NO_EXECUTE}
        assert not wanted & (set(patch.taints or ()) - set(patch.node.taints)), "a pod would be deleted"

    def _spend(self, writes: int | None) -> int | None:
        if writes is None:
            return None
        if writes == 0:
            self.restart()
        return writes - 1

    def _collect(self, name: str) -> None:
        pool = self.pools[name]
        if pool.deleting and not pool.finalizers:
            del self.pools[name]


def mode_of(pool: Pool) -> Mode | None:
    """Return what the pool may do: None where its spec cannot be read."""
    return None if pool.spec is None else pool.spec.mode


def _retaint(node: Node, identity: TaintIdentity, value: str | None) -> Node:
    rest = [taint for taint in node.taints if taint.identity != identity]
    if value is None:
        return retainted(node, *rest)
    return retainted(node, *rest, Taint(identity[0], identity[1], value))
