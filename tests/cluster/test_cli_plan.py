"""``kubectl winpool plan`` and ``why`` on a real API server, mostly without an operator."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import pytest

from cluster.test_cli_status import winpool
from cluster.upgrade_ground import upgrade
from harness.election import ELECTING, delete_lease
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed

Object = dict[str, Any]

AHEAD: Final = 99_999
"""A revision that no node has: all are due."""
UPGRADED: Final[Object] = {"os": {"version": "2022", "targetRevision": AHEAD}, "upgrade": {}}


RESOURCES: Final = (
    "windowsnodepools.winpool.dev",
    "nodes",
    "pods",
    "poddisruptionbudgets.policy",
    "runtimeclasses.node.k8s.io",
)
"""What the pages say that one needs the right to list."""


@contextmanager
def a_user(world: World, *resources: str) -> Iterator[tuple[str, Path]]:
    """Give the name and the kubeconfig of a user who may list only these resources, once it may."""
    role, user = f"plans-{world.suffix}", f"jim-{world.suffix}"
    world.kubectl("create", "clusterrole", role, "--verb=list", f"--resource={','.join(resources)}")
    world.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--user={user}")
    try:
        kubeconfig = world.testbed.user_kubeconfig(user)
        eventually(lambda: winpool(kubeconfig, "status").returncode == 0, what="the rights of the user")
        yield user, kubeconfig
    finally:
        world.kubectl("delete", "clusterrolebinding,clusterrole", role)


def asked(world: World, *arguments: str, stdin: str = "") -> CompletedProcess[str]:
    """Run the plugin as cluster admin."""
    return winpool(world.testbed.kubeconfig("admin"), *arguments, stdin=stdin)


def planned(world: World, *arguments: str, stdin: str = "") -> Object:
    """Return the plan of one pool for a program."""
    done = asked(world, "plan", *arguments, "-o", "json", stdin=stdin)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    (pool,) = json.loads(done.stdout)["pools"]
    return dict(pool)


def squeezed(text: str) -> str:
    return " ".join(text.split())


def labels_of(world: World, node: str) -> Object:
    return dict(world.node(node)["metadata"]["labels"])


def steps(plan: Object) -> Sequence[str]:
    return [each["node"] for each in plan["steps"]]


def closed(plan: Object) -> Sequence[str]:
    return [each["gate"] for each in plan["gates"] if not each["permits"]]


@pytest.mark.nightly
def test_due_nodes_are_planned_and_each_obstacle_closes_its_gate(world: World) -> None:
    first, second, *_ = nodes = world.fleet(windows=4)
    pool = world.apply(world.pool(os=UPGRADED["os"], upgrade={"maxUnavailable": "100%"}))
    plan = planned(world, pool)
    assert sorted(steps(plan)) == nodes
    assert (plan["dueNodes"], plan["permittedNodes"], closed(plan)) == (4, 4, [])
    assert all(each["pods"] is not None for each in plan["steps"])
    done = asked(world, "why", first)
    assert done.returncode == 1, "no operator permits it"
    assert "Whether the operator runs is not known" in squeezed(done.stdout)
    world.kubectl("annotate", "node", second, "winpool.dev/hold=")
    done = asked(world, "why", f"node/{second}")
    assert done.returncode == 3
    assert "✗ Held (this node)" in squeezed(done.stdout)
    assert planned(world, pool)["permittedNodes"] == 3
    world.apply(world.pool(**UPGRADED))
    assert planned(world, pool)["permittedNodes"] == 1
    world.kubectl("cordon", second)
    assert closed(planned(world, pool)) == ["Budget"]
    done = asked(world, "why", first)
    assert (done.returncode, done.stderr) == (3, "")
    assert "✗ Budget (the pool)" in squeezed(done.stdout)


@pytest.mark.xdist_group("lease")
def test_a_yes_needs_an_operator_that_leads_and_says_so(world: World) -> None:
    node, _ = world.fleet(windows=2)
    world.apply(world.pool(os=UPGRADED["os"], upgrade=upgrade(world)))
    operator = world.further_operator(environment=ELECTING)
    try:
        operator.start()
        eventually(lambda: asked(world, "why", node).returncode == 0, what="the permission of the operator")
        operator.kill()
        eventually(
            lambda: "No operator leads: " in squeezed(asked(world, "why", node).stdout),
            what="why notices that no one renews the Lease",
        )
        assert asked(world, "why", node).returncode == 1
        assert "No operator leads: " in asked(world, "status").stderr
        assert labels_of(world, node)["winpool.dev/upgrade-state"] == "Required"
    finally:
        operator.close()
        delete_lease(world)


@pytest.mark.nightly
def test_the_plan_is_the_same_byte_for_byte_and_only_reads(world: World) -> None:
    world.fleet(windows=3)
    pool = world.apply(world.pool(**UPGRADED))
    with a_user(world, *RESOURCES) as (user, kubeconfig):
        texts = {winpool(kubeconfig, "plan", pool, "-o", "json").stdout for _ in range(2)}
    assert len(texts) == 1
    assert json.loads(texts.pop())["pools"][0]["dueNodes"] == 3
    world.testbed.settle_audit()
    verbs = {each.verb for each in world.testbed.audit.requests(user=user)}
    assert verbs == {"get", "list"}


@pytest.mark.nightly
def test_a_manifest_is_planned_before_it_is_applied(world: World) -> None:
    nodes = world.fleet(windows=2)
    manifest = world.pool(**UPGRADED)
    assert sorted(steps(planned(world, "-f", "-", stdin=json.dumps(manifest)))) == nodes
    assert world.pools() == {}
    pool = world.apply(world.pool())
    assert "the pool has no spec.upgrade" in squeezed(asked(world, "plan", pool).stdout)
    assert sorted(steps(planned(world, "-f", "-", stdin=json.dumps(manifest)))) == nodes
    assert "upgrade" not in world.get("wnp", pool)["spec"]
    text = json.dumps(world.get("wnp", pool))
    assert planned(world, "-f", "-", stdin=text)["nodes"] == 2, "what kubectl get prints can be piped in"


@pytest.mark.nightly
def test_a_node_of_no_pool_says_why(world: World) -> None:
    names = world.fleet(windows=1, linux=1)
    (linux,) = [name for name in names if labels_of(world, name)["kubernetes.io/os"] == "linux"]
    (windows,) = [name for name in names if name != linux]
    done = asked(world, "why", linux)
    assert done.returncode == 1
    assert "kubernetes.io/os of the node is not windows" in squeezed(done.stdout)
    done = asked(world, "why", windows)
    assert done.returncode == 1
    assert "Pool: none." in squeezed(done.stdout)
    done = asked(world, "why", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'there is no node "nobody"' in done.stderr


def test_a_pool_that_there_is_not_is_a_sentence(testbed: Testbed) -> None:
    done = winpool(testbed.kubeconfig("admin"), "plan", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'there is no WindowsNodePool "nobody"' in done.stderr


@pytest.mark.nightly
def test_who_may_not_list_pods_sees_the_rest(world: World) -> None:
    (node,) = world.fleet(windows=1)
    pool = world.apply(world.pool(**UPGRADED))
    with a_user(world, *RESOURCES[:2]) as (user, kubeconfig):
        done = winpool(kubeconfig, "plan", pool)
        assert done.returncode == 0
        assert f'User "{user}" cannot list resource "pods"' in squeezed(done.stdout)
        assert "Pods: not known" in done.stdout
        done = winpool(kubeconfig, "why", node)
        assert done.returncode == 3, "unknown budgets permit nothing"
        assert f'User "{user}" cannot list resource "pods"' in squeezed(done.stdout)


@pytest.mark.parametrize("verb", ["plan", "why"])
def test_who_may_not_list_pools_is_told_the_right_that_is_missing(testbed: Testbed, verb: str) -> None:
    done = winpool(testbed.user_kubeconfig("jane"), verb, "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert 'User "jane" cannot list resource "windowsnodepools" in API group "winpool.dev"' in line


@pytest.mark.parametrize("verb", ["plan", "why"])
def test_a_cluster_without_the_crd_is_told_by_name_with_what_installs_it(hasty: Testbed, verb: str) -> None:
    done = winpool(hasty.kubeconfig("admin"), verb, "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "install winpool with kubectl apply -f install.yaml" in done.stderr
