"""Own looks: when nodes are listed by themselves, how many at once, and what becomes of failures.

The figures are promised, so they stand here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import A_SPEC, NOON, a_body, a_node, a_snapshot, a_survey
from harness.pods import a_pod
from harness.virtual_time import run_virtually
from harness.writes import patched
from winpool.controllers import node_pods as node_looks
from winpool.controllers.evictions import Answers
from winpool.controllers.node_pods import LONGEST_SECONDS, NodePodLists
from winpool.controllers.pools import Absences, Pools
from winpool.decide import decide
from winpool.features.contract.taints import question_of
from winpool.kube.errors import ApiError, Forbidden, TooLarge, Unavailable
from winpool.kube.pods import PodPage, UnreadablePod
from winpool.loops import Clock
from winpool.model.budgets import BudgetIndex
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.survey import PodListProblem, PoolQuestion, Survey

about = pytest.approx

MOST_NODE_LISTS = 16
IN_FLIGHT = 8

DOWN = Unavailable("list pods of node w1: cannot connect", reason="NoConnection")
HUGE = TooLarge("list pods of node w1: an answer of more than 8388608 bytes")
NO = Forbidden("list pods of node w1: 403", status=403, reason="Forbidden")
FEW = tuple(a_node(f"w{number}") for number in range(1, 4))
MANY = tuple(a_node(f"n{number:02}") for number in range(MOST_NODE_LISTS + 4))


class Stage:
    """Looks on stage: each takes half a second. ``errors`` are by the name of the node, until taken away."""

    def __init__(self) -> None:
        self.seconds = 0.5
        self.errors: dict[str, ApiError] = {}
        self.lists: list[tuple[str, float]] = []
        self.looked: list[str] = []
        self.asked_for_all = 0
        self.at_once = self.most_at_once = 0
        self.readable = True
        self.on_looked: Callable[[], None] = lambda: None
        self.pools = Pools(on_change=_ignore, absences=Absences(grace_seconds=0))
        self.pools.accept(a_body())
        self.nodes = {node.name: node for node in (*FEW, *MANY)}
        loop = asyncio.get_running_loop()
        self.begun = loop.time()
        self.looks = NodePodLists(
            list_pods=self._list,
            list_budgets=_no_budgets,
            watched_budgets=lambda: None,
            pools=self.pools,
            nodes=self.nodes,
            answers=Answers(detectors=None, results=Counter(), monotonic=loop.time),
            on_listed=self._looked,
            ask_for_all=self._ask_for_all,
            clock=Clock(now=lambda: NOON + timedelta(seconds=self.time()), monotonic=loop.time),
        )

    @property
    def pool(self) -> Pool:
        pool = self.pools.get("pool")
        assert pool is not None
        return pool

    def time(self) -> float:
        return asyncio.get_running_loop().time() - self.begun

    def want(self, *nodes: Node) -> None:
        self.looks.want_surveys(self.pool, nodes)

    def seen(self) -> dict[str, Survey]:
        return dict(self.looks.surveys_of(self.pool.uid, since=None))

    async def _list(self, name: str, /, *, for_eviction: bool = False) -> PodPage:
        assert not for_eviction
        self.lists.append((name, self.time()))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.seconds)
        self.at_once -= 1
        if error := self.errors.get(name):
            raise error
        unreadable = () if self.readable else (UnreadablePod(name, "garbage"),)
        return PodPage((a_pod(node=name),), unreadable, "9", "")

    def _looked(self, name: str) -> None:
        self.looked.append(name)
        self.on_looked()

    def _ask_for_all(self) -> None:
        self.asked_for_all += 1

    async def play(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.looks.run()


async def _no_budgets() -> BudgetIndex:
    raise AssertionError


def _ignore(name: str, *, for_rivals: bool) -> None:
    pass


def played(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene(Stage())

    run_virtually(main())


def test_nothing_is_listed_while_nothing_is_wanted() -> None:
    async def scene(stage: Stage) -> None:
        stage.want()
        await stage.play(3600)
        assert stage.lists == []

    played(scene)


def test_a_node_that_is_wanted_is_listed_at_once_and_its_pool_is_woken() -> None:
    async def scene(stage: Stage) -> None:
        stage.on_looked = stage.want
        stage.want(FEW[0])
        await stage.play(600)
        [(name, at)] = stage.lists
        assert (name, round(at, 3)) == ("w1", 0)
        assert stage.looked == ["pool"]
        look = stage.seen()["w1"]
        assert look.covers(FEW[0])
        assert not look.covers(FEW[1])
        assert look.busy == {"w1"}
        assert (look.started, look.finished) == (NOON, NOON + timedelta(seconds=0.5))
        assert look.began == about(stage.begun)

    played(scene)


def test_a_few_are_listed_at_once_and_never_more() -> None:
    async def scene(stage: Stage) -> None:
        stage.want(*MANY)
        await stage.play(5 * stage.seconds)
        assert {name for name, _ in stage.lists} == {node.name for node in MANY}
        assert stage.most_at_once == IN_FLIGHT

    played(scene)


def test_a_node_that_stays_wanted_is_listed_later_and_later() -> None:
    async def scene(stage: Stage) -> None:
        stage.on_looked = lambda: stage.want(FEW[0])
        stage.want(FEW[0])
        await stage.play(600)
        times = [at for _, at in stage.lists]
        pauses = [after - before - stage.seconds for before, after in pairwise(times)]
        assert pauses[:6] == about([1, 2, 4, 8, 16, LONGEST_SECONDS])
        assert max(pauses) == about(LONGEST_SECONDS)

    played(scene)


def test_a_failure_is_told_when_it_begins_and_when_it_lasts_and_tried_again_until_it_works() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors["w1"] = DOWN
        stage.want(FEW[0])
        await stage.play(20)
        assert stage.looks.problems() == {FEW[0].uid: PodListProblem(DOWN.message, lasts=True)}
        assert stage.looked == ["pool", "pool"]
        assert 2 < len(stage.lists) < 12
        assert stage.seen() == {}
        stage.errors.clear()
        await stage.play(60)
        assert stage.seen().keys() == {"w1"}
        assert stage.looks.problems() == {}

    played(scene)


def test_what_is_no_longer_wanted_has_no_problem() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors["w1"] = DOWN
        stage.want(FEW[0])
        await stage.play(5)
        stage.want()
        tried = len(stage.lists)
        await stage.play(600)
        assert stage.looks.problems() == {}
        assert len(stage.lists) == tried

    played(scene)


@pytest.mark.parametrize("error", [DOWN, HUGE])
def test_a_node_that_cannot_be_listed_holds_up_no_other(error: ApiError) -> None:
    async def scene(stage: Stage) -> None:
        stage.errors["w1"] = error
        stage.want(*FEW)
        await stage.play(stage.seconds + 0.1)
        assert stage.seen().keys() == {"w2", "w3"}

    played(scene)


def test_a_node_with_too_many_pods_does_not_make_the_next_one_wait() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors["w1"] = HUGE
        stage.want(FEW[0])
        await stage.play(120)
        stage.want(FEW[0], FEW[1])
        before = stage.time()
        await stage.play(1.5)
        assert next(at for name, at in stage.lists if name == "w2") - before < 1

    played(scene)


def test_where_the_right_is_missing_it_is_for_the_look_at_all_pods_to_say_so() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors["w1"] = NO
        stage.want(FEW[0])
        await stage.play(0.6)
        assert stage.asked_for_all == 1

    played(scene)


def test_a_look_that_a_newer_one_at_all_pods_outdates_is_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        stage.want(*FEW[:2])
        await stage.play(stage.seconds + 0.1)
        later = a_survey(stage.pool, [FEW[0]], began=asyncio.get_running_loop().time())
        assert stage.looks.surveys_of(stage.pool.uid, since=later).keys() == {"w2"}
        assert stage.seen().keys() == {"w2"}

    played(scene)


def test_another_machine_of_the_name_and_one_that_is_gone_are_not_looked_at() -> None:
    async def scene(stage: Stage) -> None:
        stage.nodes["w1"] = replace(FEW[0], uid="uid-of-another")
        del stage.nodes["w2"]
        stage.want(*FEW)
        await stage.play(60)
        assert {name for name, _ in stage.lists} == {"w3"}

    played(scene)


def test_for_a_pool_that_is_gone_nothing_is_listed_and_nothing_kept() -> None:
    async def scene(stage: Stage) -> None:
        pool = stage.pool
        stage.want(FEW[0])
        stage.pools.forget(name="pool", uid=pool.uid, version="2")
        await stage.play(60)
        assert stage.lists == []
        stage.looks.want_surveys(pool, FEW)
        await stage.play(60)
        assert stage.lists == []

    played(scene)


def test_a_node_that_is_none_of_the_pools_by_now_is_not_listed_and_nothing_runs_hot() -> None:
    async def scene(stage: Stage) -> None:
        stranger = replace(a_node("w9"), labels={})
        stage.nodes["w9"] = stranger
        stage.want(stranger)
        await stage.play(60)
        assert stage.lists == []

    played(scene)


def test_a_pod_that_cannot_be_read_leaves_its_node_uncovered() -> None:
    async def scene(stage: Stage) -> None:
        stage.readable = False
        stage.want(FEW[0])
        await stage.play(0.6)
        look = stage.seen()["w1"]
        assert look.saw(FEW[0])
        assert not look.covers(FEW[0])

    played(scene)


@pytest.mark.parametrize("seconds", [0.5, 5.0])
def test_the_pause_between_looks_at_a_node_is_not_begun_anew_by_its_being_unwanted(seconds: float) -> None:
    """A kubelet that flips Ready makes its node wanted and unwanted at will."""

    async def scene(stage: Stage) -> None:
        stage.seconds = seconds

        async def flip() -> None:
            for _ in range(50):
                stage.want(FEW[0])
                await asyncio.sleep(0.7)
                stage.want()
                stage.looks.problems()
                await asyncio.sleep(0.7)

        flipping = asyncio.create_task(flip())
        await stage.play(70)
        await flipping
        times = [at for _, at in stage.lists]
        assert 3 <= len(times) <= 7
        pauses = [after - before - seconds for before, after in pairwise(times)]
        assert all(pause >= least - 1e-3 for pause, least in zip(pauses, [1, 2, 4, 8, 16, 30], strict=False))

    played(scene)


def test_a_node_that_nobody_has_wanted_for_long_is_looked_at_at_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.on_looked = lambda: stage.want(FEW[0])
        stage.want(FEW[0])
        await stage.play(60)
        stage.on_looked = stage.want
        stage.want()
        await stage.play(2 * LONGEST_SECONDS + 5)
        before = len(stage.lists), stage.time()
        stage.want(FEW[0])
        await stage.play(5)
        assert stage.lists[before[0]][1] == about(before[1])

    played(scene)


def test_another_generation_of_the_spec_has_a_node_looked_at_at_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.on_looked = lambda: stage.want(FEW[0])
        stage.want(FEW[0])
        await stage.play(20)
        stage.on_looked = stage.want
        stage.pools.accept(a_body(version=2, generation=2))
        before = len(stage.lists), stage.time()
        stage.want(FEW[0])
        await stage.play(0.1)
        assert stage.lists[before[0]][1] == about(before[1])

    played(scene)


def test_what_is_asked_goes_by_the_node_as_it_stands_when_it_is_looked_at() -> None:
    async def scene(stage: Stage) -> None:
        spec = {**A_SPEC, "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]}
        stage.pools.accept({**a_body(version=2, generation=2), "spec": spec})
        bare = replace(FEW[0], created=NOON, ready_since=NOON - timedelta(minutes=10))
        stage.want(bare)
        [patch] = decide(a_snapshot(stage.pool, [bare])).writes.patches
        stage.nodes["w1"] = patched(bare, patch)
        await stage.play(0.6)
        assert stage.seen()["w1"].readiness.keys() == {"w1"}

    played(scene)


def test_a_look_that_fails_lasts_at_once_where_the_answer_is_too_large() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors.update(w1=HUGE, w2=DOWN)
        stage.want(*FEW)
        await stage.play(0.6)
        found = stage.looks.problems()
        assert found == {
            FEW[0].uid: PodListProblem(HUGE.message, lasts=True),
            FEW[1].uid: PodListProblem(DOWN.message),
        }

    played(scene)


def test_nothing_is_kept_of_nodes_that_come_and_go() -> None:
    async def scene(stage: Stage) -> None:
        playing = asyncio.create_task(stage.play(400))
        for number in range(300):
            node = a_node(f"c{number}")
            stage.nodes.clear()
            stage.nodes[node.name] = node
            stage.errors[node.name] = HUGE
            stage.want(node)
            await asyncio.sleep(1)
        assert 1 < len(stage.looks.problems()) <= LONGEST_SECONDS + 2
        kept: Any = stage.looks
        assert len(kept._surveyed) <= LONGEST_SECONDS + 2
        await playing

    played(scene)


def test_a_look_that_raises_is_a_failed_one_and_keeps_no_other_from_being_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(pool: Pool, nodes: Sequence[Node], *, now: datetime) -> PoolQuestion | None:
        if nodes[0].name == "w1":
            raise OverflowError("date value out of range")
        return question_of(pool, nodes, now=now)

    async def scene(stage: Stage) -> None:
        monkeypatch.setattr(node_looks, "question_of", broken)
        stage.want(FEW[0], FEW[1])
        await stage.play(60)
        assert set(stage.seen()) == {"w2"}
        assert stage.looks.problems()["uid-of-w1"] == PodListProblem(
            "list pods of node w1: OverflowError in the operator", lasts=True
        )

    played(scene)
