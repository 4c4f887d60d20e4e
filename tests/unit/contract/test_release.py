"""Whether nodes run the Windows that their pool asks for: what counts as up to date, and what is reported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import SUPPORTED, a_node, a_pool, a_snapshot, by_name, with_cluster_rows
from harness.writes import settled
from winpool.api.conditions import ConditionType
from winpool.api.issues import IssueReason
from winpool.decide import Decision, allowed_actions, decide
from winpool.features.contract.feature import contract, contract_refusal_of
from winpool.features.feature import Finding
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.ownership.members import divide
from winpool.support.rows import Row

UPGRADES = (IssueReason.OS_VERSION_UNKNOWN, IssueReason.OS_VERSION_MISMATCH, IssueReason.OS_REVISION_BEHIND)


def running(*kernels: str) -> list[Node]:
    return [
        a_node(f"w{index}", versions=replace(SUPPORTED, kernel=kernel))
        for index, kernel in enumerate(kernels)
    ]


def asking(version: str = "2022", *, target: int | None = None, rows: Iterable[dict[str, Any]] = ()) -> Pool:
    os: dict[str, Any] = {"version": version}
    if target is not None:
        os["targetRevision"] = target
    return a_pool(more={"os": os, "supportMatrix": list(rows)})


def decided(pool: Pool, *kernels: str) -> Decision:
    """Return the decision on nodes that carry all that they are to carry."""
    pool, nodes = settled(pool, by_name(*running(*kernels)))
    found = decide(a_snapshot(pool, nodes))
    assert not found.writes.patches
    return found


def told(decision: Decision, kind: str) -> tuple[str, str]:
    condition = decision.status.condition(kind)
    assert condition is not None
    return condition.status, condition.reason


UP_TO_DATE, DUE, UNKNOWN = ("True", "UpToDate"), ("False", "WaitingForActor"), ("Unknown", "BuildUnknown")


@pytest.mark.parametrize(
    ("version", "target", "kernel", "expected"),
    [
        ("2022", None, "10.0.20348.1", UP_TO_DATE),
        ("2022", None, "10.0.20348", UP_TO_DATE),
        ("2022", 4052, "10.0.20348.4051", DUE),
        ("2022", 4052, "10.0.20348.4052", UP_TO_DATE),
        ("2022", 4052, "10.0.20348.40520", UP_TO_DATE),
        ("2022", 4052, "10.0.20348", UNKNOWN),
        ("2022", 0, "10.0.20348.0", UP_TO_DATE),
        ("2025", None, "10.0.20348.4052", DUE),
        ("2025", 1, "10.0.20348.4052", DUE),
        ("2022", None, "10.0.26100.32995", DUE),
        ("2022", 4052, "10.0.26100.1", DUE),
        ("2022", 4052, "10.0.26100", DUE),
        ("1809", None, "10.0.17763.8000", UP_TO_DATE),
        ("2019", None, "10.0.17763.8000", UP_TO_DATE),
        ("2023", None, "10.0.20348.4052", DUE),
        ("2022", None, "10.0.30000.1", UNKNOWN),
        ("2022", None, "garbage", UNKNOWN),
        ("2022", None, "", UNKNOWN),
    ],
)
def test_a_node_is_up_to_date_only_if_it_runs_what_the_spec_asks_for(
    version: str, target: int | None, kernel: str, expected: tuple[str, str]
) -> None:
    found = decided(asking(version, target=target), kernel)
    assert told(found, "NodesUpToDate") == expected
    assert found.status.up_to_date_nodes == (expected == UP_TO_DATE)
    assert found.figures.upgrade_due == (expected == DUE)
    # A person's turn: nobody waits for the operator, and nothing keeps it from going on.
    assert told(found, "Ready")[0] == "True"
    assert told(found, "Reconciling") == ("False", "Settled")
    assert told(found, "Stalled") == ("False", "NotStalled")


def test_a_hotpatched_node_is_up_to_date_and_above_the_floor_of_the_pool_if_its_revision_is_accepted() -> (
    None
):
    """KB5058497 of May 2025, a hotpatch, is 3981; the cumulative update of that month is 4061."""
    os = {"version": "2025", "targetRevision": 4061, "minRevision": 4061}
    for accepted, expected in ([], DUE), ([3981], UP_TO_DATE), ([3980, 3982], DUE):
        pool = a_pool(more={"os": os | {"acceptedRevisions": accepted}})
        found = decided(pool, "10.0.26100.3981")
        assert told(found, "NodesUpToDate") == expected
        reasons = {each.reason for each in found.status.issues}
        assert ("RevisionBelowFloor" in reasons) is (expected == DUE)


def test_an_accepted_revision_does_not_pass_the_floor_of_the_support_matrix() -> None:
    os = {"version": "2025", "acceptedRevisions": [3981]}
    pool = a_pool(more={"os": os, "supportMatrix": [{"osVersion": "2025", "minRevision": 4000}]})
    found = decided(pool, "10.0.26100.3981")
    assert "RevisionBelowFloor" in {each.reason for each in found.status.issues}


def test_nodes_that_are_due_hide_those_that_are_unknown_and_both_are_counted() -> None:
    found = decided(asking(), "10.0.20348.4052", "10.0.26100.1", "garbage")
    assert told(found, "NodesUpToDate") == DUE
    assert (found.status.nodes, found.status.up_to_date_nodes, found.figures.upgrade_due) == (3, 1, 1)


def test_labels_and_taints_come_first() -> None:
    pool = asking("2025")
    found = decide(a_snapshot(pool, running("10.0.20348.4052")))
    assert told(found, "NodesUpToDate") == ("False", "RolloutInProgress")
    assert told(found, "Reconciling") == ("True", "RolloutInProgress")


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_the_mode_is_not_why_a_machine_is_not_replaced(mode: str) -> None:
    pool, nodes = settled(asking("2025"), by_name(*running("10.0.20348.4052")))
    assert pool.spec is not None
    paused = replace(pool, spec=pool.spec.model_copy(update={"mode": mode}))
    found = decide(a_snapshot(paused, nodes))
    assert told(found, "NodesUpToDate") == DUE
    assert told(found, "Ready") == ("True", mode)


def findings(pool: Pool, *kernels: str) -> list[Finding]:
    """Return what the feature finds, as every feature hands it to the house."""
    snapshot = a_snapshot(pool, running(*kernels))
    members = divide(snapshot)
    result = contract(
        snapshot, members, allowed_actions(pool, is_accepted=not contract_refusal_of(snapshot, members))
    )
    return [each for each in result.findings if each.reason in UPGRADES]


def test_there_is_one_finding_for_each_release_that_is_found() -> None:
    kernels = ("10.0.17763.1", "10.0.26100.1", "10.0.17763.2", "10.0.20348.1", "garbage", "10.0.17763.1")
    old, new = findings(asking(), *kernels)
    assert (old.reason, list(old.nodes), old.cause) == (
        IssueReason.OS_VERSION_MISMATCH,
        ["w0", "w2", "w5"],
        "2019",
    )
    assert (new.reason, list(new.nodes), new.cause) == (IssueReason.OS_VERSION_MISMATCH, ["w1"], "2025")
    for each, release in ((old, "2019"), (new, "2025")):
        assert release in each.message
        assert "2022" in each.message
        assert f'spec.os.version to "{release}"' in each.fix


def test_a_revision_that_no_windows_can_have_is_unknown() -> None:
    """The kubelet writes it: it must not pass for one above every target."""
    assert told(decided(asking(target=4052), f"10.0.20348.{2**31 - 1}"), ConditionType.NODES_UP_TO_DATE) == (
        UP_TO_DATE
    )
    for revision in (2**31, 9999999999):
        found = decided(asking(target=4052), f"10.0.20348.{revision}")
        assert told(found, ConditionType.NODES_UP_TO_DATE) == UNKNOWN


def test_there_is_one_finding_for_all_that_are_behind_whatever_their_revision() -> None:
    [found] = findings(asking(target=4052), "10.0.20348.1", "10.0.20348.2", "10.0.20348.4052")
    assert (found.reason, list(found.nodes)) == (IssueReason.OS_REVISION_BEHIND, ["w0", "w1"])
    assert "4052" in found.message
    assert "targetRevision" in found.fix


def test_a_message_names_no_node_and_counts_none() -> None:
    """So that it stays the same while nodes come and go, and says the same of one as of a thousand."""
    many, one = (findings(asking("2025"), *["10.0.20348.1"] * count) for count in (1000, 1))
    assert (many[0].message, many[0].fix) == (one[0].message, one[0].fix)
    assert len(many[0].nodes) == 1000


def test_a_release_that_nobody_knows_is_found_once_also_without_nodes() -> None:
    [found] = findings(asking("2023"))
    assert (found.reason, found.nodes, found.cause) == (IssueReason.OS_VERSION_UNKNOWN, (), "2023")
    assert "2023" in found.message
    assert "2022" in found.fix
    assert "build" in found.fix
    assert findings(asking("1809")) == []


def test_a_release_that_a_row_names_is_known_and_its_nodes_are_up_to_date() -> None:
    row = {"osVersion": "2028", "build": "10.0.30000", "verdict": "Allow"}
    pool = asking("2028", rows=[row])
    assert findings(pool) == []
    found = decided(pool, "10.0.30000.1")
    assert told(found, "NodesUpToDate") == UP_TO_DATE
    assert [(each.build, each.os_version) for each in found.status.builds] == [("10.0.30000", "2028")]
    assert told(decided(pool, "10.0.20348.1"), "NodesUpToDate") == DUE
    assert told(decided(asking(rows=[row]), "10.0.30000.1"), "NodesUpToDate") == DUE


def test_a_row_of_the_cluster_names_a_release_for_all_pools() -> None:
    pool, nodes = asking("2028"), running("10.0.30000.1")
    named = Row("2028", build="10.0.30000")
    found = decide(with_cluster_rows(a_snapshot(pool, nodes), named))
    assert not [each for each in found.status.issues if each.reason in UPGRADES]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"osVersion": "2028", "build": "10.0.20348"}, "is that of 2022"),
        ({"osVersion": "2022", "build": "10.0.30000"}, "is not that of this release"),
        ({"osVersion": "1809", "build": "10.0.17763"}, "has the build of 2019"),
    ],
)
def test_a_row_that_contradicts_the_built_in_builds_is_refused(row: dict[str, Any], said: str) -> None:
    found = decide(a_snapshot(asking(rows=[row]), running("10.0.20348.1")))
    accepted = found.status.condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "SpecRejected")
    assert said in accepted.message
    assert not found.writes.patches
