"""How often ``status -w`` reads and draws, and what it does where a watch fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, cast

import pytest

from winpool.cli import reader
from winpool.cli.kubectl import Kubectl, KubectlError
from winpool.cli.reader import PoolFeed
from winpool.cli.status import Seen, watch
from winpool.kube.pools import POOLS_PATH


class _Changes:
    """An event that is set when the time of the test comes to one of ``at``."""

    def __init__(self, at: list[float]) -> None:
        self.now, self.version, self._at, self._set = 0.0, 0, at, False

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        while self._at and self._at[0] <= self.now:
            self._at.pop(0)
            self.version += 1
            self._set = True

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def clear(self) -> None:
        self._set = False

    def wait(self, seconds: float) -> None:
        if not self._set:
            ends = min([self.now + seconds, *self._at[:1]])
            self.pass_by(ends - self.now)


class _EndError(Exception):
    """The time of the test is over."""


@dataclass
class Feed:
    """Pools that change when the test says so."""

    changed: _Changes
    fault: BaseException | None = None

    def run(self) -> None:
        """Do nothing: the test changes it."""


@dataclass
class Watch:
    """What is drawn, and when the nodes were listed."""

    pools: int
    drawn: list[int] = field(default_factory=list)
    listed: list[float] = field(default_factory=list)

    def run(self, *at: float) -> None:
        changes = _Changes([*at])
        end = at[-1] + 5

        def look() -> Seen:
            self.listed.append(changes.now)
            pools = ({"version": changes.version},) * self.pools
            return Seen(pools=pools, nodes={} if self.pools == 1 else None)

        def sleep(seconds: float) -> None:
            if changes.now > end:
                raise _EndError
            changes.pass_by(seconds)

        def draw(seen: Seen) -> None:
            if seen.is_news:
                self.drawn.append(seen.pools[0]["version"])

        with pytest.raises(_EndError):
            watch(cast("PoolFeed", Feed(cast(Any, changes))), look, draw=draw, sleep=sleep)


def test_nodes_are_listed_at_most_once_in_three_seconds() -> None:
    found = Watch(pools=1)
    found.run(*(0.2 * number for number in range(1, 301)))
    assert min(later - before for before, later in pairwise(found.listed)) >= 3
    assert 15 <= len(found.listed) <= 24
    assert found.drawn[-1] == 300, "the last change is shown"


def test_a_change_after_a_rest_is_shown_at_once() -> None:
    found = Watch(pools=1)
    found.run(4.0)
    assert found.listed[1] == pytest.approx(4)
    assert found.drawn == [0, 1]


def test_of_several_pools_no_nodes_are_listed_and_changes_are_shown_sooner() -> None:
    found = Watch(pools=2)
    found.run(*(float(number) for number in range(1, 11)))
    assert found.drawn == list(range(11))


def test_a_fault_of_ours_ends_it() -> None:
    feed = Feed(cast(Any, _Changes([])), fault=ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        watch(cast("PoolFeed", feed), lambda: Seen(pools=()), draw=lambda _: None)


# The feed


def a_pool(name: str, version: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "uid": name,
        "resourceVersion": version,
        "creationTimestamp": "2026-11-01T00:00:00Z",
    }
    return {"metadata": metadata}


def line(type_: str, content: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": content}).encode() + b"\n"


class Server(Kubectl):
    """Gives lists and watches of pools one after the other, and notes what was asked; then it hangs."""

    def __init__(self, *answers: list[Any] | KubectlError) -> None:
        super().__init__()
        self.answers = [*answers]
        self.asked: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.done = threading.Event()
        self.ended = threading.Event()

    def _next(self, asked: str) -> list[Any]:
        self.asked.append(asked)
        if not self.answers:
            self.done.set()
            self.ended.wait()
            raise SystemExit
        answer = self.answers.pop(0)
        if isinstance(answer, KubectlError):
            raise answer
        return answer

    def get(self, path: str, **query: str) -> bytes:
        assert (path, query.pop("limit")) == (POOLS_PATH, "1000")
        self.queries.append(query)
        content = {
            "kind": "WindowsNodePoolList",
            "apiVersion": "winpool.dev/v1alpha1",
            "metadata": {"resourceVersion": "5"},
            "items": self._next("list"),
        }
        return json.dumps(content).encode()

    def watch(self, path: str, **query: str) -> Iterator[bytes]:
        assert path == POOLS_PATH
        self.queries.append(query)
        for each in self._next(f"watch {query['resourceVersion']}"):
            if isinstance(each, KubectlError):
                raise each
            yield each


class Fed(Protocol):
    def __call__(self, server: Server, *names: str, selector: str = "") -> tuple[PoolFeed, list[float]]: ...


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fed]:
    """Run a feed until the server has nothing more to say; return it, and its pauses. The test ends it."""
    running: list[tuple[Server, threading.Thread]] = []

    def run(server: Server, *names: str, selector: str = "") -> tuple[PoolFeed, list[float]]:
        def until_it_ends() -> None:
            with suppress(SystemExit):
                feed.run()

        pauses: list[float] = []
        monkeypatch.setattr("time.sleep", pauses.append)
        feed = PoolFeed(server, names, selector)
        feed.list()
        thread = threading.Thread(target=until_it_ends)
        running.append((server, thread))
        thread.start()
        assert server.done.wait(60)
        return feed, pauses

    yield run
    for server, thread in running:
        server.ended.set()
        thread.join()


def names(feed: PoolFeed) -> list[str]:
    return [each["metadata"]["name"] for each in feed.pools]


@pytest.mark.parametrize(
    ("wanted", "selector", "query"),
    [
        ((), "", {}),
        (("a",), "", {"fieldSelector": "metadata.name=a"}),
        (("a", "b"), "", {}),
        ((), "env=prod", {"labelSelector": "env=prod"}),
    ],
)
def test_the_api_server_selects_what_it_can(
    fed: Fed, wanted: tuple[str, ...], selector: str, query: dict[str, str]
) -> None:
    server = Server([a_pool("a", "3")], [])
    fed(server, *wanted, selector=selector)
    for asked in server.queries[:2]:
        assert {name: value for name, value in asked.items() if name.endswith("Selector")} == query
    assert server.queries[1]["resourceVersion"] == "5"


def test_of_several_names_the_others_are_left_out(fed: Fed) -> None:
    pools = [a_pool(name, "3") for name in ("c", "b", "a")]
    server = Server(pools, [line("ADDED", a_pool("d", "6")), line("DELETED", a_pool("a", "7"))])
    feed, _ = fed(server, "a", "c", "d")
    assert names(feed) == ["c", "d"]


def test_a_watch_goes_on_from_what_it_has_seen(fed: Fed) -> None:
    server = Server(
        [a_pool("b", "3")],
        [
            line("ADDED", a_pool("a", "6")),
            line("DELETED", a_pool("b", "7")),
            line("BOOKMARK", a_pool("", "9")),
        ],
    )
    feed, _ = fed(server)
    assert names(feed) == ["a"]
    assert server.asked == ["list", "watch 5", "watch 9"]
    assert feed.trouble == ""


def test_a_failure_is_told_and_ends_with_a_list(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = KubectlError("error: unexpected EOF")
    server = Server([a_pool("a", "3")], [broken], broken, broken, [a_pool("b", "4")])
    feed, pauses = fed(server)
    assert names(feed) == ["b"]
    assert server.asked == ["list", "watch 5", "list", "list", "list", "watch 5"]
    assert pauses == [1, 2, 4], "longer each time"
    assert "unexpected EOF" in feed.trouble, "until the watch has lasted"
    monkeypatch.setattr(reader, "LASTING_SECONDS", 0)
    assert feed.trouble == ""


def test_a_version_that_the_api_server_no_longer_knows_is_a_list(fed: Fed) -> None:
    gone = {"kind": "Status", "reason": "Expired", "message": "too old resource version: 5 (9)", "code": 410}
    server = Server([a_pool("a", "3")], [line("ERROR", gone)], [a_pool("b", "9")])
    feed, _ = fed(server)
    assert (names(feed), server.asked) == (["b"], ["list", "watch 5", "list", "watch 5"])


def test_a_line_that_cannot_be_read_is_a_failure(fed: Fed) -> None:
    server = Server([a_pool("a", "3")], [b"<html>\n"], [])
    feed, _ = fed(server)
    assert names(feed) == []
