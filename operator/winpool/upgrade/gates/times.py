"""The gates that time opens: the control plane has its version for long enough, and a window is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.moments import later
from winpool.api.upgrade import Gate
from winpool.upgrade.gates.target import CONTROL_PLANE_UNKNOWN_FIX
from winpool.upgrade.gates.world import closed, opened, unknown
from winpool.upgrade.opening import Exclusion, opening
from winpool.upgrade.shown import at, because
from winpool.upgrade.windows import UnusableWindowError, window_of

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.api.upgrade import Upgrade
    from winpool.upgrade.gates.world import World
    from winpool.upgrade.opening import Opening
    from winpool.upgrade.records import GateFinding

SETTLED_SECONDS: Final = 900.0
"""How long the control plane has to have its version. Its API servers are upgraded one after the other, a few
minutes each, and a kubelet must not be newer than any of them."""


def control_plane(world: World) -> GateFinding:
    """Judge whether the control plane is being upgraded itself, as far as this process has seen."""
    gate, since = Gate.CONTROL_PLANE, world.control_plane_since
    if world.minor is None or since is None:
        return unknown(
            gate,
            "The version of the control plane is not known, or not since when it is so.",
            CONTROL_PLANE_UNKNOWN_FIX,
        )
    settles_at = later(since, SETTLED_SECONDS)
    if world.now < settles_at:
        return closed(
            gate,
            f"The control plane reports the version {world.control_plane[:_VERSION_LENGTH]} only since "
            f"{at(since)}, as far as the operator has seen.",
            f"Wait until {at(settles_at)}: then it is unchanged for 15 minutes.",
            changes_at=settles_at,
        )
    return opened(gate, "The version of the control plane is unchanged for 15 minutes.")


_VERSION_LENGTH: Final = 63
"""Characters of the version of the control plane that are shown; vendors append to it."""


def maintenance_window(world: World) -> GateFinding:
    """Judge whether a maintenance window is open, and no exclusion closes it."""
    gate = Gate.MAINTENANCE_WINDOW
    try:
        found = opening_of(world.upgrade, now=world.now)
    except UnusableWindowError as error:
        return unknown(
            gate,
            f"A maintenance window cannot be used: {error}",
            "Correct spec.upgrade.maintenanceWindows.",
        )
    excluded = [each for each in exclusions_of(world.upgrade) if each.covers(world.now)]
    if found.is_open:
        said = "A maintenance window is open." if world.upgrade.maintenance_windows else _ALWAYS
        return opened(gate, said, changes_at=found.changes_at)
    said = _excluded(excluded) if excluded else "No maintenance window is open."
    if found.changes_at is None:
        return closed(gate, said, f"Change {_FIELDS}: no window opens in the next 50 years.")
    return closed(
        gate,
        said,
        f"Wait until {at(found.changes_at)}, or change {_FIELDS}.",
        changes_at=found.changes_at,
    )


_ALWAYS: Final = "spec.upgrade.maintenanceWindows has no entry, and no exclusion closes the pool now."
_FIELDS: Final = "spec.upgrade.maintenanceWindows and spec.upgrade.maintenanceExclusions"


def _excluded(exclusions: list[Exclusion]) -> str:
    """Say which exclusion closes the windows: the one that ends last."""
    last = max(exclusions, key=lambda each: (each.end, each.start, each.reason))
    until = f"An entry of spec.upgrade.maintenanceExclusions permits no upgrade until {at(last.end)}"
    return f"{until}{because(last.reason)}"


def exclusions_of(upgrade: Upgrade) -> tuple[Exclusion, ...]:
    """Return the exclusions of a spec."""
    return tuple(Exclusion(each.start, each.end, each.reason) for each in upgrade.maintenance_exclusions)


def opening_of(upgrade: Upgrade, *, now: datetime) -> Opening:
    """Return whether the windows of a spec are open at ``now``.

    Raises UnusableWindowError with a sentence that begins with the field of the window.
    """
    windows = [
        window_of(schedule=each.schedule, duration_seconds=each.duration_seconds, time_zone=each.time_zone)
        for each in upgrade.maintenance_windows
    ]
    return opening(windows, exclusions_of(upgrade), now=now)
