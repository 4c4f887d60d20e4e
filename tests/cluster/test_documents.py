"""Every command in the documentation works as written, in the order written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from cluster.memory_world import settings
from harness.documents import (
    MAY_BE_SILENT,
    NIGHTLY,
    ON_THEIR_OWN,
    ROOT,
    WITH_HELM,
    Document,
    blocks_of,
    documents,
    outside_make,
)
from harness.operator import Operator
from harness.waiting import eventually
from testbed.cluster import Testbed
from testbed.options import Options

COMMAND_SECONDS: Final = 900.0
"""A guard: `make demo` takes a minute on an idle machine, and the other tests have the cores too."""

TROUBLED = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: win-2022}
spec:
  nodeSelector: {matchLabels: {agentpool: win22}}
  os: {version: "2022"}
  reservedMemory: {systemReserved: 2Gi, kubeReserved: 512Mi}
"""
"""What a person has who opens a runbook: no node reserves the memory that this pool declares."""

GETTING_STARTED = (ROOT / "docs" / "getting-started.md").read_text()

SPACE = "winpool-system"
LED = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "winpool", "namespace": SPACE},
    "spec": {"holderIdentity": "winpool-7d9cbb6f4-abcde_1a2b3c4d", "leaseDurationSeconds": 15},
}
"""What an operator in a Pod would hold. `kubectl winpool memory` asks the Pod that it names."""

DEMO: Final = "make demo"
"""It takes minutes and needs no cluster of a reader: its test runs beside those of the pages."""

STORY: Final = (
    "MemoryPressureDetected",
    "PodEvicted",
    "MemoryPressureCleared",
    "DriftRepaired",
    "MaintenanceWindow",
    "Required",
    "What blocks its pods:",
    "All nodes are up to date.",
)
"""What the demo has to show."""

DOCUMENTS = [
    document for document in documents() if document.path not in (*NIGHTLY, *ON_THEIR_OWN, *WITH_HELM)
]

RUNBOOKS = [each for each in DOCUMENTS if each.path.startswith(("docs/runbooks/Win", "docs/troubleshooting"))]
"""Pages whose readers have a pool with issues."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a reader who has done `make up`: a cluster of their own, the operator running."""
    directory = tmp_path_factory.mktemp("reader")
    with Testbed.up(
        directory=directory / "testbed",
        apply=[ROOT / "deploy"],
        windows=12,
        linux=2,
        options=Options(kubelet_endpoints=True),
    ) as testbed:
        testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22")
        testbed.kubectl("create", "deployment", "web", "--image=registry.example/web")
        operator = Operator(
            kubeconfig=testbed.kubeconfig("winpool"),
            log_file=directory / "operator.log",
            environment=settings(testbed),
            from_nothing=True,
        )
        operator.start()
        testbed.api().create(f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases", LED)
        environment = {**os.environ, **testbed.environment}
        folders = [forwarding(operator.url, directory, environment), str(Path(sys.executable).parent)]
        environment["PATH"] = os.pathsep.join((*folders, environment["PATH"]))
        environment["CREDENTIALS"] = str(directory)
        yield outside_make(environment)
        operator.close()


def forwarding(url: str, directory: Path, environment: Mapping[str, str]) -> str:
    """Return a folder with a kubectl that forwards to ``url``, since simulated kubelets forward no ports.

    Whatever else is asked of it, it leaves to the real one.
    """
    real = shutil.which("kubectl", path=environment["PATH"])
    folder = directory / "bin"
    folder.mkdir()
    listens = f"echo 'Forwarding from 127.0.0.1:{url.rpartition(':')[2]} -> 8080'; exec sleep 600"
    (folder / "kubectl").write_text(
        f'#!/bin/sh\ncase " $* " in *" port-forward "*) {listens};; esac\nexec {real} "$@"\n'
    )
    (folder / "kubectl").chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if each not in RUNBOOKS], ids=lambda each: each.path
)
def test_every_command_of_the_page_works_and_shows_something(
    document: Document, reader: dict[str, str]
) -> None:
    try:
        for command in document.commands:
            if command != DEMO:
                assert not (fault := fault_of(command, reader)), fault
    finally:
        typed("kubectl delete wnp --all --timeout=60s", reader)  # no page finds the pools of another


def test_the_demo_of_the_readme_tells_its_story() -> None:
    assert not (fault := fault_of(DEMO, outside_make(os.environ), shows=STORY)), fault


def test_every_command_of_the_runbooks_works_and_shows_something(reader: dict[str, str]) -> None:
    """They only read, so that each is typed once, however many pages have it."""
    typed("kubectl apply -f -", reader, stdin=TROUBLED)
    issues = "kubectl get wnp win-2022 -o jsonpath='{.status.issues[*].reason}'"
    eventually(lambda: typed(issues, reader).stdout, what="issues of the pool")
    pages: dict[str, list[str]] = {}
    for document in RUNBOOKS:
        for command in document.commands:
            pages.setdefault(command, []).append(document.path)
    try:
        faults = {command: fault_of(command, reader) for command in pages}
    finally:
        typed("kubectl delete wnp --all --timeout=60s", reader)
    said = [f"{', '.join(pages[command])}: {fault}" for command, fault in faults.items() if fault]
    assert not said, "\n\n".join(said)


def fault_of(command: str, reader: dict[str, str], shows: Iterable[str] = ()) -> str:
    """Return what is wrong with a command; empty where it worked and showed something, and ``shows`` too."""
    done = typed(command, reader)
    said = f"$ {command}\n{done.stdout}{done.stderr}"
    if done.returncode != 0:
        return f"exit code {done.returncode}\n{said}"
    if not shows_something(done) and command not in MAY_BE_SILENT:
        return f"it printed nothing\n{said}"
    missing = [each for each in shows if each not in done.stdout]
    return f"it does not show {missing}\n{said}" if missing else ""


def shows_something(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a command told a reader anything but that there is nothing."""
    lines = f"{done.stdout}\n{done.stderr}".splitlines()
    return any(line.strip() and not line.startswith("No resources found") for line in lines)


def typed(
    command: str, environment: dict[str, str], *, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Return what came of a command that a reader types, whatever its exit code."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-ec", command],
        cwd=ROOT,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


@pytest.mark.nightly
def test_make_up_leaves_a_cluster_and_make_down_ends_it(tmp_path: Path) -> None:
    def make(target: str) -> str:
        done = subprocess.run(
            ["make", "--no-print-directory", target, f"DEMO_DIR={tmp_path / 'up'}"],
            cwd=ROOT,
            env=outside_make(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    printed = make("up")
    try:
        again = make("up")
        assert exported(again) == exported(printed), "a second one says the same of what runs"
        assert "make down" in again

        def run(commands: str) -> str:
            shown = subprocess.run(
                ["bash", "-ec", f"{exported(printed)}\n{commands}"],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                env=outside_make({**os.environ, "PATH": without_the_plugin(os.environ["PATH"])}),
            )  # fmt: skip
            assert shown.returncode == 0, shown.stdout
            return shown.stdout

        assert "12 up to date" in run(
            "kubectl apply -f deploy/samples/win-2022.yaml\n"
            "kubectl wait --for=condition=NodesUpToDate --timeout=60s wnp/win-2022\n"
            "kubectl winpool status win-2022"
        )
        (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/metrics", printed)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"winpool_nodes" in answer.read()
        tried = [command.removesuffix(" -w") for command in blocks_of(GETTING_STARTED, "Try memory pressure")]
        begin, end = tried[:5], tried[5:]
        watched = [run(command) for command in begin]
        assert all(
            "POOL" in shown for command, shown in zip(begin, watched, strict=True) if " memory" in command
        )
        events = "kubectl get events --field-selector reason=PodEvicted"
        assert end[0] == events
        eventually(lambda: "worker" in run(events), what="the eviction of the pod that leaks", every=1)
        assert "memory-evict" in [run(command) for command in end][-1]
        observe = """'{"spec":{"memoryPressure":{"mode":"Observe"}}}'"""
        healthy = run(
            f"kubectl patch wnp win-2022 --type=merge -p {observe}\n"
            "kubectl wait --for=condition=MemoryHealthy --timeout=60s wnp/win-2022\n"
            "kubectl winpool memory wnp/win-2022"
        )
        assert len(re.findall(r"^win-w\d\d .* Normal ", healthy, re.MULTILINE)) == 12, healthy
    finally:
        make("down")
    with pytest.raises(Exception, match="no testbed runs"):
        Testbed.attach(tmp_path / "up")
    assert "make up" in make("down"), "a second one says that nothing runs, and what starts it"


def exported(printed: str) -> str:
    """Return the lines for a shell that ``make up`` prints."""
    return "\n".join(line for line in printed.splitlines() if line.startswith("export "))


def without_the_plugin(path: str) -> str:
    """Return a PATH on which kubectl finds no plugin of ours."""
    folders = path.split(os.pathsep)
    return os.pathsep.join(each for each in folders if not Path(each, "kubectl-winpool").exists())
