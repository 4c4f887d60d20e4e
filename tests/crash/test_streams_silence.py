"""Watches that stay open and say nothing any more (P1, P4); the cluster tests have one with less patience."""

from __future__ import annotations

import time
from typing import Final

from harness.streams import NODES_WATCH, POOLS_WATCH, RELIST, staged
from harness.waiting import holds
from harness.world import World
from testbed.faults import silence

SILENCE_SECONDS: Final = 75.0
"""A watch that says nothing is given up after 70 s, and a list takes a moment."""


def test_a_silent_watch_is_given_up_and_what_it_kept_back_is_found(world: World) -> None:
    with staged(world, nodes=3, environment=RELIST) as stage:
        [name, *_] = stage.names
        begin = time.monotonic()
        with stage.unshaken(drifted=[name]):
            rules = [stage.proxy.add(match, silence(), nth=1) for match in (NODES_WATCH, POOLS_WATCH)]
            stage.drift(name)
            holds(stage.world.operator.ready, seconds=SILENCE_SECONDS - 10, every=1)
            assert not stage.is_repaired(name)
            for match in (NODES_WATCH, POOLS_WATCH):
                stage.proxy.wait_for(match, count=2)
        assert time.monotonic() - begin < SILENCE_SECONDS + 10
        assert [rule.hits for rule in rules] == [1, 1]
