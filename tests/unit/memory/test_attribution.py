"""Whether an eviction can help: whose memory it is, and what the evictions so far have achieved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from harness.memory import (
    BOTH,
    CEILING,
    EXPORTER_ONLY,
    GIB,
    MIB,
    PAGING,
    PROMETHEUS,
    RAM,
    Watched,
    available,
    committed,
)
from winpool.features.memory.detector import eviction_begun, eviction_gone, eviction_refused
from winpool.model.pressure import Guard, Hold

HARD = committed(23.5)


def split(total: float, pods: float | None, **more: Any) -> dict[str, Any]:
    """Return the values of a node with GiB that are committed, and GiB that its pods have of them."""
    return {
        "commit_total": total * GIB,
        "commit_limit": CEILING,
        "physical_total": RAM,
        "pods_commit": None if pods is None else pods * GIB,
    } | more


@pytest.mark.parametrize(("pods", "guard"), [(15.2, None), (15.0, Guard.OUTSIDE_SHARE), (30.0, None)])
def test_more_than_a_third_of_the_ceiling_outside_pods_is_not_theirs(
    pods: float, guard: Guard | None
) -> None:
    """Of 24 GiB 35 % are 8.4."""
    node = Watched()
    node.polls(3, **split(23.5, pods))
    assert node.view().guard is guard
    assert node.hold() is (None if guard is None else Hold.UNATTRIBUTED)
    assert node.view().outside_pods == max(0.0, 23.5 - pods) * GIB


@pytest.mark.parametrize(
    ("pods", "guard"),
    [(17.0, None), (16.6, None), (16.4, Guard.OUTSIDE_GROWTH)],
)
def test_growth_that_is_more_than_half_outside_pods_is_not_theirs(pods: float, guard: Guard | None) -> None:
    """From 20.5 GiB, of which pods have 15, to 23.5: half of the growth is 1.5 GiB."""
    node = Watched()
    node.polls(10, **split(20.5, 15.0))
    node.polls(20, **split(23.5, pods))
    assert node.view().guard is guard


def test_growth_is_that_of_the_last_eight_to_ten_minutes() -> None:
    node = Watched()
    node.polls(10, **split(20.5, 15.0))
    node.polls(48, **split(23.5, 15.5))
    assert node.view().guard is Guard.OUTSIDE_GROWTH
    node.polls(13, **split(23.5, 15.5))
    assert node.view().guard is None


def test_noise_is_no_growth() -> None:
    node = Watched()
    node.polls(10, **split(23.3, 16.0))
    node.polls(5, **split(23.5, 16.0))
    assert node.view().guard is None


@pytest.mark.parametrize(
    ("before", "about", "varies", "guard"),
    [
        (split(23.5, 15.1), (23.5, 15.1), "pods_commit", Guard.OUTSIDE_SHARE),
        (split(20.5, 15.0), (23.5, 16.5), "pods_commit", Guard.OUTSIDE_GROWTH),
        (split(23.28, 16.0), (23.52, 16.0), "commit_total", Guard.OUTSIDE_GROWTH),
    ],
    ids=["a third", "half of the growth", "any growth"],
)
def test_memory_that_varies_about_a_line_changes_the_guard_once(
    before: dict[str, Any], about: tuple[float, float], varies: str, guard: Guard
) -> None:
    """By up to 100 MiB, as processes come and go, for almost as long as the growth is still seen."""
    node, found = Watched(), list[Guard | None]()
    node.polls(10, **before)
    for number in range(45):
        values = split(*about)
        values[varies] += (number * 7 % 11 - 5) * 20 * MIB
        found.append(node.poll(**values).guard)
    changes = [now for earlier, now in pairwise([None, *found]) if now is not earlier]
    assert changes == [guard]


@pytest.mark.parametrize(("pods", "guard"), [(16.2, Guard.OUTSIDE_SHARE), (16.4, None)])
def test_a_third_outside_pods_has_ended_where_it_is_less_by_a_margin(
    pods: float, guard: Guard | None
) -> None:
    """Of 24 GiB 30 % are 7.2."""
    node = Watched()
    node.polls(3, **split(23.5, 15.0))
    node.polls(3, **split(23.5, pods))
    assert node.view().guard is guard


@pytest.mark.parametrize(("pods", "guard"), [(16.7, Guard.OUTSIDE_GROWTH), (16.9, None)])
def test_growth_outside_pods_has_ended_where_it_is_less_by_a_margin(pods: float, guard: Guard | None) -> None:
    """From 20.5 GiB, of which pods have 15, to 23.5: two fifths of the growth are 1.2 GiB."""
    node = Watched()
    node.polls(10, **split(20.5, 15.0))
    node.polls(3, **split(23.5, 16.0))
    assert node.view().guard is Guard.OUTSIDE_GROWTH
    node.polls(15, **split(23.5, pods))
    assert node.view().guard is guard


def test_while_a_new_pod_has_no_numbers_the_pool_of_the_kernel_ends_no_guard() -> None:
    node = Watched(BOTH)
    exporter = split(23.5, None, pool_nonpaged=GIB)
    for _ in range(3):
        node.poll(**split(23.5, 10.0))
        node.poll(source=PROMETHEUS, **exporter)
    for _ in range(5):
        node.poll(**split(23.5, None))
        node.poll(source=PROMETHEUS, **exporter)
        assert node.view().guard is Guard.OUTSIDE_SHARE


def test_without_pressure_growth_outside_pods_is_not_reported() -> None:
    node = Watched()
    node.polls(5, **split(4.0, 2.0))
    assert node.polls(5, **split(6.0, 2.0)).guard is None


def test_the_guard_holds_on_the_other_axis_too() -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    values = split(20.0, 8.0) | available(0.5, **PAGING)
    node.polls(5, **values)
    assert node.view().guard is Guard.OUTSIDE_SHARE
    assert node.view().evictable == ()


@pytest.mark.parametrize(("pool", "guard"), [(1.0, None), (9.0, Guard.OUTSIDE_SHARE)])
def test_where_the_commit_of_pods_is_unknown_the_pool_of_the_kernel_is_outside(
    pool: float, guard: Guard | None
) -> None:
    node = Watched()
    node.polls(3, **split(23.5, None, pool_nonpaged=pool * GIB))
    assert node.view().guard is guard


def test_a_pool_of_the_kernel_that_grows_is_a_leak() -> None:
    node = Watched()
    node.polls(10, **split(21.0, None, pool_nonpaged=GIB))
    node.polls(10, **split(23.5, None, pool_nonpaged=3 * GIB))
    assert node.view().guard is Guard.OUTSIDE_GROWTH


def test_the_source_that_knows_pods_attributes_what_another_measures() -> None:
    node = Watched(BOTH)
    for _ in range(3):
        node.poll(**split(23.5, None, pool_nonpaged=GIB))
        node.poll(source=PROMETHEUS, **split(23.5, 10.0))
    assert node.view().guard is Guard.OUTSIDE_SHARE


def test_another_source_has_a_split_of_its_own() -> None:
    """Each counts other pods, so the difference between two sources is no growth."""
    node = Watched(BOTH)
    for _ in range(3):
        node.poll(**split(21.0, None))
        node.poll(source=PROMETHEUS, **split(21.0, 18.0))
    node.polls(10, **split(23.5, 16.0))
    assert node.hold() is None


def test_what_was_seen_of_the_split_counts_when_its_source_is_silent() -> None:
    """A guard that ended with the sample behind it would evict for what is unknown."""
    node = Watched(BOTH)
    for _ in range(3):
        node.poll(**split(23.5, None))
        node.poll(source=PROMETHEUS, **split(23.5, 10.0))
    node.polls(50, **split(23.5, None))
    assert node.view().guard is Guard.OUTSIDE_SHARE
    node.polls(20, **split(23.5, None))
    assert node.view().guard is None
    assert node.hold() is None


def evict(node: Watched, *, share: float | None, after: dict[str, Any], uid: str = "uid-1") -> None:
    """Evict a pod that is gone after 20 s, and let it settle."""
    node.state = eviction_begun(node.state, uid=uid, share=share)
    node.polls(2, **after)
    node.state = eviction_gone(node.state, uid=uid, at=node.now)
    node.polls(6, **after)


def test_the_next_eviction_waits_until_the_pod_is_gone_and_half_of_its_memory_is_back() -> None:
    node = Watched()
    node.polls(3, **committed(23.9))
    assert node.hold() is None
    node.state = eviction_begun(node.state, uid="uid-1", share=GIB)
    node.polls(30, **committed(23.3))
    assert node.hold() is Hold.SETTLING, "the pod is still there"
    node.polls(3, **committed(23.9))
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    assert node.hold() is Hold.SETTLING
    node.poll(**committed(23.3))
    assert node.hold() is Hold.RECOVERING
    node.polls(2, **committed(23.3))
    assert node.hold() is None


def test_the_next_eviction_waits_for_a_minute_where_the_memory_does_not_come_back() -> None:
    node = Watched()
    node.polls(3, **HARD)
    node.state = eviction_begun(node.state, uid="uid-1", share=GIB)
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    node.polls(5, **HARD)
    assert node.hold() is Hold.SETTLING
    node.poll(**HARD)
    assert node.hold() is Hold.UNATTRIBUTED


def test_it_waits_for_two_samples_that_are_younger_than_the_end_of_the_pod() -> None:
    node = Watched()
    node.polls(3, **HARD)
    node.state = eviction_begun(node.state, uid="uid-1", share=GIB)
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    node.poll(after=70, **HARD)
    assert node.hold() is Hold.SETTLING
    node.poll(**HARD)
    assert node.hold() is Hold.UNATTRIBUTED


def test_where_the_memory_is_back_it_waits_for_one_sample_that_is_younger_than_the_end_of_the_pod() -> None:
    node = Watched()
    node.polls(3, **committed(23.9))
    node.state = eviction_begun(node.state, uid="uid-1", share=GIB)
    node.polls(3, **committed(23.3))
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now + 15)
    node.poll(**committed(23.3))
    assert node.hold() is Hold.SETTLING
    node.poll(**committed(23.3))
    assert node.hold() is None


def test_samples_that_do_not_measure_commit_show_no_effect() -> None:
    node = Watched(BOTH, interval=60)
    for _ in range(3):
        node.poll(after=58, **HARD)
        node.poll(after=2, source=PROMETHEUS, **available(10))
    node.state = eviction_begun(node.state, uid="uid-1", share=GIB)
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    node.poll(after=61, **HARD)
    node.poll(after=1, source=PROMETHEUS, **available(10))
    assert node.hold() is Hold.SETTLING
    node.poll(after=59, **HARD)
    assert node.state.ineffective == 1


def test_an_eviction_that_is_refused_is_none() -> None:
    node = Watched()
    node.polls(3, **HARD)
    node.state = eviction_begun(node.state, uid="uid-1", share=GIB)
    assert node.hold() is Hold.SETTLING
    node.state = eviction_refused(node.state, uid="uid-1")
    assert node.hold() is None
    node.polls(10, **HARD)
    assert (node.state.unmeasured, node.state.ineffective) == (0, 0)


def test_an_eviction_that_is_reported_twice_is_one() -> None:
    node = Watched()
    node.polls(3, **HARD)
    for _ in range(2):
        node.state = eviction_begun(node.state, uid="uid-1", share=GIB)
    assert len(node.state.evicted) == 1


@pytest.mark.parametrize(("back", "guard"), [(0.0, Guard.INEFFECTIVE), (0.9, Guard.INEFFECTIVE), (1.1, None)])
def test_an_eviction_that_brings_less_than_half_back_is_the_last(back: float, guard: Guard | None) -> None:
    """The pod had 2 GiB. What it gave back is used again."""
    node = Watched()
    node.polls(3, **split(23.9, 16.0))
    evict(node, share=2 * GIB, after=split(23.9 - back, 16.0 - back))
    assert node.view().guard is guard
    node.polls(3, **split(23.9, 16.0))
    assert node.view().guard is guard


def test_what_others_take_until_the_pod_is_gone_hides_no_effect() -> None:
    """At the end the node has committed more than at the beginning, and half of what the pod had is back."""
    node = Watched()
    node.polls(3, **committed(22.8))
    node.state = eviction_begun(node.state, uid="uid-1", share=2 * GIB)
    node.polls(3, **committed(24))
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    node.polls(8, **committed(23))
    assert node.state.evicted == ()
    assert node.view().guard is None


def test_the_effect_is_measured_on_commit_also_where_another_source_has_the_last_sample() -> None:
    node = Watched(BOTH, interval=5)
    hard = split(23.9, 16.0)

    def both(count: int) -> None:
        for _ in range(count):
            node.poll(**hard)
            node.poll(source=PROMETHEUS, **available(3.0))

    both(3)
    node.state = eviction_begun(node.state, uid="uid-1", share=2 * GIB)
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    node.poll(source=PROMETHEUS, after=3, **available(3.0))
    both(7)
    assert node.view().guard is Guard.INEFFECTIVE


def test_an_eviction_without_effect_is_the_last_also_where_only_ram_is_short() -> None:
    values = available(0.5, **PAGING) | committed(12)
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(3, **values)
    assert node.physical_hold() is None
    evict(node, share=2.0 * GIB, after=values)
    assert (node.view().guard, node.physical_hold()) == (Guard.INEFFECTIVE, Hold.UNATTRIBUTED)


def test_an_eviction_is_the_last_where_it_is_not_known_what_the_node_has_committed() -> None:
    values = available(0.5, **PAGING)
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(3, **values)
    assert node.view().evictable != ()
    evict(node, share=2.0 * GIB, after=values)
    assert node.view().guard is Guard.BLIND
    assert node.view().evictable == ()


def test_the_memory_of_a_pod_that_an_earlier_process_evicted_has_a_minute_to_come_back() -> None:
    node = Watched()
    node.polls(3, **HARD)
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    node.polls(5, **HARD)
    assert node.hold() is Hold.SETTLING
    node.polls(2, **HARD)
    assert (node.view().guard, node.hold()) == (None, None)


def test_of_pods_that_are_gone_no_more_are_kept_than_a_node_can_have_evictions() -> None:
    node = Watched()
    node.polls(3, **HARD)
    for number in range(100):
        node.state = eviction_gone(node.state, uid=f"made-up-{number}", at=node.now)
    assert len(node.state.evicted) == 10


def test_nothing_follows_from_an_eviction_that_an_earlier_process_began() -> None:
    """It is not known what its pod had. Otherwise a restart could have the node upgraded."""
    node = Watched()
    node.polls(3, **HARD)
    evict(node, share=None, after=HARD)
    assert (node.state.evicted, node.view().guard, node.hold()) == ((), None, None)


def test_where_the_commit_of_no_pod_is_known_each_effect_opens_the_next_eviction() -> None:
    node = Watched()
    node.polls(3, **split(23.9, None))
    for number in range(4):
        evict(node, share=100 * MIB, after=split(23.8 - 0.1 * number, None), uid=f"uid-{number}")
        assert (node.view().guard, node.hold()) == (None, None)
    evict(node, share=100 * MIB, after=split(23.5, None), uid="uid-without-effect")
    assert (node.view().guard, node.hold()) == (Guard.INEFFECTIVE, Hold.UNATTRIBUTED)


def test_evictions_that_ended_the_pressure_are_no_reason_to_blame_windows() -> None:
    """Whoever leaks again is evicted again: https://github.com/Azure/AKS/issues/1941."""
    node = Watched()
    for number in range(4):
        node.polls(3, **split(23.5, None))
        assert (node.view().guard, node.hold()) == (None, None)
        evict(node, share=8 * GIB, after=split(12.0, None), uid=f"uid-{number}")
        assert (node.state.unmeasured, node.state.ineffective) == (0, 0)
        node.polls(90, **split(12.0, None))


def test_memory_that_came_back_and_was_used_again_at_once_is_effect_enough() -> None:
    node = Watched()
    node.polls(3, **split(23.9, 16.0))
    for number in range(3):
        node.state = eviction_begun(node.state, uid=f"uid-{number}", share=2 * GIB)
        node.state = eviction_gone(node.state, uid=f"uid-{number}", at=node.now)
        node.poll(**split(21.9, 14.0))
        node.polls(8, **split(23.9, 16.0))
        assert node.state.evicted == ()
    assert (node.state.unmeasured, node.state.ineffective) == (0, 0)


def test_memory_that_came_back_before_the_pod_was_gone_and_was_used_again_is_effect_enough() -> None:
    """Its processes have ended, and its volumes are still being unmounted."""
    node = Watched()
    node.polls(3, **committed(23.9))
    node.state = eviction_begun(node.state, uid="uid-1", share=2 * GIB)
    node.poll(**committed(22.9))
    node.polls(8, **committed(23.9))
    node.state = eviction_gone(node.state, uid="uid-1", at=node.now)
    node.polls(8, **committed(23.9))
    assert (node.state.evicted, node.state.ineffective, node.hold()) == ((), 0, None)


@pytest.mark.parametrize(
    ("hard", "calm", "counts"),
    [(available(0.5, **PAGING), available(8.0), (1, 0)), (HARD, committed(12.0), (0, 1))],
    ids=["effect unknown", "no effect"],
)
def test_evictions_are_forgotten_after_an_hour_without_pressure(
    hard: dict[str, Any], calm: dict[str, Any], counts: tuple[int, int]
) -> None:
    node = Watched(EXPORTER_ONLY, PROMETHEUS)
    node.polls(3, **hard)
    evict(node, share=GIB, after=hard)
    node.polls(380, **calm)
    assert (node.state.unmeasured, node.state.ineffective) == counts
    node.polls(30, **calm)
    assert (node.state.unmeasured, node.state.ineffective) == (0, 0)
