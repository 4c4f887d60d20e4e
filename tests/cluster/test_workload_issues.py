"""Workloads that select no OS, and containers without a memory limit, as the list of all pods shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from cluster.pods import OFTEN
from cluster.told import expect, issues, words
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World

Object = dict[str, Any]

LIMITED: Object = {"limits": {"memory": "64Mi"}}


@pytest.fixture
def namespace(world: World) -> Iterator[str]:
    """Return a namespace of the test: of ``default`` the operators under test say nothing."""
    name = f"workloads-{world.suffix}"
    world.kubectl("create", "namespace", name)
    world.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s")
    yield name
    world.kubectl("delete", "deployments,pods", "--all", "-n", name, "--now", "--timeout=60s")
    world.kubectl("delete", "namespace", name, "--wait=false")


def a_deployment(namespace: str, *, replicas: int) -> Object:
    labels = {"app": "nginx"}
    container = {"name": "nginx", "image": "nginx:1.29", "resources": LIMITED}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_a_plain_deployment_is_named_until_it_selects_an_os_and_its_pods_cost_no_write(
    world: World, namespace: str
) -> None:
    names = world.fleet(windows=3, linux=1)
    pool = world.apply(world.pool())
    world.operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"), log_file=world.operator.log_file, environment=OFTEN
    )
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)

    def counted(metric: str) -> float | None:
        return world.operator.metric(f"winpool_{metric}", pool=pool)

    def is_counted(pods: int) -> bool:
        assert counted("unselected_pods") == pods
        return True

    eventually(lambda: is_counted(0), what="a list of pods without any")
    start = world.now()
    world.kubectl("apply", "-f", "-", stdin=json.dumps(a_deployment(namespace, replicas=6)))
    eventually(lambda: is_counted(6), what="six pods that a Windows node may take")
    # A metric is of the pass that decides; the status is there when the API server has answered it.
    [issue] = eventually(lambda: issues(world.status(pool), "UnselectedWorkloads"), what="the issue")
    assert issue["message"].endswith(f"Those with the most pods: Deployment {namespace}/nginx.")
    assert (issue["nodeCount"], issue["nodes"]) == (0, [])
    assert issues(world.status(pool), "MemoryLimitsMissing") == []
    expect(world, pool, Ready=("True", "UpToDate"))
    for replicas in (9, 2, 6):
        world.kubectl("scale", "deployment", "nginx", "-n", namespace, f"--replicas={replicas}")
        eventually(partial(is_counted, replicas), what=f"{replicas} pods")
    asked = world.requests(since=start)
    assert len([each for each in asked if each.writes and each.resource == "windowsnodepools"]) == 1
    assert {each.resource for each in asked if each.verb == "list"} <= {"pods", "nodes", "windowsnodepools"}
    assert "UnselectedWorkloads" not in world.reasons(kind="WindowsNodePool", name=pool)

    selector = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}}
    world.kubectl("patch", "deployment", "nginx", "-n", namespace, "-p", json.dumps(selector))
    eventually(lambda: not issues(world.status(pool), "UnselectedWorkloads"), what="the issue gone")
    assert counted("unselected_pods") == 0

    of_windows = (
        "get",
        "nodes",
        "-l",
        "kubernetes.io/os=windows",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    )
    windows = next(name for name in world.kubectl(*of_windows).split() if name in names)
    spec = {
        "os": {"name": "windows"},
        "nodeName": windows,
        "containers": [{"name": "c", "image": "registry.example.com/team/app:1.2"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "greedy", "namespace": namespace},
        "spec": spec,
    }
    world.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    eventually(lambda: counted("unlimited_containers") == 1, what="a container without a limit")
    told = words(eventually(lambda: issues(world.status(pool), "MemoryLimitsMissing"), what="the issue"))
    assert f"The workloads with the most of them: Pod {namespace}/greedy." in told
    assert counted("memory_limit_excess_bytes") == 0
    world.kubectl("delete", "pod", "greedy", "-n", namespace, "--now", "--timeout=50s")
    eventually(lambda: not issues(world.status(pool), "MemoryLimitsMissing"), what="that issue gone")
