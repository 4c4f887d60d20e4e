"""All pods, page by page: shown once each, and half a list is none."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from winpool.kube.errors import ApiError, Gone, StreamGarbled, TooLarge, Unavailable
from winpool.kube.lists import OBJECTS_A_PAGE
from winpool.kube.pods import (
    POD_PAGE_BYTES,
    ListedPods,
    PodLister,
)
from winpool.kube.request import Request
from winpool.model.pods import Pod

Answer = bytes | Exception

EXPIRED = Gone("list pods: 410 the provided continue parameter is too old", status=410, reason="Expired")
BROKEN = Unavailable("list pods: the answer broke off", reason="NoConnection")
HUGE = TooLarge(f"list pods: an answer of more than {POD_PAGE_BYTES} bytes")


def item(name: str, *, node: str = "w1") -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {"nodeName": node}}


def page(*items: Any, goes_on: str = "", version: str = "9") -> bytes:
    metadata = {"resourceVersion": version, "continue": goes_on}
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}).encode()


class Answers:
    """Answers that come in turn, whatever is asked; what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = iter(answers)
        self.requests: list[Request] = []
        self.asked: list[dict[str, str]] = []

    async def request(self, request: Request) -> bytes:
        self.requests.append(request)
        self.asked.append({key: value for key, (value,) in parse_qs(urlsplit(request.path).query).items()})
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def listed(*answers: Answer) -> tuple[ListedPods, list[str], Answers]:
    source, seen = Answers(*answers), list[Pod]()
    return await PodLister(source.request).list_all(see=seen.append), [pod.name for pod in seen], source


async def test_the_request_is_for_pods_on_nodes_that_have_not_ended_well() -> None:
    _, _, source = await listed(page(goes_on="a/b+c"), page())
    first, second = source.requests
    path = "/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded&limit=500"
    assert (first.path, second.path) == (path, f"{path}&continue=a%2Fb%2Bc")
    assert (first.verb, first.resource, first.reply_limit) == ("list", "pods", POD_PAGE_BYTES)


async def test_all_pages_are_shown_and_counted() -> None:
    pages = (page(item("a"), item("b"), goes_on="1"), page(goes_on="2"), page(item("c")))
    found, seen, source = await listed(*pages)
    assert found == ListedPods(count=3)
    assert seen == ["a", "b", "c"]
    assert [asked.get("continue") for asked in source.asked] == [None, "1", "2"]
    assert {asked["limit"] for asked in source.asked} == {str(OBJECTS_A_PAGE)}


async def test_an_empty_cluster_is_a_complete_list() -> None:
    assert (await listed(page()))[0] == ListedPods(count=0)


@pytest.mark.parametrize(
    "second",
    [EXPIRED, BROKEN, b"{}", b""],
    ids=["410", "broken", "foreign", "empty"],
)
async def test_half_a_list_is_no_list(second: Answer) -> None:
    kind = type(second) if isinstance(second, ApiError) else StreamGarbled
    with pytest.raises(kind, match=r"^list pods: "):
        await listed(page(item("a"), goes_on="1"), second)


async def test_nodes_with_pods_that_cannot_be_read_are_told_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = [{"spec": {"nodeName": f"w{number % 3}"}} for number in range(1, 9)]
    found, seen, _ = await listed(page(item("a"), *lost, goes_on="1"), page(item("b"), *lost))
    assert found == ListedPods(count=18, unreadable_nodes=frozenset({"w0", "w1", "w2"}))
    assert seen == ["a", "b"]
    (record,) = caplog.records
    assert record.getMessage().startswith("list pods: a pod on node w1: ")
    assert record.getMessage().endswith("the pods of 3 nodes count as unknown")


async def test_a_pod_that_may_be_on_any_node_makes_the_list_say_nothing() -> None:
    with pytest.raises(StreamGarbled, match=r"^list pods: a pod on an unknown node: "):
        await listed(page(item("a"), {"spec": {"nodeName": "w1"}}, {"metadata": {}}))


def unseen(pod: Pod) -> None:
    raise AssertionError(pod)


async def test_after_a_page_too_large_the_next_list_asks_for_smaller_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Answers(*[HUGE] * 10, page(item("a")))
    lister = PodLister(source.request)
    for _ in range(10):
        with pytest.raises(TooLarge):
            await lister.list_all(see=unseen)
    assert (await lister.list_all(see=lambda _: None)).count == 1
    smaller = [250, 125, 62, 31, 15, 7, 3, 1]
    assert [int(asked["limit"]) for asked in source.asked] == [500, *smaller, 1, 1]
    assert [record.getMessage() for record in caplog.records] == [
        f"{HUGE}; winpool asks for {limit} pods a page now" for limit in smaller
    ]


async def test_others_get_their_turn_on_every_page() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(turn())
    at_page: list[int] = []
    pages = [page(item(str(number)), goes_on=str(number)) for number in range(1, 10)]
    await PodLister(Answers(*pages, page(item("10"))).request).list_all(see=lambda _: at_page.append(turns))
    other.cancel()
    assert len(set(at_page)) == 10


class Tracked(bytearray):
    """A page that can be watched for being let go."""


@pytest.mark.slow
async def test_a_page_is_let_go_when_the_next_one_comes() -> None:
    """Also one with a pod that could not be read, of which the node is remembered."""
    alive: list[weakref.ref[Tracked]] = []
    at_once: list[int] = []
    bodies: Sequence[bytes] = [
        page(item(str(number)), {"spec": {"nodeName": f"w{number}"}}, goes_on=str(number))
        for number in range(1, 6)
    ]
    answers = iter([*bodies, page(item("6"))])

    async def request(_: Request) -> bytearray:
        gc.collect()
        at_once.append(sum(each() is not None for each in alive))
        body = Tracked(next(answers))
        alive.append(weakref.ref(body))
        return body

    found = await PodLister(request).list_all(see=lambda _: None)
    assert len(found.unreadable_nodes) == 5
    assert at_once == [0, 0, 0, 0, 0, 0]


async def test_other_tasks_run_between_the_pods_of_a_page() -> None:
    turns, seen_at = 0, list[int]()

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    source = Answers(page(*[item(f"pod-{number}") for number in range(500)]))
    await PodLister(source.request).list_all(see=lambda _: seen_at.append(turns))
    task.cancel()
    assert len(seen_at) == 500
    assert max(Counter(seen_at).values()) == 32
