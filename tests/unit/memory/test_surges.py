"""A surge: many nodes of a pool come under pressure at once, and each is sampled at another moment.

Samples go through the real detector, and the views of it through the real decision. What is asked is whether
an eviction could begin: then the pods of a node would be listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON
from harness.evicting import a_hot_node, steps
from harness.memory import KUBELET_ONLY, PAGING, a_sample, available, committed
from winpool.features.memory.detector import known_at, step
from winpool.features.memory.eviction import EvictionState
from winpool.features.memory.settings import DetectorSettings
from winpool.model.pressure import NO_SAMPLES, NodePressure

COLD, HOT = 60, 10
"""Seconds between two polls of a node that is calm, and of one that is not."""
GRACE: Final = 90
LOOK: Final = 5
"""Between two passes, where nothing happens."""
BEGINS: Final = 3 * COLD
"""By then at least two samples of each node have arrived, so its level is known."""
ENDS: Final = BEGINS + 5 * COLD
"""A minute to cross, one to be seen, the grace, and one until the others are seen again."""

CALM, WARNING, SOFT, HARD = 12.0, 20.0, 0.0, 23.4
"""GiB that are committed of 24; SOFT is a node that is calm by that, and short of RAM."""


def values_of(over: float) -> dict[str, Any]:
    """Return the values of such a node."""
    return {**committed(CALM), **available(1.2, **PAGING)} if over == SOFT else committed(over)


@dataclass
class Machine:
    """A node that is polled from ``due`` on, and commits ``over`` GiB from ``crosses`` on."""

    due: int
    crosses: int | None = None
    over: float = HARD
    before: float = CALM
    settings: DetectorSettings = KUBELET_ONLY
    state: NodePressure = NO_SAMPLES

    def view(self, now: int, grace: float) -> NodePressure:
        return known_at(self.state, now=now, settings=replace(self.settings, soft_grace_seconds=grace))

    def is_over(self, now: int) -> bool:
        return self.crosses is not None and self.crosses <= now

    def poll(self, now: int, grace: float) -> bool:
        """Poll it if that is due; return whether it was."""
        if now < self.due:
            return False
        interval = HOT if self.view(now, grace).is_hot else COLD
        values = values_of(self.over if self.is_over(now) else self.before)
        sample = a_sample(now, interval=interval, **values)
        self.state = step(self.state, sample, replace(self.settings, soft_grace_seconds=grace))
        self.due = now + (HOT if self.view(now, grace).is_hot else COLD)
        return True


@dataclass
class Pool:
    """Machines, and the passes of the operator over them."""

    machines: Sequence[Machine]
    allowed: int | str = "20%"
    grace: float = GRACE
    asides: set[EvictionState] = field(default_factory=set)

    def first_eviction(self) -> int | None:
        """Return when the first one could begin; None for never."""
        for now in range(1, ENDS):
            polls = [each.poll(now, self.grace) for each in self.machines]
            if now >= BEGINS and (any(polls) or now % LOOK == 0) and self._could_evict(now):
                return now
        return None

    def _could_evict(self, now: int) -> bool:
        if not any(each.view(now, self.grace).evictable for each in self.machines if each.is_over(now)):
            return False
        nodes = {f"w{number:02}": each for number, each in enumerate(self.machines)}
        found = steps(
            *map(a_hot_node, nodes),
            views={f"uid-of-{name}": each.view(now, self.grace) for name, each in nodes.items()},
            now=NOON + timedelta(seconds=now),
            read_at=float(now),
            maxPressuredNodes=self.allowed,
        ).values()
        self.asides |= {each.state for each in found}
        return any(each.state not in (EvictionState.SYSTEMIC, EvictionState.UNSEEN) for each in found)


def test_of_nodes_that_are_over_soft_before_they_are_signalled_all_count() -> None:
    """Polled often, as all nodes near a surge are; the grace ends on one of them first."""
    machines = [Machine(BEGINS + 2 * number, crosses=0, over=SOFT) for number in range(3)]
    pool = Pool(machines, grace=20)
    assert pool.first_eviction() is None
    assert pool.asides == {EvictionState.SYSTEMIC}


@pytest.mark.slow
@pytest.mark.parametrize("over", [SOFT, HARD])
def test_a_node_that_was_calm_counts_until_it_is_sampled_again(over: float) -> None:
    """All come under pressure at one moment. The first one is seen at once, the others up to 60 s later."""
    machines = [Machine(number * 7, crosses=BEGINS, over=over) for number in range(8)]
    pool = Pool(machines)
    assert pool.first_eviction() is None
    assert (
        pool.asides >= {EvictionState.UNSEEN, EvictionState.SYSTEMIC}
        if over == HARD
        else {EvictionState.SYSTEMIC}
    )


def test_a_sample_from_before_the_end_of_the_grace_says_nothing_of_who_follows() -> None:
    """One is seen over Hard at once and 10 s later; the others are sampled after 5 s, and cross after 6."""
    one = Machine(COLD, crosses=BEGINS)
    others = [Machine(COLD + 5, crosses=BEGINS + 6) for _ in range(3)]
    assert Pool([one, *others]).first_eviction() is None


phases = st.integers(1, COLD)


@st.composite
def surges(draw: st.DrawFn, *, over: Sequence[float], within: int) -> Pool:
    """Return a pool of which more nodes than allowed cross a line, ``within`` so many seconds."""
    nodes = draw(st.integers(2, 12))
    allowed = draw(st.integers(1, nodes - 1))
    surging = draw(st.integers(allowed + 1, nodes))
    machines = [
        Machine(
            draw(phases),
            crosses=BEGINS + draw(st.integers(0, within)) if number < surging else None,
            over=draw(st.sampled_from(over)),
            before=draw(st.sampled_from([CALM, CALM, WARNING])),
        )
        for number in range(nodes)
    ]
    return Pool(machines, allowed=allowed)


@pytest.mark.slow
@given(surges(over=[SOFT], within=COLD))
@hypothesis_settings(max_examples=30, deadline=None)
def test_whatever_the_order_in_which_nodes_reach_soft_within_an_interval_nobody_is_evicted(
    pool: Pool,
) -> None:
    assert pool.first_eviction() is None


@pytest.mark.slow
@given(surges(over=[SOFT, HARD], within=HOT))
@hypothesis_settings(max_examples=30, deadline=None)
def test_whatever_the_order_in_which_they_reach_hard_within_two_samples_nobody_is_evicted(pool: Pool) -> None:
    """The grace of Hard is two samples: who crosses a line later has done so after the eviction was right."""
    assert pool.first_eviction() is None


@pytest.mark.slow
@given(st.lists(phases, min_size=1, max_size=12), st.sampled_from([SOFT, HARD]))
@hypothesis_settings(max_examples=40, deadline=None)
def test_one_node_alone_is_evicted_from_within_an_interval_after_that_is_right(
    polled: list[int], over: float
) -> None:
    one, *others = polled
    machines = [Machine(one, crosses=BEGINS, over=over), *map(Machine, others)]
    began = Pool(machines, allowed=1).first_eviction()
    seen, lasts = COLD, GRACE if over == SOFT else HOT
    assert began is not None
    assert began <= BEGINS + seen + lasts + COLD + LOOK


def test_where_more_nodes_are_allowed_fewer_samples_are_waited_for() -> None:
    """Five calm nodes are sampled 10 s after one another, the first one when the eviction becomes right."""

    def began(allowed: int) -> int:
        machines = [Machine(number * 10 + 1) for number in range(6)]
        machines[0].crosses = BEGINS
        found = Pool(machines, allowed=allowed).first_eviction()
        assert found is not None
        return found

    right = BEGINS + 1 + HOT
    assert [began(allowed) - right for allowed in (1, 3, 6)] == [40, 20, 0]
