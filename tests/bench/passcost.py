"""What a pass costs: the operator's own parts in a process of their own, over the nodes as they are.

``python -m bench.passcost`` lists nodes and pools as the operator does, and then runs the very passes
that the operator runs: observe, decide, nothing to act, nothing new to report. On a converged pool they ask
the API server for nothing, which is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.errors import BenchError
from bench.rounds import middle
from bench.tools import finish
from harness.second_feature import second
from winpool.controllers.backoff import WriteBackoff
from winpool.controllers.controller import Controller
from winpool.controllers.pool import Reconciler
from winpool.controllers.services import Observer
from winpool.decide import FEATURES, decide
from winpool.features.feature import Feature
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.leader_election import OtherOperator
from winpool.loops import Clock
from winpool.settings import Settings

GUARD_SECONDS: Final = 30.0
"""For two lists and the five seconds that a guard has to have stood."""


class Parts:
    """The parts of an operator that a pass is made of, not running."""

    def __init__(self, transport: Transport, *, pool: str) -> None:
        self.pool = pool
        self.services = Controller(
            transport,
            Settings(),
            elector=OtherOperator(transport),
            clock=Clock(),
        ).services
        self.observer = Observer(self.services)
        self.reconciler = Reconciler(pool, self.services, self.observer)
        self._guard_known = asyncio.Event()
        self._patience = WriteBackoff(monotonic=self.services.clock.monotonic)

    async def fill(self) -> None:
        """Take in all nodes and pools, the version of the API server, and the guard, once."""
        services = self.services
        await services.control_plane.ask()
        await self._look_at_guard()
        listed = await services.writer.list_pools(lambda page: map(services.pools.read, page))
        services.pools.replace(listed.items, resource_version=listed.resource_version, began=0.0)
        await services.nodes._list()

    async def _look_at_guard(self) -> None:
        """Watch the guard until it is known: what the pools say depends on it. It is there all the time."""
        guard = self.services.guard
        guard.on_change = lambda: self._guard_known.set() if guard.known else None
        watching = asyncio.create_task(guard.run())
        try:
            async with asyncio.timeout(GUARD_SECONDS):
                await self._guard_known.wait()
        except TimeoutError:
            raise BenchError(f"the guard is not in force: {guard.problem}") from None
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if not guard.identity:
            raise BenchError(f"the guard is not in force: {guard.problem}")

    def decide_cpu(self, features: Sequence[Feature] = FEATURES) -> float:
        """Return the CPU seconds of one snapshot and one decision, with these features."""
        started = time.process_time()
        pool = self.services.pools.get(self.pool)
        if pool is None:
            raise BenchError(f"there is no pool {self.pool}")
        snapshot = self.observer.snapshot(pool, attempts=self._patience.attempts(self.services.nodes.objects))
        decision = decide(snapshot, features)
        seconds = time.process_time() - started
        if decision.writes.patches or decision.writes.finalizers is not None:
            raise BenchError(f"the fleet is not converged: {len(decision.writes.patches)} patches are due")
        return seconds

    async def pass_cpu(self) -> float:
        """Return the CPU seconds of one pass."""
        started = time.process_time()
        await self.reconciler.run()
        return time.process_time() - started


async def run(*, kubeconfig: Path, pool: str, repeats: int) -> dict[str, object]:
    """Measure ``repeats`` passes after a first one that fills the caches."""
    connection = await load_connection(kubeconfig=str(kubeconfig))
    async with Transport(connection) as transport:
        parts = Parts(transport, pool=pool)
        await parts.fill()
        first = parts.decide_cpu()
        asked = transport.stats.requests.total()
        gc.collect()
        # In turn, so that other load of the machine is part of both.
        turns = [(parts.decide_cpu(), parts.decide_cpu((*FEATURES, second))) for _ in range(repeats)]
        decisions, with_two = zip(*turns, strict=True)
        passes = [await parts.pass_cpu() for _ in range(repeats)]
        if transport.stats.requests.total() != asked:
            raise BenchError("a pass over a converged fleet asked the API server for something")
        return {
            "nodes": len(parts.services.nodes.objects),
            "first_decide_cpu_seconds": first,
            "decide_cpu_seconds": middle(decisions),
            "two_rooms_ratio": middle(with_two) / middle(decisions),
            "pass_cpu_seconds": middle(passes),
        }


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.passcost", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    return finish(run(kubeconfig=given.kubeconfig, pool=given.pool, repeats=given.repeats))


if __name__ == "__main__":
    sys.exit(main())
