"""What a kubelet evicts by itself: when, whom, and how often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.machine_memory import machine, script
from testbed.memory.kubelet_eviction import EvictionState, KubeletPod, look, ranked
from testbed.memory.pages import GIB, MIB
from testbed.memory.reading import MemoryReading, PodReading

LIMIT = 24 * GIB


def reading(*, time: float = 0.0, left: int = 0, **working_sets: int) -> MemoryReading:
    """Return one with so much commit left, and a pod for each working set in MiB."""
    return MemoryReading(
        time=time,
        physical_total_bytes=16 * GIB,
        available_bytes=8 * GIB,
        private_working_set_bytes=8 * GIB,
        commit_total_bytes=LIMIT - left,
        commit_limit_bytes=LIMIT,
        pool_nonpaged_bytes=0,
        pool_paged_bytes=0,
        page_file_limit_bytes=8 * GIB,
        page_file_free_bytes=8 * GIB,
        modified_page_list_bytes=0,
        page_reads_total=0,
        pages_read_total=0,
        pages_written_total=0,
        transition_pages_repurposed_total=0,
        pods=tuple(
            PodReading(
                namespace="shop",
                name=name,
                uid=name,
                commit_bytes=size * MIB,
                private_working_set_bytes=size * MIB,
            )
            for name, size in working_sets.items()
        ),
    )


def known(uid: str, *, request: int = 0, priority: int = 0, critical: bool = False) -> KubeletPod:
    return KubeletPod(uid=uid, request_bytes=request * MIB, priority=priority, critical=critical)


def order(*pods: KubeletPod, **working_sets: int) -> list[str]:
    return [pod.uid for pod in ranked(pods, reading(**working_sets))]


def evicted(
    state: EvictionState, found: MemoryReading, *pods: KubeletPod
) -> tuple[str | None, EvictionState]:
    done = look(state, found, pods=pods)
    return (done.evicted.uid if done.evicted else None), done.state


@pytest.mark.parametrize(("left", "expected"), [(500 * MIB, None), (500 * MIB - 1, "a"), (0, "a")])
def test_it_evicts_below_500_mib_of_available_commit(left: int, expected: str | None) -> None:
    uid, state = evicted(EvictionState(), reading(left=left, a=100), known("a"))
    assert uid == expected
    assert state.memory_pressure_at(0) is (expected is not None)


def test_free_ram_does_not_matter() -> None:
    """The machine has hardly touched its RAM; what it has promised is what counts."""
    made = machine([script("hog", "40Gi", touchedPercent=1)])
    found = made.reading(300)
    assert found.available_bytes > 10 * GIB
    assert evicted(EvictionState(), found, known("uid-p0"))[0] == "uid-p0"


def test_a_kubelet_that_is_not_armed_evicts_nobody() -> None:
    done = look(EvictionState(), reading(a=100), pods=[known("a")], threshold_bytes=None)
    assert (done.evicted, done.state) == (None, EvictionState())


def test_who_is_above_his_request_goes_first_then_who_is_least_important_then_who_is_furthest_above() -> None:
    assert order(
        known("within", request=900, priority=-10),
        known("above-much", request=100, priority=5),
        known("above-little", request=100, priority=5),
        known("above-unimportant", request=100, priority=1),
        **{"within": 800, "above-much": 900, "above-little": 200, "above-unimportant": 101},
    ) == ["above-unimportant", "above-much", "above-little", "within"]


def test_exactly_the_request_is_not_above_it() -> None:
    even = known("even", request=100, priority=-5)
    assert order(even, known("above", request=100), even=100, above=101) == ["above", "even"]


def test_a_hog_that_touches_little_is_ranked_as_small() -> None:
    """The trigger is commit, the ranking is the working set."""
    made = machine([script("hog", "40Gi", touchedPercent=1), script("steady", "1Gi", touchedPercent=100)])
    found = made.reading(300)
    assert evicted(EvictionState(), found, known("uid-p0"), known("uid-p1"))[0] == "uid-p1"


def test_a_pod_without_figures_goes_before_all_others() -> None:
    assert order(known("large"), known("unseen", priority=100), large=9000) == ["unseen", "large"]


def test_critical_pods_are_passed_over() -> None:
    pods = [known("agent", critical=True), known("web", request=900)]
    found = reading(agent=5000, web=100)
    assert evicted(EvictionState(), found, *pods)[0] == "web"
    uid, state = evicted(EvictionState(), found, pods[0])
    assert uid is None
    assert state.memory_pressure_at(0)


def test_a_pass_every_ten_seconds() -> None:
    calm = reading(time=0, left=GIB, a=1)
    _, state = evicted(EvictionState(), calm, known("a"))
    assert evicted(state, reading(time=9.9, a=1), known("a")) == (None, state)
    assert evicted(state, reading(time=10, a=1), known("a"))[0] == "a"


def test_one_pod_at_a_time_and_the_next_when_that_is_gone() -> None:
    pods = [known("a"), known("b")]
    uid, state = evicted(EvictionState(), reading(time=0, a=200, b=100), *pods)
    assert uid == "a"
    assert evicted(state, reading(time=29, a=200, b=100), *pods) == (None, state)
    assert evicted(state, reading(time=12, b=100), pods[1])[0] == "b"


def test_after_thirty_seconds_it_no_longer_waits_for_a_pod_that_does_not_go() -> None:
    pods = [known("a"), known("b")]
    _, state = evicted(EvictionState(), reading(time=0, a=200, b=100), *pods)
    assert evicted(state, reading(time=30, a=200, b=100), pods[1])[0] == "b"


def test_memory_pressure_is_reported_for_five_minutes_after_the_last_shortage() -> None:
    _, state = evicted(EvictionState(), reading(time=100, a=1), known("a"))
    _, state = evicted(state, reading(time=110, left=GIB))
    assert not EvictionState().memory_pressure_at(0)
    assert state.memory_pressure_at(399)
    assert not state.memory_pressure_at(400)


def test_on_a_machine_it_ends_a_hog_before_anything_is_denied() -> None:
    made = machine([script("steady", "4Gi"), script("hog", "40Gi", rampSeconds=3600)])
    pods = [known("uid-p0", request=4096), known("uid-p1")]
    state, gone = EvictionState(), []
    for second in range(2400):
        uid, state = evicted(state, made.reading(second), *(pod for pod in pods if pod.uid not in gone))
        if uid is not None:
            gone.append(uid)
            made.stop(uid, at=second + 1)  # a hard threshold leaves a pod one second
    assert gone == ["uid-p1"]
    assert made.truth(2400).allocations_denied == 0


PODS = st.lists(
    st.builds(
        KubeletPod,
        uid=st.sampled_from("abcdef"),
        request_bytes=st.integers(0, 4).map(lambda size: size * MIB),
        priority=st.integers(-1, 1),
        critical=st.booleans(),
    ),
    unique_by=lambda pod: pod.uid,
)
SETS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 5))


@given(pods=PODS, sets=SETS, left=st.integers(0, GIB))
def test_a_pass_evicts_at_most_one_pod_that_it_may_evict(
    pods: list[KubeletPod], sets: dict[str, int], left: int
) -> None:
    done = look(EvictionState(), reading(left=left, **sets), pods=pods)
    if done.evicted is None:
        assert left >= 500 * MIB or all(pod.critical for pod in pods)
    else:
        assert left < 500 * MIB
        assert done.evicted in pods
        assert not done.evicted.critical
        assert look(done.state, reading(time=1, **{**sets, done.evicted.uid: 1}), pods=pods).evicted is None


@given(pods=PODS, sets=SETS, data=st.data())
def test_the_order_of_the_list_does_not_matter_where_the_rules_decide(
    pods: list[KubeletPod], sets: dict[str, int], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(pods))
    first, second = ranked(pods, reading(**sets)), ranked(shuffled, reading(**sets))

    def figures(pod: KubeletPod) -> tuple[bool, int, int]:
        size = sets.get(pod.uid)
        return size is None, pod.priority, 0 if size is None else size * MIB - pod.request_bytes

    assert [figures(pod)[:2] for pod in first] == [figures(pod)[:2] for pod in second]
    above = [figures(pod) for pod in first]
    assert above == [figures(pod) for pod in second]
