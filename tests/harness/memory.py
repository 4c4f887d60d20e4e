"""Nodes whose memory is sampled: samples, and a clock that runs from one to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from winpool.features.memory.detector import known_at, step
from winpool.features.memory.settings import DetectorSettings
from winpool.model.pressure import NO_SAMPLES, Axis, AxisPressure, Hold, Level, MemorySample, NodePressure

GIB: Final = 2**30
MIB: Final = 2**20

KUBELET: Final = "Kubelet"
PROMETHEUS: Final = "Prometheus/main"

RAM: Final = 16 * GIB
CEILING: Final = 24 * GIB
"""Of a node with a page file of 8 GiB. Warning begins at 19.2 GiB, Soft at 21.6, Hard at 23."""

INTERVAL: Final = 10.0
"""Of a hot node."""

KUBELET_ONLY: Final = DetectorSettings()
BOTH: Final = DetectorSettings(sources=(KUBELET, PROMETHEUS))
EXPORTER_ONLY: Final = DetectorSettings(sources=(PROMETHEUS,))

PAGING: Final = {"hard_reads_per_second": 2000, "write_out_per_second": 500}
"""Rates of a node that does little but paging."""


def a_sample(
    at: float,
    *,
    source: str = KUBELET,
    taken_at: float | None = None,
    interval: float = INTERVAL,
    **values: Any,
) -> MemorySample:
    """Return a sample that was taken when it arrived, unless ``taken_at`` says otherwise."""
    own = at if taken_at is None else taken_at
    return MemorySample(source, arrived_at=at, taken_at=own, interval_seconds=interval, **values)


def committed(gib: float, **more: float | None) -> dict[str, Any]:
    """Return the values of a node that has committed ``gib`` of its 24 GiB, all of it by pods and Windows."""
    return {
        "commit_total": gib * GIB,
        "commit_limit": CEILING,
        "physical_total": RAM,
        "pods_commit": gib * GIB - 2 * GIB,
    } | more


def available(gib: float, **more: float | None) -> dict[str, Any]:
    """Return the values of a node with ``gib`` of its 16 GiB of RAM available."""
    return {"physical_total": RAM, "physical_available": gib * GIB} | more


@dataclass
class Watched:
    """A node that is polled."""

    settings: DetectorSettings = KUBELET_ONLY
    source: str = KUBELET
    interval: float = INTERVAL
    now: float = 1000.0
    state: NodePressure = field(default=NO_SAMPLES)

    def poll(self, *, after: float | None = None, **values: Any) -> NodePressure:
        """Take a sample after one interval, or so many seconds, and return what is known then."""
        self.now += self.interval if after is None else after
        defaults: dict[str, Any] = {"source": self.source, "interval": self.interval}
        sample = a_sample(self.now, **(defaults | values))
        self.state = step(self.state, sample, self.settings)
        return self.view()

    def polls(self, count: int, **values: Any) -> NodePressure:
        """Take so many equal samples."""
        for _ in range(count):
            self.poll(**values)
        return self.view()

    def start(self, **values: Any) -> NodePressure:
        """Take the first sample, which only shows from which time on the next one has to be."""
        return self.poll(**values)

    def view(self) -> NodePressure:
        """What is known now."""
        return known_at(self.state, now=self.now, settings=self.settings)

    def axis(self, axis: Axis) -> AxisPressure:
        """Return what is known of an axis now."""
        return self.view().axes[axis]

    def commit(self) -> Level | None:
        """The level of COMMIT."""
        return self.axis(Axis.COMMIT).level

    def physical(self) -> Level | None:
        """The level of PHYSICAL."""
        return self.axis(Axis.PHYSICAL).level

    def hold(self) -> Hold | None:
        """What keeps from evicting for COMMIT; None where nothing does."""
        return self.axis(Axis.COMMIT).hold

    def physical_hold(self) -> Hold | None:
        """What keeps from evicting for PHYSICAL; None where nothing does."""
        return self.axis(Axis.PHYSICAL).hold
