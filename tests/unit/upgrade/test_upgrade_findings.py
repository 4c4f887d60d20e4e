"""What is reported of upgrades as issues: one for each cause, bounded, and the same while nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from harness.builders import NOON
from harness.gate_scenes import REPLACE, blocked, declares
from harness.upgrade_feature import HOUR, passed, settled_node, settled_nodes, upgrade_pool, upgrade_snapshot
from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.api.text import written_moment
from winpool.features.feature import AllowedActions, Finding
from winpool.features.upgrade.findings import CAUSES_KEPT
from winpool.model.pods import BlockedBy
from winpool.model.pool import SURPRISE_SECONDS, Surprise, SurpriseKind
from winpool.model.snapshot import Snapshot

AS_ASKED = {"version": "2022"}


def of(snapshot: Snapshot, reason: IssueReason) -> Sequence[Finding]:
    return [each for each in passed(snapshot).findings if each.reason is reason]


def with_overrides(**hours: int) -> dict[str, Any]:
    return {
        "overrides": [
            {"gate": gate, "until": written_moment(NOON + number * HOUR), "reason": f"about {gate}"}
            for gate, number in hours.items()
        ]
    }


def test_nothing_is_reported_where_all_may_be_upgraded() -> None:
    assert passed(upgrade_snapshot(upgrade_pool(), settled_nodes())).findings == ()


def test_each_closed_gate_of_the_pool_is_reported_while_nodes_are_due() -> None:
    upgrade = {"maxUnavailable": 0}
    found = of(
        upgrade_snapshot(upgrade_pool(upgrade), settled_nodes(), settled=None), IssueReason.GATE_CLOSED
    )
    assert [(each.cause, list(each.nodes)) for each in found] == [("ControlPlane", []), ("Budget", [])]
    assert "spec.upgrade.maxUnavailable is 0, which permits no upgrade." in found[1].message
    assert found[1].fix == "Raise spec.upgrade.maxUnavailable."
    as_asked = upgrade_pool(upgrade, os=AS_ASKED)
    assert not of(upgrade_snapshot(as_asked, settled_nodes()), IssueReason.GATE_CLOSED)


def test_nodes_that_are_gated_are_reported_by_cause() -> None:
    nodes = settled_nodes(5)
    workloads = {
        "w1": blocked(BlockedBy.NONE_ALLOWED),
        "w2": blocked(BlockedBy.SEVERAL_BUDGETS),
        "w3": blocked(BlockedBy.NONE_ALLOWED),
    }
    nodes[3] = settled_node("w4", kubelet="v1.37.0")
    found = of(upgrade_snapshot(upgrade_pool(), nodes, workloads=workloads), IssueReason.NODES_GATED)
    assert [list(each.nodes) for each in found] == [["w4"], ["w1", "w3"], ["w2"]]
    assert [each.cause.partition(":")[0] for each in found] == ["VersionSkew", *["PodDisruptionBudgets"] * 2]
    assert len({each.key for each in found}) == 3
    for each in found:
        assert not any(name in each.text for name in ("w1", "w2", "w3", "w4"))


def test_causes_that_differ_from_node_to_node_are_one_issue() -> None:
    """Anyone who runs pods can make them declare any build."""
    nodes = settled_nodes(50)
    workloads = {node.name: declares(f"10.0.{1000 + place}") for place, node in enumerate(nodes)}
    pool = upgrade_pool(REPLACE, os={"version": "2025"})
    found = of(upgrade_snapshot(pool, nodes, workloads=workloads), IssueReason.NODES_GATED)
    assert len(found) == CAUSES_KEPT + 1
    assert sum(len(each.nodes) for each in found) == 50
    assert len(found[-1].nodes) == 50 - CAUSES_KEPT
    assert found[-1].fix == "Run `kubectl winpool why NODE` for each of these nodes."


def test_overrides_are_reported_while_they_hold_and_when_they_are_over() -> None:
    pool = upgrade_pool(with_overrides(Images=1, SupportMatrix=-1, Capacity=2), os=AS_ASKED)
    snapshot = upgrade_snapshot(pool, settled_nodes())
    holding, over = of(snapshot, IssueReason.OVERRIDE_IN_FORCE), of(snapshot, IssueReason.OVERRIDE_EXPIRED)
    assert [each.cause for each in holding] == ["Capacity", "Images"]
    assert holding[1].message == (
        "An override opens the gate Images until 2026-11-01T13:00:00Z, whatever it finds: about Images."
    )
    assert [each.cause for each in over] == ["SupportMatrix"]
    assert over[0].message == (
        "The override of the gate SupportMatrix ended at 2026-11-01T11:00:00Z and has no effect: about "
        "SupportMatrix."
    )


def test_each_pause_request_is_reported_also_where_nothing_is_due() -> None:
    requests = {"pauseRequests": [{"owner": "sre", "reason": "incident 4711"}, {"owner": "apps"}]}
    found = of(
        upgrade_snapshot(upgrade_pool(requests, os=AS_ASKED), settled_nodes()), IssueReason.PAUSE_REQUESTED
    )
    assert [each.message for each in found] == [
        "The owner apps requests in spec.upgrade.pauseRequests that no upgrade begins.",
        "The owner sre requests in spec.upgrade.pauseRequests that no upgrade begins: incident 4711.",
    ]


def requests(*texts: str) -> Snapshot:
    nodes = [
        settled_node(f"w{place:03}", annotations={UPGRADE_REQUESTED_ANNOTATION: text})
        for place, text in enumerate(texts)
    ]
    return upgrade_snapshot(upgrade_pool(os=AS_ASKED), nodes)


def test_requests_are_reported_by_their_texts() -> None:
    found = of(requests("leaks", "", "leaks"), IssueReason.UPGRADE_REQUESTED)
    assert [(each.message.partition("requests an upgrade")[2], list(each.nodes)) for each in found] == [
        (".", ["w001"]),
        (": leaks.", ["w000", "w002"]),
    ]


def test_requests_of_any_number_and_size_are_bounded() -> None:
    found = of(requests(*(f"{place}" + "x" * 100_000 for place in range(100))), IssueReason.UPGRADE_REQUESTED)
    assert len(found) == CAUSES_KEPT + 1
    assert all(len(each.text) < 600 for each in found)


def test_a_request_that_no_trigger_takes_is_reported_too() -> None:
    node = settled_node(annotations={UPGRADE_REQUESTED_ANNOTATION: "x"})
    pool = upgrade_pool({"triggers": ["OSVersion"]}, os=AS_ASKED)
    assert of(upgrade_snapshot(pool, [node]), IssueReason.UPGRADE_REQUESTED)


def surprise(node: str, kind: SurpriseKind, said: str, *, uid: str | None = None) -> Surprise:
    return Surprise(kind, node, f"uid-of-{node}" if uid is None else uid, NOON - HOUR / 2, said)


def test_surprises_of_the_pools_nodes_are_reported_with_their_nodes() -> None:
    seen = [
        surprise("w2", SurpriseKind.REBOOT, "The machine restarted."),
        surprise("w1", SurpriseKind.REBOOT, "The machine restarted."),
        surprise("w1", SurpriseKind.OS_CHANGE, "Windows was another build."),
        surprise("w3", SurpriseKind.REBOOT, "The machine restarted.", uid="of-an-earlier-machine"),
        surprise("elsewhere", SurpriseKind.REBOOT, "The machine restarted."),
    ]
    snapshot = upgrade_snapshot(upgrade_pool(os=AS_ASKED), settled_nodes(), surprises=seen)
    reboots, changes = of(snapshot, IssueReason.SURPRISE_REBOOT), of(snapshot, IssueReason.SURPRISE_OS_CHANGE)
    assert [(each.message, list(each.nodes)) for each in reboots] == [
        ("The machine restarted. No one had announced it.", ["w1", "w2"])
    ]
    assert [list(each.nodes) for each in changes] == [["w1"]]
    assert passed(snapshot).requeue_at == NOON - HOUR / 2 + timedelta(seconds=SURPRISE_SECONDS)


def test_findings_stay_the_same_while_nothing_changes() -> None:
    """Time that passes must not write a status."""
    upgrade = {
        "maintenanceWindows": [{"schedule": "0 22 * * 6", "durationSeconds": 3600}],
        "maxUnavailable": 0,
    }
    first = upgrade_snapshot(upgrade_pool(upgrade), settled_nodes(), settled=HOUR)
    later = [
        passed(replace(first, now=NOON + minutes * timedelta(minutes=1))).findings for minutes in range(15)
    ]
    assert all(each == later[0] for each in later)


def test_a_pool_that_is_paused_reports_its_gates_all_the_same() -> None:
    snapshot = upgrade_snapshot(upgrade_pool({"maxUnavailable": 0}, mode="Paused"), settled_nodes())
    assert [each.cause for each in passed(snapshot, AllowedActions.NOTHING).findings] == ["Budget"]
