"""``make bench-testbed``: what the ground itself costs, so that nobody takes it for the operator's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.fleet import wait_at_rest
from bench.ground import Ground, prepared
from bench.report import Report
from bench.sampling import Meter, cpu_seconds, memory_bytes

SIMULATOR: Final = "winsim"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a testbed of so many nodes costs while nothing happens but heartbeats."""

    nodes: int
    bring_up_seconds: float
    idle_seconds: float
    fractions: dict[str, float]
    rss_bytes: dict[str, int]
    simulator_peak_rss_bytes: int
    simulator_bring_up_cpu_seconds: float

    def figures(self) -> dict[str, Any]:
        """Return them by name."""
        return {
            "nodes": self.nodes,
            "bring_up_seconds": self.bring_up_seconds,
            "idle_seconds": self.idle_seconds,
            "simulator_bring_up_cpu_seconds": self.simulator_bring_up_cpu_seconds,
            "simulator_cpu_fraction": self.fractions[SIMULATOR],
            "simulator_rss_bytes": self.rss_bytes[SIMULATOR],
            "simulator_peak_rss_bytes": self.simulator_peak_rss_bytes,
            **{f"{name}_cpu_fraction": each for name, each in self.fractions.items() if name != SIMULATOR},
            **{f"{name}_rss_bytes": each for name, each in self.rss_bytes.items() if name != SIMULATOR},
        }


def run_ground_cost(
    sizes: Sequence[int], *, idle_seconds: float, directory: Path, report: Report
) -> dict[str, Any]:
    """Bring up one testbed after the other and measure each; return the figures of the last line."""
    costs = []
    for nodes in sizes:
        began = time.monotonic()
        with prepared(nodes=nodes, directory=directory / str(nodes), report=report) as ground:
            costs.append(_measure(ground, bring_up=time.monotonic() - began, idle_seconds=idle_seconds))
    rows = [each.figures() for each in costs]
    names = list(rows[0])
    report.table("The testbed", ("figure", *(f"{each.nodes:,} nodes" for each in costs)),
                 [(name, *(row[name] for row in rows)) for name in names])  # fmt: skip
    return {"sizes": rows}


def _measure(ground: Ground, *, bring_up: float, idle_seconds: float) -> Cost:
    ground.report.say(f"{ground.nodes:,} nodes Ready after {bring_up:.1f} s")
    pids = ground.pids()
    bring_up_cpu = cpu_seconds(pids[SIMULATOR])
    wait_at_rest(ground.trail)
    ground.report.say(f"idle for {idle_seconds:.0f} s")
    meter = Meter(pids)
    time.sleep(idle_seconds)
    usage = meter.read()
    cost = Cost(
        nodes=ground.nodes,
        bring_up_seconds=bring_up,
        idle_seconds=usage.seconds,
        fractions={name: usage.fraction(name) for name in pids},
        rss_bytes={name: memory_bytes(pid) for name, pid in pids.items()},
        simulator_peak_rss_bytes=memory_bytes(pids[SIMULATOR], peak=True),
        simulator_bring_up_cpu_seconds=bring_up_cpu,
    )
    ground.report.say(f"the simulator used {cost.fractions[SIMULATOR]:.1%} of a core")
    return cost
