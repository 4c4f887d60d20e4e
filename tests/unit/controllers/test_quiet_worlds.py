"""Thousands of random worlds through the real loops in virtual time: none is busy, and each gets quiet (P2).

WINPOOL_WORLDS says how many, WINPOOL_FIRST_WORLD with which to begin: each is made from its own number.
"""

from __future__ import annotations

import asyncio
import os
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

import pytest

from harness.restless import RestlessWorld
from harness.virtual_time import run_virtually
from winpool.controllers import pod_pass
from winpool.controllers import pools as relister
from winpool.kube.backoff import Backoff

WORLDS = int(os.environ.get("WINPOOL_WORLDS", "150"))
FIRST = int(os.environ.get("WINPOOL_FIRST_WORLD", "0"))
CHUNK = 50
"""Worlds that share a loop, one after the other."""

CHUNKS = [range(first, min(first + CHUNK, FIRST + WORLDS)) for first in range(FIRST, FIRST + WORLDS, CHUNK)]
ONCE_BUSY = (204, 2099321230, 2099332586, 2099351480)
"""Worlds that were busy once, and are played whatever the range is.

204 is, where moments to look again may have passed, and the next look may come sooner than in a second.
2099321230 is, where each try of a node that conflicts begins the looks for its newer state anew. The other
two are, where a change of a node has the status tried again, although it has just conflicted.
"""

WINDOW_SECONDS = 3.0
IDLE_PASSES = 6
"""In a window, of one pool, where nothing happened: one a second, and looks that come later and later."""

SETTLE_SECONDS = 2400.0
"""Longer than validation takes, and than a conflict over a node is remembered."""

QUIET_SECONDS = 86400.0

LASTING_SECONDS = 600.0
"""How long a world is watched in which something goes on failing."""


@pytest.fixture
def rolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all chance come from the number of the world."""
    for module in (pod_pass, relister):
        monkeypatch.setattr(module, "uniform", random.uniform)
    defaults = Backoff.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "uniform", random.uniform)


@pytest.mark.slow
@pytest.mark.parametrize("worlds", [ONCE_BUSY, *CHUNKS], ids=lambda worlds: str(worlds[0]))
@pytest.mark.usefixtures("rolled")
def test_no_world_is_busy_and_each_gets_quiet(worlds: Iterable[int]) -> None:
    async def play() -> None:
        for number in worlds:
            random.seed(number)
            world = RestlessWorld(random.Random(number))
            try:
                await world.play()
                since = world.cluster.time + SETTLE_SECONDS
                await asyncio.sleep(SETTLE_SECONDS + QUIET_SECONDS if world.is_healed else LASTING_SECONDS)
            finally:
                await world.stop()
            said = f"world {number}:\n{world}"
            check_not_busy(world, said)
            check_few_writes(world, said)
            if world.is_healed:
                check_quiet(world, since, said)

    run_virtually(play())


def check_not_busy(world: RestlessWorld, said: str) -> None:
    """Passes follow changes and our own writes; there are no more than those, and few beside."""
    for operator in world.operators:
        for pool in {name for _, name in operator.passes}:
            passes = [at for at, name in operator.passes if name == pool]
            news = sorted(
                [at for at, name in operator.wakes if name == pool]
                + [write.at for write in world.cluster.writes]
            )
            for number, begin in enumerate(passes):
                end = begin + WINDOW_SECONDS
                found = bisect_left(passes, end) - number
                since = passes[number - 1] if number else 0
                reasons = bisect_left(news, end) - bisect_left(news, since)
                assert found <= IDLE_PASSES + reasons, f"{pool} at {begin:.2f}: {found} passes; {said}"


def check_few_writes(world: RestlessWorld, said: str) -> None:
    """A status a second, and a node as often as it was changed, and a few times more.

    An operator that starts does not know when the one before it has written, so a start counts as a change.
    """
    writes, changes = world.cluster.writes, sorted([*world.cluster.changes, *world.starts])
    begun = [write.at for write in writes]
    for number, begin in enumerate(begun):
        end = begin + WINDOW_SECONDS
        there = writes[number : bisect_left(begun, end)]
        happened = bisect_left(changes, end) - bisect_left(changes, begin - WINDOW_SECONDS)
        for (kind, name), count in Counter((each.kind, each.name) for each in there).items():
            assert count <= 5 + 3 * happened, f"{count} x {kind} {name} at {begin:.2f}; {said}"


def check_quiet(world: RestlessWorld, since: float, said: str) -> None:
    """Nothing happens any more, so nothing is done: not even a look, where there is nothing to wait for."""
    passes = [at for operator in world.operators for at, _ in operator.passes if at >= since]
    writes = [write for write in world.cluster.writes if write.at >= since]
    assert (passes, writes) == ([], []), said
