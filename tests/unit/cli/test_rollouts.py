"""``why`` and ``rollout status`` of nodes that the operator upgrades itself: what they wait for, and text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_pool
from harness.evicting import a_pod
from unit.cli.upgrades import TARGET, a_cluster, a_machine, upgrade_pool
from winpool.api.keys import UPGRADE_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.status import WindowsNodePoolStatus
from winpool.api.upgrade import UpgradeState
from winpool.cli import plan
from winpool.cli.console import Look
from winpool.cli.node_upgrade import Standing
from winpool.cli.parsing import EndError, Exit
from winpool.cli.rollout_status import Rollout, as_content, as_text, names_of, rollout_of
from winpool.cli.upgrades import Cluster, Evidence, judged
from winpool.cli.why import as_content as why_content
from winpool.cli.why import as_text as why_text
from winpool.cli.why import why_of
from winpool.features.upgrade.claims import Claim, Limits, Machine, Target, text_of
from winpool.features.upgrade.settle import Baseline, encode_baseline
from winpool.model.budgets import BudgetHealth, BudgetRoom
from winpool.model.node import Node
from winpool.model.node_pods import NodePods
from winpool.model.pods import Pod
from winpool.model.pool import Pool
from winpool.model.rollout import Attachments, Controller, KnownRollout, Workloads, mark_of

SINCE: Final = NOON - timedelta(minutes=10)
UNTIL: Final = NOON + timedelta(minutes=50)
LIMITS: Final = Limits(
    drain=3600, volumes=600, actor=7200, rejoin=1800, ready=0, validation=600, soak=120, settle=1800
)
CORDONED: Final = frozenset(UpgradeState) - {
    UpgradeState.CLAIMED,
    UpgradeState.SOAKING,
    UpgradeState.UP_TO_DATE,
    UpgradeState.GATED,
}


def claimed(name: str, state: UpgradeState, **more: Any) -> Node:
    """Return a node whose upgrade the operator has begun."""
    before = Machine.of(a_machine(name))
    claim = Claim(
        "0123456789ab",
        Target("2022", TARGET),
        state,
        SINCE,
        before,
        LIMITS,
        cordoned_at=SINCE,
        deadline=UNTIL,
    )
    for each, value in more.pop("claim", {}).items():
        claim = replace_claim(claim, each, value)
    return a_machine(
        name,
        annotations={UPGRADE_ANNOTATION: text_of(claim)},
        labels={UPGRADE_STATE_LABEL: "Gated" if claim.is_retried else str(state)},
        unschedulable=state in CORDONED,
        **more,
    )


def replace_claim(claim: Claim, field: str, value: Any) -> Claim:
    return claim.moved(claim.state, now=claim.since, deadline=claim.deadline, **{field: value})


def rolling(*nodes: Node, evidence: Evidence | None = None, **upgrade: Any) -> Cluster:
    pool = upgrade_pool(upgrade={"strategy": "RollingUpdate", **upgrade})
    return a_cluster(pool, nodes=nodes, evidence=evidence or Evidence())


def of_pods(node: Node, *pods: Pod, room: BudgetRoom | None = None, **facts: Any) -> Evidence:
    """Return what was read of the pods of a node, each with this budget."""
    rooms = {} if room is None else {pod.uid: (room,) for pod in pods}
    listed = NodePods(NOON, 0.0, pods, frozenset(rooms), budgets=rooms, budgets_began=0.0)
    return Evidence({node.uid: listed}, KnownRollout(**facts))


CLOSED: Final = BudgetRoom("shop/web", 0, health=BudgetHealth(1, 1, 2, is_current=True))


def told(cluster: Cluster, name: str = "w1") -> str:
    return " ".join(why_text(why_of(cluster, name), look=Look(width=100)).split())


def shown(cluster: Cluster, **look: Any) -> str:
    return as_text(seen(cluster), look=Look(**{"width": 120, **look}))


def seen(cluster: Cluster) -> Rollout:
    return rollout_of(cluster, judged(cluster, cluster.pools[0]))


def test_a_drain_that_a_budget_blocks_names_pod_budget_deadline_and_what_to_do() -> None:
    node = claimed("w1", UpgradeState.DRAINING)
    cluster = rolling(node, evidence=of_pods(node, a_pod("web-1", node="w1"), room=CLOSED))
    text = told(cluster)
    assert "The operator drains the node" in text
    assert f"since {SINCE:%Y-%m-%dT%H:%M:%SZ} (10m), until {UNTIL:%Y-%m-%dT%H:%M:%SZ}" in text
    assert "Waits for: 1 pod to leave, blocked: shop/web-1." in text
    assert "shop/web-1: Budget: The PodDisruptionBudget shop/web allows no eviction now" in text
    assert "it counts as blocked; the operator continues to evict (onTimeout: Wait)" in text
    assert "kubectl winpool rollout abort win-2022" in text
    found = why_content(why_of(cluster, "w1"))
    assert found["blocked"] is True
    assert found["rollout"]["claim"] == "0123456789ab"
    assert [each["reason"] for each in found["rollout"]["blockers"]] == ["Budget"]
    assert found["rollout"]["deadline"] == f"{UNTIL:%Y-%m-%dT%H:%M:%SZ}"


FORCE: Final = {"drain": {"onTimeout": "Force"}}


def test_a_drain_that_is_forced_says_when_and_what_stays() -> None:
    node = claimed("w1", UpgradeState.DRAINING)
    own = a_pod("own", node="w1", namespace="winpool-system")
    cluster = rolling(node, evidence=of_pods(node, a_pod("web-1", node="w1"), own, room=CLOSED), **FORCE)
    text = told(cluster)
    assert f"At {UNTIL:%Y-%m-%dT%H:%M:%SZ} the pods that are left are deleted (onTimeout: Force)." in text
    assert "It does not delete what that would not end: winpool-system/own (OwnNamespace)." in text


def test_past_the_deadline_a_forced_drain_says_that_pods_are_deleted_and_which_hang() -> None:
    node = claimed("w1", UpgradeState.DRAIN_BLOCKED, claim={"drain_until": NOON})
    stuck = a_pod("stuck", node="w1", is_terminating=True, ends=NOON - timedelta(minutes=5))
    cluster = rolling(node, evidence=of_pods(node, a_pod("web-1", node="w1"), stuck, room=CLOSED), **FORCE)
    text = told(cluster)
    assert (
        "The operator deletes the pods that are left, each with its own grace period (onTimeout: Force)."
        in text
    )
    assert "After a start of its own, a pause or a hold it waits 10 minutes." in text
    assert "It does not delete what that would not end: shop/stuck (Terminating)." in text
    assert "No further time ends that" not in text


STANDINGS: Final = {
    UpgradeState.CLAIMED: (Standing.DRAINING, Exit.NO),
    UpgradeState.DRAINING: (Standing.DRAINING, Exit.NO),
    UpgradeState.DRAIN_BLOCKED: (Standing.DRAINING, Exit.NO),
    UpgradeState.DRAINED: (Standing.DRAINING, Exit.NO),
    UpgradeState.UPGRADING: (Standing.HANDED_OVER, Exit.YES),
    UpgradeState.REJOINING: (Standing.RETURNING, Exit.NO),
    UpgradeState.VALIDATING: (Standing.RETURNING, Exit.NO),
    UpgradeState.SOAKING: (Standing.RETURNING, Exit.NO),
    UpgradeState.FAILED: (Standing.FAILED, Exit.NO),
    UpgradeState.QUARANTINED: (Standing.FAILED, Exit.NO),
}


@pytest.mark.parametrize("state", STANDINGS)
def test_each_state_has_an_answer_a_next_step_and_something_to_do_and_only_a_node_handed_over_is_a_yes(
    state: UpgradeState,
) -> None:
    why = why_of(rolling(claimed("w1", state)), "w1")
    assert (why.standing, why.standing.exit) == STANDINGS[state]
    content = why_content(why)
    assert content["next"]
    assert content["toDo"]
    assert content["rollout"]["state"] == state


def test_a_right_that_is_missing_is_said_and_nothing_is_guessed() -> None:
    problem = 'User "jane" cannot list resource "pods" in API group ""'
    cluster = rolling(claimed("w1", UpgradeState.DRAINING), evidence=Evidence(problems=(problem,)))
    assert f"Not known: {problem}" in told(cluster)
    assert "Waits for" not in told(cluster)
    assert as_content(seen(cluster))["unknown"] == [problem]
    assert "kubectl winpool why w1" in shown(cluster)


def test_a_drained_node_waits_for_its_volumes_and_a_node_that_soaks_for_its_workloads() -> None:
    node = claimed("w1", UpgradeState.DRAINED)
    attached = Attachments(NOON, 0.0, {"w1": ("pv-1",)})
    assert "Waits for: Volumes of pods that left have to detach" in told(
        rolling(node, evidence=of_pods(node, attachments=attached))
    )
    web = Controller("Deployment", "shop/web", "uid-of-web", wanted=3, ready=2)
    workloads = Workloads(NOON, 0.0, {mark_of(web.uid): web}, {web.title: mark_of(web.uid)})
    baseline = encode_baseline(Baseline({mark_of(web.uid): 3}))
    node = claimed(
        "w1", UpgradeState.SOAKING, claim={"baseline": baseline, "drained_at": SINCE}, behind=False
    )
    cluster = rolling(node, evidence=Evidence(facts=KnownRollout(workloads=workloads)))
    assert "Deployment shop/web (2 of 3 Ready)" in told(cluster)


def test_a_hold_and_a_pause_say_that_nothing_happens_while_the_deadline_does_not_wait() -> None:
    held = claimed("w1", UpgradeState.DRAINING)
    held = replace(held, annotations={**held.annotations, "winpool.dev/hold": ""})
    assert "Waits for: Someone holds the node." in told(rolling(held))
    assert "Its deadline does not wait." in told(rolling(held))


def test_the_veto_of_a_vendor_says_the_same_up_to_the_hand_over() -> None:
    label = {"kubernetes.azure.com/upgrade-status": "paused"}
    drained, handed_over = (claimed("w1", each) for each in (UpgradeState.DRAINING, UpgradeState.UPGRADING))
    said = told(rolling(replace(drained, labels={**drained.labels, **label})))
    assert "Waits for: The node has the label kubernetes.azure.com/upgrade-status=paused." in said
    assert "Its deadline does not wait." in said
    later = told(rolling(replace(handed_over, labels={**handed_over.labels, **label})))
    assert "Its deadline does not wait." not in later


def test_a_node_that_is_given_up_says_why() -> None:
    node = claimed("w1", UpgradeState.DRAINING)
    requests = [{"owner": "sre", "nodesInWork": "Restore"}]
    text = told(rolling(node, pauseRequests=requests, evidence=of_pods(node, a_pod("web-1", node="w1"))))
    assert "The operator gives the node up, and makes it schedulable again" in text
    assert "pauseRequests" in text


def test_a_failed_node_says_why_and_when_it_is_tried_again() -> None:
    failed = {"reason": "the machine did not restart in time", "retry_at": UNTIL}
    text = told(rolling(claimed("w1", UpgradeState.FAILED, claim=failed)))
    assert "A person: the machine did not restart in time." in text
    assert f"tries again by itself at {UNTIL:%Y-%m-%dT%H:%M:%SZ}" in text
    assert "kubectl winpool rollout retry w1" in text


def test_a_due_node_says_why_it_is_not_the_next() -> None:
    first, second = claimed("w1", UpgradeState.UPGRADING), a_machine("w2")
    text = told(rolling(first, second, maxUnavailable=2, topologyKey=""), "w2")
    assert "It is the next" in text, "by its own cordon w1 takes one of two places"
    text = told(rolling(first, second, maxUnavailable=1, overrides=[]), "w2")
    assert "must not be upgraded now" in text
    assert "Required" not in text, "under this strategy no label permits others anything"
    cluster = rolling(second, strategy="OnRequest")
    assert "kubectl annotate node w2 winpool.dev/upgrade-requested=" in told(cluster, "w2")


def test_a_due_node_names_what_would_block_its_pods() -> None:
    node = a_machine("w1")
    pod = a_pod("batch-1", node="w1", controller_kind="", controller="")
    assert "What would block its pods: ! shop/batch-1: Unmanaged, until someone changes it" in told(
        rolling(node, evidence=of_pods(node, pod))
    )


def test_the_table_has_the_worst_first_each_with_its_times_and_the_pool_in_its_head() -> None:
    draining = claimed("w1", UpgradeState.DRAINING)
    failed = claimed("w2", UpgradeState.FAILED, claim={"reason": "no restart", "retry_at": UNTIL})
    evidence = of_pods(draining, a_pod("web-1", node="w1"), room=CLOSED)
    others = [a_machine("w3"), a_machine("w4", behind=False)]
    cluster = rolling(draining, failed, *others, evidence=evidence)
    lines = shown(cluster).splitlines()
    assert lines[0] == "Pool:    win-2022, strategy RollingUpdate, target 2022.4052"
    assert lines[1] == "Nodes:   4: 1 up to date, 1 in work, 1 failed, 1 due"
    table = lines[lines.index("") + 1 :]
    assert [line.split()[0] for line in table] == ["NODE", "w2", "w1", "w3"]
    assert "blocked: shop/web-1 (Budget)" in table[2]
    assert "in 50m" in table[2]
    assert max(map(len, shown(cluster, width=80).splitlines())) <= 80


def test_a_node_whose_machine_is_replaced_is_in_the_table_though_it_is_gone() -> None:
    old = claimed("w1", UpgradeState.UPGRADING)
    slot = {
        "node": "w1",
        "uid": old.uid,
        "state": "Upgrading",
        "since": SINCE.isoformat(),
        "deadline": UNTIL.isoformat(),
        "claim": old.annotations[UPGRADE_ANNOTATION],
    }
    pool = upgrade_pool(upgrade={"strategy": "RollingUpdate", "method": "Replace"})
    pool = replace(pool, status=WindowsNodePoolStatus.model_validate({"slots": [slot]}))
    cluster = a_cluster(pool, nodes=[a_machine("w2", behind=False)])
    lines = shown(cluster).splitlines()
    assert lines[1] == "Nodes:   1: 1 up to date, 1 in work, 0 failed, 0 due"
    [line] = [each for each in lines if each.startswith("w1")]
    assert "a machine in its place" in line
    assert "in 50m" in line
    assert seen(cluster).exit is Exit.NO
    assert [*names_of(seen(cluster))] == [], "kubectl has no such node"


def test_the_conditions_of_the_pool_are_in_the_head() -> None:
    condition = {
        "type": "UpgradeAllowed",
        "status": "False",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-01T11:00:00Z",
        "reason": "MaintenanceWindow",
        "message": "No window is open.",
    }
    pool = upgrade_pool(upgrade={"strategy": "RollingUpdate"})
    pool = replace(pool, status=WindowsNodePoolStatus.model_validate({"conditions": [condition]}))
    text = shown(a_cluster(pool, nodes=[a_machine("w1")]))
    assert "UpgradeAllowed=False MaintenanceWindow: No window is open." in text


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ((a_machine("w1", behind=False),), Exit.YES),
        ((), Exit.YES),
        ((a_machine("w1"),), Exit.NO),
        ((claimed("w1", UpgradeState.SOAKING, behind=False),), Exit.NO),
        ((claimed("w1", UpgradeState.FAILED),), Exit.NO),
        ((a_machine("w1", versions=replace(a_machine("w1").versions, kernel="")),), Exit.UNKNOWN),
    ],
    ids=["up to date", "no nodes", "due", "in work", "failed", "unknown"],
)
def test_the_exit_code_says_whether_anything_is_left(nodes: tuple[Node, ...], code: Exit) -> None:
    found = seen(rolling(*nodes))
    assert found.exit is code
    assert as_content(found)["done"] is (code is Exit.YES)


def test_many_nodes_that_wait_are_counted_and_all_are_in_the_json() -> None:
    cluster = rolling(*(a_machine(f"w{number:02}") for number in range(30)))
    assert "and 10 nodes more that wait: -o json has all" in shown(cluster)
    assert len(as_content(seen(cluster))["nodes"]) == 30
    assert [*names_of(seen(cluster))] == [f"node/w{number:02}" for number in range(30)]


def test_a_wide_table_has_all_nodes_and_all_that_they_wait_for() -> None:
    draining = claimed("w1", UpgradeState.DRAINING)
    pods = [a_pod(f"web-{number}-{'x' * 60}", node="w1") for number in range(2)]
    others = [a_machine(f"w{number}") for number in range(2, 40)]
    cluster = rolling(draining, *others, evidence=of_pods(draining, *pods, room=CLOSED))
    narrow, wide = shown(cluster, width=80), shown(cluster, width=80, wide=True)
    assert "SINCE" not in narrow
    assert "SINCE" in wide
    for said in (*(each.name for each in pods), "w39"):
        assert (said in narrow, said in wide) == (False, True)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (a_pool(), r"the pool \S+ has no spec\.upgrade: see"),
        (replace(upgrade_pool(), spec=None, refusal="It cannot be read."), "has a spec that cannot be read"),
        (replace(upgrade_pool(), deleting=True), "is being deleted"),
    ],
)
def test_a_pool_without_a_rollout_says_why(pool: Pool, said: str) -> None:
    with pytest.raises(EndError, match=said):
        seen(a_cluster(pool))


def test_the_plan_says_what_the_operator_does_and_permits_no_one_anything() -> None:
    cluster = rolling(claimed("w1", UpgradeState.DRAINING), a_machine("w2"), maxUnavailable=2)
    found = plan.as_text(judged(cluster, cluster.pools[0]), cluster, most=None, look=Look(width=100))
    text = " ".join(found.split())
    assert "In work: 1 node: w1 (Draining)" in text
    assert "The operator upgrades the nodes; " in text
    assert "may be upgraded now" not in text
