"""When the version of the API server is read, and since when it is known to be unchanged: in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import cast

import pytest

from harness.builders import NOON
from harness.virtual_time import run_virtually, running
from winpool.controllers import machines as version_reads
from winpool.controllers.machines import JITTER, PERIOD_SECONDS, VersionReads
from winpool.kube.client import Transport
from winpool.kube.control_plane import VERSION_STALE_SECONDS, ControlPlane
from winpool.kube.errors import Unavailable
from winpool.kube.request import Request

DOWN = Unavailable("get version: cannot connect", reason="NoConnection")
NOW = timedelta(0)


class Stage:
    """An API server of a version, or one that does not answer; when it was asked, and who was woken."""

    def __init__(self) -> None:
        self.begun = asyncio.get_running_loop().time()
        self.version = "v1.36.3"
        self.is_down = False
        self.is_wanted = True
        self.asked: list[float] = []
        self.changes: list[float] = []
        self.control_plane = ControlPlane(
            cast(Transport, self), on_change=self.changed, now=self.now, monotonic=self.time
        )
        self.reads = VersionReads(
            self.control_plane, is_wanted=lambda: self.is_wanted, on_change=self.changed, monotonic=self.time
        )

    def time(self) -> float:
        """Seconds since the beginning."""
        return asyncio.get_running_loop().time() - self.begun

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.time())

    def changed(self) -> None:
        self.changes.append(self.time())

    async def request(self, request: Request) -> bytes:
        assert (request.verb, request.path) == ("get", "/version")
        self.asked.append(self.time())
        if self.is_down:
            raise DOWN
        return f'{{"gitVersion": "{self.version}"}}'.encode()

    def since(self) -> float | None:
        """Return since when the version is unchanged, in seconds since the beginning."""
        since = self.control_plane.unchanged_since
        return None if since is None else (since - NOON).total_seconds()


def played(scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        async with running(stage.reads.run()):
            stage.reads.check()
            await scene(stage)

    run_virtually(main())


def test_while_a_pool_has_upgrades_it_is_read_every_five_minutes() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(3600)
        assert stage.asked[0] == 0
        gaps = [after - before for before, after in pairwise(stage.asked)]
        assert len(gaps) >= 10
        assert all(PERIOD_SECONDS <= gap <= PERIOD_SECONDS * (1 + JITTER) for gap in gaps)
        assert stage.since() == 0
        assert stage.control_plane.is_first
        assert stage.changes in ([0.0], [0.0, 0.0]), "nothing changes, and no one is woken"

    played(scene)


def test_the_longest_pause_is_kept_where_waits_end_a_hair_early(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[float] = []

    def nearly_the_longest(_least: float, most: float) -> float:
        drawn.append(most - len(drawn) % 7 / 70)
        return drawn[-1]

    async def scene(stage: Stage) -> None:
        await asyncio.sleep(100_000)
        gaps = [after - before for before, after in pairwise(stage.asked)]
        assert any(gap > pause + 0.5 for gap, pause in zip(gaps, drawn, strict=False)), "some waits end early"
        assert all(PERIOD_SECONDS <= gap <= PERIOD_SECONDS * (1 + JITTER) for gap in gaps)

    monkeypatch.setattr(version_reads, "uniform", nearly_the_longest)
    played(scene)


def test_while_none_has_it_is_not_read_at_all() -> None:
    async def scene(stage: Stage) -> None:
        stage.is_wanted = False
        await stage.control_plane.ask()
        for _ in range(100):
            stage.reads.check()
            await asyncio.sleep(60)
        assert stage.asked == [0.0], "what the watch of nodes asked"
        stage.is_wanted = True
        stage.reads.check()
        await asyncio.sleep(1)
        assert stage.asked == pytest.approx([0, 6000])
        assert stage.since() == 0, "no other version was seen since the start"
        assert stage.control_plane.is_first
        stage.is_wanted = False
        stage.reads.check()
        await asyncio.sleep(6000)
        assert len(stage.asked) == 2

    played(scene)


def test_however_often_pools_change_it_is_read_as_often() -> None:
    async def scene(stage: Stage) -> None:
        stage.is_down = True
        for _ in range(1000):
            stage.is_wanted = True
            stage.reads.check()
            await asyncio.sleep(0.5)
            stage.is_wanted = False
            stage.reads.check()
            await asyncio.sleep(0.5)
        assert len(stage.asked) <= 4

    played(scene)


def test_another_version_begins_the_time_anew() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(1000)
        stage.version = "v1.37.0"
        await asyncio.sleep(PERIOD_SECONDS * (1 + JITTER))
        since = stage.since()
        assert since is not None
        assert 1000 < since <= 1000 + PERIOD_SECONDS * (1 + JITTER)
        assert not stage.control_plane.is_first
        assert stage.changes[-1] == pytest.approx(since)
        stage.version = "v1.36.3"
        await asyncio.sleep(PERIOD_SECONDS * (1 + JITTER))
        again = stage.since()
        assert again is not None
        assert again > since, "an older version is another one: an API server of several may have answered"

    played(scene)


def test_one_read_that_fails_changes_nothing() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(10)
        stage.is_down = True
        await asyncio.sleep(PERIOD_SECONDS * (1 + JITTER))
        stage.is_down = False
        await asyncio.sleep(3600)
        assert stage.since() == 0
        assert stage.control_plane.is_first
        assert len(stage.changes) <= 2

    played(scene)


def test_a_version_that_cannot_be_read_for_long_is_unknown_and_then_begins_anew() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(10)
        stage.is_down = True
        woken = len(stage.changes)
        await asyncio.sleep(VERSION_STALE_SECONDS - 11)
        assert stage.since() == 0
        await asyncio.sleep(2)
        assert stage.since() is None
        assert stage.changes[woken:] == pytest.approx([VERSION_STALE_SECONDS]), (
            "pools are woken when it is so"
        )
        await asyncio.sleep(3600)
        stage.is_down = False
        back = stage.time()
        await asyncio.sleep(PERIOD_SECONDS * (1 + JITTER))
        since = stage.since()
        assert since is not None
        assert since >= back
        assert not stage.control_plane.is_first
        assert stage.changes[woken + 1 :] == pytest.approx([since]), "and when it is known again"

    played(scene)


def test_it_begins_anew_whoever_reads_first_after_a_gap() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(10)
        stage.is_down = True
        await asyncio.sleep(VERSION_STALE_SECONDS + 50)
        stage.is_down = False
        await stage.control_plane.ask()
        assert stage.since() == pytest.approx(stage.time())
        assert not stage.control_plane.is_first

    played(scene)


def test_before_it_was_read_nothing_is_known() -> None:
    async def scene(stage: Stage) -> None:
        stage.is_down = True
        await asyncio.sleep(3600)
        assert (stage.control_plane.version, stage.since()) == ("", None)
        assert stage.changes == []

    played(scene)
