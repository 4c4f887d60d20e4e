"""``make bench-hostile``: what others may create is made as large as it gets, and the operator has to go on.

Two scenes beside a converged pool of an innocent user. In the first, an editor of pools creates paused pools
whose selectors exclude a thousand values and select every node. In the second, a tenant with no right but to
create PodDisruptionBudgets makes each select by 160,000 values. Meanwhile a label of the innocent pool is
removed again and again, and the liveness of the operator is asked for. ``SCALE`` makes both larger.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any, Final

from bench.errors import BenchError
from bench.fleet import read_fleet, wait_at_rest
from bench.ground import Ground, prepared
from bench.operator_process import USER, OperatorProcess
from bench.pool import EDITED_LABEL, LABELS
from bench.report import Report
from bench.sampling import cpu_seconds, memory_bytes
from bench.targets import Target, at_least, at_most, of_the_machine, told
from winpool.api.keys import API_VERSION, KIND
from winpool.kube.nodes import NODES_PATH
from winpool.kube.pools import POOLS_PATH

RIVALS: Final = 60
EXPRESSIONS, VALUES = 16, 64
"""The most that the CRD admits."""
BUDGETS: Final = 28
BUDGET_VALUES: Final = 160_000
"""Of four characters each: an object of 1.1 MB, near the most that etcd takes."""
TENANT: Final = "tenant"

AFTER_SECONDS: Final = 60.0
"""How long the innocent pool is watched after each scene: all pools have had their passes by then."""
RSS_BYTES: Final = 200 * 1024 * 1024
REPAIR_SECONDS: Final = 2.0
LIVE_SECONDS: Final = 1.0
PROBE_SECONDS: Final = 0.5
GIVE_UP_SECONDS: Final = 300.0
"""For one repair. It took 222 s before selectors were asked once only."""

Object = dict[str, Any]


@dataclass(slots=True)
class Meanwhile:
    """How long each repair of the innocent pool and each answer of /healthz took, in seconds."""

    repairs: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)


def run_hostile(*, nodes: int, scale: int, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    figures: dict[str, Any] = {"nodes": nodes, "scale": scale}
    with prepared(nodes=nodes, directory=directory, report=report) as ground:
        ground.operator.start()
        ground.pool.create()
        ground.pool.wait_converged()
        wait_at_rest(ground.trail)
        figures["rss_before_bytes"] = memory_bytes(ground.operator.pid)
        start = ground.trail.mark()
        with _watched(ground, "selectors", figures):
            for number in range(RIVALS * scale):
                ground.api.create(POOLS_PATH, rival(number))
        ground.api.patch(
            ground.pool.path, {"spec": {"os": {"version": "2022", "targetRevision": 9999}, "upgrade": {}}}
        )
        wait_at_rest(ground.trail)  # 500 nodes are due now, and get a label
        ground.api.create("/api/v1/namespaces", {"metadata": {"name": TENANT}})
        with _watched(ground, "budgets", figures):
            for number in range(BUDGETS * scale):
                path = f"/apis/policy/v1/namespaces/{TENANT}/poddisruptionbudgets"
                ground.api.create(path, budget(number))
        figures["budget_lists"] = sum(
            each.user == USER and each.verb == "list" and each.resource == "poddisruptionbudgets"
            for each in ground.trail.between(start, ground.trail.mark())
        )
        figures["peak_rss_bytes"] = memory_bytes(ground.operator.pid, peak=True)
        ground.operator.require_alive()
        ground.operator.stop()
    wanted = hostile_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


def rival(number: int) -> Object:
    """Return a paused pool that selects every Windows node by a thousand values that no label has."""
    expressions = [
        {
            "key": f"example.com/key-{each}",
            "operator": "NotIn",
            "values": [f"{number:05}-{each:02}-{value:02}" + "x" * 50 for value in range(VALUES)],
        }
        for each in range(EXPRESSIONS)
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": f"rival-{number:05}"},
        "spec": {
            "mode": "Paused",
            "nodeSelector": {"matchExpressions": expressions},
            "os": {"version": "2022"},
        },
    }


def budget(number: int) -> Object:
    """Return a PodDisruptionBudget with one very long list of values."""
    values = ["".join(each) for each in islice(product(digits + ascii_lowercase, repeat=4), BUDGET_VALUES)]
    return {
        "metadata": {"name": f"budget-{number:05}"},
        "spec": {
            "maxUnavailable": 0,
            "selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]},
        },
    }


def hostile_targets(figures: dict[str, Any]) -> list[Target]:
    """Return what must be shown."""
    longest = ("selectors_repair_seconds", "budgets_repair_seconds")
    live = ("selectors_live_seconds", "budgets_live_seconds")
    return [
        at_most("peak_rss_bytes", figures["peak_rss_bytes"], RSS_BYTES),
        at_least("budget_lists", figures["budget_lists"], 1),
        *(of_the_machine(at_most(name, figures[name], REPAIR_SECONDS)) for name in longest),
        *(of_the_machine(at_most(name, figures[name], LIVE_SECONDS)) for name in live),
    ]


@contextmanager
def _watched(ground: Ground, scene: str, figures: dict[str, Any]) -> Iterator[None]:
    """Repair and ask while the scene is made and for a while after, and note the longest of each."""
    found, is_over = Meanwhile(), threading.Event()
    asker = threading.Thread(target=_ask, args=(ground.operator, found, is_over))
    asker.start()
    began, cpu = time.monotonic(), cpu_seconds(ground.operator.pid)
    try:
        yield
        made = time.monotonic()
        _repair(ground, found, until=made + AFTER_SECONDS)
    finally:
        is_over.set()
        asker.join()
    if not (found.repairs and found.answers):
        raise BenchError(f"nothing was measured in the scene {scene}")
    figures |= {
        f"{scene}_made_seconds": made - began,
        f"{scene}_cpu_seconds": cpu_seconds(ground.operator.pid) - cpu,
        f"{scene}_rss_bytes": memory_bytes(ground.operator.pid, peak=True),
        f"{scene}_repairs": len(found.repairs),
        f"{scene}_repair_seconds": max(found.repairs),
        f"{scene}_live_seconds": max(found.answers),
    }
    ground.report.say(
        f"{scene}: {len(found.repairs)} repairs, the longest {max(found.repairs):.2f} s; /healthz at most "
        f"{max(found.answers):.2f} s; {figures[f'{scene}_cpu_seconds']:.1f} s of CPU; "
        f"{figures[f'{scene}_rss_bytes']:,} bytes"
    )


def _repair(ground: Ground, found: Meanwhile, *, until: float) -> None:
    """Remove a label of the innocent pool from one node after the other, and wait for it each time."""
    names = sorted(read_fleet(ground.api))
    while time.monotonic() < until:
        path = f"{NODES_PATH}/{names[len(found.repairs) % len(names)]}"
        ground.api.patch(path, {"metadata": {"labels": {EDITED_LABEL: None}}})
        began = time.monotonic()
        while (ground.api.find(path) or {})["metadata"]["labels"].get(EDITED_LABEL) != LABELS[EDITED_LABEL]:
            ground.operator.require_alive()
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise BenchError(f"a label was not put back in {GIVE_UP_SECONDS:.0f} s")
            time.sleep(0.02)
        found.repairs.append(time.monotonic() - began)
        time.sleep(PROBE_SECONDS)


def _ask(operator: OperatorProcess, found: Meanwhile, is_over: threading.Event) -> None:
    """Ask for the liveness again and again; no answer in time counts as long as it was waited for."""
    while not is_over.wait(PROBE_SECONDS):
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"http://{operator.address}/healthz", timeout=30) as answer:
                answer.read()
        except OSError:
            pass
        found.answers.append(time.monotonic() - began)
