"""``kubectl winpool uninstall --plan``: who does what it prints has nothing of winpool left on any node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness.documents import ROOT
from harness.nodes import carried, is_settled, labels_of
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    OS_VERSION_LABEL,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    POOL_LABEL,
)

Object = dict[str, Any]

PLAN: Final = ("kubectl", "winpool", "uninstall", "--plan")
ABOUT_THE_OPERATOR: Final = {"OperatorUnknown", "OperatorDown", "OperatorElsewhere"}
"""Warnings of a cluster whose operator runs beside it, with or without a Deployment that nothing runs."""
TEAM: Final = "example.com/team"
SPEC: Final[Object] = {
    "labels": {TEAM: "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}


def run(command: str, kubeconfig: Path, *, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run what a reader types at the root of a checkout, with the plugin on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-ec", command],
        cwd=ROOT,
        env={**os.environ, **variables, "PATH": path, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


class Reader:
    """Somebody who uninstalls winpool from a cluster."""

    def __init__(self, testbed: Testbed, kubeconfig: Path | None = None) -> None:
        self._testbed = testbed
        self._kubeconfig = kubeconfig or testbed.kubeconfig("admin")

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        return run(command, self._kubeconfig, variables=dict(self._testbed.environment))

    def plan(self) -> tuple[int, Object]:
        """Return the exit code, and the plan as a program gets it."""
        done = self.type(f"{' '.join(PLAN)} -o json")
        assert done.stderr == "", done.stderr
        return done.returncode, json.loads(done.stdout)

    def follow(self, plan: Object) -> Iterator[Object]:
        """Do each step; yield it when its commands have run. Each of them has to work."""
        for step in plan["steps"]:
            for command in step["commands"]:
                done = self.type(command)
                assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
            yield step

    def about(self, plan: Object, reason: str) -> Object:
        """Return the one warning of that reason."""
        [found] = [each for each in plan["warnings"] if each["reason"] == reason]
        return dict(found)


def reasons(plan: Object) -> set[str]:
    return {each["reason"] for each in plan["warnings"]}


def groups_of(world: World, plan: Object) -> list[tuple[str, str, list[str]]]:
    """Return the groups of nodes that have nodes of this test; others may use the cluster too."""
    mine = world.nodes()
    return [
        (each["place"], each["pool"], each["nodes"])
        for each in plan["nodeGroups"]
        if any(name in mine for name in each["nodes"])
    ]


def nodes_of(testbed: Testbed) -> list[Object]:
    items: list[Object] = json.loads(testbed.kubectl("get", "nodes", "-o", "json").stdout)["items"]
    return items


def ours_on(node: Object) -> set[str]:
    """Return what of the table of our keys is on the node, by a way that is not the plan's."""
    taints = {(each["key"], each["effect"]) for each in node["spec"].get("taints", [])}
    return {
        *({*OWN_LABELS} & {*labels_of(node)}),
        *({*OWN_ANNOTATIONS} & {*node["metadata"].get("annotations", {})}),
        *(key for key, effect in OWN_TAINTS if (key, effect) in taints),
    }


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[tuple[Testbed, Operator]]:
    """A cluster of its own, with a variant: the test removes the installation."""
    with Testbed.up(
        directory=tmp_path / "testbed",
        apply=[ROOT / "deploy" / "overlays" / "memory"],
        windows=3,
        linux=1,
    ) as testbed:
        testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22")
        operator = Operator(kubeconfig=testbed.kubeconfig("winpool"), log_file=tmp_path / "operator.log")
        eventually(lambda: all(map(is_settled, nodes_of(testbed))), what="nodes at rest")
        try:
            yield testbed, operator
        finally:
            operator.close()


@pytest.mark.nightly
def test_who_does_what_the_plan_prints_has_nothing_of_winpool_left(
    installed: tuple[Testbed, Operator],
) -> None:
    testbed, operator = installed
    before = {node["metadata"]["name"]: carried(node) for node in nodes_of(testbed)}
    [linux] = [name for name, found in before.items() if found["labels"]["kubernetes.io/os"] == "linux"]
    operator.start()
    testbed.kubectl("apply", "-f", str(ROOT / "deploy" / "samples" / "win-2022.yaml"))
    testbed.kubectl("wait", "--for=condition=NodesUpToDate", "--timeout=60s", "wnp/win-2022")
    testbed.kubectl("label", "node", linux, f"{OS_VERSION_LABEL}=2022")  # which no operator ever removes
    reader = Reader(testbed)
    code, plan = reader.plan()
    assert (code, plan["ready"]) == (3, False)
    [pool] = plan["pools"]
    assert (pool["name"], pool["finalizer"], len(pool["nodes"])) == ("win-2022", True, 3)
    groups = [(each["place"], each["pool"], each["count"]) for each in plan["nodeGroups"]]
    assert groups == [("Owned", "win-2022", 3), ("NoOwner", "", 1)]
    assert plan["guard"] == {"found": True, "problem": ""}
    assert plan["fence"] == {"found": True, "missing": []}
    assert plan["crd"] is True
    assert reasons(plan) - ABOUT_THE_OPERATOR == {"TaintsGo"}
    kinds = []
    for step in reader.follow(plan):
        kinds.append(step["kind"])
        match step["kind"]:
            case "Check":
                assert {node["metadata"]["name"]: carried(node) for node in nodes_of(testbed)} == before
            case "StopOperator":
                operator.stop()  # which runs outside the cluster
    assert kinds == ["DeletePools", "CleanNodes", "Check", "StopOperator", "RemoveOperator", "RemoveCRD"]
    assert [node["metadata"]["name"] for node in nodes_of(testbed) if ours_on(node)] == []
    code, plan = reader.plan()
    assert (code, plan["ready"], plan["pools"], plan["nodeGroups"]) == (0, True, [], [])
    assert (plan["guard"]["found"], plan["fence"]["found"], plan["crd"]) == (False, False, False)
    assert plan["roles"] == []
    assert (plan["steps"], plan["warnings"]) == ([], [])
    text = " ".join(reader.type(" ".join(PLAN)).stdout.split())  # lines break where the terminal ends
    assert "Nothing of winpool is in this cluster." in text


@pytest.mark.nightly
def test_what_the_plan_says_stays_of_a_paused_pool_stays_and_all_else_is_released(world: World) -> None:
    changed, *_ = world.fleet(windows=2)
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.apply(world.pool(**SPEC, mode="Paused"))
    eventually(lambda: world.condition(pool, "Paused").get("status") == "True", what="a pool that is paused")
    world.kubectl("label", "node", changed, f"{TEAM}=billing", "--overwrite")
    reader = Reader(world.testbed)
    _, plan = reader.plan()
    assert {"PoolPaused", "KeysChanged"} <= reasons(plan)
    assert reader.about(plan, "KeysChanged")["nodes"] == [changed]
    [delete] = [step for step in plan["steps"] if step["kind"] == "DeletePools"]
    for command in delete["commands"]:
        done = reader.type(command)
        assert done.returncode == 0, done.stderr
    before[changed]["labels"][TEAM] = "billing"
    assert world.carried() == before
    _, plan = reader.plan()
    assert groups_of(world, plan) == []


@pytest.mark.nightly
def test_keys_that_a_damaged_record_lost_stay_and_the_plans_command_removes_them(world: World) -> None:
    damaged, *_ = world.fleet(windows=2)
    before = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.stop()
    world.kubectl("annotate", "node", damaged, f"{APPLIED_ANNOTATION}=damaged", "--overwrite")
    reader = Reader(world.testbed)
    _, plan = reader.plan()
    assert {"RecordUnreadable", "KeysStay"} <= reasons(plan)
    stays = reader.about(plan, "KeysStay")
    assert stays["nodes"] == [damaged]
    world.operator.start()
    world.delete(pool)
    kept = world.carried()
    assert kept.pop(damaged) != before[damaged]
    assert kept == {name: found for name, found in before.items() if name != damaged}
    done = reader.type(stays["message"].rpartition("If no one needs it: ")[2])
    assert done.returncode == 0, done.stderr
    assert world.carried() == before


def test_nodes_of_a_pool_that_was_deleted_by_force_are_named_and_prevent_that_it_is_ready(
    world: World,
) -> None:
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.stop()
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    world.kubectl("delete", "wnp", pool)
    reader = Reader(world.testbed)
    code, plan = reader.plan()
    assert (code, plan["ready"]) == (3, False)
    assert pool not in [each["name"] for each in plan["pools"]]
    assert reader.about(plan, "PoolGone")["nodes"] == names
    assert groups_of(world, plan) == [("PoolGone", pool, names)]
    assert POOL_LABEL in labels_of(world.node(names[0]))


@pytest.mark.nightly
def test_a_missing_right_is_a_sentence(world: World) -> None:
    pool = world.apply(world.pool(**SPEC))
    role, user = f"plan-{world.suffix}", f"joan-{world.suffix}"
    reader = Reader(world.testbed, world.testbed.user_kubeconfig(user))
    done = reader.type(" ".join(PLAN))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f'User "{user}" cannot list resource "windowsnodepools"' in line
    assert f'User "{user}" cannot list resource "nodes"' in line
    resources = "--resource=windowsnodepools.winpool.dev,nodes"
    world.kubectl("create", "clusterrole", role, "--verb=list", resources)
    world.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--user={user}")
    try:
        eventually(lambda: reader.type(" ".join(PLAN)).returncode == 3, what="the rights in force", every=1)
        _, plan = reader.plan()
        assert pool in [each["name"] for each in plan["pools"]]
        assert [plan[part] for part in ("deployments", "leases", "guard", "fence", "roles", "crd")] == [
            None
        ] * 6
        unread = [each["message"] for each in plan["warnings"] if each["reason"] == "Unread"]
        assert len(unread) == 7
        assert all(f'User "{user}" cannot list' in message for message in unread)
    finally:
        world.kubectl("delete", "clusterrolebinding,clusterrole", role)
