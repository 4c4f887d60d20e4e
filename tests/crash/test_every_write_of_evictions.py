"""Killed before and after every write of a run with two evictions: the same end, no pod too many (P5, P8)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Final, get_args

import pytest

from cluster.evictions import Evictions
from cluster.memory_world import SEEING, control_plane, settings
from crash.corner import a_corner
from crash.eviction_rounds import Kill, Played, Rounds
from crash.eviction_witness import Witness
from crash.sight import Sight
from crash.write_kinds import Kind
from harness.world import World
from testbed.cluster import Testbed
from testbed.faults import When

CORNERS: Final = 46
"""Rounds at the same time. Each waits for minutes and computes for seconds: one after the other, they would
take five hours."""
LEAST: Final[Mapping[Kind, int]] = {
    Kind.FINALIZER: 1,
    Kind.TOKEN: 1,
    Kind.JOIN: 2,
    Kind.MARK: 3,
    Kind.CONDITION: 3,
    Kind.INTENT: 2,
    Kind.EVICTION: 2,
    Kind.CALM: 2,
    Kind.CLEAR: 2,
    Kind.UNCONDITION: 2,
    Kind.RELEASE: 2,
    Kind.UNFINALIZER: 1,
}
"""What an undisturbed round writes beside statuses and events: of its two nodes, the first is short of memory
twice."""
WHENS: Final[tuple[When, ...]] = get_args(When)
SPARE_WRITES: Final = 30
"""How many more a round with a kill may have: a restart says a status or an event once more, and asks for a
token; a new grace may bring each of the signals of a node once more."""


class Stage:
    """Corners of one control plane, in which rounds are played at the same time."""

    def __init__(self, world: World, free: SimpleQueue[Rounds]) -> None:
        self.world = world
        self._free = free
        self._failed = False

    def play(self, at: Kill | None, *, expected: Future[str] | None = None) -> Played | None:
        """Play a round in a corner that is free; None where one has failed before and this is not begun.

        Not more rounds than there are corners may be played at the same time. The corner of one that fails is
        not used again.
        """
        if self._failed:
            return None
        rounds = self._free.get()
        try:
            played = rounds.play(at, expected=expected)
        except BaseException:
            self._failed = True
            raise
        self._free.put(rounds)
        return played


@pytest.fixture(scope="module")
def memory_testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with control_plane(tmp_path_factory.mktemp("evictions")) as running:
        yield running


@pytest.fixture
def stage(memory_testbed: Testbed, tmp_path: Path) -> Iterator[Stage]:
    world, witness = World(memory_testbed, directory=tmp_path), Witness()
    free: SimpleQueue[Rounds] = SimpleQueue()
    try:
        nodes = world.fleet(windows=2 * CORNERS, extra=SEEING)
        with ExitStack() as stack:
            sight = stack.enter_context(Sight(world))
            stack.enter_context(Evictions(memory_testbed, admit=witness.admit))
            corners = [
                stack.enter_context(
                    a_corner(
                        world, key=f"corner{number:02d}", nodes=pair, environment=settings(memory_testbed)
                    )
                )
                for number, pair in enumerate(zip(nodes[::2], nodes[1::2], strict=True))
            ]
            bare = sight.next()
            for corner in corners:
                free.put(Rounds(corner, sight=sight, witness=witness, bare=bare))
            yield Stage(world, free)
    finally:
        world.close()


@pytest.mark.timeout(2400)  # some 90 rounds of three to four minutes, in two turns, on a busy machine
def test_a_kill_at_any_write_evicts_no_pod_twice_and_never_more_than_permitted(stage: Stage) -> None:
    began, since = time.monotonic(), stage.world.now()
    with ThreadPoolExecutor(max_workers=CORNERS) as threads:
        end: Future[str] = Future()

        def play(at: Kill) -> Future[Played | None]:
            return threads.submit(stage.play, at, expected=end)

        undisturbed = threads.submit(stage.play, None)
        rounds = {at: play(at) for at in kills(LEAST)}
        writes = found_out(undisturbed, end).writes
        rounds |= {at: play(at) for at in kills(writes) if at not in rounds}
    failures = [f"{at}: {error!r}" for at, each in rounds.items() if (error := each.exception())]
    assert not failures, f"{len(failures)} rounds failed:\n\n" + "\n\n".join(failures)
    assert not Counter(LEAST) - writes, f"an undisturbed round has only {writes}"
    played = {at: found for at, each in rounds.items() if (found := each.result())}
    print(figures(played, writes, minutes=(time.monotonic() - began) / 60))

    missed = [str(at) for at in kills(LEAST) if not played[at].killed]
    assert not missed, "there was no such write: " + ", ".join(missed)
    kinds = {(at.kind, at.when) for at, each in played.items() if each.killed}
    assert kinds == {(kind, when) for kind in writes for when in WHENS}
    longest = max(each.writes.total() for each in played.values())
    assert longest <= writes.total() + SPARE_WRITES
    accepted = Counter(
        each.name
        for each in stage.world.writes(since=since)
        if (each.resource, each.subresource, each.code) == ("pods", "eviction", 201)
    )
    assert accepted.total() == 2 * (1 + len(played))
    assert {*accepted.values()} == {1}, "a pod was evicted twice"


def found_out(undisturbed: Future[Played | None], end: Future[str]) -> Played:
    """Wait for the undisturbed round, and let all others know how it ended."""
    try:
        played = undisturbed.result()
        assert played is not None, "another round has failed before"
    except BaseException as error:
        end.set_exception(error)
        raise
    end.set_result(played.end)
    return played


def kills(writes: Mapping[Kind, int]) -> Iterator[Kill]:
    """Yield a kill before and one after each of these writes."""
    for kind, count in writes.items():
        for nth in range(1, count + 1):
            yield from (Kill(kind, nth, when) for when in WHENS)


def figures(played: Mapping[Kill, Played], writes: Counter[Kind], *, minutes: float) -> str:
    """Return how often it was killed at what, for people."""
    killed = Counter((at.kind, at.when) for at, each in played.items() if each.killed)
    refused = sum(each.refused for each in played.values())
    seconds = sorted(each.seconds for each in played.values())
    return "\n".join(
        (
            "kills before and after, of writes in an undisturbed round:",
            *(
                f"  {killed[kind, 'before']:3} {killed[kind, 'after']:3} of {writes[kind]:3}  {kind.value}"
                for kind in Kind
                if writes[kind]
            ),
            f"{killed.total()} kills in {len(played)} rounds, {minutes:.1f} minutes; a round took "
            f"{seconds[0]:.0f} to {seconds[-1]:.0f} s; {refused} evictions were asked for again and refused",
        )
    )
