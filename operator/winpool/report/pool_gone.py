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

    ``decided_at`` is when the list of all pools is due after which they come off, None where it was made.
    """
    have = "has" if nodes == 1 else "have"
    when = f"at {utc(decided_at)}, if a second list of all pools lacks it too" if decided_at else "now"
    return Announcement(
        EventReason.POOL_GONE,
        f"the pool no longer exists and did not release its nodes: {count_nodes(nodes)} still {have} its "
        f"labels and taints; the operator removes them {when}",
        name,
        uid,
    )


def utc(moment: datetime) -> str:
    """Write a moment as Kubernetes does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
