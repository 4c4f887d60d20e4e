"""How a pool is judged by one reading of the cluster: by the operator's rules, and by what only it knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.builders import MINUTE, NOON, a_pool, with_status
from unit.cli.upgrades import a_cluster, a_machine, upgrade_pool
from winpool.api.status import WindowsNodePoolStatus
from winpool.api.upgrade import Gate
from winpool.cli.upgrades import Judged, judged
from winpool.features.upgrade.records import GateFinding, Stand
from winpool.model.pool import Pool
from winpool.support.rows import Row

BLUE = {"matchLabels": {"agentpool": "blue"}}


def reported(
    pool: Pool, *, reason: str, message: str = "", generation: int | None = None, kind: str = "UpgradeAllowed"
) -> Pool:
    """Return ``pool`` with a condition that is False."""
    condition = {
        "type": kind,
        "status": "False",
        "observedGeneration": pool.generation if generation is None else generation,
        "lastTransitionTime": "2026-11-01T11:00:00Z",
        "reason": reason,
        "message": message or "Some sentence.",
    }
    return with_status(pool, WindowsNodePoolStatus.model_validate({"conditions": [condition]}))


def gate(found: Judged, name: Gate) -> GateFinding:
    assert found.overview is not None
    (finding,) = [each for each in found.overview.gates if each.gate is name]
    return finding


def of(pool: Pool, *others: Pool) -> Judged:
    cluster = a_cluster(pool, *others, nodes=[a_machine("w1"), a_machine("w2", behind=False)])
    return judged(cluster, pool)


def test_a_pool_whose_gates_are_open_permits_its_due_node() -> None:
    found = of(upgrade_pool())
    assert found.overview is not None
    assert found.overview.permitted == ("w1",)
    assert found.overview.up_to_date == 1
    assert found.plan is not None
    assert [each.node for each in found.plan.nodes] == ["w1"]
    assert found.refusal == ""


def test_without_the_block_nodes_are_due_and_no_gate_is_judged() -> None:
    found = of(a_pool(more={"os": {"version": "2022", "targetRevision": 4052}}))
    assert not found.is_gated
    assert found.overview is not None
    assert [each.node.name for each in found.overview.due] == ["w1"]
    assert found.plan is None


@pytest.mark.parametrize("pool", [a_pool(refusal="spec.os: must be given."), a_pool(deleting=True)])
def test_a_pool_that_cannot_be_judged_has_no_overview(pool: Pool) -> None:
    found = of(pool)
    assert (found.overview, found.plan) == (None, None)


@pytest.mark.parametrize(
    ("reason", "message", "generation", "stand"),
    [
        ("ControlPlane", "", None, Stand.CLOSED),
        ("MaintenanceWindow", "MaintenanceWindow: closed. ControlPlane: settles.", None, Stand.CLOSED),
        ("MaintenanceWindow", "MaintenanceWindow: closed.", None, Stand.OPEN),
        ("MaintenanceWindow", "ControlPlanes: many.", None, Stand.OPEN),
        ("MaintenanceWindow", "x. Overridden until then, ControlPlane. It settles.", None, Stand.OPEN),
        ("ControlPlane", "", 0, Stand.OPEN),
    ],
)
def test_the_gate_that_only_the_operator_watches_is_as_its_condition_says(
    reason: str, message: str, generation: int | None, stand: Stand
) -> None:
    pool = reported(upgrade_pool(), reason=reason, message=message, generation=generation)
    assert gate(of(pool), Gate.CONTROL_PLANE).stand is stand


def test_what_the_operator_says_of_the_control_plane_holds_for_every_pool() -> None:
    other = reported(upgrade_pool("other", selector=BLUE), reason="ControlPlane")
    found = of(upgrade_pool(), other)
    assert gate(found, Gate.CONTROL_PLANE).stand is Stand.CLOSED
    assert found.overview is not None
    assert found.overview.permitted == ()


def test_an_override_of_that_gate_holds_for_what_the_operator_says_too() -> None:
    override = {"gate": "ControlPlane", "until": "2026-12-01T00:00:00Z", "reason": "incident"}
    found = of(reported(upgrade_pool(upgrade={"overrides": [override]}), reason="ControlPlane"))
    finding = gate(found, Gate.CONTROL_PLANE)
    assert (finding.stand, finding.permits) == (Stand.CLOSED, True)


def test_a_spec_that_the_operator_refuses_for_reasons_of_its_own_permits_nothing() -> None:
    pool = reported(
        upgrade_pool(), kind="Accepted", reason="MissingPermission", message="It may not list pods."
    )
    found = of(pool)
    assert found.refusal == "It may not list pods."
    assert found.overview is not None
    assert [each.name for each in found.overview.stops] == ["NotAccepted"]
    earlier = reported(
        upgrade_pool(generation=2), kind="Accepted", reason="SpecRejected", message="x", generation=1
    )
    assert of(earlier).refusal == ""


def test_a_spec_that_the_rules_refuse_is_refused_before_the_operator_has_read_it() -> None:
    never = {"maintenanceExclusions": [{"start": "2026-01-01T00:00:00Z", "end": "2099-01-01T00:00:00Z"}]}
    assert "spec.upgrade.maintenanceExclusions" in of(upgrade_pool(upgrade=never)).refusal


def test_rows_of_the_settings_of_the_operator_count() -> None:
    pool = upgrade_pool()
    cluster = a_cluster(pool, nodes=[a_machine("w1")])
    ended = Row(os_version="2022", end_of_support="2026-10-01")
    assert gate(judged(cluster, pool), Gate.END_OF_SUPPORT).stand is Stand.OPEN
    assert gate(judged(cluster, pool, rows=(ended,)), Gate.END_OF_SUPPORT).stand is Stand.CLOSED


@pytest.mark.parametrize(
    ("version", "minutes", "stand"),
    [
        ("v1.36.3", 60, Stand.OPEN),
        ("v1.36.3", 5, Stand.CLOSED),
        ("v1.36", 60, Stand.UNKNOWN),
        ("v1.35.9", 60, Stand.UNKNOWN),
    ],
)
def test_since_when_the_version_is_unchanged_is_what_the_operator_has_written(
    version: str, minutes: int, stand: Stand
) -> None:
    since = (NOON - minutes * MINUTE).isoformat()
    status = WindowsNodePoolStatus.model_validate({"controlPlane": {"version": version, "since": since}})
    found = of(upgrade_pool(), with_status(upgrade_pool("other", selector=BLUE), status))
    assert gate(found, Gate.CONTROL_PLANE).stand is stand
    assert not found.assumes_control_plane


def test_where_no_pool_says_so_the_version_counts_as_unchanged() -> None:
    found = of(upgrade_pool())
    assert gate(found, Gate.CONTROL_PLANE).stand is Stand.OPEN
    assert found.assumes_control_plane


def test_a_version_that_the_server_does_not_say_is_unknown() -> None:
    pool = upgrade_pool()
    cluster = replace(a_cluster(pool, nodes=[a_machine("w1")]), version="")
    found = judged(cluster, pool)
    assert gate(found, Gate.CONTROL_PLANE).stand is Stand.UNKNOWN
    assert found.overview is not None
    assert found.overview.permitted == ()
