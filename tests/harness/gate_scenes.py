"""For each gate three worlds that differ in what it judges: it is open, closed, or not known.

In all of them the node w1 is due, every other gate permits its upgrade, and there is a slot for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace

from harness.builders import NOON
from harness.upgrade_feature import BEHIND, settled_node, settled_nodes, upgrade_pool, upgrade_snapshot
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.upgrade import Gate
from winpool.model.node import Node
from winpool.model.pods import Block, BlockedBy, DeclaredBuild, PodShape, Requests, Workload
from winpool.model.snapshot import Snapshot

NEWER: Final[Mapping[str, Any]] = {"version": "2025"}
REQUESTED: Final = {UPGRADE_REQUESTED_ANNOTATION: ""}
UNKNOWN_RELEASE: Final = {"version": "2028"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A world; ``upgrade`` and ``more`` are as in a manifest, ``seen`` goes to ``upgrade_snapshot``."""

    nodes: Callable[[], list[Node]] = settled_nodes
    upgrade: Mapping[str, Any] | None = None
    os: Mapping[str, Any] | None = None
    more: Mapping[str, Any] | None = None
    seen: Mapping[str, Any] | None = None
    changed: Callable[[WindowsNodePoolSpec], WindowsNodePoolSpec] = lambda spec: spec

    def snapshot(self, **upgrade: Any) -> Snapshot:
        """Return the world; ``upgrade`` are more fields of ``spec.upgrade``."""
        pool = upgrade_pool(
            {"maxUnavailable": "100%", **(self.upgrade or {}), **upgrade},
            os=BEHIND if self.os is None else self.os,
            more=self.more,
        )
        assert pool.spec is not None
        pool = replace(pool, spec=self.changed(pool.spec))
        return upgrade_snapshot(pool, self.nodes(), **(self.seen or {}))


@dataclass(frozen=True, slots=True)
class GateScenes:
    """The three worlds of one gate; ``says`` is a part of the message where it is closed."""

    gate: Gate
    open: Scene
    closed: Scene
    unknown: Scene
    says: str


def row(version: str, **more: Any) -> dict[str, Any]:
    """Return a spec with one row of the support matrix."""
    return {"supportMatrix": [{"osVersion": version, **more}]}


def restless(number: int, *, minutes: float, of: int = 10) -> list[Node]:
    """Return nodes of which some changed Ready so many minutes ago."""
    since = NOON - timedelta(minutes=minutes)
    return [
        replace(node, ready_since=since) if place < number else node
        for place, node in enumerate(settled_nodes(of))
    ]


def silent(number: int) -> list[Node]:
    """Return nodes of which it is not known since when they are Ready."""
    return [replace(node, ready_since=None) for node in settled_nodes(number)]


def unreadable_budget(spec: WindowsNodePoolSpec) -> WindowsNodePoolSpec:
    """Return a spec with a budget that no API server would have accepted."""
    assert spec.upgrade is not None
    return spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"max_unavailable": "few"})})


def large(number: int = 1, *, unclear: str = "") -> Workload:
    """Return pods of which each needs most of a node."""
    shape = PodShape(Requests(cpu_milli=3000, memory=0, pods=1), unclear=unclear)
    return Workload(used=Requests(3000 * number, 0, number), moving=((shape, number),))


def declares(build: str, *, is_bound: bool = False) -> Workload:
    """Return a pod that declares the build that it is made for."""
    return Workload(declared=(DeclaredBuild(build, is_bound=is_bound),))


def blocked(why: BlockedBy) -> Workload:
    """Return a pod that cannot be evicted."""
    return Workload(blocks=(Block("a/b", why, ("budget",)),), blocked=1)


REPLACE: Final = {"method": "Replace"}
FULL: Final = Workload(used=Requests(cpu_milli=3500, memory=0, pods=3))

SCENES: Final = (
    GateScenes(
        Gate.SUPPORT_MATRIX,
        open=Scene(),
        closed=Scene(more=row("2022", kubernetesVersions={"max": "1.35"})),
        unknown=Scene(seen={"control_plane": "v1.38.0"}),
        says="allows Windows Server 2022 with Kubernetes up to 1.35 only",
    ),
    GateScenes(
        Gate.END_OF_SUPPORT,
        open=Scene(),
        closed=Scene(more=row("2022", endOfSupport="2026-10-31")),
        unknown=Scene(
            os=UNKNOWN_RELEASE,
            upgrade=REPLACE,
            more=row("2028", build="10.0.30000", verdict="Allow"),
        ),
        says="ended on 2026-10-31",
    ),
    GateScenes(
        Gate.REVISION_FLOOR,
        open=Scene(),
        closed=Scene(
            changed=lambda spec: spec.model_copy(
                update={"os": spec.os.model_copy(update={"min_revision": 6000})}
            )
        ),
        unknown=Scene(
            os=UNKNOWN_RELEASE,
            upgrade=REPLACE,
            more=row("2028", verdict="Allow", endOfSupport="2030-01-01"),
        ),
        says="is 5000, below revision 6000",
    ),
    GateScenes(
        Gate.RELEASE_CHANGE,
        open=Scene(os=NEWER, upgrade=REPLACE),
        closed=Scene(os=NEWER),
        unknown=Scene(
            nodes=lambda: [settled_node(kernel="10.0.99999.1", annotations=REQUESTED)], os={"version": "2022"}
        ),
        says="Windows Server 2022 runs there",
    ),
    GateScenes(
        Gate.VERSION_SKEW,
        open=Scene(),
        closed=Scene(nodes=lambda: settled_nodes(kubelet="v1.37.0")),
        unknown=Scene(nodes=lambda: settled_nodes(kubelet="gibberish")),
        says="A kubelet must never be newer",
    ),
    GateScenes(
        Gate.CONTROL_PLANE,
        open=Scene(seen={"settled": timedelta(minutes=15)}),
        closed=Scene(seen={"settled": timedelta(minutes=14, seconds=59)}),
        unknown=Scene(seen={"settled": None}),
        says="reports the version v1.36.3 only since 2026-11-01T11:45:01Z",
    ),
    GateScenes(
        Gate.MAINTENANCE_WINDOW,
        open=Scene(upgrade={"maintenanceWindows": [{"schedule": "0 12 * * *", "durationSeconds": 3600}]}),
        closed=Scene(upgrade={"maintenanceWindows": [{"schedule": "0 22 * * 6", "durationSeconds": 3600}]}),
        unknown=Scene(
            upgrade={
                "maintenanceWindows": [
                    {"schedule": "0 12 * * *", "durationSeconds": 3600, "timeZone": "Middle/Earth"}
                ]
            }
        ),
        says="No maintenance window is open",
    ),
    GateScenes(
        Gate.POOL_HEALTH,
        open=Scene(nodes=lambda: restless(3, minutes=1)),
        closed=Scene(nodes=lambda: restless(4, minutes=1)),
        unknown=Scene(nodes=lambda: silent(4)),
        says="changed their condition Ready within ten minutes",
    ),
    GateScenes(
        Gate.CAPACITY,
        open=Scene(seen={"workloads": {"w1": large()}}),
        closed=Scene(seen={"workloads": {"w1": large(), "w2": FULL, "w3": FULL}}),
        unknown=Scene(seen={"workloads": {"w1": large(unclear="a volume")}}),
        says="cannot take all pods",
    ),
    GateScenes(
        Gate.IMAGES,
        open=Scene(os=NEWER, upgrade=REPLACE, seen={"workloads": {"w1": declares("10.0.20348")}}),
        closed=Scene(os=NEWER, upgrade=REPLACE, seen={"workloads": {"w1": declares("10.0.17763")}}),
        unknown=Scene(os=NEWER, upgrade=REPLACE, seen={"workloads": {"w1": Workload(undeclared=1)}}),
        says="declare the Windows build 10.0.17763",
    ),
    GateScenes(
        Gate.BUDGET,
        open=Scene(),
        closed=Scene(
            nodes=lambda: [*settled_nodes(2), settled_node("w3", unschedulable=True)],
            upgrade={"maxUnavailable": 1},
        ),
        unknown=Scene(changed=unreadable_budget),
        says="are unavailable as spec.upgrade.maxUnavailable (1) permits",
    ),
    GateScenes(
        Gate.DISRUPTION_BUDGETS,
        open=Scene(),
        closed=Scene(seen={"workloads": {"w1": blocked(BlockedBy.NONE_ALLOWED)}}),
        unknown=Scene(seen={"workloads": {"w1": Workload(budgets_known=False)}}),
        says="allows no disruption now",
    ),
)
