"""Knows which pools exist: from the feed of events, from complete lists, and from answers to our own writes.

``Pools`` is the cache: the newest resourceVersion wins. A pool is forgotten when the feed says DELETED, or
when a complete list does not have it (Kopf never reports a deletion that happened while its watch was down).
``Relister`` lists all pools: at start, every five minutes (P2), and when a part of the operator asks for it.
``Absences`` tell which UIDs certainly have no pool: those that two complete lists lack, a grace period apart
(P4).
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from winpool.api.keys import PLURAL
from winpool.api.status import WindowsNodePoolStatus
from winpool.kube.backoff import Backoff, Outage, uniform
from winpool.kube.errors import ApiError, NotFound, explained
from winpool.kube.pools import NOT_INSTALLED
from winpool.kube.wire import is_older, newer_of
from winpool.kube.writer import Writer
from winpool.loops import Clock, Faults, Wake, keep_newest
from winpool.model.node import Keys
from winpool.model.pool import NO_ROOM, Pool, PoolName, read_pool
from winpool.ownership.trust import keys_of

KEPT: Final = 10_000
"""UIDs and names that are asked about and do not exist: more than nodes with leftovers. A kubelet can invent
new ones all day. If one is forgotten, its lists are counted again from the start, so nothing counts as gone
too early."""

UNASKED_LISTS: Final = 4
"""After so many lists without a question about it, a UID or name is forgotten."""

BURST: Final = 6
PACE_SECONDS: Final = 30.0
"""BURST lists are made as soon as they are due, and then one in this time. Pools are seldom deleted by force,
and a kubelet that invents UIDs must not make the operator list all day."""

SLACK: Final = timedelta(seconds=2)
"""The reported moment is later than planned by this much: lists are at least a second apart."""

TIMER_SECONDS: Final = 0.001
"""A timer of the event loop may be early by this much."""


class _Absence(msgspec.Struct):
    """A UID or name that no known pool has; ``asked_at`` is the time of the first question about it.

    ``missed_at`` is when the first list began that lacked it, ``told`` the reported moment of the decision.
    ``unasked`` are the lists since the last question.
    """

    asked_at: float
    told: datetime
    missed_at: float | None = None
    is_confirmed: bool = False
    unasked: int = 0


@dataclass(slots=True)
class Absences:
    """UIDs and names that are asked about and that no known pool has.

    ``on_doubt`` is called when a list has become due, or is due sooner than it was. It must not block.
    """

    grace_seconds: float
    clock: Clock = field(default_factory=Clock)
    on_doubt: Callable[[], None] = lambda: None
    _absences: dict[str | PoolName, _Absence] = field(default_factory=dict, init=False)
    """The last asked about is last: the ones without a question for longest are removed first."""
    _whole_at: float = field(default=float("-inf"), init=False)
    """When BURST lists may be made at once again."""

    def ask(self, identity: str | PoolName) -> bool:
        """Whether it is certain that no pool has that UID or name. Lists count only after this question."""
        known = self._absences.get(identity)
        absence = known or self._begin()
        keep_newest(self._absences, identity, absence, most=KEPT)
        is_news = known is None or (known.unasked > 0 and not known.is_confirmed)
        absence.unasked = 0
        if is_news:
            self.on_doubt()
        return absence.is_confirmed

    def forget(self, identity: str | PoolName) -> None:
        """Note that there is a pool with that UID or name."""
        self._absences.pop(identity, None)

    def is_missed(self, identity: str | PoolName) -> bool:
        """Whether a complete list lacked that UID or name after the first question about it."""
        absence = self._absences.get(identity)
        return absence is not None and absence.missed_at is not None

    def decided_at(self, identity: str | PoolName) -> datetime | None:
        """Return when the list comes that decides about that UID or name, in full seconds; None for none.

        It stays the same from the first question on, unless lists fail.
        """
        absence = self._absences.get(identity)
        return None if absence is None or absence.is_confirmed else absence.told

    def next_list_at(self) -> float | None:
        """Return the monotonic time at which a list of all pools is due; None where none is."""
        wanted = (
            each.asked_at if each.missed_at is None else each.missed_at + self.grace_seconds
            for each in self._absences.values()
            if not each.unasked and not each.is_confirmed
        )
        soonest = min(wanted, default=None)
        return None if soonest is None else max(soonest, self._permitted_at)

    def note_list(self, listed: Collection[str | PoolName], *, began: float) -> None:
        """Note a complete list with the UIDs and names ``listed``, requested at ``began``."""
        due = self.next_list_at()
        if due is not None and began >= due - TIMER_SECONDS:
            self._whole_at = max(self._whole_at, began) + PACE_SECONDS
        for identity, absence in tuple(self._absences.items()):
            if identity in listed or absence.unasked >= UNASKED_LISTS:
                del self._absences[identity]
            else:
                absence.unasked += 1
                self._note_missed(absence, began)

    @property
    def _permitted_at(self) -> float:
        """When the next list may be made for these questions."""
        return self._whole_at - (BURST - 1) * PACE_SECONDS

    def _begin(self) -> _Absence:
        now = self.clock.monotonic()
        return _Absence(asked_at=now, told=self._told(max(now, self._permitted_at)))

    def _note_missed(self, absence: _Absence, began: float) -> None:
        if began < absence.asked_at:
            return  # the list may be older than the pool
        if absence.missed_at is None:
            absence.missed_at = began
            absence.told = max(absence.told, self._told(began, slack=timedelta()))
        elif began >= absence.missed_at + self.grace_seconds - TIMER_SECONDS:
            absence.is_confirmed = True

    def _told(self, first: float, *, slack: timedelta = SLACK) -> datetime:
        """Return when the second list is due if the first begins at ``first``, as it is reported."""
        seconds = first - self.clock.monotonic() + self.grace_seconds
        moment = self.clock.now() + timedelta(seconds=seconds) + slack
        whole = moment.replace(microsecond=0)
        return whole if whole == moment else whole + timedelta(seconds=1)


log = logging.getLogger(__name__)

MOST_OF_ALL: Final = 32 * 1024 * 1024
"""Bytes in memory of the specs of all pools: of three thousand real ones, and of two hundred that are as
large as the CRD admits. Anyone who may create pools could fill the memory of the operator (P7)."""

ORDINARY: Final = 16 * 1024
"""Bytes in memory of a spec, at most, which counts as no larger than others: real ones have 2 to 10 kB."""

_PER_TEXT: Final = 100
"""What Python needs for a text, in a tuple and in the set of a selector, beside its characters."""


def _size_of(body: Mapping[str, Any]) -> int:
    text = msgspec.json.encode([body.get("spec"), body["metadata"].get("finalizers")])
    return len(text) + text.count(b'"') // 2 * _PER_TEXT


@dataclass(slots=True)
class _Room:
    """Says which pools fit into MOST_OF_ALL: the smallest, and of equally large ones the oldest.

    All that are ORDINARY count as equally large, so that no one can take the place of one that exists. The
    order in which they are seen makes no difference.
    """

    _entries: dict[str, tuple[int, str, str, int]] = field(default_factory=dict, init=False)
    """Of each pool by its UID: what it counts as, time of creation, UID, and bytes."""
    _order: list[tuple[int, str, str, int]] = field(default_factory=list, init=False)
    _fitting: int | None = field(default=None, init=False)
    """How many of ``_order`` fit; None where that has to be counted again."""

    def note(self, body: Mapping[str, Any]) -> None:
        """Note the size of a pool."""
        metadata, size = body["metadata"], _size_of(body)
        uid = metadata["uid"]
        self.forget(uid)
        self._entries[uid] = entry = (max(size, ORDINARY), metadata.get("creationTimestamp") or "", uid, size)
        insort(self._order, entry)

    def forget(self, uid: str) -> None:
        """Forget a pool that is gone."""
        if entry := self._entries.pop(uid, None):
            del self._order[bisect_left(self._order, entry)]
        self._fitting = None

    def keep(self, uids: Collection[str]) -> None:
        """Forget all other pools."""
        for uid in self._entries.keys() - uids:
            self.forget(uid)

    def has(self, uid: str) -> bool:
        """Whether that pool fits; one that is not known yet does."""
        entry = self._entries.get(uid)
        return entry is None or bisect_left(self._order, entry) < self._fit()

    def let_go(self, pools: dict[str, Pool]) -> list[str]:
        """Replace those of ``pools`` that do not fit and have a spec; return their keys."""
        left_out = {uid for _, _, uid, _ in self._order[self._fit() :]}
        keys = [key for key, each in pools.items() if each.uid in left_out and each.spec] if left_out else []
        for key in keys:
            pools[key] = replace(pools[key], spec=None, refusal=NO_ROOM)
        return keys

    def _fit(self) -> int:
        if self._fitting is None:
            self._fitting = bisect_right([*accumulate(size for *_, size in self._order)], MOST_OF_ALL)
        return self._fitting


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


class _Gone(msgspec.Struct, frozen=True):
    """Which pool is gone, at which version, what it had set, and whether its deletion was seen before."""

    name: str
    version: str
    keys: Keys
    was_deleting: bool


class ChangeHandler(Protocol):
    """What is called for a change."""

    def __call__(self, name: str, *, for_rivals: bool) -> None:
        """Note that the pool changed, appeared or is gone."""


@dataclass(slots=True)
class Pools:
    """All known pools by name.

    ``on_change`` is called with the name of each that changed, and whether the change concerns other pools:
    the specs of all pools decide together which pool has a node. ``absences`` get each list.
    """

    on_change: ChangeHandler
    absences: Absences
    synced: bool = field(default=False, init=False)
    """Whether a complete list has been seen: before that, it is not known which pools share a node."""
    newest_version: str = field(default="", init=False)
    """The newest resourceVersion that was seen; empty before any."""
    _pools: dict[str, Pool] = field(default_factory=dict, init=False)
    _faults: Faults = field(default_factory=lambda: Faults("reading it", log), init=False)
    _gone: dict[str, _Gone] = field(default_factory=dict, init=False)
    """By the UIDs of pools that are gone, the latest last."""
    _room: _Room = field(default_factory=_Room, init=False)

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

    def accept(self, body: Mapping[str, Any], *, is_own_status: bool = False) -> None:
        """Store an object that was read, watched, or returned by a write of ours.

        With ``is_own_status`` it is the answer to our write of the status, which no pass has to follow: it
        says what a pass has just seen.
        """
        self._take(self.read(body), is_own_status=is_own_status)
        self._make_room()

    def _take(self, pool: Pool, *, even_older: bool = False, is_own_status: bool = False) -> None:
        held = self._pools.get(pool.name)
        if pool.uid in self._gone:
            return
        if held and not even_older and not _is_news(pool, held):
            return
        self._pools[pool.name] = pool
        self.newest_version = newer_of(pool.resource_version, self.newest_version)
        for_rivals = held is None or _claims(held) != _claims(pool)
        if for_rivals or not is_own_status:
            self.on_change(pool.name, for_rivals=for_rivals)

    def _make_room(self) -> None:
        """Let go of the specs that do not fit any more."""
        for name in self._room.let_go(self._pools):
            self.on_change(name, for_rivals=True)

    def read(self, body: Mapping[str, Any], *, rewound: bool = False) -> Pool:
        """Return the pool of an object: the known one where it is of the same version, unless ``rewound``.

        Objects come as a watch, a list or an answer has them. Where there is no room for the spec, the pool
        has a refusal in its place.
        """
        metadata = body["metadata"]
        name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
        held = None if rewound else self._pools.get(name)
        is_known = held is not None and (held.uid, held.resource_version) == (uid, version)
        if held and is_known and (held.refusal != NO_ROOM or not self._room.has(uid)):
            return held
        try:
            if not is_known and not (held and is_older(version, than=held.resource_version)):
                self._room.note(body)
            pool = read_pool(body, refusal="" if self._room.has(uid) else NO_ROOM)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not keep all other pools from being listed
            self._faults.failed(name, error)
            return _unread(body, error)
        self._faults.ended(name)
        return pool

    def read_page(
        self, bodies: Iterable[Mapping[str, Any]], *, into: dict[str, Pool], rewound: bool = False
    ) -> None:
        """Read a page of a list, by UID ``into`` what was read of it until now, of which no more is kept."""
        for body in bodies:
            pool = self.read(body, rewound=rewound)
            into[pool.uid] = pool
        self._room.let_go(into)

    def forget(self, *, name: str, uid: str, version: str) -> None:
        """Drop the pool, gone at ``version``, unless another of the same name has taken its place."""
        held = self._pools.get(name)
        known = self._gone.get(uid)
        keys = keys_of(held) if held and held.uid == uid else known.keys if known else Keys()
        was_deleting = held.deleting if held and held.uid == uid else bool(known and known.was_deleting)
        keep_newest(self._gone, uid, _Gone(name, version, keys, was_deleting), most=_GONE_KEPT)
        if held and held.uid == uid:
            del self._pools[name]
            self._room.forget(uid)
            self.on_change(name, for_rivals=True)

    def replace(
        self,
        pools: Iterable[Pool],
        *,
        resource_version: str,
        began: float,
        rewound: bool = False,
    ) -> None:
        """Store a complete list of ``pools``, made at ``resource_version``: one that is not on it is gone.

        They are as ``read`` returns them. A pool that is known from a later moment than the list stays.
        ``began`` is the monotonic time at which the list was requested; ``rewound`` says that the server was
        restored to an earlier state, so that the list, which was read whole, is right in any case.
        """
        self.newest_version = resource_version if rewound else newer_of(resource_version, self.newest_version)
        listed: set[str | PoolName] = set()
        for pool in pools:
            listed |= _identities(pool.uid, pool.name)
            gone = self._gone.get(pool.uid)
            if gone and (rewound or not is_older(resource_version, than=gone.version)):
                del self._gone[pool.uid]  # it exists again
            self._take(pool, even_older=rewound)
        for pool in self.all():
            known_later = is_older(resource_version, than=pool.resource_version) and not rewound
            if pool.uid not in listed and not known_later:
                log.info("pool %s is gone: it is not on the list of all pools", pool.name)
                self.forget(name=pool.name, uid=pool.uid, version=resource_version)
        self._room.keep({each.uid for each in self._pools.values()})
        self._make_room()
        self.synced = True
        self.absences.note_list(listed, began=began)


def _identities(uid: str, name: str) -> set[str | PoolName]:
    return {uid, PoolName(name)}


def _claims(pool: Pool) -> tuple[str, int, bool, bool]:
    """Return what decides which pool has a node. A deletion usually raises the generation too."""
    return (pool.uid, pool.generation, pool.deleting, pool.spec is None)


def _is_news(pool: Pool, held: Pool) -> bool:
    if pool.resource_version == held.resource_version:
        return held.refusal == NO_ROOM != pool.refusal
    return not is_older(pool.resource_version, than=held.resource_version)


JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not list in step."""

LEAST_SECONDS: Final = 1.0
"""Between two lists, however many ask for one."""

AGAIN_SECONDS: Final = 2.0
"""After the CRD was created or deleted, all pools are listed twice: the API server may still serve them for a
moment after it has reported the deletion."""


@dataclass(kw_only=True, eq=False)
class Relister:
    """Lists all pools into the cache, and calls ``after``.

    ``problem`` says why the last list failed, empty where it did not.
    """

    writer: Writer
    pools: Pools
    period_seconds: float
    after: Callable[[], None]
    monotonic: Callable[[], float]
    problem: str = field(default="not listed yet", init=False)
    _news: Wake = field(default_factory=Wake, init=False)
    _pause: Wake = field(default_factory=Wake, init=False)
    _is_asked: bool = field(default=False, init=False)
    _again_at: float = field(default=float("inf"), init=False)

    def __post_init__(self) -> None:
        self._outage = Outage("pools", log, self.monotonic)

    def ask(self) -> None:
        """Ask for a list soon: the answer about a known pool was a 404, or the feed watches no pools.

        A 404 alone does not mean that the pool is gone. An API server that has just started answers the
        same while it does not serve the CRD yet.
        """
        self._is_asked = True
        self._news.set()

    def doubted(self) -> None:
        """Note that a list has become due, or is due sooner, for a question to ``absences``."""
        self._news.set()

    def kind_changed(self) -> None:
        """Note that the CRD was created or deleted: list now, in spite of any pause, and once more soon."""
        self._again_at = self.monotonic() + AGAIN_SECONDS
        self._pause.set()
        self.ask()

    async def run(self) -> None:
        """List until cancelled."""
        backoff = Backoff()
        while True:
            self._is_asked = False  # this list serves all that asked until now
            try:
                await self._list()
            except ApiError as error:
                explained = _explained(error)
                self.problem = explained.message
                self._outage.failed(explained)
                if await self._pause.wait(seconds=backoff.next(asked=error.retry_after)):
                    backoff.reset()
                continue
            self.problem = ""
            backoff.reset()
            self._pause.clear()
            self._outage.ended()
            self.after()
            await asyncio.sleep(LEAST_SECONDS)
            await self._until_due()

    async def _until_due(self) -> None:
        regular = self.monotonic() + self.period_seconds * uniform(1, 1 + JITTER)
        while not self._is_asked:
            wanted = self.pools.absences.next_list_at()
            due = min(regular, self._again_at, regular if wanted is None else wanted)
            seconds = due - self.monotonic()
            if seconds <= TIMER_SECONDS:
                break
            await self._news.wait(seconds=seconds)
        if self.monotonic() >= self._again_at - TIMER_SECONDS:
            self._again_at = float("inf")

    async def _list(self) -> None:
        began = self.monotonic()
        seen = self.pools.newest_version  # from before: what comes during the request may be newer
        listed, version = await self._whole_list()
        rewound = bool(seen and is_older(version, than=seen))
        if rewound:
            log.warning("%s: the cluster was restored from version %s to the older %s", PLURAL, seen, version)
            # Versions are used twice then: one that is known may be of another state.
            listed, version = await self._whole_list(rewound=True)
        self.pools.replace(listed, resource_version=version, began=began, rewound=rewound)

    async def _whole_list(self, *, rewound: bool = False) -> tuple[Collection[Pool], str]:
        """Return all pools, and the version of the list."""
        found: dict[str, Pool] = {}

        def take(bodies: Iterable[Mapping[str, Any]]) -> Iterable[Pool]:
            self.pools.read_page(bodies, into=found, rewound=rewound)
            return ()

        listed = await self.writer.list_pools(take, begin=found.clear)
        return found.values(), listed.resource_version


def _explained(error: ApiError) -> ApiError:
    if isinstance(error, NotFound):
        return NotFound(NOT_INSTALLED, status=error.status)
    return explained(error)
