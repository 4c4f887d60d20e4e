"""Watches and lists that break in every way: nothing is lost, nothing flaps, nothing is taken off (P1, P4).

All but the last tests share one operator behind one fault proxy, and leave it as they found it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.faulty import through_proxy
from harness.nodes import labels_of
from harness.waiting import eventually, holds
from harness.world import World
from testbed.cluster import Testbed
from testbed.faults import (
    FaultProxy,
    Record,
    alter,
    answer,
    call,
    cut,
    cut_stream,
    delay,
    drop,
    error_line,
    event,
    insert,
    line_of,
    on,
    replay,
    rewrite,
    silence,
)
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, OS_WINDOWS, POOL_LABEL

Object = dict[str, Any]
ROOT = Path(__file__).parents[2]

POOLS = "windowsnodepools"
NODES_WATCH = on("watch", "nodes")
POOLS_WATCH = on("watch", POOLS)
LABEL = "example.com/team"
SPEC: dict[str, Any] = {
    "labels": {LABEL: "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
NODES = 32
"""One or two for each test."""
RELIST = {"WINPOOL_POOL_RELIST_SECONDS": "2"}
"""So that a list of pools that fails need not be waited five minutes for."""
SILENCE_SECONDS = 75.0
"""A watch that says nothing is given up after 70 s (design §7), and a list takes a moment."""
MEMORY_BYTES = 64 * 1024 * 1024
"""By which the operator may grow over a few lines of 1.4 MB: they are never held for long."""
IN_TROUBLE = {("list", "nodes"), ("watch", "nodes"), ("watch", POOLS)}
IN_TROUBLE_AT_MOST = 15
"""So many of them in a test: nothing asks again and again without a pause."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A pool of nodes, converged, and its operator behind a proxy."""

    world: World
    proxy: FaultProxy
    pool: str
    nodes: int
    quiet: list[str]
    """Nodes that nobody has touched yet: a second repair of one waits for 2 s, a third for 4, and so on."""

    def drift(self, name: str) -> None:
        """Take away, behind the operator's back, a label that the pool put on."""
        self.world.kubectl("label", "node", name, f"{LABEL}-")

    def touch(self, name: str, value: str) -> None:
        """Change something on a node that is nobody's business."""
        self.world.kubectl("annotate", "node", name, f"example.com/touched={value}", "--overwrite")

    def is_repaired(self, name: str) -> bool:
        return LABEL in labels_of(self.world.node(name))

    def wait_repaired(self, name: str, *, seconds: float = 60) -> None:
        eventually(lambda: self.is_repaired(name), what=f"{name} repaired", seconds=seconds, every=0.05)

    def wait_watching(self, *resources: str) -> None:
        """Return when watches of all these resources are open."""

        def watched() -> bool:
            return set(resources) <= {each.resource for each in self.proxy.open_watches}

        eventually(watched, what=f"watches of {resources}", every=0.02)

    def edit(self, value: str) -> None:
        """Edit the label that the pool asks for."""
        patch = json.dumps({"spec": {"labels": {LABEL: value}}})
        self.world.kubectl("patch", "wnp", self.pool, "--type=merge", "-p", patch)

    def wait_value(self, value: str) -> None:
        """Return when all nodes carry what the pool asks for, and its status says so."""

        def carried() -> bool:
            return {labels_of(node).get(LABEL) for node in self.world.nodes().values()} == {value}

        eventually(carried, what=f"{LABEL}={value} on all nodes", every=0.05)
        self.world.wait_up_to_date(self.pool, nodes=self.nodes)

    def expire(self) -> None:
        """Make the operator list all nodes anew."""
        self.wait_watching("nodes")
        self.proxy.add(NODES_WATCH, insert(error_line(410)), nth=1)

    def wait_counted(self, nodes: int) -> None:
        """Return when the status says that the pool has so many nodes."""
        eventually(
            lambda: self.world.status(self.pool)["nodes"] == nodes, what=f"{nodes} nodes counted", every=0.05
        )

    @contextmanager
    def unshaken(self, *, drifted: Collection[str] = ()) -> Iterator[None]:
        """Assert that nothing happens to nodes but one repair of each drifted one, and no count flaps."""
        world, proxy = self.world, self.proxy
        self.wait_watching("nodes", POOLS)
        proxy.clear()
        pid, spec = world.operator.pid, world.get("wnp", self.pool)["spec"]
        with world.watch_nodes() as nodes, world.watch_pool(self.pool) as pools:
            yield
            for name in drifted:
                self.wait_repaired(name)
            self.wait_watching("nodes", POOLS)
            nodes.catch_up(world.nodes().values())
            pools.catch_up([world.get("wnp", self.pool)])
        assert nodes.changes("metadata", "labels") == {
            name: 2 if name in drifted else 0 for name in nodes.states
        }
        assert set(nodes.changes("spec").values()) == {0}
        assert set(nodes.changes("metadata", "annotations", APPLIED_ANNOTATION).values()) == {0}
        assert {each["status"]["nodes"] for each in pools.states[self.pool]} == {self.nodes}
        assert {json.dumps(each["spec"]) for each in pools.states[self.pool]} == {json.dumps(spec)}
        written = [each.name for each in proxy.writes() if each.resource == "nodes" and each.applied]
        assert sorted(written) == sorted(drifted)
        asked = [each for each in proxy.log if (each.verb, each.resource) in IN_TROUBLE]
        assert len(asked) <= IN_TROUBLE_AT_MOST, [str(each) for each in asked]
        assert (world.operator.pid, world.operator.ready()) == (pid, True)


@pytest.fixture(scope="module")
def theatre(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    world = World(testbed, directory=tmp_path_factory.mktemp("streams"))
    try:
        with staged(world, nodes=NODES, environment=RELIST) as stage:
            yield stage
    finally:
        world.close()


@contextmanager
def staged(world: World, *, nodes: int, environment: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Give a stage of its own to a world."""
    names = world.fleet(windows=nodes)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world, environment=environment) as proxy:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=nodes)
        yield Stage(world=world, proxy=proxy, pool=pool, nodes=nodes, quiet=names)


@pytest.fixture
def stage(theatre: Stage) -> Iterator[Stage]:
    yield theatre
    theatre.proxy.heal()


# Watches


def test_a_cut_watch_of_nodes_goes_on_though_its_first_tries_fail(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(NODES_WATCH, cut(), first=2)
        stage.proxy.add(NODES_WATCH, cut_stream(), nth=1)
        stage.drift(name)
    assert len([each for each in stage.proxy.log if each.actions == ("cut before",)]) == 2


def test_a_cut_watch_of_pools_hears_of_an_edit_made_meanwhile(stage: Stage) -> None:
    stage.wait_watching(POOLS)
    stage.proxy.add(POOLS_WATCH, cut(), first=2)
    stage.proxy.add(POOLS_WATCH, cut_stream(), nth=1)
    stage.edit("platform")
    stage.wait_value("platform")
    stage.edit("payments")
    stage.wait_value("payments")


def test_a_watch_cut_in_mid_line_loses_nothing(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        rules = [
            stage.proxy.add(NODES_WATCH, cut_stream(in_line=True), nth=1),
            stage.proxy.add(NODES_WATCH, cut_stream(in_line=True, clean=True), nth=2),
        ]
        stage.drift(name)
    assert [rule.hits for rule in rules] == [1, 1]


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_410_in_the_stream_lists_anew(stage: Stage, times: int) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for match in (NODES_WATCH, POOLS_WATCH):
            stage.proxy.add(match, insert(error_line(410)), first=times)
            stage.proxy.add(match, cut_stream(clean=True), first=times)  # as the API server ends it then
        stage.drift(name)
    assert len(requests(stage, "list", "nodes")) == times


def test_410_as_a_status_lists_anew(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for match in (NODES_WATCH, POOLS_WATCH):
            stage.proxy.add(match, answer(410), first=1)
            stage.proxy.add(match, cut_stream(), nth=1)
        stage.drift(name)
    assert len(requests(stage, "list", "nodes")) == 1


GARBAGE = {
    "html": b"<html><body>502 Bad Gateway</body></html>",
    "binary": b"\xff\xfe\x00\x80",
    "deep": b"[" * 100_000,
    "nobody": line_of({"type": "MODIFIED", "object": {}}),
    "renamed": line_of({"type": "RENAMED", "object": {"metadata": {"resourceVersion": "1"}}}),
}


@pytest.mark.parametrize(
    ("resource", "kind"), [*(("nodes", kind) for kind in GARBAGE), (POOLS, "html")], ids=lambda value: value
)
def test_garbage_in_a_watch_is_no_news(stage: Stage, resource: str, kind: str) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(on("watch", resource), insert(GARBAGE[kind]), nth=1)
        stage.drift(name)
    if resource == POOLS:
        stage.edit("platform")
        stage.wait_value("platform")
        stage.edit("payments")
        stage.wait_value("payments")


def test_a_line_of_megabytes_is_taken_in_and_memory_stays_bounded(stage: Stage) -> None:
    process = psutil.Process(stage.world.operator.pid)
    before = process.memory_info().rss
    big = b'{"padding":"' + b"x" * 1_400_000 + b'",'
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for match in (NODES_WATCH, POOLS_WATCH):
            stage.proxy.add(match, alter(lambda line: big + line[1:], where=event("MODIFIED")), nth=1)
        stage.drift(name)
        stage.world.kubectl("annotate", "wnp", stage.pool, "example.com/touched=yes")
        for resource in ("nodes", POOLS):
            stage.proxy.wait_for(on("watch", resource, where=lambda each: "alter" in each.actions))
    for match in (NODES_WATCH, POOLS_WATCH):
        watches = [each for each in stage.proxy.log if match(each)]
        assert [("alter" in each.actions, each.done) for each in watches] == [(True, False)]
    assert requests(stage, "list", "nodes") == [], "there was no need to list anew"
    assert process.memory_info().rss - before < MEMORY_BYTES


def test_lines_sent_once_more_turn_nothing_back(stage: Stage) -> None:
    name, other = stage.quiet.pop(), stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        replayed = stage.proxy.add(NODES_WATCH, replay(after_lines=4), nth=1)
        stage.drift(name)  # this line and that of the repair will be among them
        stage.wait_repaired(name)
        for value in ("once", "twice"):
            stage.touch(other, value)
        stage.proxy.wait_for(lambda each: "replay" in each.actions)
        holds(lambda: stage.is_repaired(name), seconds=1)
    assert replayed.hits == 1


def test_an_old_deletion_of_a_node_that_is_there_is_not_believed(stage: Stage) -> None:
    name, other = stage.quiet.pop(), stage.quiet.pop()
    seen: list[bytes] = []
    stage.wait_watching("nodes")
    with stage.proxy.add(NODES_WATCH, alter(kept_in(seen), where=event("MODIFIED", name=name))):
        for value in ("then", "now"):
            stage.touch(name, value)
        eventually(lambda: len(seen) >= 2, what="two lines about the node")
    with stage.unshaken(drifted=[other]):
        stage.proxy.add(NODES_WATCH, insert(seen[0].replace(b"MODIFIED", b"DELETED", 1)), nth=1)
        stage.drift(other)  # the pass that repairs it reports how many nodes there are
    stage.world.wait_up_to_date(stage.pool, nodes=stage.nodes)


def kept_in(seen: list[bytes]) -> Callable[[bytes], bytes]:
    """Return what notes a line and leaves it as it is."""

    def keep(line: bytes) -> bytes:
        seen.append(line)
        return line

    return keep


def test_lines_that_are_lost_do_no_harm_and_the_next_list_makes_up_for_them(stage: Stage) -> None:
    name, other, ghost = stage.quiet.pop(), stage.quiet.pop(), f"ghost-{stage.world.suffix}"
    with stage.unshaken(drifted=[name, other]):
        with stage.proxy.add(NODES_WATCH, drop(where=event("MODIFIED", name=name))) as lost:
            stage.drift(name)
            stage.drift(other)
            stage.wait_repaired(other)
            assert not stage.is_repaired(name)
        stage.expire()
    assert lost.hits == 1
    with stage.proxy.add(NODES_WATCH, drop(where=event("ADDED", "MODIFIED", name=ghost))):
        create_node(stage.world, ghost)
        stage.wait_counted(stage.nodes)
        assert POOL_LABEL not in labels_of(stage.world.node(ghost))
        stage.expire()
        eventually(lambda: POOL_LABEL in labels_of(stage.world.node(ghost)), what="the new node taken in")
    with stage.proxy.add(NODES_WATCH, drop(where=event("DELETED", name=ghost))):
        stage.wait_counted(stage.nodes + 1)
        stage.world.kubectl("delete", "node", ghost)
        stage.expire()
        stage.wait_counted(stage.nodes)
    stage.world.wait_up_to_date(stage.pool, nodes=stage.nodes)


def create_node(world: World, name: str) -> None:
    """Create a Windows node of this world that has no kubelet."""
    labels = {OS_LABEL: OS_WINDOWS, **world.selector}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    world.kubectl("create", "-f", "-", stdin=json.dumps(node))


# Lists


def test_a_continue_token_that_expired_begins_the_list_anew(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(on("list", "nodes"), rewrite(lambda path: path.replace("limit=500", "limit=5")))
        expired = stage.proxy.add(on("list", "nodes", path="continue="), answer(410), nth=2)
        stage.expire()
        stage.drift(name)
        stage.proxy.wait_for(on("list", "nodes", path="continue="), count=2 + stage.nodes // 5)
    assert expired.hits == 1


BROKEN_LISTS = {
    "empty-object": "{}",
    "no-version": '{"kind":"%s","metadata":{},"items":[]}',
    "old": '{"kind":"%s","metadata":{"resourceVersion":"1"},"items":[]}',
}


@pytest.mark.parametrize("kind", BROKEN_LISTS)
def test_a_broken_list_of_nodes_takes_nothing_away(stage: Stage, kind: str) -> None:
    name = stage.quiet.pop()
    body = BROKEN_LISTS[kind].replace("%s", "NodeList").encode()
    with stage.unshaken(drifted=[name]):
        stage.proxy.add(on("list", "nodes"), answer(200, body=body), first=1)
        stage.proxy.add(on(["list", "watch"], "nodes"), delay(0.5))  # to give a wrong conclusion time to show
        stage.expire()
        stage.drift(name)
    answers = [each.actions[0] for each in requests(stage, "list", "nodes")]
    assert answers == ["answer 200 before", "delay 0.5 s before"]


def test_broken_lists_of_pools_take_nothing_away(stage: Stage) -> None:
    name = stage.quiet.pop()
    with stage.unshaken(drifted=[name]):
        for number, text in enumerate(BROKEN_LISTS.values(), start=1):
            body = text.replace("%s", "WindowsNodePoolList").encode()
            stage.proxy.add(on("list", POOLS), answer(200, body=body), nth=number)
        broken = on("list", POOLS, where=lambda each: bool(each.actions) and each.done)
        stage.proxy.wait_for(broken, count=len(BROKEN_LISTS))
        stage.drift(name)


# Silence


def test_a_silent_watch_is_given_up_and_what_it_kept_back_is_found(stage: Stage) -> None:
    name = stage.quiet.pop()
    begin = time.monotonic()
    with stage.unshaken(drifted=[name]):
        rules = [stage.proxy.add(match, silence(), nth=1) for match in (NODES_WATCH, POOLS_WATCH)]
        stage.drift(name)
        holds(stage.world.operator.ready, seconds=SILENCE_SECONDS - 10, every=1)
        assert not stage.is_repaired(name)
        for match in (NODES_WATCH, POOLS_WATCH):
            stage.proxy.wait_for(match, count=2)
    assert time.monotonic() - begin < SILENCE_SECONDS + 10
    assert [rule.hits for rule in rules] == [1, 1]


# The API server itself


def test_a_restarted_api_server_that_knows_no_old_versions_is_caught_up_with(tmp_path: Path) -> None:
    directory = tmp_path / "testbed"
    with Testbed.up(directory=directory, apply=[ROOT / "crds", ROOT / "deploy" / "base"]) as own:
        world = World(own, directory=tmp_path)
        try:
            with staged(world, nodes=4) as stage:
                catch_up_with_a_restart(stage)
                list_across_a_restart(stage)
        finally:
            world.close()


def catch_up_with_a_restart(stage: Stage) -> None:
    """Have the watches go on from versions that are gone: a real 410 in the stream."""
    drifted, deleted, *_ = stage.quiet
    errors: list[bytes] = []
    before = {name: each for name, each in stage.world.carried().items() if name != deleted}
    for match in (NODES_WATCH, POOLS_WATCH):
        stage.proxy.add(match, alter(kept_in(errors), where=event("ERROR")))
    stage.proxy.refuse_connections()
    stage.drift(drifted)
    stage.world.kubectl("delete", "node", deleted)
    stage.edit("payments-2")
    stage.edit("payments")
    restart_without_history(stage.world.testbed)
    stage.proxy.accept_connections()
    stage.wait_repaired(drifted)
    stage.world.wait_up_to_date(stage.pool, nodes=3)
    assert stage.world.carried() == before
    codes = [json.loads(line)["object"]["code"] for line in errors]
    assert codes
    assert set(codes) == {410}


def list_across_a_restart(stage: Stage) -> None:
    """Have the API server forget a continue token between two pages: a real 410 as a status."""
    drifted = stage.quiet[2]
    testbed = stage.world.testbed
    before = stage.world.carried()
    second_page = on("list", "nodes", path="continue=")
    stage.proxy.heal()
    stage.proxy.clear()
    stage.proxy.add(on("list", "nodes"), rewrite(lambda path: path.replace("limit=500", "limit=2")))

    def forget(_: Record) -> None:
        stage.drift(drifted)
        restart_without_history(testbed)

    stage.proxy.add(second_page, call(forget), nth=1)
    stage.expire()
    assert stage.proxy.wait_for(lambda each: second_page(each) and each.done).status == 410
    stage.wait_repaired(drifted)
    stage.world.wait_up_to_date(stage.pool, nodes=3)
    assert stage.world.carried() == before


def restart_without_history(testbed: Testbed) -> None:
    """Have etcd drop all old versions, and the API server its memory of them."""
    status = etcd(testbed, "maintenance/status", {})
    etcd(testbed, "kv/compaction", {"revision": status["header"]["revision"], "physical": True})
    apiserver = testbed.component("apiserver")
    apiserver.kill()
    apiserver.start()
    apiserver.wait_ready()


def etcd(testbed: Testbed, path: str, body: Object) -> Object:
    """Ask etcd by its HTTP gateway."""
    connection = http.client.HTTPConnection(testbed.etcd_url.removeprefix("http://"), timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", f"/v3/{path}", body=json.dumps(body))
        answered = connection.getresponse()
        told: Object = json.load(answered)
        assert answered.status == 200, told
        return told


def requests(stage: Stage, verb: str, resource: str) -> list[Record]:
    return [each for each in stage.proxy.log if (each.verb, each.resource) == (verb, resource)]
