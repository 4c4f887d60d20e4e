"""Leftovers whose release fails or is refused: each is tried again at its own pace, and keeps no other."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from harness.builders import a_node
from harness.stage import until
from harness.sweeping import Stage, a_stray, an_orphan, pauses_between, played, vanish
from harness.writes import relabelled
from winpool.controllers.sweep import STRAYS_PAUSE_SECONDS, STRAYS_SECONDS
from winpool.controllers.writes import INTERNAL_ERRORS, PATCHES_IN_FLIGHT, SLICE_SECONDS
from winpool.kube.errors import ApiError, Forbidden, Invalid, Unavailable

INVALID = Invalid("patch nodes s1: 422 no changes on Fridays", status=422)
BY_POLICY = Forbidden("patch nodes s1: 403 no changes on Fridays", status=403)
INTERNAL = Unavailable("patch nodes s1: 500 failed calling webhook", status=500)
DOWN = Unavailable("patch nodes s1: 503", status=503)


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
    assert caplog.text.count("cannot remove") == 1


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
        stale = stage.known.objects["w1"]
        stage.cluster.put_node(stale)
        await vanish(stage)
        await asyncio.sleep(1)
        assert (len(stage.tries("w1")), stage.known.lists) == (1, 0)
        await until(lambda: stage.known.lists, seconds=2)
        assert len(stage.tries("w1")) == 2
        stage.put(stage.cluster.nodes["w1"])
        stage.sweeper.sweep_soon()
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
