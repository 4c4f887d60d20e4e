"""The contract of a whole pool: which nodes concern it, in which order, and what is to be done there."""

from __future__ import annotations

from hypothesis import given

from harness.assessing import assess
from harness.builders import Nodes, a_node, a_pool, a_record, a_snapshot, deleted, unreadable
from harness.strategies import fleets, pools
from winpool.api.keys import OS_REVISION_LABEL, OS_VERSION_LABEL
from winpool.features.contract.feature import contract
from winpool.features.feature import AllowedActions
from winpool.model.pool import Pool
from winpool.ownership.members import Claim, divide

BLUE = {"agentpool": "blue"}


def test_a_pool_wants_its_labels_and_taints_on_its_nodes() -> None:
    pool = a_pool(labels={"team": "a"}, taints=["os=windows:NoSchedule", "os:PreferNoSchedule"])
    snapshot = a_snapshot(pool, [a_node()])
    [desired] = contract(snapshot, divide(snapshot), AllowedActions.ACT).desired.values()
    assert desired.labels == {"team": "a", OS_VERSION_LABEL: "2022", OS_REVISION_LABEL: "4052"}
    assert desired.taints == {("os", "NoSchedule"): "windows", ("os", "PreferNoSchedule"): ""}


def test_nodes_are_assessed_in_the_order_of_their_names() -> None:
    found = assess(a_snapshot(a_pool(), [a_node(name) for name in ("w2", "w10", "w1")]))
    assert [each.node.name for each in found] == ["w1", "w10", "w2"]


def test_nodes_that_do_not_concern_the_pool_are_left_out() -> None:
    strangers = [a_node("w1", labels=BLUE), a_node("w2", os="linux"), a_node("w3", os=None)]
    assert assess(a_snapshot(a_pool(), strangers)) == ()


def test_what_is_claimed_says_what_is_to_be_done() -> None:
    rival = a_pool("rival", selector={"matchLabels": {"example.com/shared": "yes"}})
    shared = a_node("shared", labels={"example.com/shared": "yes"}, annotations=a_record(rival.uid))
    nodes = [
        a_node("free"),
        a_node("left", labels=BLUE, annotations=a_record()),
        shared,
        a_node("unknown", annotations=a_record("stranger")),
    ]
    found = {each.node.name: each for each in assess(a_snapshot(a_pool(), nodes, rivals=[rival]))}
    assert {name: each.claim for name, each in found.items()} == {
        "free": Claim.OURS,
        "left": Claim.LEFT,
        "shared": Claim.RIVAL,
        "unknown": Claim.UNKNOWN,
    }
    assert {name for name, each in found.items() if each.diff.patch is not None} == {"free", "left"}
    assert found["shared"].rival == "rival"


def test_a_spec_that_cannot_be_read_is_compared_with_nothing() -> None:
    nodes = [a_node("mine", annotations=a_record()), a_node("free")]
    (only,) = assess(a_snapshot(unreadable(a_pool()), nodes))
    assert (only.node.name, only.claim, only.diff.patch, only.compared) == ("mine", Claim.OURS, None, False)


@given(pools(), fleets())
def test_under_deletion_all_that_is_ours_is_to_be_taken_off(pool: Pool, fleet: Nodes) -> None:
    assert assess(a_snapshot(deleted(pool), fleet)) == ()
    owned = [a_node(name, annotations=a_record(), labels=dict(node.labels)) for name, node in fleet.items()]
    assert {
        each.node.name for each in assess(a_snapshot(deleted(pool), owned)) if each.diff.patch
    } == fleet.keys()
