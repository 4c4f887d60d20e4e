"""From what was measured to the figures of the last line, and what was wanted of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.cold import Rounds
from bench.contenders import Cold
from bench.counting import Burst
from bench.life import Life
from bench.pods import PodSetup
from bench.rounds import farthest, middle, percentile, ratios
from bench.targets import Target, at_least, at_most, exactly, of_the_machine
from winpool.kube.lists import OBJECTS_A_PAGE

RATIO: Final = 0.8
"""Of the raw loader's rate; 0.9 is aimed at."""
PEAK_RSS_BYTES: Final = 150_000_000
STEADY_FRACTION: Final = 0.02
TWO_ROOMS: Final = 1.3
"""A second feature may make a decision so much longer: each feature is asked in every pass."""
PASS_SECONDS: Final = 0.05
READY_SECONDS: Final = 10.0
REPAIR_SECONDS: Final = 1.0
OTHER_WRITES: Final = 10
"""Plus one a second: a status at most each second, the finalizer, some events."""
POOL_LIST_SECONDS: Final = 300
NODE_LIST_SECONDS: Final = 600
"""How often pools and nodes are listed anew by a converged operator; and with the nodes, once, the strays."""
POD_PASS_SECONDS: Final = 600
"""How often the operator looks at all pods where it is told nothing else."""
POD_PASSES: Final = 2
"""So many at least must be in what is told of memory."""
PODS_PER_PAGE: Final = 500
"""What the operator asks for at once."""
POD_LISTS: Final = "list pods"

Figures = dict[str, Any]


def cold_figures(done: Rounds, *, nodes: int) -> Figures:
    """Return medians of rates and times, of counts the worst round, and both round by round."""
    ours, theirs = done.operator, done.loader
    rates = [each.burst.nodes_per_second for each in ours]
    loader_rates = [each.burst.nodes_per_second for each in theirs]
    by_round = ratios(rates, loader_rates)

    def worst(read: Callable[[Burst], int], *, wanted: int = 0) -> int:
        return farthest([read(each.burst) for each in ours], wanted=wanted)

    return {
        "seconds": middle([each.burst.seconds for each in ours]),
        "node_patches": worst(lambda counts: counts.node_patches, wanted=nodes),
        "node_conflicts": worst(lambda counts: counts.node_conflicts),
        "node_gets": worst(lambda counts: counts.node_gets),
        "other_writes": worst(lambda counts: counts.other_writes),
        "operator_nodes_per_second": middle(rates),
        "loader_nodes_per_second": middle(loader_rates),
        "ratio_rounds": by_round,
        "ratio_median": middle(by_round),
        "operator_cpu_seconds": middle([each.cpu_seconds for each in ours]),
        "loader_cpu_seconds": middle([each.cpu_seconds for each in theirs]),
        "converged_seconds": middle([each.wall_seconds for each in ours]),
        "release_node_patches": farthest([each.node_patches for each in done.released], wanted=nodes),
        "release_seconds": middle([each.seconds for each in done.released]),
        **_by_round("operator", ours),
        **_by_round("loader", theirs),
    }


def life_figures(life: Life, done: Rounds) -> Figures:
    """Return the figures of the stages after the rounds."""
    peaks = [each.peak_rss_bytes or 0 for each in (*done.operator, life.cold)]
    steady, restart = life.steady, life.restart
    return {
        "operator_peak_rss_bytes": max(life.peak_rss_bytes, *peaks),
        "edit_node_patches": life.edit.node_patches,
        "edit_node_conflicts": life.edit.node_conflicts,
        "edit_foreign_writes": life.edit.foreign_writes,
        "edit_seconds": life.edit.seconds,
        "steady_seconds": steady.seconds,
        "steady_writes": steady.verbs["write"],
        "steady_gets": steady.verbs["get"],
        # Lists of pods are a matter of their own: they come with the passes over them, page by page.
        "steady_lists": steady.verbs["list"] - steady.requests.get(POD_LISTS, 0),
        "steady_pod_lists": steady.requests.get(POD_LISTS, 0),
        "steady_watches": steady.verbs["watch"],
        "steady_requests": steady.requests,
        "steady_cpu_fraction": steady.cpu_fraction,
        "steady_rss_bytes": steady.rss_bytes,
        "steady_heartbeats": steady.heartbeats,
        **{
            f"steady_{name}_cpu_fraction": each
            for name, each in steady.fractions.items()
            if name != "operator"
        },
        "restart_ready_seconds": restart.ready_seconds,
        "restart_writes": restart.node_writes,
        "restart_other_writes": restart.other_writes,
        "drifts": life.drifts,
        "drift_repairs": len(life.repairs),
        "drift_repair_median_seconds": middle(life.repairs),
        "drift_repair_p99_seconds": percentile(life.repairs, 0.99),
        "pass_cpu_seconds": life.cost.pass_cpu_seconds,
        "decide_cpu_seconds": life.cost.decide_cpu_seconds,
        "two_rooms_ratio": life.cost.two_rooms_ratio,
    }


def pod_figures(life: Life, setup: PodSetup, *, pass_interval_seconds: int) -> Figures:
    """Return what there was of pods, and what looking at them took; None for what is not told."""
    passes = life.passes
    return {
        "pods_setup_seconds": setup.seconds,
        "pod_bytes": setup.pod_bytes,
        "api_server_peak_rss_bytes": life.api_server_peak_rss_bytes,
        "pod_pass_interval_seconds": pass_interval_seconds,
        "pod_passes": _whole(passes.passes),
        "pod_pass_errors": _whole(passes.errors),
        "pod_pass_seconds": passes.seconds_each,
        "pods_seen": _whole(passes.pods_seen),
    }


def pod_targets(figures: Figures) -> list[Target]:
    """Return what must be shown where there are pods."""
    passes = int(figures["steady_seconds"] // figures["pod_pass_interval_seconds"]) + 1
    pages = -(-figures["pods"] // PODS_PER_PAGE)
    return [
        of_the_machine(at_least("pod_passes", figures["pod_passes"], POD_PASSES)),
        at_most("steady_pod_lists", figures["steady_pod_lists"], passes * max(1, pages)),
    ]


def targets(figures: Figures, done: Rounds, *, nodes: int) -> list[Target]:
    """Return what must be shown, beside what was measured. Those that depend on N are for 5,000 nodes."""
    # Of every round how far it went beyond what it was allowed, since that differs from round to round.
    conflicts = max(each.burst.node_conflicts - each.burst.foreign_writes for each in done.operator)
    writes = max(each.burst.other_writes - OTHER_WRITES - each.burst.seconds for each in done.operator)
    seconds = figures["steady_seconds"]
    pool_lists = int(seconds // POOL_LIST_SECONDS) + 1
    node_lists = int(seconds // NODE_LIST_SECONDS) + 1
    pages = -(-nodes // OBJECTS_A_PAGE)
    asked = figures["steady_requests"]
    return [
        exactly("node_patches", figures["node_patches"], nodes),
        at_most("node_conflicts beyond writes by others", conflicts, 0),
        exactly("node_gets", figures["node_gets"], 0),
        at_most(f"other_writes beyond {OTHER_WRITES} + seconds", writes, 0),
        of_the_machine(at_least("ratio_median", figures["ratio_median"], RATIO)),
        of_the_machine(
            at_most("operator_peak_rss_bytes", figures["operator_peak_rss_bytes"], PEAK_RSS_BYTES)
        ),
        exactly("steady_writes", figures["steady_writes"], 0),
        exactly("steady_gets", figures["steady_gets"], 0),
        at_most("steady_requests: list windowsnodepools", asked.get("list windowsnodepools", 0), pool_lists),
        # A list of all nodes is as many requests as it has pages; that of strays is one.
        at_most("steady_requests: list nodes", asked.get("list nodes", 0), node_lists * (pages + 1)),
        of_the_machine(at_most("steady_cpu_fraction", figures["steady_cpu_fraction"], STEADY_FRACTION)),
        of_the_machine(at_most("restart_ready_seconds", figures["restart_ready_seconds"], READY_SECONDS)),
        exactly("restart_writes", figures["restart_writes"], 0),
        exactly("edit_node_patches", figures["edit_node_patches"], nodes),
        exactly("drift_repairs", figures["drift_repairs"], figures["drifts"]),
        of_the_machine(
            at_most("drift_repair_p99_seconds", figures["drift_repair_p99_seconds"], REPAIR_SECONDS)
        ),
        of_the_machine(at_most("pass_cpu_seconds", figures["pass_cpu_seconds"], PASS_SECONDS)),
        of_the_machine(at_most("two_rooms_ratio", figures["two_rooms_ratio"], TWO_ROOMS)),
    ]


ROUND_HEADER: Final = (
    "round", "side", "nodes/s", "seconds", "patches", "409", "by others", "gets", "other writes",
    "in flight", "CPU s", "apiserver CPU s", "etcd CPU s", "kcm CPU s", "winsim CPU s", "until converged s",
)  # fmt: skip


def round_rows(done: Rounds) -> list[tuple[object, ...]]:
    """Return a line for each side of each round."""
    return [
        (number, side, *_row(cold))
        for number, pair in enumerate(done.complete, start=1)
        for side, cold in zip(("operator", "loader"), pair, strict=True)
    ]


def _row(cold: Cold) -> tuple[object, ...]:
    counts, cpu = cold.burst, cold.usage.cpu
    return (
        counts.nodes_per_second,
        counts.seconds,
        counts.node_patches,
        counts.node_conflicts,
        counts.foreign_writes,
        counts.node_gets,
        counts.other_writes,
        counts.in_flight,
        cold.cpu_seconds,
        *(cpu.get(name) for name in ("apiserver", "etcd", "kcm", "winsim")),
        cold.wall_seconds,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _by_round(side: str, colds: Sequence[Cold]) -> Figures:
    counts = [each.burst for each in colds]
    return {
        f"{side}_nodes_per_second_rounds": [each.nodes_per_second for each in counts],
        f"{side}_node_patches_rounds": [each.node_patches for each in counts],
        f"{side}_node_conflicts_rounds": [each.node_conflicts for each in counts],
        f"{side}_foreign_writes_rounds": [each.foreign_writes for each in counts],
        f"{side}_in_flight_rounds": [each.in_flight for each in counts],
    }
