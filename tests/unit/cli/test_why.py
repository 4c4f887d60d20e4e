"""``why``: the answer for one node, its exit code, and the text."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_pool, a_record, deleted, with_status
from harness.every import every
from unit.cli.upgrades import LARGE, SMALL, WHOLE_DAY_OFF, a_cluster, a_machine, upgrade_pool
from winpool.api.issues import IssueReason
from winpool.api.keys import MEMORY_PRESSURE_TAINT, UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.status import WindowsNodePoolStatus
from winpool.api.upgrade import Gate
from winpool.cli.console import Look
from winpool.cli.kubectl import Kubectl, NotAskedError
from winpool.cli.node_upgrade import Standing, Why, to_do
from winpool.cli.upgrades import Cluster
from winpool.cli.why import as_text, why_of
from winpool.features.upgrade.records import CAPPED
from winpool.model.node import Node, NodeVersions, Taint
from winpool.model.pods import Block, BlockedBy, Workload
from winpool.model.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.cli.conftest import Ended, Plugin

NARROW = Look(width=80)
ABSENT = "there is no node"


def answer(cluster: Cluster, name: str = "w1") -> Why:
    found = why_of(cluster, name)
    assert isinstance(found, Why), found
    return found


def text(cluster: Cluster, name: str = "w1") -> str:
    return as_text(answer(cluster, name), look=NARROW)


def squeezed(cluster: Cluster, name: str = "w1") -> str:
    return " ".join(text(cluster, name).split())


def open_pool(**upgrade: Any) -> Cluster:
    """Return a cluster whose operator says that both nodes may be upgraded."""
    return a_cluster(allowed(upgrade_pool(upgrade=upgrade)), nodes=[permitted("w1"), permitted("w2")])


def allowed(pool: Pool, status: str = "True", *, about: int = 0) -> Pool:
    """Return the pool with the condition UpgradeAllowed, about this generation or its own."""
    condition = {
        "type": "UpgradeAllowed",
        "status": status,
        "observedGeneration": about or pool.generation,
        "lastTransitionTime": "2026-11-01T11:00:00Z",
        "reason": "AllGatesOpen",
        "message": "All gates are open.",
    }
    return with_status(pool, WindowsNodePoolStatus.model_validate({"conditions": [condition]}))


def permitted(name: str, **more: Any) -> Node:
    return a_machine(name, labels={UPGRADE_STATE_LABEL: "Required"}, **more)


DOWN = "No operator leads: op-1 does not renew its Lease (last renewal: 2026-11-01T09:00:00Z)."


WORLDS: dict[str, tuple[Callable[[], Cluster], Standing, int]] = {
    "no pool": (lambda: a_cluster(nodes=[a_machine("w1")]), Standing.NO_POOL, 1),
    "another system": (lambda: a_cluster(stranger=a_node("w1", os="linux")), Standing.NO_POOL, 1),
    "nothing due": (
        lambda: a_cluster(upgrade_pool(), nodes=[a_machine("w1", behind=False)]),
        Standing.NOTHING_DUE,
        0,
    ),
    "due and open": (open_pool, Standing.OPEN, 0),
    "open, and the operator is down": (
        lambda: dataclasses.replace(open_pool(), leader_problem=DOWN),
        Standing.UNCONFIRMED,
        1,
    ),
    "open, and without the label": (
        lambda: a_cluster(allowed(upgrade_pool()), nodes=[a_machine("w1"), permitted("w2")]),
        Standing.UNCONFIRMED,
        1,
    ),
    "open, and the operator says no": (
        lambda: a_cluster(allowed(upgrade_pool(), "False"), nodes=[permitted("w1")]),
        Standing.UNCONFIRMED,
        1,
    ),
    "open, and the operator has judged an older spec": (
        lambda: a_cluster(allowed(upgrade_pool(), about=99), nodes=[permitted("w1")]),
        Standing.UNCONFIRMED,
        1,
    ),
    "begun, and the operator has judged an older spec": (
        lambda: a_cluster(
            allowed(upgrade_pool(upgrade={"maxUnavailable": 1}), "False", about=99),
            nodes=[permitted("w1", unschedulable=True), a_machine("w2")],
        ),
        Standing.UNCONFIRMED,
        1,
    ),
    "its pool is being deleted": (
        lambda: a_cluster(
            gone := deleted(upgrade_pool()), nodes=[permitted("w1", annotations=a_record(gone.uid))]
        ),
        Standing.NO_POOL,
        1,
    ),
    "begun, and the operator is down": (
        lambda: a_cluster(
            allowed(upgrade_pool(upgrade={"maxUnavailable": 1}), "False"),
            nodes=[permitted("w1", unschedulable=True), a_machine("w2")],
            leader_problem=DOWN,
        ),
        Standing.UNCONFIRMED,
        1,
    ),
    "its own cordon uses up the budget": (
        lambda: a_cluster(
            allowed(upgrade_pool(upgrade={"maxUnavailable": 1}), "False"),
            nodes=[
                a_machine("w1", unschedulable=True, labels={UPGRADE_STATE_LABEL: "Required"}),
                a_machine("w2"),
            ],
        ),
        Standing.IN_WORK,
        0,
    ),
    "a cordon of another node uses up the budget": (
        lambda: a_cluster(
            upgrade_pool(upgrade={"maxUnavailable": 1}),
            nodes=[
                a_machine("w1", labels={UPGRADE_STATE_LABEL: "Required"}),
                a_machine("w2", unschedulable=True),
            ],
        ),
        Standing.BLOCKED,
        3,
    ),
    "another node has the slot": (
        lambda: a_cluster(
            upgrade_pool(upgrade={"maxUnavailable": 1}),
            nodes=[
                a_machine("w1"),
                a_machine("w2", unschedulable=True, labels={UPGRADE_STATE_LABEL: "Required"}),
            ],
        ),
        Standing.WAITING,
        3,
    ),
    "begun, and another gate has closed": (
        lambda: a_cluster(
            upgrade_pool(upgrade={"maxUnavailable": 1, "maintenanceExclusions": [WHOLE_DAY_OFF]}),
            nodes=[a_machine("w1", unschedulable=True, labels={UPGRADE_STATE_LABEL: "Required"})],
        ),
        Standing.BLOCKED,
        3,
    ),
    "a gate of the pool": (lambda: open_pool(maintenanceExclusions=[WHOLE_DAY_OFF]), Standing.BLOCKED, 3),
    "a pause": (lambda: open_pool(pauseRequests=[{"owner": "sre"}]), Standing.BLOCKED, 3),
    "a dry run": (
        lambda: a_cluster(upgrade_pool(mode="DryRun"), nodes=[a_machine("w1")]),
        Standing.BLOCKED,
        3,
    ),
    "a hold": (
        lambda: a_cluster(
            upgrade_pool(), nodes=[a_machine("w1", annotations={"winpool.dev/hold": ""}), a_machine("w2")]
        ),
        Standing.BLOCKED,
        3,
    ),
    "pods of unknown budgets": (
        lambda: a_cluster(upgrade_pool(), nodes=[a_machine("w1")], pods_known=False),
        Standing.BLOCKED,
        3,
    ),
    "no block": (
        lambda: a_cluster(
            a_pool(more={"os": {"version": "2022", "targetRevision": 4052}}), nodes=[a_machine("w1")]
        ),
        Standing.NOT_GATED,
        1,
    ),
    "an unknown build": (
        lambda: a_cluster(upgrade_pool(), nodes=[a_machine("w1", versions=NodeVersions())]),
        Standing.UNKNOWN,
        1,
    ),
    "a spec that cannot be read": (
        lambda: a_cluster(
            broken := a_pool(refusal="spec.os: must be given."),
            nodes=[a_machine("w1", annotations=a_record(broken.uid))],
        ),
        Standing.UNKNOWN,
        1,
    ),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_answer_is(world: str) -> None:
    make, standing, _ = WORLDS[world]
    assert answer(make()).standing is standing


def run(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, cluster: Cluster, name: str = "w1", *more: str
) -> Ended:
    def read(_: Kubectl, plans: Callable[[Cluster], object], **__: object) -> Cluster:
        plans(cluster)
        return cluster

    monkeypatch.setattr("winpool.cli.why.read_cluster", read)
    return plugin("why", name, *more)


@pytest.mark.parametrize("world", WORLDS)
def test_the_exit_code_is(plugin: Plugin, monkeypatch: pytest.MonkeyPatch, world: str) -> None:
    make, _, code = WORLDS[world]
    ended = run(plugin, monkeypatch, make())
    assert (ended.code, ended.err) == (code, [])
    assert ended.out[0] == "Node:    w1"
    assert {"Next:", "What you can do:"} <= set(ended.out)


def answered(plugin: Plugin, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("\n".join(run(plugin, monkeypatch, cluster, "w1", "-o", "json").out))
    return found


@pytest.mark.parametrize("world", WORLDS)
def test_a_program_gets_the_same_answer(plugin: Plugin, monkeypatch: pytest.MonkeyPatch, world: str) -> None:
    make, standing, code = WORLDS[world]
    cluster = make()
    ended = run(plugin, monkeypatch, cluster, "w1", "-o", "json")
    assert (ended.code, ended.err) == (code, [])
    found = json.loads("\n".join(ended.out))
    assert (found["node"], found["standing"], found["blocked"]) == ("w1", standing.value, code != 0)
    shown = squeezed(cluster)
    assert all(" ".join(said.split()) in shown for said in (*found["next"], *found["toDo"]))
    assert ("noPool" in found) is (found["pool"] is None) is (standing is Standing.NO_POOL)


def test_a_program_gets_every_gate_with_what_opens_it(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    override = {"gate": "PoolHealth", "until": "2026-12-01T00:00:00Z", "reason": "incident"}
    pool = upgrade_pool(upgrade={"maintenanceExclusions": [WHOLE_DAY_OFF], "overrides": [override]})
    held = a_machine("w1", annotations={"winpool.dev/hold": ""}, labels={UPGRADE_STATE_LABEL: "Gated"})
    found = answered(plugin, monkeypatch, a_cluster(pool, nodes=[held, a_machine("w2")]))
    assert [each["trigger"] for each in found["due"]] == ["OSRevision"]
    assert [(each["name"], each["of"]) for each in found["stops"]] == [("Held", "Node")]
    assert sorted(each["gate"] for each in found["gates"]) == sorted(map(str, Gate))
    gates = {each["gate"]: each for each in found["gates"]}
    window = gates["MaintenanceWindow"]
    assert (window["stand"], window["permits"], window["of"]) == ("Closed", False, "Pool")
    assert window["opens"]
    assert gates["PoolHealth"]["overriddenUntil"] == "2026-12-01T00:00:00Z"
    assert gates["Capacity"]["of"] == "Node"
    assert (found["target"], found["upgradeState"]) != ("", None)
    assert found["changesAt"].endswith("Z")


@pytest.mark.parametrize("world", WORLDS)
def test_every_line_fits_a_terminal(world: str) -> None:
    make, _, _ = WORLDS[world]
    assert max(map(len, text(make()).splitlines())) <= 80


def test_a_node_that_does_not_exist_is_an_error(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = run(plugin, monkeypatch, a_cluster(upgrade_pool()))
    assert (ended.code, ended.out) == (1, [])
    assert ABSENT in ended.err[0]


def test_a_node_that_cannot_be_read_is_another_error(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = run(plugin, monkeypatch, a_cluster(unread=("node w1: its status is no object",)))
    assert (ended.code, ended.out) == (1, [])
    assert "its status is no object" in ended.err[0]
    assert ABSENT not in ended.err[0]


def test_a_server_that_cannot_be_asked_is_an_error(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> Cluster:
        raise NotAskedError("the API server refuses: jane may not list nodes")

    monkeypatch.setattr("winpool.cli.why.read_cluster", refuses)
    ended = plugin("why", "w1")
    assert (ended.code, ended.out) == (1, [])
    assert ended.err == ["kubectl winpool why: the API server refuses: jane may not list nodes"]


@pytest.mark.parametrize(
    "arguments", [(), ("wnp/w1",), ("node/",), ("w1", "w2"), ("w1", "--support-matrix-file", "missing")]
)
def test_a_command_line_without_sense_ends_with_2(plugin: Plugin, arguments: tuple[str, ...]) -> None:
    assert plugin("why", *arguments).code == 2


@pytest.mark.parametrize("name", ["w1", "node/w1", "nodes/w1", "no/w1"])
def test_a_node_is_named_as_for_kubectl(plugin: Plugin, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert run(plugin, monkeypatch, open_pool(), name).code == 0


def test_each_closed_gate_has_what_opens_it() -> None:
    pool = upgrade_pool(upgrade={"maintenanceExclusions": [WHOLE_DAY_OFF]})
    blocked = Workload(
        moving=((SMALL, 2),), blocks=(Block("shop/web-1", BlockedBy.NONE_ALLOWED, ("web",)),), blocked=1
    )
    nodes = [a_machine("w1"), a_machine("w2")]
    cluster = a_cluster(pool, nodes=nodes, workloads={"w1": blocked})
    said = squeezed(cluster)
    assert "Closed: 2 ! MaintenanceWindow (the pool)" in said
    assert "! PodDisruptionBudgets (this node)" in said
    assert said.count("To open: ") == 2
    assert "1 cannot be evicted now: shop/web-1 (NoneAllowed: web)" in said
    assert "open MaintenanceWindow until a date by spec.upgrade.overrides" in " ".join(to_do(answer(cluster)))
    assert "Time alone may change a gate at 2026-11-02T00:00:00Z." in said


def test_a_revision_that_is_behind_may_be_that_of_a_kubelet_that_has_not_restarted() -> None:
    said = "it reports the revision of its own start"
    assert said in squeezed(open_pool())
    assert said not in squeezed(a_cluster(upgrade_pool(), nodes=[a_machine("w1", behind=False)]))


@every("strategy", ["Manual", "RollingUpdate"])
def test_the_limit_over_all_pools_is_named_where_the_operator_reports_it(strategy: str) -> None:
    """The plugin does not know the setting: by its own judgement the node would be the next."""
    pool = allowed(upgrade_pool(upgrade={"strategy": strategy, "maxUnavailable": 2}))
    nodes = [a_machine("w1"), a_machine("w2")]
    assert CAPPED not in squeezed(a_cluster(pool, nodes=nodes))
    (condition,) = pool.status.conditions
    capped = condition.model_copy(update={"message": f"1 node waits for its turn: {CAPPED}"})
    reported = with_status(pool, pool.status.model_copy(update={"conditions": (capped,)}))
    assert CAPPED in squeezed(a_cluster(reported, nodes=nodes))


def test_what_no_override_opens_is_not_offered() -> None:
    full = open_pool(maxUnavailable=0)
    assert "! Budget (the pool)" in squeezed(full)
    assert "spec.upgrade.overrides" not in " ".join(to_do(answer(full)))


def test_an_override_is_shown_with_its_end_and_reason() -> None:
    override = {"gate": "MaintenanceWindow", "until": "2026-12-01T00:00:00Z", "reason": "incident 4711"}
    said = squeezed(open_pool(maintenanceExclusions=[WHOLE_DAY_OFF], overrides=[override]))
    assert "MaintenanceWindow (the pool): overridden until 2026-12-01T00:00:00Z: incident 4711." in said
    assert "Closed gates: none" in said


def test_pods_that_fit_nowhere_close_the_gate_of_the_node_alone() -> None:
    nodes = [a_machine("w1"), a_machine("w2")]
    cluster = a_cluster(upgrade_pool(), nodes=nodes, workloads={"w1": Workload(moving=((LARGE, 1),))})
    assert "! Capacity (this node)" in squeezed(cluster)
    assert "1 or more fit on no other node: requests 64000m CPU" in squeezed(cluster)
    assert (other := answer(cluster, "w2").due) is not None
    assert other.is_open


def test_pods_that_a_drain_loses_are_counted() -> None:
    loses = Workload(moving=((SMALL, 3),), unmanaged=1, local=2, longest_grace=90)
    cluster = a_cluster(upgrade_pool(), nodes=[a_machine("w1"), a_machine("w2")], workloads={"w1": loses})
    said = squeezed(cluster)
    for each in ("3 to move", "1 without a controller", "2 with an emptyDir", "longest grace 90 s"):
        assert each in said


def test_the_end_of_a_hold_is_shown() -> None:
    end = (NOON + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    node = a_machine("w1", annotations={"winpool.dev/hold": end}, behind=False)
    assert f"Someone holds it (winpool.dev/hold) until {end}." in squeezed(
        a_cluster(upgrade_pool(), nodes=[node])
    )


def test_a_node_whose_upgrade_is_not_due_leads_to_what_may_be_wrong_on_it() -> None:
    make, *_ = WORLDS["nothing due"]
    assert "Nothing has to be done. If pods do not start there" in squeezed(make())
    assert "kubectl winpool diagnose w1" in squeezed(make())


def test_trouble_of_the_node_is_shown() -> None:
    pressed = Taint(MEMORY_PRESSURE_TAINT, "NoSchedule")
    node = replace(a_machine("w1", unschedulable=True, ready="Unknown", taints=(pressed,)), deleting=True)
    said = squeezed(a_cluster(upgrade_pool(), nodes=[node]))
    for each in ("It is being deleted.", "Its condition Ready is Unknown", "It is cordoned."):
        assert each in said


def test_issues_of_the_pool_that_name_the_node_are_shown() -> None:
    issue = {
        "reason": "SurpriseReboot",
        "nodes": ["w1"],
        "nodeCount": 1,
        "since": "2026-11-01T11:00:00Z",
        "message": "The machine was started again.",
        "fix": "Find out why.",
    }
    pool = with_status(upgrade_pool(), WindowsNodePoolStatus.model_validate({"issues": [issue]}))
    cluster = a_cluster(pool, nodes=[a_machine("w1"), a_machine("w2")])
    assert "SurpriseReboot, for 60m: The operator reports: The machine was started again." in squeezed(
        cluster
    )
    assert "- Find out why." in squeezed(cluster)
    assert "SurpriseReboot" not in squeezed(cluster, "w2")


@every("reason", [IssueReason.INTOLERANT_PODS, IssueReason.VALIDATION_TIMED_OUT])
def test_what_keeps_pods_from_the_node_comes_before_what_is_due(reason: IssueReason) -> None:
    """A taint that is held back, a validation that has failed, as the operator reports them."""
    issue = {
        "reason": reason,
        "nodes": ["w1"],
        "nodeCount": 1,
        "since": "2026-11-01T11:00:00Z",
        "message": "This is first.",
        "fix": "",
    }
    pool = with_status(upgrade_pool(), WindowsNodePoolStatus.model_validate({"issues": [issue]}))
    before, due, _ = squeezed(a_cluster(pool, nodes=[a_machine("w1"), a_machine("w2")])).partition(
        "An upgrade is due"
    )
    assert due
    assert f"State: ! {reason}, for 60m: The operator reports: This is first." in before


def test_a_hold_comes_before_all_that_could_be_done() -> None:
    """Also where nothing is due, so that no gate names it."""
    node = a_machine("w1", annotations={"winpool.dev/hold": ""}, behind=False)
    before, found, _ = squeezed(a_cluster(upgrade_pool(), nodes=[node])).partition("Next:")
    assert found
    assert "Someone holds it (winpool.dev/hold)." in before


def test_a_node_that_waits_for_its_turn_says_who_has_the_slots() -> None:
    nodes = [
        a_machine("w1"),
        a_machine("w2", unschedulable=True, labels={UPGRADE_STATE_LABEL: "Required"}),
        permitted("w3"),
    ]
    said = squeezed(a_cluster(upgrade_pool(upgrade={"maxUnavailable": 2}), nodes=nodes))
    assert "the node waits for its turn: it must not be upgraded now." in said
    assert "It is number 1 of 3 in the plan. spec.upgrade.maxUnavailable permits 2 at a time" in said
    assert "In work: w2." in said
    assert "May be upgraded now: w3." in said


def test_what_the_operator_has_not_said_is_told() -> None:
    said = squeezed(a_cluster(upgrade_pool(), nodes=[a_machine("w1")], leader_problem=DOWN))
    assert "It is not certain that the operator permits it: do not upgrade the node now." in said
    assert DOWN in said
    assert said.count(DOWN) == 1
    assert "The node does not have the label: the operator sets it at once, if it runs." in said
    assert "The condition is not there, or not about the newest spec." in said
    assert DOWN in squeezed(dataclasses.replace(open_pool(maxUnavailable=0), leader_problem=DOWN)), (
        "also where it is no"
    )


def test_without_the_right_to_list_pods_it_says_so() -> None:
    cluster = a_cluster(
        upgrade_pool(), nodes=[a_machine("w1")], pods_known=False, pods_problem="jane may not list pods"
    )
    assert "Pods, PodDisruptionBudgets or RuntimeClasses are not known: jane may not list pods" in squeezed(
        cluster
    )


def test_a_spec_that_is_not_accepted_says_why() -> None:
    never = {"start": "2026-01-01T00:00:00Z", "end": "2099-01-01T00:00:00Z"}
    said = squeezed(open_pool(maintenanceExclusions=[never]))
    assert "The operator does not act on the spec of the pool: spec.upgrade.maintenanceExclusions" in said
    assert "! NotAccepted (the pool)" in said


def test_what_others_have_written_is_printable_and_cut() -> None:
    hostile = "\x1b[2J\n" + "x" * 100_000
    node = a_machine("w1", annotations={UPGRADE_REQUESTED_ANNOTATION: hostile})
    node = replace(node, ready=hostile, labels={**node.labels, UPGRADE_STATE_LABEL: hostile})
    blocks = tuple(Block(hostile, BlockedBy.NONE_ALLOWED, (hostile,)) for _ in range(5))
    pool = upgrade_pool(upgrade={"pauseRequests": [{"owner": "sre", "reason": "\u202eno\n! Held"}]})
    shown = text(a_cluster(pool, nodes=[node], workloads={"w1": Workload(blocks=blocks, blocked=9)}))
    assert all(each.isprintable() for each in shown.splitlines())
    assert len(shown) < 20_000
