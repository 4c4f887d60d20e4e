"""The other pools, as a part of the snapshot: so that all come to the same answer about whose a node is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.keys import Keys
    from winpool.objects.pool import Pool


@dataclass(frozen=True, slots=True)
class OtherPools:
    """What is known of all pools but the one that is decided on.

    ``rivals`` are those that there are. ``vanished`` are UIDs that name no pool any more, known from two
    complete lists; a UID that is merely unknown is not among them (P4). ``decided_at`` says of such a UID
    when the list is due that decides whether it has vanished. ``seen`` are the keys that pools have set, by
    their UIDs: of those that this process has seen, gone or not, and that records name.
    """

    rivals: tuple[Pool, ...] = ()
    vanished: frozenset[str] = frozenset()
    decided_at: Mapping[str, datetime] = field(default_factory=dict)
    seen: Mapping[str, Keys] = field(default_factory=dict)


NO_OTHERS: Final = OtherPools()
