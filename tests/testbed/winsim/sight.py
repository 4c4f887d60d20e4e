"""What a fleet tells about itself, put together from those who know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.winsim.replies import NodeView, Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.winsim.census import Census
    from testbed.winsim.endpoint.server import Endpoint
    from testbed.winsim.pods.keeper import Keeper
    from testbed.winsim.roster import Roster


def summary(roster: Roster, *, census: Census, pods: Keeper, endpoint: Endpoint | None) -> Summary:
    """Return the fleet in numbers."""
    entries = roster.entries.values()
    return Summary(
        nodes=len(roster),
        running=sum(entry.running for entry in entries),
        registered=len(census.registered),
        ready=len(census.ready),
        pods=sum(pods.count(entry.name) for entry in entries),
        kubelet_port=endpoint.port if endpoint is not None else None,
        exporter_port=endpoint.exporter_port if endpoint is not None else None,
    )


def views(roster: Roster, *, census: Census, pods: Keeper, uid: Callable[[str], str]) -> tuple[NodeView, ...]:
    """Return what is known about each node; ``uid`` tells that of a Node, or nothing."""
    return tuple(
        NodeView(
            name=entry.name,
            os=entry.os,
            address=entry.address,
            running=entry.running,
            registered=entry.name in census.registered,
            ready=entry.name in census.ready,
            uid=uid(entry.name),
            generation=entry.generation,
            reason=entry.trouble.reason if entry.trouble else "",
            pods=pods.count(entry.name),
        )
        for entry in roster.entries.values()
    )
