"""Killed before and after every write of the upgrade of one node: the same end, no clock begun anew (P8)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, get_args

import pytest

from cluster.upgrade_ground import WAY
from crash.rollout_kinds import (
    EVENT,
    EVICTION,
    FINALIZER,
    Kill,
    conditions_are,
    node_says,
    status_copies,
    status_has,
)
from crash.rollout_rounds import PODS, Played, Stage, a_stage
from harness.world import World
from testbed.cluster import Testbed
from testbed.faults import When

AT_ONCE: Final = 8
"""Rounds at the same time. Each waits for most of its half minute."""
LEAST: Final[Mapping[str, int]] = {
    FINALIZER: 1,
    EVICTION: PODS,
    EVENT: 1,
    **{node_says(state): 1 for state in WAY},
    **{status_has(slot): 1 for slot in ("Reserved", "Claimed", "no slot")},
    status_copies("Drained", "Upgrading"): 1,
    conditions_are("DrainInProgress"): 1,
    conditions_are("Drained"): 1,
    conditions_are("Drained", "MaintenanceInProgress"): 1,
    conditions_are(): 1,
}
"""What an undisturbed round writes at least, whenever its lists arrive: a status is written once a second,
and leaves out what lasts less long."""
WHENS: Final[tuple[When, ...]] = get_args(When)
SPARE_WRITES: Final = 8
"""How many more a round with a kill may have: a restart repeats a status, a condition or an event."""


@pytest.fixture
def stage(testbed: Testbed, tmp_path: Path) -> Iterator[Stage]:
    world = World(testbed, directory=tmp_path)
    try:
        with a_stage(world) as mine:
            yield mine
    finally:
        world.close()


@pytest.mark.timeout(3600)  # some 80 rounds of half a minute, on a busy machine several times that
def test_a_kill_at_any_write_of_an_upgrade_leads_to_the_same_end(stage: Stage) -> None:
    began, since = time.monotonic(), stage.world.now()
    undisturbed = stage.play()
    assert not Counter(LEAST) - undisturbed.writes, f"an undisturbed round has only {undisturbed.writes}"
    with ThreadPoolExecutor(max_workers=AT_ONCE) as threads:
        rounds = {
            at: threads.submit(stage.play, at, expected=undisturbed.end) for at in kills(undisturbed.writes)
        }
        wait(rounds.values(), return_when=FIRST_EXCEPTION)
        threads.shutdown(cancel_futures=True)
    ended = {at: each for at, each in rounds.items() if not each.cancelled()}
    failures = [f"{at}: {error!r}" for at, each in ended.items() if (error := each.exception())]
    assert not failures, f"{len(failures)} rounds failed:\n\n" + "\n\n".join(failures)
    played = {at: each.result() for at, each in rounds.items()}
    print(figures(played, undisturbed.writes, minutes=(time.monotonic() - began) / 60))

    missed = [str(at) for at in kills(LEAST) if at not in played[at].killed]
    assert not missed, "there was no such write: " + ", ".join(missed)
    longest = max(each.writes.total() for each in played.values())
    assert longest <= undisturbed.writes.total() + SPARE_WRITES
    accepted = Counter(
        each.name
        for each in stage.world.writes(since=since)
        if (each.resource, each.subresource, each.code) == ("pods", "eviction", 201)
    )
    assert accepted.total() == PODS * (1 + len(played))
    # Pods of ReplicaSets have random names, and those of rounds have theirs: a name stands for a UID.
    assert {*accepted.values()} == {1}, "a pod was evicted twice"


def kills(writes: Mapping[str, int]) -> Iterator[Kill]:
    """Yield a kill before and one after each of these writes."""
    for kind, count in writes.items():
        for nth in range(1, count + 1):
            yield from (Kill(kind, nth, when) for when in WHENS)


def figures(played: Mapping[Kill, Played], writes: Counter[str], *, minutes: float) -> str:
    """Return how often it was killed at what, for people."""
    killed = Counter((at.kind, at.when) for at, each in played.items() if each.killed)
    seconds = sorted(each.seconds for each in played.values())
    return "\n".join(
        (
            "kills before and after, of writes in an undisturbed round:",
            *(
                f"  {killed[kind, 'before']:3} {killed[kind, 'after']:3} of {count:3}  {kind}"
                for kind, count in writes.items()
            ),
            f"{killed.total()} kills in {len(played)} rounds, {minutes:.1f} minutes; a round took "
            f"{seconds[0]:.0f} to {seconds[-1]:.0f} s",
        )
    )
