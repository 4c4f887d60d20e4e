"""The conditions of the rules: from the evidence about a node to what is found on it.

A condition finds something only where it was read. What was not is for ``rules.judge`` to report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from winpool.features.diagnose.evidence import Evidence, Found, quoted

Find: TypeAlias = Callable[[Evidence], Iterator[Found]]

_NO_NETWORK: Final = re.compile(
    "NetworkPluginNotReady|container runtime network not ready|network plugin is not ready"
    "|cni (plugin not initialized|config uninitialized)",
    re.IGNORECASE,
)
"""The kubelet's word, that of containerd, and those of Docker's time. None of them is localized."""


def no_network(seen: Evidence) -> Iterator[Found]:
    """Find a node that is not Ready because its CNI is not, or pods that wait for that."""
    node = seen.node
    if node is None:
        yield from _warned(seen, ("NetworkNotReady",), _NO_NETWORK)
    elif node.ready != "True" and (found := _NO_NETWORK.search(node.message)):
        more = "It joined a few minutes ago, and may only need more time." if node.is_new else ""
        yield Found("condition Ready", quoted(node.message, found), more=more, is_mild=node.is_new)


def _warned(seen: Evidence, reasons: tuple[str, ...], pattern: re.Pattern[str]) -> Iterator[Found]:
    """Find events of such reasons about pods that the node has not started."""
    stuck = {pod.name for pod, _ in seen.stuck()}
    hits = [
        (each, found)
        for each in seen.events
        if each.reason in reasons and each.pod in stuck and (found := pattern.search(each.message))
    ]
    if hits:
        event, found = hits[0]
        pods = tuple(dict.fromkeys(each.pod for each, _ in hits))
        yield Found(f"event {event.reason} of {event.pod}", quoted(event.message, found), pods=pods)
