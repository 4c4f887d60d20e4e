"""What vendors put on a node that is not to be upgraded now stands as a hold does, up to the hand-over."""

from __future__ import annotations

from typing import Any, Final

import pytest

from harness.builders import a_taint
from harness.every import every
from harness.restless_rollouts import Cluster, Operator, state_of
from harness.upgrade_feature import (
    TARGET,
    overview_of,
    passed,
    settled_node,
    upgrade_pool,
    upgrade_snapshot,
    wishes,
)
from unit.upgrade.test_rollout_races import a_claim, a_cluster, passes, restart, run
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.features.upgrade.claims import veto_of
from winpool.model.node import Node

AKS: Final = "kubernetes.azure.com/upgrade-status"
VETOES: Final[dict[str, dict[str, Any]]] = {
    f"the label {AKS}=paused": {"labels": {AKS: "paused"}},
    f"the label {AKS}=Quarantined": {"labels": {AKS: "Quarantined"}},
    "the label windowsmachineconfig.openshift.io/upgrading": {
        "labels": {"windowsmachineconfig.openshift.io/upgrading": "true"}
    },
    "the taint karpenter.sh/disrupted": {"taints": ["karpenter.sh/disrupted:NoSchedule"]},
    "the taint ToBeDeletedByClusterAutoscaler": {
        "taints": ["ToBeDeletedByClusterAutoscaler=1761900000:NoSchedule"]
    },
}
EVERY: Final = every("said", VETOES)


def vetoed(said: str, **more: Any) -> Node:
    return settled_node("w1", **VETOES[said], **more)


@EVERY
def test_it_withdraws_the_permission_and_its_stop_names_it(said: str) -> None:
    pool = upgrade_pool({"maxUnavailable": 2})
    snapshot = upgrade_snapshot(pool, [vetoed(said, state="Required"), settled_node("w2")])
    assert wishes(snapshot) == {"w1": "Gated", "w2": "Required"}
    (stop,) = overview_of(snapshot).due[0].stops
    assert (stop.name, stop.message) == ("Vetoed", f"The node has {said}.")


@every("state", ["UpToDate", "Gated", None])
def test_else_the_label_stays(state: str | None) -> None:
    """Also that of a node which reaches the target meanwhile."""
    (said, *_) = VETOES
    for revision in (TARGET - 1, TARGET):
        node = vetoed(said, state=state, kernel=f"10.0.20348.{revision}")
        (wanted,) = passed(upgrade_snapshot(upgrade_pool(), [node])).desired.values()
        assert wanted.labels.get(UPGRADE_STATE_LABEL) == state


@every("state", ["Draining", "Quarantined"])
def test_no_label_says_that_there_is_a_claim_where_there_is_none(state: str) -> None:
    (said, *_) = VETOES
    assert wishes(upgrade_snapshot(upgrade_pool(), [vetoed(said, state=state)])) == {"w1": "Gated"}


@every(
    "labels",
    [{}, {AKS: ""}, {AKS: "Completed"}, {"windowsmachineconfig.openshift.io/version": "10.20"}],
)
def test_other_labels_of_vendors_are_none(labels: dict[str, str]) -> None:
    assert veto_of(settled_node(labels=labels, taints=["karpenter.sh/unregistered:NoExecute"])) == ""


@EVERY
def test_a_node_is_not_claimed(said: str) -> None:
    cluster, operator = a_cluster(2, maxUnavailable=2)
    veto(cluster, said, name="w2")
    run(cluster, operator, "Drained")
    assert state_of(cluster.nodes["w2"]) == "gone"
    lift(cluster, name="w2")
    passes(cluster, operator)
    assert state_of(cluster.nodes["w2"]) == "Draining"


def veto(cluster: Cluster, said: str, *, name: str = "w1") -> None:
    node, found = cluster.nodes[name], VETOES[said]
    taints = tuple(map(a_taint, found.get("taints", ())))
    cluster.turn(name, labels={**node.labels, **found.get("labels", {})}, taints=taints)


def lift(cluster: Cluster, *, name: str = "w1") -> None:
    of_vendors = {key for each in VETOES.values() for key in each.get("labels", ())}
    labels = {key: each for key, each in cluster.nodes[name].labels.items() if key not in of_vendors}
    cluster.turn(name, labels=labels, taints=())


def lead_to(cluster: Cluster, operator: Operator, state: str) -> None:
    """Have the operator take the node to ``state``, with what keeps it there."""
    if state == "Drained":
        run(cluster, operator, "Draining")
        cluster.volumes["pv"] = ("w1", "a pod of before")
    run(cluster, operator, state, seconds=0 if state == "Claimed" else 1)


@EVERY
def test_under_manual_a_node_whose_upgrade_has_begun_keeps_its_permission(said: str) -> None:
    """The vendor may be the one that asked for it."""
    node = vetoed(said, state="Required", unschedulable=True)
    assert wishes(upgrade_snapshot(upgrade_pool(), [node])) == {"w1": "Required"}


@pytest.mark.slow
@every("state", ["Claimed", "Draining", "Drained"])
def test_before_the_hand_over_nothing_is_written_or_evicted_and_nothing_fails(state: str) -> None:
    cluster, operator = a_cluster()
    cluster._stays = lambda: True  # type: ignore[method-assign]
    lead_to(cluster, operator, state)
    veto(cluster, f"the label {AKS}=paused")
    cluster.fill("w1", 1)
    passes(cluster, operator, 2)  # the conditions follow the claim
    before = cluster.nodes["w1"]
    for _ in range(20):
        passes(cluster, operator, 2)
        cluster.pass_time(300)
    assert cluster.nodes["w1"] == before, "though all deadlines have passed"
    assert not cluster.ends, "a pod was evicted"
    assert cluster.pool.status.failed_nodes == 0
    assert [each.node for each in cluster.pool.status.slots] == ["w1"]

    lift(cluster)
    cluster.volumes.clear()
    run(cluster, operator, "Upgrading", seconds=5)


def test_a_node_that_someone_uncordons_meanwhile_is_cordoned_again_when_it_ends() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Draining")
    veto(cluster, f"the label {AKS}=paused")
    cluster.turn("w1", unschedulable=False)
    passes(cluster, operator)
    assert not cluster.nodes["w1"].unschedulable
    lift(cluster)
    passes(cluster, operator)
    assert a_claim(cluster).uncordons == 1
    assert [node.unschedulable for node in cluster.nodes.values()] == [True]


def test_a_permission_that_someone_writes_meanwhile_is_taken_back() -> None:
    cluster, operator = a_cluster()
    run(cluster, operator, "Draining")
    veto(cluster, f"the label {AKS}=paused")
    labels = {**cluster.nodes["w1"].labels, UPGRADE_STATE_LABEL: "Required"}
    cluster.turn("w1", labels=labels)
    passes(cluster, operator, 3)
    assert cluster.nodes["w1"].labels[UPGRADE_STATE_LABEL] == "Draining"


def test_after_the_hand_over_it_keeps_nothing() -> None:
    """The vendor may be the one that upgrades the machine."""
    cluster, operator = a_cluster()
    run(cluster, operator, "Upgrading")
    veto(cluster, "the label windowsmachineconfig.openshift.io/upgrading")
    restart(cluster)
    run(cluster, operator, "UpToDate", seconds=5)
