"""A control plane of one's own to break, and operators whose token can be taken away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.election import ELECTING
from harness.operator import Operator
from harness.world import World
from testbed.cluster import Testbed
from testbed.faults import FaultProxy
from testbed.options import Options

ROOT: Final = Path(__file__).parents[2]
CRDS: Final = ROOT / "crds"
MANIFESTS: Final = ROOT / "deploy" / "overlays" / "outside-the-cluster"
NODES: Final = 3
LABEL: Final = "example.com/team"
RELIST_SECONDS: Final = 2
"""Period of the list of pools, in place of 5 minutes: an operator whose watches stay open asks for nothing
else, and so learns of a lost right or an expired token no sooner."""
USUAL_RELIST_SECONDS: Final = 300
GRACE_SECONDS: Final = 600
"""Until a silent node becomes Unknown: longer than any outage here, so that nobody but us writes to nodes."""


class Stage:
    """A control plane of one's own with three nodes, a pool, and operators whose token file can be harmed."""

    def __init__(self, world: World, proxy: FaultProxy) -> None:
        self.world = world
        self.proxy = proxy
        self.token = world.directory / "token"
        self.good_token()
        self.direct = self._kubeconfig("direct", world.testbed.kubeconfig("winpool"))
        self.proxied = self._kubeconfig("proxied", proxy.kubeconfig("winpool"))
        self.pool = f"pool-{world.suffix}"
        self._operators = 0

    @property
    def testbed(self) -> Testbed:
        return self.world.testbed

    def operator(
        self, name: str, *, kubeconfig: Path, relist_seconds: int = RELIST_SECONDS, elects: bool = False
    ) -> Operator:
        """Return another operator, not started yet, with a log of its own. With ``elects`` one leads."""
        self._operators += 1
        return Operator(
            kubeconfig=kubeconfig,
            log_file=self.world.directory / f"{self._operators:02}-{name}.log",
            environment={
                "WINPOOL_POOL_RELIST_SECONDS": str(relist_seconds),
                **(ELECTING if elects else {}),
            },
        )

    def ask_for(self, value: str) -> None:
        """Create the pool, or edit it: its nodes are to carry this value."""
        self.world.apply(self.world.pool(labels={LABEL: value}))

    def good_token(self) -> None:
        """Put a fresh token where the operators look for it."""
        self.put_token(lifetime_seconds=600)

    def put_token(self, *, lifetime_seconds: float) -> None:
        """Put a token there; with a negative lifetime one that has expired."""
        self.token.write_text(self.testbed.mint_token(lifetime_seconds=lifetime_seconds))

    def _kubeconfig(self, name: str, origin: Path) -> Path:
        text, own = origin.read_text(), self.world.directory / f"{name}.kubeconfig"
        assert str(self.testbed.layout.token) in text
        own.write_text(text.replace(str(self.testbed.layout.token), str(self.token)))
        return own


@contextmanager
def a_stage(directory: Path) -> Iterator[Stage]:
    """Bring up a control plane that may be broken, with nodes that nobody takes for lost meanwhile."""
    with Testbed.up(
        directory=directory / "testbed",
        apply=[MANIFESTS],
        options=Options(node_monitor_grace_seconds=GRACE_SECONDS),
    ) as testbed:
        world = World(testbed, directory=directory)
        try:
            world.fleet(windows=NODES)
            with FaultProxy(testbed) as proxy:
                yield Stage(world, proxy)
        finally:
            world.close()
