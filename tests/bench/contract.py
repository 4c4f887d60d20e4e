"""``make bench-contract``: the node contract at scale, against a raw loader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cold import run_rounds
from bench.figures import ROUND_HEADER, cold_figures, life_figures, round_rows, targets
from bench.ground import prepared
from bench.life import run_life
from bench.pods import create_pods
from bench.report import Report
from bench.targets import missed


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractOptions:
    """How much of everything."""

    nodes: int
    pods: int
    rounds: int
    steady_seconds: float
    drifts: int


def run_contract(options: ContractOptions, *, directory: Path, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    with prepared(nodes=options.nodes, directory=directory, report=report) as ground:
        if options.pods:
            seconds = create_pods(ground, count=options.pods)
            report.say(f"{options.pods:,} pods created in {seconds:.0f} s")
        done = run_rounds(ground, rounds=options.rounds)
        life = run_life(
            ground, steady_seconds=options.steady_seconds, drifts=min(options.drifts, options.nodes)
        )
    cold = cold_figures(done, nodes=options.nodes)
    figures = {"nodes": options.nodes, "pods": options.pods, **cold, **life_figures(life, done)}
    wanted = targets(figures, done, nodes=options.nodes)
    report.table("Rounds", ROUND_HEADER, round_rows(done))
    report.table("While quiet, the operator asked for", ("", "times"), list(life.steady.requests.items()))
    report.table("Restarted, the operator asked for", ("", "times"), list(life.restart.requests.items()))
    report.targets(wanted)
    return {**figures, "missed": missed(wanted)}
