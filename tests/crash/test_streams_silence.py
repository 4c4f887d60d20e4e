"""Watches that stay open and say nothing any more (P1, P4); the cluster tests have one with less backoff."""

from __future__ import annotations

from typing import Final

from harness.streams import NODES_WATCH, POOLS_WATCH, RELIST, staged
from harness.waiting import holds
from harness.world import World
from testbed.faults import silence

PATIENT_SECONDS: Final = 50.0
"""For so long a watch may say nothing and no harm is seen in it: bookmarks come once a minute."""
SILENCE_SECONDS: Final = 85.0
"""After 70 s it is given up; a pause of a second, and what a busy machine adds."""


def test_a_silent_watch_is_given_up_and_what_it_kept_back_is_found(world: World) -> None:
    with staged(world, nodes=3, environment=RELIST) as stage:
        [name, *_] = stage.names
        with stage.unshaken(drifted=[name]):
            begin = world.now()
            rules = [stage.proxy.add(match, silence(), nth=1) for match in (NODES_WATCH, POOLS_WATCH)]
            stage.drift(name)
            holds(stage.world.operator.ready, seconds=PATIENT_SECONDS, every=1)
            assert not stage.is_repaired(name)
            for match in (NODES_WATCH, POOLS_WATCH):
                again = stage.proxy.wait_for(match, count=2)
                assert (again.time - begin).total_seconds() < SILENCE_SECONDS
        assert [rule.hits for rule in rules] == [1, 1]
