"""Lists that expire between two pages, or that are broken: nothing is taken away (P4)."""

from __future__ import annotations

from typing import Final

import pytest

from harness.streams import POOLS, Stage
from testbed.faults import answer, delay, on, rewrite
from winpool.api.keys import API_VERSION, KIND

BROKEN_LISTS: Final = {
    "empty-object": "{}",
    "no-version": '{"kind":"%s","apiVersion":"%s","metadata":{},"items":[]}',
    "no-items": '{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"999999999"}}',
    "other": '{"kind":"%s","apiVersion":"%s9","metadata":{"resourceVersion":"999999999"},"items":[]}',
}


def broken(text: str, kind: str, api_version: str) -> bytes:
    """Return a broken list that says it is of this kind and version."""
    return (text % (kind, api_version) if "%s" in text else text).encode()


def test_a_continue_token_that_expired_begins_the_list_anew(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(on("list", "nodes"), rewrite(lambda path: path.replace("limit=500", "limit=5")))
        expired = stage.proxy.add(on("list", "nodes", path="continue="), answer(410), nth=2)
        stage.expire()
        stage.drift(name)
        stage.proxy.wait_for(on("list", "nodes", path="continue="), count=2 + stage.nodes // 5)
    assert expired.hits == 1


@pytest.mark.parametrize("kind", BROKEN_LISTS)
def test_a_broken_list_of_nodes_takes_nothing_away(stage: Stage, kind: str) -> None:
    name = stage.quiet.pop()
    body = broken(BROKEN_LISTS[kind], "NodeList", "v1")
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(on("list", "nodes"), answer(200, body=body), first=1)
        stage.proxy.add(on(["list", "watch"], "nodes"), delay(0.5))  # to give a wrong conclusion time to show
        stage.expire()
        stage.drift(name)
    answers = [each.actions[0] for each in stage.requests("list", "nodes")]
    assert answers == ["answer 200 before", "delay 0.5 s before"]


@pytest.mark.nightly
def test_broken_lists_of_pools_take_nothing_away(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for number, text in enumerate(BROKEN_LISTS.values(), start=1):
            body = broken(text, f"{KIND}List", API_VERSION)
            stage.proxy.add(on("list", POOLS), answer(200, body=body), nth=number)
        answered = on("list", POOLS, where=lambda each: bool(each.actions) and each.done)
        stage.proxy.wait_for(answered, count=len(BROKEN_LISTS))
        stage.drift(name)
