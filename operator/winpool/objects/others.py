"""The other pools, as a part of the snapshot, so that all passes agree on which pool has a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.keys import Keys
    from winpool.objects.pool import Pool


class PoolName(NamedTuple):
    """The name of a pool, where a UID, a bare text, may stand too: a pool may be named like a UID."""

    name: str


@dataclass(frozen=True, slots=True)
class OtherPools:
    """What is known of all pools except the one that is decided on.

    ``rivals`` are those that exist. ``vanished`` are UIDs of which two complete lists have shown that no pool
    has them; a UID that is only unknown is not among them (P4). ``decided_at`` says for an unknown UID when
    the list is due that decides whether it has vanished. ``seen`` are the keys that pools have set, by their
    UIDs: of those that this process has seen, gone or not, and that records name.
    """

    rivals: tuple[Pool, ...] = ()
    vanished: frozenset[str] = frozenset()
    decided_at: Mapping[str, datetime] = field(default_factory=dict)
    seen: Mapping[str, Keys] = field(default_factory=dict)


NO_OTHERS: Final = OtherPools()
