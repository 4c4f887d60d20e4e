"""Corners of one control plane: each has nodes and an operator of its own, which sees nothing of the others.

A pool and a node have no namespace, so an operator works on all of them. The proxy of a corner narrows what
its operator lists and watches: nodes by a label, pools by their name. The API server does the selecting.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from harness.asking import CLUSTER_SCOPED
from harness.operator import Operator
from harness.world import World
from testbed.faults import FaultProxy, on, rewrite

CORNER: Final = "example.com/corner"
_SELECTOR: Final = "labelSelector="


class Corner:
    """Some nodes, one pool, and an operator behind ``proxy`` that has not started yet."""

    def __init__(
        self,
        world: World,
        proxy: FaultProxy,
        *,
        key: str,
        nodes: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.world = world
        self.proxy = proxy
        self.key = key
        self.nodes = list(nodes)
        self.pool_name = f"{key}-{world.suffix}"
        self.selector = {**world.selector, CORNER: key}
        self.operator = Operator(
            kubeconfig=proxy.kubeconfig("winpool"),
            log_file=world.directory / f"operator-{key}.log",
            environment=environment,
        )
        for node in nodes:
            world.testbed.api().merge(
                f"{CLUSTER_SCOPED['nodes']}/{node}", {"metadata": {"labels": {CORNER: key}}}
            )
        proxy.add(on(["list", "watch"], "nodes"), rewrite(self._only_my_nodes))
        proxy.add(on(["list", "watch"], "windowsnodepools"), rewrite(self._only_my_pool))

    def revive(self) -> bool:
        """Start the operator again where it was killed, as a Deployment would; tell whether it was."""
        if self.operator.running:
            return False
        code = self.operator.wait_ended()
        assert code == -signal.SIGKILL, f"it ended by itself, with {code}: {self.operator.log_file}"
        self.operator.start(wait=False)
        return True

    def _only_my_nodes(self, path: str) -> str:
        assert _SELECTOR in path, f"nodes are asked for without a selector: {path}"
        return path.replace(_SELECTOR, f"{_SELECTOR}{quote(f'{CORNER}={self.key},', safe='')}")

    def _only_my_pool(self, path: str) -> str:
        if "fieldSelector=" in path:
            return path
        return f"{path}{'&' if '?' in path else '?'}fieldSelector={quote(f'metadata.name={self.pool_name}')}"


@contextmanager
def a_corner(
    world: World, *, key: str, nodes: Sequence[str], environment: Mapping[str, str]
) -> Iterator[Corner]:
    """Open a corner with these nodes; its operator, with this environment, is killed at the end."""
    with FaultProxy(world.testbed) as proxy:
        corner = Corner(world, proxy, key=key, nodes=nodes, environment=environment)
        try:
            yield corner
        finally:
            corner.operator.close()
