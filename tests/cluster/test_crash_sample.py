"""Kills at some writes of a pool's life; ``make test-crash`` has them all (P1, P8)."""

from __future__ import annotations

from crash.rounds import NODES, a_theatre
from harness.world import World


def test_a_kill_at_a_write_of_create_edit_or_delete_leads_to_the_same_end(world: World) -> None:
    with a_theatre(world) as theatre:
        assert theatre.survives_a_kill_at(3, when="after")  # creating: some nodes are written
        assert theatre.survives_a_kill_at(NODES + 5, when="before")  # editing
        assert theatre.survives_a_kill_at(3 * NODES + 3, when="after")  # deleting
