"""``python -m bench contract``, ``… join`` and so on: measure, report, and leave nothing running."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from bench.contract import ContractOptions, run_contract
from bench.errors import BenchError
from bench.evict import run_evict
from bench.fence import run_fence
from bench.groundcost import run_ground_cost
from bench.hostile import run_hostile
from bench.join import run_join
from bench.memory import MemoryOptions, run_memory
from bench.plan import run_plan
from bench.pressure.run import PressureOptions, run_pressure
from bench.report import Report
from bench.storm import run_storm
from bench.takeover import run_takeover
from testbed.errors import TestbedError

BROKEN, MISSED, INTERRUPTED = 1, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a bench; return the exit code: 1 for a broken run, 3 where a count is not as wanted."""
    given = _parser().parse_args(arguments)
    report = Report()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _directory(given.directory) as directory:
            figures = _bench(given)(directory, report)
    except (BenchError, TestbedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        print("interrupted; everything has ended", file=sys.stderr)
        return INTERRUPTED
    report.result(figures)
    if not_met := figures.get("missed_counts"):
        print(f"missed: {', '.join(not_met)}", file=sys.stderr)
        return MISSED
    return 0


def _bench(given: argparse.Namespace) -> Callable[[Path, Report], dict[str, Any]]:
    """Return the bench that was chosen; each looks only at the arguments that it has."""
    benches: dict[str, Callable[[Path, Report], dict[str, Any]]] = {
        "contract": lambda directory, report: run_contract(
            _contract(given), directory=directory, report=report
        ),
        "evict": lambda directory, report: run_evict(
            nodes=given.nodes, pods=given.pods, rounds=given.rounds, directory=directory, report=report
        ),
        "fence": lambda directory, report: run_fence(
            labels=given.labels, rounds=given.rounds, writes=given.writes, directory=directory, report=report
        ),
        "hostile": lambda directory, report: run_hostile(
            nodes=given.nodes, scale=given.scale, directory=directory, report=report
        ),
        "join": lambda directory, report: run_join(
            nodes=given.nodes, pods=given.pods, directory=directory, report=report
        ),
        "memory": lambda directory, report: run_memory(_memory(given), directory=directory, report=report),
        "plan": lambda _directory, report: run_plan(nodes=given.nodes, rounds=given.rounds, report=report),
        "pressure": lambda _directory, report: run_pressure(_pressure(given), report=report),
        "storm": lambda directory, report: run_storm(nodes=given.nodes, directory=directory, report=report),
        "takeover": lambda directory, report: run_takeover(
            runs=given.runs, directory=directory, report=report
        ),
        "testbed": lambda directory, report: run_ground_cost(
            given.sizes, idle_seconds=given.idle_seconds, directory=directory, report=report
        ),
    }
    return benches[given.bench]


def _contract(given: argparse.Namespace) -> ContractOptions:
    return ContractOptions(
        nodes=given.nodes,
        pods=given.pods,
        rounds=given.rounds,
        steady_seconds=given.steady_seconds,
        drifts=given.drifts,
        pod_pass_seconds=given.pod_pass_seconds,
    )


def _memory(given: argparse.Namespace) -> MemoryOptions:
    return MemoryOptions(
        nodes=given.nodes, steady_seconds=given.steady_seconds, poll_seconds=given.poll_seconds
    )


def _pressure(given: argparse.Namespace) -> PressureOptions:
    return PressureOptions(
        seeds=range(given.first_seed, given.first_seed + given.seeds),
        names=given.family,
        max_pods=given.max_pods,
        contenders=given.contender,
        **({} if given.families is None else {"directory": given.families}),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--directory", type=Path, help="keep logs there; default: a temporary one")
    benches = parser.add_subparsers(dest="bench", required=True)
    contract = benches.add_parser("contract", help="the node contract at scale, against a raw loader")
    contract.add_argument("--nodes", type=_positive, default=1000)
    contract.add_argument("--pods", type=_count, default=0)
    contract.add_argument("--rounds", type=_positive, default=5)
    contract.add_argument("--steady-seconds", type=_positive, default=600)
    contract.add_argument("--drifts", type=_positive, default=100)
    contract.add_argument(
        "--pod-pass-seconds",
        type=_count,
        default=0,
        help="how often the operator looks at all pods; 0: as ever, or with pods often enough to be measured",
    )
    storm = benches.add_parser("storm", help="what is written when all nodes change at once")
    storm.add_argument("--nodes", type=_positive, default=1000)
    hostile = benches.add_parser("hostile", help="what others may create, as large as it gets")
    hostile.add_argument("--nodes", type=_positive, default=500)
    hostile.add_argument("--scale", type=_positive, default=1)
    join = benches.add_parser("join", help="how long nodes that join stand open")
    join.add_argument("--nodes", type=_positive, default=1000)
    join.add_argument("--pods", type=_count, default=0)
    fence = benches.add_parser("fence", help="what the fence costs on a node with very many labels")
    fence.add_argument("--labels", type=_positive, default=20_000)
    fence.add_argument("--rounds", type=_positive, default=5)
    fence.add_argument("--writes", type=_positive, default=10)
    memory = benches.add_parser("memory", help="what it costs to watch the memory of nodes")
    memory.add_argument("--nodes", type=_positive, default=1000)
    memory.add_argument("--steady-seconds", type=_positive, default=600)
    memory.add_argument("--poll-seconds", type=_positive, default=60, help="between two polls of a kubelet")
    plan = benches.add_parser("plan", help="what the plan of upgrades costs; needs no cluster")
    plan.add_argument("--nodes", type=_positive, default=5000)
    plan.add_argument("--rounds", type=_positive, default=5)
    pressure = benches.add_parser("pressure", help="how well memory pressure is met; needs no cluster")
    pressure.add_argument("--seeds", type=_positive, default=20, help="how many machines of each family")
    pressure.add_argument("--first-seed", type=_count, default=1)
    pressure.add_argument("--max-pods", type=_positive, default=3, help="maxPodsPerNode of the operator")
    pressure.add_argument(
        "--families", type=Path, help="a directory of families; default: those of the bench"
    )
    pressure.add_argument("--family", action="append", default=[], help="only this family, by its name")
    pressure.add_argument("--contender", action="append", default=[], help="only this one, by its name")
    takeover = benches.add_parser("takeover", help="how long no operator leads when the leader fails")
    takeover.add_argument("--runs", type=_positive, default=3)
    evict = benches.add_parser("evict", help="nodes are drained, by the operator and by kubectl drain")
    evict.add_argument("--nodes", type=_positive, default=50)
    evict.add_argument("--pods", type=_positive, default=1000)
    evict.add_argument("--rounds", type=_positive, default=1)
    testbed = benches.add_parser("testbed", help="what the simulated nodes themselves cost")
    testbed.add_argument("--sizes", type=_positive, nargs="+", default=[1000, 5000])
    testbed.add_argument("--idle-seconds", type=_positive, default=60)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number (0, 1, 2 ...)")
    return int(text)


def _positive(text: str) -> int:
    if (number := _count(text)) < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return number


@contextmanager
def _directory(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="winpool-bench-") as temporary:
        yield Path(temporary) / "testbed"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End as Ctrl-C does: through every ``with`` on the way."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
