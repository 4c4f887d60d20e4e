"""Answers to an eviction that are not what one expects: none may be taken for more than it says.

From the bytes of the answer to what is known of the pod, what its detector hears, and who has to wait.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.virtual_time import in_virtual_time, run_virtually
from winpool.controllers.evictions import Answers, Evictor
from winpool.controllers.writes import Outcome
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, UnconfirmedRefusal, error_of
from winpool.kube.request import Request
from winpool.kube.writer import Writer
from winpool.model.node import Eviction
from winpool.model.node_pods import Answer

HOG = Eviction("shop", "hog", "uid-hog", "w1", "it uses most", node_uid="uid-of-w1", share=4.0)
YEAR = "31536000"
WEBHOOK = 'admission webhook "keep.example.com" denied the request: '
POLICY = (
    "pods \"hog\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: not now"
)
BROKEN_WEBHOOK = (
    'Internal error occurred: failed calling webhook "keep.example.com": failed to call webhook: '
)
BUDGET_CAUSE = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2"}]}


class Answering:
    """A transport with one answer."""

    def __init__(self, answer: bytes | ApiError) -> None:
        self._answer = answer

    async def request(self, _: Request) -> bytes:
        if isinstance(self._answer, ApiError):
            raise self._answer
        return self._answer


@dataclass
class Known:
    """What is known after an answer."""

    answer: Answer | None
    outcome: Outcome[Eviction]
    result: str
    seconds: float | None
    """How long this pod has to wait; None for not at all."""


async def after(answer: bytes | ApiError) -> Known:
    time, results = asyncio.get_running_loop().time, Counter[Any]()
    answers = Answers(detectors=None, results=results, monotonic=time)
    evictor = Evictor(writer=Writer(cast(Transport, Answering(answer))), monotonic=time, answers=answers)
    outcome = await evictor.run([HOG])
    known = answers.known().get("uid-hog")
    [result] = results
    return Known(None if known is None else known.answer, outcome, result, evictor.seconds_to_next([HOG]))


def said(status: int, message: str, *, retry_after: str | None = None, **more: Any) -> ApiError:
    """Return the error of an answer of the API server."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, **more}
    return raw(status, json.dumps(body).encode(), retry_after=retry_after)


def raw(status: int, body: bytes, *, retry_after: str | None = None) -> ApiError:
    return error_of(
        status=status, body=body, request="create pods/eviction shop/hog", retry_after=retry_after, group=""
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503])
@pytest.mark.parametrize(
    "words",
    [
        "not now",
        'pods "hog" not found',
        "Precondition failed: UID in precondition: uid-hog, UID in object meta: another",
        "etcdserver: request timed out",
        "rpc error: code = Unavailable",
        'User "u" cannot create resource "pods/eviction" in API group "" in the namespace "shop"',
    ],
)
@in_virtual_time
async def test_a_webhook_denies_this_pod_whatever_status_and_words_it_chooses(
    status: int, words: str
) -> None:
    known = await after(said(status, WEBHOOK + words))
    assert (known.answer, known.result) == (Answer.REFUSED, "Refused")
    assert (len(known.outcome.stopped), known.outcome.error) == (1, None), "other pods do not wait"


@pytest.mark.parametrize("status", [403, 413, 422])
@in_virtual_time
async def test_a_policy_denies_this_pod(status: int) -> None:
    known = await after(said(status, POLICY))
    assert (known.answer, known.outcome.error) == (Answer.REFUSED, None)


@pytest.mark.parametrize(
    "words",
    ['Post "https://x": context deadline exceeded', "rpc error: code = Unavailable", "etcdserver: no"],
)
@in_virtual_time
async def test_a_webhook_that_fails_denies_this_pod_whatever_it_quotes(words: str) -> None:
    known = await after(said(500, BROKEN_WEBHOOK + words, reason="InternalError"))
    assert (known.answer, known.outcome.error) == (Answer.REFUSED, None)


@in_virtual_time
async def test_a_budget_may_ask_for_a_year_and_gets_five_minutes() -> None:
    known = await after(said(429, "Cannot evict pod.", details=BUDGET_CAUSE, retry_after=YEAR))
    assert (known.answer, known.outcome.error, known.seconds) == (Answer.REFUSED, None, 300.0)


@in_virtual_time
async def test_flow_control_says_nothing_of_the_pod_and_no_pod_waits_a_year_for_it() -> None:
    known = await after(said(429, "too many requests", retry_after=YEAR))
    assert (known.answer, known.result, known.seconds) == (None, "Failed", None)
    assert known.outcome.error is not None, "the evictor stops"


@pytest.mark.parametrize(
    "message",
    ['pods "hog" not found', 'namespaces "shop" not found'],
)
@in_virtual_time
async def test_a_pod_that_is_gone_is_gone(message: str) -> None:
    assert (await after(said(404, message, reason="NotFound"))).answer is Answer.GONE


@in_virtual_time
async def test_a_pod_whose_name_another_has_is_gone() -> None:
    precondition = "Precondition failed: UID in precondition: uid-hog, UID in object meta: another"
    error = said(409, f'Operation cannot be fulfilled on Pod "hog": {precondition}', reason="Conflict")
    assert (await after(error)).answer is Answer.GONE


@in_virtual_time
async def test_a_budget_that_is_deleted_meanwhile_does_not_make_the_pod_gone() -> None:
    known = await after(said(404, 'poddisruptionbudgets.policy "web" not found', reason="NotFound"))
    assert (known.answer, known.result, known.outcome.error) == (None, "Failed", None)
    assert known.seconds == 2.0, "it is tried again"


@pytest.mark.parametrize(
    "error",
    [
        raw(404, b"404 page not found"),
        raw(404, b"<html><h1>404 Not Found</h1>"),
        raw(404, b""),
        said(404, 'pods "another" not found', reason="NotFound"),
        said(404, "the server could not find the requested resource", reason="NotFound"),
    ],
    ids=str,
)
@in_virtual_time
async def test_a_404_about_anything_else_does_not_make_the_pod_gone(error: ApiError) -> None:
    known = await after(error)
    assert (known.answer, known.result) == (Answer.ASKED, "Unanswered"), "a list of the pods will show"
    assert known.outcome.error is not None, "the pass reports it"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"<html>sign in, please</html>",
        b'{"kind":"Status","status":"Failure","code":403}',
        b'{"kind":"Status"}',
        b'{"kind":"Status","status":["Success"]}',
        b'{"kind":"Pod","status":"Success"}',
        b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:50]),
)
@in_virtual_time
async def test_an_answer_below_300_that_is_no_success_leaves_open_what_became_of_the_pod(body: bytes) -> None:
    known = await after(body)
    assert (known.answer, known.result, known.outcome.done) == (Answer.ASKED, "Unanswered", [])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@in_virtual_time
async def test_a_redirect_is_no_eviction(status: int) -> None:
    known = await after(raw(status, b""))
    assert (known.answer, known.outcome.done) == (Answer.ASKED, [])


@in_virtual_time
async def test_a_refusal_of_a_server_that_starts_was_not_carried_out() -> None:
    known = await after(UnconfirmedRefusal("403", status=403))
    assert (known.answer, known.result) == (None, "Failed")


@in_virtual_time
async def test_two_budgets_of_one_pod_are_a_verdict() -> None:
    error = said(
        500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
    )
    assert (await after(error)).answer is Answer.REFUSED


@given(
    status=st.integers(300, 599),
    words=st.one_of(
        st.text(), st.sampled_from(['pods "hog" not found', "UID in precondition", WEBHOOK, POLICY])
    ),
    retry_after=st.one_of(st.none(), st.text(), st.integers().map(str)),
    reason=st.one_of(st.none(), st.sampled_from(["NotFound", "Conflict", "Success", ""])),
)
def test_no_failure_counts_as_an_eviction_and_none_keeps_a_pod_waiting_for_long(
    status: int, words: str, retry_after: str | None, reason: str | None
) -> None:
    known = run_virtually(after(said(status, words, retry_after=retry_after, reason=reason)))
    assert known.answer is not Answer.ACCEPTED
    assert known.outcome.done == []
    assert known.seconds is None or known.seconds <= 300
    if known.answer is Answer.GONE:
        assert "hog" in words or "UID" in words
