"""What needs a Prometheus: paging rates, which no kubelet on Windows reports, and sources that are combined.

``memory_world.scraping`` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from cluster.memory_pods import SOFT, STORM, steady
from cluster.memory_scene import Scene
from cluster.memory_world import (
    BLOCKED,
    DATA_SOURCE,
    EVERY_SECONDS,
    HEALTHY,
    LONG_SECONDS,
    Ground,
    control_plane,
    data_source,
    machines,
    scraping,
    watching_operator,
)
from harness.waiting import eventually
from harness.world import World

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
"""Guards in the tests end before: each waits for some minutes at most, one after the other."""

Object = dict[str, Any]

PROMETHEUS: Final[Object] = {"type": "Prometheus", "prometheus": {"dataSource": DATA_SOURCE}}
KUBELET: Final[Object] = {"type": "Kubelet"}
LATE_SECONDS: Final = 6.0
"""Later than 5 s, and than four times what these kubelets take."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Nodes whose exporters a Prometheus scrapes, and an operator that knows it."""
    directory = tmp_path_factory.mktemp("prometheus")
    with control_plane(directory) as testbed:
        world = World(testbed, directory=directory)
        try:
            with machines(world, seeing=4) as made, scraping(testbed, exporters(made)) as url:
                world.operator = watching_operator(world, environment=data_source(directory, url))
                world.operator.start()
                yield made
        finally:
            world.close()


def exporters(stage: Ground) -> dict[str, str]:
    """Return where the exporters listen, by the names of the nodes."""
    found = {}
    for name, node in stage.world.nodes().items():
        addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
        found[name] = f"{addresses['InternalIP']}:{stage.fleets[name].summary().exporter_port}"
    return found


def a_scene(stage: Ground, key: str) -> Scene:
    """Return a scenario on a node of its own."""
    keys = ("storm", "estimate", "combined", "alone")
    return Scene(stage, key=key, nodes=[list(stage.fleets)[keys.index(key)]])


def test_a_page_storm_is_seen_by_its_rates_and_its_pod_evicted_while_commit_is_left(stage: Ground) -> None:
    scene = a_scene(stage, "storm")
    # The kubelet alone has to be calm: what its pods have from then on is growth.
    scene.pool("Evict", sources=[KUBELET])
    scene.await_calm()
    scene.pool("Evict", sources=[PROMETHEUS, KUBELET])
    polite = scene.pods.run("polite", scene.node, steady("512Mi"), request="1Gi")
    storm = scene.pods.run("storm", scene.node, STORM)
    scene.await_evicted(storm, seconds=LONG_SECONDS)
    scene.spares(polite)
    used = scene.exported("windows_memory_committed_bytes") / scene.exported("windows_memory_commit_limit")
    assert used < 0.8, "or the commit axis alone would have done it"
    scene.close()


def test_without_rates_a_page_storm_is_signalled_and_evicts_only_once_the_kubelet_is_late(
    stage: Ground,
) -> None:
    scene = a_scene(stage, "estimate")
    scene.pool("Evict", sources=[KUBELET])
    scene.await_calm()
    storm = scene.pods.run("storm", scene.node, {**STORM, "commit": "16Gi"})
    scene.await_signal("True", taint=True, seconds=LONG_SECONDS)
    scene.spares(storm)
    scene.fleet.set_endpoint_fault([scene.node], fault="slow", seconds=LATE_SECONDS)
    scene.await_evicted(storm, seconds=LONG_SECONDS)
    scene.fleet.set_endpoint_fault([scene.node], fault="none")
    scene.close()


def test_what_the_kubelet_does_not_answer_comes_from_prometheus_but_for_the_memory_of_pods(
    stage: Ground,
) -> None:
    scene = a_scene(stage, "combined")
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.fleet.set_endpoint_fault([scene.node], fault="hang")
    scene.pool("Evict", sources=[KUBELET, PROMETHEUS])
    scene.await_signal("True", taint=True, seconds=LONG_SECONDS)
    blocked = scene.await_issue(BLOCKED)
    assert "it is not known how much memory each of their pods uses" in blocked["message"]
    scene.spares(hog)
    scene.fleet.set_endpoint_fault([scene.node], fault="none")
    scene.await_evicted(hog, seconds=LONG_SECONDS)
    scene.close()


def test_an_exporter_that_is_gone_leaves_the_node_unknown_where_nothing_else_is_asked(stage: Ground) -> None:
    scene = a_scene(stage, "alone")
    scene.fleet.set_endpoint_fault([scene.node], fault="server_error", endpoint="exporter")
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.pool("Evict", sources=[PROMETHEUS])
    eventually(
        lambda: scene.condition(HEALTHY).get("status") == "Unknown",
        what="unknown memory",
        seconds=LONG_SECONDS,
        every=EVERY_SECONDS,
    )
    scene.spares(hog)
    scene.fleet.set_endpoint_fault([scene.node], fault="none", endpoint="exporter")
    scene.await_signal("True", taint=True, seconds=LONG_SECONDS)
    assert "Add the source Kubelet" in scene.await_issue(BLOCKED)["fix"]
    scene.spares(hog)
    scene.pool("Evict", sources=[PROMETHEUS, KUBELET])
    scene.await_evicted(hog, seconds=LONG_SECONDS)
    scene.close()
