"""What keeps nodes from being upgraded and is no gate: the mode, requests of a pause, a hold, a refused spec.

No override opens any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import HOLD_ANNOTATION
from winpool.api.v1alpha1 import Mode
from winpool.objects.hold import hold_end, is_held
from winpool.rooms import Mandate
from winpool.upgrade.records import Stop
from winpool.upgrade.shown import at, because, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from winpool.api.upgrade import PauseRequest, Upgrade
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.objects.node import Node

NOT_ACCEPTED: Final = Stop(
    "NotAccepted",
    "The operator cannot act on the spec.",
    "Correct what the condition Accepted reports.",
)
PAUSED: Final = Stop("PausedBySpec", "spec.mode is Paused.", "Set spec.mode to Active.")
DRY_RUN: Final = Stop("DryRun", "spec.mode is DryRun.", "Set spec.mode to Active.")


def pool_stops(spec: WindowsNodePoolSpec, upgrade: Upgrade, mandate: Mandate) -> tuple[Stop, ...]:
    """Return what keeps all nodes of the pool from being upgraded."""
    return tuple(_of_pool(spec, upgrade, mandate))


def _of_pool(spec: WindowsNodePoolSpec, upgrade: Upgrade, mandate: Mandate) -> Iterator[Stop]:
    if mandate is Mandate.FINISH:
        yield NOT_ACCEPTED
    if spec.mode is Mode.PAUSED:
        yield PAUSED
    elif spec.mode is Mode.DRY_RUN:
        yield DRY_RUN
    for request in sorted(upgrade.pause_requests, key=lambda each: each.owner):
        yield paused_by(request)


def paused_by(request: PauseRequest) -> Stop:
    """Return that an owner requests that no upgrade begins."""
    owner = shown(request.owner)
    return Stop(
        "PauseRequested",
        f"The owner {owner} requests in spec.upgrade.pauseRequests that no upgrade "
        f"begins{because(request.reason)}",
        f"Ask {owner} to remove that entry of spec.upgrade.pauseRequests.",
    )


def node_stops(node: Node, *, now: datetime) -> tuple[Stop, ...]:
    """Return what keeps ``node`` from being upgraded: a hold."""
    if not is_held(node, now=now):
        return ()
    end = hold_end(node)
    return (_HELD if end is None else _held_until(end),)


_HELD: Final = Stop(
    "Held",
    f"Someone holds the node with the annotation {HOLD_ANNOTATION}.",
    f"Remove the annotation {HOLD_ANNOTATION} from the node.",
)


def _held_until(end: datetime) -> Stop:
    return Stop(
        "Held",
        f"Someone holds the node with the annotation {HOLD_ANNOTATION} until {at(end)}.",
        f"Wait until {at(end)}, or remove the annotation {HOLD_ANNOTATION} from the node.",
    )
