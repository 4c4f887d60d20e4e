"""``kubectl winpool audit`` on a real API server: what of its workloads does not run on Windows."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.test_cli_status import winpool
from harness.waiting import eventually
from harness.windows_pods import WINDOWS, a_pod, in_a_deployment
from harness.world import World
from testbed.api import ApiError

Object = dict[str, Any]

NAMESPACED: Final = (
    *(
        "deployments.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "replicasets.apps",
        "replicationcontrollers",
    ),
    *("jobs.batch", "cronjobs.batch", "limitranges"),
)
"""What the pages say that one needs the right to list, but pods."""


class Shops:
    """Two namespaces with a plain nginx. In the first a workload names a RuntimeClass that does not exist."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.first, self.second = f"shop-{world.suffix}", f"bank-{world.suffix}"

    def apply(self, *contents: Object) -> None:
        content = {"kind": "List", "apiVersion": "v1", "items": contents}
        self.world.kubectl("apply", "-f", "-", stdin=json.dumps(content))

    def audit(self, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, list[str], str]:
        """Return the exit code, the findings and the last line."""
        done = winpool(kubeconfig or self.world.testbed.kubeconfig("admin"), "audit", *arguments)
        return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()[-1]


def placed(content: Object, namespace: str, name: str) -> Object:
    return {**content, "metadata": {**content["metadata"], "namespace": namespace, "name": name}}


def plain() -> Object:
    return in_a_deployment(a_pod({"nodeSelector": {}}, {"image": "nginx"}, os_name=None))


@pytest.fixture
def shops(world: World) -> Iterator[Shops]:
    found = Shops(world)
    for name in (found.first, found.second):
        world.kubectl("create", "namespace", name)
    gone = in_a_deployment(a_pod({"runtimeClassName": f"gone-{world.suffix}"}))
    found.apply(
        *(placed(plain(), namespace, "web") for namespace in (found.first, found.second)),
        placed(gone, found.first, "gone"),
    )
    yield found
    world.kubectl("delete", "namespace", found.first, found.second)


def named(lines: list[str], *namespaces: str) -> set[tuple[str, str]]:
    """Return object and code of each finding in these namespaces."""
    words = [line.split(" ") for line in lines]
    return {(each[0].rstrip(":"), each[1]) for each in words if each[0].partition("/")[0] in namespaces}


def test_the_workloads_of_a_namespace_of_all_and_those_that_are_named(world: World, shops: Shops) -> None:
    nodes = world.fleet(windows=2, linux=1)
    windows = sorted(
        each for each in nodes if world.node(each)["metadata"]["labels"]["kubernetes.io/os"] == "windows"
    )
    first, second = shops.first, shops.second
    code, lines, last = shops.audit("-n", first)
    assert code == 3
    assert named(lines, first) == {(f"{first}/Deployment/web", "P1"), (f"{first}/Deployment/gone", "P8")}
    assert len(lines) == 2, "the ReplicaSets and pods of the Deployments are not judged again"
    [web] = [line for line in lines if " P1 " in line]
    assert web.startswith(f"{first}/Deployment/web: P1 Warning spec.template.spec.nodeSelector: Nothing says")
    assert f"Windows nodes that take them: {', '.join(windows)}." in web
    assert last == "Not judged: drivers of PersistentVolumes."

    code, lines, _ = shops.audit("-A")
    assert code == 3
    assert named(lines, first, second) == {
        (f"{first}/Deployment/web", "P1"),
        (f"{first}/Deployment/gone", "P8"),
        (f"{second}/Deployment/web", "P1"),
    }
    code, lines, last = shops.audit("-n", first, "deploy/web")
    assert (code, named(lines, first)) == (0, {(f"{first}/Deployment/web", "P1")})
    assert last == "Not judged: nothing."
    code, lines, last = shops.audit("-n", first, "deploy/web", "sts/none")
    assert (code, len(lines)) == (1, 1)
    assert (
        'statefulsets/none, which cannot be read: Error from server (NotFound): statefulsets.apps "none"'
        in last
    )


def test_taints_keep_pods_away_and_a_pod_without_controller_is_judged_where_it_runs(
    world: World, shops: Shops
) -> None:
    world.fleet(windows=1, linux=1, taints=["os=windows:NoSchedule"])
    alone = a_pod({"tolerations": []}, os_name="windows")
    shops.apply(placed(alone, shops.second, "alone"))
    code, lines, _ = shops.audit("-n", shops.second)
    assert (code, named(lines, shops.second)) == (3, {(f"{shops.second}/Pod/alone", "P4")})
    assert "os=windows:NoSchedule" in lines[0]


def test_the_nodes_of_a_pool_are_the_hosts(world: World, shops: Shops) -> None:
    world.fleet(samples=["2022", "2025"])
    pool = world.apply(world.pool())
    content = in_a_deployment(a_pod(container={"image": "acme/app:ltsc2025"}))
    shops.apply(placed(content, shops.second, "new"))
    code, lines, _ = shops.audit("-n", shops.second, "deploy/new", "--pool", pool)
    assert (code, named(lines, shops.second)) == (0, {(f"{shops.second}/Deployment/new", "P7")})


@contextmanager
def a_user(shops: Shops) -> Iterator[Path]:
    """Give the kubeconfig of a user who may list nodes, and all but pods in one namespace."""
    world = shops.world
    user = f"jim-{world.suffix}"
    kubectl = world.kubectl
    kubectl(
        "create",
        "clusterrole",
        user,
        "--verb=list,get",
        "--resource=nodes,runtimeclasses.node.k8s.io,namespaces",
    )
    kubectl("create", "clusterrolebinding", user, f"--clusterrole={user}", f"--user={user}")
    kubectl("create", "role", user, "-n", shops.second, "--verb=list", f"--resource={','.join(NAMESPACED)}")
    kubectl("create", "rolebinding", user, "-n", shops.second, f"--role={user}", f"--user={user}")
    try:
        kubeconfig = world.testbed.user_kubeconfig(user)
        # The API server learns of a Role and of a ClusterRole each at its own time.
        eventually(
            lambda: shops.audit("-n", shops.second, kubeconfig=kubeconfig)[2].startswith(
                "Not judged: pods, which cannot be read: "
            ),
            what="the rights of the user",
        )
        yield kubeconfig
    finally:
        kubectl("delete", "clusterrolebinding,clusterrole", user)


def test_without_the_right_to_list_pods_the_rest_is_audited(world: World, shops: Shops) -> None:
    world.fleet(windows=1)
    with a_user(shops) as kubeconfig:
        code, lines, last = shops.audit("-n", shops.second, kubeconfig=kubeconfig)
        assert (code, named(lines, shops.second)) == (1, {(f"{shops.second}/Deployment/web", "P1")})
        assert last == (
            f"Not judged: pods, which cannot be read: jim-{world.suffix} may not list them: add that to a "
            f"Role in {shops.second} that is bound to jim-{world.suffix}."
        )
        code, lines, last = shops.audit("-A", kubeconfig=kubeconfig)
        assert (code, lines) == (1, [])
        assert "deployments, statefulsets, daemonsets, cronjobs, jobs, replicasets, " in last
        assert "or read one namespace with -n" in last


def test_the_api_server_refuses_what_rules_about_the_cluster_say_that_it_refuses(
    world: World, shops: Shops
) -> None:
    """P8, P13 and W10: a dry run of each pod, and of one near it."""
    name, api = f"win-{world.suffix}", world.testbed.api()
    label = "node.kubernetes.io/windows-build"
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    api.create(
        classes,
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": name},
            "handler": "runhcs-wcow-process",
            "scheduling": {"nodeSelector": {label: "10.0.20348"}},
        },
    )
    world.kubectl("label", "namespace", shops.second, "pod-security.kubernetes.io/enforce=baseline")
    options = {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}
    host_process = a_pod({"hostNetwork": True, "securityContext": options})

    def refusal(pod: Object, namespace: str) -> str:
        try:
            path = f"/api/v1/namespaces/{namespace}/pods"
            api.create(path, placed(pod, namespace, "p"), fieldValidation="Strict", dryRun="All")
        except ApiError as error:
            return str(error.answer["message"])
        return ""

    def of_class(build: str) -> Object:
        return a_pod({"runtimeClassName": name, "nodeSelector": {**WINDOWS, label: build}})

    try:
        gone = a_pod({"runtimeClassName": f"gone-{world.suffix}"})
        assert "RuntimeClass" in refusal(gone, shops.first)
        eventually(
            lambda: refusal(of_class("10.0.20348"), shops.first) == "", what="the RuntimeClass is known"
        )
        assert "conflict" in refusal(of_class("10.0.17763"), shops.first)
        eventually(lambda: "baseline" in refusal(host_process, shops.second), what="the level is enforced")
        assert refusal(host_process, shops.first) == ""
    finally:
        api.delete(f"{classes}/{name}")


PODS: Final = 5000
CPU_SECONDS: Final = 5.0
"""Of the plugin and of every kubectl that it runs."""


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.timeout(900)  # a guard: it creates the pods one by one
def test_thousands_of_pods_cost_seconds(world: World, shops: Shops) -> None:
    """Nine of ten are of controllers that Kubernetes does not know, so that all are read in full."""
    world.fleet(windows=12)
    api = world.testbed.api()
    owners = [
        api.create(
            f"/api/v1/namespaces/{shops.first}/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"owner-{number}"}},
        )
        for number in range(50)
    ]

    def create(number: int) -> None:
        pod = placed(
            a_pod({"schedulerName": "none", "nodeSelector": {}}, os_name=None), shops.first, f"p{number}"
        )
        pod["spec"]["containers"][0]["env"] = [{"name": f"NAME_{n}", "value": "x" * 80} for n in range(60)]
        if number % 10:
            owner = owners[number % len(owners)]["metadata"]
            pod["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner["name"],
                    "uid": owner["uid"],
                    "controller": True,
                }
            ]
        api.create(f"/api/v1/namespaces/{shops.first}/pods", pod)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(create, range(PODS)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, lines, _ = shops.audit("-A")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    judged = named(lines, shops.first)
    assert len([name for name, _ in judged if "/Pod/" in name]) == PODS // 10
    assert {name for name, _ in judged if "/ConfigMap/" in name} == {
        f"{shops.first}/ConfigMap/owner-{number}" for number in range(50) if number % 10
    }
    assert spent < CPU_SECONDS
