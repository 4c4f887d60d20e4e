"""What is remembered of evictions, and what the detectors hear of them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from harness.builders import a_node
from harness.clock import Seconds
from harness.evicting import a_pod, listed
from harness.virtual_time import in_virtual_time
from winpool.controllers.evictions import MOST, Answers, Evictor
from winpool.controllers.memory_polls import EvictionResult
from winpool.kube.errors import (
    ApiError,
    Conflict,
    DisruptionBudget,
    Forbidden,
    Invalid,
    NoAnswer,
    NotFound,
    NotWanted,
    Permission,
    TooManyRequests,
    Unavailable,
)
from winpool.kube.writer import Writer
from winpool.model.node import Deletion, Eviction
from winpool.model.node_pods import Answer, PodListRequest

HOG = Eviction("shop", "hog", "uid-hog", "w1", "it uses most", node_uid="uid-of-w1", share=4.0)
WATCH = PodListRequest(a_node("w1"), frozenset({"uid-hog"}))


class Heard:
    """Writes down what detectors are told."""

    def __init__(self) -> None:
        self.of: list[tuple[object, ...]] = []

    def eviction_begun(self, node_uid: str, pod_uid: str, share: float | None) -> None:
        self.of.append(("begun", node_uid, pod_uid, share))

    def eviction_gone(self, node_uid: str, pod_uid: str) -> None:
        self.of.append(("gone", node_uid, pod_uid))

    def eviction_refused(self, node_uid: str, pod_uid: str) -> None:
        self.of.append(("refused", node_uid, pod_uid))


class OneAnswer(Writer):
    """Answers every eviction alike."""

    def __init__(self, error: ApiError | None) -> None:
        self._error = error

    async def evict(self, _: Eviction) -> None:
        if self._error is not None:
            raise self._error


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def results() -> Counter[EvictionResult]:
    return Counter()


@pytest.fixture
def answers(clock: Seconds, heard: Heard, results: Counter[EvictionResult]) -> Answers:
    return Answers(detectors=heard, results=results, monotonic=clock)


def told(answers: Answers) -> dict[str, Answer]:
    return {uid: each.answer for uid, each in answers.known().items()}


def by_rbac() -> Forbidden:
    error = Forbidden("403", status=403)
    error.permission = Permission("create", "pods/eviction", "", "shop", "u")
    return error


BEGUN = ("begun", "uid-of-w1", "uid-hog", 4.0)
REFUSED = ("refused", "uid-of-w1", "uid-hog")
GONE = ("gone", "uid-of-w1", "uid-hog")


@pytest.mark.parametrize(
    ("error", "answer", "detectors", "result"),
    [
        (None, Answer.ACCEPTED, [BEGUN], "Evicted"),
        (NotFound("404", status=404), Answer.GONE, [GONE], "Gone"),
        (DisruptionBudget("429", status=429), Answer.REFUSED, [REFUSED], "Refused"),
        (
            Forbidden("403 the budget is invalid", status=403),
            Answer.REFUSED,
            [REFUSED],
            "Refused",
        ),
        (Invalid("422", status=422), Answer.REFUSED, [REFUSED], "Refused"),
        (Unavailable("500 more than one budget", status=500), Answer.REFUSED, [REFUSED], "Refused"),
        (
            Unavailable("500 failed calling webhook: deadline exceeded", status=500),
            Answer.REFUSED,
            [REFUSED],
            "Refused",
        ),
        (Unavailable("500 etcdserver: request timed out", status=500), Answer.ASKED, [], "Unanswered"),
        (
            Unavailable("500 rpc error: leader changed", status=500),
            Answer.ASKED,
            [],
            "Unanswered",
        ),
        (NoAnswer("no answer within 30 s"), Answer.ASKED, [], "Unanswered"),
        (Unavailable("the connection was lost"), Answer.ASKED, [], "Unanswered"),
        (TooManyRequests("429", status=429, retry_after=5), None, [], "Failed"),
        (by_rbac(), None, [], "Failed"),
        (Conflict("409", status=409), None, [], "Failed"),
    ],
    ids=str,
)
@in_virtual_time
async def test_the_answers_of_the_api_server(
    error: ApiError | None, answer: Answer | None, detectors: list[object], result: EvictionResult
) -> None:
    heard, time = Heard(), asyncio.get_running_loop().time
    results: Counter[EvictionResult] = Counter()
    answers = Answers(detectors=heard, results=results, monotonic=time)
    await Evictor(writer=OneAnswer(error), monotonic=time, answers=answers).run([HOG])
    assert told(answers) == ({} if answer is None else {"uid-hog": answer})
    assert heard.of == detectors
    assert results == {result: 1}


@in_virtual_time
async def test_a_request_that_was_not_sent_after_all_is_none_and_waits_for_nothing() -> None:
    heard, time = Heard(), asyncio.get_running_loop().time
    results: Counter[EvictionResult] = Counter()
    answers = Answers(detectors=heard, results=results, monotonic=time)
    evictor = Evictor(writer=OneAnswer(NotWanted("the node has changed")), monotonic=time, answers=answers)
    outcome = await evictor.run([HOG])
    assert ([act for act, _ in outcome.stopped], outcome.error) == ([HOG], None)
    assert (told(answers), heard.of, results) == ({}, [], {})
    assert evictor.seconds_to_next([HOG]) is None


def test_from_the_moment_it_is_sent_a_request_may_be_carried_out(answers: Answers) -> None:
    answers.asked(HOG)
    assert told(answers) == {"uid-hog": Answer.ASKED}


def test_the_first_time_that_a_pod_is_gone_counts(answers: Answers, heard: Heard, clock: Seconds) -> None:
    answers.gone(HOG)
    first = answers.known()["uid-hog"].at
    clock.now += 30
    answers.seen(WATCH, listed())
    assert answers.known()["uid-hog"].at == first
    assert heard.of == [GONE]


def test_a_list_shows_that_a_pod_is_gone_or_has_ended(answers: Answers, heard: Heard) -> None:
    answers.seen(WATCH, listed(a_pod("hog", is_finished=True, is_terminating=True)))
    assert told(answers) == {"uid-hog": Answer.GONE}
    assert heard.of == [GONE]


def test_a_list_shows_that_an_earlier_process_has_evicted_a_pod(answers: Answers, heard: Heard) -> None:
    for _ in range(2):
        answers.seen(WATCH, listed(a_pod("hog", is_terminating=True)))
    assert told(answers) == {"uid-hog": Answer.ACCEPTED}
    assert heard.of == [("begun", "uid-of-w1", "uid-hog", None)]


def test_that_another_node_lacks_a_pod_does_not_show_that_it_is_gone(answers: Answers, heard: Heard) -> None:
    """Who can annotate a node can name there a pod of another node."""
    elsewhere = replace(WATCH, node=a_node("w2"))
    answers.accepted(HOG)
    answers.seen(elsewhere, listed())
    assert (told(answers), heard.of) == ({"uid-hog": Answer.ACCEPTED}, [BEGUN])
    answers.seen(WATCH, listed())
    assert (told(answers), heard.of) == ({"uid-hog": Answer.GONE}, [BEGUN, GONE])


def test_its_own_node_is_heard_though_another_one_was_first(answers: Answers, heard: Heard) -> None:
    answers.seen(replace(WATCH, node=a_node("w2")), listed())
    assert not answers.known()["uid-hog"].is_about("uid-of-w1")
    answers.seen(WATCH, listed(a_pod("hog", is_terminating=True)))
    assert answers.known()["uid-hog"].is_about("uid-of-w1")
    answers.seen(WATCH, listed())
    assert heard.of[1:] == [("begun", "uid-of-w1", "uid-hog", None), GONE]


def test_a_list_says_nothing_of_pods_that_are_not_watched(answers: Answers, heard: Heard) -> None:
    answers.seen(WATCH, listed(a_pod("hog"), a_pod("other", is_terminating=True)))
    assert (told(answers), heard.of) == ({}, [])


def test_a_refusal_counts_for_two_minutes(answers: Answers, clock: Seconds) -> None:
    answers.refused(HOG, "429")
    clock.now += 120
    assert told(answers) == {"uid-hog": Answer.REFUSED}
    clock.now += 0.1
    assert told(answers) == {}


def test_refusals_in_a_row_are_counted_and_the_last_is_known_while_the_pod_is_asked_for_again(
    answers: Answers,
) -> None:
    for times in (1, 2, 3):
        answers.asked(HOG)
        answers.refused(HOG, f"429 number {times}")
        assert answers.known()["uid-hog"].times == times
    answers.asked(HOG)
    again = answers.known()["uid-hog"]
    assert (again.answer, again.said, again.times) == (Answer.ASKED, "429 number 3", 3)
    answers.accepted(HOG)
    done = answers.known()["uid-hog"]
    assert (done.answer, done.said, done.times) == (Answer.ACCEPTED, "", 0)


def test_refusals_that_are_forgotten_are_in_no_row(answers: Answers, clock: Seconds) -> None:
    answers.refused(HOG, "429")
    clock.now += 120.1
    assert answers.known() == {}
    answers.asked(HOG)
    answers.refused(HOG, "429")
    assert answers.known()["uid-hog"].times == 1


def test_an_answer_names_the_budget_that_its_eviction_takes_from(answers: Answers) -> None:
    drained = replace(HOG, budget="shop/web")
    for note in (answers.asked, answers.accepted, lambda each: answers.refused(each, "429")):
        note(drained)
        assert answers.known()["uid-hog"].budget == "shop/web"


def test_what_a_pod_took_of_a_budget_is_known_when_a_list_shows_that_it_is_gone(
    answers: Answers, clock: Seconds
) -> None:
    """It counts from the answer on: budgets that were read since have it."""
    answers.accepted(replace(HOG, budget="shop/web"))
    taken_at = clock()
    clock.now += 5
    answers.seen(WATCH, listed())
    found = answers.known()["uid-hog"]
    assert (found.answer, found.at, found.budget) == (Answer.GONE, clock(), "shop/web")
    assert found.taken_at == taken_at


def test_answers_are_bounded(answers: Answers, clock: Seconds) -> None:
    for place in range(MOST + 10):
        answers.gone(replace(HOG, uid=f"uid-{place}"))
    assert len(answers.known()) == MOST
    clock.now += 3601
    assert answers.known() == {}


def test_evictions_for_other_reasons_are_not_counted_and_detectors_hear_nothing_of_them(
    answers: Answers, heard: Heard, results: Counter[EvictionResult]
) -> None:
    answers.accepted(Eviction("shop", "hog", "uid-hog", "w1", "a drain"))
    assert (heard.of, results) == ([], {})


def test_an_evicted_pod_counts_once_also_when_lists_show_it_ending_and_gone(
    answers: Answers, results: Counter[EvictionResult]
) -> None:
    answers.accepted(HOG)
    for pods in (listed(a_pod("hog", is_terminating=True)), listed()):
        answers.seen(WATCH, pods)
    assert results == {"Evicted": 1}


def test_each_request_for_a_pod_counts(answers: Answers, results: Counter[EvictionResult]) -> None:
    for _ in range(3):
        answers.refused(HOG, "429")
    answers.accepted(HOG)
    assert results == {"Refused": 3, "Evicted": 1}


FORCED = Eviction(
    "shop", "hog", "uid-hog", "w1", "it is time", drained_uid="uid-of-w1", deletion=Deletion("1", 30)
)


async def test_a_pod_that_is_deleted_counts_as_forced_and_is_on_its_way_out(answers: Answers) -> None:
    answers.accepted(FORCED)
    assert told(answers) == {"uid-hog": Answer.ACCEPTED}
    assert answers.drains == Counter({"Forced": 1})


async def test_a_right_to_delete_that_is_missing_stops_no_pool_that_only_evicts(answers: Answers) -> None:
    error = Forbidden("403", status=403)
    error.permission = Permission("delete", "pods", "", "shop", "u")
    answers.failed(FORCED, error)
    assert (answers.rights.sentence(), told(answers)) == ("", {})
    assert answers.drains == Counter({"Failed": 1})


async def test_a_deletion_says_nothing_of_the_right_to_evict(answers: Answers) -> None:
    answers.failed(HOG, by_rbac())
    missing = answers.rights.sentence()
    answers.accepted(FORCED)
    answers.refused(FORCED, "denied")
    assert answers.rights.sentence() == missing != ""
