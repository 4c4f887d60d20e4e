"""``make bench-fence``: what the fence costs on a node with very many labels, against the same without it.

Two writes are measured: the status report of a kubelet, of which the fence only compares the account, and a
patch of the operator, for which the fence goes over all labels of the node. Each turn takes the bindings of
the fence away or puts them back, and the turns alternate, so that a machine that slows down harms both alike.
What is measured is the CPU of the API server: how long an answer takes says more of what else runs there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchError
from bench.ground import Ground, prepared
from bench.operator_process import USER
from bench.report import Report
from bench.rounds import middle
from bench.sampling import cpu_seconds
from bench.targets import Target, at_most, exactly, of_the_machine, told
from harness.identity import Caller
from winpool.api.admission import API_GROUP, API_VERSION, BINDING_KIND, BINDINGS
from winpool.api.fence import policies
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, OS_WINDOWS

NODE: Final = "stuffed"
PATH: Final = f"/api/v1/nodes/{NODE}"
BINDINGS_PATH: Final = f"/apis/{API_GROUP}/{API_VERSION}/{BINDINGS}"
FOREIGN: Final = "example.com/foreign"
"""An annotation that the fence keeps the operator from writing: what tells whether it is enforced."""
TEAM: Final = "example.com/team"

WITH, WITHOUT = "with", "without"
KUBELET, OPERATOR = "kubelet", "operator"

WARM_UP: Final = 2
"""Writes of each kind that are not counted, in each turn: the first after a change of policies cost more."""
TIMES_THE_COST: Final = 2.0
"""At most, for a status report. A policy that goes over the labels takes 2.5 to 6 times as long."""

OK, FORBIDDEN, NOT_FOUND = 200, 403, 404
SETTLE_SECONDS: Final = 60.0
"""Guard for a policy that comes or goes: each API server looks once a second."""
POLL_SECONDS: Final = 0.5


@dataclass(slots=True)
class Samples:
    """CPU seconds of the API server for one write, by who writes and by turn.

    ``refused`` are the writes that were not answered with 200.
    """

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    refused: int = 0
    writes: int = 0

    def add(self, who: str, turn: str, seconds: float) -> None:
        """Add the mean of the writes of a turn."""
        self.seconds.setdefault((who, turn), []).append(seconds)


def turns(rounds: int) -> list[str]:
    """Return the order of the turns: with, without, without, with, and so on."""
    pairs = ((WITH, WITHOUT) if number % 2 == 0 else (WITHOUT, WITH) for number in range(rounds))
    return [turn for pair in pairs for turn in pair]


def run_fence(*, labels: int, rounds: int, writes: int, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    samples = Samples()
    with (
        prepared(nodes=1, directory=directory, report=report) as ground,
        _stuffed(ground, labels=labels),
        Caller.kubelet(ground.testbed, NODE) as kubelet,
        Caller.named(ground.testbed, USER, "system:authenticated") as operator,
    ):
        server = ground.testbed.component("apiserver").pid
        for number, turn in enumerate(turns(rounds)):
            _set_fence(ground, operator, on=turn == WITH)
            for who, write in (
                (KUBELET, lambda text: kubelet.patch(f"{PATH}/status", _reported(text))),
                (OPERATOR, lambda text: operator.patch(PATH, _written(text))),
            ):
                seconds = _measured(write, f"turn-{number}", writes=writes, server=server, samples=samples)
                samples.add(who, turn, seconds)
                report.say(
                    f"round {number // 2 + 1}, {turn} the fence, {who}: {1000 * seconds:.1f} ms a write"
                )
        _set_fence(ground, operator, on=True)
    figures = fence_figures(samples, labels=labels, rounds=rounds)
    report.table("CPU of the API server for one write, ms", _HEADER, fence_rows(samples))
    wanted = fence_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


_HEADER: Final = ("who", "fence", "median", "lowest", "highest")


def fence_rows(samples: Samples) -> list[tuple[str, str, float, float, float]]:
    """Return the rows of the table, in milliseconds."""
    return [
        (who, turn, 1000 * middle(found), 1000 * min(found), 1000 * max(found))
        for (who, turn), found in sorted(samples.seconds.items())
    ]


def fence_figures(samples: Samples, *, labels: int, rounds: int) -> dict[str, Any]:
    """Return what is told, by name."""
    figures: dict[str, Any] = {
        "labels": labels,
        "rounds": rounds,
        "writes": samples.writes,
        "refused": samples.refused,
    }
    for who in (KUBELET, OPERATOR):
        on, off = samples.seconds[who, WITH], samples.seconds[who, WITHOUT]
        figures[f"{who}_with_cpu_seconds_rounds"] = on
        figures[f"{who}_without_cpu_seconds_rounds"] = off
        figures[f"{who}_with_cpu_seconds"] = middle(on)
        figures[f"{who}_without_cpu_seconds"] = middle(off)
        # Where a write costs less than the kernel's clock shows, there is no ratio.
        figures[f"{who}_ratio"] = middle(on) / middle(off) if middle(off) else None
    return figures


def fence_targets(figures: dict[str, Any]) -> list[Target]:
    """Return what must be shown."""
    return [
        exactly("refused", figures["refused"], 0),
        of_the_machine(at_most("kubelet_ratio", figures["kubelet_ratio"], TIMES_THE_COST)),
    ]


@contextmanager
def _stuffed(ground: Ground, *, labels: int) -> Iterator[None]:
    """Have a Windows node with so many labels, whose kubelet is the bench."""
    many = {f"l.example.com/k{number:05d}": "v" for number in range(labels)}
    metadata = {"name": NODE, "labels": {**many, OS_LABEL: OS_WINDOWS}}
    ground.testbed.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    )
    try:
        yield
    finally:
        ground.testbed.kubectl("delete", "node", NODE)


def _set_fence(ground: Ground, operator: Caller, *, on: bool) -> None:
    """Create or delete the bindings of the fence; return when that is so for a write of the operator."""
    for name, _, spec in policies():
        there = ground.api.find(f"{BINDINGS_PATH}/{name}") is not None
        if on and not there:
            about = {
                "apiVersion": f"{API_GROUP}/{API_VERSION}",
                "kind": BINDING_KIND,
                "metadata": {"name": name},
            }
            ground.api.create(BINDINGS_PATH, {**about, "spec": spec})
        elif there and not on:
            ground.api.delete(f"{BINDINGS_PATH}/{name}")
    deadline = time.monotonic() + SETTLE_SECONDS
    wanted = FORBIDDEN if on else OK
    probe = {"metadata": {"annotations": {FOREIGN: "x"}}}
    while (answer := operator.patch(f"{PATH}?dryRun=All", probe))[0] != wanted:
        if time.monotonic() > deadline:
            raise BenchError(
                f"the fence is not as set after {SETTLE_SECONDS:.0f} s: {answer[1].get('message')}"
            )
        time.sleep(POLL_SECONDS)


def _measured(
    write: Callable[[str], tuple[int, Any]], text: str, *, writes: int, server: int, samples: Samples
) -> float:
    """Return the CPU seconds of the API server for one write, on average; no two writes are equal."""
    for number in range(WARM_UP):
        write(f"{text}-warm-{number}")
    before = cpu_seconds(server)
    answers = [write(f"{text}-{number}")[0] for number in range(writes)]
    used = cpu_seconds(server) - before
    samples.writes += len(answers)
    samples.refused += sum(status != OK for status in answers)
    return used / writes


def _reported(text: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "DiskPressure", "status": "False", "reason": text}]}}


def _written(text: str) -> dict[str, Any]:
    """Return a patch as the operator makes it: a label, and the record of it."""
    return {"metadata": {"labels": {TEAM: text}, "annotations": {APPLIED_ANNOTATION: text}}}
