"""Nodes whose memory is watched, as /memory reports them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from harness.memory import GIB
from winpool.model.memory_report import MemoryReport, SeenNode, report_of
from winpool.model.pressure import Axis, AxisPressure, Hold, Level, NodePressure, Reading

AT: Final = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
MONOTONIC: Final = 5000.0

COMMIT: Final = AxisPressure(
    axis=Axis.COMMIT,
    level=Level.NORMAL,
    held=Level.NORMAL,
    since=None,
    ready_since=None,
    sampled_at=MONOTONIC - 4,
    source="Kubelet",
    reading=Reading(Axis.COMMIT, left=12 * GIB, whole=24 * GIB),
    seconds_left=None,
    missing=0.0,
    hold=Hold.NO_PRESSURE,
)
PHYSICAL: Final = replace(
    COMMIT,
    axis=Axis.PHYSICAL,
    source="Prometheus/main",
    reading=Reading(
        Axis.PHYSICAL,
        left=8 * GIB,
        whole=16 * GIB,
        hard_reads_per_second=20.0,
        write_out_per_second=3.0,
    ),
)
HEALTHY: Final = NodePressure(
    axes={Axis.COMMIT: COMMIT, Axis.PHYSICAL: PHYSICAL},
    guard=None,
    is_signalled=False,
    outside_pods=2.0 * GIB,
)


def committed(level: Level, *, left: float, seconds_left: float | None = None) -> NodePressure:
    """Return a node with that level on COMMIT since a minute ago, and ``left`` GiB of 24."""
    commit = replace(
        COMMIT,
        level=level,
        held=level,
        since=MONOTONIC - 60,
        reading=Reading(Axis.COMMIT, left=left * GIB, whole=24 * GIB),
        seconds_left=seconds_left,
        hold=Hold.GRACE,
    )
    return replace(HEALTHY, axes={Axis.COMMIT: commit, Axis.PHYSICAL: PHYSICAL})


def unknown() -> NodePressure:
    """Return a node whose samples are too old to know anything now."""
    axes = {
        axis: replace(view, level=None, sampled_at=MONOTONIC - 400, hold=Hold.UNKNOWN)
        for axis, view in HEALTHY.axes.items()
    }
    return replace(HEALTHY, axes=axes)


@dataclass(frozen=True)
class Known:
    """What is known of ``nodes``; it is its own source and its own snapshot."""

    nodes: tuple[SeenNode, ...]

    def snapshot(self) -> Callable[[], MemoryReport]:
        return self.report

    def report(self) -> MemoryReport:
        return report_of(self.nodes, monotonic=MONOTONIC, now=AT)


def healthy(count: int) -> Known:
    """Return as many nodes that are well."""
    return Known(tuple(SeenNode(f"akswin{number:06}", "win-2022", HEALTHY) for number in range(count)))
