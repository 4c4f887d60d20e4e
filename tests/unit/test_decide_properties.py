"""Passes over random worlds: quiet after acting, back to where it was, and never what is not ours."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import Nodes, a_record, a_snapshot, deleted, edited, unreadable, with_status
from harness.strategies import fleets, haunted_nodes, nodes, pools, specs
from harness.writes import acted, nothing_is_written, patched, relabelled, retainted, settled
from winpool.api.keys import OS_LABEL, POOL_LABEL, RELEASE_FINALIZER
from winpool.api.spec import Mode, WindowsNodePoolSpec
from winpool.decide import Decision, decide
from winpool.model.node import Node
from winpool.model.pool import Pool

any_mode = st.sampled_from(Mode)


def both(pool: Pool, rival: Pool, nodes: Nodes) -> tuple[Decision, Decision]:
    return (
        decide(a_snapshot(pool, nodes, rivals=[rival])),
        decide(a_snapshot(rival, nodes, rivals=[pool])),
    )


worlds = st.builds(
    lambda fleet, haunted: fleet | {haunted.name: haunted}, fleets(), haunted_nodes("w9", uid="uid-of-pool")
)


@given(pools(), worlds)
def test_deciding_on_the_result_of_acting_gives_nothing(pool: Pool, fleet: Nodes) -> None:
    pool, after = settled(pool, fleet)
    decision = decide(a_snapshot(pool, after))
    assert nothing_is_written(decision)


@given(pools(), worlds)
def test_releasing_ends_after_one_pass_and_one_for_nodes_whose_losses_are_reported_first(
    pool: Pool, fleet: Nodes
) -> None:
    pool, after = settled(pool, fleet)
    pool, after = settled(deleted(pool), after)
    pool, after = settled(pool, after)
    decision = decide(a_snapshot(pool, after))
    assert decision.writes.patches == ()
    assert RELEASE_FINALIZER not in (
        pool.finalizers if decision.writes.finalizers is None else decision.writes.finalizers
    )


@given(pools(), st.lists(specs(), max_size=3), fleets())
def test_applying_edits_and_deleting_is_the_identity(
    pool: Pool, edits: list[WindowsNodePoolSpec], fleet: Nodes
) -> None:
    nodes = fleet
    for spec in edits:
        pool, nodes = settled(pool, nodes)
        pool = edited(pool, spec)
    pool, nodes = settled(pool, nodes)
    pool, nodes = settled(deleted(pool), nodes)
    assert nodes == fleet


def as_sets(nodes: Nodes) -> dict[str, Any]:
    """Return the nodes with their taints as sets: new ones stand in the order in which they came."""
    return {name: (node.labels, node.annotations, frozenset(node.taints)) for name, node in nodes.items()}


@given(pools(), st.lists(specs(), max_size=4), specs(), fleets(), st.data())
def test_the_order_of_edits_does_not_matter(
    pool: Pool, edits: list[WindowsNodePoolSpec], last: WindowsNodePoolSpec, fleet: Nodes, data: st.DataObject
) -> None:
    ends = []
    for order in (edits, data.draw(st.permutations(edits)), []):
        mine, nodes = pool, fleet
        for spec in (*order, last):
            mine, nodes = settled(edited(mine, spec), nodes)
        ends.append(as_sets(nodes))
    assert ends[0] == ends[1] == ends[2]


@given(pools(), fleets(), st.data())
def test_what_others_change_meanwhile_survives(pool: Pool, fleet: Nodes, data: st.DataObject) -> None:
    """Between apply and delete somebody writes, and no pass comes in between."""
    assume(fleet)
    pool, applied = settled(pool, fleet)
    name = data.draw(st.sampled_from(sorted(applied)))
    node = applied[name]
    key = data.draw(st.sampled_from(("team", "example.com/tier", "theirs")))
    value = data.draw(st.sampled_from((None, "f9")))
    identity = data.draw(st.sampled_from((("os", "NoSchedule"), ("theirs", "NoExecute"))))
    rest = [taint for taint in node.taints if taint.identity != identity]
    theirs = [] if value is None else [f"{identity[0]}={value}:{identity[1]}"]
    torn = applied | {name: retainted(relabelled(node, **{key: value}), *rest, *theirs)}
    _, after = settled(deleted(pool), torn)
    assert after[name].labels.get(key) == value
    assert [taint.value for taint in after[name].taints if taint.identity == identity] == (
        [value] if value else []
    )
    before = fleet[name]
    assert {k: v for k, v in after[name].labels.items() if k != key} == {
        k: v for k, v in before.labels.items() if k != key
    }
    assert [taint for taint in after[name].taints if taint.identity != identity] == [
        taint for taint in before.taints if taint.identity != identity
    ]
    assert {other: node for other, node in after.items() if other != name} == {
        other: node for other, node in fleet.items() if other != name
    }


@given(pools(modes=any_mode), pools("rival", modes=any_mode), worlds)
def test_two_pools_never_claim_one_node(pool: Pool, rival: Pool, fleet: Nodes) -> None:
    claimed = [
        {
            patch.node.name
            for patch in decision.writes.patches
            if patched(patch.node, patch).labels.get(POOL_LABEL) == each.name
        }
        for each, decision in zip((pool, rival), both(pool, rival, fleet), strict=True)
    ]
    assert not claimed[0] & claimed[1]


@given(pools(), pools("rival"), fleets())
def test_two_pools_share_out_the_nodes_and_stay_with_it(pool: Pool, rival: Pool, fleet: Nodes) -> None:
    """Each node that is asked for has one owner, and passes in any order change nothing any more."""
    first, nodes = settled_among(pool, rival, fleet)
    second, nodes = settled_among(rival, first, nodes)
    for decision in both(first, second, nodes):
        assert nothing_is_written(decision)
    owners = {name: node.labels.get(POOL_LABEL) for name, node in nodes.items()}
    assert first.status.nodes == sum(owner == first.name for owner in owners.values())
    assert decide(a_snapshot(second, nodes, rivals=[first])).status.nodes == sum(
        owner == second.name for owner in owners.values()
    )


def settled_among(pool: Pool, rival: Pool, nodes: Nodes) -> tuple[Pool, Nodes]:
    decision = decide(a_snapshot(pool, nodes, rivals=[rival]))
    after = acted(decision, nodes)
    finalizers = pool.finalizers if decision.writes.finalizers is None else decision.writes.finalizers
    status = decide(a_snapshot(pool, after, rivals=[rival])).status
    return with_status(replace(pool, finalizers=finalizers), status), after


@given(pools(modes=st.sampled_from((Mode.PAUSED, Mode.DRY_RUN))), pools(), worlds)
def test_without_leave_nothing_is_written(held: Pool, pool: Pool, fleet: Nodes) -> None:
    """Paused, a dry run, a spec that cannot be read, an owner that is not known."""
    assert held.spec is not None
    owned, after = settled(pool, fleet)
    assert nothing_is_written(decide(a_snapshot(edited(owned, held.spec), after)))
    assert nothing_is_written(decide(a_snapshot(unreadable(owned), after)))
    stranger = a_record("stranger")
    strangers = [
        replace(relabelled(node, **{POOL_LABEL: None}), annotations=stranger) for node in fleet.values()
    ]
    assert nothing_is_written(decide(a_snapshot(pool, strangers)))


@given(pools(), nodes("w1", windows=False))
def test_a_node_that_is_not_windows_is_never_written(pool: Pool, node: Node) -> None:
    assert nothing_is_written(decide(a_snapshot(pool, [node])))
    assert nothing_is_written(decide(a_snapshot(deleted(pool), [node])))


@given(pools(), nodes("w1"), st.sampled_from(("linux", None)))
def test_a_node_that_is_not_windows_any_more_is_given_back_as_it_was_once_its_pool_is_deleted(
    pool: Pool, before: Node, os: str | None
) -> None:
    pool, after = settled(pool, {"w1": before})
    assume(after["w1"] != before)
    turned = {"w1": relabelled(after["w1"], **{OS_LABEL: os})}
    assert nothing_is_written(decide(a_snapshot(pool, turned)))
    _, released = settled(deleted(pool), turned)
    assert released["w1"] == relabelled(before, **{OS_LABEL: os})


@given(pools(), pools("rival"), worlds, st.randoms())
def test_the_same_picture_leads_to_the_same_writes(
    pool: Pool, rival: Pool, fleet: Nodes, random: Any
) -> None:
    shuffled = list(fleet.values())
    random.shuffle(shuffled)
    first = decide(a_snapshot(pool, fleet, rivals=[rival]))
    second = decide(a_snapshot(pool, shuffled, rivals=[rival]))
    assert first == second


@given(pools(), worlds)
def test_every_patch_is_one_that_the_api_server_takes_and_changes_something(pool: Pool, fleet: Nodes) -> None:
    for patch in decide(a_snapshot(pool, fleet)).writes.patches:
        assert patched(patch.node, patch) != patch.node
