"""When an orphan that refused its release is tried again, though nobody comes back to it by chance."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from harness.builders import a_node, a_record
from harness.services import some_services
from harness.virtual_time import run_virtually
from winpool.api.keys import POOL_LABEL
from winpool.controllers.pools import Absences
from winpool.controllers.services import Observer
from winpool.controllers.sweep import Sweeper
from winpool.controllers.writes import Outcome
from winpool.kube.backoff import FIRST_PAUSE_SECONDS
from winpool.kube.errors import Unavailable
from winpool.loops import Clock
from winpool.model.node import NodePatch
from winpool.ownership.record import Owned

GUARD = "a-guard"
WRITE_SECONDS = 0.01


def test_an_orphan_whose_pause_ends_while_another_is_released_is_tried_again_at_once() -> None:
    refusing, other = (
        a_node(
            name=name,
            labels={POOL_LABEL: "pool", "team": "a"},
            annotations=a_record(labels={"team": Owned("a", before="b")}, guard=GUARD),
        )
        for name in ("refusing", "other")
    )
    nodes = {"refusing": refusing}
    tried: list[tuple[float, str]] = []

    async def write(patches: list[NodePatch]) -> Outcome[NodePatch]:
        await asyncio.sleep(WRITE_SECONDS)
        outcome: Outcome[NodePatch] = Outcome()
        for patch in patches:
            tried.append((round(asyncio.get_running_loop().time(), 3), patch.node.name))
            if patch.node.name == "refusing" and len(tried) == 1:
                outcome.stopped.append((patch, Unavailable("patch nodes refusing: 500", status=500)))
            else:
                outcome.done.append(patch)
                del nodes[patch.node.name]
        return outcome

    async def scene() -> None:
        services = some_services(
            clock=Clock(monotonic=asyncio.get_running_loop().time),
            pools=SimpleNamespace(
                all=tuple,
                keys_of=lambda _: None,
                is_vanished=lambda _: True,
                is_deleted=lambda _: False,
                absences=Absences(grace_seconds=0),
                synced=True,
            ),
            nodes=SimpleNamespace(objects=nodes, synced=True),
            guard=SimpleNamespace(identity=GUARD, known=True, is_unknown=False),
            lacking_fields=tuple,
            patches=SimpleNamespace(run=write),
            list_strays=no_strays,
        )
        sweeper = Sweeper(services, Observer(services))
        began = asyncio.get_running_loop().time()
        task = asyncio.create_task(sweeper.run())
        await asyncio.sleep(WRITE_SECONDS + FIRST_PAUSE_SECONDS - WRITE_SECONDS / 2)
        nodes["other"] = other
        sweeper.sweep_soon()
        await asyncio.sleep(10 * WRITE_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [name for _, name in tried] == ["refusing", "other", "refusing"]
        assert tried[-1][0] - began < FIRST_PAUSE_SECONDS + 5 * WRITE_SECONDS

    run_virtually(scene())


async def no_strays() -> tuple[Any, ...]:
    return ()
