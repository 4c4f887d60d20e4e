"""The plugin speaks through kubectl: whatever that can log in to, the plugin can, with the same answer."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster.test_cli_status import PLUGIN
from harness.kubectl_options import FILE, flags_in, with_tables
from harness.world import World
from testbed.pins import chosen_pins, default_pins
from winpool.cli.parsing import SHORT, SWITCHES, VALUES
from winpool.kube.pools import POOLS_PATH

Object = dict[str, Any]

PROMPT: Final = "To sign in, open https://login.example and enter the code ABC-DEF"
CACHED: Final = "signed-in"

EXEC_PLUGIN: Final = """\
#!/bin/sh
# Prompts as long as nobody has signed in.
cd {folder}
echo run >> runs
if [ ! -e {cached} ]; then
  printf '%s' '{prompt}' >&2
  sleep {seconds}
  printf '\\n' >&2
  touch {cached}
fi
printf '%s' "$KUBERNETES_EXEC_INFO" > info
cat credentials
"""


def variables(**more: str) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8", **more}


def run(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=variables(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def has_the_same_answer(*flags: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the plugin and ``kubectl get wnp`` alike; return what the plugin did."""
    theirs = run("kubectl", "get", "wnp", "-o", "name", *flags, **more)
    raw = run("kubectl", "get", "--raw", POOLS_PATH, *flags, **more)
    ours = run(*PLUGIN, "status", "-o", "json", *flags, **more)
    assert theirs.returncode == raw.returncode
    if theirs.returncode:
        assert (ours.returncode, ours.stdout) == (1, "")
        # To an unknown context kubectl says two things, each of them its own.
        said = [each.stderr.strip().splitlines()[-1] for each in (theirs, raw)]
        assert any(each in ours.stderr for each in said), (said, ours.stderr)
    else:
        assert ours.returncode == 0, ours.stderr
        names = [f"windowsnodepool.winpool.dev/{each['name']}" for each in json.loads(ours.stdout)["pools"]]
        assert names == theirs.stdout.split()
    return ours


class SignIn:
    """A kubeconfig whose exec plugin signs in once, as cluster admin by a client certificate."""

    def __init__(self, world: World, *, seconds: int = 0, provides_cluster: bool = False) -> None:
        self.folder = world.directory / "sign-in"
        self.folder.mkdir()
        program = self.folder / "plugin"
        program.write_text(
            EXEC_PLUGIN.format(folder=self.folder, prompt=PROMPT, seconds=seconds, cached=CACHED)
        )
        program.chmod(0o755)
        config: Object = yaml.safe_load(world.testbed.kubeconfig("admin").read_text())
        (user,) = config["users"]
        api_version = "client.authentication.k8s.io/v1"
        pem = {name: Path(user["user"][f"client-{name}"]).read_text() for name in ("certificate", "key")}
        status = {"clientCertificateData": pem["certificate"], "clientKeyData": pem["key"]}
        credentials = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
        (self.folder / "credentials").write_text(json.dumps(credentials))
        user["user"] = {
            "exec": {
                "apiVersion": api_version,
                "command": str(program),
                "interactiveMode": "IfAvailable",
                "provideClusterInfo": provides_cluster,
            }
        }
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    @property
    def runs(self) -> int:
        return len((self.folder / "runs").read_text().split())


def test_the_flags_that_are_handed_through_are_those_of_kubectl_options() -> None:
    flags = flags_in(run("kubectl", "options").stdout)
    assert flags.values <= VALUES
    assert flags.switches <= SWITCHES
    assert flags.short.items() <= SHORT.items()
    if chosen_pins() == default_pins():
        source = FILE.read_text()
        assert with_tables(source, flags) == source, "make them anew: see harness/kubectl_options.py"


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [2, pytest.param(45, marks=pytest.mark.long)])
def test_an_exec_plugin_that_prompts_and_is_slow_prompts_once(world: World, seconds: int) -> None:
    pool = world.apply(world.pool(upgrade={}, os={"version": "2022", "targetRevision": 99_999}))
    world.fleet(windows=1)
    sign_in = SignIn(world, seconds=seconds)
    done = run(*PLUGIN, "plan", pool, KUBECONFIG=str(sign_in.kubeconfig))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(PROMPT) == 1
    assert sign_in.runs == 7, "pools, nodes, version, the Lease, budgets, RuntimeClasses and pods"
    has_the_same_answer(KUBECONFIG=str(sign_in.kubeconfig))


def test_an_exec_plugin_gets_the_cluster_that_it_asks_for(world: World) -> None:
    world.apply(world.pool())
    sign_in = SignIn(world, provides_cluster=True)
    has_the_same_answer(KUBECONFIG=str(sign_in.kubeconfig))
    info = json.loads((sign_in.folder / "info").read_text())
    assert info["spec"]["cluster"]["server"] == world.testbed.server


def test_an_exec_plugin_that_fails_is_quoted_once(world: World) -> None:
    sign_in = SignIn(world)
    program = sign_in.folder / "plugin"
    program.write_text("#!/bin/sh\necho 'the session has expired' >&2\nexit 1\n")
    done = has_the_same_answer(KUBECONFIG=str(sign_in.kubeconfig))
    assert done.stderr.count("the session has expired") == 1
    assert done.stderr.count("getting credentials: exec: executable") == 1


def test_inside_a_pod_the_kubeconfig_at_home_counts(world: World) -> None:
    world.apply(world.pool())
    home = world.directory / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text(world.testbed.kubeconfig("admin").read_text())
    address = {"KUBERNETES_SERVICE_HOST": "192.0.2.1", "KUBERNETES_SERVICE_PORT": "443"}
    done = has_the_same_answer(HOME=str(home), KUBECONFIG="", **address)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--as", "jane"], 1),
        (["--as=jane", "--as-group=system:masters"], 0),
        (["--context", "nowhere"], 1),
        (["--user", "nobody"], 1),
        (["--server=https://127.0.0.1:1"], 1),
        (["--request-timeout=30s", "-n", "default", "--insecure-skip-tls-verify=false"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags_have_the_effect_that_they_have_for_kubectl(
    world: World, flags: Sequence[str], code: int
) -> None:
    world.apply(world.pool())
    done = has_the_same_answer(*flags, KUBECONFIG=str(world.testbed.kubeconfig("admin")))
    assert done.returncode == code


def test_the_api_server_takes_the_runtime_class_of_a_pool(world: World) -> None:
    world.fleet(windows=1)
    taints = [{"key": "os", "value": "y", "effect": "NoSchedule"}]
    pool = world.apply(world.pool(mode="Paused", os={"version": "2022"}, taints=taints))
    done = run(*PLUGIN, "runtimeclass", pool, KUBECONFIG=str(world.testbed.kubeconfig("admin")))
    assert (done.returncode, done.stderr) == (0, "")
    seen = world.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=done.stdout)
    found = json.loads(seen)
    assert (found["metadata"]["name"], found["handler"]) == ("windows-2022", "runhcs-wcow-process")
    assert found["scheduling"] == {
        "nodeSelector": {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"},
        "tolerations": [{"key": "os", "operator": "Equal", "value": "y", "effect": "NoSchedule"}],
    }


@pytest.mark.nightly
def test_the_calls_of_a_verb_do_not_grow_with_nodes(world: World) -> None:
    """What ``docs/cli/README.md`` says: each call is a line of a kubectl that notes it."""
    world.fleet(windows=3)
    pool = world.apply(world.pool(upgrade={}, os={"version": "2022", "targetRevision": 99_999}))
    (node, *_) = world.nodes()
    folder = world.directory / "noting"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$*" >> {folder}/calls\nexec {world.testbed.kubectl_path} "$@"\n')
    program.chmod(0o755)
    (folder / "pods.yaml").write_text("{apiVersion: v1, kind: Pod, spec: {containers: []}}")
    expected = {
        ("status",): 3,
        ("status", pool): 3,
        ("status", "--all", "-o", "yaml"): 3,
        ("version",): 3,
        ("version", "--client"): 0,
        ("plan", pool): 7,
        ("why", node): 7,
        ("why", "nobody"): 5,
        ("join-config", pool): 2,
        ("runtimeclass", pool): 2,
        ("audit", "-f", str(folder / "pods.yaml"), "--pool", pool): 3,
        ("audit", "-f", str(folder / "pods.yaml"), "--host-build", "2022"): 0,
        ("audit",): 14,
        ("audit", "-n", "default"): 13,
        ("audit", "-A"): 13,
        ("audit", "-A", "--pool", pool): 14,
        ("audit", "-n", "default", "deploy/web", "sts/db"): 7,
        ("diagnose", "-A"): 4,
        ("diagnose", pool): 5,
        ("diagnose", node): 6,
        ("diagnose", "-n", "default"): 4,
        ("uninstall", "--plan"): 10,
        ("matrix",): 0,
    }
    for arguments, calls in expected.items():
        (folder / "calls").write_text("")
        run(
            *PLUGIN,
            *arguments,
            PATH=f"{folder}{os.pathsep}{os.environ['PATH']}",
            KUBECONFIG=str(world.testbed.kubeconfig("admin")),
        )
        assert len((folder / "calls").read_text().splitlines()) == calls, arguments
