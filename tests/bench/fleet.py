"""The nodes of a run: what they carry, and when they are at rest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from bench.api import Api
from bench.counting import is_heartbeat, is_node_change, last_disturbance
from bench.errors import BenchError
from bench.trail import AuditTrail
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.kube.nodes import NODES_PATH, WINDOWS_SELECTOR, decode_page
from winpool.model.node import Node

STABLE_SECONDS: Final = 10.0
"""So long no node may have changed before a measurement: the controller manager takes its taints off
seconds after the kubelets reported Ready."""

PATIENCE_SECONDS: Final = 600.0
"""32 s were seen with a thousand nodes; the rest is for more nodes and a busy machine."""

POLL_SECONDS: Final = 1.0
PAGE_LIMIT: Final = 500


def read_fleet(api: Api) -> dict[str, Node]:
    """Return all Windows nodes by name, with the fields that the operator asks for."""
    found: dict[str, Node] = {}
    token = ""
    while True:
        query = {"labelSelector": WINDOWS_SELECTOR, "limit": str(PAGE_LIMIT)}
        query |= {"continue": token} if token else {}
        page = decode_page(api.get(f"{NODES_PATH}?{urlencode(query, quote_via=quote)}"))
        found |= {node.name: node for node in page.items}
        token = page.continue_token
        if not token:
            return found


def is_bare(node: Node) -> bool:
    """Whether the node carries nothing of a pool."""
    return POOL_LABEL not in node.labels and APPLIED_ANNOTATION not in node.annotations


def require_bare(nodes: Mapping[str, Node], *, like: Mapping[str, Node]) -> None:
    """Raise BenchError unless the nodes carry exactly the labels and taints that they had at first."""
    changed = sorted(
        name
        for name, first in like.items()
        if (now := nodes.get(name)) is None
        or not is_bare(now)
        or (dict(now.labels), now.taints) != (dict(first.labels), first.taints)
    )
    if changed:
        raise BenchError(f"{len(changed)} nodes are not as they were before the rounds: {changed[:3]} …")


def require_ready(nodes: Mapping[str, Node], *, count: int) -> None:
    """Raise BenchError unless there are ``count`` nodes and all are Ready."""
    ready = sum(node.ready == "True" for node in nodes.values())
    if (len(nodes), ready) != (count, count):
        raise BenchError(f"{len(nodes)} Windows nodes, {ready} of them Ready; {count} are wanted")


def wait_at_rest(trail: AuditTrail, *, seconds: float = STABLE_SECONDS) -> int:
    """Return once no resourceVersion of a node has changed for ``seconds``, but by its own kubelet's report.

    Those reports never end: each kubelet sends one every five minutes, so of 1,000 nodes three change
    every second. Returns how many came in the last look-back.
    """
    begun = position = trail.mark()
    last = datetime.now(UTC)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (datetime.now(UTC) - last).total_seconds() < seconds:
        if time.monotonic() > deadline:
            raise BenchError(
                f"the nodes were not at rest for {seconds:.0f} s within {PATIENCE_SECONDS:.0f} s"
            )
        time.sleep(POLL_SECONDS)
        now = trail.mark()
        last = max(last, last_disturbance(trail.between(position, now)) or last)
        position = now
    records = trail.between(begun, position)
    return sum(is_node_change(each) and is_heartbeat(each) for each in records)
