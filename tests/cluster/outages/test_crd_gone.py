"""The CRD goes and comes back: /readyz says so within seconds, whether there was a pool or not."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from cluster.outages.conftest import restore
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import CRD_NAME

NOTICED_SECONDS: Final = 15.0
BACK_SECONDS: Final = 15.0
LABELS: Final[dict[str, Any]] = {"labels": {"example.com/team": "payments"}}


@pytest.fixture
def world(without_crd: World) -> World:
    return without_crd


def is_unready(world: World) -> bool:
    code, text = world.operator.get("/readyz")
    return code == 503 and "is not installed: kubectl apply -k crds" in text


@pytest.mark.parametrize("nodes", [0, 2], ids=["without a pool", "with a pool"])
def test_readyz_fails_within_seconds_of_the_crd_s_disappearance_and_is_well_again_when_it_is_back(
    world: World, nodes: int
) -> None:
    """The next regular list of pools is minutes away (P2), and the watch of pools is Kopf's."""
    if nodes:
        world.fleet(windows=nodes)
    world.operator.start()
    if nodes:
        pool = world.apply(world.pool(**LABELS))
        world.wait_up_to_date(pool, nodes=nodes)
    world.kubectl("delete", "crd", CRD_NAME, "--timeout=60s")
    eventually(lambda: is_unready(world), what="/readyz fails", seconds=NOTICED_SECONDS)
    time.sleep(NOTICED_SECONDS)
    assert is_unready(world), "and goes on to"
    assert world.operator.get("/healthz")[0] == 200
    eventually(lambda: "is not installed" in world.operator.log_text(), what="the log says so")
    restore(world)
    eventually(world.operator.ready, what="/readyz is well again", seconds=BACK_SECONDS)
    if nodes:
        world.wait_up_to_date(world.apply(world.pool(**LABELS)), nodes=nodes)


def test_an_operator_that_starts_without_the_crd_says_so_and_begins_when_it_is_there(world: World) -> None:
    world.fleet(windows=2)
    world.kubectl("delete", "crd", CRD_NAME, "--timeout=60s")
    world.operator.start(wait=False)
    eventually(lambda: is_unready(world), what="/readyz says what is missing")
    assert world.operator.get("/healthz")[0] == 200
    restore(world)
    eventually(world.operator.ready, what="/readyz is well", seconds=BACK_SECONDS)
    assert "unreadable" not in world.operator.log_text()
    world.wait_up_to_date(world.apply(world.pool(**LABELS)), nodes=2)
