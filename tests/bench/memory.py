"""``make bench-memory``: what it costs to watch the memory of N nodes, also while some of them do not answer.

The operator polls simulated kubelets, over TLS and with a token that they have reviewed. 5 % of the nodes are
hot. The same operator with the same converged pool is measured first without ``memoryPressure``. At the end
5 % of the nodes answer slowly and 1 % never.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchError
from bench.fleet import wait_at_rest
from bench.ground import Ground, prepared
from bench.memory_figures import Baseline, memory_figures, memory_targets
from bench.memory_fleet import (
    INSTALLATION,
    Groups,
    block,
    fleet_options,
    grouped,
    heat,
    operator_settings,
    spoil,
)
from bench.memory_looks import is_own_write, observe
from bench.report import Report
from bench.sampling import Meter, memory_bytes
from bench.targets import told
from winpool.kubelet.schedule import HOT_INTERVAL

KNOWN_SECONDS: Final = 120.0
KNOWN_INTERVALS: Final = 10
"""Guard: the second sample of a node makes it known, and the rest is for a busy machine."""
BASELINE_SECONDS: Final = 60.0
"""Longer gained nothing: an operator that does not poll has the same size after ten minutes."""
STARTED_SECONDS: Final = 10.0
"""Without a write, after which a restarted operator has done what there is to do."""
LOOKING_INTERVALS: Final = 2
"""How long ages are looked at, in whole intervals: in each of them, every node has a sample of every age."""
POLL_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """How many nodes, for how long each phase, and how often a kubelet is polled."""

    nodes: int
    steady_seconds: float
    poll_seconds: int

    @property
    def hot_poll_seconds(self) -> int:
        """As often as by default, or twice as often as others where all are polled more often."""
        return int(min(HOT_INTERVAL, max(1, self.poll_seconds // 2)))


def run_memory(options: MemoryOptions, *, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    poll, hot_poll = options.poll_seconds, options.hot_poll_seconds
    with prepared(
        nodes=options.nodes,
        directory=directory,
        report=report,
        options=fleet_options(),
        settings=operator_settings(directory, poll_seconds=poll, hot_poll_seconds=hot_poll),
        installation=INSTALLATION,
    ) as ground:
        groups = grouped([node.name for node in ground.testbed.fleet.status()])
        heat(ground, sorted(groups.hot))
        converge(ground)
        base = measure_baseline(ground, seconds=min(BASELINE_SECONDS, options.steady_seconds))
        report.say(
            f"without memoryPressure: {base.peak_rss_bytes:,} bytes, {base.cpu_fraction:.2%} of a core"
        )
        ground.api.patch(ground.pool.path, block())
        ground.operator.start()
        known = await_known(ground, groups, poll_seconds=poll)
        report.say(f"all nodes known after {known:.0f} s; polling for {options.steady_seconds:.0f} s")
        await_silence(ground, seconds=poll)
        looking = LOOKING_INTERVALS * poll
        steady = observe(ground, groups, seconds=options.steady_seconds, look_seconds=looking)
        report.say(f"{len(groups.slow):,} nodes become slow, {len(groups.hung):,} hang")
        spoil(ground, groups, poll_seconds=poll)
        time.sleep(poll)
        faulty = observe(ground, groups, seconds=options.steady_seconds, look_seconds=looking)
        ground.operator.stop()
    figures = {
        "nodes": options.nodes,
        "hot_nodes": len(groups.hot),
        "slow_nodes": len(groups.slow),
        "hung_nodes": len(groups.hung),
        "poll_seconds": poll,
        "hot_poll_seconds": hot_poll,
        "known_seconds": known,
        **memory_figures(base, steady, faulty),
    }
    wanted = memory_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


def converge(ground: Ground) -> None:
    """Have all nodes be as a pool without ``memoryPressure`` says, and the operator ended."""
    ground.operator.start()
    ground.pool.create()
    ground.pool.wait_converged()
    wait_at_rest(ground.trail)
    ground.operator.stop()


def measure_baseline(ground: Ground, *, seconds: float) -> Baseline:
    """Measure a fresh operator that has nothing to do, and end it."""
    ground.operator.start()
    await_silence(ground, seconds=STARTED_SECONDS)
    meter = Meter.of(operator=ground.operator.pid)
    time.sleep(seconds)
    base = Baseline(
        seconds=seconds,
        cpu_fraction=meter.read().fraction("operator"),
        rss_bytes=memory_bytes(ground.operator.pid),
        peak_rss_bytes=memory_bytes(ground.operator.pid, peak=True),
    )
    ground.operator.stop()
    return base


def await_known(ground: Ground, groups: Groups, *, poll_seconds: int) -> float:
    """Wait until all nodes are known, and just the hot ones are hot; return how many seconds that took."""
    nodes, hot = ground.nodes, len(groups.hot)
    began = time.monotonic()
    backoff = KNOWN_SECONDS + KNOWN_INTERVALS * poll_seconds
    while (found := _watched(ground)) != {"Watched": nodes, "Known": nodes, "Hot": hot}:
        if time.monotonic() > began + backoff:
            raise BenchError(
                f"after {backoff:.0f} s {nodes:,} nodes are to be watched and known and {hot:,} hot: {found}"
            )
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


def _watched(ground: Ground) -> dict[str, int]:
    found = ground.operator.scrape().by_label("winpool_memory_watched_nodes", "state")
    return {state: round(count) for state, count in found.items()}


def await_silence(ground: Ground, *, seconds: float) -> None:
    """Return once the operator has written nothing for so long."""
    deadline = time.monotonic() + KNOWN_SECONDS + KNOWN_INTERVALS * seconds
    position, silent_from = ground.trail.mark(), time.monotonic()
    while time.monotonic() < silent_from + seconds:
        ground.operator.require_alive()
        time.sleep(POLL_SECONDS)
        now = ground.trail.mark()
        if any(is_own_write(each) for each in ground.trail.between(position, now)):
            silent_from = time.monotonic()
        position = now
        if time.monotonic() > deadline:
            raise BenchError(f"the operator does not stop writing for {seconds:.0f} s")
