"""Judges the OS upgrades of a pool: which nodes are due, what keeps them from it, and the label that says so.

It cordons and drains nothing. The label ``winpool.dev/upgrade-state`` of a node is all that it wants.
``Required`` is a permission: it is given only where it is known that the node is due, every gate permits and
nothing stops it. It is withdrawn, as ``Gated``, wherever that is not so. Where the operator may not write
(Paused, DryRun, a hold, a spec that is not accepted), only a permission is withdrawn. Without
``spec.upgrade`` there is no label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

import msgspec

from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.maintenance import Gate
from winpool.api.spec import OperatingSystem, WindowsNodePoolSpec
from winpool.api.text import later
from winpool.api.upgrade import Upgrade, UpgradeState
from winpool.features.feature import AllowedActions
from winpool.features.judge import unknown_release
from winpool.features.upgrade.capacity import CapacityJudge
from winpool.features.upgrade.due import DueJudge, Found
from winpool.features.upgrade.findings import surprise_findings, upgrade_findings
from winpool.features.upgrade.gates.pool import may_continue
from winpool.features.upgrade.gates.table import NODE_GATES, POOL_GATES
from winpool.features.upgrade.gates.world import (
    World,
    evidence_of,
    node_stops,
    pool_stops,
    to_remember,
)
from winpool.features.upgrade.records import (
    NO_UPGRADES,
    GateFinding,
    NodeUpgrade,
    UpgradeOverview,
    UpgradeResult,
)
from winpool.features.upgrade.windows import UnusableWindowError, opening, overrides_of, read_window
from winpool.model.node import Node, hold_end, is_held
from winpool.model.pool import SURPRISE_SECONDS
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP, NOTHING_DESIRED, Desired
from winpool.ownership.members import Members
from winpool.support.rows import Layered

_IN_STATE: Final[Mapping[str, Desired]] = {
    each.value: Desired(labels={UPGRADE_STATE_LABEL: each.value}) for each in UpgradeState
}
_LEFT: Final = Desired(labels={UPGRADE_STATE_LABEL: KEEP})


def state_without_due(node: Node, *, is_unknown: bool) -> UpgradeState | None:
    """Return what the label of a node that is not known to be due is to say; None where it is to stay.

    A permission does not outlast what is known.
    """
    if not is_unknown:
        return UpgradeState.UP_TO_DATE
    return UpgradeState.GATED if node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED else None


def only_withdrawn(node: Node, state: UpgradeState | None) -> Desired:
    """Return what is wanted of the label where nothing may be written but that a permission is withdrawn."""
    standing = node.labels.get(UPGRADE_STATE_LABEL)
    if standing == UpgradeState.REQUIRED and state is not UpgradeState.REQUIRED:
        return _IN_STATE[UpgradeState.GATED]
    return as_it_is(standing)


def as_it_is(standing: str | None) -> Desired:
    """Return that the label stays as it is: ``standing``, None where there is none.

    A value of ours is wanted by name, and no label by not naming it: unlike KEEP, both pass the quick check
    of thousands of nodes (``ownership.diff.Comparer``).
    """
    return NOTHING_DESIRED if standing is None else _IN_STATE.get(standing, _LEFT)


def unusable(upgrade: Upgrade, os: OperatingSystem, *, layers: Layered, now: datetime) -> Iterator[str]:
    """Yield why no node could ever be upgraded: sentences that begin with the field, and say the fix.

    ``layers`` is the support matrix with the rows of the cluster and the pool.
    """
    if unknown := unknown_release(os, layers=layers):
        yield unknown.text
    windows = []
    for place, each in enumerate(upgrade.maintenance_windows):
        try:
            windows.append(read_window(each))
        except UnusableWindowError as error:
            yield from (f"spec.upgrade.maintenanceWindows[{place}].{fault}" for fault in error.args)
    if len(windows) < len(upgrade.maintenance_windows):
        return
    found = opening(windows, upgrade.maintenance_exclusions, now=now)
    if not found.is_open and found.changes_at is None:
        yield (
            "spec.upgrade.maintenanceExclusions: they cover every maintenance window of the next 50 years, "
            "so no upgrade could begin. Remove or shorten an exclusion, or add a window outside of them. "
            "To permit no upgrades, add an entry to spec.upgrade.pauseRequests."
        )


def upgrade(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> UpgradeResult:
    """Return which nodes of the pool are due, what keeps them from being upgraded, and their labels."""
    if allowed is AllowedActions.RELEASE:
        return NO_UPGRADES
    spec = snapshot.pool.spec
    block = spec.upgrade if spec else None
    if spec is None or block is None:
        return _without_block(snapshot, members, allowed)
    return _Pass(snapshot, members, spec, block, allowed).result()


def target_of(os: OperatingSystem) -> str:
    """Return what nodes are brought to, such as "2022.4052", or "2022" without a revision."""
    return os.version if os.target_revision is None else f"{os.version}.{os.target_revision}"


def _without_block(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> UpgradeResult:
    """Withdraw permissions where the label itself cannot be removed, since nothing else may be written."""
    is_free = allowed is AllowedActions.ACT
    desired = {
        member.node.uid: only_withdrawn(member.node, None)
        for member in members.ours
        if member.node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
        and not (is_free and not is_held(member.node, now=snapshot.now))
    }
    return UpgradeResult(desired=desired) if desired else NO_UPGRADES


@dataclass(eq=False)
class _Pass:
    """What is found of one pool in one pass."""

    snapshot: Snapshot
    members: Members
    spec: WindowsNodePoolSpec
    block: Upgrade
    allowed: AllowedActions

    def __post_init__(self) -> None:
        """Read what the whole pass needs."""
        self._now = self.snapshot.now
        self._nodes = tuple([member.node for member in self.members.ours])
        self._judge = DueJudge(self.snapshot, self.spec)
        self._evidence = evidence_of(self.snapshot)
        self._overrides = overrides_of(self.block, now=self._now)
        # After a start, until the first list of all pods, labels stay unless something known closes a gate.
        pods = self.snapshot.pods
        self._awaits_pods = pods.survey is None and not pods.problem and not pods.forbidden

    def result(self) -> UpgradeResult:
        """Return what is wanted and found."""
        judge = self._judge.judge
        found = [(node, judge(node)) for node in self._nodes]
        due = [(node, each) for node, each in found if each.due]
        world = World(self.snapshot, self.spec, self.block, layers=self._judge.layers, nodes=self._nodes)
        gates = tuple(self._overrides.on(each.judge(world)) for each in POOL_GATES)
        stops = tuple(
            pool_stops(
                self.spec,
                self.block,
                self.allowed,
                missing_permission=self.snapshot.missing_permission,
            )
        )
        is_open = not stops and all(each.permits for each in gates)
        in_work = frozenset() if is_open or stops else _in_work(world, gates)
        upgrades = {
            node.uid: self._upgrade_of(node, each, world, is_open=is_open or node.uid in in_work)
            for node, each in due
        }
        desired = {node.uid: self._desired(node, each, upgrades.get(node.uid)) for node, each in found}
        unknown = tuple(node.name for node, each in found if each.is_unknown)
        overview = UpgradeOverview(
            target=target_of(self.spec.os),
            gates=gates,
            stops=stops,
            due=tuple(upgrades.values()),
            unknown=unknown,
            up_to_date=len(found) - len(due) - len(unknown),
            in_force=self._overrides.in_force,
            expired=self._overrides.expired,
            control_plane=to_remember(self.snapshot),
        )
        surprises = self.snapshot.upgrades.surprises
        return UpgradeResult(
            desired=desired,
            findings=(
                *surprise_findings(surprises, self._nodes),
                *upgrade_findings(overview, _requests(self._nodes)),
            ),
            awaits_pods=any(each.state is None for each in overview.due),
            needs_all_pods=bool(due) and self._needs_list(node for node, _ in due),
            requeue_at=self._requeue_at(overview),
            overview=overview,
        )

    def _needs_list(self, due: Iterable[Node]) -> bool:
        """Whether the last list of all pods lacks one of these nodes, or will soon be too old."""
        asks_at = self._evidence.asks_at
        return (asks_at is not None and asks_at <= self._now) or not all(map(self._evidence.covers, due))

    @cached_property
    def _fits(self) -> CapacityJudge:
        """Say whether pods fit on other nodes; only made where a node is due and its pods are known."""
        known = {node.name: each for node in self._nodes if (each := self._evidence.of(node))}
        ours = {node.uid for node in self._nodes}
        return CapacityJudge(
            nodes=self._nodes,
            workloads=known,
            build_of=self._judge.build_of,
            others=[node for node in self.snapshot.nodes if node.uid not in ours],
        )

    def _upgrade_of(self, node: Node, found: Found, world: World, *, is_open: bool) -> NodeUpgrade:
        """Return what is known of a node that is due; ``is_open``: the pool permits its upgrade."""
        workload = self._evidence.of(node)
        fit = self._fits.judge(node) if workload else None
        candidate = NodeUpgrade(
            node, found.due, found.judged.judgement.os_version, workload=workload, fit=fit
        )
        gates = tuple([self._overrides.on(each.judge(world, candidate)) for each in NODE_GATES])
        stops = node_stops(node, now=self._now)
        is_clear = is_open and not stops
        if is_clear and self._awaits_pods and workload is None and all(map(_permits_or_awaits, gates)):
            state = None
        else:
            is_permitted = is_clear and all(each.permits for each in gates)
            state = UpgradeState.REQUIRED if is_permitted else UpgradeState.GATED
        return msgspec.structs.replace(candidate, gates=gates, stops=stops, state=state)

    def _desired(self, node: Node, found: Found, due: NodeUpgrade | None) -> Desired:
        """Return what is wanted of the label of a node. To take a permission back never waits."""
        state = due.state if due else state_without_due(node, is_unknown=found.is_unknown)
        if is_held(node, now=self._now) or self.allowed is not AllowedActions.ACT:
            return only_withdrawn(node, state)
        standing = node.labels.get(UPGRADE_STATE_LABEL)
        is_given_again = state is UpgradeState.REQUIRED and standing == UpgradeState.GATED
        if state is None or (is_given_again and node.uid in self.snapshot.attempts.permitted):
            return as_it_is(standing)
        return _IN_STATE[state]

    def _requeue_at(self, overview: UpgradeOverview) -> datetime | None:
        """Return the next moment at which time alone may change what is wanted or found."""
        moments = [
            *(hold_end(node) for node in self._nodes if is_held(node, now=self._now)),
            self._overrides.ends_at,
            *(later(each.at, SURPRISE_SECONDS) for each in self.snapshot.upgrades.surprises),
            *(each.changes_at for each in overview.gates),
        ]
        if overview.due:
            moments.extend(gate.changes_at for each in overview.due for gate in each.gates)
            moments.extend((self._evidence.asks_at, self._evidence.expires_at))
        return min((each for each in moments if each is not None and each > self._now), default=None)


def _in_work(world: World, gates: Iterable[GateFinding]) -> frozenset[str]:
    """Return the UIDs of nodes that keep their permission, although they use up the budget themselves."""
    if any(each.gate is not Gate.BUDGET and not each.permits for each in gates):
        return frozenset()
    able = may_continue(world)
    return frozenset(
        node.uid
        for node in world.nodes
        if node.uid in able and node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
    )


def _permits_or_awaits(gate: GateFinding) -> bool:
    """Whether a gate of a node whose pods are not known yet permits, or only waits for the list of them."""
    return gate.permits or gate.gate is Gate.DISRUPTION_BUDGETS


def _requests(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the texts of the requests on ``nodes``, by their names."""
    return {
        node.name: node.annotations[UPGRADE_REQUESTED_ANNOTATION]
        for node in nodes
        if UPGRADE_REQUESTED_ANNOTATION in node.annotations
    }
