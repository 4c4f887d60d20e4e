"""One round: a pool is created, edited and deleted while the operator is killed at its nth write.

Sieve ("Automatic Reliability Testing for Cluster Management Controllers", OSDI 2022) calls what this
finds bugs of intermediate state: whatever was written last, the next process has to go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from crash.texts import as_text, differences
from harness.faulty import through_proxy
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, When
from winpool.api.keys import RELEASE_FINALIZER

NODES: Final = 5
STEPS: Final = ("created", "edited", "deleted")
LABELS: Final = {"example.com/tier": "silver", "example.com/site": "north"}
TAINTS: Final = ("os=linux:NoSchedule", "example.com/shared=yes:NoSchedule")
"""What stands on the nodes before: a pool that asks for other values has something to restore."""
CREATED: Final[dict[str, Any]] = {
    "labels": {"example.com/team": "payments", "example.com/tier": "gold"},
    "taints": [
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "example.com/shared", "value": "yes", "effect": "NoSchedule"},
    ],
}
EDITED: Final[dict[str, Any]] = {
    "labels": {"example.com/team": "platform", "example.com/site": "south"},
    "taints": [
        {"key": "example.com/shared", "value": "no", "effect": "NoSchedule"},
        {"key": "example.com/quiet", "value": "yes", "effect": "PreferNoSchedule"},
    ],
}
"""Against CREATED: one label is changed, one comes, one goes; so with taints."""
CHANGES: Final = {"metadata/labels": 3, "metadata/annotations": 3, "spec": 3}
"""How often each of these of each node changes in a round: once a step, killed or not."""
_TIMES: Final = frozenset({"lastTransitionTime", "since", "startTime", "endTime", "nextActionTime"})

Object = dict[str, Any]
Ends = dict[str, str]
"""What the cluster looks like after each step, as text that can be compared."""


class Theatre:
    """Five nodes and an operator behind a proxy, on which round after round is played.

    Args:
        world: with its five nodes, and an operator that goes through ``proxy`` and runs.
        proxy: between the operator and the API server.

    """

    def __init__(self, world: World, proxy: FaultProxy) -> None:
        self.world = world
        self.proxy = proxy
        self.bare = world.carried()
        self.undisturbed, _ = self._play()
        assert self.undisturbed["deleted"] == as_text({"nodes": self.bare, "pool": None}, without=_TIMES)

    def survives_a_kill_at(self, nth_write: int, *, when: When) -> bool:
        """Play a round with one kill and assert that each step ends as without; tell whether there was one.

        There is none where a round has fewer writes.
        """
        with self.proxy.kill_operator_on(nth_write, when=when, pid=lambda: self.operator.pid) as rule:
            ends, changes = self._play(expected=self.undisturbed, told=f"killed {when} write {nth_write}")
        assert ends == self.undisturbed
        assert changes == dict.fromkeys(self.bare, CHANGES), f"killed {when} write {nth_write}"
        return rule.hits == 1

    @property
    def operator(self) -> Operator:
        """The one that is killed and started again."""
        return self.world.operator

    def _play(self, *, expected: Ends | None = None, told: str = "undisturbed") -> tuple[Ends, Object]:
        """Play a round; return how each step ended, and how often what changed of each node."""
        ends: Ends = {}
        with self.world.watch_nodes() as witness:
            for step in STEPS:
                self._do(step)
                wanted = None if expected is None else expected[step]
                ends[step] = self._end_of(step, expected=wanted, told=told)
            witness.catch_up(self.world.nodes().values())
        counted = {path: witness.changes(*path.split("/")) for path in CHANGES}
        return ends, {name: {path: counted[path][name] for path in CHANGES} for name in self.bare}

    def _do(self, step: str) -> None:
        match step:
            case "created":
                self.world.apply(self.world.pool(**CREATED))
            case "edited":
                self.world.apply(self.world.pool(**EDITED))
            case _:
                self.world.delete(self._pool_name, wait=False)

    def _end_of(self, step: str, *, expected: str | None, told: str) -> str:
        """Return the state after a step: the one expected, or the one that the pool itself calls the end."""

        def ended() -> bool:
            self._revive()
            away = self._distance(step) if expected is None else differences(self._state(), expected)
            assert not away, away
            return True

        eventually(ended, what=f"{told}: the end after the pool was {step}", every=0.05)
        return self._state()

    def _distance(self, step: str) -> str:
        """Say what is missing until the end of a step, as far as the pool tells; empty at the end."""
        pool = self.world.pools().get(self._pool_name)
        if step == "deleted" or pool is None:
            return "" if (step == "deleted") == (pool is None) else f"the pool is not {step}"
        status = pool.get("status", {})
        ready = {each["type"]: each["status"] for each in status.get("conditions", [])}.get("Ready")
        now = (status.get("observedGeneration"), status.get("upToDateNodes"), ready)
        return "" if now == (pool["metadata"]["generation"], NODES, "True") else f"{now}"

    def _revive(self) -> None:
        """Start the operator again where it was killed, as a Deployment would."""
        if not self.operator.running:
            self.operator.close()
            self.operator.start(wait=False)

    @property
    def _pool_name(self) -> str:
        return f"pool-{self.world.suffix}"

    def _state(self) -> str:
        """Return what the nodes carry and what the pool says, without what no two rounds have in common."""
        nodes, pool = self.world.carried(), self.world.pools().get(self._pool_name)
        if pool is None:
            return as_text({"nodes": nodes, "pool": None}, without=_TIMES)
        seen = {"finalizers": pool["metadata"].get("finalizers", []), "status": pool.get("status", {})}
        return as_text({"nodes": nodes, "pool": seen}, without=_TIMES).replace(
            pool["metadata"]["uid"], "<uid of the pool>"
        )


@contextmanager
def a_theatre(world: World) -> Iterator[Theatre]:
    """Bring up nodes and operator, and play the undisturbed round that all others are compared with."""
    world.fleet(windows=NODES, labels=LABELS, taints=TAINTS)
    with through_proxy(world) as proxy:
        world.operator.start()
        theatre = Theatre(world, proxy)
        assert RELEASE_FINALIZER in theatre.undisturbed["created"]
        yield theatre
