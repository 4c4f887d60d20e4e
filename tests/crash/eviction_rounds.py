"""One round: two pods are evicted while the operator is killed at one of its writes.

A pool permits one eviction on a node, and one node at a time. Its first node runs out of memory, and of its
three pods one is evicted. Then the second node does, and has to wait until the first one is done. When the
taint of the first node is off, its evicted pod comes back. That node is short of memory once more, and its
limit is all that keeps the operator from the next eviction. In the end the pool is deleted.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from cluster.evictions import Eviction
from cluster.memory_pods import NAMESPACE, SCENE, Pods, steady
from cluster.memory_scene import signal_of
from cluster.memory_world import SETTLE_SECONDS, block
from crash.corner import Corner
from crash.sight import Sight, View
from crash.write_kinds import Kind, kind_of
from harness.nodes import annotations_of, carried
from harness.waiting import eventually
from testbed.faults import PROGRESS, Match, When, kill, on
from winpool.api.keys import MEMORY_ANNOTATION, OS_REVISION_LABEL

Object = dict[str, Any]

LIMITS: Final = {"maxPodsPerNode": 1, "maxNodes": 1, "maxPressuredNodes": "100%", "periodSeconds": 3600}
FIRST: Final = steady("7500Mi")
SECOND: Final = steady("7450Mi")
"""Three of either, and what Windows has itself, leave less than 1 GiB to commit: Hard. Two leave 8."""
STOP_SECONDS: Final = 8
"""So long an evicted pod holds its memory: to the next operator the node is full, while the pod ends."""
TEMPTED_SECONDS: Final = 8.0
"""For so long the end stays as it is, with a node on which one more eviction would help: four samples."""
GUARD_SECONDS: Final = 480.0
"""Until an end: it comes within three minutes, a minute later where a kill begins the settling or the
clearing anew, and twice as late on a machine that is busy."""
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"

_OF_THE_MOMENT: Final = frozenset({"lastTransitionTime", "since", "message"})
"""The words of conditions and issues have figures of the moment; their reasons say which they are."""
_OF_THE_MACHINE: Final = frozenset({OS_REVISION_LABEL, "minRevision", "maxRevision"})


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
    """The pods of one round, who owns those of the second node, and how many evictions were before it."""

    pods: Pods
    owner: Object
    before: int


class Witness:
    """When each eviction was asked for, in all corners."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, Eviction]] = []

    def admit(self, eviction: Eviction) -> bool:
        """Note one; all are permitted."""
        self._seen.append((time.monotonic(), eviction))
        return True

    def of(self, nodes: Sequence[str]) -> list[tuple[float, Eviction]]:
        """Return those of pods of these nodes, with their times by ``time.monotonic``."""
        return [(at, each) for at, each in self._seen if each.node in nodes]


class Rounds:
    """The rounds of one corner, one after the other; each begins with a new operator.

    The nodes of the corner are Ready and carry nothing of ours.
    """

    def __init__(self, corner: Corner, *, sight: Sight, witness: Witness) -> None:
        self._corner = corner
        self._sight = sight
        self._witness = witness
        self._first, self._second = corner.nodes
        view = sight.next()
        self._bare = {name: carried(view.nodes[name]) for name in corner.nodes}
        self._number = 0

    def play(self, at: Kill | None = None, *, expected: Future[str] | None = None) -> Played:
        """Play a round with a kill or undisturbed; assert what is promised of each.

        What nodes and pool look like after the evictions is ``expected``, if that is given: another round may
        still find it out.
        """
        began, told = time.monotonic(), str(at) if at else "undisturbed"
        self._number += 1
        corner, proxy, sight = self._corner, self._corner.proxy, self._sight
        scene = f"{corner.key}-{self._number}"
        pods, before = Pods(corner.world.testbed, scene=scene), len(self._witness.of(corner.nodes))
        proxy.clear()
        rule = None
        if at is not None:
            rule = proxy.add(at.match, kill(self._pid, when=at.when), nth=at.nth)
        try:
            with self._owner(scene) as owner:
                end = self._evict(Cast(pods, owner, before), told=told, expected=expected)
                self._delete(told=told)
        finally:
            corner.operator.close()
            if rule is not None:
                rule.remove()
            pods.close()
        eventually(lambda: not self._pods(sight.next()), what=f"{told}: its pods gone", every=0)
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
        corner, witness = self._corner, self._witness
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
        self._await(lambda _: len(witness.of(corner.nodes)) > cast.before, what=f"{told}: the first eviction")
        self._run_on_second(cast, 2)
        end = self._end_of_evictions(told=told, expected=expected)
        until = time.monotonic() + TEMPTED_SECONDS
        while time.monotonic() < until:
            corner.revive()
            now = self._told(self._sight.next())
            assert now == end, f"{told}: it goes on:\n{differences(now, end)}"
        self._assert_within_limits(witness.of(corner.nodes)[cast.before :], told=told)
        return end

    def _end_of_evictions(self, *, told: str, expected: Future[str] | None) -> str:
        what, last = f"{told}: the end of the evictions", ""

        def is_end(view: View) -> bool:
            nonlocal last
            before, last = last, self._told(view)
            assert before == last, "it has not settled"
            assert self._is_evicted(view), last
            if expected is not None:
                wanted = expected.result(timeout=GUARD_SECONDS)
                assert last == wanted, differences(last, wanted)
            return True

        self._await(is_end, what=what)
        return last

    def _delete(self, *, told: str) -> None:
        corner = self._corner
        corner.world.delete(corner.pool_name, wait=False)

        def is_gone(view: View) -> bool:
            assert corner.pool_name not in view.pools
            assert self._nodes(view) == dict.fromkeys(corner.nodes, NOTHING)
            return True

        self._await(is_gone, what=f"{told}: the nodes without the pool as they were before it")

    def _assert_within_limits(self, evictions: Sequence[tuple[float, Eviction]], *, told: str) -> None:
        """Assert one pod a node, one node at a time, and that the node has named each pod before."""
        pods = {each.node: each for _, each in evictions}
        assert list(pods) == self._corner.nodes, f"{told}: evictions on {list(pods)}"
        for at, each in evictions:
            assert each.grace is None, f"{told}: {each}"
            assert each.uid is not None, f"{told}: {each}"
            assert each.uid in each.intents, f"{told}: the node had not named the pod: {each}"
            assert each.pod_uid in (each.uid, ""), f"{told}: another pod of the name: {each}"
            assert each.uid == pods[each.node].uid, f"{told}: a second pod of {each.node}: {each}"
            assert each.ending <= {each.uid}, f"{told}: while another pod was ending: {each}"
            if each.node == self._second:
                since = at - self._sight.last_seen(pods[self._first].uid or "")
                assert since >= SETTLE_SECONDS, (
                    f"{told}: {since:.0f} s after a pod of the other node was there"
                )

    # What is there

    def _is_evicted(self, view: View) -> bool:
        """Whether both nodes have had their eviction, the second one is well, and the pool tells so."""
        first, second = (view.nodes[name] for name in self._corner.nodes)
        status = view.pools[self._corner.pool_name].get("status", {})
        said = {each["type"]: each["status"] for each in status.get("conditions", [])}
        return (
            (signal_of(first), signal_of(second)) == (("True", True), ("False", False))
            and all(MEMORY_ANNOTATION in annotations_of(each) for each in (first, second))
            and [self._running(view, name) for name in self._corner.nodes] == [3, 2]
            and (status.get("pressuredNodes"), said.get("Reconciling")) == (1, "False")
        )

    def _told(self, view: View) -> str:
        """Return what nodes and pool look like, without what no two rounds have in common."""
        pool = view.pools.get(self._corner.pool_name, {"metadata": {}})
        found = text(
            {
                "nodes": self._nodes(view),
                "running": [self._running(view, name) for name in self._corner.nodes],
                "pool": {
                    "finalizers": pool["metadata"].get("finalizers", []),
                    "status": pool.get("status", {}),
                },
            }
        )
        named = {
            pool["metadata"].get("uid", "no pool"): "POOL-UID",
            self._corner.pool_name: "POOL",
            self._first: "FIRST",
            self._second: "SECOND",
            self._corner.key: "CORNER",
        }
        for name, stands_for in named.items():
            found = found.replace(name, stands_for)
        return found

    def _nodes(self, view: View) -> Object:
        return {name: added(view.nodes[name], before=bare) for name, bare in self._bare.items()}

    def _running(self, view: View, node: str) -> int:
        return sum(
            each["status"].get("phase") == "Running" and "deletionTimestamp" not in each["metadata"]
            for each in self._pods(view)
            if each["spec"].get("nodeName") == node
        )

    def _pods(self, view: View) -> list[Object]:
        mine = f"{self._corner.key}-{self._number}"
        return [each for each in view.pods.values() if each["metadata"]["labels"].get(SCENE) == mine]

    # What is done

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
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        api.delete(f"{CONFIG_MAPS}/{name}")

    def _pid(self) -> int:
        return self._corner.operator.pid

    def _await(self, check: Callable[[View], bool], *, what: str) -> None:
        """Return when a view shows it; start the operator again where it was killed meanwhile."""

        def checked() -> bool:
            self._corner.revive()
            return check(self._sight.next())

        eventually(checked, what=what, seconds=GUARD_SECONDS, every=0)


NOTHING: Final[Object] = {"changed": {}, "taints": [], "intents": 0, "condition": ""}
"""What a node has of ours without a pool."""


def added(node: Object, *, before: Object) -> Object:
    """Return what is otherwise on a node than before: of its intents how many there are, not their pods."""
    now, (condition, _) = carried(node), signal_of(node)
    intents = now["annotations"].pop(MEMORY_ANNOTATION, None)
    taints = now.pop("taints")
    return {
        "changed": {
            part: {key: each for key, each in value.items() if was.get(key) != each}
            | dict.fromkeys(was.keys() - value, "GONE")
            if isinstance(value, dict)
            else value
            for part, value in now.items()
            if value != (was := before[part])
        },
        "taints": [each for each in taints if each not in before["taints"]],
        "intents": 0 if intents is None else len(json.loads(intents)["evictions"]),
        "condition": condition,
    }


def text(state: object) -> str:
    """Return a state as text that can be compared."""
    return json.dumps(_lasting(state), sort_keys=True, indent=1)


def _lasting(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: _lasting(each)
                for key, each in value.items()
                if key not in _OF_THE_MOMENT | _OF_THE_MACHINE
            }
        case list():
            return [_lasting(each) for each in value]
        case _:
            return value


def differences(state: str, expected: str) -> str:
    """Return the lines that are there and should not be, and those that are missing."""
    found, wanted = state.splitlines(), expected.splitlines()
    surplus = [f"+ {line.strip()}" for line in found if line not in wanted]
    missing = [f"- {line.strip()}" for line in wanted if line not in found]
    return "\n".join(surplus + missing) or "the same lines in another order"
