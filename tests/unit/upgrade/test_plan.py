"""The plan of the upgrades of a pool: places, batches, obstacles and times; the same for the same world."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_spec
from harness.due import CLOSED, DUE, HELD, due, due_nodes, moving
from winpool.api.upgrade import Gate, Method, Override
from winpool.features.upgrade.capacity import Fit
from winpool.features.upgrade.plan import (
    EVICTION_SECONDS,
    MACHINE_SECONDS,
    SETTLE_SECONDS,
    PlannedAction,
    UpgradePlan,
    upgrade_plan,
)
from winpool.features.upgrade.records import GateFinding, NodeUpgrade, Stand, Stop, UpgradeOverview
from winpool.model.node import Node, is_available
from winpool.model.pods import Block, BlockedBy

OPEN: Final = GateFinding(Gate.SUPPORT_MATRIX, Stand.OPEN, "The target is supported.")
WINDOW: Final = GateFinding(
    Gate.MAINTENANCE_WINDOW, Stand.CLOSED, "No window is open.", "Wait for the window."
)
PAUSED: Final = Stop("PausedBySpec", "spec.mode is Paused.", "Set it to Active.")


def planned(
    nodes: Sequence[NodeUpgrade],
    *,
    others: Sequence[Node] = (),
    gates: tuple[GateFinding, ...] = (OPEN,),
    stops: tuple[Stop, ...] = (),
    up_to_date: int = 0,
    unknown: tuple[str, ...] = (),
    operator_node: str = "",
    more: dict[str, Any] | None = None,
    **fields: Any,
) -> UpgradePlan:
    """Return the plan of a pool of ``nodes`` that are due and ``others``; ``fields`` are of spec.upgrade."""
    return upgrade_plan(
        UpgradeOverview("2022.4052", gates, stops, tuple(nodes), unknown, up_to_date),
        spec=a_spec(more={"upgrade": fields, **(more or {})}),
        nodes_of_pool=[*(each.node for each in nodes), *others],
        operator_node=operator_node,
    )


def batches(plan: UpgradePlan) -> list[str]:
    return [" ".join(each.nodes) for each in plan.batches]


SEVEN: Final = [due(f"w{number}") for number in range(7)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (1, ["w0", "w1", "w2", "w3", "w4", "w5", "w6"]),
        (3, ["w0 w1 w2", "w3 w4 w5", "w6"]),
        ("30%", ["w0 w1", "w2 w3", "w4 w5", "w6"]),
        ("1%", ["w0", "w1", "w2", "w3", "w4", "w5", "w6"]),
        ("100%", ["w0 w1 w2 w3 w4 w5 w6"]),
        (5000, ["w0 w1 w2 w3 w4 w5 w6"]),
    ],
)
def test_batches_are_as_large_as_the_budget(asked: int | str, expected: list[str]) -> None:
    plan = planned(SEVEN, maxUnavailable=asked)
    assert batches(plan) == expected
    assert [each.batch for each in plan.nodes] == [
        number for number, names in enumerate(expected, start=1) for _ in names.split()
    ]
    assert [each.place for each in plan.nodes] == list(range(1, 8))


@pytest.mark.parametrize(("unavailable", "size"), [(0, 3), (1, 2), (2, 1), (3, 1), (9, 1)], ids=str)
def test_what_is_unavailable_now_leaves_less_of_the_budget(unavailable: int, size: int) -> None:
    """Where nothing is left of it, the gate Budget opens with one node."""
    kinds = ({"unschedulable": True}, {"ready": "False"}, {"deleting": True})
    others = [a_node(f"x{number}", **kinds[number % 3]) for number in range(unavailable)]
    plan = planned(SEVEN, others=[*others, a_node("fine")], maxUnavailable=3)
    assert (plan.max_unavailable, plan.unavailable, plan.batch_size) == (3, unavailable, size)
    assert max(len(each.nodes) for each in plan.batches) == size


@pytest.mark.parametrize("asked", [0, "0%"])
def test_a_budget_of_nothing_has_no_batches_and_still_an_order(asked: int | str) -> None:
    plan = planned(SEVEN, maxUnavailable=asked)
    assert (plan.batches, plan.batch_size, plan.likely_seconds, plan.worst_case_seconds) == (
        (),
        0,
        None,
        None,
    )
    assert [each.node for each in plan.nodes] == [f"w{number}" for number in range(7)]
    assert {each.batch for each in plan.nodes} == {None}


def test_zones_and_canaries_have_batches_of_their_own() -> None:
    nodes = [
        *(due(f"a{number}", zone="a", workload=moving(2)) for number in range(3)),
        *(due(f"b{number}", zone="b", workload=moving(1)) for number in range(3)),
        due("c0", workload=moving(9)),
    ]
    plan = planned(nodes, maxUnavailable=2, canary={"nodes": 1})
    assert batches(plan) == ["b0", "a0 a1", "a2", "b1 b2", "c0"]
    assert [each.zone for each in plan.batches] == ["b", "a", "a", "b", ""]
    assert [each.is_canary for each in plan.batches] == [True, False, False, False, False]


def test_where_the_operator_acts_the_first_batch_is_the_easiest_and_then_the_older_come() -> None:
    nodes = [
        due(f"w{number}", workload=moving(9 - number), age=timedelta(days=9 - number)) for number in range(5)
    ]
    assert batches(planned(nodes, maxUnavailable=2)) == ["w4 w3", "w2 w1", "w0"]
    plan = planned(nodes, maxUnavailable=2, strategy="RollingUpdate")
    assert batches(plan) == ["w4 w3", "w0 w1", "w2"]
    assert "fewer come first" in plan.nodes[1].why
    assert "the older node comes first" in plan.nodes[2].why


@pytest.mark.parametrize(
    ("changes", "nodes_wait"),
    [
        ({}, ["b"]),
        ({"gates": (OPEN, WINDOW)}, ["a", "b"]),
        ({"gates": (msgspec.structs.replace(WINDOW, stand=Stand.UNKNOWN),)}, ["a", "b"]),
        ({"stops": (PAUSED,)}, ["a", "b"]),
    ],
    ids=["open", "closed", "unknown", "stopped"],
)
def test_a_node_waits_for_gates_of_the_pool_and_its_own(
    changes: dict[str, Any], nodes_wait: list[str]
) -> None:
    plan = planned([due("a"), due("b", gates=(CLOSED,), stops=(HELD,))], **changes)
    assert [each.node for each in plan.nodes if each.action is PlannedAction.WAIT] == nodes_wait
    first, second = plan.nodes
    assert (first.upgrade.closed, first.upgrade.stops) == ((), ())
    closed = second.upgrade.closed
    assert ([each.gate for each in closed], second.upgrade.stops) == ([Gate.CAPACITY], (HELD,))
    assert (closed[0].message, closed[0].opens) == ("They do not fit.", "Add nodes.")


def test_an_override_opens_a_gate() -> None:
    override = Override(gate=Gate.MAINTENANCE_WINDOW, until=NOON + timedelta(hours=1), reason="incident")
    plan = planned([due("a")], gates=(msgspec.structs.replace(WINDOW, override=override),))
    assert plan.nodes[0].action is PlannedAction.UPGRADE


def test_what_is_known_of_the_pods_is_in_the_plan() -> None:
    blocks = (Block("shop/db-0", BlockedBy.NONE_ALLOWED, ("db",)),)
    workload = moving(4, blocks=blocks, blocked=2, unmanaged=1, local=3)
    fit = Fit(2, 1, ("requests 100m CPU and 1Mi memory",))
    upgrade = planned([due("a", workload=workload, fit=fit)]).nodes[0].upgrade
    assert (upgrade.workload, upgrade.fit, upgrade.due) == (workload, fit, DUE)


def test_a_plan_without_due_nodes_is_empty() -> None:
    plan = planned([], others=[a_node("w1")], up_to_date=1, unknown=("z", "a"))
    assert (plan.nodes, plan.batches, plan.likely_seconds) == ((), (), None)


def test_the_operator_is_last() -> None:
    assert batches(planned([due("a"), due("b")], operator_node="a", maxUnavailable=2)) == ["b", "a"]


def test_without_the_block_there_is_no_plan() -> None:
    with pytest.raises(ValueError, match="no upgrade"):
        upgrade_plan(UpgradeOverview("2022", ()), spec=a_spec(), nodes_of_pool=[])


TIMES: Final[dict[str, Any]] = {
    "soakSeconds": 300,
    "rejoinTimeoutSeconds": 3000,
    "settleTimeoutSeconds": 2000,
    "drain": {"timeoutSeconds": 4000, "volumeDetachTimeoutSeconds": 500},
}
MACHINE: Final = MACHINE_SECONDS[Method.IN_PLACE]


@pytest.mark.parametrize(
    ("nodes", "fields", "more", "likely", "worst_case"),
    [
        ([due("a", workload=moving(1, longest_grace=90))], {}, {},
         90 + EVICTION_SECONDS + MACHINE + 300, 4000 + 500 + 3000 + 2000),
        ([due("a")], {}, {}, MACHINE + 300, 3000 + 300),
        ([due("a", workload=None)], {}, {}, 30 + EVICTION_SECONDS + MACHINE + 300, 4000 + 500 + 3000 + 2000),
        ([due("a", workload=moving(1, longest_grace=10**9))], {}, {},
         4000 + MACHINE + 300, 4000 + 500 + 3000 + 2000),
        ([due("a")], {"rejoinTimeoutSeconds": 60}, {}, 60 + 300, 60 + 300),
        ([due("a", workload=moving(1))], {"rejoinTimeoutSeconds": 60}, {},
         EVICTION_SECONDS + SETTLE_SECONDS, 4000 + 500 + 60 + 2000),
        ([due("a")], {}, {"validation": {}}, MACHINE + 120 + 300, 3000 + 600 + 300),
        ([due("a")], {"canary": {"nodes": 1, "soakSeconds": 5000}}, {}, MACHINE + 5000, 3000 + 5000),
        ([due("a"), due("b")], {}, {}, 2 * (MACHINE + 300), 2 * (3000 + 300)),
        ([due("a"), due("b")], {"maxUnavailable": 2}, {}, MACHINE + 300, 3000 + 300),
    ],
    ids=[
        "a drain", "nothing to drain", "unknown pods", "a forged grace", "a short rejoin", "settling",
        "validation", "canary", "one after the other", "side by side",
    ],
)  # fmt: skip
def test_times_follow_from_the_spec_and_the_pods(
    nodes: list[NodeUpgrade], fields: dict[str, Any], more: dict[str, Any], likely: int, worst_case: int
) -> None:
    plan = planned(nodes, more=more, **{**TIMES, **fields})
    assert (plan.likely_seconds, plan.worst_case_seconds) == (likely, worst_case)


def test_only_canaries_soak_as_long_as_canaries() -> None:
    plan = planned([due("a"), due("b")], **TIMES, canary={"nodes": 1, "soakSeconds": 5000})
    assert [(each.likely_seconds, each.worst_case_seconds) for each in plan.batches] == [
        (MACHINE + 5000, 3000 + 5000),
        (MACHINE + 300, 3000 + 300),
    ]


def test_a_replaced_machine_takes_another_time() -> None:
    plan = planned([due("a")], method="Replace", **TIMES)
    assert plan.likely_seconds == MACHINE_SECONDS[Method.REPLACE] + 300


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[NodeUpgrade], list[Node], dict[str, Any]]:
    nodes = [
        msgspec.structs.replace(each, node=replace(each.node, unschedulable=draw(st.booleans())))
        for each in draw(due_nodes())
    ]
    others = [
        a_node(f"x{number}", ready=draw(st.sampled_from(["True", "False", "Unknown"])))
        for number in range(draw(st.integers(0, 5)))
    ]
    fields: dict[str, Any] = {
        "maxUnavailable": draw(st.sampled_from([0, 1, 2, 3, 20, "0%", "1%", "30%", "100%"])),
        "topologyKey": draw(st.sampled_from(["topology.kubernetes.io/zone", ""])),
        **draw(st.sampled_from([{}, {"canary": {"nodes": 2}}])),
    }
    return nodes, others, fields


@given(worlds(), st.randoms(use_true_random=False))
def test_a_plan_has_each_due_node_once_and_keeps_budget_and_zones(
    world: tuple[list[NodeUpgrade], list[Node], dict[str, Any]], chance: random.Random
) -> None:
    nodes, others, fields = world
    plan = planned(nodes, others=others, **fields)
    names = [each.node for each in plan.nodes]
    assert sorted(names) == sorted(each.node.name for each in nodes)
    # The budget, by its rule and not by the code of the plan.
    asked, pool = fields["maxUnavailable"], [*(each.node for each in nodes), *others]
    is_percent = isinstance(asked, str)
    budget = max(int(asked[:-1]) * len(pool) // 100, 1 if asked != "0%" else 0) if is_percent else asked
    free = budget - sum(not is_available(each) for each in pool)
    if budget == 0:
        assert not plan.batches
    else:
        assert [name for each in plan.batches for name in each.nodes] == names
        assert all(len(each.nodes) <= max(free, 1) for each in plan.batches)
    zones = {each.node: each.zone for each in plan.nodes}
    assert all({zones[name] for name in each.nodes} == {each.zone} for each in plan.batches)
    assert [each.batch for each in plan.nodes] == [
        next((batch.number for batch in plan.batches if name in batch.nodes), None) for name in names
    ]
    assert (plan.worst_case_seconds or 0) >= (plan.likely_seconds or 0)
    # Twice, and with shuffled lists: the same.
    mixed = list(nodes)
    chance.shuffle(mixed)
    assert planned(nodes, others=others, **fields) == plan
    assert planned(mixed, others=others[::-1], **fields) == plan
