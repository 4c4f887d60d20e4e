"""When leftovers are looked for: not before all is known that their release goes by."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from harness.builders import a_node, a_record
from harness.virtual_time import run_virtually
from winpool.api.keys import POOL_LABEL
from winpool.cluster.errors import Unavailable
from winpool.contract.record import Owned
from winpool.contract.rights import Rights
from winpool.control.executor import Executor, Outcome
from winpool.control.pacing import FIRST_PAUSE_SECONDS
from winpool.control.pools import Pools
from winpool.control.sweeper import STRAYS_PAUSE_SECONDS, STRAYS_SECONDS, Sweeper
from winpool.snapshot import NodePatch

GUARD = "a-guard"
WRITE_SECONDS = 0.01
STRAY = a_node(
    os="linux",
    labels={POOL_LABEL: "pool", "team": "a"},
    annotations=a_record(labels={"team": Owned("a", before="b")}, guard=GUARD),
)


class Stage:
    """A sweeper that finds one stray, and what it does with it."""

    def __init__(self) -> None:
        self.is_complete = False
        self.guard = ""
        self.lists = 0
        self.written: list[NodePatch] = []
        self.sweeper = Sweeper(
            pools=Pools(on_change=lambda *_, **__: None),
            nodes=cast(Any, SimpleNamespace(nodes={})),
            executor=cast(Executor, SimpleNamespace(run=self._write)),
            list_strays=self._list,
            rights_over=lambda _: Rights(guard=self.guard),
            is_complete=lambda: self.is_complete,
            monotonic=asyncio.get_running_loop().time,
        )

    async def _list(self) -> tuple[Any, ...]:
        self.lists += 1
        return () if self.written else (STRAY,)

    async def _write(self, patches: list[NodePatch]) -> Outcome:
        self.written += patches
        return Outcome(written=list(patches))


def played(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def play() -> None:
        stage = Stage()
        task = asyncio.create_task(stage.sweeper.run())
        try:
            await scene(stage)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtually(play())


def test_nothing_is_looked_for_before_pools_nodes_and_the_guard_are_known() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(60)
        assert stage.lists == 0
        stage.guard, stage.is_complete = GUARD, True
        await asyncio.sleep(1)
        [patch] = stage.written
        assert patch.labels["team"] == "b"

    played(scene)


def test_when_the_guard_comes_what_was_left_alone_is_looked_at_again_at_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.is_complete = True
        await asyncio.sleep(STRAYS_SECONDS / 2)
        assert (stage.lists, stage.written) == (1, [])
        stage.guard = GUARD
        stage.sweeper.guard_changed()
        await asyncio.sleep(STRAYS_PAUSE_SECONDS)
        assert len(stage.written) == 1

    played(scene)


def test_an_orphan_whose_pause_ends_while_another_is_released_is_tried_again_at_once() -> None:
    refusing, other = (
        a_node(name=name, labels={POOL_LABEL: "pool", "team": "a"}, annotations=STRAY.annotations)
        for name in ("refusing", "other")
    )
    nodes = {"refusing": refusing}
    tried: list[tuple[float, str]] = []

    async def write(patches: list[NodePatch]) -> Outcome:
        await asyncio.sleep(WRITE_SECONDS)
        outcome = Outcome()
        for patch in patches:
            tried.append((round(asyncio.get_running_loop().time(), 3), patch.node.name))
            if patch.node.name == "refusing" and len(tried) == 1:
                outcome.stopped.append((patch, Unavailable("patch nodes refusing: 500", status=500)))
            else:
                outcome.written.append(patch)
                del nodes[patch.node.name]
        return outcome

    async def scene() -> None:
        sweeper = Sweeper(
            pools=cast(Any, SimpleNamespace(all=tuple, is_vanished=lambda _: True)),
            nodes=cast(Any, SimpleNamespace(nodes=nodes)),
            executor=cast(Executor, SimpleNamespace(run=write)),
            list_strays=no_strays,
            rights_over=lambda _: Rights(guard=GUARD),
            is_complete=lambda: True,
            monotonic=asyncio.get_running_loop().time,
        )
        began = asyncio.get_running_loop().time()
        task = asyncio.create_task(sweeper.run())
        await asyncio.sleep(WRITE_SECONDS + FIRST_PAUSE_SECONDS - WRITE_SECONDS / 2)
        nodes["other"] = other
        sweeper.pools_listed()
        await asyncio.sleep(10 * WRITE_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [name for _, name in tried] == ["refusing", "other", "refusing"]
        assert tried[-1][0] - began < FIRST_PAUSE_SECONDS + 5 * WRITE_SECONDS

    run_virtually(scene())


async def no_strays() -> tuple[Any, ...]:
    return ()
