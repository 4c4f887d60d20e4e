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

    def of_actor(self, ground: Ground, what: str = "patch") -> tuple[str, ...]:
        """Return a command that patches or replaces a machine, and is given NODE VERSION REVISION."""
        program = shlex.join((sys.executable, str(Path(__file__).with_name("cloud.py"))))
        return self._words(f'exec {program} {what} {shlex.quote(str(ground.fleet.path))} "$2" "$0"')

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
    does with a Plan is written down here as its source has it, and as it did when it was run by hand on this
    testbed in November 2026: which nodes it selects (plan.go), which Job it makes (job.go), and that it
    deletes a Job whose node it does not select any more (handle_batch.go). Pods for Windows are as pull
    request 386 makes them.
    https://github.com/rancher/system-upgrade-controller/tree/master/pkg/upgrade
    https://github.com/rancher/system-upgrade-controller/pull/386
    """

    HASH: Final = "0123456789abcdef"

    def __init__(self, *, pool: str, space: str) -> None:
        plan, self._binding = yaml.safe_load_all((EXAMPLES / "plan.yaml").read_text())
        self.spec: Object = plan["spec"]
        self.name: str = plan["metadata"]["name"]
        self.space = space
        assert self.spec.keys().isdisjoint({"prepare", "cordon", "drain"}), "the script does that"
        self.spec["nodeSelector"]["matchLabels"]["winpool.dev/pool"] = pool

    @property
    def selector(self) -> str:
        """By which labels the controller selects the nodes on which it has not completed this version."""
        asked = self.spec["nodeSelector"]
        own = [f"{key}={value}" for key, value in asked["matchLabels"].items()]
        [state] = asked["matchExpressions"]
        assert state["operator"] == "In"
        own.append(f"{state['key']} in ({','.join(state['values'])})")
        done = f"plan.upgrade.cattle.io/{self.name} notin (disabled,{self.HASH})"
        return ",".join((*own, "kubernetes.io/hostname", done))

    def selected(self, world: World) -> set[str]:
        """Return the nodes on which the controller would run a Job now, by what the API server selects."""
        return {node["metadata"]["name"] for node in world.get("nodes", "-l", self.selector)["items"]}

    @contextmanager
    def account(self, world: World) -> Iterator[Person]:
        """Create the account of the Jobs, with the rights that its manifests and the example give it."""
        name, own = self.spec["serviceAccountName"], f"{self.name}-{world.suffix}"
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": self.space}]
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        # https://github.com/rancher/system-upgrade-controller/blob/master/manifests/clusterrole.yaml
        rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}
        reference = {**self._binding["roleRef"], "name": own}
        objects = (
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": self.space},
            },
            {**rbac, "kind": "ClusterRole", "metadata": {"name": own}, "rules": [rule]},
            {
                **rbac,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": own},
                "roleRef": reference,
                "subjects": subjects,
            },
            {**self._binding, "metadata": {"name": f"{own}-reads-pools"}, "subjects": subjects},
        )
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        world.kubectl("create", "-f", "-", stdin=manifest)
        testbed = world.testbed
        file = world.directory / f"{name}.kubeconfig"
        token = testbed.kubectl("create", "token", name, "-n", self.space).stdout.strip()
        file.write_text(
            render(server=testbed.server, ca_file=testbed.ca_file, user=name, credentials={"token": token})
        )
        file.chmod(0o600)
        try:
            yield Person(testbed, file)
        finally:
            world.kubectl("delete", "-f", "-", "--timeout=50s", stdin=manifest)

    def start(self, world: World, name: str, *, annotations: Mapping[str, str]) -> None:
        """Start a Job on a node. The controller makes it without a pod, and then lets it have one."""
        job = self._job(world.node(name), annotations=annotations)
        world.kubectl("create", "-f", "-", stdin=json.dumps(job))
        one = json.dumps({"spec": {"parallelism": 1}})
        world.kubectl("patch", "job", "-n", self.space, job["metadata"]["name"], "--type=merge", "-p", one)

    def _job(self, node: Object, *, annotations: Mapping[str, str]) -> Object:
        """Return the Job that the controller makes for a node; it copies annotations of the Plan."""
        name = node["metadata"]["name"]
        hostname = node["metadata"]["labels"]["kubernetes.io/hostname"]
        labels = {
            f"plan.upgrade.cattle.io/{self.name}": self.HASH,
            "upgrade.cattle.io/controller": "system-upgrade-controller",
            "upgrade.cattle.io/exclusive": "false",
            "upgrade.cattle.io/node": name,
            "upgrade.cattle.io/plan": self.name,
            "upgrade.cattle.io/version": self.spec["version"],
        }
        term = {
            "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}]
        }
        same_plan = {"key": "upgrade.cattle.io/plan", "operator": "In", "values": [self.name]}
        alone = {
            "labelSelector": {"matchExpressions": [same_plan]},
            "topologyKey": "kubernetes.io/hostname",
        }
        cordoned = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"apply-{self.name}-on-{name}", "namespace": self.space, "labels": labels},
            "spec": {
                "backoffLimit": 99,
                "activeDeadlineSeconds": self.spec["jobActiveDeadlineSecs"],
                "podReplacementPolicy": "TerminatingOrFailed",
                "completions": 1,
                "parallelism": 0,
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
                            },
                            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]},
                        },
                        "tolerations": [cordoned, *self.spec["tolerations"]],
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
