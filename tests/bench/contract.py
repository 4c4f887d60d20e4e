"""``make bench-contract``: the node contract at scale, against a raw loader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cold import run_rounds
from bench.figures import (
    POD_PASS_SECONDS,
    ROUND_HEADER,
    cold_figures,
    life_figures,
    pod_figures,
    pod_targets,
    round_rows,
    targets,
)
from bench.ground import prepared
from bench.life import run_life
from bench.pods import create_pods
from bench.report import Report
from bench.targets import told
from testbed.options import GIBIBYTE, Options

POD_PASS_VARIABLE: Final = "WINPOOL_POD_PASS_SECONDS"
LEAST_POD_PASS_SECONDS: Final = 10
"""A pass over 150,000 pods takes seconds; one after the other would leave nothing that is quiet."""
PASSES_WHILE_STEADY: Final = 3
ETCD_QUOTA_BYTES: Final = 8 * GIBIBYTE
"""A pod is written twice, 4 kB each, and old versions stay for five minutes: 150,000 take less than 2 GiB.
The rest is room for what etcd does not give back. 8 GiB is the most that etcd itself advises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractOptions:
    """How much of everything. ``pod_pass_seconds`` 0 is chosen by ``pass_interval_seconds``."""

    nodes: int
    pods: int
    rounds: int
    steady_seconds: float
    drifts: int
    pod_pass_seconds: int = 0


def pass_interval_seconds(options: ContractOptions) -> int:
    """Return how often the operator is to look at all pods.

    As ever where there are none. With pods often enough for the quiet time to have some passes in it, so
    that what is told of memory holds for them.
    """
    if options.pod_pass_seconds:
        return options.pod_pass_seconds
    if not options.pods:
        return POD_PASS_SECONDS
    often = int(options.steady_seconds // PASSES_WHILE_STEADY)
    return min(POD_PASS_SECONDS, max(LEAST_POD_PASS_SECONDS, often))


def run_contract(options: ContractOptions, *, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    interval = pass_interval_seconds(options)
    settings = {}
    if interval != POD_PASS_SECONDS:
        settings[POD_PASS_VARIABLE] = str(interval)
        report.say(
            f"the operator looks at all pods every {interval} s here ({POD_PASS_VARIABLE}), "
            f"not every {POD_PASS_SECONDS}"
        )
    with prepared(
        nodes=options.nodes,
        directory=directory,
        report=report,
        options=Options(etcd_quota_bytes=ETCD_QUOTA_BYTES) if options.pods else None,
        settings=settings,
    ) as ground:
        setup = create_pods(ground, count=options.pods)
        if options.pods:
            report.say(
                f"{setup.pods:,} pods of {setup.pod_bytes:,} bytes run after {setup.seconds:.0f} s; "
                f"the API server has had {ground.api_server_peak_bytes() / GIBIBYTE:.2f} GiB at most"
            )
        done = run_rounds(ground, rounds=options.rounds)
        life = run_life(
            ground, steady_seconds=options.steady_seconds, drifts=min(options.drifts, options.nodes)
        )
    figures = {
        "nodes": options.nodes,
        "pods": options.pods,
        **cold_figures(done, nodes=options.nodes),
        **life_figures(life, done),
        **pod_figures(life, setup, pass_interval_seconds=interval),
    }
    wanted = targets(figures, done, nodes=options.nodes)
    if options.pods:
        wanted += pod_targets(figures)
    report.table("Rounds", ROUND_HEADER, round_rows(done))
    report.table("While quiet, the operator asked for", ("", "times"), list(life.steady.requests.items()))
    report.table("Restarted, the operator asked for", ("", "times"), list(life.restart.requests.items()))
    report.targets(wanted)
    return {**figures, **told(wanted)}
