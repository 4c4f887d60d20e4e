"""Watching the memory of a fleet: when nodes are polled, what wakes a pool, and what is left behind.

The figures are promised, so they stand here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from msgspec.structs import force_setattr, replace

from harness.builders import NOON
from harness.memory import GIB
from harness.memory_fleet import (
    CALM_GIB,
    KUBELET_SOURCE,
    PROMETHEUS_SOURCE,
    Fleet,
    Stage,
    a_watched_node,
    a_watching_pool,
)
from harness.virtual_time import in_virtual_time
from winpool.controllers.memory import MemoryCollector
from winpool.kubelet.samples import (
    KUBELET_SENTENCES,
    PROMETHEUS_SENTENCES,
    KubeletEviction,
    Outcome,
    PollError,
)
from winpool.kubelet.schedule import HOT_INTERVAL, LONGEST_DEADLINE
from winpool.model.node import KubeletEndpoint, NodeVersions
from winpool.model.pressure import Axis, Level, NodePressure

POOL = a_watching_pool()
EVICTING = a_watching_pool(mode="Evict")


@asynccontextmanager
async def watching(collector: MemoryCollector) -> AsyncIterator[None]:
    task = asyncio.create_task(collector.run())
    try:
        yield
        assert not task.done(), "it has ended by itself"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def commit(view: NodePressure) -> Level | None:
    return view.axes[Axis.COMMIT].level


async def until(happens: Callable[[], bool]) -> None:
    """Wait until it is so, at most an hour."""
    for _ in range(3600):
        if happens():
            return
        await asyncio.sleep(1)
    raise AssertionError("it has not happened within an hour")


def leaking(
    *, since: float, per_minute: float, first: float = CALM_GIB, most: float = 23.9
) -> Callable[[float], float]:
    """Return what is committed at a time of the loop: from ``since`` on, so many GiB more each minute."""
    return lambda at: min(most, first + max(0.0, at - since) / 60 * per_minute)


@pytest.mark.slow
@in_virtual_time
async def test_a_healthy_fleet_is_polled_once_a_minute_and_wakes_nobody_once_it_is_known() -> None:
    stage = Stage(range(200), jitter=None)
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(250)
        began = len(stage.wakes)
        await asyncio.sleep(350)
        settled = len(stage.wakes)
        known = stage.known(POOL)
        assert all(commit(view) is Level.NORMAL for view in known.views.values())
        assert all(view.is_signalled is False for view in known.told.values())
        await asyncio.sleep(3600)
        assert stage.wakes[settled:] == []
        assert stage.known(POOL).told == known.told
    # First polls are spread over a minute at most, each node is known with its second, and calm after 300 s.
    assert began <= 120 / 5
    assert 1 <= settled - began <= 120 / 30
    for number in range(200):
        polls = [at for at in stage.polls_of(number) if at >= 600]
        assert all(57 <= later - earlier <= 63.31 for earlier, later in pairwise(polls))
    assert stage.fleet.most_in_flight <= 64
    assert stage.fleet.most_of_a_node == 1
    assert not stage.fleet.is_open


@in_virtual_time
async def test_a_leak_is_polled_often_and_wakes_the_pool_at_each_level_and_not_in_between() -> None:
    stage = Stage(range(20))
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(600)
        begun, settled = stage.begun + 600, len(stage.wakes)
        stage.machine(3).committed = leaking(since=begun, per_minute=0.5)
        levels: dict[Level, float] = {}
        while Level.HARD not in levels and stage.time < 600 + 3600:
            await asyncio.sleep(1)
            found = commit(stage.known(POOL).views[stage.nodes[3].uid])
            assert found is not None
            levels.setdefault(found, stage.time)
        await asyncio.sleep(120)
        assert [*levels] == [Level.NORMAL, Level.WARNING, Level.SOFT, Level.HARD]
        news = [at for at, _ in stage.wakes[settled:]]
        # Warning, Soft, the signal of Soft, and Hard.
        assert len(news) == 4
        assert stage.known(POOL).told[stage.nodes[3].uid].is_signalled
        hot = [at for at in stage.polls_of(3) if at > levels[Level.WARNING] + 1]
        assert all(later - earlier == pytest.approx(10) for earlier, later in pairwise(hot))
        assert len([at for at in stage.polls_of(4) if at > 600]) <= (stage.time - 600) / 60 + 1


@in_virtual_time
async def test_when_an_eviction_is_right_all_nodes_of_the_pool_are_looked_at_within_hot_nodes_interval() -> (
    None
):
    """It waits for samples of the others (ADR 0032). Those of another pool are polled as before."""
    stage = Stage(range(40))
    other = a_watching_pool("other", uid="uid-of-other", mode="Evict")
    stage.collector.want(EVICTING, stage.nodes[:30])
    stage.collector.want(other, stage.nodes[30:])
    hog = stage.nodes[3].uid
    async with watching(stage.collector):
        await asyncio.sleep(600)
        stage.machine(3).committed = lambda _: 23.9
        await until(lambda: bool(stage.known(EVICTING).views[hog].evictable))
        right = stage.time
        await asyncio.sleep(HOT_INTERVAL + 2)
        views = stage.known(EVICTING).views
        since = views[hog].axes[Axis.COMMIT].ready_since
        assert since is not None
        sampled = [view.axes[Axis.COMMIT].sampled_at for view in views.values()]
        assert all(at is not None and at >= since for at in sampled)
        await asyncio.sleep(120)
    for number in range(40):
        polls = [at for at in stage.polls_of(number) if right < at <= right + 12]
        assert len(polls) <= 2
    others = [
        len([at for at in stage.polls_of(number) if right < at <= right + 120]) for number in range(30, 40)
    ]
    assert max(others) <= 3


@in_virtual_time
async def test_a_node_that_is_calm_again_stays_known_when_it_is_polled_less_often() -> None:
    """What ends the heat is fresh until the next poll, which is a minute away and not ten seconds."""
    stage = Stage([1])
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        stage.machine(0).committed = lambda at: 20.0 if at < stage.begun + 600 else CALM_GIB
        await asyncio.sleep(600)
        assert commit(stage.known(POOL).views[stage.nodes[0].uid]) is Level.WARNING
        seen = set()
        for _ in range(900):
            await asyncio.sleep(1)
            seen.add(commit(stage.known(POOL).views[stage.nodes[0].uid]))
        assert seen == {Level.WARNING, Level.NORMAL}
        last = stage.polls_of(0)[-3:]
        assert all(later - earlier == pytest.approx(60) for earlier, later in pairwise(last))


BROKEN = [
    pytest.param({"seconds": float("inf")}, Outcome.TIMEOUT, id="hangs"),
    pytest.param({"error": PollError(Outcome.UNREADABLE, "garbage")}, Outcome.UNREADABLE, id="garbage"),
    pytest.param({"error": PollError(Outcome.NO_CONNECTION, "refused")}, Outcome.NO_CONNECTION, id="gone"),
    pytest.param({"frozen_at": 0.0}, Outcome.NO_NUMBERS, id="frozen"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("trouble", "outcome"), BROKEN)
@in_virtual_time
async def test_nodes_that_fail_cost_the_others_nothing_and_are_unknown_and_explained(
    trouble: dict[str, object], outcome: Outcome
) -> None:
    stage = Stage(range(60), jitter=None)
    broken = range(0, 60, 6)
    for number in broken:
        for name, value in trouble.items():
            setattr(stage.machine(number), name, value)
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(600)
        settled = len(stage.wakes)
        for _ in range(60):
            await asyncio.sleep(30)
            known = stage.known(POOL)
            for number, node in enumerate(stage.nodes):
                view = known.views[node.uid].axes[Axis.COMMIT]
                if number in broken:
                    assert view.level is None
                    assert known.problems[node.uid] == KUBELET_SENTENCES[outcome]
                else:
                    assert view.level is Level.NORMAL
                    assert view.sampled_at is not None
                    assert known.read_at - view.sampled_at <= 64
                    assert node.uid not in known.problems
        assert stage.wakes[settled:] == []
    for number in broken:
        polls = stage.polls_of(number)
        assert len(polls) <= 2400 / 57 + 1
        assert stage.collector.stats.samples["Kubelet", outcome] >= len(broken)


@in_virtual_time
async def test_a_node_that_fails_is_polled_more_and_more_rarely() -> None:
    stage = Stage([1])
    stage.machine(0).error = PollError(Outcome.NO_CONNECTION, "refused")
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(3600)
    gaps = [round(later - earlier) for earlier, later in pairwise(stage.polls_of(0))]
    assert gaps[:4] == [30, 60, 120, 240]
    assert set(gaps[4:]) == {300}


@in_virtual_time
async def test_a_node_without_an_address_is_never_polled_and_says_why() -> None:
    stage = Stage([1])
    (node,) = stage.nodes
    lost = a_watched_node(1)
    force_setattr(lost, "kubelet", KubeletEndpoint())
    stage.collector.want(POOL, [lost])
    async with watching(stage.collector):
        await asyncio.sleep(600)
        assert stage.fleet.polls == {}
        assert stage.known(POOL).problems == {node.uid: KUBELET_SENTENCES[Outcome.NO_ADDRESS]}
        assert stage.collector.stats.samples["Kubelet", Outcome.NO_ADDRESS] <= 5


@in_virtual_time
async def test_a_node_that_comes_back_is_known_again_and_the_problem_ends() -> None:
    stage = Stage([1])
    stage.collector.want(POOL, stage.nodes)
    uid = stage.nodes[0].uid
    async with watching(stage.collector):
        await asyncio.sleep(300)
        settled = len(stage.wakes)
        stage.machine(0).error = PollError(Outcome.NO_CONNECTION, "refused")
        await asyncio.sleep(59)
        assert stage.known(POOL).views[uid].level is Level.NORMAL
        await asyncio.sleep(10)
        assert stage.known(POOL).told[uid].level is None
        assert uid in stage.known(POOL).problems
        gone = len(stage.wakes)
        assert gone - settled == 1
        stage.machine(0).error = None
        await asyncio.sleep(600)
        assert stage.known(POOL).told[uid].level is Level.NORMAL
        assert stage.known(POOL).problems == {}


@in_virtual_time
async def test_of_two_failures_that_alternate_the_first_is_told() -> None:
    stage = Stage([1])
    stage.collector.want(POOL, stage.nodes)
    uid = stage.nodes[0].uid
    kinds = [Outcome.NO_CONNECTION, Outcome.TIMEOUT]
    async with watching(stage.collector):
        told = set()
        for turn in range(40):
            stage.machine(0).error = PollError(kinds[turn % 2], "")
            polls = len(stage.polls_of(0))
            await until(lambda: len(stage.polls_of(0)) > polls)  # noqa: B023 - within the turn
            told.add(stage.known(POOL).problems.get(uid))
        assert told == {None, KUBELET_SENTENCES[Outcome.NO_CONNECTION]}
        settled = len(stage.wakes)
        stage.machine(0).error = PollError(Outcome.TIMEOUT, "")
        await asyncio.sleep(1200)
        assert stage.known(POOL).problems[uid] == KUBELET_SENTENCES[Outcome.TIMEOUT]
        assert len(stage.wakes) == settled + 1


@in_virtual_time
async def test_a_restart_begins_with_nothing() -> None:
    stage = Stage([1])
    stage.machine(0).committed = lambda _: 23.5
    stage.collector.want(EVICTING, stage.nodes)
    uid = stage.nodes[0].uid
    async with watching(stage.collector):
        await asyncio.sleep(300)
        assert commit(stage.known(EVICTING).views[uid]) is Level.HARD
    again = MemoryCollector(
        stage.fleet.connections(),
        wake=lambda _: None,
        now=lambda: NOON,
        monotonic=asyncio.get_running_loop().time,
    )
    again.want(EVICTING, stage.nodes)
    assert again.known(EVICTING).views[uid].level is None
    async with watching(again):
        await asyncio.sleep(30)
        assert again.known(EVICTING).views[uid].evictable == ()


@in_virtual_time
async def test_another_machine_of_the_same_name_begins_with_nothing() -> None:
    stage = Stage([1])
    stage.machine(0).committed = lambda _: 23.5
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(300)
        other = a_watched_node(1, uid="another")
        stage.collector.want(POOL, [other])
        known = stage.known(POOL)
        assert [*known.views] == ["another"]
        assert known.views["another"].level is None
        await asyncio.sleep(1)
        assert stage.fleet.forgotten == [other.name]
        polls = len(stage.polls_of(0))
        await asyncio.sleep(50)
        assert len(stage.polls_of(0)) - polls <= 1
        await asyncio.sleep(80)
        assert commit(stage.known(POOL).views["another"]) is Level.HARD


@in_virtual_time
async def test_an_answer_of_the_machine_before_says_nothing_of_the_next() -> None:
    stage = Stage([1])
    stage.machine(0).seconds = 3.0
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await until(lambda: bool(stage.polls_of(0)))
        stage.collector.want(POOL, [a_watched_node(1, uid="another")])
        await asyncio.sleep(10)
        assert stage.collector.watched.named("w001").memory.sources == {}  # type: ignore[union-attr]


@in_virtual_time
async def test_a_pool_that_is_gone_leaves_nothing_and_is_polled_no_more() -> None:
    stage = Stage(range(20))
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(120)
        stage.collector.forget("pool")
        await asyncio.sleep(1)
        polls = sum(map(len, stage.fleet.polls.values()))
        await asyncio.sleep(3600)
        assert sum(map(len, stage.fleet.polls.values())) == polls
        assert len(stage.collector.watched) == 0
        assert stage.known(POOL).views == {}
        assert {*stage.fleet.forgotten} == {node.name for node in stage.nodes}


@in_virtual_time
async def test_a_pool_without_the_block_and_one_that_cannot_be_read_watch_nothing() -> None:
    stage = Stage([1])
    stage.collector.want(POOL, stage.nodes)
    stage.collector.want(POOL, [])
    assert len(stage.collector.watched) == 0
    stage.collector.want(POOL, stage.nodes)
    bare = a_watching_pool(generation=2)
    force_setattr(bare, "spec", bare.spec.model_copy(update={"memory_pressure": None}))  # type: ignore[union-attr]
    stage.collector.want(bare, stage.nodes)
    assert len(stage.collector.watched) == 0


@in_virtual_time
async def test_a_node_is_of_the_pool_that_asked_last() -> None:
    stage = Stage([1, 2])
    other = a_watching_pool("other", uid="uid-of-other")
    stage.collector.want(POOL, stage.nodes)
    stage.collector.want(other, stage.nodes[1:])
    assert [*stage.known(POOL).views] == [stage.nodes[0].uid]
    assert [*stage.known(other).views] == [stage.nodes[1].uid]
    stage.collector.want(POOL, stage.nodes[:1])
    assert [*stage.known(other).views] == [stage.nodes[1].uid]


@in_virtual_time
async def test_other_settings_of_the_pool_keep_what_is_known() -> None:
    stage = Stage([1])
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(200)
        edited = a_watching_pool(generation=2, softGraceSeconds=30)
        stage.collector.want(edited, stage.nodes)
        (watched,) = stage.collector.watched
        assert watched.wanted.settings.soft_grace_seconds == 30
        assert commit(stage.known(edited).views[stage.nodes[0].uid]) is Level.NORMAL


@in_virtual_time
async def test_pods_are_listed_where_the_pool_evicts_with_each_poll_of_a_hot_node_and_rarely_of_others() -> (
    None
):
    stage = Stage([1, 2])
    for number in (0, 1):
        stage.machine(number).pods = (("a", 4.0, 1.0), ("b", None, 2.0))
    stage.machine(0).committed = lambda _: 22.0
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(300)
        assert stage.fleet.with_pods.total() == 0
        stage.collector.want(a_watching_pool(mode="Evict", generation=2), stage.nodes)
        await asyncio.sleep(1800)
        assert stage.fleet.with_pods[stage.nodes[0].name] > 120
        assert stage.fleet.with_pods[stage.nodes[1].name] in (5, 6), "every five minutes, and one poll more"
        await until(lambda: stage.fleet.with_pods[stage.nodes[1].name] == 7)
        await asyncio.sleep(50)
        known = stage.known(POOL).pods
        assert [*known] == [stage.nodes[0].uid], "those of a calm node are not decided on"
        pods = known[stage.nodes[0].uid].pods
        a, b = pods["a"], pods["b"]
        assert (a.commit, a.working_set, a.commit_growth) == (4 * GIB, GIB, 0)
        assert (b.commit, b.working_set, b.commit_growth) == (None, 2 * GIB, None)


@in_virtual_time
async def test_an_eviction_that_becomes_right_wakes_a_pool_that_evicts() -> None:
    stage = Stage([1])
    stage.machine(0).committed = lambda _: 23.4
    stage.collector.want(EVICTING, stage.nodes)
    uid = stage.nodes[0].uid
    async with watching(stage.collector):
        woken: list[float] = []
        while not stage.known(EVICTING).views[uid].evictable:
            woken = [at for at, _ in stage.wakes]
            await asyncio.sleep(0.5)
            assert stage.time < 600
        assert len(stage.wakes) == len(woken) + 1
        assert stage.time - stage.wakes[-1][0] <= 0.5


@in_virtual_time
async def test_a_kubelet_that_leaves_no_time_for_its_configuration_is_asked_with_a_later_poll() -> None:
    stage = Stage(range(1))
    stage.machine(0).seconds = LONGEST_DEADLINE - 0.5
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(15)
        assert stage.fleet.followed.total() == stage.fleet.released.total() == 1
        assert stage.fleet.probes.total() == 0
        await asyncio.sleep(120)  # it was late, so it may take longer now
        assert stage.fleet.probes.total() == 1


@pytest.mark.slow
@in_virtual_time
async def test_each_kubelet_is_asked_once_whether_it_evicts_and_again_with_another_version() -> None:
    stage = Stage(range(60), jitter=None)
    stage.machine(1).eviction = KubeletEviction.NOT_ARMED
    stage.machine(2).eviction = PollError(Outcome.FORBIDDEN, "")
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(3000)
        assert set(stage.fleet.probes.values()) == {1}
        assert len(stage.fleet.probes) == 60
        assert stage.fleet.followed == stage.fleet.probes, "these polls, and no other, are announced to go on"
        assert stage.fleet.released.total() == 0
        asked_at = stage.fleet.probed_at
        assert all(later - earlier >= 1.0 for earlier, later in zip(asked_at, asked_at[30:], strict=False))
        found = {each.node.name: each.probe and each.probe.found for each in stage.collector.watched}
        assert found["w001"] is KubeletEviction.NOT_ARMED
        assert found["w002"] is KubeletEviction.UNKNOWN
        assert found["w003"] is KubeletEviction.ARMED
        newer = [*stage.nodes[1:], a_watched_node(0, versions=NodeVersions(kubelet="v1.99.0"))]
        stage.collector.want(POOL, newer)
        await asyncio.sleep(120)
        assert stage.fleet.probes["w000"] == 2
        assert stage.fleet.probes["w001"] == 1
    assert stage.fleet.most_of_a_node == 1


@in_virtual_time
async def test_ending_while_polls_hang_takes_less_than_two_seconds_and_leaves_no_connection() -> None:
    stage = Stage(range(100))
    for machine in stage.fleet.machines.values():
        machine.seconds = float("inf")
    stage.fleet.prometheus_seconds = float("inf")
    both = a_watching_pool(sources=[KUBELET_SOURCE, PROMETHEUS_SOURCE])
    stage.collector.want(both, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(3)
        assert stage.fleet.in_flight.total() > 0
        ended = stage.time
    assert stage.time - ended < 2
    assert not stage.fleet.is_open
    assert stage.fleet.in_flight.total() == 0
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.slow
@in_virtual_time
async def test_a_bug_about_one_node_costs_that_node_only(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(range(10))
    stage.machine(0).error = ZeroDivisionError("a bug")
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(3600)
        known = stage.known(POOL)
        assert known.views[stage.nodes[0].uid].level is None
        assert all(known.views[node.uid].level is Level.NORMAL for node in stage.nodes[1:])
    assert len(stage.polls_of(0)) <= 16
    said = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == 1
    assert "ZeroDivisionError" in said[0].message


FROM_PROMETHEUS = a_watching_pool(sources=[PROMETHEUS_SOURCE])


@pytest.mark.slow
@in_virtual_time
async def test_a_prometheus_is_queried_every_30_s_for_all_nodes_and_no_kubelet_is_polled() -> None:
    stage = Stage(range(60), jitter=None)
    stage.collector.want(FROM_PROMETHEUS, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(1)
        assert all(view.level is Level.NORMAL for view in stage.known(FROM_PROMETHEUS).views.values())
        await asyncio.sleep(600)
        settled = len(stage.wakes)
        for _ in range(360):
            await asyncio.sleep(10)
            assert all(view.level is Level.NORMAL for view in stage.known(FROM_PROMETHEUS).views.values())
        assert stage.wakes[settled:] == []
    assert stage.fleet.polls == {}
    gaps = [later - earlier for earlier, later in pairwise(stage.fleet.queries)]
    assert all(28 <= gap <= 32 for gap in gaps)


@in_virtual_time
async def test_it_is_queried_every_10_s_while_a_node_is_hot_and_evicts_on_scrapes_30_s_apart() -> None:
    stage = Stage(range(3))
    stage.machine(1).committed = lambda _: 23.5
    pool = a_watching_pool(mode="Evict", sources=[PROMETHEUS_SOURCE])
    stage.collector.want(pool, stage.nodes)
    async with watching(stage.collector):
        right = 0
        for _ in range(300):
            await asyncio.sleep(1)
            right += bool(stage.known(pool).views[stage.nodes[1].uid].evictable)
        assert right > 30
    gaps = [later - earlier for earlier, later in pairwise(stage.fleet.queries)][1:]
    assert all(gap == pytest.approx(10) for gap in gaps)


@in_virtual_time
async def test_what_prometheus_itself_says_is_old_is_not_known() -> None:
    stage = Stage(range(3))
    stage.machine(1).frozen_at = stage.begun - 300
    stage.fleet.missing.add(stage.nodes[2].name)
    stage.collector.want(FROM_PROMETHEUS, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(300)
        known = stage.known(FROM_PROMETHEUS)
        levels = [known.views[node.uid].level for node in stage.nodes]
        assert levels == [Level.NORMAL, None, None]
        assert known.problems == {
            stage.nodes[1].uid: PROMETHEUS_SENTENCES[Outcome.NO_NUMBERS],
            stage.nodes[2].uid: PROMETHEUS_SENTENCES[Outcome.NO_SERIES],
        }


@pytest.mark.parametrize("error", [PollError(Outcome.NO_CONNECTION, "refused"), ZeroDivisionError("a bug")])
@in_virtual_time
async def test_a_prometheus_that_fails_is_queried_more_and_more_rarely(error: Exception) -> None:
    stage = Stage(range(3))
    stage.fleet.prometheus_error = error
    stage.collector.want(FROM_PROMETHEUS, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(3600)
        known = stage.known(FROM_PROMETHEUS)
        assert all(view.level is None for view in known.views.values())
        if isinstance(error, PollError):
            sentence = PROMETHEUS_SENTENCES[Outcome.NO_CONNECTION]
            assert known.problems == {node.uid: sentence for node in stage.nodes}
    gaps = [round(later - earlier) for earlier, later in pairwise(stage.fleet.queries)]
    assert gaps[:5] == [30, 60, 120, 240, 300]
    assert set(gaps[5:]) == {300}


@in_virtual_time
async def test_a_kubelet_makes_up_for_a_prometheus_that_fails() -> None:
    stage = Stage(range(3))
    both = a_watching_pool(sources=[PROMETHEUS_SOURCE, KUBELET_SOURCE])
    stage.collector.want(both, stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(300)
        sources = {view.axes[Axis.COMMIT].source for view in stage.known(both).views.values()}
        assert sources == {"Prometheus/main"}
        stage.fleet.prometheus_error = PollError(Outcome.TIMEOUT, "")
        await asyncio.sleep(300)
        known = stage.known(both)
        assert {view.axes[Axis.COMMIT].source for view in known.views.values()} == {"Kubelet"}
        assert all(commit(view) is Level.NORMAL for view in known.views.values())
        assert set(known.problems.values()) == {PROMETHEUS_SENTENCES[Outcome.TIMEOUT]}


@in_virtual_time
async def test_a_data_source_that_no_setting_has_is_not_queried() -> None:
    stage = Stage([1])
    unknown = {"type": "Prometheus", "prometheus": {"dataSource": "other", "nodeLabel": "node"}}
    stage.collector.want(a_watching_pool(sources=[unknown]), stage.nodes)
    async with watching(stage.collector):
        await asyncio.sleep(300)
    assert stage.fleet.queries == []


@in_virtual_time
async def test_who_watches_nothing_does_nothing() -> None:
    stage = Stage()
    async with watching(stage.collector):
        loop = asyncio.get_running_loop()
        ahead = loop.call_later(86_400, lambda: None)
        await asyncio.sleep(3600)
        assert stage.fleet.polls == {}
        assert stage.wakes == []
        ahead.cancel()


@in_virtual_time
async def test_a_node_that_goes_away_in_the_middle_of_its_poll_is_forgotten_after_it() -> None:
    stage = Stage([1, 2])
    stage.machine(1).seconds = 5.0
    name = stage.nodes[1].name
    stage.collector.want(POOL, stage.nodes)
    async with watching(stage.collector):
        await until(lambda: bool(stage.fleet.in_flight[name]))
        stage.collector.want(POOL, stage.nodes[:1])
        await asyncio.sleep(0.5)
        assert stage.fleet.in_flight[name] == 1
        before = stage.fleet.forgotten.count(name)
        await until(lambda: not stage.fleet.in_flight[name])
        await asyncio.sleep(0.5)
    assert (before, stage.fleet.forgotten.count(name)) == (1, 2)
    assert stage.nodes[0].name not in stage.fleet.forgotten


@in_virtual_time
async def test_a_pool_that_goes_away_before_its_query_begins_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The task of a query begins after others have had a turn."""
    stage = Stage([1])
    stage.collector.want(a_watching_pool(sources=[PROMETHEUS_SOURCE]), stage.nodes)
    async with watching(stage.collector):
        # The loops and then their first tasks begin in the next two turns of the event loop.
        for _ in range(20):
            if any(task.get_name() == "query main" for task in asyncio.all_tasks()):
                break
            await asyncio.sleep(0)
        assert stage.fleet.queries == []
        stage.collector.forget("pool")
        await asyncio.sleep(1)
    assert stage.fleet.queries == []
    assert caplog.messages == []


@in_virtual_time
async def test_what_asks_for_the_token_is_closed_when_nothing_is_polled_any_more() -> None:
    fleet, closed = Fleet(), list[bool]()

    async def close() -> None:
        closed.append(fleet.is_open)

    collector = MemoryCollector(
        replace(fleet.connections(), close=close),
        wake=lambda _: None,
        now=lambda: NOON,
        monotonic=asyncio.get_running_loop().time,
    )
    async with watching(collector):
        await asyncio.sleep(1)
        assert fleet.is_open
        assert closed == []
    assert closed == [False]
