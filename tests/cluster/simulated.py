"""Simulated nodes for a test: a process of its own, with a prefix that no other test uses."""

from __future__ import annotations

import signal
import subprocess
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from testbed.cluster import Testbed
from testbed.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Fourteen nodes take 0.4 s on a quiet machine.
BRING_UP_SECONDS: Final = 60.0
# A process that has been told to end does so in 0.1 s on a quiet machine.
END_SECONDS: Final = 20.0
# Two heartbeat intervals of 10 s, and backoff.
HEARTBEAT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Nodes:
    """One winsim process and the nodes that it simulates."""

    testbed: Testbed
    prefix: str
    process: subprocess.Popen[bytes]
    log: Path

    def all(self) -> dict[str, dict[str, Any]]:
        found = self.testbed.api().get("/api/v1/nodes")["items"]
        return {
            node["metadata"]["name"]: node
            for node in found
            if node["metadata"]["name"].startswith(f"{self.prefix}-")
        }

    def get(self, name: str) -> dict[str, Any]:
        return self.all()[f"{self.prefix}-{name}"]

    def leases(self) -> dict[str, dict[str, Any]]:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        found = self.testbed.api().get(path)["items"]
        return {
            lease["metadata"]["name"]: lease
            for lease in found
            if lease["metadata"]["name"].startswith(f"{self.prefix}-")
        }

    def end(self) -> int:
        """Tell the process to end, as its supervisor does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_SECONDS)


@contextmanager
def simulated(
    testbed: Testbed,
    directory: Path,
    *extra: str,
    windows: int,
    linux: int = 0,
    prefix: str | None = None,
) -> Iterator[Nodes]:
    """Run winsim with a prefix that no other test uses, and hand it over when its nodes are Ready."""
    name = prefix or f"t{uuid.uuid4().hex[:8]}"
    run = uuid.uuid4().hex[:8]
    ready, log = directory / f"{run}.ready", directory / f"{run}.log"
    arguments = ["--prefix", name, "--ready-file", str(ready), *extra]
    command = testbed.winsim_command(windows=windows, linux=linux, extra=arguments)
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_until(
                lambda: ready.exists() or process.poll() is not None,
                what=f"{windows + linux} simulated nodes to be Ready",
                timeout_seconds=BRING_UP_SECONDS,
                explain=log.read_text,
            )
            assert process.poll() is None, log.read_text()
            yield Nodes(testbed, name, process, log)
        finally:
            process.kill()
            testbed.kubectl(
                "delete", "node", "--ignore-not-found", *names_of(name, windows=windows, linux=linux)
            )


def names_of(prefix: str, *, windows: int, linux: int) -> Sequence[str]:
    return [
        *(f"{prefix}-w{number:02d}" for number in range(1, windows + 1)),
        *(f"{prefix}-l{number:02d}" for number in range(1, linux + 1)),
    ]


def condition(node: dict[str, Any], kind: str) -> dict[str, Any]:
    found = [each for each in node["status"]["conditions"] if each["type"] == kind]
    assert len(found) == 1, f"{kind} in {node['status']['conditions']}"
    return dict(found[0])


def taints(node: dict[str, Any]) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints", [])}
