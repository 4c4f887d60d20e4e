"""What people hear of a pool that is gone without having released its nodes."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from winpool.api.events import EventReason
from winpool.report.announce import Announcement
from winpool.report.tally import count_nodes

if TYPE_CHECKING:
    from datetime import datetime


def pool_gone(name: str, uid: str, *, nodes: int, decided_at: datetime | None) -> Announcement:
    """Return the event about the pool of that name and UID, which has left its things on so many ``nodes``.

    ``decided_at`` is when the list of all pools is due after which they are removed, None where it was made.
    """
    have = "has" if nodes == 1 else "have"
    unless = "unless a second list of all pools has the pool"
    when = f"at {utc(decided_at)}, {unless}" if decided_at else "now"
    return Announcement(
        EventReason.POOL_GONE,
        f"The pool no longer exists and did not release its nodes. {count_nodes(nodes)} still {have} its "
        f"labels and taints. The operator removes them {when}.",
        name,
        uid,
    )


def utc(moment: datetime) -> str:
    """Write a moment as Kubernetes does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
