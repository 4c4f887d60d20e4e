"""Since when the control plane has its version: a restart of the operator restarts no clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from harness.builders import CONTROL_PLANE, NOON, with_status
from harness.upgrade_feature import overview_of, settled_nodes, upgrade_pool, upgrade_snapshot, wishes
from winpool.api.status import ControlPlaneSeen, WindowsNodePoolStatus
from winpool.model.snapshot import Snapshot

MINUTE = timedelta(minutes=1)


def seen(
    *, own: float | None, status: float | None = None, version: str = CONTROL_PLANE, is_first: bool = True
) -> Snapshot:
    """Return a world; ``own`` and ``status`` are how many minutes ago the version was first seen."""
    found = None if status is None else ControlPlaneSeen(version=version, since=NOON - status * MINUTE)
    pool = with_status(upgrade_pool(), WindowsNodePoolStatus(control_plane=found))
    snapshot = upgrade_snapshot(pool, settled_nodes(1), settled=None if own is None else own * MINUTE)
    return replace(snapshot, upgrades=replace(snapshot.upgrades, control_plane_is_first=is_first))


def remembered(snapshot: Snapshot) -> float | None:
    """Return how many minutes ago the status is to say, None for nothing."""
    found = overview_of(snapshot).control_plane
    assert found is None or found.version in (CONTROL_PLANE, "v1.35.0")
    return None if found is None else (NOON - found.since) / MINUTE


@pytest.mark.parametrize(
    ("snapshot", "minutes", "wish"),
    [
        pytest.param(seen(own=1), 1, "Gated", id="a first start"),
        pytest.param(seen(own=15), 15, "Required", id="a quarter of an hour later"),
        pytest.param(seen(own=0, status=15), 15, "Required", id="a restart"),
        pytest.param(seen(own=0, status=14), 14, "Gated", id="a restart in between"),
        pytest.param(seen(own=0, status=60, version="v1.35.0"), 0, "Gated", id="another version since"),
        pytest.param(seen(own=0, status=60, is_first=False), 0, "Gated", id="another version or a gap"),
        pytest.param(seen(own=20, status=10), 20, "Required", id="a status that is later than what was seen"),
        pytest.param(seen(own=1, status=-60), 1, "Gated", id="a status from the future"),
        pytest.param(seen(own=None, status=60), 60, "Gated", id="not read yet"),
        pytest.param(seen(own=None, status=60, is_first=False), None, "Gated", id="not read lately"),
        pytest.param(seen(own=None), None, "Gated", id="nothing known"),
    ],
)
def test_what_counts_and_what_is_remembered(snapshot: Snapshot, minutes: float | None, wish: str) -> None:
    assert wishes(snapshot) == {"w1": wish}
    assert remembered(snapshot) == minutes


def test_what_is_remembered_does_not_change_by_being_remembered() -> None:
    """The status has whole seconds. Reading it back must not write another one, nor open the gate earlier."""
    first = seen(own=1)
    moment = NOON - timedelta(minutes=1, milliseconds=-300)
    first = replace(first, upgrades=replace(first.upgrades, control_plane_since=moment))
    overview = overview_of(first)
    assert overview.control_plane is not None
    assert overview.control_plane.since >= moment
    pool = with_status(first.pool, WindowsNodePoolStatus(control_plane=overview.control_plane))
    again = overview_of(replace(first, pool=pool))
    assert again == overview


def test_a_version_of_any_length_is_remembered() -> None:
    version = f"v1.36.3-{'x' * 250}"
    snapshot = seen(own=0)
    snapshot = replace(snapshot, support=replace(snapshot.support, control_plane=version))
    found = overview_of(snapshot).control_plane
    assert found is not None
    pool = with_status(snapshot.pool, WindowsNodePoolStatus(control_plane=found))
    later = replace(snapshot, pool=pool, now=NOON + 15 * MINUTE)
    later = replace(later, upgrades=replace(later.upgrades, control_plane_since=NOON + 14 * MINUTE))
    assert overview_of(later).control_plane == found
