"""The samples, applied one after the other, each after what its first comment says to do before."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import eventually
from harness.world import World

SAMPLES = sorted((Path(__file__).parents[2] / "deploy" / "samples").glob("*.yaml"))


@pytest.fixture
def ground(world: World) -> Iterator[World]:
    """Nodes for all selectors of the samples, and an operator; no pool of a sample is left."""
    world.fleet(windows=2, labels={"agentpool": "win22"})
    world.fleet(samples=["2019"], labels={"agentpool": "win19"})
    world.fleet(windows=1, labels={"agentpool": "batch"})
    world.operator.start()
    try:
        yield world
    finally:
        names = (f"wnp/{sample.stem}" for sample in SAMPLES)
        world.kubectl("delete", *names, "--ignore-not-found", "--timeout=60s")


def first_comment(sample: Path) -> str:
    return sample.read_text().partition("apiVersion:")[0]


def excludes_others(sample: Path) -> bool:
    return "`kubectl delete wnp NAME`" in first_comment(sample)


def judged(world: World, name: str) -> Any:
    """Return the pool once the operator has judged it, and None before."""
    pool = world.get("wnp", name)
    status = pool.get("status", {})
    return pool if status.get("observedGeneration") == pool["metadata"]["generation"] else None


@pytest.mark.nightly
def test_samples_in_the_order_of_their_list_share_no_node(ground: World) -> None:
    applied: list[Path] = []
    for sample in SAMPLES:
        if excludes_others(sample):
            for other in filter(excludes_others, applied):
                ground.kubectl("delete", "-f", str(other), "--timeout=60s")
            applied = [other for other in applied if not excludes_others(other)]
        ground.kubectl("apply", "-f", str(sample))
        applied.append(sample)
        for each in applied:
            pool = eventually(partial(judged, ground, each.stem), what=f"{each.stem} judged")
            assert "PoolOverlap" not in str(pool["status"]), f"{each.stem} after {sample.stem}"
            assert pool["status"]["nodes"] >= 1, each.stem
