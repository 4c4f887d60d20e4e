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
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

from bench.errors import BenchError
from bench.rounds import middle
from bench.tools import finish
from harness.second_room import second
from winpool.controllers.backoff import Patience
from winpool.controllers.evictions import EvictionLane, eviction_answers
from winpool.controllers.executor import Lanes
from winpool.controllers.node_pods import NodePodLists, TaintAbsentSince
from winpool.controllers.observe import Observer
from winpool.controllers.pod_pass import PodPass
from winpool.controllers.pool import Asking, Reconciler
from winpool.controllers.pools import Absences, Pools, Relister
from winpool.controllers.services import Clock, ControlStats
from winpool.controllers.writes import ConditionLane, PatchLane
from winpool.decide import ROOMS, decide
from winpool.features.feature import Room
from winpool.kube.budgets import BudgetCache, BudgetLister
from winpool.kube.client import Transport
from winpool.kube.control_plane import ControlPlane
from winpool.kube.credentials import load_connection
from winpool.kube.events import EventRecorder
from winpool.kube.guard import Guard
from winpool.kube.nodes import WINDOWS_NODES, list_labelled
from winpool.kube.pods import PodLister
from winpool.kube.watch import ListWatch
from winpool.kube.writer import Writer
from winpool.model.node import Node

GUARD_SECONDS: Final = 30.0
"""For two lists and the five seconds that a guard has to have stood."""


class Parts:
    """The parts of an operator that a pass is made of, not running."""

    def __init__(self, transport: Transport, *, pool: str) -> None:
        clock = Clock()
        self.pool = pool
        self.writer = Writer(transport)
        self.pools = Pools(on_change=_ignore_pool, absences=Absences(grace_seconds=0))
        self.nodes = ListWatch(transport, WINDOWS_NODES, on_change=_ignore_node)
        self.control_plane = ControlPlane(transport, on_change=_ignore)
        pods = PodLister(transport.request)
        budgets = BudgetCache(BudgetLister(transport.request).list, monotonic=clock.monotonic)
        self.pod_pass = PodPass(
            list_pods=pods.list_all,
            list_budgets=budgets.get,
            questions=list,
            on_surveyed=_ignore,
            period_seconds=1,
            clock=clock,
        )
        self._guard_known = asyncio.Event()
        self.guard = Guard(
            transport,
            on_change=self._note_guard,
            others_silent_seconds=lambda: self.nodes.last_contact_seconds,
            now=clock.now,
            monotonic=clock.monotonic,
        )
        node_pods = NodePodLists(
            list_pods=pods.list_node,
            list_budgets=budgets.get,
            pools=self.pools,
            nodes=self.nodes.objects,
            answers=eviction_answers(None, clock=clock),
            on_listed=_ignore_look,
            ask_for_all=_ignore,
            clock=clock,
        )
        self.observer = Observer(
            pools=self.pools,
            nodes=self.nodes,
            control_plane=self.control_plane,
            guard=self.guard,
            pods=self.pod_pass,
            node_pods=node_pods,
            taint_absent_since=TaintAbsentSince(monotonic=clock.monotonic),
            now=clock.now,
        )
        self.reconciler = Reconciler(
            pool,
            observer=self.observer,
            pools=self.pools,
            lanes=Lanes(
                patches=PatchLane(
                    writer=self.writer,
                    known=self.nodes.objects,
                    accept_written=self.nodes.accept_written,
                    monotonic=clock.monotonic,
                ),
                conditions=ConditionLane(
                    writer=self.writer,
                    known=self.nodes.objects,
                    accept_written=self.nodes.accept_written,
                    clock=clock,
                ),
                evictions=EvictionLane(writer=self.writer, monotonic=clock.monotonic),
            ),
            create_task=_create_task,
            wake=_ignore_look,
            writer=self.writer,
            recorder=EventRecorder(transport, reporting_instance="bench", now=clock.now),
            relister=Relister(
                writer=self.writer,
                pools=self.pools,
                period_seconds=1,
                after=_ignore,
                monotonic=clock.monotonic,
            ),
            list_labelled=lambda name: list_labelled(transport, pool_name=name),
            asking=Asking(
                nodes=self.nodes.ask_for_list, pods=self.pod_pass.ask, node_lists=node_pods.want_surveys
            ),
            note_figures=ControlStats().note_figures,
            clock=clock,
        )
        self._patience = Patience(monotonic=clock.monotonic)

    async def fill(self) -> None:
        """Take in all nodes and pools, the version of the API server, and the guard, once."""
        await self.control_plane.ask()
        await self._look_at_guard()
        listed = await self.writer.list_pools()
        self.pools.replace(listed.items, resource_version=listed.resource_version, began=0.0)
        await self.nodes._list()

    def _note_guard(self) -> None:
        if self.guard.known:
            self._guard_known.set()

    async def _look_at_guard(self) -> None:
        """Watch the guard until it is known: what the pools say depends on it. It is there all the time."""
        watching = asyncio.create_task(self.guard.run())
        try:
            async with asyncio.timeout(GUARD_SECONDS):
                await self._guard_known.wait()
        except TimeoutError:
            raise BenchError(f"the guard is not in force: {self.guard.problem}") from None
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if not self.guard.identity:
            raise BenchError(f"the guard is not in force: {self.guard.problem}")

    def decide_cpu(self, rooms: Sequence[Room] = ROOMS) -> float:
        """Return the CPU seconds of one snapshot and one decision, with these rooms."""
        started = time.process_time()
        snapshot = self.observer.snapshot(
            self.pool, patience=self._patience, written_generation=0, missing_permission=""
        )
        if snapshot is None:
            raise BenchError(f"there is no pool {self.pool}")
        decision = decide(snapshot, rooms)
        seconds = time.process_time() - started
        if decision.patches or decision.finalizers is not None:
            raise BenchError(f"the fleet is not converged: {len(decision.patches)} patches are due")
        return seconds

    async def pass_cpu(self) -> float:
        """Return the CPU seconds of one pass."""
        started = time.process_time()
        await self.reconciler.run()
        return time.process_time() - started


def _ignore() -> None:
    pass


def _create_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.create_task(work, name=name)


def _ignore_look(name: str) -> None:
    pass


def _ignore_pool(name: str, *, for_rivals: bool) -> None:
    pass


def _ignore_node(old: Node | None, new: Node | None) -> None:
    pass


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
        turns = [(parts.decide_cpu(), parts.decide_cpu((*ROOMS, second))) for _ in range(repeats)]
        decisions, with_two = zip(*turns, strict=True)
        passes = [await parts.pass_cpu() for _ in range(repeats)]
        if transport.stats.requests.total() != asked:
            raise BenchError("a pass over a converged fleet asked the API server for something")
        return {
            "nodes": len(parts.nodes.objects),
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
