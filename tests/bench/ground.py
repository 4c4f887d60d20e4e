"""What every stage of a run works with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.api import Api
from bench.fleet import read_fleet, require_ready
from bench.operator_process import OperatorProcess
from bench.pool import BenchPool
from bench.report import Report
from bench.sampling import memory_bytes
from bench.trail import AuditTrail
from testbed.cluster import Testbed
from testbed.options import Options

ROOT: Final = Path(__file__).parents[2]
INSTALLATION: Final = (ROOT / "deploy" / "overlays" / "outside-the-cluster",)
"""What an operator needs in a cluster."""

CONTROL_PLANE: Final = ("apiserver", "etcd", "kcm", "winsim")
"""Whose CPU is told beside the contenders'."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A cluster with its nodes, the operator, the pool, and what watches them."""

    nodes: int
    testbed: Testbed
    api: Api
    trail: AuditTrail
    operator: OperatorProcess
    pool: BenchPool
    report: Report

    def api_server_peak_bytes(self) -> int:
        """Return the most memory that the API server has had so far, resident."""
        return memory_bytes(self.testbed.component("apiserver").pid, peak=True)

    def pids(self) -> dict[str, int]:
        """Return the processes of the control plane by name."""
        running = {each.name: each.pid for each in self.testbed.components()}
        return {name: pid for name in CONTROL_PLANE if (pid := running.get(name)) is not None}


@contextmanager
def prepared(
    *,
    nodes: int,
    directory: Path,
    report: Report,
    options: Options | None = None,
    settings: Mapping[str, str] | None = None,
    installation: Sequence[Path] = INSTALLATION,
) -> Iterator[Ground]:
    """Bring up a cluster with so many Windows nodes and winpool installed; end it, whatever happens.

    Args:
        nodes: how many.
        directory: for all that it writes.
        report: what is told how far it is.
        options: what else is chosen about the testbed.
        settings: environment variables of the operator.
        installation: what of winpool is applied.

    """
    with (
        Testbed.up(
            directory=directory, apply=installation, windows=nodes, options=options, report=report.say
        ) as testbed,
        Api(testbed) as api,
    ):
        require_ready(read_fleet(api), count=nodes)
        operator = OperatorProcess(testbed, settings=settings)
        yield Ground(
            nodes=nodes,
            testbed=testbed,
            api=api,
            trail=AuditTrail(testbed.layout.audit_log, ask=api.get),
            operator=operator,
            pool=BenchPool(api, nodes=nodes, alive=operator.require_alive),
            report=report,
        )
