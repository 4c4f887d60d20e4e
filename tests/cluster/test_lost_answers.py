"""A write is put off, or its answer is lost: it is made once, and nothing of it is forgotten."""

from __future__ import annotations

from typing import Final

import pytest

from cluster.contended import CLOCKS_SECONDS, LABEL, SPEC, applied
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, Record, answer, cut, drop, event, on

RETRY_AFTER_SECONDS: Final = 3


def test_429_is_obeyed(world: World, proxy: FaultProxy) -> None:
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    with proxy.add(on("patch", "nodes"), answer(429, retry_after=RETRY_AFTER_SECONDS), first=len(names)):
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
    for name in names:
        refused, accepted = proxy.writes(on("patch", "nodes", name=name))
        assert (refused.status, accepted.status) == (429, 200)
        assert (accepted.time - refused.time).total_seconds() >= RETRY_AFTER_SECONDS - CLOCKS_SECONDS


def test_writes_whose_replies_are_lost_are_not_made_twice(world: World, proxy: FaultProxy) -> None:
    names = world.fleet(windows=2)
    bare = world.carried()
    with world.watch_nodes() as witness:
        pool = world.apply(world.pool(**SPEC))
        lost = [
            proxy.add(on("patch", resource), cut(when="after"), first=2)
            for resource in ("windowsnodepools", "nodes", "windowsnodepools/status")
        ]
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
        witness.catch_up(world.nodes().values())
    assert all(rule.hits for rule in lost)
    assert witness.changes("metadata", "labels") == dict.fromkeys(names, 1)
    assert [len(applied(proxy, name)) for name in names] == [1, 1]
    proxy.heal()
    world.delete(pool)
    assert world.carried() == bare


@pytest.mark.nightly
def test_a_pool_is_not_let_go_while_a_write_of_ours_may_stand_that_nobody_told_us_of(
    world: World, proxy: FaultProxy
) -> None:
    """The answers to all tries of the write are lost, and the watch is silent about the node."""
    [name] = world.fleet(windows=1)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    with (
        proxy.add(on("watch", "nodes"), drop(where=event("MODIFIED", name=name))),
        proxy.add(on("patch", "nodes", name=name), cut(when="after")),
    ):
        world.operator.start()
        eventually(lambda: LABEL in labels_of(world.node(name)), what="the write stands")
        world.delete(pool, wait=False)
        eventually(lambda: marked_lists(proxy), what="the API server itself is asked")
    eventually(lambda: pool not in world.pools(), what="the pool is gone")
    assert world.carried() == bare


# Helpers


def marked_lists(proxy: FaultProxy) -> list[Record]:
    """Return the lists of the nodes that carry a pool's label."""
    return [each for each in proxy.log if each.verb == "list" and "winpool.dev%2Fpool%3D" in each.path]
