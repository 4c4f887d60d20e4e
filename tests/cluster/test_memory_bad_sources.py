"""Whatever is wrong with a Prometheus: the pool reports it and what to do, and nothing else (P4, P7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.hostile_prometheus import OUTCOMES, TOKEN, HostileSources, hostile_sources
from cluster.memory_pods import SOFT
from cluster.memory_scene import Scene
from cluster.memory_world import EVERY_SECONDS, HEALTHY, HOLD_SECONDS, PATIENCE_SECONDS, ground
from harness.waiting import eventually, holds
from winpool.features.memory.settings import FRESH_SECONDS
from winpool.kubelet.prometheus import MAX_QUERIES
from winpool.kubelet.samples import PROMETHEUS_SENTENCES, Outcome

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
"""The first test waits for the control plane, and for the pods of all."""

Object = dict[str, Any]

LONGEST_SECONDS: Final = 300
"""Of the whole file, so that the number of requests has a limit: a set of queries that fails is repeated
after 3, 6, 12, 24, … seconds."""
TOLD_SECONDS: Final = FRESH_SECONDS + PATIENCE_SECONDS
"""A guard. A source that has sent no sample yet is a problem after FRESH_SECONDS, and is reported then."""
SETS: Final = 9
"""Sets of queries within that time, and two more for a source that is asked before it is known to fail."""
MEMORY_LIMIT_KIB: Final = 512 * 1024
"""What the Deployment gives the operator."""


@dataclass(frozen=True)
class Played:
    """A pool for each data source with which something is wrong, with a node whose pod would be evicted."""

    sources: HostileSources
    scenes: dict[str, Scene]
    hogs: dict[str, str]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    directory = tmp_path_factory.mktemp("sources")
    with (
        hostile_sources(directory) as sources,
        ground(
            directory,
            seeing=len(OUTCOMES),
            environment={"WINPOOL_DATA_SOURCES_FILE": str(sources.file)},
        ) as stage,
    ):
        scenes = {
            name: Scene(stage, key=name, nodes=[node])
            for name, node in zip(OUTCOMES, stage.fleets, strict=True)
        }
        hogs = {name: scene.pods.run("hog", scene.node, SOFT) for name, scene in scenes.items()}
        for name, scene in scenes.items():
            source = {"type": "Prometheus", "prometheus": {"dataSource": name}}
            # No brake: it alone would keep the operator from evicting in a pool of one node.
            scene.pool("Evict", sources=[source], eviction={"maxPressuredNodes": "100%", "maxNodes": "100%"})
        yield Played(sources, scenes, hogs)
        for scene in scenes.values():
            scene.close()


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_pool_says_what_is_wrong_with_its_data_source_and_what_to_do(played: Played, name: str) -> None:
    scene, outcome = played.scenes[name], OUTCOMES[name]

    def told() -> str:
        messages = [each["message"] for each in scene.issues(about=scene.node).values()]
        return next((each for each in messages if PROMETHEUS_SENTENCES[outcome] in each), "")

    message = eventually(
        told, what=f"an issue about the data source {name}", seconds=TOLD_SECONDS, every=EVERY_SECONDS
    )
    assert TOKEN not in message
    assert scene.condition(HEALTHY)["status"] == "Unknown"
    operator = scene.world.operator
    counted = operator.metric("winpool_memory_samples_total", source=f"Prometheus/{name}", result=outcome)
    assert counted is not None
    assert counted >= 1
    assert operator.metric("winpool_memory_samples_total", result=Outcome.SAMPLED) is None


def test_nobody_is_evicted_and_no_node_is_written(played: Played) -> None:
    some = next(iter(played.scenes.values()))
    for scene in played.scenes.values():
        scene.await_members()
    since = some.world.now()

    def spared() -> bool:
        for name, scene in played.scenes.items():
            assert not scene.evictions()
            assert played.hogs[name] in scene.pods.staying()
            assert scene.signal() == ("", False)
            assert scene.status()["pressuredNodes"] == 0
        return True

    holds(spared, seconds=HOLD_SECONDS, every=EVERY_SECONDS)
    for scene in played.scenes.values():
        assert scene.writes_to_nodes(since=since) == []


def test_what_fails_is_asked_more_and_more_rarely_and_takes_no_memory(played: Played) -> None:
    some = next(iter(played.scenes.values()))
    operator = some.world.operator
    # A set of queries has ten, of which some are in flight when the first one fails. Those that succeed are
    # all asked, every three seconds.
    asked = {name: count for name, count in played.sources.asked().items() if name != "empty"}
    assert max(asked.values()) <= SETS * 10, asked
    connections = {name: count for name, count in played.sources.connections().items() if name != "empty"}
    assert max(connections.values()) <= SETS * MAX_QUERIES * 2, connections
    assert asked["misnamed"] == asked["untrusted"] == asked["tokenless"] == 0, "the token was sent"
    status = Path(f"/proc/{operator.pid}/status").read_text()
    [peak] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    assert peak < MEMORY_LIMIT_KIB / 2
    log = operator.log_file.read_text()
    assert TOKEN not in log
    lines = Counter(line for line in log.splitlines() if "data source" in line)
    assert sum(lines.values()) <= 2 * len(OUTCOMES), lines
