"""A control plane with an operator that watches the memory of simulated Windows nodes.

What the tests of memory pressure assume of the operator beyond its API is in this file: how it is installed,
its settings, and the names under which it reports. The names are those of the issue and of design.md.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from cluster.evictions import Evictions
from cluster.memory_pods import VAULT
from harness.documents import ROOT
from harness.operator import USER, Operator
from harness.watcher import Watcher
from harness.world import NODES, World
from testbed.audit import AuditRecord
from testbed.cluster import Testbed
from testbed.prometheus_config import ScrapeJob
from testbed.prometheus_server import Prometheus
from testbed.winsim.control import FleetControl

Object = dict[str, Any]

# How it is installed

COMPONENT: Final = ROOT / "deploy" / "components" / "memory"
"""Brings what only this needs: the reader's account and its token, ``nodes/status``, ``pods/eviction``."""
READER: Final = "winpool-kubelet-reader"
READER_USER: Final = f"system:serviceaccount:winpool-system:{READER}"

# Settings of the operator

POLL_SECONDS: Final = 3
HOT_POLL_SECONDS: Final = 2
"""A simulated node reads its counters once a second, so that each sample has a time of its own."""


def settings(testbed: Testbed) -> dict[str, str]:
    """Return the environment of an operator that polls the kubelets of a testbed."""
    return {
        "WINPOOL_MEMORY_POLL_SECONDS": str(POLL_SECONDS),
        "WINPOOL_MEMORY_HOT_POLL_SECONDS": str(HOT_POLL_SECONDS),
        "WINPOOL_KUBELET_CA_FILE": str(testbed.kubelet_ca_file),
        "WINPOOL_KUBELET_ADDRESS_RANGES": "127.0.0.0/8",
        "WINPOOL_PROTECTED_NAMESPACES": VAULT,
    }


DATA_SOURCE: Final = "main"


def data_source(directory: Path, url: str) -> dict[str, str]:
    """Return the environment of an operator that knows a Prometheus by the name ``DATA_SOURCE``."""
    file = directory / "data-sources.yaml"
    source = {"name": DATA_SOURCE, "url": url, "scrapeIntervalSeconds": 1}
    file.write_text(yaml.safe_dump({"dataSources": [source]}))
    return {"WINPOOL_DATA_SOURCES_FILE": str(file)}


@contextmanager
def scraping(testbed: Testbed, targets: Mapping[str, str]) -> Iterator[str]:
    """Run a real Prometheus that scrapes these exporters, by the names of their nodes; yield its URL."""
    with Prometheus(testbed, jobs=[ScrapeJob(name="windows-exporter", targets=targets)]) as running:
        yield running.url


# Names under which it reports

CONDITION: Final = "WindowsMemoryPressure"
"""Of a node."""
HEALTHY: Final = "MemoryHealthy"
"""Condition of a pool."""
SYSTEMIC: Final = "SystemicPressure"
"""Reason of Ready."""
BLOCKED: Final = "EvictionBlocked"
UNATTRIBUTED: Final = "UnattributedMemory"
"""Reasons of issues and of events."""
DETECTED: Final = "MemoryPressureDetected"
EVICTED: Final = "PodEvicted"
CLEARED: Final = "MemoryPressureCleared"
"""Reasons of events, about the node or the pool."""

# Times and sizes

CLEAR_SECONDS: Final = 60
"""The least that the spec allows."""
PERIOD_SECONDS: Final = 60
"""The same, of evictions."""
PATIENCE_SECONDS: Final = 120.0
"""For what follows from samples at once, or after a grace of seconds: a guard, not an expectation."""
LONG_SECONDS: Final = 240.0
"""For what comes after clearing, settling or a period: two of these minutes, and as much again."""
HOLD_SECONDS: Final = 8.0 * HOT_POLL_SECONDS
"""How long what must not happen is waited for: eight samples, of which two would be enough for it."""
EVERY_SECONDS: Final = 1.0
"""Between two looks. A dozen tests look at the same time."""

PAGE_FILE: Final = "8096Mi"
"""Fixed, as on AKS. With 16 GiB of RAM a machine can commit 23.9 GiB, of which Windows has 1.1 itself."""
MACHINE: Final = "16776756Ki/2548Mi/none/0Ki"
"""Its kubelet evicts nothing for memory."""
SEEING: Final = (
    "--kubelet-port=0",
    "--exporter-port=0",
    "--status-sync-seconds=1",
    f"--windows-memory={MACHINE}",
    f"--windows-page-file={PAGE_FILE}",
    "--pod-stats-from-cri",
)
"""Arguments of simulated nodes whose kubelets report the commit of pods."""
BLIND: Final = tuple(each for each in SEEING if each != "--pod-stats-from-cri")
"""Those of nodes whose kubelets do not: what kubelets do by default."""


def block(mode: str, *, eviction: Mapping[str, Any] | None = None, **more: Any) -> Object:
    """Return ``spec.memoryPressure`` with the shortest times that it may have."""
    limits = {"minPodAgeSeconds": 0, "periodSeconds": PERIOD_SECONDS, **(eviction or {})}
    return {
        "mode": mode,
        "pageFile": {"type": "Fixed", "maxSize": PAGE_FILE},
        "commit": SOON_HARD,
        "softGraceSeconds": 0,
        "clearAfterSeconds": CLEAR_SECONDS,
        "eviction": limits,
        **more,
    }


NEVER_HARD: Final = {
    "warningUsedPercent": 80,
    "softUsedPercent": 90,
    "hardHeadroom": "64Mi",
    "hardEtaSeconds": 1,
}
"""Thresholds with which a node at 93 % is at Soft however it got there: signalled, and no pod is evicted."""
SOON_HARD: Final = {**NEVER_HARD, "hardHeadroom": "2Gi"}
"""Thresholds with which such a node is at Hard."""


@dataclass(frozen=True)
class Ground:
    """What the scenarios of one file share. Many threads use it at the same time.

    ``fleets`` has the control of each node's simulated fleet, by the node's name.
    """

    world: World
    watcher: Watcher
    evictions: Evictions
    fleets: Mapping[str, FleetControl]
    blind: Sequence[str] = ()
    _audit: threading.Lock = field(default_factory=threading.Lock)

    def asked(self, *, since: datetime) -> list[AuditRecord]:
        """Return what the operator asked of the API server; the audit log is read by one thread at a time."""
        with self._audit:
            return self.world.requests(since=since)

    def asked_by(self, user: str, *, since: datetime) -> list[AuditRecord]:
        """Return what somebody asked of the API server."""
        with self._audit:
            self.world.testbed.settle_audit()
            return self.world.testbed.audit.requests(user=user, since=since)


def installation(directory: Path) -> Path:
    """Write a kustomization of all of winpool but its Deployment, with memory pressure; return its folder."""
    folder = directory / "installation"
    folder.mkdir()

    def relative(path: Path) -> str:
        return os.path.relpath(path, folder)

    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [relative(ROOT / "crds"), relative(ROOT / "deploy" / "operator")],
        "components": [
            relative(COMPONENT),
            relative(ROOT / "deploy" / "components" / "outside-the-cluster"),
        ],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return folder


@contextmanager
def control_plane(directory: Path) -> Iterator[Testbed]:
    """Run a control plane of its own, with winpool and memory pressure installed and no nodes yet."""
    with Testbed.up(directory=directory / "testbed", apply=[installation(directory)]) as testbed:
        yield testbed


def watching_operator(world: World, *, environment: Mapping[str, str] | None = None) -> Operator:
    """Return an operator that polls kubelets, under its own account, not started yet."""
    return Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "operator.log",
        environment={**settings(world.testbed), **(environment or {})},
    )


@contextmanager
def machines(world: World, *, seeing: int, blind: int = 0, extra: Sequence[str] = ()) -> Iterator[Ground]:
    """Run both kinds of simulated nodes in a world, and witnesses of what is done to them.

    ``extra`` are further arguments of the simulator.
    """
    fleets: dict[str, FleetControl] = {}
    names: dict[tuple[str, ...], list[str]] = {}
    for number, (arguments, count) in enumerate(((SEEING, seeing), (BLIND, blind))):
        if count:
            socket = world.directory / f"fleet{number}.sock"
            found = world.fleet(windows=count, extra=(*arguments, *extra, f"--control-socket={socket}"))
            names[arguments] = found
            fleets |= dict.fromkeys(found, FleetControl(socket))
    with world.watch_nodes() as watcher, Evictions(world.testbed) as evictions:
        yield Ground(world, watcher, evictions, fleets, blind=names.get(BLIND, ()))


@contextmanager
def ground(
    directory: Path,
    *,
    seeing: int,
    blind: int = 0,
    extra: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Ground]:
    """Run a control plane, the operator, and nodes that it can poll."""
    with control_plane(directory) as testbed:
        world = World(testbed, directory=directory)
        world.operator = watching_operator(world, environment=environment)
        try:
            with machines(world, seeing=seeing, blind=blind, extra=extra) as stage:
                world.operator.start()
                yield stage
        finally:
            world.close()


def label(world: World, node: str, **labels: str) -> None:
    """Give a node labels of example.com, as a cluster admin."""
    named = {f"example.com/{key}": value for key, value in labels.items()}
    world.testbed.api().merge(f"{NODES}/{node}", {"metadata": {"labels": named}})


def taken(records: Sequence[AuditRecord]) -> list[AuditRecord]:
    """Return the writes of the operator that the API server took, without those to a Lease."""
    return [
        each
        for each in records
        if each.user == USER and each.writes and each.resource != "leases" and each.code in (200, 201)
    ]
