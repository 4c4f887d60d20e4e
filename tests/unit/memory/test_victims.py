"""Which pod goes first, and which never goes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from harness.every import every
from harness.memory import GIB, MIB
from winpool.api.memory_pressure import EvictionBehavior
from winpool.features.memory.victims import (
    Basis,
    Candidate,
    Choice,
    Exclusion,
    Protection,
    choose,
    judge,
)
from winpool.model.pods import EvictionFacts, Pod
from winpool.model.pressure import Axis, PodUsage

USAGE = frozenset(PodUsage.__struct_fields__)
FACTS = frozenset(EvictionFacts.__struct_fields__)
OWN = frozenset(Candidate.__struct_fields__)
GROWN = GIB / 4


def a_pod(name: str, commit: float | None = 2.0, **more: Any) -> Candidate:
    """Return a pod that may be evicted, with GiB that it has committed and half of it in RAM.

    Each has grown by the same. ``more`` are fields of the candidate, its usage, its facts, or the pod.
    """
    pod = Pod("default", name, "w1", uid=f"uid-{name}", controller_kind="ReplicaSet")
    usage = PodUsage(commit_growth=GROWN, working_set_growth=GROWN)
    if commit is not None:
        usage = replace(usage, commit=commit * GIB, working_set=commit * GIB / 2)
    return changed(Candidate(pod, EvictionFacts(), usage, age_seconds=3600), **more)


def changed(candidate: Candidate, **more: Any) -> Candidate:
    """Return ``candidate`` with other fields, wherever they are."""
    usage = {each: more.pop(each) for each in USAGE & more.keys()}
    facts = {each: more.pop(each) for each in FACTS & more.keys()}
    own = {each: more.pop(each) for each in OWN & more.keys()}
    return replace(
        candidate,
        pod=structs.replace(candidate.pod, **more),
        usage=replace(candidate.usage, **usage),
        facts=replace(candidate.facts, **facts),
        **own,
    )


def chosen(
    *pods: Candidate,
    axis: Axis = Axis.COMMIT,
    missing: float = 1.0,
    is_hard: bool = False,
    grown: float | None = None,
    **more: Any,
) -> Choice:
    """Return which pod goes; the node lacks ``missing`` GiB, and has committed ``grown`` GiB more."""
    return choose(
        pods,
        axis=axis,
        missing=missing * GIB,
        protection=Protection(**more),
        is_hard=is_hard,
        grown=None if grown is None else grown * GIB,
    )


def name_of(choice: Choice) -> str | None:
    return choice.victim.pod.name if choice.victim else None


def test_the_smallest_pod_that_suffices_goes_first() -> None:
    found = chosen(a_pod("hog", 8), a_pod("enough", 2), a_pod("small", 0.5))
    assert name_of(found) == "enough"
    assert found.usage == 2 * GIB
    assert found.reason == (
        "The pod has committed 2Gi, 2Gi more than it requests. "
        "It is the smallest such pod whose eviction frees the 1Gi that the node is short of."
    )


def test_where_none_suffices_the_one_furthest_above_its_request_goes() -> None:
    found = chosen(a_pod("large", 3, requests=2 * GIB), a_pod("greedy", 2), missing=5)
    assert name_of(found) == "greedy"
    assert found.reason.endswith(
        "No such pod alone frees the 5Gi that the node is short of. It uses most above its request."
    )


def test_growth_since_the_node_was_calm_counts_as_use() -> None:
    large = a_pod("large", 3, commit_growth=GIB / 2)
    assert name_of(chosen(large, a_pod("leak", 2.5, commit_growth=1.25 * GIB), missing=5)) == "leak"
    assert name_of(chosen(large, a_pod("leak", 2.5, commit_growth=0.75 * GIB), missing=5)) == "large"


@pytest.mark.parametrize("axis", Axis)
@pytest.mark.parametrize(
    "grown",
    [0.0, -1.0 * GIB, None, math.nan, 2.0**63, 0.24 * GIB],
    ids=["no", "less", "unknown", "NaN", "impossible", "little"],
)
def test_a_pod_that_has_not_grown_stays(axis: Axis, grown: float | None) -> None:
    """It goes by nothing else: not for what it uses above its request, its priority, or a rule."""
    steady = a_pod("steady", 9, priority=-1, behavior=EvictionBehavior.PREFER)
    steady = changed(steady, commit_growth=grown, working_set_growth=grown)
    leak = a_pod("leak", 2, commit_growth=1.0 * GIB, working_set_growth=1.0 * GIB)
    found = chosen(steady, leak, axis=axis)
    assert (name_of(found), found.excluded) == ("leak", {Exclusion.NOT_GROWING: 1})


def test_a_pod_that_grew_by_a_quarter_of_the_one_that_grew_most_may_go() -> None:
    grown = a_pod("grown", 2, priority=-1, commit_growth=0.25 * GIB)
    assert name_of(chosen(grown, a_pod("leak", 2, commit_growth=1.0 * GIB))) == "grown"


@pytest.mark.parametrize(
    ("axis", "name"), [(Axis.COMMIT, "leak"), (Axis.PHYSICAL, "heap")], ids=["commit", "working sets"]
)
def test_what_a_pod_has_committed_varies_by_a_twentieth(axis: Axis, name: str) -> None:
    """Where only working sets are known, that would be too late for a leak, which is evicted before."""
    heap = a_pod("heap", 10, working_set=10.0 * GIB, working_set_growth=0.49 * GIB, commit_growth=0.49 * GIB)
    leak = a_pod("leak", 3, working_set=3.0 * GIB, working_set_growth=0.2 * GIB, commit_growth=0.2 * GIB)
    found = chosen(heap, leak, axis=axis, missing=4)
    assert name_of(found) == name
    assert (Exclusion.NOT_GROWING in found.excluded) is (axis is Axis.COMMIT)


def test_a_pod_that_has_to_stay_and_has_grown_most_keeps_all_however_large_it_is() -> None:
    large = a_pod("large", 100, commit_growth=4.9 * GIB, is_blocked=True)
    small = a_pod("small", 10, commit_growth=1.6 * GIB)
    assert name_of(chosen(large, small, missing=10, grown=6.5)) is None


def test_a_large_pod_leaks_if_most_of_what_the_node_has_committed_more_is_its_own() -> None:
    large = a_pod("large", 104, commit_growth=2.4 * GIB)
    assert name_of(chosen(large, missing=13, grown=2.4)) == "large"
    assert name_of(chosen(large, missing=13, grown=6.0)) is None


def test_pods_that_grow_alike_leak_together() -> None:
    pods = [a_pod(name, 8, commit_growth=0.2 * GIB) for name in ("a", "b", "c")]
    assert name_of(chosen(*pods, missing=10, grown=0.6)) == "a"


@pytest.mark.parametrize(("less", "name"), [(0.79, "large"), (0.81, None)])
def test_what_another_pod_has_less_shows_how_much_they_vary(less: float, name: str | None) -> None:
    large, other = a_pod("large", 104, commit_growth=2.4 * GIB), a_pod("other", 9, commit_growth=-less * GIB)
    assert name_of(chosen(large, other, missing=13, grown=1.0)) == name


def test_where_no_pod_has_grown_none_goes() -> None:
    found = chosen(a_pod("a", 9, commit_growth=None), a_pod("b", 4, commit_growth=0.0))
    assert (name_of(found), found.excluded) == (None, {Exclusion.NOT_GROWING: 2})


@pytest.mark.parametrize(
    ("grown", "enough"),
    [(None, 0.25), (0.0, 0.1), (8.0, 1.0)],
    ids=["growth of the node unknown", "none", "known"],
)
def test_where_the_growth_of_all_pods_is_not_what_the_node_lacks_none_goes(
    grown: float | None, enough: float
) -> None:
    """It lacks 10 GiB: a 50th is enough, a 20th if no more is known, or a quarter of its growth of 8."""

    def each_grown_by(gib: float) -> Choice:
        pods = (a_pod(name, 1.5, commit_growth=gib * GIB) for name in ("a", "b"))
        return chosen(*pods, missing=10, grown=grown)

    assert name_of(each_grown_by(enough)) == "a"
    found = each_grown_by(enough - 0.01)
    assert (name_of(found), found.excluded) == (None, {Exclusion.NOT_GROWING: 2})


@every(
    ("changes", "exclusion"),
    [
        ({"controller_kind": "DaemonSet"}, Exclusion.DAEMON_SET),
        ({"is_blocked": True}, Exclusion.BUDGET),
        ({"priority": 2_000_000_000}, Exclusion.SYSTEM_PRIORITY),
        ({"behavior": EvictionBehavior.NEVER}, Exclusion.RULE),
        ({"age_seconds": 119}, Exclusion.TOO_YOUNG),
        ({"commit": 40.0 * MIB}, Exclusion.TOO_SMALL),
    ],
    ids=str,
)
def test_where_the_pod_with_most_of_the_growth_stays_no_other_goes_in_its_place(
    changes: dict[str, Any], exclusion: Exclusion
) -> None:
    others = [a_pod("a", commit_growth=1.0 * GIB), a_pod("b", commit_growth=1.0 * GIB), a_pod("steady", 9)]
    stays = changed(a_pod("stays", 4, commit_growth=1.1 * GIB), **changes)
    found = chosen(*others, stays)
    assert (name_of(found), found.excluded) == (None, {exclusion: 1, Exclusion.ANOTHER_GROWS: 3})
    assert found.grower == stays.pod
    assert name_of(chosen(*others, changed(stays, commit_growth=1.0 * GIB))) == "a", (
        "it grows no more than others"
    )


def test_where_most_of_the_growth_is_of_pods_that_stay_no_other_goes_either() -> None:
    agents = [a_pod(name, 4, commit_growth=0.9 * GIB, controller_kind="DaemonSet") for name in ("one", "two")]
    web = a_pod("web", commit_growth=1.0 * GIB)
    assert name_of(chosen(*agents, web)) is None
    assert name_of(chosen(*agents[:1], web)) == "web"


def test_of_pods_that_have_to_stay_the_same_one_is_named_in_whatever_order_they_are_listed() -> None:
    """Two that have grown by the same."""
    agents = [a_pod(name, 4, commit_growth=2.0 * GIB, controller_kind="DaemonSet") for name in ("one", "two")]
    web = a_pod("web", commit_growth=1.0 * GIB)
    assert chosen(*agents, web) == chosen(*reversed(agents), web)


def test_the_growth_that_counts_is_that_of_what_is_short() -> None:
    commits = a_pod("commits", 4, commit_growth=1.0 * GIB, working_set_growth=0.0)
    resides = a_pod("resides", 4, commit_growth=0.0, working_set_growth=1.0 * GIB)
    assert name_of(chosen(commits, resides, axis=Axis.COMMIT)) == "commits"
    assert name_of(chosen(commits, resides, axis=Axis.PHYSICAL)) == "resides"


def test_where_growth_is_not_known_it_may_be_left_out() -> None:
    """As in the plugin, which does not know what the pods used while the node was calm."""
    pods = [a_pod("steady", 4, commit_growth=0.0), a_pod("agent", controller_kind="DaemonSet")]
    _, found = judge(
        pods, axis=Axis.COMMIT, missing=GIB, protection=Protection(), is_hard=True, by_growth=False
    )
    assert [why for _, why in found] == [None, Exclusion.DAEMON_SET]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (a_pod("above", 4), a_pod("within", 2, requests=2 * GIB, priority=-5)),
        (a_pod("low", 4, priority=-1), a_pod("high", 2)),
        (a_pod("low", 0.5, priority=-1), a_pod("high", 2)),
        (a_pod("preferred", 4, behavior=EvictionBehavior.PREFER), a_pod("other", 2)),
        (a_pod("low", 4, priority=-1), a_pod("preferred", 2, behavior=EvictionBehavior.PREFER)),
        (a_pod("cheap", 2, deletion_cost=-1), a_pod("dear", 2)),
        (a_pod("young", 2, age_seconds=200), a_pod("old", 2)),
        (a_pod("a", 2), a_pod("b", 2)),
    ],
    ids=lambda each: each.pod.name,
)
def test_the_order_of_pods(first: Candidate, second: Candidate) -> None:
    assert name_of(chosen(first, second)) == first.pod.name
    assert name_of(chosen(second, first)) == first.pod.name


@every(
    ("changes", "exclusion"),
    [
        ({"is_mirror": True}, Exclusion.STATIC),
        ({"priority": 2_000_000_000}, Exclusion.SYSTEM_PRIORITY),
        ({"controller_kind": "DaemonSet"}, Exclusion.DAEMON_SET),
        ({"is_host_process": True}, Exclusion.HOST_PROCESS),
        ({"controller_kind": ""}, Exclusion.NO_CONTROLLER),
        ({"is_terminating": True}, Exclusion.TERMINATING),
        ({"is_finished": True}, Exclusion.FINISHED),
        ({"behavior": EvictionBehavior.NEVER}, Exclusion.RULE),
        ({"namespace": "kube-system"}, Exclusion.SYSTEM_NAMESPACE),
        ({"namespace": "kube-public"}, Exclusion.SYSTEM_NAMESPACE),
        ({"namespace": "openshift-monitoring"}, Exclusion.SYSTEM_NAMESPACE),
        ({"namespace": "winpool-system"}, Exclusion.SYSTEM_NAMESPACE),
        ({"namespace": "protected"}, Exclusion.SYSTEM_NAMESPACE),
        ({"age_seconds": 119}, Exclusion.TOO_YOUNG),
        ({"age_seconds": math.nan}, Exclusion.TOO_YOUNG),
        ({"is_blocked": True}, Exclusion.BUDGET),
        ({"is_blocked": True, "is_unread": True}, Exclusion.BUDGETS_UNREAD),
        ({"commit": None}, Exclusion.UNKNOWN_USAGE),
        ({"commit": 0.0}, Exclusion.UNKNOWN_USAGE),
        ({"commit": 2.0**63}, Exclusion.UNKNOWN_USAGE),
        ({"commit": math.nan}, Exclusion.UNKNOWN_USAGE),
        ({"commit": 40.0 * MIB}, Exclusion.TOO_SMALL),
    ],
    ids=str,
)
def test_a_pod_is_left_alone(changes: dict[str, Any], exclusion: Exclusion) -> None:
    pod = changed(a_pod("left"), **changes)
    other = a_pod("kept", 0.01)
    found = chosen(pod, other, namespaces=frozenset({"protected"}))
    assert found.victim is None
    assert found.excluded == (
        {exclusion: 2} if exclusion is Exclusion.TOO_SMALL else {exclusion: 1, Exclusion.TOO_SMALL: 1}
    )
    assert found.reason == "No pod of the node may be evicted."
    assert name_of(chosen(pod, a_pod("instead"), namespaces=frozenset({"protected"}))) == "instead"


def test_the_namespaces_are_known_in_which_pods_stay_only_since_their_budgets_cannot_be_read() -> None:
    found = chosen(
        a_pod("stays", namespace="shop", is_unread=True),
        a_pod("agent", namespace="agents", is_unread=True, controller_kind="DaemonSet"),
        a_pod("budgeted", namespace="vault", is_blocked=True),
    )
    assert found.victim is None
    assert found.unread == frozenset({"shop"})


@pytest.mark.parametrize("is_hard", [False, True])
def test_a_pod_that_asks_to_stay_goes_only_at_hard_and_only_as_the_culprit(is_hard: bool) -> None:
    asking, other = a_pod("asking", 4, asks_to_stay=True), a_pod("other", 2)
    found = chosen(asking, other, is_hard=is_hard)
    assert (name_of(found), found.excluded) == (
        ("asking", {Exclusion.ANOTHER_ASKS_TO_STAY: 1})
        if is_hard
        else (None, {Exclusion.ASKS_TO_STAY: 1, Exclusion.ANOTHER_ASKS_TO_STAY: 1})
    ), "nobody goes in its place"
    larger = a_pod("larger", 8, commit_growth=2.0 * GIB)
    asking, other = (changed(each, commit_growth=2.0 * GIB) for each in (asking, other))
    found = chosen(asking, other, larger, missing=5, is_hard=is_hard)
    assert (name_of(found), found.excluded) == ("larger", {Exclusion.ASKS_TO_STAY: 1})
    grown = changed(asking, commit_growth=7.0 * GIB)
    assert name_of(chosen(grown, larger, is_hard=is_hard)) == ("asking" if is_hard else None)


def test_a_rule_that_prefers_a_pod_overrides_that_it_asks_to_stay() -> None:
    asking = a_pod("asking", 2, asks_to_stay=True, behavior=EvictionBehavior.PREFER)
    assert name_of(chosen(asking, a_pod("other", 4))) == "asking"


def test_the_age_that_a_pod_needs_is_that_of_the_pool() -> None:
    young = a_pod("young", age_seconds=50)
    assert chosen(young).victim is None
    assert name_of(chosen(young, min_pod_age_seconds=50)) == "young"


@pytest.mark.parametrize(
    ("axis", "has_commit", "basis", "name"),
    [
        (Axis.COMMIT, True, Basis.COMMIT, "commits"),
        (Axis.COMMIT, False, Basis.WORKING_SET, "resides"),
        (Axis.PHYSICAL, True, Basis.WORKING_SET, "resides"),
    ],
)
def test_pods_are_compared_by_what_is_short_as_far_as_it_is_known(
    axis: Axis, has_commit: bool, basis: Basis, name: str
) -> None:
    """One pod has committed 20 GiB and touches 1 of them, the other 4 and touches all."""
    pods = [
        a_pod("commits", 20.0, working_set=1.0 * GIB, commit_growth=1.0 * GIB),
        a_pod("resides", 4.0, working_set=4.0 * GIB),
    ]
    if not has_commit:
        pods = [changed(each, commit=None) for each in pods]
    found = chosen(*pods, axis=axis, missing=5)
    assert (found.basis, name_of(found)) == (basis, name)


def test_where_the_commit_of_some_pods_is_known_the_others_are_left_alone() -> None:
    found = chosen(a_pod("known", 1), a_pod("unknown", None, working_set=9.0 * GIB))
    assert name_of(found) == "known"
    assert found.excluded == {Exclusion.UNKNOWN_USAGE: 1}


growths = st.sampled_from([None, -1.0 * GIB, 0.0, GIB / 4, 1.0 * GIB, 4.0 * GIB])
candidates = st.builds(
    a_pod,
    st.uuids().map(str),
    st.one_of(st.none(), st.integers(0, 32).map(lambda quarters: quarters / 4)),
    priority=st.sampled_from([-1, 0, 2_000_000_000]),
    controller_kind=st.sampled_from(["", "DaemonSet", "ReplicaSet", "ReplicaSet"]),
    requests=st.sampled_from([0, GIB, 4 * GIB]),
    is_host_process=st.sampled_from([False, False, True]),
    is_mirror=st.sampled_from([False, False, True]),
    is_blocked=st.sampled_from([False, False, True]),
    behavior=st.sampled_from([None, *EvictionBehavior]),
    age_seconds=st.sampled_from([10, 1000]),
    deletion_cost=st.integers(-1, 1),
    commit_growth=growths,
    working_set_growth=growths,
)


@given(
    st.lists(candidates, max_size=12),
    st.sampled_from(Axis),
    st.integers(0, 20),
    st.sampled_from([None, -1, 0, 4, 40]),
    st.randoms(),
)
def test_a_victim_is_never_protected_and_does_not_depend_on_the_order_of_pods(
    pods: Sequence[Candidate], axis: Axis, missing: int, grown: int | None, shuffled: random.Random
) -> None:
    found = chosen(*pods, axis=axis, missing=missing, grown=grown)
    again = list(pods)
    shuffled.shuffle(again)
    assert chosen(*again, axis=axis, missing=missing, grown=grown) == found
    victim = found.victim
    if victim is None:
        assert sum(found.excluded.values()) == len(pods)
        return
    assert victim.pod.controller_kind == "ReplicaSet"
    assert {victim.facts.is_host_process, victim.pod.is_static, victim.is_blocked} == {False}
    assert victim.behavior is not EvictionBehavior.NEVER
    assert victim.facts.priority < 2_000_000_000
    assert victim.age_seconds >= 120
    assert found.usage is not None
    assert found.usage >= 0.05 * missing * GIB
    assert found.usage > 0
    growth = {each.pod.uid: each.growth(found.basis) for each in pods}
    assert growth[victim.pod.uid] > 0
    assert sum(growth.values()) >= (0.05 * missing if grown is None else grown / 4) * GIB
    assert growth[victim.pod.uid] >= max(growth.values()) / 4
