"""The life of a pool, with the operator out of the image and a token as a kubelet mounts it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from harness.nodes import labels_of, taints_of, told_labels
from harness.waiting import eventually
from harness.world import World
from image.building import Image
from image.conftest import Measured
from image.running import ImageOperator, service_account

FIRST: Final[dict[str, Any]] = {
    "labels": {"example.com/team": "payments", "example.com/removed": "1"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
SECOND: Final[dict[str, Any]] = {
    "labels": {"example.com/team": "orders"},
    "taints": [{"key": "os", "value": "win", "effect": "PreferNoSchedule"}],
}
NODES: Final = 3
GUARD_SECONDS: Final = 240.0


def test_a_pool_lives_from_its_first_node_to_the_last(
    world: World, image: Image, directory: Path, measured: Measured
) -> None:
    world.fleet(windows=NODES, linux=1)
    before = world.carried()
    account = service_account(world.testbed, directory / "account")
    operator = ImageOperator(image, world.testbed, directory=directory, account=account)
    world.operator = operator
    since = world.now()

    began = time.monotonic()
    operator.start()
    measured(f"from start until Ready: {time.monotonic() - began:.1f} s")
    assert operator.get("/readyz")[0] == 200
    assert operator.get("/healthz")[0] == 200

    pool = world.apply(world.pool(**FIRST))
    status = world.wait_up_to_date(pool, nodes=NODES, seconds=GUARD_SECONDS)
    assert (status["nodes"], status["readyNodes"]) == (NODES, NODES)
    assert_carry(world, before, FIRST, pool=pool, taint="os=windows:NoSchedule")

    world.apply(world.pool(**SECOND))
    world.wait_up_to_date(pool, nodes=NODES, seconds=GUARD_SECONDS)
    assert_carry(world, before, SECOND, pool=pool, taint="os=win:PreferNoSchedule")
    assert operator.get("/readyz")[0] == 200

    world.delete(pool, wait=False)
    eventually(lambda: pool not in world.pools(), what=f"pool {pool} gone", seconds=GUARD_SECONDS)
    assert world.carried() == before

    written = {each.name for each in world.node_patches(since=since)}
    assert written == windows_of(before), "each request counts only for the ServiceAccount of the token"
    assert operator.stop() == 0
    text = operator.log_text()
    assert "SIGTERM" in text
    assert "Traceback" not in text
    assert (account / "token").read_text() not in text


def windows_of(nodes: dict[str, dict[str, Any]]) -> set[str]:
    return {name for name, node in nodes.items() if node["labels"]["kubernetes.io/os"] == "windows"}


def assert_carry(
    world: World, before: dict[str, dict[str, Any]], spec: dict[str, Any], *, pool: str, taint: str
) -> None:
    """Assert that Windows nodes have what the spec says beside what they had, and others only that."""
    for name, node in world.nodes().items():
        if name in windows_of(before):
            wanted = {**before[name]["labels"], **told_labels(node, pool=pool), **spec["labels"]}
            assert labels_of(node) == wanted
            assert taint in taints_of(node)
        else:
            assert labels_of(node) == before[name]["labels"]
            assert taint not in taints_of(node)
