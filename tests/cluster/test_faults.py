"""The fault proxy on a real API server, seen by a plain client: each thing that it can do."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from testbed.cluster import Testbed
from testbed.faults import (
    WRITES,
    FaultError,
    FaultProxy,
    Record,
    alter,
    answer,
    bookmark_line,
    call,
    cut,
    cut_stream,
    delay,
    drop,
    error_line,
    event,
    insert,
    on,
    replay,
    rewrite,
    silence,
    stall,
)
from testbed.kubeconfig import by_token_file
from testbed.paths import write_atomically
from testbed.pins import chosen_pins

Object = dict[str, Any]

ROLE = "fault-tester"
USER = f"system:serviceaccount:faults:{ROLE}"
MAPS = "/api/v1/namespaces/faults/configmaps"
GUARD_SECONDS = 30.0
"""Against waiting for ever; every answer here comes within milliseconds."""
BROKEN = (http.client.HTTPException, ConnectionError, ssl.SSLError)
"""What http.client raises where a connection is broken off."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Object:
        parsed: Object = json.loads(self.body)
        return parsed


class Client:
    """One connection, kept alive, of somebody who knows no better than HTTP."""

    def __init__(self, server: str, *, tls: ssl.SSLContext, token: str) -> None:
        self._connection = http.client.HTTPSConnection(
            server.removeprefix("https://"), context=tls, timeout=GUARD_SECONDS
        )
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "plain/1"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def local_port(self) -> int:
        """Port of our end: the same as long as the connection is."""
        port: int = self._connection.sock.getsockname()[1]
        return port

    def ask(
        self, method: str, path: str, *, body: Object | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        response = self._send(method, path, body=body, headers=headers or {})
        return Answer(response.status, response.headers, response.read())

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def patch(self, name: str, value: str) -> Answer:
        kind = {"Content-Type": "application/merge-patch+json"}
        return self.ask("PATCH", f"{MAPS}/{name}", body={"data": {"value": value}}, headers=kind)

    def create(self, name: str, **data: str) -> Answer:
        manifest = {"metadata": {"name": name}, "data": data}
        return self.ask("POST", MAPS, body=manifest, headers={"Content-Type": "application/json"})

    def watch(self, query: str = "") -> http.client.HTTPResponse:
        """Open a watch of our config maps; lines come by ``readline``."""
        response = self._send("GET", f"{MAPS}?watch=1{query}", body=None, headers={})
        assert response.status == 200
        return response

    def _send(
        self, method: str, path: str, *, body: Object | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, body=data, headers={**self._headers, **headers})
            return self._connection.getresponse()
        except BROKEN:
            self._connection.close()  # and the next request makes it anew
            raise


MakeClient = Callable[[], Client]


@pytest.fixture(scope="module")
def tester(testbed: Testbed) -> Iterator[str]:
    """A token that may do everything, and a kubeconfig of the role ROLE with it."""
    testbed.kubectl("create", "namespace", "faults")
    testbed.kubectl("create", "serviceaccount", ROLE, "-n", "faults")
    binding = ["clusterrolebinding", f"faults-{ROLE}"]
    grant = ["--clusterrole=cluster-admin", f"--serviceaccount=faults:{ROLE}"]
    testbed.kubectl("create", *binding, *grant)
    token = testbed.kubectl("create", "token", ROLE, "-n", "faults").stdout.strip()
    file = testbed.directory / f"{ROLE}.token"
    write_atomically(file, token)
    text = by_token_file(server=testbed.server, ca_file=testbed.ca_file, user=ROLE, token_file=file)
    write_atomically(testbed.layout.kubeconfig(ROLE), text)
    yield token
    testbed.kubectl("delete", *binding)
    testbed.kubectl("delete", "namespace", "faults", "--wait=false")


@pytest.fixture
def proxy(testbed: Testbed) -> Iterator[FaultProxy]:
    with FaultProxy(testbed) as running:
        yield running


@pytest.fixture
def make_client(testbed: Testbed, proxy: FaultProxy, tester: str) -> Iterator[MakeClient]:
    tls = ssl.create_default_context(cafile=str(testbed.ca_file))
    made: list[Client] = []

    def make() -> Client:
        made.append(Client(proxy.server, tls=tls, token=tester))
        return made[-1]

    yield make
    for client in made:
        client.__exit__()


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client()


@pytest.fixture
def name(testbed: Testbed, tester: str, request: pytest.FixtureRequest) -> str:
    """A config map of the test's own, with the value "old"."""
    name = request.node.name.replace("_", "-").replace("[", ".").replace("]", "")[:60].rstrip("-.")
    testbed.kubectl("create", "configmap", name, "-n", "faults", "--from-literal=value=old")
    return str(name)


def value_of(testbed: Testbed, name: str) -> str:
    path = "jsonpath={.data.value}"
    return testbed.kubectl("get", "configmap", name, "-n", "faults", "-o", path).stdout


def label(testbed: Testbed, name: str, text: str) -> None:
    testbed.kubectl("label", "configmap", name, "-n", "faults", f"step={text}", "--overwrite")


def read(watch: http.client.HTTPResponse) -> Object:
    """Return the next line of a watch, parsed."""
    line: Object = json.loads(watch.readline())
    return line


def step_of(seen: Object) -> tuple[str, str]:
    return seen["type"], seen["object"]["metadata"].get("labels", {}).get("step", "")


# Without a rule


def test_requests_pass_unchanged_and_the_audit_log_names_the_client(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    assert client.patch(name, "new").json["data"] == {"value": "new"}
    port = client.local_port
    assert client.get(f"{MAPS}/{name}").json["data"] == {"value": "new"}
    missing = client.get(f"{MAPS}/none")
    assert (missing.status, missing.json["reason"]) == (404, "NotFound")
    assert client.local_port == port, "the connection is kept alive"
    proxy.wait_for(lambda each: each.done, count=3)
    patch, get, none = proxy.log
    assert (patch.verb, patch.resource, patch.namespace, patch.name, patch.status, patch.server_status) == (
        "patch", "configmaps", "faults", name, 200, 200,
    )  # fmt: skip
    assert (patch.user_agent, json.loads(patch.body)) == ("plain/1", {"data": {"value": "new"}})
    assert [each.number for each in proxy.log] == [1, 2, 3]
    assert all(each.done and each.forwarded and not each.actions for each in (patch, get, none))
    assert proxy.writes() == (patch,)
    assert patch.applied
    testbed.settle_audit()
    audited = [each for each in testbed.audit.requests(user=USER, resource="configmaps") if each.name == name]
    assert [(each.verb, each.code, each.user_agent) for each in audited] == [
        ("patch", 200, "plain/1"),
        ("get", 200, "plain/1"),
    ]


def test_kubectl_works_through_it_and_a_certificate_does_not(
    testbed: Testbed, proxy: FaultProxy, tester: str
) -> None:
    through = f"--kubeconfig={proxy.kubeconfig(ROLE)}"
    assert USER in testbed.kubectl(through, "auth", "whoami").stdout
    assert "kube-system" in testbed.kubectl(through, "get", "namespaces", "-o", "name").stdout
    agent = proxy.wait_for(on("list", "namespaces")).user_agent
    assert agent.startswith(f"kubectl/{chosen_pins().kubernetes}")
    with pytest.raises(FaultError, match="admin authenticates by certificate"):
        proxy.kubeconfig("admin")


def test_bodies_of_a_megabyte_pass_both_ways(client: Client, name: str) -> None:
    big = "x" * 1_000_000
    created = client.create(f"{name}-big", big=big)
    assert (created.status, len(created.json["data"]["big"])) == (201, len(big))
    assert len(client.get(MAPS).body) > len(big)


def test_lines_of_a_watch_come_one_by_one_as_they_happen(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        assert step_of(read(watch)) == ("ADDED", "")
        for text in ("a", "b"):
            label(testbed, name, text)
            assert step_of(read(watch)) == ("MODIFIED", text)
        [record] = proxy.open_watches
        assert (record.verb, record.name, record.status, record.done) == ("watch", name, 200, False)
        assert proxy.wait_for(lambda each: each.lines == 3)
        assert proxy.log[-1].is_open_watch
        proxy.clear()
        assert proxy.log == proxy.open_watches, "what is not over is not forgotten"
    client.__exit__()
    assert proxy.wait_for(lambda each: each.verb == "watch" and each.done)
    assert proxy.open_watches == ()


def test_forwarding_a_patch_costs_at_most_two_milliseconds_of_processor_time(
    proxy: FaultProxy, client: Client, name: str
) -> None:
    client.patch(name, "warm")
    clock = time.pthread_getcpuclockid(_thread_of(proxy))
    before = time.clock_gettime(clock)
    for number in range(200):
        assert client.patch(name, str(number)).status == 200
    spent = time.clock_gettime(clock) - before
    assert spent / 200 < 0.002


def _thread_of(proxy: FaultProxy) -> int:
    [thread] = [each for each in threading.enumerate() if each.name.endswith(proxy.server.rpartition(":")[2])]
    assert thread.ident is not None
    return thread.ident


# Which requests


def test_a_rule_acts_on_what_matches_and_on_nothing_else(
    proxy: FaultProxy, client: Client, name: str
) -> None:
    rules = [
        proxy.add(on("patch", "configmaps", name=name, namespace="faults"), answer(409)),
        proxy.add(on(WRITES, "configmaps/status"), answer(500)),
        proxy.add(on(path=r"limit=7\b"), answer(429)),
        proxy.add(on(user_agent="^other/"), answer(503)),
        proxy.add(on("patch", where=lambda record: b"poison" in record.body), answer(422)),
    ]
    assert client.patch(name, "new").status == 409
    assert client.patch(f"{name}-2", "new").status == 404
    assert client.patch(f"{name}-2", "poison").status == 422
    assert client.get(f"{MAPS}/{name}").status == 200
    assert client.get(f"{MAPS}?limit=7").status == 429
    assert client.get(f"{MAPS}?limit=70").status == 200
    assert client.ask("GET", MAPS, headers={"User-Agent": "other/1"}).status == 503
    assert [rule.hits for rule in rules] == [1, 0, 1, 1, 1]
    assert [record.actions for record in proxy.log if record.actions] == [
        ("answer 409 before",), ("answer 422 before",), ("answer 429 before",), ("answer 503 before",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ({"nth": 3}, [200, 200, 409, 200, 200, 200]),
        ({"every": 2}, [200, 409, 200, 409, 200, 409]),
        ({"first": 2}, [409, 409, 200, 200, 200, 200]),
        ({}, [409] * 6),
    ],
    ids=["nth", "every", "first", "all"],
)
def test_a_rule_acts_by_count(
    proxy: FaultProxy, client: Client, name: str, count: dict[str, int], expected: list[int]
) -> None:
    proxy.add(on("patch", "configmaps", name=name), answer(409), **count)
    assert [client.patch(name, str(number)).status for number in range(6)] == expected


def test_rules_act_together_until_removed(proxy: FaultProxy, client: Client, name: str) -> None:
    seen: list[Record] = []
    proxy.add(on("patch"), call(seen.append))
    with proxy.add(on("patch"), answer(409)):
        assert client.patch(name, "new").status == 409
    assert client.patch(name, "new").status == 200
    proxy.heal()
    assert client.patch(name, "newer").status == 200
    assert [record.number for record in seen] == [1, 2]


# What is done to a request


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


SENDER = """
import sys, threading, urllib.request, ssl
server, ca, token, path, at_once, *names = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
def send(name):
    data = b'{"data":{"value":"new"}}'
    request = urllib.request.Request(f"{server}{path}/{name}", method="PATCH", data=data)
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/merge-patch+json")
    urllib.request.urlopen(request, context=tls).read()
threads = [threading.Thread(target=send, args=(name,)) for name in names]
for thread in threads:
    thread.start()
    if at_once != "yes":
        thread.join()
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at_once", [False, True], ids=["in-turn", "at-once"])
def test_the_operator_is_killed_at_its_nth_write(
    testbed: Testbed, proxy: FaultProxy, tester: str, name: str, when: Any, *, at_once: bool
) -> None:
    names = [name, *(f"{name}-{number}" for number in range(2, 9))]
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": each}} for each in names[1:]]
    others = json.dumps({"apiVersion": "v1", "kind": "List", "items": maps})
    testbed.kubectl("create", "-n", "faults", "-f", "-", stdin=others)
    pids: list[int] = []
    proxy.kill_operator_on(5, when=when, pid=lambda: pids[0])
    place = [proxy.server, str(testbed.ca_file), tester, MAPS]
    command = [sys.executable, "-c", SENDER, *place, "yes" if at_once else "no", *names]
    with subprocess.Popen(command) as process:
        pids.append(process.pid)  # long before it has begun to run
        assert process.wait(timeout=GUARD_SECONDS) == -signal.SIGKILL
    killed = proxy.wait_for(lambda each: f"kill {when}" in each.actions and each.done)
    assert (killed.number, killed.forwarded, killed.applied) == (5, when == "after", when == "after")
    proxy.wait_for(lambda each: each.done, count=len(proxy.log))
    applied = {each.name for each in proxy.writes() if each.applied}
    assert {each.name for each in proxy.log[:4]} <= applied
    found = testbed.kubectl("get", "configmaps", *names, "-n", "faults", "-o", "json").stdout
    changed = [each for each in json.loads(found)["items"] if each.get("data") == {"value": "new"}]
    assert {each["metadata"]["name"] for each in changed} == applied
    if when == "before":
        assert len(proxy.log) == 5
    if not at_once:
        assert applied == set(names[: 5 if when == "after" else 4])


# What is done to the lines of a watch


def test_a_stream_is_cut_at_once(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        rule = proxy.add(on("watch", "configmaps", name=name), cut_stream())
        with pytest.raises(http.client.IncompleteRead):
            watch.read()
    record = proxy.wait_for(lambda each: each.done)
    assert (record.actions, record.lines, rule.hits) == (("cut stream",), 1, 1)


@pytest.mark.parametrize("clean", [False, True], ids=["broken", "clean"])
@pytest.mark.parametrize("in_line", [False, True], ids=["between", "in-line"])
def test_a_stream_is_cut_after_lines(
    testbed: Testbed, proxy: FaultProxy, make_client: MakeClient, name: str, *, clean: bool, in_line: bool
) -> None:
    proxy.add(on("watch"), cut_stream(after_lines=1, in_line=in_line, clean=clean), nth=1)
    with make_client().watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        if in_line:
            label(testbed, name, "a")
        if clean:
            rest = watch.read()
        else:
            with pytest.raises(http.client.IncompleteRead) as broken:
                watch.read()
            rest = broken.value.partial
    assert rest.startswith(b'{"type":"MODIFIED"') is in_line
    assert not rest.endswith(b"\n")
    with make_client().watch(f"&fieldSelector=metadata.name={name}") as watch:  # which is left alone
        assert read(watch)["type"] == "ADDED"


def test_silence_keeps_the_connection_and_loses_nothing(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    got: list[tuple[str, str]] = []
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        rule = proxy.add(on("watch"), silence())
        thread = threading.Thread(target=lambda: got.extend(step_of(read(watch)) for _ in range(3)))
        thread.start()
        for text in ("a", "b", "c"):
            label(testbed, name, text)
        time.sleep(0.3)  # lines take a millisecond; this is to give a fault the time to show
        assert got == []
        assert [record.lines for record in proxy.open_watches] == [1]
        rule.release()
        thread.join(timeout=GUARD_SECONDS)
    assert got == [("MODIFIED", "a"), ("MODIFIED", "b"), ("MODIFIED", "c")]


def test_a_silent_stream_can_be_cut_and_told(proxy: FaultProxy, client: Client, name: str) -> None:
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        proxy.add(on("watch"), silence())
        proxy.add(on("watch"), insert(b"still here"))
        assert watch.readline() == b"still here\n"
        proxy.add(on("watch"), cut_stream(clean=True))
        assert watch.read() == b""


def test_lines_are_inserted(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    expired, mark = error_line(410), bookmark_line("77", kind="ConfigMap")
    proxy.add(on("watch"), insert(expired))
    proxy.add(on("watch"), insert(mark, after_lines=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        error = read(watch)
        assert (error["type"], error["object"]["code"], error["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )
        assert read(watch)["type"] == "ADDED"
        label(testbed, name, "a")
        assert step_of(read(watch)) == ("MODIFIED", "a")
        seen = read(watch)
        assert (seen["type"], seen["object"]["metadata"]) == ("BOOKMARK", {"resourceVersion": "77"})
        proxy.add(on("watch"), insert(b"\x00 garbage"))
        assert watch.readline() == b"\x00 garbage\n"


def test_lines_are_altered_and_dropped(
    testbed: Testbed, proxy: FaultProxy, client: Client, name: str
) -> None:
    changed = event("MODIFIED", name=name)
    proxy.add(on("watch"), drop(where=changed, nth=2))
    proxy.add(on("watch"), alter(lambda line: line.replace(b"MODIFIED", b"UNHEARD"), where=changed, nth=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        for text in "abcd":
            label(testbed, name, text)
        seen = [step_of(read(watch)) for _ in range(3)]
    assert seen == [("MODIFIED", "a"), ("UNHEARD", "c"), ("MODIFIED", "d")]
    assert proxy.log[0].actions == ("drop", "alter")


def test_a_line_of_megabytes_passes(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    big = b" " * 3_000_000
    proxy.add(on("watch"), alter(lambda line: line.replace(b"{", b"{" + big, 1), nth=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        label(testbed, name, "a")
        line = watch.readline()
    assert len(line) > len(big)
    assert step_of(json.loads(line)) == ("MODIFIED", "a")


def test_lines_are_sent_once_more(testbed: Testbed, proxy: FaultProxy, client: Client, name: str) -> None:
    proxy.add(on("watch"), replay(after_lines=2))
    with client.watch(f"&fieldSelector=metadata.name={name}") as watch:
        read(watch)
        label(testbed, name, "a")
        label(testbed, name, "b")
        seen = [step_of(read(watch)) for _ in range(4)]
    assert seen == [("MODIFIED", "a"), ("ADDED", ""), ("MODIFIED", "a"), ("MODIFIED", "b")]


# Manners


def test_it_ends_at_once_whatever_it_holds(testbed: Testbed, tester: str, name: str) -> None:
    tls = ssl.create_default_context(cafile=str(testbed.ca_file))
    with FaultProxy(testbed) as proxy:
        clients = [Client(proxy.server, tls=tls, token=tester) for _ in range(4)]
        proxy.add(on("patch"), stall())
        proxy.add(on("get"), stall(when="after"))
        proxy.add(on("delete"), delay(600))
        ask = [
            lambda: clients[0].patch(name, "new"),
            lambda: clients[1].get(f"{MAPS}/{name}"),
            lambda: clients[2].ask("DELETE", f"{MAPS}/{name}"),
        ]
        failed: list[BaseException] = []
        threads = [threading.Thread(target=_note_failure, args=(each, failed)) for each in ask]
        for thread in threads:
            thread.start()
        proxy.wait_for(lambda each: bool(each.actions), count=3)
        with clients[3].watch() as watch:
            watch.readline()
            proxy.add(on("watch"), silence())
            server = proxy.server
            begin = time.monotonic()
            proxy.__exit__(None, None, None)
            assert time.monotonic() - begin < 1
        for thread in threads:
            thread.join(timeout=GUARD_SECONDS)
        assert len(failed) == 3
        with pytest.raises(ConnectionRefusedError), Client(server, tls=tls, token=tester) as late:
            late.get(MAPS)
        for client in clients:
            client.__exit__()
    assert not [each for each in threading.enumerate() if each.name.startswith("fault-proxy")]
    assert value_of(testbed, name) == "old"


def _note_failure(function: Callable[[], object], failed: list[BaseException]) -> None:
    try:
        function()
    except BROKEN as error:
        failed.append(error)


def test_a_function_that_fails_fails_the_test(testbed: Testbed, tester: str, name: str) -> None:
    tls = ssl.create_default_context(cafile=str(testbed.ca_file))

    def fail(_: Record) -> None:
        raise LookupError("of the test's own making")

    def misuse() -> None:
        with FaultProxy(testbed) as proxy, Client(proxy.server, tls=tls, token=tester) as client:
            proxy.add(on("patch"), call(fail))
            with pytest.raises(BROKEN):
                client.patch(name, "new")

    with pytest.raises(FaultError, match="function that was given to the proxy failed") as raised:
        misuse()
    assert isinstance(raised.value.__cause__, LookupError)


def test_waiting_in_vain_shows_what_came(proxy: FaultProxy, client: Client, name: str) -> None:
    client.get(f"{MAPS}/{name}")
    with pytest.raises(FaultError, match=rf"1 get configmaps {name}: 200"):
        proxy.wait_for(on("patch"), seconds=0.05)
    proxy.clear()
    assert proxy.log == ()


def test_the_api_server_gone_looks_like_a_connection_broken_off(tmp_path: Path) -> None:
    with Testbed.up(directory=tmp_path) as own, FaultProxy(own) as proxy:
        own.kubectl("create", "namespace", "winpool-system")
        tls = ssl.create_default_context(cafile=str(own.ca_file))
        with Client(proxy.server, tls=tls, token="nobody") as client:
            assert client.get("/version").status == 401
            own.component("apiserver").kill()
            with pytest.raises(BROKEN):
                client.get("/version")
            assert "Error" in proxy.wait_for(lambda each: each.done, count=2).problem
            own.component("apiserver").start()
            own.component("apiserver").wait_ready()
            assert client.get("/version").status == 401
