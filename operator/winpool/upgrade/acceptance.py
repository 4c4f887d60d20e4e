"""Whether the operator can act on ``spec.upgrade``, by rules that CEL cannot check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.judging.release import unknown_release
from winpool.upgrade.gates.times import exclusions_of
from winpool.upgrade.opening import opening
from winpool.upgrade.windows import UnusableWindowError, window_of

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.api.upgrade import Upgrade
    from winpool.api.v1alpha1 import OperatingSystem
    from winpool.support.rows import Layered


def refused(upgrade: Upgrade, os: OperatingSystem, *, layers: Layered, now: datetime) -> str:
    """Return why no node could ever be upgraded, with the field and the fix; empty where one can.

    ``layers`` is the support matrix with the rows of the cluster and the pool.
    """
    if unknown := unknown_release(os, layers=layers):
        return f"{unknown.message} {unknown.fix}"
    windows = []
    for place, each in enumerate(upgrade.maintenance_windows):
        try:
            windows.append(
                window_of(
                    schedule=each.schedule,
                    duration_seconds=each.duration_seconds,
                    time_zone=each.time_zone,
                )
            )
        except UnusableWindowError as error:
            return f"spec.upgrade.maintenanceWindows[{place}].{error}"
    found = opening(windows, exclusions_of(upgrade), now=now)
    if not found.is_open and found.changes_at is None:
        return (
            "spec.upgrade.maintenanceExclusions: they cover every maintenance window of the next 50 years, "
            "so no upgrade could begin. Remove or shorten an exclusion, or add a window outside of them. "
            "To permit no upgrades, add an entry to spec.upgrade.pauseRequests."
        )
    return ""
