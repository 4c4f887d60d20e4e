"""Questions about all pods, answered while the pods go by: right, complete, and in bounded memory."""

from __future__ import annotations

import dataclasses
import os
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from harness.builders import NOON, a_node, a_taint
from harness.pods import EVERYTHING, a_pod, a_question, a_requirement, an_agent
from winpool.model.node import Taint
from winpool.model.pods import DaemonSet, Pod, Toleration, misplaced_because, tolerates
from winpool.model.survey import (
    DAEMON_SETS_KEPT,
    IntolerantPods,
    Misplaced,
    OnNode,
    PoolQuestion,
    Readiness,
    Survey,
    taint_key,
)
from winpool.model.surveyor import Surveyor

LATER = NOON + timedelta(seconds=5)
NO_EXECUTE = "os=windows:NoExecute"
NO_SCHEDULE = "os=windows:NoSchedule"


def surveyed(
    question: PoolQuestion, pods: Iterable[Pod], *, unreadable: frozenset[str] = frozenset()
) -> Survey:
    surveyor = Surveyor([question])
    for pod in pods:
        surveyor.see(pod)
    return surveyor.finish(started=NOON, finished=LATER, unreadable=unreadable)[question.pool_uid]


def intolerant(survey: Survey, taint: str = NO_EXECUTE) -> IntolerantPods:
    found = survey.intolerant_of(a_taint(taint))
    assert found is not None
    return found


def pods_of(found: IntolerantPods) -> int:
    return sum(each.pods for each in found.on_nodes.values())


def test_a_survey_says_what_it_is_about() -> None:
    survey = surveyed(a_question(NO_EXECUTE), [])
    assert (survey.pool_uid, survey.generation) == ("uid-of-win", 7)
    assert (survey.started, survey.finished) == (NOON, LATER)
    assert survey.intolerant.keys() == {taint_key(a_taint(NO_EXECUTE))}
    assert (
        survey.intolerant_of(structs.replace(a_taint(NO_EXECUTE), time_added="2026-11-01T12:00:00Z"))
        is not None
    )


@pytest.mark.parametrize("other", ["os=Windows:NoExecute", "os=windows:NoSchedule", "OS=windows:NoExecute"])
def test_a_taint_that_was_not_asked_about_is_unknown_and_not_tolerated_by_all(other: str) -> None:
    survey = surveyed(a_question(NO_EXECUTE), [])
    assert survey.intolerant_of(a_taint(other)) is None


def test_only_the_nodes_that_were_asked_about_are_covered_and_by_their_uid() -> None:
    survey = surveyed(a_question(nodes=["w1"]), [])
    assert survey.covers(a_node("w1"))
    assert not survey.covers(replace(a_node("w1"), uid="the-next-one"))
    assert not survey.covers(a_node("w2"))


def test_a_node_with_a_pod_that_cannot_be_read_is_not_covered() -> None:
    question = a_question(NO_EXECUTE, joining=["w1", "w2"])
    survey = surveyed(question, [a_pod(node="w2")], unreadable=frozenset({"w1", "elsewhere"}))
    assert not survey.covers(a_node("w1"))
    assert survey.covers(a_node("w2"))
    assert survey.readiness.keys() == {"w2"}
    assert intolerant(survey).nodes == {"w2"}


def test_daemon_sets_that_the_taint_keeps_away_are_named_on_the_nodes_that_they_are_made_for() -> None:
    labels = {"w1": {"os": "windows", "gpu": "no"}, "w2": {"os": "windows"}}
    question = a_question(NO_SCHEDULE, "os=windows:PreferNoSchedule", labels=labels)
    anything = Toleration(operator="Exists")
    surveyor = Surveyor([question])
    daemon_sets = [
        DaemonSet("shop/agent", (("os", "windows"),)),
        DaemonSet("kube-system/gpu", (("gpu", "no"), ("os", "windows"))),
        DaemonSet("shop/patient", (("os", "windows"),), (anything,)),
        DaemonSet("shop/elsewhere", (("os", "windows"), ("gpu", "yes"))),
    ]
    assert len([*surveyor.add_daemon_sets(daemon_sets)]) == 3
    survey = surveyor.finish(started=NOON, finished=LATER)[question.pool_uid]
    found = intolerant(survey, NO_SCHEDULE)
    assert ({*found.kept_away}, {*found.kept_away_from}) == ({"kube-system/gpu", "shop/agent"}, {"w1", "w2"})
    assert (pods_of(found), found.nodes) == (0, frozenset())
    assert intolerant(survey, "os=windows:PreferNoSchedule").kept_away == frozenset()


def test_daemon_sets_beyond_a_limit_are_compared_with_no_node_and_others_have_their_turn() -> None:
    nodes = [f"w{number}" for number in range(5000)]
    question = a_question(NO_SCHEDULE, nodes=nodes, labels={name: {} for name in nodes})
    surveyor = Surveyor([question, dataclasses.replace(question, pool_uid="other")])
    turns = surveyor.add_daemon_sets(DaemonSet(f"shop/agent-{number}") for number in range(128))
    assert len([*turns]) == 100


def test_intolerant_pods_are_counted_and_the_first_named() -> None:
    pods = [
        a_pod("shop/d", node="w2"),
        a_pod("shop/c"),
        a_pod("shop/b"),
        a_pod("bank/z"),
        a_pod("shop/tolerant", tolerations=EVERYTHING),
        a_pod("shop/elsewhere", node="linux-1"),
    ]
    found = intolerant(surveyed(a_question(NO_EXECUTE), pods))
    assert pods_of(found) == 4
    assert found == IntolerantPods(nodes=frozenset({"w1", "w2"}), examples=("bank/z", "shop/b", "shop/c"))


@pytest.mark.parametrize("way", ["is_finished", "is_terminating", "is_mirror"])
def test_a_pod_to_which_a_taint_does_nothing_any_more_does_not_count(way: str) -> None:
    changes: dict[str, Any] = {way: True}
    found = intolerant(surveyed(a_question(NO_EXECUTE), [a_pod(**changes)]))
    assert found == IntolerantPods()


def test_each_taint_has_its_own_answer() -> None:
    for_now = (Toleration("os", "Exists", seconds=300),)
    survey = surveyed(a_question(NO_EXECUTE, NO_SCHEDULE), [a_pod(tolerations=for_now)])
    assert [pods_of(intolerant(survey, taint)) for taint in (NO_EXECUTE, NO_SCHEDULE)] == [1, 0]


def test_agents_that_would_not_come_back_are_named_by_their_daemon_sets() -> None:
    pods = [
        an_agent("kube-system/cni-1"),
        an_agent("kube-system/cni-2", node="w2"),
        an_agent("monitoring/exporter-1", controller="exporter"),
        an_agent("kube-system/proxy-1", controller="proxy", tolerations=EVERYTHING),
        a_pod("shop/web-1", node="w2"),
    ]
    found = intolerant(surveyed(a_question(NO_EXECUTE, nodes=["w1", "w2", "w3"]), pods))
    assert found.daemon_sets == ("kube-system/cni", "monitoring/exporter")
    assert found.daemon_set_nodes == {"w1", "w2"}
    assert pods_of(found) == 4


def test_of_very_many_daemon_sets_the_first_are_named_each_once() -> None:
    names = [f"agent-{number:02}" for number in range(40)]
    pods = [
        an_agent(f"kube-system/{name}-{turn}", controller=name) for turn in (1, 2) for name in names[::-1]
    ]
    found = intolerant(surveyed(a_question(NO_EXECUTE), pods))
    assert found.daemon_sets == tuple(f"kube-system/{name}" for name in names[:DAEMON_SETS_KEPT])
    assert found.daemon_set_count == 40
    assert pods_of(found) == 80


def test_of_many_daemon_sets_those_of_the_system_are_the_first() -> None:
    pods = [an_agent(f"aaa/agent-{number:02}-1", controller=f"agent-{number:02}") for number in range(40)]
    found = intolerant(surveyed(a_question(NO_EXECUTE), [*pods, an_agent("kube-system/cni-1")]))
    assert found.daemon_sets[0] == "kube-system/cni"
    assert (len(found.daemon_sets), found.daemon_set_count) == (DAEMON_SETS_KEPT, 41)


def test_misplaced_pods_are_counted_and_the_first_told_with_their_evidence() -> None:
    pods = [a_pod(f"shop/web-{number}", os="linux") for number in range(5)]
    pods.append(a_pod("shop/image", platform_problem="ErrImagePull: no match for platform in manifest"))
    pods.append(a_pod("shop/elsewhere", node="linux-1", os="linux"))
    survey = surveyed(a_question(), pods)
    assert sum(survey.misplaced_on.values()) == 6
    assert survey.misplaced_examples[0] == Misplaced("shop/web-0", "w1", "its spec.os.name is linux")
    assert len(survey.misplaced_examples) == 3


def test_a_node_is_busy_with_anything_but_agents() -> None:
    quiet = [
        an_agent(node="w1"),
        a_pod("kube-system/static", node="w1", is_mirror=True),
        a_pod("jobs/done", node="w1", is_finished=True),
    ]
    assert surveyed(a_question(), quiet).busy == frozenset()
    for pod in (
        a_pod(node="w2"),
        a_pod(node="w2", is_terminating=True),
        a_pod(node="w2", controller_kind=""),
    ):
        assert surveyed(a_question(), [*quiet, pod]).busy == {"w2"}


@pytest.mark.parametrize(
    ("agents", "unready"),
    [
        ("Critical", ("kube-system/cni",)),
        ("All", ("kube-system/cni", "monitoring/exporter")),
        ("None", ()),
    ],
)
def test_the_agents_of_a_joining_node_have_to_be_ready(agents: str, unready: tuple[str, ...]) -> None:
    pods = [
        an_agent("kube-system/cni-1", is_ready=False),
        an_agent("kube-system/proxy-1", controller="proxy"),
        an_agent("monitoring/exporter-1", controller="exporter", is_critical=False, is_ready=False),
        an_agent("kube-system/cni-2", node="w2", is_ready=False),
        a_pod(is_ready=False),
    ]
    survey = surveyed(a_question(joining=["w1"], node_agents=agents), pods)
    assert survey.readiness == {"w1": Readiness(unready=len(unready), unready_agents=unready)}


@pytest.mark.parametrize("way", ["is_finished", "is_terminating"])
def test_a_ready_agent_that_is_going_is_not_what_was_waited_for(way: str) -> None:
    changes: dict[str, Any] = {way: True}
    survey = surveyed(a_question(joining=["w1"]), [an_agent(**changes)])
    assert survey.readiness["w1"].unready == 1


def test_many_unready_agents_are_counted_and_the_first_named() -> None:
    pods = [
        an_agent(f"kube-system/a{number}-x", controller=f"a{number}", is_ready=False)
        for number in range(9, 0, -1)
    ]
    readiness = surveyed(a_question(joining=["w1"]), pods).readiness["w1"]
    assert readiness.unready == 9
    assert readiness.unready_agents == ("kube-system/a1", "kube-system/a2", "kube-system/a3")


def test_an_agent_without_the_name_of_its_daemon_set_is_named_itself() -> None:
    pod = an_agent("kube-system/cni-1", controller="", is_ready=False)
    assert surveyed(a_question(joining=["w1"]), [pod]).readiness["w1"].unready_agents == (
        "kube-system/cni-1",
    )


def test_of_each_required_pod_one_has_to_be_ready_on_the_node() -> None:
    question = a_question(joining=["w1"], required={"monitoring": "exporter", "logs": "shipper"})
    exporter = a_pod("monitoring/e-1", labels={"app": "exporter"})
    shipper = a_pod("logs/s-1", labels={"app": "shipper"})
    both = ("exporter in monitoring", "shipper in logs")
    for pods, missing in [
        ([], both),
        ([exporter], both[1:]),
        ([exporter, shipper], ()),
        ([exporter, structs.replace(shipper, node="w2")], both[1:]),
        ([exporter, structs.replace(shipper, is_ready=False)], both[1:]),
        ([exporter, structs.replace(shipper, is_terminating=True)], both[1:]),
        ([exporter, structs.replace(shipper, namespace="other")], both[1:]),
        ([exporter, structs.replace(shipper, labels={})], both[1:]),
        ([structs.replace(shipper, is_ready=False), exporter, shipper], ()),
    ]:
        readiness = surveyed(question, pods).readiness["w1"]
        assert readiness == Readiness(missing_required=missing)


def test_pools_that_share_a_node_both_see_its_pods() -> None:
    red = a_question(NO_EXECUTE, nodes=["w1", "w2"], pool_uid="red")
    blue = a_question(NO_EXECUTE, NO_SCHEDULE, nodes=["w2", "w3"], pool_uid="blue")
    surveyor = Surveyor([red, blue])
    for number in (1, 2, 3):
        surveyor.see(a_pod(f"shop/web-{number}", node=f"w{number}"))
    surveys = surveyor.finish(started=NOON, finished=LATER)
    assert intolerant(surveys["red"]).examples == ("shop/web-1", "shop/web-2")
    assert intolerant(surveys["blue"]).examples == ("shop/web-2", "shop/web-3")
    assert surveys["red"].intolerant_of(a_taint(NO_SCHEDULE)) is None


def test_without_questions_nothing_is_answered() -> None:
    surveyor = Surveyor([])
    surveyor.see(a_pod())
    assert surveyor.finish(started=NOON, finished=LATER) == {}


# The same again by a model that holds all pods and reads like the rules.

NODE_NAMES = ("w1", "w2", "w3", "linux-1")
TAINTS = (NO_EXECUTE, NO_SCHEDULE, "dedicated:NoExecute")
REQUIRED = tuple(a_requirement(namespace, "x") for namespace in ("a", "b"))
TOLERATION_SETS = (
    (),
    EVERYTHING,
    (Toleration("os", "Exists"),),
    (Toleration("os", "Exists", seconds=300), Toleration("dedicated", "Exists")),
    tuple(Toleration(f"other-{number}", "Exists") for number in range(40)),
)

PODS = st.lists(
    st.builds(
        Pod,
        namespace=st.sampled_from(["a", "b"]),
        name=st.from_regex(r"[a-z]{1,2}", fullmatch=True),
        node=st.sampled_from(NODE_NAMES),
        os=st.sampled_from(["", "windows", "linux"]),
        controller_kind=st.sampled_from(["", "ReplicaSet", "DaemonSet", "DaemonSet"]),
        controller=st.sampled_from(["x", "y"]),
        labels=st.sampled_from([{}, {"app": "x"}]),
        tolerations=st.sampled_from(TOLERATION_SETS),
        is_critical=st.booleans(),
        is_ready=st.booleans(),
        is_finished=st.sampled_from([False, False, True]),
        is_terminating=st.sampled_from([False, False, True]),
        is_mirror=st.sampled_from([False, False, True]),
        platform_problem=st.sampled_from(["", "", "ErrImagePull"]),
    ),
    max_size=25,
    unique_by=lambda pod: pod.full_name,
)
QUESTIONS = st.builds(
    PoolQuestion,
    pool_uid=st.just("pool"),
    generation=st.integers(1, 3),
    nodes=st.sets(st.sampled_from(NODE_NAMES[:3])).map(lambda names: {name: f"uid-{name}" for name in names}),
    taints=st.sets(st.sampled_from(TAINTS)).map(lambda texts: tuple(a_taint(text) for text in sorted(texts))),
    joining=st.frozensets(st.sampled_from(NODE_NAMES)),
    node_agents=st.sampled_from(["Critical", "All", "None"]),
    required_pods=st.sampled_from([(), REQUIRED[:1], REQUIRED]),
)


def modelled(question: PoolQuestion, pods: list[Pod], unreadable: frozenset[str]) -> Survey:
    ours = [pod for pod in pods if pod.node in question.nodes]
    covered = {name: uid for name, uid in question.nodes.items() if name not in unreadable}
    misplaced = [Misplaced(pod.full_name, pod.node, why) for pod in ours if (why := misplaced_because(pod))]
    work = [p.node for p in ours if not (p.is_finished or p.is_mirror or p.controller_kind == "DaemonSet")]
    return Survey(
        pool_uid=question.pool_uid,
        generation=question.generation,
        started=NOON,
        finished=LATER,
        nodes=question.nodes,
        intolerant={taint_key(taint): modelled_intolerant(taint, ours) for taint in question.taints},
        misplaced_examples=tuple(misplaced[:3]),
        misplaced_on=Counter(each.node for each in misplaced),
        busy=frozenset(work),
        readiness={
            node: modelled_readiness(question, [pod for pod in ours if pod.node == node])
            for node in question.joining & covered.keys()
        },
    )


def modelled_intolerant(taint: Taint, ours: list[Pod]) -> IntolerantPods:
    found = [
        pod
        for pod in ours
        if not (pod.is_finished or pod.is_terminating or pod.is_mirror)
        and not tolerates(pod.tolerations, key=taint.key, value=taint.value, effect=taint.effect)
    ]
    agents = [pod for pod in found if pod.controller_kind == "DaemonSet"]
    return IntolerantPods(
        nodes=frozenset(pod.node for pod in found),
        examples=tuple(sorted(pod.full_name for pod in found)[:3]),
        daemon_sets=tuple(sorted({f"{pod.namespace}/{pod.controller}" for pod in agents})),
        daemon_set_nodes=frozenset(pod.node for pod in agents),
        on_nodes={node: OnNode(pods, "") for node, pods in Counter(pod.node for pod in found).items()},
    )


def modelled_readiness(question: PoolQuestion, there: list[Pod]) -> Readiness:
    serving = [pod for pod in there if pod.is_ready and not pod.is_finished and not pod.is_terminating]
    kinds = {"All": (True, False), "Critical": (True,), "None": ()}[question.node_agents]
    agents = [pod for pod in there if pod.controller_kind == "DaemonSet" and pod.is_critical in kinds]
    unready = [pod for pod in agents if pod not in serving]
    named = sorted(
        {f"{pod.namespace}/{pod.controller}" if pod.controller else pod.full_name for pod in unready}
    )
    missing = [
        required.description
        for required in question.required_pods
        if not any(pod.namespace == required.namespace and required.matches(pod.labels) for pod in serving)
    ]
    return Readiness(len(unready), tuple(named[:3]), tuple(missing))


@given(QUESTIONS, PODS, st.frozensets(st.sampled_from(NODE_NAMES), max_size=1))
def test_a_survey_is_what_the_rules_say_of_all_pods(
    question: PoolQuestion, pods: list[Pod], unreadable: frozenset[str]
) -> None:
    found, expected = surveyed(question, pods, unreadable=unreadable), modelled(question, pods, unreadable)
    assert found == expected
    assert found.misplaced_on == expected.misplaced_on
    assert list(map(pods_of, found.intolerant.values())) == list(map(pods_of, expected.intolerant.values()))


SURVEYED = int(os.environ.get("WINPOOL_PODS", "15000"))
"""A tenth of the largest clusters, on a tenth of the nodes; ``make explore`` surveys them whole."""

FLEET = [f"win-{number:04}" for number in range(SURVEYED // 30)]
SETS = [EVERYTHING, *((Toleration("team", "Equal", f"t{number}"),) for number in range(9))]


def many_pods(count: int) -> Iterator[Pod]:
    """Give pods that are all on nodes of the pool, nine of ten intolerant, every fifth of some DaemonSet."""
    for number in range(count):
        yield Pod(
            namespace=f"team-{number % 50}",
            name=f"pod-{number:06}",
            node=FLEET[number % len(FLEET)],
            controller_kind="ReplicaSet" if number % 5 else "DaemonSet",
            controller=f"set-{number % 1000}",
            tolerations=SETS[number % len(SETS)],
            os="linux" if number % 2 else "",
        )


def a_fleet_question() -> PoolQuestion:
    return a_question(
        NO_EXECUTE,
        NO_SCHEDULE,
        "dedicated=sql:NoExecute",
        "team=t3:NoSchedule",
        nodes=FLEET,
        joining=FLEET[: len(FLEET) // 10],
        node_agents="All",
        required={"team-0": "exporter"},
    )


def held_after(count: int) -> tuple[int, int, Survey]:
    """Return the bytes that surveying so many pods holds at its peak, those that its result holds, and it."""
    question = a_fleet_question()
    tracemalloc.start()
    try:
        surveyor = Surveyor([question])
        for pod in many_pods(count):
            surveyor.see(pod)
        survey = surveyor.finish(started=NOON, finished=LATER)[question.pool_uid]
        peak = tracemalloc.get_traced_memory()[1]
        del surveyor
        return peak, tracemalloc.get_traced_memory()[0], survey
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_is_bounded_by_nodes_and_taints_whatever_the_number_of_pods() -> None:
    held_after(SURVEYED // 100)  # what is made at the first use, and once, counts for neither
    few_peak, few_held, _ = held_after(SURVEYED // 10)
    peak, held, survey = held_after(SURVEYED)
    print(
        f"{SURVEYED:,} pods: peak {peak / 1e6:.2f} MB, held {held / 1e6:.2f} MB; "
        f"a tenth: {few_peak / 1e6:.2f} MB"
    )
    assert pods_of(intolerant(survey)) == SURVEYED * 9 // 10
    assert len(intolerant(survey).nodes) == len(FLEET) * 9 // 10
    assert len(intolerant(survey, "team=t3:NoSchedule").nodes) == len(FLEET) * 8 // 10
    assert sum(survey.misplaced_on.values()) == SURVEYED // 2
    assert peak < few_peak * 1.1
    assert held < few_held * 1.1
    assert peak < 150 * len(FLEET) * len(survey.intolerant) * 2


def test_each_set_of_tolerations_is_judged_once() -> None:
    count = 20_000
    surveyor = Surveyor([a_fleet_question()])
    pods = list(many_pods(count))
    began = time.perf_counter()
    for pod in pods:
        surveyor.see(pod)
    print(f"{(time.perf_counter() - began) / count * 1e6:.1f} µs per pod")
    judged = surveyor._judge_once.cache_info()
    assert (judged.misses, judged.hits) == (len(SETS), count - len(SETS))


def test_the_sets_that_are_kept_are_bounded_in_number_and_in_size() -> None:
    surveyor = Surveyor([a_question(NO_EXECUTE)])
    for number in range(1000):
        surveyor.see(a_pod(tolerations=(Toleration("os", "Exists", seconds=number),)))
        surveyor.see(a_pod(tolerations=tuple(Toleration(f"{number}-{each}") for each in range(33))))
    judged = surveyor._judge_once.cache_info()
    assert judged.maxsize is not None
    assert judged.currsize == judged.maxsize <= 256
    assert judged.misses == 1000, "long sets are not kept at all"
    survey = surveyor.finish(started=NOON, finished=LATER)["uid-of-win"]
    assert pods_of(intolerant(survey)) == 2000
