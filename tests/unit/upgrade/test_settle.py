"""When the workloads that a drain moved are back, and what a claim remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON
from harness.every import every
from winpool.features.upgrade.settle import (
    LIST_SECONDS,
    LONGEST,
    MOST_COUNTED,
    MOST_MARKED,
    OLDEST_SECONDS,
    OTHERS_SECONDS,
    Baseline,
    Settled,
    baseline_of,
    decode_baseline,
    encode_baseline,
    merge,
    settled,
)
from winpool.model.pods import Pod
from winpool.model.rollout import MARK_LETTERS, Controller, Workloads, mark_of

NOW = NOON
EVICTED = NOW - timedelta(seconds=20)
LISTED = NOW - timedelta(seconds=5)
SECOND = timedelta(seconds=1)


def a_controller(name: str = "web", *, kind: str = "Deployment", ready: int = 3, **more: Any) -> Controller:
    return Controller(
        kind, f"shop/{name}", f"uid-of-{kind}-{name}", wanted=more.pop("wanted", 3), ready=ready, **more
    )


def some(*controllers: Controller, started: datetime = LISTED, left_out: tuple[str, ...] = ()) -> Workloads:
    by_mark = {mark_of(each.uid): each for each in controllers}
    marks = {each.title: mark for mark, each in by_mark.items()}
    return Workloads(started, 0.0, by_mark, marks, frozenset(left_out))


def a_pod(controller: str = "web", *, kind: str = "Deployment", **more: Any) -> Pod:
    return Pod("shop", f"{controller}-1", "w1", controller_kind=kind, controller=controller, **more)


def lost(controller: Controller, ready: int | None = 3) -> Baseline:
    return Baseline({mark_of(controller.uid): ready})


def judged(
    baseline: Baseline | None,
    workloads: Workloads | None,
    *,
    now: datetime = NOW,
    evicted: datetime = EVICTED,
) -> Settled:
    return settled(baseline, workloads, last_eviction=evicted, now=now)


def is_back(before: Controller, now: Controller) -> bool:
    return judged(lost(before, before.ready), some(now)).is_settled


# What a baseline is of.


def test_each_controller_that_loses_a_pod_is_remembered_with_its_ready_pods_by_a_hash_of_its_uid() -> None:
    web, idle = a_controller(ready=2), a_controller("idle")
    found = baseline_of([a_pod(), a_pod()], some(web, idle))
    assert found == Baseline({mark_of(web.uid): 2})


def test_of_a_replica_set_its_deployment_is_remembered() -> None:
    web = a_controller(ready=7)
    replicas = a_controller("web-6d5f", kind="ReplicaSet", owner_uid=web.uid, ready=1)
    found = baseline_of([a_pod("web-6d5f", kind="ReplicaSet")], some(web, replicas))
    assert found == Baseline({mark_of(web.uid): 7})


def test_a_replica_set_of_an_owner_that_is_not_listed_counts_itself() -> None:
    replicas = a_controller("web-6d5f", kind="ReplicaSet", owner_uid="uid-of-an-argo-rollout")
    found = baseline_of([a_pod("web-6d5f", kind="ReplicaSet")], some(replicas))
    assert found == Baseline({mark_of(replicas.uid): 3})


@every(
    "pod",
    [
        pytest.param(a_pod(kind="", controller=""), id="without a controller"),
        pytest.param(a_pod(kind="DaemonSet"), id="of a DaemonSet"),
        pytest.param(a_pod(is_mirror=True), id="a mirror pod"),
        pytest.param(a_pod(is_finished=True), id="finished"),
        pytest.param(a_pod(is_terminating=True), id="being deleted"),
    ],
)
def test_pods_that_the_drain_does_not_evict_or_nothing_makes_again_are_of_no_baseline(pod: Pod) -> None:
    assert baseline_of([pod], some(a_controller())) == Baseline()


def test_a_controller_of_an_unknown_kind_is_one_of_the_others() -> None:
    assert baseline_of([a_pod(kind="GameServer")], some(a_controller())) == Baseline(has_others=True)


def many(number: int, **more: Any) -> tuple[list[Pod], Workloads]:
    found = [a_controller(f"web-{place:03}", **more) for place in range(number)]
    return [a_pod(f"web-{place:03}") for place in range(number)], some(*found)


def test_beyond_forty_controllers_count_as_what_they_want_now() -> None:
    found = list(baseline_of(*many(60)).ready.values())
    assert (found[:MOST_COUNTED], found[MOST_COUNTED:]) == ([3] * MOST_COUNTED, [None] * 20)


def test_of_very_many_the_counts_are_of_those_that_lack_ready_pods() -> None:
    pods, workloads = many(60)
    lame = a_controller("zero", ready=1)
    found = baseline_of([*pods, a_pod("zero")], some(*workloads.controllers.values(), lame))
    assert found.ready[mark_of(lame.uid)] == 1


def test_beyond_what_fits_controllers_are_among_the_others() -> None:
    found = baseline_of(*many(MOST_MARKED + 1))
    assert (len(found.ready), found.has_others) == (MOST_MARKED, True)


# How it is written.


def test_a_baseline_is_short_text() -> None:
    written = encode_baseline(Baseline({"AbCdEf-": 26, "gHiJk_1": None}, has_others=True))
    assert written == "1+,AbCdEf-1a,gHiJk_1"


MARKS = st.text("AZaz09-_", min_size=MARK_LETTERS, max_size=MARK_LETTERS)
BASELINES = st.builds(
    Baseline,
    st.dictionaries(MARKS, st.none() | st.integers(0, 2**31 - 1), max_size=MOST_MARKED),
    st.booleans(),
)


@given(BASELINES)
def test_what_is_written_is_read_again(baseline: Baseline) -> None:
    assert decode_baseline(encode_baseline(baseline)) == baseline


def test_the_largest_baseline_fits() -> None:
    counts = [2**31 - 1] * MOST_COUNTED + [None] * (MOST_MARKED - MOST_COUNTED)
    largest = Baseline({f"{place:07}": count for place, count in enumerate(counts)}, has_others=True)
    assert len(encode_baseline(largest)) <= LONGEST


@every(
    "text",
    [
        *("", "2", "1,", "1\n", "1,AbCdEf", "1,AbCdEf-+1", "1,AbCdEf- 1", "1,AbCdEf-1_0", "1,AbCdEf-٣"),
        pytest.param("1,AbCdEf-1,AbCdEf-2", id="one twice"),
        pytest.param("1" + ",AbCdEf-" * (MOST_MARKED + 1), id="too many"),
        pytest.param("x" * 10**6, id="a megabyte"),
    ],
)
def test_garbage_is_unknown(text: str) -> None:
    assert decode_baseline(text) is None


@given(st.text())
def test_any_text_is_read_or_unknown(text: str) -> None:
    found = decode_baseline(text)
    assert found is None or encode_baseline(found) == text or found.ready


# When workloads are back.


@every(
    "ready, is_settled",
    [
        pytest.param(2, False, id="fewer"),
        pytest.param(3, True, id="as many"),
        pytest.param(4, True, id="more"),
    ],
)
def test_a_controller_is_back_with_as_many_ready_pods_as_before(ready: int, is_settled: bool) -> None:
    assert is_back(a_controller(), a_controller(ready=ready)) is is_settled


def test_a_controller_that_lacked_ready_pods_before_is_back_without_them() -> None:
    assert is_back(a_controller(ready=1), a_controller(ready=1))


def test_what_an_autoscaler_or_a_person_has_reduced_is_back_with_what_it_wants_now() -> None:
    assert is_back(a_controller(ready=10, wanted=10), a_controller(ready=4, wanted=4))


def test_what_an_autoscaler_or_a_person_has_increased_is_back_with_what_it_had() -> None:
    assert is_back(a_controller(ready=3), a_controller(ready=3, wanted=20))


@every(
    "now",
    [
        pytest.param(a_controller(ready=0, wanted=0), id="wants none"),
        pytest.param(a_controller(ready=0, is_paused=True), id="paused"),
        pytest.param(a_controller("another"), id="deleted"),
    ],
)
def test_a_controller_that_makes_no_pods_is_back(now: Controller) -> None:
    assert is_back(a_controller(), now)


def test_one_without_a_count_is_back_with_what_it_wants_now() -> None:
    for ready, is_settled in ((2, False), (3, True)):
        found = judged(lost(a_controller(), None), some(a_controller(ready=ready)))
        assert found.is_settled is is_settled


def test_all_have_to_be_back_and_those_that_are_not_are_named_with_what_they_have() -> None:
    web, db, api = a_controller(), a_controller("db", kind="StatefulSet", ready=1), a_controller("api")
    baseline = Baseline({mark_of(each.uid): 3 for each in (web, db, api)})
    found = judged(baseline, some(replace(web, ready=2), db, api))
    assert found.waiting == ("Deployment shop/web (2 of 3 Ready)", "StatefulSet shop/db (1 of 3 Ready)")
    assert (found.is_settled, found.unknown) == (False, "")
    assert found.list_at == LISTED + timedelta(seconds=LIST_SECONDS)


def test_a_drain_that_moved_nothing_needs_no_list() -> None:
    assert judged(Baseline(), None) == Settled(True)


def test_of_other_kinds_a_minute_after_the_last_eviction_is_enough() -> None:
    baseline, end = Baseline(has_others=True), EVICTED + timedelta(seconds=OTHERS_SECONDS)
    found = judged(baseline, None, now=end - SECOND)
    assert (found.is_settled, found.list_at) == (False, end)
    assert found.waiting == ("other controllers (60 s after the last eviction)",)
    assert judged(baseline, None, now=end).is_settled


# By what lists.


@every(
    "started",
    [
        pytest.param(EVICTED, id="as the last eviction"),
        pytest.param(EVICTED - SECOND, id="before it"),
        pytest.param(NOW + SECOND, id="in the future"),
    ],
)
def test_a_list_that_did_not_begin_after_the_last_eviction_says_nothing(started: datetime) -> None:
    found = judged(lost(a_controller()), some(a_controller(), started=started))
    assert (found.is_settled, found.waiting) == (False, ())
    assert "since the last eviction" in found.unknown


def test_a_list_says_nothing_after_a_minute() -> None:
    later = LISTED + timedelta(seconds=OLDEST_SECONDS)
    assert judged(lost(a_controller()), some(a_controller()), now=later).is_settled
    found = judged(lost(a_controller()), some(a_controller()), now=later + SECOND)
    assert (found.is_settled, found.list_at) == (False, later + SECOND)


def test_lists_are_at_least_a_quarter_of_a_minute_apart() -> None:
    found = judged(lost(a_controller()), some(a_controller(), started=EVICTED - SECOND), now=EVICTED + SECOND)
    assert found.list_at == EVICTED - SECOND + timedelta(seconds=LIST_SECONDS)
    assert judged(lost(a_controller()), None).list_at == NOW


def test_one_that_is_missing_is_not_deleted_where_controllers_are_left_out() -> None:
    found = judged(lost(a_controller()), some(left_out=("noisy",)))
    assert not found.is_settled
    assert "noisy" in found.unknown


# Slots in work.


def test_slots_in_work_share_the_highest_baseline() -> None:
    web = a_controller()
    assert merge(lost(web, 2), [lost(web, 3), lost(web, 1)]) == lost(web, 3)
    assert merge(lost(web, 2), [lost(web, None)]) == lost(web, None)


def test_what_another_slot_alone_has_moved_is_not_waited_for() -> None:
    assert merge(lost(a_controller(), 2), [lost(a_controller("db"), 3)]) == lost(a_controller(), 2)


@every("own, others", [(None, []), (Baseline(), [None])])
def test_with_an_unknown_baseline_all_is_unknown(own: Baseline | None, others: list[Baseline | None]) -> None:
    assert merge(own, others) is None


# Properties.

CONTROLLERS = st.dictionaries(
    MARKS,
    st.builds(
        Controller,
        st.just("Deployment"),
        st.just("shop/web"),
        st.just("uid"),
        wanted=st.integers(0, 5),
        ready=st.integers(0, 5),
        is_paused=st.booleans(),
    ),
    max_size=5,
)
MOMENTS = st.integers(-200, 200).map(lambda seconds: NOW + timedelta(seconds=seconds))


@given(CONTROLLERS, MOMENTS, MOMENTS, MOMENTS)
def test_unknown_is_never_settled(
    controllers: Mapping[str, Controller], started: datetime, evicted: datetime, now: datetime
) -> None:
    workloads = Workloads(started, 0.0, controllers)
    assert not judged(None, workloads, now=now, evicted=evicted).is_settled
    baseline = Baseline(dict.fromkeys(controllers, 1))
    found = judged(baseline, workloads, now=now, evicted=evicted)
    assert not (found.is_settled and (found.unknown or found.waiting or found.list_at))
    if controllers and not evicted < started <= now:
        assert not found.is_settled


@given(BASELINES, CONTROLLERS, MOMENTS)
def test_what_is_not_settled_says_why_and_when_it_may_be(
    baseline: Baseline, controllers: Mapping[str, Controller], now: datetime
) -> None:
    found = judged(baseline, Workloads(LISTED, 0.0, controllers), now=now)
    assert found.is_settled or (found.waiting or found.unknown)
    assert found.is_settled or found.list_at is not None


@given(BASELINES, st.lists(BASELINES), CONTROLLERS)
def test_the_baselines_of_other_slots_settle_nothing_earlier(
    own: Baseline, others: list[Baseline], controllers: Mapping[str, Controller]
) -> None:
    workloads = Workloads(LISTED, 0.0, controllers)
    if judged(merge(own, others), workloads).is_settled:
        assert judged(own, workloads).is_settled
