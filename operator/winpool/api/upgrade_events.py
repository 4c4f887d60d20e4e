"""The events about OS upgrades: a part of the table of events (``event_table``)."""

from __future__ import annotations

from typing import Final

from winpool.api.events import EventKind, EventReason, EventType, Regarding

UPGRADE_EVENTS: Final = (
    EventKind(
        EventReason.UPGRADE_ALLOWED,
        "JudgeGates",
        EventType.NORMAL,
        Regarding.POOL,
        "Nodes that are due for an upgrade may be upgraded now. Before, none was allowed, or none was due.",
    ),
    EventKind(
        EventReason.UPGRADE_GATED,
        "JudgeGates",
        EventType.NORMAL,
        Regarding.POOL,
        "Nodes are due for an upgrade, and none may be upgraded now. The event lists every closed gate with "
        "what opens it. The next such event comes only after an upgrade was allowed, or nothing was due.",
    ),
    EventKind(
        EventReason.OVERRIDE_EXPIRED,
        "JudgeGates",
        EventType.WARNING,
        Regarding.POOL,
        "The time of an entry in `upgrade.overrides` has passed. The gate decides again.",
    ),
    EventKind(
        EventReason.SURPRISE_OS_CHANGE,
        "WatchMachines",
        EventType.WARNING,
        Regarding.NODE,
        "The node runs another build of Windows than before, or was recreated as another machine, and no one "
        "had announced it.",
    ),
    EventKind(
        EventReason.SURPRISE_REBOOT,
        "WatchMachines",
        EventType.WARNING,
        Regarding.NODE,
        "The machine of the node restarted, and no one had announced it.",
    ),
)
