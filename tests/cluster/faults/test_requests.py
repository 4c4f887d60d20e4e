"""What can be done to a request."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

import pytest

from cluster.faults.client import BROKEN, GUARD_SECONDS, MAPS, Answer, Client, MakeClient, label, value_of
from testbed.cluster import Testbed
from testbed.faults import FaultProxy, answer, call, cut, delay, on, rewrite, stall


def test_cut_before_keeps_the_request_from_the_api_server(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    proxy.add(on("patch"), cut(), nth=1)
    with pytest.raises(BROKEN):
        client.patch(name, "new")
    record = proxy.wait_for(lambda each: each.done)
    assert (record.actions, record.forwarded, record.status) == (("cut before",), False, None)
    assert value_of(testbed, name) == "old"
    assert client.patch(name, "newer").status == 200


def test_cut_after_applies_a_write_and_loses_its_reply(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    proxy.add(on("patch"), cut(when="after"))
    with pytest.raises(BROKEN):
        client.patch(name, "new")
    record = proxy.wait_for(lambda each: each.done)
    assert (record.actions, record.server_status, record.status) == (("cut after",), 200, None)
    assert record.applied
    assert value_of(testbed, name) == "new"


@pytest.mark.parametrize("when", ["before", "after"])
def test_delay_makes_a_request_slow(proxy: FaultProxy, client: Client, name: str, when: Any) -> None:
    proxy.add(on("patch"), delay(0.3, when=when))
    begin = time.monotonic()
    assert client.patch(name, "new").status == 200
    assert time.monotonic() - begin >= 0.3
    assert proxy.log[0].actions == (f"delay 0.3 s {when}",)


@pytest.mark.parametrize(("when", "meanwhile"), [("before", "old"), ("after", "new")])
@pytest.mark.parametrize("end", ["release", "remove"])
def test_stall_holds_a_request_until_it_is_let_go(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str, when: Any, meanwhile: str, end: str
) -> None:
    rule = proxy.add(on("patch"), stall(when=when))
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(client.patch(name, "new")))
    thread.start()
    stalled = proxy.wait_for(lambda each: each.actions == (f"stall {when}",))
    assert (stalled.done, stalled.status) == (False, None)
    assert value_of(testbed, name) == meanwhile
    assert not answers
    getattr(rule, end)()
    thread.join(timeout=GUARD_SECONDS)
    assert [each.status for each in answers] == [200]
    assert value_of(testbed, name) == "new"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (401, "Unauthorized"), (403, "Forbidden"), (409, "Conflict"), (410, "Expired"), (422, "Invalid"),
        (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"),
    ],
)  # fmt: skip
def test_answer_gives_a_status_object(proxy: FaultProxy, client: Client, code: int, reason: str) -> None:
    proxy.add(on("list", "configmaps"), answer(code))
    refused = client.get(MAPS)
    assert (refused.status, refused.headers["Content-Type"]) == (code, "application/json")
    assert (refused.json["kind"], refused.json["code"], refused.json["reason"]) == ("Status", code, reason)
    assert not proxy.log[0].forwarded


def test_answer_carries_words_headers_and_bodies(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    proxy.add(on("get"), answer(429, message="too fast", retry_after=7, headers={"X-Test": "a"}), nth=1)
    busy = client.get(f"{MAPS}/{name}")
    assert (busy.headers["Retry-After"], busy.headers["X-Test"]) == ("7", "a")
    assert (busy.json["message"], busy.json["details"]) == ("too fast", {"retryAfterSeconds": 7})
    proxy.add(on("get"), answer(200, body=b"<html>", headers={"Content-Type": "text/html"}), nth=1)
    page = client.get(f"{MAPS}/{name}")
    assert (page.body, page.headers["Content-Type"]) == (b"<html>", "text/html")
    proxy.add(on("patch"), answer(504, when="after"))
    assert client.patch(name, "new").status == 504
    assert value_of(testbed, name) == "new"
    assert proxy.log[-1].applied


def test_call_runs_a_function_between_our_read_and_our_write(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    replies: list[bytes | None] = []
    proxy.add(on("patch", name=name), call(lambda _: label(testbed, name, "foreign")))
    proxy.add(on("patch", name=name), call(lambda record: replies.append(record.reply), when="after"))
    assert client.patch(name, "new").json["metadata"]["labels"] == {"step": "foreign"}
    [reply] = replies
    assert reply is not None
    assert json.loads(reply)["data"] == {"value": "new"}


def test_rewrite_makes_pages_of_a_list_smaller(proxy: FaultProxy, client: Client, name: str) -> None:
    client.create(f"{name}-2")
    proxy.add(on("list"), rewrite(lambda path: path.replace("limit=500", "limit=1")))
    page = client.get(f"{MAPS}?limit=500").json
    assert len(page["items"]) == 1
    token = page["metadata"]["continue"]
    assert len(client.get(f"{MAPS}?limit=500&continue={token}").json["items"]) == 1
    assert "limit=500" in proxy.log[-1].path


def test_connections_are_refused_and_accepted_again(
    proxy: FaultProxy, client: Client, make_client: MakeClient, name: str
) -> None:
    with client.watch() as watch:
        watch.readline()
        proxy.refuse_connections()
        with pytest.raises(http.client.IncompleteRead):
            watch.read()
    with pytest.raises(ConnectionRefusedError):
        make_client().get(MAPS)
    proxy.accept_connections()
    assert make_client().get(MAPS).status == 200
