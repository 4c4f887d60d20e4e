"""The CRD goes and comes back: /readyz says so within seconds, whether there was a pool or not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import pytest

from cluster.outages.conftest import restore
from harness.operator import USER
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import CRD_NAME

NOTICED_SECONDS: Final = 15.0
BACK_SECONDS: Final = 15.0
FORBIDDEN: Final = 403
LABELS: Final[dict[str, Any]] = {"labels": {"example.com/team": "payments"}}


@pytest.fixture
def world(without_crd: World) -> World:
    return without_crd


def is_unready(world: World) -> bool:
    code, text = world.operator.get("/readyz")
    return code == 503 and "is not installed. Apply the CRD" in text


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_the_watch_begins_also_where_the_operator_may_not_watch_the_crd(world: World) -> None:
    """Kopf asks once which kinds there are then, as it does where it has missed the change of the CRD."""
    world.fleet(windows=2)
    world.kubectl("delete", "crd", CRD_NAME, "--timeout=60s")
    with blind_to_the_crd(world):
        began = world.now()
        world.operator.start(wait=False)
        eventually(
            lambda: is_refused_to_kopf(world, since=began), what="Kopf has asked for kinds, and for the CRD"
        )
        restore(world)
        eventually(world.operator.ready, what="/readyz is well")
        eventually(lambda: "pools are not watched, since" in world.operator.log_text(), what="Kopf is ended")
        world.wait_up_to_date(world.apply(world.pool(**LABELS)), nodes=2)


def is_refused_to_kopf(world: World, *, since: datetime) -> bool:
    """Whether Kopf's own list of the CRD was refused: it has asked which kinds there are before."""
    lists = (each for each in world.requests(since=since) if each.resource == "customresourcedefinitions")
    return any(each.code == FORBIDDEN and "limit=500" in each.uri for each in lists)


@contextmanager
def blind_to_the_crd(world: World) -> Iterator[None]:
    """Take the right to list and watch the CRD, which the API server notes a bit later, and give it back."""
    rules = world.get("clusterrole", "winpool")["rules"]

    def set_rules(wanted: list[Any]) -> None:
        patch = json.dumps([{"op": "replace", "path": "/rules", "value": wanted}])
        world.kubectl("patch", "clusterrole", "winpool", "--type=json", f"--patch={patch}")

    set_rules([rule for rule in rules if rule.get("resources") != ["customresourcedefinitions"]])
    try:
        asks = ("auth", "can-i", "list", f"crd/{CRD_NAME}", f"--as={USER}")
        eventually(lambda: world.kubectl(*asks, check=False).startswith("no"), what="the right is gone")
        yield
    finally:
        set_rules(rules)
