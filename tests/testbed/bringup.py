"""Waiting for simulated nodes, and telling how far they are."""

from collections.abc import Callable
from typing import Final

from testbed.errors import TestbedError
from testbed.progress import Report, progress
from testbed.waiting import wait_until
from testbed.winsim.control import FleetControl
from testbed.winsim.replies import Summary

NODES_TIMEOUT_SECONDS: Final = 120.0
"""A few nodes are Ready within two seconds; the rest is for a machine under full load."""
NODE_TIMEOUT_SECONDS: Final = 0.2
"""Added for each node: on two free cores one takes 12 ms, and a busy machine has been ten times slower."""


def nodes_timeout_seconds(count: int) -> float:
    """Return how long so many nodes may take to become Ready before something must be wrong."""
    return NODES_TIMEOUT_SECONDS + NODE_TIMEOUT_SECONDS * count


def await_fleet(
    fleet: FleetControl, *, nodes: int, alive: Callable[[], None], explain: Callable[[], str], report: Report
) -> None:
    """Wait until the fleet holds so many nodes as Ready, and show the progress.

    Args:
        fleet: the simulated nodes.
        nodes: how many there are to be.
        alive: raises TestbedError where their process has ended.
        explain: what to add to the error, such as the end of their log.
        report: told how far it is, unless that is a terminal, which gets a bar.

    Raises:
        TestbedError: they are not Ready in time, or their process has ended.

    """
    last: Summary | None = None

    with progress("nodes Ready", total=nodes, report=report) as advance:

        def are_ready() -> bool:
            nonlocal last
            alive()
            try:
                last = fleet.summary()
            except TestbedError:  # not listening yet
                return False
            advance(last.ready, f"registered {last.registered}")
            return last.ready >= nodes

        wait_until(
            are_ready,
            what=f"{nodes} nodes to be Ready",
            timeout_seconds=nodes_timeout_seconds(nodes),
            explain=lambda: f" ({last.ready if last else 0} are){explain()}",
        )
