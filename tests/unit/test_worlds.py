"""Worlds with two pools, a few nodes, neighbours who write, and an operator that is killed: it converges."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.builders import GUARD, unreadable
from harness.model import Model, mode_of
from harness.others import SHARED_KEYS, Key, is_windows, owner_of
from harness.strategies import FOREIGN_VALUES, PROTECTED_TAINTS, hostile_records, nodes, specs
from harness.verdict import check_protected, check_settled, is_clean
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, POOL_LABEL, RELEASE_FINALIZER
from winpool.api.spec import Mode, WindowsNodePoolSpec
from winpool.decide import decide
from winpool.model.node import Node, Taint

POOLS = ("a", "b")
NODES = ("n1", "n2", "n3", "n4")

modes = st.sampled_from((Mode.ACTIVE, Mode.ACTIVE, Mode.ACTIVE, Mode.DRY_RUN, Mode.PAUSED))
pool_names = st.sampled_from(POOLS)
node_names = st.sampled_from(NODES)
fleets = st.tuples(*(nodes(name) for name in NODES[:-1]), nodes(NODES[-1], windows=False))


class Worlds(RuleBasedStateMachine):
    """Whatever happens, in whatever order: invariants after each step, and the specs at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    @initialize(fleet=fleets, spec=specs(), far_sighted=st.booleans())
    def begin(self, fleet: tuple[Node, ...], spec: WindowsNodePoolSpec, far_sighted: bool) -> None:
        self.model.far_sighted = far_sighted
        for node in fleet:
            self.model.join(node)
        self.model.create("a", spec)

    # What users do

    @rule(name=pool_names, spec=specs(modes=modes))
    def apply(self, name: str, spec: WindowsNodePoolSpec) -> None:
        if name not in self.model.pools:
            self.model.create(name, spec)
        else:
            self.model.edit(name, spec)

    @rule(name=pool_names)
    def break_spec(self, name: str) -> None:
        if name in self.model.pools:
            self.model.pools[name] = unreadable(self.model.pools[name])

    @rule(name=pool_names)
    def delete(self, name: str) -> None:
        pool = self.model.pools.get(name)
        if pool is not None and not pool.deleting:
            self.model.delete(name)

    @precondition(lambda self: any(pool.deleting for pool in self.model.pools.values()))
    @rule()
    def force(self) -> None:
        self.model.force(next(name for name, pool in self.model.pools.items() if pool.deleting))

    # What the operator does

    @rule(name=pool_names, writes=st.none() | st.integers(0, 4), held_back=st.sets(node_names, max_size=2))
    def run_pass(self, name: str, writes: int | None, held_back: set[str]) -> None:
        pool = self.model.pools.get(name)
        if pool is None:
            return
        waiting = {self.model.nodes[each].uid for each in held_back}
        before = self.model.snapshot(name, held_back=waiting)
        decision = self.model.run_pass(name, writes=writes, held_back=waiting)
        assert decide(before).writes.patches == decision.writes.patches
        assert not waiting & {patch.node.uid for patch in decision.writes.patches}
        if pool.deleting:
            assert decision.writes.finalizers is None or set(decision.writes.finalizers) <= set(
                pool.finalizers
            )
        elif mode_of(pool) is not Mode.ACTIVE:
            assert decision.writes.patches == ()
            # It may have been removed by hand, or a record that was made up names the pool.
            assert decision.writes.finalizers in (None, (*pool.finalizers, RELEASE_FINALIZER))
        elif decision.writes.patches:
            assert RELEASE_FINALIZER in (decision.writes.finalizers or pool.finalizers)
        known = {each.uid for each in (*before.others.rivals, pool)} | self.model.vanished | {None}
        assert all(owner_of(patch.node) in known for patch in decision.writes.patches)

    @rule()
    def list_pools(self) -> None:
        self.model.list_pools()

    @rule()
    def sweep(self) -> None:
        self.model.sweep()

    @rule()
    def restart(self) -> None:
        self.model.restart()

    # What others do

    @rule(name=node_names)
    def start_or_end_a_pod_that_minds(self, name: str) -> None:
        self.model.minding ^= {name}

    @rule()
    def lose_or_regain_sight_of_the_pods(self) -> None:
        self.model.blind = not self.model.blind

    @rule(
        name=node_names, key=st.sampled_from(SHARED_KEYS), value=st.none() | st.sampled_from(FOREIGN_VALUES)
    )
    def write(self, name: str, key: Key, value: str | None) -> None:
        self.model.write(name, key, value)

    @rule(name=node_names, taint=st.sampled_from(PROTECTED_TAINTS))
    def taint(self, name: str, taint: Taint) -> None:
        self.model.protect(name, taint)

    @rule(name=node_names, agentpool=st.sampled_from(("red", "blue", None)))
    def move(self, name: str, agentpool: str | None) -> None:
        self.model.relabel(name, {"agentpool": agentpool})

    @rule(name=node_names, os=st.sampled_from(("windows", "linux", None)))
    def change_system(self, name: str, os: str | None) -> None:
        self.model.relabel(name, {OS_LABEL: os})

    @rule(name=node_names, value=st.sampled_from((None, "a", "b", "c")))
    def write_pool_label(self, name: str, value: str | None) -> None:
        self.model.relabel(name, {POOL_LABEL: value})

    @rule(name=node_names, data=st.data())
    def replace_machine(self, name: str, data: st.DataObject) -> None:
        self.model.join(data.draw(nodes(name)))

    @rule(name=node_names, record=st.none() | hostile_records(uid="uid-5-of-a"))
    def haunt(self, name: str, record: str | None) -> None:
        self.model.haunt(name, {APPLIED_ANNOTATION: record})

    @rule(identity=st.sampled_from(("", GUARD, "another-guard")))
    def change_guard(self, identity: str) -> None:
        self.model.change_guard(identity)

    # What must hold

    @invariant()
    def nothing_is_touched_that_no_pool_may_touch(self) -> None:
        check_protected(self.model)

    @invariant()
    def no_pool_has_nodes_without_its_finalizer(self) -> None:
        """Or a deletion could pass while something of it is on a node."""
        for pool in self.model.pools.values():
            mine = [
                node for node in self.model.nodes.values() if owner_of(node) == pool.uid and is_windows(node)
            ]
            if any(not self.model.others[node.name].haunted for node in mine):
                assert RELEASE_FINALIZER in pool.finalizers

    def teardown(self) -> None:
        self.model.settle()
        self.model.minding.clear()
        self.model.blind = False
        self.model.settle()
        check_protected(self.model)
        check_settled(self.model)
        for name in list(self.model.pools):
            self.model.delete(name)
        self.model.settle()
        assert not self.model.pools
        assert all(is_clean(self.model, node) for node in self.model.nodes.values())
        check_protected(self.model)
        check_settled(self.model)


TestWorlds = Worlds.TestCase
