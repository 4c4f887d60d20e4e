"""A cluster on which a person uses helm, and what is on it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chart.helm import NAMESPACE, RELEASE, Helm
from harness.manifests import DEPLOY
from harness.nodes import carried, is_settled
from harness.waiting import eventually
from release.chart import CHART
from testbed.cluster import Testbed
from winpool.api.keys import CRD_NAME

Object = dict[str, Any]

HERE: Final = ("--namespace", NAMESPACE)
POOLS: Final = "/apis/winpool.dev/v1alpha1/windowsnodepools"
WAITING: Final = ("--wait", "--timeout", "3m")
"""Helm returns when the replicas are Ready; a guard only, as for any command of a test."""

WITHOUT_NAMESPACE: Final = (
    *("customresourcedefinitions", "clusterroles", "clusterrolebindings", "flowschemas"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """A testbed with the namespace of winpool, and helm that uses it."""

    testbed: Testbed
    helm: Helm

    @classmethod
    @contextmanager
    def up(cls, directory: Path, *, helm: Helm) -> Iterator[Site]:
        """Start one: three Windows nodes for a pool, two Linux hosts for replicas."""
        with Testbed.up(directory=directory, windows=3, linux=2) as testbed:
            testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22")
            testbed.kubectl("apply", "-f", str(DEPLOY / "operator" / "namespace.yaml"))
            testbed.kubectl("wait", "--for=create", "serviceaccount/default", *HERE, "--timeout=120s")
            site = cls(testbed, helm.on(testbed.environment))
            eventually(lambda: all(map(is_settled, site.windows_nodes())), what="nodes at rest")
            yield site

    def install(self, *arguments: str) -> str:
        """Install the chart, and return what helm prints."""
        return self.helm.run("install", RELEASE, str(CHART), *HERE, *WAITING, *arguments).stdout

    def upgrade(self, *arguments: str) -> str:
        """Upgrade to the same chart, and return what helm prints."""
        return self.helm.run("upgrade", RELEASE, str(CHART), *HERE, *WAITING, *arguments).stdout

    def uninstall(self) -> str:
        """Uninstall, and return what helm prints."""
        return self.helm.run("uninstall", RELEASE, *HERE, "--wait").stdout

    def live(self) -> list[Object]:
        """Return the objects of the release as the API server has them."""
        manifest = self.helm.run("get", "manifest", RELEASE, *HERE).stdout
        found = self.testbed.kubectl("get", "-o", "json", "-f", "-", stdin=manifest)
        items: list[Object] = json.loads(found.stdout)["items"]
        return items

    def names(self) -> set[str]:
        """Return what is on the cluster of winpool: KIND/NAME of the objects that are in no namespace."""
        found = self.testbed.kubectl("get", ",".join(WITHOUT_NAMESPACE), "-o", "name").stdout
        return {
            line.partition(".")[0] + "/" + line.partition("/")[2]
            for line in found.split()
            if "winpool" in line
        }

    def windows_nodes(self) -> list[Object]:
        """Return the Windows nodes."""
        found = self.testbed.api().get("/api/v1/nodes", labelSelector="kubernetes.io/os=windows")
        items: list[Object] = found["items"]
        return items

    def nodes(self) -> dict[str, Object]:
        """Return what the Windows nodes carry."""
        return {node["metadata"]["name"]: carried(node) for node in self.windows_nodes()}

    def create_pool(self, file: Path) -> None:
        """Apply a pool, once the API server lists the kind, which it does a moment after it took the CRD."""
        what = "the kind of pools listed"
        eventually(lambda: self.kubectl("apply", "-f", str(file)).returncode == 0, what=what)

    def pool(self, name: str) -> Object:
        """Return a pool."""
        return self.testbed.api().get(f"{POOLS}/{name}")

    def clear(self) -> None:
        """Remove what a test may have left: the release, its pools and its CRD, a Pod of ``helm test``."""
        self.helm.run("uninstall", RELEASE, *HERE, "--ignore-not-found", "--wait")
        if self.kubectl("get", "crd", CRD_NAME).returncode == 0:
            for each in self.testbed.api().get(POOLS)["items"]:
                path = f"{POOLS}/{each['metadata']['name']}"
                self.testbed.api().merge(path, {"metadata": {"finalizers": None}})
            self.testbed.kubectl("delete", "crd", CRD_NAME)
        self.testbed.kubectl("delete", "pods", "-l", "app.kubernetes.io/component=test", *HERE)

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever its exit code."""
        return self.testbed.kubectl(*arguments, check=False)
