"""What a pool wants to know of the memory of its nodes: the settings of the detector, and the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from winpool.api.memory_pressure import MemoryMode
from winpool.memory.configured import settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.memory.settings import DetectorSettings
    from winpool.objects.pool import Pool


class Series(NamedTuple):
    """The series of a data source, and the label that has the name of the node."""

    data_source: str
    label: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pool wants, at one generation of its spec.

    ``evicts``: the pool evicts pods, so those of hot nodes are of interest. ``sources`` has the series of
    each by its name, the preferred first, and None for the kubelets.
    """

    pool: str
    pool_uid: str
    generation: int
    settings: DetectorSettings
    evicts: bool
    sources: Mapping[str, Series | None]

    @property
    def kubelet(self) -> str | None:
        """The name of the source that is the kubelets, None where the pool reads none."""
        return next((name for name, series in self.sources.items() if series is None), None)

    def is_of(self, pool: Pool) -> bool:
        """Whether it is what ``pool`` wants."""
        return (self.pool_uid, self.generation) == (pool.uid, pool.generation)


def wanted_by(pool: Pool) -> Wanted | None:
    """Return what ``pool`` wants; None where it has no ``memoryPressure``, or its spec cannot be read."""
    pressure = None if pool.spec is None else pool.spec.memory_pressure
    if pressure is None:
        return None
    return Wanted(
        pool=pool.name,
        pool_uid=pool.uid,
        generation=pool.generation,
        settings=settings_of(pressure),
        evicts=pressure.mode is MemoryMode.EVICT,
        sources={
            each.name: None
            if each.prometheus is None
            else Series(each.prometheus.data_source, each.prometheus.node_label)
            for each in pressure.sources
        },
    )
