"""Random worlds of pools with upgrades through the real loops: none is busy, and each comes to rest (P2).

WINPOOL_WORLDS says how many, as for worlds without upgrades: a fortieth, since each lasts for hours in which
pods are listed, and fifty at least.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import pytest

from harness.restless_upgrades import RestlessUpgrades
from harness.virtual_time import run_virtually
from winpool.controllers import machines as version_reads
from winpool.controllers import pod_pass
from winpool.controllers import pools as relister
from winpool.kube.backoff import Backoff

WORLDS = max(50, int(os.environ.get("WINPOOL_WORLDS", "150")) // 40)
FIRST = int(os.environ.get("WINPOOL_FIRST_WORLD", "0"))
CHUNK = 25
CHUNKS = [range(first, min(first + CHUNK, FIRST + WORLDS)) for first in range(FIRST, FIRST + WORLDS, CHUNK)]

SETTLE_SECONDS = 7200.0
"""Longer than validation takes, than surprises are known, and than overrides hold."""

REST_SECONDS = 6 * 3600.0


@pytest.fixture
def rolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all chance come from the number of the world."""
    for module in (pod_pass, relister, version_reads):
        monkeypatch.setattr(module, "uniform", random.uniform)
    defaults = Backoff.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "uniform", random.uniform)


@pytest.mark.slow
@pytest.mark.parametrize("worlds", CHUNKS, ids=lambda worlds: str(worlds[0]))
@pytest.mark.usefixtures("rolled")
def test_each_world_comes_to_rest_and_writes_nothing_more(worlds: range) -> None:
    async def play() -> None:
        for number in worlds:
            random.seed(number)
            world = RestlessUpgrades(random.Random(number))
            try:
                await world.play()
                since = world.cluster.time + SETTLE_SECONDS
                await asyncio.sleep(SETTLE_SECONDS + REST_SECONDS if world.is_healed else 600)
            finally:
                await world.stop()
            if world.is_healed:
                check_rests(world, since, f"world {number}:\n{world}")

    run_virtually(play())


def check_rests(world: RestlessUpgrades, since: float, said: str) -> None:
    """No write, and no pass but after a list of all pods and where a moment has come that a rule names."""
    writes = [(each.at, each.kind, each.name) for each in world.cluster.writes if each.at >= since]
    assert writes == [], said
    passes = Counter(name for operator in world.operators for at, name in operator.passes if at >= since)
    for name, count in passes.items():
        assert count <= 8 * REST_SECONDS / 600, f"{count} passes of {name}; {said}"
