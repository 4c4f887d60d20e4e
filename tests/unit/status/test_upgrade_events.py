"""Events about upgrades: one for each change, none for what lasts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest
from msgspec.structs import replace

from harness.builders import MINUTE, NOON, with_status
from harness.sentences import faults_of_texts
from harness.upgrade_views import (
    NAMES,
    NOTHING_DUE,
    ONE_DUE,
    an_overview,
    closed,
    due,
    told,
    upgrading,
)
from winpool.api.events import EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.api.upgrade import Gate
from winpool.decide import decide
from winpool.features.feature import Finding
from winpool.features.upgrade.records import UpgradeOverview
from winpool.status.events import Announcement

Found = tuple[UpgradeOverview, tuple[Finding, ...]]

WINDOW: Final = closed(Gate.MAINTENANCE_WINDOW, "No window is open.", "Wait until 2026-11-28T21:00:00Z.")
GATED: Final = an_overview(due("w1"), gates=[WINDOW])
OURS: Final = (
    EventReason.UPGRADE_ALLOWED,
    EventReason.UPGRADE_GATED,
    EventReason.OVERRIDE_EXPIRED,
    EventReason.SURPRISE_OS_CHANGE,
    EventReason.SURPRISE_REBOOT,
)


def story(*found: Found | UpgradeOverview) -> list[list[Announcement]]:
    """Return the events of passes that find that, a minute after the other."""
    snapshot, events = upgrading(), []
    for minute, each in enumerate(found):
        overview, findings = each if isinstance(each, tuple) else (each, ())
        at = replace(snapshot, now=NOON + minute * MINUTE)
        decision = decide(at, told(overview, findings))
        events.append([event for event in decision.pool_events if event.reason in OURS])
        snapshot = replace(at, pool=with_status(at.pool, decision.status), known_issues=decision.issues)
    assert list(faults_of_texts(event.note for each in events for event in each)) == []
    return events


def reasons(events: Iterable[Iterable[Announcement]]) -> list[list[EventReason]]:
    return [[each.reason for each in found] for found in events]


def test_that_upgrades_are_allowed_or_not_is_an_event_when_it_changes() -> None:
    found = story(NOTHING_DUE, GATED, GATED, ONE_DUE, ONE_DUE, GATED, NOTHING_DUE)
    assert reasons(found) == [
        [],
        [EventReason.UPGRADE_GATED],
        [],
        [EventReason.UPGRADE_ALLOWED],
        [],
        [EventReason.UPGRADE_GATED],
        [],
    ]
    [gated] = found[1]
    assert (gated.regarding, gated.name) == (Regarding.POOL, "pool")
    assert gated.note == (
        "1 node is due for an upgrade, and none may be upgraded now. MaintenanceWindow: No window is open. "
        "Wait until 2026-11-28T21:00:00Z."
    )


def test_another_gate_that_is_closed_is_no_event_of_its_own() -> None:
    other = an_overview(due("w1"), gates=[closed(Gate.POOL_HEALTH)])
    assert reasons(story(GATED, other, GATED)) == [[EventReason.UPGRADE_GATED], [], []]


def test_more_nodes_that_may_be_upgraded_are_no_event() -> None:
    assert reasons(story(ONE_DUE, an_overview(due("w1"), due("w2")))) == [[EventReason.UPGRADE_ALLOWED], []]


def expired(gate: Gate) -> Finding:
    said = f"The override of the gate {gate} ended at 2026-11-01T12:00:00Z and has no effect."
    return Finding(IssueReason.OVERRIDE_EXPIRED, (), said, "Remove it.", cause=gate)


def test_each_override_that_expires_is_one_event() -> None:
    images, both = (expired(Gate.IMAGES),), (expired(Gate.IMAGES), expired(Gate.CAPACITY))
    found = story(NOTHING_DUE, (NOTHING_DUE, images), (NOTHING_DUE, both), (NOTHING_DUE, both))
    assert reasons(found) == [[], [EventReason.OVERRIDE_EXPIRED], [EventReason.OVERRIDE_EXPIRED], []]
    assert "Capacity" in found[2][0].note


SURPRISES: Final = (
    (IssueReason.SURPRISE_REBOOT, EventReason.SURPRISE_REBOOT),
    (IssueReason.SURPRISE_OS_CHANGE, EventReason.SURPRISE_OS_CHANGE),
)


def surprised(reason: IssueReason, *names: str) -> Found:
    return NOTHING_DUE, (Finding(reason, names, "The machines changed.", "Find out why."),)


@pytest.mark.parametrize(("issue", "event"), SURPRISES)
def test_a_surprise_is_an_event_of_its_node(issue: IssueReason, event: EventReason) -> None:
    found = story(NOTHING_DUE, surprised(issue, "w1"), surprised(issue, "w1"), surprised(issue, "w1", "w2"))
    told_of = [[(each.reason, each.regarding, each.name) for each in events] for events in found]
    assert told_of == [[], [(event, Regarding.NODE, "w1")], [], [(event, Regarding.NODE, "w2")]]
    assert found[1][0].note == "Pool pool: The machines changed."


@pytest.mark.parametrize(("issue", "event"), SURPRISES)
def test_a_surprise_of_many_nodes_is_one_event_of_their_pool(issue: IssueReason, event: EventReason) -> None:
    found = story(NOTHING_DUE, surprised(issue, *NAMES[:5]), surprised(issue, *NAMES))
    told_of = [[(each.reason, each.regarding) for each in events] for events in found]
    assert told_of == [[], [(event, Regarding.POOL)], []]
