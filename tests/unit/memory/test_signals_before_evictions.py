"""A node from which a pod may be evicted is signalled by then, whatever the grace of Soft is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.memory import GIB
from winpool.features.memory.detector import known_at, step
from winpool.features.memory.settings import DetectorSettings
from winpool.model.pressure import NO_SAMPLES, MemorySample

SETTINGS = DetectorSettings()
EVERY_SECONDS = 2.0


@pytest.mark.parametrize("grace", [0.0, 5.0, 29.0, 30.0, 90.0])
def test_no_eviction_is_right_on_a_node_that_is_not_signalled(grace: float) -> None:
    settings, state, evictable = replace(SETTINGS, soft_grace_seconds=grace), NO_SAMPLES, 0
    for number in range(60):
        at = 1000.0 + number * EVERY_SECONDS
        sample = MemorySample(
            "Kubelet",
            arrived_at=at,
            taken_at=at,
            interval_seconds=EVERY_SECONDS,
            physical_total=16 * GIB,
            physical_available=1.2 * GIB,
            hard_reads_per_second=2000,
            write_out_per_second=500,
        )
        state = step(state, sample, settings)
        view = known_at(state, now=at, settings=settings)
        if view.evictable:
            evictable += 1
            assert view.is_signalled, f"after {number * EVERY_SECONDS} s"
    assert evictable > 0
