"""helm, as a person types it, with a home of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from release.chart import CHART

Object = dict[str, Any]

NAMESPACE: Final = "winpool-system"
RELEASE: Final = "winpool"
TIMEOUT_SECONDS: Final = 240.0
"""A guard only, below a test's own limit: helm takes a second, and longer on a busy machine."""


@dataclass(frozen=True, slots=True)
class Helm:
    """The binary, and the variables that keep it from the home of the caller."""

    binary: Path
    home: Path
    cluster: Mapping[str, str] = field(default_factory=dict)
    """The variables that make it use a cluster; without them it has none."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables for helm, and for a shell that finds it."""
        own = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        nowhere = {"KUBECONFIG": str(self.home / "no-kubeconfig")}
        path = self.cluster.get("PATH", os.environ.get("PATH", os.defpath))
        return {
            **os.environ, **nowhere, **self.cluster, **own, "PATH": f"{self.binary.parent}{os.pathsep}{path}"
        }  # fmt: skip

    def on(self, cluster: Mapping[str, str]) -> Helm:
        """Return the same helm, which uses a cluster."""
        return Helm(self.binary, self.home, cluster)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run it; a failure is one of the test where ``check`` is asked for."""
        done = subprocess.run(
            [str(self.binary), *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"helm {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done

    def template(self, *arguments: str) -> list[Object]:
        """Return the objects of the chart with these arguments, its tests included."""
        done = self.run("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *arguments)
        return [each for each in yaml.safe_load_all(done.stdout) if each]

    def refusal(self, *arguments: str, namespace: str = NAMESPACE) -> str:
        """Return what it prints where it refuses to render the chart with these arguments."""
        done = self.run("template", RELEASE, str(CHART), "--namespace", namespace, *arguments, check=False)
        assert done.returncode != 0, f"it accepts {arguments}"
        return done.stderr


def is_test(manifest: Object) -> bool:
    """Tell whether an object is there for ``helm test`` only."""
    annotations: dict[str, str] = manifest["metadata"].get("annotations", {})
    return annotations.get("helm.sh/hook") == "test"


def one(manifests: Sequence[Object], kind: str, name: str = "") -> Object:
    """Return the one object of a kind, and of a name where there are several of that kind."""
    (found,) = (
        each for each in manifests
        if each["kind"] == kind and (not name or each["metadata"]["name"] == name) and not is_test(each)
    )  # fmt: skip
    return found
