"""Observes machines and the control plane for pools with upgrades: what no object in the cluster shows.

``SeenMachines`` keeps unannounced reboots and OS changes; a process knows only what has happened while it
ran, also while it waited to lead. ``VersionReads`` reads the version of the API server every few minutes,
while a pool has upgrades (P2): an upgrade does not begin while the control plane changes, and where several
API servers answer in turn, the reads show both versions.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from winpool.controllers.pools import Pools
from winpool.features.upgrade.due import surprise_of
from winpool.kube.backoff import uniform
from winpool.kube.control_plane import VERSION_STALE_SECONDS, ControlPlane
from winpool.loops import Clock, Wake
from winpool.model.node import Node
from winpool.model.pool import SURPRISE_SECONDS, KnownUpgrades, Pool, Surprise, SurpriseKind
from winpool.ownership.members import is_asked_for

log = logging.getLogger(__name__)

GONE_KEPT: Final = 1024
"""Nodes that are remembered after they are gone, some kB each. A machine that is installed again joins under
the name that it had; where more nodes than that are deleted, only the last are compared."""

GONE_SECONDS: Final = 3600.0
"""How long they are remembered: to install Windows takes less. Later the name may be that of any machine."""


@dataclass(slots=True)
class SeenMachines:
    """Gets every change of a node. What it keeps is about nodes that exist, and a few that are gone."""

    clock: Clock
    _gone: OrderedDict[str, tuple[Node, float]] = field(default_factory=OrderedDict, init=False)
    _surprises: dict[tuple[str, SurpriseKind], Surprise] = field(default_factory=dict, init=False)
    """By the UIDs of nodes: of each kind the last."""
    _is_faulty: bool = field(default=False, init=False)

    def note(self, old: Node | None, new: Node | None) -> None:
        """Note a change. None: the node did not exist before, or is gone."""
        if new is None:
            if old is not None:
                self._forget(old)
            return
        self._note_surprise(self._before(new) if old is None else old, new)

    def surprises(self) -> tuple[Surprise, ...]:
        """Return those of the last SURPRISE_SECONDS, the newest first."""
        now, least = self.clock.now(), timedelta(seconds=SURPRISE_SECONDS)
        self._surprises = {key: each for key, each in self._surprises.items() if now - each.at < least}
        return tuple(sorted(self._surprises.values(), key=lambda each: (now - each.at, each.node, each.kind)))

    def _note_surprise(self, before: Node, after: Node) -> None:
        try:
            found = surprise_of(before, after, now=self.clock.now())
        except Exception as error:
            # A bug of ours must not end the watch of all nodes.
            if not self._is_faulty:
                self._is_faulty = True
                said = "winpool cannot say whether a machine restarted (%s: %s); this is a bug of winpool"
                log.error(said, type(error).__name__, error)  # noqa: TRY400 - the traceback is at debug
            log.debug("node %s: the rule of surprises failed", after.name, exc_info=True)
            return
        if found is not None:
            key = (after.uid, found.kind)
            # A kubelet that reports another boot ID every second must not fill the log.
            level = logging.DEBUG if key in self._surprises else logging.INFO
            log.log(level, "node %s: %s No one had announced it.", after.name, found.said)
            self._surprises[key] = found

    def _before(self, new: Node) -> Node:
        """Return the last state of a node of this name that is gone; ``new`` itself where there is none."""
        gone, since = self._gone.pop(new.name, (new, self.clock.monotonic()))
        return gone if self.clock.monotonic() - since <= GONE_SECONDS else new

    def _forget(self, node: Node) -> None:
        for kind in SurpriseKind:
            self._surprises.pop((node.uid, kind), None)
        self._gone.pop(node.name, None)
        now = self.clock.monotonic()
        self._gone[node.name] = (_without_texts(node), now)
        while len(self._gone) > GONE_KEPT or next(iter(self._gone.values()))[1] < now - GONE_SECONDS:
            self._gone.popitem(last=False)


def _without_texts(node: Node) -> Node:
    """Return what matters of a node that is gone: of its annotations, which may be long, only the keys."""
    return replace(node, annotations=dict.fromkeys(node.annotations, ""), conditions=())


PERIOD_SECONDS: Final = 300.0
"""Between two reads: three of them are in the 15 minutes for which the version has to be unchanged."""

LEAST_SECONDS: Final = 1.0
"""The least time until it is looked whether to read: times are sums of floats, which may be a hair early."""

JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not read in step. The wait of
LEAST_SECONDS after one that ended a hair early is a part of it."""


@dataclass(slots=True)
class VersionReads:
    """Reads until cancelled.

    ``is_wanted`` says whether a pool has upgrades now; call ``check`` when that may have changed.
    ``on_change`` is called when it has become known, or unknown, since when the version is unchanged.
    """

    control_plane: ControlPlane
    is_wanted: Callable[[], bool]
    on_change: Callable[[], None]
    monotonic: Callable[[], float]
    _is_reading: bool = field(default=False, init=False)
    _due_at: float = field(default=float("-inf"), init=False)
    _was_known: bool = field(default=False, init=False)
    _wake: Wake = field(default_factory=Wake, init=False)

    def check(self) -> None:
        """Begin to read, or end, if that has become necessary."""
        if self.is_wanted() != self._is_reading:
            self._wake.set()

    async def run(self) -> None:
        """Read when it is due until cancelled."""
        while True:
            await self._wake.wait(seconds=self._seconds_to_next())
            self._begin_or_end()
            if self._is_reading:
                await self._read_if_due()
                self._report()

    def _begin_or_end(self) -> None:
        is_wanted = self.is_wanted()
        if is_wanted != self._is_reading:
            self._is_reading = is_wanted
            self.control_plane.read_regularly(is_on=is_wanted)
            self._was_known = self._is_known

    async def _read_if_due(self) -> None:
        if self.monotonic() < self._due_at:
            return
        if self.control_plane.age_seconds >= PERIOD_SECONDS:
            await self.control_plane.ask()
        latest = PERIOD_SECONDS * (1 + JITTER) - LEAST_SECONDS
        self._due_at = self.monotonic() + uniform(PERIOD_SECONDS, latest)

    def _report(self) -> None:
        if self._is_known != self._was_known:
            self._was_known = self._is_known
            self.on_change()

    @property
    def _is_known(self) -> bool:
        return self.control_plane.unchanged_since is not None

    def _seconds_to_next(self) -> float | None:
        """Return when to read again, or when the version is no longer known to be unchanged."""
        if not self._is_reading:
            return None
        seconds = self._due_at - self.monotonic()
        if self._was_known:
            seconds = min(seconds, VERSION_STALE_SECONDS - self.control_plane.age_seconds)
        return max(LEAST_SECONDS, seconds)


@dataclass(kw_only=True, eq=False)
class ObservedMachines:
    """What passes know for upgrades beside the objects in the cluster.

    ``nodes`` are those that are known, by name. ``on_change`` wakes all pools. ``surprises`` are counted by
    their kind, each of a node of a pool with upgrades, as a pass first knew of it.
    """

    pools: Pools
    nodes: Mapping[str, Node]
    control_plane: ControlPlane
    on_change: Callable[[], None]
    clock: Clock
    surprises: Counter[SurpriseKind] = field(default_factory=Counter)
    _counted: dict[str, dict[SurpriseKind, Surprise]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._machines = SeenMachines(self.clock)
        self._version = VersionReads(
            self.control_plane,
            is_wanted=lambda: any(has_upgrades(pool) for pool in self.pools.all()),
            on_change=self.on_change,
            monotonic=self.clock.monotonic,
        )

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Note a change of a node. None: it did not exist before, or is gone."""
        self._machines.note(old, new)
        if old is not None and new is None:
            self._counted.pop(old.uid, None)

    def pool_changed(self) -> None:
        """Note that a pool was added, has changed or is gone."""
        self._version.check()

    def known(self, pool: Pool) -> KnownUpgrades:
        """Return what is known for a pass of ``pool``; nothing for a pool without upgrades."""
        if not has_upgrades(pool):
            return KnownUpgrades()
        surprises = tuple(each for each in self._machines.surprises() if self._is_of(each, pool))
        self._count(surprises)
        return KnownUpgrades(
            control_plane_since=self.control_plane.unchanged_since,
            control_plane_is_first=self.control_plane.is_first,
            surprises=surprises,
        )

    async def run(self) -> None:
        """Read the version of the API server while a pool has upgrades, until cancelled."""
        await self._version.run()

    def _is_of(self, surprise: Surprise, pool: Pool) -> bool:
        node = self.nodes.get(surprise.node)
        return node is not None and node.uid == surprise.node_uid and is_asked_for(node, by=pool)

    def _count(self, surprises: tuple[Surprise, ...]) -> None:
        for each in surprises:
            counted = self._counted.setdefault(each.node_uid, {})
            if counted.get(each.kind) != each:
                counted[each.kind] = each
                self.surprises[each.kind] += 1


def has_upgrades(pool: Pool) -> bool:
    """Whether the pool says anything of upgrades, and stays."""
    return pool.spec is not None and pool.spec.upgrade is not None and not pool.deleting
