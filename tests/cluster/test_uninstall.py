"""The page on removing winpool: whichever way a reader takes, the nodes are as they were."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.documents import ROOT, UNINSTALL, blocks_of, documents, sections_of
from harness.nodes import carried, is_settled
from harness.operator import Operator
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.keys import CRD_NAME, RELEASE_FINALIZER

PAGE = (ROOT / UNINSTALL).read_text()
SECTIONS = sections_of(PAGE)
IN_ORDER = ("1. Delete the pools", "2. Stop the operator", "3. Remove the installation")
HUNG = "The command that removes the installation does not end"
BY_HAND = (
    "1. See what the pool added",
    "2. Remove labels and taints",
    "3. Remove the operator's own keys",
    "4. Only now remove the finalizer",
)


def windows_nodes(testbed: Testbed) -> list[dict[str, Any]]:
    listed = testbed.kubectl("get", "nodes", "-l", "kubernetes.io/os=windows", "-o", "json")
    items: list[dict[str, Any]] = json.loads(listed.stdout)["items"]
    return items


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster with a pool on all its nodes, and what these carried before."""

    testbed: Testbed
    operator: Operator
    before: dict[str, Any]

    def carried(self) -> dict[str, Any]:
        """Return what the Windows nodes carry now."""
        return {node["metadata"]["name"]: carried(node) for node in windows_nodes(self.testbed)}

    def type(self, *headings: str) -> None:
        """Type the commands of these sections, one after the other; each has to work."""
        for command in (command for heading in headings for command in SECTIONS[heading]):
            self.enter(command)

    def enter(self, command: str) -> None:
        """Type one command, which has to work."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-ec", command],
            cwd=ROOT,
            env={**os.environ, **self.testbed.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"

    def left(self) -> str:
        """Return the names of all objects of the kinds that the installation has."""
        kinds = (
            *("namespaces", "clusterroles", "clusterrolebindings", "crds", "flowschemas"),
            *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        )
        return self.testbed.kubectl("get", ",".join(kinds), "-o", "name").stdout

    def hang(self) -> None:
        """Remove the installation while there is a pool, and end the command when nothing moves any more."""
        (command,) = SECTIONS[IN_ORDER[-1]]
        with subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=ROOT,
            env={**os.environ, **self.testbed.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as hanging:
            try:
                what = "only the CRD and the pool to be left"
                eventually(self.waits_for_the_pool, what=what, seconds=120, every=1)
                assert hanging.poll() is None, "it ended with a pool in place"
            finally:
                hanging.terminate()

    def waits_for_the_pool(self) -> bool:
        """Whether of all that was installed the CRD is left and waits, and the pool too."""
        left = [name for name in self.left().splitlines() if "winpool" in name]
        if left != [f"customresourcedefinition.apiextensions.k8s.io/{CRD_NAME}"]:
            return False
        pool = json.loads(self.testbed.kubectl("get", "wnp", "win-2022", "-o", "json").stdout)
        return "deletionTimestamp" in pool["metadata"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Testbed.up(directory=tmp_path / "testbed", apply=[ROOT / "deploy"], windows=3, linux=2) as testbed:
        testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22")
        operator = Operator(kubeconfig=testbed.kubeconfig("winpool"), log_file=tmp_path / "operator.log")
        cluster = Cluster(testbed, operator, before={})
        eventually(lambda: all(map(is_settled, windows_nodes(testbed))), what="nodes at rest")
        cluster.before.update(cluster.carried())
        operator.start()
        try:
            testbed.kubectl("apply", "-f", str(ROOT / "deploy" / "samples" / "win-2022.yaml"))
            testbed.kubectl("wait", "--for=condition=NodesUpToDate", "--timeout=60s", "wnp/win-2022")
            assert cluster.carried() != cluster.before
            yield cluster
        finally:
            operator.close()


def test_in_the_order_of_the_page_only_bindings_of_people_are_left(cluster: Cluster) -> None:
    listed = cluster.testbed.kubectl(
        "get", "clusterroles", "-o", "name", "-l", "app.kubernetes.io/name=winpool"
    )
    roles = [line.partition("/")[2] for line in listed.stdout.splitlines()]
    assert "winpool-metrics-reader" in roles
    for role in roles:
        cluster.testbed.kubectl(
            "create", "clusterrolebinding", f"my-{role}", f"--clusterrole={role}", "--user=a"
        )
    delete, stop, remove = IN_ORDER
    cluster.type(delete)
    assert cluster.carried() == cluster.before
    cluster.type(stop)
    cluster.operator.stop()
    cluster.type(remove)
    left = sorted(name for name in cluster.left().splitlines() if "winpool" in name)
    assert left == sorted(f"clusterrolebinding.rbac.authorization.k8s.io/my-{role}" for role in roles)


@pytest.mark.nightly
def test_an_installation_that_is_removed_with_a_pool_in_place_waits_and_is_brought_back(
    cluster: Cluster,
) -> None:
    carried_with_pool = cluster.carried()
    cluster.operator.kill()  # as its Pod, which is deleted with the rest
    cluster.hang()
    assert cluster.carried() == carried_with_pool
    *back, gone, last = SECTIONS[HUNG]
    for command in back:
        cluster.enter(command)
    cluster.testbed.renew_token()
    cluster.operator.start()
    cluster.enter(gone)
    assert cluster.carried() == cluster.before
    cluster.operator.stop()
    cluster.enter(last)
    assert "winpool" not in cluster.left()


@pytest.mark.nightly
def test_an_installation_that_waits_for_a_pool_ends_when_its_nodes_are_released_by_hand(
    cluster: Cluster,
) -> None:
    cluster.operator.kill()
    cluster.hang()
    cluster.type(*BY_HAND)
    assert cluster.carried() == cluster.before
    eventually(lambda: "winpool" not in cluster.left(), what="the CRD gone")


@pytest.mark.nightly
def test_without_an_operator_the_nodes_are_released_by_hand(cluster: Cluster) -> None:
    cluster.operator.kill()
    cluster.testbed.kubectl("delete", "wnp", "win-2022", "--wait=false")
    pool = json.loads(cluster.testbed.kubectl("get", "wnp", "win-2022", "-o", "json").stdout)
    assert pool["metadata"]["finalizers"] == [RELEASE_FINALIZER]
    cluster.type(*BY_HAND)
    assert cluster.carried() == cluster.before
    assert cluster.testbed.kubectl("get", "wnp", "-o", "name").stdout == ""


@pytest.mark.nightly
def test_an_operator_that_comes_back_releases_what_waits_for_it(cluster: Cluster) -> None:
    cluster.operator.kill()
    cluster.testbed.kubectl("delete", "wnp", "win-2022", "--wait=false")
    cluster.operator.start()
    cluster.type(IN_ORDER[0])
    assert cluster.carried() == cluster.before


def test_every_command_of_the_page_is_typed() -> None:
    (page,) = (document for document in documents() if document.path == UNINSTALL)
    typed = [command for heading in (*IN_ORDER, HUNG, *BY_HAND) for command in SECTIONS[heading]]
    assert sorted(typed) == sorted(page.commands)


@pytest.mark.parametrize("heading", [IN_ORDER[-1], HUNG])
def test_for_the_files_of_a_release_the_commands_are_the_same(heading: str) -> None:
    """What their ``install.yaml`` has is what ``-k deploy`` applies: ``test_deploy.py``."""
    from_files = [command.replace("-k deploy", '-f "$RELEASE/install.yaml"') for command in SECTIONS[heading]]
    assert [*blocks_of(PAGE, heading)] == from_files
