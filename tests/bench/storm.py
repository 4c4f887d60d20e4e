"""``make bench-storm``: all nodes change at once, and what the operator makes of it is counted.

Two storms over a converged pool. In the first, every kubelet reports Ready=False, and then True again. In the
second, every node loses a label of the pool by hand. What is written about that, and the series of metrics,
must not grow with the number of nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from bench.api import MERGE_PATCH
from bench.api import USER as BENCH_USER
from bench.counting import FAILED_FROM, OK, is_node_change, is_node_patch
from bench.errors import BenchError
from bench.fleet import STABLE_SECONDS, read_fleet, wait_at_rest
from bench.ground import Ground, prepared
from bench.many import Requests, for_each
from bench.operator_process import USER
from bench.pool import EDITED_LABEL
from bench.report import Report
from bench.targets import Target, at_least, at_most, exactly, told
from testbed.audit import AuditRecord
from winpool.kube.events import BURST, PER_SECOND, REPETITION_SECONDS
from winpool.kube.nodes import NODES_PATH, WINDOWS_SELECTOR

POLL_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 120.0
PATIENCE_SECONDS_PER_NODE: Final = 0.2
"""Guard: five nodes a second, a tenth of what was seen on a machine busy with other things."""
QUIET_SECONDS: Final = REPETITION_SECONDS + 5.0
"""Repetitions of an event are written up to so long after it; a storm is over when none can come any more."""
MORE_SERIES: Final = 20
"""Series that a first time makes: causes of events, codes of answers, reasons. They are few, being words."""
STATUS_WRITES_PER_SECOND: Final = 1.0
STATUS_WRITES: Final = 5
"""Beside one a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What one or several storms made: all that is counted is in the audit log between two marks."""

    seconds: float
    node_changes: int
    """Writes to nodes and their status by others, taken by the API server."""
    node_patches: int
    """By the operator, of nodes."""
    events_created: int
    events_patched: int
    status_writes: int
    """To the status of pools, by the operator, answered 200 or 201."""


def count_storm(records: Iterable[AuditRecord], *, seconds: float) -> Storm:
    """Count what is in these records."""
    taken = [each for each in records if each.writes and each.code < FAILED_FROM]
    own = [each for each in taken if each.user == USER]
    events = [each.verb for each in own if each.resource == "events"]
    return Storm(
        seconds=seconds,
        node_changes=sum(is_node_change(each) and each.user != USER for each in taken),
        node_patches=sum(is_node_patch(each) for each in own),
        events_created=events.count("create"),
        events_patched=events.count("patch"),
        status_writes=sum(
            each.resource == "windowsnodepools" and each.subresource == "status" for each in own
        ),
    )


def run_storm(
    *,
    nodes: int,
    directory: Path,
    report: Report,
    quiet_seconds: float = QUIET_SECONDS,
    rest_seconds: float = STABLE_SECONDS,
) -> dict[str, Any]:
    """Measure; return the figures of the last line.

    With a shorter ``quiet_seconds`` the repetitions of events that come later are not counted: the bounds
    hold for any time. ``rest_seconds`` is how long no node may have changed before something is done.
    """
    with prepared(nodes=nodes, directory=directory, report=report) as ground:
        ground.operator.start()
        ground.pool.create()
        ground.pool.wait_converged()
        wait_at_rest(ground.trail, seconds=rest_seconds)
        time.sleep(quiet_seconds)
        before = ground.operator.scrape().series
        start = ground.trail.mark()
        began = time.monotonic()
        storm_of_readiness(ground, rest_seconds=rest_seconds)
        storm_of_labels(ground, rest_seconds=rest_seconds)
        time.sleep(quiet_seconds)
        ground.operator.require_alive()
        storm = count_storm(
            ground.trail.between(start, ground.trail.mark()), seconds=time.monotonic() - began
        )
        after = ground.operator.scrape().series
        ground.pool.delete()
        ground.operator.stop()
    figures = storm_figures(storm, nodes=nodes, series=(before, after))
    wanted = storm_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


def storm_of_readiness(ground: Ground, *, rest_seconds: float) -> None:
    """Have every kubelet report that its node is not Ready, and then that it is, and wait for the pool."""
    report, fleet = ground.report, ground.testbed.fleet
    for ready, count in ((False, 0), (True, ground.nodes)):
        began = time.monotonic()
        fleet.set_ready("all", ready=ready)
        _await_ready(ground, count=count)
        report.say(f"{count:,} of {ground.nodes:,} nodes Ready after {time.monotonic() - began:.1f} s")
    ground.pool.wait_converged()
    wait_at_rest(ground.trail, seconds=rest_seconds)


def storm_of_labels(ground: Ground, *, rest_seconds: float) -> None:
    """Take a label of the pool off every node by hand, and wait until all have it again."""
    names = sorted(read_fleet(ground.api))
    start = ground.trail.mark()
    began = time.monotonic()
    for_each(ground, names, _strip)
    _wait(ground, lambda: _none_lacks(ground), what="every node to have its label again")
    ground.report.say(f"{len(names):,} labels taken off and back after {time.monotonic() - began:.1f} s")
    ground.pool.wait_converged()
    wait_at_rest(ground.trail, seconds=rest_seconds)
    records = ground.trail.between(start, ground.trail.mark())
    stripped = {each.name for each in records if is_node_patch(each) and each.user == BENCH_USER}
    repaired = {
        each.name for each in records if is_node_patch(each) and each.user == USER and each.code == OK
    }
    if missing := stripped - repaired:
        raise BenchError(f"{len(missing)} nodes have their label again, and the operator has not written it")


def storm_figures(storm: Storm, *, nodes: int, series: tuple[int, int]) -> dict[str, Any]:
    """Return what is told, by name."""
    return {
        "nodes": nodes,
        "seconds": storm.seconds,
        "node_changes": storm.node_changes,
        "node_patches": storm.node_patches,
        "events_created": storm.events_created,
        "events_patched": storm.events_patched,
        "status_writes": storm.status_writes,
        "metric_series_before": series[0],
        "metric_series_after": series[1],
    }


def storm_targets(figures: dict[str, Any]) -> list[Target]:
    """Return what must be shown: bounds that the number of nodes is no part of."""
    seconds = figures["seconds"]
    # Every event that was ever written is repeated once in REPETITION_SECONDS at most.
    events = BURST + PER_SECOND * seconds
    repetitions = events * (seconds / REPETITION_SECONDS + 1)
    return [
        # Each node changes three times: not Ready, Ready again, a label less.
        at_least("node_changes", figures["node_changes"], 3 * figures["nodes"]),
        at_most("events_created", figures["events_created"], round(events)),
        at_most("events_patched", figures["events_patched"], round(repetitions)),
        at_most(
            "status_writes",
            figures["status_writes"],
            round(STATUS_WRITES + STATUS_WRITES_PER_SECOND * seconds),
        ),
        at_most(
            "metric_series_after",
            figures["metric_series_after"],
            figures["metric_series_before"] + MORE_SERIES,
        ),
        exactly("node_patches", figures["node_patches"], figures["nodes"]),
    ]


def _await_ready(ground: Ground, *, count: int) -> None:
    def is_told() -> bool:
        status = (ground.api.find(ground.pool.path) or {}).get("status", {})
        return bool(status.get("readyNodes") == count)

    _wait(ground, is_told, what=f"the pool to report {count} nodes Ready")


async def _strip(requests: Requests, name: str) -> None:
    body = {"metadata": {"labels": {EDITED_LABEL: None}}}
    await requests.send("PATCH", f"{NODES_PATH}/{name}", body, content_type=MERGE_PATCH)


def _none_lacks(ground: Ground) -> bool:
    query = urlencode({"labelSelector": f"{WINDOWS_SELECTOR},!{EDITED_LABEL}", "limit": "1"}, quote_via=quote)
    return not (ground.api.find(f"{NODES_PATH}?{query}") or {}).get("items")


def _wait(ground: Ground, check: Callable[[], bool], *, what: str) -> None:
    backoff = PATIENCE_SECONDS + PATIENCE_SECONDS_PER_NODE * ground.nodes
    deadline = time.monotonic() + backoff
    while not check():
        ground.operator.require_alive()
        if time.monotonic() > deadline:
            raise BenchError(f"waited {backoff:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)
