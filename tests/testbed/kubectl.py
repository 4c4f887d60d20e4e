"""Runs the testbed's own kubectl."""

import json
import os
import subprocess
from pathlib import Path
from typing import Final

from testbed.errors import TestbedError
from testbed.kubeconfig import ADMIN, SUPERVISOR
from testbed.paths import Layout

TIMEOUT_SECONDS: Final = 180.0
"""Guard only: longer than any `kubectl wait` in a test, shorter than a test's own limit."""


class KubectlError(TestbedError):
    """kubectl failed; the text has the command and what it printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.returncode = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr
        command = " ".join(["kubectl", *done.args[1:]])
        super().__init__(f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}".rstrip())


class Kubectl:
    """kubectl for one testbed, independent of the caller's home and kubeconfig."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def kubeconfig(self, role: str) -> Path:
        """Return the path of a role's kubeconfig.

        Raises:
            TestbedError: there is none.

        """
        path = self._layout.kubeconfig(role)
        if not path.exists():
            known = ", ".join(sorted(p.stem for p in self._layout.kubeconfigs.glob("*.kubeconfig")))
            raise TestbedError(f"there is no kubeconfig for {role!r} in {path.parent}; there are: {known}")
        return path

    def environment(self, role: str) -> dict[str, str]:
        """Return the variables that make a shell or a process use this cluster."""
        return {
            "KUBECONFIG": str(self.kubeconfig(role)),
            "KUBECACHEDIR": str(self._layout.kubectl_cache),
            "PATH": f"{self._layout.bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }

    def run(
        self,
        *args: str,
        role: str = ADMIN,
        stdin: str | None = None,
        check: bool = True,
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl and capture what it prints.

        Raises:
            KubectlError: it failed and ``check`` was asked for.
            TestbedError: it did not end in time.

        """
        variables = {**os.environ, "KUBERC": "off", **self.environment(role), **(environment or {})}
        command = [str(self._layout.kubectl), *args]
        # Without an input of its own kubectl must not read ours.
        source = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        try:
            done = subprocess.run(
                command,
                env=variables,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
                **source,
            )
        except subprocess.TimeoutExpired:
            raise TestbedError(
                f"kubectl {' '.join(args)} did not end within {TIMEOUT_SECONDS:.0f} s"
            ) from None
        if check and done.returncode != 0:
            raise KubectlError(done)
        return done

    def apply(self, path: Path) -> None:
        """Apply a file, a folder of manifests, or a kustomization.

        Raises:
            KubectlError: the API server refused something, or there is nothing at that path.

        """
        is_kustomization = (path / "kustomization.yaml").exists()
        self.run("apply", "-k" if is_kustomization else "-f", str(path))

    def knows_all_kinds(self) -> bool:
        """Whether the API server's discovery lists every CRD, which it does a moment after it took it.

        It also makes kubectl forget what it had cached before that moment.
        """
        found = self.run("get", "customresourcedefinitions", "-o", "json", role=SUPERVISOR)
        wanted = {item["metadata"]["name"] for item in json.loads(found.stdout)["items"]}
        listed = self.run("api-resources", "-o", "name", "--cached=false", role=SUPERVISOR)
        return wanted <= set(listed.stdout.split())

    def ready_nodes(self) -> int:
        """Count how many nodes are Ready."""
        # As a table: of 5,000 nodes that is 0.5 MB, and whole they are 37. A cordoned one shows as
        # Ready,SchedulingDisabled.
        found = self.run("get", "nodes", "--no-headers", role=SUPERVISOR)
        return sum(line.split()[1].split(",")[0] == "Ready" for line in found.stdout.splitlines())
