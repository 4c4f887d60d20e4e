"""Figures about upgrades that are served as metrics: counts of nodes, and which gates are closed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.upgrade import Gate, Trigger, UpgradeState
from winpool.objects.upgrades import SurpriseKind
from winpool.report.upgrade import upgrades_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.rooms import RoomResult

UNKNOWN: Final = "Unknown"
"""Stands for the state of nodes of which it is not known whether they are due."""

_SURPRISES: Final = {
    SurpriseKind.REBOOT: IssueReason.SURPRISE_REBOOT,
    SurpriseKind.OS_CHANGE: IssueReason.SURPRISE_OS_CHANGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeFigures:
    """What a pass has found of the upgrades of a pool.

    ``states`` counts nodes by what is known of them now: their labels follow within a minute. A node whose
    upgrade has begun stays Required. ``due`` counts
    them by trigger, and a node may have several. ``closed`` are gates that keep all nodes, or at least one
    that is due. ``surprised`` counts nodes of which something unannounced was seen within the last hour.
    """

    states: Mapping[str, int]
    due: Mapping[Trigger, int]
    closed: frozenset[Gate]
    overrides_in_force: int
    overrides_expired: int
    surprised: Mapping[SurpriseKind, int]


def upgrade_figures(results: Sequence[RoomResult]) -> UpgradeFigures | None:
    """Return them; None without ``spec.upgrade``."""
    overview = upgrades_of(results)
    if overview is None:
        return None
    due = Counter(trigger for node in overview.due for trigger in {each.trigger for each in node.due})
    permitted = frozenset(overview.permitted)
    required = sum(
        each.state is UpgradeState.REQUIRED or each.node.name in permitted for each in overview.due
    )
    found = [finding for result in results for finding in result.findings]
    return UpgradeFigures(
        states={
            UpgradeState.UP_TO_DATE: overview.up_to_date,
            UpgradeState.REQUIRED: required,
            UpgradeState.GATED: len(overview.due) - required,
            UNKNOWN: len(overview.unknown),
        },
        due={trigger: due[trigger] for trigger in Trigger},
        closed=frozenset(
            gate.gate
            for gates in (overview.closed, *(node.closed for node in overview.due))
            for gate in gates
        ),
        overrides_in_force=len(overview.in_force),
        overrides_expired=len(overview.expired),
        surprised={
            kind: len({name for each in found if each.reason is reason for name in each.nodes})
            for kind, reason in _SURPRISES.items()
        },
    )
