"""STATE is the worst that is true of a pool, and what tools that wait make of each."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.kstatus import Status
from harness.assessing import assess
from harness.builders import SUPPORTED, Nodes, a_node, a_pool, a_record, a_snapshot, by_name
from harness.every import every
from harness.strategies import fleets
from harness.writes import settled
from unit.status.test_conditions import WHY, WORLDS, reported
from unit.status.test_gates import read
from winpool.api.conditions import STATES, Reason
from winpool.api.spec import Mode
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import Claim
from winpool.status.view import STATE_OF, ConditionValue, worst

SHOWN: Final = {
    "Deleting": ("releasing", Status.TERMINATING),
    "SpecRejected": ("rejected", Status.FAILED),
    "MissingPermission": ("without permission", Status.FAILED),
    "PoolOverlap": ("all taken", Status.FAILED),
    "OwnerUnknown": ("nobody knows whose", Status.IN_PROGRESS),
    "TooFewAvailable": ("too few ready", Status.IN_PROGRESS),
    "WriteRefused": ("refused", Status.FAILED),
    "Paused": ("paused", Status.CURRENT),
    "DryRun": ("dry run", Status.CURRENT),
    "SystemicPressure": ("systemic pressure", Status.CURRENT),
    "TaintsHeld": ("held", Status.FAILED),
    "ValidationTimedOut": ("validation timed out", Status.FAILED),
    "UpgradeFailed": ("an upgrade failed", Status.FAILED),
    "DrainBlocked": ("a drain is blocked", Status.FAILED),
    "NodesUnhealthy": ("upgraded nodes are not ready", Status.IN_PROGRESS),
    "SettleTimedOut": ("workloads are not back", Status.FAILED),
    "PodListFailing": ("pods not listed", Status.IN_PROGRESS),
    "UpgradeInProgress": ("a node is drained", Status.IN_PROGRESS),
    "RolloutInProgress": ("rollout", Status.IN_PROGRESS),
    "ValidatingNodes": ("validating", Status.IN_PROGRESS),
    "NodesUnderPressure": ("memory pressure", Status.CURRENT),
    "NodesHeld": ("held by a person", Status.CURRENT),
    "BuildUnsupported": ("a build that is not listed", Status.CURRENT),
    "SupportEnded": ("support ended", Status.CURRENT),
    "RevisionBelowFloor": ("below the floor", Status.CURRENT),
    "VersionSkew": ("an old kubelet", Status.CURRENT),
    "RuntimeTooOld": ("an old runtime", Status.CURRENT),
    "PodsUnreadable": ("unreadable pods", Status.CURRENT),
    "MemoryMismatch": ("memory mismatch", Status.CURRENT),
    "UpgradeDue": ("another release", Status.CURRENT),
    "BuildUnknown": ("a build that is not known", Status.CURRENT),
    "NoNodesSelected": ("no nodes", Status.CURRENT),
    "UpToDate": ("up to date", Status.CURRENT),
}
"""For each STATE a world, and what kstatus reads from it: Argo CD and Flux stay green while it is Current."""

RANKS: Final = {reason: rank for rank, reason in enumerate(STATES)}


@pytest.mark.slow
@every(("state", "world"), [(state, world) for state, (world, _) in SHOWN.items()])
def test_each_state_is_shown(state: str, world: str) -> None:
    ready = reported(WORLDS[world]())["Ready"]
    assert (ready.reason, ready.status) == (state, STATES[Reason(state)])


@pytest.mark.slow
@every(("state", "world", "status"), [(state, *shown) for state, shown in SHOWN.items()])
def test_kstatus_reads_each_state_as_whoever_waits_needs_it(state: str, world: str, status: Status) -> None:
    assert (state, read(WORLDS[world]())) == (state, status)


def test_there_is_a_world_for_every_state_in_the_order_of_the_table() -> None:
    assert list(SHOWN) == [*STATES]


@given(st.permutations([*STATES]))
def test_of_all_that_is_true_the_first_of_the_table_is_said(shuffled: list[Any]) -> None:
    some = shuffled[: 1 + len(shuffled) // 3]
    found = worst(ConditionValue("True", each, "so it is") for each in some)
    assert RANKS[found.reason] == min(RANKS[each] for each in some)


# Several at once

WRONG: Final = "10.0.14393.8000"


def nodes_of_another_release() -> Nodes:
    """Return nodes whose release is neither the spec's nor supported."""
    other = replace(SUPPORTED, kernel=WRONG)
    return by_name(*(a_node(f"w{number}", versions=other) for number in range(3)))


@pytest.mark.parametrize(
    ("mode", "state"), [("Active", "BuildUnsupported"), ("Paused", "Paused"), ("DryRun", "DryRun")]
)
def test_a_mode_in_which_nothing_is_written_comes_before_what_nodes_run(mode: str, state: str) -> None:
    snapshot = a_snapshot(*settled(a_pool(mode=mode), nodes_of_another_release()))
    assert reported(snapshot)["Ready"].reason == state


def test_a_refused_write_comes_before_what_nodes_run() -> None:
    nodes = nodes_of_another_release()
    snapshot = a_snapshot(a_pool(labels={"team": "a"}), nodes, refused={nodes["w0"].uid: WHY})
    found = reported(snapshot)
    assert (found["Ready"].reason, found["NodesUpToDate"].reason) == ("WriteRefused", "WriteRefused")


def test_a_refused_write_comes_before_the_mode_that_writes_nothing() -> None:
    nodes = nodes_of_another_release()
    pool = a_pool(labels={"team": "a"}, mode="Paused")
    found = reported(a_snapshot(pool, nodes, refused={node.uid: WHY for node in nodes.values()}))
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "WriteRefused")
    assert reported(a_snapshot(pool, nodes))["Ready"].reason == "Paused"
    assert read(a_snapshot(pool, nodes)) is Status.CURRENT


def test_nodes_that_may_come_back_are_not_lost_yet() -> None:
    """The pool owns none. It may get those of which nobody knows the owner, so it is not stalled (P4)."""
    rival = a_pool("rival")
    nodes = [a_node("w0", annotations=a_record(rival.uid)), a_node("w1", annotations=a_record("stranger"))]
    found = reported(a_snapshot(a_pool(), nodes, rivals=[rival]))
    assert (found["Ready"].reason, found["Stalled"].status) == ("PoolOverlap", "False")
    assert (found["NodesUpToDate"].status, found["NodesUpToDate"].reason) == ("False", "PoolOverlap")


def test_a_pool_is_not_up_to_date_while_the_owner_of_a_node_is_unknown() -> None:
    """Or a wait would pass over nodes that have nothing of the spec."""
    pool, nodes = settled(a_pool(labels={"team": "a"}), by_name(a_node("w0"), a_node("w1")))
    assert reported(a_snapshot(pool, nodes))["NodesUpToDate"].status == "True"
    stranger = a_node("w2", annotations=a_record("stranger"))
    snapshot = a_snapshot(pool, by_name(*nodes.values(), stranger))
    found = reported(snapshot)
    assert (found["Ready"].status, found["Ready"].reason) == ("False", "OwnerUnknown")
    assert (found["NodesUpToDate"].status, found["NodesUpToDate"].reason) == ("Unknown", "OwnerUnknown")
    assert (found["Stalled"].status, read(snapshot)) == ("False", Status.IN_PROGRESS)


def test_a_node_that_only_a_person_can_give_to_the_pool_stalls_it() -> None:
    """Two lists of all pools lack its owner, and nothing vouches for the record: nobody else acts."""
    snapshot = WORLDS["nobody's"]()
    found = reported(snapshot)
    assert (found["Stalled"].status, found["Stalled"].reason) == ("True", "OwnerUnknown")
    assert read(snapshot) is Status.FAILED


@pytest.mark.parametrize("mode", Mode)
def test_a_pool_that_lost_all_its_nodes_has_failed_in_every_mode(mode: Mode) -> None:
    rival = a_pool("rival")
    nodes = [a_node(annotations=a_record(rival.uid))]
    snapshot = a_snapshot(a_pool(mode=mode), nodes, rivals=[rival])
    found = reported(snapshot)
    for kind, status in (("Ready", "False"), ("NodesUpToDate", "False"), ("Stalled", "True")):
        assert (found[kind].status, found[kind].reason) == (status, "PoolOverlap")
    assert read(snapshot) is Status.FAILED


def test_memory_that_is_only_reported_is_an_issue_and_no_state() -> None:
    mismatched = WORLDS["memory mismatch"]()
    pool = a_pool(more={"reservedMemory": {"systemReserved": "2Gi"}})
    nodes = by_name(*(replace(a_node(node.name), memory=node.memory) for node in mismatched.nodes))
    assert reported(a_snapshot(*settled(pool, nodes)))["Ready"].reason == "UpToDate"


# Anything

RELEASES: Final = {"20348": "2022", "17763": "2019", "26100": "2025"}
OS: Final = st.sampled_from(
    (
        {"version": "2022"},
        {"version": "2022", "targetRevision": 4052},
        {"version": "2022", "targetRevision": 1607},
        {"version": "2022", "minRevision": 4000},
        {"version": "2019"},
        {"version": "1809"},
        {"version": "2025"},
        {"version": "2025", "targetRevision": 1},
        {"version": "2023"},
    )
)


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    """Return a pool that asks for some Windows over nodes that run any, some of which cannot be written."""
    pool = a_pool(
        labels=draw(st.sampled_from(({}, {"team": "a"}))),
        mode=draw(st.sampled_from(Mode)),
        more={"os": draw(OS)},
    )
    nodes = draw(fleets())
    if draw(st.booleans()):
        pool, nodes = settled(pool, nodes)
    refused = draw(st.sets(st.sampled_from(sorted(nodes)))) if nodes else set()
    return a_snapshot(pool, nodes, refused={nodes[name].uid: WHY for name in refused})


def runs(snapshot: Snapshot, kernel: str) -> bool:
    """Whether a node that reports this runs what the pool asks for, as people would read it."""
    assert snapshot.pool.spec is not None
    asked = snapshot.pool.spec.os
    _, _, build, revision, *_ = (*kernel.split("."), "", "", "", "")
    if RELEASES.get(build) != {"1809": "2019"}.get(asked.version, asked.version):
        return False
    return asked.target_revision is None or (revision.isdigit() and int(revision) >= asked.target_revision)


@given(worlds())
def test_state_is_never_up_to_date_over_another_release_an_unsupported_build_or_a_refused_write(
    snapshot: Snapshot,
) -> None:
    found = reported(snapshot)
    ours = [each for each in assess(snapshot) if each.claim is Claim.OURS]
    if found["Ready"].reason == "UpToDate":
        assert all(runs(snapshot, each.node.versions.kernel) for each in ours)
        assert not [each for each in ours if each.diff.patch or each.refused]
        assert found["OSSupported"].status == "True"
        assert found["NodesUpToDate"].status == "True"
    if found["NodesUpToDate"].reason == "UpToDate":
        assert all(runs(snapshot, each.node.versions.kernel) for each in ours)


@given(worlds())
def test_nodes_up_to_date_never_names_a_trouble_that_state_ranks_before_its_own(snapshot: Snapshot) -> None:
    found = reported(snapshot)
    reason = Reason(found["NodesUpToDate"].reason)
    assert RANKS[Reason(found["Ready"].reason)] <= RANKS[STATE_OF.get(reason, reason)]
