"""The two that bring a fleet into state: the operator with a pool, and the raw loader. Both undo it again."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import loader
from bench.counting import Burst, burst
from bench.errors import BenchError
from bench.ground import Ground
from bench.operator_process import USER as OPERATOR_USER
from bench.sampling import Meter, Usage, memory_bytes
from bench.tools import run_tool
from testbed.kubeconfig import by_token_file
from testbed.paths import write_atomically

LOADER_MANIFEST: Final = Path(__file__).with_name("loader.yaml")
TOKEN_DURATION: Final = "8h"
"""Longer than any run."""

LOADER_SECONDS: Final = 60.0
LOADER_SECONDS_PER_NODE: Final = 0.2
"""Guard: five nodes a second, a tenth of what was seen on a machine busy with other things."""


@dataclass(frozen=True, slots=True)
class Cold:
    """One bringing of a bare fleet into state. ``cpu_seconds`` is that of the contender alone."""

    burst: Burst
    cpu_seconds: float
    usage: Usage
    wall_seconds: float
    peak_rss_bytes: int | None = None


class OperatorContender:
    """Runs the operator for one round: starts it, creates the pool, and takes both away."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def apply(self) -> Cold:
        """Create the pool under an operator that is ready; return when all nodes are reported up to date."""
        ground = self._ground
        start = ground.trail.mark()
        meter = Meter({**ground.pids(), "operator": ground.operator.pid})
        began = time.monotonic()
        ground.pool.create()
        ground.pool.wait_converged()
        wall = time.monotonic() - began
        usage = meter.read()
        counted = burst(ground.trail.between(start, ground.trail.mark()), user=OPERATOR_USER)
        peak = memory_bytes(ground.operator.pid, peak=True)
        return Cold(counted, usage.cpu["operator"], usage, wall, peak)

    def undo(self) -> Burst:
        """Delete the pool, and return when the operator has let it go."""
        ground = self._ground
        start = ground.trail.mark()
        ground.pool.delete()
        return burst(ground.trail.between(start, ground.trail.mark()), user=OPERATOR_USER)


class LoaderContender:
    """Runs the loader, a process for each job, under a ServiceAccount of its own."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        testbed = ground.testbed
        testbed.kubectl("apply", "-f", str(LOADER_MANIFEST))
        token = testbed.kubectl(
            "create", "token", "loader", "-n", "winpool-bench", f"--duration={TOKEN_DURATION}"
        )
        file = testbed.directory / "loader.token"
        write_atomically(file, token.stdout.strip())
        self._kubeconfig = testbed.directory / "loader.kubeconfig"
        write_atomically(
            self._kubeconfig,
            by_token_file(server=testbed.server, ca_file=testbed.ca_file, user="loader", token_file=file),
        )

    def apply(self) -> Cold:
        """Write every node."""
        ground = self._ground
        start = ground.trail.mark()
        meter = Meter(ground.pids())
        began = time.monotonic()
        result = self._run()
        wall = time.monotonic() - began
        usage = meter.read()
        counted = burst(ground.trail.between(start, ground.trail.mark()), user=loader.USER)
        if result["written"] != counted.node_patches:
            raise BenchError(f"the loader says {json.dumps(result)}, the audit log {counted}")
        return Cold(counted, result["cpu_seconds"], usage, wall)

    def undo(self) -> None:
        """Take off every node what was put on."""
        self._run("--undo")

    def _run(self, *arguments: str) -> dict[str, Any]:
        ground = self._ground
        return run_tool(
            "bench.loader",
            "--kubeconfig",
            str(self._kubeconfig),
            *arguments,
            directory=ground.testbed.directory,
            seconds=LOADER_SECONDS + LOADER_SECONDS_PER_NODE * ground.nodes,
        )
