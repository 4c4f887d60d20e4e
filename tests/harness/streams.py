"""A pool whose operator hears of everything through a fault proxy, and what must not happen to it meanwhile.

Tests of broken watches and lists share a theatre and are independent all the same: a stage that a test did
not leave as it found it is struck, and the next test gets another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from harness.faulty import through_proxy
from harness.nodes import labels_of, wanted_spec
from harness.waiting import GUARD_SECONDS, eventually
from harness.world import World
from testbed.cluster import Testbed
from testbed.faults import FaultProxy, Record, error_line, insert, on
from winpool.api.keys import APPLIED_ANNOTATION

Object = dict[str, Any]

POOLS: Final = "windowsnodepools"
NODES_WATCH: Final = on("watch", "nodes")
POOLS_WATCH: Final = on("watch", POOLS)
LABEL: Final = "example.com/team"
VALUE: Final = "payments"
SPEC: Final[Object] = {
    "labels": {LABEL: VALUE},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
RELIST: Final = {"WINPOOL_POOL_RELIST_SECONDS": "2"}
"""So that a list of pools that fails need not be waited five minutes for."""
IN_TROUBLE: Final = {("list", "nodes"), ("watch", "nodes"), ("watch", POOLS)}
IN_TROUBLE_AT_MOST: Final = 15
"""So many of them in a test: nothing asks again and again without a pause."""
QUIET_AT_LEAST: Final = 2
"""So many nodes that nobody has touched does a test need at most."""
SETTLE_SECONDS: Final = 30.0
"""For a stage to be as it was found: beyond any pause that trouble in a test has brought about."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A pool of nodes, converged, and its operator behind a proxy."""

    world: World
    proxy: FaultProxy
    pool: str
    names: tuple[str, ...]
    quiet: list[str]
    """Nodes that nobody has touched yet: a second repair of one waits for 2 s, a third for 4, and so on."""

    @property
    def nodes(self) -> int:
        """How many nodes the pool has, where the test adds none."""
        return len(self.names)

    def drift(self, name: str) -> None:
        """Take away, behind the operator's back, a label that the pool put on."""
        self.world.kubectl("label", "node", name, f"{LABEL}-")

    def touch(self, name: str, value: str) -> None:
        """Change something on a node that is nobody's business."""
        self.world.kubectl("annotate", "node", name, f"example.com/touched={value}", "--overwrite")

    def is_repaired(self, name: str) -> bool:
        """Whether the node carries the label that ``drift`` takes away."""
        return LABEL in labels_of(self.world.node(name))

    def wait_repaired(self, name: str, *, seconds: float = GUARD_SECONDS) -> None:
        """Return when the node carries the label again."""
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

    def wait_heard(self) -> None:
        """Return when an edit of the pool has come to its nodes, and another one that takes it back."""
        for value in ("platform", VALUE):
            self.edit(value)
            self.wait_value(value)

    def expire(self) -> None:
        """Make the operator list all nodes anew."""
        self.wait_watching("nodes")
        self.proxy.add(NODES_WATCH, insert(error_line(410)), nth=1)

    def wait_counted(self, nodes: int) -> None:
        """Return when the status says that the pool has so many nodes."""
        eventually(
            lambda: self.world.status(self.pool)["nodes"] == nodes, what=f"{nodes} nodes counted", every=0.05
        )

    def requests(self, verb: str, resource: str) -> list[Record]:
        """Return what the operator has asked for since the log was cleared."""
        return [each for each in self.proxy.log if (each.verb, each.resource) == (verb, resource)]

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
            eventually(world.operator.ready, what="the operator is ready again")
            nodes.catch_up(world.nodes().values())
            pools.catch_up([world.get("wnp", self.pool)])
        assert nodes.changes("metadata", "labels") == {
            name: 2 if name in drifted else 0 for name in nodes.states
        }
        assert set(nodes.changes_of(wanted_spec).values()) == {0}, nodes.states
        assert set(nodes.changes("metadata", "annotations", APPLIED_ANNOTATION).values()) == {0}
        assert {each["status"]["nodes"] for each in pools.states[self.pool]} == {self.nodes}
        assert {json.dumps(each["spec"]) for each in pools.states[self.pool]} == {json.dumps(spec)}
        written = [each.name for each in proxy.writes() if each.resource == "nodes" and each.applied]
        assert sorted(written) == sorted(drifted)
        asked = [each for each in proxy.log if (each.verb, each.resource) in IN_TROUBLE]
        assert len(asked) <= IN_TROUBLE_AT_MOST, [str(each) for each in asked]
        assert world.operator.pid == pid

    def wait_as_found(self) -> None:
        """Return when all is as it was at the beginning, but for the nodes that were touched."""

        def as_found() -> bool:
            nodes = self.world.nodes()
            values = {labels_of(node).get(LABEL) for node in nodes.values()}
            assert (sorted(nodes), values) == (sorted(self.names), {VALUE}), f"{sorted(nodes)}, {values}"
            return self.world.operator.ready()

        eventually(as_found, what="the stage as it was found", seconds=SETTLE_SECONDS)
        self.world.wait_up_to_date(self.pool, nodes=self.nodes, seconds=SETTLE_SECONDS)
        self.wait_watching("nodes", POOLS)


@contextmanager
def staged(world: World, *, nodes: int, environment: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Give a stage of its own to a world."""
    names = world.fleet(windows=nodes)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world, environment=environment) as proxy:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=nodes)
        yield Stage(world=world, proxy=proxy, pool=pool, names=tuple(names), quiet=names)
        proxy.heal()
        if world.operator.running:  # it is quicker than the one that would have to be started for it
            world.delete(pool)


class Theatre:
    """Has a stage for one test after the other; use it with ``with``.

    Args:
        testbed: whose control plane.
        directory: for the logs of each stage, in a folder of its own.
        nodes: of the pool of each stage.

    """

    def __init__(self, testbed: Testbed, *, directory: Path, nodes: int) -> None:
        self._testbed = testbed
        self._directory = directory
        self._nodes = nodes
        self._stage: Stage | None = None
        self._strike = ExitStack()
        self._built = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._strike.close()

    @contextmanager
    def stage(self) -> Iterator[Stage]:
        """Give a stage to a test; afterwards assert that it is as it was found, or strike it."""
        if self._stage is None or len(self._stage.quiet) < QUIET_AT_LEAST:
            self._build()
        assert self._stage is not None
        stage, self._stage = self._stage, None
        try:
            yield stage
            stage.proxy.heal()
            stage.wait_as_found()
            self._stage = stage
        finally:
            if self._stage is None:
                self._strike.close()

    def _build(self) -> None:
        self._strike.close()
        self._built += 1
        directory = self._directory / str(self._built)
        directory.mkdir()
        with ExitStack() as strike:
            world = World(self._testbed, directory=directory)
            strike.callback(world.close)
            self._stage = strike.enter_context(staged(world, nodes=self._nodes, environment=RELIST))
            self._strike = strike.pop_all()


def kept_in(seen: list[bytes]) -> Callable[[bytes], bytes]:
    """Return what notes a line and leaves it as it is: for ``alter``."""

    def keep(line: bytes) -> bytes:
        seen.append(line)
        return line

    return keep
