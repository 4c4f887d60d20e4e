"""The feature of memory: what is signalled on nodes, when, and when it comes off, through ``decide``."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_spec, edited, record_on, unreadable
from harness.house import House
from harness.views import (
    CALM,
    HARD,
    JUST_STARTED,
    PAGING,
    SOFT,
    STALE,
    WARNED,
    a_view,
    all_of,
    known,
    told,
)
from winpool.api.issues import IssueReason
from winpool.api.keys import (
    NODE_KEYS,
    POOL_LABEL,
    PRESSURE_CONDITION,
    PRESSURE_TAINT,
    RELEASE_FINALIZER,
    SetBy,
)
from winpool.decide import FEATURES, decide
from winpool.features.feature import AllowedActions
from winpool.features.memory.feature import memory
from winpool.model.node import NodeCondition, Taint
from winpool.model.pressure import NOTHING_KNOWN, Guard, KnownMemory, Level, NodePressure
from winpool.ownership.desired import KEEP
from winpool.ownership.members import divide

NAMES: Final = ("w1", "w2", "w3")
TAINT: Final = Taint(*PRESSURE_TAINT)
MODES: Final = ("Observe", "Signal", "Evict")
SIGNALLING: Final = ("Signal", "Evict")


def block(mode: str = "Signal", **more: Any) -> dict[str, Any]:
    """Return a part of a spec that watches memory."""
    return {"memoryPressure": {"mode": mode, **more}}


def a_house(mode: str | None = "Signal", found: KnownMemory | None = None, **changes: Any) -> House:
    """Return a settled house of three nodes that watches memory, unless ``mode`` is None."""
    pool = a_pool(more=block(mode) if mode else None, **changes)
    house = House(pool, {name: a_node(name) for name in NAMES}, features=FEATURES)
    house.memory = all_of(NAMES, CALM)
    house.settle()
    house.memory = house.memory if found is None else found
    forget(house)
    return house


def forget(house: House) -> None:
    house.patches.clear()
    house.conditions.clear()


def condition(house: House, name: str = "w1") -> NodeCondition | None:
    return next((each for each in house.nodes[name].conditions if each.type == PRESSURE_CONDITION), None)


def status_on(house: House, name: str = "w1") -> str:
    found = condition(house, name)
    return found.status if found else "absent"


def is_tainted(house: House, name: str = "w1") -> bool:
    return TAINT in house.nodes[name].taints


def see(house: House, view: NodePressure, name: str = "w1", **problems: str) -> None:
    """Let the detector say this of a node, and nothing else of the others than before."""
    uid = f"uid-of-{name}"
    house.memory = replace(
        house.memory,
        told={**house.memory.told, uid: view},
        problems={f"uid-of-{of}": text for of, text in problems.items()},
    )


# What is signalled


@pytest.mark.parametrize("mode", SIGNALLING)
@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (HARD, "CommitExhaustionImminent"),
        (SOFT, "CommitExhaustionImminent"),
        (PAGING, "PhysicalThrashing"),
        (a_view(physical=Level.PROXY_ONLY), "LowAvailableMemory"),
        (a_view(Level.SOFT, Level.HARD), "PhysicalThrashing"),
        (a_view(Level.HARD, Level.HARD), "CommitExhaustionImminent"),
        (a_view(Level.HARD, guard=Guard.OUTSIDE_SHARE), "UnattributedMemory"),
        (a_view(Level.SOFT, None, held=Level.HARD, signalled=True), "CommitExhaustionImminent"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_node_under_pressure_gets_taint_and_condition(mode: str, view: NodePressure, reason: str) -> None:
    house = a_house(mode)
    see(house, view)
    house.settle()
    found = condition(house)
    assert is_tainted(house)
    assert found
    assert (found.status, found.reason) == ("True", reason)
    assert not any(is_tainted(house, other) or condition(house, other) for other in ("w2", "w3"))


def test_the_condition_has_the_numbers_of_both_axes_and_says_that_it_came_back() -> None:
    house = a_house()
    see(house, replace(a_view(Level.HARD, Level.SOFT, outside_pods=2 * 2**30), returns=1))
    house.settle()
    found = condition(house)
    assert found
    assert found.message == (
        "23.5Gi of 24Gi committed (98 %), by Kubelet. 1.5Gi of 16Gi RAM available (9 %), 1200 page reads per "
        "second, by Kubelet. 2Gi are committed outside pods. The pressure came back soon after it had ended, "
        "so this stays longer."
    )


@pytest.mark.parametrize("view", [CALM, WARNED, JUST_STARTED, STALE], ids=["calm", "warned", "new", "stale"])
@pytest.mark.parametrize("mode", MODES)
def test_a_node_that_is_not_known_to_be_under_pressure_gets_nothing(mode: str, view: NodePressure) -> None:
    house = a_house(mode)
    see(house, view)
    assert house.settle() == []


def test_a_node_that_nothing_is_known_of_gets_nothing() -> None:
    house = a_house(found=NOTHING_KNOWN)
    assert house.settle() == []


def test_observe_writes_nothing_to_nodes() -> None:
    house = a_house("Observe")
    see(house, HARD)
    assert house.settle() == []


def test_the_record_names_the_condition_and_not_the_taint() -> None:
    house = a_house()
    see(house, HARD)
    house.settle()
    record = record_on(house.nodes["w1"])
    assert record.conditions == {PRESSURE_CONDITION}
    assert record.taints == {}


def test_taint_and_what_the_spec_asks_for_come_in_one_patch() -> None:
    house = a_house()
    see(house, HARD)
    house.edit(edited(house.pool, a_spec(labels={"team": "payments"}, more=block())))
    house.settle()
    [patch] = [each for each in house.patches if each.node.name == "w1"]
    assert patch.labels == {"team": "payments"}
    assert patch.taints == (TAINT,)


# When it ends, and when it is not known


def test_when_pressure_ends_the_taint_comes_off_and_the_condition_says_so() -> None:
    house = a_house()
    see(house, HARD)
    house.settle()
    see(house, CALM)
    house.settle()
    assert not is_tainted(house)
    assert status_on(house) == "False"
    assert record_on(house.nodes["w1"]).conditions == {PRESSURE_CONDITION}


def test_without_fresh_samples_the_taint_stays_and_the_condition_is_unknown() -> None:
    house = a_house()
    see(house, HARD)
    house.settle()
    forget(house)
    see(house, STALE)
    house.settle()
    found = condition(house)
    assert is_tainted(house)
    assert found
    assert (found.status, found.reason) == ("Unknown", "MetricsStale")
    assert house.patches == []


def test_a_condition_of_a_calm_node_becomes_unknown_too() -> None:
    house = a_house()
    for view in (HARD, CALM, a_view(None, None)):
        see(house, view)
        house.settle()
    assert status_on(house) == "Unknown"
    assert not is_tainted(house)


def test_after_a_restart_all_stays_until_the_detector_has_judged_the_node_anew() -> None:
    house = a_house()
    see(house, HARD)
    house.settle()
    stood = house.nodes["w1"]
    house.restart()
    for found in (NOTHING_KNOWN, told({"w1": JUST_STARTED})):
        house.memory = found
        assert house.settle() == []
        assert house.nodes["w1"] == stood
    see(house, CALM)
    house.settle()
    assert (is_tainted(house), status_on(house)) == (False, "False")


@pytest.mark.parametrize("level", [Level.WARNING, Level.SOFT, Level.HARD])
def test_after_a_restart_a_node_that_is_signalled_is_no_warning_beside_that(level: Level) -> None:
    """The fix of the warning says that nothing is signalled yet."""
    house = a_house()
    see(house, HARD)
    house.settle()
    house.restart()
    house.memory = told({"w1": a_view(level, signalled=None), "w2": a_view(level, signalled=None)})
    house.settle()
    named = {each.reason: each.nodes for each in house.pool.status.issues}
    assert named == {IssueReason.MEMORY_PRESSURE: ("w1",), IssueReason.MEMORY_WARNING: ("w2",)}


def test_after_a_restart_a_node_whose_pressure_has_ended_before_is_warned_of() -> None:
    """Its condition is there, and says False."""
    house = a_house()
    for view in (HARD, CALM):
        see(house, view)
        house.settle()
    house.restart()
    house.memory = told({"w1": a_view(Level.WARNING, signalled=None)})
    house.settle()
    assert status_on(house) == "False"
    assert [(each.reason, each.nodes) for each in house.pool.status.issues] == [
        (IssueReason.MEMORY_WARNING, ("w1",))
    ]


def test_after_a_restart_a_source_that_fails_makes_the_condition_unknown() -> None:
    house = a_house()
    see(house, HARD)
    house.settle()
    house.restart()
    house.memory = told({}, problems={"w1": "The kubelet did not answer in time."})
    house.settle()
    assert (is_tainted(house), status_on(house)) == (True, "Unknown")


def test_samples_that_change_nothing_write_nothing() -> None:
    house = a_house()
    see(house, HARD)
    house.settle()
    forget(house)
    newer = replace(house.memory, views=all_of(NAMES, SOFT).told, read_at=1000.0)
    house.memory = newer
    assert house.settle() == []


def test_another_level_of_a_node_under_pressure_needs_no_patch() -> None:
    house = a_house()
    see(house, SOFT)
    house.settle()
    forget(house)
    see(house, HARD)
    house.settle()
    assert house.patches == []
    [written] = house.conditions
    assert written.conditions[0].status == "True"


def test_a_condition_that_someone_else_wrote_is_not_changed_while_there_is_no_pressure() -> None:
    theirs = NodeCondition(PRESSURE_CONDITION, "True", "Theirs", "written by a kubelet")
    house = a_house()
    house.tell("w1", theirs)
    for view in (CALM, STALE, JUST_STARTED):
        see(house, view)
        assert house.settle() == []
    assert condition(house) == theirs


def test_a_taint_that_someone_removed_is_restored_and_told() -> None:
    house = a_house()
    see(house, HARD)
    house.settle()
    house.repaired.clear()
    house.write("w1", taints=())
    house.settle()
    assert is_tainted(house)
    assert house.repaired == [("taint winpool.dev/memory-pressure:NoSchedule",)]


# The allowed


def a_marked_house(mode: str = "Signal") -> House:
    """Return a house with a node that is signalled."""
    house = a_house(mode)
    see(house, HARD)
    house.settle()
    assert is_tainted(house)
    assert status_on(house) == "True"
    forget(house)
    return house


def is_clean(house: House) -> bool:
    node = house.nodes["w1"]
    return not node.taints and not node.conditions and not record_on(node).conditions


@pytest.mark.parametrize("more", [block("Observe"), None], ids=["Observe", "no block"])
def test_taint_and_condition_come_off_with_the_mode_or_the_block(more: dict[str, Any] | None) -> None:
    house = a_marked_house()
    house.edit(edited(house.pool, a_spec(more=more)))
    house.settle()
    assert is_clean(house)


def test_until_the_condition_is_off_the_pool_is_not_settled() -> None:
    """The taint comes off first, in a write of its own (P9)."""
    house = a_marked_house()
    house.edit(edited(house.pool, a_spec(more=block("Observe"))))
    said = []
    while not is_clean(house):
        house.run()
        [reconciling] = [each.status for each in house.pool.status.conditions if each.type == "Reconciling"]
        said.append((is_tainted(house), status_on(house), reconciling))
    assert said == [(False, "True", "True"), (False, "absent", "True"), (False, "absent", "False")]


@pytest.mark.parametrize("more", [block("Signal"), block("Observe"), None], ids=["Signal", "Observe", "none"])
def test_they_come_off_where_the_spec_cannot_be_acted_on(more: dict[str, Any] | None) -> None:
    house = a_marked_house()
    house.edit(edited(house.pool, a_spec(labels={"team": "new"}, taints=["a=b:NoSchedule"], more=more)))
    house.settle(pods_forbidden="list pods")
    node = house.nodes["w1"]
    assert (node.taints, node.conditions) == ((), ())
    assert "team" not in node.labels
    assert node.labels[POOL_LABEL] == "pool"


def test_they_come_off_where_the_spec_cannot_be_read() -> None:
    house = a_marked_house()
    house.edit(unreadable(house.pool))
    house.settle()
    node = house.nodes["w1"]
    assert (node.taints, node.conditions) == ((), ())
    assert node.labels[POOL_LABEL] == "pool"


def test_where_nothing_is_to_come_off_a_refused_spec_writes_nothing() -> None:
    house = a_house()
    house.edit(edited(house.pool, a_spec(labels={"team": "new"}, taints=["a=b:NoSchedule"], more=block())))
    assert house.settle(pods_forbidden="list pods") == []


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
@pytest.mark.parametrize("view", [CALM, STALE, HARD, SOFT], ids=["calm", "stale", "hard", "soft"])
def test_in_a_mode_that_writes_nothing_they_stay_and_are_told(mode: str, view: NodePressure) -> None:
    house = a_marked_house()
    stood = dict(house.nodes)
    house.edit(edited(house.pool, a_spec(mode=mode, more=block())))
    see(house, view)
    see(house, HARD, "w2")
    house.settle()
    assert house.nodes == stood
    healthy = house.pool.status.condition("MemoryHealthy")
    assert healthy
    assert healthy.message.endswith(
        f"spec.mode is {mode}: taint and condition stay as they are on 1 node (w1)."
    )


def test_a_dry_run_plans_the_taint_and_the_condition() -> None:
    house = a_house(mode="Signal")
    house.edit(edited(house.pool, a_spec(mode="DryRun", more=block())))
    see(house, HARD)
    plan = house.decide().status.plan
    assert plan
    [step] = plan.steps
    [taint, condition] = step.changes
    assert (step.node, step.reason) == ("w1", "Taints")
    assert (taint.key, taint.from_, taint.to) == ("winpool.dev/memory-pressure:NoSchedule", None, "")
    told = (condition.kind, condition.key, condition.from_, condition.to)
    assert told == ("Condition", "WindowsMemoryPressure", None, "True (CommitExhaustionImminent)")


def test_a_deleted_pool_takes_the_condition_off_first_and_the_label_last() -> None:
    house = a_marked_house()
    house.delete()
    house.run()
    node = house.nodes["w1"]
    assert node.conditions == ()
    assert (is_tainted(house), node.labels[POOL_LABEL]) == (True, "pool")
    house.settle()
    assert house.nodes["w1"] == a_node("w1")
    assert RELEASE_FINALIZER not in house.pool.finalizers


def test_a_node_that_leaves_the_pool_loses_both() -> None:
    house = a_marked_house()
    house.write("w1", labels={"agentpool": "blue"})
    house.settle()
    node = house.nodes["w1"]
    assert (node.taints, node.conditions, POOL_LABEL in node.labels) == ((), (), False)


# Which nodes are sampled


@pytest.mark.parametrize("mode", [*MODES, None])
@pytest.mark.parametrize("pool_mode", ["Active", "Paused", "DryRun"])
def test_the_nodes_of_a_pool_are_sampled_where_it_asks_for_it(mode: str | None, pool_mode: str) -> None:
    house = a_house(mode)
    house.edit(edited(house.pool, a_spec(mode=pool_mode, more=block(mode) if mode else None)))
    house.nodes["other"] = a_node("other", labels={"agentpool": "blue"})
    assert [node.name for node in house.decide().sampled] == (list(NAMES) if mode else [])


def test_no_node_is_sampled_for_a_pool_that_is_being_deleted() -> None:
    house = a_house()
    house.delete()
    assert house.decide().sampled == ()


# For any that is known


def run_all(house: House, found: KnownMemory) -> None:
    house.memory = found
    house.settle()


def goals_of(
    house: House, found: KnownMemory, allowed: AllowedActions = AllowedActions.ACT
) -> dict[str, Any]:
    snapshot = replace(house.snapshot(), memory=found)
    return dict(memory(snapshot, divide(snapshot), allowed).desired)


@given(found=known(NAMES), then=known(NAMES), mode=st.sampled_from(MODES))
def test_nothing_is_written_twice_for_the_same_knowledge(
    found: KnownMemory, then: KnownMemory, mode: str
) -> None:
    house = a_house(mode)
    for each in (found, then):
        run_all(house, each)
        stood = house.pool.status
        decision = house.decide()
        assert not decision.writes
        assert decision.writes.finalizers is None
        assert decision.status == stood
        assert decision.pool_events == ()


def test_a_pressure_that_has_ended_and_what_follows_from_it_are_written_at_once() -> None:
    house = a_house("Observe")
    begun = a_view(None, Level.NORMAL, signalled=None)  # since the start it was not judged
    run_all(house, told({"w1": begun, "w2": begun, "w3": HARD}, problems={"w1": "It is off."}))
    assert house.pool.status.pressured_nodes == 1
    run_all(house, told({"w1": begun, "w2": begun, "w3": a_view(None, None)}))
    stood = house.pool.status
    assert stood.pressured_nodes == 0
    assert house.decide().status == stood


@given(found=known(NAMES), then=known(NAMES))
def test_what_is_not_known_changes_no_taint(found: KnownMemory, then: KnownMemory) -> None:
    house = a_house()
    run_all(house, found)
    before = {name: is_tainted(house, name) for name in NAMES}
    run_all(house, then)
    for name in NAMES:
        view = then.told.get(f"uid-of-{name}")
        if (
            view is None
            or view.is_signalled is None
            or all(each.level is None for each in view.axes.values())
        ):
            assert is_tainted(house, name) is before[name]


@given(found=known(NAMES), mode=st.sampled_from(MODES), allowed=st.sampled_from(AllowedActions))
def test_taints_are_wanted_in_signal_and_evict_only_and_never_on_release(
    found: KnownMemory, mode: str, allowed: AllowedActions
) -> None:
    house = a_house(mode)
    wanted = [
        wish for desired in goals_of(house, found, allowed).values() for wish in desired.taints.values()
    ]
    if mode == "Observe" or allowed in (AllowedActions.RELEASE, AllowedActions.FINISH):
        assert "" not in wanted
    assert {*wanted} <= {"", None, KEEP}


_OURS: Final = {(each.name, each.effect) for each in NODE_KEYS if each.set_by is SetBy.MEMORY}


@given(found=known(NAMES), mode=st.sampled_from(MODES))
def test_only_keys_of_the_table_are_named(found: KnownMemory, mode: str) -> None:
    house = a_house(mode)
    run_all(house, found)
    for desired in goals_of(house, found).values():
        named = {*desired.taints, *((each.type, "") for each in desired.conditions)}
        assert named <= _OURS
        assert not desired.labels
        assert desired.unschedulable is None


@given(found=known(NAMES), then=known(NAMES), mode=st.sampled_from(MODES))
def test_deletion_removes_all_of_it_whatever_is_known(
    found: KnownMemory, then: KnownMemory, mode: str
) -> None:
    house = a_house(mode)
    run_all(house, found)
    house.delete()
    run_all(house, then)
    assert all(house.nodes[name] == a_node(name) for name in NAMES)


def worse(view: NodePressure) -> NodePressure:
    """Return ``view`` with one axis known to be at Hard, and signalled."""
    [commit, *_] = view.axes
    axis = replace(view.axes[commit], level=Level.HARD, held=Level.HARD)
    return replace(view, axes={**view.axes, commit: axis}, is_signalled=True)


@given(found=known(NAMES))
def test_more_pressure_never_removes_a_taint(found: KnownMemory) -> None:
    house = a_house()
    run_all(house, found)
    before = {name for name in NAMES if is_tainted(house, name)}
    run_all(house, replace(found, told={uid: worse(view) for uid, view in found.told.items()}))
    assert before <= {name for name in NAMES if is_tainted(house, name)}


@given(found=known(NAMES))
def test_a_pool_without_the_block_decides_as_if_nothing_were_known(found: KnownMemory) -> None:
    house = a_house(None)
    house.write("w1", labels={"winpool.dev/os-version": None})
    bare = house.snapshot()
    assert decide(replace(bare, memory=found)) == decide(bare)
    assert decide(bare, FEATURES[:1]) == decide(bare)


def test_nodes_that_are_alike_share_their_goals() -> None:
    names = [f"n{number}" for number in range(50)]
    house = House(a_pool(more=block()), {name: a_node(name) for name in names}, features=FEATURES)
    for view, most in ((CALM, 0), (JUST_STARTED, 1), (STALE, 1)):
        assert len({id(each) for each in goals_of(house, all_of(names, view)).values()}) <= most
