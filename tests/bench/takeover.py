"""``make bench-takeover``: how long no operator writes when the one that leads fails, by kind of failure.

Each run has two operators with leader election. The time begins at the fault. A label is removed from every
node just before and just after it, so that both operators have something to write. By the audit log, no write
of the first may come after the first write of the second.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bench.ground import INSTALLATION
from bench.report import Report
from bench.rounds import middle
from bench.targets import Target, at_most, exactly, of_the_machine, told
from harness.election import Pair, delete_lease, identity_of, wait_leading
from harness.jumping_clock import environment, set_clock
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from testbed.audit import AuditRecord
from testbed.cluster import Testbed
from testbed.faults import FaultProxy, on, stall
from winpool.kube.lease_rules import LEASE_SECONDS, RETRY_SECONDS

NODES: Final = 3
TEAM: Final = "example.com/team"
FROZEN_SECONDS: Final = 60.0
JUMP_SECONDS: Final = 86_400.0
SETTLE_SECONDS: Final = 5.0
"""After a jump of the clock: more than two renewals, so that the second has seen it."""
WAIT_SECONDS: Final = 180.0
"""Guard for a takeover, which takes 15 s."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One takeover: seconds from the fault to the Lease and to the first write; late writes of the first."""

    fault: str
    lease_seconds: float
    write_seconds: float
    late_writes: int


def count_takeover(
    records: Iterable[AuditRecord], *, fault: str, at: datetime, first: str, second: str
) -> Taken | None:
    """Return what the audit log says; None where the second has not written a node or pool."""
    made = [each for each in records if each.writes and each.received >= at]
    of_second = [each for each in made if second in each.user_agent]
    leases = [each for each in of_second if each.resource == "leases" and each.code in (200, 201)]
    others = [each for each in of_second if each.resource != "leases"]
    if not leases or not others:
        return None
    late = [
        each
        for each in made
        if first in each.user_agent and each.resource != "leases" and each.received >= others[0].received
    ]
    return Taken(
        fault=fault,
        lease_seconds=(leases[0].received - at).total_seconds(),
        write_seconds=(others[0].received - at).total_seconds(),
        late_writes=len(late),
    )


def run_takeover(*, runs: int, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    taken: list[Taken] = []
    with Testbed.up(directory=directory, apply=INSTALLATION, report=report.say) as testbed:
        for number in range(runs):
            for fault, scene in SCENES.items():
                folder = directory / f"{fault}-{number + 1}"
                folder.mkdir(parents=True)
                world = World(testbed, directory=folder)
                try:
                    taken.append(scene(world, fault))
                finally:
                    world.close()
                    delete_lease(world)
                one = taken[-1]
                report.say(
                    f"{fault}: Lease after {one.lease_seconds:.1f} s, write after {one.write_seconds:.1f} s"
                )
    rows = [
        (fault, *[f"{each.write_seconds:.1f}" for each in taken if each.fault == fault], _late(taken, fault))
        for fault in SCENES
    ]
    names = [f"run {number + 1} (s)" for number in range(runs)]
    report.table("From the fault to the first write of the other", ("fault", *names, "late writes"), rows)
    figures = takeover_figures(taken, runs=runs)
    wanted = takeover_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


def takeover_figures(taken: list[Taken], *, runs: int) -> dict[str, Any]:
    """Return what is told, by name: medians of the times, and all late writes together."""
    medians = {
        f"{fault}_seconds": middle([each.write_seconds for each in taken if each.fault == fault])
        for fault in SCENES
    }
    return {"runs": runs, **medians, "late_writes": sum(each.late_writes for each in taken)}


def takeover_targets(figures: dict[str, Any]) -> list[Target]:
    """Return what must be shown: nothing is written late, and on an idle machine the times of the Lease."""
    limits = {
        "killed_seconds": LEASE_SECONDS + RETRY_SECONDS,
        "frozen_seconds": LEASE_SECONDS + RETRY_SECONDS,
        "cut_off_seconds": LEASE_SECONDS + RETRY_SECONDS,
        "clock_jumped_seconds": LEASE_SECONDS + RETRY_SECONDS,
        "sigterm_seconds": RETRY_SECONDS,
    }
    times = [of_the_machine(at_most(name, figures[name], limit)) for name, limit in limits.items()]
    return [exactly("late_writes", figures["late_writes"], 0), *times]


# The faults


def _killed(world: World, fault: str) -> Taken:
    return _scene(world, Pair(world), fault, harm=lambda pair: pair.first.kill())


def _frozen(world: World, fault: str) -> Taken:
    def wake(pair: Pair) -> None:
        time.sleep(FROZEN_SECONDS)
        pair.first.send(signal.SIGCONT)
        pair.first.wait_ended()

    return _scene(world, Pair(world), fault, harm=lambda pair: pair.first.send(signal.SIGSTOP), after=wake)


def _cut_off(world: World, fault: str) -> Taken:
    with FaultProxy(world.testbed) as proxy:
        pair = Pair(world, first_kubeconfig=proxy.kubeconfig("winpool"))

        def cut(_: Pair) -> None:
            proxy.add(on(), stall())

        return _scene(world, pair, fault, harm=cut, after=lambda pair: _ignore(pair.first.wait_ended()))


def _jumped(world: World, fault: str) -> Taken:
    """Jump, and kill the leader some time later: a clock that jumped alone is no reason for a takeover."""
    clock = world.directory / "clock"
    pair = Pair(world, environment=environment(clock), module="harness.jumping_clock")

    def jump() -> None:
        set_clock(clock, seconds=JUMP_SECONDS)
        time.sleep(SETTLE_SECONDS)

    return _scene(world, pair, fault, before=jump, harm=lambda pair: pair.first.kill())


def _sigterm(world: World, fault: str) -> Taken:
    return _scene(world, Pair(world), fault, harm=lambda pair: _ignore(pair.first.stop()))


SCENES: Final[dict[str, Callable[[World, str], Taken]]] = {
    "killed": _killed,
    "frozen": _frozen,
    "cut_off": _cut_off,
    "clock_jumped": _jumped,
    "sigterm": _sigterm,
}


def _scene(
    world: World,
    pair: Pair,
    fault: str,
    *,
    harm: Callable[[Pair], None],
    before: Callable[[], None] = lambda: None,
    after: Callable[[Pair], None] = lambda _: None,
) -> Taken:
    names = world.fleet(windows=NODES)
    pair.start()
    world.wait_up_to_date(world.apply(world.pool(labels={TEAM: "payments"})), nodes=NODES)
    before()
    world.kubectl("label", "node", *names, f"{TEAM}-")
    at = world.now()
    harm(pair)
    world.kubectl("label", "node", *names, f"{TEAM}-")
    wait_leading(pair.second, seconds=WAIT_SECONDS)
    eventually(
        lambda: all(TEAM in labels_of(node) for node in world.nodes().values()), what="all labels again"
    )
    after(pair)
    taken = count_takeover(
        world.requests(since=at),
        fault=fault,
        at=at,
        first=identity_of(pair.first),
        second=identity_of(pair.second),
    )
    assert taken is not None, "the second leads and has written nothing"
    return taken


def _late(taken: list[Taken], fault: str) -> int:
    return sum(each.late_writes for each in taken if each.fault == fault)


def _ignore(_: object) -> None:
    pass
