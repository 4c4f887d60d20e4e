"""Which pods leave a node that is drained, in which order, what keeps them, and when it is drained.

The rows of the parity table are those of ``kubectl drain`` (pkg/drain of k8s.io/kubectl 1.37), the rules
those of the rollout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from harness.builders import NOON, a_node
from harness.evicting import a_pod
from winpool.api.keys import NAMESPACE
from winpool.api.upgrade import Drain
from winpool.features.upgrade.drain import (
    CLASSIFIED,
    Blocker,
    DrainBlock,
    DrainProgress,
    DrainView,
    drain,
    preflight,
)
from winpool.model.budgets import BudgetHealth, BudgetRoom
from winpool.model.node import Eviction, Node, NodeVersions
from winpool.model.node_pods import Answer, Answered, NodePods
from winpool.model.pods import Pod

READ_AT: Final = 1000.0
SECOND: Final = timedelta(seconds=1)
CORDONED: Final = a_node("w1", unschedulable=True)

WEB: Final = BudgetRoom("shop/web", allowed=1, health=BudgetHealth(3, 2, 3, is_current=True))
"""A budget of three pods, one of which may go."""
CLOSED: Final = replace(WEB, allowed=0, health=replace(WEB.health, healthy=2))
NEVER: Final = replace(WEB, allowed=0, health=BudgetHealth(3, 3, 3, is_current=True))

DENIED: Final = (
    'create pods/eviction shop/web: 403 admission webhook "drain.strimzi.io" denied the request: not now'
)
OF_BUDGET: Final = (
    "create pods/eviction shop/web: 429 Cannot evict pod as it would violate the pod's disruption budget. "
    "The disruption budget web needs 2 healthy pods and has 2 currently"
)
UNSEEN: Final = (
    "create pods/eviction shop/web: 429 Cannot evict pod as it would violate the pod's disruption budget. "
    "The disruption budget web is still being processed by the server."
)
SEVERAL: Final = (
    "create pods/eviction shop/web: 500 This pod has more than one PodDisruptionBudget, which the eviction "
    "subresource does not support."
)
ENDING: Final = (
    'create pods/eviction shop/web: 403 pods "web" is forbidden: unable to create new content in namespace '
    "shop because it is being terminated"
)
NO_WEBHOOK: Final = (
    'create pods/eviction shop/web: 500 Internal error occurred: failed calling webhook "x.example.com": EOF'
)
A_POLICY: Final = (
    "create pods/eviction shop/web: 422 ValidatingAdmissionPolicy 'keep' with binding 'all' denied request"
)


def web(name: str = "web", **more: Any) -> Pod:
    """Return a Ready pod of a ReplicaSet; ``more`` may name parts of its ``EvictionFacts`` too."""
    return a_pod(name, **({"is_ready": True, "controller": "web"} | more))


def a_view(
    *pods: Pod,
    answers: Mapping[str, Answered] | None = None,
    rooms: Mapping[str, Sequence[BudgetRoom]] | None = None,
    listed_ago: float = 1.0,
    cordoned_ago: float = 60.0,
    node: Node = CORDONED,
    budgets: bool = True,
    **more: Any,
) -> DrainView:
    """Return what is known of a node with ``pods``; answers and rooms are by the names of pods."""
    listed = NodePods(
        started=NOON - listed_ago * SECOND,
        began=READ_AT - listed_ago,
        pods=pods,
        blocked=frozenset() if budgets else None,
        budgets={f"uid-{name}": tuple(each) for name, each in (rooms or {}).items()},
        budgets_began=READ_AT - listed_ago,
    )
    return DrainView(
        node=node,
        cordoned_at=NOON - cordoned_ago * SECOND,
        pods=replace(listed, **more),
        answers={f"uid-{name}": each for name, each in (answers or {}).items()},
        now=NOON,
        read_at=READ_AT,
    )


def a_spec(*rules: Mapping[str, Any], **more: Any) -> Drain:
    return Drain.model_validate({"rules": list(rules), **more})


def answered(answer: Answer, *, ago: float = 0.5, **more: Any) -> Answered:
    return Answered(answer, READ_AT - ago, **more)


def refused(said: str, *, times: int = 1, ago: float = 0.5) -> Answered:
    return answered(Answer.REFUSED, ago=ago, said=said, times=times)


def names(progress: DrainProgress) -> list[str]:
    return [each.name for each in progress.evictions]


def whys(blockers: Sequence[Blocker]) -> dict[str, DrainBlock]:
    return {each.pod.partition("/")[2]: each.why for each in blockers}


def seconds_to_list(progress: DrainProgress) -> float | None:
    return None if progress.list_at is None else (progress.list_at - NOON).total_seconds()


# Parity with kubectl drain.


@dataclass(frozen=True)
class Row:
    """A pod ``web`` that may go is beside the others. What is expected is by the names of pods."""

    name: str
    pods: tuple[Pod, ...]
    spec: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Answered] = field(default_factory=dict)
    evicted: tuple[str, ...] = ("web",)
    leaving: tuple[str, ...] = ("web",)
    blockers: Mapping[str, DrainBlock] = field(default_factory=dict)


BARE: Final[Mapping[str, Any]] = {"controller_kind": "", "controller": ""}
AGENT: Final[Mapping[str, Any]] = {"controller_kind": "DaemonSet", "controller": "agent"}
GONE_AT: Final = NOON + 20 * SECOND
BOTH: Final = ("other", "web")

PARITY: Final = (
    Row(
        "one classification error: no pod is evicted, and the node stays cordoned",
        (web("other", **BARE),),
        evicted=(),
        leaving=BOTH,
        blockers={"other": DrainBlock.UNMANAGED},
    ),
    Row(
        "filter order: a pod that is being deleted comes before the error of no controller",
        (web("other", is_terminating=True, ends=GONE_AT, **BARE),),
        leaving=BOTH,
    ),
    Row(
        "filter order: a DaemonSet comes before the error of emptyDir",
        (web("other", is_local=True, **AGENT),),
        {"emptyDirPods": "Block"},
    ),
    Row(
        "filter order: a mirror pod comes before the errors of emptyDir and of no controller",
        (web("other", is_local=True, is_mirror=True, **BARE),),
        {"emptyDirPods": "Block"},
    ),
    Row(
        "several errors: all pods are named, not the last one only",
        (web("a", is_local=True), web("b", **BARE)),
        {"emptyDirPods": "Block"},
        evicted=(),
        leaving=("a", "b", "web"),
        blockers={"a": DrainBlock.EMPTY_DIR, "b": DrainBlock.UNMANAGED},
    ),
    Row("DaemonSet pod, live: skipped, never deleted", (web("other", **AGENT),)),
    Row(
        "DaemonSet pod, finished: not in the way; it is left, not removed",
        (web("other", is_finished=True, **AGENT),),
    ),
    Row("DaemonSet pod, owner missing: left to the garbage collector", (web("other", **AGENT),)),
    Row("mirror pod: silently skipped", (web("other", is_mirror=True, controller_kind="Node"),)),
    Row(
        "emptyDir without --delete-emptydir-data: error",
        (web("other", is_local=True),),
        {"emptyDirPods": "Block"},
        evicted=(),
        leaving=BOTH,
        blockers={"other": DrainBlock.EMPTY_DIR},
    ),
    Row(
        "emptyDir with --delete-emptydir-data: evicted",
        (web("other", is_local=True),),
        {"emptyDirPods": "Evict"},
        evicted=BOTH,
        leaving=BOTH,
    ),
    Row(
        "no controllerRef without --force: error",
        (web("other", **BARE),),
        {"unmanagedPods": "Block"},
        evicted=(),
        leaving=BOTH,
        blockers={"other": DrainBlock.UNMANAGED},
    ),
    Row(
        "no controllerRef with --force: evicted",
        (web("other", **BARE),),
        {"unmanagedPods": "Evict"},
        evicted=BOTH,
        leaving=BOTH,
    ),
    Row(
        "any controllerRef counts as managed",
        (web("other", controller_kind="Foo"),),
        evicted=BOTH,
        leaving=BOTH,
    ),
    Row(
        "finished pods: always removable, so never in the way; they are left, not removed",
        (web("other", is_finished=True, is_local=True, **BARE),),
        {"emptyDirPods": "Block"},
    ),
    Row(
        "evict 404: success, it is not asked for again",
        (web("other"),),
        answers={"other": answered(Answer.GONE)},
        leaving=BOTH,
    ),
    Row(
        "429 of a budget: asked again later, and the others continue",
        (web("other"),),
        answers={"other": refused(OF_BUDGET)},
        leaving=BOTH,
        blockers={"other": DrainBlock.BUDGET},
    ),
    Row("429 of flow control: it is no answer about the pod", (web("other"),), evicted=BOTH, leaving=BOTH),
    Row(
        "403 namespace terminating, the pod is being deleted: waited for",
        (web("other", is_terminating=True, ends=GONE_AT),),
        answers={"other": refused(ENDING)},
        leaving=BOTH,
    ),
    Row(
        "403 namespace terminating, the pod is not: asked again later",
        (web("other"),),
        answers={"other": refused(ENDING, ago=6)},
        evicted=("web", "other"),
        leaving=BOTH,
        blockers={"other": DrainBlock.NAMESPACE_TERMINATING},
    ),
    Row(
        "any other answer, such as two budgets: the others continue",
        (web("other"),),
        answers={"other": refused(SEVERAL)},
        leaving=BOTH,
        blockers={"other": DrainBlock.TWO_BUDGETS},
    ),
    Row(
        "waiting: another UID under the same name is another pod",
        (web("other", uid="uid-new"),),
        answers={"other": answered(Answer.ACCEPTED)},
        evicted=BOTH,
        leaving=BOTH,
    ),
    Row(
        "waiting: an accepted eviction is not asked for again",
        (web("other"),),
        answers={"other": answered(Answer.ACCEPTED)},
        leaving=BOTH,
    ),
)


@pytest.mark.parametrize("row", PARITY, ids=lambda row: row.name)
def test_parity_with_kubectl_drain(row: Row) -> None:
    progress = drain(a_view(*row.pods, web(), answers=row.answers), a_spec(**row.spec))
    assert tuple(names(progress)) == row.evicted
    assert tuple(each.name for each in progress.leaving) == row.leaving
    assert whys(progress.blockers) == row.blockers
    assert not progress.is_drained


def test_parity_the_cordon_comes_first_and_no_pod_is_evicted_before_it() -> None:
    progress = drain(a_view(web(), node=a_node("w1")), a_spec())
    assert (names(progress), progress.is_drained, progress.list_at) == ([], False, None)


def test_parity_a_dry_run_evicts_nothing() -> None:
    assert preflight(a_view(web()), a_spec()) == ()


def test_an_eviction_names_the_uid_and_the_node_and_has_nothing_of_memory() -> None:
    [eviction] = drain(a_view(web()), a_spec()).evictions
    assert (eviction.namespace, eviction.uid, eviction.node) == ("shop", "uid-web", "w1")
    assert (eviction.node_uid, eviction.share, eviction.premise, eviction.budget) == ("", None, None, "")


def test_with_force_at_the_deadline_the_others_leave_in_time() -> None:
    """They would be deleted at the deadline, without their budgets being asked."""
    spec = a_spec(onTimeout="Force")
    assert names(drain(a_view(web(), web("bare", **BARE)), spec)) == ["web"]


def test_no_pod_of_the_own_namespace_is_evicted() -> None:
    own = web("own", namespace=NAMESPACE)
    progress = drain(a_view(own), a_spec())
    assert (names(progress), whys(progress.blockers)) == ([], {"own": DrainBlock.OWN_NAMESPACE})
    assert names(drain(a_view(own), a_spec(), own_namespace="elsewhere")) == ["own"]
    skipped = a_spec({"name": "own", "namespaces": [NAMESPACE], "behavior": "Skip"})
    assert drain(a_view(own), skipped).is_drained


# Rules of the pool.


def test_the_first_rule_that_matches_decides() -> None:
    batch = {"podSelector": {"matchLabels": {"tier": "batch"}}}
    spec = a_spec(
        {"name": "wait", "namespaces": ["shop"], **batch, "behavior": "WaitCompleted"},
        {"name": "skip", "namespaces": ["shop"], "behavior": "Skip"},
    )
    pods = (
        web("job", labels={"tier": "batch"}),
        web("kept"),
        web("moves", namespace="other", labels={"tier": "batch"}),
    )
    progress = drain(a_view(*pods), spec)
    assert [each.name for each in progress.leaving] == ["job", "moves"]
    assert names(progress) == ["moves"]
    [blocker] = progress.blockers
    assert (blocker.why, blocker.is_permanent) == (DrainBlock.RULE_WAITS, False)
    assert '"wait"' in blocker.message


def test_a_node_with_none_but_pods_that_stay_is_drained() -> None:
    spec = a_spec({"name": "skip", "podSelector": {"matchLabels": {"app": "x"}}, "behavior": "Skip"})
    stays = (
        web("a", labels={"app": "x"}),
        web("b", **AGENT),
        web("c", is_mirror=True),
        web("d", is_finished=True),
    )
    progress = drain(a_view(*stays), spec)
    assert (progress.is_drained, progress.list_at, progress.leaving) == (True, None, ())


def test_pods_of_a_higher_order_wait_until_those_of_a_lower_are_gone() -> None:
    spec = a_spec(
        {"name": "first", "podSelector": {"matchLabels": {"app": "front"}}, "order": -5},
        {"name": "last", "podSelector": {"matchLabels": {"app": "db"}}, "order": 7},
        {"name": "ends", "podSelector": {"matchLabels": {"app": "job"}}, "behavior": "WaitCompleted"},
    )
    db, plain, front = web("db", labels={"app": "db"}), web("plain"), web("front", labels={"app": "front"})
    ending = structs.replace(front, is_terminating=True)
    job = web("job", labels={"app": "job"})
    assert names(drain(a_view(db, plain, front, job), spec)) == ["front"]
    assert names(drain(a_view(db, plain, ending, job), spec)) == []
    assert names(drain(a_view(db, plain, job), spec)) == ["plain"]
    assert names(drain(a_view(db, job), spec)) == ["db"]


# Answers (rule 1).


@pytest.mark.parametrize(
    ("said", "why", "is_permanent", "named"),
    [
        (DENIED, DrainBlock.WEBHOOK, False, "admission webhook drain.strimzi.io"),
        (NO_WEBHOOK, DrainBlock.WEBHOOK, False, "admission webhook x.example.com"),
        (A_POLICY, DrainBlock.WEBHOOK, False, "admission policy keep"),
        (
            'create pods/eviction shop/web: 429 admission webhook "x" denied the request: disruption budget',
            DrainBlock.WEBHOOK,
            False,
            "admission webhook x ",
        ),
        (SEVERAL, DrainBlock.TWO_BUDGETS, True, "more than one"),
        (ENDING, DrainBlock.NAMESPACE_TERMINATING, False, "namespace shop"),
        (OF_BUDGET, DrainBlock.BUDGET, False, "needs 2 healthy pods and has 2"),
        (
            'create pods/eviction shop/web: 403 pods "web" is forbidden: pdb disruptions allowed is negative',
            DrainBlock.BUDGET,
            False,
            "negative",
        ),
        ("create pods/eviction shop/web: 500 boom", DrainBlock.REFUSED, False, "again: boom"),
    ],
)
def test_rule_1_an_answer_is_classified_and_only_two_budgets_are_permanent(
    said: str, why: DrainBlock, is_permanent: bool, named: str
) -> None:
    [blocker] = drain(a_view(web(), answers={"web": refused(said)}), a_spec()).blockers
    assert (blocker.pod, blocker.why, blocker.is_permanent) == ("shop/web", why, is_permanent)
    assert named in blocker.message


def test_rule_1_a_budget_that_the_server_has_not_processed_yet_is_no_blocker() -> None:
    assert drain(a_view(web(), answers={"web": refused(UNSEEN)}), a_spec()).blockers == ()


@pytest.mark.parametrize(("times", "pause"), [(1, 5), (2, 10), (3, 20), (4, 20), (5000, 20)])
def test_rule_1_a_refused_pod_is_asked_for_again_after_5_seconds_doubling_to_20(
    times: int, pause: int
) -> None:
    early = refused(DENIED, times=times, ago=pause - 0.5)
    progress = drain(a_view(web(), answers={"web": early}, listed_ago=6), a_spec())
    assert (names(progress), seconds_to_list(progress)) == ([], 0.5)
    late = refused(DENIED, times=times, ago=pause)
    assert names(drain(a_view(web(), answers={"web": late}), a_spec())) == ["web"]


def test_rule_1_a_webhook_that_speaks_of_budgets_is_asked_again_after_its_pause() -> None:
    denied = refused(DENIED + ": its disruption budget is used up", times=2, ago=6)
    assert names(drain(a_view(web(), answers={"web": denied}), a_spec())) == []


def test_rule_1_a_webhook_remains_named_while_its_pod_is_asked_for_again() -> None:
    again = answered(Answer.ASKED, said=DENIED, times=3)
    progress = drain(a_view(web(), answers={"web": again}), a_spec())
    assert whys(progress.blockers) == {"web": DrainBlock.WEBHOOK}


def test_a_pod_that_is_not_answered_is_asked_for_again_only_when_a_list_shows_that_it_stayed() -> None:
    def asked_again(*, asked_ago: float, listed_ago: float) -> bool:
        view = a_view(web(), answers={"web": answered(Answer.ASKED, ago=asked_ago)}, listed_ago=listed_ago)
        return bool(drain(view, a_spec()).evictions)

    assert not asked_again(asked_ago=1, listed_ago=0)
    assert not asked_again(asked_ago=80, listed_ago=25)
    assert asked_again(asked_ago=80, listed_ago=20)


def test_a_pod_that_is_gone_by_an_answer_is_asked_for_where_a_newer_list_has_it() -> None:
    gone = answered(Answer.GONE, ago=5, node_uid="uid-of-w1")
    assert names(drain(a_view(web(), answers={"web": gone}, listed_ago=9), a_spec())) == []
    assert names(drain(a_view(web(), answers={"web": gone}, listed_ago=1), a_spec())) == ["web"]
    elsewhere = replace(gone, node_uid="uid-of-w2")
    assert names(drain(a_view(web(), answers={"web": elsewhere}, listed_ago=9), a_spec())) == ["web"]


def test_a_long_answer_is_cut() -> None:
    [blocker] = drain(a_view(web(), answers={"web": refused(DENIED + " x" * 500)}), a_spec()).blockers
    assert len(blocker.message) < 400


# Budgets (rules 1 and 3).


def three(*, room: BudgetRoom, **more: Any) -> DrainView:
    pods = [web(name) for name in ("a", "b", "c")]
    return a_view(*pods, rooms={each.name: [room] for each in pods}, **more)


def test_a_pod_behind_a_budget_that_allows_nothing_is_not_asked_for() -> None:
    progress = drain(three(room=CLOSED), a_spec())
    assert names(progress) == []
    assert set(whys(progress.blockers).values()) == {DrainBlock.BUDGET}
    assert "shop/web allows no eviction now: 2 of its 3 pods are healthy and it demands 2" in (
        progress.blockers[0].message
    )


def test_at_most_as_many_pods_of_a_budget_are_asked_for_as_it_allows() -> None:
    progress = drain(three(room=replace(WEB, allowed=2)), a_spec())
    assert names(progress) == ["a", "b"]
    assert {each.budget for each in progress.evictions} == {"shop/web"}
    assert progress.blockers == ()
    negative = replace(CLOSED, allowed=-1)
    assert names(drain(three(room=negative), a_spec())) == []


@pytest.mark.parametrize("answer", [Answer.ASKED, Answer.ACCEPTED, Answer.REFUSED])
def test_of_a_budget_no_more_is_asked_for_until_a_newer_list_whoever_took_it(answer: Answer) -> None:
    taken = answered(answer, ago=0.5, budget="shop/web")
    on_another_node = {"elsewhere": taken}
    assert names(drain(three(room=WEB, answers=on_another_node), a_spec())) == []
    older = {"elsewhere": replace(taken, at=READ_AT - 2)}
    # One that is under way may be counted later.
    expected = [] if answer is Answer.ASKED else ["a"]
    assert names(drain(three(room=WEB, answers=older), a_spec())) == expected
    other = {"elsewhere": replace(taken, budget="shop/db")}
    assert names(drain(three(room=WEB, answers=other), a_spec())) == ["a"]


def test_a_pod_that_is_gone_has_taken_from_its_budget_until_there_are_newer_budgets() -> None:
    """That it is gone may be seen long after the eviction, which the budgets have by then."""
    gone = answered(Answer.GONE, ago=0.1, budget="shop/web")
    unseen = {"elsewhere": replace(gone, asked_at=READ_AT - 0.5)}
    assert names(drain(three(room=WEB, answers=unseen), a_spec())) == []
    seen = {"elsewhere": replace(gone, asked_at=READ_AT - 2)}
    assert names(drain(three(room=WEB, answers=seen), a_spec())) == ["a"]


def test_an_eviction_that_had_no_answer_for_a_minute_takes_nothing_any_more() -> None:
    answers = {"elsewhere": answered(Answer.ASKED, ago=60, budget="shop/web")}
    assert names(drain(three(room=WEB, answers=answers), a_spec())) == ["a"]


def test_the_budgets_may_be_older_or_newer_than_the_pods() -> None:
    """All that ask within some seconds share a list of budgets."""
    taken = {"elsewhere": answered(Answer.ACCEPTED, ago=3, budget="shop/web")}
    assert names(drain(three(room=WEB, answers=taken), a_spec())) == ["a"]
    assert names(drain(three(room=WEB, answers=taken, budgets_began=READ_AT - 4), a_spec())) == []
    later = {"elsewhere": answered(Answer.ACCEPTED, ago=0.5, budget="shop/web")}
    assert names(drain(three(room=WEB, answers=later, budgets_began=READ_AT - 0.1), a_spec())) == ["a"]


def test_drains_of_several_nodes_in_one_pass_share_what_a_budget_allows() -> None:
    asked = Counter({"shop/web": 1})
    assert names(drain(three(room=WEB), a_spec(), asked=asked)) == []
    assert names(drain(three(room=replace(WEB, allowed=2)), a_spec(), asked=asked)) == ["a"]


def test_a_pod_that_a_budget_refused_is_asked_for_again_when_a_newer_list_allows_it() -> None:
    """It waits for the budget, and for no pause."""
    answers = {"web": refused(OF_BUDGET, times=5, ago=3)}
    rooms = {"web": [WEB]}
    assert names(drain(a_view(web(), rooms=rooms, answers=answers, listed_ago=4), a_spec())) == []
    assert names(drain(a_view(web(), rooms=rooms, answers=answers, listed_ago=2), a_spec())) == ["web"]


def test_a_pod_that_is_refused_again_and_again_takes_nothing_from_the_others() -> None:
    answers = {"a": refused(DENIED, times=4, ago=25)}
    assert names(drain(three(room=WEB, answers=answers), a_spec())) == ["b"]


@pytest.mark.parametrize(
    ("room", "is_ready", "goes"),
    [
        (CLOSED, True, False),
        (CLOSED, False, False),
        (replace(CLOSED, lets_unready_go=True), True, False),
        (replace(CLOSED, lets_unready_go=True), False, True),
    ],
)
def test_a_pod_that_is_not_ready_goes_where_the_policy_of_the_budget_lets_it(
    room: BudgetRoom, is_ready: bool, goes: bool
) -> None:
    """KEP-3017. Then it takes no disruption from the others."""
    view = a_view(web(is_ready=is_ready), rooms={"web": [room]})
    progress = drain(view, a_spec())
    assert (names(progress) == ["web"]) is goes
    assert [each.budget for each in progress.evictions] == [""] * goes


def test_a_pod_with_two_budgets_is_not_asked_for_and_both_are_named() -> None:
    view = a_view(web(), rooms={"web": [WEB, replace(WEB, name="shop/all")]})
    progress = drain(view, a_spec())
    [blocker] = progress.blockers
    assert (names(progress), blocker.why, blocker.is_permanent) == ([], DrainBlock.TWO_BUDGETS, True)
    assert "shop/web and shop/all" in blocker.message


def test_a_pod_whose_budgets_cannot_be_read_is_not_asked_for_and_that_is_not_never() -> None:
    progress = drain(a_view(web(), unread=frozenset({"uid-web"})), a_spec())
    [blocker] = progress.blockers
    assert (names(progress), blocker.why, blocker.is_permanent) == ([], DrainBlock.BUDGET_UNREAD, False)


@pytest.mark.parametrize(
    ("health", "is_permanent", "named"),
    [
        (BudgetHealth(3, 3, 3, is_current=True), True, "never"),
        (BudgetHealth(1, 4, 3, is_current=True), True, "never"),
        (BudgetHealth(3, 3, 3, is_current=False), False, "as new as its spec"),
        (BudgetHealth(3, 3, 3, is_current=True, is_settled=False), False, "now"),
        (BudgetHealth(2, 2, 3, is_current=True), False, "now"),
        (BudgetHealth(0, 0, 0, is_current=True), False, "now"),
        (BudgetHealth(2, 2, 3, is_current=True, is_failing=True), True, "SyncFailed"),
        (BudgetHealth(2, 2, 3, is_current=False, is_failing=True), False, "SyncFailed"),
    ],
)
def test_rule_3_never_is_concluded_only_from_a_budget_that_is_current_and_settled(
    health: BudgetHealth, is_permanent: bool, named: str
) -> None:
    view = a_view(web(), rooms={"web": [replace(CLOSED, health=health)]})
    [blocker] = drain(view, a_spec()).blockers
    assert (blocker.why, blocker.is_permanent) == (DrainBlock.BUDGET, is_permanent)
    assert named in blocker.message


def test_rule_3_pods_that_have_ended_never_block() -> None:
    ended = web("ended", is_finished=True)
    assert drain(a_view(ended, rooms={"ended": [NEVER]}), a_spec()).is_drained


def test_permanent_blockers_come_first() -> None:
    view = a_view(web("a"), web("b"), rooms={"a": [CLOSED], "b": [NEVER]})
    assert [each.is_permanent for each in drain(view, a_spec()).blockers] == [True, False]


# When it is drained (rules 2, 4 and P4).


def test_rule_2_a_node_is_drained_when_a_late_enough_list_has_nothing_left() -> None:
    progress = drain(a_view(), a_spec())
    assert (progress.is_drained, progress.list_at) == (True, None)


@pytest.mark.parametrize(
    ("view", "list_in"),
    [
        (replace(a_view(), pods=None), 0.0),
        (a_view(cordoned_ago=5, listed_ago=0.5), 0.0),
        (a_view(cordoned_ago=3, listed_ago=1), 2.0),
        (a_view(listed_ago=31), 0.0),
        (a_view(node=a_node("w1")), None),
    ],
    ids=["no list", "a list too soon", "a cordon too late", "an old list", "not cordoned"],
)
def test_rule_2_and_p4_without_evidence_that_is_young_enough_nothing_is_drained(
    view: DrainView, list_in: float | None
) -> None:
    progress = drain(view, a_spec())
    assert (progress.is_drained, seconds_to_list(progress)) == (False, list_in)


def test_rule_2_no_time_makes_a_node_drained() -> None:
    assert not drain(a_view(web(), cordoned_ago=1e6), a_spec()).is_drained


def test_p4_an_old_list_and_one_without_budgets_evict_nothing_and_are_made_again() -> None:
    for view in (a_view(web(), listed_ago=31), a_view(web(), budgets=False)):
        progress = drain(view, a_spec())
        assert (names(progress), seconds_to_list(progress)) == ([], 0.0)
        assert [each.name for each in progress.leaving] == ["web"]


def test_p4_a_pod_of_which_nothing_is_known_stays_and_keeps_the_node_from_being_drained() -> None:
    unknown = structs.replace(web(), eviction=None)
    progress = drain(a_view(unknown), a_spec())
    assert (names(progress), progress.is_drained) == ([], False)


@pytest.mark.parametrize(
    ("view", "list_in"),
    [
        (a_view(web()), 4.0),
        (a_view(web(), answers={"web": answered(Answer.ACCEPTED)}), 4.0),
        (a_view(web(is_terminating=True, ends=GONE_AT)), 4.0),
        (a_view(web(), rooms={"web": [CLOSED]}), 4.0),
        (a_view(web(), rooms={"web": [CLOSED]}, listed_ago=8), 0.0),
        (a_view(web(), rooms={"web": [NEVER]}), 19.0),
        (a_view(web(), answers={"web": refused(OF_BUDGET)}), 4.0),
        (a_view(web(), answers={"web": refused(DENIED, times=3)}), 19.5),
        (a_view(web(**BARE)), 19.0),
        (a_view(web(is_terminating=True, ends=NOON - 61 * SECOND)), 19.0),
        (a_view(web("a"), web("b", **BARE), answers={"a": answered(Answer.ACCEPTED)}), 4.0),
    ],
    ids=[
        "asked for now",
        "accepted",
        "ending",
        "behind a budget",
        "behind a budget for a while",
        "behind a budget for ever",
        "refused by a budget",
        "refused by a webhook",
        "blocked by the spec",
        "stuck",
        "the first that is due decides",
    ],
)
def test_the_pods_are_listed_again_when_that_may_show_something_new(view: DrainView, list_in: float) -> None:
    assert seconds_to_list(drain(view, a_spec())) == list_in


# Pods that are being deleted.


@pytest.mark.parametrize(
    ("over_for", "more", "why", "named"),
    [
        (59, {}, None, ""),
        (60, {}, DrainBlock.TERMINATING, "the kubelet has not ended it"),
        (60, {"finalizers": ("example.com/hold",)}, DrainBlock.FINALIZER, "example.com/hold"),
        (59, {"finalizers": ("example.com/hold",)}, None, ""),
    ],
)
def test_a_pod_is_stuck_60_seconds_after_its_grace(
    over_for: int, more: Mapping[str, Any], why: DrainBlock | None, named: str
) -> None:
    pod = web(is_terminating=True, ends=NOON - over_for * SECOND, **more)
    progress = drain(a_view(pod), a_spec())
    assert names(progress) == []
    assert whys(progress.blockers).get("web") == why
    assert all(named in each.message for each in progress.blockers)


def test_a_stuck_pod_on_a_node_that_is_not_ready_needs_a_person() -> None:
    stuck = web(is_terminating=True, ends=NOON - 90 * SECOND)
    [blocker] = drain(a_view(stuck, node=replace(CORDONED, ready="Unknown")), a_spec()).blockers
    assert "out-of-service" in blocker.message


def test_a_pod_whose_time_of_deletion_is_not_known_is_waited_for_and_not_called_stuck() -> None:
    progress = drain(a_view(web(is_terminating=True)), a_spec())
    assert (progress.blockers, progress.is_drained) == ((), False)


# Windows (rules 23 and 24), and gangs.


def on_kubelet(version: str) -> Node:
    return replace(CORDONED, versions=NodeVersions(kubelet=version))


@pytest.mark.parametrize(
    ("version", "mounts", "warns"),
    [
        ("v1.36.3", 2, True),
        ("v1.36.3", 1, False),
        ("v1.37.0", 2, False),
        ("v1.38.0-alpha.2", 5, False),
        ("?", 2, False),
    ],
)
def test_rule_23_several_sub_paths_are_foreseen_to_hang_before_1_37(
    version: str, mounts: int, warns: bool
) -> None:
    view = a_view(web(sub_paths=mounts), node=on_kubelet(version))
    assert (DrainBlock.SUB_PATHS in whys(preflight(view, a_spec())).values()) is warns
    assert names(drain(view, a_spec())) == ["web"]
    stuck = web(sub_paths=mounts, is_terminating=True, ends=NOON - 90 * SECOND)
    [blocker] = drain(a_view(stuck, node=on_kubelet(version)), a_spec()).blockers
    assert ("subPath" in blocker.message) is warns


def test_rule_24_a_pod_that_tolerates_the_cordon_and_came_back_is_not_evicted_again() -> None:
    def came(seconds_after_cordon: float | None, **more: Any) -> DrainProgress:
        after = None if seconds_after_cordon is None else NOON + (seconds_after_cordon - 60) * SECOND
        return drain(a_view(web(created=after, **more)), a_spec(unmanagedPods="Evict"))

    back = came(1, tolerates_cordon=True)
    [blocker] = back.blockers
    assert (names(back), blocker.why, blocker.is_permanent) == ([], DrainBlock.TOLERATES_CORDON, True)
    assert "ReplicaSet web" in blocker.message
    assert names(came(None, tolerates_cordon=True)) == [], "it may have come back"
    assert names(came(-1, tolerates_cordon=True)) == ["web"], "it was there before the cordon"
    assert names(came(1)) == ["web"], "the scheduler had not seen the cordon"
    assert names(came(1, tolerates_cordon=True, **BARE)) == ["web"], "nothing creates it again"


def test_rule_24_before_the_claim_a_pod_that_tolerates_the_cordon_is_only_warned_of() -> None:
    [blocker] = preflight(a_view(web(tolerates_cordon=True)), a_spec())
    assert (blocker.why, blocker.is_permanent) == (DrainBlock.TOLERATES_CORDON, False)


def test_members_of_a_gang_are_named() -> None:
    member = web(group="train")
    [warning] = preflight(a_view(member), a_spec())
    assert (warning.why, warning.is_permanent) == (DrainBlock.GANG, False)
    assert names(drain(a_view(member), a_spec())) == ["web"]
    [blocker] = drain(a_view(member, rooms={"web": [CLOSED]}), a_spec()).blockers
    assert "PodGroup shop/train" in blocker.message


# The preflight.


def test_the_preflight_names_what_would_block_permanent_first_and_nothing_that_stays() -> None:
    pods = (
        web("a", sub_paths=3),
        web("b", **BARE),
        web("c"),
        web("d", **AGENT, is_local=True, tolerates_cordon=True),
    )
    found = preflight(a_view(*pods, rooms={"c": [CLOSED]}, node=a_node("w1")), a_spec())
    assert [(each.why, each.is_permanent) for each in found] == [
        (DrainBlock.UNMANAGED, True),
        (DrainBlock.SUB_PATHS, False),
        (DrainBlock.BUDGET, False),
    ]


@pytest.mark.parametrize(
    ("room", "budget", "ago", "expected"),
    [
        (CLOSED, "shop/web", 59.0, []),
        (CLOSED, "shop/web", 61.0, [DrainBlock.BUDGET]),
        (CLOSED, "shop/db", 1.0, [DrainBlock.BUDGET]),
        (NEVER, "shop/web", 1.0, [DrainBlock.BUDGET]),
    ],
    ids=["by a drain", "long ago", "another", "never"],
)
def test_a_budget_that_other_drains_use_up_keeps_no_node_from_being_claimed(
    room: BudgetRoom, budget: str, ago: float, expected: list[DrainBlock]
) -> None:
    answers = {"elsewhere": answered(Answer.ACCEPTED, ago=ago, budget=budget)}
    found = preflight(a_view(web(), rooms={"web": [room]}, answers=answers), a_spec())
    assert [each.why for each in found] == expected


def test_the_preflight_warns_of_no_pod_that_is_leaving_already() -> None:
    leaving = web(sub_paths=3, group="train", is_terminating=True, ends=GONE_AT)
    assert preflight(a_view(leaving), a_spec()) == ()


def test_the_preflight_knows_nothing_without_a_list() -> None:
    assert preflight(replace(a_view(), pods=None), a_spec()) == ()


# Properties.

ROOMS: Final = (
    WEB,
    CLOSED,
    replace(WEB, name="shop/db", allowed=2),
    replace(WEB, name="shop/x", lets_unready_go=True),
)
RULES: Final = (
    {"name": "skip", "podSelector": {"matchLabels": {"app": "skip"}}, "behavior": "Skip"},
    {"name": "wait", "podSelector": {"matchLabels": {"app": "wait"}}, "behavior": "WaitCompleted"},
    {"name": "late", "podSelector": {"matchLabels": {"app": "late"}}, "order": 3},
)


@st.composite
def views(draw: st.DrawFn) -> DrainView:
    flag = st.booleans()
    pods, rooms, answers = [], {}, {}
    for place in range(draw(st.integers(0, 6))):
        name = f"p{place}"
        pods.append(
            web(
                name,
                labels={"app": draw(st.sampled_from(["skip", "wait", "late", "web"]))},
                controller_kind=draw(st.sampled_from(["ReplicaSet", "ReplicaSet", "DaemonSet", ""])),
                is_ready=draw(flag),
                is_terminating=draw(st.sampled_from([False, False, True])),
                is_finished=draw(st.sampled_from([False, False, True])),
                is_mirror=draw(st.sampled_from([False, False, True])),
                is_local=draw(flag),
                tolerates_cordon=draw(flag),
                created=draw(st.none() | st.integers(-120, 0).map(lambda ago: NOON + ago * SECOND)),
            )
        )
        rooms[name] = draw(st.lists(st.sampled_from(ROOMS), max_size=2, unique=True))
    for name in [*rooms, "elsewhere"]:
        if draw(flag):
            answers[name] = draw(
                st.builds(
                    Answered,
                    st.sampled_from(Answer),
                    st.floats(READ_AT - 100, READ_AT),
                    st.sampled_from(["", DENIED, OF_BUDGET]),
                    times=st.integers(0, 4),
                    budget=st.sampled_from(["", *(each.name for each in ROOMS)]),
                )
            )
    return a_view(
        *pods,
        rooms=rooms,
        answers=answers,
        listed_ago=draw(st.floats(0, 40)),
        cordoned_ago=draw(st.floats(0, 60)),
        node=replace(CORDONED, unschedulable=draw(st.sampled_from([True, True, False]))),
        budgets=draw(flag),
    )


SPECS: Final = st.builds(
    lambda local, bare: a_spec(*RULES, emptyDirPods=local, unmanagedPods=bare),
    st.sampled_from(["Evict", "Block"]),
    st.sampled_from(["Evict", "Block"]),
)


def stays(pod: Pod) -> bool:
    return pod.is_finished or pod.is_mirror or pod.is_of_daemon_set or pod.labels["app"] == "skip"


@given(views(), SPECS)
def test_no_pod_is_both_evicted_and_kept_and_no_budget_is_overdrawn(view: DrainView, spec: Drain) -> None:
    progress = drain(view, spec)
    assert view.pods is not None
    uids = [each.uid for each in progress.evictions]
    assert len(uids) == len(set(uids))
    assert uids == [] or (view.node.unschedulable and view.pods.has_budgets)
    assert uids == [] or not any(each.why in CLASSIFIED for each in progress.blockers)
    for uid in uids:
        pod, known = view.pods.of(uid), view.answers.get(uid)
        assert pod is not None
        assert not stays(pod)
        assert not pod.is_terminating
        assert pod.labels["app"] != "wait"
        assert known is None or known.answer is not Answer.ACCEPTED
        assert pod in progress.leaving
    for name, asked in Counter(each.budget for each in progress.evictions if each.budget).items():
        taken = sum(
            each.budget == name and each.at >= view.pods.budgets_began for each in view.answers.values()
        )
        assert asked + taken <= next(each.allowed for each in ROOMS if each.name == name)


@given(views(), SPECS)
def test_p4_only_a_young_list_that_began_late_enough_and_has_nothing_left_makes_a_node_drained(
    view: DrainView, spec: Drain
) -> None:
    progress = drain(view, spec)
    assert view.pods is not None
    left = [each for each in view.pods.pods if not stays(each)]
    assert list(progress.leaving) == left
    if progress.is_drained:
        assert left == []
        assert view.node.unschedulable
        assert view.read_at - view.pods.began <= 30
        assert view.pods.started >= view.cordoned_at + 5 * SECOND
    assert (progress.list_at is None) == (progress.is_drained or not view.node.unschedulable)
    assert progress.list_at is None or progress.list_at >= view.now


# A whole drain.


class Cluster:
    """Four nodes with six pods each, behind one budget that lets two of all be away.

    A pod ends within 8 s, and another one is Ready elsewhere 12 s after its eviction. ``refusals`` are the
    evictions that the budget did not allow.
    """

    def __init__(self) -> None:
        self.now = READ_AT
        self.pods = {f"w{node}": [web(f"w{node}-{place}") for place in range(6)] for node in range(4)}
        self.evicted: dict[str, float] = {}
        self.answers: dict[str, Answered] = {}
        self.refusals = 0
        self._budgets: tuple[float, BudgetRoom] = (-1.0, CLOSED)

    @property
    def room(self) -> BudgetRoom:
        return replace(WEB, allowed=2 - sum(at + 12 > self.now for at in self.evicted.values()))

    def view(self, name: str) -> DrainView:
        """List the pods of a node, with budgets as old as those may be that all share."""
        if self.now >= self._budgets[0] + 5:
            self._budgets = (self.now, self.room)
        began, room = self._budgets
        pods = tuple(
            structs.replace(each, is_terminating=each.uid in self.evicted)
            for each in self.pods[name]
            if self.evicted.get(each.uid, self.now) + 8 > self.now
        )
        moment = NOON + (self.now - READ_AT) * SECOND
        rooms = {each.uid: (room,) for each in pods}
        listed = NodePods(moment, self.now, pods, frozenset(), budgets=rooms, budgets_began=began)
        node = a_node(name, unschedulable=True)
        return DrainView(node, NOON - 60 * SECOND, listed, dict(self.answers), moment, self.now)

    def evict(self, eviction: Eviction) -> None:
        assert eviction.uid not in self.evicted
        self.refusals += self.room.allowed < 1
        self.evicted[eviction.uid] = self.now
        self.answers[eviction.uid] = Answered(Answer.ACCEPTED, self.now, budget=eviction.budget)


def test_nodes_are_drained_together_with_one_request_for_each_pod_and_no_refusal() -> None:
    cluster, drained = Cluster(), set[str]()
    while len(drained) < 4:
        assert cluster.now < READ_AT + 400, "it does not end"
        asked: Counter[str] = Counter()
        evictions: list[Eviction] = []
        for name in cluster.pods:
            progress = drain(cluster.view(name), a_spec(), asked=asked)
            asked.update(each.budget for each in progress.evictions)
            evictions += progress.evictions
            drained |= {name} if progress.is_drained else set()
        for each in evictions:
            cluster.evict(each)
        cluster.now += 1
    assert (len(cluster.evicted), cluster.refusals) == (24, 0)
