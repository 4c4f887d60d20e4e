"""Since when the control plane has its version: by this process, and by the status that an earlier one wrote.

A restart of the operator must not begin the fifteen minutes of the gate ControlPlane again. What the status
says counts only as long as this process has seen no other version, and no gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.moments import later
from winpool.api.v1alpha1 import ControlPlaneSeen

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.snapshot import Snapshot


def settled_since(snapshot: Snapshot) -> datetime | None:
    """Return since when the API server reports the version that it reports; None where it is not known."""
    seen = _seen(snapshot)
    return seen.since if seen else None


def to_remember(snapshot: Snapshot) -> ControlPlaneSeen | None:
    """Return what the status is to say of it.

    Before this process has read the version, that is what it says already.
    """
    known = snapshot.upgrades
    if known.control_plane_since is None and known.control_plane_is_first:
        return snapshot.pool.status.control_plane
    return _seen(snapshot)


def _seen(snapshot: Snapshot) -> ControlPlaneSeen | None:
    known, version = snapshot.upgrades, snapshot.support.control_plane
    if known.control_plane_since is None or not version:
        return None
    # The status has whole seconds; the first one that is not before it, so that nothing opens too early.
    own = ControlPlaneSeen(version=version, since=whole(known.control_plane_since))
    before = snapshot.pool.status.control_plane
    is_continued = (
        known.control_plane_is_first
        and before is not None
        and before.version == own.version
        and before.since <= own.since
    )
    return before if is_continued else own


def whole(moment: datetime) -> datetime:
    """Return the first whole second that is not before ``moment``."""
    return later(moment.replace(microsecond=0), 1) if moment.microsecond else moment
