"""The metrics of upgrades: what a pass has found, by pool, and only of pools that ask for upgrades."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_snapshot, with_status
from harness.rollout_scenes import seen_in
from harness.upgrade_views import (
    NOTHING_DUE,
    ONE_DUE,
    a_slot,
    an_override,
    an_overview,
    closed,
    due,
    overridden,
    told,
    upgrading,
)
from winpool.api.issues import IssueReason
from winpool.api.status import SlotState
from winpool.api.upgrade import Gate, Trigger, UpgradeState
from winpool.decide import decide
from winpool.features.feature import Finding
from winpool.features.upgrade.drain import DrainBlock
from winpool.features.upgrade.records import UpgradeOverview, UpgradeResult
from winpool.model.snapshot import Snapshot
from winpool.serve.definitions import DEFINITIONS
from winpool.serve.metrics import of_pools
from winpool.status.assessment import Assessed
from winpool.status.status import figures_of, upgrade_figures

Served = dict[str, dict[tuple[str, ...], float]]


def served(overview: UpgradeOverview | None, *findings: Finding, of: Snapshot | None = None) -> Served:
    """Return the metrics of upgrades of a pool of which a pass has found that, without the pool's name."""
    snapshot = of or upgrading()
    pool = with_status(snapshot.pool, decide(snapshot, told(overview)).status)
    upgrades = upgrade_figures((UpgradeResult(overview=overview, findings=findings),))
    found = of_pools([pool], figures={pool.name: figures_of(Assessed((), (), compared=True), None, upgrades)})
    return {
        each.name.removeprefix("winpool_upgrade_"): {
            labels[1:]: value for labels, value in found.get(each, {}).items()
        }
        for each in DEFINITIONS
        if each.name.startswith("winpool_upgrade_")
    }


def test_nodes_are_counted_by_what_is_known_of_them() -> None:
    overview = an_overview(due("w1"), due("w2", closed(Gate.IMAGES)), up_to_date=3, unknown=("w5",))
    states: dict[tuple[str, ...], int] = {(each,): 0 for each in UpgradeState}
    states |= {("UpToDate",): 3, ("Required",): 1, ("Gated",): 1, ("Unknown",): 1}
    assert served(overview)["nodes"] == states
    shut = replace(overview, gates=(closed(Gate.BUDGET),))
    assert served(shut)["nodes"] == {**states, ("Required",): 0, ("Gated",): 2}


def test_a_node_whose_upgrade_has_begun_is_required_while_the_pool_is_closed() -> None:
    begun = msgspec.structs.replace(due("w1"), state=UpgradeState.REQUIRED)
    found = served(an_overview(begun, due("w2"), gates=[closed(Gate.BUDGET)]))["nodes"]
    assert (found["Required",], found["Gated",]) == (1, 1)


def test_slots_are_counted_by_their_states() -> None:
    slots = [a_slot("w1"), a_slot("w2", SlotState.BEGUN), a_slot("w3", SlotState.UNUSED)]
    found = served(an_overview(due("w1"), slots=slots))["slots"]
    assert found == {("Reserved",): 1, ("Begun",): 1, ("Gone",): 0, ("Withdrawn",): 0}


@pytest.mark.slow
def test_nodes_in_work_are_counted_by_their_states_and_by_what_keeps_them() -> None:
    found = of_scene("a drain is blocked")
    assert (found["nodes"]["DrainBlocked",], found["nodes"]["Gated",]) == (1, 2)
    assert {reason for (reason,), nodes in found["blocked_nodes"].items() if nodes} == {"Budget"}
    assert found["disruptions_left"] == {(): 0}
    assert found["slots"]["Begun",] == 1


def test_nodes_that_stop_the_others_after_their_upgrade_are_counted_by_reason() -> None:
    late = of_scene("workloads are not back")["stalled_nodes"]
    assert late == {("SettleTimedOut",): 1, ("NodesUnhealthy",): 0}
    sick = of_scene("upgraded nodes are not ready")["stalled_nodes"]
    assert sick == {("SettleTimedOut",): 0, ("NodesUnhealthy",): 2}


@pytest.mark.slow
def test_a_node_that_soaks_is_counted_once() -> None:
    found = of_scene("upgraded nodes are not ready")["nodes"]
    assert (sum(found.values()), found["Soaking",], found["UpToDate",]) == (3, 2, 0)


def of_scene(scene: str) -> Served:
    """Return the metrics of a pool in the middle of a rollout."""
    decision = decide(seen_in(scene))
    found = of_pools([seen_in(scene).pool], figures={seen_in(scene).pool.name: decision.figures})
    return {
        each.name.removeprefix("winpool_upgrade_"): {labels[1:]: value for labels, value in series.items()}
        for each, series in found.items()
        if each.name.startswith("winpool_upgrade_")
    }


def test_nodes_that_are_due_are_counted_by_each_of_their_triggers() -> None:
    overview = an_overview(due("w1", triggers=(Trigger.OS_VERSION, Trigger.REQUEST)), due("w2"))
    assert served(overview)["due_nodes"] == {
        ("OSVersion",): 1,
        ("OSRevision",): 1,
        ("Request",): 1,
        ("ReservedMemory",): 0,
        ("KubeletSkew",): 0,
    }


def test_a_gate_is_1_where_it_keeps_a_node() -> None:
    overview = an_overview(
        due("w1"),
        due("w2", closed(Gate.IMAGES)),
        gates=[closed(Gate.BUDGET), overridden(Gate.SUPPORT_MATRIX)],
    )
    gates = served(overview)["gate_closed"]
    assert set(gates) == {(gate,) for gate in Gate}
    assert {gate for (gate,), value in gates.items() if value} == {"Images", "Budget"}


def test_overrides_are_counted_in_force_and_expired() -> None:
    overview = replace(
        ONE_DUE,
        in_force=(an_override(Gate.IMAGES), an_override(Gate.CAPACITY)),
        expired=(an_override(Gate.SUPPORT_MATRIX, NOON),),
    )
    assert served(overview)["overrides"] == {("InForce",): 2, ("Expired",): 1}


def test_since_when_nodes_are_due_is_the_start_of_the_entry_in_the_history() -> None:
    first = upgrading()
    before = replace(first, pool=with_status(first.pool, decide(first, told(ONE_DUE)).status))
    later = replace(before, now=NOON.replace(day=20))
    assert served(ONE_DUE, of=later)["due_since_timestamp_seconds"] == {(): NOON.timestamp()}
    assert served(NOTHING_DUE, of=later)["due_since_timestamp_seconds"] == {}


def test_each_node_with_a_surprise_counts_once_for_each_kind() -> None:
    findings = [
        Finding(IssueReason.SURPRISE_REBOOT, ("w1", "w2"), "They restarted.", "Find out why."),
        Finding(IssueReason.SURPRISE_REBOOT, ("w2", "w3"), "They restarted again.", "Find out why."),
        Finding(IssueReason.GATE_CLOSED, (), "It is closed.", "Open it."),
    ]
    assert served(NOTHING_DUE, *findings)["surprised_nodes"] == {
        ("SurpriseReboot",): 3,
        ("SurpriseOSChange",): 0,
    }


def test_a_pool_that_asks_for_no_upgrades_has_none_of_them() -> None:
    assert not any(served(None, of=a_snapshot(a_pool(), [a_node()])).values())


@pytest.mark.parametrize("overview", [NOTHING_DUE, ONE_DUE])
def test_every_series_is_there_from_the_start(overview: UpgradeOverview) -> None:
    found = served(overview)
    numbers = {name: len(series) for name, series in found.items()}
    assert numbers == {
        "nodes": len(UpgradeState) + 1,
        "due_nodes": 5,
        "due_since_timestamp_seconds": int(bool(overview.due)),
        "gate_closed": 12,
        "slots": 4,
        "blocked_nodes": len(DrainBlock) + 2,
        "stalled_nodes": 2,
        "disruptions_left": 1,
        "drain_evictions": 0,  # the operator's own, not of a pool
        "drain_seconds": 0,
        "overrides": 2,
        "surprised_nodes": 2,
        "surprises": 0,
    }
