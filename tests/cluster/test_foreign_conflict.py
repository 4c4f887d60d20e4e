"""Somebody keeps undoing what a pool asks for: there is no war, and people are told about it."""

from __future__ import annotations

from typing import Final

from cluster.contended import PAUSES, SPEC, TAINT, applied, assert_pauses
from cluster.told import about, issues
from harness.nodes import taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy

CONFLICT: Final = "ForeignTaintConflict"
REPAIRS: Final = 3
"""So many repairs within ten minutes are more than accidents."""


def test_a_taint_that_somebody_keeps_taking_off_is_a_conflict_on_that_node(
    world: World, proxy: FaultProxy
) -> None:
    contended, once, quiet = world.fleet(windows=3)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    proxy.clear()
    world.kubectl("taint", "node", once, "os:NoSchedule-")

    def undone_again() -> bool:
        """Take the taint off where it is there, until it has been put back often enough."""
        if TAINT in taints_of(world.node(contended)):
            world.kubectl("taint", "node", contended, "os:NoSchedule-")
        return len(applied(proxy, contended)) >= REPAIRS

    eventually(undone_again, what=f"{REPAIRS} repairs")
    assert_pauses(applied(proxy, contended)[: len(PAUSES) + 1])
    eventually(lambda: about(world.status(pool), CONFLICT) == {contended}, what="the issue of that node")
    [issue] = issues(world.status(pool), CONFLICT)
    assert "os" in issue["message"], "it names the taint"
    assert issue["fix"]
    eventually(lambda: CONFLICT in world.reasons(kind="Node", name=contended), what="the event of that node")
    [event] = [each for each in world.own_events(kind="Node", name=contended) if each["reason"] == CONFLICT]
    assert event["type"] == "Warning"
    assert CONFLICT in world.kubectl("describe", "node", contended).partition("\nEvents:")[2]

    # One repair is no conflict, and what was not touched is not even written.
    assert TAINT in taints_of(world.node(once))
    assert CONFLICT not in world.reasons(kind="Node", name=once)
    assert applied(proxy, quiet) == []
    # Who fights is answered all the same, and the pool lets go of the node without waiting for its turn.
    eventually(lambda: TAINT in taints_of(world.node(contended)), what="the taint back in the end")
    assert about(world.status(pool), CONFLICT) == {contended}, "ten quiet minutes have not passed"
    world.delete(pool)
    assert TAINT not in taints_of(world.node(contended))
