"""``plan``: what is planned, the text, the JSON, and the exit codes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import RED, a_pool
from unit.cli.upgrades import LARGE, OLDER_RELEASE, SMALL, WHOLE_DAY_OFF, a_cluster, a_machine, upgrade_pool
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.cli.console import Look
from winpool.cli.kubectl import Kubectl, NotAskedError
from winpool.cli.plan import NODES_SHOWN, as_content, as_text
from winpool.cli.upgrades import Cluster, judged
from winpool.model.pods import Block, BlockedBy, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from unit.cli.conftest import Ended, Plugin
    from winpool.model.pool import Pool

Object = dict[str, Any]

MANIFEST = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: %s}
spec:
  nodeSelector: {matchLabels: {agentpool: red}}
  os: {version: "2022", targetRevision: 4052}
  upgrade: {maxUnavailable: 2}
"""


@pytest.fixture
def planned(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Run ``plan`` on a cluster as a reading has it."""

    def run(cluster: Cluster, *arguments: str, stdin: str = "") -> Ended:
        def read(_: Kubectl, plans: Callable[[Cluster], Sequence[Pool]], **__: object) -> Cluster:
            asked = {each.uid for each in plans(cluster)}
            return replace(
                cluster, surveys={uid: each for uid, each in cluster.surveys.items() if uid in asked}
            )

        monkeypatch.setattr("winpool.cli.plan.read_cluster", read)
        monkeypatch.setenv("LC_ALL", "C")
        return plugin("plan", *arguments, stdin=stdin)

    return run


def fleet(count: int, **more: Any) -> Cluster:
    nodes = [a_machine(f"w{number:02}") for number in range(1, count + 1)]
    return a_cluster(upgrade_pool(**more), nodes=nodes)


def text(cluster: Cluster, *, most: int | None = None) -> str:
    return as_text(judged(cluster, cluster.pools[0]), cluster, most=most, look=Look(width=80))


def squeezed(cluster: Cluster) -> str:
    return " ".join(text(cluster).split())


def steps(ended: Ended) -> list[Object]:
    found: list[Object] = json.loads("\n".join(ended.out))["pools"][0]["steps"]
    return found


def test_the_plan_of_a_pool_is_shown(planned: Callable[..., Ended]) -> None:
    ended = planned(fleet(5), "win-2022")
    assert (ended.code, ended.err) == (0, [])
    assert ended.out[0] == "Pool:    win-2022, 5 nodes"
    said = " ".join(" ".join(ended.out).split())
    assert "2 of 5 may be upgraded now: w01, w02." in said
    assert "Order: 5 nodes in 3 batches of at most 2" in said
    assert "Batch 1, likely " in said
    assert max(map(len, ended.out)) <= 80


def test_a_closed_gate_keeps_the_exit_code_and_says_what_opens_it(planned: Callable[..., Ended]) -> None:
    ended = planned(fleet(2, upgrade={"maintenanceExclusions": [WHOLE_DAY_OFF]}), "wnp/win-2022")
    assert ended.code == 0
    said = " ".join(" ".join(ended.out).split())
    assert "No node may be upgraded now; closed for the pool: 1." in said
    assert "! MaintenanceWindow An entry of spec.upgrade.maintenanceExclusions" in said
    assert "To open: Wait until 2026-11-02T00:00:00Z" in said


def test_the_first_nodes_are_shown_and_all_on_request(planned: Callable[..., Ended]) -> None:
    cluster = fleet(NODES_SHOWN + 5)
    few, all_of_them = planned(cluster, "win-2022"), planned(cluster, "win-2022", "--all")
    assert "  and 5 nodes more: --all shows them" in few.out
    assert not [line for line in all_of_them.out if "--all" in line]
    assert len(all_of_them.out) > len(few.out)
    assert len(steps(planned(cluster, "win-2022", "-o", "json"))) == NODES_SHOWN + 5


def test_what_keeps_single_nodes_is_shown_with_their_pods() -> None:
    nodes = [a_machine("w1"), a_machine("w2"), a_machine("w3", annotations={"winpool.dev/hold": ""})]
    full = Workload(moving=((LARGE, 1), (SMALL, 2)), unmanaged=1, local=1)
    blocked = Workload(
        moving=((SMALL, 1),), blocks=(Block("shop/a", BlockedBy.SEVERAL_BUDGETS, ("x", "y")),), blocked=1
    )
    said = squeezed(a_cluster(upgrade_pool(), nodes=nodes, workloads={"w1": full, "w2": blocked}))
    for each in (
        "Closed: Capacity Pods: 3 to move 1 or more fit on no other node: requests 64000m CPU",
        "1 without a controller",
        "1 with an emptyDir",
        "1 that cannot be evicted now: shop/a (SeveralBudgets: x, y)",
        "! Held, 1 node (w3)",
        "! PodDisruptionBudgets, 1 node (w2)",
        "every due node has a closed gate of its own",
    ):
        assert each in said, said


def test_nodes_of_another_release_are_planned_too() -> None:
    nodes = [a_machine("w1", versions=OLDER_RELEASE)]
    assert "OSVersion" in squeezed(a_cluster(upgrade_pool(upgrade={"method": "Replace"}), nodes=nodes))


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (a_cluster(a_pool(deleting=True)), "The pool is being deleted."),
        (a_cluster(a_pool(refusal="spec.os: must be given.")), "The spec cannot be read."),
        (a_cluster(a_pool(refusal="spec.os: must be given.")), "spec.os: must be given."),
        (a_cluster(a_pool(), nodes=[a_machine("w1")]), "the pool has no spec.upgrade"),
        (a_cluster(upgrade_pool(), nodes=[a_machine("w1", behind=False)]), "Nothing is due."),
        (a_cluster(upgrade_pool()), "0 nodes"),
        (
            a_cluster(upgrade_pool(), nodes=[a_machine("w1")], unread=("node w9: broken",)),
            "Not read: node w9",
        ),
        (
            a_cluster(upgrade_pool(), nodes=[a_machine("w1")], pods_known=False, pods_problem="no right"),
            "Pods, PodDisruptionBudgets or RuntimeClasses are not known: no right",
        ),
        (fleet(2, upgrade={"maxUnavailable": 0}), "In no batch"),
    ],
)
def test_what_cannot_be_planned_is_said(cluster: Cluster, said: str) -> None:
    assert said in squeezed(cluster)


DOWN = "No operator leads: op-1 does not renew its Lease (last renewal: 2026-11-01T09:00:00Z)."


@pytest.mark.parametrize(
    ("pool", "code"),
    [
        (upgrade_pool(), 0),
        (a_pool(), 0),
        (a_pool(deleting=True), 0),
        (a_pool(refusal="spec.os: must be given."), 1),
    ],
)
def test_it_begins_with_the_leader_that_does_not_renew_its_lease(
    planned: Callable[..., Ended], pool: Pool, code: int
) -> None:
    cluster = a_cluster(pool, nodes=[a_machine("w1")], leader_problem=DOWN)
    shown = planned(cluster, pool.name)
    assert (shown.code, shown.err) == (code, [])
    assert shown.out[0].startswith("Pool:")
    assert shown.out[1].startswith("Leader:")
    assert DOWN in " ".join(" ".join(shown.out).split())
    assert json.loads("\n".join(planned(cluster, pool.name, "-o", "json").out))["operatorProblem"] == DOWN


def test_it_says_nothing_of_a_leader_that_renews_its_lease(planned: Callable[..., Ended]) -> None:
    assert "Leader:" not in "".join(planned(fleet(1), "win-2022").out)
    assert "operatorProblem" not in json.loads("\n".join(planned(fleet(1), "win-2022", "-o", "json").out))


def test_a_pool_that_does_not_exist_is_refused(planned: Callable[..., Ended]) -> None:
    ended = planned(fleet(1), "other")
    assert (ended.code, ended.out) == (1, [])
    assert 'there is no WindowsNodePool "other"' in ended.err[0]


def test_a_server_that_cannot_be_asked_ends_with_1(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> Cluster:
        raise NotAskedError("install the CRD")

    monkeypatch.setattr("winpool.cli.plan.read_cluster", refuses)
    ended = plugin("plan", "win-2022")
    assert (ended.code, ended.err) == (1, ["kubectl winpool plan: install the CRD"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name one POOL, or manifests with -f"),
        (("win-2022", "-f", "pool.yaml"), "name one POOL, or manifests with -f"),
        (("win-2022", "-R"), "-R needs -f"),
        (("-f", "missing.yaml"), "missing.yaml: No such file"),
        (("win-2022", "--support-matrix-file", "missing.yaml"), "--support-matrix-file missing.yaml"),
        (("node/w1",), "is not the name of a pool"),
    ],
)
def test_a_command_line_without_sense_ends_with_2(
    plugin: Plugin, arguments: tuple[str, ...], said: str
) -> None:
    ended = plugin("plan", *arguments)
    assert (ended.code, ended.out) == (2, [])
    assert said in ended.err[-1]


def test_a_manifest_that_is_not_valid_is_not_planned(planned: Callable[..., Ended]) -> None:
    ended = planned(
        fleet(1), "-f", "-", stdin=(MANIFEST % "a").replace("maxUnavailable: 2", "maxUnavailable: -2")
    )
    assert (ended.code, ended.out) == (1, [])
    assert "stdin:7: document 1 (a): spec.upgrade.maxUnavailable: " in ended.err[0]
    assert "kubectl winpool validate" in ended.err[-1]


def test_without_a_pool_there_is_nothing_to_plan(planned: Callable[..., Ended]) -> None:
    ended = planned(fleet(1), "-f", "-", stdin="apiVersion: v1\nkind: Service\n")
    assert (ended.code, ended.out) == (1, [])
    assert ended.err == [
        "stdin:1: document 1: skipped, Service is not WindowsNodePool",
        "no WindowsNodePool found",
    ]


def test_a_manifest_is_planned_on_the_nodes_of_the_cluster(planned: Callable[..., Ended]) -> None:
    cluster = a_cluster(nodes=[a_machine("w1"), a_machine("w2", behind=False)])
    ended = planned(cluster, "-f", "-", "-o", "json", stdin=MANIFEST % "new")
    assert ended.code == 0
    assert [each["node"] for each in steps(ended)] == ["w1"]


def test_a_manifest_replaces_the_pool_of_its_name(planned: Callable[..., Ended]) -> None:
    """With the spec that is applied nothing is due, and the nodes stay those of the pool."""
    applied = a_pool("win-2022", labels={"team": "x"})
    cluster = a_cluster(applied, nodes=[a_machine("w1")])
    before = json.loads("\n".join(planned(cluster, "win-2022", "-o", "json").out))["pools"][0]
    assert before["dueNodes"] == 0
    ended = planned(cluster, "-f", "-", "-o", "json", stdin=MANIFEST % "win-2022")
    assert [each["node"] for each in steps(ended)] == ["w1"]


def test_an_older_pool_keeps_its_nodes_from_a_new_manifest(
    planned: Callable[..., Ended],
) -> None:
    cluster = a_cluster(upgrade_pool("old"), nodes=[a_machine("w1")])
    found = json.loads("\n".join(planned(cluster, "-f", "-", "-o", "json", stdin=MANIFEST % "new").out))
    assert found["pools"][0]["nodes"] == 0


def test_several_manifests_are_planned_in_one_picture(planned: Callable[..., Ended], tmp_path: Path) -> None:
    blue = (MANIFEST % "blue").replace("red", "blue")
    (tmp_path / "pools.yaml").write_text(f"{MANIFEST % 'red'}---\n{blue}")
    nodes = [a_machine("w1"), a_machine("w2", labels={"agentpool": "blue"})]
    ended = planned(a_cluster(nodes=nodes), "-f", str(tmp_path / "pools.yaml"), "-o", "json")
    found = json.loads("\n".join(ended.out))["pools"]
    assert [(each["name"], [step["node"] for step in each["steps"]]) for each in found] == [
        ("red", ["w1"]),
        ("blue", ["w2"]),
    ]


def test_rows_of_the_settings_of_the_operator_count(planned: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text('supportMatrix: [{osVersion: "2022", verdict: Deny, reason: bad}]\n')
    ended = planned(fleet(1), "win-2022", "--support-matrix-file", str(tmp_path / "rows.yaml"))
    assert "  ! SupportMatrix" in ended.out


@given(st.randoms(use_true_random=False))
def test_the_json_is_the_same_byte_for_byte_in_any_order_of_the_nodes(shuffler: random.Random) -> None:
    nodes = [a_machine(f"w{number}", behind=number % 3 > 0) for number in range(12)]
    workloads = {
        f"w{number}": Workload(moving=((SMALL, number % 4), (LARGE, number % 2))) for number in range(12)
    }
    pool = upgrade_pool(upgrade={"maintenanceExclusions": [WHOLE_DAY_OFF]})

    def planned_json() -> str:
        cluster = a_cluster(pool, nodes=nodes, workloads=workloads)
        return json.dumps(as_content([judged(cluster, pool)], cluster))

    before = planned_json()
    shuffler.shuffle(nodes)
    assert planned_json() == before


def test_the_json_has_what_the_text_has() -> None:
    blocks = (Block("shop/a", BlockedBy.NONE_ALLOWED, ("x",)),)
    override = {"gate": "MaintenanceWindow", "until": "2026-12-01T00:00:00Z", "reason": "incident"}
    pool = upgrade_pool(upgrade={"maintenanceExclusions": [WHOLE_DAY_OFF], "overrides": [override]})
    cluster = a_cluster(
        pool,
        nodes=[a_machine("w1"), a_machine("w2", behind=False)],
        workloads={"w1": Workload(moving=((SMALL, 1),), blocks=blocks, blocked=1)},
        pods_problem="no budgets",
        unread=("node w9: broken",),
    )
    found = as_content([judged(cluster, pool)], cluster)
    assert (found["podsProblem"], found["unreadNodes"]) == ("no budgets", ["node w9: broken"])
    (of_pool,) = found["pools"]
    assert (of_pool["name"], of_pool["nodes"], of_pool["dueNodes"]) == ("win-2022", 2, 1)
    assert (of_pool["upToDateNodes"], of_pool["permittedNodes"]) == (1, 0)
    (window,) = [each for each in of_pool["gates"] if each["gate"] == "MaintenanceWindow"]
    assert (window["stand"], window["permits"]) == ("Closed", True)
    assert window["overriddenUntil"] == "2026-12-01T00:00:00Z"
    (step,) = of_pool["steps"]
    assert (step["node"], step["batch"], step["action"]) == ("w1", 1, "Wait")
    assert [each["trigger"] for each in step["due"]] == ["OSRevision"]
    assert [each["gate"] for each in step["closedGates"]] == ["PodDisruptionBudgets"]
    assert step["pods"]["blockers"] == [{"pod": "shop/a", "reason": "NoneAllowed", "budgets": ["x"]}]
    assert [each["nodes"] for each in of_pool["batches"]] == [["w1"]]


def test_what_others_have_written_is_printable_and_cut() -> None:
    hostile = "\x1b[2J\n" + "x" * 100_000
    labels = {**RED, "topology.kubernetes.io/zone": hostile}
    nodes = [
        a_machine(f"w{number}", annotations={UPGRADE_REQUESTED_ANNOTATION: hostile}, labels=labels)
        for number in range(3)
    ]
    blocks = tuple(Block(hostile, BlockedBy.NONE_ALLOWED, (hostile,)) for _ in range(5))
    cluster = a_cluster(
        upgrade_pool(),
        nodes=nodes,
        workloads={"w1": Workload(blocks=blocks, blocked=9)},
        unread=(hostile,),
        pods_problem=hostile,
    )
    shown = text(cluster)
    assert all(each.isprintable() for each in shown.splitlines())
    assert len(shown) < 40_000
