"""What ``why`` says of a node that has something wrong: each problem alone, several, and whether it fits."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import CONTROL_PLANE, NOON, a_pool, a_record, a_survey, with_status
from harness.evicting import a_pod as evictable
from harness.evicting import an_intent
from unit.cli.test_rollouts import CLOSED, STANDINGS, claimed, of_pods, rolling
from unit.cli.test_why import WORLDS
from unit.cli.upgrades import a_cluster, a_machine, upgrade_pool
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    BORROWED_ANNOTATIONS,
    MEMORY_ANNOTATION,
    MEMORY_PRESSURE_TAINT,
    POOL_LABEL,
    PRESSURE_CONDITION,
)
from winpool.api.status import WindowsNodePoolStatus
from winpool.api.upgrade import UpgradeState
from winpool.cli.console import Look
from winpool.cli.node_problems import Problem, problems_of
from winpool.cli.why import LINES, as_content, as_text, why_of
from winpool.features.memory.intents import written as written_intents
from winpool.model.node import MESSAGE_LENGTH, NodeCondition, NodeVersions, Taint
from winpool.model.survey import Readiness
from winpool.ownership.record import Owned, Record, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.cli.conftest import Plugin
    from winpool.cli.kubectl import Kubectl
    from winpool.cli.upgrades import Cluster
    from winpool.model.node import Node
    from winpool.model.pool import Pool

CNI: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network "
    "plugin returns error: cni plugin not initialized"
)
SINCE: Final = NOON - timedelta(minutes=10)
STARTUP: Final = ("cni.example.com/agent-not-ready", "NoSchedule")
MEMORY: Final = {"memoryPressure": {"mode": "Signal"}}
PRESSED: Final = NodeCondition(
    PRESSURE_CONDITION, "True", "CommitExhaustionImminent", "30Gi of 32Gi committed (94 %).", SINCE
)


def unready(node: Node, status: str = "False", reason: str = "KubeletNotReady", message: str = CNI) -> Node:
    return replace(node, ready=status, ready_since=SINCE, unready=": ".join(filter(None, (reason, message))))


def healthy(**more: Any) -> Node:
    return a_machine("w1", behind=False, **more)


def a_startup_pool(**more: Any) -> Pool:
    key, effect = STARTUP
    return a_pool(more={"startupTaints": [{"key": key, "effect": effect}], **more})


def joining(pool: Pool, **more: Any) -> Node:
    """Return a node that has the startup taint of the pool since ten minutes, and waits for validation."""
    return healthy(
        labels={POOL_LABEL: pool.name},
        annotations=a_record(pool.uid, taints={STARTUP: Owned(set="")}),
        taints=(Taint(*STARTUP, time_added="2026-11-01T11:50:00Z"),),
        **more,
    )


def validating(*, agents: tuple[str, ...] = (), timeout: int = 3600) -> Cluster:
    pool = a_startup_pool(validation={"timeoutSeconds": timeout})
    node = joining(pool)
    readiness = {"w1": Readiness(unready=len(agents), unready_agents=agents)}
    survey = a_survey(pool, [node], readiness=readiness)
    assert survey is not None
    return dataclasses.replace(a_cluster(pool, nodes=[node]), surveys={pool.uid: survey})


def with_issue(
    pool: Pool, reason: str, message: str = "These nodes are odd.", fix: str = "See NODE."
) -> Pool:
    issue = {
        "reason": reason,
        "nodes": ["w1"],
        "nodeCount": 1,
        "since": "2026-11-01T11:00:00Z",
        "message": message,
        "fix": fix,
    }
    return with_status(pool, WindowsNodePoolStatus.model_validate({"issues": [issue]}))


def of_pool(node: Node, pool: Pool | None = None) -> Cluster:
    return a_cluster(pool or a_pool(), nodes=[node])


ASKED: Final = {
    "labels": {"team": "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized:NoSchedule"
EVICTING: Final = a_pool(more={"memoryPressure": {"mode": "Evict"}})
INTENTS: Final = {MEMORY_ANNOTATION: written_intents((an_intent("hog"),)) or ""}

ALONE: Final[dict[str, tuple[Callable[[], Cluster], str, str, tuple[str, ...]]]] = {
    "the kubelet reports that it is not Ready": (
        lambda: of_pool(unready(healthy())),
        "NotReady",
        "Warning",
        (
            "State: ! NotReady, for 10m: Its kubelet reports KubeletNotReady: container runtime network not",
            "evicts most on it after five minutes",
            "Repair what the message names",
            "More evidence: kubectl winpool diagnose w1",
        ),
    ),
    "no pool has it": (
        lambda: a_cluster(nodes=[healthy()]),
        "NoPool",
        "Normal",
        ("State: * NoPool: There is no WindowsNodePool in this cluster.",),
    ),
    "the kubelet is silent": (
        lambda: of_pool(
            unready(healthy(), "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        ),
        "NotReady",
        "Warning",
        ("The control plane reports NodeStatusUnknown: Kubelet stopped posting node status.",),
    ),
    "no kubelet has said anything": (
        lambda: of_pool(unready(healthy(), "Unknown", "", "")),
        "NotReady",
        "Warning",
        ("Its condition Ready is Unknown, without a reason.",),
    ),
    "it is being deleted": (
        lambda: of_pool(replace(healthy(), deleting=True)),
        "Deleting",
        "Normal",
        ("It is being deleted.", "kubectl get node w1 -o yaml"),
    ),
    "it waits for node agents": (
        lambda: validating(agents=("kube-system/cni",)),
        "Validating",
        "Normal",
        (
            "It is being validated, and waits for node agents to be Ready: kube-system/cni.",
            "Startup taints keep pods away: cni.example.com/agent-not-ready:NoSchedule.",
            "The operator removes the startup taints once it has passed.",
            "kubectl get pods -A --field-selector spec.nodeName=w1",
            "kubectl winpool diagnose w1",
        ),
    ),
    "it did not pass validation in time": (
        lambda: validating(agents=("kube-system/cni",), timeout=60),
        "ValidationTimedOut",
        "Warning",
        ("It did not pass validation in time, because it waits for node agents to be Ready: ",),
    ),
    "it has passed validation, and the taint is not removed yet": (
        validating,
        "Validating",
        "Normal",
        ("It has passed validation. Startup taints keep pods away",),
    ),
    "someone else added the startup taint": (
        lambda: of_pool(healthy(taints=(f"{STARTUP[0]}:{STARTUP[1]}",)), a_startup_pool()),
        "StartupTaintStays",
        "Warning",
        (
            "The startup taint cni.example.com/agent-not-ready:NoSchedule is on this node.",
            "The operator leaves the taint.",
            "kubectl taint nodes w1 cni.example.com/agent-not-ready:NoSchedule-",
        ),
    ),
    "a cloud has left a taint": (
        lambda: of_pool(healthy(taints=(SHUTDOWN,))),
        "CloudTaintStays",
        "Warning",
        (
            f"The node is Ready and still has {SHUTDOWN}",
            "Only the cloud controller manager removes it",
            "kubectl taint nodes w1 node.cloudprovider.kubernetes.io/shutdown-",
        ),
    ),
    "a cloud has not initialized it yet": (
        lambda: of_pool(replace(healthy(taints=(UNINITIALIZED,)), ready_since=NOON - timedelta(minutes=1))),
        "CloudTaintStays",
        "Normal",
        (f"The node is Ready and still has {UNINITIALIZED}",),
    ),
    "memory pressure that is signalled": (
        lambda: of_pool(
            replace(healthy(taints=(f"{MEMORY_PRESSURE_TAINT}:NoSchedule",)), conditions=(PRESSED,)),
            a_pool(more=MEMORY),
        ),
        "MemoryPressure",
        "Warning",
        (
            "MemoryPressure, for 10m: Its condition WindowsMemoryPressure, which the operator sets, is True: "
            "CommitExhaustionImminent. 30Gi of 32Gi committed (94 %).",
            "The operator evicts none (memoryPressure.mode is Signal).",
            "kubectl winpool memory w1",
        ),
    ),
    "memory pressure for which pods are evicted": (
        lambda: of_pool(
            replace(healthy(annotations={**a_record(), **INTENTS}), conditions=(PRESSED,)), EVICTING
        ),
        "MemoryPressure",
        "Warning",
        ("The operator evicts pods that have grown, one after the other", "Begun lately: shop/hog."),
    ),
    "memory pressure that is only reported": (
        lambda: of_pool(
            healthy(),
            with_issue(
                a_pool(more={"memoryPressure": {"mode": "Observe"}}),
                "MemoryPressure",
                "These nodes are short.",
            ),
        ),
        "MemoryPressure",
        "Warning",
        (
            "MemoryPressure, for 60m: The operator reports: This node is short.",
            "The operator only reports it (memoryPressure.mode is Observe).",
        ),
    ),
    "a hold": (
        lambda: of_pool(healthy(annotations={"winpool.dev/hold": ""})),
        "NodesHeld",
        "Normal",
        (
            "NodesHeld: Someone holds it (winpool.dev/hold).",
            "The operator writes nothing to it until the annotation is removed.",
            "kubectl annotate node w1 winpool.dev/hold-",
        ),
    ),
    "a label and a taint that someone took away": (
        lambda: of_pool(healthy(labels={"team": "another"}), a_pool(more={**ASKED, "mode": "Paused"})),
        "OutOfDate",
        "Normal",
        (
            "It lacks what its pool asks for: team, os:NoSchedule.",
            "The operator does nothing: the pool has mode Paused.",
        ),
    ),
    "a label that is written at once": (
        lambda: of_pool(healthy(taints=(Taint("os", "NoSchedule", "windows"),)), a_pool(more=ASKED)),
        "OutOfDate",
        "Normal",
        ("It lacks what its pool asks for: team.", "The operator writes it within a second, if it runs."),
    ),
    "a cordon": (
        lambda: of_pool(healthy(unschedulable=True)),
        "Cordoned",
        "Normal",
        ("It is cordoned.", "kubectl uncordon w1"),
    ),
    "a build that is not supported": (
        lambda: of_pool(
            replace(healthy(), versions=NodeVersions("10.0.14393.7606", CONTROL_PLANE, "containerd://2.3.0")),
            a_pool(more={"os": {"version": "2016"}}),
        ),
        "BuildUnsupported",
        "Warning",
        ("BuildUnsupported: ", "The operator only reports it. No pod is moved for it."),
    ),
    "what only the operator knows": (
        lambda: of_pool(healthy(), with_issue(a_pool(), "WriteRefused")),
        "WriteRefused",
        "Warning",
        (
            "WriteRefused, for 60m: The operator reports: This node is odd.",
            "The operator tries again after at most five minutes.",
            "See w1.",
        ),
    ),
}


def found_in(cluster: Cluster) -> tuple[Problem, ...]:
    return problems_of(why_of(cluster, "w1"))


def page(cluster: Cluster, **look: Any) -> str:
    return as_text(why_of(cluster, "w1"), look=Look(**{"width": 80, **look}))


def squeezed(cluster: Cluster) -> str:
    return " ".join(page(cluster).split())


@pytest.mark.parametrize("scene", ALONE)
def test_a_problem_alone_is_the_state_of_the_node_with_what_happens_next_and_what_to_do(scene: str) -> None:
    make, kind, severity, texts = ALONE[scene]
    found, *others = found_in(make())
    assert (found.kind, found.severity) == (kind, severity)
    assert not others or kind == "BuildUnsupported", "such a build has more than one"
    said = squeezed(make())
    assert [each for each in texts if each not in said] == []


def in_trouble(**more: Any) -> Cluster:
    """Return a node with six problems and one that its pool reports, where an upgrade is due."""
    taints = (f"{MEMORY_PRESSURE_TAINT}:NoSchedule", SHUTDOWN)
    hold = {"winpool.dev/hold": ""}
    node = replace(a_machine("w1", taints=taints, annotations=hold, unschedulable=True), deleting=True)
    pool = with_issue(upgrade_pool(), "SurpriseReboot", **more)
    return a_cluster(pool, nodes=[node, a_machine("w2")])


def down(cluster: Cluster, **more: str) -> Cluster:
    """Return the cluster whose first node is not Ready."""
    return dataclasses.replace(cluster, nodes=(unready(cluster.nodes[0], **more), *cluster.nodes[1:]))


def test_several_problems_are_in_the_order_of_what_they_harm() -> None:
    cluster = in_trouble()
    kinds = ["Deleting", "CloudTaintStays", "MemoryPressure", "Upgrade", "NodesHeld", "Cordoned"]
    assert [each.kind for each in found_in(cluster)] == [*kinds, "SurpriseReboot"]
    kinds.remove("CloudTaintStays")  # it is right while the machine is off
    assert [each.kind for each in found_in(down(cluster))] == ["NotReady", *kinds, "SurpriseReboot"]
    said = squeezed(down(cluster))
    assert "State: ! NotReady, for 10m" in said
    assert "! An upgrade is due, and the node must not be upgraded now. Closed: Held." in said
    assert "Due:" not in said, "the upgrade is short where something is worse"
    steps = {each.kind: each.next for each in found_in(cluster)}
    assert steps["MemoryPressure"] == ("The operator does nothing while someone holds the node.",)


def test_a_machine_that_is_being_upgraded_may_be_off() -> None:
    cluster = rolling(
        unready(claimed("w1", UpgradeState.UPGRADING), "Unknown", "NodeStatusUnknown", "Silent.")
    )
    upgrade, down = found_in(cluster)
    assert (upgrade.kind, down.kind, down.severity) == ("Upgrade", "NotReady", "Normal")
    assert "That is expected while its machine is upgraded." in squeezed(cluster)


def test_what_is_judged_here_is_not_repeated_from_the_status() -> None:
    pool = with_issue(upgrade_pool(), "OSRevisionBehind")
    assert [each.kind for each in found_in(a_cluster(pool, nodes=[a_machine("w1")]))] == ["Upgrade"]
    hold = healthy(annotations={"winpool.dev/hold": ""})
    assert [each.kind for each in found_in(of_pool(hold, with_issue(a_pool(), "NodesHeld")))] == ["NodesHeld"]


def test_what_is_first_seen_here_has_no_age() -> None:
    cluster = ALONE["a build that is not supported"][0]()
    seen = dataclasses.replace(cluster, now=NOON + timedelta(milliseconds=500))
    assert [each.since for each in found_in(seen)] == [None] * len(found_in(seen))


def test_keys_that_another_feature_may_have_asked_for_are_not_said_to_be_left() -> None:
    """As of a node that is drained where no guard is in force, with the annotation for the autoscaler."""
    node = claimed("w1", UpgradeState.DRAINING)
    key = BORROWED_ANNOTATIONS[0]
    record = Record("uid-of-win-2022", {}, {}, annotations={key: Owned(set="true")})
    annotations = {**node.annotations, key: "true", APPLIED_ANNOTATION: render(record)}
    cluster = rolling(replace(node, annotations=annotations))
    assert [each.kind for each in found_in(cluster)] == ["Upgrade"]
    reported = dataclasses.replace(cluster, pools=(with_issue(cluster.pools[0], "KeysLeftAlone"),))
    assert [each.kind for each in found_in(reported)] == ["Upgrade", "KeysLeftAlone"]


def test_without_a_list_of_pods_the_operator_is_asked_what_a_node_waits_for() -> None:
    pool = a_startup_pool()
    node = joining(pool)
    problem = 'User "jane" cannot list resource "pods"'
    unknown = a_cluster(pool, nodes=[node], pods_problem=problem)
    assert f"waits for what is not known here: {problem}" in squeezed(unknown)
    told = with_issue(pool, "ValidationTimedOut", "These nodes wait for kube-system/cni.")
    assert "The operator reports: This node waits" not in squeezed(unknown)
    assert "The operator reports: This node" in squeezed(a_cluster(told, nodes=[node], pods_problem=problem))


def test_pods_are_read_only_where_the_validation_of_the_node_waits_for_them(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, known = a_startup_pool(), validating(agents=("kube-system/cni",))
    asked: list[str] = []

    def reads(_: Kubectl, cluster: Cluster, node: Node, **__: object) -> Cluster:
        asked.append(node.name)
        return dataclasses.replace(cluster, surveys=known.surveys)

    monkeypatch.setattr("winpool.cli.why.with_pods_of", reads)
    for node, expected in ((healthy(annotations=a_record(pool.uid)), []), (joining(pool), ["w1"])):
        monkeypatch.setattr("winpool.cli.why.read_cluster", lambda *_, **__: of_pool(node, pool))  # noqa: B023
        said = " ".join(plugin("why", "w1").out)
        assert asked == expected
    assert "waits for node agents to be Ready: kube-system/cni." in " ".join(said.split())


def test_an_operator_that_may_not_act_is_not_said_to_act() -> None:
    pool = a_startup_pool(validation={"timeoutSeconds": 60})
    paused = a_startup_pool(validation={"timeoutSeconds": 60}, mode="Paused")
    assert "The operator does nothing: the pool has mode Paused." in squeezed(of_pool(joining(pool), paused))
    said = with_issue(pool, "WriteRefused")
    refused = replace(said, spec=None, refusal="spec.os: must be given.")
    node = healthy(annotations=a_record(pool.uid))
    assert "The operator does nothing until it can act on the spec" in squeezed(of_pool(node, refused))


def test_a_program_gets_every_problem_with_its_times_and_what_to_do() -> None:
    content = as_content(why_of(down(in_trouble()), "w1"))
    assert (content["standing"], content["blocked"]) == ("Blocked", True), "what it says of upgrades stays"
    worst, *_, last = content["problems"]
    assert worst == {
        "kind": "NotReady",
        "severity": "Warning",
        "said": f"Its kubelet reports KubeletNotReady: {CNI}",
        "since": "2026-11-01T11:50:00Z",
        "next": worst["next"],
        "toDo": worst["toDo"],
    }
    assert worst["next"]
    assert worst["toDo"]
    assert (last["kind"], last["since"], last["toDo"]) == (
        "SurpriseReboot",
        "2026-11-01T11:00:00Z",
        ["See w1."],
    )
    assert as_content(why_of(of_pool(healthy()), "w1"))["problems"] == []


def test_what_does_not_fit_is_counted() -> None:
    said = page(down(in_trouble()))
    content = as_content(why_of(down(in_trouble()), "w1"))
    to_do = [each for problem in content["problems"] for each in problem["toDo"]]
    shown = " ".join(said.split())
    left_out = [each for each in to_do if each not in shown]
    assert left_out
    assert f"- and {len(left_out)} more: -o json has all" in said


def test_what_a_drain_waits_for_is_shown_however_much_else_there_is() -> None:
    said = " ".join(
        page(dataclasses.replace(SCENES["a drain that budgets block"](), leader_problem=HOSTILE)).split()
    )
    assert "Waits for: 20 pods to leave, blocked: shop/web-0, shop/web-1, shop/web-2 and 17 more." in said
    assert "! shop/web-0: Budget:" in said


def test_how_to_stop_a_drain_is_shown_beside_an_operator_that_is_not_known_and_another_problem() -> None:
    node = claimed("w1", UpgradeState.DRAINING)
    evidence = of_pods(node, evictable("web-1", node="w1"), room=CLOSED)
    cluster = dataclasses.replace(rolling(node, evidence=evidence), leader_problem=f"Not known: {CNI}")
    odd = dataclasses.replace(cluster, pools=(with_issue(cluster.pools[0], "MisplacedPods"),))
    assert "kubectl winpool rollout abort win-2022" in squeezed(odd)


HOSTILE: Final = "\x1b[2J\x1b]0;gone\x07\r\n\u202e" + "x y" * MESSAGE_LENGTH

SCENES: Final[dict[str, Callable[[], Cluster]]] = {
    **{name: make for name, (make, *_) in WORLDS.items()},
    **{name: make for name, (make, *_) in ALONE.items()},
    **{f"in the state {each}": partial(rolling, claimed("w1", each)) for each in STANDINGS},
    "a drain that budgets block": lambda: rolling(
        node := claimed("w1", UpgradeState.DRAINING),
        evidence=of_pods(node, *(evictable(f"web-{each}", node="w1") for each in range(20)), room=CLOSED),
    ),
    "several problems": in_trouble,
    "several problems, and not Ready": lambda: down(in_trouble()),
    "several problems, and no operator": lambda: dataclasses.replace(
        down(in_trouble()), leader_problem=f"No one leads. {HOSTILE}"
    ),
    "hostile texts": lambda: down(in_trouble(message=HOSTILE, fix=HOSTILE), reason=HOSTILE, message=HOSTILE),
    "a hostile text without an end": lambda: of_pool(
        unready(healthy(), message="\x1b[2J" + "x" * MESSAGE_LENGTH)
    ),
}


@pytest.mark.parametrize("scene", SCENES)
def test_every_scene_fits_a_terminal_and_is_clean(scene: str) -> None:
    cluster = SCENES[scene]()
    for letters in (False, True):
        lines = page(cluster, unicode=letters).splitlines()
        assert len(lines) <= LINES
        assert max(map(len, lines)) <= 80
        assert all(each.isprintable() for each in lines)
    content = as_content(why_of(cluster, "w1"))["problems"]
    assert all(len(each["said"]) <= 2 * MESSAGE_LENGTH and each["said"].isprintable() for each in content)
