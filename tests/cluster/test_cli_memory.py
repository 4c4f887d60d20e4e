"""``kubectl winpool memory`` on a real API server: who leads, and with which rights and token a person reads.

Simulated kubelets forward no ports, so a program of the test is in the place of kubectl port-forward. They
listen on loopback addresses, which the API server refuses to proxy to, once it has permitted it: then
``proxied_kubelet.py``, in the place of kubectl proxy, asks the kubelet itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from cluster import proxied_kubelet
from cluster.door import a_transport
from cluster.memory_pods import Pods, steady
from cluster.memory_world import SEEING
from harness.election import delete_lease
from harness.served import serving
from harness.waiting import eventually
from harness.watched_memory import HEALTHY, Known, healthy
from harness.world import World
from winpool.cli.kubelet import FORBIDDEN
from winpool.kube.tokens import Reviews
from winpool.model.memory_report import SeenNode
from winpool.serve.access import Access
from winpool.serve.http import Memory

SPACE = "winpool-system"
ROLE = "winpool-memory-user"
"""Of deploy/operator, with what a person needs."""
POD = "winpool-7d9cbb6f4-abcde"

pytestmark = pytest.mark.xdist_group("lease")


@pytest.fixture(autouse=True)
def led(world: World) -> Iterator[None]:
    """A Lease that an operator in a Pod holds."""
    delete_lease(world)
    manifest = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "winpool", "namespace": SPACE},
        "spec": {"holderIdentity": f"{POD}_1a2b3c4d", "leaseDurationSeconds": 15},
    }
    world.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    yield
    delete_lease(world)


class Person:
    """A user with a client certificate, and a kubectl that forwards to ``port``."""

    def __init__(self, world: World, *, port: int) -> None:
        self.name = f"person-{world.suffix}"
        self._world = world
        self._kubeconfig = world.testbed.user_kubeconfig(self.name)
        self._bin = world.directory / "bin"
        self._bin.mkdir()
        kubectl = self._bin / "kubectl"
        listens = f"echo 'Forwarding from 127.0.0.1:{port} -> 8080'"
        forwards = f"*port-forward*) echo $* >> {self.calls}; {listens}; exec sleep 600;;"
        real = f'{world.testbed.kubectl_path} "$@"'
        serves = f"{sys.executable} {proxied_kubelet.__file__} {self.kubelet}"
        proxied = f"*--unix-socket=*) exec {serves} {real};;"
        kubectl.write_text(f'#!/bin/sh\ncase "$*" in\n{forwards}\n{proxied}\n*) exec {real};;\nesac\n')
        kubectl.chmod(0o755)

    @property
    def calls(self) -> Path:
        return self._bin / "calls"

    @property
    def kubelet(self) -> Path:
        """The script that asks the kubelet."""
        return self._bin / "kubelet"

    def bind(self) -> None:
        """Give the rights, and wait until the API server knows them."""
        bound = (f"--role={ROLE}", f"--user={self.name}", "-n", SPACE)
        self._world.kubectl("create", "rolebinding", self.name, *bound)
        token = ("create", "serviceaccounts/winpool-memory-reader", "--subresource=token", "-n", SPACE)
        asked = ("auth", "can-i", *token, "--as", self.name)
        eventually(
            lambda: self._world.kubectl(*asked, check=False).startswith("yes"), what="the rights are known"
        )

    def unbind(self) -> None:
        self._world.kubectl("delete", "rolebinding", self.name, "-n", SPACE, "--ignore-not-found")

    async def winpool(self, *arguments: str) -> tuple[int, str, str]:
        """Run the plugin to its end."""
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "winpool.cli", *arguments, "--kubeconfig", str(self._kubeconfig)),
            env={**os.environ, "PATH": f"{self._bin}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await running.communicate()
        return running.returncode or 0, out.decode(), err.decode()


@pytest.mark.nightly
async def test_a_person_with_a_certificate_reads_with_the_role_and_without_sending_it(world: World) -> None:
    async with a_transport(world.testbed.kubeconfig("admin")) as transport:
        reviews = Reviews(transport, path="/memory", monotonic=time.monotonic)
        access = Access(
            reviews.review, path="/memory", role="winpool-memory-reader", monotonic=time.monotonic
        )
        memory = Memory(healthy(3), standby=lambda: "", access=access, monotonic=time.monotonic)
        async with serving(memory=memory) as served:
            person = await asyncio.to_thread(Person, world, port=served.port)
            try:
                code, out, err = await person.winpool("memory")
                assert (code, out) == (1, "")
                assert '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get"]}' in err

                await asyncio.to_thread(person.bind)
                code, out, err = await person.winpool("memory", "win-2022")
                assert (code, err) == (0, "")
                assert [line.split()[0] for line in out.splitlines()] == [
                    *("NODE", "akswin000000", "akswin000001", "akswin000002")
                ]
                (call,) = person.calls.read_text().splitlines()
                assert f"pod/{POD} :metrics" in call

                code, out, _ = await person.winpool("memory", "node/akswin000001", "-o", "json")
                assert (code, [each["node"] for each in json.loads(out)["nodes"]]) == (0, ["akswin000001"])
                code, out, err = await person.winpool("memory", "other")
                assert (code, out) == (1, "")
                assert 'no watched node or pool is named "other"' in err
            finally:
                await asyncio.to_thread(person.unbind)
    assert set(access.results) == {"Permitted"}


async def test_the_token_that_the_plugin_gets_does_not_read_the_metrics(world: World) -> None:
    token = await asyncio.to_thread(
        world.kubectl, "create", "token", "winpool-memory-reader", "-n", SPACE, "--duration=10m"
    )
    async with a_transport(world.testbed.kubeconfig("admin")) as transport:
        found = {
            path: await Reviews(transport, path=path, monotonic=time.monotonic).review(
                token.strip(), address="", known=False
            )
            for path in ("/memory", "/metrics")
        }
    assert found == {"/memory": "Permitted", "/metrics": "Forbidden"}


PODS: Final = ("nodes/proxy", "pods", "poddisruptionbudgets.policy", "windowsnodepools.winpool.dev")
"""What a person may read who sees the pods of a node."""


@contextmanager
def permitted(world: World, person: Person) -> Iterator[None]:
    """Let the person read pods and what their kubelets say, as a cluster admin may."""
    made = ("clusterrole", "clusterrolebinding")
    world.kubectl("create", made[0], person.name, "--verb=get,list", f"--resource={','.join(PODS)}")
    world.kubectl("create", made[1], person.name, f"--clusterrole={person.name}", f"--user={person.name}")
    asked = ("auth", "can-i", "get", "nodes", "--subresource=proxy", "--as", person.name)
    try:
        eventually(lambda: world.kubectl(*asked, check=False).startswith("yes"), what="the rights are known")
        yield
    finally:
        for kind in made:
            world.kubectl("delete", kind, person.name)


@contextmanager
def pods_on(world: World, person: Person, node: str) -> Iterator[None]:
    """Run two pods on a node, whose kubelet answers the person in the place of the API server."""
    kubelet, pods = f"kubelet-{world.suffix}", Pods(world.testbed, scene=world.suffix)
    pods.run("web", node, steady("2Gi"), request="1Gi", tolerant=True)
    pods.bind("naked", node, steady("3Gi"))
    status = world.get("node", node)["status"]
    (address,) = (each["address"] for each in status["addresses"] if each["type"] == "InternalIP")
    port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    account = f"--serviceaccount=default:{kubelet}"
    world.kubectl("create", "serviceaccount", kubelet)
    world.kubectl("create", "clusterrole", kubelet, "--verb=get", "--resource=nodes/stats")
    world.kubectl("create", "clusterrolebinding", kubelet, f"--clusterrole={kubelet}", account)
    token = world.kubectl("create", "token", kubelet).strip()
    person.kubelet.write_text(
        f"curl -sSf --cacert {world.testbed.kubelet_ca_file} -H 'Authorization: Bearer {token}' "
        f"https://{address}:{port}/stats/summary\n"
    )
    try:
        yield
    finally:
        for kind in ("clusterrolebinding", "clusterrole", "serviceaccount"):
            world.kubectl("delete", kind, kubelet)
        pods.end("web")
        world.kubectl("delete", "pod", f"naked-{world.suffix}")


async def test_a_person_with_the_right_sees_the_pods_of_a_node_and_another_which_right_is_missing(
    world: World,
) -> None:
    (node,) = await asyncio.to_thread(world.fleet, windows=1, extra=SEEING)
    pool = world.apply(world.pool(memoryPressure={"mode": "Observe", "eviction": {"minPodAgeSeconds": 0}}))
    known = Known((SeenNode(node, pool, HEALTHY),))
    memory = Memory(known, standby=lambda: "", access=None, monotonic=time.monotonic)
    async with serving(memory=memory) as served:
        person = await asyncio.to_thread(Person, world, port=served.port)
        with pods_on(world, person, node):
            await asyncio.to_thread(person.bind)
            code, out, err = await person.winpool("memory", node)
            assert (code, err) == (0, "")
            assert out.startswith(f"Node:      {node}, pool {pool}\n")
            assert FORBIDDEN in " ".join(out.split())

            with permitted(world, person):
                code, out, err = await person.winpool("memory", node)
            await asyncio.to_thread(person.unbind)
    world.kubectl("delete", "wnp", pool)
    assert (code, err) == (0, "")
    naked, web = (line for line in out.splitlines() if line.lstrip().startswith("default/"))
    # A narrow table has no WORKING-SET.
    assert naked.split()[0] == f"default/naked-{world.suffix}"
    assert naked.split()[-3:] == ["0", "0", "NoController"]
    assert web.split()[0].startswith(f"default/web-{world.suffix}-")
    assert web.split()[-3:] == ["1.0Gi", "0", "Yes"]
