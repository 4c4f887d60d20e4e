"""The operator is killed before and after each of its writes: the end is always the same (P1, P8)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.rounds import NODES, STEPS, Theatre, a_theatre
from harness.world import World
from testbed.cluster import Testbed
from testbed.faults import When

LEAST_WRITES = NODES * len(STEPS) + 2
"""Each node once a step, and the finalizer on and off: a loop that ended sooner has missed some."""
MOST_WRITES = 2 * LEAST_WRITES + 12
"""With statuses and events; a restart may say a status or an event once more, never go on for ever."""


@pytest.fixture
def theatre(testbed: Testbed, tmp_path: Path) -> Iterator[Theatre]:
    world = World(testbed, directory=tmp_path)
    try:
        with a_theatre(world) as mine:
            yield mine
    finally:
        world.close()


@pytest.mark.timeout(1800)  # about 30 rounds of about 6 s, on a busy machine several times that
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_write_of_create_edit_and_delete_leads_to_the_same_end(
    theatre: Theatre, when: When
) -> None:
    for nth in itertools.count(1):
        assert nth <= MOST_WRITES, "a round has no end of writes"
        if not theatre.survives_a_kill_at(nth, when=when):
            break
    assert nth > LEAST_WRITES
