"""When leftovers are looked for and released: once all is known that it goes by, each at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from harness.builders import GUARD, a_body, a_node, a_record
from harness.loops import MemoryCluster, MemoryWriter
from harness.stage import until
from harness.virtual_time import run_virtually
from harness.writes import relabelled
from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.cluster.errors import ApiError, Forbidden, Invalid, Unavailable
from winpool.contract.record import Owned
from winpool.contract.rights import Rights
from winpool.control.executor import INTERNAL_ERRORS, PATCHES_IN_FLIGHT, SLICE_SECONDS, Executor
from winpool.control.pools import Pools
from winpool.control.sweeper import STRAYS_PAUSE_SECONDS, STRAYS_SECONDS, Sweeper
from winpool.snapshot import Node

INVALID = Invalid("patch nodes s1: 422 no changes on Fridays", status=422)
BY_POLICY = Forbidden("patch nodes s1: 403 no changes on Fridays", status=403)
INTERNAL = Unavailable("patch nodes s1: 500 failed calling webhook", status=500)
DOWN = Unavailable("patch nodes s1: 503", status=503)


def a_leftover(name: str, *, os: str, guard: str = GUARD) -> Node:
    """Return a node on which the pool ``pool`` has set a label that was ``b`` before."""
    record = a_record(labels={"team": Owned("a", before="b")}, guard=guard)
    return a_node(name, os=os, labels={POOL_LABEL: "pool", "team": "a"}, annotations=record)


def a_stray(name: str = "s1", *, guard: str = GUARD) -> Node:
    return a_leftover(name, os="linux", guard=guard)


def an_orphan(name: str = "w1") -> Node:
    return a_leftover(name, os=OS_WINDOWS)


class KnownNodes:
    """What the reflector knows of Windows nodes. ``lists`` counts how often all were asked for."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.lists = 0

    def ask_for_list(self) -> None:
        self.lists += 1


class Stage:
    """A sweeper on a cluster in memory, to which all is known; ``listed`` says when it asked for strays."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.is_complete = True
        self.guard = GUARD
        self.listed: list[float] = []
        self.problem: ApiError | None = None
        self.pools = Pools(on_change=lambda *_, **__: None)
        self.known = KnownNodes()
        monotonic = asyncio.get_running_loop().time
        self.sweeper = Sweeper(
            pools=self.pools,
            nodes=cast(Any, self.known),
            executor=Executor(
                writer=MemoryWriter(self.cluster),
                known=self.known.nodes,
                accept_written=self._accept,
                monotonic=monotonic,
            ),
            list_strays=self._list,
            rights_over=lambda _: Rights(guard=self.guard),
            is_complete=lambda: self.is_complete,
            monotonic=monotonic,
        )

    def put(self, *nodes: Node) -> None:
        """Create or change nodes, as others do; those of Windows are known at once."""
        for node in nodes:
            self.cluster.put_node(node)
            self._accept(self.cluster.nodes[node.name])

    def list_pools(self, *bodies: dict[str, Any]) -> None:
        """List all pools."""
        self.pools.replace(bodies, resource_version=self.cluster.next_version())
        self.sweeper.pools_listed()

    @property
    def left(self) -> set[str]:
        """The names of the nodes that still carry ours."""
        return {name for name, node in self.cluster.nodes.items() if node.labels["team"] == "a"}

    def tries(self, name: str) -> list[float]:
        """Return when each write to that node was asked for."""
        return [write.at for write in self.cluster.writes if write.name == name]

    async def _list(self) -> tuple[Node, ...]:
        self.listed.append(self.cluster.time)
        if self.problem:
            raise self.problem
        nodes = self.cluster.nodes.values()
        return tuple(
            node for node in nodes if node.labels.get(OS_LABEL) != OS_WINDOWS and POOL_LABEL in node.labels
        )

    def _accept(self, node: Node) -> None:
        if node.labels.get(OS_LABEL) == OS_WINDOWS:
            self.known.nodes[node.name] = node


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


def pauses_between(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def test_nothing_is_looked_for_before_pools_nodes_and_the_guard_are_known() -> None:
    async def scene(stage: Stage) -> None:
        stage.guard, stage.is_complete = "", False
        stage.put(a_stray())
        await asyncio.sleep(60)
        assert stage.listed == []
        stage.guard, stage.is_complete = GUARD, True
        await asyncio.sleep(1)
        labels = stage.cluster.nodes["s1"].labels
        assert (labels["team"], POOL_LABEL in labels) == ("b", False)

    played(scene)


def test_when_the_guard_comes_what_was_left_alone_is_looked_at_again_at_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.guard = ""
        stage.put(a_stray())
        await asyncio.sleep(STRAYS_SECONDS / 2)
        assert (len(stage.listed), stage.left) == (1, {"s1"})
        stage.guard = GUARD
        stage.sweeper.guard_changed()
        await asyncio.sleep(STRAYS_PAUSE_SECONDS)
        assert stage.left == set()

    played(scene)


def test_strays_are_looked_for_every_ten_minutes_and_no_more_often() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(3 * STRAYS_SECONDS - 1)
        assert pauses_between(stage.listed) == [pytest.approx(STRAYS_SECONDS)] * 2
        assert stage.cluster.writes == []

    played(scene)


def test_a_node_that_goes_out_of_sight_is_an_occasion_only_where_it_carried_ours() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(60)
        stage.sweeper.node_gone(a_node("w1"))
        await asyncio.sleep(60)
        assert len(stage.listed) == 1
        stage.put(a_stray())
        stage.sweeper.node_gone(an_orphan("s1"))
        await until(lambda: not stage.left, seconds=0.1)

    played(scene)


def test_a_fleet_that_goes_out_of_sight_is_looked_for_once_a_second() -> None:
    async def scene(stage: Stage) -> None:
        for number in range(100):
            stage.sweeper.node_gone(an_orphan(f"w{number}"))
            await asyncio.sleep(0.05)
        await asyncio.sleep(10)
        assert len(stage.listed) == 6
        assert min(pauses_between(stage.listed)) >= STRAYS_PAUSE_SECONDS

    played(scene)


@pytest.mark.parametrize("error", [INVALID, BY_POLICY], ids=["invalid", "by a policy"])
def test_a_stray_that_refuses_is_listed_and_tried_later_and_later_and_keeps_no_other(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_stray("s1"), a_stray("s2"))
        stage.cluster.trouble.nodes["s1"] = error
        await until(lambda: stage.left == {"s1"}, seconds=1)
        await asyncio.sleep(40)
        assert pauses_between(stage.tries("s1")) == pytest.approx([2, 4, 8, 16], abs=0.2)
        assert len(stage.tries("s2")) == 1
        assert len(stage.listed) == len(stage.tries("s1")), "each try goes by a list of its own"
        stage.put(a_stray("s3"))
        stage.sweeper.node_gone(an_orphan("s3"))
        await until(lambda: stage.left == {"s1"}, seconds=0.1)
        stage.cluster.trouble.nodes.clear()
        await until(lambda: not stage.left, seconds=60)

    played(scene)
    assert caplog.text.count("cannot be taken off") == 1


def test_an_orphan_that_refuses_is_tried_later_and_later_without_a_list() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan("w1"), an_orphan("w2"))
        stage.cluster.trouble.nodes["w1"] = INVALID
        await vanish(stage)
        await until(lambda: stage.left == {"w1"}, seconds=1)
        await asyncio.sleep(20)
        assert pauses_between(stage.tries("w1")) == pytest.approx([2, 4, 8], abs=0.2)
        assert (len(stage.listed), stage.known.lists) == (1, 0)
        stage.cluster.trouble.nodes.clear()
        await until(lambda: not stage.left, seconds=20)

    played(scene)


async def vanish(stage: Stage) -> None:
    """Let two complete lists pass that show no pool, after somebody has asked about it."""
    await asyncio.sleep(1)
    for _ in range(2):
        stage.list_pools()
        await asyncio.sleep(0)


def test_one_list_without_its_pool_is_not_enough_to_release_an_orphan() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan())
        await asyncio.sleep(1)
        stage.list_pools()
        await asyncio.sleep(3 * STRAYS_SECONDS)
        assert stage.cluster.writes == []
        stage.list_pools()
        await until(lambda: not stage.left, seconds=1)

    played(scene)


@pytest.mark.parametrize(
    "body",
    [a_body("pool"), a_body("another", uid="uid-of-another")],
    ids=["its own", "one that selects it"],
)
def test_a_node_that_a_pool_has_or_selects_is_no_orphan(body: dict[str, Any]) -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan())
        await asyncio.sleep(1)
        for _ in range(5):
            stage.list_pools(body)
            await asyncio.sleep(300)
        assert stage.cluster.writes == []

    played(scene)


def test_a_record_that_may_be_forged_is_left_alone_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_stray(guard="a-guard-that-was"))
        await asyncio.sleep(3 * STRAYS_SECONDS)
        assert stage.cluster.writes == []

    played(scene)
    assert caplog.text.count("may be forged") == 1


def test_a_stray_that_was_changed_since_the_list_is_listed_anew_at_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_stray())
        await until(lambda: stage.tries("s1"))
        stage.put(relabelled(stage.cluster.nodes["s1"], late="theirs"))
        await until(lambda: not stage.left, seconds=2 * STRAYS_PAUSE_SECONDS)
        assert len(stage.tries("s1")) == 2
        assert stage.cluster.nodes["s1"].labels["late"] == "theirs"

    played(scene)


def test_an_orphan_whose_newer_state_the_watch_has_lost_is_listed_after_the_second_conflict() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan())
        stale = stage.known.nodes["w1"]
        stage.cluster.put_node(stale)
        await vanish(stage)
        await asyncio.sleep(1)
        assert (len(stage.tries("w1")), stage.known.lists) == (1, 0)
        await until(lambda: stage.known.lists, seconds=2)
        assert len(stage.tries("w1")) == 2
        stage.put(stage.cluster.nodes["w1"])
        stage.sweeper.pools_listed()
        await until(lambda: not stage.left, seconds=1)

    played(scene)


def test_strays_that_cannot_be_listed_are_asked_for_again_when_the_api_server_says() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_stray())
        stage.problem = Unavailable("list nodes: 503", status=503, retry_after=20)
        await until(lambda: stage.listed)
        stage.problem = None
        await until(lambda: not stage.left, seconds=25)
        assert pauses_between(stage.listed) == [pytest.approx(20)]

    played(scene)


def test_a_write_that_failed_with_the_api_server_is_tried_again_soon_by_a_new_list() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_stray())
        stage.cluster.trouble.writes = DOWN
        await until(lambda: stage.tries("s1"))
        await asyncio.sleep(0.1)
        stage.cluster.trouble.writes = None
        await until(lambda: not stage.left, seconds=2)
        assert len(stage.listed) == 2

    played(scene)


def test_an_orphan_whose_write_fails_with_the_api_server_is_tried_again_with_growing_pauses() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan())
        stage.cluster.trouble.writes = DOWN
        await vanish(stage)
        await asyncio.sleep(240)
        pauses = pauses_between(stage.tries("w1"))
        assert min(pauses) >= 0.5
        assert 15 <= min(pauses[5:]) <= max(pauses) <= 31, "from half of the longest to the longest"
        stage.cluster.trouble.writes = None
        await until(lambda: not stage.left, seconds=31)

    played(scene)


def test_a_sweep_in_which_all_fails_ends_and_the_next_begins_with_those_that_have_not_failed() -> None:
    orphans = [an_orphan(f"w{number:02}") for number in range(70)]
    # Each error that is not the last that is borne makes room for one more.
    tried = PATCHES_IN_FLIGHT + INTERNAL_ERRORS - 1

    async def scene(stage: Stage) -> None:
        stage.put(*orphans, an_orphan("x1"))
        stage.cluster.trouble.nodes = {node.name: INTERNAL for node in orphans}
        await vanish(stage)
        await asyncio.sleep(0.5)  # the least pause after a failure, which begins a moment later
        assert len(stage.cluster.writes) == tried
        await until(lambda: "x1" not in stage.left, seconds=1)
        stage.cluster.trouble.nodes.clear()
        await until(lambda: not stage.left, seconds=60)

    played(scene)


def test_what_a_sweep_had_no_time_for_comes_right_after_it() -> None:
    orphans = [an_orphan(f"w{number:03}") for number in range(int(SLICE_SECONDS) * PATCHES_IN_FLIGHT + 5)]

    async def scene(stage: Stage) -> None:
        stage.put(*orphans)
        stage.cluster.trouble.latency = 1
        await vanish(stage)
        await asyncio.sleep(SLICE_SECONDS + 0.5)
        assert len(stage.left) == 5
        await until(lambda: not stage.left, seconds=1)
        assert len(stage.cluster.writes) == len(orphans)

    played(scene)


def test_a_stray_that_another_has_taken_the_place_of_is_let_be() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(a_stray())
        await until(lambda: stage.tries("s1"))
        stage.cluster.drop_node("s1")
        stage.put(replace(a_node("s1", os="linux", labels={"team": "a"}), uid="another"))
        await asyncio.sleep(2 * STRAYS_SECONDS)
        assert len(stage.tries("s1")) == 1
        assert stage.left == {"s1"}

    played(scene)
