"""In which order nodes are upgraded: canaries, zones, the easiest first, and what has failed last."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.due import CLOSED, HELD, TWO_DAYS, block, due, due_nodes, moving
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.upgrade import Upgrade
from winpool.features.upgrade.plan import Begun, PlannedNode, Turn, in_order
from winpool.features.upgrade.records import NodeUpgrade, Stand
from winpool.model.pods import NO_WORKLOAD


def names(placed: Sequence[PlannedNode]) -> str:
    return " ".join(each.upgrade.node.name for each in placed)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (due("z", workload=moving(1)), due("a", workload=moving(2))),
        (due("z", workload=moving(9)), due("a", workload=moving(1, blocked=1))),
        (due("z", workload=moving(9)), due("a", gates=(CLOSED,))),
        (due("z", workload=moving(9)), due("a", stops=(HELD,))),
        (due("z", workload=moving(9)), due("a", workload=None)),
        (due("z", workload=None), due("a", gates=(CLOSED,))),
        (due("z", age=TWO_DAYS), due("a")),
        (due("z"), due("a", age=None)),
        (due("a"), due("b")),
        (due("z", zone="b", workload=moving(9)), due("a", zone="c")),
        (due("z", zone="b", workload=moving(9)), due("a")),
        (due("z", workload=moving(9)), due("a", labels={UPGRADE_STATE_LABEL: "Failed"})),
        (due("z", zone="b"), due("a", zone="a", labels={UPGRADE_STATE_LABEL: "Quarantined"})),
        (due("z", labels={UPGRADE_STATE_LABEL: "Failed"}), due("host", workload=NO_WORKLOAD)),
    ],
    ids=[
        "fewer pods", "a blocked pod", "a closed gate", "held", "unknown pods", "unknown before blocked",
        "older", "age unknown", "by name", "zones by name", "no zone", "failed", "failed in a first zone",
        "the operator",
    ],
)  # fmt: skip
def test_what_comes_first(first: NodeUpgrade, second: NodeUpgrade) -> None:
    for given_in in ([first, second], [second, first]):
        ordered = in_order(given_in, block(), Begun(operator_node="host"))
        assert [each.upgrade for each in ordered] == [first, second]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (due("z", age=TWO_DAYS, workload=moving(9)), due("a", workload=moving(1))),
        (due("z", age=TWO_DAYS, workload=None), due("a", workload=NO_WORKLOAD)),
        (due("z", zone="b", workload=moving(9)), due("a", zone="c", age=TWO_DAYS)),
        (due("a", workload=moving(9)), due("b", workload=moving(1))),
        (due("z", workload=moving(9)), due("a", age=TWO_DAYS, gates=(CLOSED,))),
    ],
    ids=["older", "unknown pods", "zone", "by name", "a closed gate"],
)
def test_once_the_first_node_is_claimed_zone_and_age_decide(first: NodeUpgrade, second: NodeUpgrade) -> None:
    ordered = in_order([second, first], block(), Begun(by_age=True))
    assert [each.upgrade for each in ordered] == [first, second]
    assert all("the older node comes first" in each.why for each in ordered)


def test_a_canary_that_has_its_slot_stays_one() -> None:
    nodes = [due("a", age=TWO_DAYS), due("b")]
    ordered = in_order(nodes, block(canary={"nodes": 1}), Begun(by_age=True, slots={"b"}))
    assert [(each.node, each.turn) for each in ordered] == [("b", Turn.CANARY), ("a", Turn.ZONE)]


def test_an_open_gate_is_no_obstacle() -> None:
    gates = (
        msgspec.structs.replace(CLOSED, stand=Stand.OPEN),
        msgspec.structs.replace(CLOSED, stand=Stand.UNKNOWN),
    )
    ordered = in_order([due("a", gates=gates, workload=moving(1)), due("b", workload=moving(2))], block())
    assert names(ordered) == "a b"
    assert ordered[0].upgrade.closed == ()


def test_without_a_topology_key_zones_do_not_matter() -> None:
    nodes = [due("a", zone="z", workload=moving(1)), due("b", zone="a", workload=moving(2))]
    ordered = in_order(nodes, block(topologyKey=""))
    assert names(ordered) == "a b"
    assert {each.zone for each in ordered} == {""}
    assert names(in_order(nodes, block())) == "b a"


def test_canaries_are_the_easiest_of_all_zones() -> None:
    nodes = [
        due("a1", zone="a", workload=moving(9)),
        due("a2", zone="a", workload=moving(8)),
        due("b1", zone="b", workload=moving(1)),
        due("b2", zone="b", workload=moving(2)),
    ]
    ordered = in_order(nodes, block(canary={"nodes": 1}))
    assert names(ordered) == "b1 a2 a1 b2"
    assert [each.turn for each in ordered] == [Turn.CANARY, Turn.ZONE, Turn.ZONE, Turn.ZONE]


@pytest.mark.parametrize(("up_to_date", "canaries"), [(0, 2), (1, 1), (2, 0), (7, 0)])
def test_nodes_that_are_up_to_date_are_canaries_already(up_to_date: int, canaries: int) -> None:
    nodes = [due(f"w{number}") for number in range(5)]
    ordered = in_order(nodes, block(canary={"nodes": 2}), Begun(up_to_date=up_to_date))
    assert [each.turn for each in ordered].count(Turn.CANARY) == canaries


def test_a_selector_chooses_canaries_whatever_is_up_to_date() -> None:
    nodes = [due("a"), due("b", labels={"tier": "test"}, workload=moving(5))]
    fields = block(canary={"nodeSelector": {"matchLabels": {"tier": "test"}}})
    ordered = in_order(nodes, fields, Begun(up_to_date=9))
    assert names(ordered) == "b a"


def test_a_failed_node_and_that_of_the_operator_are_no_canaries() -> None:
    nodes = [due("a", labels={UPGRADE_STATE_LABEL: "Failed"}), due("b"), due("c")]
    ordered = in_order(nodes, block(canary={"nodes": 3}), Begun(operator_node="b"))
    assert names(ordered) == "c a b"
    assert [each.turn for each in ordered] == [Turn.CANARY, Turn.FAILED, Turn.OPERATOR]


@pytest.mark.parametrize(
    ("node", "fields", "why"),
    [
        (
            due("a", zone="eu-1", workload=moving(1)),
            {},
            "It is in the zone eu-1; zones follow each other by name. 1 pod would move; fewer come "
            "first, then the older node.",
        ),
        (
            due("a", workload=None),
            {},
            "It has no label topology.kubernetes.io/zone, so it follows the zones. Its pods are not known.",
        ),
        (
            due("a", gates=(CLOSED,), workload=moving(3)),
            {"topologyKey": ""},
            "Something keeps it from being upgraded now, so it follows the nodes that nothing keeps. 3 pods "
            "would move; fewer come first, then the older node.",
        ),
        (
            due("a"),
            {"topologyKey": "", "canary": {"nodes": 1}},
            "spec.upgrade.canary.nodes chooses it, so it precedes all others. 0 pods would move; fewer come "
            "first, then the older node.",
        ),
        (
            due("a", labels={UPGRADE_STATE_LABEL: "Failed"}, workload=None),
            {"topologyKey": ""},
            "Its last upgrade failed, so it follows all nodes whose upgrade has not. Its pods are not known.",
        ),
        (
            due("host", workload=None),
            {"topologyKey": ""},
            "The operator runs on it, so it is the last. Its pods are not known.",
        ),
    ],
)
def test_every_place_is_explained(node: NodeUpgrade, fields: dict[str, Any], why: str) -> None:
    ordered = in_order([node], block(**fields), Begun(operator_node="host"))
    assert [each.why for each in ordered] == [why]


blocks = st.sampled_from(
    [
        block(),
        block(topologyKey=""),
        block(canary={"nodes": 2}),
        block(canary={"nodeSelector": {"matchLabels": {"tier": "test"}}}, topologyKey="tier"),
    ]
)


@given(due_nodes(), blocks, st.sampled_from(["", "w0", "elsewhere"]), st.randoms(use_true_random=False))
def test_the_order_of_a_list_does_not_matter(
    nodes: list[NodeUpgrade], fields: Upgrade, host: str, chance: random.Random
) -> None:
    begun = Begun(up_to_date=1, operator_node=host, by_age=chance.random() < 0.5)
    ordered = in_order(nodes, fields, begun)
    mixed = list(nodes)
    chance.shuffle(mixed)
    assert in_order(mixed, fields, begun) == ordered
    assert sorted(each.upgrade.node.name for each in ordered) == sorted(each.node.name for each in nodes)
    keys = [(each.turn, not each.zone, each.zone) for each in ordered]
    assert keys == sorted(keys)
    assert all(each.why for each in ordered)
