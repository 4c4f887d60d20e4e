"""``make bench-join``: ten nodes join a cluster full of pods, and how long each stands open is measured.

The pool is converged on all other nodes, with a startup taint and taints with both effects. An open node is
one without the startup taint: from the answer to its kubelet that its Node is there to the answer to the
operator's first PATCH. The last taint, NoExecute, follows once the pods of the node were listed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.counting import OK, is_node_patch
from bench.errors import BenchError
from bench.fleet import read_fleet, wait_at_rest
from bench.ground import Ground, prepared
from bench.operator_process import USER
from bench.pods import create_pods
from bench.pool import TAINTS
from bench.report import Report
from bench.rounds import middle
from bench.targets import Target, at_most, exactly, of_the_machine, told
from testbed.audit import AuditRecord
from testbed.options import GIBIBYTE, Options
from winpool.model.node import Node

JOINING: Final = 10
OPEN_SECONDS: Final = 2.0
"""So long a node that joins may stand open, whatever the number of pods."""
STARTUP_KEY: Final = "example.com/starting"
NO_EXECUTE: Final = {"key": "os", "value": "windows", "effect": "NoExecute"}
SPEC: Final[dict[str, Any]] = {
    "taints": [*TAINTS, NO_EXECUTE],
    "startupTaints": [{"key": STARTUP_KEY, "effect": "NoSchedule"}],
    # Longer than the run, so that the startup taints are there when they are counted.
    "validation": {"readySeconds": 3600, "timeoutSeconds": 7200},
}
WAIT_SECONDS: Final = 300.0
"""Guard for all taints on all nodes: a look at 150,000 pods and the pause after it take half of it."""
POLL_SECONDS: Final = 0.5
ETCD_QUOTA_BYTES: Final = 8 * GIBIBYTE
"""As for the contract with pods."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Seconds from each Node's creation to the operator's first write of it, and to its last."""

    first: list[float]
    last: list[float]


def count_joined(records: Iterable[AuditRecord], names: Iterable[str]) -> Joined:
    """Count what is in these records of nodes of these names. One without a write is left out."""
    wanted = {f"system:node:{name}": name for name in names}
    created = {}
    writes: dict[str, list[float]] = {}
    for each in sorted(records, key=lambda record: record.completed or record.received):
        if each.completed is None or each.code not in (OK, 201):
            continue
        if each.verb == "create" and each.resource == "nodes" and each.user in wanted:
            created[wanted[each.user]] = each.completed
        elif is_node_patch(each) and each.user == USER and each.name in created:
            seconds = (each.completed - created[each.name]).total_seconds()
            writes.setdefault(each.name, []).append(seconds)
    return Joined([each[0] for each in writes.values()], [each[-1] for each in writes.values()])


def run_join(*, nodes: int, pods: int, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    options = Options(etcd_quota_bytes=ETCD_QUOTA_BYTES) if pods else None
    with prepared(nodes=nodes, directory=directory, report=report, options=options) as ground:
        # NoExecute would end all others, and a cluster that ends 100,000 pods is not one that nodes join.
        setup = create_pods(ground, count=pods, tolerated=[NO_EXECUTE])
        report.say(f"{setup.pods:,} pods run after {setup.seconds:.0f} s")
        ground.operator.start()
        ground.pool.create()
        ground.pool.wait_converged()
        # Those that are there have their record by now, so that they do not join.
        ground.api.patch(ground.pool.path, {"spec": {"startupTaints": SPEC["startupTaints"]}})
        ground.api.patch(ground.pool.path, {"spec": {"validation": SPEC["validation"]}})
        ground.pool.wait_converged()
        ground.api.patch(ground.pool.path, {"spec": {"taints": SPEC["taints"]}})
        ground.pool.wait_converged()
        wait_at_rest(ground.trail)
        start = ground.trail.mark()
        names = ground.testbed.fleet.join(JOINING)
        _await_taints(ground, names)
        joined = count_joined(ground.trail.between(start, ground.trail.mark()), names)
        ground.operator.require_alive()
        ground.pool.delete()
        ground.operator.stop()
    figures = join_figures(joined, nodes=nodes, pods=pods)
    wanted = join_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


def join_figures(joined: Joined, *, nodes: int, pods: int) -> dict[str, Any]:
    """Return what is told, by name."""
    return {
        "nodes": nodes,
        "pods": pods,
        "joined": len(joined.first),
        "open_median_seconds": middle(joined.first) if joined.first else None,
        "open_longest_seconds": max(joined.first, default=None),
        "tainted_longest_seconds": max(joined.last, default=None),
    }


def join_targets(figures: dict[str, Any]) -> list[Target]:
    """Return what must be shown."""
    return [
        exactly("joined", figures["joined"], JOINING),
        of_the_machine(at_most("open_longest_seconds", figures["open_longest_seconds"], OPEN_SECONDS)),
    ]


def _await_taints(ground: Ground, names: Iterable[str]) -> None:
    """Return when the nodes carry all taints of the pool."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not _are_tainted(read_fleet(ground.api), names):
        ground.operator.require_alive()
        if time.monotonic() > deadline:
            raise BenchError(f"waited {WAIT_SECONDS:.0f} s in vain for the taints of nodes that joined")
        time.sleep(POLL_SECONDS)


def _are_tainted(nodes: dict[str, Node], names: Iterable[str]) -> bool:
    wanted = {(each["key"], each["effect"]) for each in (*SPEC["taints"], *SPEC["startupTaints"])}
    found = (nodes.get(name) for name in names)
    return all(node is not None and wanted <= {taint.identity for taint in node.taints} for node in found)
