"""A world whose operator reaches the API server through a fault proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from harness.operator import Operator
from harness.world import World
from testbed.faults import FaultProxy


@contextmanager
def through_proxy(world: World, *, environment: Mapping[str, str] | None = None) -> Iterator[FaultProxy]:
    """Have the operator of a world go through a proxy, while the context lasts.

    ``world.operator`` is another one meanwhile, with the same log, not started yet; ``environment`` is
    added to its own. At the end it is killed and the direct one is back, so that ``world.close`` can
    clean up whatever the proxy was told to do.
    """
    direct = world.operator
    with FaultProxy(world.testbed) as proxy:
        world.operator = Operator(
            kubeconfig=proxy.kubeconfig("winpool"), log_file=direct.log_file, environment=environment
        )
        try:
            yield proxy
        finally:
            world.operator.close()
            world.operator = direct
