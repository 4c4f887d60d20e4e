"""One round: two pods are evicted while the operator is killed at one of its writes.

A pool permits one eviction on a node, and one node at a time. Its first node runs out of memory, and of its
three pods one is evicted. Then the second node does, and has to wait until the first one is done. When the
taint of the first node is off, its evicted pod comes back. That node is short of memory once more, and its
limit is all that keeps the operator from the next eviction. In the end the pool is deleted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from cluster.memory_pods import NAMESPACE, Pods, growing
from cluster.memory_world import block
from crash.corner import Corner
from crash.eviction_ends import Ends, pods_of
from crash.eviction_witness import Asked, Witness, assert_within_limits
from crash.sight import Sight, View
from crash.texts import differences
from crash.write_kinds import Kind, kind_of
from harness.waiting import HopelessError, eventually
from testbed.faults import PROGRESS, Match, When, kill, on

Object = dict[str, Any]

LIMITS: Final = {"maxPodsPerNode": 1, "maxNodes": 1, "maxPressuredNodes": "100%", "periodSeconds": 3600}
FIRST: Final = growing("7500Mi", per_minute=30)
SECOND: Final = growing("7450Mi", per_minute=30)
"""Three of either, and what Windows has itself, leave less than 1 GiB to commit: Hard. Two leave 8. All grow
alike, so that an operator that has just been started sees it, and chooses the same pod."""
STOP_SECONDS: Final = 8
"""So long an evicted pod holds its memory: to the next operator the node is full, while the pod ends."""
TEMPTED_SECONDS: Final = 8.0
"""For so long the end stays as it is, with a node on which one more eviction would help: four samples."""
GUARD_SECONDS: Final = 480.0
"""Until an end: it comes within three minutes, a minute later where a kill begins the settling or the
clearing anew, and twice as late on a machine that is busy."""
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@dataclass(frozen=True, slots=True)
class Kill:
    """At the nth write of a kind: before the API server has it, or when it has answered and nobody knows."""

    kind: Kind
    nth: int
    when: When

    def __str__(self) -> str:
        return f"killed {self.when} write {self.nth} of the kind {self.kind.name}"

    @property
    def match(self) -> Match:
        """The writes that count."""
        return on(where=lambda record: record.writes and PROGRESS(record) and kind_of(record) is self.kind)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a round."""

    end: str
    """What nodes and pool look like after the evictions, as text to compare."""
    writes: Counter[Kind]
    killed: bool
    """Whether there was such a write."""
    refused: int
    """Evictions that the API server refused."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Cast:
    """The pods of one round, and who owns those of the second node."""

    pods: Pods
    owner: Object


class Rounds:
    """The rounds of one corner, one after the other; each begins with a new operator.

    Its nodes carry nothing of ours in the view ``bare``.
    """

    def __init__(self, corner: Corner, *, sight: Sight, witness: Witness, bare: View) -> None:
        self._corner = corner
        self._sight = sight
        self._witness = witness
        self._first, self._second = corner.nodes
        self._ends = Ends(corner, bare=bare)
        self._number = 0
        self._before = 0
        """Evictions of the rounds before."""

    def play(self, at: Kill | None = None, *, expected: Future[str] | None = None) -> Played:
        """Play a round with a kill or undisturbed; assert what is promised of each.

        What nodes and pool look like after the evictions is ``expected``, if that is given: another round may
        still find it out.
        """
        began, told = time.monotonic(), str(at) if at else "undisturbed"
        self._number += 1
        corner, proxy, sight = self._corner, self._corner.proxy, self._sight
        self._before = len(self._witness.of(corner.nodes))
        pods = Pods(corner.world.testbed, scene=self._scene)
        proxy.clear()
        rule = None
        if at is not None:
            rule = proxy.add(at.match, kill(self._pid, when=at.when), nth=at.nth)
        try:
            with self._owner(self._scene) as owner:
                end = self._evict(Cast(pods, owner), told=told, expected=expected)
                self._delete(told=told)
        finally:
            corner.operator.close()
            if rule is not None:
                rule.remove()
            pods.close()
        eventually(lambda: not pods_of(sight.next(), self._scene), what=f"{told}: its pods gone", every=0)
        writes = [each for each in proxy.writes() if each.forwarded]
        answers = [each.server_status for each in writes if kind_of(each) is Kind.EVICTION]
        assert answers.count(201) == 2, f"{told}: the answers to evictions are {answers}"
        return Played(
            end,
            Counter(kind_of(each) for each in writes),
            killed=rule is not None and rule.hits == 1,
            refused=len(answers) - 2,
            seconds=time.monotonic() - began,
        )

    def _evict(self, cast: Cast, *, told: str, expected: Future[str] | None) -> str:
        """Play until both nodes have had their eviction and one of them is full again; return that end."""
        corner = self._corner
        for number in range(3):
            cast.pods.run(f"first{number}", self._first, FIRST, stop_seconds=STOP_SECONDS)
        for number in range(2):
            self._run_on_second(cast, number)
        corner.world.apply(
            corner.world.pool(
                corner.key,
                nodeSelector={"matchLabels": corner.selector},
                memoryPressure=block("Evict", eviction=LIMITS),
            )
        )
        corner.operator.start(wait=False)
        self._await(lambda _: bool(self._evictions()), what=f"{told}: the first eviction")
        self._run_on_second(cast, 2)
        end = self._end_of_evictions(told=told, expected=expected)
        while not self._stays(end, told=told):
            end = self._end_of_evictions(told=told, expected=expected)
        self._assert_within_limits()
        assert len({each.node for _, each in self._evictions()}) == len(corner.nodes), told
        return end

    def _end_of_evictions(self, *, told: str, expected: Future[str] | None) -> str:
        what, last = f"{told}: the end of the evictions", ""

        def is_end(view: View) -> bool:
            nonlocal last
            before, last = last, self._ends.told(view, scene=self._scene)
            assert before == last, "it has not settled"
            assert self._ends.is_evicted(view, scene=self._scene), last
            if expected is not None:
                wanted = expected.result(timeout=GUARD_SECONDS)
                assert last == wanted, differences(last, wanted)
            return True

        self._await(is_end, what=what)
        return last

    def _stays(self, end: str, *, told: str) -> bool:
        """Whether it is the end, because nothing goes on; not where the operator was killed meanwhile."""
        until = time.monotonic() + TEMPTED_SECONDS
        while time.monotonic() < until:
            if self._corner.revive():
                return False
            now = self._ends.told(self._sight.next(), scene=self._scene)
            assert now == end, f"{told}: it goes on:\n{differences(now, end)}"
        return True

    def _delete(self, *, told: str) -> None:
        self._corner.world.delete(self._corner.pool_name, wait=False)
        self._await(self._ends.is_bare, what=f"{told}: the nodes without the pool as they were before it")

    @property
    def _scene(self) -> str:
        """Names the pods of this round."""
        return f"{self._corner.key}-{self._number}"

    def _evictions(self) -> list[Asked]:
        return self._witness.of(self._corner.nodes)[self._before :]

    def _assert_within_limits(self) -> None:
        assert_within_limits(self._evictions(), second=self._second, last_seen=self._sight.last_seen)

    def _run_on_second(self, cast: Cast, number: int) -> None:
        """Run a pod that nobody makes anew: of a controller that runs no other one in its place."""
        cast.pods.bind(
            f"second{number}",
            self._second,
            SECOND,
            annotations={"winsim/stop-seconds": str(STOP_SECONDS)},
            owners=[cast.owner],
            terminationGracePeriodSeconds=STOP_SECONDS,
        )

    @contextmanager
    def _owner(self, name: str) -> Iterator[Object]:
        api = self._corner.world.testbed.api()
        made = api.create(CONFIG_MAPS, {"metadata": {"name": name}})
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]}
        try:
            yield {**owner, "controller": True}
        finally:
            api.delete(f"{CONFIG_MAPS}/{name}")

    def _pid(self) -> int:
        return self._corner.operator.pid

    def _await(self, check: Callable[[View], bool], *, what: str) -> None:
        """Return when a view shows it; start the operator again where it was killed meanwhile."""

        def checked() -> bool:
            view = self._sight.next()
            try:
                self._corner.revive()
                self._assert_within_limits()
            except AssertionError as error:
                raise HopelessError(f"{what}: {error}") from error
            return check(view)

        eventually(checked, what=what, seconds=GUARD_SECONDS, every=0)
