"""A pool that went without releasing its nodes: told once, with how many nodes and until when."""

from __future__ import annotations

import asyncio

import pytest

from harness.builders import a_body
from harness.sweeping import Stage, a_leftover, an_orphan, played
from harness.writes import relabelled
from winpool.api.events import EventReason
from winpool.api.keys import OS_WINDOWS, POOL_LABEL
from winpool.controllers.sweep import STRAYS_SECONDS


def test_it_is_told_once_with_its_name_its_uid_the_nodes_and_the_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan("w1"), an_orphan("w2"), an_orphan("w3"))
        await asyncio.sleep(1)
        assert stage.announced == []
        stage.list_pools()
        until = stage.absences.decided_at("uid-of-pool")
        await asyncio.sleep(STRAYS_SECONDS)
        (told,) = stage.announced
        assert (told.reason, told.name, told.uid) == (EventReason.POOL_GONE, "pool", "uid-of-pool")
        assert "3 nodes" in told.note
        assert until is not None
        assert f"{until:%Y-%m-%dT%H:%M:%SZ}" in told.note
        stage.sweeper.sweep_soon()
        await asyncio.sleep(STRAYS_SECONDS)
        assert len(stage.announced) == 1
        stage.list_pools()
        await asyncio.sleep(1)
        assert stage.left == set()
        assert len(stage.announced) == 1

    played(scene)
    assert caplog.text.count("no longer exists") == 1


def test_it_is_told_where_a_person_has_removed_the_pool_label() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(relabelled(an_orphan("w1"), **{POOL_LABEL: None}))
        await asyncio.sleep(1)
        stage.list_pools()
        await asyncio.sleep(1)
        assert [told.uid for told in stage.announced] == ["uid-of-pool"]

    played(scene)


@pytest.mark.parametrize("label", ["Evil_Name", "another-pool"])
def test_a_label_that_cannot_be_the_name_of_the_pool_does_not_name_it(label: str) -> None:
    """The API server refuses an event about the first, and the second is a pool that has not gone."""

    async def scene(stage: Stage) -> None:
        stage.pools.accept(a_body("another-pool"))
        stage.put(relabelled(an_orphan("w1"), **{POOL_LABEL: label}))
        await asyncio.sleep(1)
        stage.list_pools(a_body("another-pool"))
        await asyncio.sleep(1)
        assert [(told.name, told.uid) for told in stage.announced] == [("uid-of-pool", "uid-of-pool")]

    played(scene)


def test_a_pool_that_was_seen_has_its_own_name_whatever_the_label_says() -> None:
    async def scene(stage: Stage) -> None:
        stage.pools.accept(a_body("pool"))
        stage.pools.forget(name="pool", uid="uid-of-pool", version="9")
        stage.put(relabelled(an_orphan("w1"), **{POOL_LABEL: "made-up"}))
        await asyncio.sleep(1)
        stage.list_pools()
        await asyncio.sleep(1)
        assert [told.name for told in stage.announced] == ["pool"]

    played(scene)


def test_a_pool_that_is_there_is_not_told_of() -> None:
    async def scene(stage: Stage) -> None:
        stage.put(an_orphan("w1"))
        await asyncio.sleep(1)
        for _ in range(3):
            stage.list_pools(a_body("pool"))
            await asyncio.sleep(1)
        assert stage.announced == []

    played(scene)


def test_a_record_that_may_be_forged_names_no_pool_that_is_told_of() -> None:
    """A kubelet could have events written about any pool there never was."""

    async def scene(stage: Stage) -> None:
        stage.put(a_leftover("w1", os=OS_WINDOWS, guard="a-guard-that-was"))
        await asyncio.sleep(1)
        for _ in range(3):
            stage.list_pools()
            await asyncio.sleep(1)
        assert stage.announced == []

    played(scene)


def test_a_pool_that_goes_while_the_operator_runs_is_looked_for_at_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.pools.accept(a_body("pool"))
        stage.put(an_orphan("w1"))
        await asyncio.sleep(STRAYS_SECONDS + 1)
        assert stage.absences.next_list_at() is None
        stage.pools.forget(name="pool", uid="uid-of-pool", version="9")
        stage.sweeper.sweep_soon()
        await asyncio.sleep(0.01)
        due = stage.absences.next_list_at()
        assert due is not None
        assert due <= asyncio.get_running_loop().time()

    played(scene)
