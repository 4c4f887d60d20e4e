"""``kubectl winpool diagnose`` on a real API server: a node without network, and a person with few rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cluster.test_cli_status import winpool
from harness.diagnosed import NETWORK
from harness.waiting import eventually
from harness.world import World
from testbed.winsim.control import FleetControl

Object = dict[str, Any]

CHOWN: Final = "chown c:\\var\\lib\\kubelet\\pods\\1\\token: not supported by windows"


def diagnosed(kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit code and what is printed, as one line."""
    done = winpool(kubeconfig, "diagnose", *arguments)
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join(f"{done.stdout} {done.stderr}".split())


def test_a_node_without_a_network_is_named_with_the_words_of_its_kubelet(world: World) -> None:
    socket = world.directory / "fleet.sock"
    sick, healthy = world.fleet(windows=2, extra=(f"--control-socket={socket}",))
    FleetControl(socket).set_ready([sick], ready=False, message=NETWORK)
    admin = world.testbed.kubeconfig("admin")
    code, said = eventually(
        lambda: found if (found := diagnosed(admin, sick))[0] == 3 else None, what="the node is not Ready"
    ) or (0, "")
    assert "N1 Error: The node is not Ready, because its CNI is not." in said
    assert f"Nodes: {sick} Seen: condition Ready: " in said
    assert "reason:NetworkPluginNotReady" in said
    assert "Not judged: /configz (N15)" in said
    code, said = diagnosed(admin, healthy)
    assert (code, "no finding" in said) == (0, True), said
    pool = world.apply(world.pool())
    code, said = diagnosed(admin, f"wnp/{pool}")
    assert (code, "Diagnosed 2 Windows nodes: 1 finding." in said) == (3, True), said


@contextmanager
def a_viewer(world: World, namespace: str) -> Iterator[Path]:
    """Give the kubeconfig of a user who has the role view in one namespace, and nothing else."""
    user = f"jill-{world.suffix}"
    world.kubectl("create", "namespace", namespace)
    try:
        world.kubectl("create", "rolebinding", user, "-n", namespace, "--clusterrole=view", f"--user={user}")
        kubeconfig = world.testbed.user_kubeconfig(user)
        eventually(
            lambda: "the namespace" in diagnosed(kubeconfig, "-A", "-n", namespace)[1],
            what="the rights of the user",
        )
        yield kubeconfig
    finally:
        world.kubectl("delete", "namespace", namespace)


def test_a_viewer_of_a_namespace_gets_its_stuck_pods_and_the_missing_rights(world: World) -> None:
    namespace = f"shop-{world.suffix}"
    with a_viewer(world, namespace) as kubeconfig:
        [node] = world.fleet(windows=1)
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "nodeName": f"gone-{world.suffix}",  # no kubelet answers for it
                "containers": [{"name": "main", "image": "nginx"}],
            },
        }
        about = {"kind": "Pod", "namespace": namespace, "name": "web"}
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "web.1", "namespace": namespace},
            "involvedObject": about,
            "type": "Warning",
            "reason": "FailedMount",
            "message": CHOWN,
        }
        content = {"kind": "List", "apiVersion": "v1", "items": [pod, event]}
        world.kubectl("apply", "-f", "-", stdin=json.dumps(content))
        user = f"jill-{world.suffix}"
        for arguments in (["-A", "-n", namespace], ["-n", namespace]):
            code, said = diagnosed(kubeconfig, *arguments)
            assert code == 3, said
            assert "N5 Error" in said
            assert f"Pods: {namespace}/web" in said
            assert "not supported by windows" in said
            assert "Not judged: nodes" in said
            assert f"{user} may not list them: add that to a ClusterRole that is bound to {user}" in said
        code, said = diagnosed(kubeconfig, node, "-n", namespace)
        assert (code, "Not judged: nodes" in said) == (1, True), said
