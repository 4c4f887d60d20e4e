"""The figures of ``make bench-memory``, and what is wanted of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bench.memory_looks import SAMPLED, SUMMARY, Phase
from bench.rounds import percentile
from bench.targets import Target, at_most, exactly, of_the_machine
from winpool.controllers.memory_polls import PROBE_SPACING_SECONDS
from winpool.kubelet.schedule import HOT_POLLS_PER_SECOND, JITTER_SHARE, MAX_IN_FLIGHT, MAX_KEPT

REQUESTS_PER_SECOND: Final = 110
"""For 5,000 nodes, of which 250 are hot."""
CPU_FRACTION: Final = 0.17
"""Of a core, at 5,000 nodes: what metrics-server needs that polls them all every 15 s (0.51 ms each)."""
RSS_BYTES: Final = 75_000_000
"""Above the same operator without ``memoryPressure``."""
AGE_RATIO: Final = 1.1
"""By which the ages of healthy nodes may grow while others do not answer: intervals vary by 5 % anyway."""
HEALTHY: Final = ("cold", "hot")
FAULTY_WRITES: Final = 5
"""Plus one a second: status and events while nodes become unknown."""

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The same operator without ``memoryPressure``."""

    seconds: float
    cpu_fraction: float
    rss_bytes: int
    peak_rss_bytes: int


def memory_figures(base: Baseline, steady: Phase, faulty: Phase) -> Figures:
    """Return what is told, by name."""
    return {
        "base_seconds": base.seconds,
        "base_cpu_fraction": base.cpu_fraction,
        "base_rss_bytes": base.rss_bytes,
        "base_peak_rss_bytes": base.peak_rss_bytes,
        "rss_above_bytes": steady.rss_bytes - base.rss_bytes,
        "peak_rss_above_bytes": steady.peak_rss_bytes - base.peak_rss_bytes,
        **_of_phase("steady", steady, base),
        **_of_phase("faulty", faulty, base),
        "most_requests_of_a_node": faulty.most_of_a_node,
        "most_connections_of_a_node": max(each.connections.most_of_a_node for each in (steady, faulty)),
        "most_connections": max(each.connections.most for each in (steady, faulty)),
    }


def memory_targets(figures: Figures) -> list[Target]:
    """Return what must be shown. Those that depend on N are for 5,000 nodes."""
    limit = percentile_limit(figures)
    return [
        exactly("steady_writes", figures["steady_writes"], 0),
        exactly("faulty_node_writes", figures["faulty_node_writes"], 0),
        at_most(
            f"faulty_writes beyond {FAULTY_WRITES} + seconds",
            figures["faulty_writes"] - FAULTY_WRITES - figures["faulty_whole_seconds"],
            0,
        ),
        at_most("steady_requests", figures["steady_requests"], most_requests(figures, phase="steady")),
        at_most("faulty_requests", figures["faulty_requests"], most_requests(figures, phase="faulty")),
        at_most("steady_requests_per_second", figures["steady_requests_per_second"], REQUESTS_PER_SECOND),
        at_most("steady_uncounted_polls", figures["steady_uncounted_polls"], MAX_IN_FLIGHT),
        at_most("most_requests_of_a_node", figures["most_requests_of_a_node"], 1),
        at_most("most_connections_of_a_node", figures["most_connections_of_a_node"], 1),
        at_most("most_connections", figures["most_connections"], MAX_KEPT + MAX_IN_FLIGHT),
        exactly("faulty_healthy_unknown", figures["faulty_healthy_unknown"], 0),
        of_the_machine(at_most("steady_cpu_fraction", figures["steady_cpu_fraction"], CPU_FRACTION)),
        of_the_machine(at_most("peak_rss_above_bytes", figures["peak_rss_above_bytes"], RSS_BYTES)),
        of_the_machine(
            at_most("faulty_healthy_age_p99_seconds", figures["faulty_healthy_age_p99_seconds"], limit)
        ),
        of_the_machine(at_most("steady_failed_polls", figures["steady_failed_polls"], 0)),
    ]


def most_requests(figures: Figures, *, phase: str) -> int:
    """Return how many requests the intervals allow for: a little more often, since intervals vary.

    A poll may be under way at either end, and at times a kubelet is asked for its configuration too.
    """
    hot = figures["hot_nodes"]
    cold_rate = (figures["nodes"] - hot) / figures["poll_seconds"]
    hot_rate = min(hot / figures["hot_poll_seconds"], HOT_POLLS_PER_SECOND)
    polls: float = (cold_rate + hot_rate) / (1 - JITTER_SHARE) + 1 / PROBE_SPACING_SECONDS
    seconds: float = figures[f"{phase}_seconds"]
    return round(seconds * polls) + MAX_IN_FLIGHT


def percentile_limit(figures: Figures) -> float:
    """Return how old the sample of a healthy node may be while others do not answer."""
    return round(AGE_RATIO * float(figures["steady_healthy_age_p99_seconds"]), 1)


def _of_phase(name: str, phase: Phase, base: Baseline) -> Figures:
    asked, usage, ages = phase.asking, phase.usage, phase.ages
    polls, sampled = sum(asked.samples.values()), asked.samples.get(SAMPLED, 0)
    cpu = usage.fraction("operator")
    above = (cpu - base.cpu_fraction) * usage.seconds
    requests = sum(asked.requests.values())
    found: Figures = {
        "seconds": usage.seconds,
        "whole_seconds": phase.whole_seconds,
        "polls": polls,
        "polls_per_second": polls / usage.seconds,
        "failed_polls": polls - sampled,
        "samples": dict(sorted(asked.samples.items())),
        "requests": requests,
        "requests_per_second": requests / usage.seconds,
        "requests_by_path": dict(sorted(asked.requests.items())),
        "uncounted_polls": abs(asked.requests.get(SUMMARY, 0) - polls),
        "poll_mean_seconds": asked.poll_seconds / polls if polls else None,
        "connections_made": asked.made,
        "cpu_fraction": cpu,
        "cpu_seconds_per_sample": above / sampled if sampled else None,
        "rss_bytes": phase.rss_bytes,
        "peak_rss_bytes": phase.peak_rss_bytes,
        "writes": sum(phase.written.values()),
        "written": dict(phase.written),
        "node_writes": phase.node_writes,
        "kubelet_reviews_per_second": phase.reviews / phase.whole_seconds,
        "healthy_unknown": sum(ages.unknown[group] for group in HEALTHY),
        **_ages("healthy", ages.of(*HEALTHY)),
        **_ages("cold", ages.of("cold")),
        **_ages("hot", ages.of("hot")),
        **{f"{each}_cpu_fraction": usage.fraction(each) for each in usage.cpu if each != "operator"},
    }
    return {f"{name}_{each}": value for each, value in found.items()}


def _ages(name: str, ages: list[float]) -> Figures:
    return {
        f"{name}_age_median_seconds": percentile(ages, 0.5),
        f"{name}_age_p99_seconds": percentile(ages, 0.99),
        f"{name}_age_longest_seconds": max(ages, default=None),
    }
