"""When all pods are listed, and what becomes of the answers: on a loop of virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from harness.builders import NOON, a_node, a_pool, a_taint
from harness.pods import a_pod, a_question, some_work
from harness.virtual_time import run_virtually
from winpool.controllers import pod_pass as pod_questions
from winpool.controllers.pod_pass import JITTER, LEAST_SECONDS, LONGEST_SECONDS, SHARE, PodPass
from winpool.features.contract.taints import question_of
from winpool.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    TooLarge,
    TooManyRequests,
    Unavailable,
    parse_permission,
)
from winpool.kube.pods import ListedPods
from winpool.loops import Clock
from winpool.model.budgets import Budget, BudgetIndex
from winpool.model.node import Node
from winpool.model.pods import DaemonSet, Pod, RuntimeClass, RuntimeClasses
from winpool.model.pool import Pool
from winpool.model.survey import PoolQuestion, Survey

about = pytest.approx
"""Times are sums of floats."""

PERIOD = 600.0
TAINT = "os=windows:NoExecute"

SENTENCE = (
    'pods is forbidden: User "system:serviceaccount:winpool-system:winpool" cannot list resource "pods"'
    ' in API group "" at the cluster scope'
)
EXPLAINED = (
    "system:serviceaccount:winpool-system:winpool may not list pods in the whole cluster."
    ' Add the rule {apiGroups: [""], resources: ["pods"], verbs: ["list"]}'
    " to a ClusterRole that is bound to it."
)


def forbidden() -> Forbidden:
    error = Forbidden(f"list pods: 403 {SENTENCE}", status=403, reason="Forbidden")
    error.permission = parse_permission(SENTENCE)
    return error


DOWN = Unavailable("list pods: cannot connect", reason="NoConnection")
EXPIRED = Gone("list pods: 410 too old", status=410, reason="Expired")
HUGE = TooLarge("list pods: an answer of more than 16777216 bytes")
BUSY = TooManyRequests("list pods: 429 too many", status=429, retry_after=45)


class Stage:
    """A pass on stage: pods, questions and errors as a test puts them, and when lists were made.

    ``seconds`` is how long a list takes. Errors come at its end, one after the other, until none is left.
    """

    def __init__(self, *questions: PoolQuestion) -> None:
        self.questions = questions
        self.pods = [a_pod("shop/web-1")]
        self.unreadable: frozenset[str] = frozenset()
        self.seconds = 0.5
        self.errors: list[ApiError] = []
        self.budgets: tuple[Budget, ...] = ()
        self.budget_errors: list[Exception] = []
        self.budget_lists: list[float] = []
        self.runtime_classes: RuntimeClasses = {}
        self.runtime_class_errors: list[Exception] = []
        self.runtime_class_lists: list[float] = []
        self.daemon_sets: tuple[DaemonSet, ...] = ()
        self.daemon_set_errors: list[Exception] = []
        self.daemon_set_lists: list[float] = []
        self.with_work: list[set[str]] = []
        self.lists: list[float] = []
        self.surveyed: list[float] = []
        self.on_list: Callable[[], None] = lambda: None
        self.on_surveyed: Callable[[], None] = lambda: None
        self.begun = asyncio.get_running_loop().time()
        self.passes = PodPass(
            list_pods=self._list,
            list_budgets=self._list_budgets,
            list_runtime_classes=self._list_runtime_classes,
            list_daemon_sets=self._list_daemon_sets,
            questions=lambda: self.questions,
            on_surveyed=self._surveyed,
            period_seconds=PERIOD,
            clock=Clock(
                now=lambda: NOON + timedelta(seconds=self.time()), monotonic=asyncio.get_running_loop().time
            ),
        )

    def time(self) -> float:
        """Seconds since the beginning."""
        return asyncio.get_running_loop().time() - self.begun

    async def _list_budgets(self) -> BudgetIndex:
        self.budget_lists.append(self.time())
        if self.budget_errors:
            raise self.budget_errors.pop(0)
        return BudgetIndex(self.budgets)

    async def _list_runtime_classes(self) -> RuntimeClasses:
        self.runtime_class_lists.append(self.time())
        if self.runtime_class_errors:
            raise self.runtime_class_errors.pop(0)
        return self.runtime_classes

    async def _list_daemon_sets(self) -> tuple[DaemonSet, ...]:
        self.daemon_set_lists.append(self.time())
        if self.daemon_set_errors:
            raise self.daemon_set_errors.pop(0)
        return self.daemon_sets

    async def _list(self, *, see: Callable[[Pod], None], with_work: Collection[str]) -> ListedPods:
        self.lists.append(self.time())
        self.with_work.append(set(with_work))
        self.on_list()
        for pod in self.pods:
            see(pod)
        await asyncio.sleep(self.seconds)
        if self.errors:
            raise self.errors.pop(0)
        return ListedPods(len(self.pods), unreadable_nodes=self.unreadable)

    def _surveyed(self) -> None:
        self.surveyed.append(self.time())
        self.on_surveyed()

    async def play(self, seconds: float) -> None:
        """Let the pass run for so long, from its beginning."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.passes.run()

    def survey(self, pool_uid: str = "uid-of-win") -> Survey:
        """Return the last survey for that pool."""
        survey = self.passes.survey_of(pool_uid)
        assert survey is not None
        return survey

    def count(self, pool_uid: str = "uid-of-win") -> int:
        """Return how many pods the last survey found intolerant."""
        found = self.survey(pool_uid).intolerant_of(a_taint(TAINT))
        assert found is not None
        return sum(each.pods for each in found.on_nodes.values())


def played(scene: Callable[[Stage], Awaitable[None]], *questions: PoolQuestion) -> None:
    """Play ``scene``; without ``questions`` there is one pool."""

    async def main() -> None:
        await scene(Stage(*(questions or (a_question(TAINT),))))

    run_virtually(main())


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def test_pods_are_listed_at_the_start_and_then_once_in_a_period() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.passes.survey_of("uid-of-win") is None
        await stage.play(3600)
        assert stage.lists[0] == 0
        assert len(stage.lists) == 6
        assert all(PERIOD <= gap <= PERIOD * (1 + JITTER) + 5 * stage.seconds for gap in gaps(stage.lists))
        assert stage.surveyed == about([begun + stage.seconds for begun in stage.lists])

    played(scene)


def test_a_survey_says_when_it_was_made_and_the_numbers_when_the_last_one_was() -> None:
    async def scene(stage: Stage) -> None:
        stage.seconds = 20
        stage.pods = [a_pod("shop/web-1"), a_pod("shop/web-2", node="linux-1")]
        await stage.play(30)
        survey = stage.survey()
        assert (survey.started, survey.finished) == (NOON, NOON + timedelta(seconds=20))
        assert stage.count() == 1
        stats = stage.passes.stats
        assert stats.passes == {"Success": 1}
        assert (stats.seconds, stats.pods) == (20, 2)
        assert datetime.fromtimestamp(stats.finished, NOON.tzinfo) == survey.finished
        assert stage.passes.problem == stage.passes.forbidden == ""

    played(scene)


def test_each_pool_has_its_own_survey() -> None:
    async def scene(stage: Stage) -> None:
        stage.pods = [a_pod("shop/web-1", node="w1"), a_pod("shop/web-2", node="w2")]
        await stage.play(1)
        assert (stage.count("red"), stage.count("both")) == (1, 2)
        assert stage.passes.survey_of("another") is None

    played(scene, a_question(TAINT, nodes=["w1"], pool_uid="red"), a_question(TAINT, pool_uid="both"))


def test_nodes_with_pods_that_cannot_be_read_are_not_covered() -> None:
    async def scene(stage: Stage) -> None:
        stage.unreadable = frozenset({"w1"})
        await stage.play(1)
        survey = stage.survey()
        assert [survey.covers(a_node(name)) for name in ("w1", "w2")] == [False, True]

    played(scene)


def test_without_pools_no_pods_are_listed_and_with_the_first_they_are_when_asked() -> None:
    async def scene(stage: Stage) -> None:
        questions, stage.questions = stage.questions, ()
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.play(7000))
            await asyncio.sleep(5000)
            assert stage.lists == []
            stage.questions = questions
            stage.passes.ask()
            await asyncio.sleep(1)
            assert stage.lists == about([5000])
            stage.questions = ()
            stage.passes.ask()
            await asyncio.sleep(100)
            assert stage.passes.survey_of("uid-of-win") is None, "of pools that are gone nothing is kept"
        assert stage.lists == about([5000])

    played(scene)


@pytest.mark.parametrize(
    ("seconds", "pause"), [(0.0, LEAST_SECONDS), (0.1, LEAST_SECONDS), (10.0, SHARE * 10)]
)
def test_however_many_ask_there_are_pauses(seconds: float, pause: float) -> None:
    async def scene(stage: Stage) -> None:
        def ask_for_something_else() -> None:
            [question] = stage.questions
            stage.questions = (replace(question, generation=question.generation + 1),)
            stage.passes.ask()

        stage.seconds = seconds
        stage.on_list = stage.on_surveyed = ask_for_something_else
        await stage.play(500)
        assert gaps(stage.lists) == about([seconds + pause] * (len(stage.lists) - 1))
        assert len(stage.lists) >= 500 // (seconds + pause)

    played(scene)


def test_who_asks_the_very_same_again_and_again_is_answered_later_and_later() -> None:
    async def scene(stage: Stage) -> None:
        stage.seconds = 0.0
        stage.on_surveyed = stage.passes.ask
        await stage.play(130)
        assert gaps(stage.lists) == about([1, 2, 4, 8, 16, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS])
        [question] = stage.questions
        stage.questions = (replace(question, nodes={**question.nodes, "w9": "uid-of-w9"}),)
        stage.lists.clear()
        await stage.play(10)
        assert gaps(stage.lists) == about([1, 2, 4]), "a node that joins is looked at anew"

    played(scene)


def test_asked_for_long_after_the_last_pass_it_is_made_at_once() -> None:
    async def scene(stage: Stage) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.play(400))
            await asyncio.sleep(300)
            stage.passes.ask()
            stage.passes.ask()
        assert stage.lists == about([0, 300])

    played(scene)


def test_a_question_that_changes_during_a_pass_is_answered_by_the_next() -> None:
    async def scene(stage: Stage) -> None:
        stage.seconds = 10

        def change() -> None:
            if len(stage.lists) == 1:
                stage.questions = (a_question(TAINT, generation=8),)
                stage.passes.ask()

        stage.on_list = change
        generations: list[int] = []
        stage.on_surveyed = lambda: generations.append(stage.survey().generation)
        await stage.play(300)
        assert generations == [7, 8]
        assert stage.lists == about([0, 50])

    played(scene)


def test_a_pass_that_fails_says_nothing_and_the_last_survey_stands_with_its_time() -> None:
    async def scene(stage: Stage) -> None:
        def change() -> None:
            if len(stage.surveyed) == 1:
                stage.pods = [a_pod("shop/web-1"), a_pod("shop/web-2")]
                stage.errors = [EXPIRED]

        stage.on_surveyed = change
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.play(400))
            await asyncio.sleep(300)
            stage.passes.ask()
            await asyncio.sleep(1)
            assert stage.survey().finished == NOON + timedelta(seconds=0.5)
            assert stage.count() == 1
            assert stage.passes.problem == str(EXPIRED)
        assert stage.count() == 2
        assert stage.passes.problem == ""
        assert stage.passes.stats.passes == {"Success": 2, "Error": 1}

    played(scene)


def test_a_pool_without_any_survey_is_told_why_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors = [DOWN] * 5
        problems: list[str] = []
        stage.on_surveyed = lambda: problems.append(stage.passes.problem)
        await stage.play(200)
        assert problems == [str(DOWN), ""]
        assert stage.passes.stats.passes == {"Error": 5, "Success": 1}

    played(scene)


def test_pauses_after_errors_grow_and_end_with_them() -> None:
    async def scene(stage: Stage) -> None:
        stage.seconds = 0
        stage.errors = [DOWN] * 20
        await stage.play(3000)
        pauses = gaps(stage.lists[:21])
        assert len(pauses) == 20
        assert all(0.5 <= pause <= 30 for pause in pauses)
        assert min(pauses[6:]) >= 15
        assert gaps(stage.lists[20:])[0] >= PERIOD

    played(scene)


def test_a_list_that_fails_at_its_end_is_not_repeated_sooner_than_one_that_does_not() -> None:
    async def scene(stage: Stage) -> None:
        stage.seconds = 60
        stage.errors = [EXPIRED, HUGE]
        await stage.play(700)
        assert gaps(stage.lists) == about([300, 300])

    played(scene)


def test_the_api_server_is_left_alone_for_as_long_as_it_asks() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors = [BUSY]
        await stage.play(100)
        assert gaps(stage.lists) == about([45.5])

    played(scene)


def test_asking_does_not_shorten_the_pause_after_an_error() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors = [BUSY]
        async with asyncio.TaskGroup() as group:
            group.create_task(stage.play(500))
            await asyncio.sleep(5)
            stage.passes.ask()
        assert gaps(stage.lists) == about([45.5]), "and one pass answers what was asked and what had failed"

    played(scene)


def test_a_missing_right_is_told_with_the_rule_that_gives_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.errors = [forbidden(), DOWN, BUSY, forbidden()]
        told: list[tuple[str, str]] = []
        stage.on_surveyed = lambda: told.append((stage.passes.problem, stage.passes.forbidden))
        await stage.play(200)
        assert told == [(EXPLAINED, EXPLAINED), ("", "")]

    played(scene)


@pytest.mark.parametrize("error", [EXPIRED, HUGE])
def test_a_right_that_was_given_is_not_missed_any_more_though_the_list_fails(error: ApiError) -> None:
    async def scene(stage: Stage) -> None:
        stage.errors = [forbidden(), error]
        told: list[tuple[str, str]] = []
        stage.on_surveyed = lambda: told.append((stage.passes.problem, stage.passes.forbidden))
        await stage.play(100)
        assert told[1] == (str(error), "")

    played(scene)


def test_an_outage_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        stage.errors = [DOWN] * 7
        await stage.play(250)

    with caplog.at_level(logging.INFO):
        played(scene)
    first, last = [record.getMessage() for record in caplog.records if record.name.startswith("winpool")]
    assert first == f"pods: {DOWN}; the operator tries again"
    assert last.startswith("pods: recovered after ")


# Bugs


def test_a_pool_whose_question_raises_keeps_no_other_from_being_surveyed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(pool: Pool, nodes: Iterable[Node], *, now: datetime) -> PoolQuestion | None:
        if pool.name == "bad":
            raise OverflowError("date value out of range")
        return question_of(pool, nodes, now=now)

    monkeypatch.setattr(pod_questions, "question_of", broken)
    asked, pools = pod_questions.Questions(), [a_pool("bad"), a_pool("good")]
    for _ in range(3):
        assert [each.pool_uid for each in asked.of(pools, [a_node()], now=NOON)] == ["uid-of-good"]
    told = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(told) == 1
    assert told[0].startswith("pool bad: its question about pods failed (OverflowError: ")


def test_a_pass_that_raises_is_a_failed_one_and_the_next_is_made() -> None:
    def broken() -> None:
        if len(stage.lists) == 1:
            raise OverflowError("date value out of range")

    stage: Stage

    async def scene(played: Stage) -> None:
        nonlocal stage
        stage = played
        stage.on_list = broken
        await stage.play(60)
        assert stage.passes.stats.passes == {"Error": 1, "Success": 1}
        assert stage.passes.problem == ""
        assert stage.count() == 1

    played(scene)


# DaemonSets

AGENT = DaemonSet("kube-system/agent", (("os", "windows"),))
NO_DAEMON_SETS = (
    'daemonsets.apps is forbidden: User "system:serviceaccount:winpool-system:winpool" cannot'
    ' list resource "daemonsets" in API group "apps" at the cluster scope'
)


def test_daemon_sets_are_listed_once_beside_each_list_of_pods_of_a_pool_with_taints() -> None:
    async def scene(stage: Stage) -> None:
        stage.daemon_sets = (AGENT,)
        await stage.play(3600)
        assert stage.daemon_set_lists == stage.lists
        found = stage.survey().intolerant_of(a_taint(TAINT))
        assert found is not None
        assert ({*found.kept_away}, {*found.kept_away_from}) == ({AGENT.name}, {"w1"})
        stage.questions = (a_question(),)
        await stage.play(1200)
        assert len(stage.daemon_set_lists) < len(stage.lists)

    played(scene, a_question(TAINT, labels={"w1": {"os": "windows"}, "w2": {}}))


def test_daemon_sets_that_cannot_be_listed_fail_no_pass_and_those_from_before_count() -> None:
    async def scene(stage: Stage) -> None:
        error = Forbidden(f"list daemonsets: 403 {NO_DAEMON_SETS}", status=403, reason="Forbidden")
        error.permission = parse_permission(NO_DAEMON_SETS)
        stage.daemon_sets = (AGENT,)
        await stage.play(1)
        stage.daemon_set_errors = [error, DOWN]
        for _ in range(2):
            stage.passes.ask()
            await stage.play(3)
            found = stage.survey().intolerant_of(a_taint(TAINT))
            assert found is not None
            assert found.kept_away == {AGENT.name}
            assert "may not list daemonsets.apps" in stage.passes.daemon_sets.forbidden
        stage.passes.ask()
        await stage.play(5)
        assert stage.passes.daemon_sets.forbidden == ""
        assert dict(stage.passes.stats.passes) == {"Success": 4}

    played(scene, a_question(TAINT, labels={"w1": {"os": "windows"}}))


# Workloads and PodDisruptionBudgets


def worker(full_name: str = "shop/web-1") -> Pod:
    return a_pod(full_name, labels={"app": "web"}, work=some_work())


def test_where_no_pool_asks_for_workloads_no_budgets_and_runtime_classes_are_listed() -> None:
    async def scene(stage: Stage) -> None:
        await stage.play(3600)
        assert len(stage.lists) == 6
        assert stage.budget_lists == stage.runtime_class_lists == []
        assert stage.with_work == [set()] * 6
        assert stage.survey().workloads is None

    played(scene)


def test_where_one_does_they_are_listed_once_with_each_list_of_pods() -> None:
    async def scene(stage: Stage) -> None:
        stage.pods = [worker()]
        stage.budgets = (Budget("shop", "web", labels={"app": "web"}),)
        await stage.play(3600)
        assert stage.budget_lists == stage.lists
        assert stage.runtime_class_lists == about([each + stage.seconds for each in stage.lists])
        assert stage.with_work == [{"w1", "w2"}] * 6
        workloads = stage.survey("asks").workloads
        assert workloads is not None
        assert (workloads["w1"].budgets_known, workloads["w1"].blocked) == (True, 1)
        assert stage.survey("other").workloads is None

    asks = a_question(TAINT, pool_uid="asks", workloads=True)
    played(scene, asks, a_question(TAINT, nodes=["w7"], pool_uid="other"))


SAID = (
    'poddisruptionbudgets.policy is forbidden: User "system:serviceaccount:winpool-system:winpool" cannot'
    ' list resource "poddisruptionbudgets" in API group "policy" at the cluster scope'
)


def no_right() -> Forbidden:
    error = Forbidden(f"list poddisruptionbudgets: 403 {SAID}", status=403, reason="Forbidden")
    error.permission = parse_permission(SAID)
    return error


@pytest.mark.parametrize(
    "error", [no_right(), DOWN, HUGE, ValueError("a bug")], ids=lambda each: type(each).__name__
)
def test_budgets_that_cannot_be_listed_fail_no_pass(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(stage: Stage) -> None:
        stage.pods = [worker()]
        stage.budget_errors = [error]
        await stage.play(1)
        workloads = stage.survey().workloads
        assert workloads is not None
        assert not workloads["w1"].budgets_known
        assert workloads["w1"].moving_pods == 1
        assert (stage.count(), stage.passes.problem, stage.passes.forbidden) == (1, "", "")
        assert dict(stage.passes.stats.passes) == {"Success": 1}
        stage.passes.ask()
        await stage.play(1)
        workloads = stage.survey().workloads
        assert workloads is not None
        assert workloads["w1"].budgets_known, "the next pass asks again"

    played(scene, a_question(TAINT, workloads=True))
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(told) == 1
    assert told[0].startswith("poddisruptionbudgets: ")


def test_the_right_to_list_budgets_is_missed_until_they_are_listed() -> None:
    async def scene(stage: Stage) -> None:
        stage.budget_errors = [no_right(), DOWN]
        missed: list[str] = []
        stage.on_surveyed = lambda: missed.append(stage.passes.budgets.forbidden)
        for _ in range(3):
            stage.passes.ask()
            await stage.play(0.9)
        assert missed[0].startswith(
            "system:serviceaccount:winpool-system:winpool may not list poddisruptionbudgets.policy in the"
        )
        assert missed == [missed[0], missed[0], ""]

    played(scene, a_question(TAINT, workloads=True))


def test_budgets_that_could_not_be_listed_are_asked_for_until_they_can_be() -> None:
    async def scene(stage: Stage) -> None:
        stage.pods = [worker()]
        stage.budget_errors = [DOWN, no_right(), DOWN]
        await stage.play(PERIOD)
        # The first pass, three more tries, and the second pass, which lists both.
        assert len(stage.budget_lists) == 5
        assert stage.lists == [stage.budget_lists[0], stage.budget_lists[-1]]
        assert stage.lists[1] <= stage.seconds + (1 + SHARE) + 5 + 10 + 20
        workloads = stage.survey().workloads
        assert workloads is not None
        assert workloads["w1"].budgets_known

    played(scene, a_question(TAINT, workloads=True))


def test_budgets_are_not_asked_for_again_for_as_long_as_the_api_server_asks() -> None:
    async def scene(stage: Stage) -> None:
        stage.budget_errors = [BUSY]
        await stage.play(PERIOD)
        assert len(stage.budget_lists) == 3
        assert stage.budget_lists[1] - stage.budget_lists[0] >= 45

    played(scene, a_question(TAINT, workloads=True))


def test_budgets_that_can_never_be_listed_cost_one_request_a_minute_and_no_list_of_pods() -> None:
    async def scene(stage: Stage) -> None:
        stage.budget_errors = [no_right()] * 1000
        await stage.play(3600)
        assert len(stage.lists) == 6
        assert all(PERIOD <= gap <= PERIOD * (1 + JITTER) + 5 * stage.seconds for gap in gaps(stage.lists))
        assert 60 <= len(stage.budget_lists) <= 120 + 2 * 6
        assert set(stage.lists) <= set(stage.budget_lists)

    played(scene, a_question(TAINT, workloads=True))


@pytest.mark.parametrize("questions", [(), (a_question(TAINT),)], ids=["no pool", "a pool without upgrades"])
def test_no_budgets_are_asked_for_again_once_no_pool_wants_them(questions: tuple[PoolQuestion, ...]) -> None:
    async def scene(stage: Stage) -> None:
        stage.budget_errors = [DOWN] * 1000
        await stage.play(1)
        stage.questions = questions
        stage.passes.ask()
        await stage.play(PERIOD / 2)
        asked = len(stage.budget_lists)
        await stage.play(PERIOD * 2)
        assert len(stage.budget_lists) == asked

    played(scene, a_question(TAINT, workloads=True))


def test_pools_with_upgrades_ask_for_workloads() -> None:
    pools = [a_pool("plain"), a_pool("upgrading", more={"upgrade": {}})]
    asked = pod_questions.Questions().of(pools, [a_node()], now=NOON)
    assert {each.pool_uid: each.workloads for each in asked} == {
        "uid-of-plain": False,
        "uid-of-upgrading": True,
    }


def test_a_runtime_class_that_is_created_while_pods_are_listed_is_not_missing() -> None:
    """Its first pods are in the list, so it would close a gate until the next pass."""

    async def scene(stage: Stage) -> None:
        stage.on_list = lambda: setattr(stage, "runtime_classes", {"new": RuntimeClass()})
        stage.pods = [a_pod("shop/web-1", work=some_work(runtime_class=name)) for name in ("new", "gone")]
        await stage.play(3)
        workloads = stage.survey().workloads
        assert workloads is not None
        assert workloads["w1"].missing_runtime_classes == ("gone",)

    played(scene, a_question(TAINT, workloads=True))


def test_runtime_classes_that_cannot_be_listed_fail_no_pass_and_their_pods_are_judged_by_what_they_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = SAID.replace("poddisruptionbudgets.policy", "runtimeclasses.node.k8s.io")
    said = said.replace('"poddisruptionbudgets"', '"runtimeclasses"').replace('"policy"', '"node.k8s.io"')
    error = Forbidden(f"list runtimeclasses: 403 {said}", status=403, reason="Forbidden")
    error.permission = parse_permission(said)

    async def scene(stage: Stage) -> None:
        stage.pods = [a_pod("shop/web-1", work=some_work(runtime_class="windows-2022"))]
        stage.runtime_classes = {"windows-2022": RuntimeClass(selector=(("disk", "ssd"),))}
        stage.runtime_class_errors = [error, DOWN, ValueError("a bug")]
        for selector, is_known, is_forbidden in (
            ((), False, True),
            ((), False, True),
            ((), False, True),
            ((("disk", "ssd"),), True, False),
        ):
            stage.passes.ask()
            await stage.play(3)
            workloads = stage.survey().workloads
            assert workloads is not None
            [(shape, _)] = workloads["w1"].moving
            assert (shape.selector, workloads["w1"].runtime_classes_known) == (selector, is_known)
            missing = stage.passes.runtime_classes.forbidden
            assert ("may not list runtimeclasses.node.k8s.io" in missing) is is_forbidden
        assert dict(stage.passes.stats.passes) == {"Success": 4}
        assert len(stage.runtime_class_lists) == len(stage.lists) == 4

    played(scene, a_question(TAINT, workloads=True))
    told = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each.partition(":")[0] for each in told] == ["runtimeclasses"] * 3
