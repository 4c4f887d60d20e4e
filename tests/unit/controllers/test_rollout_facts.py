"""When the lists of a rollout are made and PodDisruptionBudgets are watched: only while passes ask for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from harness.builders import NOON, a_body, a_pool
from harness.evicting import a_pod
from harness.rollout_world import rolling_pool
from harness.scripted_transport import QUIET, ScriptedTransport, Watch
from harness.virtual_time import in_virtual_time, running
from winpool.controllers.pools import Absences, Pools
from winpool.controllers.rollout_facts import (
    ATTACHMENTS_SECONDS,
    KEPT_SECONDS,
    LINGER_SECONDS,
    NEWS_SECONDS,
    REFRESH_SECONDS,
    REVIEW_SECONDS,
    TOO_LARGE_SECONDS,
    RolloutFacts,
)
from winpool.features.upgrade.settle import LIST_SECONDS
from winpool.kube import budgets
from winpool.kube.budgets import BudgetWatch
from winpool.kube.errors import Forbidden, Permission, StreamCut, Unavailable
from winpool.loops import Clock
from winpool.model.budgets import BudgetIndex
from winpool.model.rollout import NOTHING_READ, Attachments, Workloads

Object = dict[str, Any]
RED, BLUE = a_pool("red"), a_pool("blue")
DOWN = Unavailable("list deployments: cannot connect", reason="NoConnection")
NO = Forbidden("list deployments: 403", status=403)
NO.permission = Permission("list", "deployments", "apps", None, "winpool")


def a_budget(name: str = "web", *, allowed: int = 0, version: int = 5, more: str = "") -> Object:
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": str(version),
            "generation": 1,
        },
        "spec": {"selector": {"matchLabels": {"note": more} if more else {}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed},
    }


def a_list(*items: Object, version: int = 5) -> bytes:
    head = {"kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1"}
    return json.dumps(head | {"metadata": {"resourceVersion": str(version)}, "items": items}).encode()


def changed(budget: Object) -> Object:
    return {"type": "MODIFIED", "object": budget}


class Scene:
    """Lists of a second each. ``lists`` and ``woken`` have what was listed and who was woken, and when."""

    def __init__(self, *watches: Watch) -> None:
        loop = asyncio.get_running_loop()
        self._begun = loop.time()
        self.lists: list[tuple[str, float]] = []
        self.woken: list[tuple[str, float]] = []
        self.error: Exception | None = None
        self.watching = 0
        self.server = ScriptedTransport(lists=[a_list(a_budget())], watches=list(watches) or [QUIET])
        self.pools = Pools(on_change=_ignore, absences=Absences(grace_seconds=0))
        for pool in (RED, BLUE):
            self.pools.accept(a_body(pool.name, uid=pool.uid))
        self.facts = RolloutFacts(
            list_workloads=self._list_workloads,
            list_attachments=self._list_attachments,
            list_budgets=self._list_budgets,
            review_deletions=self._review_deletions,
            open_watch=lambda on_change: BudgetWatch(self.server, on_change=on_change, monotonic=loop.time),
            pools=self.pools,
            on_read=lambda name: self.woken.append((name, self.time)),
            on_budgets=lambda name: self.woken.append((name, self.time)),
            clock=Clock(now=lambda: NOON + timedelta(seconds=self.time), monotonic=loop.time),
        )

    @property
    def time(self) -> float:
        return round(asyncio.get_running_loop().time() - self._begun, 3)

    def since_begin(self, moment: float) -> float:
        return moment - self._begun

    def want(
        self, pool: Any = RED, *, workloads: bool = False, attachments: bool = False, budgets: bool = False
    ) -> None:
        self.facts.want(pool, workloads=workloads, attachments=attachments, budgets=budgets)

    async def _list(self, what: str) -> None:
        self.lists.append((what, self.time))
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error

    async def _review_deletions(self) -> None:
        await self._list("deletions")

    async def _list_workloads(self, *, started: datetime, began: float) -> Workloads:
        await self._list("workloads")
        return Workloads(started, began)

    async def _list_attachments(self, *, started: datetime, began: float) -> Attachments:
        await self._list("attachments")
        return Attachments(started, began)

    async def _list_budgets(self) -> BudgetIndex:
        await self._list("budgets")
        return BudgetIndex(())

    def allows(self) -> bool | None:
        """Whether the watched budgets permit to evict a pod; None where they are not known."""
        index = self.facts.known().budgets
        return None if index is None else index.block_of(a_pod()) is None


def _ignore(name: str, *, for_rivals: bool) -> None:
    pass


@asynccontextmanager
async def playing(*watches: Watch) -> AsyncIterator[Scene]:
    scene = Scene(*watches)
    async with running(scene.facts.run()):
        yield scene


@in_virtual_time
async def test_nothing_is_read_that_no_pass_asks_for() -> None:
    async with playing() as scene:
        scene.want()
        await asyncio.sleep(3600)
        assert (scene.lists, scene.server.asked, scene.woken) == ([], [], [])
        assert scene.facts.known() == NOTHING_READ


@in_virtual_time
async def test_a_list_is_made_at_once_and_once_and_wakes_the_pools_that_asked() -> None:
    async with playing() as scene:
        scene.want(RED, workloads=True)
        scene.want(BLUE)
        await asyncio.sleep(60)
        assert scene.lists == [("workloads", 0.0)]
        assert scene.woken == [("red", 1.0)]


@in_virtual_time
async def test_the_age_of_a_list_counts_from_its_begin() -> None:
    async with playing() as scene:
        await asyncio.sleep(5)
        scene.want(workloads=True, attachments=True)
        await asyncio.sleep(2)
        known, begin = scene.facts.known(), NOON + timedelta(seconds=5)
        assert known.workloads is not None
        assert known.attachments is not None
        assert (known.workloads.started, known.attachments.started) == (begin, begin)
        assert known.workloads.began == asyncio.get_running_loop().time() - 2


@pytest.mark.parametrize(
    ("what", "seconds"), [("workloads", LIST_SECONDS), ("attachments", ATTACHMENTS_SECONDS)]
)
def test_pools_that_ask_without_end_share_one_list_in_some_seconds(what: str, seconds: float) -> None:
    @in_virtual_time
    async def scene() -> None:
        async with playing() as scene:
            for _ in range(600):
                scene.want(RED, **{what: True})
                scene.want(BLUE, **{what: True})
                await asyncio.sleep(0.1)
            assert scene.lists == [(what, at * seconds) for at in range(int(60 / seconds))]
            assert scene.woken[:2] == [("red", 1.0), ("blue", 1.0)]

    scene()


@in_virtual_time
async def test_a_list_that_began_before_a_pass_asked_is_not_its_answer() -> None:
    async with playing() as scene:
        scene.want(RED, workloads=True)
        await asyncio.sleep(0.5)
        scene.want(BLUE, workloads=True)
        await asyncio.sleep(60)
        assert scene.lists == [("workloads", 0.0), ("workloads", LIST_SECONDS)]
        assert scene.woken == [("red", 1.0), ("blue", LIST_SECONDS + 1)]


@in_virtual_time
async def test_what_no_pass_asks_for_any_more_is_forgotten_after_a_while() -> None:
    async with playing() as scene:
        scene.want(workloads=True)
        await asyncio.sleep(KEPT_SECONDS - 1)
        assert scene.facts.known().workloads is not None
        await asyncio.sleep(2)
        assert scene.facts.known() == NOTHING_READ


@in_virtual_time
async def test_a_list_that_fails_is_made_again_and_its_problem_wakes_the_pool_once() -> None:
    async with playing() as scene:
        scene.error = DOWN
        scene.want(workloads=True)
        await asyncio.sleep(100)
        known = scene.facts.known()
        assert (known.workloads, known.problems, known.forbidden) == (None, (DOWN.message,), ())
        assert scene.woken == [("red", 1.0)]
        tries = len(scene.lists)
        assert 3 <= tries <= 100 / LIST_SECONDS + 1
        scene.error = None
        await asyncio.sleep(40)
        answered = [began for _, began in scene.lists if began + 1 > 100]  # a list takes a second
        assert len(answered) == 1
        assert scene.facts.known().workloads is not None
        assert scene.facts.known().problems == ()
        assert len(scene.woken) == 2


@in_virtual_time
async def test_the_pause_that_the_api_server_asks_for_is_kept() -> None:
    async with playing() as scene:
        scene.error = Unavailable("503", retry_after=50)
        scene.want(workloads=True)
        await asyncio.sleep(50)
        assert len(scene.lists) == 1
        await asyncio.sleep(2)
        assert len(scene.lists) == 2


@in_virtual_time
async def test_a_last_answer_stays_while_lists_fail() -> None:
    async with playing() as scene:
        scene.want(workloads=True)
        await asyncio.sleep(2)
        scene.error = DOWN
        scene.want(workloads=True)
        await asyncio.sleep(30)
        known = scene.facts.known()
        assert known.workloads is not None
        assert known.workloads.started == NOON
        assert known.problems == (DOWN.message,)


@in_virtual_time
async def test_a_right_that_is_missing_is_a_sentence_with_the_rule() -> None:
    async with playing() as scene:
        scene.error = NO
        scene.want(workloads=True)
        await asyncio.sleep(2)
        known = scene.facts.known()
        assert known.forbidden == known.problems
        [said] = known.forbidden
        assert 'Add the rule {apiGroups: ["apps"], resources: ["deployments"], verbs: ["list"]}' in said


@in_virtual_time
async def test_a_bug_of_ours_ends_no_list_for_good() -> None:
    async with playing() as scene:
        scene.error = RuntimeError("a bug")
        scene.want(workloads=True)
        await asyncio.sleep(2)
        assert scene.facts.known().problems == ("list workloads: RuntimeError in the operator: a bug",)
        scene.error = None
        await asyncio.sleep(30)
        assert scene.facts.known().workloads is not None


@in_virtual_time
async def test_no_list_is_made_for_a_pool_that_is_gone() -> None:
    async with playing() as scene:
        scene.error = DOWN
        scene.want(workloads=True)
        await asyncio.sleep(2)
        scene.pools.forget(name=RED.name, uid=RED.uid, version="9")
        await asyncio.sleep(300)
        assert len(scene.lists) == 1


# The right to delete pods.

FORCES = rolling_pool({"drain": {"onTimeout": "Force"}}, name="red")


@in_virtual_time
async def test_the_right_to_delete_pods_is_reviewed_while_a_pool_drains_that_forces() -> None:
    async with playing() as scene:
        scene.want(RED, budgets=True)
        scene.want(rolling_pool(name="blue"), budgets=True)
        scene.want(FORCES)
        await asyncio.sleep(60)
        assert scene.lists == []
        for _ in range(30):
            scene.want(FORCES, budgets=True)
            await asyncio.sleep(5)
        reviews = [each for each in scene.lists if each[0] == "deletions"]
        assert reviews == [("deletions", 60 + at * REVIEW_SECONDS) for at in range(3)]
        assert scene.facts.deletions_forbidden == ""


@in_virtual_time
async def test_a_right_to_delete_that_is_missing_is_reviewed_until_it_is_there() -> None:
    async with playing() as scene:
        scene.error = Forbidden("403", status=403)
        scene.error.permission = Permission("delete", "pods", "", None, "winpool")
        scene.want(FORCES, budgets=True)
        await asyncio.sleep(2)
        rule = 'Add the rule {apiGroups: [""], resources: ["pods"], verbs: ["delete"]} to a ClusterRole'
        assert rule in scene.facts.deletions_forbidden
        assert scene.facts.known().forbidden == (), "other pools do not need it"
        assert scene.woken[-1] == ("red", 1.0)
        scene.error = None
        scene.want(FORCES)
        await asyncio.sleep(REVIEW_SECONDS + 1)
        assert scene.facts.deletions_forbidden == ""


# The watch of PodDisruptionBudgets.


@in_virtual_time
async def test_budgets_are_known_as_soon_as_their_watch_is_in_step() -> None:
    async with playing() as scene:
        scene.want(budgets=True)
        await asyncio.sleep(0.1)
        assert scene.allows() is False
        assert scene.woken == [("red", 0.0)]
        await asyncio.sleep(250)
        assert (len(scene.server.listed), len(scene.server.watched)) == (1, 1)
        assert scene.woken == [("red", 0.0)]


@in_virtual_time
async def test_a_budget_that_permits_more_wakes_the_pools_that_drain() -> None:
    async with playing([20.0, changed(a_budget(allowed=1, version=6))]) as scene:
        scene.want(RED, budgets=True)
        scene.want(BLUE)
        await asyncio.sleep(19)
        assert scene.allows() is False
        await asyncio.sleep(2)
        assert scene.allows() is True
        assert scene.woken == [("red", 0.0), ("red", 20.0)]


@in_virtual_time
async def test_changes_without_end_wake_once_a_second_and_the_last_of_them_is_seen() -> None:
    steps: list[Any] = [30.0]
    for version in range(6, 106):
        steps += [changed(a_budget(allowed=version % 2, version=version)), 0.1]
    async with playing([*steps, changed(a_budget(allowed=1, version=999))]) as scene:
        scene.want(budgets=True)
        await asyncio.sleep(50)
        assert 10 <= len(scene.woken) <= 13
        times = [at for _, at in scene.woken]
        assert all(after - before >= NEWS_SECONDS for before, after in pairwise(times))
        assert scene.allows() is True


@in_virtual_time
async def test_a_heartbeat_of_a_budget_wakes_nobody() -> None:
    async with playing([20.0, changed(a_budget(version=6))]) as scene:
        scene.want(budgets=True)
        await asyncio.sleep(40)
        assert scene.woken == [("red", 0.0)]


@in_virtual_time
async def test_budgets_are_not_listed_while_they_are_watched() -> None:
    async with playing() as scene:
        await scene.facts.budgets()
        assert scene.lists == [("budgets", 0.0)]
        scene.want(budgets=True)
        await asyncio.sleep(0.1)
        assert (await scene.facts.budgets()).block_of(a_pod()) is not None
        assert len(scene.lists) == 1


@in_virtual_time
async def test_of_a_watch_that_is_not_in_step_nothing_is_known_and_budgets_are_listed() -> None:
    broken: Watch = [20.0, StreamCut("watch poddisruptionbudgets: the connection broke")]
    async with playing(broken, Unavailable("watch: cannot connect"), QUIET) as scene:
        scene.want(budgets=True)
        await asyncio.sleep(20.01)
        assert scene.allows() is None
        await scene.facts.budgets()
        assert [what for what, _ in scene.lists] == ["budgets"]
        await asyncio.sleep(60)
        assert scene.allows() is False
        assert scene.facts.known().problems == ()


@in_virtual_time
async def test_a_watch_that_is_forbidden_is_a_sentence_with_the_rule() -> None:
    no = Forbidden("watch poddisruptionbudgets: 403", status=403)
    no.permission = Permission("watch", "poddisruptionbudgets", "policy", None, "winpool")
    async with playing(no) as scene:
        scene.want(budgets=True)
        await asyncio.sleep(5)
        known = scene.facts.known()
        assert (known.budgets, known.forbidden) == (None, known.problems)
        assert 'resources: ["poddisruptionbudgets"], verbs: ["watch"]' in known.forbidden[0]
        assert scene.woken[-1][0] == "red"


@in_virtual_time
async def test_the_watch_ends_some_time_after_no_pool_wants_it() -> None:
    async with playing() as scene:
        scene.want(budgets=True)
        await asyncio.sleep(10)
        scene.want(budgets=False)
        await asyncio.sleep(LINGER_SECONDS - 11)
        scene.want(budgets=True)
        await asyncio.sleep(10)
        assert len(scene.server.asked) == 2
        scene.want(budgets=False)
        await asyncio.sleep(LINGER_SECONDS + 1)
        assert scene.allows() is None
        asked = len(scene.server.asked)
        await asyncio.sleep(3600)
        assert len(scene.server.asked) == asked


@in_virtual_time
async def test_the_watch_ends_after_the_pool_is_gone() -> None:
    async with playing() as scene:
        scene.want(budgets=True)
        await asyncio.sleep(10)
        scene.pools.forget(name=RED.name, uid=RED.uid, version="9")
        await asyncio.sleep(2 * REFRESH_SECONDS + LINGER_SECONDS)
        asked = len(scene.server.asked)
        await asyncio.sleep(3600)
        assert len(scene.server.asked) == asked


@in_virtual_time
async def test_an_index_that_lasts_is_made_again() -> None:
    async with playing() as scene:
        scene.want(budgets=True)
        await asyncio.sleep(1)
        first = scene.facts.known().budgets
        await asyncio.sleep(REFRESH_SECONDS)
        again = scene.facts.known().budgets
        assert again is not None
        assert again is not first
        assert len(scene.woken) == 1


@in_virtual_time
async def test_watched_budgets_are_as_of_half_a_second_ago_until_something_changes() -> None:
    """What was answered later may not be in them."""
    async with playing(
        [20.0, changed(a_budget(allowed=1, version=6)), 0.2, changed(a_budget(version=7))]
    ) as scene:
        scene.want(budgets=True)
        for at, began in [(1.0, 0.5), (10.0, 9.5), (20.1, 19.6), (20.5, 19.6), (21.5, 21.0)]:
            await asyncio.sleep(at - scene.time)
            index = scene.facts.watched_budgets()
            assert index is not None
            assert (at, round(scene.since_begin(index.began), 1)) == (at, began)


def test_budgets_that_take_too_much_memory_are_listed_and_not_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budgets, "MOST_OF_ALL", 10_000)

    @in_virtual_time
    async def scene() -> None:
        async with playing() as scene:
            scene.server.lists = [a_list(*(a_budget(f"web-{n}", more="x" * 900) for n in range(20)))]
            for _ in range(int(TOO_LARGE_SECONDS) - 1):
                scene.want(budgets=True)
                await asyncio.sleep(1)
                assert scene.allows() is None
            assert len(scene.server.listed) == 1
            await scene.facts.budgets()
            scene.server.lists = [a_list(a_budget())]
            await asyncio.sleep(2)
            scene.want(budgets=True)
            await asyncio.sleep(2)
            assert scene.allows() is False

    scene()


@in_virtual_time
async def test_a_budget_that_cannot_be_read_leaves_nothing_known() -> None:
    garbage = {"type": "MODIFIED", "object": {"metadata": {"name": "web", "resourceVersion": "6"}}}
    async with playing([20.0, garbage]) as scene:
        scene.want(budgets=True)
        await asyncio.sleep(20.5)
        assert scene.allows() is None
