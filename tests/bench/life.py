"""What comes after: an edit, quiet, a restart, drift made by hand, and what a pass costs."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from bench import api as bench_api
from bench.contenders import Cold, OperatorContender
from bench.counting import Burst, burst, is_node_patch, repair_seconds, requests, verbs
from bench.errors import BenchError
from bench.fleet import wait_at_rest
from bench.ground import Ground
from bench.operator_process import USER
from bench.pool import EDITED_LABEL, LABELS, NAME
from bench.sampling import Meter, memory_bytes
from bench.scraping import PodPasses
from bench.tools import run_tool
from winpool.kube.nodes import NODES_PATH

AFTER_RESTART_SECONDS: Final = 10.0
"""How long a restarted operator is watched for writes to nodes."""

ALIVE_SECONDS: Final = 5.0
"""How often it is looked whether the operator still runs, while nothing else is asked."""

REPAIR_SECONDS: Final = 60.0
"""Guard for one drift; one second is promised."""
REPAIR_POLL_SECONDS: Final = 0.05

PASS_SECONDS: Final = 300.0
"""Guard for forty passes."""

EDITED_VALUE: Final = "interactive"


@dataclass(frozen=True, slots=True)
class Steady:
    """So many seconds of a converged pool: ``verbs`` and ``requests`` are the operator's, but for Leases."""

    seconds: float
    verbs: Counter[str]
    requests: dict[str, int]
    cpu_fraction: float
    fractions: dict[str, float]
    rss_bytes: int
    heartbeats: int


@dataclass(frozen=True, slots=True)
class Restart:
    """A converged operator ended and started again."""

    ready_seconds: float
    node_writes: int
    other_writes: int
    requests: dict[str, int]


@dataclass(frozen=True, slots=True)
class PassCost:
    """CPU seconds of one pass, and of one decision, over all nodes unchanged.

    ``two_rooms_ratio`` is by how much a second feature, which wants nothing, makes that decision longer.
    """

    pass_cpu_seconds: float
    decide_cpu_seconds: float
    two_rooms_ratio: float


@dataclass(frozen=True, slots=True)
class Life:
    """All of it. ``peak_rss_bytes`` is the highest of the operator's processes.

    ``passes`` are those of the process that converged, was edited, and was left alone.
    """

    cold: Cold
    edit: Burst
    steady: Steady
    restart: Restart
    repairs: list[float]
    drifts: int
    cost: PassCost
    peak_rss_bytes: int
    passes: PodPasses
    api_server_peak_rss_bytes: int


def run_life(ground: Ground, *, steady_seconds: float, drifts: int) -> Life:
    """Run one operator's life after the rounds, from a bare fleet to a bare fleet."""
    report = ground.report
    ground.operator.start()
    wait_at_rest(ground.trail)
    contender = OperatorContender(ground)
    cold = contender.apply()
    report.say(f"converged again after {cold.wall_seconds:.1f} s")
    wait_at_rest(ground.trail)
    edit = run_edit(ground)
    report.say(f"one edit: {edit.node_patches:,} PATCHes in {edit.seconds:.2f} s")
    wait_at_rest(ground.trail)
    report.say(f"quiet for {steady_seconds:.0f} s")
    steady = run_steady(ground, seconds=steady_seconds)
    report.say(f"quiet: {steady.requests or 'nothing asked'}, {steady.cpu_fraction:.2%} of a core")
    peak = memory_bytes(ground.operator.pid, peak=True)
    passes = PodPasses.read(ground.operator.scrape())
    if passes.passes is not None:
        report.say(
            f"passes over all pods: {passes.passes:.0f}, of {passes.pods_seen or 0:,.0f} pods in the last"
        )
    restart = run_restart(ground)
    report.say(f"restart: ready after {restart.ready_seconds:.2f} s, {restart.node_writes} writes to nodes")
    cost = run_pass_cost(ground)
    report.say(f"a pass over {ground.nodes:,} nodes: {cost.pass_cpu_seconds * 1000:.1f} ms of CPU")
    repairs = run_drifts(ground, drifts=drifts)
    report.say(f"drift: {len(repairs)} of {drifts} repaired")
    peak = max(peak, memory_bytes(ground.operator.pid, peak=True))
    contender.undo()
    ground.operator.stop()
    return Life(
        cold, edit, steady, restart, repairs, drifts, cost, peak, passes, ground.api_server_peak_bytes()
    )


def run_edit(ground: Ground) -> Burst:
    """Change one value of the spec, and wait until every node has it."""
    start = ground.trail.mark()
    ground.pool.edit(EDITED_VALUE)
    ground.pool.wait_converged()
    return burst(ground.trail.between(start, ground.trail.mark()), user=USER)


def run_steady(ground: Ground, *, seconds: float) -> Steady:
    """Let the pool be, and count what the operator asks for and uses."""
    start = ground.trail.mark()
    meter = Meter({**ground.pids(), "operator": ground.operator.pid})
    began = time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        ground.operator.require_alive()
        time.sleep(min(left, ALIVE_SECONDS))
    usage = meter.read()
    records = ground.trail.between(start, ground.trail.mark())
    return Steady(
        seconds=usage.seconds,
        verbs=verbs(records, user=USER),
        requests=requests(records, user=USER),
        cpu_fraction=usage.fraction("operator"),
        fractions={name: usage.fraction(name) for name in usage.cpu},
        rss_bytes=memory_bytes(ground.operator.pid),
        heartbeats=burst(records, user=USER).foreign_writes,
    )


def run_restart(ground: Ground) -> Restart:
    """End the operator and start it again; count what it writes until some seconds after it is ready."""
    ground.operator.stop()
    start = ground.trail.mark()
    ready = ground.operator.start()
    time.sleep(AFTER_RESTART_SECONDS)
    ground.operator.require_alive()
    records = ground.trail.between(start, ground.trail.mark())
    writes = [each for each in records if each.user == USER and each.writes]
    nodes = sum(each.resource == "nodes" for each in writes)
    return Restart(ready, nodes, len(writes) - nodes, requests(records, user=USER))


def run_pass_cost(ground: Ground) -> PassCost:
    """Measure passes over the nodes as they are, in a process of their own."""
    result = run_tool(
        "bench.passcost",
        "--kubeconfig",
        str(ground.testbed.kubeconfig("admin")),
        "--pool",
        NAME,
        directory=ground.testbed.directory,
        seconds=PASS_SECONDS,
    )
    if result["nodes"] != ground.nodes:
        raise BenchError(f"the pass was measured over {result['nodes']} nodes, not {ground.nodes}")
    return PassCost(result["pass_cpu_seconds"], result["decide_cpu_seconds"], result["two_rooms_ratio"])


def run_drifts(ground: Ground, *, drifts: int) -> list[float]:
    """Take a label off one node after the other, and return how long each lacked it, in seconds."""
    names = [each["metadata"]["name"] for each in _some_nodes(ground, count=drifts)]
    start = ground.trail.mark()
    for name in names:
        _drift(ground, name)
    records = ground.trail.between(start, ground.trail.mark())
    return repair_seconds(
        [each for each in records if is_node_patch(each)], drifter=bench_api.USER, user=USER
    )


def _drift(ground: Ground, name: str) -> None:
    path = f"{NODES_PATH}/{name}"
    ground.api.patch(path, {"metadata": {"labels": {EDITED_LABEL: None}}})
    deadline = time.monotonic() + REPAIR_SECONDS
    while EDITED_LABEL not in (ground.api.find(path) or {}).get("metadata", {}).get("labels", {}):
        ground.operator.require_alive()
        if time.monotonic() > deadline:
            return  # not repaired: it will be missing in the count
        time.sleep(REPAIR_POLL_SECONDS)


def _some_nodes(ground: Ground, *, count: int) -> list[bench_api.Object]:
    assert EDITED_LABEL in LABELS
    found = ground.api.find(f"{NODES_PATH}?labelSelector=winpool.dev%2Fpool%3D{NAME}&limit={count}") or {}
    items: list[bench_api.Object] = found.get("items", [])
    return items
