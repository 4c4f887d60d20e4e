"""The pools that exist, kept up to date by the Kopf feed, our own lists, and our own writes.

Three sources bring the same object, each at its own time: the newest resourceVersion wins. A pool
is forgotten when the feed says DELETED, or when a complete list does not have it (Kopf never reports
a deletion that happened while its watch was down). A late event about it does not add it again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from winpool.api.v1alpha1 import WindowsNodePoolStatus
from winpool.cluster.versions import is_older, newer_of
from winpool.control.faults import Faults
from winpool.objects.keys import Keys
from winpool.objects.others import PoolName
from winpool.objects.pool import Pool, read_pool
from winpool.ownership.rights import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.control.relist.absences import Absences

log = logging.getLogger(__name__)

_GONE_KEPT: Final = 1000
"""Pools that are gone and remembered. Events are late by seconds, and no one deletes so many pools in that
time."""


def _unread(body: Mapping[str, Any], error: Exception) -> Pool:
    """Return the pool that a bug of ours keeps from being read: one with a refusal, which keeps its nodes."""
    metadata, problem = body["metadata"], f"the operator cannot read it: {type(error).__name__}"
    return Pool(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        created=None,
        deleting=metadata.get("deletionTimestamp") is not None,
        finalizers=tuple(metadata.get("finalizers") or ()),
        spec=None,
        refusal=problem,
        status=WindowsNodePoolStatus(),
        status_problem=problem,
        written_status=body.get("status", {}),
    )


@dataclass(frozen=True, slots=True)
class _Gone:
    """Which pool is gone, at which version, what it had set, and whether its deletion was seen before."""

    name: str
    version: str
    keys: Keys
    was_deleting: bool


class ChangeHandler(Protocol):
    """What is called for a change."""

    def __call__(self, name: str, *, for_rivals: bool) -> None:
        """Note that the pool changed, appeared or is gone."""


class Pools:
    """All known pools by name.

    ``on_change`` is called with the name of each that changed, and whether the change concerns other pools:
    the specs of all pools decide together which pool has a node. ``absences`` get each list.
    """

    def __init__(self, *, on_change: ChangeHandler, absences: Absences) -> None:
        self.absences = absences
        self._pools: dict[str, Pool] = {}
        self._on_change = on_change
        self._synced = False
        self._newest = ""
        self._faults = Faults("reading it", logger=log)
        # The UIDs of pools that are gone, the latest last.
        self._gone: dict[str, _Gone] = {}

    @property
    def synced(self) -> bool:
        """Whether a complete list has been seen: before that, it is not known which pools share a node."""
        return self._synced

    @property
    def newest_version(self) -> str:
        """The newest resourceVersion that was seen; empty before any."""
        return self._newest

    def get(self, name: str) -> Pool | None:
        """Return the pool of that name, or None."""
        return self._pools.get(name)

    def all(self) -> tuple[Pool, ...]:
        """Return all pools, in no particular order."""
        return tuple(self._pools.values())

    def keys_of(self, uid: str) -> Keys | None:
        """Return the keys that the pool with this UID has set; None where no such pool was ever seen.

        Also of pools that are gone, of which the last _GONE_KEPT are remembered.
        """
        if gone := self._gone.get(uid):
            return gone.keys
        return next((keys_of(pool) for pool in self._pools.values() if pool.uid == uid), None)

    def name_of(self, uid: str) -> str | None:
        """Return the name of the pool with this UID, gone or not; None where no such pool was ever seen."""
        if gone := self._gone.get(uid):
            return gone.name
        return next((pool.name for pool in self._pools.values() if pool.uid == uid), None)

    def is_vanished(self, identity: str | PoolName) -> bool:
        """Whether it is certain that no pool has that UID or name: see ``absences``."""
        if any(identity in _identities(pool.uid, pool.name) for pool in self._pools.values()):
            self.absences.forget(identity)
            return False
        return self.absences.ask(identity)

    def is_deleted(self, uid: str | PoolName) -> bool:
        """Whether someone is known to have deleted the pool with this UID; never certain of a name."""
        if isinstance(uid, str) and (gone := self._gone.get(uid)):
            return gone.was_deleting
        return any(pool.deleting for pool in self._pools.values() if pool.uid == uid)

    def accept(self, body: Mapping[str, Any], *, even_older: bool = False) -> None:
        """Store an object that was read, watched, or returned by a write of ours.

        ``even_older`` is for a server that was restored to an earlier state.
        """
        pool = self._read(body)
        held = self._pools.get(pool.name)
        if pool.uid in self._gone:
            return
        if held and not even_older and not _is_news(pool.resource_version, held.resource_version):
            return
        self._pools[pool.name] = pool
        self._newest = newer_of(pool.resource_version, self._newest)
        self._on_change(pool.name, for_rivals=held is None or _claims(held) != _claims(pool))

    def _read(self, body: Mapping[str, Any]) -> Pool:
        try:
            pool = read_pool(body)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not keep all other pools from being listed
            self._faults.failed(body["metadata"]["name"], error)
            return _unread(body, error)
        self._faults.ended(pool.name)
        return pool

    def forget(self, *, name: str, uid: str, version: str) -> None:
        """Drop the pool, gone at ``version``, unless another of the same name has taken its place."""
        held = self._pools.get(name)
        known = self._gone.pop(uid, None)
        keys = keys_of(held) if held and held.uid == uid else known.keys if known else Keys()
        was_deleting = held.deleting if held and held.uid == uid else bool(known and known.was_deleting)
        self._gone[uid] = _Gone(name, version, keys, was_deleting)
        if len(self._gone) > _GONE_KEPT:
            del self._gone[next(iter(self._gone))]
        if held and held.uid == uid:
            del self._pools[name]
            self._on_change(name, for_rivals=True)

    def replace(
        self,
        bodies: Iterable[Mapping[str, Any]],
        *,
        resource_version: str,
        began: float,
        rewound: bool = False,
    ) -> None:
        """Store a complete list, made at ``resource_version``: a pool that is not on it is gone.

        A pool that is known from a later moment than the list stays. ``began`` is the monotonic time at
        which the list was requested; ``rewound`` says that the server was restored to an earlier state, so
        that the list is right in any case.
        """
        self._newest = resource_version if rewound else newer_of(resource_version, self._newest)
        listed: set[str | PoolName] = set()
        for body in bodies:
            uid = body["metadata"]["uid"]
            listed |= _identities(uid, body["metadata"]["name"])
            gone = self._gone.get(uid)
            if gone and (rewound or not is_older(resource_version, than=gone.version)):
                del self._gone[uid]  # it exists again
            self.accept(body, even_older=rewound)
        for pool in self.all():
            known_later = is_older(resource_version, than=pool.resource_version) and not rewound
            if pool.uid not in listed and not known_later:
                log.info("pool %s is gone: it is not on the list of all pools", pool.name)
                self.forget(name=pool.name, uid=pool.uid, version=resource_version)
        self._synced = True
        self.absences.note_list(listed, began=began)


def _identities(uid: str, name: str) -> set[str | PoolName]:
    return {uid, PoolName(name)}


def _claims(pool: Pool) -> tuple[str, int, bool]:
    """Return what decides which pool has a node. A deletion usually raises the generation too."""
    return (pool.uid, pool.generation, pool.deleting)


def _is_news(version: str, held: str) -> bool:
    return version != held and not is_older(version, than=held)
