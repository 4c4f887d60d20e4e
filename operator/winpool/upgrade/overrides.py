"""Overrides: gates that count as open until a time, by ``spec.upgrade.overrides``.

An override whose time has passed has no effect, and is reported until it is removed. None opens Budget or the
PodDisruptionBudgets, whatever the spec says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from winpool.api.upgrade import NEVER_OVERRIDDEN, Gate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.api.upgrade import Override, Upgrade
    from winpool.upgrade.records import GateFinding

_GATES: Final = tuple(Gate)


@dataclass(frozen=True, slots=True)
class Overrides:
    """The overrides of a pool at one moment, in the order of the gates."""

    in_force: tuple[Override, ...] = ()
    expired: tuple[Override, ...] = ()
    _by_gate: Mapping[Gate, Override] = field(default_factory=dict)

    def on(self, finding: GateFinding) -> GateFinding:
        """Return ``finding`` with the override that is in force for its gate, if there is one."""
        override = self._by_gate.get(finding.gate)
        return finding if override is None else replace(finding, override=override)

    @property
    def ends_at(self) -> datetime | None:
        """When the first of those that are in force ends."""
        return min((each.until for each in self.in_force), default=None)


def overrides_of(upgrade: Upgrade, *, now: datetime) -> Overrides:
    """Return the overrides of a spec, as they are at ``now``."""
    able = sorted(
        (each for each in upgrade.overrides if each.gate not in NEVER_OVERRIDDEN),
        key=lambda each: _GATES.index(each.gate),
    )
    in_force = tuple(each for each in able if each.is_in_force(now))
    return Overrides(
        in_force=in_force,
        expired=tuple(each for each in able if not each.is_in_force(now)),
        _by_gate={each.gate: each for each in in_force},
    )
