"""Kills at some writes of a pool's life and of an upgrade; ``make test-crash`` has them all (P1, P8)."""

from __future__ import annotations

from crash.rollout_kinds import Kill, node_says
from crash.rollout_rounds import a_stage
from crash.rounds import NODES, a_theatre
from harness.world import World


def test_a_kill_at_a_write_of_create_edit_or_delete_leads_to_the_same_end(world: World) -> None:
    with a_theatre(world) as theatre:
        assert theatre.survives_a_kill_at(3, when="after")  # creating: some nodes are written
        assert theatre.survives_a_kill_at(NODES + 5, when="before")  # editing
        assert theatre.survives_a_kill_at(3 * NODES + 3, when="after")  # deleting


def test_kills_amid_the_upgrade_of_a_node_lead_to_the_same_end_and_begin_no_clock_anew(world: World) -> None:
    kills = (
        Kill(node_says("Draining"), 1, "after"),  # cordoned, and no pod is evicted
        Kill(node_says("Upgrading"), 1, "before"),  # the claim is copied, and the node is not handed over
        Kill(node_says("Soaking"), 1, "after"),  # uncordoned
    )
    with a_stage(world, every_seconds=0.3, stays_seconds=1) as stage:
        assert stage.play(*kills).killed == {*kills}
