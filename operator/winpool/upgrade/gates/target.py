"""The gates about what nodes are brought to: its release, the support of that, and its revision."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.moments import later
from winpool.api.upgrade import Gate
from winpool.api.verdicts import Verdict
from winpool.support.classes import class_reason
from winpool.support.revisions import revision_reasons
from winpool.support.servicing import ended_reasons
from winpool.support.verdicts import Layer
from winpool.support.versions import WindowsVersion
from winpool.upgrade.gates.world import closed, opened, unknown

if TYPE_CHECKING:
    from datetime import date

    from winpool.upgrade.gates.world import World
    from winpool.upgrade.records import GateFinding

CONTROL_PLANE_UNKNOWN_FIX: Final = (
    "Check whether the API server answers /version, and read the operator's log."
)

_OTHER_RELEASE: Final = "Change spec.os.version to a release that the support matrix allows"
_ROW: Final = "a supportMatrix row"


def support_matrix(world: World) -> GateFinding:
    """Judge the target release under the minor version of the control plane, by all layers of the matrix."""
    gate = Gate.SUPPORT_MATRIX
    if world.minor is None:
        return unknown(
            gate,
            "The version of the control plane is not known, so the support matrix cannot be asked.",
            CONTROL_PLANE_UNKNOWN_FIX,
        )
    reason = class_reason(world.minor, world.release, layers=world.layers)
    if reason.verdict is Verdict.UNSUPPORTED:
        return closed(
            gate,
            reason.message,
            f"{_OTHER_RELEASE}, or, if your vendor supports it, allow it with {_ROW}.",
        )
    if reason.verdict is Verdict.UNKNOWN:
        return unknown(gate, reason.message, f"Update winpool, or add {_ROW}.")
    return opened(gate, reason.message)


def end_of_support(world: World) -> GateFinding:
    """Judge whether the target release is still supported today, in UTC."""
    gate = Gate.END_OF_SUPPORT
    found = _last_day(world)
    if found is None:
        return unknown(
            gate,
            f"It is not known until when Windows Server {world.release} is supported.",
            f"Set endOfSupport for this release in {_ROW}.",
        )
    last, layer = found
    for reason in ended_reasons(world.release, last, layer=layer, today=world.now.date()):
        return closed(
            gate,
            reason.message,
            "Change spec.os.version to a newer release. If you have support beyond that day, set "
            f"endOfSupport in {_ROW}.",
        )
    return opened(
        gate,
        f"Windows Server {world.release} is supported until {last}.",
        changes_at=_day_after(last),
    )


def _last_day(world: World) -> tuple[date, Layer] | None:
    said = world.layers.override(world.release).end_of_support
    if said is not None:
        return said
    known = world.layers.matrix.releases.get(world.release)
    return (known.end_of_support, Layer.BUILT_IN) if known else None


def _day_after(day: date) -> datetime:
    return later(datetime.combine(day, time(), tzinfo=UTC), timedelta(days=1).total_seconds())


def revision_floor(world: World) -> GateFinding:
    """Judge the target revision by the highest floor of the pool and of all layers of the matrix."""
    gate = Gate.REVISION_FLOOR
    build, target = world.layers.build_of(world.release), world.spec.os.target_revision
    if build is None:
        return unknown(
            gate,
            f"Windows Server {world.release} is not in the support matrix, so its lowest supported revision "
            "is not known.",
            f"Correct spec.os.version, or name the build of this release in {_ROW}.",
        )
    floor = _floor(world)
    if floor is not None and target is not None and target < floor[0]:
        return closed(
            gate,
            f"spec.os.targetRevision is {target}, below revision {floor[0]}, the lowest that {floor[1].rows} "
            "allows.",
            f"Raise spec.os.targetRevision to {floor[0]} or a higher revision.",
        )
    if target is not None:
        # A revision that is known to break something is a warning: not every node uses that.
        bad = revision_reasons(WindowsVersion(10, 0, build, target), matrix=world.layers.matrix)
        return opened(gate, next((each.message for each in bad), "No floor is above spec.os.targetRevision."))
    if floor is not None:
        return opened(gate, f"Install at least revision {floor[0]}, the lowest that {floor[1].rows} allows.")
    return opened(gate, f"No revision of Windows Server {world.release} is too low.")


def _floor(world: World) -> tuple[int, Layer] | None:
    found, own = world.layers.override(world.release).min_revision, world.spec.os.min_revision
    if own is not None and (found is None or own > found[0]):
        return own, Layer.POOL
    return found
