"""What this process has seen that upgrades depend on, and that no object in the cluster says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

SURPRISE_SECONDS: Final = 3600.0
"""How long a surprise is known after it was seen: long enough that people who look in find it."""

LABELLED_SECONDS: Final = 300.0
"""How long a change of a label is known: the label of a node changes at most once a minute."""


class SurpriseKind(StrEnum):
    """What has happened to a machine that no one had announced."""

    REBOOT = "SurpriseReboot"
    OS_CHANGE = "SurpriseOSChange"


@dataclass(frozen=True, slots=True)
class Surprise:
    """Something that happened to a machine outside of an announced upgrade.

    ``node`` is the name and ``node_uid`` the UID of the node as it is now; ``at`` is when this process saw
    it, ``said`` says in a sentence what has changed, without names of nodes.
    """

    kind: SurpriseKind
    node: str
    node_uid: str
    at: datetime
    said: str


@dataclass(frozen=True, slots=True)
class KnownUpgrades:
    """What this process has seen of machines and of the control plane.

    ``control_plane_since`` is since when the API server reports the version that it reports, as far as this
    process has seen; None where it is not known, or could not be read lately. ``control_plane_is_first``:
    this process has seen no other version, and no gap in which it could read none. ``labelled_at`` is when
    the label ``winpool.dev/upgrade-state`` of a node last changed, by UID, without what is older than
    LABELLED_SECONDS. ``surprises`` are those of the last SURPRISE_SECONDS, the newest first.
    """

    control_plane_since: datetime | None = None
    control_plane_is_first: bool = True
    labelled_at: Mapping[str, datetime] = field(default_factory=dict)
    surprises: tuple[Surprise, ...] = ()


NOTHING_SEEN_OF_UPGRADES: Final = KnownUpgrades()
