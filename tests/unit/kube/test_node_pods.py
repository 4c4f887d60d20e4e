"""The pods of one node, in one answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.virtual_time import run_virtually
from winpool.kube.errors import StreamGarbled, Unavailable
from winpool.kube.pods import ANSWER_BYTES, ANSWER_SECONDS, PodLister, node_request
from winpool.kube.request import Request


def answer(*items: Any, goes_on: str = "") -> bytes:
    metadata = {"resourceVersion": "9", "continue": goes_on}
    return json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": items}).encode()


def item(name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {"nodeName": "w1"}}


async def listed(body: bytes) -> tuple[bool, list[str]]:
    async def request(_: Request) -> bytes:
        return body

    found = await PodLister(request).list_node("w1")
    return not found.unreadable, [pod.name for pod in found.pods]


def test_the_request_is_answered_by_the_watch_cache_and_as_fresh_as_etcd() -> None:
    request = node_request("w1")
    query = parse_qs(urlsplit(request.path).query)
    assert query == {"fieldSelector": ["spec.nodeName=w1,status.phase!=Succeeded"]}, "no limit, no version"
    assert (request.verb, request.resource, request.reply_limit) == ("list", "pods", ANSWER_BYTES)
    assert request.label == "list pods of node w1"


async def test_every_pod_is_shown_and_an_empty_node_is_a_complete_list() -> None:
    assert await listed(answer(item("a"), item("b"))) == (True, ["a", "b"])
    assert await listed(answer()) == (True, [])


async def test_one_that_cannot_be_read_is_told_also_where_not_even_its_node_can_be() -> None:
    assert await listed(answer(item("a"), {"metadata": {}})) == (False, ["a"])


@pytest.mark.parametrize("body", [b"{}", b"", answer(item("a"), goes_on="more")])
async def test_half_a_list_is_no_list(body: bytes) -> None:
    with pytest.raises(StreamGarbled):
        await listed(body)


def test_an_answer_that_does_not_come_is_given_up() -> None:
    async def never(_: Request) -> bytes:
        await asyncio.sleep(3600)
        raise AssertionError

    async def main() -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(Unavailable, match="list pods of node w1: no answer within 10 s"):
            await PodLister(never).list_node("w1")
        return loop.time() - begun

    assert run_virtually(main()) == pytest.approx(ANSWER_SECONDS)
