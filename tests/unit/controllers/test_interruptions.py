"""Since when the operator acts without interruption, which ``onTimeout: Force`` asks: by what passes saw."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_node, edited
from harness.clock import Seconds
from harness.rollout_world import rolling_pool
from harness.upgrade_feature import upgrade_pool
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_ANNOTATION
from winpool.api.spec import Mode
from winpool.controllers.services import Interruptions
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.rollout import FORCE_WAITS_SECONDS, NO_FORCE, ForceTerms

POOL: Final = rolling_pool()
NODE: Final = a_node("w1", annotations={UPGRADE_ANNOTATION: "{}"})
HELD: Final = replace(NODE, annotations={**NODE.annotations, HOLD_ANNOTATION: ""})


def in_mode(mode: Mode) -> Pool:
    assert POOL.spec is not None
    return edited(POOL, POOL.spec.model_copy(update={"mode": mode}))


class Scene:
    """Passes of pools, so many seconds after the start."""

    def __init__(self) -> None:
        self._clock = Seconds()
        self._seen = Interruptions(self._clock)

    @property
    def now(self) -> datetime:
        return NOON + timedelta(seconds=self._clock.now - Seconds().now)

    def pass_at(self, second: float, pool: Pool = POOL, node: Node = NODE) -> ForceTerms:
        self._clock.now = Seconds().now + second
        return self._seen.terms(pool, (node, a_node("other")), now=self.now)

    def keep(self, *uids: str) -> None:
        self._seen.keep(lambda: uids)

    @property
    def remembered(self) -> int:
        return len(self._seen._standing) + len(self._seen._ended)


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def test_it_acts_since_its_first_pass_of_any_pool() -> None:
    scene = Scene()
    assert scene.pass_at(5, upgrade_pool()) == NO_FORCE
    assert scene.pass_at(4000).acts_since == at(5)


def test_a_jump_of_the_wall_clock_ends_no_wait() -> None:
    clock = Seconds()
    seen = Interruptions(clock)
    seen.terms(POOL, (), now=NOON)
    clock.now += 10
    later = NOON + timedelta(hours=1)
    assert seen.terms(POOL, (), now=later).acts_since == later - timedelta(seconds=10)


@pytest.mark.parametrize("pool", [in_mode(Mode.PAUSED), in_mode(Mode.DRY_RUN), replace(POOL, spec=None)])
def test_a_pause_counts_from_the_pass_that_saw_its_end(pool: Pool) -> None:
    scene = Scene()
    scene.pass_at(0)
    assert scene.pass_at(2000, pool).acts_since is None
    assert scene.pass_at(9000).acts_since == at(9000)
    assert scene.pass_at(9500).acts_since == at(9000)
    assert scene.pass_at(9000 + FORCE_WAITS_SECONDS).acts_since == at(0), "long enough ago"


def test_a_pause_of_one_pool_is_none_of_another() -> None:
    scene, other = Scene(), replace(POOL, uid="another")
    scene.pass_at(0)
    scene.pass_at(2000, in_mode(Mode.PAUSED))
    assert scene.pass_at(2100, other).acts_since == at(0)


def test_a_hold_counts_from_the_pass_that_saw_its_end() -> None:
    scene = Scene()
    scene.pass_at(0)
    assert scene.pass_at(2000, node=HELD).freed == {}
    assert scene.pass_at(9000).freed == {NODE.uid: at(9000)}
    assert scene.pass_at(9000 + FORCE_WAITS_SECONDS).freed == {}


def test_a_hold_with_an_end_is_over_when_its_time_has_come() -> None:
    scene = Scene()
    text = f"{at(3000):%Y-%m-%dT%H:%M:%SZ}"
    held = replace(NODE, annotations={**NODE.annotations, HOLD_ANNOTATION: text})
    assert scene.pass_at(2000, node=held).freed == {}
    assert scene.pass_at(3001, node=held).freed == {NODE.uid: at(3001)}


def test_a_hold_of_a_node_without_a_claim_does_not_matter() -> None:
    scene = Scene()
    free = a_node("w1", annotations={HOLD_ANNOTATION: ""})
    scene.pass_at(0, node=free)
    assert scene.pass_at(10).freed == {}


def test_p7_nothing_is_remembered_of_what_is_gone() -> None:
    scene = Scene()
    scene.pass_at(0, in_mode(Mode.PAUSED), HELD)
    assert scene.remembered == 2
    scene.keep(POOL.uid)
    assert scene.remembered == 1
    scene.keep()
    assert scene.remembered == 0
