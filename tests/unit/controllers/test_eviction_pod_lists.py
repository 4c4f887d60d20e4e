"""When the pods of nodes under memory pressure are listed, how many at once, and what becomes of failures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from harness.builders import NOON, a_body, a_node, a_pool
from harness.evicting import a_pod
from harness.loops import MemoryCluster, MemoryOperator
from harness.memory_fleet import Fleet, Machine, a_watched_node
from harness.stage import issues_of
from harness.virtual_time import in_virtual_time, run_virtually
from winpool.controllers.evictions import Answers
from winpool.controllers.node_pods import NodePodLists
from winpool.controllers.pools import Absences, Pools
from winpool.features.memory.eviction import LISTED_SECONDS
from winpool.kube.errors import ApiError, Forbidden, Unavailable
from winpool.kube.pods import PodPage
from winpool.loops import Clock
from winpool.model.budgets import Budget, BudgetIndex, BudgetRoom
from winpool.model.node_pods import Answer, PodListRequest
from winpool.model.pods import Pod

IN_FLIGHT = 8
POOL = a_pool()
MANY = [a_node(f"w{place:02}") for place in range(40)]
DOWN = Unavailable("list pods of node w00: cannot connect", reason="NoConnection")
NO = Forbidden("list poddisruptionbudgets: 403", status=403, reason="Forbidden")


class Deaf:
    """Detectors that keep nothing."""

    fault: Exception | None = None

    def eviction_begun(self, *_: Any) -> None: ...

    def eviction_gone(self, *_: Any) -> None:
        if self.fault is not None:
            raise self.fault

    def eviction_refused(self, *_: Any) -> None: ...


class Stage:
    """Lists of half a second each, unless said otherwise."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.begun = loop.time()
        self.pods: tuple[Pod, ...] = (a_pod("hog"),)
        self.budgets: tuple[Budget, ...] = ()
        self.watched: BudgetIndex | None = None
        self.error: Exception | None = None
        self.budget_error: ApiError | None = None
        self.lists: list[tuple[str, float]] = []
        self.budget_lists = 0
        self.budgets_began = 0.0
        self.at_once = self.most_at_once = 0
        self.seconds, self.budget_seconds = 0.5, 0.0
        self.looked: list[str] = []
        self.detectors = Deaf()
        self.answers = Answers(
            detectors=self.detectors, results=Counter(), monotonic=loop.time, protected=frozenset({"locked"})
        )
        self.pools = Pools(on_change=_ignore, absences=Absences(grace_seconds=0))
        self.pools.accept(a_body())
        self.nodes = {node.name: node for node in MANY}
        self.looks = NodePodLists(
            list_pods=self._list,
            list_budgets=self._list_budgets,
            watched_budgets=lambda: self.watched,
            pools=self.pools,
            nodes=self.nodes,
            answers=self.answers,
            on_listed=self.looked.append,
            ask_for_all=_never,
            clock=Clock(now=lambda: NOON + timedelta(seconds=self.time()), monotonic=loop.time),
        )

    def time(self) -> float:
        return round(asyncio.get_running_loop().time() - self.begun, 3)

    def want(self, *names: str, watched: Sequence[str] = (), with_budgets: bool = False) -> None:
        nodes = [node for node in MANY if node.name in names]
        self.looks.want_for_evictions(
            POOL, [PodListRequest(node, frozenset(watched), with_budgets=with_budgets) for node in nodes]
        )

    async def _list(self, name: str, /, *, for_eviction: bool = False) -> PodPage:
        assert for_eviction
        self.lists.append((name, self.time()))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.seconds)
        self.at_once -= 1
        if self.error is not None:
            raise self.error
        return PodPage(self.pods, (), "9", "")

    async def _list_budgets(self) -> BudgetIndex:
        self.budget_lists += 1
        await asyncio.sleep(self.budget_seconds)
        if self.budget_error is not None:
            raise self.budget_error
        return BudgetIndex(self.budgets, began=self.begun + self.budgets_began)


def _ignore(name: str, *, for_rivals: bool) -> None:
    pass


def _never() -> None:
    raise AssertionError


def on_stage(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def play() -> None:
        stage = Stage()
        task = asyncio.create_task(stage.looks.run())
        try:
            await scene(stage)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    run_virtually(play())


def test_a_list_is_made_once_and_wakes_the_pool() -> None:
    async def scene(stage: Stage) -> None:
        stage.want("w00")
        await asyncio.sleep(100)
        assert stage.lists == [("w00", 0.0)]
        assert stage.looked == [POOL.name]

    on_stage(scene)


def test_the_age_of_a_list_counts_from_its_begin() -> None:
    async def scene(stage: Stage) -> None:
        stage.want("w00")
        await asyncio.sleep(1)
        known = stage.looks.evictions_of(POOL)
        pods = known.pods["uid-of-w00"]
        assert (pods.began, pods.started) == (stage.begun, NOON)
        assert (pods.pods, pods.has_budgets) == (stage.pods, False)
        assert known.read_at - stage.begun == 1
        assert "locked" in known.protected

    on_stage(scene)


def test_how_long_a_list_took_counts_that_of_the_budgets() -> None:
    async def scene(stage: Stage) -> None:
        stage.seconds = stage.budget_seconds = 6.0
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(13)
        assert stage.looks.evictions_of(POOL).pods["uid-of-w00"].seconds == pytest.approx(12)

    on_stage(scene)


def test_budgets_are_listed_only_where_an_eviction_is_next() -> None:
    async def scene(stage: Stage) -> None:
        stage.budgets = (Budget("shop", "web"),)
        stage.want("w01")
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(1)
        assert stage.budget_lists == 1
        assert stage.looks.evictions_of(POOL).pods["uid-of-w00"].blocked == frozenset({"uid-hog"})

    on_stage(scene)


def test_memory_and_a_drain_of_the_same_node_share_a_list_that_serves_both() -> None:
    async def scene(stage: Stage) -> None:
        stage.budgets = (Budget("shop", "web"),)
        stage.pods = (a_pod("hog", is_terminating=True),)
        node = MANY[0]
        looks = [PodListRequest(node, with_budgets=True), PodListRequest(node, frozenset({"uid-hog"}))]
        stage.looks.want_for_evictions(POOL, looks)
        await asyncio.sleep(2)
        known = stage.looks.evictions_of(POOL)
        assert (len(stage.lists), known.pods["uid-of-w00"].has_budgets) == (1, True)
        assert known.answers["uid-hog"].answer is Answer.ACCEPTED

    on_stage(scene)


def test_a_list_has_what_the_budgets_of_each_pod_allow_and_nothing_of_pods_without_one() -> None:
    async def scene(stage: Stage) -> None:
        stage.pods = (a_pod("hog"), a_pod("free", namespace="free"))
        stage.budgets = (Budget("shop", "web", allowed=2, lets_unready_go=True),)
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(1)
        stage.want("w01")
        await asyncio.sleep(1)
        pods = stage.looks.evictions_of(POOL).pods
        assert pods["uid-of-w00"].budgets == {
            "uid-hog": (BudgetRoom("shop/web", allowed=2, lets_unready_go=True),)
        }
        assert pods["uid-of-w01"].budgets == {}

    on_stage(scene)


def test_which_pods_stay_since_their_budgets_are_not_read_is_known_beside_those_that_budgets_protect() -> (
    None
):
    async def scene(stage: Stage) -> None:
        stage.pods = (a_pod("hog"), a_pod("theirs", namespace="theirs"), a_pod("free", namespace="free"))
        stage.budgets = (Budget("shop", "web"), Budget("theirs", "huge", is_too_large=True))
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(1)
        pods = stage.looks.evictions_of(POOL).pods["uid-of-w00"]
        assert pods.blocked == frozenset({"uid-hog", "uid-theirs"})
        assert pods.unread == frozenset({"uid-theirs"})

    on_stage(scene)


def test_pods_are_compared_again_with_budgets_that_have_changed_and_the_pool_is_woken() -> None:
    """No list is made for that, and the age of the pods remains."""

    async def scene(stage: Stage) -> None:
        stage.budgets = (Budget("shop", "web", allowed=0),)
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(2)
        before = stage.looks.evictions_of(POOL).pods["uid-of-w00"]
        stage.watched = BudgetIndex([Budget("shop", "web", allowed=3)], began=stage.begun + 1.5)
        stage.looked.clear()
        stage.looks.budgets_changed("pool")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        after = stage.looks.evictions_of(POOL).pods["uid-of-w00"]
        assert (before.blocked, after.blocked) == (frozenset({"uid-hog"}), frozenset())
        assert [each.allowed for each in after.budgets["uid-hog"]] == [3]
        assert (after.began, after.budgets_began) == (before.began, stage.begun + 1.5)
        assert stage.looked == ["pool"]
        assert len(stage.lists) == 1

    on_stage(scene)


def test_budgets_that_are_older_than_those_of_a_list_replace_nothing() -> None:
    async def scene(stage: Stage) -> None:
        stage.budgets = (Budget("shop", "web", allowed=0),)
        stage.budgets_began = 1.0
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(2)
        for watched in (BudgetIndex([], began=stage.begun + 0.9), None):
            stage.watched = watched
            stage.looks.budgets_changed("pool")
            await asyncio.sleep(1)
            assert stage.looks.evictions_of(POOL).pods["uid-of-w00"].blocked == frozenset({"uid-hog"})

    on_stage(scene)


def test_eight_nodes_are_listed_at_once_and_no_more() -> None:
    async def scene(stage: Stage) -> None:
        stage.want(*(node.name for node in MANY))
        await asyncio.sleep(3)
        assert (len(stage.lists), stage.most_at_once) == (40, IN_FLIGHT)

    on_stage(scene)


def test_of_one_node_one_list_is_under_way_and_a_second_lies_between_two() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(40):
            stage.want("w00")
            await asyncio.sleep(0.1)
        times = [at for _, at in stage.lists]
        assert stage.most_at_once == 1
        assert [later - before for before, later in pairwise(times)] == [pytest.approx(1.5)] * 2

    on_stage(scene)


def test_a_list_that_is_wanted_again_while_it_runs_is_made_again() -> None:
    """The one that runs began before what it is wanted for."""

    async def scene(stage: Stage) -> None:
        stage.want("w00")
        await asyncio.sleep(0.2)
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(5)
        assert [at for _, at in stage.lists] == [0.0, 1.5]

    on_stage(scene)


def test_what_is_wanted_no_more_is_not_listed() -> None:
    async def scene(stage: Stage) -> None:
        stage.error = DOWN
        stage.want("w00")
        await asyncio.sleep(1)
        stage.looks.want_for_evictions(POOL, [])
        await asyncio.sleep(100)
        assert len(stage.lists) == 1

    on_stage(scene)


def test_a_list_that_fails_is_made_again_after_longer_and_longer_pauses_and_told_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.error = DOWN
        stage.want("w00")
        await asyncio.sleep(100)
        times = [at for _, at in stage.lists]
        pauses = [later - before - 0.5 for before, later in pairwise(times)]
        assert pauses == pytest.approx([1, 2, 4, 8, 16, 30, 30])
        assert stage.looks.evictions_of(POOL).problems == {"uid-of-w00": DOWN.message}
        assert stage.looked == [POOL.name]
        stage.error = None
        await asyncio.sleep(40)
        assert stage.looks.evictions_of(POOL).problems == {}
        assert stage.looked == [POOL.name] * 2

    on_stage(scene)


def test_one_node_that_fails_keeps_no_other_waiting() -> None:
    async def scene(stage: Stage) -> None:
        stage.error = RuntimeError("a bug")
        stage.want("w00")
        await asyncio.sleep(10)
        stage.error = None
        stage.want("w00", "w01")
        await asyncio.sleep(1)
        assert "uid-of-w01" in stage.looks.evictions_of(POOL).pods

    on_stage(scene)


def test_a_fault_in_what_a_list_shows_ends_no_other_list() -> None:
    async def scene(stage: Stage) -> None:
        stage.detectors.fault = RuntimeError("a bug")
        stage.want("w00", watched=["uid-gone"])
        await asyncio.sleep(0.6)
        known = stage.looks.evictions_of(POOL)
        assert known.problems == {"uid-of-w00": "list pods of node w00: RuntimeError in the operator"}
        assert known.pods == {}
        stage.want("w00", "w01")
        await asyncio.sleep(10)
        known = stage.looks.evictions_of(POOL)
        assert set(known.pods) == {"uid-of-w00", "uid-of-w01"}
        assert known.problems == {}

    on_stage(scene)


def test_a_missing_permission_is_told_until_a_list_succeeds() -> None:
    async def scene(stage: Stage) -> None:
        stage.budget_error = NO
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(1)
        known = stage.looks.evictions_of(POOL)
        assert "403" in known.forbidden
        assert known.pods == {}
        stage.budget_error = None
        await asyncio.sleep(5)
        assert stage.looks.evictions_of(POOL).forbidden == ""

    on_stage(scene)


def test_lists_that_fail_end_with_their_pool() -> None:
    async def scene(stage: Stage) -> None:
        stage.error = DOWN
        stage.want("w00")
        await asyncio.sleep(10)
        before = len(stage.lists)
        await asyncio.sleep(60)
        assert len(stage.lists) > before
        stage.pools.forget(name=POOL.name, uid=POOL.uid, version="2")
        await asyncio.sleep(1)
        before = len(stage.lists)
        await asyncio.sleep(600)
        assert len(stage.lists) == before

    on_stage(scene)


def test_a_list_without_budgets_does_not_show_that_budgets_may_be_listed() -> None:
    async def scene(stage: Stage) -> None:
        stage.budget_error = NO
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(1)
        stage.want("w01")
        await asyncio.sleep(1)
        assert "uid-of-w01" in stage.looks.evictions_of(POOL).pods
        assert "403" in stage.looks.evictions_of(POOL).forbidden

    on_stage(scene)


def test_lists_tell_what_has_become_of_watched_pods() -> None:
    async def scene(stage: Stage) -> None:
        stage.want("w00", watched=["uid-hog", "uid-gone"])
        await asyncio.sleep(1)
        answers = stage.looks.evictions_of(POOL).answers
        assert {uid: each.answer for uid, each in answers.items()} == {"uid-gone": Answer.GONE}

    on_stage(scene)


def test_lists_are_forgotten_that_no_pass_asks_for_any_more() -> None:
    async def scene(stage: Stage) -> None:
        stage.want("w00")
        await asyncio.sleep(100)
        stage.looks.want_for_evictions(POOL, [])
        assert set(stage.looks.evictions_of(POOL).pods) == {"uid-of-w00"}
        await asyncio.sleep(30)
        stage.looks.want_for_evictions(POOL, [])
        assert stage.looks.evictions_of(POOL).pods == {}

    on_stage(scene)


def test_a_node_that_is_wanted_again_and_again_is_listed_twenty_times_a_minute() -> None:
    """Whatever makes it hot and calm again, or writes its annotation."""

    async def scene(stage: Stage) -> None:
        stage.seconds = 0.01
        for _ in range(3000):
            stage.want("w00")
            await asyncio.sleep(0.1)
            stage.looks.want_for_evictions(POOL, [])
        times = [at for _, at in stage.lists]
        assert len(times) > 80, "no less than it may"
        assert min(later - first for first, later in zip(times, times[20:], strict=False)) >= 59.99

    on_stage(scene)


def test_a_node_that_is_listed_too_often_keeps_no_other_waiting() -> None:
    async def scene(stage: Stage) -> None:
        stage.seconds = 0.01
        for _ in range(400):
            stage.want("w00")
            await asyncio.sleep(0.1)
        stage.want("w00", "w01")
        await asyncio.sleep(0.1)
        assert stage.lists[-1][0] == "w01"

    on_stage(scene)


def test_other_tasks_run_while_the_pods_of_a_node_are_compared_with_budgets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, compared_at = 0, list[int]()

    def other() -> None:
        nonlocal turns
        turns += 1

    def block_of(_: BudgetIndex, pod: Pod) -> None:
        compared_at.append(turns)
        asyncio.get_running_loop().call_soon(other)

    async def scene(stage: Stage) -> None:
        monkeypatch.setattr(BudgetIndex, "block_of", block_of)
        stage.pods = tuple(a_pod(f"pod-{number}") for number in range(100))
        stage.want("w00", with_budgets=True)
        await asyncio.sleep(1)
        assert len(compared_at) == 100
        assert max(Counter(compared_at).values()) == 32

    on_stage(scene)


@pytest.mark.parametrize("is_too_large", [False, True], ids=["permits none", "too large"])
@in_virtual_time
async def test_a_node_of_which_no_pod_may_be_evicted_costs_no_write_while_its_pods_are_listed_again(
    *, is_too_large: bool
) -> None:
    """An issue that ended with each list would be two writes of the status in half a minute (P7)."""
    fleet, cluster = Fleet(), MemoryCluster()
    for node in map(a_watched_node, range(5)):
        fleet.machines[node.name] = Machine()
        cluster.put_node(node)
    body = a_body()
    cluster.put_pool({**body, "spec": {**body["spec"], "memoryPressure": {"mode": "Evict"}}})
    cluster.budgets = [Budget("shop", "web", is_too_large=is_too_large)]
    operator = MemoryOperator(cluster, connections=fleet.connections())
    lists: list[float] = []

    async def list_pods(name: str, /, *, for_eviction: bool = False) -> PodPage:
        lists.append(cluster.time)
        await asyncio.sleep(0.5)
        return PodPage((a_pod("hog", node=name),), (), "9", "")

    operator.node_pods.list_pods = list_pods
    operator.start()
    await asyncio.sleep(600)
    fleet.machines["w002"] = Machine(
        committed=lambda now: 23.5 + now * 7 // 10 % 11 / 50, pods=(("uid-hog", 20.0, 10.0),)
    )
    await asyncio.sleep(300)
    assert ("w002", "EvictionBlocked") in issues_of(cluster)
    begun, before = cluster.time, cluster.bodies["pool"]["status"]
    await asyncio.sleep(600)
    assert len([each for each in lists if each >= begun]) >= 600 // (LISTED_SECONDS + 2)
    assert [(each.kind, each.name) for each in cluster.writes if each.at >= begun] == []
    assert cluster.bodies["pool"]["status"] == before
    [issue] = [each for each in before["issues"] if each["reason"] == "EvictionBlocked"]
    assert ("Namespaces: shop." in issue["message"]) is is_too_large
    await operator.stop()
