"""Two operators and one Lease: one writes, the other takes over, and never do both write.

Both run under one account. Their identity is in the User-Agent of each request, so the audit log tells them
apart. The order is by the audit log: when the API server received each write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from harness.election import (
    Pair,
    delete_lease,
    identity_of,
    leads,
    lease,
    stands_by,
    wait_leading,
)
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World

pytestmark = [pytest.mark.xdist_group("lease"), pytest.mark.timeout(600)]
"""The Lease is one for the whole cluster, so its tests run one after the other."""

TEAM: Final = "example.com/team"
SPEC: Final[dict[str, Any]] = {"labels": {TEAM: "payments"}}


@pytest.fixture(autouse=True)
def no_lease(world: World) -> Iterator[None]:
    """Each test begins and ends without a Lease."""
    delete_lease(world)
    yield
    for operator in world._further:
        operator.close()
    delete_lease(world)


def drift(world: World, *names: str) -> None:
    """Take a label of the pool off nodes."""
    world.kubectl("label", "node", *names, f"{TEAM}-")


def wait_repaired(world: World, *names: str) -> None:
    """Return when each of the nodes has its label again."""
    eventually(
        lambda: all(TEAM in labels_of(world.node(name)) for name in names),
        what=f"{names} repaired",
        seconds=120,
    )


def test_one_leads_and_the_other_is_ready_and_writes_nothing(world: World) -> None:
    names = world.fleet(windows=3)
    start = world.now()
    pair = Pair(world)
    pair.start()
    pool = world.apply(world.pool(**SPEC))
    world.wait_up_to_date(pool, nodes=3)
    drift(world, *names)
    wait_repaired(world, *names)
    assert lease(world)["holderIdentity"] == identity_of(pair.first)
    assert (leads(pair.first), leads(pair.second)) == (True, False)
    assert stands_by(pair.second)
    asked = [each for each in world.requests(since=start) if identity_of(pair.second) in each.user_agent]
    assert [f"{each.verb} {each.uri}" for each in asked if each.writes] == []
    assert [each.uri for each in asked if each.resource == "pods"] == [], "it lists no pods"
    assert pair.writes(pair.first, since=start)


def test_a_killed_leader_is_replaced(world: World) -> None:
    names = world.fleet(windows=3)
    pair = Pair(world)
    pair.start()
    world.wait_up_to_date(world.apply(world.pool(**SPEC)), nodes=3)
    start = world.now()
    drift(world, *names)
    pair.first.kill()
    drift(world, *names)
    wait_leading(pair.second)
    wait_repaired(world, *names)
    pair.check_order(since=start)
