"""Evictions: one at a time of a pod, none of one that was told to end, and no pod waits for another (P5)."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec.structs import replace

from harness.virtual_time import in_virtual_time
from winpool.controllers.evictions import SETTLED_KEPT, Evictor, eviction_answers, is_of_one_pod
from winpool.kube.errors import (
    ApiError,
    Conflict,
    DisruptionBudget,
    Forbidden,
    Invalid,
    NoAnswer,
    NotFound,
    Permission,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.node import Eviction

IN_FLIGHT = 8
LEFT_ALONE = 600.0

BUDGET = DisruptionBudget("429 Cannot evict pod", status=429)
BUSY = TooManyRequests("429 too many requests", status=429, retry_after=5.0)
GONE = NotFound("404 pods web-0 not found", status=404)
SILENT = NoAnswer("no answer within 30 s")


def by_rbac() -> Forbidden:
    error = Forbidden("403", status=403)
    error.permission = Permission(
        user="u", verb="create", resource="pods/eviction", group="", namespace="shop"
    )
    return error


class PodWriter(Writer):
    """Takes ``seconds`` for each eviction. ``answers`` are the errors to come, by the name of the pod."""

    def __init__(self, *, seconds: float = 0.1) -> None:
        self.asked: list[tuple[float, str]] = []
        self.answers: dict[str, list[ApiError]] = {}
        self.most = 0
        self.most_of_one = 0
        self._seconds = seconds
        self._began = asyncio.get_running_loop().time()
        self._now: list[str] = []

    async def evict(self, eviction: Eviction) -> None:
        self.asked.append((round(asyncio.get_running_loop().time() - self._began, 3), eviction.name))
        self._now.append(eviction.uid)
        self.most = max(self.most, len(self._now))
        self.most_of_one = max(self.most_of_one, self._now.count(eviction.uid))
        await asyncio.sleep(self._seconds)
        self._now.remove(eviction.uid)
        if answers := self.answers.get(eviction.name):
            raise answers.pop(0)

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.asked]


def an_evictor(writer: Writer) -> Evictor:
    """Make one inside the running event loop, whose time it goes by."""
    monotonic = asyncio.get_running_loop().time
    answers = eviction_answers(None, clock=Clock(monotonic=monotonic))
    return Evictor(writer=writer, monotonic=monotonic, answers=answers)


def pods(number: int) -> list[Eviction]:
    return [
        Eviction(namespace="shop", name=f"web-{each}", uid=f"uid-{each}", node="w1", why="a drain")
        for each in range(number)
    ]


@in_virtual_time
async def test_of_all_pools_together_8_evictions_are_in_flight_and_no_more() -> None:
    writer = PodWriter()
    evictor = an_evictor(writer)
    outcomes = await asyncio.gather(*(evictor.run(pods(100)[each::3]) for each in range(3)))
    assert (len(writer.asked), writer.most) == (100, IN_FLIGHT)
    assert sum(len(outcome.done) for outcome in outcomes) == 100


@in_virtual_time
async def test_of_one_pod_one_eviction_is_outstanding_whoever_asks() -> None:
    writer = PodWriter(seconds=5)
    evictor = an_evictor(writer)
    at_once = [asyncio.create_task(evictor.run(pods(3))) for _ in range(2)]
    await asyncio.sleep(1)
    later = await evictor.run(pods(3))
    assert (later.done, later.stopped, later.remaining) == ([], [], 0)
    await asyncio.gather(*at_once)
    assert (sorted(writer.names), writer.most_of_one) == (["web-0", "web-1", "web-2"], 1)


@in_virtual_time
async def test_a_pod_that_is_asked_for_twice_in_one_pass_is_asked_for_once() -> None:
    writer = PodWriter()
    outcome = await an_evictor(writer).run(pods(1) * 3)
    assert (writer.names, outcome.done) == (["web-0"], pods(1))


@in_virtual_time
async def test_a_pod_that_was_told_to_end_is_left_alone_for_ten_minutes() -> None:
    writer = PodWriter()
    evictor = an_evictor(writer)
    for _ in range(700):
        await evictor.run(pods(1))
        await asyncio.sleep(1)
    assert [at for at, _ in writer.asked] == [0.0, pytest.approx(LEFT_ALONE + 0.1, abs=1.0)]
    assert evictor.seconds_to_next(pods(1)) is None


@in_virtual_time
async def test_so_many_pods_that_were_told_to_end_are_remembered_and_no_more() -> None:
    writer = PodWriter(seconds=0)
    evictor = an_evictor(writer)
    everyone = pods(SETTLED_KEPT + 10)
    await evictor.run(everyone)
    writer.asked.clear()
    await evictor.run(everyone[:11])
    assert writer.names == [f"web-{each}" for each in range(10)]


@in_virtual_time
async def test_a_pod_that_is_gone_is_not_ours_and_is_not_asked_for_again() -> None:
    writer = PodWriter()
    writer.answers["web-0"] = [GONE]
    evictor = an_evictor(writer)
    outcome = await evictor.run(pods(2))
    assert (outcome.done, outcome.stopped, outcome.error) == (pods(2)[1:], [(pods(1)[0], GONE)], None)
    await asyncio.sleep(30)
    await evictor.run(pods(1))
    assert writer.names == ["web-0", "web-1"]


@in_virtual_time
async def test_a_budget_that_does_not_permit_a_pod_stops_no_other() -> None:
    writer = PodWriter()
    writer.answers["web-0"] = [BUDGET] * 3
    outcome = await an_evictor(writer).run(pods(50))
    assert [act for act, _ in outcome.stopped] == pods(1)
    assert (len(outcome.done), outcome.error, outcome.remaining) == (49, None, 0)


@in_virtual_time
async def test_a_refused_pod_is_tried_later_and_later_up_to_16_seconds() -> None:
    writer = PodWriter(seconds=0)
    writer.answers["web-0"] = [BUDGET] * 7
    evictor = an_evictor(writer)
    waits = []
    for _ in range(7):
        await evictor.run(pods(1))
        outcome = await evictor.run(pods(1))
        assert (outcome.stopped, outcome.remaining) == ([], 0), "it waits, and is not counted"
        waits.append(evictor.seconds_to_next(pods(2)))
        await asyncio.sleep(waits[-1] or 0.0)
        assert evictor.seconds_to_next(pods(1)) == 0.0
    assert waits == [2.0, 4.0, 8.0, 16.0, 16.0, 16.0, 16.0]
    await evictor.run(pods(1))
    assert (len(writer.asked), evictor.seconds_to_next(pods(1))) == (8, None)


@in_virtual_time
async def test_a_pod_that_a_budget_refused_has_no_pause_where_who_decides_counts_what_it_allows() -> None:
    """A drain asks again only when newer budgets allow it. Other refusals have their pauses."""
    writer = PodWriter(seconds=0)
    evictor = an_evictor(writer)
    counted = [replace(each, budget="shop/web") for each in pods(2)]
    writer.answers = {"web-0": [BUDGET, BUDGET], "web-1": [Invalid("422 a policy", status=422)]}
    for _ in range(3):
        await evictor.run(counted)
        await asyncio.sleep(0.5)
    assert writer.names == ["web-0", "web-1", "web-0", "web-0"]


@in_virtual_time
async def test_a_budget_that_says_when_to_come_back_is_believed() -> None:
    writer = PodWriter(seconds=0)
    writer.answers["web-0"] = [DisruptionBudget("429 still being processed", status=429, retry_after=10.0)]
    evictor = an_evictor(writer)
    await evictor.run(pods(1))
    assert evictor.seconds_to_next(pods(1)) == 10.0


@in_virtual_time
async def test_a_pod_whose_eviction_is_not_answered_waits_until_the_server_gave_up_and_no_other_does() -> (
    None
):
    writer = PodWriter(seconds=0)
    writer.answers["web-0"] = [SILENT]
    evictor = an_evictor(writer)
    outcome = await evictor.run(pods(20))
    assert (len(outcome.done), outcome.error) == (19, None)
    assert evictor.seconds_to_next(pods(1)) == 60.0


@in_virtual_time
async def test_evictions_that_hang_end_the_pass_all_the_same() -> None:
    writer = PodWriter(seconds=30)
    outcome = await an_evictor(writer).run(pods(100))
    assert (len(writer.asked), outcome.remaining) == (IN_FLIGHT, 100 - IN_FLIGHT)


@in_virtual_time
async def test_an_error_of_the_cluster_ends_the_work_and_nobody_has_to_wait_for_it() -> None:
    writer = PodWriter()
    writer.answers["web-3"] = [BUSY]
    evictor = an_evictor(writer)
    outcome = await evictor.run(pods(100))
    assert outcome.error is BUSY
    assert len(writer.asked) < 2 * IN_FLIGHT
    assert (outcome.stopped, outcome.remaining) == ([], 100 - len(outcome.done))
    assert evictor.seconds_to_next(pods(100)) is None


@in_virtual_time
async def test_no_more_are_started_once_they_are_not_wanted() -> None:
    writer = PodWriter()
    outcome = await an_evictor(writer).run(pods(20), is_wanted=lambda: len(writer.asked) < 3)
    assert (len(writer.asked), outcome.remaining) == (3, 17)


@in_virtual_time
async def test_an_eviction_that_is_cancelled_is_outstanding_no_more() -> None:
    writer = PodWriter(seconds=30)
    evictor = an_evictor(writer)
    task = asyncio.create_task(evictor.run(pods(1)))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    outcome = await evictor.run(pods(1))
    assert outcome.done == pods(1)


def test_each_thing_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="winpool.controllers.evictions")

    @in_virtual_time
    async def scene() -> None:
        writer = PodWriter()
        writer.answers |= {"web-0": [GONE], "web-1": [BUDGET] * 5}
        evictor = an_evictor(writer)
        for _ in range(200):
            await evictor.run(pods(2))
            await asyncio.sleep(1)

    scene()
    assert caplog.messages == [
        "pod shop/web-0 on node w1 was gone before its eviction",
        f"the operator cannot evict pod shop/web-1 on node w1 now: {BUDGET}; it tries again after longer "
        "and longer pauses",
        "the operator evicted pod shop/web-1 on node w1: a drain",
    ]


@pytest.mark.parametrize(
    "error",
    [
        BUDGET,
        SILENT,
        GONE,
        Conflict("409 the object has been modified", status=409),
        Invalid("422", status=422),
        Forbidden("403 pdb disruptions allowed is negative", status=403),
        Unavailable("500 more than one PodDisruptionBudget", status=500),
    ],
    ids=str,
)
def test_a_failure_of_one_pod_stops_no_other(error: ApiError) -> None:
    assert is_of_one_pod(error)


@pytest.mark.parametrize(
    "error",
    [
        by_rbac(),
        BUSY,
        Unauthorized("401", status=401),
        Unavailable("503", status=503),
        Unavailable("no connection"),
    ],
    ids=str,
)
def test_a_failure_of_the_cluster_ends_the_work_for_all(error: ApiError) -> None:
    assert not is_of_one_pod(error)
