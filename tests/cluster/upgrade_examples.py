"""What the tests of the worked examples share: the scripts as someone runs them, and what these run."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from cluster.upgrade_ground import Ground
from harness.documents import ROOT
from harness.world import World
from testbed.cluster import Testbed
from testbed.kubeconfig import render

Object = dict[str, Any]

EXAMPLES: Final = ROOT / "docs" / "upgrades" / "examples"
SPACE: Final = "patching"
ACCOUNT: Final = "patch-tool"
MARK: Final = "patching.example.com/cordoned"
GUARD_SECONDS: Final = 120.0
"""Against waiting for ever: a script ends by itself within the seconds that it was given."""


@dataclass(frozen=True, slots=True)
class Person:
    """Someone at a shell of the testbed, by a kubeconfig."""

    testbed: Testbed
    kubeconfig: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, script: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the examples to its end; ``more`` is added to its environment."""
        with self.start(script, *words, **more) as process:
            output, errors = process.communicate(timeout=GUARD_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def start(self, script: str, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start a script of the examples."""
        path = f"{self.testbed.kubectl_path.parent}{os.pathsep}{os.environ['PATH']}"
        given = {"PATH": path, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.Popen(
            [str(EXAMPLES / script), *words],
            env={**os.environ, **given, **self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def admin(world: World) -> Person:
    """Return a cluster admin at a shell."""
    return Person(world.testbed, world.testbed.kubeconfig("admin"))


class Command:
    """A command that a script is given: it is counted how often it was run."""

    def __init__(self, world: World, *, revision: int = 0) -> None:
        self._file = world.directory / "runs"
        self._world = world
        self._revision = revision

    @property
    def runs(self) -> int:
        """How often it was run."""
        return self._file.read_text().count("run") if self._file.exists() else 0

    def ending(self, code: int) -> tuple[str, ...]:
        """Return a command that does nothing and ends with this code."""
        return self._words(f"exit {code}")

    def of(self, ground: Ground, what: str, *nodes: str, revision: int) -> tuple[str, ...]:
        """Return a command that replaces or patches these machines (``cluster.cloud``)."""
        program = (sys.executable, str(Path(__file__).with_name("cloud.py")))
        kubeconfig = f"KUBECONFIG={self._world.testbed.kubeconfig('admin')}"
        words = ("env", kubeconfig, *program, what, str(ground.fleet.path), str(revision), *nodes)
        return self._words(f"exec {shlex.join(words)}")

    def _words(self, what: str) -> tuple[str, ...]:
        return ("bash", "-ec", f"echo run >> {shlex.quote(str(self._file))}; {what}")


@contextmanager
def pod_on(world: World, node: str) -> Iterator[str]:
    """Have a pod of the patch tool on a node; yield its name."""
    name = f"tool-{node}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "serviceAccountName": ACCOUNT,
            "nodeName": node,
            "containers": [{"name": "tool", "image": "registry.example.com/patching/tool:1"}],
        },
    }
    world.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        yield name
    finally:
        world.kubectl("delete", "pod", "-n", SPACE, name, "--force", "--grace-period=0", "--timeout=50s")


def token_of(testbed: Testbed, *, pod: str = "") -> str:
    """Return a token of the account, bound to a pod as its kubelet would ask for it, or to nothing."""
    bound = (f"--bound-object-name={pod}", "--bound-object-kind=Pod") if pod else ()
    return testbed.kubectl("create", "token", ACCOUNT, "-n", SPACE, *bound).stdout.strip()


def tool_on(world: World, node: str, *, pod: str) -> Person:
    """Return the patch tool in its pod on a node."""
    testbed = world.testbed
    file = world.directory / f"{pod}.kubeconfig"
    credentials = {"token": token_of(testbed, pod=pod)}
    file.write_text(
        render(server=testbed.server, ca_file=testbed.ca_file, user=ACCOUNT, credentials=credentials)
    )
    file.chmod(0o600)
    return Person(testbed, file, {"NODE_NAME": node})


class Plan:
    """The Plan of the example for a pool, and what Rancher's controller makes of it.

    The controller itself is not run: it is a program of its own, which this project does not build. What it
    does with a Plan is written down here by its source, as of November 2025: which nodes it selects
    (plan.go), which Job it makes (job.go), and what pull request 386 adds for Windows.
    https://github.com/rancher/system-upgrade-controller/blob/master/pkg/upgrade/plan/plan.go
    https://github.com/rancher/system-upgrade-controller/blob/master/pkg/upgrade/job/job.go
    https://github.com/rancher/system-upgrade-controller/pull/386
    """

    HASH: Final = "0123456789abcdef"

    def __init__(self, *, pool: str, space: str) -> None:
        plan = yaml.safe_load((EXAMPLES / "plan.yaml").read_text())
        self.spec: Object = plan["spec"]
        self.name: str = plan["metadata"]["name"]
        self.space = space
        selected = self.spec["nodeSelector"]["matchLabels"]
        [written] = self.spec["prepare"]["args"]
        assert selected["winpool.dev/pool"] == written, "the plan selects and asks for one pool"
        self.spec = {
            **self.spec,
            "nodeSelector": {"matchLabels": {**selected, "winpool.dev/pool": pool}},
            "prepare": {**self.spec["prepare"], "args": [pool]},
        }

    @property
    def selector(self) -> str:
        """By which labels the controller selects the nodes on which it has not run this version."""
        own = ",".join(f"{key}={value}" for key, value in self.spec["nodeSelector"]["matchLabels"].items())
        done = f"plan.upgrade.cattle.io/{self.name} notin (disabled,{self.HASH})"
        return f"{own},kubernetes.io/hostname,{done}"

    def selected(self, world: World) -> set[str]:
        """Return the nodes on which the controller would run a Job now, by what the API server selects."""
        return {node["metadata"]["name"] for node in world.get("nodes", "-l", self.selector)["items"]}

    def job(self, node: Object, *, annotations: Mapping[str, str]) -> Object:
        """Return the Job that the controller makes for a node; it copies annotations of the Plan."""
        name = node["metadata"]["name"]
        hostname = node["metadata"]["labels"]["kubernetes.io/hostname"]
        labels = {
            "upgrade.cattle.io/controller": "system-upgrade-controller",
            "upgrade.cattle.io/node": name,
            "upgrade.cattle.io/plan": self.name,
            "upgrade.cattle.io/version": self.spec["version"],
        }
        term = {
            "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}]
        }
        cordoned = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
        cordon = {"image": "registry.example/kubectl-windows:1.37", "args": ["cordon", name]}
        assert self.spec["cordon"] is True
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"apply-{self.name}-on-{name}", "namespace": self.space, "labels": labels},
            "spec": {
                "backoffLimit": 2,
                "completions": 1,
                "parallelism": 1,
                "template": {
                    "metadata": {"labels": labels, "annotations": dict(annotations)},
                    "spec": {
                        "serviceAccountName": self.spec["serviceAccountName"],
                        "restartPolicy": "Never",
                        "hostNetwork": True,
                        "affinity": {
                            "nodeAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [term]
                                }
                            }
                        },
                        "tolerations": [cordoned, *self.spec["tolerations"]],
                        "initContainers": [
                            container("prepare", self.spec["prepare"]),
                            container("cordon", cordon),
                        ],
                        "containers": [container("upgrade", self.spec["upgrade"])],
                    },
                },
            },
        }


def container(name: str, spec: Mapping[str, Any]) -> Object:
    """Return a container as the controller makes it for a Windows node."""
    own = {"name": "SYSTEM_UPGRADE_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    system = {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}
    return {"name": name, **spec, "env": [own], "securityContext": {"windowsOptions": system}}
